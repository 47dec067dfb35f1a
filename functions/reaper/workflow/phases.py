"""The steps of a workflow. Each reads what the step before stored, calls one phase, and stores what it returns.

An engine may repeat any step, also while it still runs elsewhere. So a run is listed and decided once, and each action is made once because
of its row in the ledger, and conclude sends each message once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from reaper import contexts, handover
from reaper.case import Report
from reaper.conclude import conclude
from reaper.decide import decide
from reaper.errors import CloudError, Reason
from reaper.handover import Decided
from reaper.ledger.opening import ensure_format
from reaper.model import Account, Target
from reaper.observe import observe
from reaper.policy.file import load_policy
from reaper.run import new_run
from reaper.sessions import list_accounts, open_account
from reaper.workflow import conclude_claim, reconcile, run_lease
from reaper.workflow.context import WorkflowContext, run_settings, setup_of
from reaper.workflow.run_lease import RUN_LEASE, RunLease
from reaper.workflow.store import ACT_ITEMS, DECIDED, ITEMS, MISSING
from reaper.workflow.stored_run import RunItem, StoredRun, item_of, read_run, require_run, store_items, store_run


def list_targets(context: WorkflowContext, run_id: str, holder: str, is_running: Callable[[str], bool]) -> dict[str, Any]:
    """List what to sweep and store it: `{"run", "status": "listed", "items": 12, "because": null}`.

    Above audit the run takes the ledger's lease. While another execution has it, the status is `skipped`, and `because` says which.
    `is_running`: whether the execution that holds the lease still runs. Raises ReaperError if nothing can be swept.
    """
    if stored := read_run(context.store):
        return _listed(stored, len(store_items(stored, context.store)))
    settings, now = context.settings, context.clock()
    source = load_policy(settings.policy)
    ledger = contexts.conclude_context(settings, source.policy, context.clock).ledger
    contexts.open_archive(settings)
    run = new_run(settings, source, context.clock, run_id)
    with ExitStack() as on_failure:
        if settings.mode.writes and ledger is not None:
            ensure_format(ledger, now)
            wanted = RunLease(run=run_id, holder=holder, until=now + RUN_LEASE)
            if other := run_lease.take_run_lease(ledger, wanted, is_running, now):
                because = f"run {other.run} is still under way ({other.holder})"
                return {"run": run_id, "status": "skipped", "items": 0, "because": because}
            on_failure.callback(run_lease.give_back_run_lease, ledger, run_id, now)
        accounts = _unreached_first(list_accounts(settings, settings.cloud), contexts.read_unreached_accounts(settings, ledger))
        stored = StoredRun(
            run=run,
            policy_name=source.name,
            policy_text=source.text,
            kinds=settings.kinds,
            accounts=tuple(accounts),
        )
        items = store_items(store_run(stored, context.store), context.store)
        on_failure.pop_all()
    return _listed(stored, len(items))


def observe_item(context: WorkflowContext, run_id: str, item: Mapping[str, Any]) -> dict[str, Any]:
    """Observe one item and store it: `{"run", "item", "resources"}`. What can't be read is in the part's coverage."""
    stored, part = require_run(context.store), item_of(item)
    account = _account_of(stored, part)
    setup = setup_of(stored, context)
    sessions, rows = open_account(setup.settings, account, may_act=False)
    observed = observe(stored.run, contexts.observe_context(stored.run, setup, sessions, rows), context.clock())
    context.store.create(f"observed/{part.item}.json", handover.dump(observed))  # a repeated step changes nothing
    return {"run": run_id, "item": part.item, "resources": len(observed.cases)}


def decide_run(context: WorkflowContext, run_id: str, failures: Mapping[int, str]) -> dict[str, Any]:
    """Decide the whole run, once: `{"run", "actions": 3}`, with the number of targets to act on. `failures`: for each failed item, the reason.

    Raises ReaperError if the store fails; failures of the ledger are in the coverage.
    """
    stored = require_run(context.store)
    decided = _read_decided(context)
    if decided is None:
        items = _read_items(context)
        missing = _note_missing(reconcile.missing_items(items, context.store, failures), context)
        parts = reconcile.observed_parts(stored, items, context.store, missing, context.clock())
        decided = decide(parts, contexts.decide_context(setup_of(stored, context)))
        if not context.store.create(DECIDED, handover.dump(decided)):
            decided = _require_decided(context)  # a repeated call was quicker
    targets = _targets_to_act_on(decided)
    for number, target in enumerate(targets):
        context.store.write(f"decided/{number}.json", handover.dump(decided.for_target(target)))
    context.store.write(ACT_ITEMS, json.dumps([_act_item(number, target) for number, target in enumerate(targets)]))
    return {"run": run_id, "actions": len(targets)}


def act_on_item(context: WorkflowContext, run_id: str, item: Mapping[str, Any]) -> dict[str, Any]:
    """Act on one target and store what was done: `{"run", "item", "actions"}`. Never raises CloudError of a cloud: outcomes say it."""
    from reaper.workflow.acting import act_on_target  # loads the acting code

    stored, number = require_run(context.store), int(item["item"])
    target = _target_of(item, stored)
    decided = _read_handed_over(f"decided/{number}.json", context) or _require_decided(context)
    acted = act_on_target(decided.for_target(target), target, stored, context)
    context.store.write(f"acted/{number}.json", handover.dump(acted))
    return {"run": run_id, "item": number, "actions": len(acted.outcomes)}


def conclude_run(context: WorkflowContext, run_id: str, failures: Mapping[int, str]) -> Report:
    """Send the messages of the run and return its report. `failures`: for each item that act failed on, the reason. Gives the run's lease back.

    The failures of observe are known from the parts that are missing. Raises ReaperError if the store fails.
    """
    stored, decided = require_run(context.store), _require_decided(context)
    settings = run_settings(stored, context)
    opened = contexts.conclude_context(settings, stored.policy().policy, context.clock, context.deadline)
    with conclude_claim.claimed(stored.run, opened, context):
        missing = _read_missing(context)
        parts = reconcile.observed_parts(stored, _read_items(context), context.store, missing, context.clock())
        acted = reconcile.acted_parts(stored, _read_act_targets(context, stored), context.store, failures)
        report = conclude(parts, decided, acted, opened)
    if opened.ledger is not None and stored.run.mode.writes:
        run_lease.give_back_run_lease(opened.ledger, stored.run.id, context.clock())
    return report


def _listed(stored: StoredRun, items: int) -> dict[str, Any]:
    return {"run": stored.run.id, "status": "listed", "items": items, "because": None}


def _unreached_first(accounts: list[Account], unreached: frozenset[str]) -> list[Account]:
    return sorted(accounts, key=lambda account: account.id not in unreached)


def _account_of(stored: StoredRun, item: RunItem) -> Account:
    """The account, with the item's regions only."""
    return replace(stored.account(item.account), regions=item.regions)


