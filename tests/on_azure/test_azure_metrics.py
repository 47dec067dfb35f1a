from __future__ import annotations

import json
import math
from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest

from on_azure.conftest import DAY, HOUR, LONG_AGO, NOW, SUB
from reaper.azure import metrics
from reaper.azure.metrics import MetricQuery, MetricResult, MetricResults
from reaper.azure.session import RETRY_COUNTS, CloudSession
from reaper.evidence import ARRIVAL_DELAY, alive_from, last_busy
from reaper.observation import Series, Window
from reaper_sandbox.azure import routes, signals
from reaper_sandbox.azure.fault import Fault, error, on
from reaper_sandbox.azure.request import Reply, Request
from reaper_sandbox.azure.server import Server
from reaper_sandbox.azure.subscription import Subscription, Workspace

WINDOW = Window(start=NOW.replace(minute=0) - 14 * DAY, end=NOW - timedelta(minutes=7), recent_since=NOW - DAY)
NODES = MetricQuery(
    namespace="Microsoft.MachineLearningServices/workspaces",
    metrics=("Active Nodes",),
    aggregation="Maximum",
    split_by="ClusterName",
)


def place(vision: Workspace) -> dict[str, str]:
    return {vision.id: "westeurope"}


def points(first: datetime, *values: float | None) -> list[dict[str, object]]:
    return [
        {"timeStamp": f"{first + n * HOUR:%Y-%m-%dT%H:%M:%SZ}", **({} if v is None else {"average": v})}
        for n, v in enumerate(values)
    ]


def read_points(results: MetricResults, steps: Sequence[dict[str, object]]) -> tuple[Series, str]:
    """The series after these points, and what is odd about them."""
    strange, key = "", ("id", "metric", "")
    try:
        results.add_points(key, steps, "average")
    except ValueError as error:
        strange = str(error)
    return results.series[key], strange


def three_hours() -> MetricResults:
    start = NOW.replace(minute=0)
    return MetricResults(window=Window(start=start, end=start + 3 * HOUR, recent_since=start))


@pytest.mark.parametrize("minute", range(0, 60, 5))
def test_a_heartbeat_reaches_now_at_any_minute_of_the_hour(minute: int):
    now = NOW.replace(minute=minute, second=30)
    end = now.replace(minute=(minute - 5) % 60, second=0) - (HOUR if minute < 5 else timedelta())
    whole = (end - 48 * HOUR).replace(minute=0)
    results = MetricResults(window=Window(start=whole, end=end, recent_since=end))
    series, strange = read_points(results, points(whole, *[1.0] * (48 + bool(end.minute))))
    beat = metrics.heartbeat_reading("Total Nodes", MetricResult(series=series, complete=not strange))
    assert (series.start, beat.complete) == (whole, True)
    assert alive_from(beat, now - ARRIVAL_DELAY) == whole


def shown(*steps: dict[str, object]) -> tuple[list[float], str]:
    """What is read from these points of three hours; -1 where there is none."""
    series, strange = read_points(three_hours(), steps)
    return [-1.0 if math.isnan(value) else value for value in series.values], strange


def test_a_point_between_hours_counts_in_both():
    start = NOW.replace(minute=0)
    values, strange = shown(*points(start + timedelta(minutes=13), 4.0), *points(start + HOUR, 0.0, 0.0))
    assert (values, "10:13" in strange) == ([4.0, 4.0, 0.0], True)
    values, strange = shown(*points(start, 0.0, 0.0), *points(start + timedelta(minutes=119), 4.0))
    assert (values, "11:59" in strange) == ([0.0, 4.0, 4.0], True)


@pytest.mark.parametrize("hours", [-40_000, -1, 3, 40_000])
def test_a_point_outside_the_window_is_reported(hours: int):
    start = NOW.replace(minute=0)
    values, strange = shown(*points(start, 0.0, 0.0, 0.0), *points(start + hours * HOUR, 9.0))
    assert (values, bool(strange)) == ([0.0, 0.0, 0.0], True)


def test_a_point_without_a_value_changes_no_bucket():
    start = NOW.replace(minute=0)
    values, strange = shown(*points(start - timedelta(minutes=1), None), *points(start, 0.0, 2.0, None))
    assert (values, strange) == ([0.0, 2.0, -1.0], "")


def test_two_series_of_one_dimension_value_are_merged():
    start = NOW.replace(minute=0)
    results = three_hours()
    read_points(results, points(start, 1.0, None, 0.0))
    both, _ = read_points(results, points(start, 0.0, 3.0, None))
    assert list(both.values) == [1.0, 3.0, 0.0]


