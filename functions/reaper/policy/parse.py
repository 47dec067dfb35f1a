"""A policy's text as a `Policy`, or every problem in it with its line."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from itertools import islice
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from reaper.errors import PolicyError
from reaper.policy import channel_settings
from reaper.policy.schema import Policy
from reaper.policy.yaml_lines import MAX_BYTES, TOO_LONG, KeyPath, LineMap, parse_with_lines
from reaper.text import MAX_LINE_LENGTH, first_few, short_repr, shorten

MAX_PROBLEMS = 100
"""The most problems in one error."""
MAY_BE_EMPTY = frozenset({"defaults", "limits", "owners", "channels", "rules"})
"""The keys that mean nothing if nothing is below them."""


def parse_policy(text: str, source: str, kinds: Collection[str], startable: Collection[str] | None = None) -> Policy:
    """The policy in `text`. Raises PolicyError with every problem, one line each.

    `kinds` are the names of all kinds, `startable` those that can be restarted; if it's None, `hours` aren't checked.
    """
    data, lines = parse_with_lines(text, source)
    try:
        policy = Policy.model_validate(_without_empty_keys(data))
    except ValidationError as error:
        errors = error.errors()
        raise _policy_error([problem_line(lines, e) for e in errors[:MAX_PROBLEMS]], source, len(errors)) from error
    problems = list(islice(_unknown_kinds(policy, lines, kinds), MAX_PROBLEMS + 1))
    if startable is not None:
        problems += _hours_without_restart(policy, lines, startable)
    if problems:
        raise _policy_error(problems[:MAX_PROBLEMS], source, len(problems))
    return policy


def decode_policy(raw: bytes, source: str) -> str:
    """The text of a policy, of which at most MAX_BYTES + 1 were read. Raises PolicyError if it's too long or not UTF-8."""
    if len(raw) > MAX_BYTES:
        raise PolicyError([f"{source}:1: {TOO_LONG}"])
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise PolicyError([f"{source}:1: not valid UTF-8: {error}"]) from error


def policy_digest(text: str) -> str:
    """The hash that reports and plan files carry to name their policy."""
    return hashlib.sha256(text.encode()).hexdigest()


def _without_empty_keys(data: dict[str, Any]) -> dict[str, Any]:
    """The policy without empty sections, such as `defaults:` when every line below is a comment."""
    return {key: value for key, value in data.items() if value is not None or key not in MAY_BE_EMPTY}


def _policy_error(problems: list[str], source: str, count: int) -> PolicyError:
    """The error for `count` problems, of which `problems` are the first. Long lines are cut."""
    more = [f"{source}: {count - len(problems)} more problems"] if count > len(problems) else []
    return PolicyError([shorten(problem, MAX_LINE_LENGTH) for problem in (*problems, *more)])


def _unknown_kinds(policy: Policy, lines: LineMap, kinds: Collection[str]) -> Iterator[str]:
    for index, spec in enumerate(policy.rules):
        for name in spec.match.kind or []:
            if not any(fnmatchcase(kind, name) for kind in kinds):
                place = lines.place(("rules", index, "match", "kind"))
                yield f"{place}: unknown kind {short_repr(name)}{suggestion_text(name, sorted(kinds))}"


def _hours_without_restart(policy: Policy, lines: LineMap, startable: Collection[str]) -> Iterator[str]:
    """Rules with hours whose kinds can't be started again: what they stop in the evening would stay stopped."""
    for index, spec in enumerate(policy.rules):
        globs = spec.match.kind
        if spec.hours and globs and not any(fnmatchcase(kind, glob) for kind in startable for glob in globs):
            place = lines.place(("rules", index, "hours"))
            names = " or ".join(sorted(startable))
            yield (
                f"{place}: not valid for {first_few(globs)}, which can't be started again when the hours begin: remove the hours, or match a "
                f"kind that can be, such as {names}"
            )


