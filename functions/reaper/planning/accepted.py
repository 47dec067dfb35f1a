"""How a record changes once a channel has accepted a message, and once a verdict is known. Pure: the outbox writes the results to the ledger."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from reaper import idle_period
from reaper.case import Case, is_stopped_by_hours, may_act
from reaper.finding import Step
from reaper.model import AnnouncedAction, State, StepName
from reaper.planning import dates, possible_actions
from reaper.planning.valid_notice import without_void_notice
from reaper.policy import owners
from reaper.record import Claim, Notice, Record, Snooze, Snoozes


def after_notice(case: Case, record: Record, step: Step, receipt: str, now: datetime, *, acting: bool = True) -> Record:
    """The record once a channel has accepted a warning or a reminder, with the action it announced.

    A reminder moves no date, except that a later one that it named, because of a freeze or of a stop in use, stands.
    """
    if step.name is StepName.WARN:
        return _after_warning(case, record, receipt, now, acting)
    if step.name is not StepName.REMIND:
        return record
    notice = record.notice or Notice()
    action = possible_actions.strongest_action(case, now) if acting else None
    is_enrolled = dates.enrolled_since(case, record.notice) is not None
    announced = AnnouncedAction.HOURS if is_enrolled else AnnouncedAction(action) if action else None
    # Summaries of office hours don't count. A write whose reply was lost is repeated, and counts once.
    is_new = not is_enrolled and notice.reminded_at != now
    named = (
        dates.forced_stop_at(case, record.notice, now)
        if is_enrolled
        else action and dates.reminded_at(case, record.notice, now, action)
    )
    reminded = replace(
        notice,
        reminded_at=now,
        reminders=notice.reminders + is_new,
        receipt=receipt,
        to=case.owner.address,
        action=announced,
        shape=notice.shape if is_enrolled else idle_period.shape(case.resource),
        not_before=named if named and named > now else notice.not_before,
    )
    return replace(record, notice=reminded, claim=None if is_enrolled else _claim(case, now))


def _claim(case: Case, now: datetime) -> Claim | None:
    """The time that a notice at `now` calls idle. Late metrics may yet prove it wrong."""
    if case.verdict.state is not State.IDLE:
        return None
    return Claim(since=idle_period.proven_idle_since(case, now), until=now, to=case.owner.address)


def _after_warning(case: Case, record: Record, receipt: str, now: datetime, acting: bool) -> Record:
    action, hours = possible_actions.strongest_action(case, now) if acting else None, case.rule.hours
    enrols = action is not None and hours is not None and is_stopped_by_hours(case)
    warned = Notice(
        warned_at=now,
        receipt=receipt,
        to=case.owner.address,
        shape=idle_period.shape(case.resource),
        action=AnnouncedAction.HOURS if enrols else AnnouncedAction(action) if action else None,
        not_before=dates.earliest_action_at(case, now, action) if action else None,
        hours=dates.hours_digest(hours) if enrols and hours else None,
    )
    warned_record = replace(record, notice=warned, claim=None if enrols else _claim(case, now))
    return _with_state(case, warned_record, warned_record, now)


def after_action_mail(case: Case, record: Record, action: StepName, receipt: str, now: datetime) -> Record:
    """The record once a channel has accepted the mail about an action: it is the notice of what follows, the rest or a delete by `then`."""
    notice = Notice(
        warned_at=now,
        receipt=receipt,
        to=case.owner.address,
        action=AnnouncedAction(action),
        not_before=dates.earliest_action_at(case, now, action),
    )
    return replace(record, notice=notice, act=record.act and replace(record.act, told_at=now))


def after_judging(case: Case, record: Record, snoozes: Snoozes, now: datetime, *, announces: bool = True) -> Record:
    """The record once this verdict is known; equal to `record` if nothing needs to be written. `announces`: see `void_because`.

    A notice that this look shows to be void is removed. Use, change and protection end the idle period. `unknown` and free resources leave it as
    it was. Pass the case as judged, before `with_snooze`, so that an idle period lasts through a snooze. Actions and manifests are never
    touched. Otherwise a row that is dated ahead stays, so that later runs see it.
    """
    stored, record = record, without_void_notice(case, record, snoozes, now, announces=announces)
    if record == stored and idle_period.dated_ahead_because(stored, now):
        return stored
    record = _with_state(case, stored, record, now)
    is_in_use = case.verdict.state is State.ACTIVE or (case.rule.protected_because and not case.rule.in_doubt)
    case, since = idle_period.since_own_call(case, record, now), record.idle_since
    # What is merely too young for its rule is still idle, as far as the record is concerned.
    if is_in_use or (since and case.verdict.state is State.YOUNG and idle_period.has_ended(case, record, since, now)):
        notice = record.notice and replace(record.notice, reminders=0, escalated_at=None, escalated_to=())  # another series
        return replace(record, notice=notice, idle_since=None, seen_idle_at=None)
    return idle_period.seen_idle(case, record, now) if may_act(case) else record


def _with_state(case: Case, noticed: Record, record: Record, now: datetime) -> Record:
    """The record with a state other than idle, for the page of its notice. `noticed`: the same while that may still have been open."""
    state = case.verdict.state
    if state is State.IDLE:
        return replace(record, state=None, state_at=None)
    if noticed.notice is None or state is record.state:
        return record
    used_at = case.verdict.last_busy if state is State.ACTIVE else None
    return replace(record, state=state, state_at=used_at or now)


def snooze_after_judging(case: Case, snooze: Snooze) -> Snooze:
    """What a person said, once this verdict is known: "not mine" ends once a whole look finds another owner."""
    found = case.owner.disowned_by or case.owner.address
    is_whole = case.resource.tags is not None and case.verdict.state is not State.UNKNOWN
    if snooze.disowned_by and is_whole and not owners.is_disowned(case.resource, snooze, found):
        return replace(snooze, disowned_by=None, disowned_at=None)
    return snooze
