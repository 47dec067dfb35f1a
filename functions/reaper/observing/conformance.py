"""Checks what a kind lists against the types it promises: a reply can put anything into any field. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass, replace
from datetime import datetime
from typing import Any

from reaper.model import BilledPart, Resource, Target


def faulty_fields(resource: object) -> list[str]:
    """The fields whose values don't match their types; only `id` if it isn't a resource at all."""
    if not isinstance(resource, Resource):
        return ["id"]
    return [name for name, holds in _CHECKS.items() if not holds(getattr(resource, name))]


def fault_text(resource: object, wrong: list[str]) -> str:
    """What is wrong, for people, with the start of each odd value."""
    values = ", ".join(f"{name} {getattr(resource, name, resource)!r}"[:80] for name in wrong)
    name = resource.id if isinstance(resource, Resource) and "id" not in wrong else "a resource without a name, which is left out"
    return f"the reply about {name} can't be read: {values}"


def without_faults(resource: Resource, wrong: list[str], kind: str, target: Target) -> Resource:
    """The resource with empty values instead of the wrong ones, which `unread_because` names. Its ID must be valid."""
    if not wrong:
        return resource
    name = resource.id.rstrip("/").rpartition("/")[2] or resource.id
    instead = {**_EMPTY_VALUES, "name": name, "kind": kind, "target": target, "region": target.region or ""}
    unread = f"its {', '.join(wrong)} couldn't be read"
    return replace(resource, **{**{field: instead[field] for field in wrong}, "unread_because": unread})


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_text_or_none(value: object) -> bool:
    return value is None or isinstance(value, str)


def _is_word(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_moment(value: object) -> bool:
    return value is None or (isinstance(value, datetime) and value.utcoffset() is not None)


def _is_text_mapping(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(text, str) for pair in value.items() for text in pair)


def _is_parts(value: object) -> bool:
    return value is None or (isinstance(value, tuple) and all(isinstance(part, BilledPart) and _is_part(part) for part in value))


def _is_part(part: BilledPart) -> bool:
    texts = isinstance(part.component, str) and isinstance(part.instance, str)
    return texts and isinstance(part.count, int | float) and math.isfinite(part.count)


_CHECKS: Mapping[str, Callable[[Any], bool]] = {
    "id": _is_word,
    "name": _is_word,
    "kind": _is_word,
    "target": lambda value: isinstance(value, Target),
    "region": _is_text,
    "created": _is_moment,
    "changed": _is_moment,
    "status": _is_text,
    "size": _is_text,
    "parts": _is_parts,
    "tags": lambda value: value is None or _is_text_mapping(value),
    "people": _is_text_mapping,
    "details": lambda value: value is None or is_dataclass(value),
    "host_id": _is_text_or_none,
    "contained": lambda value: isinstance(value, tuple) and all(isinstance(inner, Resource) for inner in value),
    "fingerprint": _is_text_or_none,
    "stop_by": _is_text,
    "unread_because": _is_text_or_none,
}
_EMPTY_VALUES: Mapping[str, Any] = {
    "created": None,
    "changed": None,
    "status": "",
    "size": "",
    "parts": None,
    "tags": None,
    "people": {},
    "details": None,
    "host_id": None,
    "contained": (),
    "fingerprint": None,
    "stop_by": "stop",
    "unread_because": None,
}
