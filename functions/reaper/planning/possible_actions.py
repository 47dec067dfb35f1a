"""Which actions the policy, the evidence, the kind and its owner's snooze allow on a case now. Pure. Notices and dates: `dates`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from reaper.calendars import office_hours
from reaper.case import Case, may_act, may_keep_hours, wanted_actions
from reaper.finding import View
from reaper.model import Ceiling, Confidence, Result, State, StepName, Verdict
from reaper.policy.tags import tag_values
from reaper.record import CONFIRM_WITHIN, is_about_hours, snoozed_because

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
