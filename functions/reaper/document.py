"""A policy text into a `Policy`: YAML 1.2 scalars with line numbers, and errors that name file, line, key, value, expectation and fix.

YAML 1.1, which PyYAML reads, would turn the key `on` into true and 07:00 into 420: https://yaml.org/spec/1.2.2/#103-core-schema
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from reaper.channels import spec
from reaper.errors import PolicyError
from reaper.policy import Policy

Path = tuple[str | int, ...]
MAX_BYTES = 256 * 1024
"""The longest policy: hundreds of rules, and read in seconds."""
MOST = 100
"""So many problems are told at most; whoever mends these runs the check again."""


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012  (PyYAML's own class attribute)


for _tag, _shape, _first in (
    ("null", r"null|Null|NULL|~|", ["n", "N", "~", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+", list("-+0123456789")),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*)([eE][-+]?[0-9]+)?", list("-+.0123456789")),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"(?:{_shape})\\Z"), _first)

TOO_DEEP = (
    "nested too deep, too long, or aliases that grow without end: expected at most 20 levels and 20,000 keys and list items"
)
PLAIN = dict.fromkeys(("model_type", "dict_type", "model_attributes_type"), "expected keys and values, such as `key: value`") | {
    "list_type": "expected a list, such as [a, b]",
    "string_type": "expected a text",
    "int_type": "expected a whole number",
    "int_parsing": "expected a whole number",
    "int_from_float": "expected a whole number",
    "float_type": "expected a number",
    "float_parsing": "expected a number",
    "bool_type": "expected true or false",
    "bool_parsing": "expected true or false",
}
"""What is said where the validator would speak of itself."""


def parse(text: str, source: str, kinds: Collection[str], startable: Collection[str] | None = None) -> Policy:
    """The policy in `text`. Raises PolicyError with every problem found, one line each.

    `kinds` are the kind names there are, `startable` those that can be started again; without these `force` is not checked.
    """
    data, lines = _read(text, source)
    try:
        policy = Policy.model_validate(data)
    except ValidationError as error:
        every = error.errors()
        raise PolicyError(
            [*(_problem(source, lines, data, e) for e in every[:MOST]), *_more(source, len(every) - MOST)]
        ) from error
    problems = _unknown_kinds(policy, source, lines, kinds)
    if startable is not None:
        problems += _forced_for_good(policy, source, lines, startable)
    if problems:
        raise PolicyError([*problems[:MOST], *_more(source, len(problems) - MOST)])
    return policy


def _more(source: str, count: int) -> list[str]:
    return [f"{source}: {count} more problems"] if count > 0 else []


def digest(text: str) -> str:
    """The hash that reports carry, so that a report says which policy it was made under."""
    return hashlib.sha256(text.encode()).hexdigest()


def plain(text: str, source: str) -> Any:
    """The text as plain data, without validating it. Raises PolicyError when it is not YAML."""
    return _read(text, source)[0]


def line_of(text: str, source: str) -> Callable[[Path], int]:
    """What tells the line of the key at a path, or of the nearest one above it. Raises PolicyError when it is not YAML."""
    lines = _read(text, source)[1]
    return lambda path: _line(lines, path)


def _read(text: str, source: str) -> tuple[Any, dict[Path, int]]:
    if (size := len(text.encode(errors="replace"))) > MAX_BYTES:
        raise PolicyError([f"{source}:1: the policy has {size:,} bytes, expected at most {MAX_BYTES:,}: give it fewer rules"])
    lines: dict[Path, int] = {(): 1}
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        data = _plain(node, (), lines, loader, source) if node is not None else {}
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise PolicyError(
            [f"{source}:{mark.line + 1 if mark else 1}: not valid YAML: {error.problem or error.context}"]
        ) from error
    except yaml.YAMLError as error:
        raise PolicyError([f"{source}:1: not valid YAML: {error}"]) from error
    except RecursionError as error:
        raise PolicyError([f"{source}:1: {TOO_DEEP}"]) from error
    if not isinstance(data, dict):
        raise PolicyError([f"{source}:1: expected keys such as `version: 1` and `rules:`, got {_show(data)}"])
    return data, lines


def _plain(node: Node, path: Path, lines: dict[Path, int], loader: yaml.SafeLoader, source: str) -> Any:
    if len(path) > 20 or len(lines) > 20_000:
        raise PolicyError([f"{source}:{node.start_mark.line + 1}: {TOO_DEEP}"])
    if isinstance(node, MappingNode):
        result: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            key = str(key_node.value)
            line = key_node.start_mark.line + 1
            if key in result:
                raise PolicyError([f"{source}:{line}: {_dotted((*path, key))}: the key is given twice, remove one"])
            lines[(*path, key)] = line
            result[key] = _plain(value_node, (*path, key), lines, loader, source)
        return result
    if isinstance(node, SequenceNode):
        for index, item in enumerate(node.value):
            lines[(*path, index)] = item.start_mark.line + 1
        return [_plain(item, (*path, i), lines, loader, source) for i, item in enumerate(node.value)]
    assert isinstance(node, ScalarNode)
    return _scalar(node, path, loader, source)


def _scalar(node: ScalarNode, path: Path, loader: yaml.SafeLoader, source: str) -> Any:
    """The value; under `match` a number or a yes is the text that stands there, because tags and account ids are texts."""
    tag = node.tag.rpartition(":")[2]
    if "match" in path and tag in {"int", "float", "bool"}:
        return node.value
    try:
        if tag == "int":
            return int(node.value)
        return loader.construct_object(node)
    except (ValueError, OverflowError, yaml.YAMLError, KeyError) as error:
        raise PolicyError(
            [f"{source}:{node.start_mark.line + 1}: {_dotted(path)}: {_show(node.value)} is no {tag}: {error}"]
        ) from error


def _problem(source: str, lines: dict[Path, int], data: Any, error: Any) -> str:
    path = tuple(p for p in error["loc"] if not (isinstance(p, str) and p.startswith(("list[", "function-", "literal"))))
    sort = path[2] if path[:1] == ("channels",) and len(path) > 2 and path[2] in spec.MODELS else None
    path = path[:2] + path[3:] if sort else path
    where = f"{source}:{_line(lines, path)}: {_dotted(path) or 'the policy'}"
    if error["type"] == "extra_forbidden":
        return f"{where}: unknown key{_nearest(str(path[-1]), _keys(spec.MODELS[str(sort)]) if sort else _fields(path[:-1]))}"
    if error["type"].startswith("union_tag_"):
        asked = str(error["input"].get("type", "")) if isinstance(error["input"], dict) else ""
        return f"{where}: {_show(asked)} is no type of channel{_nearest(asked, list(spec.MODELS))}"
    if error["type"] == "missing":
        return f"{where}: this key is missing{', add `version: 1`' if path == ('version',) else ''}"
    text = PLAIN.get(error["type"]) or error["msg"].removeprefix("Value error, ")
    text = (text[0].lower() + text[1:]).replace("input should be", "expected")
    if isinstance(error["input"], dict | list | BaseModel):
        return f"{where}: {text}"
    if error["type"] == "string_type" and isinstance(error["input"], int | float):
        return f"{where}: {_show(error['input'])} is a number here: put it in quotes"
    hint = _nearest(str(error["input"]), re.findall(r"'([^']+)'", text)) if error["type"] in {"enum", "literal_error"} else ""
    return f"{where}: {_show(error['input'])} is not valid: {text}{hint}"


def _unknown_kinds(policy: Policy, source: str, lines: dict[Path, int], kinds: Collection[str]) -> list[str]:
    problems: list[str] = []
    for index, entry in enumerate(policy.rules):
        for name in entry.match.kind or []:
            if len(problems) <= MOST and not any(fnmatchcase(kind, name) for kind in kinds):
                path: Path = ("rules", index, "match", "kind")
                problems.append(
                    f"{source}:{_line(lines, path)}: {_dotted(path)}: {name!r} is no kind we know{_nearest(name, sorted(kinds))}"
                )
    return problems


def _forced_for_good(policy: Policy, source: str, lines: dict[Path, int], startable: Collection[str]) -> list[str]:
    """Rules that would stop what is busy and could not start it again: `force` where no kind that the rule names can be started."""
    problems = []
    for index, entry in enumerate(policy.rules):
        named = entry.match.kind
        if entry.hours and entry.hours.force and named and not any(fnmatchcase(k, glob) for k in startable for glob in named):
            path: Path = ("rules", index, "hours", "force")
            problems.append(
                f"{source}:{_line(lines, path)}: {_dotted(path)}: true is not valid: expected a match.kind that can be started again, "
                f"such as {' or '.join(sorted(startable))}, not {', '.join(named)}"
            )
    return problems


def _fields(path: Path) -> list[str]:
    """The keys that are valid inside the mapping at `path`."""
    model: Any = Policy
    for part in path:
        if isinstance(part, str) and isinstance(model, type) and issubclass(model, BaseModel):
            model = _model_in(model.model_fields[part].annotation) if part in model.model_fields else None
    return _keys(model) if model else []


def _keys(model: type[BaseModel]) -> list[str]:
    """The keys of a mapping, as they are written in the file."""
    return [field.alias or name for name, field in model.model_fields.items()]


def _model_in(annotation: Any) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for arg in get_args(annotation) if (found := _model_in(arg))), None)


def _nearest(word: str, valid: list[str]) -> str:
    near = get_close_matches(word, valid, n=1, cutoff=0.5)
    if near:
        return f", did you mean {near[0]}?"
    return f"; valid here: {', '.join(valid)}" if valid else ""


def _line(lines: dict[Path, int], path: Path) -> int:
    while path not in lines:
        path = path[:-1]
    return lines[path]


def _dotted(path: Path) -> str:
    return "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in path).lstrip(".")


def _show(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 80 else shown[:77] + "..."
