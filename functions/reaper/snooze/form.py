"""The sent form of a snooze link, cleaned: a token, a number of days, a reason and a name. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qs

from reaper.text import tidy_line

MAX_BODY = 16_384
"""Bytes: three times what the longest reason, name and token need if every character is escaped."""
MAX_REASON = 300
MAX_NAME = 80
MAX_FIELDS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SnoozeForm:
    """A sent form. `days` is None without a usable choice. `shorten`: also if that ends an earlier snooze sooner."""

    token: str
    days: int | None = None
    reason: str = ""
    name: str = ""
    shorten: bool = False


def read_form(body: bytes) -> SnoozeForm:
    """The form in a body (application/x-www-form-urlencoded, UTF-8). Invalid UTF-8 becomes a replacement character, never an error."""
    text = body.decode("utf-8", "replace")
    return SnoozeForm(
        token=first_value(text, "t"),
        days=_parse_days(first_value(text, "days")),
        reason=tidy_line(first_value(text, "reason"), MAX_REASON),
        name=tidy_line(first_value(text, "name"), MAX_NAME),
        shorten=first_value(text, "shorten") == "yes",
    )


def first_value(encoded: str, name: str) -> str:
    """The first value of `name` in a query or body. Empty if there is none, or if there are far too many fields."""
    try:
        values = parse_qs(encoded, keep_blank_values=True, encoding="utf-8", errors="replace", max_num_fields=MAX_FIELDS)
    except ValueError:
        return ""
    return values.get(name, [""])[0]


def _parse_days(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 4 else None
