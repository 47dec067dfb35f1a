"""Every path that is answered, with the right it needs, the tokens it takes and the API versions it knows."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from reaper_sandbox.azure import (  # fmt: skip
    accepted,
    assets,
    autoscale,
    clusters,
    computes,
    deployments,
    email,
    endpoints,
    graph,
    identity,
    instances,
    jobs,
    metric_calls,
    tenant,
    workspaces,
)
from reaper_sandbox.azure.place import PROVIDER as MLS
from reaper_sandbox.azure.request import Reply, Request
from reaper_sandbox.azure.world import World

SUB = r"/subscriptions/(?P<sub>[^/]+)"
GROUP = SUB + r"/resourceGroups/(?P<group>[^/]+)"
WORKSPACE = GROUP + rf"/providers/{MLS}/workspaces/(?P<workspace>[^/]+)"
COMPUTE = WORKSPACE + r"/computes/(?P<compute>[^/]+)"
ENDPOINT = WORKSPACE + r"/onlineEndpoints/(?P<endpoint>[^/]+)"
ASSET = WORKSPACE + r"/(?P<collection>models|environments|codes)/(?P<asset>[^/]+)/versions/(?P<version>[^/]+)"
DEPLOYMENT = ENDPOINT + r"/deployments/(?P<deployment>[^/]+)"
OPERATION = SUB + rf"/providers/{MLS}/locations/[^/]+"
MLS_VERSIONS = (
    "2022-10-01", "2023-04-01", "2023-10-01", "2024-04-01", "2024-10-01", "2024-10-01-preview", "2025-06-01", "2025-09-01", "2025-12-01",
    "2026-01-15-preview", "2026-05-01", "2026-05-15-preview",
)  # fmt: skip
SETTING_VERSION = "2021-07-01"
"""The version that the documentation of idle shutdown names."""
RESOURCES = ("2016-06-01", "2018-06-01", "2019-06-01", "2019-11-01", "2020-01-01", "2021-01-01", "2021-04-01", "2022-12-01")
GRAPH_VERSIONS = ("2019-04-01", "2020-04-01-preview", "2021-03-01", "2022-10-01", "2024-04-01")
METRIC_VERSIONS = ("2018-01-01", "2019-07-01", "2021-05-01", "2023-10-01", "2024-02-01")
AUTOSCALE_VERSIONS = ("2015-04-01", "2021-05-01-preview", "2022-10-01")
BATCH_VERSIONS = ("2023-05-01-preview", "2023-10-01", "2024-02-01")
MAIL_VERSIONS = ("2023-03-31", "2024-07-01-preview", "2025-01-15-preview", "2025-09-01")


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One path. `action` is the RBAC action it needs; `{verb}` in it is filled from the path."""

    method: str
    pattern: re.Pattern[str]
    answer: Callable[[World, Request], Reply]
    action: str
    versions: tuple[str, ...]
    audiences: tuple[str, ...] = identity.MANAGEMENT


def _ml(
    method: str, path: str, answer: Callable[[World, Request], Reply], action: str, versions: tuple[str, ...] = MLS_VERSIONS
) -> Route:
    return Route(method=method, pattern=re.compile(path, re.I), answer=answer, action=f"{MLS}/{action}", versions=versions)


def _other(
    method: str,
    path: str,
    answer: Callable[[World, Request], Reply],
    action: str,
    versions: tuple[str, ...],
    audiences: tuple[str, ...],
) -> Route:
    pattern = re.compile(path, re.I)
    return Route(method=method, pattern=pattern, answer=answer, action=action, versions=versions, audiences=audiences)


