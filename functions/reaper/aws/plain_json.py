"""A reply of an AWS call as a manifest can hold it: plain JSON, and only those members that were asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

ANY_REPLY_KEY = "ResponseMetadata"
"""What every true reply has, for calls that answer nothing else."""


def to_plain_json(value: Any) -> Any:
    """The same without what the SDK adds; times become ISO 8601 strings in UTC, which the SDK accepts."""
    if isinstance(value, Mapping):
        return {str(key): to_plain_json(one) for key, one in value.items() if key != ANY_REPLY_KEY}
    if isinstance(value, (list, tuple)):
        return [to_plain_json(one) for one in value]
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else value


def chosen_members(row: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Those members of `row` that are there and hold something, as plain JSON."""
    return {name: to_plain_json(row[name]) for name in names if row.get(name) not in (None, {}, [])}


def digest(value: Any) -> str:
    """A short digest of a reply or of a part of one: two are equal if nothing in them differs."""
    return sha256(json.dumps(to_plain_json(value), sort_keys=True, default=str).encode()).hexdigest()[:16]


def tags_parameter(tags: Mapping[str, str]) -> dict[str, Any]:
    """The parameter `Tags` of a create call; nothing without tags. AWS refuses keys that it reserves."""
    shown = [{"Key": key, "Value": value} for key, value in tags.items() if not key.lower().startswith("aws:")]
    return {"Tags": shown} if shown else {}
