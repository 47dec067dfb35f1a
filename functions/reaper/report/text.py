"""The report and plans for a terminal: totals and money first, then idle by cost, then unknown with the reason, then coverage.

Numbers are never cut or wrapped: names, sizes and evidence shrink first, then less important columns are removed (`report.table`). `reaper plan`
shows what would be done and where, its owner, what it saves, and why the rest is on hold; `reaper apply` asks for it and shows it with the results.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeVar

from rich.text import Text

from reaper import registry
from reaper.duration import short_duration
from reaper.finding import Finding, Report
from reaper.model import ACTIONS, NOTICES, Confidence, HoldReason, Mode, Resource, Result, Role, State, Status, StepName, Target
from reaper.pending.plan_file import ActionRow, AppliedAction, PlanFile
from reaper.pending.stop_switch import paused_sentence
from reaper.policy import owners
from reaper.prices import price_basis
from reaper.report import coverage_map, summary
from reaper.report.summary import ComingAction, coming_actions, coming_sentence
from reaper.report.table import INDENT, REASON, Block, Row, print_blocks, table_lines, wrap
from reaper.text import DOLLARS, Currency, clean_line, count_noun, first_few, format_day, format_usd, usd_cell

Item = TypeVar("Item")
STATE_COLORS = {State.IDLE: "yellow", State.UNKNOWN: "magenta", State.ACTIVE: "green", State.YOUNG: "cyan", State.EXEMPT: "blue"}
MIN_WIDTH = 44
"""The width that numbers and a name need."""
MAX_TEAMS = 10
SHARES_HINT = "In brackets: the share of its host's cost. The host's own line counts it."
MAX_ROWS = 30
"""Rows of unknown resources; one missing permission can make all of them unknown."""
IDLE_STAGES = (
    ("evidence", 26), ("size", 19), ("resource", 32), ("owner", 24), ("size", 12), ("region", 0), ("where", 18), ("size", 0), ("evidence", 8),
    ("resource", 24), ("owner", 16), ("resource", 16), ("owner", 12), ("kind", 9), ("where", 0), ("kind", 0), ("owner", 0),
    ("evidence", 6), ("evidence", 0), ("owner", 0), ("resource", 8),
)  # fmt: skip
"""What shrinks in the table of idle resources, first to last; 8 is the length of the heading."""
ACTION_STAGES = (
    ("resource", 40), ("owner", 24), ("resource", 24), ("owner", 16), ("region", 0), ("where", 0), ("kind", 0), ("owner", 0), ("resource", 8),
)  # fmt: skip
UP_SINCE = re.compile(r"^running since [0-9-]+ [0-9:]+ UTC, ")
"""How indirect evidence may begin."""
KIND_PREFIXES = re.compile(r"^(sagemaker-)?(azureml-)?(inference-)?(online-)?(compute-)?")
SHORT_EVIDENCE = {
    "no Jupyter log": "no log",
    "no new Jupyter log": "log silent",
    "no user activity": "no user activity",
    "no sign of use": "no sign of use",
    "no job since": "no job run",
    "its last job": "no job lately",
    "no invocation": "no invocation",
}
"""Indirect evidence in few words, by what its sentence contains."""
STATUS_COLORS = {Status.PARTIAL: "yellow", Status.DENIED: "bold red", Status.FAILED: "bold red"}


def render(report: Report, width: int = 120, colour: bool = False, explain: str = "reaper explain NAME") -> str:
    """The report as text of `width` columns (`table.WIDE`: uncut), with or without terminal colors. `explain`: the command for one resource."""
    return print_blocks(_report_blocks(report, explain), max(width, MIN_WIDTH), colour)


def _report_blocks(report: Report, explain: str) -> Iterator[Block]:
    yield from (partial(wrap, line) for line in _head(report))
    places, currency = coverage_map.locations(report.findings), report.run.currency
    for group in summary.action_groups(report):
        style = "bold red" if group.needs_attention else "bold"
        yield from title_lines(f"{group.title} ({len(group.findings)})", style)
        if group.holds:
            yield from hold_blocks(group.holds, lambda f: _action_row(f, places, currency))
        else:
            yield partial(table_lines, [_action_row(f, places, currency) for f in group.findings], ACTION_STAGES, most=MAX_ROWS)
    yield from _idle_blocks(report, places, explain)
    yield from _team_blocks(report)
    if report.unknown:
        yield from title_lines(f"Unknown, never acted on ({len(report.unknown)})")
        unknown = [(f.case.resource, f.case.verdict.because) for f in report.unknown]
        rows = [{**resource_cells(r.name, r.kind), "why": clean_line(because, 300)} for r, because in unknown]
        yield partial(table_lines, rows, ACTION_STAGES, most=MAX_ROWS)
    yield from coverage_blocks(report)


def title_lines(text: str, style: str = "bold") -> tuple[Text, Text]:
    """An empty line and a title."""
    return Text(), Text(text, style=style)


def hold_blocks(groups: Mapping[HoldReason, Sequence[Item]], row: Callable[[Item], Row]) -> Iterator[Block]:
    """What is on hold: each reason once, with the command that allows it and its rows."""
    for index, (reason, items) in enumerate(groups.items()):
        yield from [Text()] if index else []
        yield partial(wrap, Text(clean_line(summary.hold_sentence(reason), 300), style="bold"))
        if command := summary.release_command(reason):
            yield partial(wrap, Text(f"To allow {'it' if len(items) == 1 else 'them'}{summary.release_note(reason)}:"))
            yield Text(f"  {command}")
        yield partial(table_lines, [{**row(item), REASON: ""} for item in items], ACTION_STAGES, most=MAX_ROWS)


def _head(report: Report) -> Iterator[Text]:
    sums = report.totals
    unpriced = f"  ({clause})" if (clause := summary.unpriced_clause(report)) else ""
    amounts = (sums.idle_usd_per_hour, sums.idle_usd_per_month, sums.wasted_usd)
    hour, month, wasted = (format_usd(usd, currency=report.run.currency) for usd in amounts)
    money = f"{hour}/hour   {month}/month   {wasted} wasted"
    states = Text.assemble(*((f"{count} {state}   ", STATE_COLORS[State(state)]) for state, count in sums.by_state.items()))
    mode = "audit: nothing was changed" if not report.run.mode.writes else str(report.run.mode)
    idle_now = Text.assemble(("Idle now  ", "bold"), (money, "bold yellow"), summary.acted_clause(report), unpriced)
    yield idle_now if report.idle else Text(f"{summary.nothing_idle_text(report)}.", style="bold")
    yield from (Text(f"  {line}") for line in (*summary.access_remedies(report), *summary.head_notes(report)))
    yield Text.assemble((f"{count_noun(sums.resources, 'resource')}  ", "bold"), states)
    yield Text(f"Mode: {mode}   run {report.run.id}", style="dim")
    if report.idle:
        yield Text(price_basis(report.idle, report.run.currency), style="dim")
    if paused := paused_sentence(report.run.pause):
        yield Text(clean_line(paused, 300), style="bold red")


def headline(report: Report) -> list[str]:
    """The money and the states, for someone whose report goes into a file."""
    return [line.plain.rstrip() for line in _head(report)]


def _idle_blocks(report: Report, places: Mapping[tuple[Target, str], str], explain: str) -> Iterator[Block]:
    if not report.idle:
        return
    yield from title_lines(f"Idle, most expensive first ({len(report.idle)})")
    yield partial(table_lines, [_idle_row(f, places, report.run.currency) for f in report.idle], IDLE_STAGES)
    yield partial(wrap, Text(f"{_notice_count(report)}. For every signal:", style="dim"), command=explain)
    if hint := owners.hint(f.case.owner for f in report.idle):
        yield partial(wrap, Text(f"{hint}.", style="dim"))
    if any(f.host_share for f in report.idle):
        yield partial(wrap, Text(SHARES_HINT, style="dim"))


def _team_blocks(report: Report) -> Iterator[Block]:
    """What everything costs by the first key of `report.tags`."""
    hour, rows = f"{report.run.currency.sign}/hour", []
    key = clean_line(next(iter(report.run.report_tags), ""))
    for group in summary.team_costs(report, MAX_TEAMS):
        amounts = {"idle": summary.idle_money(group.findings), "all": group.money}
        cells = {f"{name} {hour}": usd_cell(money.usd_per_hour, report.run.currency) for name, money in amounts.items()}
        unpriced = f" ({group.money.unpriced}: price unknown)" if group.money.unpriced else ""
        rows.append({**cells, "resources": f"{group.money.count}{unpriced}", key: group.name})
    if rows:
        yield from title_lines(f"Cost by {key}, idle or not")
        yield partial(table_lines, rows, ((key, 20),))


def _notice_count(report: Report) -> str:
    """How many owners were notified, or in an audit would be, and how many couldn't be."""
    due = [f for f in report.idle if f.step.name in NOTICES]
    if not report.run.mode.writes:
        count = len({f.case.owner.address for f in due if f.case.owner.address})
        return f"{count_noun(count, 'owner')} would be notified"
    notified = {f.case.owner.address for f in due if f.outcome.result is Result.DONE and f.case.owner.address}
    lost = {f.case.owner.address for f in due if f.outcome.result is Result.FAILED} - notified
    line = f"{count_noun(len(notified), 'owner')} notified"
    return f"{line}, {len(lost)} couldn't be notified" if lost else line


