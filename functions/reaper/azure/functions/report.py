"""What follows a run: its report is stored, its figures are logged, and an audit's summary is mailed to the admins.

A step of a workflow may be repeated, also while it still runs elsewhere. The first one claims what is published; another one waits for its result.
"""

from __future__ import annotations

import json
import logging
import uuid
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from reaper.case import Coverage
from reaper.coverage import RUNS, is_skipped, own_row
from reaper.errors import CloudError, ReaperError, Reason
from reaper.finding import Report
from reaper.model import Status
from reaper.report.figures import swept_facts
from reaper.report.json import report_json
from reaper.report.summary import has_news
from reaper.workflow.store import FIGURES, SUMMARY, RunStore

if TYPE_CHECKING:
    from reaper.workflow.stored_run import WorkflowContext

PUBLISHING, PUBLISHED = "publishing.json", "published.json"
"""Texts in the store of the run: the claim of the first one to publish, and what was published."""
WAIT_S, WAITS = 5.0, 12
"""Seconds between two looks at another process's result, and how many there are."""
FOLDER = "notes/"
"""Where the store of a run has notes about what happened outside it: a start that was skipped, a run that was ended."""
log = logging.getLogger("reaper")


def publish(report: Report, context: WorkflowContext, *, scheduled: bool) -> dict[str, Any]:
    """Store the report, log its figures and mail an audit's summary. Raises CloudError if the store of the run fails."""
    is_first = context.store.create(PUBLISHING, uuid.uuid4().hex)
    if not is_first and (earlier := wait_for_result(context)):
        return earlier
    stored, unstored, reports = None, None, context.settings.reports
    if reports:
        from reaper.azure.stores import texts

        text = json.dumps(report_json(report), allow_nan=False)
        try:
            stored = texts.write_report(reports, report.run.id, report.run.started_at, text)
        except ReaperError as error:
            log_event(logging.ERROR, "report not stored", error=str(error))
            unstored = error
    if context.store.create(FIGURES, ""):
        log_metrics(report, stored)
    unsent = _send_summary_mail(context, report, stored)
    troubles = [str(trouble) for trouble in (unsent, unstored) if trouble]
    status = "skipped" if is_skipped(report.coverage) else "concluded"
    result = {"run": report.run.id, "status": status, "stored": stored, "troubles": troubles}
    context.store.write(PUBLISHED, json.dumps(result))
    if scheduled and not troubles:
        # An alert of infra/modules/alerts.bicep fires if this line is missing: host.json keeps calls that succeed out of AppRequests.
        log_event(logging.INFO, "scheduled sweep succeeded", run=report.run.id)
    return result


def published(store: RunStore) -> dict[str, Any] | None:
    """What was published of the run in that store; None if nothing was. Raises CloudError, also if it can't be understood."""
    text = store.read(PUBLISHED)
    return None if text is None else parse_object(text, PUBLISHED)


def parse_object(text: str, name: str) -> dict[str, Any]:
    """The JSON object in the stored text of that name. Raises CloudError."""
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CloudError(Reason.UNREADABLE, "report", f"{name} is damaged: {error}") from error
    if not isinstance(values, dict):
        raise CloudError(Reason.UNREADABLE, "report", f"{name} is damaged: it is no JSON object")
    return values


def wait_for_result(context: WorkflowContext) -> dict[str, Any] | None:
    """What another process published; None if it seems to be gone."""
    for _ in range(WAITS):
        if result := published(context.store):
            return result
        context.wait(WAIT_S)
    return None


def _send_summary_mail(context: WorkflowContext, report: Report, stored: str | None) -> ReaperError | None:
    """Send an audit's summary if there is one to send. Returns why it was not accepted."""
    settings = context.settings
    if report.run.mode.writes or not settings.email or (settings.quiet and not has_news(report)):
        return None
    if context.store.read(SUMMARY) is not None:
        return None  # by a process that died before it could say so
    from reaper.notices.channels.delivery import mail_channel
    from reaper.notices.summary_mail import send_audit_summary  # imports Azure's SDK, which would slow every cold start
    from reaper.policy.file import load_policy

    try:
        owners = load_policy(settings.policy).policy.owners
        channel = mail_channel(settings.email.endpoint, settings.email.sender, settings.email.to)
        receipt = send_audit_summary(report, owners, channel, stored, context.clock)
        log_event(logging.INFO, "summary sent", mail=receipt)
        context.store.create(SUMMARY, receipt)
    except ReaperError as error:
        log_event(logging.ERROR, "summary not sent", error=str(error))
        return error
    return None


def log_metrics(report: Report, stored: str | None) -> None:
    """The figures of the sweep as one line of JSON, under the names they have on AWS, and a line for each gap.

    In Application Insights: traces | extend m = parse_json(message) | where m.event == "swept" | project timestamp, todouble(m.IdleUSDPerHour)
    """
    on_hold = report.actions.on_hold
    log_event(logging.INFO, "swept", **swept_facts(report, stored))
    for row in report.coverage:
        is_skipped_start = row.is_own and (row.kind, row.status) == (RUNS, Status.PARTIAL)  # one is no reason for an alert
        if row.status is not Status.OK and not is_skipped_start:
            details = {"kind": row.kind, "subscription": row.account, "status": row.status}
            log_event(logging.ERROR, "coverage incomplete", **details, missing=row.missing, error=row.error)
    if on_hold and report.run.mode.announces:
        log_event(logging.ERROR, "acts held", run=report.run.id, held=len(on_hold), because=on_hold[0].step.because)


def log_event(level: int, event: str, **facts: Any) -> None:
    log.log(level, "%s", json.dumps({"event": event, **facts}, default=str))


def write_note(store: RunStore, status: Status, because: str, now: datetime) -> None:
    """Leave a note for the report of the run in that store. Raises CloudError."""
    store.create(f"{FOLDER}{now.astimezone(UTC):%Y%m%dT%H%M%S%f}.json", json.dumps({"status": status, "because": because}))


def with_notes(report: Report, store: RunStore) -> Report:
    """The report, with a row for each note. What can't be read of them is a row too: it mustn't cost the report."""
    try:
        rows = [_noted_row(name, store) for name in store.names(FOLDER)]
    except CloudError as error:
        rows = [own_row(RUNS, f"notes about this run can't be read: {error}", status=Status.FAILED)]
    return replace(report, coverage=(*report.coverage, *rows))


def _noted_row(name: str, store: RunStore) -> Coverage:
    try:
        note = json.loads(store.read(name) or "")
        return own_row(RUNS, str(note["because"]), status=Status(note["status"]))
    except (CloudError, ValueError, LookupError, TypeError) as error:
        return own_row(RUNS, f"a note about this run can't be read: {error!r}", status=Status.FAILED)
