"""Ledger, manifests, reports and runs, read in places that nothing uses: the right to write there is looked up, and nothing is written. The policy: that
it can be read and is valid, and how it met the fleet in the last report. When the last sweep was.

The last report is a file, or the newest of those that the functions stored under REAPER_REPORTS.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from shlex import quote

from reaper.calendars import office_hours
from reaper.doctor.check import (
    Check,
    CheckStatus,
    DoctorContext,
    advice_for,
    doctor_of,
    of_error,
    ok,
    rights_checks,
    to_fix,
    unknown,
)
from reaper.duration import format_duration
from reaper.errors import CloudError, PolicyError, ReaperError, Reason, SettingsError, named_permission
from reaper.ledger import opening, sqlite
from reaper.model import State, Target
from reaper.pending.stop_switch import paused_because, read_pause
from reaper.policy.file import load_policy
from reaper.report.json import ReportDocument, load_report, parse_report
from reaper.settings import require_kept_memory
from reaper.stores.texts import TextStore, cloud_of, open_texts
from reaper.text import count_noun, first_few, format_time, format_usd

MARKER = "doctor"
NO_PLACE = Target(cloud="doctor", account="doctor")
"""A resource and a place that no ledger has."""
LEDGER_ADVICE = "Set REAPER_LEDGER to sqlite:///path, dynamodb://table or table://account/table of an existing table."
STORE_ADVICE = "Check the address, and whether this identity may write there."


def examine_ledger(context: DoctorContext) -> Iterator[Check]:
    """In audit mode read the ledger if one is named; else read it as a sweep does, and look up whether it can be written."""
    settings, now = context.settings, context.clock()
    if not settings.mode.writes and not settings.ledger:
        yield ok("ledger", "mode audit needs none, and REAPER_LEDGER isn't set")
        return
    address = settings.ledger or opening.default_address(context.environ)
    file = None
    try:
        require_kept_memory(settings)
        if address.startswith("sqlite:"):
            file = sqlite.file_path(address.removeprefix("sqlite:").removeprefix("//"))
        opening.require_existing(address)
        ledger = opening.open_ledger(address, context.environ, read_only=True)
    except ReaperError as error:
        line = f"mkdir -p {quote(str(file.parent))} && touch {quote(str(file))}" if file and not file.exists() else None
        yield of_error("ledger", error, line or advice_for(error, address, LEDGER_ADVICE))
        return
    reads = (
        lambda: opening.require_known_format(ledger),
        lambda: ledger.recall([MARKER], now),
        lambda: ledger.recall_target(NO_PLACE, now),
    )
    failed = _failures("ledger", address, LEDGER_ADVICE, reads)
    own = "" if settings.ledger else " (your own: REAPER_LEDGER is not set)"
    if not settings.mode.writes:
        yield from failed or [ok("ledger", f"{address} can be read")]
    elif file:
        closed = [path for path in (file, file.parent) if not os.access(path, os.W_OK)]
        advice = [to_fix("ledger", f"{path} can't be written by this user", f"Let this user write to {path}.") for path in closed]
        yield from failed or advice or [ok("ledger", f"{address} can be written and read{own}")]
    else:
        yield from _with_writing("ledger", address, failed)


def _failures(name: str, address: str, otherwise: str, reads: Iterable[Callable[[], object]]) -> list[Check]:
    """A line for each of these reads that fails for a reason of its own. Nothing more is read of what can't be reached."""
    failed: dict[str, Check] = {}
    for read in reads:
        try:
            read()
        except ReaperError as error:
            check = of_error(name, error, advice_for(error, address, otherwise))
            failed.setdefault(check.missing or check.because, check)
            if isinstance(error, CloudError) and error.reason is Reason.UNREACHABLE:
                break
    return list(failed.values())


def _with_writing(name: str, address: str, failed: list[Check]) -> list[Check]:
    """What failed, and what the cloud says of the right to write there, unless there is no such place."""
    if all(check.missing for check in failed):
        cloud = "aws" if address.startswith(("s3:", "dynamodb:")) else "azure"
        try:
            rights = doctor_of(cloud).writing_rights(address)
        except ReaperError as error:
            return [*failed, of_error(name, error, advice_for(error, address, STORE_ADVICE))]
        failed += rights_checks(name, [right for right in rights if right.status is not CheckStatus.OK], "writing")
    return failed or [ok(name, f"{address.rstrip('/')} can be written and read")]


