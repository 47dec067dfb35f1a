"""Ledger, manifests, reports: markers are written and read, and nothing else in the stores changes."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from fakes.builders import NOW, TARGET
from fakes.ledger_places import LedgerLocation
from fakes.records import a_record
from reaper import registry
from reaper.doctor import stores
from reaper.doctor.check import Check, CheckStatus
from reaper.doctor.context import DoctorContext
from reaper.ledger.ledger import Ledger
from reaper.model import Mode
from reaper.settings import Settings


def context(settings: Settings, environ: dict[str, str] | None = None, *, undo: bool = False) -> DoctorContext:
    return DoctorContext(settings=settings, environ=environ or {}, clock=lambda: NOW, kinds=registry.kinds(), includes_undo=undo)


def statuses(checks: list[Check]) -> list[CheckStatus]:
    return [check.status for check in checks]


def test_every_sort_of_ledger_is_written_and_read(ledger_location: LedgerLocation, ledger: Ledger):
    if ledger_location.address == "memory:":
        pytest.skip("every mode that writes refuses it")
    ledger.write_record("arn:a", a_record(idle_since=NOW), 0, NOW)
    asked = context(Settings(mode=Mode.ENFORCE, ledger=ledger_location.address), dict(ledger_location.environ))
    for _ in range(2):
        [check] = stores.examine_ledger(asked)
        assert (check.status, "written and read" in check.because) == (CheckStatus.OK, True)
    recalled = ledger.recall(["arn:a", "doctor"], NOW)
    assert (recalled.record("arn:a"), "doctor" in recalled) == (a_record(idle_since=NOW, version=1), False)
    assert ledger.read_row("doctor").version == 2
    assert ledger.take_lease(replace(TARGET, cloud="doctor", account="doctor", region=None), "another", NOW, timedelta(minutes=1))


def test_an_audit_only_reads_the_ledger(tmp_path: Path):
    file = tmp_path / "ledger.db"
    asked = context(Settings(mode=Mode.AUDIT, ledger=f"sqlite://{file}"))
    [check] = stores.examine_ledger(asked)
    assert (check.status, file.exists()) == (CheckStatus.OK, False)


def test_an_audit_without_a_ledger_needs_none():
    [check] = stores.examine_ledger(context(Settings(mode=Mode.AUDIT)))
    assert check.status is CheckStatus.OK


@pytest.mark.parametrize("address", ["memory:", "sqlite:///proc/nowhere/ledger.db", "dynamodb://a b", "ledger.db"])
def test_a_ledger_that_no_mode_above_audit_can_use_needs_mending(address: str):
    [check] = stores.examine_ledger(context(Settings(mode=Mode.NOTIFY, ledger=address)))
    assert check.status is CheckStatus.FIX
    assert check.fix


def test_a_folder_of_manifests_gets_no_file(tmp_path: Path):
    [check] = stores.examine_manifests(context(Settings(mode=Mode.ENFORCE, manifests=str(tmp_path / "new" / "manifests"))))
    assert check.status is CheckStatus.OK
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_needs_mending(tmp_path: Path):
    tmp_path.chmod(0o500)
    [check] = stores.examine_manifests(context(Settings(mode=Mode.ENFORCE, manifests=str(tmp_path))))
    assert check.status is CheckStatus.FIX


def test_a_file_in_place_of_the_folder_needs_mending(tmp_path: Path):
    (tmp_path / "file").write_text("x")
    [check] = stores.examine_manifests(context(Settings(mode=Mode.ENFORCE, manifests=str(tmp_path / "file"))))
    assert check.status is CheckStatus.FIX


def test_below_enforce_no_manifests_are_needed():
    [check] = stores.examine_manifests(context(Settings(mode=Mode.ANNOUNCE, manifests="s3://nowhere/x")))
    assert check.status is CheckStatus.OK
