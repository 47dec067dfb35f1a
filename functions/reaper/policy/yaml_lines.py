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

from reaper.errors import ODD_REPLY_ERRORS, PolicyError
from reaper.policy import channel_settings
from reaper.policy.schema import Policy
from reaper.text import MAX_LINE_LENGTH, first_few, short_repr, shorten

KeyPath = tuple[str | int, ...]
MAX_BYTES = 256 * 1024
"""The longest policy: hundreds of rules, and read in seconds."""
MAX_PROBLEMS = 100
"""So many problems are told at most; whoever mends these runs the check again."""
MAX_TEXT_LENGTH = 2000
"""The longest key or value, in characters. With aliases one of them may stand in thousands of places, and in the errors about each."""
YAML_TAG = "tag:yaml.org,2002:"
"""What PyYAML puts before the name of a tag of YAML's own, as in `!!int`."""


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
"""What a scalar becomes, by its tag. PyYAML's own constructors know more tags, and trip over half of what they are given."""

TOO_LONG = f"the policy is too long: expected at most {MAX_BYTES:,} bytes: give it fewer rules"
TOO_DEEP = (
    "nested too deep, too long, or aliases that grow without end: expected at most 20 levels and 20,000 keys and list items"
)
EXPECTED_BY_ERROR = dict.fromkeys(
    ("model_type", "dict_type", "model_attributes_type"), "expected keys and values, such as `key: value`"
) | {
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


MAY_BE_EMPTY = frozenset({"defaults", "limits", "owners", "channels", "rules"})
"""The keys that mean nothing where nothing stands below them."""


def parse_policy(text: str, source: str, kinds: Collection[str], startable: Collection[str] | None = None) -> Policy:
    """The policy in `text`. Raises PolicyError with every problem found, one line each.

    `kinds` are the kind names there are, `startable` those that can be started again; without these `force` is not checked.
    """
    data, lines = _parse_with_lines(text, source)
    try:
        policy = Policy.model_validate(_without_empty_keys(data))
    except ValidationError as error:
        every = error.errors()
        raise _policy_error([_problem_line(source, lines, data, e) for e in every[:MAX_PROBLEMS]], source, len(every)) from error
    problems = _unknown_kinds(policy, source, lines, kinds)
    if startable is not None:
        problems += _forced_without_restart(policy, source, lines, startable)
    if problems:
        raise _policy_error(problems[:MAX_PROBLEMS], source, len(problems))
    return policy


def _without_empty_keys(data: dict[str, Any]) -> dict[str, Any]:
    """The policy without the parts that are there and empty, such as `defaults:` with every line below it a comment."""
    return {key: value for key, value in data.items() if value is not None or key not in MAY_BE_EMPTY}


def _policy_error(problems: list[str], source: str, count: int) -> PolicyError:
    """The error for `count` problems, of which these are the first. No line is so long that it drowns the others."""
    more = [f"{source}: {count - len(problems)} more problems"] if count > len(problems) else []
    return PolicyError([shorten(problem, MAX_LINE_LENGTH) for problem in (*problems, *more)])


def decode_policy(raw: bytes, source: str) -> str:
    """The text of a policy that was read up to MAX_BYTES and one more. Raises PolicyError for one that is longer, or no UTF-8."""
    if len(raw) > MAX_BYTES:
        raise PolicyError([f"{source}:1: {TOO_LONG}"])
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise PolicyError([f"{source}:1: not a text in UTF-8: {error}"]) from error


def policy_digest(text: str) -> str:
    """The hash that reports carry, so that a report says which policy it was made under."""
    return hashlib.sha256(text.encode()).hexdigest()


def parse_yaml(text: str, source: str) -> Any:
    """The text as plain data, without validating it. Raises PolicyError when it is not YAML."""
    return _parse_with_lines(text, source)[0]


def line_finder(text: str, source: str) -> Callable[[KeyPath], int]:
    """What tells the line of the key at a path, or of the nearest one above it. Raises PolicyError when it is not YAML."""
    lines = _parse_with_lines(text, source)[1]
    return lambda path: _line_at(lines, path)


def _parse_with_lines(text: str, source: str) -> tuple[Any, dict[KeyPath, int]]:
    if len(text) > MAX_BYTES or len(text.encode(errors="replace")) > MAX_BYTES:
        raise PolicyError([f"{source}:1: {TOO_LONG}"])
    lines: dict[KeyPath, int] = {(): 1}
    try:
        node = _Loader(text).get_single_node()
        data = _node_value(node, (), lines, source) if node is not None else {}
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = shorten(error.problem or error.context or "", MAX_LINE_LENGTH // 4)
        raise PolicyError([f"{source}:{mark.line + 1 if mark else 1}: not valid YAML: {said}"]) from error
    except RecursionError as error:
        raise PolicyError([f"{source}:1: {TOO_DEEP}"]) from error
    except (yaml.YAMLError, *ODD_REPLY_ERRORS) as error:
        # PyYAML itself trips over some escapes and versions, such as "\Uffffffff".
        raise PolicyError([f"{source}:1: not valid YAML: {shorten(str(error), MAX_LINE_LENGTH // 4)}"]) from error
    if not isinstance(data, dict):
        raise PolicyError([f"{source}:1: expected keys such as `version: 1` and `rules:`, got {short_repr(data)}"])
    return data, lines


def _node_value(node: Node, path: KeyPath, lines: dict[KeyPath, int], source: str) -> Any:
    if len(path) > 20 or len(lines) > 20_000:
        raise PolicyError([f"{source}:{node.start_mark.line + 1}: {TOO_DEEP}"])
    if isinstance(node, ScalarNode):
        return _scalar_value(node, path, source)
    if isinstance(node, MappingNode) and node.tag == f"{YAML_TAG}map":
        return _mapping_value(node, path, lines, source)
    if isinstance(node, SequenceNode) and node.tag == f"{YAML_TAG}seq":
        return _sequence_value(node, path, lines, source)
    raise _unknown_tag_error(node, path, source)


def _mapping_value(node: MappingNode, path: KeyPath, lines: dict[KeyPath, int], source: str) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        key = _key_text(key_node, path, source)
        if key in result:
            raise PolicyError([f"{source}:{line}: {_dotted_path((*path, key))}: the key is given twice, remove one"])
        lines[(*path, key)] = line
        result[key] = _node_value(value_node, (*path, key), lines, source)
    return result


def _key_text(node: Node, path: KeyPath, source: str) -> str:
    """The text of a key. A list or mapping is not even spelled: one of aliases is as long as they multiply."""
    if not isinstance(node, ScalarNode):
        where = f"{source}:{node.start_mark.line + 1}: {_dotted_path(path) or 'the policy'}"
        raise PolicyError([f"{where}: a list or mapping can be no key: expected a text"])
    _require_plain_scalar(node, path, source)
    return str(node.value)


def _sequence_value(node: SequenceNode, path: KeyPath, lines: dict[KeyPath, int], source: str) -> list[Any]:
    for index, item in enumerate(node.value):
        lines[(*path, index)] = item.start_mark.line + 1
    return [_node_value(item, (*path, index), lines, source) for index, item in enumerate(node.value)]


def _require_plain_scalar(node: ScalarNode, path: KeyPath, source: str) -> None:
    """Raises PolicyError for a tag that says what is not read here, and for a text so long that nothing is meant by it."""
    if not node.tag.startswith(YAML_TAG) or node.tag.removeprefix(YAML_TAG) not in SCALAR_PARSERS:
        raise _unknown_tag_error(node, path, source)
    if len(node.value) > MAX_TEXT_LENGTH:
        where = f"{source}:{node.start_mark.line + 1}: {_dotted_path(path) or 'the policy'}"
        raise PolicyError([f"{where}: {short_repr(node.value)} is too long: expected at most {MAX_TEXT_LENGTH:,} characters"])


def _unknown_tag_error(node: Node, path: KeyPath, source: str) -> PolicyError:
    where = f"{source}:{node.start_mark.line + 1}: {_dotted_path(path) or 'the policy'}"
    return PolicyError(
        [f"{where}: the tag {short_repr(node.tag.replace(YAML_TAG, '!!'))} has no place here: write the value without it"]
    )


def _scalar_value(node: ScalarNode, path: KeyPath, source: str) -> Any:
    """The value; under `match` a number or a yes is the text that stands there, because tags and account ids are texts."""
    _require_plain_scalar(node, path, source)
    name, where = node.tag.removeprefix(YAML_TAG), f"{source}:{node.start_mark.line + 1}: {_dotted_path(path)}"
    if not _matches_tag(name, node.value):
        raise PolicyError([f"{where}: {short_repr(node.value)} is no {name}: write it without its tag"])
    if "match" in path and name in {"int", "float", "bool"}:
        return node.value
    try:
        return SCALAR_PARSERS[name](node.value)
    except ValueError as error:
        raise PolicyError([f"{where}: {short_repr(node.value)} is no {name}: {error}"]) from error


def _matches_tag(name: str, text: str) -> bool:
    """Whether the text is what its tag says; `!!float 1` is, too."""
    shapes = {"str": (), "float": (SCALAR_PATTERNS["float"], SCALAR_PATTERNS["int"])}.get(name) or (SCALAR_PATTERNS.get(name),)
    return any(shape is None or shape.match(text) for shape in shapes)


def _problem_line(source: str, lines: dict[KeyPath, int], data: Any, error: Any) -> str:
    path = tuple(p for p in error["loc"] if not (isinstance(p, str) and p.startswith(("list[", "function-", "literal"))))
    sort = path[2] if path[:1] == ("channels",) and len(path) > 2 and path[2] in channel_settings.CHANNEL_MODELS else None
    path = path[:2] + path[3:] if sort else path
    where = f"{source}:{_line_at(lines, path)}: {_dotted_path(path) or 'the policy'}"
    if error["type"] == "extra_forbidden":
        return f"{where}: unknown key{_suggestion(str(path[-1]), _keys_of(channel_settings.CHANNEL_MODELS[str(sort)]) if sort else _keys_at(path[:-1]))}"
    if error["type"].startswith("union_tag_"):
        said = error["input"].get("type", "") if isinstance(error["input"], dict) else ""
        asked = said if isinstance(said, str) else short_repr(said)
        return f"{where}: {short_repr(asked)} is no type of channel{channel_settings.channel_advice(asked) or _suggestion(asked, list(channel_settings.CHANNEL_MODELS))}"
    if error["type"] == "missing":
        return f"{where}: this key is missing{', add `version: 1`' if path == ('version',) else ''}"
    text = EXPECTED_BY_ERROR.get(error["type"]) or error["msg"].removeprefix("Value error, ")
    text = (text[0].lower() + text[1:]).replace("input should be", "expected")
    if isinstance(error["input"], dict | list | BaseModel):
        return f"{where}: {text}"
    if error["type"] == "string_type" and isinstance(error["input"], int | float):
        return f"{where}: {short_repr(error['input'])} is a number here: put it in quotes"
    hint = _suggestion(str(error["input"]), re.findall(r"'([^']+)'", text)) if error["type"] in {"enum", "literal_error"} else ""
    return f"{where}: {short_repr(error['input'])} is not valid: {text}{hint}"


def _unknown_kinds(policy: Policy, source: str, lines: dict[KeyPath, int], kinds: Collection[str]) -> list[str]:
    problems: list[str] = []
    for index, entry in enumerate(policy.rules):
        for name in entry.match.kind or []:
            if len(problems) <= MAX_PROBLEMS and not any(fnmatchcase(kind, name) for kind in kinds):
                path: KeyPath = ("rules", index, "match", "kind")
                problems.append(
                    f"{source}:{_line_at(lines, path)}: {_dotted_path(path)}: {short_repr(name)} is no kind we know{_suggestion(name, sorted(kinds))}"
                )
    return problems


def _forced_without_restart(policy: Policy, source: str, lines: dict[KeyPath, int], startable: Collection[str]) -> list[str]:
    """Rules that would stop what is busy and could not start it again: `force` where no kind that the rule names can be started."""
    problems = []
    for index, entry in enumerate(policy.rules):
        named = entry.match.kind
        if entry.hours and entry.hours.force and named and not any(fnmatchcase(k, glob) for k in startable for glob in named):
            path: KeyPath = ("rules", index, "hours", "force")
            problems.append(
                f"{source}:{_line_at(lines, path)}: {_dotted_path(path)}: true is not valid: expected a match.kind that can be started again, "
                f"such as {' or '.join(sorted(startable))}, not {first_few(named)}"
            )
    return problems


def _keys_at(path: KeyPath) -> list[str]:
    """The keys that are valid inside the mapping at `path`."""
    model: Any = Policy
    for part in path:
        if isinstance(part, str) and isinstance(model, type) and issubclass(model, BaseModel):
            model = _model_of(model.model_fields[part].annotation) if part in model.model_fields else None
    return _keys_of(model) if model else []


def _keys_of(model: type[BaseModel]) -> list[str]:
    """The keys of a mapping, as they are written in the file."""
    return [field.alias or name for name, field in model.model_fields.items()]


def _model_of(annotation: Any) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for arg in get_args(annotation) if (found := _model_of(arg))), None)


def _suggestion(word: str, valid: list[str]) -> str:
    near = get_close_matches(shorten(word), valid, n=1, cutoff=0.5)
    if near:
        return f", did you mean {near[0]}?"
    return f"; valid here: {', '.join(valid)}" if valid else ""


def _line_at(lines: dict[KeyPath, int], path: KeyPath) -> int:
    while path not in lines:
        path = path[:-1]
    return lines[path]


def _dotted_path(path: KeyPath) -> str:
    return "".join(f"[{p}]" if isinstance(p, int) else f".{shorten(p)}" for p in path).lstrip(".")
