"""Where one resource stands now: its evidence, its record and its snoozes as one finding, and what comes next. Pure. `decide` and the re-check ask here.

A date assumes that a notice is accepted as soon as notices are sent and that the resource stays silent. It holds whatever the run mode is, so that an audit shows what
enforcement would do.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from reaper import plan, registry
from reaper.case import Blocked, Case, is_stopped_by_hours, may_act, may_be_followed, may_keep_hours, wanted_actions
from reaper.duration import format_duration
from reaper.finding import Announcement, Finding, Step, View, wasted_usd
from reaper.model import ACTIONS, ENDING_ACTIONS, Confidence, NextAction, State, StepName
from reaper.planning import dates, idle_period, possible_actions
from reaper.planning.dates import without_void_notice
from reaper.planning.possible_actions import is_proven_enough, is_unconfirmed, manual_start_at, strongest_action
from reaper.record import Record, dated_ahead_because
from reaper.text import DOLLARS, Currency, format_usd
from reaper.words import frozen_because, grace_words, notice_length


def stand(view: View) -> Finding:
    """The finding before limits."""
    judged, view = view.case.verdict, possible_actions.with_snooze(idle_period.since_own_call(without_void_notice(view)))
    case, record = view.case, view.record
    since = idle_period.idle_since(view) if case.verdict.state is State.IDLE else None
    idle_for = view.now - since if since else None
    return Finding(
        case=case,
        judged=None if case.verdict == judged else judged,
        step=plan.plan_step(view),
        idle_since=since,
        idle_for=idle_for,
        wasted_usd=wasted_usd(case, idle_for),
        notice=record.notice,
        due_at=dates.action_due_at(view),
        record_version=record.version,
        snoozes=view.snoozes.protections,
        needs_summary=dates.is_summary_due(view),
    )


def with_announcement(finding: Finding, now: datetime) -> Finding:
    """The finding with what a message of `now` about it announces, and with what follows its action."""
    case, step = finding.case, finding.step.name
    if step in ACTIONS and not finding.needs_summary:
        return with_follow_ups(finding, now)
    view = View(case=case, now=now, record=Record(notice=finding.notice))
    action, is_enrolled = possible_actions.strongest_action(view), dates.enrolled_since(view) is not None
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
    waits = plan.unconfirmed_because(view) if is_unconfirmed(view) else dated_ahead_because(view.record, now)
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
