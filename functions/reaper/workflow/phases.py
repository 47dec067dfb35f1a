"""The steps of a workflow. Each reads what the step before stored, calls one phase, and stores what it returns.

An engine may repeat any step, also while it still runs elsewhere. So a run is decided once, and each action is made once because of its row in
the ledger, and conclude sends each message once. A step gets an item's number, and believes the store only what agrees with the engine's own state.

A step may end without a trace that the engine sees as a failure, so an item without a part is a failure in the report, never an empty list:
https://docs.aws.amazon.com/step-functions/latest/dg/concepts-error-handling.html
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from typing import Any, TypeVar

from reaper import handover
from reaper.calendars.resolve import with_calendars
from reaper.case import Coverage
from reaper.conclude import conclude
from reaper.coverage import own_row
from reaper.decide import DecideContext, decide
from reaper.errors import CloudError, Reason
from reaper.finding import Report
from reaper.handover import Acted, Decided, Observed
from reaper.ledger.opening import ensure_format
from reaper.ledger.rows import document_of, parse_document
from reaper.model import Status, Target
from reaper.observe import observe
from reaper.policy.file import load_policy
from reaper.registry import kinds
from reaper.run import conclude_context, new_run, observe_context, open_archive, unreached_first
from reaper.sessions import list_accounts, open_account
from reaper.workflow import lease
from reaper.workflow.lease import RUN_LEASE, RunLease
from reaper.workflow.store import ACT_ITEMS, DECIDED, MISSING, RunStore
from reaper.workflow.stored_run import (
    EngineState,
    RunItem,
    StoredRun,
    WorkflowContext,
    current_policy,
    require_run,
    setup_of,
    store_run,
)

TAKEN_OVER = "another run has taken over from this one"
OTHER_RUN = "it belongs to another run"
NO_REASON = "its step of the workflow ended without a result"


def list_targets(context: WorkflowContext, run_id: str, holder: str, is_running: Callable[[str], bool]) -> dict[str, Any]:
    """List what to sweep and store it. Returns what the engine has to carry, with `status`, `items` (their number) and `because`.

    Above audit the run takes the ledger's lease. While another execution has it, the status is `skipped`, and `because` says which.
    `is_running`: whether the execution that holds the lease still runs. Raises ReaperError if nothing can be swept.
    """
    settings, now = context.settings, context.clock()
    source = load_policy(settings.policy)
    ledger = conclude_context(settings, source.policy, context.clock).ledger
    open_archive(settings)
    run = new_run(settings, source, context.clock, run_id)
    with ExitStack() as on_failure:
        if settings.mode.writes and ledger is not None:
            ensure_format(ledger)
            wanted = RunLease(run=run_id, holder=holder, until=now + RUN_LEASE)
            if other := lease.take_run_lease(ledger, wanted, is_running, now):
                because = f"run {other.run} is still under way ({other.holder})"
                return _listed(EngineState(run=run_id, execution=holder, policy_sha256="", listed_sha256=""), 0, because)
            on_failure.callback(lease.give_back_run_lease, ledger, run_id)
        accounts = unreached_first(list_accounts(settings, settings.cloud), settings, ledger)
        calendars = with_calendars(source.policy, source.where, now).resolved.values()
        stored = StoredRun(run=run, execution=holder, kinds=settings.kinds, accounts=tuple(accounts), calendars=tuple(calendars))
        engine = store_run(stored, context.store)
        on_failure.pop_all()
    return _listed(engine, len(stored.items()))


def observe_item(context: WorkflowContext, engine: EngineState, number: int) -> dict[str, Any]:
    """Observe one item and store it: `{"run", "item", "resources"}`. What can't be read is in the part's coverage.

    Raises ReaperError if the run isn't the caller's, and if its policy has changed: judged by another one, the item couldn't be decided.
    """
    stored = require_run(context.store, engine)
    item = stored.item(number)
    policy, because = current_policy(context, engine.policy_sha256, stored.calendars)
    if because:
        raise CloudError(Reason.REFUSED, "observe", because)
    setup = setup_of(stored, context, policy)
    account = replace(stored.account(item.account), regions=item.regions)
    sessions, rows = open_account(setup.settings, account, may_act=False)
    observed = observe(stored.run, observe_context(setup, sessions, rows), context.clock())
    context.store.create(f"observed/{number}.json", handover.dump(observed))  # a repeated step changes nothing
    return {"run": engine.run, "item": number, "resources": len(observed.cases)}


def decide_run(context: WorkflowContext, engine: EngineState, failures: Mapping[int, str]) -> dict[str, Any]:
    """Decide the whole run, once: `{"run", "actions": 3}`, with the number of targets to act on. `failures`: for each failed item, the reason.

    Raises ReaperError if the store fails or the run isn't the caller's; failures of the ledger are in the coverage.
    """
    stored = require_run(context.store, engine)
    decided = _read_handed_over(DECIDED, context, stored)
    if decided is None:
        decide_context = _decide_context(stored, engine, context)
        items = stored.items()
        names = set(context.store.names("observed/"))
        absent = [item.item for item in items if f"observed/{item.item}.json" not in names]
        # For conclude, too: a part that comes later was not decided, and so is not reported.
        context.store.create(MISSING, document_of({number: failures.get(number, NO_REASON) for number in absent}, dict[int, str]))
        missing = _read_missing(context)
        parts = observed_parts(stored, items, context.store, missing)
        decided = decide(parts, decide_context)
        if not context.store.create(DECIDED, handover.dump(decided)):
            decided = _require_decided(context, stored)  # a repeated call was quicker
    targets = _targets_to_act_on(decided)
    for number, target in enumerate(targets):
        context.store.write(_decided_name(number), handover.dump(decided.for_target(target)))
    # The map needs the number only; the rest is for people.
    rows = [{"item": number, "account": target.account, "region": target.region} for number, target in enumerate(targets)]
    context.store.write(ACT_ITEMS, json.dumps(rows))
    return {"run": engine.run, "actions": len(targets)}


def act_on_item(context: WorkflowContext, engine: EngineState, number: int) -> dict[str, Any]:
    """Act on one target and store what was done: `{"run", "item", "actions"}`. Raises CloudError about the store or the run only."""
    from reaper.workflow.acting import act_on_target  # loads the acting code

    stored = require_run(context.store, engine)
    decided = _read_handed_over(_decided_name(number), context, stored)
    if decided is None or len(decided.leased) != 1:
        raise CloudError(Reason.GONE, "workflow", f"{_decided_name(number)} is missing, or isn't about one target")
    [target] = decided.leased
    stored.require_target(target)
    acted = act_on_target(decided.for_target(target), stored, engine, context)
    context.store.write(f"acted/{number}.json", handover.dump(acted))
    return {"run": engine.run, "item": number, "actions": len(acted.outcomes)}


def conclude_run(context: WorkflowContext, engine: EngineState, failures: Mapping[int, str]) -> Report:
    """Send the messages of the run and return its report. `failures`: for each item that act failed on, the reason. Gives the run's lease back.

    The failures of observe are known from the parts that are missing. Once the policy has changed, only outcomes are reported. Raises ReaperError if
    the store fails, the run isn't the caller's, the time is too short, or another process is concluding it by now.
    """
    stored = require_run(context.store, engine)
    decided = _require_decided(context, stored)
    policy, because = current_policy(context, engine.policy_sha256, stored.calendars)
    with lease.claimed(stored, context, lease.open_context(stored, context, policy, because)) as opened:
        missing = _read_missing(context)
        parts = observed_parts(stored, stored.items(), context.store, missing)
        acted = acted_parts(stored, _targets_to_act_on(decided), context.store, failures)
        report = conclude(parts, decided, acted, opened)
    if opened.ledger is not None and stored.run.mode.writes:
        lease.give_back_run_lease(opened.ledger, stored.run.id)
    return report


def _listed(engine: EngineState, items: int, because: str | None = None) -> dict[str, Any]:
    status = "skipped" if because else "listed"
    return {**asdict(engine), "status": status, "items": items, "because": because}


def _decide_context(stored: StoredRun, engine: EngineState, context: WorkflowContext) -> DecideContext:
    """Raises CloudError if another run has taken over: it may have the leases already."""
    policy, because = current_policy(context, engine.policy_sha256, stored.calendars)
    setup = setup_of(stored, context, policy)
    ledger = setup.ledger
    dead_runs: tuple[str, ...] = ()
    if ledger is not None and stored.run.mode.writes:
        held = lease.own_run_lease(ledger, engine.run, engine.execution)
        if held is None:
            raise CloudError(Reason.REFUSED, "decide", TAKEN_OVER)
        dead_runs = held.dead_runs
    return DecideContext(
        policy=policy,
        ledger=ledger,
        clock=context.clock,
        refused_because=because,
        dead_runs=dead_runs,
        archive=open_archive(setup.settings),
    )


def _read_missing(context: WorkflowContext) -> dict[int, str]:
    text = context.store.read(MISSING)
    if text is None:
        raise CloudError(Reason.GONE, "workflow", f"the run isn't whole ({MISSING} is missing)")
    return parse_document(dict[int, str], text, MISSING, operation="workflow")


def _decided_name(number: int) -> str:
    return f"decided/{number}.json"


def _read_handed_over(name: str, context: WorkflowContext, stored: StoredRun) -> Decided | None:
    text = context.store.read(name)
    decided = handover.load_decided(text, name) if text is not None else None
    if decided and decided.run != stored.run:
        raise CloudError(Reason.REFUSED, "workflow", f"{name}: {OTHER_RUN}")
    return decided


def _require_decided(context: WorkflowContext, stored: StoredRun) -> Decided:
    decided = _read_handed_over(DECIDED, context, stored)
    if decided is None:
        raise CloudError(Reason.GONE, "workflow", f"the run wasn't decided ({DECIDED} is missing)")
    return decided


def _targets_to_act_on(decided: Decided) -> list[Target]:
    """Where something is due, in enforce mode. No acting code is loaded below."""
    if not decided.run.mode.acts:
        return []
    from reaper.act import targets_by_cost

    return targets_by_cost(decided)


def observed_parts(
    stored: StoredRun, items: Sequence[RunItem], store: RunStore, missing: Mapping[int, str]
) -> Iterator[Observed]:
    """What each item's step observed, one after the other. A missing or unreadable part is one with failed rows only."""
    for item in items:
        because, part = missing.get(item.item, NO_REASON), None
        try:
            if item.item not in missing:
                part = _read_part(f"observed/{item.item}.json", handover.load_observed, stored, store)
        except ValueError as error:
            because = f"what it observed can't be read ({error})"
        yield part or _missing_part(stored, item, because)


