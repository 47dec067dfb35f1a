"""Metrics through the single and the batch call: buckets, splits, the three shapes of no data, limits and refusals."""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from typing import Any

import pytest
from azure.core.exceptions import ClientAuthenticationError, HttpResponseError
from azure.core.rest import HttpRequest
from azure.monitor.querymetrics import MetricsQueryResult

from reaper_sandbox.azure import signals
from reaper_sandbox.azure.metrics import Signal
from reaper_sandbox.azure.server import Server
from reaper_sandbox.azure.subscription import Thing, Workspace
from sandbox.azure import sdk

HOUR = timedelta(hours=1)


def single(server: Server, resource: str, names: str, aggregation: str = "Average", **more: Any) -> dict[str, Any]:
    """Metrics of the last three hours by name, as the typed client gives them."""
    more = {"interval": "PT1H", "timespan": "2026-11-20T10:00:00Z/2026-11-20T13:00:00Z", **more}
    answer = sdk.monitor(server).metrics.list(resource, metricnames=names, aggregation=aggregation, **more)
    return {metric.name.value: metric for metric in answer.value}


def batch(server: Server, things: list[Thing], now: datetime, name: str, **more: Any) -> list[MetricsQueryResult]:
    more = {"aggregations": ["Average"], "granularity": HOUR, "timespan": (now - 3 * HOUR, now), **more}
    space = more.pop("metric_namespace", signals.DEPLOYMENTS)
    return sdk.batch(server).query_resources(
        resource_ids=[t.id for t in things], metric_namespace=space, metric_names=[name], **more
    )


def raw(server: Server, ids: list[str], **query: str) -> Any:
    query = {
        "starttime": "2026-11-20T10:00:00Z",
        "endtime": "2026-11-20T12:00:00Z",
        "interval": "PT1H",
        "metricnamespace": signals.DEPLOYMENTS,
        "metricnames": "RequestsPerMinute",
        "aggregation": "Average",
        "api-version": "2024-02-01",
        **query,
    }
    url = f"{server.url}/subscriptions/{sdk.SUB}/metrics:getBatch"
    answer = sdk.batch(server).send_request(HttpRequest("POST", url, params=query, json={"resourceids": ids}))
    return answer.status_code, answer.json()


def test_buckets_align_with_the_clock(server: Server, vision: Workspace, now: datetime) -> None:
    gpus = vision.cluster("gpus")
    signals.nodes(gpus, active=2, idle=0, since=now - timedelta(minutes=75), until=now - timedelta(minutes=45))
    names = single(
        server, vision.id, "Active Nodes", "Average,Maximum,Total", timespan="2026-11-20T10:20:00Z/2026-11-20T12:30:00Z"
    )
    (series,) = names["Active Nodes"].timeseries
    assert [(p.time_stamp.hour, p.time_stamp.minute) for p in series.data] == [(10, 0), (11, 0), (12, 0)]
    assert [p.maximum for p in series.data] == [None, 2.0, None]
    assert [p.total for p in series.data] == [None, 60.0, None]


def test_an_empty_bucket_has_no_value_and_zeros_are_zero(server: Server, vision: Workspace, now: datetime) -> None:
    blue = vision.endpoint("chat").deployment("blue")
    signals.requests(blue, 0, since=now - timedelta(minutes=90))
    (series,) = single(server, blue.id, "RequestsPerMinute")["RequestsPerMinute"].timeseries
    assert [p.average for p in series.data] == [None, 0.0, 0.0]


def test_the_three_shapes_of_no_data_differ(server: Server, vision: Workspace, now: datetime) -> None:
    endpoint = vision.endpoint("chat")
    valueless, nothing, zeros = (endpoint.deployment(name) for name in ("valueless", "nothing", "zeros"))
    signals.valueless_requests(valueless)
    signals.requests(zeros, 0, since=now - timedelta(days=2))
    signals.capacity(nothing, since=now - timedelta(days=2))
    shapes = {}
    for one in (valueless, nothing, zeros):
        series = single(server, one.id, "RequestsPerMinute")["RequestsPerMinute"].timeseries
        shapes[one.name] = [p.average for s in series for p in s.data]
    assert shapes == {"valueless": [None, None, None], "nothing": [], "zeros": [0.0, 0.0, 0.0]}


