"""Where one resource stands now: its evidence, its record and its snoozes as one finding, with what the policy would do now and what comes next. Pure.
`decide` and the re-check ask here, and `act` carries the plan out.

One idle period, one warning, then a reminder every `remind_every`, however often a sweep runs. An action is due once the time that a warning of
the same idle period promised has passed. Actions of a rule's office hours rest on an enrolment notice instead.

A date assumes that a notice is accepted as soon as notices are sent and that the resource stays silent. It holds whatever the run mode is, so that an audit shows what
enforcement would do.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from reaper import registry
from reaper.calendars import office_hours
from reaper.case import (
    Blocked,
    Case,
    ago_text,
    frozen_because,
    grace_words,
    is_stopped_by_hours,
    may_act,
    may_be_followed,
    may_keep_hours,
    notice_length,
    plain_participle,
    wanted_actions,
)
from reaper.duration import format_duration
from reaper.finding import Announcement, Finding, Step, View, wasted_usd
from reaper.model import ACTIONS, ENDING_ACTIONS, Confidence, NextAction, State, StepName
from reaper.planning import dates
from reaper.planning.dates import (
    action_due_at,
    enrolled_since,
    forced_stop_at,
    is_forced,
    is_proven_enough,
    is_unconfirmed,
    manual_start_at,
    may_start,
    next_reminder_at,
    next_summary_at,
    strongest_action,
    valid_notice_at,
    was_stopped_by_reaper,
    without_void_notice,
)
from reaper.record import (
    Record,
    dated_ahead_because,
    is_about_hours,
    is_snoozed,
    last_notice_at,
    snooze_sentence,
    without_void_times,
)
from reaper.text import DOLLARS, Currency, format_usd


def stand(view: View) -> Finding:
    """The finding before limits."""
    judged, view = view.case.verdict, dates.with_snooze(dates.since_own_call(without_void_notice(view)))
    case, record = view.case, view.record
    since = dates.idle_since(view) if case.verdict.state is State.IDLE else None
    idle_for = view.now - since if since else None
    return Finding(
        case=case,
        judged=None if case.verdict == judged else judged,
        step=plan_step(view),
        idle_since=since,
        idle_for=idle_for,
        wasted_usd=wasted_usd(case, idle_for),
        notice=record.notice,
        due_at=dates.action_due_at(view),
        record_version=record.version,
        snoozes=view.snoozes.protections,
        is_blocked=view.interrupted is not None,
        needs_summary=dates.is_summary_due(view),
    )


def with_announcement(finding: Finding, now: datetime) -> Finding:
    """The finding with what a message of `now` about it announces, and with what follows its action."""
    case, step = finding.case, finding.step.name
    if step in ACTIONS and not finding.needs_summary:
        return with_follow_ups(finding, now)
    view = View(case=case, now=now, record=Record(notice=finding.notice))
    action, is_enrolled = dates.strongest_action(view), dates.enrolled_since(view) is not None
    about_hours = (
        action is not None if step is StepName.WARN else is_enrolled and (step is StepName.REMIND or finding.needs_summary)
    )
    if is_stopped_by_hours(case) and about_hours:
        begins = dates.earliest_action_at(case, now, StepName.STOP)
        forced_at = None if step is StepName.WARN else dates.forced_stop_at(view)
        said = Announcement(action=StepName.STOP, at=begins, by_hours=True, forced_at=forced_at)
        return with_follow_ups(replace(finding, announced=said), now)
    if action is None:
        return finding
    reminded = None if step is StepName.WARN else dates.reminded_at(view, action)
    at = reminded or dates.earliest_action_at(case, now, action)
    then_at = _delete_at(case, max(at, now)) if action is StepName.STOP else None
    return replace(finding, announced=Announcement(action=action, at=at, then_at=then_at))


def with_follow_ups(finding: Finding, now: datetime) -> Finding:
    """The finding of an action with what follows it from `now` on, if its rule and protections allow that."""
    case, step = finding.case, finding.step.name
    if step not in ACTIONS or not may_keep_hours(case):
        return finding
    rest_at = dates.earliest_action_at(case, now, step)
    return replace(finding, rest_at=rest_at, delete_at=_delete_at(case, now) if step is StepName.STOP else None)


def _delete_at(case: Case, stopped_at: datetime) -> datetime | None:
    """When `then` deletes what a stop leaves, at the earliest; None if it doesn't."""
    if not may_be_followed(case) or case.blocked[StepName.DELETE]:
        return None
    return dates.earliest_action_at(case, stopped_at, StepName.DELETE)


