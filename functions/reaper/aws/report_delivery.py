"""What follows a finished report on AWS: metrics, the bucket, the log, and the summary of an audit."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from reaper.aws.published_figures import publish_figures
from reaper.aws.telemetry import log_report, logger
from reaper.case import Report
from reaper.errors import SettingsError
from reaper.report import json
from reaper.report.figures import run_figures
from reaper.report.totals import has_news
from reaper.settings import Settings
from reaper.workflow.store import FIGURES, SUMMARY

if TYPE_CHECKING:
    from reaper.policy.schema import Owners
    from reaper.workflow.store import RunStore


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
    stored, unstored = _store_report(settings, report)
    if marks is None or marks.create(FIGURES, ""):
        publish_figures(run_figures(report), os.environ.get("REAPER_DEPLOYMENT", ""))
        log_report(report, stored)
    is_due = not report.run.mode.writes and (has_news(report) or not settings.quiet)
    if settings.topic and is_due and (marks is None or marks.read(SUMMARY) is None):
        from reaper.notices.audit_summary import send_audit_summary  # imports boto3, which would slow every cold start
        from reaper.notices.channels.deployment import topic_channel

        channel = topic_channel(settings.topic)
        receipt = send_audit_summary(report, owners, channel, stored, clock)
        logger.info("summary sent", message_id=receipt)
        if marks:
            marks.create(SUMMARY, receipt)
    if unstored:
        raise unstored
    return stored


def _store_report(settings: Settings, report: Report) -> tuple[str | None, SettingsError | None]:
    """The address of the stored report, or why it couldn't be stored. The error is raised only after all notices are sent."""
    from reaper.aws import text_store  # imports boto3, which would slow every cold start

    if not settings.reports:
        return None, None
    try:
        return text_store.write_report(settings.reports, report.run.id, report.run.started_at, json.chunks(report)), None
    except SettingsError as error:
        logger.error("report not stored", error=str(error))
        return None, error