def test_an_undocumented_aggregation_has_no_values(server: Server, vision: Workspace, now: datetime) -> None:
    blue = vision.endpoint("chat").deployment("blue")
    signals.requests(blue, 7, since=now - timedelta(days=2))
    (series,) = single(server, blue.id, "RequestsPerMinute", "Total")["RequestsPerMinute"].timeseries
    assert [p.total for p in series.data] == [None, None, None]


def test_a_split_has_lower_case_names_and_ten_series_by_default(server: Server, vision: Workspace, now: datetime) -> None:
    for n in range(12):
        signals.nodes(vision.cluster(f"GPU-{n:02}"), active=n, idle=1, since=now - timedelta(days=2))
    split = {"filter": "ClusterName eq '*'"}
    short = single(server, vision.id, "Active Nodes", "Maximum", **split)["Active Nodes"].timeseries
    full = single(server, vision.id, "Active Nodes", "Maximum", **split, top=1000)["Active Nodes"].timeseries
    assert (len(short), len(full)) == (10, 12)
    assert [(m.name.value, m.value) for m in full[11].metadatavalues] == [("clustername", "gpu-11")]
    one = single(server, vision.id, "Active Nodes", "Maximum", filter="ClusterName eq 'GPU-03' or clustername eq 'gpu-05'")
    assert [s.data[0].maximum for s in one["Active Nodes"].timeseries] == [3.0, 5.0]
    both = single(server, vision.id, "Active Nodes", "Maximum", filter="ClusterName eq 'gpu-03' and Scenario eq '*'")
    assert len(both["Active Nodes"].timeseries[0].metadatavalues) == 2


def test_without_a_split_all_series_are_one(server: Server, vision: Workspace, now: datetime) -> None:
    for n in (1, 3):
        signals.nodes(vision.cluster(f"gpu-{n}"), active=n, idle=0, since=now - timedelta(days=2))
    (series,) = single(server, vision.id, "Active Nodes", "Average,Maximum")["Active Nodes"].timeseries
    assert (series.data[0].average, series.data[0].maximum) == (2.0, 3.0)


def test_a_series_that_ended_before_the_window_is_not_in_a_split(server: Server, vision: Workspace, now: datetime) -> None:
    gpus = vision.cluster("gpus")
    signals.nodes(gpus, active=0, idle=1, since=now - timedelta(days=9), until=now - timedelta(days=5))
    split = single(server, vision.id, "Total Nodes", "Maximum", filter="ClusterName eq '*'")["Total Nodes"]
    assert split.timeseries == []


def test_points_are_kept_93_days_and_none_comes_from_the_future(server: Server, vision: Workspace, now: datetime) -> None:
    gpus = vision.cluster("gpus")
    signals.nodes(gpus, active=1, idle=0, since=now - timedelta(days=200))
    span = f"{now - timedelta(days=95):%Y-%m-%dT%H:%M:%SZ}/{now + timedelta(days=2):%Y-%m-%dT%H:%M:%SZ}"
    (series,) = single(server, vision.id, "Active Nodes", "Maximum", interval="P1D", timespan=span)["Active Nodes"].timeseries
    assert [p.maximum for p in series.data[:3]] == [None, None, 1.0]
    assert [p.maximum for p in series.data[-3:]] == [1.0, None, None]


def test_stepping_the_clock_brings_new_points(server: Server, vision: Workspace, now: datetime) -> None:
    gpus = vision.cluster("gpus")
    signals.nodes(gpus, active=1, idle=0, since=now)
    (before,) = single(server, vision.id, "Active Nodes", "Maximum")["Active Nodes"].timeseries
    server.now = now + HOUR
    (after,) = single(server, vision.id, "Active Nodes", "Maximum")["Active Nodes"].timeseries
    assert [p.maximum for p in before.data] == [None, None, None]
    assert [p.maximum for p in after.data] == [None, None, 1.0]


def test_a_stopped_pipeline_and_a_forgotten_metric(server: Server, vision: Workspace, now: datetime) -> None:
    blue = vision.endpoint("chat").deployment("blue")
    signals.requests(blue, 1, since=now - timedelta(days=2))
    signals.capacity(blue, since=now - timedelta(days=2))
    server.metrics.stop(blue.id, now - timedelta(minutes=90))
    server.metrics.forget(blue.id, "DeploymentCapacity")
    metrics = single(server, blue.id, "RequestsPerMinute,DeploymentCapacity")
    assert [p.average for p in metrics["RequestsPerMinute"].timeseries[0].data] == [1.0, None, None]
    assert metrics["DeploymentCapacity"].timeseries == []


