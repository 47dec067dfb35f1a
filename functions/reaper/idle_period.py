"""One idle period: when it began, whether the last notice still counts for it, and what the memory has of it. Pure.

The window of metrics moves on with every sweep. So an idle period goes on if its proof reaches back to the time when the resource was last
seen idle, whenever the proof begins.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from reaper.case import Case
from reaper.duration import format_duration
from reaper.model import AnnouncedAction, Memory, Resource, Result, State, StepName, Verdict

HOUR = timedelta(hours=1)
MAX_CLOCK_SKEW = timedelta(minutes=10)
"""A notice dated further ahead than this was written by a wrong clock and doesn't count."""
VOID_AHEAD = timedelta(days=7)
"""A time further ahead than this is void, so that one run with a wrong clock doesn't keep a resource from everything for years."""
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


def seen_idle(case: Case, memory: Memory, now: datetime) -> Memory:
    """The memory of a resource that was just seen idle.

    `last_seen_idle_at` is renewed once half of the proof has passed since: often enough for the proof to reach it, rarely enough to be cheap.
    """
    seen = _last_seen_idle_at(memory, now)
    fresh = seen is not None and now - seen < (now - proven_idle_since(case, now)) / 2
    return replace(
        memory, idle_since=idle_period_start(case, memory, now), last_seen_idle_at=memory.last_seen_idle_at if fresh else now
    )


def since_own_call(case: Case, memory: Memory, now: datetime) -> Case:
    """The case, young instead of idle until `idle_after` has passed since the reaper's last change: that may have made the silence."""
    called_at, idle_after = without_void_times(memory, now).last_call_at, case.rule.idle_after
    if case.verdict.state is not State.IDLE or called_at is None or now - called_at >= idle_after:
        return case
    because = (
        f"the reaper changed it {format_duration(max(now - called_at, timedelta()))} ago, and its idle time counts from then; "
        f"idle_after is {format_duration(idle_after)}"
    )
    return replace(case, verdict=Verdict(state=State.YOUNG, because=because, last_busy=case.verdict.last_busy), wasted_usd=None)


def proven_idle_since(case: Case, now: datetime) -> datetime:
    """The start of the idle time that the verdict proves."""
    return now - (case.verdict.idle_for or case.rule.idle_after)


def idle_period_start(case: Case, memory: Memory, now: datetime) -> datetime:
    """When the present idle period began: the remembered moment if the proof reaches back to when it was last seen idle.

    It moves only if another period began, or if the proof reaches back more than MIN_MOVE further.
    """
    start, seen = proven_idle_since(case, now), _last_seen_idle_at(memory, now)
    if memory.idle_since is None or seen is None or start > seen:
        return start
    begun = max([min(memory.idle_since, start), *idle_period_ends(case, memory)])
    return memory.idle_since if memory.idle_since - MIN_MOVE <= begun <= memory.idle_since else begun


def _last_seen_idle_at(memory: Memory, now: datetime) -> datetime | None:
    """When it was last seen idle; None if a wrong clock says so of a time far ahead, which no proof of today reaches."""
    seen = memory.last_seen_idle_at
    return None if seen and seen - now > VOID_AHEAD else seen


def idle_period_ends(case: Case, memory: Memory) -> list[datetime]:
    """Everything known that ends an idle period: the last use, creation, and the last change unless the reaper's own action made it."""
    changed = None if own_change_at(case, memory) else case.resource.changed
    return [t for t in (case.verdict.last_busy, case.resource.created, changed) if t]


def has_ended(case: Case, memory: Memory, since: datetime, now: datetime) -> bool:
    """Whether an idle period that had begun by `since` is over: by use, a change or a call of the reaper's after that."""
    called_at = without_void_times(memory, now).last_call_at
    return any(end > since for end in [*idle_period_ends(case, memory), *([called_at] if called_at else [])])


def notice_was_about_hours(memory: Memory) -> bool:
    """Whether the last notice was about office hours, which apply whether it is used or idle."""
    return memory.announced_action is AnnouncedAction.HOURS