def next_action(
    view: View, blocked: Step | None = None, currency: Currency = DOLLARS, notice_at: datetime | None = None
) -> NextAction | None:
    """What the policy leads to; None unless it is idle under a policy that allows a stop or delete.

    `blocked`: the step that replaces whatever is due: a hold, which leaves the date as it is, or that of a resource that couldn't be decided.
    `currency`: that of amounts in sentences. `notice_at`: when a notice that is still missing would be sent, if not now.
    """
    case, now, wanted = view.case, view.now, wanted_actions(view.case)
    if not wanted or not may_act(case):
        return None
    action = strongest_action(view)
    if action is None:
        wished = next((name for name in wanted if name in case.blocked), wanted[0])
        return _next(case, wished, None, _blocked_because(case, wished, currency))
    due = dates.action_due_at(view)
    if blocked:
        held_since = max(due, now) if due and blocked.name is StepName.HOLD else None
        return _next(case, action, held_since, blocked.because)
    waits = because_of(view, "dated ahead", "requested")
    if waits := waits or (frozen_because(case.rule, now) if case.rule.waits_because else None):
        return _next(case, action, None, waits)
    if due is None:
        length = notice_length(case, action)
        words = grace_words(case.rule) if length == case.rule.grace else format_duration(length)
        because = "; ".join(filter(None, (f"notice first, grace {words}", frozen_because(case.rule, now))))
        return _next(case, action, dates.earliest_action_at(case, notice_at or now, action), because)
    # Not in a freeze, not within office hours, nor while a start outside them is respected.
    started, at = manual_start_at(view), max(due, now)
    at = max(at, started + case.rule.hours.override) if started and case.rule.hours else at
    return _next(case, action, dates.first_allowed_at(case, at), frozen_because(case.rule, now))


def possible_action(case: Case, now: datetime) -> NextAction | None:
    """The best that its kind could do about an idle resource, whatever the policy; None if its kind only notifies. `now`: when a notice could be sent.

    An action that is possible comes before one of which the sweep didn't read enough, and that before one that is blocked; then what saves most;
    then a stop.
    """

    def rank(option: tuple[StepName, Blocked | None]) -> tuple[bool, bool, float, bool]:
        name, blocked = option
        saves = case.saves_usd_per_hour.get(name, 0.0)
        return blocked is None, blocked is not None and blocked.not_read, saves, name is StepName.STOP

    options = [(name, blocked) for name, blocked in case.blocked.items() if name in ENDING_ACTIONS]
    if not options or case.verdict.state is not State.IDLE:
        return None
    name, blocked = max(options, key=rank)
    return _next(case, name, None if blocked else dates.earliest_action_at(case, now, name), blocked.because if blocked else None)


def _next(case: Case, action: StepName, at: datetime | None, because: str | None) -> NextAction:
    return NextAction(step=action, at=at, saves_usd_per_hour=case.saves_usd_per_hour.get(action), blocked_because=because)


def _blocked_because(case: Case, action: StepName, currency: Currency) -> str:
    """Why nothing that the policy allows is possible, and what would be."""
    if not is_proven_enough(case):
        kind = registry.find_kind(case.resource.kind)
        if case.verdict.confidence is Confidence.LIKELY and kind and kind.needs_setup:
            return f"the evidence is indirect; needs {kind.needs_setup} for proof"
        return "the evidence is indirect, and its rule doesn't set act_on: likely"
    blocked = case.blocked.get(action)
    if blocked is None:
        return "the reaper can't stop or delete resources of its kind"
    if action is not StepName.STOP or StepName.DELETE not in case.blocked or case.blocked[StepName.DELETE] is not None:
        return blocked.because
    saves = case.saves_usd_per_hour.get(StepName.DELETE)
    return f"{blocked.because}; delete {f'would save {format_usd(saves, currency=currency)} an hour' if saves else 'is possible'}"


REASONS = (
    *(KEEPS_ALL := ("interrupted", "dated ahead", "protected", "snoozed", "announced", "requested")),
    *("started by a person", "office hours", "frozen"),
)
"""The names of what keeps a step from one resource, in this order. A step, `explain` and the action that may come show the first one that applies.
Those of KEEPS_ALL keep notices from it, too; a start is kept by a wrong clock alone. The reasons that `decide` finds in all findings together
come after these: a jump, a hold, a notice below the floor or outside the hours for notices, and a plan file that doesn't ask for it.
"""


