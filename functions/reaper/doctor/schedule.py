"""The last report: from a file, or the newest of those that the functions stored under REAPER_REPORTS. When the last sweep was."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

from reaper.doctor.check import Check, of_error, ok, to_fix, unknown
from reaper.doctor.context import DoctorContext, Opened
from reaper.doctor.stores import STORE_ADVICE, text_store
from reaper.duration import format_duration
from reaper.errors import CloudError, ReaperError, Reason, SettingsError
from reaper.ledger import opening
from reaper.report.saved import SavedReport, load_report, parse_report
from reaper.text import format_time

MAX_DAYS = 8
"""Days to look back for a report."""
MAX_REPORTS = 6
"""Reports of one day that are read. Their names say nothing about their order."""
MARGIN = timedelta(hours=2)
"""How late a sweep may be."""
MAX_PLACES = 20
"""Places whose statistics are read."""
SCHEDULE_ADVICE = "Check the schedule and the function's log. "


def open_report(context: DoctorContext, opened: Opened) -> Iterator[Check]:
    """Read the last report. What can't be read is a line; that there is none is not."""
    place = context.settings.reports
    try:
        if context.report_file:
            opened.report = load_report(Path(context.report_file))
        if place:
            opened.stored = _newest_report(place, context, opened)
            opened.report = opened.report or opened.stored
    except SettingsError as error:
        yield unknown("report", str(error), "Name another report with --report.")
    except CloudError as error:
        if error.reason is Reason.DENIED:
            because = f"the last report can't be read, which a sweep doesn't need: {error}"
            yield unknown("report", because, missing=error.missing)
        else:
            yield of_error("report", error, STORE_ADVICE)


def examine_schedule(context: DoctorContext, opened: Opened) -> Iterator[Check]:
    """Whether the last sweep is as recent as it should be, by the last stored report or the ledger's statistics, whichever is newer."""
    times = {
        "report": opened.stored.run.started_at if opened.stored else None,
        "ledger": _last_statistics(context, opened),
    }
    known = [(time, source) for source, time in times.items() if time]
    if not known:
        because = "no stored report and no statistics in the ledger say when the last sweep was"
        yield unknown("schedule", because, "Set REAPER_REPORTS or REAPER_LEDGER to the deployment's.")
        return
    started, source = max(known)
    age = context.clock() - started
    said = f"the last sweep began {format_time(started)} ({source})"
    if age > context.every + MARGIN and opened.has_unread_reports:
        yield unknown("schedule", f"{said}, or later: only {MAX_REPORTS} reports of a day are read", "Set REAPER_LEDGER.")
    elif age > context.every + MARGIN:
        because = f"{said}: {format_duration(age)} ago, and one is expected every {format_duration(context.every)}"
        yield to_fix("schedule", because, SCHEDULE_ADVICE + _sweep_advice(context))
    elif source == "report" and opened.stored and not opened.stored.is_complete:
        gaps = sum(1 for row in opened.stored.coverage if row.status != "ok")
        yield ok("schedule", f"{said}; its coverage has {gaps} gaps, which the report names")
    else:
        yield ok("schedule", said)


def _sweep_advice(context: DoctorContext) -> str:
    """How to sweep now in a way that is recorded. The command line stores no report, and in mode audit nothing in the ledger either."""
    mode = context.settings.mode
    if not mode.writes:
        return f"To sweep now, invoke the function. In mode {mode} reaper sweep records nothing."
    if not context.settings.ledger:
        return "To sweep now, invoke the function, or set REAPER_LEDGER to the deployment's: reaper sweep stores no report."
    return f"To sweep now, run reaper sweep --mode {mode}."


def _newest_report(place: str, context: DoctorContext, opened: Opened) -> SavedReport | None:
    """The newest report of the newest day that has any. Raises ReaperError."""
    if not place.startswith(("s3://", "https://")):
        return None
    store, today = text_store(place), context.clock()
    for day in (today - timedelta(days=back) for back in range(-1, MAX_DAYS)):
        addresses = store.list_texts(f"{place.rstrip('/')}/{day:%Y/%m/%d}")
        reports = [parse_report(store.read_text(address), address) for address in addresses[-MAX_REPORTS:]]
        if reports:
            opened.has_unread_reports = len(addresses) > MAX_REPORTS
            return max(reports, key=lambda report: report.run.started_at)
    return None


def _last_statistics(context: DoctorContext, opened: Opened) -> datetime | None:
    """When the last sweep began that recorded statistics; None if that isn't known."""
    if not context.settings.ledger:
        return None
    sessions = [session for some in opened.sessions.values() for session in some][:MAX_PLACES]
    try:
        ledger = opening.open_ledger(context.settings.ledger, context.environ, read_only=True)
        rows = [
            row
            for session in sessions
            for kind in context.kinds_of(session.target.cloud)
            for row in ledger.statistics(session.target, kind.name, 1)
        ]
    except ReaperError:
        return None  # `stores` says so
    return max((row.started for row in rows), default=None)
