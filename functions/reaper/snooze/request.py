"""One request for a snooze page, the form that it may carry, its reply, and what answering it needs. The same for every cloud."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from ipaddress import ip_network
from urllib.parse import parse_qs

from reaper.ledger.ledger import Ledger
from reaper.snooze.keys import Keys
from reaper.text import tidy_line

PAGE_PATH = "/keep"
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
