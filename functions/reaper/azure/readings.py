"""Readings from metric results: signs of use and heartbeats.

For hours in which a sparse metric had nothing to report, Azure Monitor returns points without a value. They don't count as points: for
activity they are silence, for a heartbeat they are a gap, exactly as if the series didn't exist.
https://learn.microsoft.com/azure/azure-monitor/metrics/data-platform-metrics
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import replace

from reaper.azure.metrics_reply import MetricResult
from reaper.model import Role
from reaper.observation import Reading, Series

BELOW_ANY = float("-inf")


def activity_reading(signal: str, result: MetricResult) -> Reading:
    """The result as an activity signal."""
    return Reading(signal=signal, role=Role.ACTIVITY, series=result.series, complete=result.complete, busy_above=0.0)


def heartbeat_reading(signal: str, result: MetricResult) -> Reading:
    """The result as a heartbeat: any value will do, zero too."""
    return Reading(signal=signal, role=Role.HEARTBEAT, series=result.series, complete=result.complete, busy_above=BELOW_ANY)


def stand_in_reading(signal: str, active: MetricResult, total: MetricResult, idle: MetricResult) -> Reading | None:
    """A heartbeat for hours without a value of `active`: a gap if `idle` and `total` show that nodes were at work all the same.

    None if there is no such hour, so that no stand-in is needed. If one of the two has no value either, nothing contradicts the silence,
    and the heartbeat decides.
    """
    complete = total.complete and idle.complete
    reading = Reading(signal=signal, role=Role.HEARTBEAT, series=replace(total.series, values=()), complete=complete)
    known = [result.series for result in (active, total, idle) if result.series.values]
    if len({(series.start, len(series.values)) for series in known}) > 1:
        return reading
    hours = zip(*(_padded_values(result, known) for result in (active, total, idle)), strict=True)
    values = array("f", (1.0 if _is_accounted_for(*hour) else math.nan for hour in hours))
    return replace(reading, series=replace(known[0], values=values)) if any(math.isnan(value) for value in values) else None


def _is_accounted_for(active: float, total: float, idle: float) -> bool:
    return not math.isnan(active) or math.isnan(total) or math.isnan(idle) or idle >= total


def _padded_values(result: MetricResult, known: Sequence[Series]) -> Sequence[float]:
    return result.series.values or array("f", [math.nan]) * max((len(series.values) for series in known), default=0)
