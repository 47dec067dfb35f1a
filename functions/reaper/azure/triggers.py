"""The function app: a timer for the schedule, and an HTTP route for manual sweeps.

A manual call has the command line's options as JSON keys, all optional: {"mode": "audit", "kinds": [...], "subscriptions": [...]}.
Its answer is the report, or its address if it is very large. Azure's front end hangs up after 230 seconds whatever the function's
time-out is (https://learn.microsoft.com/azure/azure-functions/functions-scale#timeout). The sweep then continues, and its report is in
REAPER_REPORTS.
https://learn.microsoft.com/azure/azure-functions/functions-reference-python
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import azure.functions as func

from reaper import registry
from reaper import settings as knobs
from reaper.azure import snooze_route
from reaper.case import Report
from reaper.errors import ReaperError, SettingsError
from reaper.model import Status
from reaper.policy import file
from reaper.report.json import report_json
from reaper.report.totals import acted_findings, failed_findings, has_news, held_findings, report_totals
from reaper.run import run

if TYPE_CHECKING:
    from reaper.policy.schema import Owners

MAX_ANSWER_CHARS = 20_000_000
HOST_TIMEOUT = timedelta(minutes=30)
"""The `functionTimeout` of host.json: how long the host lets a run last."""
USAGE = 'send a POST request to sweep, optionally with a JSON object such as {"kinds": [...], "subscriptions": [...]}'
AWS_OPTIONS = {
    *("region", "regions", "account", "accounts", "organization", "ou", "ous", "exclude_account", "exclude_accounts"),
}
"""Options that only narrow a sweep of AWS. If they were ignored silently, they would seem to have worked."""
app = func.FunctionApp(http_auth_level=func.AuthLevel.FUNCTION)
log = logging.getLogger("reaper")
log.setLevel(logging.INFO)
logging.getLogger("azure").setLevel(logging.WARNING)
"""The SDKs would log every request."""

snooze_route.register_route(app, os.environ)


@app.timer_trigger(arg_name="timer", schedule="%REAPER_SCHEDULE%", run_on_startup=False, use_monitor=True)
def sweep_on_schedule(timer: func.TimerRequest) -> None:
    """One sweep. Raises ReaperError if nothing could be swept or the summary was not accepted, so that the alert fires."""
    if timer.past_due:
        _log_event(logging.WARNING, "late", because="the host wasn't running when this run was due")
    _, errors = _run_sweep(_call_settings(knobs.from_env(os.environ), {}))
    if errors:
        raise errors[0]
    # An alert of infra/modules/alerts.bicep fires if this line is missing: host.json keeps calls that succeed out of AppRequests.
    _log_event(logging.INFO, "scheduled sweep succeeded")


@app.route(route="sweep", methods=["GET", "POST"])
def sweep_by_hand(req: func.HttpRequest) -> func.HttpResponse:
    """One sweep, requested with POST. The answer is the report, with `troubles` if it couldn't be stored or mailed.

    400 with the reason if the request is wrong, 500 if the deployment is.
    """
    if req.method != "POST":
        return _json_response({"error": USAGE}, 405, {"Allow": "POST"})
    try:
        base = knobs.from_env(os.environ)
        try:
            settings = _call_settings(base, _parse_body(req.get_body()))
        except SettingsError as error:
            return _json_response({"error": str(error)}, 400)
        answer, errors = _run_sweep(settings)
        return _json_response(answer | ({"troubles": [str(failure) for failure in errors]} if errors else {}), 200)
    except ReaperError as error:
        _log_event(logging.ERROR, "failed", error=str(error))
        return _json_response({"error": str(error)}, 500)


def _parse_body(body: bytes) -> dict[str, Any]:
    try:
        options = json.loads(body) if body.strip() else {}
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"the body isn't JSON: {error}") from error
    if not isinstance(options, dict):
        raise SettingsError(f'the body is a {type(options).__name__}, expected an object such as {{"mode": "audit"}}')
    return options


def _call_settings(base: knobs.Settings, options: Mapping[str, Any]) -> knobs.Settings:
    """The deployment's settings, narrowed by the call."""
    if aws_options := sorted(key for key in AWS_OPTIONS & options.keys() if options[key]):
        raise SettingsError(f"{aws_options[0]!r} is for AWS only; use 'subscriptions' to narrow a sweep of Azure")
    azure_kinds = tuple(kind.name for kind in registry.kinds("azure"))
    settings = knobs.narrow_settings(base, options, registry.kind_names())
    if settings.cloud == "aws" or not set(settings.kinds) & set(azure_kinds):
        raise SettingsError("this function sweeps Azure only")
    from reaper.azure import targets  # imports Azure's SDK, which would slow every cold start

    subscriptions = tuple(targets.valid_subscription_id(name) for name in settings.subscriptions)
    return replace(
        knobs.require_durable_stores(settings),
        cloud="azure",
        subscriptions=subscriptions,
        kinds=tuple(k for k in settings.kinds if k in azure_kinds),
    )


