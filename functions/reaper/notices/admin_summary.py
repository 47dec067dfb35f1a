"""One message for the admins about a whole run: what is missing from it, decisions to make, what was done, then what is idle. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import sha256
from typing import Any

from reaper.case import Finding, Report
from reaper.ledger.stored_text import target_from_text
from reaper.limits import account_text
from reaper.model import ACTIONS, Mode, Result, Status, StepName
from reaper.notices import commands, forecast
from reaper.notices.breakdown import cost_breakdown, cost_text, unpriced_count
from reaper.notices.item import Item, NoticeContext, notice_item, unknown_price_text
from reaper.notices.message import MAX_SHORT_SUBJECT, MAX_SUBJECT, AttributeValue, Audience, Message
from reaper.notices.owner_notice import notice_address
from reaper.pending.holds import ALL_ACCOUNTS, Breaker, kind_in_target
from reaper.pending.stop_switch import paused_sentence
from reaper.report import totals
from reaper.report.coverage_map import coverage_gaps
from reaper.report.totals import (
    HOURS_A_MONTH,
    access_remedies,
    cloud_rows,
    idle_findings,
    incomplete_rows,
    is_complete,
    is_done,
    nothing_idle_text,
    own_failures,
    report_totals,
    unknown_findings,
)
from reaper.text import count_noun, format_usd, tidy_line

MAX_ROWS, MAX_NEW_ROWS = 10, 6
MAX_ACCOUNTS = 20
"""The most accounts that the command for a release names; above that it releases all."""
MAX_HOLD_KEYS = 10_000
"""The most keys for resources on hold; with more of them, one key stands for a whole place."""
OnHoldSince = Mapping[str, Collection[datetime]]
"""By resource id: since when the holds over it stand."""
RELEASE_ALL = "`reaper release --all`"
RELEASE_HINT = re.compile(r"\. (?:Run )?`?reaper release\b")
"""Where the sentence about a hold goes on to the command that releases it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OnHold:
    """What stands on hold besides the report's findings: `since` when, and the `jumps` of idle shares, whether anything is due there or not."""

    since: OnHoldSince = field(default_factory=dict)
    jumps: Sequence[Breaker] = ()


NOTHING_ON_HOLD = OnHold()


def urgent_topics(report: Report, on_hold: OnHold = NOTHING_ON_HOLD) -> frozenset[str]:
    """The topics that must never be mistaken for known ones: the stop switch, each hold over a resource, each jump of an idle share, and what
    is missing from the coverage.
    """
    gaps = {f"{c.status}:{c.account}/{c.region}/{c.kind}" for c in report.coverage if c.status is not Status.OK}
    paused = {f"paused:{report.run.pause.at}:{report.run.pause.until}"} if report.run.pause else set()
    jumped = {f"jump:{jump.since}:{jump.target}/{jump.kind}" for jump in on_hold.jumps}
    return frozenset({*_hold_topics(report, on_hold.since), *gaps, *paused, *jumped})


def topics(report: Report, on_hold: OnHold = NOTHING_ON_HOLD) -> frozenset[str]:
    """Everything this report has to say, by key. Pass it to the next summary as `known_topics`, and only later topics are new."""
    unknown = {f"unknown:{f.case.resource.id}" for f in unknown_findings(report)}
    due = {f"due:{f.case.resource.id}" for f in report.findings if _waits_for_person(f, report) and _is_unusual(f)}
    return frozenset({*urgent_topics(report, on_hold), *unknown, *due, *(f.case.resource.id for f in idle_findings(report))})


def _hold_topics(report: Report, on_hold_since: OnHoldSince) -> set[str]:
    """One key for each resource and hold over it; if there are very many, one for each place, which changes with any of them."""
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for resource in (f.case.resource for f in report.findings if f.step.name is StepName.HOLD):
        for since in on_hold_since.get(resource.id) or ("",):
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
    acted = [f for f in report.findings if f.step.name in ACTIONS and not _waits_for_person(f, report)]
    new_topics = topics(report, on_hold) - frozenset(known_topics or ())
    if not (new_topics or any(_is_unusual(f) for f in acted) or failures):
        return None
    return compose_summary(report, context, known_topics, failures, on_hold.jumps)


