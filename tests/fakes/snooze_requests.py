"""A snooze link, ledgers behind it that fail in different ways, and requests as a browser sends them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import datetime
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlencode

from fakes.builders import DAY, HOUR, NOW
from fakes.memory_ledger import InMemoryLedger
from reaper.errors import CloudError, Reason
from reaper.ledger.ledger import Ledger
from reaper.ledger.rows import Recalled
from reaper.model import Memory
from reaper.snooze.handler import handle_request
from reaper.snooze.request import Reply, Request, SnoozeContext
from reaper.snooze.token import Keys, SnoozeLink, sign_link

KEYS = Keys(current="k1", ring={"k1": b"1" * 32})
ID = "arn:aws:sagemaker:us-east-1:123456789012:endpoint/churn"
LINK = SnoozeLink(
    resource=ID,
    expires=NOW + 14 * DAY,
    max_days=30,
    kind="sagemaker-endpoint",
    name="churn",
    where="123456789012 us-east-1",
    owner="jo@example.com",
    usd_per_hour=1.408,
    idle_since=NOW - 9 * DAY,
)
TOKEN = sign_link(LINK, KEYS)
WARNED = Memory(idle_since=NOW - 9 * DAY, warned_at=NOW - HOUR, notice_receipt="m-1", notified_owner="jo@example.com")


def warned() -> InMemoryLedger:
    """A ledger that knows of one warning about the link's resource."""
    ledger = InMemoryLedger()
    assert ledger.remember(ID, WARNED, 0, NOW)
    return ledger


class UnreachableLedger(InMemoryLedger):
    """A store that nobody can reach."""

    def recall(self, ids: Iterable[str], now: datetime) -> Recalled:
        raise CloudError(Reason.UNREACHABLE, "dynamodb:GetItem", "timed out at 10.0.0.7")


class LedgerWithoutHistory(InMemoryLedger):
    """A store whose history cannot be written."""

    def add_history(self, entry: Any) -> None:
        raise CloudError(Reason.THROTTLED, "dynamodb:PutItem", "slow down")


class ContendedLedger(InMemoryLedger):
    """A store where a sweep writes right before each of the first `times` writes."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    def remember(
        self, id: str, memory: Memory, expected_version: int, now: datetime, fields: Collection[str] | None = None
    ) -> bool:
        if self.times:
            self.times -= 1
            old_memory = self.recall([id], now).get(id, Memory())
            super().remember(id, replace(old_memory, reminded_at=now), old_memory.version, now)
        return super().remember(id, memory, expected_version, now)


class Page(HTMLParser):
    """What a page consists of: tag names, attributes, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def fields(self) -> dict[str, list[str | None]]:
        fields: dict[str, list[str | None]] = {}
        for tag, attrs in self.tags:
            if tag in {"input", "textarea"}:
                fields.setdefault(attrs["name"] or "", []).append(attrs.get("value"))
        return fields


def desk(ledger: Ledger, keys: Keys = KEYS, now: datetime = NOW) -> SnoozeContext:
    """A ledger and keys that are at hand already."""
    return SnoozeContext(ledger=lambda: ledger, keys=lambda wanted: keys, now=now)


def look(ledger: Ledger, token: str = TOKEN, method: str = "GET", now: datetime = NOW) -> Reply:
    return handle_request(Request(method=method, path="/keep", query=f"t={token}", source_ip="192.0.2.7"), desk(ledger, now=now))


def send(ledger: Ledger, now: datetime = NOW, keys: Keys = KEYS, **fields: str) -> Reply:
    sent = {"t": TOKEN, "days": "7", "reason": "", "name": ""} | fields
    request = Request(method="POST", path="/keep", body=urlencode(sent).encode(), source_ip="192.0.2.7")
    return handle_request(request, desk(ledger, keys, now))


def remembered(ledger: Ledger, id: str = ID) -> Memory:
    return ledger.recall([id], NOW).get(id, Memory())
