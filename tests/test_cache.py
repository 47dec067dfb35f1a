"""What sweeps keep for later ones, in every kind of ledger: it may be lost at any time, and never fails anything."""

from __future__ import annotations

import base64
import json
import math
import random
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from fakes.builders import NOW
from fakes.ledger_places import HERE, THERE
from fakes.memory_ledger import InMemoryLedger
from reaper.errors import CloudError, Reason
from reaper.ledger.ledger import Ledger
from reaper.ledger.opening import FORMAT_ROW
from reaper.ledger.rows import NamedRow
from reaper.model import BilledPart, Target
from reaper.observation import CachedDescription
from reaper.observing import cache
from reaper.observing.cache import KindCache

KIND = "sagemaker-endpoint"


def shelf(
    ledger: Ledger, target: Target = HERE, kind: str = KIND, *, writes: bool = True, tell: Callable[[str], None] = print
) -> KindCache:
    """What a sweep of its own sees."""
    return cache.KindCache(
        cache=cache.ConfigurationCache(ledger=ledger, now=NOW, may_write=writes, report_failure=tell), target=target, kind=kind
    )


def entries(count: int, first: int = 0, **more: Any) -> dict[str, CachedDescription]:
    return {
        f"id-{n}": CachedDescription(revision=f"stamp {n}", described_at=NOW, body={"n": n, **more})
        for n in range(first, first + count)
    }


def test_what_was_kept_is_read_by_a_later_run(ledger: Ledger):
    rows = entries(40, units=1.5, nested=[{"a": None, "ä": True}])
    cache.write_cached(shelf(ledger), rows, rows)
    assert cache.read_cached(shelf(ledger), [*rows, "other"]) == rows
    assert cache.read_cached(shelf(ledger, THERE, KIND), rows) == cache.read_cached(shelf(ledger, HERE, "other"), rows) == {}


def test_what_it_ran_is_read_as_it_was_kept(ledger: Ledger):
    parts = (
        BilledPart(component="Hosting", instance="ml.g5.xlarge", count=2),
        BilledPart(component="Hosting", instance="ml.m5.large", count=0.5),
    )
    rows = {
        "one": CachedDescription(revision="s", described_at=NOW, parts=parts, size="ml.g5.xlarge x2"),
        "none": CachedDescription(revision="s", described_at=NOW, parts=()),
        "unknown": CachedDescription(revision="s", described_at=NOW),
    }
    cache.write_cached(shelf(ledger), rows, rows)
    assert cache.read_cached(shelf(ledger), rows) == rows


def test_a_later_write_replaces_what_changed_and_drops_what_is_gone(ledger: Ledger):
    cache.write_cached(shelf(ledger), entries(200), entries(200))
    fresh = {f"id-{n}": CachedDescription(revision="new", described_at=NOW) for n in range(100)}
    cache.write_cached(shelf(ledger), fresh, entries(150))
    cached = cache.read_cached(shelf(ledger), entries(200))
    assert {id: ledger.revision for id, ledger in cached.items()} == {
        f"id-{n}": "new" if n < 100 else f"stamp {n}" for n in range(150)
    }


def test_a_sweep_that_may_not_write_leaves_the_ledger_as_it_is():
    book = InMemoryLedger()
    cache.write_cached(shelf(book, writes=False), entries(9), entries(9))
    assert book.named_rows == {}


def test_a_row_grows_neither_in_entries_nor_in_letters_beyond_what_it_may():
    book, chance = InMemoryLedger(), random.Random(1)
    cache.write_cached(shelf(book), rows := entries(10_000), rows)
    assert len(cache.read_cached(shelf(book), rows)) == 10_000
    assert len(book.named_rows) == 1 + 10_000 / cache.MAX_ENTRIES
    wide = {
        id: CachedDescription(revision="s", described_at=NOW, body={"x": chance.randbytes(2000).hex()}) for id in entries(1600)
    }
    cache.write_cached(shelf(book), wide, wide)
    texts = [row.values[cache.PACKED_COLUMN] for name, row in book.named_rows.items() if name != FORMAT_ROW]
    assert cache.MAX_PACKED_LENGTH / 4 < max(len(text) for text in texts) <= cache.MAX_PACKED_LENGTH


