"""The pages behind a snooze link, and every reply: its status, its page, and its line in the log.

A reply to a stranger never says why a link isn't valid: `note` does, for the log.
No scripts, and one inline style that the policy names by its hash. The token is in the address, so nothing may store it or pass it on:
https://developer.mozilla.org/en-US/docs/Web/HTTP/Reference/Headers/Content-Security-Policy
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from reaper.duration import format_duration
from reaper.model import Memory
from reaper.snooze.request import PAGE_PATH, Reply, SnoozeForm
from reaper.snooze.token import SnoozeLink
from reaper.text import format_time, format_usd

if TYPE_CHECKING:
    from jinja2 import Template

NO_HEADERS: Mapping[str, str] = {}


def form_page(form: SnoozeForm, link: SnoozeLink, memory: Memory, now: datetime, may_shorten: bool, problem: str = "") -> Reply:
    """The form. `problem` is what the owner must correct."""
    is_snoozed = memory.snoozed_until is not None and memory.snoozed_until > now
    body = _render_page(
        "form",
        f"Keep {link.name}?",
        link=link,
        form=form,
        now=now,
        idle_since=memory.idle_since,
        snoozed_until=memory.snoozed_until if is_snoozed else None,
        snoozed_by=memory.snoozed_by,
        snooze_reason=memory.snooze_reason,
        choices=snooze_choices(link, now),
        may_shorten=may_shorten,
        problem=problem,
    )
    return _reply(400 if problem else 200, body, f"{link.resource}: {problem or 'form shown'}")


def snoozed_page(form: SnoozeForm, link: SnoozeLink, memory: Memory, now: datetime, *, changed: bool) -> Reply:
    """The page after a snooze. Not `changed`: the resource was snoozed for as long already."""
    body = _render_page(
        "snoozed",
        f"{link.name} is snoozed",
        link=link,
        now=now,
        idle_since=memory.idle_since,
        snoozed_until=memory.snoozed_until,
        changed=changed,
        again=f"{PAGE_PATH[1:]}?t={form.token}",
    )
    result = f"snoozed until {memory.snoozed_until} by {memory.snoozed_by}" if changed else "already snoozed"
    return _reply(200, body, f"{link.resource}: {result}")


def invalid_request(detail: str) -> Reply:
    """The reply to something that isn't a request."""
    return _text_reply(400, "Invalid request", "This page answers browsers only. Nothing was changed.", detail)


def not_found(path: str) -> Reply:
    """The reply for another path."""
    return _text_reply(404, "Page not found", "There is no page at this address.", f"no page at {path[:80]!r}")


def method_not_allowed(method: str) -> Reply:
    """The reply to a method other than GET, HEAD and POST."""
    text = "You can only open this page or send its form."
    return _text_reply(405, "Not supported", text, repr(method[:20]), {"allow": "GET, HEAD, POST"})


def body_too_long(length: int) -> Reply:
    """The reply to a form longer than any that this page can send."""
    return _text_reply(413, "Too long", "The form is too long. Nothing was changed.", f"{length} bytes")


def invalid_link(now: datetime, detail: str) -> Reply:
    """The reply to a link that isn't valid. It never says why."""
    text = "It may have expired or been cut off. Nothing was changed."
    body = _render_page("refused", "This link isn't valid", text=text, until=snooze_end(now, 7))
    return _reply(403, body, f"refused: {detail}")


def too_many_requests(detail: str) -> Reply:
    """The reply over a rate limit."""
    return _text_reply(429, "Too many requests", "Nothing was changed. Try again in a minute.", detail, {"retry-after": "60"})


def keys_unavailable(now: datetime, detail: str) -> Reply:
    """The reply if the keys can't be read."""
    text = "This link can't be checked right now. Nothing was changed. Try again in a few minutes."
    body = _render_page("refused", "Try again later", text=text, until=snooze_end(now, 7))
    return _reply(503, body, detail, {"retry-after": "120"})


def ledger_unavailable(link: SnoozeLink, until: datetime, detail: str) -> Reply:
    """The reply if the ledger fails."""
    body = _render_page("unavailable", "Try again later", link=link, until=until)
    return _reply(503, body, f"{link.resource}: {detail}", {"retry-after": "120"})


def _text_reply(status: int, title: str, text: str, note: str, headers: Mapping[str, str] = NO_HEADERS) -> Reply:
    return _reply(status, _render_page("plain", title, text=text, until=None), note, headers)


def _reply(status: int, body: str, note: str, headers: Mapping[str, str] = NO_HEADERS) -> Reply:
    return Reply(status=status, headers={**page_headers(), **headers}, body=body, note=note, failed=status >= 500)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One choice of how long to keep a resource. `usd` is the cost of that time, None if the price is unknown."""

    days: int
    label: str
    until: datetime
    usd: float | None
    checked: bool


def snooze_choices(link: SnoozeLink, now: datetime) -> list[Choice]:
    """A day, three days, a week and the most that the link allows; the longest of at most three days is preselected."""
    choices = sorted({days for days in (1, 3, 7) if days < link.max_days} | {link.max_days})
    preset = max([days for days in choices if days <= 3], default=choices[0])
    return [
        Choice(
            days=days,
            label=_days_label(days),
            until=snooze_end(now, days),
            usd=None if link.usd_per_hour is None else link.usd_per_hour * 24 * days,
            checked=days == preset,
        )
        for days in choices
    ]


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
    """The page as HTML; every value is escaped. Pages: form, snoozed, unavailable, refused, plain."""
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
    from jinja2 import Environment, PackageLoader, StrictUndefined

    pages = Environment(
        autoescape=True,
        loader=PackageLoader("reaper.snooze", ""),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pages.filters |= {"moment": format_time, "money": format_usd, "length": format_duration}
    return pages.get_template("snooze.html.j2")
