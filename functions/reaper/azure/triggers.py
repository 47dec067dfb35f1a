"""The function app: a timer for the schedule, and an HTTP route for sweeps by hand.

A hand-made call carries the command line's options as JSON keys, all optional: {"mode": "audit", "kinds": [...], "subscriptions": [...]}.
Its answer is the report, or where it was stored when it is very large.
https://learn.microsoft.com/azure/azure-functions/functions-reference-python
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import azure.functions as func

from reaper import registry, source
from reaper import settings as knobs
from reaper.azure import mail, store, targets
from reaper.azure.snooze_route import blueprint as keep
from reaper.errors import ReaperError, SettingsError
from reaper.model import Mode, Report, Status
from reaper.report.json import plain
from reaper.report.totals import news, totals
from reaper.run import run

MAX_ANSWER = 20_000_000
app = func.FunctionApp(http_auth_level=func.AuthLevel.FUNCTION)
log = logging.getLogger("reaper")
log.setLevel(logging.INFO)
logging.getLogger("azure").setLevel(logging.WARNING)
"""The SDKs would log every request."""

app.register_functions(keep)


@app.timer_trigger(arg_name="timer", schedule="%REAPER_SCHEDULE%", run_on_startup=False, use_monitor=True)
def sweep_on_schedule(timer: func.TimerRequest) -> None:
    """One sweep. Raises ReaperError when nothing could be swept or the summary was not accepted, so that the alert calls."""
    if timer.past_due:
        _tell(logging.WARNING, "late", because="the host was not there when this run was due")
    _sweep(_settings(knobs.from_env(os.environ), {}))


@app.route(route="sweep", methods=["GET", "POST"])
def sweep_by_hand(req: func.HttpRequest) -> func.HttpResponse:
    """One sweep as asked for. 400 with the reason for what cannot be asked for, 500 where the deployment cannot do it."""
    try:
        base = knobs.from_env(os.environ)
        try:
            settings = _settings(base, _asked(req.get_body()))
        except SettingsError as error:
            return _answer({"error": str(error)}, 400)
        return _answer(_sweep(settings), 200)
    except ReaperError as error:
        _tell(logging.ERROR, "failed", error=str(error))
        return _answer({"error": str(error)}, 500)


def _asked(body: bytes) -> dict[str, Any]:
    try:
        asked = json.loads(body) if body.strip() else {}
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"the body is no JSON: {error}") from error
    if not isinstance(asked, dict):
        raise SettingsError(f'the body is a {type(asked).__name__}, expected an object such as {{"mode": "audit"}}')
    return asked


def _settings(base: knobs.Settings, asked: Mapping[str, Any]) -> knobs.Settings:
    """The deployment's settings under what the call asks for."""
    ours = tuple(kind.name for kind in registry.kinds("azure"))
    settings = knobs.narrowed(base, asked, registry.names())
    if settings.cloud == "aws" or not set(settings.kinds) & set(ours):
        raise SettingsError("this function sweeps Azure only")
    subscriptions = tuple(targets.known(name) for name in settings.subscriptions)
    return replace(
        knobs.lasting(settings), cloud="azure", subscriptions=subscriptions, kinds=tuple(k for k in settings.kinds if k in ours)
    )


def _sweep(settings: knobs.Settings) -> dict[str, Any]:
    report = run(settings, source.load(settings.policy), lambda: datetime.now(UTC), log.info)
    answer = plain(report)
    text = json.dumps(answer)
    stored, unstored = _store(settings, report, text)
    _measure(report, stored)
    if settings.mode is Mode.AUDIT and settings.email and (news(report) or not settings.quiet):
        _tell(logging.INFO, "summary sent", mail=mail.send(settings.email, report, stored))
    if unstored:
        raise unstored
    return answer if len(text) <= MAX_ANSWER or stored is None else {**answer, "findings": [], "stored": stored}


def _store(settings: knobs.Settings, report: Report, text: str) -> tuple[str | None, ReaperError | None]:
    """Where the report is now; or why it is not, which is raised only after everybody has been told of what it says."""
    try:
        return (
            store.write_report(settings.reports, report.run.id, report.run.started_at, text) if settings.reports else None
        ), None
    except ReaperError as error:
        _tell(logging.ERROR, "report not stored", error=str(error))
        return None, error


def _measure(report: Report, stored: str | None) -> None:
    """The figures of the sweep as one line of JSON, under the names they have on AWS.

    In Application Insights: traces | extend m = parse_json(message) | where m.event == "swept" | project timestamp, todouble(m.IdleUSDPerHour)
    """
    sums = totals(report)
    gaps = [row for row in report.coverage if row.status is not Status.OK]
    _tell(
        logging.INFO,
        "swept",
        run=report.run.id,
        stored=stored,
        calls=sums.calls,
        Resources=sums.resources,
        Idle=sums.by_state["idle"],
        Unknown=sums.by_state["unknown"],
        IdleUSDPerHour=sums.idle_usd_per_hour,
        Failures=len(gaps),
        SweepSeconds=(report.run.finished_at - report.run.started_at).total_seconds(),
    )
    for row in gaps:
        what = {"kind": row.kind, "subscription": row.account, "status": row.status, "missing": row.missing, "error": row.error}
        _tell(logging.ERROR, "coverage incomplete", **what)


def _tell(level: int, event: str, **facts: Any) -> None:
    log.log(level, "%s", json.dumps({"event": event, **facts}, default=str))


def _answer(body: dict[str, Any], status: int) -> func.HttpResponse:
    return func.HttpResponse(json.dumps(body), status_code=status, mimetype="application/json")
