"""Holds and releases in the ledger: what is on hold now, what a run puts on hold, and the release that a person gives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from reaper import limits
from reaper.actions import holds
from reaper.actions.holds import Hold, KindInTarget, LimitName, Release
from reaper.case import Case
from reaper.ledger.port import Ledger, RunStatistics
from reaper.ledger.update import update_row, write_until_accepted
from reaper.limits import IdleShare, PastRuns
from reaper.model import Memory, Target

HOLD_ROW, RELEASE_ROW = "hold", "release"
"""The rows of the ledger with what is on hold and the last release. Ledgers of 49f8b6c had both in the history."""
OLDER_HOLDS, OLDER_RELEASE = "holds", "release"
"""The IDs that they have in such a ledger's history."""
MAX_SHARES = 10
"""The number of earlier runs, of any age, that show what is usual."""
Places = Mapping[KindInTarget, tuple[Target, str]]
"""The target and kind of each place."""


def current_holds(ledger: Ledger) -> list[Hold]:
    """What is on hold now. Raises CloudError."""
    return holds_with_version(ledger)[0]


def hold_over(ledger: Ledger, case: Case, memory: Memory, now: datetime) -> Hold | None:
    """A hold on stopping or deleting this resource that no release covers; None if there is none. Raises CloudError.

    A run decides under the holds that stand then. Another run may have found a limit exceeded since.
    """
    standing = [hold for hold in current_holds(ledger) if holds.covers_case(hold, case)]
    if not standing or limits.is_released(case, memory, _last_release(ledger, now), now):
        return None
    return standing[0]


def holds_with_version(ledger: Ledger) -> tuple[list[Hold], int]:
    """What is on hold and the row's version; 0 if there is no row yet, because an earlier version recorded it elsewhere."""
    row = ledger.read_row(HOLD_ROW)
    return (holds.holds_from_row(row.values) if row.version else _older_holds(ledger)), row.version


def record_holds(ledger: Ledger, standing: Sequence[Hold], before: Sequence[Hold], version: int, now: datetime) -> bool:
    """Record what is on hold, by version. Returns False if another run wrote first.

    The first run writes the row even if nothing is on hold, so that no later one looks into the history.
    """
    return (version > 0 and set(standing) == set(before)) or ledger.write_row(HOLD_ROW, holds.holds_row(standing), version, now)


def past_runs(ledger: Ledger, standing: Sequence[Hold], places: Places, now: datetime) -> PastRuns:
    """What earlier runs and people recorded about these places. Raises CloudError."""
    release = _last_release(ledger, now)
    usual_since = release.usual_since if release else {}
    shares = {
        place: [IdleShare(seen=s.seen, idle=s.idle) for s in _usual_statistics(ledger, *target_and_kind, usual_since.get(place))]
        for place, target_and_kind in places.items()
    }
    return PastRuns(shares=shares, holds=standing, release=release)


def release_hold(ledger: Ledger, by: str, now: datetime, valid_for: timedelta = limits.RELEASE_FOR) -> Release:
    """Release every action that was due by `now`, and remove the holds. Raises CloudError.

    In places whose idle share jumped, the usual share is learned from the runs after `now`.
    """
    release = _record_release(ledger, by, now, valid_for)
    update_row(ledger, HOLD_ROW, lambda row: holds.holds_row([]), now)
    return release


def jumped_places(standing: Iterable[Hold]) -> Mapping[KindInTarget, Hold]:
    """The places on hold because their idle share jumped."""
    return {place: hold for hold in standing if hold.limit is LimitName.JUMP for place in holds.covered_places(hold)}


def _older_holds(ledger: Ledger) -> list[Hold]:
    entries, releases = ledger.history(OLDER_HOLDS), ledger.history(OLDER_RELEASE)
    if not entries or (releases and entries[-1].when <= releases[-1].when):
        return []
    return [holds.older_hold(entries[-1].because, entries[-1].by, entries[-1].when)]


def _last_release(ledger: Ledger, now: datetime) -> Release | None:
    """The last release, unless a wrong clock dated it later than now."""
    release = holds.release_from_row(ledger.read_row(RELEASE_ROW).values)
    return release if release and release.given_at <= now else None


def _record_release(ledger: Ledger, by: str, now: datetime, valid_for: timedelta) -> Release:
    def attempt() -> Release | None:
        row = ledger.read_row(RELEASE_ROW)
        last = holds.release_from_row(row.values)
        jumped = dict.fromkeys(jumped_places(current_holds(ledger)), now)
        usual_since = {**(last.usual_since if last else {}), **jumped}
        release = Release(given_at=now, valid_until=now + valid_for, by=by, usual_since=usual_since)
        return release if ledger.write_row(RELEASE_ROW, holds.release_row(release), row.version, now) else None

    return write_until_accepted(attempt, f"the row {RELEASE_ROW!r}")


def _usual_statistics(ledger: Ledger, target: Target, kind: str, since: datetime | None) -> list[RunStatistics]:
    """The last runs that show what is usual in a place. Older ledgers also have rows of runs that saw a jump, of any number."""
    limit = MAX_SHARES
    while True:
        rows = ledger.statistics(target, kind, limit)
        usual = [row for row in rows if not row.was_jump and row.seen and (since is None or row.started > since)][:MAX_SHARES]
        if len(usual) == MAX_SHARES or len(rows) < limit or (since and rows[-1].started <= since):
            return usual
        limit *= 10