def _run_sweep(settings: knobs.Settings) -> tuple[dict[str, Any], list[ReaperError]]:
    """The answer, and what failed after the sweep, which is already logged."""
    source = file.load_policy(settings.policy)
    report = run(settings, source, lambda: datetime.now(UTC), log.info, datetime.now(UTC) + HOST_TIMEOUT)
    answer = report_json(report)
    text = json.dumps(answer, allow_nan=False)
    stored, unstored = _store_report(settings, report, text)
    _log_metrics(report, stored)
    unsent = _send_summary_mail(settings, source.policy.owners, report, stored)
    answer_without_findings = {**answer, "findings": [], "stored": stored}
    return answer if len(text) <= MAX_ANSWER_CHARS or stored is None else answer_without_findings, [
        t for t in (unsent, unstored) if t
    ]


def _send_summary_mail(settings: knobs.Settings, owners: Owners, report: Report, stored: str | None) -> ReaperError | None:
    """Send an audit's summary if there is one to send. Returns why it was not accepted."""
    if settings.mode.writes or not settings.email or (settings.quiet and not has_news(report)):
        return None
    from reaper.notices.audit_summary import send_audit_summary  # imports Azure's SDK, which would slow every cold start
    from reaper.notices.channels.deployment import mail_channel

    try:
        channel = mail_channel(settings.email.endpoint, settings.email.sender, settings.email.to)
        receipt = send_audit_summary(report, owners, channel, stored, lambda: datetime.now(UTC))
        _log_event(logging.INFO, "summary sent", mail=receipt)
    except ReaperError as error:
        _log_event(logging.ERROR, "summary not sent", error=str(error))
        return error
    return None


def _store_report(settings: knobs.Settings, report: Report, text: str) -> tuple[str | None, ReaperError | None]:
    """The address of the stored report, or why it couldn't be stored. Notices are sent in both cases."""
    from reaper.azure import text_store

    try:
        return (
            text_store.write_report(settings.reports, report.run.id, report.run.started_at, text) if settings.reports else None
        ), None
    except ReaperError as error:
        _log_event(logging.ERROR, "report not stored", error=str(error))
        return None, error


def _log_metrics(report: Report, stored: str | None) -> None:
    """The figures of the sweep as one line of JSON, under the names they have on AWS.

    In Application Insights: traces | extend m = parse_json(message) | where m.event == "swept" | project timestamp, todouble(m.IdleUSDPerHour)
    """
    totals, on_hold = report_totals(report), held_findings(report)
    incomplete_rows = [row for row in report.coverage if row.status is not Status.OK]
    _log_event(
        logging.INFO,
        "swept",
        run=report.run.id,
        stored=stored,
        calls=totals.calls,
        Resources=totals.resources,
        Idle=totals.by_state["idle"],
        Unknown=totals.by_state["unknown"],
        IdleUSDPerHour=totals.idle_usd_per_hour,
        Acted=len(acted_findings(report)),
        ActsFailed=len(failed_findings(report)),
        Held=len(on_hold),
        Failures=len(incomplete_rows),
        SweepSeconds=(report.run.finished_at - report.run.started_at).total_seconds(),
    )
    for row in incomplete_rows:
        details = {
            "kind": row.kind,
            "subscription": row.account,
            "status": row.status,
            "missing": row.missing,
            "error": row.error,
        }
        _log_event(logging.ERROR, "coverage incomplete", **details)
    if on_hold and report.run.mode.announces:
        _log_event(logging.ERROR, "acts held", run=report.run.id, held=len(on_hold), because=on_hold[0].step.because)


def _log_event(level: int, event: str, **facts: Any) -> None:
    log.log(level, "%s", json.dumps({"event": event, **facts}, default=str))


def _json_response(body: dict[str, Any], status: int, headers: dict[str, str] | None = None) -> func.HttpResponse:
    return func.HttpResponse(json.dumps(body), status_code=status, mimetype="application/json", headers=headers)
