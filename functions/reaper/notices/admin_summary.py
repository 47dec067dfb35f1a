"""One message for the admins about a whole run: what is missing from it, decisions to make, what was done, then what is idle. Pure.

Its subject begins with holds and cost; then come what was done, what failed and what is new. A section without rows is not shown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import sha256

from reaper.finding import Actions, Finding, Report, is_action, money_of
from reaper.ledger.ledger import target_from_text
from reaper.limits.caps import RELEASE_ALL, account_text
from reaper.limits.holds import ALL_ACCOUNTS, Breaker, kind_in_target
from reaper.model import Confidence, Mode, Result, Status, StepName
from reaper.notices import item
from reaper.notices.blocks import LISTS, OVERVIEW, STAYS, Card, Line, Look, Paragraph, Row, Section
from reaper.notices.forecast import NoticeContext
from reaper.notices.item import cost_line, has_cost, item_row, rate_text
from reaper.notices.message import MAX_SHORT_SUBJECT, MAX_SUBJECT, SENDER_NAME, Audience, Message
from reaper.notices.owner_notice import notice_address
from reaper.notices.render import render_mail
from reaper.pending.stop_switch import paused_sentence
from reaper.prices import price_basis
from reaper.record import Notice, Record
from reaper.report import summary
from reaper.report.coverage_map import coverage_gaps
from reaper.report.summary import coming_actions, coming_sentence
from reaper.text import count_noun, format_day, format_time, tidy_line, with_local_times

MAX_HOLD_KEYS = 10_000
"""The most keys for resources on hold; with more of them, one key stands for a whole place."""
MAX_ROWS, MAX_NEW_ROWS, MAX_GROUPS, MAX_COMING = 10, 6, 6, 20
"""Resources and lines of a section, newly idle ones, groups with a line of their own, and coming actions."""
MAX_ACCOUNTS = 20
"""The most accounts that the command for a release names; above that it releases all."""
MAX_ON_CARD, MAX_CARD_LINES = 45, 12
"""Resources and problems on the card, if they fit."""
RATE, WHY, PLANNED = "{rate}|", "|{why}", "{rate}|. {why}"
"""What a row says: `why` is the reason for its step or outcome, `saves` what an action saves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OnHold:
    """What stands on hold besides the report's findings: the `jumps` of idle shares, whether anything is due there or not.

    `since`: when the holds over a resource began, by its ID. `over_budget`: since when a budget has been exceeded, by its mark.
    """

    since: Mapping[str, Collection[datetime]] = field(default_factory=dict)
    jumps: Sequence[Breaker] = ()
    over_budget: Mapping[str, str] = field(default_factory=dict)


NOTHING_ON_HOLD = OnHold()


def urgent_topics(report: Report, on_hold: OnHold = NOTHING_ON_HOLD) -> frozenset[str]:
    """The topics that must never be mistaken for known ones: the stop switch, each hold over a resource, each freeze, each jump of an idle
    share, each "not mine", each exceeded budget, each acceptance that ends, and what is missing from the coverage.
    """
    frozen = {f"frozen:{because.partition(': ')[0]}" for because in summary.frozen_lines(report)}
    gaps = {f"{c.status}:{c.account}/{c.region}/{c.kind}" for c in report.coverage if c.status is not Status.OK}
    paused = {f"paused:{report.run.pause.at}:{report.run.pause.until}"} if report.run.pause else set()
    jumped = {f"jump:{jump.since}:{jump.target}/{jump.kind}" for jump in on_hold.jumps}
    disowned = {_disowned_topic(f) for f in report.findings if f.case.owner.disowned_by}
    over = {_budget_topic(mark, since) for mark, since in on_hold.over_budget.items()}
    ending = {f"accept:{note}" for note, ends in report.run.acceptances.items() if ends}
    return frozenset({*_hold_topics(report, on_hold), *gaps, *paused, *frozen, *jumped, *disowned, *over, *ending})


def topics(report: Report, on_hold: OnHold = NOTHING_ON_HOLD) -> frozenset[str]:
    """Everything this report has to say, by key. Pass it to the next summary as `known_topics`, and only later topics are new."""
    unknown = {f"unknown:{f.case.resource.id}" for f in report.unknown}
    due = {f"due:{f.case.resource.id}" for f in report.findings if _waits_for_person(f, report) and _is_unusual(f)}
    return frozenset(
        {*urgent_topics(report, on_hold), *unknown, *due, *_escalated(report), *(f.case.resource.id for f in report.idle)}
    )