class Broken(InMemoryLedger):
    """Its named rows of the cache cannot be read or written."""

    def read_row(self, name: str) -> NamedRow:
        if name == FORMAT_ROW:
            return super().read_row(name)
        raise CloudError(Reason.THROTTLED, "dynamodb:GetItem", "still throttled")


class Half(Broken):
    """They can be read, and not written."""

    state = InMemoryLedger.read_row

    def write_state(self, name: str, *rest: Any) -> bool:
        if name == FORMAT_ROW:
            return super().write_row(name, *rest)
        raise CloudError(Reason.THROTTLED, "dynamodb:PutItem", "still throttled")


@pytest.mark.parametrize("book", [Broken(), Half()], ids=["not read", "not written"])
def test_a_ledger_that_fails_costs_what_was_kept_and_is_told(book: Ledger):
    messages: list[str] = []
    cache.write_cached(shelf(book, tell=messages.append), entries(1), entries(1))
    assert cache.read_cached(shelf(book, tell=messages.append), entries(1)) == {}
    assert messages
    assert all("still throttled" in text for text in messages)


def test_nothing_is_kept_in_a_ledger_of_a_newer_version():
    book, messages = InMemoryLedger(), list[str]()
    book.write_row(FORMAT_ROW, {"number": "99"}, 0)
    cache.write_cached(shelf(book, tell=messages.append), entries(5), entries(5))
    assert set(book.named_rows) == {FORMAT_ROW}
    assert "newer version" in messages[0]


@pytest.mark.parametrize(
    "text", ["", "no base64!", "eJwLSS0uAQAD3QGh", "eJyrrgUAAXUA+Q=="], ids=["empty", "letters", "no JSON", "no pair"]
)
def test_a_row_that_cannot_be_understood_has_nothing_and_is_replaced(text: str):
    book = InMemoryLedger()
    cache.write_cached(shelf(book), rows := entries(1), rows)
    [name] = set(book.named_rows) - {FORMAT_ROW}
    book.write_row(name, {cache.PACKED_COLUMN: text}, 1)
    assert cache.read_cached(shelf(book), rows) == {}
    cache.write_cached(shelf(book), rows, rows)
    assert cache.read_cached(shelf(book), rows) == rows


def test_a_row_that_unpacks_to_far_more_than_was_packed_has_nothing():
    bomb = base64.b64encode(zlib.compress(b" " * (cache.MAX_UNPACKED_BYTES + 1) + b"{}")).decode()
    book = InMemoryLedger()
    cache.write_cached(shelf(book), rows := entries(1), rows)
    [name] = set(book.named_rows) - {FORMAT_ROW}
    book.write_row(name, {cache.PACKED_COLUMN: bomb}, 1)
    assert cache._unpack(book.read_row(name)) == {}
    assert cache._decompress(bomb) == b" " * cache.MAX_UNPACKED_BYTES
    assert cache.read_cached(shelf(book), rows) == {}


def test_of_two_sweeps_that_write_at_once_the_first_stays():
    class Raced(InMemoryLedger):
        def write_state(self, name: str, values: Any, expected_version: int, now: Any) -> bool:
            if name != FORMAT_ROW and not self.named_rows.get(name):
                super().write_row(name, values, 0)
            return super().write_row(name, values, expected_version)

    book = Raced()
    cache.write_cached(shelf(book), entries(3), entries(3))
    assert all(row.version == 1 for row in book.named_rows.values())


class Counted(InMemoryLedger):
    """Counts what it is asked for, by name; every question after `good` ones fails."""

    def __init__(self, good: float = math.inf) -> None:
        super().__init__()
        self.good, self.names_read = good, list[str]()

    def read_row(self, name: str) -> NamedRow:
        self.names_read.append(name)
        if len(self.names_read) > self.good:
            raise CloudError(Reason.THROTTLED, "dynamodb:GetItem", "still throttled")
        return super().read_row(name)


def test_a_sweep_of_a_target_and_kind_reads_each_row_once():
    book = Counted()
    kind_cache, rows = shelf(book), entries(300)
    for _ in range(2):
        cache.read_cached(kind_cache, rows)
    cache.write_cached(kind_cache, rows, rows)
    assert sorted(book.names_read) == sorted({*book.names_read})
    assert len(book.names_read) == 2, "one of the cache, and the format"


