"""What a metric query asks for, parsed once, and one metric's share of the reply; the same for the single and the batch call."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from reaper_sandbox.azure import buckets, catalogue, moment, selection
from reaper_sandbox.azure.buckets import Grid
from reaper_sandbox.azure.catalogue import Definition
from reaper_sandbox.azure.metrics import RETENTION, Metrics, Series, Stretch
from reaper_sandbox.azure.refusal import bad
from reaper_sandbox.azure.request import Json
from reaper_sandbox.azure.selection import Selection

STEPS = {"PT1M": 60, "PT5M": 300, "PT15M": 900, "PT30M": 1800, "PT1H": 3600, "PT6H": 21600, "PT12H": 43200, "P1D": 86400}
MOST_NAMES = 20
DEFAULT_TOP = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A query. `top` is how many series it may return, None without a filter (then there is one per metric)."""

    namespace: str
    names: tuple[str, ...]
    grid: Grid
    interval: str
    aggregations: tuple[str, ...]
    chosen: Selection
    top: int | None


def read(query: Mapping[str, str], namespace: str, span: tuple[str, str], seen_until: datetime) -> Chart:
    """The query's parameters as a Chart; `span` is where it starts and ends. Raises Refused (400) for what Monitor would not take."""
    interval = query.get("interval", "PT1M").upper()
    if interval not in STEPS:
        raise bad(f"Invalid time grain {interval}, supported ones are: {','.join(STEPS)}")
    names = tuple(n for n in query.get("metricnames", "").split(",") if n)
    if not names or len(names) > MOST_NAMES:
        raise bad(f"Between 1 and {MOST_NAMES} metric names are expected, got {len(names)}")
    filtered = query.get("$filter") or query.get("filter")
    grid = _grid(span, STEPS[interval], seen_until)
    return Chart(
        namespace=namespace,
        names=names,
        grid=grid,
        interval=interval,
        aggregations=_aggregations(query.get("aggregation", "")),
        chosen=selection.parse(filtered),
        top=_top(query.get("top")) if filtered else None,
    )


def definitions(chart: Chart, known: Mapping[str, Definition], where: str) -> list[Definition]:
    """The definition of each metric asked for. Raises Refused (400) with the valid names, or the valid dimensions."""
    for name in chart.names:
        if name.lower() not in known:
            valid = ",".join(d.name for d in known.values())
            raise bad(f"Failed to find metric configuration for provider: {where}, metric: {name}, Valid metrics: {valid}")
        split = known[name.lower()].dimensions
        if unknown := set(chart.chosen.values) - {d.lower() for d in split}:
            raise bad(
                f"Metric: {name} does not support requested dimension combination: {','.join(sorted(unknown))}, "
                f"supported ones are: {','.join(split)}"
            )
    return [known[name.lower()] for name in chart.names]


def metric(store: Metrics, chart: Chart, resource: str, definition: Definition, room: Iterator[int]) -> Json:
    """One metric of one resource. Every series returned takes one from `room`; when that is empty the rest is left out, silently."""
    error = store.error_code(resource, definition.name)
    series = store.series(resource, chart.namespace, definition.name) if error == "Success" else []
    wanted = tuple(a.lower() for a in chart.aggregations if a in definition.aggregations)
    return {
        "id": f"{resource}/providers/Microsoft.Insights/metrics/{definition.name}",
        "type": "Microsoft.Insights/metrics",
        "name": {"value": definition.name, "localizedValue": definition.name},
        "displayDescription": f"{definition.name} of the resource",
        "unit": definition.unit,
        "timeseries": [_entry(key, some, chart, wanted) for key, some in _split(series, chart).items() if _fits(chart, room)],
        "errorCode": error,
        **({} if error == "Success" else {"errorMessage": "The metric could not be read."}),
    }


def _split(series: list[Series], chart: Chart) -> dict[tuple[tuple[str, str], ...], list[Series]]:
    groups: dict[tuple[tuple[str, str], ...], list[Series]] = {}
    for one in series:
        stale = chart.chosen.values and one.stretches and not buckets.overlaps(one.stretches, chart.grid)
        if chart.chosen.takes(one.dimensions) and not stale:
            groups.setdefault(chart.chosen.split(one.dimensions), []).append(one)
    return groups


def _entry(key: tuple[tuple[str, str], ...], some: list[Series], chart: Chart, wanted: tuple[str, ...]) -> Json:
    stretches: tuple[Stretch, ...] = tuple(s for one in some for s in one.stretches)
    labels = [{"name": {"value": name, "localizedValue": name}, "value": value} for name, value in key]
    return {"metadatavalues": labels, "data": buckets.data(stretches, chart.grid, wanted)}


def _fits(chart: Chart, room: Iterator[int]) -> bool:
    return chart.top is None or next(room, None) is not None


def _grid(span: tuple[str, str], step: int, seen_until: datetime) -> Grid:
    try:
        start, end = (int(moment.read(one).timestamp()) for one in span)
    except ValueError:
        raise bad(f"Invalid time range {'/'.join(span)}") from None
    if start >= end:
        raise bad("The start time must be before the end time")
    oldest = int((seen_until - RETENTION).timestamp())
    return Grid(start=start, end=end, step=step, oldest=oldest, newest=int(seen_until.timestamp()))


def _aggregations(text: str) -> tuple[str, ...]:
    aggregations = [a.strip().title() for a in text.split(",") if a.strip()]
    if unknown := set(aggregations) - set(catalogue.AGGREGATIONS):
        raise bad(f"Invalid aggregation {','.join(sorted(unknown))}, supported ones are: {','.join(catalogue.AGGREGATIONS)}")
    return tuple(aggregations) or ("Average",)


def _top(text: str | None) -> int:
    if text is None:
        return DEFAULT_TOP
    if not re.fullmatch(r"\d{1,10}", text) or int(text) > 2**31 - 1 or int(text) == 0:
        raise bad(f"Detected invalid TopN value {text}; it should be a positive Int value.")
    return int(text)
