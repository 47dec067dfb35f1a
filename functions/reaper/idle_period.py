"""One idle period: when it began, whether the last notice still counts for it, and what the record has of it. Pure.

The window of metrics moves on with every sweep. So an idle period goes on if its proof reaches back to the time when the resource was last
seen idle, whenever the proof begins.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from reaper.case import Case
from reaper.duration import format_duration
from reaper.model import AnnouncedAction, Resource, Result, State, StepName, Verdict
from reaper.record import MAX_CLOCK_SKEW, Claim, Correction, Notice, Record

HOUR = timedelta(hours=1)
VOID_AHEAD = timedelta(days=7)
"""A time further ahead than this is void, so that one run with a wrong clock doesn't keep a resource from everything for years."""
CONFIRM_WITHIN = timedelta(hours=1)
"""How long a requested action may take to show. After that the resource is planned from scratch."""
STOPPING_FOR = timedelta(minutes=15)
"""A change this soon after the start of an action may still be that action; a later change is not the reaper's."""
MIN_MOVE = timedelta(minutes=1)
"""What a proof must add to an idle period for its start to move. A quicker sweep seems to add a second, and would rewrite every idle row."""
MIN_VALID_FOR = timedelta(days=14)
"""A notice counts at least this long after its date or its last mail; two reminder intervals if these are longer."""
VOID_ENROLMENT = "-"
"""Replaces the digest of a void enrolment. The time of its last mail stays and decides when the next one may be sent."""
NATIVE = "native"
"""The `stop_by` of an idle shutdown. A notice of it announces no stop."""


def seen_idle(case: Case, record: Record, now: datetime) -> Record:
    """The record of a resource that was just seen idle.

    `seen_idle_at` is renewed once half of the proof has passed since: often enough for the proof to reach it, rarely enough to be cheap.
    """
    seen = _seen_idle_at(record, now)
    fresh = seen is not None and now - seen < (now - proven_idle_since(case, now)) / 2
    return replace(record, idle_since=idle_period_start(case, record, now), seen_idle_at=record.seen_idle_at if fresh else now)


def since_own_call(case: Case, record: Record, now: datetime) -> Case:
    """The case, young instead of idle until `idle_after` has passed since the reaper's last change: that may have made the silence."""
    called_at, idle_after = without_void_times(record, now).called_at, case.rule.idle_after
    if case.verdict.state is not State.IDLE or called_at is None or now - called_at >= idle_after:
        return case
    because = (
        f"the reaper changed it {format_duration(max(now - called_at, timedelta()))} ago, and its idle time counts from then; "
        f"idle_after is {format_duration(idle_after)}"
    )
    return replace(case, verdict=Verdict(state=State.YOUNG, because=because, last_busy=case.verdict.last_busy))


def proven_idle_since(case: Case, now: datetime) -> datetime:
    """The start of the idle time that the verdict proves."""
    return now - (case.verdict.idle_for or case.rule.idle_after)


def idle_period_start(case: Case, record: Record, now: datetime) -> datetime:
    """When the present idle period began: the remembered moment if the proof reaches back to when it was last seen idle.

    It moves only if another period began, or if the proof reaches back more than MIN_MOVE further.
    """
    start, seen = proven_idle_since(case, now), _seen_idle_at(record, now)
    if record.idle_since is None or seen is None or start > seen:
        return start
    begun = max([min(record.idle_since, start), *idle_period_ends(case, record)])
    return record.idle_since if record.idle_since - MIN_MOVE <= begun <= record.idle_since else begun


def idle_since(case: Case, record: Record, now: datetime) -> datetime:
    """Since when it costs money for nothing: since its idle period began, or since the reaper's last call after that."""
    start, called_at = idle_period_start(case, record, now), without_void_times(record, now).called_at
    return max(start, called_at or start)


def _seen_idle_at(record: Record, now: datetime) -> datetime | None:
    """When it was last seen idle; None if a wrong clock says so of a time far ahead, which no proof of today reaches."""
    seen = record.seen_idle_at
    return None if seen and seen - now > VOID_AHEAD else seen