def compose_summary(
    report: Report,
    context: NoticeContext,
    known_topics: Collection[str] | None = None,
    failures: Sequence[str] = (),
    jumps: Sequence[Breaker] = (),
) -> Message:
    """The summary, whether or not there is news in it. It goes to the policy's fallback, unless a channel knows its admins."""
    from reaper.notices.render import render_mail

    actions, resources = summary_actions(report), len(report.findings)
    settled = {f.case.resource.id for f in actions.settled}
    report = replace(report, findings=tuple(f for f in report.findings if f.case.resource.id not in settled))
    idle = idle_findings(report)
    new = [f for f in idle if known_topics is not None and f.case.resource.id not in known_topics]
    subject = summary_subject(report, len(new), actions, len(jumps))
    text, html = render_mail(
        "admin",
        subject=subject,
        report=report,
        context=context,
        resources=resources,
        settled=len(settled),
        sums=report_totals(report),
        headline=summary_headline(report),
        month=cost_text(idle, HOURS_A_MONTH),
        remedies=access_remedies(report),
        paused=tidy_line(paused_sentence(report.run.pause), 300),
        breakdown=cost_breakdown(idle),
        gaps=coverage_gaps(report)[:MAX_ROWS],
        run={
            name: commands.with_settings(f"reaper {name} {options}".strip(), context.location_settings)
            for name, options in (("release", release_options(actions.on_hold)), ("plan", ""), ("apply", ""))
        },
        jumps=[_jump_line(jump, context) for jump in jumps[:MAX_ROWS]],
        more_jumps=max(0, len(jumps) - MAX_ROWS),
        failures=[tidy_line(f, 300) for f in list(dict.fromkeys((*failures, *_own_failure_texts(report))))[:MAX_ROWS]],
        **_action_sections(actions, context),
        **_idle_sections(report, new, context),
    )
    return Message(
        to=context.owners.fallback or "",
        subject=subject,
        text=text,
        html=html,
        audience=Audience.ADMINS,
        attributes=_attributes(report, len(new)),
        resource_ids=tuple(f.case.resource.id for f in idle),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstItems:
    """The first of a list, each with the reason for its step or outcome, and how many more there are."""

    items: tuple[tuple[Item, str], ...]
    more: int

    @property
    def count(self) -> int:
        """How many there are in all."""
        return len(self.items) + self.more


def _action_sections(actions: SummaryActions, context: NoticeContext) -> dict[str, Any]:
    return {
        "on_hold": _first_items(actions.on_hold, context),
        "would": _first_items(actions.would, context),
        "due": _first_items(actions.due, context),
        "done": _first_items(actions.done, context),
        "not_done": _first_items([f for f in actions.lost if not _is_unsure(f)], context),
        "unsure": _first_items([f for f in actions.lost if _is_unsure(f)], context),
    }


def _idle_sections(report: Report, new: Sequence[Finding], context: NoticeContext) -> dict[str, Any]:
    idle = idle_findings(report)
    return {
        "newly_idle": _first_items(new, context, MAX_NEW_ROWS),
        "idle": _first_items(idle, context),
        "no_address": _first_items([f for f in idle if notice_address(f, context.owners) is None], context),
        "unknown": _first_items(unknown_findings(report), context, MAX_NEW_ROWS),
    }


def _first_items(findings: Sequence[Finding], context: NoticeContext, rows: int = MAX_ROWS) -> FirstItems:
    items = tuple(
        (notice_item(f, context, for_admins=True), _as_sentence(tidy_line(_reason_text(f), 300))) for f in findings[:rows]
    )
    return FirstItems(items=items, more=max(0, len(findings) - rows))


def _waits_for_person(finding: Finding, report: Report) -> bool:
    """Whether it waits for `reaper apply`, or for the end of a pause: news once, not in every run."""
    is_paused = report.run.pause is not None and finding.step.name in ACTIONS and finding.outcome.result is Result.REFUSED
    return is_paused or waits_for_apply(finding, report.run.mode)


def _is_unusual(finding: Finding) -> bool:
    """Whether an action is news: what office hours do every evening and morning isn't, unless it went wrong."""
    return finding.case.rule.hours is None or finding.outcome.result in {Result.REFUSED, Result.FAILED}


def _reason_text(finding: Finding) -> str:
    """What was done or why not, without the command that releases it: the heading has that, with the ledger that it needs."""
    return RELEASE_HINT.split(totals.outcome_reason(finding), maxsplit=1)[0]


def _is_unsure(finding: Finding) -> bool:
    return finding.outcome.result is Result.FAILED and finding.outcome.begun


def _as_sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '…')) else '.'}" if text else ""


