"""The re-check right before an action: the resource and its tags from the authoritative calls, its activity up to this minute, its rows in
the ledger, and the plan once more from all that. If anything is not as it was when the action was decided, the action is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from reaper import memory_updates, plan
from reaper.actions import hold_ledger, intent
from reaper.actions.contract import NOTHING_EARLIER, Earlier
from reaper.actions.manifest import Archive
from reaper.assess import assess
from reaper.case import Case
from reaper.errors import CloudError, ReaperError, Reason, gone_as_partial, odd_replies_as_errors
from reaper.kind import Kind
from reaper.ledger.port import Ledger
from reaper.model import ENDING_ACTIONS, Memory, Resource, State, StepName
from reaper.observation import Observation
from reaper.observing.windows import observation_window, recent_since_by_id
from reaper.planning import contained, possible_actions, snoozed_cases
from reaper.planning.reasons import PARTICIPLES
from reaper.policy.rules import NOT_IN_ENFORCE_ONLY
from reaper.policy.schema import Owners, Policy
from reaper.prices import PriceBook
from reaper.sessions import CloudSession


class StepRefused(ReaperError):
    """Something is not as it was when the action was decided. The text is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recheck:
    """What the re-check of one resource needs."""

    session: CloudSession
    kind: Kind[Any]
    policy: Policy
    prices: PriceBook
    ledger: Ledger
    clock: Callable[[], datetime]


def assess_again(resource: Resource, recheck: Recheck) -> Case:
    """The case of one resource, observed up to this very moment. Raises CloudError if any part of it couldn't be read."""
    now = recheck.clock()
    observation = _observe_again(resource, recheck, now)
    with odd_replies_as_errors(recheck.kind.name):
        return assess(observation, recheck.kind, recheck.policy, recheck.prices, now)


def _observe_again(resource: Resource, recheck: Recheck, now: datetime) -> Observation:
    """The window starts at the hour at which that of a run at this moment would, and every reading covers all of it."""
    session, kind = recheck.session, recheck.kind
    window = replace(
        observation_window(recheck.policy, now, session.recheck_end(now)),
        recent_since_by_id=recent_since_by_id([resource], recheck.policy, recheck.prices, now),
        reads_in_full=True,
    )
    with odd_replies_as_errors(kind.name):
        observations = list(kind.observe(session, [resource], window))
    if session.errors:
        with gone_as_partial():
            raise session.errors[0]
    if [(o.resource.id, o.resource.name) for o in observations] != [(resource.id, resource.name)]:
        raise CloudError(Reason.UNREADABLE, kind.name, "the kind returned no observation")
    if observations[0].is_gone:
        raise CloudError(Reason.GONE, kind.name, "it no longer exists")
    return observations[0]


def recall_around(resource: Resource, recheck: Recheck) -> Mapping[str, Memory]:
    """The memories of the resource, its host and everything inside. Raises StepRefused if any of them can't be read."""
    try:
        memories = recheck.ledger.recall(intent.remembered_ids(resource), recheck.clock())
    except CloudError as error:
        raise StepRefused(f"its ledger record couldn't be read: {error}") from error
    if memories.errors:
        raise StepRefused(f"its ledger record couldn't be read: {memories.errors[0]}") from memories.errors[0]
    return memories


def require_same_step(action: StepName, case: Case, memories: Mapping[str, Memory], now: datetime) -> None:
    """Raises StepRefused unless the plan asks for the same action on the resource as it is now."""
    host = intent.host_memory(case.resource, memories)
    memory = memory_updates.after_host_snooze(memories.get(case.resource.id, Memory()), host)
    reported = snoozed_cases.with_snooze(case, memory, now, host)
    [step] = plan.plan_steps([reported], {case.resource.id: memory}, now)
    if step.name is not action:
        raise StepRefused(_refused_because(action, reported, step.because, now))


def _refused_because(action: StepName, case: Case, step_because: str, now: datetime) -> str:
    if case.verdict.state is not State.IDLE and action is not StepName.START:
        return f"it is {case.verdict.state} now: {case.verdict.because}"
    if blocked := case.blocked.get(action):
        return blocked.because
    if case.rule.only_notices:
        return f"it is {NOT_IN_ENFORCE_ONLY}"
    if action is not StepName.START and possible_actions.strongest_action(case, now) is not action:
        return (
            f"its rule and tags no longer allow it to be {PARTICIPLES[action]}: {case.rule.name} says at most {case.rule.action}"
        )
    return step_because


def require_no_hold(action: StepName, case: Case, memory: Memory, recheck: Recheck) -> None:
    """Raises StepRefused if the action is on hold, or if that can't be read."""
    if action not in ENDING_ACTIONS:
        return
    try:
        hold = hold_ledger.hold_over(recheck.ledger, case, memory, recheck.clock())
    except CloudError as error:
        raise StepRefused(f"what is on hold couldn't be read: {error}") from error
    if hold:
        raise StepRefused(f"it is on hold since this was decided: {hold.because}")


def require_nothing_inside_forbids(
    case: Case, memories: Mapping[str, Memory], action: StepName, owners: Owners, now: datetime
) -> None:
    """Raises StepRefused if something inside that the action would affect is snoozed, or its owner got no notice."""
    snoozed = contained.snoozed_inside(case.resource, memories, now)
    if because := snoozed or contained.untold_inside(case, memories, action, owners, now):
        raise StepRefused(because)


def earlier_action(memory: Memory, archive: Archive) -> Earlier:
    """The earlier action whose manifest still stands, so that the new manifest can name it.

    A manifest outside REAPER_MANIFESTS is only named, so that undoing can say how to continue. Nothing is read from there.
    """
    if memory.last_action is None or memory.manifest_address is None:
        return NOTHING_EARLIER
    return Earlier(manifest_address=memory.manifest_address, is_readable=archive.contains(memory.manifest_address))


def shows_as_done(resource: Resource, action: StepName, read_now: Callable[[Any, Resource], Resource], recheck: Recheck) -> bool:
    """Whether reading the resource once more shows that the action was carried out after all. False if that fails."""
    try:
        with odd_replies_as_errors("act"):
            blocked = recheck.kind.blocked_actions(read_now(recheck.session, resource)).get(action)
    except CloudError as error:
        return error.reason is Reason.GONE and action is StepName.DELETE
    return blocked is not None and blocked.already_done
