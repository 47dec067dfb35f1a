"""The log and the metrics of the functions that sweep.

Embedded metric format: https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
"""

from __future__ import annotations

import os

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit

from reaper.case import Report
from reaper.model import Status
from reaper.report.totals import acted_findings, failed_findings, held_findings, report_totals

logger = Logger(service="ml-idle-reaper")
metrics = Metrics(namespace="MLIdleReaper", service="ml-idle-reaper")


def publish_metrics(report: Report) -> None:
    """The metrics of a sweep. They are sent when the function's handler flushes them."""
    totals = report_totals(report)
    for name, unit, value in (
        ("Resources", MetricUnit.Count, totals.resources),
        ("Idle", MetricUnit.Count, totals.by_state["idle"]),
        ("Unknown", MetricUnit.Count, totals.by_state["unknown"]),
        ("IdleUSDPerHour", MetricUnit.NoUnit, totals.idle_usd_per_hour),
        ("Acted", MetricUnit.Count, len(acted_findings(report))),
        ("ActsFailed", MetricUnit.Count, len(failed_findings(report))),
        ("Held", MetricUnit.Count, len(held_findings(report))),
        ("Failures", MetricUnit.Count, sum(1 for row in report.coverage if row.status is not Status.OK)),
        ("SweepSeconds", MetricUnit.Seconds, (report.run.finished_at - report.run.started_at).total_seconds()),
    ):
        metrics.add_metric(name=name, unit=unit, value=value)
    _add_stack()


def publish_skipped() -> None:
    """The metric of a sweep that didn't begin, because another one was under way."""
    metrics.add_metric(name="Skipped", unit=MetricUnit.Count, value=1)
    _add_stack()


def log_report(report: Report, stored: str | None) -> None:
    """One line for the sweep, and one for each place that it couldn't see completely. `stored`: where the report is."""
    totals = report_totals(report)
    logger.info(
        "swept", run=report.run.id, resources=totals.resources, by_state=totals.by_state, calls=totals.calls, stored=stored
    )
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


def _add_stack() -> None:
    if stack := _stack_name(os.environ.get("REAPER_DEPLOYMENT", "")):
        metrics.add_dimension(name="stack", value=stack)


def _stack_name(deployment: str) -> str:
    """The name in a stack's ARN, `arn:aws:cloudformation:REGION:ACCOUNT:stack/NAME/ID`; empty for anything else.

    It is the dimension of the stack's metrics, so that no stack silences another's alarms.
    """
    kind, _, rest = deployment.strip().rpartition(":")[2].partition("/")
    return rest.partition("/")[0] if kind == "stack" else ""
