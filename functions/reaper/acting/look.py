"""The look right before an action, and the permit of each of its calls: the resource and its tags from the authoritative calls, its activity up to
this minute, its rows in the ledger, and the plan once more from all that. If anything is not as it was when the action was decided, it is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Any, TypeVar

from reaper import registry
from reaper.acting.contract import ActionFunctions, OwnChanges, unchanged
from reaper.acting.manifest import Archive
from reaper.calendars.resolve import FreshFreezes
from reaper.case import Case, frozen_because, is_stopped_by_hours, plain_participle
from reaper.errors import (
    ActionWithdrawn,
    CloudError,
    ReaperError,
    Reason,
    errors_as_withdrawal,
    gone_as_partial,
    odd_replies_as_errors,
)
from reaper.finding import Finding, View, with_notice
from reaper.judge import assess
from reaper.kind import Kind
from reaper.ledger.ledger import Ledger, RunLeases, update_record
from reaper.ledger.rows import Recalled, comparable_id, host_ids, remembered_ids
from reaper.limits import holds
from reaper.model import ENDING_ACTIONS, Resource, Run, State, StepName
from reaper.observation import Observation
from reaper.observing.windows import observation_window, recent_since_by_id
from reaper.pending import stop_switch
from reaper.pending.unfinished import half_done_because
from reaper.plan import stand
from reaper.planning import dates
from reaper.planning.dates import void_because, without_void_notice
from reaper.policy import owners
from reaper.policy.rules import NOT_IN_ENFORCE_ONLY
from reaper.policy.schema import Policy
from reaper.prices import PriceBook
from reaper.record import Act, Record, Snoozes, is_unfinished
from reaper.sessions import CloudSession

OPERATION = "act"
DIFFERENT_FIELDS = {
    "created": "creation time",
    "changed": "last change",
    "details": "settings",
    "fingerprint": "settings",
    "parts": "size",
    "people": "owner",
}
"""What people call a field of a resource, if not by its name."""
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class ActContext:
    """What acting on one target needs. `leases`: those that this process keeps alive meanwhile.

    `policy_sha256`: the hash of the policy as it is now, if it may have changed since the run began. `freezes`: reads its freezes again.
    """

    session: CloudSession
    policy: Policy
    ledger: Ledger
    archive: Archive
    clock: Callable[[], datetime]
    leases: RunLeases
    prices: PriceBook = field(default_factory=PriceBook)
    deadline: datetime | None = None
    policy_sha256: str | None = None
    freezes: FreshFreezes | None = None
    kind: Callable[[str], Kind[Any]] = registry.kind
    action_functions: Callable[[str], ActionFunctions[Any]] = registry.action_functions


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One action on one resource. `session` is its own: its calls are counted there. `errors` collects what fails."""

    finding: Finding
    run: Run
    context: ActContext
    session: CloudSession
    kind: Kind[Any]
    functions: ActionFunctions[Any]
    errors: list[ReaperError] = field(default_factory=list)

    @property
    def action(self) -> StepName:
        """What its finding asks for."""
        return self.finding.step.name

    def ask(self, function: Callable[..., Answer], *arguments: Any) -> Answer:
        """What a function of the kind returns in a fresh session. Raises CloudError, also if it stumbles over an odd reply."""
        with odd_replies_as_errors(OPERATION):
            return function(fresh_session(self.session), *arguments)

    @contextmanager
    def noting_errors(self) -> Iterator[None]:
        """A call that fails inside is noted. It takes nothing back of what was done."""
        try:
            yield
        except CloudError as error:
            self.errors.append(error)


def fresh_session(session: CloudSession) -> CloudSession:
    """The same session with nothing remembered and no errors yet; its calls are counted together with those of `session`."""
    fresh = session.without_cache()
    fresh.calls = session.calls
    return fresh


def read_now(task: Task) -> Resource:
    """The resource as it is now, with tags from the authoritative call. Raises CloudError, and ActionWithdrawn if its tags can't be read."""
    named = task.finding.case.resource
    resource = task.ask(task.functions.read_now, named)
    if resource.tags is None:
        raise ActionWithdrawn("its tags can't be read, and a tag may protect it")
    # Otherwise every record of the action would be about another resource.
    if comparable_id(resource.id) != comparable_id(named.id) or resource.name != named.name:
        raise ActionWithdrawn(f"{resource.id} was found under its name")
    return resource


def assess_again(resource: Resource, task: Task, *, after_wait: bool = False) -> Case:
    """The case of one resource, observed up to this very moment. Raises CloudError if any part of it couldn't be read."""
    context, now = task.context, task.context.clock()
    policy = context.freezes.policy_at(now, after_wait=after_wait) if context.freezes else context.policy
    with odd_replies_as_errors(task.kind.name):
        return assess(_observe_again(resource, task, policy, now), task.kind, policy, context.prices, now)