def because_of(view: View, *names: str) -> str | None:
    """The sentence of the first reason that applies, of those with these names."""
    return next(filter(None, (_reason(name, view) for name in REASONS if name in names)), None)


def _reason(name: str, view: View) -> str | None:
    """The sentence of one reason, if it applies."""
    case, rule, now, own = view.case, view.case.rule, view.now, view.snoozes.own
    match name:
        case "interrupted":
            return view.interrupted
        case "dated ahead":
            return dated_ahead_because(view.record, now)
        case "protected":
            may_follow = may_act(case) or (view.announces and (is_forced(view) or _is_enrolled(view)))
            return None if may_follow else _nothing_to_do_because(view)
        case "snoozed":
            return snooze_sentence(own) if is_snoozed(own, case.resource.created, now) else None
        case "announced" if not view.announces and has_announced_action(view):
            return "the owner already has a notice that announces an action, and this run announces none"
        case "requested" if view.announces and is_unconfirmed(view):
            act = view.record.act
            return f"{act.action if act else StepName.STOP} requested; the next sweep checks the result"
        case "started by a person" if rule.hours and (started := manual_start_at(view)):
            ago, kept_for = ago_text(started, now), format_duration(rule.hours.override)
            return f"it was started outside its office hours {ago}, and such a start keeps it running for {kept_for}"
        case "office hours" if rule.hours and office_hours.is_open(rule.hours, now):
            return "it is within its office hours, so it keeps running"
        case "frozen":
            return frozen_because(rule, now)
    return None


def _nothing_to_do_because(view: View) -> str:
    """Why there is no step: it is as the reaper left it, or its state needs none."""
    case, act = view.case, view.record.act
    blocked = case.blocked.get(act.action) if act else None
    if act and blocked and blocked.already_done:
        return f"it is unchanged since the reaper's action on {act.at.astimezone(UTC):%Y-%m-%d %H:%M} UTC: {blocked.because}"
    return f"nothing to do: it is {case.verdict.state}"


def plan_step(view: View) -> Step:
    """The step of one case. An empty record: it was never warned about.

    If the run announces nothing, owners get notices and no action is planned. Actions that another run has announced are left to runs that do. The reason names what keeps an idle resource from every action: `enforce_only`, or a place where nothing may be changed.
    """
    case, step, blocked = view.case, _planned_step(view), view.case.resource.target.blocked_because
    if case.verdict.state is not State.IDLE or view.interrupted:
        return step
    canary = case.rule.notes[-1] if case.rule.only_notices and case.rule.notes else ""
    if canary not in step.because:
        step = replace(step, because=f"{step.because}; {canary}")
    return replace(step, because=f"{step.because}; it isn't stopped or deleted: {blocked}") if blocked else step


def _planned_step(view: View) -> Step:
    if ahead := because_of(view, "dated ahead"):  # of the whole record: its void times don't make the others right
        return _no_step(because_of(view, "interrupted") or ahead)
    view = without_void_notice(replace(view, record=without_void_times(view.record, view.now)))
    case, act = view.case, view.record.act
    if view.announces and may_start(view):
        if act and act.action is StepName.START and (requested := because_of(view, "requested")):
            return _no_step(requested)
        by_rule = f"{case.rule.name} starts everything that has office hours"
        why = "the reaper had stopped it" if was_stopped_by_reaper(view) else by_rule
        return Step(name=StepName.START, because=f"its office hours have begun, and {why}")
    if because := because_of(view, *KEEPS_ALL):
        return _no_step(because)
    if view.announces and follows_hours(view):
        return _hours_step(view)
    step = _due_step(view) if view.announces else None
    if step and step.because != frozen_because(case.rule, view.now):
        return step
    notice = _notice_step(view)
    return notice if step is None or notice.name is not StepName.NONE else step


def _is_enrolled(view: View) -> bool:
    """Whether its office hours may be kept, and its owner has a valid enrolment notice."""
    return may_keep_hours(view.case) and enrolled_since(view) is not None


def has_announced_action(view: View) -> bool:
    """Whether a notice that still counts announced an action."""
    notice, notified_at = view.record.notice, valid_notice_at(view) or enrolled_since(view)
    return notice is not None and notified_at is not None and notice.action is not None and notice.hours != dates.VOID_ENROLMENT


def follows_hours(view: View) -> bool:
    """Whether its office hours, and not idleness alone, decide about it."""
    can_enrol = is_stopped_by_hours(view.case) and strongest_action(view) is not None
    return can_enrol or _is_enrolled(view)


