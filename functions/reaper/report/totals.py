"""The sums at the top of a report. A resource without a price is counted separately, never as zero dollars."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from reaper import registry
from reaper.case import Coverage, Finding, Report
from reaper.model import ACTIONS, Mode, Result, State, Status, StepName
from reaper.notices import forecast
from reaper.text import format_usd

HOURS_A_MONTH = 730
OWN_MEANS = "reaper"
"""The `cloud` of a coverage row about the reaper itself: a channel, an action or the ledger, not a list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acted:
    """How many idle resources this run acted on, what they cost an hour, what of that it saved, and how many were `already` stopped or gone."""

    count: int = 0
    usd_per_hour: float = 0.0
    saves_usd_per_hour: float = 0.0
    already: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """`by_state` has every state, also empty ones. Dollars are list prices of idle resources that have one.

    Resources that were acted on were idle when they were judged, and count as idle; `acted` says how many they are.
    """

    resources: int
    by_state: dict[str, int]
    idle_usd_per_hour: float
    idle_usd_per_month: float
    wasted_usd: float
    unpriced_idle: int
    calls: int
    acted: Acted


def report_totals(report: Report) -> Totals:
    """The sums of a report."""
    states = Counter(f.case.verdict.state for f in report.findings)
    hourly = sum(f.price.usd_per_hour for f in idle_findings(report) if f.price)
    return Totals(
        resources=len(report.findings),
        by_state={state.value: states[state] for state in State},
        idle_usd_per_hour=round(hourly, 4),
        idle_usd_per_month=round(hourly * HOURS_A_MONTH, 2),
        wasted_usd=round(sum(f.wasted_usd or 0 for f in idle_findings(report)), 2),
        unpriced_idle=sum(1 for f in idle_findings(report) if f.price is None),
        calls=sum(sum(c.calls.values()) for c in report.coverage),
        acted=_acted_sums(idle_findings(report)),
    )


def _acted_sums(findings: Iterable[Finding]) -> Acted:
    settled = [f for f in findings if f.step.name in ACTIONS and f.outcome.result is Result.DONE]
    done = [f for f in settled if is_done(f)]
    return Acted(
        count=len(done),
        usd_per_hour=round(sum(f.price.usd_per_hour for f in settled if f.price), 4),
        saves_usd_per_hour=round(sum(forecast.saved_usd_per_hour(f) for f in done), 4),
        already=len(settled) - len(done),
    )


def acted_clause(report: Report) -> str:
    """`, of which 2 acted on (saving $0.69/hour)`: those that are idle no more; empty if there are none."""
    acted = report_totals(report).acted
    cost, saved = f"{format_usd(acted.usd_per_hour)}/hour", f"{format_usd(acted.saves_usd_per_hour)}/hour"
    money = f"saving {saved}" if saved == cost else f"saving {saved} of their {cost}"
    parts = [f"{acted.count} acted on" + (f" ({money})" if acted.saves_usd_per_hour else "")] if acted.count else []
    parts += [f"{acted.already} already stopped or gone"] if acted.already else []
    return f", of which {' and '.join(parts)}" if parts else ""


def could_read_nothing(report: Report) -> bool:
    """Whether no list at all could be read."""
    rows = cloud_rows(report)
    return bool(rows) and not report.findings and all(row.status in {Status.DENIED, Status.FAILED} for row in rows)


def nothing_idle_text(report: Report) -> str:
    """The headline of a report without idle resources; it says that nothing is idle only if everything was read and judged."""
    if could_read_nothing(report):
        return "Nothing could be read"
    if incomplete_rows(report):
        return "No idle resources found; coverage is incomplete"
    unknown = report_totals(report).by_state[State.UNKNOWN.value]
    return f"No idle resources found; {unknown:,} unknown" if unknown else "Nothing is idle"


def access_remedies(report: Report) -> list[str]:
    """What to do if nothing could be read, a line for each cloud."""
    rows = {row.cloud: row for row in reversed(incomplete_rows(report))} if could_read_nothing(report) else {}
    return [registry.access_advice(row.cloud, row.missing) for row in rows.values()]


def idle_findings(report: Report) -> list[Finding]:
    """The idle resources, most expensive first, those without a price last."""
    idle = [f for f in report.findings if f.case.verdict.state is State.IDLE]
    return sorted(idle, key=lambda f: (f.price is None, -(f.price.usd_per_hour if f.price else 0), f.case.resource.name))


def unknown_findings(report: Report) -> list[Finding]:
    """The resources about which nothing could be proven, by name."""
    return sorted((f for f in report.findings if f.case.verdict.state is State.UNKNOWN), key=lambda f: f.case.resource.name)


def cloud_rows(report: Report) -> list[Coverage]:
    """The rows about clouds: a target and kind each, without those about the reaper itself."""
    return [row for row in report.coverage if row.cloud != OWN_MEANS]


def incomplete_rows(report: Report) -> list[Coverage]:
    """The rows about clouds with a gap."""
    return [row for row in cloud_rows(report) if row.status is not Status.OK]


def own_failures(report: Report) -> list[Coverage]:
    """What failed in the reaper itself: channels, actions, notices, the ledger."""
    return [row for row in report.coverage if row.cloud == OWN_MEANS and row.status is not Status.OK]


def is_complete(report: Report) -> bool:
    """Whether coverage is complete and nothing failed in the reaper itself."""
    return all(c.status is Status.OK for c in report.coverage)


