"""Where one resource stands now: its evidence, its record and its snoozes as one finding. Pure. `decide` and the re-check ask here."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from reaper import plan
from reaper.case import Case, is_stopped_by_hours, may_be_followed, may_keep_hours
from reaper.finding import Announcement, Finding, wasted_usd
from reaper.model import ACTIONS, State, StepName
from reaper.planning import dates, idle_period, possible_actions
from reaper.planning.valid_notice import without_void_notice
from reaper.record import Record
from reaper.view import View


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
