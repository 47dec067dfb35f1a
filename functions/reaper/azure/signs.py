"""What a series says: use, or life.

Azure Monitor answers points without a value for hours in which a sparse metric had nothing to say. They are no points: as a sign of use
they are silence, as a sign of life they are a gap, exactly as a series that is not there.
https://learn.microsoft.com/azure/azure-monitor/metrics/data-platform-metrics
"""

from __future__ import annotations

import math
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


def stand_in(signal: str, active: Answer, total: Answer, idle: Answer) -> Reading | None:
    """A sign of life for hours in which `active` said nothing: alive where `idle` accounts for all of `total`, or nothing is there at all.

    None where `active` was recorded in every hour, and needs no other signal to stand in for it.
    """
    mine = active.series.values or array("f", [math.nan]) * max(len(total.series.values), len(idle.series.values))
    if mine and not any(math.isnan(value) for value in mine):
        return None
    complete = total.complete and idle.complete
    reading = Reading(signal=signal, role=Role.HEARTBEAT, series=replace(total.series, values=()), complete=complete)
    if not len(mine) == len(total.series.values) == len(idle.series.values) or total.series.start != idle.series.start:
        return reading
    hours = zip(mine, total.series.values, idle.series.values, strict=True)
    alive = (not math.isnan(used) or nodes <= 0 or resting >= nodes for used, nodes, resting in hours)
    values = array("f", (1.0 if one else math.nan for one in alive))
    return replace(reading, series=replace(total.series, values=values))