def _idle_row(finding: Finding, places: Mapping[tuple[Target, str], str], currency: Currency) -> Row:
    resource, verdict, share = finding.case.resource, finding.case.verdict, finding.host_share
    rate = usd_cell(finding.case.price.usd_per_hour if finding.case.price else None, currency)
    return {
        f"{currency.sign}/hour": f"({usd_cell(share.usd_per_hour, currency)})" if share else rate,
        "wasted": format_usd(finding.wasted_usd, 0, currency) if finding.wasted_usd is not None else "?",
        "idle for": short_duration(finding.idle_for) if finding.idle_for else "",
        **resource_cells(resource.name, resource.kind),
        "size": clean_line(resource.size),
        "evidence": f"{verdict.confidence}: {_silent_signals(finding)}",
        **where_cell(places, resource),
        "owner": clean_line(owners.shown(finding.case.owner) or "no owner"),
    }


def where_cell(places: Mapping[tuple[Target, str], str], resource: Resource) -> dict[str, str]:
    """Its region; if there are several accounts of its cloud, its account and region."""
    where = places[resource.target, resource.region]
    return {"region": where} if all(place == region for (_, region), place in places.items()) else {"where": where}


def resource_cells(name: str, kind: str) -> dict[str, str | Text]:
    """Its name, and its kind in brief: `endpoint` for `sagemaker-endpoint`."""
    return {"resource": Text(clean_line(name), style="bold"), "kind": clean_line(KIND_PREFIXES.sub("", kind))}


