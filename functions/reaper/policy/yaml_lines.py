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


INT = r"[-+]?[0-9]+"
FLOAT = r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*)(?:[eE][-+]?[0-9]+)?"
SCALARS: dict[str, tuple[str, str, Callable[[str], Any]]] = {
    "null": (r"null|Null|NULL|~|", "nN~", lambda text: None),
    "bool": (r"true|True|TRUE|false|False|FALSE", "tTfF", lambda text: text.lower() == "true"),
    "int": (INT, "-+0123456789", int),
    "float": (FLOAT, "-+.0123456789", float),
}
"""By tag: the pattern of a scalar, its first characters, and its parser. PyYAML's own constructors accept more tags and crash on half of their
input."""
for _name, (_pattern, _first, _) in SCALARS.items():
    _first_characters = [*_first, ""] if _name == "null" else [*_first]
    _Loader.add_implicit_resolver(f"{YAML_TAG}{_name}", re.compile(rf"(?:{_pattern})\Z"), _first_characters)


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
        return self._place(self.line(path), path)

    def error(self, node: Node, path: KeyPath, problem: str) -> PolicyError:
        """The error about a value or a key, at its own line."""
        return PolicyError([f"{self._place(_line_of(node), path)}: {problem}"])

    def _place(self, line: int, path: KeyPath) -> str:
        dotted = "".join(f"[{part}]" if isinstance(part, int) else f".{shorten(part)}" for part in path).lstrip(".")
        return f"{self.source}:{line}: {dotted or 'the policy'}"


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
        return _scalar_value(node, path, lines)
    if isinstance(node, MappingNode) and node.tag == f"{YAML_TAG}map":
        return _mapping_value(node, path, lines)
    if isinstance(node, SequenceNode) and node.tag == f"{YAML_TAG}seq":
        lines.lines.update({(*path, index): _line_of(item) for index, item in enumerate(node.value)})
        return [_node_value(item, (*path, index), lines) for index, item in enumerate(node.value)]
    raise _unknown_tag_error(node, path, lines)


def _mapping_value(node: MappingNode, path: KeyPath, lines: LineMap) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key_node, value_node in node.value:
        if not isinstance(key_node, ScalarNode):  # not repeated in the error: aliases can make it endless
            raise lines.error(key_node, path, "a list or mapping can't be a key; expected a string")
        _require_plain_scalar(key_node, path, lines)
        key = str(key_node.value)
        key_path = (*path, key)
        if key in result:
            raise lines.error(key_node, key_path, "duplicate key; remove one")
        lines.lines[key_path] = _line_of(key_node)
        result[key] = _node_value(value_node, key_path, lines)
    return result


def _scalar_value(node: ScalarNode, path: KeyPath, lines: LineMap) -> Any:
    """The value. Below TEXT_SECTIONS, a number or boolean stays the text as written. `!!float 1` is a float, too."""
    name = _require_plain_scalar(node, path, lines)
    if name == "str":
        return node.value
    pattern, _, parse = SCALARS[name]
    if not re.fullmatch(f"{FLOAT}|{INT}" if name == "float" else pattern, node.value):
        raise lines.error(node, path, f"{short_repr(node.value)} isn't a valid {name}; remove its YAML tag")
    if name != "null" and not TEXT_SECTIONS.isdisjoint(path):
        return node.value
    try:
        return parse(node.value)
    except ValueError as error:
        raise lines.error(node, path, f"{short_repr(node.value)} isn't a valid {name}: {error}") from error


def _require_plain_scalar(node: ScalarNode, path: KeyPath, lines: LineMap) -> str:
    """The name of its tag. Raises PolicyError for an unsupported tag, and for a value that is too long to be meant."""
    name = node.tag.removeprefix(YAML_TAG)
    if not node.tag.startswith(YAML_TAG) or name not in {"str", *SCALARS}:
        raise _unknown_tag_error(node, path, lines)
    if len(node.value) > MAX_TEXT_LENGTH:
        text = f"{short_repr(node.value)} is too long; use at most {MAX_TEXT_LENGTH:,} characters"
        raise lines.error(node, path, text)
    return name


def _unknown_tag_error(node: Node, path: KeyPath, lines: LineMap) -> PolicyError:
    tag = short_repr(node.tag.replace(YAML_TAG, "!!"))
    return lines.error(node, path, f"unsupported YAML tag {tag}; write the value without a tag")


def _line_of(node: Node) -> int:
    return int(node.start_mark.line) + 1