def test_a_partial_last_bucket_is_busy_up_to_the_windows_end():
    start, end = NOW.replace(minute=0) - 2 * HOUR, NOW.replace(minute=10)
    answer = MetricResult(series=Series(start=start, step=HOUR, values=[0.0, 0.0, 5.0], end=end), complete=True)
    assert last_busy(metrics.activity_reading("x", answer)) == end


def test_a_valueless_point_is_silence_in_activity_and_a_gap_in_heartbeat():
    start = NOW.replace(minute=0) - 3 * HOUR
    gap = MetricResult(series=Series(start=start, step=HOUR, values=[1.0, math.nan, 2.0]), complete=True)
    late = MetricResult(series=Series(start=start, step=HOUR, values=[1.0, math.nan, math.nan]), complete=True)
    assert last_busy(metrics.activity_reading("x", late)) == start + HOUR
    assert alive_from(metrics.heartbeat_reading("x", gap), start + 3 * HOUR) == start + 3 * HOUR


@pytest.mark.parametrize(
    ("active", "total", "idle", "alive"),
    [
        ([0.0, 0.0], [2.0, 2.0], [1.0, 1.0], None),
        ([math.nan, 3.0], [2.0, 3.0], [2.0, 0.0], None),
        ([math.nan, math.nan], [2.0, 2.0], [2.0, 1.0], [True, False]),
        ([math.nan, math.nan], [0.0, math.nan], [math.nan, 2.0], None),
        ([math.nan, math.nan], [0.0, math.nan], [math.nan, math.nan], None),
        ([], [2.0, 2.0], [2.0, 2.0], None),
        ([], [], [2.0, 2.0], None),
        ([math.nan, math.nan], [2.0, 2.0], [], None),
        ([], [4.0, 4.0], [0.0, math.nan], [False, True]),
        ([0.0], [2.0, 2.0], [2.0, 2.0], []),
        ([], [], [], None),
    ],
    ids=[
        "recorded",
        "rested",
        "one at work",
        "no total in one hour",
        "no nodes",
        "no series",
        "no total",
        "no idle",
        "none resting",
        "odd",
        "nothing",
    ],
)
def test_idle_nodes_stand_in_for_active_ones_hour_by_hour(active: list, total: list, idle: list, alive: list | None):
    start = NOW.replace(minute=0)
    three = (MetricResult(series=Series(start=start, step=HOUR, values=v), complete=True) for v in (active, total, idle))
    reading = metrics.stand_in_reading("x", *three)
    assert (None if reading is None else [value > reading.busy_above for value in reading.series.values]) == alive


def test_replies_are_joined_by_id_and_never_by_position(server: Server, cloud: CloudSession, vision: Workspace):
    spaces = [vision, *(server.subscription(SUB).workspace(f"ws{n}") for n in range(9))]
    for n, space in enumerate(spaces):
        signals.nodes(space.cluster("gpus"), active=n, idle=0, since=LONG_AGO)
    results = metrics.fetch_metrics(
        cloud,
        {s.id.replace("resourceGroups", "RESOURCEGROUPS"): "westeurope" for s in spaces},
        NODES,
        WINDOW,
    )
    assert [max(results.result_of(s.id, "Active Nodes", "GPUS").series.values) for s in spaces] == list(range(10))


def test_a_resource_missing_from_a_batch_is_read_singly(server: Server, cloud: CloudSession, vision: Workspace):
    server.rules.append(on("POST", ".*metrics:getBatch", Fault(answer=lambda r: Reply(body={"values": []}))))
    assert metrics.fetch_metrics(cloud, place(vision), NODES, WINDOW).result_of(vision.id, "Active Nodes", "gpus").complete
    server.rules.append(on("GET", ".*Insights/metrics", error(501)))
    assert not metrics.fetch_metrics(cloud, place(vision), NODES, WINDOW).result_of(vision.id, "Active Nodes", "gpus").complete
    assert len(cloud.errors) == 1


def test_a_resource_repeated_in_a_batch_is_read_singly(server: Server, cloud: CloudSession, vision: Workspace):
    signals.nodes(vision.cluster("gpus"), active=3, idle=0, since=LONG_AGO)
    point = {"timeStamp": "2026-11-20T00:00:00Z", "maximum": 9}
    nine = {"metadatavalues": [{"name": {"value": "clustername"}, "value": "gpus"}], "data": [point]}
    twin = {"resourceid": vision.id, "value": [{"name": {"value": "Active Nodes"}, "timeseries": [nine]}]}
    server.rules.append(on("POST", ".*metrics:getBatch", Fault(answer=lambda r: Reply(body={"values": [twin, twin]}))))
    answer = metrics.fetch_metrics(cloud, place(vision), NODES, WINDOW).result_of(vision.id, "Active Nodes", "gpus")
    assert (answer.complete, max(answer.series.values)) == (True, 3.0)


