"""Ledger, manifests, reports: they are read, and nothing is ever written to them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from fakes.builders import NOW
from fakes.ledger_places import LedgerLocation
from fakes.records import a_record
from reaper import registry
from reaper.doctor import deployment
from reaper.doctor.check import Check, CheckStatus, DoctorContext
from reaper.ledger.ledger import Ledger
from reaper.model import Mode
from reaper.settings import Settings


def context(settings: Settings, environ: dict[str, str] | None = None, *, undo: bool = False) -> DoctorContext:
    return DoctorContext(settings=settings, environ=environ or {}, clock=lambda: NOW, kinds=registry.kinds(), includes_undo=undo)


def statuses(checks: list[Check]) -> list[CheckStatus]:
    return [check.status for check in checks]


def test_every_sort_of_ledger_is_read_and_never_written(ledger_location: LedgerLocation, ledger: Ledger):
    """Only a file shows whether it can be written: moto simulates no policies, and Azurite has none."""
    if ledger_location.address == "memory:":
        pytest.skip("every mode that writes refuses it")
    ledger.write_record("arn:a", a_record(idle_since=NOW), 0, NOW)
    before = list(ledger.store.scan())
    asked = context(Settings(mode=Mode.ENFORCE, ledger=ledger_location.address), dict(ledger_location.environ))
    for _ in range(2):
        checks = list(deployment.examine_ledger(asked))
        is_file = ledger_location.address.startswith("sqlite:")
        assert set(statuses(checks)) == {CheckStatus.OK if is_file else CheckStatus.UNKNOWN}
        assert not is_file or "written and read" in checks[0].because
    assert list(ledger.store.scan()) == before


@pytest.mark.parametrize("mode", [Mode.AUDIT, Mode.NOTIFY])
@pytest.mark.parametrize("folder", ["", "a folder/"], ids=["no file", "no folder"])
def test_a_ledger_that_is_not_there_needs_mending(tmp_path: Path, mode: Mode, folder: str):
    """A sweep would begin an empty one. The line that does so runs as it is pasted."""
    file = tmp_path / f"{folder}ledger.db"
    asked = context(Settings(mode=mode, ledger=f"sqlite://{file}"))
    [check] = deployment.examine_ledger(asked)
    assert (check.status, file.parent.exists(), file.exists()) == (CheckStatus.FIX, not folder, False)
    subprocess.run(str(check.fix), shell=True, check=True)
    [check] = deployment.examine_ledger(asked)
    assert (check.status, file.stat().st_size) == (CheckStatus.OK, 0)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_ledger_that_cannot_be_written_needs_mending(tmp_path: Path):
    file = tmp_path / "ledger.db"
    file.touch(0o400)
    [check] = deployment.examine_ledger(context(Settings(mode=Mode.NOTIFY, ledger=f"sqlite://{file}")))
    assert (check.status, check.fix) == (CheckStatus.FIX, f"Let this user write to {file}.")


def test_an_audit_without_a_ledger_needs_none():
    [check] = deployment.examine_ledger(context(Settings(mode=Mode.AUDIT)))
    assert check.status is CheckStatus.OK


@pytest.mark.parametrize("address", ["memory:", "sqlite:///proc/nowhere/ledger.db", "dynamodb://a b", "ledger.db"])
def test_a_ledger_that_no_mode_above_audit_can_use_needs_mending(address: str):
    [check] = deployment.examine_ledger(context(Settings(mode=Mode.NOTIFY, ledger=address)))
    assert check.status is CheckStatus.FIX
    assert check.fix


def test_a_folder_of_manifests_gets_no_file(tmp_path: Path):
    [check] = deployment.examine_manifests(context(Settings(mode=Mode.ENFORCE, manifests=str(tmp_path / "new" / "manifests"))))
    assert check.status is CheckStatus.OK
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_needs_mending(tmp_path: Path):
    tmp_path.chmod(0o500)
    [check] = deployment.examine_manifests(context(Settings(mode=Mode.ENFORCE, manifests=str(tmp_path))))
    assert check.status is CheckStatus.FIX


def test_a_file_in_place_of_the_folder_needs_mending(tmp_path: Path):
    (tmp_path / "file").write_text("x")
    [check] = deployment.examine_manifests(context(Settings(mode=Mode.ENFORCE, manifests=str(tmp_path / "file"))))
    assert check.status is CheckStatus.FIX


def test_below_enforce_no_manifests_are_needed():
    [check] = deployment.examine_manifests(context(Settings(mode=Mode.ANNOUNCE, manifests="s3://nowhere/x")))
    assert check.status is CheckStatus.OK
