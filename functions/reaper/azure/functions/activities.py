"""The activities of a run: each calls one phase of the workflow, with a deadline of its own below the host's (`functionTimeout` in host.json).

An activity returns what happened and never raises, with two exceptions that must fail the whole run: what can't be listed, decided or
concluded. A worker that restarts repeats what it was doing, perhaps while it still goes on elsewhere; the phases are made for that. Failures
that pass are retried here and not by the engine, whose retries know no back-off.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

import azure.durable_functions as df

from reaper.azure.functions import report as run_report
from reaper.azure.functions import starting
from reaper.azure.functions.orchestration import ACT_ON_ITEM, CARRIED, CONCLUDE_RUN, DECIDE_RUN, LIST_TARGETS, OBSERVE_ITEM, Call
from reaper.errors import CloudError, ConcludeTakenOver, ReaperError, Reason
from reaper.settings import Settings
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
blueprint = df.Blueprint()
"""Its functions take and return JSON. Microsoft's worker accepts no generic types, such as dict[str, object], in their signatures."""
log = logging.getLogger("reaper")


@blueprint.activity_trigger(input_name="call", activity=LIST_TARGETS)
def list_targets(call: Any) -> Any:
    """List what to sweep. Raises ReaperError if nothing can be swept."""
    context = _context(call, starting.listing_settings(call["options"]))
    own = f"{HOLDER} {starting.deployment()} "
    # The engine runs one instance at a time, so an earlier run of this app that still has the lease has ended without giving it back.
    listed = _retried(
        lambda: _phases().list_targets(context, call["run"], own + call["run"], lambda holder: not holder.startswith(own))
    )
    if listed["status"] != "listed":
        attempt = {"run": call["run"], "attempt": call["run"], "scheduled": call["scheduled"]}
        run_report.log_event(logging.WARNING, "start skipped", **attempt, because=listed["because"])
    return listed


@blueprint.activity_trigger(input_name="call", activity=OBSERVE_ITEM)
def observe_item(call: Any) -> Any:
    return _item_result(call, _phases().observe_item)


@blueprint.activity_trigger(input_name="call", activity=DECIDE_RUN)
def decide_run(call: Any) -> Any:
    """Decide the whole run. Raises ReaperError if that fails."""
    context, engine = _under_way(call)
    return _retried(lambda: _phases().decide_run(context, engine, _failures(call)))


@blueprint.activity_trigger(input_name="call", activity=ACT_ON_ITEM)
def act_on_item(call: Any) -> Any:
    return _item_result(call, _phases().act_on_item)


@blueprint.activity_trigger(input_name="call", activity=CONCLUDE_RUN)
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
        progress=log.info,
    )


def _under_way(call: Call) -> tuple[WorkflowContext, EngineState]:
    """The context of a later activity, and what the orchestration carries to it. Where it carries nothing, no stored run agrees with it."""
    from reaper.workflow.stored_run import EngineState

    carried = {name: str(call.get(name, "")) for name in CARRIED}
    return _context(call, starting.later_settings(call["options"])), EngineState(run=call["run"], **carried)


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
            log.warning("tried again in %s s: %s", seconds, error)
            time.sleep(seconds)
    return step()
