"""What was looked at: a map of targets and kinds for each cloud, and every gap in it with the permission that would close it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from reaper.model import Coverage, Report, Status
from reaper.report import totals
from reaper.report.summary import clean, place

BAD = (Status.DENIED, Status.FAILED, Status.PARTIAL)
"""Worst first."""
NAMED = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One target: a cell per kind of its map, None where that kind was not asked for there. `account` is the id of one that has a name."""

    name: str
    account: str | None
    cells: tuple[Coverage | None, ...]
    gaps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Map:
    """One cloud. `places` has those with gaps first."""

    cloud: str
    kinds: tuple[str, ...]
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """The same trouble wherever it was met; `more` counts the lists that are not named."""

    status: Status
    missing: str | None
    error: str
    where: tuple[str, ...]
    more: int


def maps(report: Report) -> list[Map]:
    """One map per cloud, by name."""
    asked = totals.lists(report)
    return [_map(cloud, [row for row in asked if row.cloud == cloud]) for cloud in sorted({row.cloud for row in asked})]


def gaps(report: Report) -> list[Gap]:
    """Every trouble with a list once, the worst and the most widespread first."""
    groups: dict[tuple[Status, str | None, str], list[Coverage]] = {}
    for row in totals.gaps(report):
        groups.setdefault((row.status, row.missing, clean(row.error or "", 500)), []).append(row)
    ranked = sorted(groups.items(), key=lambda pair: (BAD.index(pair[0][0]), -len(pair[1])))
    return [_gap(*key, rows) for key, rows in ranked]


def missing(report: Report) -> list[str]:
    """The permissions that are missing somewhere, each once."""
    named = [row.missing for row in report.coverage if row.missing]
    return list(dict.fromkeys(clean(one) for text in named for one in text.split(", ")))


def _gap(status: Status, lacks: str | None, error: str, rows: Sequence[Coverage]) -> Gap:
    where = tuple(f"{clean(row.kind)} in {place(row.account, row.account_name, row.region)}" for row in rows[:NAMED])
    return Gap(status=status, missing=lacks and clean(lacks, 500), error=error, where=where, more=len(rows) - len(where))


def _map(cloud: str, rows: Sequence[Coverage]) -> Map:
    kinds = tuple(sorted({row.kind for row in rows}))
    names = {row.account: row.account_name for row in rows if row.account_name}
    cells: dict[tuple[str, str | None], dict[str, Coverage]] = {}
    for row in rows:
        here = cells.setdefault((row.account, row.region), {})
        here[row.kind] = _worse(here.get(row.kind), row)
    places = [
        _placed(names.get(account), account, region, [here.get(k) for k in kinds]) for (account, region), here in cells.items()
    ]
    return Map(cloud=cloud, kinds=tuple(clean(k) for k in kinds), places=tuple(sorted(places, key=lambda p: (-p.gaps, p.name))))


def _placed(name: str | None, account: str, region: str | None, cells: Iterable[Coverage | None]) -> Place:
    found = tuple(cells)
    return Place(
        name=clean(f"{name or account} {region or ''}".strip()),
        account=clean(account) if name else None,
        cells=found,
        gaps=sum(1 for cell in found if cell and cell.status is not Status.OK),
    )


def _worse(one: Coverage | None, other: Coverage) -> Coverage:
    return (
        one
        if one and one.status in BAD and (other.status not in BAD or BAD.index(one.status) <= BAD.index(other.status))
        else other
    )
