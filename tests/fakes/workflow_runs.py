"""A workflow without an engine: the steps of a run called one after the other, with a folder as its store and a clock that is stepped on."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from reaper.finding import Report
from reaper.settings import Settings
from reaper.stores.texts import FolderTexts
from reaper.workflow import phases
from reaper.workflow.store import ACT_ITEMS, ITEMS, RunStore
from reaper.workflow.stored_run import EngineState, WorkflowContext


def folder_store(folder: Path) -> RunStore:
    """A run's store in that folder."""
    return RunStore(FolderTexts(), str(folder))


@dataclass
class FakeWorkflow:
    """One deployment whose runs are workflows. `running`: the executions that still run. `engines`: what the engine carries, by run."""

    settings: Settings
    home: Path
    clock: Callable[[], datetime]
    running: set[str] = field(default_factory=set)
    deadline_in: timedelta | None = None
    runs: int = 0
    waited: list[float] = field(default_factory=list)
    engines: dict[str, EngineState] = field(default_factory=dict)

    def context(self, run_id: str) -> WorkflowContext:
        """The context of a step that begins now."""
        deadline = self.clock() + self.deadline_in if self.deadline_in else None
        store = folder_store(self.home / "runs" / run_id)
        return WorkflowContext(settings=self.settings, store=store, clock=self.clock, deadline=deadline, wait=self.waited.append)

    def list(self, run_id: str | None = None, holder: str | None = None) -> dict[str, Any]:
        """The first step of a new run, or of that one again."""
        self.runs += run_id is None
        run_id = run_id or f"{self.runs:012x}"
        listed = phases.list_targets(self.context(run_id), run_id, holder or f"execution-{run_id}", self.running.__contains__)
        self.engines[run_id] = EngineState(**{each.name: listed[each.name] for each in fields(EngineState)})
        return listed

    def items(self, run_id: str, name: str = ITEMS) -> list[dict[str, Any]]:
        """What the engine's map reads."""
        items: list[dict[str, Any]] = json.loads(folder_store(self.home / "runs" / run_id).read(name) or "[]")
        return items

    def observe(self, run_id: str, item: Mapping[str, Any]) -> dict[str, Any]:
        return phases.observe_item(self.context(run_id), self.engines[run_id], item["item"])

    def decide(self, run_id: str, failures: Mapping[int, str] | None = None) -> dict[str, Any]:
        return phases.decide_run(self.context(run_id), self.engines[run_id], failures or {})

    def act(self, run_id: str, item: Mapping[str, Any]) -> dict[str, Any]:
        return phases.act_on_item(self.context(run_id), self.engines[run_id], item["item"])

    def conclude(self, run_id: str, failures: Mapping[int, str] | None = None) -> Report:
        return phases.conclude_run(self.context(run_id), self.engines[run_id], failures or {})

    def observed(self) -> str:
        """A new run up to the end of observing. Returns its ID."""
        listed = self.list()
        assert listed["status"] == "listed", listed
        run_id = str(listed["run"])
        for item in self.items(run_id):
            self.observe(run_id, item)
        return run_id

    def decided(self) -> str:
        """A new run up to its decisions. Returns its ID."""
        run_id = self.observed()
        self.decide(run_id)
        return run_id

    def acted(self) -> str:
        """A new run up to the end of acting. Returns its ID."""
        run_id = self.decided()
        for item in self.items(run_id, ACT_ITEMS):
            self.act(run_id, item)
        return run_id

    def run(self) -> Report:
        """A whole run."""
        return self.conclude(self.acted())

    def under(self, policy: str) -> FakeWorkflow:
        """The same deployment with another policy."""
        return replace(self, settings=replace(self.settings, policy=policy))
