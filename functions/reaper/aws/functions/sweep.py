"""The Lambda entry point, for the schedule and for manual sweeps.

A manual event has the command line's options as keys, all optional: {"mode": "audit", "kinds": [...], "regions": [...]}. The answer
is the report, or its address if it is larger than Lambda allows. A deployment for several accounts starts its state machine instead, and
the answer says which execution: {"run": ..., "execution": ...}.

With {"doctor": true} nothing is swept: the answer is what `reaper doctor --format json` prints, as the function's own role sees it.

A queue delivers the events of CloudWatch alarms (`functions/alarms`).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from reaper import registry
from reaper.aws.functions.delivery import deliver_report, logger
from reaper.aws.functions.event import event_settings, is_batch, options_of
from reaper.errors import SettingsError
from reaper.finding import Report
from reaper.policy import file
from reaper.report.json import report_json
from reaper.run import run
from reaper.settings import Settings

MAX_ANSWER_BYTES = 5_500_000
"""Somewhat less than Lambda's limit: https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html"""


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """One sweep, or the start of a workflow that sweeps. Raises ReaperError if nothing could be swept or the summary was not accepted, so
    that the error alarm fires.
    """
    deadline = datetime.now(UTC) + timedelta(milliseconds=context.get_remaining_time_in_millis())
    if is_batch(event):
        from reaper.aws.functions.alarms import look_at_alarms  # imports the phases, which would slow every cold start

        return look_at_alarms(event, lambda: datetime.now(UTC), deadline)
    options = dict(options_of(event))
    if options.get("doctor") is True:
        del options["doctor"]
        return _examine(event_settings(os.environ, options))
    settings = event_settings(os.environ, options)
    if settings.workflow:
        return _start_workflow(settings.workflow, options, context.aws_request_id)
    source = file.load_policy(settings.policy)
    report = _with_gb_seconds(run(settings, source, lambda: datetime.now(UTC), logger.info, deadline), os.environ)
    stored = deliver_report(report, settings, source.policy.owners, lambda: datetime.now(UTC))
    answer = report_json(report)
    if len(json.dumps(answer, allow_nan=False).encode()) <= MAX_ANSWER_BYTES:
        return answer
    if stored is None:
        raise SettingsError("the report is too large for an answer; set REAPER_REPORTS to a bucket to store it")
    return {**answer, "findings": [], "stored": stored}


def _with_gb_seconds(report: Report, environ: Mapping[str, str]) -> Report:
    """The report with the memory of this function times the run's duration, which is nearly what Lambda bills."""
    megabytes, length = environ.get("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", ""), report.run.finished_at - report.run.started_at
    if not megabytes.isdecimal():
        return report
    return replace(report, run=replace(report.run, gb_seconds=round(int(megabytes) / 1024 * length.total_seconds(), 1)))


def _examine(settings: Settings) -> dict[str, Any]:
    """Everything that this function needs, checked as the role that it has."""
    from reaper.doctor.check import (
        DoctorContext,
        checks_json,  # these import pydantic, which would slow every cold start
    )
    from reaper.doctor.examine import examine

    chosen = [kind for kind in registry.kinds("aws") if kind.name in settings.kinds]
    environ = dict(os.environ)
    context = DoctorContext(settings=settings, environ=environ, clock=lambda: datetime.now(UTC), kinds=chosen)
    return checks_json(examine(context))


def _start_workflow(workflow: str, options: Mapping[str, Any], request_id: str) -> dict[str, Any]:
    """Start the state machine with the options of the call. A repeated call of the same request finds the execution that it started."""
    from reaper.aws.functions.executions import start_execution  # imports boto3, which would slow every cold start

    run_id = hashlib.sha256(request_id.encode()).hexdigest()[:12]
    execution = start_execution(workflow, run_id, options)
    logger.info("workflow started", run=run_id, execution=execution)
    return {"run": run_id, "execution": execution}