def _hold_topics(report: Report, on_hold: OnHold) -> set[str]:
    """One key for each resource and hold over it; if there are very many, one for each place, which changes with any of them."""
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for resource in (f.case.resource for f in report.actions.on_hold):
        for since in on_hold.since.get(resource.id) or ("",):
            groups[str(since), "/".join(kind_in_target(resource.target, resource.kind))].append(resource.id)
    if sum(map(len, groups.values())) <= MAX_HOLD_KEYS:
        return {f"hold:{since}:{resource_id}" for (since, _), ids in groups.items() for resource_id in ids}
    return {
        f"hold:{since}:{place}:{sha256(' '.join(sorted(ids)).encode()).hexdigest()}" for (since, place), ids in groups.items()
    }


def admin_summary(
    report: Report,
    context: NoticeContext,
    known_topics: Collection[str] | None = None,
    failures: Sequence[str] = (),
    on_hold: OnHold = NOTHING_ON_HOLD,
) -> Message | None:
    """The summary, or None if every topic is in `known_topics`, no action was made and nothing failed.

    `known_topics`: None if there was no earlier run. `failures`: those outside the report, such as a channel's, each a sentence.
    """
    acted = [f for f in report.findings if is_action(f) and not _waits_for_person(f, report)]
    new_topics = topics(report, on_hold) - frozenset(known_topics or ())
    if not (new_topics or any(_is_unusual(f) for f in acted) or failures):
        return None
    return compose_summary(report, context, known_topics, failures, on_hold)


def compose_summary(
    report: Report,
    context: NoticeContext,
    known_topics: Collection[str] | None = None,
    failures: Sequence[str] = (),
    on_hold: OnHold = NOTHING_ON_HOLD,
) -> Message:
    """The summary, whether or not there is news in it. It goes to the policy's fallback, unless a channel knows its admins."""
    known, actions, run, whole = known_topics or (), report.actions, report.run, report
    context = replace(context, audience=Audience.ADMINS)
    # What was deleted in part still costs.
    settled = {f.case.resource.id for f in actions.settled if not (f.outcome.part_done and f.step.name is StepName.DELETE)}
    report = replace(report, findings=tuple(f for f in report.findings if f.case.resource.id not in settled))
    new = [f for f in report.idle if known_topics is not None and f.case.resource.id not in known_topics]
    escalated = [f for topic, f in _escalated(report).items() if topic not in known]
    failed, jumped, over_budget, accepted = _problem_sections(report, context, known, failures, on_hold)
    sections = [
        _gap_section(report),
        failed,
        jumped,
        _disowned_section([f for f in whole.findings if f.case.owner.disowned_by and _disowned_topic(f) not in known], context),
        _hold_section(actions.on_hold, context),
        *_action_sections(actions, run.mode, context),
        over_budget,
        replace(
            _section("Escalated", escalated, context, RATE + "{escalated}"), note="owners were reminded, and these are still idle"
        ),
        accepted,
        _section("Newly idle", new, context, RATE + ", idle for {length}", most=MAX_NEW_ROWS, rank=OVERVIEW),
        coming_section(report, context),
        *_cost_sections(report, context),
        *_idle_sections(report, context),
    ]
    stored = [Line(text=f"Full report: {context.report_address}")] if context.report_address else []
    unchanged, basis = "" if run.mode is Mode.ENFORCE else ": nothing was changed", price_basis(report.findings, context.currency)
    foot = [*stored, Line(text=f"{SENDER_NAME}, run {run.id}, {run.mode} mode{unchanged}. {basis}")]
    subject = _subject(report, actions, context, newly_idle=len(new), jumps=len(on_hold.jumps))
    head = _head(report, actions, context, len(whole.findings), len(settled))
    text, html = render_mail(subject, [head, *sections, Paragraph(lines=foot, form="foot")], 640)
    rows = [row for each in (failed, jumped, over_budget, accepted) for row in each.rows]
    problems = [row.text for row in rows if isinstance(row, Line) and row.look is not Look.MORE]
    return Message(
        to=context.owners.fallback or "",
        subject=subject,
        text=text,
        html=html,
        audience=Audience.ADMINS,
        attributes={
            "audience": Audience.ADMINS.value,
            "mode": run.mode.value,
            "coverage": "complete" if report.is_complete else "incomplete",
            "idle": len(report.idle),
            "new": len(new),
            "unknown": len(report.unknown),
            "kind": tuple(sorted({f.case.resource.kind for f in report.idle})),
            "idle_usd_per_hour": report.totals.idle_usd_per_hour,
        },
        resource_ids=tuple(f.case.resource.id for f in report.idle),
        card=_card(report, actions, context, problems),
    )


