"""The sections of the admins' mails: decisions to make, what was done, what comes, what it costs, and what is idle. Pure.

A section without rows is not shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from reaper.finding import Actions, Finding, Report
from reaper.limits.caps import RELEASE_ALL
from reaper.model import Mode, Result
from reaper.notices.blocks import LISTS, OVERVIEW, Line, Look, Row, Section
from reaper.notices.forecast import NoticeContext
from reaper.notices.item import SAVING, about, has_cost, item_row, kind_title, notice_item, rate_text, with_settings
from reaper.notices.owner_notice import notice_address
from reaper.report import summary
from reaper.report.coming import coming_actions, coming_sentence
from reaper.report.coverage_map import coverage_gaps
from reaper.text import count_noun, format_day, tidy_line, with_local_times

MAX_ROWS, MAX_NEW_ROWS, MAX_GROUPS, MAX_COMING = 10, 6, 6, 20
"""Resources and lines of a section, newly idle ones, groups with a line of their own, and coming actions."""
MAX_ACCOUNTS = 20
"""The most accounts that the command for a release names; above that it releases all."""


RATE, WHY, PLANNED = "{item.rate}|", "|{why}", "{item.rate}|. {why}"
"""What a row says of its item: `why` is the reason for its step or outcome, `saves` what an action saves."""


def lines_section(title: str, texts: Sequence[str], more: int = 0, note: str = "") -> Section:
    """What went wrong or is over a limit, each a sentence."""
    return Section(title=title, rows=[*(Line(text=text) for text in texts), *_more(more)], note=note, is_bad=True)


def gap_section(report: Report) -> Section:
    """What couldn't be read, why, and the permission that is missing."""
    texts = []
    for gap in coverage_gaps(report)[:MAX_ROWS]:
        reason = f": {tidy_line(gap.reason, 200)}" if gap.reason else ""
        texts.append(f"{gap.status}: {gap.places}{reason}.{f' Grant {tidy_line(gap.missing, 120)}.' if gap.missing else ''}")
    return lines_section("Coverage gaps", texts)


def disowned_section(disowned: Sequence[Finding], context: NoticeContext) -> Section:
    """What isn't theirs, as the owners that tags name say."""
    fallback, rows = context.owners.fallback, list[Row | Line]()
    for finding in disowned[:MAX_ROWS]:
        item = notice_item(finding, context, for_admins=True)
        rows.append(replace(item_row(item, rest=" isn't theirs."), before=f"{item.disowned_by} says ", join=""))
    goes = f"notices now go to {fallback}" if fallback else "set owners.fallback, or nothing happens to them"
    rows += _more(len(disowned) - MAX_ROWS)
    return Section(title="Not theirs", count=len(disowned), rows=rows, note=f"{goes}; correct the owner's tag", is_bad=True)


def hold_section(on_hold: Sequence[Finding], context: NoticeContext) -> Section:
    """What is on hold by reason, and the command that allows it."""
    holds, rows = list(summary.holds_of(on_hold).items()), list[Row | Line]()
    for reason, held in holds[:MAX_ROWS]:
        why = with_local_times(tidy_line(summary.hold_sentence(reason), 300), context.owners.tz)
        rows += [Line(text=why, look=Look.HEAD), *_rows(held, context, RATE, most=MAX_NEW_ROWS)]
    if len(holds) > MAX_ROWS:
        rows.append(Line(text=f"and {len(holds) - MAX_ROWS} more reasons", look=Look.HEAD))
    names = list(dict.fromkeys(f.case.resource.target.account for f in on_hold))
    over_run = any(reason.release == RELEASE_ALL for f in on_hold for reason in f.step.hold_reasons)
    options = RELEASE_ALL if over_run or not 0 < len(names) <= MAX_ACCOUNTS else f"--account {','.join(names)}"
    codes, note = [with_settings(f"reaper release {options}", context.location_settings)], "review, then allow with {}"
    return Section(title="On hold", count=len(on_hold), rows=rows, note=note, codes=codes, is_bad=True)


