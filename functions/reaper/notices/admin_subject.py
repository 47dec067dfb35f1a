"""The headline and the subject of the admins' summary: holds and cost first, then what was done, what failed and what is new. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reaper.case import Finding, Report
from reaper.model import ACTIONS, Mode, Result, StepName
from reaper.notices import forecast
from reaper.notices.breakdown import cost_text, unpriced_count
from reaper.notices.item import unknown_price_text
from reaper.notices.message import MAX_SHORT_SUBJECT, MAX_SUBJECT
from reaper.report.totals import cloud_rows, idle_findings, incomplete_rows, is_done, nothing_idle_text
from reaper.text import count_noun, format_usd, tidy_line


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
