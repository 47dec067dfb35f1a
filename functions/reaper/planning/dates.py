"""Which actions are possible, how long one idle period is, whether the last notice counts, and when an action may be carried out: after that notice,
its grace, and outside office hours. Pure.

The window of metrics moves on with every sweep. So an idle period goes on if its proof reaches back to the time when the resource was last
seen idle, whenever the proof begins.

Whatever takes the announced action away uses up its notice, even if no run saw it: the owner believes that nothing is coming. What merely delays
the action, or can't be read, doesn't.

An enrolment notice says that office hours are kept from now on, instead of a mail before every stop. It names the action, the hours, their
time zone and the calendars of their days off. It counts for the owner who got it until one of these changes, the resource is recreated, or its owner snoozes it. Use, stops and
starts don't affect it. Its reminder is the weekly summary.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from hashlib import sha256

from reaper.calendars import office_hours
from reaper.calendars.freezes import add_business_days, add_length
from reaper.calendars.office_hours import Hours
from reaper.case import Case, is_stopped_by_hours, may_act, may_keep_hours, notice_length, wanted_actions
from reaper.duration import format_duration
from reaper.finding import View, with_notice
from reaper.model import AnnouncedAction, Ceiling, Confidence, Resource, Result, State, StepName, Verdict
from reaper.policy.tags import tag_values
from reaper.record import (
    CONFIRM_WITHIN,
    MAX_CLOCK_SKEW,
    STOPPING_FOR,
    VOID_AHEAD,
    Claim,
    Correction,
    Notice,
    Record,
    Snooze,
    dated_ahead_because,
    is_about_hours,
    is_recreated,
    last_notice_at,
    snoozed_because,
    without_void_times,
)

ACTION_STRENGTH: Mapping[str, int] = {StepName.STOP: 1, StepName.DELETE: 2}


def is_in_doubt(case: Case) -> bool:
    """Whether only an unknown price or size may keep its rule from acting, such as that of a stopped notebook: its own tags and the canary don't."""
    says_notify = any(value.strip().lower() == Ceiling.NOTIFY for _, value in tag_values(case.resource.tags, "reaper:action"))
    return case.rule.in_doubt and case.resource.tags is not None and not case.rule.only_notices and not says_notify


def is_forced(view: View) -> bool:
    """Whether its rule stops it even while it is in use: `hours: {force: true}`, and the hours are over.

    Never a protected, unknown or free resource, and never one that can't be stopped now, or started again.
    """
    case, hours = view.case, view.case.rule.hours
    if hours is None or not hours.force or not may_keep_hours(case):
        return False
    if StepName.START not in case.blocked or case.blocked.get(StepName.STOP) or office_hours.is_open(hours, view.now):
        return False
    return case.verdict.state in {State.ACTIVE, State.YOUNG, State.IDLE}


def may_start(view: View) -> bool:
    """Whether its office hours start it now: it is stopped, nothing protects it, and the reaper stopped it, or the rule starts everything
    and it is known to be unchanged since the hours began. What hours stopped is started in doubt, too.
    """
    case, hours, is_ours = view.case, view.case.rule.hours, was_stopped_by_reaper(view)
    may_keep = may_keep_hours(case) or (is_ours and is_about_hours(view.record.notice) and is_in_doubt(case))
    if hours is None or not may_keep or not _is_startable(case) or not office_hours.is_open(hours, view.now):
        return False
    opened, changed = office_hours.opened_today(hours, view.now), case.resource.changed
    return is_ours or (hours.restart == "all" and opened is not None and changed is not None and changed < opened)


def strongest_action(view: View) -> StepName | None:
    """The strongest action that policy, evidence and kind allow: the one a warning announces. None if no action is possible."""
    case = view.case
    if not is_proven_enough(case) and not is_forced(view):
        return None
    return next((action for action in wanted_actions(case) if action in case.blocked and case.blocked[action] is None), None)


def is_proven_enough(case: Case) -> bool:
    """Whether it is idle, and its evidence allows more than notices. `force` treats a likely idle resource as one in use."""
    return may_act(case) and (case.verdict.confidence is Confidence.PROVEN or case.rule.act_on is Confidence.LIKELY)