def _card(report: Report, actions: Actions, context: NoticeContext, problems: Sequence[str]) -> Card:
    """What is missing or went wrong, then what is on hold, the results of actions, and what is idle."""
    run, zone = report.run, context.owners.tz
    due = actions.planned if run.mode.announces and not run.mode.acts else ()
    acted = {f.case.resource.id: f for f in (*actions.on_hold, *actions.lost, *actions.done, *due)}
    ordered = [*acted.values(), *(f for f in report.idle if f.case.resource.id not in acted)]
    why = {id_: summary.outcome_sentence(f, zone) for id_, f in acted.items()}
    lines = [paused_sentence(run.pause), _idle_sentences(report, actions, context), *problems]
    lines = [*filter(None, lines), *(f"Coverage gap ({gap.status}): {gap.places}" for gap in coverage_gaps(report))]
    facts = [(f, item.fact_lines(f, context, why.get(f.case.resource.id, ""))) for f in ordered[:MAX_ON_CARD]]
    return Card(
        lines=[with_local_times(tidy_line(line, 300), zone) for line in lines[:MAX_CARD_LINES]],
        entries=[item.item_entry(n, f, said, rank=LISTS, has_bars=False) for n, (f, said) in enumerate(facts, 1)],
        more=max(0, len(ordered) - MAX_ON_CARD),
        notes=(f"{price_basis(report.findings, context.currency)} Run {run.id}, {run.mode} mode.",),
    )


def _head(report: Report, actions: Actions, context: NoticeContext, resources: int, settled: int) -> Paragraph:
    """What it costs, what stands still, and how much was read. `resources`: how many were checked, `settled` of them acted on."""
    urgent = [paused_sentence(report.run.pause), *summary.frozen_lines(report).values()]
    states = [f"{count} {state}" for state, count in report.totals.by_state.items() if count]
    states += [f"{settled} acted on"] if settled else []
    details = _idle_sentences(report, actions, context)
    headline = _saved_text(actions, context) or idle_text(report, context)
    checked = f"{resources} {'resource' if resources == 1 else 'resources'} checked"
    return Paragraph(
        lines=[
            Line(text=headline, besides=f". {details}" if details else ".", look=Look.TITLE),
            *(Line(text=line) for line in (*summary.access_remedies(report), *summary.saved_notes(report))),
            *(Line(text=with_local_times(tidy_line(line, 300), context.owners.tz), look=Look.BAD) for line in urgent if line),
            Line(text=f"{checked}: {', '.join(states) or 'nothing found'}.", look=Look.DIM),
        ]
    )


def _problem_sections(
    report: Report, context: NoticeContext, known: Collection[str], failures: Sequence[str], on_hold: OnHold
) -> list[Section]:
    """What failed, where an idle share jumped, what is over budget, and what is to be known of accepted findings."""
    since, jumps = on_hold.over_budget, on_hold.jumps
    failed = list(dict.fromkeys((*failures, *map(summary.failure_text, report.own_failures))))[:MAX_ROWS]
    over = [
        b for b in report.run.budgets if b.is_over and _budget_topic(mark := mark_of(b.name), since.get(mark, "")) not in known
    ]
    jumped, note = [_jump_line(jump, context) for jump in jumps[:MAX_ROWS]], "no actions and no notices of idleness there"
    budgets = [f"{tidy_line(summary.budget_line(budget, context.currency), 300)}." for budget in over[:MAX_ROWS]]
    accepted = [tidy_line(text, 300) for text in summary.acceptance_notes(report)]
    return [
        _lines_section("Failed", [tidy_line(text, 300) for text in failed]),
        _lines_section("Idle share jumped", jumped, len(jumps) - MAX_ROWS, note),
        _lines_section("Over budget", budgets),
        _lines_section("Accepted findings", accepted),
    ]


