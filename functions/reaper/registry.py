"""The kinds there are: the folders `aws/kinds` and `azure/kinds` are the registry, walked here; there is no list to edit."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from typing import Any

from reaper.model import Kind

CLOUDS = ("aws", "azure")


@cache
def kinds(cloud: str | None = None) -> tuple[Kind[Any], ...]:
    """Every kind, or those of one cloud, in the order of their names. Importing a kind imports no cloud SDK."""
    if cloud is None:
        return tuple(kind for name in CLOUDS for kind in kinds(name))
    package = import_module(f"reaper.{cloud}.kinds")
    modules = (import_module(m.name) for m in pkgutil.iter_modules(package.__path__, f"{package.__name__}."))
    return tuple(sorted((m.KIND for m in modules), key=lambda kind: str(kind.name)))


def names() -> tuple[str, ...]:
    """The names of all kinds."""
    return tuple(kind.name for kind in kinds())
