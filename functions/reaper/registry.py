"""The registry of kinds. It reads the folders `aws/kinds` and `azure/kinds`, so there is no list to edit."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from reaper.kind import Kind
from reaper.model import StepName

if TYPE_CHECKING:
    from reaper.acting.contract import ActionFunctions

CLOUDS = ("aws", "azure")


@cache
def kinds(cloud: str | None = None) -> tuple[Kind[Any], ...]:
    """Every kind, or those of one cloud, in the order of their names. Importing a kind imports no cloud SDK."""
    if cloud is None:
        return tuple(kind for name in CLOUDS for kind in kinds(name))
    package = import_module(f"reaper.{cloud}.kinds")
    modules = [import_module(module.name) for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")]
    return tuple(sorted((m.KIND for m in modules), key=lambda kind: str(kind.name)))


def kind_names() -> tuple[str, ...]:
    """The names of all kinds."""
    return tuple(kind.name for kind in kinds())


@cache
def kind(name: str) -> Kind[Any]:
    """The kind of that name. Raises KeyError."""
    return {kind.name: kind for kind in kinds()}[name]


@cache
def find_kind(name: str) -> Kind[Any] | None:
    """The kind of that name; None for one that this version doesn't know, such as in a saved report."""
    return next((kind for kind in kinds() if kind.name == name), None)


def can_be_started(name: str) -> bool:
    """Whether the reaper can start a resource of that kind again, so that office hours may stop it. Not one that this version doesn't know."""
    found = find_kind(name)
    return found is not None and found.can_be_started


def has_price(name: str) -> bool:
    """Whether resources of that kind have a price of their own. Those of a kind that this version doesn't know may have one."""
    found = find_kind(name)
    return found is None or found.has_price


def action_noun(name: str, action: StepName, stop_by: str = "stop") -> str:
    """What that kind calls an action: `stop`, for an endpoint `scale-in`, and with `stop_by: native` `idle shutdown`."""
    if action is StepName.STOP and stop_by == "native":
        return "idle shutdown"
    found = find_kind(name)
    spec = found.actions.get(action) if found else None
    return (spec.noun if spec else "") or action.value


@cache
def action_functions(name: str) -> ActionFunctions[Any]:
    """The action functions of that kind. Imported only in mode enforce and for undoing. Raises KeyError for a kind that only notifies."""
    if not kind(name).actions:
        raise KeyError(name)
    executor = import_module(f"reaper.{kind(name).cloud}.executor")
    functions: ActionFunctions[Any] = executor.functions_of(kind(name))
    return functions


def access_advice(cloud: str, missing: str | None) -> str:
    """Advice for a cloud of which nothing could be read. `missing`: the permission that was refused; None if none was."""
    advice: str = import_module(f"reaper.{cloud}").access_advice(missing)
    return advice
