"""The lease of a whole run: one workflow at a time per ledger. It only saves work: the row versions and intents are what prevents conflicts.

It is a named row of the ledger with the holder: the execution of the workflow. A holder that no longer runs, or whose time is over, has lost it.
A run that takes it over from such a holder may take the leases of that run's targets, too, because no run would give them back.

The engine repeats a step once it has given up on a process, so the latest process has the claim to conclude a run. An earlier one that still runs
stops before its next message. The latest one finds in the ledger what was sent.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from reaper.coverage import failure_row
from reaper.errors import ConcludeTakenOver, SettingsError
from reaper.ledger.ledger import Ledger, update_row
from reaper.ledger.rows import DOCUMENT, NamedRow, document_of, understood
from reaper.model import Time
from reaper.notices.context import ConcludeContext
from reaper.policy.schema import Policy
from reaper.run import conclude_context, open_ledger
from reaper.workflow.stored_run import StoredRun, WorkflowContext, run_settings

LEASE_ROW, CONCLUDE_ROW = "run-lease", "conclude-lease"
RUN_LEASE = timedelta(hours=3)
"""Longer than a run may take: act begins nothing after two hours."""
MAX_DEAD_RUNS = 4
"""Runs that ended without giving their leases back, one after the other. Leases of targets end sooner than that many runs begin."""
CLAIM = timedelta(minutes=30)
"""How long a claim lasts if the process has no deadline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLease:
    """The lease as it stands: the run and the execution that hold it, and when it ends. `dead_runs`: the runs that it was taken over from.

    One that can't be understood is none: it would block every later run.
    """

    run: str
    holder: str
    until: Time
    dead_runs: tuple[str, ...] = ()


def take_run_lease(ledger: Ledger, wanted: RunLease, is_running: Callable[[str], bool], now: datetime) -> RunLease | None:
    """Take the lease, also from a holder that no longer runs. Returns None, or the lease of the run that has it. Raises CloudError."""
    in_the_way: list[RunLease] = []

    def take(row: NamedRow) -> Mapping[str, str] | None:
        other = understood(RunLease, row)
        if other and other.holder != wanted.holder and other.until > now and is_running(other.holder):
            in_the_way.append(other)
            return None
        return {DOCUMENT: document_of(_after(other, wanted))}

    update_row(ledger, LEASE_ROW, take, "the lease of the run")
    return in_the_way[0] if in_the_way else None


def own_run_lease(ledger: Ledger, run: str, holder: str) -> RunLease | None:
    """The lease, if this run has it and this execution is its holder. Raises CloudError."""
    lease = understood(RunLease, ledger.read_row(LEASE_ROW))
    return lease if lease and (lease.run, lease.holder) == (run, holder) else None


def give_back_run_lease(ledger: Ledger, run: str) -> None:
    """Give the lease back if this run still has it. Raises CloudError."""

    def give_back(row: NamedRow) -> Mapping[str, str] | None:
        lease = understood(RunLease, row)
        return {} if lease and lease.run == run else None

    update_row(ledger, LEASE_ROW, give_back, "the lease of the run")


def claim_conclude(ledger: Ledger, claim: RunLease, now: datetime) -> None:
    """Claim a run's messages, even from a process that the engine has given up. Other runs' claims stay. Raises CloudError."""

    def add(row: NamedRow) -> Mapping[str, str]:
        return _claims_row({**_current_claims(row, now), claim.run: claim})

    update_row(ledger, CONCLUDE_ROW, add, "the claim to conclude")


def has_claim(ledger: Ledger, claim: RunLease) -> bool:
    """Whether no other process has claimed to conclude the run since. Raises CloudError."""
    found = _current_claims(ledger.read_row(CONCLUDE_ROW), None).get(claim.run)
    return found is not None and found.holder == claim.holder


def release_conclude(ledger: Ledger, claim: RunLease, now: datetime) -> None:
    """Give the claim back if this process still has it. Raises CloudError."""

    def remove(row: NamedRow) -> Mapping[str, str] | None:
        claims = _current_claims(row, now)
        found = claims.pop(claim.run, None)
        return _claims_row(claims) if found and found.holder == claim.holder else None

    update_row(ledger, CONCLUDE_ROW, remove, "the claim to conclude")


def _after(other: RunLease | None, wanted: RunLease) -> RunLease:
    """The lease that takes the place of another one. A repeated step keeps what it knew of dead runs."""
    if other is None:
        return wanted
    dead_runs = other.dead_runs if other.run == wanted.run else (other.run, *other.dead_runs)
    return replace(wanted, dead_runs=dead_runs[:MAX_DEAD_RUNS])


def _current_claims(row: NamedRow, now: datetime | None) -> dict[str, RunLease]:
    """The claims by run. With `now`, only those that still last."""
    claims = understood(tuple[RunLease, ...], row) or ()
    return {claim.run: claim for claim in claims if now is None or claim.until > now}


def _claims_row(claims: Mapping[str, RunLease]) -> Mapping[str, str]:
    return {DOCUMENT: document_of(tuple(claims.values()), tuple[RunLease, ...])}


def open_context(stored: StoredRun, context: WorkflowContext, policy: Policy, because: str | None) -> ConcludeContext:
    """The context of concluding. `because`: why only outcomes may be reported. Raises SettingsError if no channel can notify owners.

    If only outcomes may be reported, a policy without a channel is a failure in the report: the next run sends the mails.
    """
    settings = run_settings(stored, context)
    try:
        opened = conclude_context(settings, policy, context.clock, context.deadline)
    except SettingsError as error:
        if because is None:
            raise
        failures = (failure_row("policy", error),)
        opened = ConcludeContext(policy=policy, ledger=open_ledger(settings), clock=context.clock, failures=failures)
    return replace(opened, outcomes_only=because)


@contextmanager
def claimed(stored: StoredRun, context: WorkflowContext, opened: ConcludeContext) -> Iterator[ConcludeContext]:
    """Hold the claim while the messages are sent. Before each, the context raises ConcludeTakenOver if the claim is lost, and CloudError if the
    time for messages to owners is over. An audit sends nothing to owners and needs none. Raises CloudError if the ledger fails.
    """
    ledger = opened.ledger
    if ledger is None or not stored.run.mode.writes:
        yield opened
        return
    now = context.clock()
    claim = RunLease(run=stored.run.id, holder=uuid.uuid4().hex, until=context.deadline or now + CLAIM)
    claim_conclude(ledger, claim, now)

    def require_claim() -> None:
        if not has_claim(ledger, claim):
            raise ConcludeTakenOver("another process is concluding this run by now")

    try:
        yield replace(opened, before_message=require_claim, is_repeated=True)
    finally:
        release_conclude(ledger, claim, context.clock())
