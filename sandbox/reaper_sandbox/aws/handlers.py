"""The services that have a folder here, named as in permissions. A new kind of resource is one more file in its service's folder."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

import reaper_sandbox.aws
from reaper_sandbox.aws.world import Region

Operation = Callable[[Region, dict[str, Any]], dict[str, Any] | None]
OTHER_FOLDERS = {"fleet"}


def modules() -> dict[str, list[ModuleType]]:
    """Every module of each service's folder, by the service."""
    folders = [one for one in pkgutil.iter_modules(reaper_sandbox.aws.__path__) if one.ispkg and one.name not in OTHER_FOLDERS]
    packages = {folder.name: import_module(f"{reaper_sandbox.aws.__name__}.{folder.name}") for folder in folders}
    return {
        service: [import_module(module.name) for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")]
        for service, package in packages.items()
    }


def operations(some: Sequence[ModuleType]) -> dict[str, Operation]:
    """The handlers in the modules' `OPERATIONS`: (region, parameters) to the reply's members; None leaves the call to moto.

    Raises ValueError for a clash.
    """
    handlers_by_operation: dict[str, Operation] = {}
    for module in some:
        handlers = getattr(module, "OPERATIONS", {})
        if clash := handlers_by_operation.keys() & handlers.keys():
            raise ValueError(f"{module.__name__} handles {sorted(clash)}, which another module handles, too")
        handlers_by_operation |= handlers
    return handlers_by_operation
