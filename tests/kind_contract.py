"""What the stages of both clouds share: `test_kind_contract.py` asks them for one kind of resource in the sandbox of its cloud."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from fakes.sweeps import SweepOrder, sweep
from reaper import registry
from reaper.acting.contract import Permit, UndoResult
from reaper.finding import Outcome, Report
from reaper.kind import Kind
from reaper.model import Resource
from reaper.policy.parse import parse_policy

NOW = datetime(2026, 11, 21, 10, 17, tzinfo=UTC)
NEW = "Hibernating"
"""A state that no version of the vendor's SDK has."""
MISSING: Any = object()
ODD: dict[str, Any] = {"missing": MISSING, "null": None, "number": 5, "empty": [], "list": [1], "object": {"a": 1}}
"""What may stand where a name, a state or a time should."""


@dataclass(frozen=True, kw_only=True)
class Act:
    """An action that is ready but for its calls; its undo; and what puts another one of the same name in the resource's place."""

    perform: Callable[[Permit], Outcome]
    undo: Callable[[], UndoResult]
    renew: Callable[[], object]


def verdicts(**states: str) -> dict[str, str | None]:
    """By state the verdict, which comes first here: `idle="InService Failed"`."""
    return {state: verdict for verdict, names in states.items() for state in names.split()}


class Stage:
    """One kind in one place. `records`: what was made, by name: the resource, and what it lives in, whose tags count for it."""

    harmless: Sequence[tuple[str, str]] = ()
    """What is odd or fails there, and leaves it proven all the same."""
    make: Callable[..., tuple[Any, ...]]
    sessions: Callable[[], Any]

    def __init__(self, server: Any, kind: Kind[Any]) -> None:
        self.server, self.kind = server, kind
        self.records: dict[str, tuple[Any, ...]] = {}

    def seed(self, name: str, **setup: Any) -> tuple[Any, ...]:
        self.records[name] = self.make(name, **setup)
        return self.records[name]

    def sweep(self) -> Report:
        policy = parse_policy("version: 1", "policy", registry.kind_names())
        return sweep(self.sessions(), [self.kind], SweepOrder(policy=policy, now=NOW))

    def found(self, name: str) -> Resource:
        [session] = self.sessions()
        return next(r for r in self.kind.discover(session) if f"/{name}/" in f"{r.id}/".lower())

    def read_tags(self, resource: Resource) -> Mapping[str, str] | None:
        """As they are read for one resource, right before an action."""
        [session] = self.sessions()
        return registry.action_functions(self.kind.name).read_now(session, resource).tags
