"""The sections of the admins' mails: decisions to make, what was done, what comes, what it costs, and what is idle. Pure.

A section is None if there is nothing in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from reaper.finding import Actions, Finding, Report
from reaper.limits.caps import RELEASE_ALL
from reaper.model import Mode, Result
from reaper.notices.blocks import LISTS, OVERVIEW, Line, Look, Row, Section
from reaper.notices.forecast import NoticeContext
from reaper.notices.item import SAVING, Item, has_cost, item_row, kind_title, notice_item, rate_text, with_settings
from reaper.notices.owner_notice import notice_address
from reaper.report import summary
from reaper.report.coming import coming_actions, coming_sentence
from reaper.report.coverage_map import coverage_gaps
from reaper.text import count_noun, format_day, tidy_line, with_local_times

WriteRow = Callable[[Item, str], Row]
"""A row from the item and the reason for its step or outcome."""
MAX_ROWS, MAX_NEW_ROWS, MAX_GROUPS, MAX_COMING = 10, 6, 6, 20
"""Resources and lines of a section, newly idle ones, groups with a line of their own, and coming actions."""
MAX_ACCOUNTS = 20
"""The most accounts that the command for a release names; above that it releases all."""


def lines_section(title: str, texts: Sequence[str], more: int = 0, note: str = "") -> Section | None:
    """What went wrong or is over a limit, each a sentence."""
    rows = [*(Line(text=text) for text in texts), *_more(more)]
    return Section(title=title, rows=rows, note=note, is_bad=True) if texts else None


def gap_section(report: Report) -> Section | None:
    """What couldn't be read, why, and the permission that is missing."""
    texts = []
    for gap in coverage_gaps(report)[:MAX_ROWS]:
        reason = f": {tidy_line(gap.reason, 200)}" if gap.reason else ""
        texts.append(f"{gap.status}: {gap.places}{reason}.{f' Grant {tidy_line(gap.missing, 120)}.' if gap.missing else ''}")
    return lines_section("Coverage gaps", texts)


def disowned_section(disowned: Sequence[Finding], context: NoticeContext) -> Section | None:
    """What isn't theirs, as the owners that tags name say."""
    fallback, section = context.owners.fallback, _listed("Not theirs", disowned, context, _disowned_row)
    goes = f"notices now go to {fallback}" if fallback else "set owners.fallback, or nothing happens to them"
    return section and replace(section, note=f"{goes}; correct the owner's tag", is_bad=True)


def hold_section(on_hold: Sequence[Finding], context: NoticeContext) -> Section | None:
    """What is on hold by reason, and the command that allows it."""
    holds, rows = list(summary.holds_of(on_hold).items()), list[Row | Line]()
    for reason, held in holds[:MAX_ROWS]:
        why = with_local_times(tidy_line(summary.hold_sentence(reason), 300), context.owners.tz)
        rows += [Line(text=why, look=Look.HEAD), *_rows(held, context, _rate_row, MAX_NEW_ROWS)]
    if len(holds) > MAX_ROWS:
        rows.append(Line(text=f"and {len(holds) - MAX_ROWS} more reasons", look=Look.HEAD))
    names = list(dict.fromkeys(f.case.resource.target.account for f in on_hold))
    over_run = any(reason.release == RELEASE_ALL for f in on_hold for reason in f.step.hold_reasons)
    options = RELEASE_ALL if over_run or not 0 < len(names) <= MAX_ACCOUNTS else f"--account {','.join(names)}"
    codes, note = [with_settings(f"reaper release {options}", context.location_settings)], "review, then allow with {}"
    return Section(title="On hold", count=len(on_hold), rows=rows, note=note, codes=codes, is_bad=True) if holds else None


