"""What idle resources cost by owner and kind, and what each team costs, for the admins' summary. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reaper.case import Finding, Report
from reaper.notices.forecast import NoticeContext
from reaper.notices.item import has_cost, kind_title, rate_text
from reaper.report import summary
from reaper.text import count_noun, tidy_line

MAX_GROUPS = 6
"""Teams, owners and kinds with a line of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCost:
    """What one team, owner or kind has idle.

    `rate`: `$336 a month`; `unpriced` of `count` are not in it. `percent`: the length of its bar, of the most expensive group's; 0 if no
    price is known. `others`: how many groups it combines, 0 for a group of its own. `mixed`: its resources and what of it is idle, if
    it also has others.
    """

    name: str
    count: int
    unpriced: int
    rate: str
    percent: int
    others: int = 0
    mixed: str = ""


def cost_breakdown(report: Report, context: NoticeContext) -> Mapping[str, list[GroupCost]]:
    """What each owner and kind has idle, most expensive first, by heading; and first, with `report.tags`, what each team costs, idle or not."""
    idle, keys = report.idle, report.run.report_tags
    teams = {f"Cost by {tidy_line(key, 60)}, idle or not": summary.team_costs(report, MAX_GROUPS) for key in keys[:1]}
    groups = {
        **teams,
        "Idle cost by owner": summary.groups_by_cost(idle, lambda f: f.owner.address or "no owner address", MAX_GROUPS),
        "Idle cost by kind": summary.groups_by_cost(idle, lambda f: kind_title(f.case.resource.kind), MAX_GROUPS),
    }
    return {heading: [_group_cost(g, same, context, mixed=heading in teams) for g in same] for heading, same in groups.items()}


def _idle_part(findings: Sequence[Finding], context: NoticeContext) -> str:
    idle = summary.idle_money(findings)
    return f"{count_noun(len(findings), 'resource')}, {rate_text(idle, context) if idle.count else 'none'} of it idle"


def _group_cost(
    group: summary.CostGroup, groups: Sequence[summary.CostGroup], context: NoticeContext, *, mixed: bool
) -> GroupCost:
    """Resources without a price count, but not as money."""
    top = max((each.money.usd_per_hour for each in groups if not each.others), default=0.0)
    money, name = group.money, f"and {group.name}" if group.others else tidy_line(group.name, 60) or "(no name)"
    has_bar = top and money.unpriced < money.count
    return GroupCost(
        name=name,
        count=money.count,
        unpriced=money.unpriced if has_cost(money) else 0,
        rate=rate_text(money, context),
        percent=min(100, max(1, round(100 * money.usd_per_hour / top))) if has_bar else 0,
        others=group.others,
        mixed=_idle_part(group.findings, context) if mixed else "",
    )