def _observe_again(resource: Resource, task: Task, policy: Policy, now: datetime) -> Observation:
    """The resource, observed over the window of a run that starts now. Every reading covers the whole window."""
    session, kind = fresh_session(task.session), task.kind
    window = replace(
        observation_window(policy, now, session.recheck_end(now)),
        recent_since_by_id=recent_since_by_id([resource], policy, task.context.prices, now),
        reads_in_full=True,
    )
    observations = list(kind.observe(session, [resource], window))
    if session.errors:
        with gone_as_partial():
            raise session.errors[0]
    if [(o.resource.id, o.resource.name) for o in observations] != [(resource.id, resource.name)]:
        raise CloudError(Reason.UNREADABLE, kind.name, "the kind returned no observation")
    if observations[0].is_gone:
        raise CloudError(Reason.GONE, kind.name, "it no longer exists")
    return observations[0]


def recall_around(resource: Resource, task: Task) -> Recalled:
    """What the ledger has on the resource and its host. Raises ActionWithdrawn if any of that can't be read."""
    with errors_as_withdrawal("its ledger record couldn't be read"):
        recalled = task.context.ledger.recall(remembered_ids(resource), task.context.clock())
        if recalled.errors:
            raise recalled.errors[0]
    return recalled


def require_still_due(case: Case, recalled: Recalled, task: Task) -> holds.ReadRows | None:
    """What else counts toward its caps; None if it doesn't count. Raises ActionWithdrawn unless everything that led to it still holds for the case."""
    own = recalled.snooze(case.resource.id)
    case = owners.with_present_owner(case, own, task.context.policy.owners.fallback)
    record, snoozes = recalled.record(case.resource.id), recalled.snoozes(case.resource)
    view = View(case=case, now=task.context.clock(), record=record, snoozes=snoozes)
    finding = _require_same_step(view, recalled, task)
    return _require_no_hold(finding, with_notice(view, finding.notice), task) if task.action in ENDING_ACTIONS else None


def _require_same_step(view: View, recalled: Recalled, task: Task) -> Finding:
    """Where it stands now. Raises ActionWithdrawn unless the plan asks for the same action on the resource as it is now. A notice that this look
    voids is removed: later runs may see nothing of the reason.
    """
    action, resource = task.action, view.case.resource
    records = [recalled.record(id_) for id_ in remembered_ids(resource)]
    if action is not StepName.START and any(map(half_done_because, records)):
        raise ActionWithdrawn("an action on it was interrupted and isn't settled yet")
    require_settled_host(resource, recalled)
    finding = stand(view)
    if finding.step.name is action:
        return finding

    def valid(stored: Record) -> Record:
        return without_void_notice(replace(view, record=stored)).record

    with errors_as_withdrawal("its void notice couldn't be recorded"):
        update_record(task.context.ledger, resource.id, valid, view.now, view.record)
    raise ActionWithdrawn(_refused_because(action, finding, view.now))


def _refused_because(action: StepName, finding: Finding, now: datetime) -> str:
    case = finding.case
    if action in ENDING_ACTIONS and (frozen := frozen_because(case.rule, now)):
        return frozen
    if case.verdict.state is not State.IDLE and action is not StepName.START:
        return f"it is {case.verdict.state} now: {case.verdict.because}"
    if blocked := case.blocked.get(action):
        return blocked.because
    if case.rule.only_notices:
        return f"it is {NOT_IN_ENFORCE_ONLY}"
    if action is not StepName.START and dates.strongest_action(View(case=case, now=now)) is not action:
        return f"its rule and tags no longer allow it to be {plain_participle(case.resource, action)}: {case.rule.name} says at most {case.rule.action}"
    return finding.step.because


def _require_no_hold(finding: Finding, view: View, task: Task) -> holds.ReadRows | None:
    """The rows toward whose caps a stop or delete counts; None if a release covers it.

    Raises ActionWithdrawn if the action is on hold, if its notice lapsed by a jump, or if that can't be read.
    """
    case, now = finding.case, view.now
    with errors_as_withdrawal("what is on hold couldn't be read"):
        rows = (read := holds.read_hold_rows(task.context.ledger, [case.resource.target], now)).rows
    breakers = [] if is_stopped_by_hours(case) else holds.breakers_over(case, rows)
    if because := next((breaker.because for breaker in breakers if breaker.since), None):
        raise ActionWithdrawn(f"it is on hold since this was decided: {because}")
    if void_because(replace(view, case=case, lapsed=tuple(breaker.lapsed_at for breaker in breakers))):
        raise ActionWithdrawn("its notice is from before the end of a jump of the idle share, so it needs a new one")
    standing, is_released = holds.holds_over(case, rows), holds.is_released(case, finding.due_at, rows, now)
    if standing and not is_released:
        raise ActionWithdrawn(f"it is on hold since this was decided: {standing[0][1].because}")
    return None if is_released else read


def require_same_resource(before: Resource, recalled: Recalled, task: Task) -> None:
    """The end of the look: the resource is read once more, and must be as it was at the beginning. Raises ActionWithdrawn."""
    with errors_as_withdrawal("the re-check failed"):
        now = read_now(task)
        if now.tags != before.tags:  # a tag that takes the action away takes its notice away, too
            require_still_due(assess_again(now, task), recalled, task)
    if because := changed_because(before, now):
        raise ActionWithdrawn(because)


