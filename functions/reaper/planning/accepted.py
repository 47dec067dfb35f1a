"""How a record changes once a channel has accepted a message, and once a verdict is known. Pure: the outbox writes the results to the ledger."""

from __future__ import annotations

from dataclasses import replace

from reaper.case import Case, is_stopped_by_hours, may_act
from reaper.finding import Step, View
from reaper.model import AnnouncedAction, State, StepName
from reaper.planning import dates
from reaper.planning.dates import without_void_notice
from reaper.policy import owners
from reaper.record import Claim, Notice, Record, Snooze, dated_ahead_because


def after_notice(view: View, step: Step, receipt: str) -> Record:
    """The record once a channel has accepted a warning or a reminder, with the action it announced.

    A reminder moves no date, except that a later one that it named, because of a freeze or of a stop in use, stands.
    """
    case, record, now = view.case, view.record, view.now
    if step.name is StepName.WARN:
        return _after_warning(view, receipt)
    if step.name is not StepName.REMIND:
        return record
    notice = record.notice or Notice()
    action = dates.strongest_action(view) if view.announces else None
    is_enrolled = dates.enrolled_since(view) is not None
    announced = AnnouncedAction.HOURS if is_enrolled else AnnouncedAction(action) if action else None
    # Summaries of office hours don't count. A write whose reply was lost is repeated, and counts once.
    is_new = not is_enrolled and notice.reminded_at != now
    named = dates.forced_stop_at(view) if is_enrolled else action and dates.reminded_at(view, action)
    reminded = replace(
        notice,
        reminded_at=now,
        reminders=notice.reminders + is_new,
        receipt=receipt,
        to=case.owner.address,
        action=announced,
        shape=notice.shape if is_enrolled else dates.shape(case.resource),
        not_before=named if named and named > now else notice.not_before,
    )
    return replace(record, notice=reminded, claim=None if is_enrolled else _claim(view))


def _claim(view: View) -> Claim | None:
    """The time that a notice at that moment calls idle. Late metrics may yet prove it wrong."""
    if view.case.verdict.state is not State.IDLE:
        return None
    return Claim(since=dates.proven_idle_since(view), until=view.now, to=view.case.owner.address)


def _after_warning(view: View, receipt: str) -> Record:
    case, now, hours = view.case, view.now, view.case.rule.hours
    action = dates.strongest_action(view) if view.announces else None
    enrols = action is not None and hours is not None and is_stopped_by_hours(case)
    warned = Notice(
        warned_at=now,
        receipt=receipt,
        to=case.owner.address,
        shape=dates.shape(case.resource),
        action=AnnouncedAction.HOURS if enrols else AnnouncedAction(action) if action else None,
        not_before=dates.earliest_action_at(case, now, action) if action else None,
        hours=dates.hours_digest(hours) if enrols and hours else None,
    )
    record = replace(view.record, notice=warned, claim=None if enrols else _claim(view))
    return _with_state(replace(view, record=record), warned)


def after_action_mail(view: View, action: StepName, receipt: str) -> Record:
    """The record once a channel has accepted the mail about an action: it is the notice of what follows, the rest or a delete by `then`."""
    case, record, now = view.case, view.record, view.now
    notice = Notice(
        warned_at=now,
        receipt=receipt,
        to=case.owner.address,
        action=AnnouncedAction(action),
        not_before=dates.earliest_action_at(case, now, action),
    )
    return replace(record, notice=notice, act=record.act and replace(record.act, notified_at=now))


def after_judging(view: View) -> Record:
    """The record once this verdict is known; equal to that of the view if nothing needs to be written.

    A notice that this look shows to be void is removed. Use, change and protection end the idle period. `unknown` and free resources leave it as
    it was. Its case is the one judged, before `with_snooze`, so that an idle period lasts through a snooze. Actions and manifests are never
    touched. Otherwise a row that is dated ahead stays, so that later runs see it.
    """
    case, stored, valid = view.case, view.record, without_void_notice(view)
    if valid.record == stored and dated_ahead_because(stored, view.now):
        return stored
    record = _with_state(valid, stored.notice)
    view = replace(view, record=record)
    is_in_use = case.verdict.state is State.ACTIVE or (case.rule.protected_because and not case.rule.in_doubt)
    view, since = dates.since_own_call(view), record.idle_since
    # What is merely too young for its rule is still idle, as far as the record is concerned.
    if is_in_use or (since and view.case.verdict.state is State.YOUNG and dates.has_ended(view, since)):
        notice = record.notice and replace(record.notice, reminders=0, escalated_at=None, escalated_to=())  # another series
        return replace(record, notice=notice, idle_since=None, seen_idle_at=None)
    return dates.seen_idle(view) if may_act(view.case) else record


def _with_state(view: View, notice: Notice | None) -> Record:
    """The record with a state other than idle, for the page of its notice: that which may still have been open."""
    record, verdict, state = view.record, view.case.verdict, view.case.verdict.state
    if state is State.IDLE:
        return replace(record, state=None, state_at=None)
    if notice is None or state is record.state:
        return record
    used_at = verdict.last_busy if state is State.ACTIVE else None
    return replace(record, state=state, state_at=used_at or view.now)


def snooze_after_judging(case: Case, snooze: Snooze) -> Snooze:
    """What a person said, once this verdict is known: "not mine" ends once a whole look finds another owner."""
    found = case.owner.disowned_by or case.owner.address
    is_whole = case.resource.tags is not None and case.verdict.state is not State.UNKNOWN
    if snooze.disowned_by and is_whole and not owners.is_disowned(case.resource, snooze, found):
        return replace(snooze, disowned_by=None, disowned_at=None)
    return snooze
