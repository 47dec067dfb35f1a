"""What each team, owner and kind has idle, most expensive first, for the admins' summary. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from reaper.case import Finding
from reaper.notices.item import amount_text, kind_title
from reaper.text import tidy_line

MAX_GROUPS = 6
TEAM_TAGS = ("team", "cost-center", "costcenter", "department")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCost:
    """What one team, owner or kind has idle.

    `cost`: dollars an hour, empty if unknown; `unpriced` of `count` are not in it. `percent`: the length of its bar, of the most expensive
    group's; 0 if no price is known. `others`: how many groups it combines, 0 for a group of its own.
    """

    name: str
    count: int
    unpriced: int
    cost: str
    percent: int
    others: int = 0


def cost_breakdown(idle: Sequence[Finding]) -> Mapping[str, list[GroupCost]]:
    """The groups by heading: `Team`, `Owner`, `Kind`."""
    return {"Team": _group_costs(idle, _team_of), "Owner": _group_costs(idle, _owner_of), "Kind": _group_costs(idle, _kind_of)}


def usd_per_hour(findings: Iterable[Finding]) -> float:
    """Dollars an hour of those that have a price."""
    return sum(f.price.usd_per_hour for f in findings if f.price)


def unpriced_count(findings: Iterable[Finding]) -> int:
    """How many have no price."""
    return sum(1 for f in findings if f.price is None)


def cost_text(findings: Sequence[Finding], hours: float = 1) -> str:
    """What they cost in so many hours, `at least` if a price is missing; empty if no price is known."""
    unpriced = unpriced_count(findings)
    return amount_text(usd_per_hour(findings) * hours, unpriced) if unpriced < len(findings) else ""


def _group_costs(idle: Sequence[Finding], group_of: Callable[[Finding], str]) -> list[GroupCost]:
    """The most expensive groups, and one entry for all others; resources without a price count, but not as money."""
    groups: dict[str, list[Finding]] = defaultdict(list)
    for finding in idle:
        groups[group_of(finding)].append(finding)
    sums = {name: usd_per_hour(group) for name, group in groups.items()}
    top = max(sums.values(), default=0.0)
    names = sorted(groups, key=lambda name: (-sums[name], name))
    shown = len(names) if len(names) <= MAX_GROUPS + 1 else MAX_GROUPS
    parts = [(tidy_line(name, 60) or "(no name)", [name], 0) for name in names[:shown]]
    if rest := names[shown:]:
        parts.append((f"and {len(rest)} others", rest, len(rest)))
    return [_group_cost(label, [f for name in members for f in groups[name]], others, top) for label, members, others in parts]


def _group_cost(name: str, findings: Sequence[Finding], others: int, top: float) -> GroupCost:
    """`top`: the dollars an hour of the most expensive group."""
    usd, unpriced = usd_per_hour(findings), unpriced_count(findings)
    percent = min(100, max(1, round(100 * usd / top))) if top and unpriced < len(findings) else 0
    return GroupCost(name=name, count=len(findings), unpriced=unpriced, cost=cost_text(findings), percent=percent, others=others)


def _team_of(finding: Finding) -> str:
    tags = {key.lower(): value.strip() for key, value in (finding.case.resource.tags or {}).items()}
    return next((tags[key] for key in TEAM_TAGS if tags.get(key)), "no team")


def _owner_of(finding: Finding) -> str:
    return finding.owner.address or "no owner address"


def _kind_of(finding: Finding) -> str:
    return kind_title(finding.case.resource.kind)
