"""The actions of a report in groups, what needs attention first: on hold, failed, refused, done, due. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from reaper.case import Finding, Report
from reaper.model import ACTIONS, Mode, Result, StepName
from reaper.notices import forecast

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