def has_news(report: Report) -> bool:
    """Whether REAPER_QUIET still lets the summary through: something is idle or unknown, or coverage is incomplete."""
    sums = report_totals(report)
    return bool(sums.by_state["idle"] or sums.by_state["unknown"] or not is_complete(report))


def exit_status(report: Report, fail_on: str | None) -> int:
    """0 complete, 1 complete and something is idle under `--fail-on idle`, 3 coverage incomplete."""
    if not is_complete(report):
        return 3
    return 1 if fail_on == "idle" and idle_findings(report) else 0


def acted_findings(report: Report) -> list[Finding]:
    """The resources that this run stopped, deleted or started."""
    return [f for f in report.findings if is_done(f)]


def is_done(finding: Finding) -> bool:
    """Whether the reaper itself changed it; a resource that was already stopped or gone doesn't count."""
    return finding.step.name in ACTIONS and finding.outcome.result is Result.DONE and not finding.outcome.already_done


def failed_findings(report: Report) -> list[Finding]:
    """Those whose action failed. An action that was refused because the resource had changed isn't a failure."""
    return [f for f in report.findings if f.step.name in ACTIONS and f.outcome.result is Result.FAILED]


def refused_findings(report: Report) -> list[Finding]:
    """Those whose action was due and wasn't carried out, because something had changed or couldn't be read again."""
    return [f for f in report.findings if f.step.name in ACTIONS and f.outcome.result is Result.REFUSED]


def held_findings(report: Report) -> list[Finding]:
    """The resources whose action is on hold."""
    return [f for f in report.findings if f.step.name is StepName.HOLD]


# MERGED The actions of a report in groups, what needs attention first: on hold, failed, refused, done, due. Pure.


NOTICE_WORDS = {StepName.WARN: "owner notified", StepName.REMIND: "owner reminded"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionGroup:
    """Findings under one heading; `needs_attention` if a person has to look at them."""

    title: str
    findings: tuple[Finding, ...]
    needs_attention: bool = False


def action_groups(report: Report) -> list[ActionGroup]:
    """The groups that aren't empty."""
    actions = [f for f in report.findings if f.step.name in ACTIONS]
    due = _due_title(report.run.mode)
    groups = [
        ActionGroup(
            title="On hold", findings=tuple(f for f in report.findings if f.step.name is StepName.HOLD), needs_attention=True
        ),
        ActionGroup(title="Failed", findings=_with_result(actions, Result.FAILED), needs_attention=True),
        ActionGroup(title="Refused", findings=_with_result(actions, Result.REFUSED)),
        ActionGroup(title="Done", findings=_with_result(actions, Result.DONE)),
        ActionGroup(title=due, findings=_with_result(actions, Result.PLANNED)),
    ]
    return [group for group in groups if group.findings]


def action_word(finding: Finding) -> str:
    """`stop` or `hold`: the step, or once it is done the words of the kind, such as `scaled in`."""
    done = finding.step.name in ACTIONS and finding.outcome.result is Result.DONE
    return forecast.done_participle(finding) if done else finding.step.name.value


def outcome_reason(finding: Finding) -> str:
    """What was done, or why not, as a clause."""
    return finding.outcome.error or finding.outcome.because or finding.step.because


def plan_and_outcome_reasons(finding: Finding) -> tuple[str | None, str | None]:
    """Why it is planned, and the outcome. After an action or notice the plan's reason is left out: it says that a notice is still due."""
    outcome = finding.outcome.error or finding.outcome.because
    if finding.outcome.result is not Result.DONE:
        return finding.step.because, outcome
    if finding.step.name in NOTICE_WORDS:
        return f"a channel accepted the mail to {finding.owner.address or 'its owner'}", outcome
    return (None, outcome) if outcome else (finding.step.because, None)


def progress_words(finding: Finding, mode: Mode) -> tuple[str, str]:
    """A step and its result, as a heading and words: `Next` and `would notify the owner`, `Done` and `scaled in`, `Failed` and `stop`.

    Both come from one place, so that they can't contradict each other.
    """
    step, result = finding.step.name, finding.outcome.result
    if step is StepName.HOLD:
        return "On hold", "until a person releases it"
    if result is Result.PLANNED:
        return "Next", f"{_next_words(step, mode)}{_missing_address_note(finding)}"
    if result is Result.DONE:
        return "Done", NOTICE_WORDS.get(step) or action_word(finding)
    return result.value.capitalize(), _step_words(step)


def _next_words(step: StepName, mode: Mode) -> str:
    if step is StepName.NONE:
        return "nothing"
    if not mode.writes:
        return f"would {_step_words(step)}"
    due = _due_title(mode)
    return f"{step}: {due[0].lower()}{due[1:]}" if step in ACTIONS else f"{_step_words(step)}, but not in this run"


def _step_words(step: StepName) -> str:
    return {StepName.WARN: "notify the owner", StepName.REMIND: "remind the owner"}.get(step, step.value)


def _missing_address_note(finding: Finding) -> str:
    """What prevents a notice without a recipient."""
    return ", but it has no owner address" if finding.step.name in NOTICE_WORDS and not finding.owner.address else ""


def _due_title(mode: Mode) -> str:
    """The heading of actions that were only planned."""
    if not mode.writes:
        return "Would be carried out now"
    return "Due, waiting for `reaper apply`" if mode.announces and not mode.acts else "Due, not carried out"


def _with_result(actions: list[Finding], result: Result) -> tuple[Finding, ...]:
    return tuple(f for f in actions if f.outcome.result is result)
