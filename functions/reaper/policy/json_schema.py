"""The JSON Schema of policy files for editors: every key with its description, defaults as a file spells them, kinds by name.

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
    """The schema. `kinds` are the names of all kinds; globs are allowed, too."""
    schema = Policy.model_json_schema(by_alias=True)
    for section in (schema, *schema["$defs"].values()):
        for key, description in section.get("properties", {}).items():
            section["properties"][key] = _without_pydantic_keys(description)
    _spell_defaults(schema)
    _name_kinds(schema["$defs"]["Match"]["properties"]["kind"], kinds)
    return SCHEMA_HEAD | schema | SCHEMA_HEAD


def _without_pydantic_keys(key: dict[str, Any]) -> dict[str, Any]:
    """The key without pydantic's extras. A default of null is dropped: it means the same as no key."""
    cleaned = {name: value for name, value in key.items() if name not in {"title", "default", "discriminator"}}
    if "default" in key and isinstance(key["default"], str | int | float | list):
        cleaned["default"] = key["default"]
    return cleaned


def _spell_defaults(schema: dict[str, Any]) -> None:
    """Write default durations as a file has them: `24h`, not pydantic's P1D."""
    for section, model in _models_of(Policy):
        properties = (schema if model is Policy else schema["$defs"].get(section, {})).get("properties", {})
        for name, field in model.model_fields.items():
            if isinstance(field.default, timedelta):
                properties[field.alias or name]["default"] = duration.policy_duration(field.default)


def _models_of(model: type[BaseModel]) -> Iterator[tuple[str, type[BaseModel]]]:
    """The model and the models of its keys, by name."""
    yield model.__name__, model
    for field in model.model_fields.values():
        for annotation in (field.annotation, *getattr(field.annotation, "__args__", ())):
            if isinstance(annotation, type) and issubclass(annotation, BaseModel):
                yield from _models_of(annotation)


def _name_kinds(key: dict[str, Any], kinds: Sequence[str]) -> None:
    """Allow a kind or a glob, or a list of these."""
    name_or_glob = {"anyOf": [{"enum": list(kinds)}, {"type": "string", "pattern": r"[*?\[]"}]}
    key["anyOf"] = [*name_or_glob["anyOf"], {"type": "array", "items": name_or_glob, "minItems": 1}, {"type": "null"}]
