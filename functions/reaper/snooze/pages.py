"""The pages behind a snooze link: a request, the form that it may carry, and every reply, with its status, its page, and its line in the log.

The page says what has happened since the mail. A reply to a stranger never says why a link isn't valid: `note` does, for the log.
No scripts, and one inline style that the policy names by its hash. The token is in the address, so nothing may store it or pass it on:
https://developer.mozilla.org/en-US/docs/Web/HTTP/Reference/Headers/Content-Security-Policy
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache, partial
from hashlib import sha256
from importlib.resources import files
from ipaddress import ip_network
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from markupsafe import Markup

from reaper import registry
from reaper.case import plain_participle
from reaper.duration import format_duration
from reaper.ledger.ledger import Ledger
from reaper.ledger.rows import Recalled, Visit, VisitResource
from reaper.model import Resource, Result, State, StepName, Target
from reaper.notices.item import RESTORE_COMMAND, undo_command
from reaper.notices.message import is_plain_address
from reaper.record import Act, Record, Snooze
from reaper.snooze.links import PAGE_PATH, Keys
from reaper.text import Currency, count_noun, format_time, format_usd, open_templates, tidy_line

if TYPE_CHECKING:
    from jinja2 import Template

MAX_BODY = 16_384
"""Bytes: three times what the longest reason, name and token need if every character is escaped."""
MAX_REASON = 300
MAX_NAME = 80
MAX_FIELDS = 200
"""More than a mail has resources, and far fewer than a body can have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A browser's request: header names in lower case, `query` as it was in the address, without the question mark."""

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    source_ip: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The answer, and a line for the log. `failed`: a part of the reaper failed, even if the request was answered."""

    status: int
    headers: Mapping[str, str]
    body: str
    note: str = ""
    failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SnoozeContext:
    """What answering one request needs, opened on first use. `keys` takes the ID of the needed key. Both calls raise ReaperError."""

    ledger: Callable[[], Ledger]
    keys: Callable[[str | None], Keys]
    now: datetime


def token_of(request: Request) -> str:
    """The token of a request: from the form if it was sent, else from the address. Empty if the body is too long."""
    if request.method != "POST":
        return first_value(request.query, "t")
    return first_value(request.body.decode("utf-8", "replace"), "t") if len(request.body) <= MAX_BODY else ""


def network_of(request: Request) -> str:
    """The network that a request counts for: one IPv4 address, or the /64 of an IPv6 household. Unreadable addresses count as one."""
    try:
        return str(ip_network((request.source_ip, 64 if ":" in request.source_ip else 32), strict=False))
    except ValueError:
        return "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class SnoozeForm:
    """A sent form, cleaned. `rows`: the chosen resources, from 1 on. `disowns`: they are "not mine", and not kept. `days` is None without a
    usable choice. `shorten`: also if that ends an earlier snooze sooner."""

    token: str
    rows: frozenset[int] = frozenset()
    disowns: bool = False
    days: int | None = None
    reason: str = ""
    name: str = ""
    shorten: bool = False


def read_form(body: bytes) -> SnoozeForm:
    """The form in a body (application/x-www-form-urlencoded, UTF-8). Invalid UTF-8 becomes a replacement character, never an error."""
    text = body.decode("utf-8", "replace")
    return SnoozeForm(
        token=first_value(text, "t"),
        rows=chosen_rows(text),
        disowns=first_value(text, "do") == "disown",
        days=_parse_number(first_value(text, "days")),
        reason=tidy_line(first_value(text, "reason"), MAX_REASON),
        name=tidy_line(first_value(text, "name"), MAX_NAME),
        shorten=first_value(text, "shorten") == "yes",
    )


def chosen_rows(encoded: str) -> frozenset[int]:
    """The rows in a query or body; what isn't a number is none."""
    return frozenset(row for text in _values_of(encoded, "r") if (row := _parse_number(text)))


def first_value(encoded: str, name: str) -> str:
    """The first value of `name` in a query or body. Empty if there is none, or if there are far too many fields."""
    return next(iter(_values_of(encoded, name)), "")


def _values_of(encoded: str, name: str) -> list[str]:
    try:
        values = parse_qs(encoded, keep_blank_values=True, encoding="utf-8", errors="replace", max_num_fields=MAX_FIELDS)
    except ValueError:
        return []
    return values.get(name, [])


