"""Where one resource stands now: its evidence, its record and its snoozes as one finding. Pure. `decide` and the re-check ask here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from reaper import idle_period, plan
from reaper.case import Case, is_stopped_by_hours, may_be_followed, may_keep_hours
from reaper.finding import Announcement, Finding, wasted_usd
from reaper.model import ACTIONS, State, StepName
from reaper.planning import dates, possible_actions
from reaper.planning.valid_notice import without_void_notice
from reaper.record import Record, Snoozes


def stand(
    case: Case, record: Record, snoozes: Snoozes, now: datetime, *, announces: bool = True, lapsed: Sequence[datetime | None] = ()
) -> Finding:
    """The finding before limits. `announces`: the run announces actions. `lapsed`: when jumps of the idle share ended in its place."""
    record = without_void_notice(case, record, snoozes, now, announces=announces, lapsed=lapsed)
    reported = possible_actions.with_snooze(idle_period.since_own_call(case, record, now), snoozes, now)
    since = idle_period.idle_since(reported, record, now) if reported.verdict.state is State.IDLE else None
    idle_for = now - since if since else None
    return Finding(
        case=reported,
        judged=None if reported.verdict == case.verdict else case.verdict,
        step=plan.plan_step(reported, record, snoozes, now, acting=announces),
        idle_since=since,
        idle_for=idle_for,
        wasted_usd=wasted_usd(reported, idle_for),
        notice=record.notice,
        due_at=dates.action_due_at(reported, record, now),
        record_version=record.version,
        snoozes=snoozes.protections,
        needs_summary=dates.is_summary_due(reported, record.notice, snoozes, now),
    )


def with_announcement(finding: Finding, now: datetime) -> Finding:
    """The finding with what a message of `now` about it announces, and with what follows its action."""
    case, step = finding.case, finding.step.name
    if step in ACTIONS and not finding.needs_summary:
        return with_follow_ups(finding, now)
    action = possible_actions.strongest_action(case, now)
    is_enrolled = dates.enrolled_since(case, finding.notice) is not None
    about_hours = (
        action is not None if step is StepName.WARN else is_enrolled and (step is StepName.REMIND or finding.needs_summary)
    )
    if is_stopped_by_hours(case) and about_hours:
        begins = dates.earliest_action_at(case, now, StepName.STOP)
        forced_at = None if step is StepName.WARN else dates.forced_stop_at(case, finding.notice, now)
        said = Announcement(action=StepName.STOP, at=begins, by_hours=True, forced_at=forced_at)
        return with_follow_ups(replace(finding, announced=said), now)
    if action is None:
        return finding
    reminded = None if step is StepName.WARN else dates.reminded_at(case, finding.notice, now, action)
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