def _action_row(finding: Finding, places: Mapping[tuple[Target, str], str], currency: Currency) -> Row:
    resource = finding.case.resource
    return {
        "action": summary.action_word(finding),
        f"{currency.sign}/hour": usd_cell(finding.case.usd_per_hour, currency),
        **resource_cells(resource.name, resource.kind),
        **where_cell(places, resource),
        "owner": clean_line(owners.shown(finding.case.owner) or "no owner"),
        REASON: clean_line(summary.outcome_reason(finding), 500),
    }


def _silent_signals(finding: Finding) -> str:
    """The silent signals in a word or two. Indirect evidence by SHORT_EVIDENCE, or its sentence up to the first comma."""
    because = finding.case.verdict.because
    signals = list(dict.fromkeys(e.signal for e in finding.case.evidence if e.role is Role.ACTIVITY))
    if finding.case.verdict.confidence is Confidence.LIKELY or not signals:
        known = (short for words, short in SHORT_EVIDENCE.items() if words in because)
        return next(known, clean_line(UP_SINCE.sub("", because).partition(";")[0].partition(",")[0], 40))
    return f"no {clean_line(signals[0])}" + (f" +{len(signals) - 1}" if len(signals) > 1 else "")


def coverage_blocks(report: Report) -> Iterator[Block]:
    """The coverage, its gaps, and what failed in the reaper itself."""
    places = {(row.account, row.region) for row in report.cloud_rows}
    calls = count_noun(report.totals.calls, "API call")
    counts = f"{summary.complete_count(report)} complete, {count_noun(len(places), 'target')}, {calls}"
    yield Text()
    yield partial(wrap, Text.assemble(("Coverage: ", "bold"), (counts, "green" if not report.gaps else "bold red")))
    for gap in coverage_map.coverage_gaps(report):
        yield partial(wrap, Text.assemble((str(gap.status), STATUS_COLORS[gap.status]), f" {gap.why}"), indent=2)
        yield partial(wrap, Text(gap.places, style="dim"), indent=4)
    for row in report.own_failures:
        yield partial(wrap, Text.assemble((f"{row.status}: ", STATUS_COLORS[row.status]), summary.failure_text(row)), indent=2)