def _read_items(context: WorkflowContext) -> list[RunItem]:
    return [item_of(item) for item in json.loads(_require_text(ITEMS, context))]


def _note_missing(missing: Mapping[int, str], context: WorkflowContext) -> dict[int, str]:
    """What was missing when the run was decided, for conclude. A part that comes later was not decided, and so is not reported."""
    context.store.create(MISSING, json.dumps({str(item): because for item, because in missing.items()}))
    return _read_missing(context)


def _read_missing(context: WorkflowContext) -> dict[int, str]:
    return {int(item): str(because) for item, because in json.loads(_require_text(MISSING, context)).items()}


def _read_decided(context: WorkflowContext) -> Decided | None:
    return _read_handed_over(DECIDED, context)


def _read_handed_over(name: str, context: WorkflowContext) -> Decided | None:
    text = context.store.read(name)
    try:
        return handover.load_decided(text) if text is not None else None
    except ValueError as error:
        raise CloudError(Reason.UNREADABLE, "workflow", f"{name} can't be read: {error}") from error


def _require_decided(context: WorkflowContext) -> Decided:
    decided = _read_decided(context)
    if decided is None:
        raise CloudError(Reason.GONE, "workflow", f"the run wasn't decided ({DECIDED} is missing)")
    return decided


def _require_text(name: str, context: WorkflowContext) -> str:
    text = context.store.read(name)
    if text is None:
        raise CloudError(Reason.GONE, "workflow", f"the run isn't whole ({name} is missing)")
    return text


def _targets_to_act_on(decided: Decided) -> list[Target]:
    """Where something is due, in enforce mode. No acting code is loaded below."""
    if not decided.run.mode.acts:
        return []
    from reaper.act import targets_by_cost

    return targets_by_cost(decided)


def _act_item(number: int, target: Target) -> dict[str, Any]:
    return {"item": number, "account": target.account, "region": target.region}


def _target_of(item: Mapping[str, Any], stored: StoredRun) -> Target:
    account = stored.account(str(item["account"]))
    return Target(cloud=account.cloud, account=account.id, region=item.get("region"), account_name=account.name)


def _read_act_targets(context: WorkflowContext, stored: StoredRun) -> list[Target]:
    return [_target_of(item, stored) for item in json.loads(_require_text(ACT_ITEMS, context))]
