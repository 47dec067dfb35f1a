"""The answer about one run: still under way, its report, or why there is none. It is made from what the engine says locally, and it never
contains the engine's own addresses: their key would open all runs to everyone who has it.

https://learn.microsoft.com/azure/azure-functions/durable/durable-functions-http-features
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from reaper.azure import run_report
from reaper.azure.starting import CurrentRun
from reaper.workflow.store import RunStore

RUN_ID = re.compile(r"[0-9a-f]{12}")
MAX_ANSWER_CHARS = 20_000_000
RETRY_AFTER_S = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Status and JSON text of an HTTP answer."""

    status: int
    text: str
    headers: Mapping[str, str] = field(default_factory=dict)


def under_way(run_id: str) -> Answer:
    """The answer while a run is under way, and right after it was started."""
    address = status_address(run_id)
    body = {"schema": 1, "run": run_id, "status": address}
    return Answer(status=202, text=json.dumps(body), headers={"Location": address, "Retry-After": str(RETRY_AFTER_S)})


def status_address(run_id: str) -> str:
    """The path that answers about a run."""
    return f"/api/sweep/{run_id}"


def answer_about(run_id: str, current: CurrentRun | None, store: RunStore, reports: str | None) -> Answer:
    """The answer about a run. `current`: the run of the engine's instance, which may be another one. `reports`: where reports are.

    Raises CloudError.
    """
    is_current = current is not None and current.run == run_id
    if current is not None and is_current and current.is_under_way:
        return under_way(run_id)
    if result := run_report.published(store):
        return _report_answer(run_id, result, reports)
    if current is not None and is_current and current.failed_because is None:
        because = current.result.get("because") or "it has no report"
        return _problem(409, run_id, f"the run was skipped: {because}")
    if is_current or store.names():
        because = (current.failed_because if current and is_current else None) or "it has no report"
        return _problem(500, run_id, f"the run failed: {because}; the function app's log says why")
    return _problem(404, run_id, "there is no such run, or its results were deleted")


def _report_answer(run_id: str, result: Mapping[str, Any], reports: str | None) -> Answer:
    """The stored report, with `troubles` if something couldn't be mailed. A very large one is answered without its findings.

    Raises CloudError if it is missing, damaged or elsewhere: a part of a report would claim more than was read, and the store of the run
    mustn't lead to other texts.
    """
    stored, troubles = result.get("stored"), result.get("troubles") or []
    if not stored or not reports:
        return _problem(500, run_id, "; ".join(troubles) or "the report wasn't stored: REAPER_REPORTS isn't set")
    text = _read_report(reports, run_id, str(stored))
    report = run_report.parse_object(text, str(stored))
    if not troubles and len(text) <= MAX_ANSWER_CHARS:
        return Answer(status=200, text=text)
    report |= {"troubles": troubles} if troubles else {}
    if len(text) > MAX_ANSWER_CHARS:
        report |= {"findings": [], "stored": stored}
    return Answer(status=200, text=json.dumps(report, allow_nan=False))


def _read_report(reports: str, run_id: str, address: str) -> str:
    from reaper.azure import text_store  # imports Azure's SDK, which would slow every cold start

    return text_store.read_report(reports, run_id, address)


def _problem(status: int, run_id: str, error: str) -> Answer:
    return Answer(status=status, text=json.dumps({"schema": 1, "run": run_id, "error": error}))
