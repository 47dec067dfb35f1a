"""The alarm events that a queue delivers to the function, a batch of up to five minutes at a time.

https://docs.aws.amazon.com/lambda/latest/dg/with-sqs.html
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from reaper.aws.alarm_event import alarmed_endpoints
from reaper.aws.alarm_run import AlarmRun, run_on_alarms
from reaper.aws.event_settings import event_settings
from reaper.aws.published_figures import publish_figures
from reaper.aws.telemetry import logger
from reaper.model import Status
from reaper.policy import file
from reaper.report.figures import alarm_figures, skipped_figures


def look_at_alarms(event: Mapping[str, Any], clock: Callable[[], datetime], deadline: datetime) -> dict[str, Any]:
    """One run over the endpoints of all alarms in the batch. Raises ReaperError if it can't be carried out: the queue delivers again.

    The answer says how many resources were judged, and how many events were dropped, by reason.
    """
    settings = event_settings(os.environ, {})
    source = file.load_policy(settings.policy)
    alarmed = alarmed_endpoints(str(record.get("body")) for record in event["Records"])
    ran = run_on_alarms(alarmed, settings, source, clock, logger.info, deadline)
    _publish(ran)
    findings = ran.report.findings if ran.report else ()
    return {"run": ran.report.run.id if ran.report else None, "resources": len(findings), "dropped": ran.dropped}


def _publish(ran: AlarmRun) -> None:
    deployment = os.environ.get("REAPER_DEPLOYMENT", "")
    publish_figures(alarm_figures(sum(ran.dropped.values())), deployment)
    if ran.is_skipped:
        publish_figures(skipped_figures(), deployment)
    report = ran.report
    run, resources = (report.run.id, len(report.findings)) if report else (None, 0)
    logger.info("alarms followed up", run=run, resources=resources, dropped=ran.dropped, skipped=ran.is_skipped)
    for row in report.coverage if report else ():
        if row.status is not Status.OK:
            logger.error(
                "coverage incomplete", kind=row.kind, account=row.account, region=row.region, missing=row.missing, error=row.error
            )
