"""The Lambda entry point, for the schedule and for manual sweeps.

A manual event has the command line's options as keys, all optional: {"mode": "audit", "kinds": [...], "regions": [...]}. The answer
is the report, or its address if it is larger than Lambda allows (6 MB):
https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from reaper import registry
from reaper import settings as knobs
from reaper.aws.published_figures import publish_figures
from reaper.case import Report
from reaper.errors import SettingsError
from reaper.model import Status
from reaper.policy import file
from reaper.report.figures import run_figures, swept_facts
from reaper.report.json import report_json
from reaper.report.totals import has_news
from reaper.run import run

MAX_ANSWER_BYTES = 5_500_000
EVENT_ENVELOPE_KEYS = {"version", "id", "detail-type", "source", "account", "time", "region", "resources", "detail"}

logger = Logger(service="ml-idle-reaper")


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """One sweep. Raises ReaperError if nothing could be swept or the summary was not accepted, so that the error alarm fires."""
    settings = _event_settings(os.environ, event)
    source = file.load_policy(settings.policy)
    deadline = datetime.now(UTC) + timedelta(milliseconds=context.get_remaining_time_in_millis())
    report = run(settings, source, lambda: datetime.now(UTC), logger.info, deadline)
    publish_figures(run_figures(report), os.environ.get("REAPER_DEPLOYMENT", ""))
    answer = report_json(report)
    text = json.dumps(answer, allow_nan=False)
    stored, unstored = _store_report(settings, report, text)
    _log_result(report, stored)
    if not settings.mode.writes and settings.topic and (has_news(report) or not settings.quiet):
        from reaper.notices.audit_summary import send_audit_summary  # imports boto3, which would slow every cold start
        from reaper.notices.channels.deployment import topic_channel

        channel = topic_channel(settings.topic)
        logger.info(
            "summary sent",
            message_id=send_audit_summary(report, source.policy.owners, channel, stored, lambda: datetime.now(UTC)),
        )
    if unstored:
        raise unstored
    return answer if len(text.encode()) <= MAX_ANSWER_BYTES else _answer_without_findings(answer, stored)


def _store_report(settings: knobs.Settings, report: Report, text: str) -> tuple[str | None, SettingsError | None]:
    """The address of the stored report, or why it couldn't be stored. The error is raised only after all notices are sent."""
    from reaper.aws import text_store  # imports boto3, which would slow every cold start

    try:
        return (
            text_store.write_report(settings.reports, report.run.id, report.run.started_at, text) if settings.reports else None
        ), None
    except SettingsError as error:
        logger.error("report not stored", error=str(error))
        return None, error


def _event_settings(environ: Mapping[str, str], event: dict[str, Any]) -> knobs.Settings:
    """The deployment's settings, narrowed by the event. In EventBridge's envelope the options are in `detail`."""
    options = event or {}
    if isinstance(options, dict) and {"detail-type", "source"} <= options.keys() and options.keys() <= EVENT_ENVELOPE_KEYS:
        options = options.get("detail") or {}
    if not isinstance(options, dict):
        raise SettingsError(f'the event is a {type(options).__name__}, expected an object such as {{"mode": "audit"}}')
    aws_kinds = tuple(kind.name for kind in registry.kinds("aws"))
    settings = knobs.narrow_settings(_deployed_settings(environ), options, registry.kind_names())
    if settings.reports and not settings.reports.startswith("s3://"):
        raise SettingsError(f"REAPER_REPORTS={settings.reports!r}: this function stores reports at s3://bucket/prefix")
    if not settings.kinds or not set(settings.kinds) & set(aws_kinds) or settings.cloud == "azure":
        raise SettingsError("this function sweeps AWS only")
    return replace(
        knobs.require_durable_stores(settings), cloud="aws", kinds=tuple(name for name in settings.kinds if name in aws_kinds)
    )


def _deployed_settings(environ: Mapping[str, str]) -> knobs.Settings:
    """The deployment's settings. If they name no region, it sweeps its own, so that no event can choose another."""
    settings, own_region = knobs.from_env(environ), environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION")
    return settings if settings.regions or not own_region else replace(settings, regions=(own_region,))


def _log_result(report: Report, stored: str | None) -> None:
    """The line that the dashboard lists as a run, and a line for each gap."""
    logger.info("swept", **swept_facts(report, stored))
    for row in report.coverage:
        if row.status is not Status.OK:
            logger.error(
                "coverage incomplete",
                kind=row.kind,
                account=row.account,
                region=row.region,
                status=row.status,
                missing=row.missing,
                error=row.error,
            )


def _answer_without_findings(answer: dict[str, Any], stored: str | None) -> dict[str, Any]:
    """The answer without its findings, which are in the report at `stored`."""
    if stored is None:
        raise SettingsError("the report is too large for an answer; set REAPER_REPORTS to a bucket to store it")
    return {**answer, "findings": [], "stored": stored}