def test_single_points_land_in_their_minute(server: Server, vision: Workspace, now: datetime) -> None:
    signal = Signal(resource=vision.id, namespace="MLIdleReaper", metric="Busy", dimensions={"ComputeName": "ada"})
    server.metrics.points(signal, {now - timedelta(minutes=40): 1, now - timedelta(minutes=35): 0})
    metrics = single(server, vision.id, "Busy", "Maximum,Count", metricnamespace="MLIdleReaper", filter="ComputeName eq '*'")
    (series,) = metrics["Busy"].timeseries
    assert [p.maximum for p in series.data] == [None, 1.0, None]
    assert series.data[1].count == 2


@pytest.mark.parametrize(
    ("query", "message"),
    [
        pytest.param({"metricnames": "Actve Nodes"}, "Valid metrics: Active Nodes,", id="unknown metric"),
        pytest.param({"filter": "Colour eq '*'"}, "supported ones are: Scenario,ClusterName", id="unknown dimension"),
        pytest.param({"filter": "ClusterName like 'x'"}, "Invalid filter", id="unreadable filter"),
        pytest.param({"interval": "PT2H"}, "supported ones are: PT1M", id="unknown interval"),
        pytest.param({"aggregation": "Median"}, "supported ones are: Average", id="unknown aggregation"),
        pytest.param({"metricnamespace": "MLIdleReaper", "metricnames": "Busy"}, "Nothing was published", id="silent namespace"),
        pytest.param({"timespan": "2026-11-20T10:00:00Z/2026-11-19T10:00:00Z"}, "start time", id="backwards"),
        pytest.param({"filter": "ClusterName eq '*'", "top": 0}, "TopN", id="top of nothing"),
    ],
)
def test_a_wrong_query_is_a_400_that_says_why(server: Server, vision: Workspace, query: dict[str, Any], message: str) -> None:
    parameters = {"metricnames": "Active Nodes", "timespan": "2026-11-20T10:00:00Z/2026-11-20T13:00:00Z", **query}
    with pytest.raises(HttpResponseError) as raised:
        sdk.monitor(server).metrics.list(vision.id, **parameters)
    assert raised.value.status_code == 400
    body = raised.value.response.text()  # type: ignore[union-attr]
    assert body.startswith('{"code": "BadRequest"')
    assert message in body


def test_metrics_of_a_deleted_resource_are_a_404(server: Server, vision: Workspace) -> None:
    gone = vision.endpoint("chat").deployment("blue")
    gone.remove()
    with pytest.raises(HttpResponseError, match="ResourceNotFound"):
        single(server, gone.id, "RequestsPerMinute")


def test_a_batch_answers_for_each_resource_in_any_order(server: Server, vision: Workspace, now: datetime) -> None:
    endpoint = vision.endpoint("chat")
    things = [endpoint.deployment(f"d{n}") for n in range(20)]
    for n, one in enumerate(things):
        signals.requests(one, n, since=now - timedelta(days=1))
    status, body = raw(server, [t.id for t in things])
    assert status == 200
    assert {r["resourceid"].rpartition("/")[2]: r["value"][0]["timeseries"][0]["data"][0]["average"] for r in body["values"]} == {
        f"d{n}": float(n) for n in range(20)
    }
    assert [r["resourceid"] for r in body["values"]] != [t.id for t in things]
    assert body["values"][0]["resourceregion"] == "westeurope"
    assert len(batch(server, things, now, "RequestsPerMinute")) == 20


def test_the_top_of_a_batch_counts_the_series_of_all_its_resources(server: Server, vision: Workspace, now: datetime) -> None:
    endpoint = vision.endpoint("chat")
    things = [endpoint.deployment(f"d{n}") for n in range(12)]
    for one in things:
        signals.requests(one, 1, since=now - timedelta(days=1))
    split = {"filter": "envoy_response_code eq '*'"}
    short = batch(server, things, now, "RequestsPerMinute", **split)
    full = batch(server, things, now, "RequestsPerMinute", **split, max_results=1000)
    assert sum(len(r.metrics[0].timeseries) for r in short) == 10
    assert sum(len(r.metrics[0].timeseries) for r in full) == 12