def action_sections(actions: Actions, mode: Mode, context: NoticeContext) -> list[Section]:
    """What would be done, was done or may have been, is due, and wasn't done."""
    lost: dict[bool, list[Finding]] = {True: [], False: []}
    for finding in actions.lost:
        lost[finding.outcome.begun and finding.outcome.result is Result.FAILED].append(finding)
    done = sorted(actions.done, key=lambda f: -(f.case.usd_per_hour or 0))
    would, due = () if mode.writes else actions.planned, actions.planned if mode.announces and not mode.acts else ()
    codes = [with_settings(f"reaper {name}", context.location_settings) for name in ("plan", "apply")]
    note, then = "these may have been carried out in part or in full", "this mode only announces; carry them out with {}, then {}"
    rows = _rows(lost[True], context, WHY, undo=True)
    return [
        Section(title="Would be carried out now", count=len(would), rows=_rows(would, context, PLANNED)),
        Section(title="Actions taken", count=len(done), rows=_rows(done, context, "|{item.next_sentence}{saves}", undo=True)),
        Section(title="Failed or unknown", count=len(lost[True]), rows=rows, note=note, is_bad=True),
        Section(title="Due", count=len(due), rows=_rows(due, context, PLANNED), note=then, codes=codes),
        Section(title="Not carried out", count=len(lost[False]), rows=_rows(lost[False], context, WHY), is_bad=True),
    ]


def escalated_section(escalated: Sequence[Finding], context: NoticeContext) -> Section:
    """Those about which others have a mail, too."""
    rows: list[Row | Line] = []
    for finding in escalated[:MAX_ROWS]:
        notice, item = finding.record and finding.record.notice, notice_item(finding, context, for_admins=True)
        if notice:
            to, others = tidy_line(str(notice.to), 120), tidy_line(", ".join(notice.escalated_to), 300)
            mails = f". {count_noun(notice.reminders, 'reminder')} to {to}, then a mail to {others}."
            rows.append(item_row(item, item.rate, mails))
    note = "owners were reminded, and these are still idle"
    return Section(title="Escalated", count=len(escalated), rows=[*rows, *_more(len(escalated) - MAX_ROWS)], note=note)


def coming_section(report: Report, context: NoticeContext) -> Section:
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
    return Section(title="What comes next", after=", before limits", note=comes, rows=rows)


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
    ]


def idle_sections(report: Report, context: NoticeContext) -> list[Section]:
    """All that is idle, what has no owner's address, and what is unknown."""
    idle, unknown = report.idle, report.unknown
    nobody = [f for f in idle if notice_address(f, context.owners) is None]
    wasted = "{wasted}, idle for {item.length}{likely}"
    rows, owners = _rows(idle, context, RATE + wasted, sizes=True), _rows(nobody, context, "|{item.owner}")
    others = _rows(unknown, context, "|{item.because}", most=MAX_NEW_ROWS)
    note = "set owners.fallback"
    return [
        Section(title="Idle", after=", most expensive first", count=len(idle), rows=rows, rank=LISTS),
        Section(title="No owner address", count=len(nobody), rows=owners, note=note, is_bad=True, rank=LISTS),
        Section(title="Unknown", count=len(unknown), rows=others, rank=LISTS),
    ]


def new_section(new: Sequence[Finding], context: NoticeContext) -> Section:
    """What is idle since the last summary."""
    rows = _rows(new, context, RATE + ", idle for {item.length}", most=MAX_NEW_ROWS)
    return Section(title="Newly idle", count=len(new), rows=rows, rank=OVERVIEW)


def _rows(
    findings: Sequence[Finding],
    context: NoticeContext,
    form: str,
    *,
    most: int = MAX_ROWS,
    undo: bool = False,
    sizes: bool = False,
) -> list[Row | Line]:
    """The first of a list, and how many more there are. `form`: the figure and the rest, with a bar between. `undo`: with the command for that."""
    rows: list[Row | Line] = []
    for finding in findings[:most]:
        item = notice_item(finding, context, for_admins=True)
        words = {
            "item": item,
            "why": summary.outcome_sentence(finding, context.owners.tz),
            "saves": f" It saves {item.cost.text}." if item.cost.label == SAVING else "",
            "wasted": f", {item.wasted}" if item.wasted else "",
            "likely": " (indirect evidence)" if item.likely else "",
        }
        figure, rest = (part.format(**words) for part in form.split("|"))
        lines = [Line(label="To undo this:", text=item.undo, look=Look.CODE)] if item.undo and undo else []
        row = item_row(item, figure, rest, lines)
        rows.append(replace(row, about=about(item)) if sizes else row)
    return [*rows, *_more(len(findings) - most)]


def _more(count: int) -> list[Line]:
    return [Line(text=f"and {count} more", look=Look.MORE)] if count > 0 else []


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
