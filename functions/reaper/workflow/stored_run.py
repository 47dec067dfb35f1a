"""A run as its workflow stores it: what every later step needs, written once when the targets are listed.

It is stored under its own hash, which the engine carries from step to step. So a step believes the store only what the run itself listed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256

from reaper import handover
from reaper.calendars.calendar import Calendar
from reaper.errors import CloudError, ReaperError, Reason
from reaper.ledger.rows import adapter, document_of, parse_document
from reaper.model import Account, Run, Target
from reaper.policy.file import POLICY_CHANGED, load_policy
from reaper.policy.schema import Policy
from reaper.run import RunSetup, no_progress, open_ledger
from reaper.settings import Settings
from reaper.workflow.store import ITEMS, RUN_PREFIX, RunStore


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowContext:
    """The deployment's settings, of one cloud; the store of the run; and when the process will be ended.

    `list_targets` takes the settings as a call narrowed them. The later steps take mode and kinds from the stored run.
    """

    settings: Settings
    store: RunStore
    clock: Callable[[], datetime]
    deadline: datetime | None = None
    progress: Callable[[str], None] = no_progress
    wait: Callable[[float], None] = time.sleep


def current_policy(context: WorkflowContext, policy_sha256: str, calendars: Iterable[Calendar] = ()) -> tuple[Policy, str | None]:
    """The policy as it is now, with the calendars as the run read them, and why the run can't go by it: it has changed, or it can't be read. Then it is the built-in one."""
    try:
        source = load_policy(context.settings.policy)
    except ReaperError as error:
        return load_policy(None).policy, f"the policy can't be read: {error}"
    return source.policy.with_calendars(
        {each.name: each for each in calendars}
    ), None if source.sha256 == policy_sha256 else POLICY_CHANGED


def run_settings(stored: StoredRun, context: WorkflowContext) -> Settings:
    """The deployment's settings, with the mode and the kinds of this run."""
    return replace(context.settings, mode=stored.run.mode, kinds=stored.kinds)


def setup_of(stored: StoredRun, context: WorkflowContext, policy: Policy) -> RunSetup:
    """What the contexts of the phases share."""
    settings = run_settings(stored, context)
    return RunSetup(
        run=stored.run,
        settings=settings,
        policy=policy,
        ledger=open_ledger(settings),
        clock=context.clock,
        progress=context.progress,
        deadline=context.deadline,
        observe_share=handover.SHARE_OF_STEP,
    )


REGIONS_PER_ITEM = 4
"""Regions that one step reads. A region of 50,000 endpoints takes most of a function's 15 minutes, an ordinary one a few seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineState:
    """What the engine itself carries: the run, the execution that it is, and the hashes of its policy and of what it listed."""

    run: str
    execution: str
    policy_sha256: str
    listed_sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunItem:
    """One step of observing: an account, or some of its regions."""

    item: int
    account: str
    regions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """A run, its execution, kinds, accounts and calendars as it read them. It contains no secret and no external ID."""

    run: Run
    execution: str
    kinds: tuple[str, ...]
    accounts: tuple[Account, ...]
    calendars: tuple[Calendar, ...] = ()

    def account(self, account_id: str) -> Account:
        """The account of that ID. Raises CloudError if the run has none."""
        account = next((account for account in self.accounts if account.id == account_id), None)
        if account is None:
            raise _refused(f"account {account_id!r} isn't part of run {self.run.id}")
        return account

    def items(self) -> list[RunItem]:
        """The items in the order of the accounts. An item's number is its index."""
        starts = [(a, start) for a in self.accounts for start in range(0, max(1, len(a.regions)), REGIONS_PER_ITEM)]
        groups = [(account.id, account.regions[start : start + REGIONS_PER_ITEM]) for account, start in starts]
        return [RunItem(item=number, account=account, regions=group) for number, (account, group) in enumerate(groups)]

    def item(self, number: int) -> RunItem:
        """The item of that number. Raises CloudError if the run has none."""
        items = self.items()
        if not 0 <= number < len(items):
            raise _refused(f"run {self.run.id} has no item {number}")
        return items[number]

    def require_target(self, target: Target) -> None:
        """Raises CloudError if the target is outside what the run sweeps."""
        account = self.account(target.account)
        in_regions = not account.regions or not {"all", target.region}.isdisjoint(account.regions)
        if account.cloud != target.cloud or not in_regions:
            raise _refused(f"{target.account} {target.region or ''} isn't part of run {self.run.id}")


def store_run(stored: StoredRun, store: RunStore) -> EngineState:
    """Write the run and its items. Returns what the engine has to carry: a repeated step may have listed something else. Raises CloudError."""
    text = document_of(stored)
    digest = sha256(text.encode()).hexdigest()
    store.create(f"{RUN_PREFIX}{digest}.json", text)
    # The map needs the number only; the rest is for people.
    store.write(ITEMS, adapter(list[RunItem]).dump_json(stored.items()).decode())
    return EngineState(
        run=stored.run.id, execution=stored.execution, policy_sha256=stored.run.policy_sha256, listed_sha256=digest
    )


def require_run(store: RunStore, engine: EngineState) -> StoredRun:
    """The run that the engine is carrying out. Raises CloudError if the store hasn't exactly what the run listed."""
    name = f"{RUN_PREFIX}{engine.listed_sha256}.json"
    text = store.read(name)
    if text is None:
        raise CloudError(Reason.GONE, "workflow", f"the run isn't in its store ({name} is missing)")
    if sha256(text.encode()).hexdigest() != engine.listed_sha256:
        raise _refused(f"{name} was changed since the run was listed")
    stored = parse_document(StoredRun, text, name, operation="workflow")
    if (stored.run.id, stored.execution, stored.run.policy_sha256) != (engine.run, engine.execution, engine.policy_sha256):
        raise _refused(f"run {stored.run.id} of {stored.execution} isn't the run that called, {engine.run} of {engine.execution}")
    return stored


def _refused(because: str) -> CloudError:
    return CloudError(Reason.REFUSED, "workflow", because)