def examine_pause(context: DoctorContext) -> Iterator[Check]:
    """Whether the stop switch is on. Below mode enforce nothing acts, but `apply` respects it in every mode."""
    settings = context.settings
    if not settings.ledger:
        return
    try:
        ledger = opening.open_ledger(settings.ledger, context.environ, read_only=True)
    except ReaperError:
        return  # `examine_ledger` says so
    pause = read_pause(ledger, context.clock())
    if pause is None:
        yield ok("pause", "the stop switch is off")
    elif pause.unreadable_because:
        repair = "Repair the ledger first, then set the switch with reaper pause or reaper resume."
        yield to_fix("pause", paused_because(pause), repair)
    elif settings.mode.announces:
        yield to_fix("pause", f"{paused_because(pause)}, so nothing is stopped, deleted or started", "reaper resume")
    else:
        yield ok("pause", paused_because(pause))


def examine_manifests(context: DoctorContext) -> Iterator[Check]:
    """Mode enforce stores a manifest before each action, and each run lists the newest; restore and undo read it."""
    settings, undo = context.settings, context.includes_undo
    if settings.mode.acts or (undo and settings.manifests):
        own = settings.manifests or str(Path(opening.default_address(context.environ).removeprefix("sqlite://")).parent)
        yield from _store_checks("manifests", own, must_read=undo, must_list=settings.mode.acts)
    else:
        yield ok("manifests", f"mode {settings.mode} stores none")


def examine_reports(context: DoctorContext) -> Iterator[Check]:
    """The functions store every report."""
    if place := context.settings.reports:
        yield from _store_checks("reports", place)
    else:
        yield ok("reports", "REAPER_REPORTS isn't set; the command line has --output instead")


def examine_runs(context: DoctorContext) -> Iterator[Check]:
    """What the steps of a workflow hand over is written and read, if there is a workflow."""
    if place := context.settings.runs:
        yield from _store_checks("runs", place, must_read=True)


def _store_checks(name: str, place: str, *, must_read: bool = False, must_list: bool = False) -> list[Check]:
    """What a sweep, or with --undo a person, does there."""
    if not cloud_of(place):
        return [folder_check(name, place)]
    shown = place.partition("?")[0].rstrip("/")
    try:
        store = open_texts(place, f"{place} needs")
    except ReaperError as error:
        return [of_error(name, error, STORE_ADVICE)]
    reads: list[Callable[[], object]] = [partial(store.list_texts, f"{shown}/{MARKER}")] if must_list else []
    reads += [partial(_read_nothing, store, f"{shown}/{MARKER}/none.json")] if must_read else []
    return _with_writing(name, f"{shown}/", _failures(name, f"{shown}/", STORE_ADVICE, reads))


def _read_nothing(store: TextStore, address: str) -> None:
    """Read an object that doesn't exist. To an identity that may read, but not list, S3 refuses that as a list. Raises CloudError."""
    try:
        store.read_text(address)
    except CloudError as error:
        if error.code not in store.MISSING_CODES and error.missing != "s3:ListBucket":
            raise


def folder_check(name: str, place: str) -> Check:
    """Whether this user may write to the folder or, if that doesn't exist yet, to the nearest one above it."""
    try:
        nearest = next(path for path in (Path(place), *Path(place).absolute().parents) if path.exists())
        if nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK):
            return ok(name, f"{place} can be written")
    except (OSError, ValueError) as error:
        return to_fix(name, f"{place} can't be written: {error}", "Correct the path.")
    because = f"{place} can't be written: {nearest} isn't a folder that this user may write to"
    return to_fix(name, because, f"Let this user write to {nearest}.")


CHECK_LINE = "reaper policy check"
POLICY_ADVICE = "Correct the policy; `{}` shows every problem."
CALENDAR_ADVICE = "Correct it: `{}` reads it again. Until then its freezes hold, and its days off are working days."
ACCEPT_ADVICE = "Take it out of `accept` in the policy, or write a later day in its `until`."
ACCESS_ADVICE = "Check REAPER_POLICY, and whether this identity may read it."
REPORT_LINES = ("reaper sweep --output report.json", "reaper doctor --report report.json")
RULES_ADVICE = "If they should, compare their names, tags and globs with `{}`."
OWNERS_ADVICE = "Set owners.fallback in the policy, or give these resources the tag reaper:owner."
SENDING_ADVICE = "Sweep within these hours, or change notices.send in the policy."
SENDING_UNKNOWN = "Set REAPER_LEDGER to the deployment's, or ask again after a few days of sweeps."
MAX_DAYS = 8
"""Days to look back for a report."""
MAX_REPORTS = 6
"""Reports of one day that are read. Their names say nothing about their order."""
MARGIN = timedelta(hours=2)
"""How late a sweep may be."""
USD_PER_METRIC = 0.01 / 1000
MAX_PLACES = 20
"""Places whose statistics are read."""


