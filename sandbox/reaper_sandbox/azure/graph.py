"""Resource Graph: workspaces, online endpoints and deployments of many subscriptions in one query. Computes and jobs are not in it.

It leaves out whatever the identity cannot read, whole subscriptions included, and does not say so.
https://learn.microsoft.com/azure/governance/resource-graph/concepts/work-with-data
"""

from __future__ import annotations

import base64
from typing import Any

from reaper_sandbox.azure import kql
from reaper_sandbox.azure.identity import TENANT
from reaper_sandbox.azure.jobs import shown
from reaper_sandbox.azure.place import PROVIDER
from reaper_sandbox.azure.refusal import bad
from reaper_sandbox.azure.request import Json, Refused, Reply, Request
from reaper_sandbox.azure.rights import refuses
from reaper_sandbox.azure.route import route
from reaper_sandbox.azure.world import World

TABLE = {
    f"{PROVIDER}/{kind}".lower(): f"{PROVIDER}/{kind}/read"
    for kind in (
        "workspaces",
        "workspaces/onlineEndpoints",
        "workspaces/onlineEndpoints/deployments",
        "workspaces/batchEndpoints",
    )
}
"""The types in the table `resources` and the action that lets one see a row."""
COLUMNS = ("id", "name", "type", "location", "kind", "sku", "tags", "identity", "properties", "systemData")


def resources(world: World, request: Request) -> Reply:
    """Runs a query. Rows come in pages, each with the `$skipToken` of the next."""
    payload = request.body if isinstance(request.body, dict) else {}
    quota = _throttle(world)
    try:
        rows = kql.run(str(payload.get("query", "")), _rows(world, payload.get("subscriptions")))
    except kql.ParserFailure as failure:
        raise _invalid(str(failure)) from None
    options = payload.get("options") or {}
    size = min(int(options.get("$top") or 1000), 1000, world.graph.page_size)
    start = _start(options.get("$skipToken")) + int(options.get("$skip") or 0)
    part = rows[start : start + size]
    body: Json = {"totalRecords": len(rows), "count": len(part), "facets": [], "resultTruncated": "false"}
    if start + size < len(rows):
        body["$skipToken"] = base64.urlsafe_b64encode(f"row:{start + size}".encode()).decode()
    body["data"] = _table(part) if options.get("resultFormat") == "table" else part
    return Reply(body=body, headers=quota)


def _throttle(world: World) -> dict[str, str]:
    knobs = world.graph
    headers = {"x-ms-user-quota-resets-after": knobs.resets_after}
    if knobs.quota is None:
        return {"x-ms-user-quota-remaining": "14", **headers}
    if knobs.quota <= 0:
        hours, minutes, seconds = (int(part) for part in knobs.resets_after.split(":"))
        error = {
            "code": "RateLimiting",
            "message": "Please provide below info when asking for support: the tenant's quota is used up.",
        }
        wait = {"Retry-After": str(hours * 3600 + minutes * 60 + seconds), "x-ms-user-quota-remaining": "0"}
        knobs.quota = 15
        raise Refused(Reply(status=429, body={"error": error}, headers={**headers, **wait}))
    knobs.quota -= 1
    return {"x-ms-user-quota-remaining": str(knobs.quota), **headers}


def _rows(world: World, subscriptions: list[str] | None) -> list[kql.Row]:
    hidden = {one.lower() for one in world.unreadable}
    wanted = {one.lower() for one in subscriptions or world.estate.subscriptions} - hidden
    return [
        _row(world, body)
        for body in world.estate.all()
        if body["type"].lower() in TABLE
        and body["id"].split("/")[2].lower() in wanted
        and not refuses(world.rules, TABLE[body["type"].lower()], body["id"])
    ]


def _row(world: World, body: Json) -> kql.Row:
    plain = shown(body)
    row: kql.Row = {name: plain.get(name) for name in COLUMNS if name != "systemData" or world.graph.system_data}
    parts = body["id"].split("/")
    row |= {"type": body["type"].lower(), "subscriptionId": parts[2], "resourceGroup": parts[4].lower(), "tenantId": TENANT}
    return {"managedBy": "", "plan": None, "zones": None, "extendedLocation": None, **row}


def _table(rows: list[kql.Row]) -> Json:
    names = list(rows[0]) if rows else []
    kinds: dict[type[Any], str] = {str: "string", int: "integer", bool: "boolean"}
    columns = [{"name": n, "type": kinds.get(type(rows[0][n]), "object")} for n in names]
    return {"columns": columns, "rows": [[row[n] for n in names] for row in rows]}


def _start(token: str | None) -> int:
    if not token:
        return 0
    try:
        return int(base64.urlsafe_b64decode(token).decode().removeprefix("row:"))
    except ValueError:
        raise bad("The $skipToken is not valid.") from None


def _invalid(why: str) -> Refused:
    message = "Query is invalid. Please refer to the documentation for the Azure Resource Graph service and fix the error before retrying."
    details = [{"code": "InvalidQuery", "message": message}, {"code": "ParserFailure", "message": why}]
    outer = {"code": "BadRequest", "message": "Please provide below info when asking for support.", "details": details}
    return Refused(Reply(status=400, body={"error": outer}))


VERSIONS = ("2019-04-01", "2020-04-01-preview", "2021-03-01", "2022-10-01", "2024-04-01")
ROUTES = (
    route("POST", "/providers/Microsoft.ResourceGraph/resources", resources, "Microsoft.ResourceGraph/resources/read", VERSIONS),
)
