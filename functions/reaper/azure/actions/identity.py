"""Whether an act is taken back on the very thing that it was made on: a name may have been given to something new since."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reaper.actions.contract import Record
from reaper.azure.arm_values import moment
from reaper.errors import CloudError, Trouble

MADE = "made"


def of_compute(row: Mapping[str, Any]) -> Record:
    """When a compute was made, and its size."""
    outer = row["properties"]
    return {MADE: outer.get("createdOn") or _made(row), "size": (outer.get("properties") or {}).get("vmSize")}


def of_deployment(row: Mapping[str, Any]) -> Record:
    """When a deployment was made, its size and its model."""
    return {MADE: _made(row), "size": row["properties"].get("instanceType"), "model": row["properties"].get("model")}


def of_endpoint(row: Mapping[str, Any]) -> Record:
    """When an endpoint was made."""
    return {MADE: _made(row)}


def check(then: Record, now: Record, permission: str, what: str = "it") -> None:
    """Raises CloudError where `what` is not the same as then, or where that cannot be known."""
    before, after = (moment(record.get(MADE)) for record in (then, now))
    if before is None or after is None:
        told = f"when {what} was made is not known, so neither is whether it is still the same"
    elif before != after:
        told = f"{what} was made anew on {after:%Y-%m-%d %H:%M} UTC"
    else:
        changed = [key for key in now if key != MADE and _plain(now[key]) != _plain(then.get(key))]
        told = "; ".join(f"its {key} was changed since from {then.get(key)} to {now[key]}" for key in changed)
    if told:
        raise CloudError(Trouble.REFUSED, permission, f"{told}: left as it is")


def _made(row: Mapping[str, Any]) -> Any:
    return (row.get("systemData") or {}).get("createdAt")


def _plain(value: Any) -> Any:
    """Azure spells sizes now in capitals, now not."""
    return value.lower() if isinstance(value, str) else value