def _hours_step(view: View) -> Step:
    """The step of a rule's office hours: first an enrolment notice, then a stop after each day, and a summary every week."""
    case, now, summary_at = view.case, view.now, next_summary_at(view)
    if enrolled_since(view) is None:
        if summary_at and now < summary_at:  # the last notice was too recent to replace it
            wait = format_duration(summary_at - now)
            void = "the notice about its office hours is no longer valid"
            return _no_step(f"{void}, and nothing is stopped before the next one in {wait}")
        return Step(name=StepName.WARN, because=f"{case.rule.name} sets office hours, and the owner has not been notified")
    step = _due_step(view)
    if step and step.name is not StepName.NONE:
        return step
    last = ago_text(last_notice_at(view.record.notice) or now, now)
    kept = f"office hours apply to it, and the owner was last notified {last}"
    if summary_at and now >= summary_at and case.verdict.state is not State.UNKNOWN:
        return Step(name=StepName.REMIND, because=kept)
    no_step = step or _no_step(kept if may_act(case) else _nothing_to_do_because(view))
    if strongest_action(view) is None or action_due_at(view) is not None:
        return no_step
    if because := because_of(view, "started by a person"):
        return _no_step(because)
    forced = f"its office hours are over, and {case.rule.name} stops it even while it is in use"
    return no_step if forced_stop_at(view) is None else Step(name=StepName.REMIND, because=forced)


def _due_step(view: View) -> Step | None:
    """The action that is due, or why it waits for office hours or a freeze; None if a notice has to come first or the time hasn't come."""
    case, now, notice = view.case, view.now, view.record.notice
    action, due = strongest_action(view), action_due_at(view)
    if action is None or due is None:
        return None
    if because := because_of(view, "started by a person", "office hours"):
        return _no_step(because)
    if due > now:
        return None
    if because := because_of(view, "frozen"):
        return _no_step(because)
    ago = ago_text((notice and notice.warned_at) or now, now)
    if is_stopped_by_hours(case):
        because = f"its office hours are over, and the owner was notified {ago} that they apply"
    else:
        because = (
            f"{case.verdict.because}; the owner was notified {ago} that it would be {plain_participle(case.resource, action)}"
        )
    return Step(name=action, because=because)


def _notice_step(view: View) -> Step:
    """The warning or reminder that is due, or why none is due yet. After a gap in the proof it is a warning: the earlier one is no grace."""
    case, now, notice = view.case, view.now, view.record.notice
    hours, since = case.rule.hours, dates.proven_idle_since(view)
    # What can't be started again is only protected by its hours: silence outside of them is no reason for a notice.
    only_protects = hours is not None and StepName.START not in case.blocked and now - since < case.rule.remind_every
    if hours and only_protects and not office_hours.were_open_between(hours, since, now):
        return _no_step("it hasn't been silent through its office hours")
    action, last = strongest_action(view) if view.announces else None, last_notice_at(view.record.notice)
    idle_for = format_duration(case.rule.idle_after)
    if last is None:
        notes = "".join(f"; {note}" for note in case.rule.notes)
        return Step(name=StepName.WARN, because=f"idle for more than {idle_for} under {case.rule.name}{notes}")
    reminder_at, so_far = next_reminder_at(case, last), f"the owner was notified {ago_text(last, now)}"
    is_daily = is_stopped_by_hours(case) and not is_about_hours(notice)  # idle every evening
    if action is None and is_daily and last <= now < reminder_at:
        return _no_step(f"{so_far} and will be notified again in {format_duration(reminder_at - now)}")
    what, due = plain_participle(case.resource, action) if action else "", action_due_at(view) if action else None
    if action and due is None:
        return Step(name=StepName.WARN, because=f"the owner has not been notified in this idle period that it will be {what}")
    if due and now < due <= reminder_at:
        return _no_step(f"{so_far} and it will be {what} in {format_duration(due - now)}")
    if now < reminder_at:
        return _no_step(f"{so_far} and gets a reminder in {format_duration(reminder_at - now)}")
    if valid_notice_at(view) is None:
        return Step(name=StepName.WARN, because=f"idle again for more than {idle_for} after a gap in the evidence")
    return Step(name=StepName.REMIND, because=f"still idle, and the owner was last notified {ago_text(last, now)}")


def _no_step(because: str) -> Step:
    return Step(name=StepName.NONE, because=because)
