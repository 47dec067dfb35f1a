"""The report as JSON, `schema: 1`: the stable interface that dashboards and other programs read.

Strict JSON as in RFC 8259: a number that is not finite becomes null. https://www.rfc-editor.org/rfc/rfc8259#section-6
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from math import isfinite
from typing import Any

from reaper import duration
from reaper.calendars import office_hours
from reaper.case import Evidence, Price
from reaper.finding import Finding, Report
from reaper.model import NextAction, Rule
from reaper.record import NO_RECORD
from reaper.savings.totals import Saved

SCHEMA = 1
EVIDENCE_COLUMNS = ("signal", "subject", "role", "points", "last_busy", "peak", "complete", "busy_above", "seen_at")
"""All but what is drawn."""


def render(report: Report) -> str:
    """The whole report as one text."""
    return "".join(chunks(report))


def chunks(report: Report) -> Iterator[str]:
    """The whole report, finding by finding, so that a large one isn't in memory twice."""
    frame = _frame_json(report)
    yield "{" + "".join(f"{json_text(key)}: {json_text(value)},\n" for key, value in frame.items() if key != "totals")
    yield '"findings": ['
    for index, finding in enumerate(report.findings):
        yield ("," if index else "") + "\n" + json_text(finding_json(finding, report.run.finished_at))
    yield f'],\n"totals": {json_text(frame["totals"])}}}\n'


def report_json(report: Report) -> dict[str, Any]:
    """The whole report as dicts, lists, strings and numbers. Money is in US dollars, `_s` in seconds, times in UTC with a Z."""
    return _frame_json(report) | {"findings": [finding_json(f, report.run.finished_at) for f in report.findings]}


def json_text(value: Any) -> str:
    """The value as JSON. Raises ValueError for a number that is not finite; `report_json` and `finding_json` return none."""
    return json.dumps(value, allow_nan=False)


def _frame_json(report: Report) -> dict[str, Any]:
    run = report.run
    frame = {
        "schema": SCHEMA,
        "run": {
            "id": run.id,
            "started_at": run.started_at,
            "finished_at": run.finished_at,
            "mode": run.mode.value,
            "version": run.version,
            "policy_sha256": run.policy_sha256,
            "paused_until": run.pause.until if run.pause else None,
            "report_tags": list(run.report_tags),
            "budgets": [asdict(budget) for budget in run.budgets],
            "currency": {name: value or None for name, value in asdict(run.currency).items()},
            "cost": {
                "metrics_requested": sum(row.metrics for row in report.coverage),
                "calls": report.totals.calls,
                "gb_seconds": run.gb_seconds,
            },
        },
        "coverage": [{**asdict(row), "calls": dict(sorted(row.calls.items()))} for row in report.coverage],
        "savings": {"month_to_date": _saved_json(report.savings.month), "last_30_days": _saved_json(report.savings.recent)}
        if report.savings
        else None,
        "totals": asdict(report.totals),
    }
    return {key: _plain(value) for key, value in frame.items()}