def _lines_section(title: str, texts: Sequence[str], more: int = 0, note: str = "") -> Section:
    """What went wrong or is over a limit, each a sentence."""
    return Section(title=title, rows=[*(Line(text=text) for text in texts), *_more(more)], note=note, is_bad=True)


def _gap_section(report: Report) -> Section:
    """What couldn't be read, why, and the permission that is missing."""
    texts = []
    for gap in coverage_gaps(report)[:MAX_ROWS]:
        reason = f": {tidy_line(gap.reason, 200)}" if gap.reason else ""
        texts.append(f"{gap.status}: {gap.places}{reason}.{f' Grant {tidy_line(gap.missing, 120)}.' if gap.missing else ''}")
    return _lines_section("Coverage gaps", texts)


def _disowned_section(disowned: Sequence[Finding], context: NoticeContext) -> Section:
    """What isn't theirs, as the owners that tags name say."""
    fallback, rows = context.owners.fallback, list[Row | Line]()
    for finding in disowned[:MAX_ROWS]:
        who = tidy_line(finding.case.owner.disowned_by or "", 120)
        rows.append(replace(item_row(finding, rest=" isn't theirs."), before=f"{who} says ", join=""))
    goes = f"notices now go to {fallback}" if fallback else "set owners.fallback, or nothing happens to them"
    rows += _more(len(disowned) - MAX_ROWS)
    return Section(title="Not theirs", count=len(disowned), rows=rows, note=f"{goes}; correct the owner's tag", is_bad=True)


def _hold_section(on_hold: Sequence[Finding], context: NoticeContext) -> Section:
    """What is on hold by reason, and the command that allows it."""
    holds, rows = list(summary.holds_of(on_hold).items()), list[Row | Line]()
    for reason, held in holds[:MAX_ROWS]:
        why = with_local_times(tidy_line(summary.hold_sentence(reason), 300), context.owners.tz)
        rows += [Line(text=why, look=Look.HEAD), *_rows(held, context, RATE, MAX_NEW_ROWS)]
    if len(holds) > MAX_ROWS:
        rows.append(Line(text=f"and {len(holds) - MAX_ROWS} more reasons", look=Look.HEAD))
    names = list(dict.fromkeys(f.case.resource.target.account for f in on_hold))
    over_run = any(reason.release == RELEASE_ALL for f in on_hold for reason in f.step.hold_reasons)
    options = RELEASE_ALL if over_run or not 0 < len(names) <= MAX_ACCOUNTS else f"--account {','.join(names)}"
    codes, note = [item.with_settings(f"reaper release {options}", context.location_settings)], "review, then allow with {}"
    return Section(title="On hold", count=len(on_hold), rows=rows, note=note, codes=codes, is_bad=True)


def _action_sections(actions: Actions, mode: Mode, context: NoticeContext) -> list[Section]:
    """What would be done, was done or may have been, is due, and wasn't done."""
    unsure = [f for f in actions.lost if f.outcome.begun and f.outcome.result is Result.FAILED]
    done = sorted(actions.done, key=lambda f: -(f.case.usd_per_hour or 0))
    others = [f for f in actions.lost if not (f.outcome.begun and f.outcome.result is Result.FAILED)]
    would, due = () if mode.writes else actions.planned, actions.planned if mode.announces and not mode.acts else ()
    codes = [item.with_settings(f"reaper {name}", context.location_settings) for name in ("plan", "apply")]
    note, then = "these may have been carried out in part or in full", "this mode only announces; carry them out with {}, then {}"
    return [
        _section("Would be carried out now", would, context, PLANNED),
        _section("Actions taken", done, context, "|{next}{saves}|undo"),
        replace(_section("Failed or unknown", unsure, context, f"{WHY}|undo"), note=note, is_bad=True),
        replace(_section("Due", due, context, PLANNED), note=then, codes=codes),
        replace(_section("Not carried out", others, context, WHY), is_bad=True),
    ]


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