def without_wrong_notice(case: Case, memory: Memory, now: datetime) -> Memory:
    """The memory without its notice if this look proves use in an hour that the notice called idle. Its addressee is then owed a message.

    What a notice far ahead called idle is void: use until then wouldn't make it wrong.
    """
    if memory.claimed_until and memory.claimed_until - now > VOID_AHEAD:
        return without_claim(memory)
    hour = wrong_hour(case, memory)
    if hour is None:
        return memory
    owed = replace(memory, wrong_hour=hour, wrong_notice_at=memory.claimed_until, wrong_notice_to=memory.claimed_to)
    return without_notice(without_claim(owed))


def wrong_hour(case: Case, memory: Memory) -> datetime | None:
    """The last hour of use that lies wholly within the time that the last notice called idle; None if there is none.

    Use after the notice doesn't make it wrong, and neither does use of an earlier resource with the same ID.
    """
    since, until, first = memory.claimed_since, memory.claimed_until, case.busy_from
    if since is None or until is None or first is None:
        return None
    begin = max(0, -((first - max(since, case.resource.created or since)) // HOUR))
    count = (until - first) // HOUR - begin
    inside = case.busy_hours >> begin & ((1 << max(0, count)) - 1)
    return first + (begin + inside.bit_length() - 1) * HOUR if inside else None


def without_claim(memory: Memory) -> Memory:
    """The memory without what its last notice called idle."""
    return replace(memory, claimed_since=None, claimed_until=None, claimed_to=None)


def shape(resource: Resource) -> str | None:
    """What its owner is notified about, next to which resource it is: its fingerprint, or that its own idle shutdown is to stop it."""
    return resource.fingerprint or (NATIVE if resource.stop_by == NATIVE else None)


def last_notice_at(memory: Memory) -> datetime | None:
    """The time of the last notice of any sort."""
    return max((t for t in (memory.warned_at, memory.reminded_at) if t), default=None)


def dated_ahead_because(memory: Memory, now: datetime) -> str | None:
    """Why nothing is sent or done: the row was written, its owner notified, or an action begun later than `now`. One of the clocks is wrong."""
    times = (memory.written_at, memory.warned_at, memory.reminded_at, memory.last_action_at, memory.last_call_at)
    ahead = max((t - now for t in times if t and t - now <= VOID_AHEAD), default=timedelta(0))
    if ahead <= MAX_CLOCK_SKEW:
        return None
    return f"its ledger record is dated {format_duration(ahead)} ahead of this run's clock, so nothing is sent or done until that is past"


def without_void_times(memory: Memory, now: datetime) -> Memory:
    """The memory without times that are too far ahead to be true. Snoozes stay, and so does an action whose result isn't known."""
    last, acted_at = last_notice_at(memory), memory.last_action_at
    if last and last - now > VOID_AHEAD:
        memory = without_notice(memory)
    if memory.last_call_at and memory.last_call_at - now > VOID_AHEAD:
        memory = replace(memory, last_call_at=None)
    is_closed = memory.last_action_result is not None
    return replace(memory, last_action_at=None) if is_closed and acted_at and acted_at - now > VOID_AHEAD else memory


def without_notice(memory: Memory) -> Memory:
    """The memory as if no notice had been sent."""
    return replace(
        without_reminders(memory),
        warned_at=None,
        reminded_at=None,
        notice_receipt=None,
        notified_owner=None,
        notified_fingerprint=None,
        announced_action=None,
        act_not_before=None,
        enrolment_digest=None,
    )


def without_reminders(memory: Memory) -> Memory:
    """The memory without its series of reminders: the count for an escalation begins at zero."""
    return replace(memory, reminders=None, escalated_at=None, escalated_to=None)


def own_change_at(case: Case, memory: Memory) -> datetime | None:
    """When it last changed, if the reaper's own action did that, and the mail about it is the last notice."""
    acted_at, changed = memory.last_action_at, case.resource.changed
    is_own = acted_at is not None and changed is not None and changed <= acted_at + STOPPING_FOR
    return changed if is_own and notice_followed_action(memory) else None


def notice_followed_action(memory: Memory) -> bool:
    """Whether the last notice is the mail about the reaper's own action: it announced the rest of that, or the delete by `then` after a stop."""
    is_deleted_next = memory.last_action is StepName.STOP and memory.announced_action is AnnouncedAction.DELETE
    announced = memory.last_action_result is Result.DONE and (memory.last_action_part is not None or is_deleted_next)
    return announced and memory.warned_at is not None and memory.warned_at == memory.last_action_told_at
