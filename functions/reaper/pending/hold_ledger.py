"""Holds, jumps and releases in the ledger: what stands now, what a run records, and the release that a person gives."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import sha256

from reaper import limits
from reaper.ledger.port import Ledger
from reaper.ledger.stored_text import comparable_id, target_from_text, target_text
from reaper.ledger.update import update_row, write_until_accepted
from reaper.limits import IdleShare, PlaceCounts, Shares
from reaper.model import Resource, Target
from reaper.pending import holds
from reaper.pending.holds import ALL_ACCOUNTS, HoldRow, HoldRows, KindInTarget, Release

HOLD_ROW = "hold"
"""The row of whole runs. That of an account has its key in the name, too."""
ACTED_ROW = "acted"
"""The row of a target with the last run that acted there and what it acted on, as short digests. The target is in its name, too."""
DIGEST_CHARS = 6
MOST_COUNTED = 4000
"""The most digests in one row: Azure takes 32,000 characters. No run has the time for so many actions in one target."""
MAX_SHARES = 10
"""The number of earlier runs, of any age, that show what is usual."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRows:
    """The rows of some accounts and of whole runs, without what a release has ended: `rows`. `stored`: as they are in the ledger."""

    rows: HoldRows
    stored: HoldRows
    versions: Mapping[str, int]


def row_name(key: str) -> str:
    """The name of the row with that key."""
    return HOLD_ROW if key == ALL_ACCOUNTS else f"{HOLD_ROW} {key}"


def read_hold_rows(ledger: Ledger, targets: Iterable[Target], now: datetime) -> ReadRows:
    """The rows of the targets' accounts, and that of whole runs. Raises CloudError."""
    return _read_rows(ledger, map(holds.account_key, targets), now)


def _read_rows(ledger: Ledger, accounts: Iterable[str], now: datetime) -> ReadRows:
    names = {row_name(key): key for key in (ALL_ACCOUNTS, *accounts)}
    named = {names[name]: row for name, row in ledger.read_rows(names).items()}
    stored = {key: holds.row_from_columns(row.values) for key, row in named.items()}
    return ReadRows(
        rows=holds.settled_rows(stored, now), stored=stored, versions={key: row.version for key, row in named.items()}
    )


def record_rows(ledger: Ledger, rows: HoldRows, before: ReadRows, now: datetime) -> bool:
    """Write the rows that have changed, by version. Returns False if another run wrote one first."""
    changed = [key for key, row in rows.items() if row != before.stored[key]]
    return all(ledger.write_row(row_name(key), holds.row_columns(rows[key]), before.versions[key], now) for key in changed)


def past_shares(ledger: Ledger, counts: PlaceCounts, rows: HoldRows) -> Shares:
    """The usual idle shares of the places, and of the kinds over the run, whose share may be a jump. Raises CloudError."""
    usual_since = {b.place: b.usual_since for row in rows.values() for b in row.breakers}
    possible = [place for each in (counts, limits.counts_over_run(counts)) for place, n in each.items() if limits.can_jump(n)]
    return {place: _usual_shares(ledger, place, usual_since.get(place)) for place in possible}


def release_actions(
    ledger: Ledger, by: str, now: datetime, valid_for: timedelta = limits.RELEASE_FOR, accounts: Collection[str] = ()
) -> Release:
    """Release every action of these accounts (by `account_key`; empty: of all) that was due by `now`. Ends their holds. Raises CloudError.

    In places whose idle share jumped, the usual share is learned from the runs after `now`.
    """
    release = Release(given_at=now, valid_until=now + valid_for, by=by)
    for key in accounts or (ALL_ACCOUNTS,):
        update_row(ledger, row_name(key), lambda row: _released_columns(row.values, release), now)
    return release


def _released_columns(values: Mapping[str, str], release: Release) -> dict[str, str]:
    row = replace(holds.row_from_columns(values), release=release)
    [settled] = holds.settled_rows({ALL_ACCOUNTS: row}, release.given_at).values()
    return holds.row_columns(settled)


def standing_rows(ledger: Ledger, now: datetime, accounts: Collection[str] = ()) -> dict[str, HoldRow]:
    """The rows of these accounts that have something on hold, by `account_key`; empty: those of all, and of whole runs. Raises CloudError."""
    run_row = _read_rows(ledger, (), now).stored[ALL_ACCOUNTS]
    rows = _read_rows(ledger, accounts or run_row.accounts, now).rows
    keys = accounts or rows
    return {key: row for key, row in rows.items() if key in keys and (row.holds or row.jumps)}


def count_action(ledger: Ledger, run: str, resource: Resource, most: int, now: datetime) -> bool:
    """Count an action of the run in the resource's target, once however often it is tried. Returns False if `most` others are counted already.

    Raises CloudError.
    """
    name = f"{ACTED_ROW} {target_text(resource.target)}"
    own = sha256(comparable_id(resource.id).encode()).hexdigest()[:DIGEST_CHARS]

    def attempt() -> bool | None:
        row = ledger.read_row(name)
        counted = row.values.get("ids", "").split() if row.values.get("run") == run else []
        if own in counted or len(counted) >= min(most, MOST_COUNTED):
            return own in counted
        return ledger.write_row(name, {"run": run, "ids": " ".join([*counted, own])}, row.version, now) or None

    return write_until_accepted(attempt, f"the row {name!r}")


def _usual_shares(ledger: Ledger, place: KindInTarget, since: datetime | None) -> list[IdleShare]:
    rows = ledger.statistics(target_from_text(place[0]), place[1], MAX_SHARES)
    return [IdleShare(seen=row.seen, idle=row.idle) for row in rows if since is None or row.started > since]
