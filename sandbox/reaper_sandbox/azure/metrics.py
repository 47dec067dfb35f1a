"""What the metrics pipeline has stored: series by resource, namespace, metric and dimensions.

A series is a few stretches of one value per minute, so ten thousand of them cost little. A stretch without an end goes on as the clock
does. The three shapes of no data: a series that is registered without a stretch (`valueless`) gives points without a value; no series at
all gives an empty `timeseries`; `steady(..., 0)` gives zeros.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

MINUTE = 60
RETENTION = timedelta(days=93)


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """Where points are published: the resource's id, the namespace, the metric's name, and the dimensions with their values."""

    resource: str
    namespace: str
    metric: str
    dimensions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stretch:
    """`value` once every `every` seconds from `start` up to before `end`, seconds since 1970; `end` None: it goes on."""

    start: int
    end: int | None
    value: float
    every: int = MINUTE


@dataclass(slots=True, kw_only=True)
class Series:
    """The stretches of one combination of dimension values; dimension names are lower-cased, values as published."""

    metric: str
    dimensions: dict[str, str]
    stretches: tuple[Stretch, ...] = ()


class Metrics:
    """The store. `lag` is how old a point must be before anybody sees it. `shuffled` mixes up the order of batch replies."""

    def __init__(self) -> None:
        self.lag = timedelta(minutes=3)
        self.shuffled = True
        self._series: dict[tuple[str, str], dict[str, dict[frozenset[tuple[str, str]], Series]]] = {}
        self._failures: dict[tuple[str, str], str] = {}

    def steady(
        self, signal: Signal, value: float, *, since: datetime, until: datetime | None = None, every: int = MINUTE
    ) -> None:
        """`value` every `every` seconds from `since` up to before `until` (None: for ever)."""
        end = int(until.timestamp()) if until else None
        self._add(signal, Stretch(int(since.timestamp()), end, float(value), every))

    def points(self, signal: Signal, values: Mapping[datetime, float]) -> None:
        """Single points at the minute they fall in."""
        self.valueless(signal)
        for at, value in sorted(values.items()):
            minute = int(at.timestamp()) // MINUTE * MINUTE
            self._add(signal, Stretch(minute, minute + MINUTE, float(value)))

    def valueless(self, signal: Signal) -> None:
        """Makes the series known without any value: points come back without one."""
        self._find(signal)

    def stop(self, resource: str, at: datetime, metric: str | None = None) -> None:
        """The pipeline of a resource (or one metric of it) goes down at `at`: nothing later was ever stored."""
        end = int(at.timestamp())
        for one in self._of(resource, metric):
            cut = (replace(s, end=min(s.end or end, end)) for s in one.stretches if s.start < end)
            one.stretches = tuple(cut)

    def forget(self, resource: str, metric: str | None = None) -> None:
        """Drops every series of a resource (or of one metric of it), as if never published."""
        for (owner, _), metrics in self._series.items():
            if owner == resource.lower():
                for name in [n for n in metrics if metric is None or n == metric.lower()]:
                    del metrics[name]

    def fail(self, resource: str, metric: str, code: str | None = "ServiceUnavailable") -> None:
        """This metric of this resource comes back empty with an `errorCode` from now on; None heals it."""
        key = (resource.lower(), metric.lower())
        if code is None:
            self._failures.pop(key, None)
        else:
            self._failures[key] = code

    def error_code(self, resource: str, metric: str) -> str:
        """`Success` by default."""
        return self._failures.get((resource.lower(), metric.lower()), "Success")

    def series(self, resource: str, namespace: str, metric: str) -> list[Series]:
        """Every series of one metric of one resource."""
        return list(self._series.get((resource.lower(), namespace.lower()), {}).get(metric.lower(), {}).values())

    def published(self, resource: str, namespace: str) -> dict[str, list[Series]]:
        """What a resource has in a namespace, by lower-cased metric name."""
        return {name: list(s.values()) for name, s in self._series.get((resource.lower(), namespace.lower()), {}).items()}

    def _of(self, resource: str, metric: str | None) -> list[Series]:
        wanted = metric.lower() if metric else None
        owned = [metrics for (owner, _), metrics in self._series.items() if owner == resource.lower()]
        return [one for metrics in owned for name, s in metrics.items() if wanted in (None, name) for one in s.values()]

    def _find(self, signal: Signal) -> Series:
        owned = self._series.setdefault((signal.resource.lower(), signal.namespace.lower()), {})
        dimensions = {name.lower(): value for name, value in signal.dimensions.items()}
        key = frozenset((name, value.lower()) for name, value in dimensions.items())
        series = owned.setdefault(signal.metric.lower(), {})
        if key not in series:
            series[key] = Series(metric=signal.metric, dimensions=dimensions)
        return series[key]

    def _add(self, signal: Signal, stretch: Stretch) -> None:
        one = self._find(signal)
        one.stretches = (*one.stretches, stretch)
