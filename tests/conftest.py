"""What every test shares."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from types import SimpleNamespace

import botocore.endpoint
import botocore.session
import pytest
from azure.core.pipeline.transport import HttpTransport

import models_once
import quick_moto

# Where nothing compiled may be kept, each process that a test starts compiles all that it imports anew: most of what a command takes.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


@pytest.fixture(scope="session", autouse=True)
def service_models() -> Iterator[None]:
    """Reading AWS's service models is most of a client's cost."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(botocore.session, "create_loader", models_once.loader)
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


SLOW = (
    *(
        "test_sam_deploy",
        "test_play",
        "test_report_page",
        "test_bundle",
        "test_enforce",
        "test_ledger",
        "test_acts_cli",
        "test_cli",
    ),
    *("test_demo_story", "test_upgrade", "test_invariants", "test_notices", "test_environment", "test_busy", "test_docs"),
    *("test_random_replies", "test_remembered", "test_odd_rows", "test_story", "test_snooze_page", "test_judge"),
)
"""What takes longest comes first, so that no process is left alone with it at the end (`--no-loadscope-reorder` leaves it there)."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {name: place for place, name in enumerate(SLOW)}
    items.sort(key=lambda item: places.get(item.path.stem, len(SLOW)))
