"""What was looked at: a map of targets and kinds for each cloud, and every gap in it with the permission that would close it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from reaper.echo import several
from reaper.model import Coverage, Report, Status
from reaper.report import totals
from reaper.report.brief import clean, place

BAD = (Status.DENIED, Status.FAILED, Status.PARTIAL)
"""Worst first."""
NAMED = 6
CALL = re.compile(r"^(?:[a-z0-9-]+:[A-Za-z0-9]+|Microsoft\.[\w./-]+): ")
"""The call that failed, with which an error begins."""
VARIES = re.compile(
    r"arn:\S+|https?://\S+|/subscriptions/\S+|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b\d{12}\b|\b[a-z]{2}(?:-[a-z]+)+-\d\b"
)
"""ARNs, addresses, ids of subscriptions and requests, accounts and regions."""


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

    @property
    def why(self) -> str:
        """`missing sagemaker:ListEndpoints: access denied`, or the error alone."""
        error = clean(self.error, 300).removeprefix(f"{self.missing}: ")
        return f"missing {self.missing}: {error}" if self.missing else error

    @property
    def places(self) -> str:
        """`sagemaker-endpoint in 123456789012 eu-west-1; …; and 3 more`."""
        return "; ".join([*self.where, *([f"and {self.more} more"] if self.more else [])])


def maps(report: Report) -> list[Map]:
    """One map per cloud, by name."""
    asked = totals.lists(report)
    return [_map(cloud, [row for row in asked if row.cloud == cloud]) for cloud in sorted({row.cloud for row in asked})]


def gaps(report: Report) -> list[Gap]:
    """Every trouble with a list once, the worst and the most widespread first."""
    groups: dict[tuple[Status, str | None, str], list[Coverage]] = {}
    for row in totals.gaps(report):
        groups.setdefault((row.status, row.missing, _cause(row)), []).append(row)
    ranked = sorted(groups.items(), key=lambda pair: (BAD.index(pair[0][0]), -len(pair[1])))
    return [_gap(rows) for _, rows in ranked]


def missing(report: Report) -> list[str]:
    """The permissions that are missing somewhere, each once."""
    named = [row.missing for row in report.coverage if row.missing]
    return list(dict.fromkeys(clean(one) for text in named for one in text.split(", ")))


def _gap(rows: Sequence[Coverage]) -> Gap:
    """The first one's words stand for all of them, but for the calls, which are all named."""
    places: dict[str, list[Coverage]] = {}
    for row in rows:
        places.setdefault(place(row.account, row.account_name, row.region), []).append(row)
    named = list(places.items())[:NAMED]
    first, more = rows[0], len(rows) - sum(len(here) for _, here in named)
    kinds = [_kinds(here) for _, here in named]
    return Gap(
        status=first.status,
        missing=first.missing and clean(first.missing, 500),
        error=_error(rows),
        where=tuple(_where(named[i][0], kinds[i], first.cloud, kinds[i] in kinds[:i]) for i in range(len(named))),
        more=more,
    )


def _error(rows: Sequence[Coverage]) -> str:
    """The first one's error; where it was not the same call everywhere, under every call that failed."""
    first, calls = rows[0].error or "", dict.fromkeys(found[0] for row in rows if (found := CALL.match(row.error or "")))
    if len(calls) < 2:
        return clean(first, 500)
    return clean(f"{several([call.removesuffix(': ') for call in calls])}: {CALL.sub('', first)}", 500)


def _kinds(rows: Sequence[Coverage]) -> list[str]:
    return list(dict.fromkeys(clean(row.kind) for row in rows))


def _where(where: str, kinds: Sequence[str], cloud: str, again: bool) -> str:
    """`sagemaker-notebook, sagemaker-endpoint in 123456789012 eu-west-1`; where they are named already, `the same 2 kinds in …`.

    A cloud that could not even be opened has no place.
    """
    if kinds == ["*"]:
        return f"all of {clean(cloud)}"
    said = f"the same {len(kinds)} kinds" if again and len(kinds) > 1 else ", ".join(kinds)
    return f"{said} in {where}"


def _cause(row: Coverage) -> str:
    """The error without what differs from call to call: which one it was, in which place, by which address, and its number."""
    return VARIES.sub("", clean(CALL.sub("", row.error or ""), 500))


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
