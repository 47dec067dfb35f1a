"""One idle period: when it began, whether the last notice still counts for it, and what the record has of it. Pure.

The window of metrics moves on with every sweep. So an idle period goes on if its proof reaches back to the time when the resource was last
seen idle, whenever the proof begins.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from reaper.case import Case
from reaper.duration import format_duration
from reaper.finding import View
from reaper.model import AnnouncedAction, Resource, Result, State, StepName, Verdict
from reaper.record import STOPPING_FOR, VOID_AHEAD, Claim, Correction, Record, without_void_times

HOUR = timedelta(hours=1)
MIN_MOVE = timedelta(minutes=1)
"""What a proof must add to an idle period for its start to move. A quicker sweep seems to add a second, and would rewrite every idle row."""
RENEWED_WITHIN = timedelta(days=30)
"""A record is written again at least this often while its resource is idle: the ledger doesn't keep for ever what no sweep writes."""
MIN_VALID_FOR = timedelta(days=14)
"""A notice counts at least this long after its date or its last mail; two reminder intervals if these are longer."""
VOID_ENROLMENT = "-"
"""Replaces the digest of a void enrolment. The time of its last mail stays and decides when the next one may be sent."""
NATIVE = "native"
"""The `stop_by` of an idle shutdown. A notice of it announces no stop."""


def seen_idle(view: View) -> Record:
    """The record of a resource that was just seen idle.

    `seen_idle_at` is renewed once half of the proof has passed since: often enough for the proof to reach it and for
    the ledger to keep the record, rarely enough to be cheap.
    """
    seen, now, record = _seen_idle_at(view), view.now, view.record
    fresh = seen is not None and now - seen < min((now - proven_idle_since(view)) / 2, RENEWED_WITHIN)
    return replace(record, idle_since=idle_period_start(view), seen_idle_at=record.seen_idle_at if fresh else now)


def since_own_call(view: View) -> View:
    """The view with its case young instead of idle until `idle_after` has passed since the reaper's last change: that may have made the silence."""
    case, called_at = view.case, without_void_times(view.record, view.now).called_at
    idle_after = case.rule.idle_after
    if case.verdict.state is not State.IDLE or called_at is None or view.now - called_at >= idle_after:
        return view
    because = (
        f"the reaper changed it {format_duration(max(view.now - called_at, timedelta()))} ago, and its idle time counts from then; "
        f"idle_after is {format_duration(idle_after)}"
    )
    young = Verdict(state=State.YOUNG, because=because, last_busy=case.verdict.last_busy)
    return replace(view, case=replace(case, verdict=young))


def proven_idle_since(view: View) -> datetime:
    """The start of the idle time that the verdict proves."""
    return view.now - (view.case.verdict.idle_for or view.case.rule.idle_after)


def idle_period_start(view: View) -> datetime:
    """When the present idle period began: the remembered moment if the proof reaches back to when it was last seen idle.

    It moves only if another period began, or if the proof reaches back more than MIN_MOVE further.
    """
    start, seen, known = proven_idle_since(view), _seen_idle_at(view), view.record.idle_since
    if known is None or seen is None or start > seen:
        return start
    begun = max([min(known, start), *idle_period_ends(view)])
    return known if known - MIN_MOVE <= begun <= known else begun


def idle_since(view: View) -> datetime:
    """Since when it costs money for nothing: since its idle period began, or since the reaper's last call after that."""
    start, called_at = idle_period_start(view), without_void_times(view.record, view.now).called_at
    return max(start, called_at or start)


def _seen_idle_at(view: View) -> datetime | None:
    """When it was last seen idle; None if a wrong clock says so of a time far ahead, which no proof of today reaches."""
    seen = view.record.seen_idle_at
    return None if seen and seen - view.now > VOID_AHEAD else seen


def idle_period_ends(view: View) -> list[datetime]:
    """Everything known that ends an idle period: the last use, creation, and the last change unless the reaper's own action made it."""
    resource, changed = view.case.resource, None if own_change_at(view) else view.case.resource.changed
    return [t for t in (view.case.verdict.last_busy, resource.created, changed) if t]


def has_ended(view: View, since: datetime) -> bool:
    """Whether an idle period that had begun by `since` is over: by use, a change or a call of the reaper's after that."""
    called_at = without_void_times(view.record, view.now).called_at
    return any(end > since for end in [*idle_period_ends(view), *([called_at] if called_at else [])])


def without_wrong_notice(view: View) -> Record:
    """The record without its notice if this look proves use in an hour that the notice called idle. Its addressee is then owed a message.

    What a notice far ahead called idle is void: use until then wouldn't make it wrong.
    """
    record = view.record
    if record.claim and record.claim.until - view.now > VOID_AHEAD:
        return replace(record, claim=None)
    hour = wrong_hour(view.case, record.claim)
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


def own_change_at(view: View) -> datetime | None:
    """When it last changed, if the reaper's own action did that, and the mail about it is the last notice."""
    act, changed = view.record.act, view.case.resource.changed
    is_own = act is not None and changed is not None and changed <= act.at + STOPPING_FOR
    return changed if is_own and notice_followed_action(view.record) else None


def notice_followed_action(record: Record) -> bool:
    """Whether the last notice is the mail about the reaper's own action: it announced the rest of that, or the delete by `then` after a stop."""
    act, notice = record.act, record.notice
    if act is None or notice is None or act.result is not Result.DONE:
        return False
    is_deleted_next = act.action is StepName.STOP and notice.action is AnnouncedAction.DELETE
    return (act.part is not None or is_deleted_next) and notice.warned_at is not None and notice.warned_at == act.notified_at
