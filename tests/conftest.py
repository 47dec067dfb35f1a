"""Shared fixtures: SDKs that lose no time, and every kind of ledger in an empty place of its own (`ledger_location`, `ledger`)."""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Iterator
from threading import Lock
from types import SimpleNamespace

import botocore.endpoint
import pytest
from azure.core.pipeline.transport import HttpTransport
from hypothesis import settings

import azurite
import models_once
import quick_moto
import seeds
from fakes import ledger_places
from fakes.ledger_places import LedgerLocation
from reaper.ledger.ledger import Ledger

# Where nothing compiled may be kept, each process that a test starts compiles all that it imports anew: most of what a command takes.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


@pytest.fixture(scope="session", autouse=True)
def quick_clients() -> Iterator[None]:
    """boto3's clients are made as often as ever, and sooner."""
    with pytest.MonkeyPatch.context() as patch:
        models_once.patch_with(patch.setattr)
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
    *("test_bundle", "test_play", "test_days_of_sweeps", "test_report_page", "test_kind_contract", "test_sam_deploy"),
    *("test_invariants", "test_enforce", "test_demo_serve", "test_docs", "test_action_commands", "test_organization_commands"),
    *("test_terminal_widths", "test_sam_answers", "test_port", "test_cli", "test_demo_story", "test_notices", "test_environment"),
    *("test_quiet", "test_uses", "test_two_timers", "test_random_replies", "test_remembered", "test_story", "test_snooze_page"),
    *("test_busy", "test_judge", "test_demo", "test_office_hours", "test_limits", "test_breaker"),
)
"""What takes longest comes first, so that no process is left alone with it at the end (`--no-loadscope-reorder` leaves it there)."""


def pytest_collection_finish() -> None:
    """What is imported by now stays, and need not be looked through for garbage again and again."""
    gc.freeze()
    gc.set_threshold(5_000, 10, 10)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {name: place for place, name in enumerate(SLOW)}
    items.sort(key=lambda item: places.get(item.path.stem, len(SLOW)))
    for tested in {item.obj for item in items if hasattr(item, "obj") and hasattr(item.obj, HAD)}:
        had = getattr(tested, HAD)
        setattr(tested, HAD, settings(had, max_examples=seeds.examples(had.max_examples)))


HAD = "_hypothesis_internal_use_settings"
"""Where hypothesis keeps a property's own settings."""


settings.register_profile("the same each time", derandomize=True, database=None, deadline=None)
settings.load_profile("default" if seeds.FRESH else "the same each time")


@pytest.fixture(scope="session")
def moto_url() -> Iterator[str]:
    """One request at a time: DynamoDB's conditional updates are atomic, moto's are not."""
    with quick_moto.serving(Lock()) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.fixture(scope="session")
def azurite_tables() -> Iterator[str]:
    try:
        with azurite.tables() as connection_string:
            yield connection_string
    except azurite.Missing as why:
        pytest.skip(f"TABLE STORAGE IS NOT TESTED: no Azurite: {why}")


@pytest.fixture(params=["memory", "sqlite", "dynamodb", "table"])
def ledger_location(request, tmp_path) -> Iterator[LedgerLocation]:
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "memory":
            made = LedgerLocation("memory:", {})
        elif request.param == "sqlite":
            made = LedgerLocation(f"sqlite://{tmp_path}/state/ledger.db", {})
        elif request.param == "dynamodb":
            made = ledger_places.dynamodb(request.getfixturevalue("moto_url"), patch)
        else:
            made = ledger_places.table(request.getfixturevalue("azurite_tables"))
        yield made
        made.close()


@pytest.fixture
def ledger(ledger_location: LedgerLocation) -> Ledger:
    return ledger_location.open_ledger()
