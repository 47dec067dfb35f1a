"""The metric store: exact namespace, name and dimensions; single points and steady runs; buckets of any period.

Statistics, rounding and retention: https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_GetMetricData.html
All times in here are whole seconds since 1970, UTC.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

Key = tuple[str, str, tuple[tuple[str, str], ...]]
MINUTE, HOUR, DAY = 60, 3600, 86400
STATISTICS = ("Sum", "Average", "Minimum", "Maximum", "SampleCount")


@dataclass(frozen=True, slots=True)
class Bucket:
    """What fell into one period."""

    start: int
    count: float
    total: float
    least: float
    most: float

    def statistic(self, name: str) -> float:
        """One of STATISTICS. Raises KeyError for any other."""
        average = self.total / self.count if self.count else 0.0
        return {"Sum": self.total, "Average": average, "Minimum": self.least, "Maximum": self.most, "SampleCount": self.count}[
            name
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The same value every `every` seconds from `since` on, before `until`: any number of points in the space of one."""

    since: int
    until: int
    every: int
    value: float

    @property
    def last(self) -> int:
        """The time of the last point."""
        return self.since + (self.until - self.since - 1) // self.every * self.every


@dataclass(slots=True, kw_only=True)
class Series:
    """One metric. `sets` are statistic sets: (time, count, sum, minimum, maximum)."""

    key: Key
    unit: str = "None"
    stamps: array[int] = field(default_factory=lambda: array("q"))
    values: array[float] = field(default_factory=lambda: array("d"))
    runs: list[Run] = field(default_factory=list)
    sets: list[tuple[int, float, float, float, float]] = field(default_factory=list)
    ordered: bool = True

    def add(self, stamp: int, value: float) -> None:
        """One more point."""
        self.ordered = self.ordered and (not self.stamps or self.stamps[-1] <= stamp)
        self.stamps.append(stamp)
        self.values.append(value)

    def latest(self) -> int:
        """The time of the newest point; 0 without any."""
        self._order()
        newest = [*self.stamps[-1:], *(r.last for r in self.runs), *(s[0] for s in self.sets)]
        return max(newest, default=0)

    def shown(self, start: int, end: int, period: int, statistic: str) -> tuple[Sequence[int], Sequence[float]]:
        """Start times and values of every period in [start, end) that has a point, oldest first. `statistic` is one of STATISTICS."""
        if len(self.runs) == 1 and not self.stamps and not self.sets:
            run = self.runs[0]
            stamps, counts = _counts(run.since, run.until, run.every, start, end, period)
            if statistic == "SampleCount":
                return stamps, counts
            if statistic == "Sum":
                return stamps, array("d", [run.value * n for n in counts])
            return stamps, array("d", [run.value]) * len(stamps)
        buckets = self._buckets(start, end, period)
        return [b.start for b in buckets], array("d", [b.statistic(statistic) for b in buckets])

    def _buckets(self, start: int, end: int, period: int) -> list[Bucket]:
        rows: dict[int, list[float]] = {}
        for stamp, count, total, least, most in self._parts(start, end, period):
            row = rows.get(stamp)
            if row is None:
                rows[stamp] = [count, total, least, most]
            else:
                row[0] += count
                row[1] += total
                row[2] = min(row[2], least)
                row[3] = max(row[3], most)
        return [Bucket(stamp, *rows[stamp]) for stamp in sorted(rows)]

    def _parts(self, start: int, end: int, period: int) -> Iterator[tuple[int, float, float, float, float]]:
        self._order()
        for i in range(bisect_left(self.stamps, start), bisect_left(self.stamps, end)):
            value = self.values[i]
            yield start + (self.stamps[i] - start) // period * period, 1.0, value, value, value
        for stamp, *rest in self.sets:
            if start <= stamp < end:
                yield start + (stamp - start) // period * period, rest[0], rest[1], rest[2], rest[3]
        for run in self.runs:
            for stamp, n in zip(*_counts(run.since, run.until, run.every, start, end, period), strict=True):
                yield stamp, n, n * run.value, run.value, run.value

    def _order(self) -> None:
        if not self.ordered:
            pairs = sorted(zip(self.stamps, self.values, strict=True))
            self.stamps = array("q", [stamp for stamp, _ in pairs])
            self.values = array("d", [value for _, value in pairs])
            self.ordered = True


@lru_cache(maxsize=256)
def _counts(since: int, until: int, every: int, start: int, end: int, period: int) -> tuple[list[int], array[float]]:
    """Start and number of points of each period that a run reaches. Cached: thousands of runs share one shape."""
    stamps, counts = [], array("d")
    for bucket in range(start, end, period):
        low, high = max(bucket, since), min(bucket + period, end, until)
        if high <= low:
            continue
        first = -((since - low) // every)
        after = -((since - high) // every)
        if after > first:
            stamps.append(bucket)
            counts.append(after - first)
    return stamps, counts


@dataclass(slots=True)
class Metrics:
    """Every series of one region, found by its exact key, and by namespace and name in order of arrival."""

    series: dict[Key, Series] = field(default_factory=dict)
    named: dict[tuple[str, str], list[Series]] = field(default_factory=dict)

    def of(self, namespace: str, name: str, dimensions: Iterable[tuple[str, str]], unit: str = "None") -> Series:
        """The series with exactly these dimensions, made where it is missing."""
        key = (namespace, name, tuple(sorted(dimensions)))
        series = self.series.get(key)
        if series is None:
            series = self.series[key] = Series(key=key, unit=unit)
            self.named.setdefault((namespace, name), []).append(series)
        return series
