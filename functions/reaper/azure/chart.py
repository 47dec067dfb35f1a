"""A metrics reply, read: which resources, metrics and series are in it, and the hourly buckets of each.

The shape is that of https://learn.microsoft.com/rest/api/monitor/metrics-batch/batch; one metric of one resource may be missing, may
carry an `errorCode`, or may have points without a value.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from reaper.azure.call import UNREADABLE, Json
from reaper.azure.moment import moment
from reaper.errors import CloudError, Trouble
from reaper.model import Series

if TYPE_CHECKING:
    from reaper.azure.cloud import Cloud
    from reaper.azure.series import Answers, Query

PERMISSION = "Microsoft.Insights/metrics/read"


def take(cloud: Cloud, rows: Any, asked: set[str], query: Query, found: Answers) -> None:
    """Put what a reply says of the resources `asked` (lower-cased ids) into `found`. Joined by id: the order of a reply means nothing.

    Raises CloudError for a reply that cannot be read, lacks a resource, or may have been cut off at `query.top` series.
    """
    try:
        given = {str(row["resourceid"]).lower(): row["value"] for row in rows}
        if len(given) != len(rows):
            raise CloudError(Trouble.GARBLED, PERMISSION, "one resource came back twice")
        count = sum(len(metric["timeseries"]) for metrics in given.values() for metric in metrics)
        if count >= query.top:
            raise CloudError(Trouble.PARTIAL, PERMISSION, f"{count} series came back, and there may be more")
        for id_ in asked & given.keys():
            _resource(cloud, id_, given[id_], query, found)
    except UNREADABLE as error:
        raise CloudError(Trouble.GARBLED, PERMISSION, f"a reply cannot be read ({error!r})") from error
    if asked - given.keys():
        raise CloudError(
            Trouble.PARTIAL, PERMISSION, f"{len(asked - given.keys())} of {len(asked)} resources are not in the reply"
        )


def _resource(cloud: Cloud, id_: str, metrics: list[Json], query: Query, found: Answers) -> None:
    grid = Grid(start=found.window.start, end=found.window.end, step=found.step)
    by_name = {str(metric["name"]["value"]).lower(): metric for metric in metrics}
    if len(by_name) != len(metrics):
        raise CloudError(Trouble.GARBLED, PERMISSION, f"one metric of {id_} came back twice")
    for name in query.metrics:
        metric = by_name.get(name.lower(), {"errorCode": "not in the reply"})
        code = metric.get("errorCode") or "Success"
        if code != "Success":
            cloud.note(
                CloudError(Trouble.PARTIAL, PERMISSION, f"{name} of {id_}: {code} {metric.get('errorMessage') or ''}".strip())
            )
            continue
        for row in metric["timeseries"]:
            key = (id_, name.lower(), _label(row, query.split))
            found.series[key] = grid.series(row["data"], query.aggregation.lower(), found.series.get(key))
        found.complete.add((id_, name.lower()))


def _label(row: Json, split: str | None) -> str:
    """The value of the dimension that the query was split by, lower-cased as the names of dimensions come back."""
    labels = {str(pair["name"]["value"]).lower(): str(pair["value"]).lower() for pair in row.get("metadatavalues") or ()}
    return labels[split.lower()] if split else ""


@dataclass(slots=True, kw_only=True)
class Grid:
    """Buckets over a window. Whether they begin where the window does or at the full hour is read off the first time stamp."""

    start: datetime
    end: datetime
    step: Any
    places: dict[str, int] = field(default_factory=dict)

    def series(self, points: Sequence[Json], value: str, old: Series | None) -> Series:
        """The points as a series; NaN for a bucket without a point and for a point without a value. `old` is merged in."""
        places = [self._place(point["timeStamp"]) for point in points]
        buckets = array("f", old.values) if old else array("f", [math.nan]) * -(-(self.end - self.start) // self.step)
        for place, point in zip(places, points, strict=True):
            number = point.get(value)
            if number is not None and 0 <= place < len(buckets):
                before = buckets[place]
                buckets[place] = number if math.isnan(before) else max(before, number)
        return Series(start=self.start, step=self.step, values=buckets)

    def _place(self, stamp: str) -> int:
        if stamp not in self.places:
            when = moment(stamp)
            if when is None:
                raise ValueError("a point has no time")
            if not self.places and (late := (when - self.start) % self.step):
                self.start -= self.step - late
            self.places[stamp] = int((when - self.start) // self.step)
        return self.places[stamp]