def test_a_reply_that_may_have_been_cut_off_is_incomplete(cloud: CloudSession, vision: Workspace):
    for n in range(4):
        signals.nodes(vision.cluster(f"c{n}"), active=0, idle=1, since=LONG_AGO)
    few = MetricQuery(
        namespace=NODES.namespace, metrics=NODES.metrics, aggregation="Maximum", split_by="ClusterName", max_series=3
    )
    assert not metrics.fetch_metrics(cloud, place(vision), few, WINDOW).result_of(vision.id, "Active Nodes", "c0").complete
    assert "there may be more" in str(cloud.errors[0])


def test_a_batch_has_at_most_fifty_resources(server: Server, cloud: CloudSession):
    spaces = [server.subscription(SUB).workspace(f"ws{n:03}") for n in range(120)]
    metrics.fetch_metrics(cloud, dict.fromkeys((s.id for s in spaces), "westeurope"), NODES, WINDOW)
    assert sorted(len(r.body["resourceids"]) for r in server.requests if r.body) == [20, 50, 50]


def test_a_denied_batch_is_tried_once_per_target(server: Server, cloud: CloudSession, vision: Workspace):
    def refuse(request: Request) -> Fault | None:
        return Fault(answer=lambda r: Reply(status=403, body={})) if "getBatch" in request.path else None

    server.rules.append(refuse)
    for session in (cloud, cloud.for_kind(), cloud.for_kind()):
        results = metrics.fetch_metrics(session, place(vision), NODES, WINDOW)
        assert results.result_of(vision.id, "Active Nodes").complete
        assert session.errors == []
    assert sum("getBatch" in r.path for r in server.requests) == 1


@pytest.mark.parametrize("status", [404, 400, 500, 503])
def test_a_batch_spoiled_by_one_resource_is_read_singly(
    server: Server, cloud: CloudSession, subscription: Subscription, vision: Workspace, status: int
):
    others = [subscription.workspace(f"ws{n}") for n in range(60)]
    for one in (vision, *others):
        signals.nodes(one.cluster("c"), active=1, idle=0, since=LONG_AGO)

    def spoilt(request: Request) -> object:
        if request.path.endswith("metrics:getBatch") and vision.id in request.body["resourceids"]:
            return error(status, {404: "ResourceNotFound", 400: "BadRequest"}.get(status, "System.ArgumentOutOfRangeException"))
        return None

    server.rules.append(spoilt)
    places = dict.fromkeys((one.id for one in (vision, *others)), "westeurope")
    results = metrics.fetch_metrics(cloud, places, NODES, WINDOW)
    assert all(last_busy(metrics.activity_reading("Active Nodes", results.result_of(p, "Active Nodes", "c"))) for p in places)
    assert (cloud.errors, cloud.clients.may_use_batch) == ([], True)
    tries = 1 if status < 500 else 1 + RETRY_COUNTS["retry_status"]
    assert sum(r.path.endswith("metrics:getBatch") for r in server.requests) == 1 + tries


@pytest.mark.parametrize("role", [True, False], ids=["readable one by one", "not at all"])
def test_an_unregistered_provider_is_reported_as_such(server: Server, cloud: CloudSession, vision: Workspace, role: bool):
    text = f"The subscription '{SUB}' is not registered to use namespace 'Microsoft.Insights'."
    server.rules.append(on("POST", ".*metrics:getBatch", error(403, "Forbidden", text)))
    if not role:
        server.rules.append(on("GET", ".*Insights/metrics", error(409, "MissingSubscriptionRegistration", text)))
    results = metrics.fetch_metrics(cloud, place(vision), NODES, WINDOW)
    assert results.result_of(vision.id, "Active Nodes").complete is role
    assert {one.missing for one in cloud.errors} == {None}
    assert all("Microsoft.Insights is not registered in the subscription" in str(one) for one in cloud.errors)
    assert "az provider register --namespace Microsoft.Insights" in str(cloud.errors[0])