W, C, E, D = "workspaces", "workspaces/computes", "workspaces/onlineEndpoints", "workspaces/onlineEndpoints/deployments"
ROUTES = (
    _ml("GET", SUB + rf"/providers/{MLS}/workspaces", workspaces.of_subscription, f"{W}/read"),
    _ml("GET", GROUP + rf"/providers/{MLS}/workspaces", workspaces.of_group, f"{W}/read"),
    _ml("GET", WORKSPACE, workspaces.one, f"{W}/read"),
    _ml("GET", WORKSPACE + "/computes", computes.several, f"{C}/read"),
    _ml("GET", COMPUTE, computes.one, f"{C}/read"),
    _ml("PATCH", COMPUTE, clusters.resize, f"{C}/write"),
    _ml("DELETE", COMPUTE, computes.delete, f"{C}/delete"),
    _ml("POST", COMPUTE + "/(?P<verb>start|stop|restart)", instances.turn, C + "/{verb}/action"),
    _ml(
        "POST", COMPUTE + "/updateIdleShutdownSetting", instances.idle_shutdown, f"{C}/updateIdleShutdownSetting/action",
        (SETTING_VERSION, *MLS_VERSIONS),
    ),
    _ml("GET", WORKSPACE + "/jobs", jobs.several, f"{W}/jobs/read"),
    _ml("GET", WORKSPACE + "/jobs/(?P<job>[^/]+)", jobs.one, f"{W}/jobs/read"),
    _ml("GET", ASSET, assets.one, W + "/{collection}/versions/read"),
    _ml("GET", WORKSPACE + "/onlineEndpoints", endpoints.several, f"{E}/read"),
    _ml("GET", ENDPOINT, endpoints.one, f"{E}/read"),
    _ml("PATCH", ENDPOINT, endpoints.patch, f"{E}/write"),
    _ml("PUT", ENDPOINT, endpoints.put, f"{E}/write"),
    _ml("DELETE", ENDPOINT, endpoints.delete, f"{E}/delete"),
    _ml("GET", ENDPOINT + "/deployments", deployments.several, f"{D}/read"),
    _ml("GET", DEPLOYMENT, deployments.one, f"{D}/read"),
    _ml("PATCH", DEPLOYMENT, deployments.patch, f"{D}/write"),
    _ml("PUT", DEPLOYMENT, deployments.put, f"{D}/write"),
    _ml("DELETE", DEPLOYMENT, deployments.delete, f"{D}/delete"),
    _ml("GET", OPERATION + "/computeOperationsStatus/(?P<operation>[^/]+)", accepted.status, "locations/computeoperationsstatus/read"),
    _ml("GET", OPERATION + "/mfeOperationsStatus/(?P<operation>[^/]+)", accepted.status, "locations/mfeOperationsStatus/read"),
    _ml("GET", OPERATION + "/mfeOperationResults/(?P<operation>[^/]+)", accepted.result, "locations/mfeOperationResults/read"),
    _other("GET", "/subscriptions", tenant.subscriptions, "", RESOURCES, identity.MANAGEMENT),
    _other("GET", SUB, tenant.subscription, "Microsoft.Resources/subscriptions/read", RESOURCES, identity.MANAGEMENT),
    _other(
        "GET", SUB + "/resourcegroups", tenant.groups, "Microsoft.Resources/subscriptions/resourceGroups/read", RESOURCES, identity.MANAGEMENT
    ),
    _other(
        "POST", "/providers/Microsoft.ResourceGraph/resources", graph.resources, "Microsoft.ResourceGraph/resources/read", GRAPH_VERSIONS,
        identity.MANAGEMENT,
    ),
    _other(
        "GET", r"(?P<resource>/subscriptions/[^/]+/.+)/providers/Microsoft\.Insights/metrics", metric_calls.single,
        "Microsoft.Insights/metrics/read", METRIC_VERSIONS, identity.MANAGEMENT,
    ),
    _other(
        "GET", SUB + r"/providers/Microsoft\.Insights/autoscalesettings", autoscale.several, "Microsoft.Insights/autoscaleSettings/read",
        AUTOSCALE_VERSIONS, identity.MANAGEMENT,
    ),
    _other("POST", SUB + "/metrics:getBatch", metric_calls.batch, "Microsoft.Insights/metrics/read", BATCH_VERSIONS, identity.METRICS),
    _other("POST", "/emails:send", email.send, "Microsoft.Communication/emails/action", MAIL_VERSIONS, identity.MAIL),
    _other(
        "GET", "/emails/operations/(?P<operation>[^/]+)", email.status, "Microsoft.Communication/emails/action", MAIL_VERSIONS, identity.MAIL
    ),
)  # fmt: skip


def find(method: str, path: str) -> tuple[Route, dict[str, str]] | None:
    """The route of a request and the named parts of its path; None when nothing answers there."""
    for route in ROUTES:
        if route.method == method and (match := route.pattern.fullmatch(path)):
            return route, match.groupdict()
    return None


def scope(route: Route, path: str) -> str:
    """What the right is needed over: the resource; for a list, an action and metrics, what it hangs from."""
    _, found, below = path.partition("/providers/")
    if route.action.endswith("/action") or "/metrics" in path.lower() or (found and below.count("/") % 2):
        path = path.rpartition("/")[0]
    return re.sub(r"/providers/[^/]+$", "", path)
