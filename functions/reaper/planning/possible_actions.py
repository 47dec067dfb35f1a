"""Which actions the policy, the evidence, the kind and its owner's snooze allow on a case now. Pure. Notices and dates: `dates`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from reaper import idle_period
from reaper.calendars import office_hours
from reaper.case import Case, may_act, may_keep_hours, wanted_actions
from reaper.model import Ceiling, Confidence, Result, State, StepName, Verdict
from reaper.policy.tags import tag_values
from reaper.record import Act, Record, Snoozes, is_about_hours, snoozed_because

ACTION_STRENGTH: Mapping[str, int] = {StepName.STOP: 1, StepName.DELETE: 2}


def is_in_doubt(case: Case) -> bool:
    """Whether only an unknown price or size may keep its rule from acting, such as that of a stopped notebook: its own tags and the canary don't."""
    says_notify = any(value.strip().lower() == Ceiling.NOTIFY for _, value in tag_values(case.resource.tags, "reaper:action"))
    return case.rule.in_doubt and case.resource.tags is not None and not case.rule.only_notices and not says_notify


def is_forced(case: Case, now: datetime) -> bool:
    """Whether its rule stops it even while it is in use: `hours: {force: true}`, and the hours are over.

    Never a protected, unknown or free resource, and never one that can't be stopped now, or started again.
    """
    hours = case.rule.hours
    if hours is None or not hours.force or not may_keep_hours(case):
        return False
    if StepName.START not in case.blocked or case.blocked.get(StepName.STOP) or office_hours.is_open(hours, now):
        return False
    return case.verdict.state in {State.ACTIVE, State.YOUNG, State.IDLE}


def may_start(case: Case, record: Record, now: datetime) -> bool:
    """Whether its office hours start it now: it is stopped, nothing protects it, and the reaper stopped it, or the rule starts everything
    and it is known to be unchanged since the hours began. What hours stopped is started in doubt, too.
    """
    hours, is_ours = case.rule.hours, was_stopped_by_reaper(case, record.act)
    may_keep = may_keep_hours(case) or (is_ours and is_about_hours(record.notice) and is_in_doubt(case))
    if hours is None or not may_keep or not _is_startable(case) or not office_hours.is_open(hours, now):
        return False
    opened, changed = office_hours.opened_today(hours, now), case.resource.changed
    return is_ours or (hours.restart == "all" and opened is not None and changed is not None and changed < opened)


def strongest_action(case: Case, now: datetime) -> StepName | None:
    """The strongest action that policy, evidence and kind allow: the one a warning announces. None if no action is possible."""
    if not is_proven_enough(case) and not is_forced(case, now):
        return None
    return next((action for action in wanted_actions(case) if action in case.blocked and case.blocked[action] is None), None)


def is_proven_enough(case: Case) -> bool:
    """Whether it is idle, and its evidence allows more than notices. `force` treats a likely idle resource as one in use."""
    return may_act(case) and (case.verdict.confidence is Confidence.PROVEN or case.rule.act_on is Confidence.LIKELY)


def is_unconfirmed(act: Act | None, now: datetime) -> bool:
    """Whether an action was requested so recently that its result may not show yet."""
    return act is not None and act.at <= now < act.at + idle_period.CONFIRM_WITHIN


def manual_start_at(case: Case, now: datetime) -> datetime | None:
    """When a person started it outside its office hours, if the rule still respects that start."""
    hours = case.rule.hours
    started = max((t for t in (case.resource.created, case.resource.changed) if t), default=None)
    closed_at = office_hours.closed_since(hours, now) if hours else None
    if hours is None or closed_at is None or started is None or started < closed_at or now - started >= hours.override:
        return None
    return started


def was_stopped_by_reaper(case: Case, act: Act | None) -> bool:
    """Whether the reaper was the last to stop it: it was neither changed nor recreated since."""
    created, changed = case.resource.created, case.resource.changed
    if act is None or (created is not None and created > act.at):
        return False
    if act.action is StepName.START and act.result is Result.FAILED:
        return changed is None or changed <= act.at  # the reaper had stopped it before it tried that start
    return act.action is StepName.STOP and (changed is None or changed <= act.at + idle_period.CONFIRM_WITHIN)


def is_left_stopped(case: Case, record: Record) -> bool:
    """Whether office hours stopped it, and nothing starts it again: it is protected, or they no longer apply to it. Doubt is no proof of that."""
    if case.resource.tags is None or (case.rule.hours is not None and (may_keep_hours(case) or is_in_doubt(case))):
        return False
    act = record.act
    is_ours = act is not None and act.action is StepName.STOP and act.result is Result.DONE and act.told_at is not None
    return is_ours and is_about_hours(record.notice) and _is_startable(case) and was_stopped_by_reaper(case, act)


def with_snooze(case: Case, snoozes: Snoozes, now: datetime) -> Case:
    """The case with an exempt verdict if it is idle and a snooze is in effect; otherwise the case unchanged."""
    because = snoozed_because(snoozes, case.resource.created, now)
    if not because or not may_act(case):
        return case
    return replace(case, verdict=Verdict(state=State.EXEMPT, because=because, last_busy=case.verdict.last_busy))


def _is_startable(case: Case) -> bool:
    """Whether it is stopped, and the kind can start it."""
    return case.verdict.state is State.EXEMPT and StepName.START in case.blocked and case.blocked[StepName.START] is None
