"""Whether the resource to restore is the one that was acted on: its name may have been given to a new resource since."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from reaper.actions.contract import UndoState, any_members
from reaper.azure.arm_values import parse_time
from reaper.errors import CloudError, Reason
from reaper.model import Resource

CREATED_KEY = "made"
IDENTITY_MEMBERS = any_members(CREATED_KEY, "size", "model")
_WORKSPACE = (
    r"/subscriptions/(?P<account>[^/]+)/resourceGroups/[^/]+/providers/Microsoft\.MachineLearningServices/workspaces/[^/]+"
)
COMPUTE_ID = re.compile(rf"{_WORKSPACE}/computes/(?P<name>[^/]+)", re.IGNORECASE)
DEPLOYMENT_ID = re.compile(
    rf"{_WORKSPACE}/onlineEndpoints/(?P<name_of_endpoint>[^/]+)/deployments/(?P<name>[^/]+)", re.IGNORECASE
)


def compute_identity(row: Mapping[str, Any]) -> UndoState:
    """A compute's creation time and size."""
    outer = row["properties"]
    return {CREATED_KEY: outer.get("createdOn") or _created_at(row), "size": (outer.get("properties") or {}).get("vmSize")}


def compute_identity_of(resource: Resource) -> UndoState:
    """The same of a compute as it was read for an action."""
    created = resource.created.isoformat() if resource.created else None
    return {CREATED_KEY: created, "size": resource.details.properties.get("vmSize")}


def require_known_creation(resource: Resource) -> None:
    """Raises CloudError if it isn't known when it was created: undoing couldn't recognize it."""
    if resource.created is None:
        text = "it has no known creation time, so it may be another one; the reaper left it alone"
        raise CloudError(Reason.REFUSED, resource.kind, text)


def deployment_identity(row: Mapping[str, Any]) -> UndoState:
    """A deployment's creation time, size and model."""
    return {CREATED_KEY: _created_at(row), "size": row["properties"].get("instanceType"), "model": row["properties"].get("model")}


def endpoint_identity(row: Mapping[str, Any]) -> UndoState:
    """An endpoint's creation time."""
    return {CREATED_KEY: _created_at(row)}


def require_same(before: UndoState, now: UndoState, permission: str, subject: str = "it") -> None:
    """Raises CloudError if `subject` isn't the same as before, or if that can't be known."""
    was_created, created = (parse_time(state.get(CREATED_KEY)) for state in (before, now))
    if was_created is None or created is None:
        because = f"{subject} has no known creation time, so it may be another one"
    elif was_created != created:
        because = f"{subject} was recreated on {created:%Y-%m-%d %H:%M} UTC"
    else:
        changed = [key for key in now if key != CREATED_KEY and _lower_if_text(now[key]) != _lower_if_text(before.get(key))]
        because = "; ".join(f"its {key} changed from {before.get(key)} to {now[key]}" for key in changed)
    if because:
        raise CloudError(Reason.REFUSED, permission, f"{because}; the reaper left it alone")


def _created_at(row: Mapping[str, Any]) -> Any:
    return (row.get("systemData") or {}).get("createdAt")


def _lower_if_text(value: Any) -> Any:
    """Azure spells sizes in capitals or not."""
    return value.lower() if isinstance(value, str) else value
