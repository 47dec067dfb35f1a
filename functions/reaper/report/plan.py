"""A table of planned actions for a terminal: what would be done and where, its owner, what it saves, and why the rest is on hold.

`reaper plan` shows it, `reaper apply` asks for it and shows it again with the results.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from rich.text import Text

from reaper import registry
from reaper.finding import Finding
from reaper.model import ACTIONS, Mode, StepName
from reaper.pending.plan_file import ActionRow, AppliedAction, PlanFile
from reaper.report import summary
from reaper.report.coming import ComingAction, coming_actions, coming_sentence
from reaper.report.table import INDENT, REASON, Row, table_lines, wrap
from reaper.report.text import ACTION_STAGES, hold_lines, resource_cells, title_lines
from reaper.text import DOLLARS, Currency, clean_line, count_noun, first_few, format_day, format_usd

COMING_STAGES = (("owner", 20), ("resource", 24), ("region", 0), ("owner", 0), ("resource", 14), ("kind", 0), ("resource", 8))
"""What shrinks in the table of coming actions, first to last."""


def plan_lines(plan: PlanFile, width: int, currency: Currency = DOLLARS) -> Iterator[Text]:
    """The totals, what is due, and what is on hold, by reason."""
    due, several = plan.actions_by_id.values(), _has_several_accounts(plan)
    yield from wrap(Text(totals_text((*due, *plan.held), len(plan.held), currency), style="bold"), width)
    if due:
        yield from title_lines(f"Due ({len(due)})")
        yield from table_lines([_row(action, several, currency) for action in due], ACTION_STAGES, width)
    if plan.held:
        yield from title_lines(f"On hold ({len(plan.held)})", "bold red")
        groups = summary.hold_groups(plan.held, lambda action: action.hold_reasons)
        yield from hold_lines(groups, lambda action: _row(action, several, currency), width)


def coming_lines(findings: Sequence[Finding], width: int, currency: Currency = DOLLARS) -> Iterator[Text]:
    """What the policy leads to later, by date, and what blocks the rest, by reason; the totals are before limits and with what is due."""
    rate, whole = partial(_rate, currency=currency), coming_actions(findings)
    later = coming_actions(f for f in findings if f.step.name not in {*ACTIONS, StepName.HOLD})
    if later.dated:
        yield from title_lines(f"Coming ({len(later.dated)})")
        yield from table_lines([_coming_row(each, currency) for each in later.dated], COMING_STAGES, width)
    if later.blocked:
        count = sum(len(group.findings) for group in later.blocked)
        yield from title_lines(f"Idle, but blocked ({count})")
        for group in later.blocked:
            could = f" The best possible actions would save {rate(group.could_usd_per_hour)}." if group.could_usd_per_hour else ""
            yield from wrap(f"{count_noun(len(group.findings), 'resource')}: {group.because}.{could}", width)
            yield from wrap(
                Text(first_few([clean_line(f.case.resource.name) for f in group.findings]), style="dim"), width, INDENT
            )
    if whole.dated:
        yield Text()
        yield from wrap(f"{coming_sentence(whole, Mode.AUDIT, rate)}, before limits.", width)


def result_lines(plan: PlanFile, results: Sequence[AppliedAction], width: int, currency: Currency = DOLLARS) -> Iterator[Text]:
    """The result of each action of the plan. Why one wasn't carried out isn't in the table."""
    several = _has_several_accounts(plan)
    rows = [
        {
            "result": each.result,
            **_row(each.action, several, currency),
            REASON: clean_line(each.because, 500) if each.is_done else "",
        }
        for each in results
    ]
    yield from table_lines(rows, ACTION_STAGES, width)


def totals_text(actions: Sequence[ActionRow], on_hold: int = 0, currency: Currency = DOLLARS) -> str:
    """`3 stops, 1 scale-in, 1 delete; they save $61.20 an hour. 2 of them are on hold.`"""
    if not actions:
        return "No actions are due."
    saves = [action.saves_usd_per_hour for action in actions if action.saves_usd_per_hour is not None]
    unknown = len(actions) - len(saves)
    money = _rate(sum(saves), currency) if saves else "an unknown amount"
    more = f" ({unknown} more: price unknown)" if saves and unknown else ""
    held = (
        f" {'All' if on_hold == len(actions) else on_hold} of them {'is' if on_hold == 1 else 'are'} on hold." if on_hold else ""
    )
    return f"{counts_text(actions)}; saving {money}{more}.{held}"


def counts_text(actions: Iterable[ActionRow]) -> str:
    """`3 stops, 1 scale-in, 1 delete`."""
    nouns = Counter((action.move, registry.action_noun(action.kind, action.move, action.stop_by)) for action in actions)
    order = sorted(nouns, key=lambda pair: (pair[0] == "delete", -nouns[pair], pair[1]))
    return ", ".join(count_noun(nouns[pair], pair[1]) for pair in order)


def _rate(usd_per_hour: float, currency: Currency) -> str:
    return f"{format_usd(usd_per_hour, 2, currency)} an hour"


def _coming_row(coming: ComingAction, currency: Currency) -> Row:
    finding = coming.finding
    resource, saves = finding.case.resource, coming.saves_usd_per_hour
    return {
        "date": format_day(coming.at),
        "action": coming.noun,
        "saves/hour": "?" if saves is None else format_usd(saves, 2, currency),
        **resource_cells(resource.name, resource.kind),
        "region": clean_line(resource.region),
        "owner": clean_line(finding.case.owner.address or "no owner"),
        REASON: clean_line(coming.because or ""),
    }


def _has_several_accounts(plan: PlanFile) -> bool:
    accounts = {action.account for action in (*plan.actions_by_id.values(), *plan.held)}
    return len(accounts) > 1 or bool(plan.scope.get("organization") or plan.scope.get("ous"))


def _row(action: ActionRow, several: bool, currency: Currency) -> Row:
    account = action.account_name or action.account
    where = {"where": clean_line(f"{account} {action.region}")} if several else {"region": clean_line(action.region)}
    saves = action.saves_usd_per_hour
    return {
        "action": registry.action_noun(action.kind, action.move, action.stop_by),
        "saves/hour": "?" if saves is None else format_usd(saves, 2, currency),
        **resource_cells(action.name, action.kind),
        **where,
        "owner": clean_line(action.owner or "no owner"),
    }
