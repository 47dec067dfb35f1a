"""The policy: that it can be read and is valid, and how it met the fleet in the last report. When the last sweep was.

The last report is a file, or the newest of those that the functions stored under REAPER_REPORTS.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

from reaper.calendars import office_hours
from reaper.doctor.check import Check, DoctorContext, advice_for, of_error, ok, to_fix, unknown
from reaper.doctor.stores import STORE_ADVICE
from reaper.duration import format_duration
from reaper.errors import CloudError, PolicyError, ReaperError, Reason, SettingsError, named_permission
from reaper.ledger import opening
from reaper.model import State
from reaper.policy.file import load_policy
from reaper.report.json import ReportDocument, load_report, parse_report
from reaper.stores.texts import open_texts
from reaper.text import count_noun, first_few, format_time, format_usd

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
