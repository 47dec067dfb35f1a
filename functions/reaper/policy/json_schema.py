"""The JSON Schema of policy files, as editors want it: every key described, defaults as they are written, the kinds by name.

https://json-schema.org/draft/2020-12
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

from pydantic import BaseModel

from reaper import duration
from reaper.policy.schema import Policy

SCHEMA_HEAD = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "ML Idle Reaper policy"}


def policy_schema(kinds: Sequence[str]) -> dict[str, Any]:
    """The schema. `kinds` are the names of the kinds there are; a glob is allowed beside them."""
    found = Policy.model_json_schema(by_alias=True)
    for part in (found, *found["$defs"].values()):
        for key, described in part.get("properties", {}).items():
            part["properties"][key] = _without_pydantic_keys(described)
    _spell_defaults(found)
    _name_kinds(found["$defs"]["Match"]["properties"]["kind"], kinds)
    return SCHEMA_HEAD | found | SCHEMA_HEAD


def _without_pydantic_keys(key: dict[str, Any]) -> dict[str, Any]:
    """Without what only pydantic wants to say; null is the same as leaving a key out."""
    kept = {name: value for name, value in key.items() if name not in {"title", "default", "discriminator"}}
    if "default" in key and isinstance(key["default"], str | int | float | list):
        kept["default"] = key["default"]
    return kept


def _spell_defaults(found: dict[str, Any]) -> None:
    """Defaults as they stand in a file: `24h`, where pydantic says P1D, and `25%`."""
    for part, model in _models_of(Policy):
        properties = (found if model is Policy else found["$defs"].get(part, {})).get("properties", {})
        for name, field in model.model_fields.items():
            if isinstance(field.default, timedelta):
                properties[field.alias or name]["default"] = duration.policy_duration(field.default)


def _models_of(model: type[BaseModel]) -> Iterator[tuple[str, type[BaseModel]]]:
    """The model and those of its keys, by name."""
    yield model.__name__, model
    for field in model.model_fields.values():
        for kind in (field.annotation, *getattr(field.annotation, "__args__", ())):
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                yield from _models_of(kind)


def _name_kinds(key: dict[str, Any], kinds: Sequence[str]) -> None:
    """One of the kinds, or a glob, alone or in a list."""
    one = {"anyOf": [{"enum": list(kinds)}, {"type": "string", "pattern": r"[*?\[]"}]}
    key["anyOf"] = [*one["anyOf"], {"type": "array", "items": one, "minItems": 1}, {"type": "null"}]
