"""The re-check right before an action: the resource and its tags from the authoritative calls, its activity up to this minute, its rows in
the ledger, and the plan once more from all that. If anything is not as it was when the action was decided, the action is refused.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from reaper.acting.contract import NOTHING_EARLIER, Earlier
from reaper.acting.manifest import Archive, previous_manifest
from reaper.acting.task import Task, fresh_session
from reaper.assess import assess
from reaper.case import Case, is_stopped_by_hours
from reaper.errors import ActionWithdrawn, CloudError, Reason, errors_as_withdrawal, gone_as_partial, odd_replies_as_errors
from reaper.finding import Finding
from reaper.ledger.ledger import Ledger, update_record, write_until_accepted
from reaper.ledger.rows import Recalled, remembered_ids
from reaper.limits import caps, holds
from reaper.model import ENDING_ACTIONS, Resource, Result, State, StepName
from reaper.observation import Observation
from reaper.observing.windows import observation_window, recent_since_by_id
from reaper.pending import intents
from reaper.pending.lost import half_done_because
from reaper.planning import possible_actions
from reaper.planning.dates import void_because, without_void_notice
from reaper.policy import owners
from reaper.policy.rules import NOT_IN_ENFORCE_ONLY
from reaper.policy.schema import Policy
from reaper.record import Act, ManifestReference, Record
from reaper.stand import stand
from reaper.view import View, with_notice
from reaper.words import frozen_because, plain_participle


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
    action, now = task.action, task.context.clock()
    snoozes = recalled.snoozes(case.resource)
    case = owners.with_present_owner(case, snoozes.own, task.context.policy.owners.fallback)
    view = View(case=case, now=now, record=recalled.record(case.resource.id), snoozes=snoozes)
    finding = _require_same_step(task, view, recalled)
    return _require_no_hold(finding, with_notice(view, finding.notice), task.context.ledger) if action in ENDING_ACTIONS else None


def _require_same_step(task: Task, view: View, recalled: Recalled) -> Finding:
    """Where it stands now. Raises ActionWithdrawn unless the plan asks for the same action on the resource as it is now. A notice that this look
    voids is removed: later runs may see nothing of the reason.
    """
    action, resource = task.action, view.case.resource
    records = [recalled.record(id_) for id_ in remembered_ids(resource)]
    if action is not StepName.START and any(map(half_done_because, records)):
        raise ActionWithdrawn("an action on it was interrupted and isn't settled yet")
    if because := intents.open_on_host_because(resource, recalled):
        raise ActionWithdrawn(because)
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
    if action is not StepName.START and possible_actions.strongest_action(View(case=case, now=now)) is not action:
        return f"its rule and tags no longer allow it to be {plain_participle(case.resource, action)}: {case.rule.name} says at most {case.rule.action}"
    return finding.step.because


def _require_no_hold(finding: Finding, view: View, ledger: Ledger) -> holds.ReadRows | None:
    """The rows toward whose caps a stop or delete counts; None if a release covers it.

    Raises ActionWithdrawn if the action is on hold, if its notice lapsed by a jump, or if that can't be read.
    """
    case, now = finding.case, view.now
    with errors_as_withdrawal("what is on hold couldn't be read"):
        rows = (read := holds.read_hold_rows(ledger, [case.resource.target], now)).rows
    breakers = [] if is_stopped_by_hours(case) else holds.breakers_over(case, rows)
    if because := next((breaker.because for breaker in breakers if breaker.since), None):
        raise ActionWithdrawn(f"it is on hold since this was decided: {because}")
    if void_because(replace(view, case=case, lapsed=tuple(breaker.lapsed_at for breaker in breakers))):
        raise ActionWithdrawn("its notice is from before the end of a jump of the idle share, so it needs a new one")
    standing, is_released = holds.holds_over(case, rows), holds.is_released(case, finding.due_at, rows, now)
    if standing and not is_released:
        raise ActionWithdrawn(f"it is on hold since this was decided: {standing[0][1].because}")
    return None if is_released else read


def count_action(case: Case, known: holds.ReadRows, task: Task) -> None:
    """Count an action in the row of its account before its intent is written: each resource once, however often it is tried.

    `decide` keeps runs within the caps. This enforces them even if the decisions were changed or repeated since, or if another run acts at the
    same time. Raises ActionWithdrawn if one more would exceed a cap, or if the ledger can't tell. `known`: the rows as the look read them.
    """
    ledger, name = task.context.ledger, holds.acted_row(holds.account_key(case.resource.target))
    own, first = holds.acted_on(case, task.run.started_at), [known.read[name]]

    def attempt() -> str | None:
        row, now = first.pop() if first else ledger.read_row(name), task.context.clock()
        before = holds.acted_from_columns(name, row.values, now)
        because = caps.exceeded_by(case, before, task.context.policy.limits)
        if because or ledger.write_row(name, holds.acted_columns(before, own), row.version):
            return because
        return None

    with errors_as_withdrawal("the actions of the last hours couldn't be counted"):
        because = write_until_accepted(attempt, f"the row {name!r}")
    if because:
        raise ActionWithdrawn(f"{because}; the next run decides again")


def earlier_action(act: Act | None, archive: Archive) -> Earlier:
    """The earlier action whose manifest still stands, so that the new manifest can name it. It is named even if it can't be read.

    If all that the last action did was put back, it is the one before that.
    """
    if act is None or act.manifest is None:
        return NOTHING_EARLIER
    last = _read_earlier(act.manifest, archive)
    if act.result is Result.REFUSED and last.manifest:
        before = previous_manifest(last.manifest)
        return _read_earlier(before, archive) if before else NOTHING_EARLIER
    return replace(last, is_known=act.result is Result.DONE)


def _read_earlier(reference: ManifestReference, archive: Archive) -> Earlier:
    try:
        return Earlier(reference=reference, manifest=archive.read_manifest(reference))
    except CloudError:
        return Earlier(reference=reference)
