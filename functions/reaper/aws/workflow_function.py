"""The Lambda entry point of the workflow that sweeps several accounts: one call for each phase.

{"phase": "list", "execution": ARN, "options": {...}}, then "observe" and "act" with the number of an `item`, and "decide" and "conclude" with the
`results` of the map before them; all of these with what the state machine carries: `run`, `execution`, `policy` and `listed`. The state machine is in
template.yaml. An answer is small: data is handed over in the bucket.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from reaper.aws.event_settings import event_settings, options_of
from reaper.aws.published_figures import publish_figures
from reaper.aws.telemetry import logger
from reaper.coverage import is_skipped
from reaper.errors import SettingsError
from reaper.model import Status
from reaper.report.figures import skipped_figures
from reaper.report.totals import report_totals
from reaper.workflow import phases
from reaper.workflow.context import WorkflowContext, current_policy
from reaper.workflow.store import open_run_store
from reaper.workflow.stored_run import EngineState

Event = Mapping[str, Any]


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """One phase. Raises ReaperError if it can't be carried out: the state machine repeats it, then fails or records it."""
    phase = PHASES.get(str(event.get("phase")))
    if phase is None:
        raise SettingsError(
            f"phase: {event.get('phase')!r} is none of {', '.join(PHASES)}; the state machine calls this function"
        )
    logger.append_keys(phase=event["phase"])
    return phase(event, datetime.now(UTC) + timedelta(milliseconds=context.get_remaining_time_in_millis()))


def _list_targets(event: Event, deadline: datetime) -> dict[str, Any]:
    from reaper.aws.executions import is_running, run_id_of  # imports boto3, which would slow every cold start

    execution = str(event["execution"])
    context = _open_context(run_id_of(execution), deadline, options_of(event.get("options")))
    answer = phases.list_targets(context, run_id_of(execution), execution, is_running)
    logger.info("listed", run=answer["run"], status=answer["status"], items=answer["items"], because=answer["because"])
    if answer["status"] == "skipped":
        publish_figures(skipped_figures(), os.environ.get("REAPER_DEPLOYMENT", ""))
    return answer


def _observe_item(event: Event, deadline: datetime) -> dict[str, Any]:
    return phases.observe_item(_open_context(event["run"], deadline), _engine_state(event), int(event["item"]))


def _decide(event: Event, deadline: datetime) -> dict[str, Any]:
    from reaper.aws.map_results import item_failures  # imports boto3, which would slow every cold start

    return phases.decide_run(_open_context(event["run"], deadline), _engine_state(event), item_failures(event["results"]))


def _act_on_item(event: Event, deadline: datetime) -> dict[str, Any]:
    return phases.act_on_item(_open_context(event["run"], deadline), _engine_state(event), int(event["item"]))


def _conclude(event: Event, deadline: datetime) -> dict[str, Any]:
    """Send the messages, then deliver the report."""
    from reaper.aws.map_results import item_failures  # imports boto3, which would slow every cold start
    from reaper.aws.report_delivery import deliver_report

    context, engine = _open_context(event["run"], deadline), _engine_state(event)
    report = phases.conclude_run(context, engine, item_failures(event["results"]))
    owners = current_policy(context, engine)[0].owners
    stored = deliver_report(report, context.settings, owners, context.clock, context.store)
    totals = report_totals(report)
    incomplete = sum(1 for row in report.coverage if row.status is not Status.OK)
    return {
        "run": event["run"],
        "status": "skipped" if is_skipped(report.coverage) else "concluded",
        "resources": totals.resources,
        "idle": totals.by_state["idle"],
        "failures": incomplete,
        "stored": stored,
    }


def _engine_state(event: Event) -> EngineState:
    """What the state machine carries from step to step."""
    return EngineState(
        run=str(event["run"]),
        execution=str(event["execution"]),
        policy_sha256=str(event["policy"]),
        listed_sha256=str(event["listed"]),
    )


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


PHASES: Mapping[str, Callable[[Event, datetime], dict[str, Any]]] = {
    "list": _list_targets,
    "observe": _observe_item,
    "decide": _decide,
    "act": _act_on_item,
    "conclude": _conclude,
}
