"""The function app: a timer for the schedule, HTTP routes for manual sweeps, and the activities of a run. Each start begins a run of the
orchestration, which goes on after the call has returned.

Each activity calls one phase of the workflow, with a deadline of its own below the host's (`functionTimeout` in host.json). It returns what happened
and never raises, with two exceptions that must fail the whole run: what can't be listed, decided or concluded. A worker that restarts repeats what it
was doing, perhaps while it still goes on elsewhere; the phases are made for that. Failures that pass are retried here and not by the engine, whose
retries know no back-off. Activities take and return JSON: Microsoft's worker accepts no generic types, such as dict[str, object], in their signatures.

A manual call has the command line's options as JSON keys, all optional: {"mode": "audit", "kinds": [...], "subscriptions": [...]}.
Its answer, 202, has the address to ask: that answers 202 until the run has finished, and then the report. Azure's front end would hang up on a
longer call: https://learn.microsoft.com/azure/azure-functions/functions-scale#timeout
https://learn.microsoft.com/azure/azure-functions/functions-reference-python
The route of snooze links is anonymous, because the signed token is the authentication:
https://learn.microsoft.com/azure/azure-functions/functions-bindings-http-webhook-trigger?pivots=programming-language-python
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from ipaddress import ip_address
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

import azure.durable_functions as df
import azure.functions as func

from reaper import settings as knobs
from reaper.azure.functions import orchestration, starting
from reaper.azure.functions import report as run_report
from reaper.azure.functions.orchestration import Call
from reaper.azure.functions.starting import call_settings, json_response, parse_body
from reaper.errors import CloudError, ConcludeTakenOver, ReaperError, Reason, SettingsError
from reaper.settings import Settings
from reaper.snooze import handler, links
from reaper.snooze.pages import Reply, Request
from reaper.workflow.store import open_run_store

if TYPE_CHECKING:
    from reaper.workflow.stored_run import EngineState, WorkflowContext

ACTIVITY_LIMIT = timedelta(minutes=20)
"""The time that an activity takes at most: less than `functionTimeout`, at which the host would end the whole worker."""
PAUSES_S = (2.0, 10.0)
"""Seconds before each retry."""
HOLDER = "durable"
"""How the holder of a run's lease begins, if it is a run of this app: only one of them runs at a time."""
T = TypeVar("T")
USAGE = (
    'send a POST request to sweep, optionally with a JSON object such as {"kinds": [...], "subscriptions": [...]}; '
    "a GET request to sweep/RUN answers about a run"
)
app = df.DFApp(http_auth_level=func.AuthLevel.FUNCTION)
logging.getLogger("reaper").setLevel(logging.INFO)
logging.getLogger("azure").setLevel(logging.WARNING)
"""The SDKs would log every request."""
blueprint = func.Blueprint()  # type: ignore[no-untyped-call]
log, progress = logging.getLogger(__name__), logging.getLogger("reaper")
EVENT = "keep-link"
"""How the log's line begins. infra/modules/alerts.bicep looks for it."""


@app.orchestration_trigger(context_name="context", orchestration=starting.ORCHESTRATOR)
def sweep_run(context: df.DurableOrchestrationContext) -> Any:
    return (yield from orchestration.orchestrate(context))


@app.activity_trigger(input_name="call", activity=orchestration.LIST_TARGETS)
def list_targets(call: Any) -> Any:
    """List what to sweep. Raises ReaperError if nothing can be swept."""
    context = _context(call, starting.run_settings(call["options"]))
    own = f"{HOLDER} {starting.deployment()} "
    # The engine runs one instance at a time, so an earlier run of this app that still has the lease has ended without giving it back.
    listed = _retried(
        lambda: _phases().list_targets(context, call["run"], own + call["run"], lambda holder: not holder.startswith(own))
    )
    if listed["status"] != "listed":
        attempt = {"run": call["run"], "attempt": call["run"], "scheduled": call["scheduled"]}
        run_report.log_event(logging.WARNING, "start skipped", **attempt, because=listed["because"])
    return listed


@app.activity_trigger(input_name="call", activity=orchestration.OBSERVE_ITEM)
def observe_item(call: Any) -> Any:
    return _item_result(call, _phases().observe_item)


@app.activity_trigger(input_name="call", activity=orchestration.DECIDE_RUN)
def decide_run(call: Any) -> Any:
    """Decide the whole run. Raises ReaperError if that fails."""
    context, engine = _under_way(call)
    return _retried(lambda: _phases().decide_run(context, engine, _failures(call)))


@app.activity_trigger(input_name="call", activity=orchestration.ACT_ON_ITEM)
def act_on_item(call: Any) -> Any:
    return _item_result(call, _phases().act_on_item)


@app.activity_trigger(input_name="call", activity=orchestration.CONCLUDE_RUN)
def conclude_run(call: Any) -> Any:
    """Conclude the run, store its report and send what is left to send. Raises ReaperError if there is no report."""
    context, engine = _under_way(call)
    try:
        report = _retried(lambda: _phases().conclude_run(context, engine, _failures(call)))
    except ConcludeTakenOver:
        if result := run_report.wait_for_result(context):
            return result
        raise
    return run_report.publish(run_report.with_notes(report, context.store), context, scheduled=bool(call["scheduled"]))


def _phases() -> ModuleType:
    """They import pydantic: at the top it would slow every cold start, that of the HTTP routes too."""
    from reaper.workflow import phases

    return phases


def _item_result(call: Call, phase: Callable[[WorkflowContext, EngineState, int], dict[str, Any]]) -> dict[str, Any]:
    try:
        context, engine = _under_way(call)
        return _retried(lambda: phase(context, engine, int(call["item"])))
    except ReaperError as error:
        run_report.log_event(logging.ERROR, "activity failed", run=call["run"], item=call["item"], error=str(error))
        return {"item": call["item"], "failed": str(error)[:1000]}


