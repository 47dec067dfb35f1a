"""`reaper policy`: check a policy, or print the JSON Schema of policy files."""

from __future__ import annotations

import json
import os
import re
import sys
from datetime import timedelta
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Annotated

import typer

from reaper import registry, settings
from reaper.cli.options import current_time
from reaper.cli.output import print_warning
from reaper.errors import SettingsError
from reaper.policy.file import load_policy
from reaper.text import count_noun

if TYPE_CHECKING:
    from reaper.calendars.office_hours import Hours

app = typer.Typer(no_args_is_help=True, help="Check a policy file, or print its JSON Schema.")


@app.command("check")
def check_policy(
    where: Annotated[str | None, typer.Argument(help="Policy to check. Default: REAPER_POLICY", metavar="FILE|URI")] = None,
    schedule: Annotated[
        str | None, typer.Option(help="Schedule of the sweeps, to compare with notices.send", metavar="CRON")
    ] = None,
    schedule_timezone: Annotated[str, typer.Option(help="IANA time zone of that schedule", metavar="ZONE")] = "UTC",
) -> None:
    """Validate a policy and warn about rules that never match and other mistakes. Reads its calendars."""
    from reaper.calendars.resolve import next_entries, with_calendars
    from reaper.policy import accepted, lint

    source, now = load_policy(settings.from_env(os.environ).policy if where is None else where), current_time()
    accepted.require_near_ends(source, now)
    if schedule and (hours := source.policy.send_hours):
        _require_sweep(schedule, schedule_timezone, hours)
    policy = with_calendars(source.policy, source.where, now)
    warnings = lint.lint_policy(policy, source.text, source.name, now)
    for warning in warnings:
        print_warning(warning)
    rules = count_noun(len(source.policy.rules), "rule")
    sys.stdout.write(f"{source.name}: valid: {rules}, {count_noun(len(warnings), 'warning')}\n")
    for calendar in policy.resolved.values():
        coming = "can't be relied on" if calendar.unreadable_because else next_entries(calendar, now)
        sys.stdout.write(f"Calendar {calendar.name}: {coming}\n")
    if canary := source.policy.enforce_only:
        sys.stdout.write(f"Only {canary.description} can be stopped, deleted or started. Everything else gets notices.\n")


def _require_sweep(schedule: str, zone: str, hours: Hours) -> None:
    """Raises SettingsError unless a sweep of the next month begins within the hours. EventBridge counts weekdays from 1 and adds a year."""
    from cronsim import CronSim, CronSimError

    from reaper.calendars import office_hours

    now, cron = current_time(), schedule
    rate = re.fullmatch(r"rate\((\d+) (minute|hour)s?\)", schedule)
    if rate and int(rate[1]) * timedelta(**{f"{rate[2]}s": 1}) <= timedelta(minutes=hours.end - hours.start):
        return  # however it is timed, a sweep begins within each opening
    if aws := re.fullmatch(r"cron\((\S+ \S+ \S+ \S+) (\S+) \*\)", schedule):
        weekdays = re.sub(r"(?<![#/])\d", lambda day: str(int(day[0]) - 1), aws[2])
        cron = f"{aws[1]} {weekdays}".replace("?", "*")
    try:
        sweeps = CronSim(cron, now.astimezone(office_hours.time_zone(zone)))
    except (CronSimError, ValueError) as error:
        expected = "expected times of day, such as cron(0 7 * * ? *), and a time zone"
        raise SettingsError(f"--schedule {schedule!r} in {zone}: {error}; {expected}") from error
    soon = takewhile(lambda sweep: sweep < now + timedelta(days=32), sweeps)
    if not any(office_hours.is_open(hours, sweep) for sweep in islice(soon, 50_000)):
        sent = f"{office_hours.hours_text(hours)} {hours.tz}"
        raise SettingsError(f"--schedule {schedule!r} in {zone}: no sweep begins within notices.send, {sent}; change one of them")


@app.command("schema")
def print_schema() -> None:
    """Print the JSON Schema of policy files, for editors."""
    from reaper.policy import schema

    sys.stdout.write(json.dumps(schema.policy_schema(registry.kind_names()), indent=2) + "\n")
