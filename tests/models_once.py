"""AWS's service models are read once for all sessions of a process, as one session reads them once for all its clients."""

from __future__ import annotations

from collections import ChainMap, defaultdict
from typing import Any

import botocore.session

MAKE = botocore.session.create_loader
READ: defaultdict[str | None, dict[Any, Any]] = defaultdict(dict)


class Read(ChainMap[Any, Any]):
    """What one session has read, and what all have."""

    def __setitem__(self, key: Any, value: Any) -> None:
        # A client of S3 changes its model, so that one stays the session's own.
        own = any(str(part).partition("/")[0] == "s3" for part in key)
        self.maps[0 if own else 1][key] = value


def loader(search_path: str | None = None) -> Any:
    """In place of `botocore.session.create_loader`."""
    made = MAKE(search_path)
    made._cache = Read({}, READ[search_path])
    return made


def warm(*services: str) -> None:
    """Read what clients of these services need. No key, no address and no network is looked for."""
    session = botocore.session.Session()
    for service in services:
        session.create_client(service, region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x")