def test_a_published_custom_namespace_works_in_a_batch(server: Server, vision: Workspace, now: datetime) -> None:
    other = server.subscription(sdk.SUB).workspace("other")
    signals.busy(vision.instance("ada"), 1, since=now - timedelta(days=1))
    more = {"metric_namespace": "MLIdleReaper", "filter": "ComputeName eq '*'", "aggregations": ["Maximum"]}
    results = batch(server, [vision, other], now, "Busy", **more)
    assert sorted(len(r.metrics[0].timeseries) for r in results) == [0, 1]
    with pytest.raises(HttpResponseError, match="Nothing was published"):
        batch(server, [other], now, "Busy", **more)


def test_one_metric_of_one_resource_can_fail(server: Server, vision: Workspace, now: datetime) -> None:
    endpoint = vision.endpoint("chat")
    well, ill = endpoint.deployment("well"), endpoint.deployment("ill")
    for one in (well, ill):
        signals.requests(one, 1, since=now - timedelta(days=1))
    server.metrics.fail(ill.id, "RequestsPerMinute")
    _, body = raw(server, [well.id, ill.id])
    results = {r["resourceid"]: (r["value"][0]["errorCode"], len(r["value"][0]["timeseries"])) for r in body["values"]}
    assert results == {well.id: ("Success", 1), ill.id: ("ServiceUnavailable", 0)}


def test_a_batch_has_its_limits(server: Server, vision: Workspace) -> None:
    sub = server.subscription(sdk.SUB)
    deployment = vision.endpoint("here").deployment("blue").id
    away = sub.workspace("away", region="eastus").endpoint("there").deployment("blue").id
    foreign = server.subscription("2" * 8).workspace("foreign").endpoint("e").deployment("blue").id
    assert raw(server, [deployment] * 51)[0] == 400
    assert "same region" in raw(server, [deployment, away])[1]["error"]["message"]
    assert "subscription" in raw(server, [deployment, foreign])[1]["error"]["message"]
    assert "of the type" in raw(server, [vision.id])[1]["error"]["message"]
    assert raw(server, [])[0] == 400


def test_a_batch_needs_a_token_for_the_metrics_service(server: Server, vision: Workspace, now: datetime) -> None:
    blue = vision.endpoint("chat").deployment("blue")
    client = sdk.batch(server, audience=sdk.MANAGEMENT)
    with pytest.raises(ClientAuthenticationError, match="wrong audience"):
        client.query_resources(resource_ids=[blue.id], metric_namespace=signals.DEPLOYMENTS, metric_names=["RequestsPerMinute"])


def test_the_newest_points_have_not_arrived_yet(server: Server, vision: Workspace, now: datetime) -> None:
    server.metrics.lag = timedelta(minutes=3)
    blue = vision.endpoint("chat").deployment("blue")
    signals.requests(blue, 1, since=now - timedelta(minutes=5))
    span = "2026-11-20T12:25:00Z/2026-11-20T12:30:00Z"
    (series,) = single(server, blue.id, "RequestsPerMinute", interval="PT1M", timespan=span)["RequestsPerMinute"].timeseries
    assert [p.average for p in series.data] == [1.0, 1.0, None, None, None]


def test_reading_is_no_mutation(server: Server, vision: Workspace) -> None:
    raw(server, [vision.endpoint("chat").deployment("blue").id])
    assert server.mutations == []


def test_ten_thousand_series_are_stored_and_read(server: Server, vision: Workspace, now: datetime) -> None:
    endpoint = vision.endpoint("chat")
    began = time.monotonic()
    ids = [f"{endpoint.id}/deployments/d{n}" for n in range(10_000)]
    for one in ids:
        server.metrics.steady(
            Signal(resource=one, namespace=signals.DEPLOYMENTS, metric="RequestsPerMinute"), 0, since=now - timedelta(days=20)
        )
    status, body = raw(server, ids[:50], starttime="2026-11-06T12:00:00Z")
    assert status == 200
    assert sum(len(r["value"][0]["timeseries"][0]["data"]) for r in body["values"]) == 50 * 14 * 24
    assert time.monotonic() - began < 20