def _parse_number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 4 else None


NO_HEADERS: Mapping[str, str] = {}
MAX_DAYS = 3650
"""Ten years: no snooze is longer, whatever the ledger says."""
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
    is_unreported = act.notified_at is None and act.action is not StepName.DELETE
    may_keep = not is_done or is_unreported or any((record.notice, act.part, record.idle_since, record.state))
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The result for one chosen resource: its snooze afterwards and whether it `changed`, or the `error`. `problem`: its history failed."""

    resource: VisitResource
    snooze: Snooze
    changed: bool = False
    error: str = ""
    problem: str = ""

    @property
    def log_text(self) -> str:
        """Its result, for the log."""
        snoozed = f"snoozed until {self.snooze.until} by {self.snooze.by}" if self.snooze.until else ""
        disowned = f"not theirs, says {self.snooze.disowned_by}" if self.snooze.disowned_by else ""
        return "; ".join(filter(None, (self.error or ("" if self.changed else "unchanged"), snoozed, disowned, self.problem)))


def may_shorten(snooze: Snooze, visit: Visit, now: datetime) -> bool:
    """Whether the person who got the mail gave the present snooze."""
    if snooze.until is None or snooze.until <= now:
        return False
    by, owner = (snooze.by or "").casefold(), visit.address.casefold()
    return is_plain_address(owner) and (by == owner or by.endswith(f" ({owner})"))


def may_disown(visit: Visit) -> bool:
    """Whether the mail went to an owner, whose address is known still."""
    return visit.is_owner and is_plain_address(visit.address)


def form_page(form: SnoozeForm, visit: Visit, rows: Sequence[Row], now: datetime, problem: str = "") -> Reply:
    """The form. `problem` is what the reader must correct. What was acted on is preselected only if the reader selected it before."""
    named = [row for row in rows if row.number in form.rows] or rows
    chosen = [row.resource for row in named if row.may_keep and (problem or not row.done)]
    left, count = [row.resource for row in rows if row.may_keep], len(rows)
    which = f"these {len(left)} resources" if len(left) > 1 else f"“{left[0].name}”" if left else ""
    body = _render_page(
        "form",
        f"Keep {which}?" if which else "Nothing is left to keep",
        visit=visit,
        form=form,
        now=now,
        money=partial(format_usd, currency=shown_currency(visit)),
        rows=rows,
        left=left,
        chosen=chosen,
        choices=snooze_choices(chosen, visit, now),
        about="" if count == 1 else f" for all {count}" if len(chosen) == count else f" for the {len(chosen)} preselected",
        may={"shorten": any(may_shorten(row.snooze, visit, now) for row in rows), "disown": may_disown(visit)},
        problem=problem,
    )
    return _reply(400 if problem else 200, body, f"{count_noun(count, 'resource')}: {problem or 'form shown'}")


def result_page(form: SnoozeForm, visit: Visit, written: Sequence[Written], rows: Sequence[Row], now: datetime) -> Reply:
    """The page after the form was sent: what was kept until when, what is "not mine", what failed, and which of the `rows` came too late."""
    done = [each for each in written if not each.error]
    failed = [each for each in written if each.error]
    what = f"“{done[0].resource.name}” is" if len(done) == 1 else f"{len(done)} resources are"
    title = f"{what} {'marked as not yours' if form.disowns else 'snoozed'}" if done else "Nothing was saved"
    body = _render_page(
        "result",
        title,
        visit=visit,
        form=form,
        done=done,
        failed=failed,
        rows=[row for row in rows if row.done],
        until=snooze_end(now, 7),
        path=PAGE_PATH[1:],
    )
    reply = _reply(200 if done else 503, body, "; ".join(f"{each.resource.id}: {each.log_text}" for each in written))
    return replace(reply, failed=bool(failed) or any(each.problem for each in written))


def invalid_request(detail: str) -> Reply:
    """The reply to something that isn't a request."""
    return text_reply(400, "Invalid request", "This page answers browsers only. Nothing was changed.", detail)


