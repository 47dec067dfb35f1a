"""What a sweep did, would do, or held back: the acts of a report, in groups that a person reads from the top. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from reaper.model import ACTIONS, Finding, Mode, Report, Result, StepName
from reaper.notices import forecast

NOTICE_WORDS = {StepName.WARN: "owner notified", StepName.REMIND: "owner reminded"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionGroup:
    """Findings under one heading; `loud` where a person has to look."""

    title: str
    findings: tuple[Finding, ...]
    needs_attention: bool = False


def action_groups(report: Report) -> list[ActionGroup]:
    """The groups that have anything in them: held back, failed, refused, done, and what is due but was only planned."""
    acts = [f for f in report.findings if f.step.name in ACTIONS]
    due = _due_title(report.run.mode)
    found = [
        ActionGroup(
            title="Held back", findings=tuple(f for f in report.findings if f.step.name is StepName.HOLD), needs_attention=True
        ),
        ActionGroup(title="Failed", findings=_with_result(acts, Result.FAILED), needs_attention=True),
        ActionGroup(title="Refused", findings=_with_result(acts, Result.REFUSED)),
        ActionGroup(title="Done", findings=_with_result(acts, Result.DONE)),
        ActionGroup(title=due, findings=_with_result(acts, Result.PLANNED)),
    ]
    return [group for group in found if group.findings]


def action_word(finding: Finding) -> str:
    """`stop` or `hold`: the move, or what was done to it in the words of its kind, such as `scaled in`."""
    done = finding.step.name in ACTIONS and finding.outcome.result is Result.DONE
    return forecast.done_participle(finding) if done else finding.step.name.value


def outcome_reason(finding: Finding) -> str:
    """What was done, or why not, in a sentence."""
    return finding.outcome.error or finding.outcome.because or finding.step.because


def plan_and_outcome_reasons(finding: Finding) -> tuple[str | None, str | None]:
    """Why it is planned, and what came of it. Beside what is done the plan's reason stands no more: it says that nobody was told yet."""
    came = finding.outcome.error or finding.outcome.because
    if finding.outcome.result is not Result.DONE:
        return finding.step.because, came
    if finding.step.name in NOTICE_WORDS:
        return f"a channel accepted the mail to {finding.owner.address or 'its owner'}", came
    return (None, came) if came else (finding.step.because, None)


def progress_words(finding: Finding, mode: Mode) -> tuple[str, str]:
    """What the run made of a step, as a heading and words: `Next` and `would warn`, `Done` and `scaled in`, `Failed` and `stop`.

    One line tells both, so that what comes next and what became of it cannot contradict each other.
    """
    move, result = finding.step.name, finding.outcome.result
    if move is StepName.HOLD:
        return "On hold", "until a person releases it"
    if result is Result.PLANNED:
        return "Next", f"{_next_words(move, mode)}{_missing_address_note(finding)}"
    if result is Result.DONE:
        return "Done", NOTICE_WORDS.get(move) or action_word(finding)
    return result.value.capitalize(), move.value


def _next_words(move: StepName, mode: Mode) -> str:
    if move is StepName.NONE:
        return "nothing"
    if not mode.writes:
        return f"would {move}"
    due = _due_title(mode)
    return f"{move}: {due[0].lower()}{due[1:]}" if move in ACTIONS else f"{move}: not sent in this run"


def _missing_address_note(finding: Finding) -> str:
    """What is in the way of a notice that has nobody to go to."""
    return ", but it has no owner address" if finding.step.name in NOTICE_WORDS and not finding.owner.address else ""


def _due_title(mode: Mode) -> str:
    """What the actions that were only planned are called."""
    if not mode.writes:
        return "Would be done now"
    return "Due, waiting for `reaper apply`" if mode.announces and not mode.acts else "Due, not done"


def _with_result(acts: list[Finding], result: Result) -> tuple[Finding, ...]:
    return tuple(f for f in acts if f.outcome.result is result)
