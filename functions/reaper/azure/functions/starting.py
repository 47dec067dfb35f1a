"""Starts runs, one at a time per deployment: the instance of the orchestration has one fixed ID.

A start while a run is under way is skipped, and the report of that run says so. A run that has been under way for longer than any run can do
anything is stuck: it is ended, the next one takes its place and reports it. Two starts at the same moment may both seem to
succeed, but the engine runs one of them only, and the run's lease keeps a third party out.
https://learn.microsoft.com/azure/azure-functions/durable/durable-functions-singletons
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import azure.durable_functions as df
import azure.functions as func

from reaper import registry
from reaper import settings as knobs
from reaper.azure.functions.report import log_event, parse_object, published, write_note
from reaper.errors import CloudError, Reason, SettingsError
from reaper.model import Mode, Status
from reaper.settings import Settings
from reaper.workflow.store import RunStore, open_run_store

ORCHESTRATOR, INSTANCE = "sweep_run", "sweep"
"""The orchestrator's name, and the ID of its only instance."""
RUN_LIMIT = timedelta(hours=3)
"""How long a run may be under way. Act begins nothing after two hours, so a run that is older is stuck."""
HISTORY_KEPT = timedelta(days=14)
WAIT_S, WAITS = 3.0, 20
"""Seconds between two looks at a run that was ended, and how many there are."""
MAX_MESSAGE_CHARS = 500
RUN_ID = re.compile(r"[0-9a-f]{12}")
MAX_ANSWER_CHARS = 20_000_000
RETRY_AFTER_S = 15
AWS_OPTIONS = {"region", "regions", "account", "accounts", "organization", "ou", "ous", "exclude_account", "exclude_accounts"}
"""Options that only narrow a sweep of AWS. If they were ignored silently, they would seem to have worked."""
STATUS = df.OrchestrationRuntimeStatus
UNDER_WAY = frozenset({STATUS.Running, STATUS.Pending, STATUS.ContinuedAsNew, STATUS.Suspended})
Started = tuple[str, str | None]
"""A run; and why it wasn't started, if it is only the run in the way."""
ENDED = [STATUS.Completed, STATUS.Failed, STATUS.Terminated, STATUS.Canceled]


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentRun:
    """The run of the instance, as the engine knows it. `failed_because` is set if it ended without a result."""

    run: str
    started_at: datetime
    is_under_way: bool
    result: Mapping[str, Any]
    failed_because: str | None = None


async def start(
    client: df.DurableOrchestrationClient,
    settings: Settings,
    options: Mapping[str, Any],
    now: datetime,
    *,
    scheduled: bool,
) -> Started:
    """Start a run with these options, in the mode of the settings, unless one is under way. Raises CloudError if the engine can't be used."""
    run_id = uuid.uuid4().hex[:12]
    current = await current_run(client)
    if current and current.is_under_way:
        stuck = now - current.started_at > RUN_LIMIT and await _terminated(client)
        if not stuck:
            return await _skip(settings, current, run_id, now, scheduled=scheduled)
        because = f"run {current.run} was ended: it had been under way since {current.started_at:%Y-%m-%d %H:%M} UTC"
        log_event(logging.ERROR, "run ended", run=current.run, because=because)
        await _note(settings, run_id, Status.FAILED, because, now)
    given = {"run": run_id, "options": {**options, "mode": settings.mode.value}, "scheduled": scheduled}
    try:
        with _sdk_errors_as_cloud_errors("start a run"):
            await client.start_new(ORCHESTRATOR, INSTANCE, given)
    except CloudError:
        quicker = await current_run(client)
        if quicker is None or not quicker.is_under_way or quicker.run == run_id:
            raise
        return await _skip(settings, quicker, run_id, now, scheduled=scheduled)
    log_event(logging.INFO, "run started", run=run_id, attempt=run_id, scheduled=scheduled)
    return run_id, None


