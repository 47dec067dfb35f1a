"""One answered path of the sandbox: its pattern, the right that it needs, the tokens that it takes and the API versions that it knows."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from reaper_sandbox.azure import identity
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
    "2026-01-15-preview", "2026-03-01", "2026-05-01", "2026-05-15-preview",
)  # fmt: skip
W, C, E, D = "workspaces", "workspaces/computes", "workspaces/onlineEndpoints", "workspaces/onlineEndpoints/deployments"
"""Types of the provider, as they begin the names of its actions."""

Handler = Callable[[World, Request], Reply]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One path. `action` is the RBAC action that it needs; names in braces are filled from the path."""

    method: str
    pattern: re.Pattern[str]
    answer: Handler
    action: str
    versions: tuple[str, ...]
    audiences: tuple[str, ...] = identity.MANAGEMENT


def ml_route(method: str, path: str, answer: Handler, action: str, versions: tuple[str, ...] = MLS_VERSIONS) -> Route:
    """A path of Azure Machine Learning; `action` is named without the provider."""
    return route(method, path, answer, f"{MLS}/{action}", versions)


def route(
    method: str,
    path: str,
    answer: Handler,
    action: str,
    versions: tuple[str, ...],
    audiences: tuple[str, ...] = identity.MANAGEMENT,
) -> Route:
    """A path of any provider."""
    pattern = re.compile(path, re.I)
    return Route(method=method, pattern=pattern, answer=answer, action=action, versions=versions, audiences=audiences)
