"""pause, resume and forget as a person runs them: processes of their own against the sandbox, on a named ledger only."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from e2e.test_action_commands import Desk
from fakes.records import changed
from reaper.ledger import opening
from reaper.ledger.rows import HistoryEntry
from reaper_sandbox.aws.server import Server


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with Server() as server:
        yield Desk(tmp_path, server)


def test_nothing_is_applied_until_the_switch_is_off_again(desk: Desk):
    desk("plan", "--cloud", "aws", "-o", "plan.json")
    paused = desk("pause")
    assert (paused.returncode, f"Ledger: sqlite://{desk.home}/ledger.db\n" in paused.stdout) == (0, True), paused.stderr
    refused = desk("apply", "plan.json")
    assert (refused.returncode, desk.counts()) == (1, [3, 3, 3]), refused.stdout + refused.stderr
    assert refused.stdout.count("refused: the stop switch is on until `reaper resume`, set by ") == 3
    swept = desk("sweep", "--cloud", "aws", "--mode", "enforce", "--format", "json")
    assert (desk.counts(), json.loads(swept.stdout)["run"]["paused_until"]) == ([3, 3, 3], "9999-12-31T23:59:59Z")
    resumed = desk("resume")
    assert (resumed.returncode, "The stop switch is off." in resumed.stdout) == (0, True), resumed.stderr
    assert (desk("apply", "plan.json").returncode, desk.counts()) == (0, [1, 1, 1])


def test_restore_and_undo_go_on_while_the_switch_is_on(desk: Desk):
    desk("plan", "--cloud", "aws", "-o", "plan.json")
    run_id = desk("apply", "plan.json").stdout.split()[-1]
    desk("pause", "--until", "3d")
    restored = desk("restore", desk.ids[0])
    assert (restored.returncode, desk.counts()) == (0, [3, 1, 1]), restored.stdout + restored.stderr
    undone = desk("undo", "--run", run_id)
    assert (undone.returncode, desk.counts()) == (0, [3, 3, 3]), undone.stdout + undone.stderr


def test_an_audit_of_the_ledger_reports_the_end_of_the_pause(desk: Desk):
    desk("pause", "--until", "2d")
    swept = json.loads(desk("sweep", "--cloud", "aws", "--format", "json").stdout)
    until = datetime.fromisoformat(swept["run"]["paused_until"])
    assert timedelta(hours=47) < until - datetime.now(UTC) <= timedelta(hours=48)
    assert "The stop switch is on until" in desk("sweep", "--cloud", "aws").stdout
    desk("resume")
    assert json.loads(desk("sweep", "--cloud", "aws", "--format", "json").stdout)["run"]["paused_until"] is None


@pytest.mark.parametrize("command", ["pause", "resume"])
@pytest.mark.parametrize("ledger", ["", "memory:"])
def test_the_switch_needs_a_named_ledger(desk: Desk, command: str, ledger: str):
    completed = desk(command, REAPER_LEDGER=ledger)
    assert (completed.returncode, completed.stdout) == (2, "")
    assert "set REAPER_LEDGER to it" in completed.stderr


@pytest.mark.parametrize("arguments", [("pause",), ("resume",), ("forget", "jo@example.com")])
def test_a_file_that_does_not_exist_is_no_deployments_ledger(desk: Desk, arguments: tuple[str, ...]):
    mistyped = desk.home / "state" / "ledgre.db"
    completed = desk(*arguments, REAPER_LEDGER=f"sqlite://{mistyped}")
    assert (completed.returncode, completed.stdout) == (2, "")
    assert f"there is no file {mistyped}, so no sweep uses it; check the path" in completed.stderr
    assert not mistyped.parent.exists()


@pytest.mark.parametrize(
    ("until", "message"),
    [
        pytest.param("9999-12-31T23:59:59-14:00", "date value out of range", id="after the last year"),
        pytest.param("2020-01-01", "that is in the past", id="the past"),
        pytest.param("tomorrow", "expected an ISO date or datetime such as 2026-12-31, or a duration", id="a word"),
        pytest.param("400d", "expected at most 365d", id="too long"),
        pytest.param("", "expected an ISO date", id="empty"),
    ],
)
def test_an_end_that_cannot_be_used_sets_nothing(desk: Desk, until: str, message: str):
    completed = desk("pause", "--until", until)
    assert (completed.returncode, message in completed.stderr) == (2, True), completed.stderr
    assert "Before: the stop switch is off." in desk("resume").stdout


def test_a_date_ends_when_that_day_is_over_everywhere(desk: Desk):
    assert "until 2099-12-02 12:00 UTC" in desk("pause", "--until", "2099-12-01").stdout
    assert "until 2099-12-01 08:30 UTC" in desk("pause", "--until", "2099-12-01T09:30+01:00").stdout


def test_an_address_is_forgotten_and_each_row_is_printed(desk: Desk):
    ledger = opening.open_ledger(f"sqlite://{desk.home}/ledger.db", {})
    record = ledger.record(desk.ids[0], desk.now)
    ledger.write_record(desk.ids[0], changed(record, to="jo@example.com"), record.version, desk.now)
    ledger.add_history(HistoryEntry(id=desk.ids[1], when=desk.now, what="kept", by="jo@example.com", because="a demo"))
    completed = desk("forget", "jo@example.com")
    assert completed.returncode == 0, completed.stderr
    assert completed.stdout.splitlines()[:2] == [f"record {desk.ids[0]}: notice.to", f"history {desk.ids[1]}: by"]
    assert f"2 rows changed in sqlite://{desk.home}/ledger.db." in completed.stdout
    assert ledger.record(desk.ids[0], desk.now).notice.to == "(forgotten)"
    assert "0 rows changed" in desk("forget", "jo@example.com").stdout
    ledger.close()


@pytest.mark.parametrize("address", ["jo", "jo@", "Jo <jo@example.com>", ""])
def test_only_a_plain_address_can_be_forgotten(desk: Desk, address: str):
    completed = desk("forget", address)
    assert (completed.returncode, "expected one plain email address" in completed.stderr) == (2, True)


def test_forgetting_needs_a_named_ledger(desk: Desk):
    completed = desk("forget", "jo@example.com", REAPER_LEDGER="")
    assert (completed.returncode, "set REAPER_LEDGER to it" in completed.stderr) == (2, True)


def test_commands_leave_the_ledger_of_another_deployment_alone(desk: Desk):
    desk("plan", "--cloud", "aws", "-o", "plan.json")
    run_id = desk("apply", "plan.json", REAPER_DEPLOYMENT="one").stdout.split()[-1]
    assert desk.counts() == [1, 1, 1]
    own = "the ledger belongs to the deployment one, and this is two; set REAPER_LEDGER to this deployment's own ledger"
    for arguments in (("restore", desk.ids[0]), ("undo", "--run", run_id), ("pause",), ("release",)):
        refused = desk(*arguments, REAPER_DEPLOYMENT="two")
        assert (refused.returncode, own in " ".join(refused.stderr.split())) == (2, True), arguments
    assert own in " ".join(desk("doctor", "--format", "json", REAPER_DEPLOYMENT="two").stdout.split())
    assert own in desk("sweep", "--cloud", "aws", "--mode", "notify", "--format", "json", REAPER_DEPLOYMENT="two").stdout
    assert (desk.counts(), desk("undo", "--run", run_id).returncode, desk.counts()) == ([1, 1, 1], 0, [3, 3, 3])
