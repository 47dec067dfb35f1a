"""The lease of a whole run: one workflow at a time per ledger. Rows and intents prevent conflicts; the lease saves a run that would find none free.

It is a named row of the ledger with the holder: the execution of the workflow. A holder that no longer runs, or whose time is over, has lost it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from reaper.ledger.port import Ledger, NamedRow
from reaper.ledger.stored_text import parse_time, sortable_time
from reaper.ledger.update import write_until_accepted

LEASE_ROW, CONCLUDE_ROW = "run-lease", "conclude-lease"
CLAIMS_COLUMN = "claims"
RUN_LEASE = timedelta(hours=3)
"""Longer than a run may take: act begins nothing after two hours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLease:
    """The lease as it stands: the run and the execution that hold it, and when it ends."""

    run: str
    holder: str
    until: datetime


def take_run_lease(ledger: Ledger, wanted: RunLease, is_running: Callable[[str], bool], now: datetime) -> RunLease | None:
    """Take the lease, also from a holder that no longer runs. Returns the lease in the way, or None once it is taken. Raises CloudError."""
    in_the_way: list[RunLease] = []

    def attempt() -> bool | None:
        row = ledger.read_row(LEASE_ROW)
        other = _lease_of(row)
        if other and other.holder != wanted.holder and other.until > now and is_running(other.holder):
            in_the_way.append(other)
            return True
        return ledger.write_row(LEASE_ROW, _row_of(wanted), row.version, now) or None

    write_until_accepted(attempt, "the lease of the run")
    return in_the_way[0] if in_the_way else None


def give_back_run_lease(ledger: Ledger, run: str, now: datetime) -> None:
    """Give the lease back if this run still has it. Raises CloudError."""

    def attempt() -> bool | None:
        row = ledger.read_row(LEASE_ROW)
        lease = _lease_of(row)
        return lease is None or lease.run != run or ledger.write_row(LEASE_ROW, {}, row.version, now) or None

    write_until_accepted(attempt, "the lease of the run")


def claim_conclude(ledger: Ledger, claim: RunLease, now: datetime) -> bool:
    """Claim the sending of a run's messages for one process. Returns False while another one has it. Raises CloudError.

    An engine may repeat a step while it still runs elsewhere; without the claim both would send. The row has the claims of all runs: that of
    another run may be under way, and must not be lost.
    """

    def attempt() -> tuple[bool] | None:
        row = ledger.read_row(CONCLUDE_ROW)
        claims = _current_claims(row, now)
        other = claims.get(claim.run)
        if other and other.holder != claim.holder:
            return (False,)
        return (True,) if ledger.write_row(CONCLUDE_ROW, _claims_row({**claims, claim.run: claim}), row.version, now) else None

    return write_until_accepted(attempt, "the claim to conclude")[0]


def release_conclude(ledger: Ledger, claim: RunLease, now: datetime) -> None:
    """Give the claim back if this process still has it. Raises CloudError."""

    def attempt() -> bool | None:
        row = ledger.read_row(CONCLUDE_ROW)
        claims = _current_claims(row, now)
        found = claims.pop(claim.run, None)
        if found is None or found.holder != claim.holder:
            return True
        return ledger.write_row(CONCLUDE_ROW, _claims_row(claims), row.version, now) or None

    write_until_accepted(attempt, "the claim to conclude")


def _current_claims(row: NamedRow, now: datetime) -> dict[str, RunLease]:
    """The claims that still last, by run. One that can't be understood is none."""
    try:
        claims = [_lease_in(values) for values in json.loads(row.values.get(CLAIMS_COLUMN, "[]"))]
    except (ValueError, TypeError):
        return {}
    return {claim.run: claim for claim in claims if claim and claim.until > now}


def _claims_row(claims: Mapping[str, RunLease]) -> Mapping[str, str]:
    return {CLAIMS_COLUMN: json.dumps([_row_of(claim) for claim in claims.values()])}


def _row_of(lease: RunLease) -> Mapping[str, str]:
    return {"run": lease.run, "holder": lease.holder, "until": sortable_time(lease.until)}


def _lease_of(row: NamedRow) -> RunLease | None:
    """The lease in the row. One that can't be understood is none: it would block every later run."""
    return _lease_in(row.values)


def _lease_in(values: Mapping[str, str]) -> RunLease | None:
    try:
        return RunLease(run=values["run"], holder=values["holder"], until=parse_time(values["until"]))
    except (KeyError, ValueError, TypeError):
        return None