def finding_json(finding: Finding, now: datetime) -> dict[str, Any]:
    """One line of the report of a run that finished `now`."""
    resource, verdict, rule = finding.case.resource, finding.case.verdict, finding.case.rule
    owner = finding.case.owner
    row = {
        "id": resource.id,
        "kind": resource.kind,
        "name": resource.name,
        "cloud": resource.target.cloud,
        "account": resource.target.account,
        "account_name": resource.target.account_name,
        "region": resource.region,
        "size": resource.size or None,
        "status": resource.status or None,
        "created": resource.created,
        "changed": resource.changed,
        "state": verdict.state.value,
        "confidence": verdict.confidence.value if verdict.confidence else None,
        "because": verdict.because,
        "idle_for_s": int(finding.idle_for.total_seconds()) if finding.idle_for else None,
        "last_busy": verdict.last_busy,
        "rule": rule.name,
        "rule_detail": _rule_json(rule),
        "rule_notes": list(rule.notes),
        "tags": dict(resource.tags) if resource.tags is not None else None,
        "owner": {"address": owner.address, "source": owner.source, "claimed": asdict(owner.claimed) if owner.claimed else None},
        "usd_per_hour": finding.case.price.usd_per_hour if finding.case.price else None,
        "price": _price_json(finding.case.price) if finding.case.price else None,
        "host_share": _price_json(finding.host_share) | {"usd_per_hour": finding.host_share.usd_per_hour}
        if finding.host_share
        else None,
        "wasted_usd": finding.wasted_usd,
        "saves_usd_per_hour": finding.case.saves_usd_per_hour.get(finding.step.name),
        "step": finding.step.name.value,
        "step_because": finding.step.because,
        "outcome": finding.outcome.result.value,
        "outcome_because": finding.outcome.because,
        "error": finding.outcome.error,
        "next": next_json(finding.next) if finding.next else None,
        "could": next_json(finding.could) if finding.could else None,
        "memory": _memory_json(finding, now),
        "evidence": [_evidence_json(e) for e in finding.case.evidence],
    }
    return {key: _plain(value) for key, value in row.items()}


def _memory_json(finding: Finding, now: datetime) -> dict[str, datetime | None] | None:
    """The dates that the ledger has; None if it has nothing. A snooze that is over is none."""
    record, snooze = finding.record, finding.snooze
    if record is None and snooze is None:
        return None
    until = snooze.until if snooze and snooze.until and snooze.until > now else None
    record = record or NO_RECORD
    warned_at = record.notice.warned_at if record.notice else None
    return {"idle_since": record.idle_since, "warned_at": warned_at, "snoozed_until": until}


def utc_text(when: datetime | None) -> str | None:
    """ISO 8601 in UTC to the second, ending in Z; years have four digits, which `strftime` doesn't guarantee on every system."""
    return when.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="seconds") + "Z" if when else None


def _plain(value: Any) -> Any:
    """The value with times as text, and null for numbers that aren't finite, such as the level of a signal that counts at any value."""
    if isinstance(value, datetime):
        return utc_text(value)
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value


def _saved_json(saved: Saved) -> dict[str, Any]:
    sums = {"saved_usd": saved.ours.saved_usd, "prompted_usd": saved.prompted.saved_usd}
    return {"since": saved.since, **sums, "unpriced_hours": saved.ours.unpriced_hours}


def _rule_json(rule: Rule) -> dict[str, Any]:
    """The effective rule, as written in a policy: `{"idle_after": "24h", "hours": {"on": "mon-fri 07:00-21:00", ...}}`."""
    hours, after = rule.hours, rule.delete_after
    on = office_hours.hours_text(rule.hours) if rule.hours else ""
    return {
        "action": rule.action.value,
        "idle_after": duration.policy_duration(rule.idle_after),
        "grace": f"{rule.business_days.count}bd" if rule.business_days else duration.policy_duration(rule.grace),
        "then": {"action": "delete", "after": duration.policy_duration(after)} if after else None,
        "freezes": [asdict(freeze) for freeze in rule.freezes],
        "waits_because": rule.waits_because,
        "hours": {"on": on, "tz": hours.tz, "start": hours.restart, "force": hours.force, "except": list(hours.calendars)}
        if hours
        else None,
    }


def next_json(action: NextAction) -> dict[str, Any]:
    """An action that may come."""
    return {**asdict(action), "step": action.step.value, "at": utc_text(action.at)}


def _price_json(price: Price) -> dict[str, Any]:
    return {"source": price.source, "as_of": price.as_of, "own": price.own}


def _evidence_json(row: Evidence) -> dict[str, Any]:
    peak = None if row.peak is None else round(row.peak, 4)
    return {name: getattr(row, name) for name in EVIDENCE_COLUMNS} | {"subject": row.subject or None, "peak": peak}
