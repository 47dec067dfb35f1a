"""What every test shares."""

from __future__ import annotations

import os
import sys
import time
from collections import ChainMap, defaultdict
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import botocore.endpoint
import botocore.session
import pytest
from azure.core.pipeline.transport import HttpTransport

import quick_moto

# Where nothing compiled may be kept, each process that a test starts compiles all that it imports anew: most of what a command takes.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


class Read(ChainMap[Any, Any]):
    """What one session has read, and what all have."""

    def __setitem__(self, key: Any, value: Any) -> None:
        # A client of S3 changes its model, so that one stays the session's own.
        own = any(str(part).partition("/")[0] == "s3" for part in key)
        self.maps[0 if own else 1][key] = value


@pytest.fixture(scope="session", autouse=True)
def service_models() -> Iterator[None]:
    """AWS's service models are read once for all sessions, as one session reads them once for all its clients: most of a client's cost."""
    make, read = botocore.session.create_loader, defaultdict[Any, dict[Any, Any]](dict)

    def loader(search_path: str | None = None) -> Any:
        made = make(search_path)
        made._cache = Read({}, read[search_path])
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(botocore.session, "create_loader", loader)
        yield


@pytest.fixture(scope="session", autouse=True)
def quick() -> Iterator[None]:
    """The DynamoDB of the tests' own process answers as it always does, and sooner."""
    with quick_moto.patched():
        yield


@pytest.fixture(scope="session", autouse=True)
def hurry() -> Iterator[None]:
    """Both SDKs try again as often as ever, but wait a fiftieth of the time before: what they wait for is on loopback."""

    def wait(seconds: float) -> None:
        time.sleep(seconds / 50)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(botocore.endpoint, "time", SimpleNamespace(sleep=wait))
        patch.setattr(HttpTransport, "sleep", lambda transport, seconds: wait(seconds))
        yield
