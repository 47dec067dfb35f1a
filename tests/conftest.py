"""What every test shares."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import botocore.session
import pytest

import quick_moto


@pytest.fixture(scope="session", autouse=True)
def service_models() -> Iterator[None]:
    """AWS's service models are read once for all sessions, as one session reads them once for all its clients: most of a client's cost."""
    make, read = botocore.session.create_loader, defaultdict[Any, dict[Any, Any]](dict)

    def loader(search_path: str | None = None) -> Any:
        made = make(search_path)
        made._cache = read[search_path]
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(botocore.session, "create_loader", loader)
        yield


@pytest.fixture(scope="session", autouse=True)
def quick() -> Iterator[None]:
    """The DynamoDB of the tests' own process answers as it always does, and sooner."""
    with quick_moto.patched():
        yield