EXPECTED_BY_ERROR = dict.fromkeys(
    ("model_type", "dict_type", "model_attributes_type"), "expected keys and values, such as `key: value`"
) | {
    "list_type": "expected a list, such as [a, b]",
    "string_type": "expected a string",
    "int_type": "expected a whole number",
    "int_parsing": "expected a whole number",
    "int_from_float": "expected a whole number",
    "float_type": "expected a number",
    "float_parsing": "expected a number",
    "bool_type": "expected true or false",
    "bool_parsing": "expected true or false",
}
"""Our words for pydantic's errors about types."""
PYDANTIC_STEPS = ("list[", "function-", "literal")
"""How parts of a location begin that name pydantic's validators and not a key."""


def problem_line(lines: LineMap, error: ErrorDetails) -> str:
    """The line for one of pydantic's errors."""
    path, channel_type = _key_path(error["loc"])
    place, value = lines.place(path), error["input"]
    if error["type"] == "extra_forbidden":
        model = channel_settings.CHANNEL_MODELS.get(channel_type) if channel_type else None
        return f"{place}: unknown key{suggestion_text(str(path[-1]), _keys_of(model) if model else _keys_at(path[:-1]))}"
    if error["type"].startswith("union_tag_"):
        return f"{place}: {_channel_type_problem(value)}"
    if error["type"] == "missing":
        return f"{place}: this key is missing{'; add `version: 1`' if path == ('version',) else ''}"
    return f"{place}: {_value_problem(error, value)}"


def suggestion_text(word: str, valid: Sequence[str]) -> str:
    """`; did you mean x?`, or the list of valid words if none is near."""
    near = get_close_matches(shorten(word), valid, n=1, cutoff=0.5)
    if near:
        return f"; did you mean {near[0]}?"
    return f"; valid here: {', '.join(valid)}" if valid else ""


def _key_path(location: Sequence[str | int]) -> tuple[KeyPath, str | None]:
    """The path of keys in the file, and the channel's type, which pydantic adds to the path of a channel."""
    path = tuple(part for part in location if not (isinstance(part, str) and part.startswith(PYDANTIC_STEPS)))
    if path[:1] == ("channels",) and len(path) > 2 and path[2] in channel_settings.CHANNEL_MODELS:
        return path[:2] + path[3:], str(path[2])
    return path, None


def _channel_type_problem(value: Any) -> str:
    written = value.get("type", "") if isinstance(value, dict) else ""
    name = written if isinstance(written, str) else short_repr(written)
    advice = channel_settings.channel_advice(name) or suggestion_text(name, list(channel_settings.CHANNEL_MODELS))
    return f"unknown channel type {short_repr(name)}{advice}"


def _value_problem(error: ErrorDetails, value: Any) -> str:
    expected = EXPECTED_BY_ERROR.get(error["type"]) or error["msg"].removeprefix("Value error, ")
    expected = (expected[0].lower() + expected[1:]).replace("input should be", "expected")
    if isinstance(value, dict | list | BaseModel):
        return expected
    if error["type"] == "string_type" and isinstance(value, int | float):
        return f"{short_repr(value)} is a number; put it in quotes"
    is_choice = error["type"] in {"enum", "literal_error"}
    hint = suggestion_text(str(value), re.findall(r"'([^']+)'", expected)) if is_choice else ""
    return f"{short_repr(value)} is not valid: {expected}{hint}"


def _keys_at(path: KeyPath) -> list[str]:
    """The valid keys of the mapping at `path`."""
    model: Any = Policy
    for part in path:
        if isinstance(part, str) and isinstance(model, type) and issubclass(model, BaseModel):
            model = _model_of(model.model_fields[part].annotation) if part in model.model_fields else None
    return _keys_of(model) if model else []


def _keys_of(model: type[BaseModel]) -> list[str]:
    """The keys of a section, as the file spells them."""
    return [field.alias or name for name, field in model.model_fields.items()]


def _model_of(annotation: Any) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for arg in get_args(annotation) if (model := _model_of(arg))), None)
