"""What a series says: use, or life.

Azure Monitor answers points without a value for hours in which a sparse metric had nothing to say. They are no points: as a sign of use
they are silence, as a sign of life they are a gap, exactly as a series that is not there.
https://learn.microsoft.com/azure/azure-monitor/metrics/data-platform-metrics
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import replace

from reaper.azure.metrics import MetricResult
from reaper.model import Reading, Role, Series

BELOW_ANY = float("-inf")


def activity_reading(signal: str, answer: MetricResult, busy_above: float = 0.0) -> Reading:
    """The answer as a sign of use."""
    return Reading(signal=signal, role=Role.ACTIVITY, series=answer.series, complete=answer.complete, busy_above=busy_above)


def heartbeat_reading(signal: str, answer: MetricResult) -> Reading:
    """The answer as a sign of life: any value will do, zero too."""
    return Reading(signal=signal, role=Role.HEARTBEAT, series=answer.series, complete=answer.complete, busy_above=BELOW_ANY)


def stand_in_reading(signal: str, active: MetricResult, total: MetricResult, idle: MetricResult) -> Reading | None:
    """A sign of life for hours in which `active` said nothing: a gap where `idle` and `total` say that nodes were at work all the same.

    None where there is no such hour, so that nothing needs to stand in. Where one of the two said nothing either, nothing contradicts the
    silence, and the heartbeat decides.
    """
    complete = total.complete and idle.complete
    reading = Reading(signal=signal, role=Role.HEARTBEAT, series=replace(total.series, values=()), complete=complete)
    found = [answer.series for answer in (active, total, idle) if answer.series.values]
    if len({(series.start, len(series.values)) for series in found}) > 1:
        return reading
    hours = zip(*(_padded_values(answer, found) for answer in (active, total, idle)), strict=True)
    values = array("f", (1.0 if _is_accounted_for(*hour) else math.nan for hour in hours))
    return replace(reading, series=replace(found[0], values=values)) if any(math.isnan(value) for value in values) else None


def _is_accounted_for(active: float, total: float, idle: float) -> bool:
    return not math.isnan(active) or math.isnan(total) or math.isnan(idle) or idle >= total


def _padded_values(answer: MetricResult, found: Sequence[Series]) -> Sequence[float]:
    return answer.series.values or array("f", [math.nan]) * max((len(series.values) for series in found), default=0)
