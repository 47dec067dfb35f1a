"""Which actions the policy, the evidence, the kind and its owner's snooze allow on a case now. Pure. Notices and dates: `dates`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

from reaper import idle_period
from reaper.case import Case, may_act, may_keep_hours
from reaper.finding import Finding, is_action
from reaper.model import Ceiling, Confidence, Result, State, StepName, Verdict
from reaper.policy import office_hours
from reaper.policy.tags import tag_values
from reaper.record import Act, Record, Snooze, Snoozes

ACTION_STRENGTH: Mapping[str, int] = {StepName.STOP: 1, StepName.DELETE: 2}
WANTED_ACTIONS = {Ceiling.STOP: (StepName.STOP,), Ceiling.DELETE: (StepName.DELETE, StepName.STOP)}
"""The actions of each ceiling, the strongest first."""


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
    may_keep = may_keep_hours(case) or (is_ours and idle_period.is_about_hours(record.notice) and is_in_doubt(case))
    if hours is None or not may_keep or not _is_startable(case) or not office_hours.is_open(hours, now):
        return False
    opened, changed = office_hours.opened_today(hours, now), case.resource.changed
    return is_ours or (hours.restart == "all" and opened is not None and changed is not None and changed < opened)


def strongest_action(case: Case, now: datetime) -> StepName | None:
    """The strongest action that policy, evidence and kind allow: the one a warning announces. None if no action is possible."""
    if not is_proven_enough(case) and not is_forced(case, now):
        return None
    return next((action for action in wanted_actions(case) if action in case.blocked and case.blocked[action] is None), None)


def wanted_actions(case: Case) -> tuple[StepName, ...]:
    """The actions that the policy leads to, the strongest first. By `then` it is a delete, once a stop has nothing left to do."""
    wanted, stop = WANTED_ACTIONS.get(case.rule.action, ()), case.blocked.get(StepName.STOP)
    if stop and stop.already_done and may_be_followed(case):
        return (StepName.DELETE,)
    return (StepName.STOP,) if wanted and case.rule.hours else wanted


def may_be_followed(case: Case) -> bool:
    """Whether `then` deletes what a stop leaves. Something must still be paid for: what costs nothing is left alone."""
    return case.rule.delete_after is not None and case.stop_leaves_cost and StepName.DELETE in case.blocked


def announced_by_mail(finding: Finding) -> StepName | None:
    """What the mail about its action announces: the rest of the action, or the delete by `then` after a stop. None if nothing follows."""
    case, outcome = finding.case, finding.outcome
    if outcome.result is not Result.DONE or not may_keep_hours(case):
        return None
    if outcome.part_done is not None:
        return finding.step.name
    follows = finding.step.name is StepName.STOP and may_be_followed(case) and case.blocked[StepName.DELETE] is None
    return StepName.DELETE if follows else None


def can_be_kept(finding: Finding) -> bool:
    """Whether its owner can still keep it: it wasn't acted on, or something follows."""
    return not is_action(finding) or announced_by_mail(finding) is not None


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
    return is_ours and idle_period.is_about_hours(record.notice) and _is_startable(case) and was_stopped_by_reaper(case, act)


def with_snooze(case: Case, snoozes: Snoozes, now: datetime) -> Case:
    """The case with an exempt verdict if it is idle and a snooze is in effect; otherwise the case unchanged."""
    because = snoozed_because(case, snoozes, now)
    if not because or not may_act(case):
        return case
    return replace(case, verdict=Verdict(state=State.EXEMPT, because=because, last_busy=case.verdict.last_busy))


def snoozed_because(case: Case, snoozes: Snoozes, now: datetime) -> str | None:
    """The sentence about the snooze in effect, if any. That of its host protects it, too."""
    if is_snoozed(case, snoozes.own, now):
        return snooze_sentence(snoozes.own)
    is_by_host = snoozes.host.until is not None and snoozes.host.until > now
    return f"its host is {snooze_sentence(snoozes.host)}" if is_by_host else None


def is_snoozed(case: Case, snooze: Snooze, now: datetime) -> bool:
    """Whether a snooze is in effect. A snooze from before the resource was created was for another one with the same ID."""
    return snooze.until is not None and snooze.until > now and not is_recreated(case, snooze)


def is_recreated(case: Case, snooze: Snooze) -> bool:
    """Whether the resource was created after its snooze, under an ID that another resource had."""
    created = case.resource.created
    return snooze.at is not None and created is not None and created > snooze.at + idle_period.MAX_CLOCK_SKEW


def snooze_sentence(snooze: Snooze) -> str:
    """The sentence about a snooze that is in effect."""
    until = snooze.until.astimezone(UTC) if snooze.until else None
    reason = f": {snooze.reason}" if snooze.reason else ""
    return f"snoozed until {until:%Y-%m-%d %H:%M} UTC by {snooze.by or 'someone'}{reason}"


def _is_startable(case: Case) -> bool:
    """Whether it is stopped, and the kind can start it."""
    return case.verdict.state is State.EXEMPT and StepName.START in case.blocked and case.blocked[StepName.START] is None
