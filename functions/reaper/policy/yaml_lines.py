"""YAML with line numbers: YAML 1.2 scalars as plain data, and the line of every key.

YAML 1.1, which PyYAML reads, would turn the key `on` into true and 07:00 into 420: https://yaml.org/spec/1.2.2/#103-core-schema
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from reaper.errors import ODD_REPLY_ERRORS, PolicyError
from reaper.text import MAX_LINE_LENGTH, short_repr, shorten

KeyPath = tuple[str | int, ...]
MAX_BYTES = 256 * 1024
"""The longest text: hundreds of rules, read in seconds."""
MAX_TEXT_LENGTH = 2000
"""The longest key or value, in characters. An alias can repeat it in thousands of places and in the errors about each."""
MAX_DEPTH, MAX_KEYS = 20, 20_000
TOO_LONG = f"longer than {MAX_BYTES:,} bytes; remove some rules"
TOO_DEEP = (
    f"too deep, too long, or aliases that grow without end; use at most {MAX_DEPTH} levels and {MAX_KEYS:,} keys and list items"
)
TEXT_SECTIONS = frozenset({"match", "enforce_only"})
"""The keys below which tags and account IDs are compared. They are strings, so a number or boolean stays as written."""
YAML_TAG = "tag:yaml.org,2002:"
"""PyYAML's prefix for YAML's own tags, such as `!!int`."""


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012  (PyYAML's own class attribute)


SCALAR_PATTERNS = {
    "null": re.compile(r"(?:null|Null|NULL|~|)\Z"),
    "bool": re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z"),
    "int": re.compile(r"[-+]?[0-9]+\Z"),
    "float": re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*)(?:[eE][-+]?[0-9]+)?\Z"),
}
for _name, _first in (("null", "nN~"), ("bool", "tTfF"), ("int", "-+0123456789"), ("float", "-+.0123456789")):
    _Loader.add_implicit_resolver(f"{YAML_TAG}{_name}", SCALAR_PATTERNS[_name], [*_first, *([""] if _name == "null" else [])])
SCALAR_PARSERS: dict[str, Callable[[str], Any]] = {
    "str": str,
    "null": lambda text: None,
    "bool": lambda text: text.lower() == "true",
    "int": int,
    "float": float,
}
"""The parser of each scalar tag. PyYAML's own constructors accept more tags and crash on half of their input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineMap:
    """The lines of the keys of one text. `source` is the text's name in errors."""

    source: str
    lines: dict[KeyPath, int] = field(default_factory=lambda: {(): 1})

    def line(self, path: KeyPath) -> int:
        """The line of the key at `path`, or of the nearest key above it."""
        while path not in self.lines:
            path = path[:-1]
        return self.lines[path]

    def place(self, path: KeyPath) -> str:
        """`policy.yaml:12: rules[0].match`."""
        return _place(self.source, self.line(path), path)


