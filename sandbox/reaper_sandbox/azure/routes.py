"""Every path that the sandbox answers: each module of this folder that has `ROUTES` takes part, so a new kind is one more file."""

from __future__ import annotations

import pkgutil
import re
from functools import cache
from importlib import import_module

from reaper_sandbox import azure
from reaper_sandbox.azure.route import Route


@cache
def _routes() -> tuple[Route, ...]:
    modules = [import_module(module.name) for module in pkgutil.iter_modules(azure.__path__, f"{azure.__name__}.")]
    return tuple(route for module in modules for route in getattr(module, "ROUTES", ()))


def find(method: str, path: str) -> tuple[Route, dict[str, str]] | None:
    """The route of a request and the named parts of its path, or None if no route matches."""
    for route in _routes():
        if route.method == method and (match := route.pattern.fullmatch(path)):
            return route, match.groupdict()
    return None


def scope(route: Route, path: str) -> str:
    """The scope of the right: the resource itself, or its parent for a list, an action and metrics."""
    _, provider, below = path.partition("/providers/")
    if route.action.endswith("/action") or "/metrics" in path.lower() or (provider and below.count("/") % 2):
        path = path.rpartition("/")[0]
    return re.sub(r"/providers/[^/]+$", "", path)
