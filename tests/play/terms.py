"""The play's policy, and what it means in the plainest words: what the oracle takes for granted about each resource by its name."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
ADMINS = "ml-admins@example.com"
ZONE = ZoneInfo("Europe/Berlin")
OPENS, CLOSES = 8, 18
OVERRIDE = 4 * HOUR
REMIND = 3 * DAY
LOOKBACK = 3 * DAY
RANK = {"ignore": 0, "notify": 1, "stop": 2, "delete": 3}

POLICY = """\
version: 1
defaults: {{action: stop, idle_after: 12h, grace: 1d, remind_every: 3d, lookback: 3d}}
limits: {{max_acts: {acts}, max_share: {share:.0%}, max_jump: 25%, max_usd_per_hour: {usd}, max_scheduled: {scheduled}, run: {{max_acts: {run_acts}, max_share: 100%}}}}
owners: {{tags: [owner], domains: [example.com], fallback: ml-admins@example.com}}
channels:
  - {{type: slack, secret: env:REAPER_SECRET_ROOM, for: [owners, admins]}}
  - {{type: smtp, host: 127.0.0.1, port: {port}, tls: none, from: reaper@example.com}}
rules:
  - name: production is left alone
    match: {{name: "prod-*"}}
    action: ignore
  - name: watched only
    match: {{name: "watch-*"}}
    action: notify
  - name: may be deleted
    match: {{name: "legacy-*"}}
    action: delete
  - name: sooner
    match: {{name: "quick-*"}}
    idle_after: 3h
    grace: 6h
  - name: told sooner
    match: {{name: "early-*"}}
    idle_after: 3h
    grace: 4d
  - name: office hours
    match: {{name: "desk-*"}}
    hours: {{on: "mon-fri 08:00-18:00", tz: Europe/Berlin, start: ours}}
  - name: office hours, busy or not
    match: {{name: "strict-*"}}
    hours: {{on: "mon-fri 08:00-18:00", tz: Europe/Berlin, start: ours, force: true}}
  - name: office hours, all of them started
    match: {{name: "all-*"}}
    hours: {{on: "mon-fri 08:00-18:00", tz: Europe/Berlin, start: all}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """The limits of one run in each account, and `run_acts` over all of them, as the policy names them."""

    acts: int = 5
    share: float = 0.5
    usd: float = 150.0
    scheduled: int = 200
    run_acts: int = 8


CAPS = {"": Caps(), "few": Caps(acts=1, scheduled=1), "cheap": Caps(usd=1.0)}
"""What a day's policy file says of them, by name."""


ACCEPTED = ("quick", "legacy")
"""What people accept now and then, by the start of its name."""
ACCEPTANCE = """\
accept:
  - {{match: {{name: "quick-*"}}, until: {until}, reason: a demo, by: Lee}}
  - {{match: {{name: "legacy-*"}}, until: {until}, reason: a demo, by: Lee}}
"""
CANARY = "enforce_only: {tags: {canary: here}}\n"
"""Leaves everything out."""


def policy(port: int, caps: Caps, accepted: date | None = None, *, canary: bool = False) -> str:
    """The policy file, for the mail server at that port. `accepted`: the last day of the acceptance."""
    more = ACCEPTANCE.format(until=accepted) if accepted else ""
    text = POLICY.format(
        port=port, acts=caps.acts, share=caps.share, usd=caps.usd, scheduled=caps.scheduled, run_acts=caps.run_acts
    )
    return text + more + (CANARY if canary else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What the policy says of one resource."""

    action: str = "stop"
    idle_after: timedelta = 12 * HOUR
    grace: timedelta = DAY
    hours: bool = False
    force: bool = False
    all: bool = False


TERMS = {
    "prod": Terms(action="ignore"),
    "watch": Terms(action="notify"),
    "legacy": Terms(action="delete"),
    "quick": Terms(idle_after=3 * HOUR, grace=6 * HOUR),
    "early": Terms(idle_after=3 * HOUR, grace=4 * DAY),
    "desk": Terms(hours=True),
    "strict": Terms(hours=True, force=True),
    "all": Terms(hours=True, all=True),
}


def of(name: str) -> Terms:
    """The terms of the resource of that name."""
    return TERMS.get(name.partition("-")[0], Terms())


def is_open(at: datetime) -> bool:
    """Whether office hours are on."""
    local = at.astimezone(ZONE)
    return local.weekday() < 5 and OPENS <= local.hour < CLOSES


def closed_since(at: datetime) -> datetime | None:
    """When the hours ended last, seen from a moment outside them; None inside."""
    if is_open(at):
        return None
    local = at.astimezone(ZONE).replace(minute=0, second=0, microsecond=0)
    while not is_open(local - MINUTE):
        local -= HOUR
    return local


def opened_at(at: datetime) -> datetime | None:
    """When the hours that are on began; None outside them."""
    return at.astimezone(ZONE).replace(hour=OPENS, minute=0, second=0, microsecond=0) if is_open(at) else None


def workdays(begin: datetime, end: datetime) -> list[datetime]:
    """Local midnights of the working days that touch the time from `begin` to `end`."""
    day = begin.astimezone(ZONE).replace(hour=0, minute=0, second=0, microsecond=0)
    names = []
    while day < end:
        if day.weekday() < 5:
            names.append(day)
        day = (day + DAY).replace(hour=0)
    return names
