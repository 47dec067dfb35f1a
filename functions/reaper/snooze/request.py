"""One request for a snooze page, its reply, and what answering it needs. The same for every cloud."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from ipaddress import ip_network

from reaper.ledger.port import Ledger
from reaper.snooze import form
from reaper.snooze.form import MAX_BODY
from reaper.snooze.token import Keys

PAGE_PATH = "/keep"


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
        return form.first_value(request.query, "t")
    return form.first_value(request.body.decode("utf-8", "replace"), "t") if len(request.body) <= MAX_BODY else ""


def network_of(request: Request) -> str:
    """The network that a request counts for: one IPv4 address, or the /64 of an IPv6 household. Unreadable addresses count as one."""
    try:
        return str(ip_network((request.source_ip, 64 if ":" in request.source_ip else 32), strict=False))
    except ValueError:
        return "unknown"
