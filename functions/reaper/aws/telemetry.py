"""The log of the functions that sweep. Their metrics are in `published_figures`."""

from __future__ import annotations

from aws_lambda_powertools import Logger

from reaper.case import Report
from reaper.model import Status
from reaper.report.figures import swept_facts

logger = Logger(service="ml-idle-reaper")


def log_report(report: Report, stored: str | None) -> None:
    """The line that the dashboard lists as a run, and a line for each gap. `stored`: where the report is."""
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