def open_policy(context: DoctorContext) -> Iterator[Check]:
    """Read and validate the policy, for this subject and others."""
    from reaper.policy import accepted, lint

    where = context.settings.policy
    try:
        context.opened.policy = source = load_policy(where)
        accepted.require_near_ends(source, context.clock())
    except PolicyError as error:
        more = f" (and {len(error.problems) - 1} more)" if len(error.problems) > 1 else ""
        yield to_fix("policy", f"{error.problems[0]}{more}", POLICY_ADVICE.format(context.with_policy(CHECK_LINE, "")))
        return
    except ReaperError as error:
        yield of_error("policy", error, advice_for(error, where or "", ACCESS_ADVICE))
        return
    warnings = lint.lint_policy(source.policy, source.text, source.name, context.clock())
    hint = f", {count_noun(len(warnings), 'warning')}: `{context.with_policy(CHECK_LINE, '')}` shows them" if warnings else ""
    yield ok("policy", f"{source.name} is valid: {count_noun(len(source.policy.rules), 'rule')}{hint}")
    if over := [note for _, note in accepted.expiry_notes(source.policy, context.clock(), timedelta())]:
        more_over = f" {len(over) - 1} more {'is' if len(over) == 2 else 'are'} over." if over[1:] else ""
        yield to_fix("policy.accept", f"{over[0]}{more_over}", ACCEPT_ADVICE)


def examine_calendars(context: DoctorContext) -> Iterator[Check]:
    """Each calendar of the policy: its next entries, or why it can't be relied on."""
    if not context.opened.policy or not context.opened.policy.policy.calendars:
        return
    from reaper.calendars import resolve

    now, source = context.clock(), context.opened.policy
    policy = resolve.with_calendars(source.policy, source.where, now)
    problems = resolve.unreadable_texts(policy)
    for name, calendar in policy.resolved.items():
        check, spec = f"calendar.{name}", policy.calendars[name]
        if because := problems.get(name):
            address = (spec.ics or spec.change_calendar or "").partition("?")[0]
            advice = advice_for(SettingsError(because), address, CALENDAR_ADVICE.format(context.with_policy(CHECK_LINE, "")))
            yield to_fix(check, because, advice, named_permission(because))
        else:
            yield ok(check, f"its next entries: {resolve.next_entries(calendar, now)}")


def examine_rules(context: DoctorContext) -> Iterator[Check]:
    """The rules that matched nothing in the last report: misspelled, or nothing of theirs is there."""
    report, source = context.opened.report, context.opened.policy
    if not source or not source.policy.rules:
        return
    if report is None or report.run.policy_sha256 != source.sha256:
        because = "the last report isn't known" if report is None else "the last report was made under another policy"
        yield unknown(
            "policy.rules",
            f"{because}, so it doesn't say which rules match anything",
            "; ".join(map(context.with_policy, REPORT_LINES)),
        )
        return
    used = {finding.rule for finding in report.findings}
    idle = [spec.name for spec in source.policy.rules if not any(repr(spec.name) in text for text in used)]
    if idle:
        because = (
            f"{count_noun(len(idle), 'rule')} matched nothing in the last report: {first_few([repr(name) for name in idle])}"
        )
        yield unknown("policy.rules", because, RULES_ADVICE.format(context.with_policy("reaper sweep --format csv")))
    else:
        yield ok("policy.rules", "every rule matched something in the last report")


def examine_owners(context: DoctorContext) -> Iterator[Check]:
    """The idle resources of the last report without an address to notify."""
    if context.opened.report is None:
        return
    idle = [finding for finding in context.opened.report.findings if finding.state == State.IDLE]
    without = [finding.name for finding in idle if not finding.owner.address]
    count = count_noun(len(idle), "idle resource")
    because = f"{len(without)} of {count} have no owner's address: {first_few(without)}"
    if not without:
        yield ok("owners", f"every one of {count} has an owner's address")
    elif context.settings.mode.writes:
        yield to_fix("owners", because, OWNERS_ADVICE)
    else:
        yield ok("owners", f"{because}. That matters above mode audit")


def open_report(context: DoctorContext) -> Iterator[Check]:
    """Read the last report. What can't be read is a line; that there is none is not."""
    place = context.settings.reports or ""
    try:
        if context.report_file:
            context.opened.report = load_report(Path(context.report_file))
        if place.startswith(("s3://", "https://")):
            context.opened.stored = _newest_report(place, context)
            context.opened.report = context.opened.report or context.opened.stored
    except SettingsError as error:
        yield unknown("report", str(error), "Name another report with --report.")
    except CloudError as error:
        if error.reason is Reason.DENIED:
            because = f"the last report can't be read, which a sweep doesn't need: {error}"
            yield unknown("report", because, missing=error.missing)
        else:
            yield of_error("report", error, STORE_ADVICE)