def idle_period_ends(case: Case, record: Record) -> list[datetime]:
    """Everything known that ends an idle period: the last use, creation, and the last change unless the reaper's own action made it."""
    changed = None if own_change_at(case, record) else case.resource.changed
    return [t for t in (case.verdict.last_busy, case.resource.created, changed) if t]


def has_ended(case: Case, record: Record, since: datetime, now: datetime) -> bool:
    """Whether an idle period that had begun by `since` is over: by use, a change or a call of the reaper's after that."""
    called_at = without_void_times(record, now).called_at
    return any(end > since for end in [*idle_period_ends(case, record), *([called_at] if called_at else [])])


def without_wrong_notice(case: Case, record: Record, now: datetime) -> Record:
    """The record without its notice if this look proves use in an hour that the notice called idle. Its addressee is then owed a message.

    What a notice far ahead called idle is void: use until then wouldn't make it wrong.
    """
    if record.claim and record.claim.until - now > VOID_AHEAD:
        return replace(record, claim=None)
    hour = wrong_hour(case, record.claim)
    if hour is None or record.claim is None:
        return record
    owed = Correction(hour=hour, at=record.claim.until, to=record.claim.to)
    return replace(record, correction=owed, claim=None, notice=None)


def wrong_hour(case: Case, claim: Claim | None) -> datetime | None:
    """The last hour of use that lies wholly within the time that the last notice called idle; None if there is none.

    Use after the notice doesn't make it wrong, and neither does use of an earlier resource with the same ID.
    """
    first = case.busy_from
    if claim is None or first is None:
        return None
    begin = max(0, -((first - max(claim.since, case.resource.created or claim.since)) // HOUR))
    count = (claim.until - first) // HOUR - begin
    inside = case.busy_hours >> begin & ((1 << max(0, count)) - 1)
    return first + (begin + inside.bit_length() - 1) * HOUR if inside else None


def shape(resource: Resource) -> str | None:
    """What its owner is notified about, next to which resource it is: its fingerprint, or that its own idle shutdown is to stop it."""
    return resource.fingerprint or (NATIVE if resource.stop_by == NATIVE else None)


def last_notice_at(notice: Notice | None) -> datetime | None:
    """The time of the last notice of any sort."""
    return max((t for t in (notice.warned_at, notice.reminded_at) if t), default=None) if notice else None


def dated_ahead_because(record: Record, now: datetime) -> str | None:
    """Why nothing is sent or done: the row was written, its owner notified, or an action begun later than `now`. One of the clocks is wrong."""
    notice, act = record.notice or Notice(), record.act
    times = (record.written_at, notice.warned_at, notice.reminded_at, act and act.at, record.called_at)
    ahead = max((t - now for t in times if t and t - now <= VOID_AHEAD), default=timedelta(0))
    if ahead <= MAX_CLOCK_SKEW:
        return None
    return f"its ledger record is dated {format_duration(ahead)} ahead of this run's clock, so nothing is sent or done until that is past"


def without_void_times(record: Record, now: datetime) -> Record:
    """The record without times that are too far ahead to be true. An action whose result isn't known stays."""
    last, act = last_notice_at(record.notice), record.act
    if last and last - now > VOID_AHEAD:
        record = replace(record, notice=None)
    if record.called_at and record.called_at - now > VOID_AHEAD:
        record = replace(record, called_at=None)
    return replace(record, act=None) if act and act.result is not None and act.at - now > VOID_AHEAD else record


def own_change_at(case: Case, record: Record) -> datetime | None:
    """When it last changed, if the reaper's own action did that, and the mail about it is the last notice."""
    act, changed = record.act, case.resource.changed
    is_own = act is not None and changed is not None and changed <= act.at + STOPPING_FOR
    return changed if is_own and notice_followed_action(record) else None


def notice_followed_action(record: Record) -> bool:
    """Whether the last notice is the mail about the reaper's own action: it announced the rest of that, or the delete by `then` after a stop."""
    act, notice = record.act, record.notice
    if act is None or notice is None or act.result is not Result.DONE:
        return False
    is_deleted_next = act.action is StepName.STOP and notice.action is AnnouncedAction.DELETE
    return (act.part is not None or is_deleted_next) and notice.warned_at is not None and notice.warned_at == act.told_at
