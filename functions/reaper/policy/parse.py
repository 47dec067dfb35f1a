"""A policy's text as a `Policy`, or every problem in it with its line."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from fnmatch import fnmatchcase
from itertools import islice
from typing import Any

from pydantic import ValidationError

from reaper.errors import PolicyError
from reaper.policy.problems import problem_line, suggestion_text
from reaper.policy.schema import Policy
from reaper.policy.yaml_lines import MAX_BYTES, TOO_LONG, LineMap, parse_with_lines
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
