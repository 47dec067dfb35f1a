"""CloudWatch as it really answers: exact dimensions, rounding, retention, limits, pages, statuses.

https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_GetMetricData.html and API_ListMetrics.html;
quotas: https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/cloudwatch_limits.html
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from reaper_sandbox.aws import token
from reaper_sandbox.aws.moment import read
from reaper_sandbox.aws.reply import Refusal
from reaper_sandbox.aws.series import DAY, HOUR, MINUTE, STATISTICS, Series
from reaper_sandbox.aws.world import Region

MAX_QUERIES, MAX_POINTS, MAX_STATISTICS, METRICS_A_PAGE = 500, 100_800, 1440, 500
ACTIVE = 14 * DAY
Rows = list[tuple[dict[str, Any], Sequence[int], Sequence[float]]]


def get_metric_data(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """Every query's series, in pages; results of all but the last page are PartialData."""
    queries = params.get("MetricDataQueries") or []
    _check(queries, params)
    start, end = read(params["StartTime"]), read(params["EndTime"])
    if end <= start:
        raise invalid("The parameter StartTime must be less than the parameter EndTime.")
    rows: Rows = [
        (query, *_answer(region, query["MetricStat"], start, end, params.get("ScanBy")))
        for query in queries
        if query.get("ReturnData", True) is not False
    ]
    return _page(region, rows, params)


def _answer(
    region: Region, query: dict[str, Any], start: datetime, end: datetime, order: str | None
) -> tuple[Sequence[int], Sequence[float]]:
    metric, period, statistic = query["Metric"], int(query["Period"]), query["Stat"]
    if statistic not in STATISTICS:
        raise invalid(f"The value {statistic} for parameter MetricDataQueries.MetricStat.Stat is not supported.")
    if period % MINUTE and period not in (1, 5, 10, 20, 30):
        raise invalid(f"Invalid metric data query: Period {period} must be a multiple of 60.")
    series = _series(region, metric)
    age = region.now.timestamp() - start.timestamp()
    grain = _grain(age)
    if series is None or period % grain or query.get("Unit", series.unit) != series.unit:
        return (), ()
    oldest = int(start.timestamp()) // grain * grain
    stamps, values = series.shown(oldest, int(end.timestamp()), period, statistic)
    return (stamps, values) if order == "TimestampAscending" else (stamps[::-1], values[::-1])


def _grain(age: float) -> int:
    """The finest resolution that is still kept at that age, in seconds; StartTime is rounded down to it."""
    return MINUTE if age < 15 * DAY else 5 * MINUTE if age < 63 * DAY else HOUR


def _series(region: Region, metric: dict[str, Any]) -> Series | None:
    dimensions = tuple(sorted((d["Name"], d["Value"]) for d in metric.get("Dimensions") or ()))
    return region.metrics.series.get((metric["Namespace"], metric["MetricName"], dimensions))


def _check(queries: list[dict[str, Any]], params: dict[str, Any]) -> None:
    if not queries:
        raise Refusal("MissingParameter", "The parameter MetricDataQueries is required.")
    if len(queries) > MAX_QUERIES:
        raise Refusal("ValidationError", f"The collection MetricDataQueries must not have a size greater than {MAX_QUERIES}.")
    if len({q["Id"] for q in queries}) < len(queries):
        raise Refusal("ValidationError", "The values for parameter id in MetricDataQueries are not unique.")
    if any("MetricStat" not in q for q in queries):
        raise Refusal("ValidationError", "This account answers MetricStat queries only, no expressions.")
    if not 1 <= int(params.get("MaxDatapoints") or 1) <= MAX_POINTS:
        raise invalid(f"The value for parameter MaxDatapoints must be between 1 and {MAX_POINTS}.")


def _page(region: Region, rows: Rows, params: dict[str, Any]) -> dict[str, Any]:
    limit = min(int(params.get("MaxDatapoints") or MAX_POINTS), region.world.page_points)
    first = token.read(params.get("NextToken"), "GetMetricData", invalid("The value for parameter NextToken is invalid."))
    total = sum(len(values) for _, _, values in rows)
    last = first + limit >= total
    results, passed = [], 0
    for query, stamps, values in rows:
        low, high = max(0, first - passed), max(0, first + limit - passed)
        passed += len(values)
        results.append(
            {
                "Id": query["Id"],
                "Label": query.get("Label") or query["MetricStat"]["Metric"]["MetricName"],
                "Timestamps": [_moment(stamp) for stamp in stamps[low:high]],
                "Values": array("d", values[low:high]),
                "StatusCode": "Complete" if last else "PartialData",
            }
        )
    return {
        "MetricDataResults": results,
        "Messages": [],
        "NextToken": None if last else token.write("GetMetricData", first + limit),
    }