def is_unconfirmed(view: View) -> bool:
    """Whether an action was requested so recently that its result may not show yet."""
    act = view.record.act
    return act is not None and act.at <= view.now < act.at + CONFIRM_WITHIN


def manual_start_at(view: View) -> datetime | None:
    """When a person started it outside its office hours, if the rule still respects that start."""
    hours, resource, now = view.case.rule.hours, view.case.resource, view.now
    started = max((t for t in (resource.created, resource.changed) if t), default=None)
    closed_at = office_hours.closed_since(hours, now) if hours else None
    if hours is None or closed_at is None or started is None or started < closed_at or now - started >= hours.override:
        return None
    return started


def was_stopped_by_reaper(view: View) -> bool:
    """Whether the reaper was the last to stop it: it was neither changed nor recreated since."""
    act, created, changed = view.record.act, view.case.resource.created, view.case.resource.changed
    if act is None or (created is not None and created > act.at):
        return False
    if act.action is StepName.START and act.result is Result.FAILED:
        return changed is None or changed <= act.at  # the reaper had stopped it before it tried that start
    return act.action is StepName.STOP and (changed is None or changed <= act.at + CONFIRM_WITHIN)


def is_left_stopped(view: View) -> bool:
    """Whether office hours stopped it, and nothing starts it again: it is protected, or they no longer apply to it. Doubt is no proof of that."""
    case, act = view.case, view.record.act
    if case.resource.tags is None or (case.rule.hours is not None and (may_keep_hours(case) or is_in_doubt(case))):
        return False
    is_ours = act is not None and act.action is StepName.STOP and act.result is Result.DONE and act.notified_at is not None
    return is_ours and is_about_hours(view.record.notice) and _is_startable(case) and was_stopped_by_reaper(view)


def with_snooze(view: View) -> View:
    """The view with an exempt verdict if it is idle and a snooze is in effect; otherwise unchanged."""
    case = view.case
    because = snoozed_because(view.snoozes, case.resource.created, view.now)
    if not because or not may_act(case):
        return view
    exempt = Verdict(state=State.EXEMPT, because=because, last_busy=case.verdict.last_busy)
    return replace(view, case=replace(case, verdict=exempt))


def _is_startable(case: Case) -> bool:
    """Whether it is stopped, and the kind can start it."""
    return case.verdict.state is State.EXEMPT and StepName.START in case.blocked and case.blocked[StepName.START] is None


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


FORCED_NOTICE = timedelta(hours=1)
"""How long before `force` stops a resource in use its owner gets one more notice; the grace instead if that is shorter."""
CLOCK_JITTER = timedelta(hours=1)
"""Daily schedules aren't exact to the minute: a reminder comes up to this much early rather than a day late."""


def earliest_action_at(case: Case, notified_at: datetime, action: StepName) -> datetime:
    """The earliest time for an action after a notice at `notified_at`: once its unfrozen grace is over, outside freezes and office hours."""
    rule = case.rule
    grace_end = add_length(notified_at, notice_length(case, action), rule.freezes)
    if rule.business_days:
        grace_end = max(grace_end, add_business_days(notified_at, rule.business_days, rule.freezes))
    return first_allowed_at(case, grace_end)


def first_allowed_at(case: Case, at: datetime) -> datetime:
    """`at`, or the first moment after it that is neither frozen nor within its office hours."""
    hours = case.rule.hours
    while True:
        at = add_length(at, timedelta(), case.rule.freezes)
        closing = office_hours.next_close(hours, at) if hours and office_hours.is_open(hours, at) else None
        if closing is None:
            return at
        at = closing


def valid_notice_at(view: View) -> datetime | None:
    """The time of the warning about the present idle period, from which a grace period counts. None if no warning counts, or if a gap in the
    proof leaves open whether it was about this period. The view is one without void notices (`valid_notice`), here and in the rest.
    """
    warned = view.record.notice.warned_at if view.record.notice else None
    if warned is None or not may_act(view.case):
        return None
    changed_at = own_change_at(view) or warned
    return warned if max(warned, changed_at) >= idle_period_start(view) else None