def acted_parts(stored: StoredRun, targets: Sequence[Target], store: RunStore, failures: Mapping[int, str]) -> list[Acted]:
    """What was done in each target. For a missing part, the ledger's intents say what was done, and a row says that it is missing."""
    parts = []
    for number, target in enumerate(targets):
        because, part = failures.get(number, NO_REASON), None
        try:
            part = _read_part(f"acted/{number}.json", handover.load_acted, stored, store)
            if part and part.target != target:
                raise ValueError(f"it is about {part.target.account}")
        except ValueError as error:
            because = f"what it did can't be read ({error})"
        where = f"{target.account} {target.region or ''}".strip()
        row = own_row("acts", f"acting in {where}: {because}; the ledger says which actions were carried out")
        parts.append(part or Acted(run=stored.run, target=target, coverage=(row,)))
    return parts


Part = TypeVar("Part", Observed, Acted)


def _read_part(name: str, load: Callable[[str], Part], stored: StoredRun, store: RunStore) -> Part | None:
    """What a step left, or None. Raises ValueError if it can't be understood or is another run's, CloudError if the store fails."""
    try:
        text = store.read(name)
        part = load(text) if text is not None else None
    except CloudError as error:
        if error.reason is not Reason.UNREADABLE:
            raise
        raise ValueError(str(error)) from error
    if part and part.run != stored.run:
        raise ValueError(OTHER_RUN)
    return part


def _missing_part(stored: StoredRun, item: RunItem, because: str) -> Observed:
    account = stored.account(item.account)
    rows = tuple(
        Coverage(
            cloud=account.cloud,
            account=account.id,
            account_name=account.name,
            region=region,
            kind=kind.name,
            status=Status.FAILED,
            error=f"not read: {because}",
        )
        for region in (item.regions if item.regions and item.regions != ("all",) else (None,))
        for kind in kinds(account.cloud)
        if not stored.kinds or kind.name in stored.kinds
    )
    return Observed(run=stored.run, targets=(), coverage=rows, cases=())