def _newest_report(place: str, context: DoctorContext) -> ReportDocument | None:
    """The newest report of the newest day that has any. Raises ReaperError."""
    store, today = open_texts(place, f"{place} needs"), context.clock()
    for day in (today - timedelta(days=back) for back in range(-1, MAX_DAYS)):
        addresses = store.list_texts(f"{place.rstrip('/')}/{day:%Y/%m/%d}")
        if reports := [parse_report(store.read_text(address), address) for address in addresses[-MAX_REPORTS:]]:
            context.opened.has_unread_reports = len(addresses) > MAX_REPORTS
            return max(reports, key=lambda report: report.run.started_at)
    return None


def examine_schedule(context: DoctorContext) -> Iterator[Check]:
    """Whether the last sweep is as recent as it should be, by the last stored report or the ledger's statistics, whichever is newer."""
    known = [(context.opened.stored.run.started_at, "report")] if context.opened.stored else []
    if in_ledger := max(_statistics(context, 1), default=None):
        known.append((in_ledger, "ledger"))
    if not known:
        because = "no stored report and no statistics in the ledger say when the last sweep was"
        yield unknown("schedule", because, "Set REAPER_REPORTS or REAPER_LEDGER to the deployment's.")
        return
    started, source = max(known)
    age = context.clock() - started
    said = f"the last sweep began {format_time(started)} ({source})"
    if age > context.every + MARGIN and context.opened.has_unread_reports:
        yield unknown("schedule", f"{said}, or later: only {MAX_REPORTS} reports of a day are read", "Set REAPER_LEDGER.")
    elif age > context.every + MARGIN:
        because = f"{said}: {format_duration(age)} ago, and one is expected every {re.sub(r'^1 (?=[a-z]+$)', '', format_duration(context.every))}"
        yield to_fix("schedule", because, f"Check the schedule and the function's log. {_sweep_advice(context)}")
    elif source == "report" and context.opened.stored and not context.opened.stored.is_complete:
        gaps = sum(row.status != "ok" for row in context.opened.stored.coverage)
        yield ok("schedule", f"{said}; its coverage has {gaps} gaps, which the report names")
    else:
        yield ok("schedule", said)


def examine_sending(context: DoctorContext) -> Iterator[Check]:
    """Whether any sweep of the last week began while notices are sent, by the ledger's statistics. Otherwise no owner gets a notice."""
    hours, now = context.opened.policy.policy.send_hours if context.opened.policy else None, context.clock()
    if hours is None:
        return
    began = [started for started in _statistics(context, 24 * 7) if started > now - timedelta(days=7)]
    sent = f"notices are sent {office_hours.hours_text(hours)} {hours.tz}"
    if any(office_hours.is_open(hours, started) for started in began):
        yield ok("notices", f"{sent}, and a sweep of the last week began then")
    elif began and (opens := office_hours.next_open(hours, min(began))) and opens < max(began):
        yield to_fix("notices", f"{sent}, and no sweep of the last week began then, so no owner gets a notice", SENDING_ADVICE)
    else:
        yield unknown("notices", f"{sent}, and the ledger doesn't say whether a sweep begins then", SENDING_UNKNOWN)


def examine_cost(context: DoctorContext) -> Iterator[Check]:
    """What CloudWatch bills for metrics at this schedule, by the last stored report. Its price: https://aws.amazon.com/cloudwatch/pricing/"""
    if context.opened.stored is None or not (requested := context.opened.stored.run.cost.metrics_requested):
        return
    sweeps = timedelta(days=30) / context.every
    usd = requested * sweeps * USD_PER_METRIC
    said = f"the last sweep requested {count_noun(requested, 'metric')}; about {sweeps:,.0f} sweeps a month like it cost {format_usd(usd)} at list price"
    yield ok("cost", f"{said}. docs/costs.md has the whole bill")


def _sweep_advice(context: DoctorContext) -> str:
    """How to sweep now in a way that is recorded. The command line stores no report, and in mode audit nothing in the ledger either."""
    mode = context.settings.mode
    if not mode.writes:
        return f"To sweep now, invoke the function. In mode {mode} reaper sweep records nothing."
    if not context.settings.ledger:
        return "To sweep now, invoke the function, or set REAPER_LEDGER to the deployment's: reaper sweep stores no report."
    return f"To sweep now, run {context.with_policy(f'reaper sweep --mode {mode}')}."


def _statistics(context: DoctorContext, limit: int) -> list[datetime]:
    """When the last `limit` sweeps of each place and kind began that recorded statistics."""
    if not context.settings.ledger:
        return []
    sessions = [session for some in context.opened.sessions.values() for session in some][:MAX_PLACES]
    try:
        ledger = opening.open_ledger(context.settings.ledger, context.environ, read_only=True)
        return [
            row.started
            for session in sessions
            for kind in context.kinds_of(session.target.cloud)
            for row in ledger.statistics(session.target, kind.name, limit)
        ]
    except ReaperError:
        return []  # `stores` says so
