"""One resource under two spellings of its id: what was remembered, signed or stored under the one holds for the other."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from fakes.builders import DAY, NOW, TARGET
from fakes.histories import history_of
from fakes.memory_ledger import InMemoryLedger
from fakes.records import a_record, an_act
from fakes.sample_reports import finding
from fakes.snooze_requests import KEYS, RESOURCE, TOKEN, VISIT, desk
from reaper.acting import restore
from reaper.ledger import sqlite
from reaper.ledger.ledger import Ledger
from reaper.ledger.rows import HistoryEntry, comparable_id
from reaper.model import Result, State, StepName
from reaper.pending import unfinished
from reaper.record import Record
from reaper.snooze.handler import handle_request
from reaper.snooze.pages import Request

STEM = "arn:aws:sagemaker:us-east-1:123456789012:app/d-1/Ana"
OLD, NEW = f"{STEM}/jupyterlab/Default", f"{STEM}/JupyterLab/Default"


@pytest.fixture(params=["memory", "sqlite"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return InMemoryLedger() if request.param == "memory" else Ledger(sqlite.open_store(str(tmp_path / "ledger.db"), {}))


@pytest.mark.parametrize(
    ("id_", "key"),
    [
        pytest.param(NEW, OLD, id="the type of an app"),
        pytest.param(OLD, OLD, id="the type in lower case"),
        pytest.param(f"{STEM}/KernelGateway/a/B", f"{STEM}/kernelgateway/a/B", id="a name with a slash"),
        pytest.param(
            f"{STEM.replace('aws:', 'aws-us-gov:')}/Canvas/X", f"{STEM.replace('aws:', 'aws-us-gov:')}/canvas/X", id="gov"
        ),
        pytest.param(
            "arn:aws:sagemaker:us-east-1:1:endpoint/Churn", "arn:aws:sagemaker:us-east-1:1:endpoint/Churn", id="endpoint"
        ),
        pytest.param(
            "arn:aws:elasticbeanstalk:x:1:app/A/B/C/D", "arn:aws:elasticbeanstalk:x:1:app/A/B/C/D", id="another service"
        ),
        pytest.param("/subscriptions/S/X", "/subscriptions/s/x", id="an ARM id"),
    ],
)
def test_ids_are_compared_and_kept_in_one_form(id_: str, key: str):
    assert comparable_id(id_) == key


def test_what_was_remembered_under_the_old_spelling_is_found(ledger: Ledger):
    assert ledger.write_record(OLD, a_record(warned_at=NOW - DAY, acted=StepName.STOP), 0, NOW)
    assert ledger.record(NEW, NOW).notice.warned_at == NOW - DAY
    assert ledger.write_record(NEW, a_record(warned_at=NOW), 1, NOW)
    assert ledger.record(OLD, NOW).notice.warned_at == NOW
    ledger.add_history(HistoryEntry(id=OLD, when=NOW, what="warned", by="r", because="x"))
    assert [entry.id for entry in history_of(ledger, NEW)] == [OLD]


def test_a_link_that_was_mailed_before_snoozes_the_app(ledger: Ledger):
    ledger.add_visit(replace(VISIT, resources=(replace(RESOURCE, id=OLD),)))
    body = f"t={TOKEN}&r=1&days=3&reason=".encode()
    reply = handle_request(Request(method="POST", path="/keep", query="", body=body), desk(ledger, KEYS, NOW))
    assert reply.status == 200
    snooze_end = ledger.snooze(NEW, NOW).until
    assert snooze_end is not None
    assert snooze_end > NOW + 2 * DAY


def test_an_open_action_under_the_old_spelling_belongs_to_the_listed_app(ledger: Ledger):
    subject = {"id": OLD, "kind": "sagemaker-studio-app", "name": "Ana/JupyterLab/Default", "owner": "ana@example.com"}
    ledger.write_record(OLD, Record(act=an_act(StepName.STOP, NOW - DAY, "r0", **subject)), 0, NOW)
    listed = finding(State.UNKNOWN, 1.0, "ana@example.com", id=NEW, kind="sagemaker-studio-app")
    cases = {comparable_id(NEW): listed.case}
    settled = unfinished.settle_target(TARGET, cases, ledger.recall([NEW], NOW), ledger, "run-9", NOW)
    assert ([each.act.id for each in settled.unreported], [each.act.id for each in settled.closed]) == ([NEW], [NEW])
    assert settled.recalled.record(NEW).act.result is Result.FAILED
    assert ledger.record(OLD, NOW).version == 2


def test_restore_takes_either_spelling(ledger: Ledger):
    ledger.add_history(HistoryEntry(id=OLD, when=NOW, what=restore.RESTORED, by="ana", because="it is starting"))
    bench: Any = _Bench(ledger)
    for spelled in (OLD, NEW):
        assert "already restored" in (restore.restore_resource(spelled, bench).undone or restore.UndoResult(because="")).because


class _Bench:
    """As much of a bench as asking for a resource that is back takes."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def clock(self) -> Any:
        return NOW + timedelta(hours=1)
