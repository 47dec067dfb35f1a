"""Whether the resource to restore is the one that was acted on: its name may have been given to a new resource since."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reaper.actions.contract import UndoState
from reaper.azure.arm_values import parse_time
from reaper.errors import CloudError, Reason

CREATED_KEY = "made"


def compute_identity(row: Mapping[str, Any]) -> UndoState:
    """A compute's creation time and size."""
    outer = row["properties"]
    return {CREATED_KEY: outer.get("createdOn") or _created_at(row), "size": (outer.get("properties") or {}).get("vmSize")}


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
