"""Lambda's sandboxes over the built bundle: one process for each call at the same time, used again, and killed where a test says so."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deploy import sam
from deploy.pythons import python
from deploy.runtime import Runtime
from deploy.step_functions import FunctionFailed, item_of

HANDLER = "reaper.aws.functions.workflow.handler"


@dataclass
class Sandboxes:
    """A handler for the state machine's functions. `busy`: the event that each sandbox is processing."""

    libraries: Path
    bundle: Path
    environ: Mapping[str, str]
    idle: list[Runtime] = field(default_factory=list)
    busy: list[tuple[Runtime, dict[str, Any]]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, event: dict[str, Any]) -> Any:
        runtime = self._take(event)
        answered = runtime.invoke(event, seconds=300)
        with self.lock:
            self.busy = [pair for pair in self.busy if pair[0] is not runtime]
            is_killed = (answered.error or {}).get("errorType") == "Runtime.ExitError"
            if not is_killed:
                self.idle.append(runtime)
        if is_killed:
            runtime.__exit__()
        if answered.error:
            raise FunctionFailed(answered.error["errorType"], answered.error["errorMessage"])
        return answered.answer

    def kill(self, phase: str, account: str) -> bool:
        """Kill the sandbox that processes an item of that account in that phase. Returns whether there is one."""
        with self.lock:
            found = [r for r, event in self.busy if (event["phase"], event.get("account")) == (phase, account)]
        for runtime in found:
            runtime.kill()
        return bool(found)

    def close(self) -> None:
        """End every process."""
        for runtime in self.idle:
            runtime.__exit__()

    def _take(self, event: dict[str, Any]) -> Runtime:
        with self.lock:
            runtime = self.idle.pop() if self.idle else None
        interpreter = python(sam.RUNTIME)
        assert interpreter
        runtime = runtime or Runtime(interpreter, self.libraries, self.bundle, HANDLER, dict(self.environ))
        with self.lock:
            self.busy.append((runtime, {**event, **(item_of(event) if "item" in event else {})}))
        return runtime
