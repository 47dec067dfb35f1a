"""Sends the admins' summary of a run, if it says anything that the last one didn't, and remembers what it said."""

from __future__ import annotations

from dataclasses import replace

from reaper.case import Coverage, Report
from reaper.errors import ReaperError
from reaper.ledger.port import NamedRow
from reaper.ledger.stored_text import sortable_time
from reaper.ledger.update import update_row
from reaper.notices import admin_summary, last_summary
from reaper.notices.admin_summary import HeldSince
from reaper.notices.channels import delivery
from reaper.notices.item import NoticeContext
from reaper.notices.round import NoticeRound
from reaper.notices.sending import channel_failures

SUMMARY_ROW = "summary"
"""The row of the ledger with the topics of the last summary."""
RUN_COLUMN, STARTED_COLUMN = "run", "started"


def send_admin_summary(report: Report, notices: NoticeContext, mails: NoticeRound) -> Report:
    """The report, with a row for each channel that refused the summary. A run's summary is sent once, and none after a newer run's."""
    try:
        last = mails.ledger.read_row(SUMMARY_ROW)
    except ReaperError as error:
        mails.note_ledger_failure(error)
        return replace(report, coverage=(*report.coverage, *_rows_since(report, mails)))
    if _is_sent_or_older(report, last):
        return report
    held_since = _held_since(mails)
    failures = {f"trouble:{row.kind}" for row in mails.rows}
    exact = failures | admin_summary.urgent_topics(report, held_since)
    topics = failures | admin_summary.topics(report, held_since)
    known = last_summary.known_topics(exact, topics - exact, last.values) if last.version else None
    new_failures = [f"{row.kind}: {row.error}" for row in mails.rows if f"trouble:{row.kind}" not in (known or ())]
    message = admin_summary.admin_summary(report, notices, known, new_failures, held_since)
    deliveries = delivery.deliver_all([message], mails.context.channels) if message else []
    rows = channel_failures(deliveries)
    if any(sent.receipt for sent in deliveries):
        row = {**last_summary.topics_row(exact, topics - exact), **_run_columns(report)}
        mails.attempt(lambda: update_row(mails.ledger, SUMMARY_ROW, lambda _: row, mails.now))
    return replace(report, coverage=(*report.coverage, *rows, *_rows_since(report, mails)))


def _rows_since(report: Report, mails: NoticeRound) -> list[Coverage]:
    """The rows that came while the summary was sent."""
    return [row for row in mails.rows if row not in report.coverage]


def _run_columns(report: Report) -> dict[str, str]:
    return {RUN_COLUMN: report.run.id, STARTED_COLUMN: sortable_time(report.run.started_at)}


def _is_sent_or_older(report: Report, last: NamedRow) -> bool:
    """Whether the last summary is this very run's, or that of a run that started later."""
    columns = _run_columns(report)
    started = last.values.get(STARTED_COLUMN, "")
    return last.values.get(RUN_COLUMN) == columns[RUN_COLUMN] or columns[STARTED_COLUMN] < started


def _held_since(mails: NoticeRound) -> HeldSince:
    return {resource_id: d.on_hold_since for resource_id, d in mails.decisions.items() if d.on_hold_since}
