"""A table of planned actions for a terminal: what would be done and where, its owner, what it saves, and why the rest is on hold.

`reaper plan` shows it, `reaper apply` asks for it and shows it again with the results."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from rich.text import Text

from reaper import registry
from reaper.finding import Finding
from reaper.model import ACTIONS, Mode, StepName
from reaper.notices.item import kind_title, shown_name, shown_place
from reaper.pending.plan_file import PlanFile, PlannedAction
from reaper.report import summary
from reaper.report.table import INDENT, REASON, Row, table_lines, wrap
from reaper.report.text import ACTION_STAGES, hold_lines, resource_cells, title_lines
from reaper.text import DOLLARS, UTC, Currency, clean_line, count_noun, first_few, format_day, format_usd

ONE_OF_MANY = re.compile(r"; delete would save [^;]+ an hour$")
"""What a reason says of a single resource. It is left out, so that those that are blocked alike are one group."""
ON_HOLD = "on hold until a person releases it"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComingAction:
    """One action with a date, which assumes continued silence. `because`: what has to come first, a notice or the release of a hold."""

    finding: Finding
    action: StepName
    at: datetime
    saves_usd_per_hour: float | None
    because: str | None

    @property
    def noun(self) -> str:
        """The action in the words of the resource's kind."""
        return registry.action_noun(self.finding.case.resource.kind, self.action, self.finding.case.resource.stop_by)

    @property
    def name(self) -> str:
        """The resource's name as one harmless line."""
        return shown_name(self.finding.case.resource)

    @property
    def place(self) -> str:
        """`SageMaker endpoint, us-east-1, account 123456789012`."""
        resource = self.finding.case.resource
        return f"{kind_title(resource.kind)}, {shown_place(resource)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockedGroup:
    """Idle resources whose action the same reason blocks. `could_usd_per_hour`: what the best possible action on each would save."""

    because: str
    findings: tuple[Finding, ...]
    could_usd_per_hour: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Coming:
    """What the policy leads to: `dated` by date, `blocked` by number. `unpriced` of the dated are not in `saves_usd_per_hour`."""

    dated: tuple[ComingAction, ...]
    blocked: tuple[BlockedGroup, ...]
    saves_usd_per_hour: float
    unpriced: int


def coming_actions(findings: Iterable[Finding]) -> Coming:
    """The coming actions of these findings; of the same date, what saves most comes first."""
    dated: list[ComingAction] = []
    blocked: dict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        action = finding.next
        if action and action.at:
            row = ComingAction(
                finding=finding,
                action=action.step,
                at=action.at,
                saves_usd_per_hour=action.saves_usd_per_hour,
                because=ON_HOLD if finding.step.name is StepName.HOLD else action.blocked_because,
            )
            dated.append(row)
        elif action:
            blocked[ONE_OF_MANY.sub("; delete is possible", action.blocked_because or "")].append(finding)
    dated.sort(key=lambda each: (each.at, -(each.saves_usd_per_hour or 0), each.finding.case.resource.name))
    could = {because: [f.could for f in same if f.could and f.could.at] for because, same in blocked.items()}
    groups = [
        BlockedGroup(
            because=clean_line(because, 300),
            findings=tuple(same),
            could_usd_per_hour=sum(action.saves_usd_per_hour or 0 for action in could[because]),
        )
        for because, same in blocked.items()
    ]
    return Coming(
        dated=tuple(dated),
        blocked=tuple(sorted(groups, key=lambda group: (-len(group.findings), group.because))),
        saves_usd_per_hour=sum(each.saves_usd_per_hour or 0 for each in dated),
        unpriced=sum(each.saves_usd_per_hour is None for each in dated),
    )


def coming_sentence(coming: Coming, mode: Mode, rate: Callable[[float], str], tz: str = UTC) -> str:
    """`If enforced from today: 14 actions by Thu 5 Nov, saving $61.20 an hour`. `rate`: dollars an hour in the reader's unit."""
    if not coming.dated:
        return "No action is coming"
    begin = "" if mode.acts else "If enforced from today: "
    last = format_day(coming.dated[-1].at, tz)
    saving = f", saving {rate(coming.saves_usd_per_hour)}" if coming.saves_usd_per_hour else ""
    unpriced = f" (unknown for {coming.unpriced:,})" if coming.unpriced and saving else ""
    return f"{begin}{count_noun(len(coming.dated), 'action')} by {last}{saving}{unpriced}"


COMING_STAGES = (("owner", 20), ("resource", 24), ("region", 0), ("owner", 0), ("resource", 14), ("kind", 0), ("resource", 8))
"""What shrinks in the table of coming actions, first to last."""


def plan_lines(plan: PlanFile, width: int, currency: Currency = DOLLARS) -> Iterator[Text]:
    """The totals, what is due, and what is on hold, by reason."""
    due, several = list(plan.actions_by_id.values()), _has_several_accounts(plan)
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


def result_lines(plan: PlanFile, results: Sequence[PlannedAction], width: int, currency: Currency = DOLLARS) -> Iterator[Text]:
    """The result of each action of the plan. Why one wasn't carried out isn't in the table."""
    several = _has_several_accounts(plan)
    rows = [
        {
            "result": each.result,
            **_row(each, several, currency),
            REASON: clean_line(each.because, 500) if each.is_done else "",
        }
        for each in results
    ]
    yield from table_lines(rows, ACTION_STAGES, width)


def totals_text(actions: Sequence[PlannedAction], on_hold: int = 0, currency: Currency = DOLLARS) -> str:
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


def counts_text(actions: Iterable[PlannedAction]) -> str:
    """`3 stops, 1 scale-in, 1 delete`."""
    nouns = Counter((action.action, registry.action_noun(action.kind, action.action, action.stop_by)) for action in actions)
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
    accounts = {action.target.account for action in (*plan.actions_by_id.values(), *plan.held)}
    return len(accounts) > 1 or bool(plan.scope.get("organization") or plan.scope.get("ous"))


def _row(action: PlannedAction, several: bool, currency: Currency) -> Row:
    account = action.target.account_name or action.target.account
    where = {"where": clean_line(f"{account} {action.region}")} if several else {"region": clean_line(action.region)}
    saves = action.saves_usd_per_hour
    return {
        "action": registry.action_noun(action.kind, action.action, action.stop_by),
        "saves/hour": "?" if saves is None else format_usd(saves, 2, currency),
        **resource_cells(action.name, action.kind),
        **where,
        "owner": clean_line(action.owner or "no owner"),
    }