async def current_run(client: df.DurableOrchestrationClient) -> CurrentRun | None:
    """The run of the instance; None if there was none yet. Raises CloudError."""
    with _sdk_errors_as_cloud_errors("ask about a run"):
        status = await client.get_status(INSTANCE, show_input=True)
    if not status or status.runtime_status is None:
        return None
    created, failed_because = status.created_time, None
    if status.runtime_status in {STATUS.Failed, STATUS.Terminated, STATUS.Canceled}:
        # The SDK adds what the run had asked for, which is of no use here.
        because = " ".join(str(status.output or "").partition("$OutOfProcData$")[0].split())[:MAX_MESSAGE_CHARS]
        failed_because = f"it ended as {status.runtime_status.value}" + (f": {because}" if because else "")
    return CurrentRun(
        run=str(_parsed(status.input_).get("run", "")),
        started_at=created if created.tzinfo else created.replace(tzinfo=UTC),
        is_under_way=status.runtime_status in UNDER_WAY,
        result=_parsed(status.output),
        failed_because=failed_because,
    )


async def purge_history(client: df.DurableOrchestrationClient, now: datetime) -> None:
    """Delete the engine's history of runs that ended long ago. Raises CloudError."""
    # In UTC, because the SDK prints times without their offset.
    until = now.astimezone(UTC) - HISTORY_KEPT
    with _sdk_errors_as_cloud_errors("delete old history"):
        await client.purge_instance_history_by(datetime(2020, 1, 1, tzinfo=UTC), until, ENDED)


def json_response(status: int, body: Mapping[str, Any] | str, headers: Mapping[str, str] | None = None) -> func.HttpResponse:
    """An answer over HTTP. `body`: also as JSON text."""
    text = body if isinstance(body, str) else json.dumps(body, allow_nan=False)
    return func.HttpResponse(text, status_code=status, mimetype="application/json", headers=dict(headers or {}) or None)


def under_way(run_id: str) -> func.HttpResponse:
    """The answer while a run is under way, and right after it was started."""
    address = status_address(run_id)
    body = {"schema": 1, "run": run_id, "status": address}
    return json_response(202, body, {"Location": address, "Retry-After": str(RETRY_AFTER_S)})


def status_address(run_id: str) -> str:
    return f"/api/sweep/{run_id}"


def answer_about(run_id: str, current: CurrentRun | None, store: RunStore, reports: str | None) -> func.HttpResponse:
    """The answer about a run. `current`: the run of the engine's instance, which may be another one. `reports`: where reports are.

    Raises CloudError.
    """
    is_current = current is not None and current.run == run_id
    if current is not None and is_current and current.is_under_way:
        return under_way(run_id)
    if result := published(store):
        return _report_answer(run_id, result, reports)
    if current is not None and is_current and current.failed_because is None:
        because = current.result.get("because") or "it has no report"
        return _problem(409, run_id, f"the run was skipped: {because}")
    if is_current or store.names():
        because = (current.failed_because if current and is_current else None) or "it has no report"
        return _problem(500, run_id, f"the run failed: {because}; the function app's log says why")
    return _problem(404, run_id, "there is no such run, or its results were deleted")


def parse_body(body: bytes) -> dict[str, Any]:
    """The options in the body of a manual call. Raises SettingsError."""
    try:
        options = json.loads(body) if body.strip() else {}
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"the body isn't JSON: {error}") from error
    if not isinstance(options, dict):
        raise SettingsError(f'the body is a {type(options).__name__}, expected an object such as {{"mode": "audit"}}')
    return options


def call_settings(base: Settings, options: Mapping[str, Any]) -> Settings:
    """The deployment's settings, narrowed by the call. Raises SettingsError."""
    if aws_options := sorted(key for key in AWS_OPTIONS & options.keys() if options[key]):
        raise SettingsError(f"{aws_options[0]!r} is for AWS only; use 'subscriptions' to narrow a sweep of Azure")
    settings = knobs.narrow_settings(base, options, registry.kind_names())
    kinds = tuple(kind.name for kind in registry.kinds("azure") if kind.name in settings.kinds)
    if settings.cloud == "aws" or not kinds:
        raise SettingsError("this function sweeps Azure only")
    if not settings.runs:
        raise SettingsError("set REAPER_RUNS to a blob container's https URL: the phases of a run hand over their results there")
    return replace(knobs.require_durable_stores(settings), cloud="azure", kinds=kinds)


def listing_settings(options: Mapping[str, Any]) -> Settings:
    """The settings for the step that lists the targets of a run that was started with these options: the deployment may have changed since.

    A mode that the deployment no longer has is lowered to the deployment's. Raises SettingsError.
    """
    base = knobs.from_env(os.environ)
    asked = options.get("mode")
    if isinstance(asked, str) and asked in knobs.MODES and knobs.MODES.index(Mode(asked)) > knobs.MODES.index(base.mode):
        options = {**options, "mode": base.mode.value}
    return call_settings(base, options)


