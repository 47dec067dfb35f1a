"""CloudWatch: exact series, buckets, retention, limits and pages, in every protocol that an SDK may speak."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import botocore.session
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.fault import denied, on
from reaper_sandbox.aws.server import Server
from sandbox.aws.clients import NOW, Client

HOUR, DAY, MINUTE = timedelta(hours=1), timedelta(days=1), timedelta(minutes=1)
Ask = Callable[..., dict[str, Any]]


def query(metric: str = "Hits", id: str = "q", stat: str = "Sum", period: int = 3600, **dimensions: str) -> dict[str, Any]:
    """One query in the namespace N."""
    pairs = [{"Name": k, "Value": v} for k, v in dimensions.items()]
    named = {"Namespace": "N", "MetricName": metric, "Dimensions": pairs}
    return {"Id": id, "MetricStat": {"Metric": named, "Period": period, "Stat": stat}}


@pytest.fixture
def ask(client: Client) -> Ask:
    """GetMetricData of the last day, oldest first."""

    def call(*queries: dict[str, Any], start: datetime = NOW - DAY, end: datetime = NOW, **more: Any) -> dict[str, Any]:
        params = {"MetricDataQueries": list(queries), "StartTime": start, "EndTime": end, "ScanBy": "TimestampAscending"} | more
        reply: dict[str, Any] = client("cloudwatch").get_metric_data(**params)
        return reply

    return call


def values(reply: dict[str, Any], at: int = 0) -> list[float]:
    """The values of one result."""
    results: list[float] = reply["MetricDataResults"][at]["Values"]
    return results


@pytest.mark.parametrize(
    ("metric_query", "expected"),
    [
        pytest.param(query(E="a"), [3.0], id="the very series"),
        pytest.param(query(E="A"), [], id="another case"),
        pytest.param(query(), [], id="no dimensions"),
        pytest.param(query(E="a", V="b"), [], id="one dimension more"),
        pytest.param(query("hits", E="a"), [], id="another name"),
        pytest.param({"Id": "q", "MetricStat": query(E="a")["MetricStat"] | {"Unit": "Seconds"}}, [], id="another unit"),
    ],
)
def test_a_query_returns_exactly_its_series(
    ask: Ask, account: Account, metric_query: dict[str, Any], expected: list[float]
) -> None:
    account.points("N", "Hits", {"E": "a"}, [(NOW - HOUR, 3)])
    account.points("M", "Hits", {"E": "a"}, [(NOW - HOUR, 9)])
    assert values(ask(metric_query)) == expected


def test_a_variants_series_is_not_its_endpoints(ask: Ask, account: Account) -> None:
    account.points("N", "Hits", {"E": "a", "V": "b"}, [(NOW - HOUR, 3)])
    reply = ask(query(E="a"), query(id="r", V="b", E="a"))
    assert (values(reply), values(reply, 1)) == ([], [3.0])


@pytest.mark.parametrize(
    ("stat", "expected"), [("Sum", 9.0), ("Average", 3.0), ("Minimum", 2.0), ("Maximum", 5.0), ("SampleCount", 3.0)]
)
def test_the_five_statistics(ask: Ask, account: Account, stat: str, expected: float) -> None:
    start = NOW - 2 * HOUR
    account.points("N", "Hits", {}, [(start + 40 * MINUTE, 2), (start + MINUTE, 5), (start + 20 * MINUTE, 2)])
    assert values(ask(query(stat=stat), start=start, end=NOW)) == [expected]


def test_buckets_begin_at_the_start_and_end_before_the_end(ask: Ask, account: Account) -> None:
    start = NOW - timedelta(hours=2, minutes=30, seconds=-7)
    points = [(start - timedelta(seconds=30), 1), (start + 59 * MINUTE, 2), (start + 61 * MINUTE, 4), (NOW, 8)]
    account.points("N", "Hits", {}, points)
    row = ask(query(), start=start, end=NOW)["MetricDataResults"][0]
    first = start.replace(second=0)
    assert (row["Timestamps"], row["Values"]) == ([first, first + HOUR], [2.0, 4.0])


def test_the_start_is_rounded_down_to_the_minute(ask: Ask, account: Account) -> None:
    account.points("N", "Hits", {}, [(NOW - HOUR, 1)])
    assert values(ask(query(), start=NOW - HOUR + timedelta(seconds=20))) == [1.0]


def test_the_newest_comes_first_unless_asked_otherwise(client: Client, account: Account) -> None:
    account.points("N", "Hits", {}, [(NOW - 3 * HOUR, 1), (NOW - HOUR, 2)])
    reply = client("cloudwatch").get_metric_data(MetricDataQueries=[query()], StartTime=NOW - DAY, EndTime=NOW)
    assert reply["MetricDataResults"][0]["Values"] == [2.0, 1.0]


@pytest.mark.parametrize(
    ("days", "period", "has_values"),
    [
        pytest.param(14, 60, True, id="minutes for 15 days"),
        pytest.param(16, 60, False, id="no minutes after 15 days"),
        pytest.param(16, 300, True, id="five minutes for 63 days"),
        pytest.param(64, 300, False, id="no five minutes after 63 days"),
        pytest.param(64, 3600, True, id="hours after that"),
    ],
)
def test_a_period_finer_than_the_retention_returns_nothing(
    ask: Ask, account: Account, days: int, period: int, has_values: bool
) -> None:
    account.points("N", "Hits", {}, [(NOW - HOUR, 1)])
    reply = ask(query(period=period), start=NOW - days * DAY)
    assert bool(values(reply)) is has_values
    assert reply["MetricDataResults"][0]["StatusCode"] == "Complete"


@pytest.mark.parametrize(("stat", "expected"), [("Sum", 18.0), ("SampleCount", 12.0), ("Average", 1.5), ("Maximum", 1.5)])
def test_a_steady_run_is_as_good_as_its_points(ask: Ask, account: Account, stat: str, expected: float) -> None:
    account.steady("N", "Hits", {}, NOW - 6 * HOUR - 10 * MINUTE, NOW - 2 * HOUR, 1.5)
    results = values(ask(query(stat=stat), start=NOW - 10 * HOUR))
    assert len(results) == 5
    assert set(results[1:]) == {expected}
    assert results[0] == {"Sum": 3.0, "SampleCount": 2.0}.get(stat, expected)


def test_runs_and_points_of_one_series_add_up(ask: Ask, account: Account) -> None:
    account.steady("N", "Hits", {}, NOW - 2 * HOUR, NOW - HOUR, 0)
    account.points("N", "Hits", {}, [(NOW - 2 * HOUR + MINUTE, 7)])
    reply = ask(query(stat="Maximum"), query(id="n", stat="SampleCount"), start=NOW - 2 * HOUR)
    assert (values(reply), values(reply, 1)) == ([7.0], [13.0])


@pytest.mark.parametrize(
    ("queries", "more", "code"),
    [
        pytest.param([query(id=f"q{i}") for i in range(501)], {}, "ValidationError", id="501 queries"),
        pytest.param([query(), query()], {}, "ValidationError", id="an id twice"),
        pytest.param([query(stat="p99")], {}, "InvalidParameterValue", id="a statistic we do not keep"),
        pytest.param([query(period=90)], {}, "InvalidParameterValue", id="an odd period"),
        pytest.param([query()], {"MaxDatapoints": 100_801}, "InvalidParameterValue", id="too many points a page"),
        pytest.param([query()], {"end": NOW - 2 * DAY}, "InvalidParameterValue", id="the end before the start"),
        pytest.param([query()], {"NextToken": "zzz"}, "InvalidParameterValue", id="a made-up token"),
        pytest.param([{"Id": "e", "Expression": "SEARCH('x', 'Sum')"}], {}, "ValidationError", id="an expression"),
    ],
)
def test_cloudwatch_refuses_invalid_queries(ask: Ask, queries: list[dict[str, Any]], more: dict[str, Any], code: str) -> None:
    with pytest.raises(ClientError) as caught:
        ask(*queries, **more)
    assert caught.value.response["Error"]["Code"] == code


def test_500_queries_are_answered_in_one_call(ask: Ask, account: Account) -> None:
    for i in range(500):
        account.steady("N", "Hits", {"E": str(i)}, NOW - DAY, NOW, i)
    reply = ask(*(query(id=f"q{i}", stat="Maximum", E=str(i)) for i in range(500)))
    assert [row["Values"][0] for row in reply["MetricDataResults"]] == [float(i) for i in range(500)]
    assert "NextToken" not in reply


def test_many_points_come_in_pages_and_only_the_last_is_complete(server: Server, ask: Ask, account: Account) -> None:
    server.world.page_points = 10
    for name in ("a", "b"):
        account.points("N", "Hits", {"E": name}, [(NOW - i * HOUR, i) for i in range(1, 13)])
    pages = [ask(query(id="a", E="a"), query(id="b", E="b"), query(id="c", E="c"))]
    while token := pages[-1].get("NextToken"):
        pages.append(ask(query(id="a", E="a"), query(id="b", E="b"), query(id="c", E="c"), NextToken=token))
    assert [{r["StatusCode"] for r in p["MetricDataResults"]} for p in pages] == [{"PartialData"}, {"PartialData"}, {"Complete"}]
    for at, count in enumerate((12, 12, 0)):
        assert [v for p in pages for v in values(p, at)] == [float(i) for i in range(count, 0, -1)]


def test_max_datapoints_makes_smaller_pages(ask: Ask, account: Account) -> None:
    account.steady("N", "Hits", {}, NOW - DAY, NOW, 1)
    reply = ask(query(), MaxDatapoints=5)
    assert (len(values(reply)), bool(reply.get("NextToken"))) == (5, True)


def test_a_point_can_be_put_and_read_back(client: Client, ask: Ask) -> None:
    dimensions = [{"Name": "E", "Value": "a"}]
    sets = {"SampleCount": 4, "Sum": 10, "Minimum": 1, "Maximum": 6}
    client("cloudwatch").put_metric_data(
        Namespace="N",
        MetricData=[
            {"MetricName": "Hits", "Dimensions": dimensions, "Timestamp": NOW - HOUR, "Value": 2},
            {"MetricName": "Hits", "Dimensions": dimensions, "Timestamp": NOW - HOUR, "StatisticValues": sets},
            {"MetricName": "Hits", "Dimensions": dimensions, "Timestamp": NOW - HOUR, "Values": [3, 5], "Counts": [1, 2]},
        ],
    )
    reply = ask(query(E="a"), query(id="n", E="a", stat="SampleCount"), query(id="m", E="a", stat="Maximum"))
    assert (values(reply), values(reply, 1), values(reply, 2)) == ([25.0], [8.0], [6.0])


@pytest.mark.parametrize(
    ("namespace", "when"),
    [
        pytest.param("AWS/SageMaker", NOW, id="a namespace of AWS"),
        pytest.param("N", NOW - 15 * DAY, id="too long ago"),
        pytest.param("N", NOW + 3 * HOUR, id="too far ahead"),
    ],
)
def test_invalid_points_are_refused(client: Client, namespace: str, when: datetime) -> None:
    with pytest.raises(ClientError, match="InvalidParameterValue"):
        client("cloudwatch").put_metric_data(Namespace=namespace, MetricData=[{"MetricName": "m", "Value": 1, "Timestamp": when}])


def test_list_metrics_pages_each_recent_series_once(server: Server, client: Client, account: Account) -> None:
    for i in range(1100):
        account.points("N", "Hits", {"E": f"{i:04d}"}, [(NOW - HOUR, 1), (NOW - 2 * HOUR, 1)])
    account.points("N", "Hits", {"E": "old"}, [(NOW - 15 * DAY, 1)])
    account.points("N", "Cpu", {"E": "0000"}, [(NOW - HOUR, 1)])
    pages = list(client("cloudwatch").get_paginator("list_metrics").paginate(Namespace="N", MetricName="Hits"))
    assert [len(p["Metrics"]) for p in pages] == [500, 500, 100]
    assert len({m["Dimensions"][0]["Value"] for p in pages for m in p["Metrics"]} - {"old"}) == 1100


def test_list_metrics_filters(client: Client, account: Account) -> None:
    account.points("N", "Hits", {"E": "a", "V": "x"}, [(NOW - 4 * HOUR, 1)])
    account.points("N", "Hits", {"E": "b"}, [(NOW - HOUR, 1)])
    account.points("M", "Cpu", {}, [(NOW - HOUR, 1)])
    listed = client("cloudwatch").list_metrics

    def names(**params: Any) -> list[str]:
        return [",".join([m["MetricName"], *(d["Value"] for d in m["Dimensions"])]) for m in listed(**params)["Metrics"]]

    assert names() == ["Hits,a,x", "Hits,b", "Cpu"]
    assert names(Namespace="M") == ["Cpu"]
    assert names(RecentlyActive="PT3H") == ["Hits,b", "Cpu"]
    assert names(Dimensions=[{"Name": "V"}]) == ["Hits,a,x"]
    assert names(Dimensions=[{"Name": "E", "Value": "b"}]) == ["Hits,b"]


def test_get_metric_statistics_refuses_too_many_points(client: Client, account: Account) -> None:
    account.steady("N", "Hits", {"E": "a"}, NOW - 3 * HOUR, NOW, 2)
    parameters = {"Namespace": "N", "MetricName": "Hits", "Dimensions": [{"Name": "E", "Value": "a"}], "EndTime": NOW}
    statistics = client("cloudwatch").get_metric_statistics
    points = statistics(**parameters, StartTime=NOW - 3 * HOUR, Period=3600, Statistics=["Sum", "SampleCount"])["Datapoints"]
    assert sorted((p["Sum"], p["SampleCount"]) for p in points) == [(24.0, 12.0)] * 3
    with pytest.raises(ClientError, match=r"1,?440"):
        statistics(**parameters, StartTime=NOW - 2 * DAY, Period=60, Statistics=["Sum"])


@pytest.fixture(params=["smithy-rpc-v2-cbor", "json", "query"])
def cloudwatch(request: pytest.FixtureRequest, server: Server, tmp_path: Path) -> Any:
    """A CloudWatch client that speaks one protocol only, as other versions of the SDK do."""
    raw = botocore.session.get_session()
    loader = raw.get_component("data_loader")
    version = loader.determine_latest_version("cloudwatch", "service-2")
    model = loader.load_service_model("cloudwatch", "service-2")
    if request.param not in model["metadata"]["protocols"]:
        pytest.skip("this version of the SDK does not speak it")
    model["metadata"] |= {"protocol": request.param, "protocols": [request.param]}
    place = tmp_path / "cloudwatch" / version
    place.mkdir(parents=True)
    (place / "service-2.json").write_text(json.dumps(model))
    fresh = botocore.session.get_session()
    fresh.get_component("data_loader").search_paths.insert(0, str(tmp_path))
    session = boto3.Session("AKIAIOSFODNN7EXAMPLE", "x", region_name="us-east-1", botocore_session=fresh)
    return session.client("cloudwatch", endpoint_url=server.url, config=Config(retries={"total_max_attempts": 1}))


def test_every_protocol_returns_the_same_answers(cloudwatch: Any, server: Server, account: Account) -> None:
    account.points("N", "Hits", {"E": "a"}, [(NOW - 3 * HOUR, 1), (NOW - HOUR, 2.5)])
    [row] = cloudwatch.get_metric_data(MetricDataQueries=[query(E="a")], StartTime=NOW - DAY, EndTime=NOW)["MetricDataResults"]
    assert (row["Values"], row["Timestamps"], row["StatusCode"]) == ([2.5, 1.0], [NOW - HOUR, NOW - 3 * HOUR], "Complete")
    assert cloudwatch.list_metrics(Namespace="N")["Metrics"][0]["Dimensions"] == [{"Name": "E", "Value": "a"}]
    cloudwatch.put_metric_data(Namespace="N", MetricData=[{"MetricName": "New", "Value": 4.5, "Timestamp": NOW}])
    parameters = {"MetricDataQueries": [query("New")], "StartTime": NOW - HOUR, "EndTime": NOW + HOUR}
    assert cloudwatch.get_metric_data(**parameters)["MetricDataResults"][0]["Values"] == [4.5]
    assert {c.operation for c in server.calls} == {"GetMetricData", "ListMetrics", "PutMetricData"}


def test_every_protocol_shows_the_same_refusals(cloudwatch: Any, server: Server) -> None:
    with pytest.raises(ClientError, match="InvalidParameterValue"):
        cloudwatch.get_metric_data(MetricDataQueries=[query(stat="p99")], StartTime=NOW - DAY, EndTime=NOW)
    server.rules.append(on("ListMetrics", denied()))
    with pytest.raises(ClientError) as caught:
        cloudwatch.list_metrics()
    assert caught.value.response["Error"]["Code"] == "AccessDenied"
    assert "cloudwatch:ListMetrics" in caught.value.response["Error"]["Message"]