def action_sections(actions: Actions, mode: Mode, context: NoticeContext) -> list[Section | None]:
    """What would be done, was done or may have been, is due, and wasn't done."""
    groups = dict[bool, list[Finding]]({True: [], False: []})
    for finding in actions.lost:
        groups[finding.outcome.begun and finding.outcome.result is Result.FAILED].append(finding)
    unsure = _listed("Failed or unknown", groups[True], context, _unsure_row)
    due = _listed("Due", actions.planned if mode.announces and not mode.acts else (), context, _planned_row)
    not_done = _listed("Not carried out", groups[False], context, _why_row)
    codes = [with_settings(f"reaper {name}", context.location_settings) for name in ("plan", "apply")]
    return [
        _listed("Would be carried out now", () if mode.writes else actions.planned, context, _planned_row),
        _listed("Actions taken", sorted(actions.done, key=lambda f: -(f.case.usd_per_hour or 0)), context, _done_row),
        unsure and replace(unsure, note="these may have been carried out in part or in full", is_bad=True),
        due and replace(due, note="this mode only announces; carry them out with {}, then {}", codes=codes),
        not_done and replace(not_done, is_bad=True),
    ]


def escalated_section(escalated: Sequence[Finding], context: NoticeContext) -> Section | None:
    """Of what others than its owner were told."""
    rows: list[Row | Line] = []
    for finding in escalated[:MAX_ROWS]:
        if notice := finding.record and finding.record.notice:
            item, to = notice_item(finding, context, for_admins=True), tidy_line(notice.to or "None", 120)
            others = tidy_line(", ".join(notice.escalated_to), 300)
            told = f". {count_noun(notice.reminders, 'reminder')} to {to}, then a mail to {others}."
            rows.append(item_row(item, item.rate, told))
    rows += _more(len(escalated) - MAX_ROWS)
    note = "owners were reminded, and these are still idle"
    return Section(title="Escalated", count=len(escalated), rows=rows, note=note) if escalated else None


def coming_section(report: Report, context: NoticeContext) -> Section | None:
    """What comes next, by date, and what is blocked, by reason."""
    coming, zone = coming_actions(report.findings), context.owners.tz
    rows: list[Row | Line] = []
    for action in coming.dated[:MAX_COMING]:
        saves, because = action.saves_usd_per_hour, f"; {action.because}" if action.because else ""
        figure = "price unknown" if saves is None else f"saves {context.rate(saves)}"
        when = f"{format_day(action.at, zone)}: {action.noun} of "
        rows.append(Row(name=action.name, about=action.place, before=when, join=", ", figure=figure, rest=because))
    if later := len(coming.dated[MAX_COMING:]):
        rows.append(Line(text=f"and {later} more later", look=Look.MORE))
    for group in coming.blocked[:MAX_GROUPS]:
        could = f"; possible saving {context.rate(group.could_usd_per_hour)}" if group.could_usd_per_hour else ""
        rows.append(Line(text=f"blocked: {len(group.findings)}, because {group.because}{could}"))
    if others := sum(len(group.findings) for group in coming.blocked[MAX_GROUPS:]):
        rows.append(Line(text=f"and {others} more for other reasons", look=Look.MORE))
    comes = coming_sentence(coming, report.run.mode, context.rate, zone)
    return Section(title="What comes next", after=", before limits", note=comes, rows=rows) if rows else None


def cost_sections(report: Report, context: NoticeContext) -> list[Section]:
    """What each owner and kind has idle, most expensive first; with `report.tags` before that what each team costs."""
    idle, keys = report.idle, report.run.report_tags
    teams = {f"Cost by {tidy_line(key, 60)}, idle or not": summary.team_costs(report, MAX_GROUPS) for key in keys[:1]}
    groups = {
        **teams,
        "Idle cost by owner": summary.groups_by_cost(idle, lambda f: f.case.owner.address or "no owner address", MAX_GROUPS),
        "Idle cost by kind": summary.groups_by_cost(idle, lambda f: kind_title(f.case.resource.kind), MAX_GROUPS),
    }
    return [
        Section(title=title, rows=_group_rows(same, context, mixed=title in teams), rank=OVERVIEW)
        for title, same in groups.items()
        if same
    ]


