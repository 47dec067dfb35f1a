"""The Lambda entry point of the workflow that sweeps several accounts: one call for each phase.

{"phase": "list", "execution": ARN, "options": {...}}, then "observe" and "act" with the number of an `item`, and "decide" and "conclude" with the
`results` of the map before them; all of these with what the state machine carries: `run`, `execution`, `policy` and `listed`. The state machine is in
template.yaml. An answer is small: data is handed over in the bucket.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from aws_lambda_powertools.utilities.typing import LambdaContext

from reaper.aws.functions.delivery import deliver_report, logger, publish_figures
from reaper.aws.functions.event import event_settings, options_of
from reaper.coverage import is_skipped
from reaper.errors import ODD_REPLY_ERRORS, ReaperError, SettingsError
from reaper.model import Status
from reaper.report.figures import skipped_figures
from reaper.workflow import phases
from reaper.workflow.store import open_run_store
from reaper.workflow.stored_run import EngineState, WorkflowContext, current_policy

Event = Mapping[str, Any]
MAX_REASON_CHARS = 300
RUN_ID, NUMBER = "[0-9a-f]{12}", "[0-9]{1,9}"
NOT_STARTED = "its step of the workflow wasn't started"
Record = Mapping[str, Any]
A = TypeVar("A")


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """One phase. Raises ReaperError if it can't be carried out: the state machine repeats it, then fails or records it."""
    name = _text(event, "phase", "list|observe|decide|act|conclude")
    logger.append_keys(phase=name)
    deadline = datetime.now(UTC) + timedelta(milliseconds=context.get_remaining_time_in_millis())
    if name == "list":
        return _list_targets(event, deadline)
    opened, engine = _under_way(event, deadline)
    match name:
        case "observe":
            return phases.observe_item(opened, engine, int(_text(event, "item", NUMBER)))
        case "decide":
            return phases.decide_run(opened, engine, item_failures(event.get("results")))
        case "act":
            return phases.act_on_item(opened, engine, int(_text(event, "item", NUMBER)))
        case _:
            return _conclude(opened, engine, item_failures(event.get("results")))


def _text(event: Event, key: str, pattern: str = r"\S+") -> str:
    """What the state machine set for this key. Raises SettingsError if it isn't there or isn't of that pattern."""
    value = str(event.get(key, "")) if isinstance(event, dict) else ""
    if not re.fullmatch(pattern, value):
        raise SettingsError(f"{key}: {value!r:.200} doesn't match {pattern}; the state machine calls this function")
    return value


def _list_targets(event: Event, deadline: datetime) -> dict[str, Any]:
    from reaper.aws.functions import executions  # imports boto3, which would slow every cold start

    execution = _text(event, "execution")
    run_id = executions.run_id_of(execution)
    context = _open_context(run_id, deadline, options_of(event.get("options")))
    executions.require_running(execution, context.settings.workflow)
    answer = phases.list_targets(context, run_id, execution, executions.is_running)
    logger.info("listed", run=answer["run"], status=answer["status"], items=answer["items"], because=answer["because"])
    if answer["status"] == "skipped":
        publish_figures(skipped_figures(), os.environ.get("REAPER_DEPLOYMENT", ""))
    return answer


def _conclude(context: WorkflowContext, engine: EngineState, failures: dict[int, str]) -> dict[str, Any]:
    """Send the messages, then deliver the report."""
    report = phases.conclude_run(context, engine, failures)
    owners = current_policy(context, engine.policy_sha256)[0].owners
    stored = deliver_report(report, context.settings, owners, context.clock, context.store)
    totals = report.totals
    incomplete = sum(1 for row in report.coverage if row.status is not Status.OK)
    return {
        "run": engine.run,
        "status": "skipped" if is_skipped(report.coverage) else "concluded",
        "resources": totals.resources,
        "idle": totals.by_state["idle"],
        "failures": incomplete,
        "stored": stored,
    }


def _under_way(event: Event, deadline: datetime) -> tuple[WorkflowContext, EngineState]:
    """The context of a later phase, and what the state machine carries from step to step."""
    engine = EngineState(
        run=_text(event, "run", RUN_ID),
        execution=_text(event, "execution"),
        policy_sha256=_text(event, "policy"),
        listed_sha256=_text(event, "listed"),
    )
    return _open_context(engine.run, deadline), engine


def _open_context(run_id: str, deadline: datetime, options: Mapping[str, Any] | None = None) -> WorkflowContext:
    """The context of one phase. Only the first phase takes options: it stores what the others need."""
    settings = event_settings(os.environ, options or {})
    return WorkflowContext(
        settings=settings,
        store=open_run_store(settings.runs, run_id),
        clock=lambda: datetime.now(UTC),
        deadline=deadline,
        progress=logger.info,
    )


def item_failures(results: object) -> dict[int, str]:
    """The reason for each item of a distributed map that failed, by what the state machine wrote about it. `results`: the map's output,
    empty if the map was skipped.

    A child that fails outright isn't seen by the map's own states: https://docs.aws.amazon.com/step-functions/latest/dg/input-output-resultwriter.html
    What can't be read is logged: the items themselves are compared with their results elsewhere, so only reasons get lost.
    """
    details = results.get("ResultWriterDetails") if isinstance(results, dict) else None
    if not isinstance(details, dict):
        return {}
    failures: dict[int, str] = {}
    for status, key in _logged(partial(_result_files, details)) or ():
        for record in _logged(partial(_read, details, key)) or ():
            failures |= _logged(partial(_failure, status, record)) or {}
    return failures


def _logged(read: Callable[[], A]) -> A | None:
    """What `read` returns; None, and a line in the log, if it can't be read."""
    try:
        return read()
    except (ReaperError, *ODD_REPLY_ERRORS) as error:
        logger.error("the results of the map can't be read", error=str(error))
        return None


def _result_files(details: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The status and the key of each file that the manifest names."""
    files_by_status = _read(details, details.get("Key")).get("ResultFiles") or {}
    return [(status, str(file["Key"])) for status, files in files_by_status.items() for file in files]


def _read(details: Mapping[str, Any], key: str | None) -> Any:
    from reaper.aws.stores import texts  # imports boto3, which would slow every cold start

    return json.loads(texts.read_text(f"s3://{details.get('Bucket')}/{key}"))


def _failure(status: str, record: Record) -> dict[int, str]:
    """The item's number and why it failed; nothing if it has a result."""
    if status == "SUCCEEDED":
        output = _parsed(record.get("Output"))
        if not isinstance(output, dict) or "Error" not in output:
            return {}
        return {int(output["item"]): _reason(output["Error"], output.get("Cause"))}
    number = int(_parsed(record["Input"])["item"])
    if status == "PENDING":
        return {number: NOT_STARTED}
    return {number: _reason(record.get("Error") or record.get("Status") or status, record.get("Cause"))}


def _reason(error: str, cause: object) -> str:
    """The error with the function's own message, which a cause has as JSON text."""
    try:
        details = _parsed(cause)
    except ValueError:
        details = cause
    message = details.get("errorMessage") if isinstance(details, dict) else details
    text = f"{error}: {message}" if message else str(error)
    return f"its step of the workflow failed: {' '.join(text.split())}"[:MAX_REASON_CHARS]


def _parsed(text: object) -> Any:
    """Input and output are JSON texts within the JSON."""
    return json.loads(text) if isinstance(text, str) else text
