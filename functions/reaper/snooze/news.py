"""What has happened to the resources of a mail since it was sent, as the page of its link says it. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime

from reaper import registry
from reaper.duration import format_duration
from reaper.ledger.rows import Recalled, Visit, VisitResource
from reaper.model import Resource, Result, State, StepName, Target
from reaper.notices.item import RESTORE_COMMAND, undo_command
from reaper.record import Act, Record, Snooze
from reaper.text import Currency, count_noun, format_time, format_usd
from reaper.words import plain_participle

AS_JUDGED = {
    State.ACTIVE: "In use again on {}",
    State.YOUNG: "Used or changed shortly before {}",
    State.EXEMPT: "Stopped or kept, as seen on {}",
    State.UNKNOWN: "Since {}, its use isn't known",
}
UNREADABLE = "What has happened to it since the mail can't be read. Until it can, it is left alone."
FROM_TO = re.compile(r"\bfrom (\d+)(?: instances)? to (\d+|one)\b")
"""In what an action says of itself: `AllTraffic from 3 to 1`, `scaling it from 3 instances to one`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One resource on the page, its `number` from 1 on. `done`: what the reaper did since the mail, or may have done, which `undo` undoes.

    `idle`: since when it is idle, or what it is instead. `may_keep`: it wasn't acted on, or something may follow.
    """

    number: int
    resource: VisitResource
    snooze: Snooze
    idle: str
    done: str = ""
    undo: str = ""
    may_keep: bool = True
    is_news: bool = False

    @property
    def needs_admin(self) -> bool:
        """Whether only admins can run `undo`."""
        return self.undo.startswith(f"{RESTORE_COMMAND} ")


def rows_of(visit: Visit, recalled: Recalled, now: datetime) -> list[Row]:
    """A row for each resource of the mail. What can't be read protects its resource, which may be kept all the same."""
    return [_row(number, resource, visit, recalled, now) for number, resource in enumerate(visit.resources, 1)]


def shown_currency(visit: Visit) -> Currency:
    """What the page shows money in."""
    return Currency(code=visit.currency, rate=visit.rate)


def _row(number: int, resource: VisitResource, visit: Visit, recalled: Recalled, now: datetime) -> Row:
    if recalled.is_unreadable(resource.id):
        return Row(number=number, resource=resource, snooze=Snooze(), idle=UNREADABLE, is_news=True)
    record, snooze = recalled.record(resource.id), recalled.snooze(resource.id)
    act, is_news = _act_since(visit, record), record.state is not None or _is_counted_anew(record, visit)
    idle = _idle_text(resource, record, visit, now, acted=act is not None)
    row = Row(number=number, resource=resource, snooze=snooze, idle=idle, is_news=is_news)
    if act is None:
        return row
    subject, is_done = _resource_of(act), act.result is Result.DONE
    done, undo = f"{_participle(subject, act)} on {format_time(act.at, visit.tz)}", is_done and undo_command(subject)
    done = f"{done[:1].upper()}{done[1:]}{_from_to(act)}" if is_done else f"May have been {done}; ask your admins"
    is_untold = act.told_at is None and act.action is not StepName.DELETE
    may_keep = not is_done or is_untold or any((record.notice, act.part, record.idle_since, record.state))
    return replace(row, done=done, undo=undo or "", may_keep=may_keep, is_news=True)


def _act_since(visit: Visit, record: Record) -> Act | None:
    """What was done since the mail, or may have been. What was refused or put back wasn't, and a start ends a stop."""
    act = record.act
    if act is None or act.at <= visit.sent_at or act.result is Result.REFUSED:
        return None
    return None if (act.action, act.result) == (StepName.START, Result.DONE) else act


def _resource_of(act: Act) -> Resource:
    """What an action says of its resource. What it says of itself shows whether it was the resource's own idle shutdown."""
    kind, by = registry.find_kind(act.kind), "native" if "idle shutdown" in (act.because or "") else "stop"
    target = Target(cloud=kind.cloud if kind else "", account="", region=act.region)
    return Resource(kind=act.kind, id=act.id, name=act.name, target=target, region=act.region, created=None, stop_by=by)


def _participle(resource: Resource, act: Act) -> str:
    """`scaled in`, or `partly deleted`, in the words of its kind."""
    kind = registry.find_kind(act.kind)
    spec = kind.actions.get(act.action) if kind and resource.stop_by == "stop" else None
    return f"{'partly ' if act.part else ''}{spec.participle if spec else plain_participle(resource, act.action)}"


def _from_to(act: Act) -> str:
    """`, from 3 instances to 1 (1 of 2 variants)`, as far as the action says so."""
    found = FROM_TO.search(act.because or "")
    change = f", from {count_noun(int(found[1]), 'instance')} to {found[2].replace('one', '1')}" if found else ""
    return f"{change} ({act.part})" if act.part else change


def _is_counted_anew(record: Record, visit: Visit) -> bool:
    return record.idle_since is None and record.called_at is not None and record.called_at > visit.sent_at


def _idle_text(resource: VisitResource, record: Record, visit: Visit, now: datetime, *, acted: bool) -> str:
    """Since when it is idle, as its record or else the mail says. Only what is still idle and as it was wastes what it cost then."""
    since, usd = record.idle_since, resource.usd_per_hour
    if record.state:
        return AS_JUDGED[record.state].format(format_time(record.state_at or now, visit.tz))
    if since:
        cost = usd and format_usd(usd * ((now - since).total_seconds() / 3600), currency=shown_currency(visit))
        wasted = f", about {cost} wasted" if cost and not acted else ""
        return f"Idle since {format_time(since, visit.tz)} ({format_duration(now - since)}){wasted}"
    if acted:
        return ""
    if record.called_at and _is_counted_anew(record, visit):
        return f"Changed or restored on {format_time(record.called_at, visit.tz)}; its idle time counts from then"
    return f"Idle since {format_time(resource.idle_since, visit.tz)}, as the mail says" if resource.idle_since else ""
