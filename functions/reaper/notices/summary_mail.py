"""Sends the admins' summary of a run, if it says anything that the last one didn't, and remembers what it said."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

from reaper.case import Coverage, Report
from reaper.coverage import OWN
from reaper.errors import ReaperError
from reaper.idle_period import MAX_CLOCK_SKEW
from reaper.ledger.port import NamedRow
from reaper.ledger.stored_text import sortable_time
from reaper.ledger.update import update_row
from reaper.model import ACTIONS, Result
from reaper.notices import admin_summary, last_summary
from reaper.notices.admin_summary import OnHold
from reaper.notices.channels import delivery
from reaper.notices.item import NoticeContext
from reaper.notices.round import NoticeRound
from reaper.notices.sending import channel_failures

SUMMARY_ROW = "summary"
"""The row of the ledger with the topics of the last summary."""
RUN_COLUMN, STARTED_COLUMN, PLACES_COLUMN = "run", "started", "places"
"""The run that sent it, when that run started, and a digest of the targets and kinds that it covered."""


def send_admin_summary(report: Report, notices: NoticeContext, mails: NoticeRound) -> Report:
    """The report, with a row for each channel that refused the summary.

    A run's summary is sent once. One without actions is not sent after that of a newer run of the same places.
    """
    try:
        last = mails.ledger.read_row(SUMMARY_ROW)
    except ReaperError as error:
        mails.note_ledger_failure(error)
        return replace(report, coverage=(*report.coverage, *_rows_since(report, mails)))
    on_hold = _on_hold(mails)
    failures = {f"trouble:{row.kind}" for row in mails.rows}
    exact = failures | admin_summary.urgent_topics(report, on_hold)
    if _is_sent(report, last) or (_is_older(report, last, mails) and not _has_actions(report)):
        return report
    topics = failures | admin_summary.topics(report, on_hold)
    known = last_summary.known_topics(exact, topics - exact, last.values) if last.version else None
    new_failures = [f"{row.kind}: {row.error}" for row in mails.rows if f"trouble:{row.kind}" not in (known or ())]
    message = admin_summary.admin_summary(report, notices, known, new_failures, on_hold)
    if message:
        mails.context.before_message()
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
    return {
        RUN_COLUMN: report.run.id,
        STARTED_COLUMN: sortable_time(report.run.started_at),
        PLACES_COLUMN: _places_digest(report),
    }


def _places_digest(report: Report) -> str:
    places = sorted({f"{row.cloud} {row.account} {row.region} {row.kind}" for row in report.coverage if row.cloud != OWN})
    return sha256("\n".join(places).encode()).hexdigest()[:16]


def _is_sent(report: Report, last: NamedRow) -> bool:
    """Whether the last summary is this very run's."""
    return last.values.get(RUN_COLUMN) == report.run.id


def _has_actions(report: Report) -> bool:
    """Whether the run carried out an action, or tried to."""
    return any(f.step.name in ACTIONS and f.outcome.result is not Result.PLANNED for f in report.findings)


def _is_older(report: Report, last: NamedRow, mails: NoticeRound) -> bool:
    """Whether the last summary is that of a run of the same places that started later, and not by a wrong clock."""
    columns, latest = _run_columns(report), sortable_time(mails.context.clock() + MAX_CLOCK_SKEW)
    started = last.values.get(STARTED_COLUMN, "")
    return last.values.get(PLACES_COLUMN) == columns[PLACES_COLUMN] and columns[STARTED_COLUMN] < started <= latest


def _on_hold(mails: NoticeRound) -> OnHold:
    since = {resource_id: d.on_hold_since for resource_id, d in mails.decisions.items() if d.on_hold_since}
    return OnHold(since=since, jumps=mails.jumps)