@lru_cache(maxsize=4096)
def _moment(stamp: int) -> datetime:
    return datetime.fromtimestamp(stamp, UTC)


def get_metric_statistics(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """One series, at most 1,440 points, in no order."""
    start, end, period = read(params["StartTime"]), read(params["EndTime"]), int(params["Period"])
    if (end - start).total_seconds() / period > MAX_STATISTICS:
        raise Refusal(
            "InvalidParameterCombination",
            f"You have requested up to {int((end - start).total_seconds() / period)} datapoints, which exceeds the limit of "
            f"{MAX_STATISTICS}. You may reduce the datapoints requested by increasing Period, or decreasing the time range.",
        )
    points: dict[int, dict[str, Any]] = {}
    for statistic in params.get("Statistics") or ():
        query = {"Metric": params, "Period": period, "Stat": statistic} | {k: params[k] for k in ("Unit",) if k in params}
        for stamp, value in zip(*_answer(region, query, start, end, None), strict=True):
            points.setdefault(stamp, {"Timestamp": _moment(stamp), "Unit": "None"})[statistic] = value
    return {"Label": params["MetricName"], "Datapoints": list(points.values())}


def put_metric_data(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """Points of today, more or less: two weeks back, two hours ahead, in a namespace of one's own."""
    if params["Namespace"].startswith("AWS/"):
        raise invalid("The value AWS/ for parameter Namespace is invalid.")
    for at, datum in enumerate(params.get("MetricData") or (), start=1):
        when = read(datum["Timestamp"]) if "Timestamp" in datum else region.now
        age = (region.now - when).total_seconds()
        if not -2 * HOUR <= age <= 14 * DAY:
            raise invalid(f"The parameter MetricData.member.{at}.Timestamp must specify a time within the past two weeks.")
        dimensions = [(d["Name"], d["Value"]) for d in datum.get("Dimensions") or ()]
        series = region.metrics.of(params["Namespace"], datum["MetricName"], dimensions, datum.get("Unit", "None"))
        _store(series, int(when.timestamp()) // MINUTE * MINUTE, datum)
    return {}


def _store(series: Series, stamp: int, datum: dict[str, Any]) -> None:
    if numbers := datum.get("StatisticValues"):
        names = ("SampleCount", "Sum", "Minimum", "Maximum")
        count, total, least, most = (float(numbers[name]) for name in names)
        series.sets.append((stamp, count, total, least, most))
    elif values := datum.get("Values"):
        for value, count in zip(values, datum.get("Counts") or [1.0] * len(values), strict=True):
            series.sets.append((stamp, float(count), float(value) * float(count), float(value), float(value)))
    else:
        series.add(stamp, float(datum["Value"]))


def list_metrics(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """Each series once, 500 a page, only those with a point in the last two weeks (or three hours, when asked)."""
    oldest = region.now.timestamp() - (3 * HOUR if params.get("RecentlyActive") == "PT3H" else ACTIVE)
    first = token.read(params.get("NextToken"), "ListMetrics", invalid("The value for parameter NextToken is invalid."))
    series = _named(region, params.get("Namespace"), params.get("MetricName"))
    filters = params.get("Dimensions") or ()
    metrics: list[dict[str, Any]] = []
    for at in range(first, len(series)):
        one = series[at]
        if not _fits(one, filters) or one.latest() < oldest:
            continue
        if len(metrics) == METRICS_A_PAGE:
            return {"Metrics": metrics, "NextToken": token.write("ListMetrics", at)}
        metrics.append(_spelled(one))
    return {"Metrics": metrics}


def _named(region: Region, namespace: str | None, name: str | None) -> list[Series]:
    if namespace and name:
        return region.metrics.named.get((namespace, name), [])
    return [s for (n, m), some in region.metrics.named.items() if namespace in (None, n) and name in (None, m) for s in some]


def _fits(series: Series, filters: Sequence[dict[str, str]]) -> bool:
    dimensions = dict(series.key[2])
    return all(f["Name"] in dimensions and f.get("Value") in (None, dimensions[f["Name"]]) for f in filters)


def _spelled(series: Series) -> dict[str, Any]:
    namespace, name, dimensions = series.key
    return {
        "Namespace": namespace,
        "MetricName": name,
        "Dimensions": [{"Name": key, "Value": value} for key, value in dimensions],
    }


def invalid(message: str) -> Refusal:
    """CloudWatch's word for a parameter it does not like."""
    return Refusal("InvalidParameterValue", message)


OPERATIONS = {
    "GetMetricData": get_metric_data,
    "GetMetricStatistics": get_metric_statistics,
    "ListMetrics": list_metrics,
    "PutMetricData": put_metric_data,
}