@pytest.mark.parametrize("good", [0, 3, 8])
def test_after_its_first_failure_the_ledger_is_not_asked_again_in_that_run(good: int):
    book, messages = Counted(good), list[str]()
    opened = cache.ConfigurationCache(ledger=book, now=NOW, may_write=True, report_failure=messages.append)

    def sweep(number: int) -> None:
        kind_cache, rows = cache.KindCache(cache=opened, target=HERE, kind=f"kind {number}"), entries(300)
        cache.read_cached(kind_cache, rows)
        cache.write_cached(kind_cache, rows, rows)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(sweep, range(24)))
    assert len(book.names_read) == good + 1
    assert len(messages) == 1


def test_what_stands_there_is_not_written_again_until_it_is_too_old():
    book, rows = InMemoryLedger(), entries(3)
    versions = []
    for later in (timedelta(), cache.SIZE_VALID_FOR, cache.SIZE_VALID_FOR + timedelta(seconds=1), cache.SIZE_VALID_FOR * 2):
        kind_cache = cache.KindCache(
            cache=cache.ConfigurationCache(ledger=book, now=NOW + later, may_write=True, report_failure=print),
            target=HERE,
            kind=KIND,
        )
        cache.write_cached(kind_cache, rows, rows)
        versions.append(max(row.version for name, row in book.named_rows.items() if name != FORMAT_ROW))
    assert versions == [1, 1, 2, 2]


@pytest.mark.parametrize(
    ("change", "costs"),
    [
        pytest.param({"described_at": "2026-01-01T00:00:00"}, 40, id="a time without a zone"),
        pytest.param({"described_at": 1764000000}, 40, id="a number for a time"),
        pytest.param({"described_at": None}, 1, id="no time"),
        pytest.param({"revision": None}, 40, id="no revision"),
        pytest.param({"body": []}, 40, id="a list for a body"),
        pytest.param({"stamp": "s"}, 40, id="an unknown field"),
        pytest.param({"parts": [{"component": "c", "instance": 5}]}, 40, id="a number for an instance"),
        pytest.param({"parts": [{"component": "c", "instance": "i", "count": True}]}, 40, id="a truth for a count"),
        pytest.param({"parts": [{"component": "c", "instance": "i", "count": "2"}]}, 40, id="a text for a count"),
        *(
            pytest.param({"parts": [{"component": "c", "instance": "i", "count": count}]}, 1, id=f"{count} of a part")
            for count in (0, -1, float("nan"), float("inf"))
        ),
    ],
)
def test_what_no_sweep_writes_costs_an_entry_or_its_row(change: dict[str, Any], costs: int):
    book, rows = InMemoryLedger(), entries(40)
    cache.write_cached(shelf(book), rows, rows)
    name, stored = next((name, row) for name, row in book.named_rows.items() if name != FORMAT_ROW)
    raw = json.loads(cache._decompress(stored.values[cache.PACKED_COLUMN]))
    assert len(raw) > 1
    bad = next(iter(raw))
    raw[bad] |= change
    packed = base64.b64encode(zlib.compress(json.dumps(raw).encode())).decode()
    book.write_row(name, {cache.PACKED_COLUMN: packed}, stored.version)
    left = cache.read_cached(shelf(book), rows)
    assert (bad in left, len(left)) == (False, 40 - costs)
    cache.write_cached(shelf(book), rows, rows)
    assert cache.read_cached(shelf(book), rows) == rows


def test_what_cannot_be_written_as_json_fails_nothing():
    book, messages = InMemoryLedger(), list[str]()
    rows = {"one": CachedDescription(revision="s", body={"x": object()})}
    cache.write_cached(shelf(book, tell=messages.append), rows, rows)
    assert len(messages) == 1
    assert set(book.named_rows) <= {FORMAT_ROW}


def test_the_failure_is_known_before_the_next_thread_may_ask():
    opened = cache.ConfigurationCache(ledger=Counted(0), now=NOW, may_write=True, report_failure=print)
    with pytest.raises(CloudError):
        cache._ask_ledger(opened, lambda: opened.ledger.read_row("row"))
    assert cache._ask_ledger(opened, lambda: opened.ledger.read_row("row")) is None