def action_due_at(view: View) -> datetime | None:
    """When `strongest_action` falls due; None if no notice of this idle period announced it or a stronger one."""
    case, action = view.case, strongest_action(view)
    if action is None:
        return None
    if is_stopped_by_hours(case):
        return _hours_due_at(view)
    warned, notice = valid_notice_at(view), view.record.notice
    if warned is None or notice is None:
        return None
    more = ACTION_STRENGTH.get(notice.action or "", 0) - ACTION_STRENGTH[action]
    has_grown = more > 0 and case.rule.delete_after is not None  # since the notice of its delete
    if more < 0 or has_grown:
        return None
    return max(earliest_action_at(case, warned, action), notice.not_before or warned)


def reminded_at(view: View, action: StepName) -> datetime | None:
    """The date that a reminder names; None without a first notice. An action never comes before it, even if a freeze is lifted since."""
    notice = view.record.notice
    if notice is None or notice.warned_at is None:
        return None
    announced = max(notice.not_before or notice.warned_at, earliest_action_at(view.case, notice.warned_at, action))
    return add_length(max(announced, view.now), timedelta(), view.case.rule.freezes)


def forced_stop_at(view: View) -> datetime | None:
    """When it is stopped although it is in use, if its owner is notified now; None if not today, which needs another notice."""
    rule, enrolled_due = view.case.rule, _enrolled_due_at(view)
    if rule.hours is None or enrolled_due is None or is_proven_enough(view.case):
        return None
    if not is_forced(view) or manual_start_at(view) or rule.waits_because:
        return None
    due = first_allowed_at(view.case, max(enrolled_due, view.now + min(rule.grace, FORCED_NOTICE)))
    return due if office_hours.is_same_day(rule.hours, due, view.now) else None


def hours_digest(hours: Hours) -> str:
    """A digest of what the mail named: the action, the hours, their time zone and the names of their calendars."""
    calendars = [hours, hours.also] if hours.also else [hours]
    parts = [f"{sorted(one.days)}|{one.start}|{one.end}|{one.tz}" for one in calendars]
    named = "|".join([StepName.STOP, *parts, *sorted(hours.calendars)])
    return sha256(named.encode()).hexdigest()[:16]


def enrolled_since(view: View) -> datetime | None:
    """When its present owner was first notified of the present hours; None if no enrolment counts."""
    notice, hours = view.record.notice, view.case.rule.hours
    if notice is None or hours is None or not is_stopped_by_hours(view.case) or view.case.rule.action.rank < Ceiling.STOP.rank:
        return None
    is_enrolled = is_about_hours(notice) and notice.hours == hours_digest(hours)
    return notice.warned_at if is_enrolled else None


def next_summary_at(view: View) -> datetime | None:
    """When the weekly summary is due, or a void enrolment may be replaced; None without an enrolment, or if a wrong clock dated it far ahead."""
    last = last_notice_at(view.record.notice)
    if last is None or last > view.now + view.case.rule.remind_every or not is_about_hours(view.record.notice):
        return None
    return next_reminder_at(view.case, last)


def next_reminder_at(case: Case, last: datetime) -> datetime:
    """When a reminder after a notice at `last` is due: up to `CLOCK_JITTER` early."""
    return last + case.rule.remind_every - min(CLOCK_JITTER, case.rule.remind_every / 10)


def is_summary_due(view: View) -> bool:
    """Whether the weekly summary of a valid enrolment is due and no snooze is in effect."""
    summary_at, until = next_summary_at(view), view.snoozes.own.until
    is_snoozed = until is not None and until > view.now
    return not is_snoozed and summary_at is not None and view.now >= summary_at and enrolled_since(view) is not None


def _hours_due_at(view: View) -> datetime | None:
    """When office hours stop it: after its enrolment's grace, and while it is in use also after a notice of the same day."""
    hours, last, due = view.case.rule.hours, last_notice_at(view.record.notice), _enrolled_due_at(view)
    if hours is None or due is None or last is None:
        return None
    if is_proven_enough(view.case):
        return due
    # A weekly summary in the daytime doesn't say that it is stopped even while in use.
    closed = office_hours.closed_since(hours, view.now)
    was_notified = last == enrolled_since(view) or (closed is not None and last >= closed)
    is_of_today = was_notified and office_hours.is_same_day(hours, last, view.now)
    return max(due, last + min(view.case.rule.grace, FORCED_NOTICE)) if is_of_today else None