def later_settings(options: Mapping[str, Any]) -> Settings:
    """The settings for a later step of that run: the deployment's as they are by now, in the mode of the run or a lower one.

    Places and kinds are those of the stored run. So a run can tell what it has done even if the deployment no longer sweeps all its places.
    Raises SettingsError.
    """
    return listing_settings({"mode": options.get("mode")})


def deployment() -> str:
    """What this deployment is called in the run's lease: the app's resource ID, or else the name of its host."""
    return (
        os.environ.get("REAPER_DEPLOYMENT", "").strip() or os.environ.get("WEBSITE_HOSTNAME", "").strip() or "of an unnamed app"
    )


async def _skip(settings: Settings, current: CurrentRun, attempt: str, now: datetime, *, scheduled: bool) -> Started:
    because = f"run {current.run} has been under way since {current.started_at:%Y-%m-%d %H:%M} UTC"
    log_event(logging.WARNING, "start skipped", run=current.run, attempt=attempt, scheduled=scheduled, because=because)
    await _note(settings, current.run, Status.PARTIAL, f"the start at {now:%Y-%m-%d %H:%M} UTC was skipped: {because}", now)
    return current.run, because


async def _terminated(client: df.DurableOrchestrationClient) -> bool:
    """End the run and wait for it, because the engine takes no new one before. Returns whether it has ended."""
    with _sdk_errors_as_cloud_errors("end a run"):
        await client.terminate(INSTANCE, f"it has been under way for more than {RUN_LIMIT // timedelta(hours=1)} hours")
    for _ in range(WAITS):
        current = await current_run(client)
        if current is None or not current.is_under_way:
            return True
        await asyncio.sleep(WAIT_S)
    return False


async def _note(settings: Settings, run_id: str, status: Status, because: str, now: datetime) -> None:
    """A note for the report of that run. The log has the same line, so a store that fails prevents no start."""
    try:
        await asyncio.to_thread(write_note, open_run_store(settings.runs, run_id), status, because, now)
    except CloudError as error:
        log_event(logging.ERROR, "note not stored", run=run_id, error=str(error))


@contextmanager
def _sdk_errors_as_cloud_errors(operation: str) -> Iterator[None]:
    """Turns the SDK's errors into CloudError with its message, which has no address of the engine."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:  # the SDK raises nothing narrower, and its connection anything
        text = " ".join(str(error).split())[:MAX_MESSAGE_CHARS] or type(error).__name__
        raise CloudError(Reason.REFUSED, "Durable Functions", f"can't {operation}: {text}") from error


def _parsed(value: Any) -> Mapping[str, Any]:
    """A run's input or result: the engine has it as JSON, or as a string with JSON in it. Empty if it is neither."""
    for _ in range(2):
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except ValueError:
                return {}
    return value if isinstance(value, dict) else {}


def _report_answer(run_id: str, result: Mapping[str, Any], reports: str | None) -> func.HttpResponse:
    """The stored report, with `troubles` if something couldn't be mailed. A very large one is answered without its findings.

    Raises CloudError if it is missing, damaged or elsewhere: a part of a report would claim more than was read, and the store of the run
    mustn't lead to other texts.
    """
    from reaper.azure.stores import texts  # imports Azure's SDK, which would slow every cold start

    stored, troubles = result.get("stored"), result.get("troubles") or []
    if not stored or not reports:
        return _problem(500, run_id, "; ".join(troubles) or "the report wasn't stored: REAPER_REPORTS isn't set")
    text = texts.read_report(reports, run_id, str(stored))
    report = parse_object(text, str(stored))
    if not troubles and len(text) <= MAX_ANSWER_CHARS:
        return json_response(200, text)
    report |= {"troubles": troubles} if troubles else {}
    if len(text) > MAX_ANSWER_CHARS:
        report |= {"findings": [], "stored": stored}
    return json_response(200, report)


def _problem(status: int, run_id: str, error: str) -> func.HttpResponse:
    return json_response(status, {"schema": 1, "run": run_id, "error": error})
