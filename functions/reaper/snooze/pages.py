"""The pages behind a snooze link: choices, numbers as text, and the headers of every page.

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
from reaper.snooze.token import SnoozeLink
from reaper.text import format_time, format_usd

if TYPE_CHECKING:
    from jinja2 import Template

HOUR = timedelta(hours=1)


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
            label=days_label(days),
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
    return full if full == end else full + HOUR


def days_label(days: int) -> str:
    """`1 day`, `1 week`, `10 days`, `2 weeks`."""
    count, unit = (days // 7, "week") if days % 7 == 0 else (days, "day")
    return f"{count} {unit}{'s' if count != 1 else ''}"


def render_page(page: str, title: str, **values: Any) -> str:
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
