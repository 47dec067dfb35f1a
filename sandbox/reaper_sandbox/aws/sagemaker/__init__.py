"""SageMaker, as strict as the real one, for what moto lacks or gets wrong. Models, jobs, clusters and the rest stay moto's.

Every module in this folder that has `OPERATIONS` takes part: a new kind of resource is one more file.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

from reaper_sandbox.aws.world import Region

Operation = Callable[[Region, dict[str, Any]], dict[str, Any] | None]


def modules() -> list[ModuleType]:
    """Every module of this folder."""
    return [import_module(module.name) for module in pkgutil.iter_modules(__path__, f"{__name__}.")]


def operations() -> dict[str, Operation]:
    """Handlers by operation: (region, parameters) to the reply's members; None leaves the call to moto. Raises ValueError for a clash."""
    handlers_by_operation: dict[str, Operation] = {}
    for module in modules():
        handlers = getattr(module, "OPERATIONS", {})
        if clash := handlers_by_operation.keys() & handlers.keys():
            raise ValueError(f"{module.__name__} handles {sorted(clash)}, which another module handles, too")
        handlers_by_operation |= handlers
    return handlers_by_operation