def test_a_batch_refused_with_401_is_a_missing_role(server: Server, cloud: CloudSession, vision: Workspace):
    server.rules.append(on("POST", ".*metrics:getBatch", error(401, "AuthorizationFailed", "no")))
    server.rules.append(on("GET", ".*Insights/metrics", error(403, "AuthorizationFailed", "no")))
    metrics.fetch_metrics(cloud, place(vision), NODES, WINDOW)
    assert [one.missing for one in cloud.errors] == ["Microsoft.Insights/metrics/read"]


def test_an_odd_point_makes_only_its_own_series_incomplete(server: Server, cloud: CloudSession, subscription: Subscription):
    spaces = [subscription.workspace(name) for name in ("odd", "sound")]
    for space in spaces:
        for name in ("one", "two"):
            signals.nodes(space.cluster(name), active=1, idle=0, since=LONG_AGO)

    def odd(request: Request) -> Fault | None:
        if not request.path.endswith("metrics:getBatch"):
            return None
        body = json.loads(server._checked(request, routes.find(request.method, request.path)[0]).body)
        [mine] = [one for one in body["values"] if one["resourceid"] == spaces[0].id]
        mine["value"][0]["timeseries"][0]["data"][7]["maximum"] = "many"
        return Fault(answer=lambda r: Reply(body=body))

    server.rules.append(odd)
    results = metrics.fetch_metrics(cloud, dict.fromkeys((s.id for s in spaces), "westeurope"), NODES, WINDOW)
    answers = [results.result_of(s.id, "Active Nodes", name) for s in spaces for name in ("one", "two")]
    assert sorted(one.complete for one in answers) == [False, True, True, True]
    assert len(cloud.errors) == 1


def test_a_series_without_its_dimension_makes_its_metric_incomplete(server: Server, cloud: CloudSession, vision: Workspace):
    def reply(value: float | None) -> Fault:
        data = [{"timeStamp": "2026-11-20T00:00:00Z"} | ({} if value is None else {"maximum": value})]
        metric = {"name": {"value": "Active Nodes"}, "timeseries": [{"metadatavalues": [], "data": data}]}
        return Fault(answer=lambda r: Reply(body={"values": [{"resourceid": vision.id, "value": [metric]}]}))

    for value, complete in ((None, True), (3.0, False)):
        server.rules[:] = [on("POST", ".*metrics:getBatch", reply(value))]
        assert (
            metrics.fetch_metrics(cloud, place(vision), NODES, WINDOW).result_of(vision.id, "Active Nodes", "g").complete
            is complete
        )


@pytest.mark.parametrize(("late", "hours"), [(timedelta(0), 0), (timedelta(minutes=25), 1)])
def test_a_window_is_never_longer_than_azure_keeps_metrics(
    server: Server, cloud: CloudSession, vision: Workspace, late: timedelta, hours: int
):
    end = NOW.replace(minute=0) + late
    metrics.fetch_metrics(cloud, place(vision), NODES, Window(start=end - 400 * DAY, end=end, recent_since=end))
    oldest = NOW.replace(minute=0) + hours * HOUR - 92 * DAY
    assert server.requests[-1].query["starttime"] == f"{oldest:%Y-%m-%dT%H:%M:%SZ}"


@pytest.mark.parametrize(
    "point",
    [
        {},
        {"timeStamp": None},
        {"timeStamp": "today", "maximum": 1},
        {"timeStamp": "2026-11-20T00:13:00Z", "maximum": 0},
        {"timeStamp": "2031-01-01T00:00:00Z", "maximum": 1},
        {"timeStamp": "2026-11-20T00:00:00Z", "maximum": "many"},
        {"timeStamp": "2026-11-20T00:00:00Z", "maximum": True},
        {"timeStamp": "2026-11-20T00:00:00Z", "maximum": -1},
        {"timeStamp": "2026-11-20T00:00:00Z", "maximum": 10**400},
        "x",
    ],
)
def test_unreadable_points_make_the_reply_incomplete(server: Server, cloud: CloudSession, vision: Workspace, point: object):
    metric = {
        "name": {"value": "Active Nodes"},
        "timeseries": [{"metadatavalues": [{"name": {"value": "clustername"}, "value": "g"}], "data": [point]}],
    }
    body = {"values": [{"resourceid": vision.id, "value": [metric]}]}
    server.rules.append(on("POST", ".*metrics:getBatch", Fault(answer=lambda r: Reply(body=body))))
    results = metrics.fetch_metrics(cloud, place(vision), NODES, WINDOW)
    assert not results.result_of(vision.id, "Active Nodes", "g").complete
    assert "can't be read" in str(cloud.errors[0])
