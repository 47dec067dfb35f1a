"""The report as JSON, `schema: 1`: the stable interface that dashboards and other programs read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from reaper.model import Coverage, Evidence, Finding, Report
from reaper.report.totals import totals

SCHEMA = 1


def render(report: Report) -> str:
    """The whole report as one text."""
    return "".join(chunks(report))


def chunks(report: Report) -> Iterator[str]:
    """The whole report, finding by finding, so that a large one need not be in memory twice."""
    frame = _frame(report)
    yield "{" + "".join(f"{json.dumps(key)}: {json.dumps(value)},\n" for key, value in frame.items() if key != "totals")
    yield '"findings": ['
    for index, found in enumerate(report.findings):
        yield ("," if index else "") + "\n" + json.dumps(finding(found))
    yield f'],\n"totals": {json.dumps(frame["totals"])}}}\n'


def plain(report: Report) -> dict[str, Any]:
    """The whole report as dicts, lists, strings and numbers. Money is in US dollars, `_s` in seconds, times in UTC with a Z."""
    return _frame(report) | {"findings": [finding(f) for f in report.findings]}


def _frame(report: Report) -> dict[str, Any]:
    run = report.run
    return {
        "schema": SCHEMA,
        "run": {
            "id": run.id,
            "started_at": stamp(run.started_at),
            "finished_at": stamp(run.finished_at),
            "mode": run.mode.value,
            "version": run.version,
            "policy_sha256": run.policy_sha256,
        },
        "coverage": [_coverage(c) for c in report.coverage],
        "totals": asdict(totals(report)),
    }


def finding(found: Finding) -> dict[str, Any]:
    """One line of the report."""
    resource, verdict, rule = found.case.resource, found.case.verdict, found.case.rule
    return {
        "id": resource.id,
        "kind": resource.kind,
        "name": resource.name,
        "cloud": resource.target.cloud,
        "account": resource.target.account,
        "account_name": resource.target.account_name,
        "region": resource.region,
        "size": resource.size or None,
        "status": resource.status or None,
        "created": stamp(resource.created),
        "changed": stamp(resource.changed),
        "state": verdict.state.value,
        "confidence": verdict.confidence.value if verdict.confidence else None,
        "because": verdict.because,
        "idle_for_s": int(verdict.idle_for.total_seconds()) if verdict.idle_for else None,
        "last_busy": stamp(verdict.last_busy),
        "rule": rule.name,
        "rule_notes": list(rule.notes),
        "tags": dict(resource.tags) if resource.tags is not None else None,
        "owner": {"address": found.owner.address, "source": found.owner.source},
        "usd_per_hour": found.price.usd_per_hour if found.price else None,
        "price": {"source": found.price.source, "as_of": found.price.as_of} if found.price else None,
        "wasted_usd": found.wasted_usd,
        "saves_usd_per_hour": found.case.saves.get(found.step.move),
        "step": found.step.move.value,
        "step_because": found.step.because,
        "outcome": found.outcome.result.value,
        "outcome_because": found.outcome.because,
        "error": found.outcome.error,
        "evidence": [_evidence(e) for e in found.evidence],
    }


def stamp(when: datetime | None) -> str | None:
    """ISO 8601 in UTC to the second, ending in Z."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if when else None


def _coverage(row: Coverage) -> dict[str, Any]:
    return {**asdict(row), "status": row.status.value, "calls": dict(sorted(row.calls.items()))}


def _evidence(row: Evidence) -> dict[str, Any]:
    peak = None if row.peak is None or row.peak in (float("inf"), float("-inf")) else round(row.peak, 4)
    return {
        "signal": row.signal,
        "subject": row.subject or None,
        "role": row.role.value,
        "points": row.points,
        "last_busy": stamp(row.last_busy),
        "peak": peak,
        "complete": row.complete,
        "busy_above": row.busy_above,
    }
