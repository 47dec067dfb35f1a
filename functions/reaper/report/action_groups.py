"""What a sweep did, would do, or held back: the acts of a report, in groups that a person reads from the top. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from reaper.model import Finding, Mode, Move, Report, Result
from reaper.notices import forecast

ACTS = frozenset({Move.STOP, Move.DELETE, Move.START})
TOLD = {Move.WARN: "owner notified", Move.REMIND: "owner reminded"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Findings under one heading; `loud` where a person has to look."""

    title: str
    findings: tuple[Finding, ...]
    loud: bool = False


def groups(report: Report) -> list[Group]:
    """The groups that have anything in them: held back, failed, refused, done, and what is due but was only planned."""
    acts = [f for f in report.findings if f.step.move in ACTS]
    due = _due(report.run.mode)
    found = [
        Group(title="Held back", findings=tuple(f for f in report.findings if f.step.move is Move.HOLD), loud=True),
        Group(title="Failed", findings=_of(acts, Result.FAILED), loud=True),
        Group(title="Refused", findings=_of(acts, Result.REFUSED)),
        Group(title="Done", findings=_of(acts, Result.DONE)),
        Group(title=due, findings=_of(acts, Result.PLANNED)),
    ]
    return [group for group in found if group.findings]


def word(found: Finding) -> str:
    """`stop` or `hold`: the move, or what was done to it in the words of its kind, such as `scaled in`."""
    done = found.step.move in ACTS and found.outcome.result is Result.DONE
    return forecast.done(found) if done else found.step.move.value


def why(found: Finding) -> str:
    """What was done, or why not, in a sentence."""
    return found.outcome.error or found.outcome.because or found.step.because


def reasons(found: Finding) -> tuple[str | None, str | None]:
    """Why it is planned, and what came of it. Beside what is done the plan's reason stands no more: it says that nobody was told yet."""
    came = found.outcome.error or found.outcome.because
    if found.outcome.result is not Result.DONE:
        return found.step.because, came
    if found.step.move in TOLD:
        return f"a channel accepted the mail to {found.owner.address or 'its owner'}", came
    return (None, came) if came else (found.step.because, None)


def progress(found: Finding, mode: Mode) -> tuple[str, str]:
    """What the run made of a step, as a heading and words: `Next` and `would warn`, `Done` and `scaled in`, `Failed` and `stop`.

    One line tells both, so that what comes next and what became of it cannot contradict each other.
    """
    move, result = found.step.move, found.outcome.result
    if move is Move.HOLD:
        return "On hold", "until a person releases it"
    if result is Result.PLANNED:
        return "Next", f"{_next(move, mode)}{_unheard(found)}"
    if result is Result.DONE:
        return "Done", TOLD.get(move) or word(found)
    return result.value.capitalize(), move.value


def _next(move: Move, mode: Mode) -> str:
    if move is Move.NONE:
        return "nothing"
    if not mode.writes:
        return f"would {move}"
    due = _due(mode)
    return f"{move}: {due[0].lower()}{due[1:]}" if move in ACTS else f"{move}: not sent in this run"


def _unheard(found: Finding) -> str:
    """What is in the way of a notice that has nobody to go to."""
    return ", but it has no owner address" if found.step.move in TOLD and not found.owner.address else ""


def _due(mode: Mode) -> str:
    """What the actions that were only planned are called."""
    if not mode.writes:
        return "Would be done now"
    return "Due, waiting for `reaper apply`" if mode.announces and not mode.acts else "Due, not done"


def _of(acts: list[Finding], result: Result) -> tuple[Finding, ...]:
    return tuple(f for f in acts if f.outcome.result is result)
