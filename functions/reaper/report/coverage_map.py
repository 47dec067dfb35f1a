"""Coverage: a map of targets and kinds for each cloud, and every gap with the permission that would close it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from reaper.case import Coverage
from reaper.coverage import UNKNOWN_ACCOUNT
from reaper.finding import Finding, Report
from reaper.model import Status, Target
from reaper.text import clean_line, first_few

WORST_FIRST = (Status.DENIED, Status.FAILED, Status.PARTIAL, Status.OK)
MAX_NAMED = 6
CALL_PREFIX = re.compile(r"^(?:[a-z0-9-]+:[A-Za-z0-9]+|Microsoft\.[\w./-]+): ")
"""The failed call at the beginning of an error."""
VARYING_PARTS = re.compile(
    r"arn:\S+|https?://\S+|/subscriptions/\S+|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b\d{12}\b|\b[a-z]{2}(?:-[a-z]+)+-\d\b"
)
"""ARNs, addresses, IDs of subscriptions and requests, accounts and regions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MapRow:
    """One target: a cell per kind of its map, None if that kind wasn't read there. `account`: the ID, if `name` is a name."""

    name: str
    account: str | None
    cells: Sequence[Coverage | None]
    gaps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverageMap:
    """One cloud. `places` has those with gaps first."""

    cloud: str
    kinds: Sequence[str]
    places: Sequence[MapRow]


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverageGap:
    """One problem in all places where it occurred: `sagemaker-endpoint in 123456789012 eu-west-1; …; and 3 more`.

    `reason`: the error without the permission that it begins with. `why`: that permission and the reason, or the error alone.
    """

    status: Status
    missing: str | None
    error: str
    reason: str
    why: str
    places: str


def coverage_maps(report: Report) -> list[CoverageMap]:
    """One map per cloud, by name. Of several rows about one place and kind, the worst counts."""
    maps = []
    for cloud in sorted({row.cloud for row in report.cloud_rows}):
        rows = [row for row in report.cloud_rows if row.cloud == cloud]
        kinds = sorted({row.kind for row in rows})
        names = {row.account: row.account_name for row in rows if row.account_name}
        cells: dict[tuple[str, str | None], dict[str, Coverage]] = {}
        for row in rows:
            here = cells.setdefault((row.account, row.region), {})
            known = here.get(row.kind)
            if known is None or known.status is Status.OK or WORST_FIRST.index(row.status) < WORST_FIRST.index(known.status):
                here[row.kind] = row
        places = [
            MapRow(
                name=clean_line(f"{names.get(account, account)} {region or ''}".strip()),
                account=clean_line(account) if account in names else None,
                cells=[*map(here.get, kinds)],
                gaps=sum(cell.status is not Status.OK for cell in here.values()),
            )
            for (account, region), here in cells.items()
        ]
        places.sort(key=lambda place: (-place.gaps, place.name))
        maps.append(CoverageMap(cloud=cloud, kinds=[*map(clean_line, kinds)], places=places))
    return maps


def coverage_gaps(report: Report) -> list[CoverageGap]:
    """Every problem once, the worst and most widespread first."""
    groups: dict[tuple[Status, str | None, str], list[Coverage]] = {}
    for row in report.gaps:
        error = VARYING_PARTS.sub("", clean_line(CALL_PREFIX.sub("", row.error or ""), 500))  # without what differs between calls
        groups.setdefault((row.status, row.missing, error), []).append(row)
    ranked = sorted(groups.items(), key=lambda pair: (WORST_FIRST.index(pair[0][0]), -len(pair[1])))
    return [_coverage_gap(rows) for _, rows in ranked]


def missing_permissions(report: Report) -> list[str]:
    """The missing permissions, each once."""
    named = [row.missing for row in report.coverage if row.missing]
    return list(dict.fromkeys(clean_line(name) for text in named for name in text.split(", ")))


def _coverage_gap(rows: Sequence[Coverage]) -> CoverageGap:
    """The error of the first row, with the calls of all of them."""
    by_place: dict[str, list[Coverage]] = {}
    for row in rows:
        by_place.setdefault(place_text(row.account, row.account_name, row.region), []).append(row)
    named = list(by_place.items())[:MAX_NAMED]
    first, more = rows[0], len(rows) - sum(len(here) for _, here in named)
    kinds = [list(dict.fromkeys(clean_line(row.kind) for row in here)) for _, here in named]
    places = [_gap_place(where, kinds[i], first.cloud, kinds[i] in kinds[:i]) for i, (where, _) in enumerate(named)]
    missing, error = first.missing and clean_line(first.missing, 500), _error_text(rows)
    reason = clean_line(error, 300).removeprefix(f"{missing}: ")
    return CoverageGap(
        status=first.status,
        missing=missing,
        error=error,
        reason=reason,
        why=f"missing {missing}: {reason}" if missing else reason,
        places="; ".join([*places, *([f"and {more} more"] if more else [])]),
    )


def _error_text(rows: Sequence[Coverage]) -> str:
    """The error of the first row; if several calls failed, after the names of all of them."""
    first, calls = rows[0].error or "", dict.fromkeys(match[0] for row in rows if (match := CALL_PREFIX.match(row.error or "")))
    if len(calls) < 2:
        return clean_line(first, 500)
    return clean_line(f"{first_few([call.removesuffix(': ') for call in calls])}: {CALL_PREFIX.sub('', first)}", 500)


def _gap_place(where: str, kinds: Sequence[str], cloud: str, again: bool) -> str:
    """`sagemaker-notebook, sagemaker-endpoint in 123456789012 eu-west-1`, or if they are already named, `the same 2 kinds in …`.

    A cloud that couldn't even be opened has no place.
    """
    if where == UNKNOWN_ACCOUNT or kinds == ["*"]:
        return f"all of {clean_line(cloud) if where == UNKNOWN_ACCOUNT else where}"
    named = f"the same {len(kinds)} kinds" if again and len(kinds) > 1 else ", ".join(kinds)
    return f"{named} in {where}"


def locations(findings: Iterable[Finding]) -> dict[tuple[Target, str], str]:
    """The regions of the findings by target and region, with the account in front if there are several of that cloud."""
    resources = [finding.case.resource for finding in findings]
    names = {r.target.account: r.target.account_name for r in resources if r.target.account_name}
    accounts = Counter(cloud for cloud, _ in {(r.target.cloud, r.target.account) for r in resources})
    prefixes = {
        r.target: f"{names.get(r.target.account, r.target.account)} " if accounts[r.target.cloud] > 1 else "" for r in resources
    }
    return {(r.target, r.region): clean_line(f"{prefixes[r.target]}{r.region}") for r in resources}


def place_text(account: str, name: str | None, region: str | None) -> str:
    """A place: `123456789012 us-east-1`, or with a name `Planning (22222222-2222-…) eastus`."""
    where = f"{clean_line(name)} ({account})" if name else account
    return clean_line(f"{where} {region or ''}".strip(), 300)