def release_options(on_hold: Sequence[Finding]) -> str:
    """The options with which `reaper release` allows these actions: `--account 123456789012`."""
    names = list(dict.fromkeys(f.case.resource.target.account for f in on_hold))
    over_run = any(RELEASE_ALL in f.step.because for f in on_hold)
    return "--all" if over_run or not 0 < len(names) <= MAX_ACCOUNTS else f"--account {','.join(names)}"


def _jump_line(jump: Breaker, context: NoticeContext) -> str:
    """Where an idle share jumped, since when, and how to say that it is true."""
    target = target_from_text(jump.target)
    over_run = target.account == ALL_ACCOUNTS
    where = (
        "all accounts"
        if over_run
        else f"{account_text(target.cloud, target.account)}{f', {target.region}' if target.region else ''}"
    )
    options = "--all" if over_run else f"--account {target.account}"
    release = commands.with_settings(f"reaper release {options}", context.location_settings)
    since = f"{jump.since:%Y-%m-%d %H:%M} UTC"
    return f"{jump.kind} in {where}, since {since}: {jump.because}. If they are idle, run `{release}`."


def _own_failure_texts(report: Report) -> list[str]:
    """What failed in the reaper itself, such as its ledger."""
    return [f"{row.kind}: {row.error}" for row in own_failures(report)]


def _attributes(report: Report, new: int) -> dict[str, AttributeValue]:
    sums = report_totals(report)
    return {
        "audience": Audience.ADMINS.value,
        "mode": report.run.mode.value,
        "coverage": "complete" if is_complete(report) else "incomplete",
        "idle": sums.by_state["idle"],
        "new": new,
        "unknown": sums.by_state["unknown"],
        "kind": _kind_names(idle_findings(report)),
        "idle_usd_per_hour": sums.idle_usd_per_hour,
    }


def _kind_names(findings: Iterable[Finding]) -> tuple[str, ...]:
    return tuple(sorted({f.case.resource.kind for f in findings}))


# MERGED The headline and the subject of the admins' summary: holds and cost first, then what was done, what failed and what is new. Pure.


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryActions:
    """The actions of a run, as the summary groups them. `due`: they wait for `reaper apply`. `would`: an audit only lists them.

    `settled`: what was stopped or deleted whole, and is idle no more. `done`: what the reaper itself did. `lost`: refused or failed.
    """

    on_hold: tuple[Finding, ...]
    due: tuple[Finding, ...]
    would: tuple[Finding, ...]
    settled: tuple[Finding, ...]
    done: tuple[Finding, ...]
    lost: tuple[Finding, ...]

    @property
    def failed(self) -> tuple[Finding, ...]:
        """Those of `lost` that failed, or may have."""
        return tuple(f for f in self.lost if f.outcome.result is Result.FAILED)


def summary_actions(report: Report) -> SummaryActions:
    """The actions of a report, each group in the order in which it is shown."""
    mode = report.run.mode
    acted = [f for f in report.findings if f.step.name in ACTIONS and not waits_for_apply(f, mode)]
    return SummaryActions(
        on_hold=tuple(f for f in report.findings if f.step.name is StepName.HOLD),
        due=tuple(f for f in report.findings if waits_for_apply(f, mode)),
        would=tuple(f for f in acted if f.outcome.result is Result.PLANNED and not mode.writes),
        settled=tuple(f for f in acted if _is_settled(f)),
        done=tuple(sorted((f for f in acted if is_done(f)), key=lambda f: -(f.case.usd_per_hour or 0))),
        lost=tuple(f for f in acted if f.outcome.result in {Result.REFUSED, Result.FAILED}),
    )


