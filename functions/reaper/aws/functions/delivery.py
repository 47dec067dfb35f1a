"""What follows a finished report on AWS: metrics, the bucket, the log, and the summary of an audit.

Metrics are lines of the function's log:
https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.metrics import EphemeralMetrics

from reaper.errors import SettingsError
from reaper.finding import Report
from reaper.model import Status
from reaper.report import json
from reaper.report.figures import Figure, run_figures, swept_facts
from reaper.report.summary import has_news
from reaper.settings import Settings
from reaper.workflow.store import FIGURES, SUMMARY

if TYPE_CHECKING:
    from reaper.policy.schema import Owners
    from reaper.workflow.store import RunStore

NAMESPACE = "MLIdleReaper"
SERVICE = "ml-idle-reaper"
logger = Logger(service=SERVICE)


def deliver_report(
    report: Report,
    settings: Settings,
    owners: Owners,
    clock: Callable[[], datetime],
    marks: RunStore | None = None,
) -> str | None:
    """Store, publish and log the report, and send an audit's summary. Returns the address of the report if it was stored.

    `marks`: the store of a run whose delivery may be repeated; what it says was done isn't done again. Raises SettingsError if the report couldn't
    be stored, and CloudError if no summary was accepted, each after everything else was done.
    """
    stored, unstored = None, None
    if settings.reports:
        from reaper.aws.stores import texts  # imports boto3, which would slow every cold start

        try:
            stored = texts.write_report(settings.reports, report.run.id, report.run.started_at, json.chunks(report))
        except SettingsError as error:
            logger.error("report not stored", error=str(error))
            unstored = error
    if marks is None or marks.create(FIGURES, ""):
        publish_figures(run_figures(report), os.environ.get("REAPER_DEPLOYMENT", ""))
        logger.info("swept", **swept_facts(report, stored))
        log_gaps(report)
    is_due = not report.run.mode.writes and (has_news(report) or not settings.quiet)
    if settings.topic and is_due and (marks is None or marks.read(SUMMARY) is None):
        from reaper.notices.channels.delivery import topic_channel
        from reaper.notices.summary_mail import send_audit_summary  # imports boto3, which would slow every cold start

        channel = topic_channel(settings.topic)
        receipt = send_audit_summary(report, owners, channel, stored, clock)
        logger.info("summary sent", message_id=receipt)
        if marks:
            marks.create(SUMMARY, receipt)
    if unstored:
        raise unstored
    return stored


def publish_figures(figures: Iterable[Figure], deployment: str) -> None:
    """Print the figures, with the dimensions `service` and `stack`, and `kind` or `tag` if they are about one. `deployment`: the stack's ARN."""
    rows = tuple(figures)
    for kind, tag in dict.fromkeys((figure.kind, figure.tag) for figure in rows):
        metrics = EphemeralMetrics(namespace=NAMESPACE, service=SERVICE)
        for name, value in (("service", SERVICE), ("stack", stack_name(deployment)), ("kind", kind), ("tag", tag)):
            if value:
                metrics.add_dimension(name=name, value=value)
        for figure in rows:
            if (figure.kind, figure.tag) == (kind, tag):
                metrics.add_metric(name=figure.name, unit=figure.unit, value=figure.value)
        metrics.flush_metrics()


def stack_name(deployment: str) -> str:
    """The name in a stack's ARN, `arn:aws:cloudformation:REGION:ACCOUNT:stack/NAME/ID`; empty for anything else.

    It is the dimension of the stack's metrics, so that no stack silences another's alarms.
    """
    kind, _, rest = deployment.strip().rpartition(":")[2].partition("/")
    return rest.partition("/")[0] if kind == "stack" else ""


def log_gaps(report: Report) -> None:
    """A line for each row of the coverage that isn't complete."""
    for row in report.coverage:
        if row.status is not Status.OK:
            where: dict[str, Any] = {"kind": row.kind, "account": row.account, "region": row.region}
            logger.error("coverage incomplete", **where, status=row.status, missing=row.missing, error=row.error)