def _enrolled_due_at(view: View) -> datetime | None:
    """When its enrolment lets office hours stop it; None if none counts."""
    notice, enrolled_at = view.record.notice, enrolled_since(view)
    if notice is None or enrolled_at is None:
        return None
    return max(earliest_action_at(view.case, enrolled_at, StepName.STOP), notice.not_before or enrolled_at)


DATED_AHEAD = "it is dated ahead of this run's clock"


def without_void_notice(view: View) -> View:
    """The view with its notice only if that counts.

    The time of a void enrolment stays, and decides when the next one may be sent. So does a notice that is merely dated ahead: it shows that a
    clock is wrong. Those who got a notice that is proven wrong are owed a message.
    """
    view = replace(view, record=without_wrong_notice(view))
    because, notice = void_because(view), view.record.notice
    if not because or (because == DATED_AHEAD and dated_ahead_because(view.record, view.now)):
        return view
    is_enrolment = notice is not None and is_about_hours(notice)
    return with_notice(view, replace(notice, hours=VOID_ENROLMENT) if notice and is_enrolment else None)


def void_because(view: View) -> str | None:
    """Why the last notice doesn't count for this case; None if it counts, or if there is none.

    It is void by what came after its last mail, an enrolment by what came after its first. Its rule matters if the run announces actions.
    """
    case, notice = view.case, view.record.notice
    last = last_notice_at(notice)
    sent = notice.warned_at if notice and is_about_hours(notice) else last
    if notice is None or last is None or sent is None:
        return None
    because = _taken_away_because(view, notice, sent)
    if not because and view.announces:
        because = _not_allowed_because(case, notice)
    # A resource with office hours is used every day, and one mail about it is enough for a while.
    by_hours = is_stopped_by_hours(case) and notice.action is None
    if not because and not by_hours and not is_about_hours(notice):
        because = _idle_period_over_because(view, notice, sent)
        if notice.action is not None and any(at and at > sent for at in view.lapsed):
            because = "an idle share that had jumped is usual again"
    return because or (DATED_AHEAD if last > view.now + MAX_CLOCK_SKEW else None)


def _taken_away_because(view: View, notice: Notice, sent: datetime) -> str | None:
    """What voids every notice: its age, another resource or owner, or a protection that began or ended."""
    case, snoozes, now = view.case, view.snoozes, view.now
    rule, last = case.rule, last_notice_at(notice) or sent
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
    if announced is None or case.resource.tags is None or is_in_doubt(case):
        return None
    is_allowed = rule.action.rank >= Ceiling.STOP.rank
    if hours and hours.by_rule:
        is_allowed &= announced is AnnouncedAction.HOURS and notice.hours == hours_digest(hours)
    elif announced is AnnouncedAction.DELETE:
        is_allowed &= hours is None and (rule.action is Ceiling.DELETE or rule.delete_after is not None)
    else:
        is_allowed &= announced is not AnnouncedAction.HOURS
    return None if is_allowed else "its rule or tags don't allow what it announced"


def _idle_period_over_because(view: View, notice: Notice, sent: datetime) -> str | None:
    """What voids a notice of idleness, but no enrolment."""
    if view.case.verdict.state is State.ACTIVE or has_ended(view, sent):
        return "it was used or changed since"
    noticed, present = notice.shape, shape(view.case.resource)
    is_unread = present is None and noticed != NATIVE
    return "its settings were others then" if noticed not in {None, present} and not is_unread else None


def valid_until(case: Case, since: datetime) -> datetime:
    """Until when a notice counts whose date or last mail was `since`: no notice lapses because a freeze moved its date."""
    return add_length(since, max(MIN_VALID_FOR, 2 * case.rule.remind_every), case.rule.freezes)


def has_new_owner(case: Case, notice: Notice, snooze: Snooze) -> bool:
    """Whether the last notice went to an earlier owner, or out before an owner said that it isn't theirs, even if no one is found now."""
    notified, present = (notice.to or "").lower(), (case.owner.address or "").lower()
    by, at = (snooze.disowned_by or "").lower(), snooze.disowned_at
    is_older = bool(notice.warned_at and at and notice.warned_at <= at) and (case.owner.disowned_by is not None or notified == by)
    is_theirs = bool(notified) and notified == by and not present
    return is_older or is_theirs or (bool(notified) and bool(present) and notified != present)
