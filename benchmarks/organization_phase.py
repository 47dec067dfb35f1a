"""One phase of the workflow, measured: usage: organization_phase.py HOME list|observe|decide|conclude [ITEM ...].

Prints one line of JSON: seconds, megabytes, the longest payload, and the phase's answer.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from launch import peak
from organization_cloud import REGIONS

from reaper.ledger import opening
from reaper.model import Mode, State
from reaper.registry import kind_names
from reaper.report import json as report_json
from reaper.settings import Settings
from reaper.workflow import phases
from reaper.workflow.stored_run import EngineState, FolderStore, WorkflowContext

RUN, ENGINE = "0123456789ab", "engine.json"
LEDGER_MS, STORE_MS = 8, 25
POLICY = (Path(__file__).parent / "six_rules.yaml").read_text()


class Slow:
    """Something each of whose methods takes longer, as a service on the network does."""

    def __init__(self, inner: Any, milliseconds: float) -> None:
        self._inner, self._seconds = inner, milliseconds / 1000

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        def slowly(*args: Any, **named: Any) -> Any:
            time.sleep(self._seconds)
            return found(*args, **named)

        return slowly


def main() -> None:
    home, phase, items = Path(sys.argv[1]), sys.argv[2], [int(word) for word in sys.argv[3:]]
    settings = Settings(
        mode=Mode.NOTIFY,
        cloud="aws",
        organization=True,
        regions=REGIONS,
        kinds=tuple(name for name in kind_names() if name.startswith("sagemaker-")),
        policy=f"{POLICY}channels: [{{type: folder, path: {home / 'mails'}}}]\n",
        ledger=f"sqlite://{home}/ledger.db",
    )
    opening.open_ledger = _slowed(opening.open_ledger)
    folder = FolderStore(home / "runs" / RUN)
    context = WorkflowContext(settings=settings, store=Slow(folder, STORE_MS), clock=lambda: datetime.now(UTC))
    began, payloads, seconds = time.monotonic(), [0], []
    answer: dict[str, Any] = {}
    if phase == "list":
        answer = phases.list_targets(context, RUN, "the benchmark", lambda holder: False)
        folder.write(ENGINE, json.dumps(answer))
    elif phase == "observe":
        for number in items:
            started = time.monotonic()
            answer = phases.observe_item(context, _engine(folder), number)
            seconds.append(time.monotonic() - started)
            payloads.append(len(json.dumps(answer)))
    elif phase == "decide":
        answer = phases.decide_run(context, _engine(folder), {})
    else:
        answer = _concluded(context, _engine(folder), home)
    payloads.append(len(json.dumps(answer)))
    wall = time.monotonic() - began
    print(json.dumps({"wall": wall, "mb": peak(), "payload": max(payloads), "seconds": seconds, "answer": answer}))


def _engine(folder: FolderStore) -> EngineState:
    """What the engine carries from the first phase on."""
    listed = json.loads(folder.read(ENGINE) or "{}")
    return EngineState(**{each.name: listed[each.name] for each in fields(EngineState)})


def _concluded(context: WorkflowContext, engine: EngineState, home: Path) -> dict[str, Any]:
    """The report, written out as the function does it."""
    report = phases.conclude_run(context, engine, {})
    with (home / "report.json").open("w") as file:
        file.writelines(report_json.chunks(report))
        size = file.tell()
    states = {finding.case.resource.name: finding.case.verdict.state.value for finding in report.findings}
    (home / "states.json").write_text(json.dumps(states))
    idle = sum(finding.case.verdict.state is State.IDLE for finding in report.findings)
    gaps = sum(row.status.value != "ok" for row in report.coverage)
    return {"report": size, "findings": len(report.findings), "idle": idle, "gaps": gaps}


def _slowed(open_ledger: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **named: Slow(open_ledger(*args, **named), LEDGER_MS)


if __name__ == "__main__":
    main()