COMING_STAGES = (("owner", 20), ("resource", 24), ("region", 0), ("owner", 0), ("resource", 14), ("kind", 0), ("resource", 8))
"""What shrinks in the table of coming actions, first to last."""


def plan_blocks(plan: PlanFile, currency: Currency = DOLLARS) -> Iterator[Block]:
    """The totals, what is due, and what is on hold, by reason."""
    due, several = plan.actions_by_id.values(), _has_several_accounts(plan)
    yield partial(wrap, Text(totals_text((*due, *plan.held), len(plan.held), currency), style="bold"))
    if due:
        yield from title_lines(f"Due ({len(due)})")
        yield partial(table_lines, [_row(action, several, currency) for action in due], ACTION_STAGES)
    if plan.held:
        yield from title_lines(f"On hold ({len(plan.held)})", "bold red")
        groups = summary.hold_groups(plan.held, lambda action: action.hold_reasons)
        yield from hold_blocks(groups, lambda action: _row(action, several, currency))


def coming_blocks(findings: Sequence[Finding], currency: Currency = DOLLARS) -> Iterator[Block]:
    """What the policy leads to later, by date, and what blocks the rest, by reason; the totals are before limits and with what is due."""
    rate, whole = partial(_rate, currency=currency), coming_actions(findings)
    later = coming_actions(f for f in findings if f.step.name not in {*ACTIONS, StepName.HOLD})
    if later.dated:
        yield from title_lines(f"Coming ({len(later.dated)})")
        yield partial(table_lines, [_coming_row(each, currency) for each in later.dated], COMING_STAGES)
    if later.blocked:
        count = sum(len(group.findings) for group in later.blocked)
        yield from title_lines(f"Idle, but blocked ({count})")
        for group in later.blocked:
            could = f" The best possible actions would save {rate(group.could_usd_per_hour)}." if group.could_usd_per_hour else ""
            yield partial(wrap, Text(f"{count_noun(len(group.findings), 'resource')}: {group.because}.{could}"))
            yield partial(
                wrap, Text(first_few([clean_line(f.case.resource.name) for f in group.findings]), style="dim"), indent=INDENT
            )
    if whole.dated:
        yield Text()
        yield partial(wrap, Text(f"{coming_sentence(whole, Mode.AUDIT, rate)}, before limits."))


def result_blocks(plan: PlanFile, results: Sequence[AppliedAction], currency: Currency = DOLLARS) -> Iterator[Block]:
    """The result of each action of the plan. Why one wasn't carried out isn't in the table."""
    several = _has_several_accounts(plan)
    why = [clean_line(each.because, 500) if each.is_done else "" for each in results]
    rows = [{"result": each.result, **_row(each.action, several, currency)} for each in results]
    yield partial(table_lines, [{**row, REASON: because} for row, because in zip(rows, why, strict=True)], ACTION_STAGES)


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