def waits_for_apply(finding: Finding, mode: Mode) -> bool:
    """Whether only a person carries it out, with `reaper apply`: it is due in a run that announces and does not act."""
    return mode.announces and not mode.acts and finding.step.name in ACTIONS and finding.outcome.result is Result.PLANNED


def summary_headline(report: Report) -> str:
    """`$7.12 an hour`, or what there is to say without a cost."""
    idle = idle_findings(report)
    if not idle:
        return nothing_idle_text(report)
    cost = cost_text(idle)
    return f"{cost} an hour" if cost else f"{len(idle)} idle, {unknown_price_text(unpriced_count(idle), len(idle))}"


def summary_subject(report: Report, new: int, actions: SummaryActions, jumps: int = 0) -> str:
    """The long form, or the brief one if that doesn't fit, or if a channel with short subjects would cut off what went wrong."""
    full, short = (_subject_text(report, (new, jumps), actions, brief=brief) for brief in (False, True))
    wrong = incomplete_rows(report) or actions.failed
    subject = full if len(full) <= (MAX_SHORT_SUBJECT if wrong else MAX_SUBJECT) else short
    return tidy_line(subject, MAX_SUBJECT, joiners=False)


def _is_settled(finding: Finding) -> bool:
    """After a delete in part, the rest still costs."""
    return finding.outcome.result is Result.DONE and not (finding.outcome.part_done and finding.step.name is StepName.DELETE)


def _subject_text(report: Report, counts: tuple[int, int], actions: SummaryActions, *, brief: bool) -> str:
    """`counts`: how many resources are newly idle, and in how many places the idle share jumped."""
    new, jumps = counts
    saved = 0 if brief else sum(forecast.saved_usd_per_hour(f) for f in actions.done)
    saving = f", saving {format_usd(saved)} an hour" if saved else ""
    gaps, rows = len(incomplete_rows(report)), len(cloud_rows(report))
    first = ["stop switch on"] if report.run.pause else []
    first += [f"{count_noun(len(actions.on_hold), 'action')} on hold"] if actions.on_hold else []
    first += [f"idle share jumped in {count_noun(jumps, 'place')}"] if jumps else []
    first += [_idle_text(report, brief=brief)]
    done = [f"{_count_text(actions.done, brief)} taken{saving}"] if actions.done else []
    lost = [f"{_count_text(actions.failed, brief)} failed or unknown"] if actions.failed else []
    news = [f"{len(actions.due)} due" + ("" if brief else ", waiting for `reaper apply`")] if actions.due else []
    news += [f"{new} new"] if new else []
    coverage = [f"coverage {rows - gaps} of {rows}"] if gaps else []
    parts = [*first, *lost, *coverage, *done, *news] if brief else [*first, *done, *lost, *news, *coverage]
    return "[ML Idle Reaper] " + "; ".join(parts)


def _idle_text(report: Report, *, brief: bool) -> str:
    """`3 idle ML resources cost $8.13 an hour`, or if brief `3 idle, $8.13 an hour`."""
    idle = idle_findings(report)
    if not idle:
        return nothing_idle_text(report)
    cost = cost_text(idle)
    rate = f"{cost} an hour" if cost else unknown_price_text(unpriced_count(idle), len(idle))
    if brief:
        return f"{len(idle)} idle, {rate}"
    verb = " costs " if len(idle) == 1 else " cost "
    return f"{count_noun(len(idle), 'idle ML resource')}{verb if cost else ', '}{rate}"


def _count_text(findings: Sequence[Finding], brief: bool) -> str:
    return str(len(findings)) if brief else count_noun(len(findings), "action")
