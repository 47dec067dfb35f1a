"""Whether an act is taken back on the very thing that it was made on: a name may have been given to something new since."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reaper.actions.contract import UndoState
from reaper.azure.arm_values import parse_time
from reaper.errors import CloudError, Reason

CREATED_KEY = "made"


def compute_identity(row: Mapping[str, Any]) -> UndoState:
    """When a compute was made, and its size."""
    outer = row["properties"]
    return {CREATED_KEY: outer.get("createdOn") or _created_at(row), "size": (outer.get("properties") or {}).get("vmSize")}


def deployment_identity(row: Mapping[str, Any]) -> UndoState:
    """When a deployment was made, its size and its model."""
    return {CREATED_KEY: _created_at(row), "size": row["properties"].get("instanceType"), "model": row["properties"].get("model")}


def endpoint_identity(row: Mapping[str, Any]) -> UndoState:
    """When an endpoint was made."""
    return {CREATED_KEY: _created_at(row)}


def require_same(then: UndoState, now: UndoState, permission: str, what: str = "it") -> None:
    """Raises CloudError where `what` is not the same as then, or where that cannot be known."""
    before, after = (parse_time(record.get(CREATED_KEY)) for record in (then, now))
    if before is None or after is None:
        told = f"when {what} was made is not known, so neither is whether it is still the same"
    elif before != after:
        told = f"{what} was made anew on {after:%Y-%m-%d %H:%M} UTC"
    else:
        changed = [key for key in now if key != CREATED_KEY and _lower_if_text(now[key]) != _lower_if_text(then.get(key))]
        told = "; ".join(f"its {key} was changed since from {then.get(key)} to {now[key]}" for key in changed)
    if told:
        raise CloudError(Reason.REFUSED, permission, f"{told}: left as it is")


def _created_at(row: Mapping[str, Any]) -> Any:
    return (row.get("systemData") or {}).get("createdAt")


def _lower_if_text(value: Any) -> Any:
    """Azure spells sizes now in capitals, now not."""
    return value.lower() if isinstance(value, str) else value
