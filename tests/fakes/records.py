"""Records as tests write them: the fields of a record, of its notice, its action and its snooze side by side."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from reaper.ledger.ledger import Ledger
from reaper.model import StepName, Target
from reaper.pending import unfinished
from reaper.record import Act, Notice, Record, Snoozes

ARN = "arn:aws:sagemaker:us-east-1:123456789012:endpoint/e"
LONG_AGO = datetime.fromisoformat("2026-10-21T10:17:00+00:00")
SNOOZE_FIELDS = {"snoozed_until": "until", "snoozed_at": "at", "snoozed_by": "by", "snooze_reason": "reason"} | {
    name: name for name in ("disowned_by", "disowned_at")
}
ACT_FIELDS = {"acted": "action", "acted_at": "at"} | {
    name: name for name in ("run", "result", "because", "part", "notified_at", "changes", "created", "manifest")
}
NOTICE_FIELDS = {name: name for name in Notice.__dataclass_fields__ if name != "action"} | {"announced": "action"}


def an_act(action: StepName | None = StepName.STOP, at: datetime | None = None, run: str = "run", **fields: Any) -> Act:
    """An action on an endpoint, unless the test says otherwise."""
    subject = {"id": ARN, "kind": "sagemaker-endpoint", "name": "e", "region": "us-east-1"}
    return Act(action=action, at=at or LONG_AGO, run=run, **{**subject, **fields})


def open_targets(ledger: Ledger) -> list[Target]:
    """Every target that may have an unfinished action, as the ledger says."""
    return unfinished.targets_in(ledger.read_row(unfinished.OPEN_TARGETS_ROW))


def a_record(**fields: Any) -> Record:
    """A record. `announced`: what its notice announced; `acted` to `manifest`: its action."""
    return changed(Record(), **fields)


def known(**fields: Any) -> tuple[Record, Snoozes]:
    """A record and the snooze beside it. `snoozed_until` to `disowned_at` are the snooze's."""
    return changed((Record(), Snoozes()), **fields)


def changed(before: Record | tuple[Record, Snoozes], **fields: Any) -> Any:
    """The same with other fields, named as in `known`. Without a time a notice is none, and without an action an act."""
    record, snoozes = before if isinstance(before, tuple) else (before, Snoozes())
    own, about_act, about_notice = (_taken(fields, names) for names in (SNOOZE_FIELDS, ACT_FIELDS, NOTICE_FIELDS))
    if about_act:
        act = replace(record.act or an_act(None), **about_act)
        record = replace(record, act=act if act.action else None)
    if about_notice:
        notice = replace(record.notice or Notice(), **{name: value for name, value in about_notice.items() if value is not None})
        cleared = {name: Notice.__dataclass_fields__[name].default for name, value in about_notice.items() if value is None}
        notice = replace(notice, **cleared)
        record = replace(record, notice=None if notice == Notice() else notice)
    record = replace(record, **fields)
    return (record, replace(snoozes, own=replace(snoozes.own, **own))) if own or isinstance(before, tuple) else record


def _taken(fields: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    return {names[name]: fields.pop(name) for name in list(fields) if name in names}