def _cost_sections(report: Report, context: NoticeContext) -> list[Section]:
    """What each owner and kind has idle, most expensive first; with `report.tags` before that what each team costs."""
    idle, keys = report.idle, report.run.report_tags
    teams = {f"Cost by {tidy_line(key, 60)}, idle or not": summary.team_costs(report, MAX_GROUPS) for key in keys[:1]}
    groups = {
        **teams,
        "Idle cost by owner": summary.groups_by_cost(idle, lambda f: f.case.owner.address or "no owner address", MAX_GROUPS),
        "Idle cost by kind": summary.groups_by_cost(idle, lambda f: item.kind_title(f.case.resource.kind), MAX_GROUPS),
    }
    return [
        Section(title=title, rows=_group_rows(same, context, mixed=title in teams), rank=OVERVIEW)
        for title, same in groups.items()
    ]


def _idle_sections(report: Report, context: NoticeContext) -> list[Section]:
    """All that is idle, what has no owner's address, and what is unknown."""
    nobody = [f for f in report.idle if notice_address(f, context.owners) is None]
    idle = _section("Idle", report.idle, context, RATE + "{wasted}, idle for {length}{likely}|size", rank=LISTS)
    no_address = _section("No owner address", nobody, context, "|{owner}", rank=LISTS)
    return [
        replace(idle, after=", most expensive first"),
        replace(no_address, note="set owners.fallback", is_bad=True),
        _section("Unknown", report.unknown, context, "|{because}", most=MAX_NEW_ROWS, rank=LISTS),
    ]


def _section(
    title: str, findings: Sequence[Finding], context: NoticeContext, form: str, rank: int = STAYS, most: int = MAX_ROWS
) -> Section:
    """The first of these, and how many more there are."""
    return Section(title=title, count=len(findings), rows=_rows(findings, context, form, most), rank=rank)


def _rows(findings: Sequence[Finding], context: NoticeContext, form: str, most: int = MAX_ROWS) -> list[Row | Line]:
    """The first of a list, and how many more there are. `form`: the figure and the rest, with bars between; and whether `undo` or `size` is shown."""
    rows: list[Row | Line] = []
    for finding in findings[:most]:
        cost, wasted = cost_line(finding, context), item.wasted_text([finding], context)
        notice = (finding.record or Record()).notice or Notice()
        to, others = tidy_line(str(notice.to), 120), tidy_line(", ".join(notice.escalated_to), 300)
        words = {
            "rate": rate_text(money_of([finding]), context),
            "next": item.next_text(finding, context),
            "why": summary.outcome_sentence(finding, context.owners.tz),
            "saves": f" It saves {cost.text}." if cost.label == item.SAVING else "",
            "wasted": f", {wasted}" if wasted else "",
            "length": item.idle_length(finding),
            "likely": " (indirect evidence)" if finding.case.verdict.confidence is Confidence.LIKELY else "",
            "owner": tidy_line(finding.case.owner.source, 200),
            "escalated": f". {count_noun(notice.reminders, 'reminder')} to {to}, then a mail to {others}.",
            "because": item.why_judged(finding, context),
        }
        figure, rest, *also = (part.format(**words) for part in form.split("|"))
        row = item_row(finding, figure, rest, item.undo_line(finding, context) if "undo" in also else ())
        rows.append(replace(row, about=item.about(finding)) if "size" in also else row)
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


def _waits_for_person(finding: Finding, report: Report) -> bool:
    """Whether it waits for `reaper apply`, or for the end of a pause: news once, not in every run."""
    mode, result = report.run.mode, finding.outcome.result
    is_due = mode.announces and not mode.acts and result is Result.PLANNED
    return is_action(finding) and (is_due or (report.run.pause is not None and result is Result.REFUSED))


def _is_unusual(finding: Finding) -> bool:
    """Whether an action is news: what office hours do every evening and morning isn't, unless it went wrong."""
    return finding.case.rule.hours is None or finding.outcome.result in {Result.REFUSED, Result.FAILED}


def _jump_line(jump: Breaker, context: NoticeContext) -> str:
    """Where an idle share jumped, since when, and how to say that it is true."""
    target = target_from_text(jump.target)
    where, options = "all accounts", "--all"
    if target.account != ALL_ACCOUNTS:
        where = ", ".join(filter(None, (account_text(target.cloud, target.account), target.region)))
        options = f"--account {target.account}"
    release = item.with_settings(f"reaper release {options}", context.location_settings)
    since = f", since {format_time(jump.since, context.owners.tz)}" if jump.since else ""
    return f"{jump.kind} in {where}{since}: {jump.because}. {'' if jump.protections else 'Check the metrics. '}If they are idle, run `{release}`."