def invalid_link(now: datetime, detail: str) -> Reply:
    """The reply to a link that isn't valid. It never says why."""
    text = "It may have expired or been cut off. Nothing was changed."
    body = _render_page("refused", "This link isn't valid", text=text, until=snooze_end(now, 7))
    return _reply(403, body, f"refused: {detail}")


def too_many_requests(detail: str) -> Reply:
    """The reply over a rate limit."""
    return text_reply(429, "Too many requests", "Nothing was changed. Try again in a minute.", detail, {"retry-after": "60"})


def try_later(page: str, now: datetime, detail: str) -> Reply:
    """The reply if the keys (page `refused`) or the ledger (page `unavailable`) can't be read."""
    text = "This link can't be checked right now. Nothing was changed. Try again in a few minutes."
    body = _render_page(page, "Try again later", text=text, until=snooze_end(now, 7))
    return _reply(503, body, detail, {"retry-after": "120"})


def text_reply(status: int, title: str, text: str, note: str, headers: Mapping[str, str] = NO_HEADERS) -> Reply:
    """A page of one sentence."""
    return _reply(status, _render_page("plain", title, text=text, until=None), note, headers)


def _reply(status: int, body: str, note: str, headers: Mapping[str, str] = NO_HEADERS) -> Reply:
    return Reply(status=status, headers={**page_headers(), **headers}, body=body, note=note, failed=status >= 500)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One choice of how long to keep the chosen resources. `cost` is that of the time, empty if no price is known."""

    days: int
    label: str
    until: datetime
    cost: str
    checked: bool


def snooze_choices(chosen: Sequence[VisitResource], visit: Visit, now: datetime) -> list[Choice]:
    """A day, three days, a week and the most that any resource allows; the longest of at most three days is preselected."""
    most = max(days_for(MAX_DAYS, resource) for resource in visit.resources)
    choices = sorted({days for days in (1, 3, 7) if days < most} | {most})
    preset = max([days for days in choices if days <= 3], default=choices[0])
    currency = shown_currency(visit)
    costs = {days: _cost_text(chosen, days, currency) for days in choices}
    return [
        Choice(days=days, label=_days_label(days), until=snooze_end(now, days), cost=costs[days], checked=days == preset)
        for days in choices
    ]


def days_for(days: int, resource: VisitResource) -> int:
    """The days for which the resource is kept if so many are chosen: no more than its rule allows."""
    return max(1, min(days, resource.max_days, MAX_DAYS))


def _cost_text(chosen: Sequence[VisitResource], days: int, currency: Currency) -> str:
    """`$101`, or `at least $101` if a price is unknown."""
    known = [24 * days_for(days, each) * each.usd_per_hour for each in chosen if each.usd_per_hour is not None]
    return f"{'at least ' if len(known) < len(chosen) else ''}{format_usd(sum(known), currency=currency)}" if known else ""


def snooze_end(now: datetime, days: int) -> datetime:
    """The end of a snooze: a full hour, so that sending a form twice gives the same end."""
    end = now + timedelta(days=days)
    full = end.replace(minute=0, second=0, microsecond=0)
    return full if full == end else full + timedelta(hours=1)


def _days_label(days: int) -> str:
    """`1 day`, `1 week`, `10 days`, `2 weeks`."""
    count, unit = (days // 7, "week") if days % 7 == 0 else (days, "day")
    return f"{count} {unit}{'s' if count != 1 else ''}"


def _render_page(page: str, title: str, **values: Any) -> str:
    """The page as HTML; every value is escaped. Pages: form, result, unavailable, refused, plain."""
    return _page_template().render(page=page, title=title, style=Markup(_read_style()), **values)


@cache
def page_headers() -> Mapping[str, str]:
    """The headers of every reply, names in lower case."""
    digest = b64encode(sha256(_read_style().encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    return {
        "content-type": "text/html; charset=utf-8",
        "content-security-policy": policy,
        "cache-control": "no-store",
        "cross-origin-opener-policy": "same-origin",
        "referrer-policy": "no-referrer",
        "strict-transport-security": "max-age=31536000",
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "x-robots-tag": "noindex, nofollow",
    }


@cache
def _read_style() -> str:
    return files("reaper.snooze").joinpath("snooze.css").read_text(encoding="utf-8")


@cache
def _page_template() -> Template:
    return open_templates("reaper.snooze", {}).get_template("snooze.html.j2")