def look_again(resource: Resource, before: Recalled, task: Task) -> None:
    """The whole look after a wait, with what the ledger had on it `before` this action. Raises ActionWithdrawn."""
    try:
        case = assess_again(resource, task, after_wait=True)
    except CloudError as error:
        raise ActionWithdrawn(str(error)) from error
    present, version = recall_around(resource, task), before.record(resource.id).version
    if because := rows_changed_because(resource, present, version + 1, before.snoozes(resource), task.context.clock()):
        raise ActionWithdrawn(because)
    own = Recalled({comparable_id(resource.id): before.record(resource.id)})
    require_still_due(case, present.with_newer(own), task)


def changed_because(before: Resource, now: Resource) -> str | None:
    """Why a resource isn't as it was a moment ago; None if it is. Any difference counts, unreadable tags too."""
    if now.tags is None:
        return "its tags can't be read, and a tag may protect it"
    if now.target.blocked_because:
        return now.target.blocked_because
    if before == now:
        return None
    changed = [f.name for f in fields(Resource) if f.compare and getattr(before, f.name) != getattr(now, f.name)]
    return f"its {', '.join(dict.fromkeys(DIFFERENT_FIELDS.get(name, name) for name in changed))} changed a moment ago"


def rows_changed_because(resource: Resource, recalled: Recalled, version: int, snoozes: Snoozes, now: datetime) -> str | None:
    """Why the ledger isn't as the look found it, but for the run's own intent, which made it that `version`; None if it is."""
    present = recalled.snoozes(resource)
    if recalled.record(resource.id).version != version or present.own != snoozes.own:
        return "its ledger record changed a moment ago, and it may be snoozed"
    if present.host.until and present.host.until > now:
        by = f" by {present.host.by}" if present.host.by else ""
        return f"its host was snoozed{by} a moment ago"
    return None if present.protections == snoozes.protections else "what is known of its host changed a moment ago"


def require_settled_host(resource: Resource, recalled: Recalled) -> None:
    """Raises ActionWithdrawn while an action of any run on its host is open."""
    if any(is_unfinished(recalled.record(host_id)) for host_id in host_ids(resource)):
        raise ActionWithdrawn("an action on its host isn't settled yet")


@dataclass(slots=True, kw_only=True)
class CallPermit:
    """Permission for the calls of one action: `contract.Permit`. `calls_made` counts those that were made, or may have been.

    `resource`, `snoozes`, `before`: what was read before the intent, which is `act`. `read` reads the resource again, as long as the run has its
    lease, `look_again` everything.
    """

    resource: Resource
    snoozes: Snoozes
    before: Record
    act: Act
    ledger: Ledger
    clock: Callable[[], datetime]
    read: Callable[[], Resource]
    look_again: Callable[[Resource], None]
    calls_made: int = 0

    @contextmanager
    def __call__(self, own_changes: OwnChanges = unchanged, *, may_be_gone: bool = False) -> Iterator[None]:
        """One call. Raises ActionWithdrawn if it may not be made, or CloudError with Reason.GONE if the resource is gone before the first."""
        self._require_same_resource(own_changes, may_be_gone)
        self._require_unchanged_rows()
        was_made = True
        try:
            yield
        except CloudError as error:
            was_made = error.may_have_been_made
            raise
        finally:
            self.calls_made += was_made

    def after_wait(self, own_changes: OwnChanges = unchanged) -> None:
        """Repeat the whole look: `contract.Permit.after_wait`."""
        self.look_again(self._require_same_resource(own_changes))

    def _require_same_resource(self, own_changes: OwnChanges, may_be_gone: bool = False) -> Resource:
        """The resource as it is now, without the action's own changes. Raises ActionWithdrawn unless it is unchanged."""
        try:
            now = own_changes(self.read())
        except CloudError as error:
            if error.reason is Reason.GONE and not self.calls_made:
                raise
            if error.reason is Reason.GONE and may_be_gone:
                return self.resource
            raise ActionWithdrawn(f"it couldn't be read before the call: {error}") from error
        if because := changed_because(self.resource, now):
            if now.tags != self.resource.tags and not self.calls_made:
                self.look_again(now)  # a tag that takes the action away takes its notice away, too
            raise ActionWithdrawn(because)
        return now

    def _require_unchanged_rows(self) -> None:
        """One read of the stop switch, and of what the ledger has on it and its host. Raises ActionWithdrawn if no further call may be made."""
        now, resource = self.clock(), self.resource
        with errors_as_withdrawal("the ledger couldn't be read before the call"):
            recalled, switch = self.ledger.recall_with_row(remembered_ids(resource), stop_switch.PAUSE_ROW, now)
            if not (pause := stop_switch.pause_in_row(switch, now)) and recalled.errors:
                raise recalled.errors[0]
        if pause:
            raise ActionWithdrawn(stop_switch.paused_because(pause))
        if because := rows_changed_because(resource, recalled, self.before.version + 1, self.snoozes, now):
            raise ActionWithdrawn(because)
        require_settled_host(resource, recalled)