def parse_with_lines(text: str, source: str) -> tuple[dict[str, Any], LineMap]:
    """The text as plain data, and the lines of its keys. Raises PolicyError if it isn't a YAML mapping."""
    if len(text) > MAX_BYTES or len(text.encode(errors="replace")) > MAX_BYTES:
        raise PolicyError([f"{source}:1: {TOO_LONG}"])
    lines = LineMap(source=source)
    try:
        node = _Loader(text).get_single_node()
        data = _node_value(node, (), lines) if node is not None else {}
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = shorten(error.problem or error.context or "", MAX_LINE_LENGTH // 4)
        raise PolicyError([f"{source}:{mark.line + 1 if mark else 1}: not valid YAML: {problem}"]) from error
    except RecursionError as error:
        raise PolicyError([f"{source}:1: {TOO_DEEP}"]) from error
    except (yaml.YAMLError, *ODD_REPLY_ERRORS) as error:
        # PyYAML itself crashes on some escapes and versions, such as "\Uffffffff".
        raise PolicyError([f"{source}:1: not valid YAML: {shorten(str(error), MAX_LINE_LENGTH // 4)}"]) from error
    if not isinstance(data, dict):
        raise PolicyError([f"{source}:1: expected keys such as `version: 1` and `rules:`, got {short_repr(data)}"])
    return data, lines


def _node_value(node: Node, path: KeyPath, lines: LineMap) -> Any:
    if len(path) > MAX_DEPTH or len(lines.lines) > MAX_KEYS:
        raise PolicyError([f"{lines.source}:{_line_of(node)}: {TOO_DEEP}"])
    if isinstance(node, ScalarNode):
        return _scalar_value(node, path, lines.source)
    if isinstance(node, MappingNode) and node.tag == f"{YAML_TAG}map":
        return _mapping_value(node, path, lines)
    if isinstance(node, SequenceNode) and node.tag == f"{YAML_TAG}seq":
        return _sequence_value(node, path, lines)
    raise _unknown_tag_error(node, path, lines.source)


def _mapping_value(node: MappingNode, path: KeyPath, lines: LineMap) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key = _key_text(key_node, path, lines.source)
        key_path = (*path, key)
        if key in result:
            raise PolicyError([f"{_place(lines.source, _line_of(key_node), key_path)}: duplicate key; remove one"])
        lines.lines[key_path] = _line_of(key_node)
        result[key] = _node_value(value_node, key_path, lines)
    return result


def _sequence_value(node: SequenceNode, path: KeyPath, lines: LineMap) -> list[Any]:
    for index, item in enumerate(node.value):
        lines.lines[(*path, index)] = _line_of(item)
    return [_node_value(item, (*path, index), lines) for index, item in enumerate(node.value)]


def _key_text(node: Node, path: KeyPath, source: str) -> str:
    """The text of a key. A list or mapping as a key isn't repeated: aliases can make it endless."""
    if not isinstance(node, ScalarNode):
        raise _node_error(node, path, source, "a list or mapping can't be a key; expected a string")
    _require_plain_scalar(node, path, source)
    return str(node.value)


def _scalar_value(node: ScalarNode, path: KeyPath, source: str) -> Any:
    """The value. Below TEXT_SECTIONS, a number or boolean stays the text as written."""
    _require_plain_scalar(node, path, source)
    name = node.tag.removeprefix(YAML_TAG)
    if not _matches_tag(name, node.value):
        raise _node_error(node, path, source, f"{short_repr(node.value)} isn't a valid {name}; remove its YAML tag")
    if not TEXT_SECTIONS.isdisjoint(path) and name in {"int", "float", "bool"}:
        return node.value
    try:
        return SCALAR_PARSERS[name](node.value)
    except ValueError as error:
        raise _node_error(node, path, source, f"{short_repr(node.value)} isn't a valid {name}: {error}") from error


def _require_plain_scalar(node: ScalarNode, path: KeyPath, source: str) -> None:
    """Raises PolicyError for an unsupported tag, and for a value that is too long to be meant."""
    if not node.tag.startswith(YAML_TAG) or node.tag.removeprefix(YAML_TAG) not in SCALAR_PARSERS:
        raise _unknown_tag_error(node, path, source)
    if len(node.value) > MAX_TEXT_LENGTH:
        text = f"{short_repr(node.value)} is too long; use at most {MAX_TEXT_LENGTH:,} characters"
        raise _node_error(node, path, source, text)


def _matches_tag(name: str, text: str) -> bool:
    """Whether the text fits its tag; `!!float 1` does, too."""
    patterns = {"str": (), "float": (SCALAR_PATTERNS["float"], SCALAR_PATTERNS["int"])}.get(name) or (SCALAR_PATTERNS.get(name),)
    return any(pattern is None or pattern.match(text) for pattern in patterns)


def _unknown_tag_error(node: Node, path: KeyPath, source: str) -> PolicyError:
    tag = short_repr(node.tag.replace(YAML_TAG, "!!"))
    return _node_error(node, path, source, f"unsupported YAML tag {tag}; write the value without a tag")


def _node_error(node: Node, path: KeyPath, source: str, text: str) -> PolicyError:
    return PolicyError([f"{_place(source, _line_of(node), path)}: {text}"])


def _line_of(node: Node) -> int:
    return int(node.start_mark.line) + 1


def _place(source: str, line: int, path: KeyPath) -> str:
    dotted = "".join(f"[{part}]" if isinstance(part, int) else f".{shorten(part)}" for part in path).lstrip(".")
    return f"{source}:{line}: {dotted or 'the policy'}"