def _context(call: Call, settings: Settings) -> WorkflowContext:
    """The context of an activity that begins now. Raises SettingsError."""
    from reaper.workflow.stored_run import WorkflowContext

    return WorkflowContext(
        settings=settings,
        store=open_run_store(settings.runs, call["run"]),
        clock=partial(datetime.now, UTC),
        deadline=datetime.now(UTC) + ACTIVITY_LIMIT,
        progress=progress.info,
    )


def _under_way(call: Call) -> tuple[WorkflowContext, EngineState]:
    """The context of a later activity, and what the orchestration carries to it. Where it carries nothing, no stored run agrees with it."""
    from reaper.workflow.stored_run import EngineState

    carried = {name: str(call.get(name, "")) for name in orchestration.CARRIED}
    settings = starting.run_settings({"mode": call["options"].get("mode")})
    return _context(call, settings), EngineState(run=call["run"], **carried)


def _failures(call: Call) -> dict[int, str]:
    return {int(item): str(because) for item, because in call["failures"].items()}


def _retried(step: Callable[[], T]) -> T:
    """The result of the step, which is tried again after a failure that may pass. Raises its last ReaperError."""
    for seconds in PAUSES_S:
        try:
            return step()
        except CloudError as error:
            if error.reason is Reason.DENIED:
                raise
            progress.warning("tried again in %s s: %s", seconds, error)
            time.sleep(seconds)
    return step()


@app.timer_trigger(arg_name="timer", schedule="%REAPER_SCHEDULE%", run_on_startup=False, use_monitor=True)
@app.durable_client_input(client_name="client")
async def sweep_on_schedule(timer: func.TimerRequest, client: df.DurableOrchestrationClient) -> None:
    """Start a run. Raises ReaperError if the settings are wrong, so that the alert fires."""
    if timer.past_due:
        run_report.log_event(logging.WARNING, "late", because="the host wasn't running when this run was due")
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
        return json_response(405, {"error": USAGE}, {"Allow": "POST"})
    try:
        base = knobs.from_env(os.environ)
        try:
            options = parse_body(req.get_body())
            settings = call_settings(base, options)
        except SettingsError as error:
            return json_response(400, {"error": str(error)})
        run, because = await starting.start(client, settings, options, datetime.now(UTC), scheduled=False)
    except ReaperError as error:
        return _failed(error)
    if because is not None:
        return json_response(409, {"error": because, "run": run, "status": starting.status_address(run)})
    return starting.under_way(run)


@app.route(route="sweep/{run}", methods=["GET"])
@app.durable_client_input(client_name="client")
async def sweep_status(req: func.HttpRequest, client: df.DurableOrchestrationClient) -> func.HttpResponse:
    """The report of a run, 202 while it is under way, or why there is none."""
    run_id = str(req.route_params.get("run", ""))
    if not starting.RUN_ID.fullmatch(run_id):
        return json_response(404, {"error": "there is no such run"})
    try:
        settings = knobs.from_env(os.environ)
        store = open_run_store(settings.runs, run_id)
        current = await starting.current_run(client)
        return await asyncio.to_thread(starting.answer_about, run_id, current, store, settings.reports)
    except ReaperError as error:
        return _failed(error)


@blueprint.function_name("Keep")
@blueprint.route(route=links.PAGE_PATH.strip("/"), methods=["GET", "HEAD", "POST"], auth_level=func.AuthLevel.ANONYMOUS)
def handle_snooze_request(req: func.HttpRequest) -> func.HttpResponse:
    """One request to snooze a resource: always a page. A deployment that can't work is one line in the log, never a trace."""
    request = parse_request(req)
    reply = _snooze_handler().handle(request, datetime.now(UTC))
    if reply.note:
        log.log(
            handler.log_level(reply), "%s %s %s from %s: %s", EVENT, request.method, reply.status, request.source_ip, reply.note
        )
    return build_response(reply)


def register_route(app: func.FunctionApp, environ: Mapping[str, str]) -> None:
    """Serve the page if its keys are configured. Without keys no link is valid, and a missing route costs nothing and can't fail."""
    if environ.get("REAPER_SNOOZE_KEYS", "").strip():
        app.register_functions(blueprint)


def parse_request(req: func.HttpRequest) -> Request:
    """The request. Its path is the route's own, whatever prefix host.json adds; the rest of the address is untrusted."""
    headers = {name.lower(): value for name, value in req.headers.items()}
    return Request(
        method=req.method.upper(),
        path=links.PAGE_PATH,
        query=req.url.partition("?")[2].partition("#")[0],
        headers=headers,
        body=req.get_body(),
        source_ip=client_ip(headers.get("x-forwarded-for", "")),
    )


def client_ip(forwarded_for: str) -> str:
    """The address that Azure's front end saw; empty if there is none. It appends `address:port`; anything before that may be forged."""
    last = forwarded_for.rpartition(",")[2].strip()
    if last.startswith("["):
        last = last[1:].partition("]")[0]
    elif last.count(":") == 1:
        last = last.partition(":")[0]
    try:
        return str(ip_address(last))
    except ValueError:
        return ""


def build_response(reply: Reply) -> func.HttpResponse:
    return func.HttpResponse(reply.body, status_code=reply.status, headers=dict(reply.headers))


def _failed(error: ReaperError) -> func.HttpResponse:
    run_report.log_event(logging.ERROR, "failed", error=str(error))
    return json_response(500, {"error": str(error)})


@cache
def _snooze_handler() -> handler.SnoozeHandler:
    return handler.open_handler(os.environ)


register_route(app, os.environ)
