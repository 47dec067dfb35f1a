"""Whether the last notice still counts: the one list of what voids it, and nothing else does. Pure.

Whatever takes the announced action away uses up its notice, even if no run saw it: the owner believes that nothing is coming. What merely delays
the action, or can't be read, doesn't.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from reaper import idle_period
from reaper.calendars.freezes import add_length
from reaper.case import Case, is_stopped_by_hours
from reaper.model import AnnouncedAction, Ceiling, State
from reaper.planning import dates, possible_actions
from reaper.record import MAX_CLOCK_SKEW, Notice, Record, Snooze, Snoozes, is_about_hours, is_recreated

DATED_AHEAD = "it is dated ahead of this run's clock"
Ends = Sequence[datetime | None]


def without_void_notice(
    case: Case, record: Record, snoozes: Snoozes, now: datetime, *, announces: bool = False, lapsed: Ends = ()
) -> Record:
    """The record with its notice only if that counts. Its arguments are those of `void_because`.

    The time of a void enrolment stays, and decides when the next one may be sent. So does a notice that is merely dated ahead: it shows that a
    clock is wrong. Those who got a notice that is proven wrong are owed a message.
    """
    record = idle_period.without_wrong_notice(case, record, now)
    because = void_because(case, record, snoozes, now, announces=announces, lapsed=lapsed)
    if not because or (because == DATED_AHEAD and idle_period.dated_ahead_because(record, now)):
        return record
    if record.notice and is_about_hours(record.notice):
        return replace(record, notice=replace(record.notice, hours=idle_period.VOID_ENROLMENT))
    return replace(record, notice=None)


def void_because(
    case: Case, record: Record, snoozes: Snoozes, now: datetime, *, announces: bool = False, lapsed: Ends = ()
) -> str | None:
    """Why the last notice doesn't count for this case; None if it counts, or if there is none.

    It is void by what came after its last mail, an enrolment by what came after its first. `announces`: the run announces actions, so that
    its rule matters. `lapsed`: when jumps of the idle share ended in its place.
    """
    notice = record.notice
    last = idle_period.last_notice_at(notice)
    sent = notice.warned_at if notice and is_about_hours(notice) else last
    if notice is None or last is None or sent is None:
        return None
    because = _taken_away_because(case, notice, sent, snoozes, now)
    if not because and announces:
        because = _not_allowed_because(case, notice)
    # A resource with office hours is used every day, and one mail about it is enough for a while.
    by_hours = is_stopped_by_hours(case) and notice.action is None
    if not because and not by_hours and not is_about_hours(notice):
        because = _idle_period_over_because(case, record, sent, now)
        if notice.action is not None and any(at and at > sent for at in lapsed):
            because = "an idle share that had jumped is usual again"
    return because or (DATED_AHEAD if last > now + MAX_CLOCK_SKEW else None)


def _taken_away_because(case: Case, notice: Notice, sent: datetime, snoozes: Snoozes, now: datetime) -> str | None:
    """What voids every notice: its age, another resource or owner, or a protection that began or ended."""
    rule, last = case.rule, idle_period.last_notice_at(notice) or sent
    if case.resource.created and case.resource.created > sent:
        return "it was about an earlier resource with this ID"
    # Without its tags and a whole look, another person may only seem to own it.
    if case.resource.tags is not None and case.verdict.state is not State.UNKNOWN and has_new_owner(case, notice, snoozes.own):
        return "it went to another owner"
    if rule.protected_because and not rule.in_doubt:
        return "it is protected now"
    own = None if is_recreated(snoozes.own, case.resource.created) else snoozes.own.until
    if any(until and sent < until <= now for until in (own, snoozes.host.until, rule.protection_ended_at)):
        return "a protection ended since"
    is_old = notice.action is not None and now > valid_until(case, max(last, notice.not_before or last))
    return "it is too old" if is_old else None


def _not_allowed_because(case: Case, notice: Notice) -> str | None:
    """Whether tag, rule or canary don't allow what it announced, whatever blocks that now. What can't be read proves nothing."""
    rule, hours, announced = case.rule, case.rule.hours, notice.action
    if announced is None or case.resource.tags is None or possible_actions.is_in_doubt(case):
        return None
    is_allowed = rule.action.rank >= Ceiling.STOP.rank
    if hours and hours.by_rule:
        is_allowed &= announced is AnnouncedAction.HOURS and notice.hours == dates.hours_digest(hours)
    elif announced is AnnouncedAction.DELETE:
        is_allowed &= hours is None and (rule.action is Ceiling.DELETE or rule.delete_after is not None)
    else:
        is_allowed &= announced is not AnnouncedAction.HOURS
    return None if is_allowed else "its rule or tags don't allow what it announced"


def _idle_period_over_because(case: Case, record: Record, sent: datetime, now: datetime) -> str | None:
    """What voids a notice of idleness, but no enrolment."""
    if case.verdict.state is State.ACTIVE or idle_period.has_ended(case, record, sent, now):
        return "it was used or changed since"
    told, present = record.notice and record.notice.shape, idle_period.shape(case.resource)
    is_unread = present is None and told != idle_period.NATIVE
    return "its settings were others then" if told not in {None, present} and not is_unread else None


def valid_until(case: Case, since: datetime) -> datetime:
    """Until when a notice counts whose date or last mail was `since`: no notice lapses because a freeze moved its date."""
    return add_length(since, max(idle_period.MIN_VALID_FOR, 2 * case.rule.remind_every), case.rule.freezes)


def has_new_owner(case: Case, notice: Notice, snooze: Snooze) -> bool:
    """Whether the last notice went to an earlier owner, or out before an owner said that it isn't theirs, even if no one is found now."""
    told, present = (notice.to or "").lower(), (case.owner.address or "").lower()
    by, at = (snooze.disowned_by or "").lower(), snooze.disowned_at
    is_older = bool(notice.warned_at and at and notice.warned_at <= at) and (case.owner.disowned_by is not None or told == by)
    is_theirs = bool(told) and told == by and not present
    return is_older or is_theirs or (bool(told) and bool(present) and told != present)
