"""A snooze link, ledgers behind it that fail in different ways, and requests as a browser sends them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlencode

from fakes.builders import DAY, HOUR, NOW
from fakes.memory_ledger import InMemoryLedger
from fakes.records import a_record
from reaper.errors import CloudError, Reason
from reaper.ledger.ledger import Ledger
from reaper.ledger.rows import Visit, VisitResource
from reaper.record import Snooze
from reaper.snooze.handler import handle_request
from reaper.snooze.links import Keys, sign_link
from reaper.snooze.pages import Reply, Request, SnoozeContext

KEYS = Keys(current="k1", ring={"k1": b"1" * 32})
ID = "arn:aws:sagemaker:us-east-1:123456789012:endpoint/churn"
RESOURCE = VisitResource(
    id=ID,
    kind="sagemaker-endpoint",
    name="churn",
    where="123456789012 us-east-1",
    max_days=30,
    usd_per_hour=1.408,
    idle_since=NOW - 9 * DAY,
)
VISIT = Visit(
    id="one-mail-one-visit-one",
    address="jo@example.com",
    is_owner=True,
    sent_at=NOW - HOUR,
    expires=NOW + 14 * DAY,
    tz="UTC",
    resources=(RESOURCE,),
)
TOKEN = sign_link(VISIT.id, VISIT.expires, KEYS)
WARNED = a_record(idle_since=NOW - 9 * DAY, warned_at=NOW - HOUR, receipt="m-1", to="jo@example.com")


def visit_of(count: int) -> Visit:
    """A mail about so many resources."""
    return replace(
        VISIT, resources=tuple(replace(RESOURCE, id=f"{ID}-{number}", name=f"churn-{number}") for number in range(1, count + 1))
    )


def mailed(visit: Visit = VISIT) -> InMemoryLedger:
    """A ledger that knows of a mail, and of nothing else."""
    ledger = InMemoryLedger()
    ledger.add_visit(visit)
    return ledger


def warned(visit: Visit = VISIT) -> InMemoryLedger:
    """A ledger that knows of a mail with one warning about each of its resources."""
    ledger = mailed(visit)
    assert all(ledger.write_record(resource.id, WARNED, 0, NOW) for resource in visit.resources)
    return ledger


class UnreachableLedger(InMemoryLedger):
    """A store that nobody can reach."""

    def visit(self, visit_id: str, now: datetime) -> Visit | None:
        raise CloudError(Reason.UNREACHABLE, "dynamodb:GetItem", "timed out at 10.0.0.7")


class LedgerWithoutHistory(InMemoryLedger):
    """A store that knows of the mail, and whose history cannot be written."""

    def __init__(self) -> None:
        super().__init__()
        self.add_visit(VISIT)

    def add_history(self, entry: Any) -> None:
        raise CloudError(Reason.THROTTLED, "dynamodb:PutItem", "slow down")


class ContendedLedger(InMemoryLedger):
    """A store where a sweep writes right before each of the first `times` writes."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.add_visit(VISIT)
        self.times = times

    def write_snooze(self, id: str, snooze: Snooze, expected_version: int, now: datetime) -> bool:
        if self.times:
            self.times -= 1
            old = self.snooze(id, now)
            super().write_snooze(id, replace(old, disowned_at=now), old.version, now)
        return super().write_snooze(id, snooze, expected_version, now)


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


def look(ledger: Ledger, token: str = TOKEN, method: str = "GET", now: datetime = NOW, rows: Sequence[object] = ()) -> Reply:
    query = urlencode({"t": token, "r": rows}, doseq=True)
    return handle_request(Request(method=method, path="/keep", query=query, source_ip="192.0.2.7"), desk(ledger, now=now))


def send(ledger: Ledger, now: datetime = NOW, keys: Keys = KEYS, rows: Sequence[object] = (1,), **fields: str) -> Reply:
    sent = {"t": TOKEN, "r": rows, "days": "7", "reason": "", "name": "", "do": "keep"} | fields
    request = Request(method="POST", path="/keep", body=urlencode(sent, doseq=True).encode(), source_ip="192.0.2.7")
    return handle_request(request, desk(ledger, keys, now))


def remembered(ledger: Ledger, id: str = ID) -> Snooze:
    return ledger.snooze(id, NOW)
