"""The function app: a timer for the schedule, and HTTP routes for manual sweeps. Each start begins a run of the orchestration, which goes on
after the call has returned.

A manual call has the command line's options as JSON keys, all optional: {"mode": "audit", "kinds": [...], "subscriptions": [...]}.
Its answer, 202, has the address to ask: that answers 202 until the run has finished, and then the report. Azure's front end would hang up on a
longer call: https://learn.microsoft.com/azure/azure-functions/functions-scale#timeout
https://learn.microsoft.com/azure/azure-functions/functions-reference-python
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import azure.durable_functions as df
import azure.functions as func

from reaper import settings as knobs
from reaper.azure import activities, run_status, snooze_route, starting
from reaper.azure.call_settings import call_settings, parse_body
from reaper.azure.orchestration import orchestrate
from reaper.azure.run_report import log_event
from reaper.azure.run_status import Answer
from reaper.errors import ReaperError, SettingsError
from reaper.workflow.store import open_run_store

USAGE = (
    'send a POST request to sweep, optionally with a JSON object such as {"kinds": [...], "subscriptions": [...]}; '
    "a GET request to sweep/RUN answers about a run"
)
app = df.DFApp(http_auth_level=func.AuthLevel.FUNCTION)
logging.getLogger("reaper").setLevel(logging.INFO)
logging.getLogger("azure").setLevel(logging.WARNING)
"""The SDKs would log every request."""

app.register_functions(activities.blueprint)
snooze_route.register_route(app, os.environ)


@app.orchestration_trigger(context_name="context", orchestration=starting.ORCHESTRATOR)
def sweep_run(context: df.DurableOrchestrationContext) -> Any:
    """One run, from its targets to its report."""
    return (yield from orchestrate(context))


@app.timer_trigger(arg_name="timer", schedule="%REAPER_SCHEDULE%", run_on_startup=False, use_monitor=True)
@app.durable_client_input(client_name="client")
async def sweep_on_schedule(timer: func.TimerRequest, client: df.DurableOrchestrationClient) -> None:
    """Start a run. Raises ReaperError if the settings are wrong, so that the alert fires."""
    if timer.past_due:
        log_event(logging.WARNING, "late", because="the host wasn't running when this run was due")
    now = datetime.now(UTC)
    await starting.start(client, call_settings(knobs.from_env(os.environ), {}), {}, now, scheduled=True)
    await starting.purge_history(client, now)


@app.route(route="sweep", methods=["GET", "POST"])
@app.durable_client_input(client_name="client")
async def sweep_by_hand(req: func.HttpRequest, client: df.DurableOrchestrationClient) -> func.HttpResponse:
    """Start a run, requested with POST. 400 with the reason if the request is wrong, 409 while another run is under way, 500 if the
    deployment is wrong.
    """
    if req.method != "POST":
        return _json_response(405, {"error": USAGE}, {"Allow": "POST"})
    try:
        base = knobs.from_env(os.environ)
        try:
            options = parse_body(req.get_body())
            settings = call_settings(base, options)
        except SettingsError as error:
            return _json_response(400, {"error": str(error)})
        started = await starting.start(client, settings, options, datetime.now(UTC), scheduled=False)
    except ReaperError as error:
        return _failed(error)
    if started.because is not None:
        return _json_response(
            409, {"error": started.because, "run": started.run, "status": run_status.status_address(started.run)}
        )
    return _response(run_status.under_way(started.run))


@app.route(route="sweep/{run}", methods=["GET"])
@app.durable_client_input(client_name="client")
async def sweep_status(req: func.HttpRequest, client: df.DurableOrchestrationClient) -> func.HttpResponse:
    """The report of a run, 202 while it is under way, or why there is none."""
    run_id = str(req.route_params.get("run", ""))
    if not run_status.RUN_ID.fullmatch(run_id):
        return _json_response(404, {"error": "there is no such run"})
    try:
        settings = knobs.from_env(os.environ)
        store = open_run_store(settings.runs, run_id)
        current = await starting.current_run(client)
        return _response(await asyncio.to_thread(run_status.answer_about, run_id, current, store, settings.reports))
    except ReaperError as error:
        return _failed(error)


def _failed(error: ReaperError) -> func.HttpResponse:
    log_event(logging.ERROR, "failed", error=str(error))
    return _json_response(500, {"error": str(error)})


def _response(answer: Answer) -> func.HttpResponse:
    return func.HttpResponse(
        answer.text, status_code=answer.status, mimetype="application/json", headers=dict(answer.headers) or None
    )


def _json_response(status: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> func.HttpResponse:
    return _response(Answer(status=status, text=json.dumps(body), headers=headers or {}))
