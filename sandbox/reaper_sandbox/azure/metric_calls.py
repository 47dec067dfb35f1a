"""Metrics both ways: the single call of Resource Manager for one resource, and the batch call of the regional metrics hosts.

https://learn.microsoft.com/rest/api/monitor/metrics/list and https://learn.microsoft.com/azure/azure-monitor/metrics/migrate-to-batch-api
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from random import Random

from reaper_sandbox.azure import chart, identity, moment
from reaper_sandbox.azure.catalogue import PLATFORM, Definition, custom
from reaper_sandbox.azure.chart import Chart
from reaper_sandbox.azure.refusal import bad, no_resource
from reaper_sandbox.azure.request import Json, Refused, Reply, Request
from reaper_sandbox.azure.route import SUB, route
from reaper_sandbox.azure.world import World

MOST_RESOURCES = 50


def single(world: World, request: Request) -> Reply:
    """`GET {resource}/providers/Microsoft.Insights/metrics`. Its 400s have no `error` envelope."""
    resource = request.names["resource"]
    body = world.estate.find(resource)
    if body is None:
        raise no_resource(f"{type_of(resource)}/{resource.rpartition('/')[2]}", resource.split("/")[4])
    namespace = (request.query.get("metricnamespace") or type_of(resource)).lower()
    start, _, end = request.query.get("timespan", "").partition("/")
    try:
        query = chart.read(request.query, namespace, (start, end), world.now - world.metrics.lag)
        known = _known(world, namespace, [resource])
        definitions = chart.definitions(query, known, _where(type_of(resource)))
    except Refused as refusal:
        raise Refused(Reply(status=400, body=refusal.reply.body["error"])) from None
    room = iter(range(query.top or 0))
    value = [chart.metric(world.metrics, query, body["id"], one, room) for one in definitions]
    return Reply(body={"cost": 0, **_frame(world, query, resource), "timespan": f"{start}/{end}", "value": value})


def batch(world: World, request: Request) -> Reply:
    """`POST /subscriptions/{id}/metrics:getBatch`. `top` counts the series of the whole reply; the order of the resources is any."""
    ids = _ids(world, request)
    namespace = request.query.get("metricnamespace", "").lower()
    if not namespace:
        raise bad("The metricnamespace query parameter is required")
    if namespace in PLATFORM and {type_of(i).lower() for i in ids} != {namespace}:
        raise bad(f"All resources must be of the type {namespace}")
    now = world.now
    span = (request.query.get("starttime", ""), request.query.get("endtime") or moment.short(int(now.timestamp())))
    query = chart.read(request.query, namespace, span, now - world.metrics.lag)
    definitions = chart.definitions(query, _known(world, namespace, ids), _where(type_of(ids[0])))
    room = iter(range(query.top or 0))
    values = [_one(world, query, resource, definitions, room) for resource in ids]
    if world.metrics.shuffled:
        Random(len(values)).shuffle(values)
    return Reply(body={"values": values})


def encoded(body: Json) -> bytes:
    """JSON; equal `data` lists are encoded once, because big fleets repeat them."""
    pieces: dict[int, str] = {}
    lists: list[list[Json]] = []

    def marked(value: Json) -> Json:
        return {**value, "timeseries": [_marked(entry, pieces, lists) for entry in value["timeseries"]]}

    if "values" in body:
        body = {**body, "values": [{**r, "value": [marked(m) for m in r["value"]]} for r in body["values"]]}
    text = json.dumps(body)
    return re.sub(r'"\\u0000(\d+)"', lambda m: pieces[int(m[1])], text).encode()


def _marked(entry: Json, pieces: dict[int, str], lists: list[list[Json]]) -> Json:
    data = entry["data"]
    if id(data) not in pieces:
        pieces[id(data)] = json.dumps(data)
        lists.append(data)
    return {**entry, "data": f"\0{id(data)}"}


def type_of(resource: str) -> str:
    """The full resource type of an id, `Microsoft.X/things/parts`."""
    _, _, rest = resource.partition("/providers/")
    provider, *pairs = rest.split("/")
    return "/".join((provider, *pairs[::2]))


def _one(world: World, query: Chart, resource: str, definitions: list[Definition], room: Iterable[int]) -> Json:
    value = [chart.metric(world.metrics, query, resource, one, iter(room)) for one in definitions]
    span = {"starttime": moment.short(query.grid.start), "endtime": moment.short(query.grid.end)}
    return {**_frame(world, query, resource), **span, "resourceid": resource, "value": value}


def _frame(world: World, query: Chart, resource: str) -> Json:
    return {"interval": query.interval, "namespace": query.namespace, "resourceregion": world.estate.region(resource)}


def _ids(world: World, request: Request) -> list[str]:
    ids = request.body.get("resourceids") if isinstance(request.body, dict) else None
    if not isinstance(ids, list) or not ids:
        raise bad("The request body must have a list of resourceids")
    if len(ids) > MOST_RESOURCES:
        raise bad(f"At most {MOST_RESOURCES} resources can be asked for, got {len(ids)}")
    if any(i.split("/")[2].lower() != request.names["sub"].lower() for i in ids):
        raise bad("All resources must be in the subscription of the request")
    if len({region for i in ids if (region := world.estate.region(i))}) > 1:
        raise bad("All resources must be in the same region")
    return ids


def _known(world: World, namespace: str, resources: list[str]) -> dict[str, Definition]:
    if namespace in PLATFORM:
        return PLATFORM[namespace]
    known: dict[str, Definition] = {}
    for resource in resources:
        for name, series in world.metrics.published(resource, namespace).items():
            if series:
                split = dict.fromkeys(d for one in series for d in one.dimensions)
                known[name] = custom(series[0].metric, tuple(split))
    if not known:
        raise bad(f"Failed to find metric configuration for namespace: {namespace}. Nothing was published to it.")
    return known


def _where(type_: str) -> str:
    provider, _, rest = type_.partition("/")
    return f"{provider}, resource Type: {rest}"


VERSIONS = ("2018-01-01", "2019-07-01", "2021-05-01", "2023-10-01", "2024-02-01")
BATCH_VERSIONS = ("2023-05-01-preview", "2023-10-01", "2024-02-01")
ROUTES = (
    route(
        "GET",
        r"(?P<resource>/subscriptions/[^/]+/.+)/providers/Microsoft\.Insights/metrics",
        single,
        "Microsoft.Insights/metrics/read",
        VERSIONS,
    ),
    route("POST", SUB + "/metrics:getBatch", batch, "Microsoft.Insights/metrics/read", BATCH_VERSIONS, identity.METRICS),
)
