"""The part of Resource Graph's query language that a sweep needs: where, project, extend, order by, take, count. Pure.

https://learn.microsoft.com/azure/governance/resource-graph/concepts/query-language
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]
Expression = Callable[[Row], Any]

TOKEN = re.compile(
    r"""\s*(?:(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|(?P<number>\d+(?:\.\d+)?)|(?P<op>==|!=|=~|!~|>=|<=|in~|!in~|!in\b|[()\[\],.=<>|])|(?P<word>[\w-]+))"""
)
COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "=~": lambda a, b: _low(a) == _low(b),
    "!~": lambda a, b: _low(a) != _low(b),
    "contains": lambda a, b: _low(b) in _low(a),
    "has": lambda a, b: re.search(rf"(?<!\w){re.escape(_low(b))}(?!\w)", _low(a)) is not None,
    "startswith": lambda a, b: _low(a).startswith(_low(b)),
    "endswith": lambda a, b: _low(a).endswith(_low(b)),
    ">": lambda a, b: a is not None and a > b,
    ">=": lambda a, b: a is not None and a >= b,
    "<": lambda a, b: a is not None and a < b,
    "<=": lambda a, b: a is not None and a <= b,
}
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "tostring": lambda a: "" if a is None else str(a),
    "tolower": lambda a: _low(a),
    "toint": lambda a: int(a) if str(a).lstrip("-").isdigit() else None,
    "isempty": lambda a: a in (None, ""),
    "isnotempty": lambda a: a not in (None, ""),
    "isnull": lambda a: a is None,
    "isnotnull": lambda a: a is not None,
}


class ParserFailure(ValueError):
    """The query uses what is not supported here, or is no query."""


@dataclass(slots=True)
class Tokens:
    """The query's words, read from left to right."""

    all: list[tuple[str, str]]
    at: int = 0
    columns: list[str] = field(default_factory=list)

    def peek(self) -> str:
        """The next token, empty at the end."""
        return self.all[self.at][1] if self.at < len(self.all) else ""

    def take(self, *wanted: str) -> str | None:
        """The next token when it is one of `wanted`, else None and nothing is read."""
        if self.peek().lower() in wanted and self.peek():
            self.at += 1
            return self.all[self.at - 1][1].lower()
        return None

    def need(self, *wanted: str) -> str:
        """The next token, which must be one of `wanted` (or, without any, a word)."""
        if self.at < len(self.all) and (self.peek().lower() in wanted or (not wanted and self.all[self.at][0] == "word")):
            self.at += 1
            return self.all[self.at - 1][1]
        raise ParserFailure(f"Query contains parsing error near '{self.peek() or 'end of query'}'")


def run(query: str, rows: list[Row]) -> list[Row]:
    """The rows that the query gives. Raises ParserFailure."""
    tokens = Tokens(_tokens(query))
    if tokens.peek().lower() not in OPERATORS:
        if tokens.need().lower() != "resources":
            raise ParserFailure("Only the table 'resources' is known here")
    else:
        rows = OPERATORS[tokens.need().lower()](tokens, rows)
    while tokens.take("|"):
        name = tokens.need().lower()
        if name not in OPERATORS:
            raise ParserFailure(f"The operator '{name}' is not known here")
        rows = OPERATORS[name](tokens, rows)
    if tokens.peek():
        raise ParserFailure(f"Query contains parsing error near '{tokens.peek()}'")
    return rows


def _tokens(query: str) -> list[tuple[str, str]]:
    found, at, text = [], 0, re.sub(r"//[^\n]*", "", query).strip()
    while at < len(text):
        match = TOKEN.match(text, at)
        if not match or match.end() == at:
            raise ParserFailure(f"Query contains parsing error near '{text[at : at + 20]}'")
        found.append((str(match.lastgroup), match[str(match.lastgroup)]))
        at = match.end()
    return found


def _where(tokens: Tokens, rows: list[Row]) -> list[Row]:
    test = _either(tokens)
    return [row for row in rows if test(row)]


def _either(tokens: Tokens) -> Expression:
    parts = [_both(tokens)]
    while tokens.take("or"):
        parts.append(_both(tokens))
    return parts[0] if len(parts) == 1 else lambda row: any(p(row) for p in parts)


def _both(tokens: Tokens) -> Expression:
    parts = [_test(tokens)]
    while tokens.take("and"):
        parts.append(_test(tokens))
    return parts[0] if len(parts) == 1 else lambda row: all(p(row) for p in parts)


def _test(tokens: Tokens) -> Expression:
    if tokens.take("("):
        inner = _either(tokens)
        tokens.need(")")
        return inner
    left = _value(tokens)
    if name := tokens.take("in", "in~", "!in", "!in~"):
        fold = _low if name.endswith("~") else _same
        some, negated = {fold(value({})) for value in _list(tokens)}, name.startswith("!")
        return lambda row: (fold(left(row)) in some) != negated
    if name := tokens.take(*COMPARE):
        right, compare = _value(tokens), COMPARE[name]
        return lambda row: compare(left(row), right(row))
    return left


def _list(tokens: Tokens) -> list[Expression]:
    tokens.need("(")
    found = [_value(tokens)]
    while tokens.take(","):
        found.append(_value(tokens))
    tokens.need(")")
    return found


def _value(tokens: Tokens) -> Expression:
    kind, text = tokens.all[tokens.at] if tokens.at < len(tokens.all) else ("", "")
    if kind in ("text", "number"):
        tokens.at += 1
        constant: Any = text[1:-1] if kind == "text" else float(text)
        return lambda row: constant
    name = tokens.need()
    if name.lower() in FUNCTIONS and tokens.take("("):
        inner, function = _value(tokens), FUNCTIONS[name.lower()]
        tokens.need(")")
        return lambda row: function(inner(row))
    return _path(tokens, name)


def _path(tokens: Tokens, name: str) -> Expression:
    keys = [name]
    while opened := tokens.take(".", "["):
        keys.append(tokens.need() if opened == "." else str(_value(tokens)({})))
        if opened == "[":
            tokens.need("]")
    tokens.columns.append("_".join(keys))

    def look(row: Row) -> Any:
        found: Any = row
        for key in keys:
            found = found.get(key) if isinstance(found, dict) else None
        return found

    return look


def _named(tokens: Tokens) -> tuple[str, Expression]:
    if tokens.at + 1 < len(tokens.all) and tokens.all[tokens.at + 1][1] == "=":
        name = tokens.need()
        tokens.need("=")
        return name, _value(tokens)
    value = _value(tokens)
    return tokens.columns[-1] if tokens.columns else "Column1", value


def _columns(tokens: Tokens) -> dict[str, Expression]:
    found = dict([_named(tokens)])
    while tokens.take(","):
        found |= dict([_named(tokens)])
    return found


def _project(tokens: Tokens, rows: list[Row]) -> list[Row]:
    columns = _columns(tokens)
    return [{name: value(row) for name, value in columns.items()} for row in rows]


def _extend(tokens: Tokens, rows: list[Row]) -> list[Row]:
    columns = _columns(tokens)
    return [{**row, **{name: value(row) for name, value in columns.items()}} for row in rows]


def _order(tokens: Tokens, rows: list[Row]) -> list[Row]:
    tokens.need("by")
    keys = [(_value(tokens), tokens.take("asc", "desc") == "asc")]
    while tokens.take(","):
        keys.append((_value(tokens), tokens.take("asc", "desc") == "asc"))
    for value, ascending in reversed(keys):
        rows = sorted(rows, key=lambda row, v=value: (v(row) is not None, str(v(row)).lower()), reverse=not ascending)  # type: ignore[misc]
    return rows


def _take(tokens: Tokens, rows: list[Row]) -> list[Row]:
    return rows[: int(_value(tokens)({}))]


def _count(tokens: Tokens, rows: list[Row]) -> list[Row]:
    return [{"Count": len(rows)}]


def _low(value: Any) -> str:
    return str("" if value is None else value).lower()


def _same(value: Any) -> Any:
    return value


OPERATORS: dict[str, Callable[[Tokens, list[Row]], list[Row]]] = {
    "where": _where,
    "project": _project,
    "extend": _extend,
    "order": _order,
    "sort": _order,
    "take": _take,
    "limit": _take,
    "count": _count,
}