def idle_sections(report: Report, context: NoticeContext) -> list[Section | None]:
    """All that is idle, what has no owner's address, and what is unknown."""
    no_address = [f for f in report.idle if notice_address(f, context.owners) is None]
    idle, nobody = _listed("Idle", report.idle, context, _idle_row), _listed("No owner address", no_address, context, _owner_row)
    unknown = _listed("Unknown", report.unknown, context, _because_row, MAX_NEW_ROWS)
    return [
        idle and replace(idle, after=", most expensive first", rank=LISTS),
        nobody and replace(nobody, note="set owners.fallback", is_bad=True, rank=LISTS),
        unknown and replace(unknown, rank=LISTS),
    ]


def new_section(new: Sequence[Finding], context: NoticeContext) -> Section | None:
    """What is idle since the last summary."""
    section = _listed("Newly idle", new, context, _length_row, MAX_NEW_ROWS)
    return section and replace(section, rank=OVERVIEW)


def _listed(
    title: str, findings: Sequence[Finding], context: NoticeContext, write: WriteRow, most: int = MAX_ROWS
) -> Section | None:
    return Section(title=title, count=len(findings), rows=_rows(findings, context, write, most)) if findings else None


def _rows(findings: Sequence[Finding], context: NoticeContext, write: WriteRow, most: int) -> list[Row | Line]:
    """The first of a list, and how many more there are."""
    shown = [
        write(notice_item(f, context, for_admins=True), summary.outcome_sentence(f, context.owners.tz)) for f in findings[:most]
    ]
    return [*shown, *_more(len(findings) - most)]


def _more(count: int) -> list[Line]:
    return [Line(text=f"and {count} more", look=Look.MORE)] if count > 0 else []


def _rate_row(item: Item, _: str) -> Row:
    return item_row(item, item.rate)


def _length_row(item: Item, _: str) -> Row:
    return item_row(item, item.rate, f", idle for {item.length}")


def _planned_row(item: Item, why: str) -> Row:
    return item_row(item, item.rate, f". {why}")


def _why_row(item: Item, why: str) -> Row:
    return item_row(item, rest=why)


def _unsure_row(item: Item, why: str) -> Row:
    return item_row(item, rest=why, lines=_undo_lines(item))


def _done_row(item: Item, _: str) -> Row:
    saves = f" It saves {item.cost.text}." if item.cost.label == SAVING else ""
    return item_row(item, rest=f"{item.next_sentence}{saves}", lines=_undo_lines(item))


def _undo_lines(item: Item) -> list[Line]:
    return [Line(label="To undo this:", text=item.undo, look=Look.CODE)] if item.undo else []


def _disowned_row(item: Item, _: str) -> Row:
    return replace(item_row(item, rest=" isn't theirs."), before=f"{item.disowned_by} says ", join="")


def _owner_row(item: Item, _: str) -> Row:
    return item_row(item, rest=item.owner)


def _because_row(item: Item, _: str) -> Row:
    return item_row(item, rest=item.because)


def _idle_row(item: Item, _: str) -> Row:
    about = ", ".join(filter(None, (item.kind, item.size, item.where)))
    wasted, likely = f", {item.wasted}" if item.wasted else "", " (indirect evidence)" if item.likely else ""
    return Row(name=item.name, about=about, figure=item.rate, rest=f"{wasted}, idle for {item.length}{likely}")


def _group_rows(groups: Sequence[summary.CostGroup], context: NoticeContext, *, mixed: bool) -> list[Row]:
    """Resources without a price count, but not as money. `mixed`: the groups have others than idle ones, too."""
    top = max((each.money.usd_per_hour for each in groups if not each.others), default=0.0)
    rows = []
    for group in groups:
        money, idle = group.money, summary.idle_money(group.findings)
        part = f"{count_noun(money.count, 'resource')}, {rate_text(idle, context) if idle.count else 'none'} of it idle"
        unpriced = f" ({money.unpriced} of them: price unknown)" if money.unpriced and has_cost(money) else ""
        has_bar = top and money.unpriced < money.count
        row = Row(
            name=f"and {group.name}" if group.others else tidy_line(group.name, 60) or "(no name)",
            figure=rate_text(money, context),
            rest=f", {part if mixed else f'{money.count} idle'}{unpriced}",
            percent=min(100, max(1, round(100 * money.usd_per_hour / top))) if has_bar else 0,
            bullet="  " if group.others else "- ",
        )
        rows.append(row)
    return rows