def _disowned_topic(finding: Finding) -> str:
    return f"disowned:{finding.case.owner.disowned_by}:{finding.case.resource.id}"


def _escalated(report: Report) -> Mapping[str, Finding]:
    remembered = [(f, f.record.notice.escalated_at) for f in report.findings if f.record and f.record.notice]
    return {f"escalated:{at}:{f.case.resource.id}": f for f, at in remembered if at}


def mark_of(text: str) -> str:
    """A budget's name or the like as a key of the ledger: in sixteen characters."""
    return sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def _budget_topic(mark: str, since: str) -> str:
    return f"budget:{since}:{mark}"


def _subject(
    report: Report, actions: Actions, context: NoticeContext, *, newly_idle: int, jumps: int, brief: bool = False
) -> str:
    """The long form, or the brief one if that doesn't fit, or if a channel with short subjects would cut off what went wrong."""
    mode = report.run.mode
    due = len(actions.planned) if mode.announces and not mode.acts else 0
    saved = _saved_text(actions, context, brief=brief)
    first = ["stop switch on"] if report.run.pause else []
    first += ["a calendar can't be read"] if any(f.case.rule.waits_because for f in report.findings) else []
    first += [f"{count_noun(len(actions.on_hold), 'action')} on hold"] if actions.on_hold else []
    first += [f"idle share jumped in {count_noun(jumps, 'place')}"] if jumps else []
    first += [saved or idle_text(report, context, brief=brief)]
    done = [f"{_count_text(actions.done, brief)} taken"] if actions.done and not saved else []
    lost = [f"{_count_text(actions.failed, brief)} failed or unknown"] if actions.failed else []
    rest = [f"{due} due" + ("" if brief else ", waiting for `reaper apply`")] if due else []
    rest += [f"{newly_idle} new"] if newly_idle else []
    coverage = [f"coverage {summary.complete_count(report)}"] if report.gaps else []
    parts = [*first, *lost, *coverage, *done, *rest] if brief else [*first, *done, *lost, *rest, *coverage]
    text = "[ML Idle Reaper] " + "; ".join(parts)
    if not brief and len(text) > (MAX_SHORT_SUBJECT if report.gaps or actions.failed else MAX_SUBJECT):
        return _subject(report, actions, context, newly_idle=newly_idle, jumps=jumps, brief=True)
    return tidy_line(text, MAX_SUBJECT, joiners=False)


def _saved_text(actions: Actions, context: NoticeContext, *, brief: bool = False) -> str:
    """`2 actions taken, saving $869 a month`; empty if they save nothing."""
    saved = sum(map(item.lasting_saving, actions.done))
    return f"{_count_text(actions.done, brief)} taken, saving {context.rate(saved)}" if saved else ""


def _idle_sentences(report: Report, actions: Actions, context: NoticeContext) -> str:
    """What the headline doesn't say of what is idle: its cost after actions, what is wasted, and how many have no price."""
    money, wasted = money_of(report.idle), item.wasted_text(report.idle, context)
    cost = [idle_text(report, context)] if report.idle and _saved_text(actions, context) else []
    some = [f"The price of {money.unpriced} of them is unknown"] if money.unpriced and has_cost(money) else []
    unsent = [with_local_times(line, context.owners.tz) for line in summary.unsent_notices(report)]
    return " ".join(f"{each}." for each in [*cost, *([wasted] if wasted else []), *some, *unsent])


def idle_text(report: Report, context: NoticeContext, *, brief: bool = False) -> str:
    """`3 idle ML resources cost $5,935 a month`, or if brief `3 idle, $5,935 a month`."""
    if not report.idle:
        return summary.nothing_idle_text(report)
    money = money_of(report.idle)
    if brief:
        return f"{money.count} idle, {rate_text(money, context)}"
    return item.cost_sentence(count_noun(money.count, "idle ML resource"), money, context)


def _count_text(findings: Sequence[Finding], brief: bool) -> str:
    return str(len(findings)) if brief else count_noun(len(findings), "action")
