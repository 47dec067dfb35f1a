"""One message for the admins about a whole run: what is missing from it, decisions to make, what was done, then what is idle. Pure.

Its subject begins with holds and cost; then come what was done, what failed and what is new.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import sha256

from reaper.finding import Actions, Finding, Report, is_action, money_of
from reaper.ledger.ledger import target_from_text
from reaper.limits.caps import account_text
from reaper.limits.holds import ALL_ACCOUNTS, Breaker, kind_in_target
from reaper.model import Mode, Result, Status, StepName
from reaper.notices import admin_sections
from reaper.notices.admin_sections import MAX_ROWS
from reaper.notices.blocks import Line, Look, Paragraph, Section, render_mail
from reaper.notices.chat_card import admin_card
from reaper.notices.forecast import NoticeContext
from reaper.notices.item import cost_sentence, has_cost, lasting_saving, rate_text, wasted_text, with_settings
from reaper.notices.message import MAX_SHORT_SUBJECT, MAX_SUBJECT, SENDER_NAME, Audience, Message
from reaper.pending.stop_switch import paused_sentence
from reaper.prices import price_basis
from reaper.report import summary
from reaper.text import count_noun, format_time, tidy_line, with_local_times

MAX_HOLD_KEYS = 10_000
"""The most keys for resources on hold; with more of them, one key stands for a whole place."""


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
    known, actions, mode = known_topics or (), report.actions, report.run.mode
    context = replace(context, audience=Audience.ADMINS)
    disowned = [f for f in report.findings if f.case.owner.disowned_by and _disowned_topic(f) not in known]
    # What was deleted in part still costs.
    settled = {f.case.resource.id for f in actions.settled if not (f.outcome.part_done and f.step.name is StepName.DELETE)}
    resources = len(report.findings)
    report = replace(report, findings=tuple(f for f in report.findings if f.case.resource.id not in settled))
    new = [f for f in report.idle if known_topics is not None and f.case.resource.id not in known_topics]
    failed, jumped, over_budget, accepted = _problem_sections(report, context, known, failures, on_hold)
    sections = [
        admin_sections.gap_section(report),
        failed,
        jumped,
        admin_sections.disowned_section(disowned, context),
        admin_sections.hold_section(actions.on_hold, context),
        *admin_sections.action_sections(actions, mode, context),
        over_budget,
        admin_sections.escalated_section([f for topic, f in _escalated(report).items() if topic not in known], context),
        accepted,
        admin_sections.new_section(new, context),
        admin_sections.coming_section(report, context),
        *admin_sections.cost_sections(report, context),
        *admin_sections.idle_sections(report, context),
    ]
    stored = [Line(text=f"Full report: {context.report_address}")] if context.report_address else []
    unchanged = "" if mode is Mode.ENFORCE else ": nothing was changed"
    run = f"{SENDER_NAME}, run {report.run.id}, {mode} mode{unchanged}. {price_basis(report.findings, context.currency)}"
    signature = Paragraph(lines=[*stored, Line(text=run)], form="foot")
    subject = _subject(report, actions, context, newly_idle=len(new), jumps=len(on_hold.jumps))
    text, html = render_mail(subject, [_head(report, actions, context, resources, len(settled)), *sections, signature], 640)
    problems = [
        row.text
        for each in (failed, jumped, over_budget, accepted)
        for row in each.rows
        if isinstance(row, Line) and row.look != Look.MORE
    ]
    return Message(
        to=context.owners.fallback or "",
        subject=subject,
        text=text,
        html=html,
        audience=Audience.ADMINS,
        attributes={
            "audience": Audience.ADMINS.value,
            "mode": mode.value,
            "coverage": "complete" if report.is_complete else "incomplete",
            "idle": len(report.idle),
            "new": len(new),
            "unknown": len(report.unknown),
            "kind": tuple(sorted({f.case.resource.kind for f in report.idle})),
            "idle_usd_per_hour": report.totals.idle_usd_per_hour,
        },
        resource_ids=tuple(f.case.resource.id for f in report.idle),
        card=admin_card(
            report, actions, context, [paused_sentence(report.run.pause), _idle_sentences(report, actions, context), *problems]
        ),
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
        admin_sections.lines_section("Failed", [tidy_line(text, 300) for text in failed]),
        admin_sections.lines_section("Idle share jumped", jumped, len(jumps) - MAX_ROWS, note),
        admin_sections.lines_section("Over budget", budgets),
        admin_sections.lines_section("Accepted findings", accepted),
    ]


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
    release = with_settings(f"reaper release {options}", context.location_settings)
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
    saved = sum(map(lasting_saving, actions.done))
    return f"{_count_text(actions.done, brief)} taken, saving {context.rate(saved)}" if saved else ""


def _idle_sentences(report: Report, actions: Actions, context: NoticeContext) -> str:
    """What the headline doesn't say of what is idle: its cost after actions, what is wasted, and how many have no price."""
    money, wasted = money_of(report.idle), wasted_text(report.idle, context)
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
    return cost_sentence(count_noun(money.count, "idle ML resource"), money, context)


def _count_text(findings: Sequence[Finding], brief: bool) -> str:
    return str(len(findings)) if brief else count_noun(len(findings), "action")
