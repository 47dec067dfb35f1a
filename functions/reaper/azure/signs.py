"""What a series says: use, life, or a silence that can be trusted.

Three shapes of no data are told apart: no series at all, points without a value, and zeros.
"""

from __future__ import annotations

from array import array
from dataclasses import replace

from reaper.azure.series import STEP, Answer
from reaper.model import Reading, Role

BELOW_ANY = float("-inf")


def activity(signal: str, answer: Answer, busy_above: float = 0.0) -> Reading:
    """The answer as a sign of use. A last bucket that is still filling is busy up to the end of the window, not to its own."""
    reading = Reading(signal=signal, role=Role.ACTIVITY, series=answer.series, complete=answer.complete, busy_above=busy_above)
    values = answer.series.values
    if values and values[-1] > busy_above and answer.series.start + len(values) * STEP > answer.end:
        series = replace(answer.series, values=array("f", [*values[:-1], busy_above]))
        return replace(reading, series=series, at=answer.end)
    return reading


def heartbeat(signal: str, answer: Answer) -> Reading:
    """The answer as a sign of life: any value will do, zero too."""
    return Reading(signal=signal, role=Role.HEARTBEAT, series=answer.series, complete=answer.complete, busy_above=BELOW_ANY)


def silence(signal: str, answer: Answer) -> tuple[Reading, ...]:
    """The answer as a sign of use whose silence can be trusted.

    No series at all is a metric that had nothing to say. A series with a bucket that has no value is one that was not recorded then,
    so its own points must be alive, too.
    """
    use = activity(signal, answer)
    return (use, heartbeat(f"{signal} points", answer)) if answer.series.values else (use,)
