"""What a kind lists, held against the types it promises: a reply can put anything into any field. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from reaper.model import Part, Resource, Target

UNREAD = "unread"
"""The fact that says, as a clause, what of a resource could not be read: it proves nothing and nothing is done to it."""


def faults(resource: object) -> list[str]:
    """The fields that do not hold what their type says; `id` alone for what is no resource at all."""
    if not isinstance(resource, Resource):
        return ["id"]
    return [name for name, holds in _HOLDS.items() if not holds(getattr(resource, name))]


def told(resource: object, wrong: list[str]) -> str:
    """What is wrong, for people, with the beginning of each odd value."""
    values = ", ".join(f"{name} {getattr(resource, name, resource)!r}"[:80] for name in wrong)
    name = resource.id if isinstance(resource, Resource) and "id" not in wrong else "one without a name, which is left out"
    return f"a reply cannot be read of {name}: {values}"


def mended(resource: Resource, wrong: list[str], kind: str, target: Target) -> Resource:
    """The same with nothing in place of what is wrong, which its fact `unread` names. Its id must be sound."""
    if not wrong:
        return resource
    name = resource.id.rstrip("/").rpartition("/")[2] or resource.id
    instead = {**_NOTHING, "name": name, "kind": kind, "target": target, "region": target.region or ""}
    facts = {} if "facts" in wrong else resource.facts
    unread = f"its {', '.join(wrong)} could not be read"
    return replace(resource, **{**{field: instead[field] for field in wrong}, "facts": {**facts, UNREAD: unread}})


def _text(value: object) -> bool:
    return isinstance(value, str)


def _word(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _moment(value: object) -> bool:
    return value is None or (isinstance(value, datetime) and value.utcoffset() is not None)


def _texts(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(text, str) for pair in value.items() for text in pair)


def _parts(value: object) -> bool:
    return value is None or (isinstance(value, tuple) and all(isinstance(part, Part) and _part(part) for part in value))


def _part(part: Part) -> bool:
    texts = isinstance(part.component, str) and isinstance(part.instance, str)
    return texts and isinstance(part.count, int | float) and math.isfinite(part.count)


_HOLDS: Mapping[str, Callable[[Any], bool]] = {
    "id": _word,
    "name": _word,
    "kind": _word,
    "target": lambda value: isinstance(value, Target),
    "region": _text,
    "created": _moment,
    "changed": _moment,
    "status": _text,
    "size": _text,
    "parts": _parts,
    "tags": lambda value: value is None or _texts(value),
    "people": _texts,
    "facts": lambda value: isinstance(value, Mapping),
}
_NOTHING: Mapping[str, Any] = {
    "created": None,
    "changed": None,
    "status": "",
    "size": "",
    "parts": None,
    "tags": None,
    "people": {},
    "facts": {},
}
