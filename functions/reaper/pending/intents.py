"""The intent of one action in the ledger: what is written there before its first call, and the result.

A crash at any point leaves an intent without a result, and its target among the open ones (`pending.unfinished`); the next run closes it. A
workflow may repeat a task that died right after its call, or start it twice, so the look begins with the run's own intent: what the own call has
changed would look as if a person had changed it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime

from reaper.case import Case
from reaper.finding import PLANNED, Outcome
from reaper.ledger.ledger import Ledger, update_record
from reaper.ledger.rows import Recalled, host_ids, remembered_ids
from reaper.model import Resource, Result, StepName
from reaper.record import Act, Record, Snoozes, after_action, is_unfinished

NOT_KNOWN = "it isn't known whether the action was carried out"


def ids_with_hosts(cases: Iterable[Case]) -> list[str]:
    """The IDs of the cases and of their hosts, each once."""
    return list(dict.fromkeys(resource_id for case in cases for resource_id in remembered_ids(case.resource)))


def open_on_host_because(resource: Resource, recalled: Recalled) -> str | None:
    """Why it must wait: an action of any run on its host is open."""
    is_open = any(is_unfinished(recalled.record(host_id)) for host_id in host_ids(resource))
    return "an action on its host isn't settled yet" if is_open else None


def changed_because(resource: Resource, recalled: Recalled, version: int, snoozes: Snoozes, now: datetime) -> str | None:
    """Why the ledger isn't as the look found it, but for the run's own intent, which made it that `version`; None if it is."""
    present = recalled.snoozes(resource)
    if recalled.record(resource.id).version != version or present.own != snoozes.own:
        return "its ledger record changed a moment ago, and it may be snoozed"
    if present.host.until and present.host.until > now:
        by = f" by {present.host.by}" if present.host.by else ""
        return f"its host was snoozed{by} a moment ago"
    return None if present.protections == snoozes.protections else "what is known of its host changed a moment ago"


def update_intent(
    ledger: Ledger, act: Act, change: Callable[[Record], Record], now: datetime, known: Record | None = None
) -> Record:
    """Change the record, whatever its version is, as long as it still has that intent. Returns the record. Raises CloudError."""
    return update_record(ledger, act.id, lambda record: change(record) if is_same_intent(record, act) else record, now, known)


def take_back_intent(ledger: Ledger, act: Act, before: Record, now: datetime, *, gone: bool) -> None:
    """Remove an intent for which no call was made, and its notice too if the resource is `gone`. Raises CloudError.

    `before`: the record before the intent. A workflow may have started this step twice. The other one's intent is the same but for its time; it
    stays, because its call may have been made.
    """

    def without_intent(record: Record) -> Record:
        if record.act is None or record.act.at != act.at:
            return record
        taken_back = replace(record, act=before.act, called_at=before.called_at)
        return after_action(taken_back) if gone else taken_back

    update_intent(ledger, act, without_intent, now)


def is_same_intent(record: Record, act: Act) -> bool:
    """Whether the record has that very intent."""
    return record.act is not None and (record.act.run, record.act.action) == (act.run, act.action)


def own_outcome(record: Record, run_id: str, action: StepName) -> Outcome | None:
    """The outcome that the run's own intent shows; None if the record has no such intent."""
    act = record.act
    return outcome_in(act) if act and (act.run, act.action) == (run_id, action) else None


def outcome_in(act: Act) -> Outcome:
    """The outcome of an action. Without a result it isn't known."""
    if act.result in {None, Result.FAILED}:
        return Outcome(result=Result.FAILED, error=act.because or NOT_KNOWN, begun=True)
    return Outcome(result=act.result or Result.FAILED, because=act.because, begun=True, part_done=act.part)


def earlier_attempt(record: Record, run_id: str, action: StepName) -> Outcome | None:
    """The outcome of an earlier attempt of this run at the action, which makes no further call; None if there was none.

    While an attempt has no result, its outcome is only planned: another process may still be at it, and conclude looks again.
    """
    outcome = own_outcome(record, run_id, action)
    return PLANNED if outcome and record.act and record.act.result is None else outcome
