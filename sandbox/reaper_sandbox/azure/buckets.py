"""From stretches of points to the buckets of a reply: average, total, count, minimum and maximum of each. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from reaper_sandbox.azure import moment
from reaper_sandbox.azure.metrics import Stretch
from reaper_sandbox.azure.request import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Clock-aligned buckets of `step` seconds that cover `start` to `end`. Points before `oldest` or from `newest` on are not there."""

    start: int
    end: int
    step: int
    oldest: int
    newest: int

    @property
    def first(self) -> int:
        """Where the first bucket begins."""
        return self.start // self.step * self.step

    @property
    def count(self) -> int:
        """How many buckets there are."""
        return max(0, -(-(self.end - self.first) // self.step))


@dataclass(slots=True)
class Bucket:
    """What fell into one bucket."""

    count: int = 0
    total: float = 0.0
    low: float = float("inf")
    high: float = float("-inf")


def overlaps(stretches: Sequence[Stretch], grid: Grid) -> bool:
    """Whether any point falls into the grid."""
    return any(_clipped(s, grid) for s in stretches)


@lru_cache(maxsize=4096)
def data(stretches: tuple[Stretch, ...], grid: Grid, wanted: tuple[str, ...]) -> list[Json]:
    """The `data` of a time series: every bucket has a `timeStamp`, and the wanted aggregations where it has points."""
    buckets: dict[int, Bucket] = {}
    for stretch in stretches:
        _pour(stretch, grid, buckets)
    return [{"timeStamp": moment.short(grid.first + i * grid.step), **_values(buckets.get(i), wanted)} for i in range(grid.count)]


def _values(bucket: Bucket | None, wanted: tuple[str, ...]) -> Json:
    if bucket is None:
        return {}
    average = bucket.total / bucket.count
    known = {
        "average": average,
        "minimum": bucket.low,
        "maximum": bucket.high,
        "total": bucket.total,
        "count": float(bucket.count),
    }
    return {name: known[name] for name in wanted}


def _pour(stretch: Stretch, grid: Grid, buckets: dict[int, Bucket]) -> None:
    span = _clipped(stretch, grid)
    if span is None:
        return
    for index in range((span[0] - grid.first) // grid.step, (span[1] - 1 - grid.first) // grid.step + 1):
        begin = max(span[0], grid.first + index * grid.step)
        end = min(span[1], grid.first + (index + 1) * grid.step)
        count = _ticks(stretch, end) - _ticks(stretch, begin)
        if count:
            bucket = buckets.setdefault(index, Bucket())
            bucket.count += count
            bucket.total += count * stretch.value
            bucket.low, bucket.high = min(bucket.low, stretch.value), max(bucket.high, stretch.value)


def _ticks(stretch: Stretch, until: int) -> int:
    """How many points the stretch has before `until`."""
    return max(0, -(-(until - stretch.start) // stretch.every))


def _clipped(stretch: Stretch, grid: Grid) -> tuple[int, int] | None:
    last = min(grid.newest, grid.first + grid.count * grid.step, stretch.end if stretch.end is not None else grid.newest)
    begin = max(stretch.start, grid.first, grid.oldest)
    return (begin, last) if begin < last else None
