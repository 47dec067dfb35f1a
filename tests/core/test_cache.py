"""What sweeps keep for later ones, in every kind of ledger: it may be lost at any time, and never fails anything."""

from __future__ import annotations

import base64
import random
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from core.fakes import NOW
from core.stores import HERE, THERE
from reaper import cache
from reaper.cache import Cache
from reaper.errors import CloudError, Trouble
from reaper.fleeting import Fleeting
from reaper.ledger import FORMAT_ROW, Ledger, State
from reaper.model import Kept, Part

KIND = "sagemaker-endpoint"


def opened(ledger: Ledger, *, writes: bool = True, tell: Callable[[str], None] = print) -> Cache:
    return cache.opened(ledger, NOW, tell, writes=writes)


def entries(count: int, first: int = 0, **more: Any) -> dict[str, Kept]:
    return {f"id-{n}": Kept(stamp=f"stamp {n}", at=NOW, body={"n": n, **more}) for n in range(first, first + count)}


def test_what_was_kept_is_read_by_a_later_run(kept: Ledger):
    rows = entries(40, units=1.5, nested=[{"a": None, "ä": True}])
    cache.write(opened(kept), HERE, KIND, rows, rows)
    assert cache.read(opened(kept), HERE, KIND, [*rows, "other"]) == rows
    assert cache.read(opened(kept), THERE, KIND, rows) == cache.read(opened(kept), HERE, "other", rows) == {}


def test_what_it_ran_is_read_as_it_was_kept(kept: Ledger):
    parts = (
        Part(component="Hosting", instance="ml.g5.xlarge", count=2),
        Part(component="Hosting", instance="ml.m5.large", count=0.5),
    )
    rows = {
        "one": Kept(stamp="s", at=NOW, parts=parts, size="ml.g5.xlarge x2"),
        "none": Kept(stamp="s", at=NOW, parts=()),
        "unknown": Kept(stamp="s", at=NOW),
    }
    cache.write(opened(kept), HERE, KIND, rows, rows)
    assert cache.read(opened(kept), HERE, KIND, rows) == rows


def test_a_later_write_replaces_what_changed_and_drops_what_is_gone(kept: Ledger):
    cache.write(opened(kept), HERE, KIND, entries(200), entries(200))
    fresh = {f"id-{n}": Kept(stamp="new", at=NOW) for n in range(100)}
    cache.write(opened(kept), HERE, KIND, fresh, entries(150))
    held = cache.read(opened(kept), HERE, KIND, entries(200))
    assert {id: kept.stamp for id, kept in held.items()} == {f"id-{n}": "new" if n < 100 else f"stamp {n}" for n in range(150)}


def test_a_sweep_that_may_not_write_leaves_the_ledger_as_it_is():
    book = Fleeting()
    cache.write(opened(book, writes=False), HERE, KIND, entries(9), entries(9))
    assert book._states == {}


def test_a_row_grows_neither_in_entries_nor_in_letters_beyond_what_it_may():
    book, chance = Fleeting(), random.Random(1)
    cache.write(opened(book), HERE, KIND, rows := entries(10_000), rows)
    assert len(cache.read(opened(book), HERE, KIND, rows)) == cache.ROWS * cache.MOST
    wide = {id: Kept(stamp="s", at=NOW, body={"x": chance.randbytes(2000).hex()}) for id in entries(1600)}
    cache.write(opened(book), HERE, KIND, wide, wide)
    texts = [row.values[cache.VALUE] for name, row in book._states.items() if name != FORMAT_ROW]
    assert cache.LONGEST / 4 < max(len(text) for text in texts) <= cache.LONGEST


class Broken(Fleeting):
    """Its named rows of the cache cannot be read or written."""

    def state(self, name: str) -> State:
        if name == FORMAT_ROW:
            return super().state(name)
        raise CloudError(Trouble.THROTTLED, "dynamodb:GetItem", "still throttled")


class Half(Broken):
    """They can be read, and not written."""

    state = Fleeting.state

    def write_state(self, name: str, *rest: Any) -> bool:
        if name == FORMAT_ROW:
            return super().write_state(name, *rest)
        raise CloudError(Trouble.THROTTLED, "dynamodb:PutItem", "still throttled")


@pytest.mark.parametrize("book", [Broken(), Half()], ids=["not read", "not written"])
def test_a_ledger_that_fails_costs_what_was_kept_and_is_told(book: Ledger):
    told: list[str] = []
    cache.write(opened(book, tell=told.append), HERE, KIND, entries(1), entries(1))
    assert cache.read(opened(book, tell=told.append), HERE, KIND, entries(1)) == {}
    assert told
    assert all("still throttled" in text for text in told)


def test_nothing_is_kept_in_a_ledger_of_a_newer_version():
    book, told = Fleeting(), list[str]()
    book.write_state(FORMAT_ROW, {"number": "99"}, 0, NOW)
    cache.write(opened(book, tell=told.append), HERE, KIND, entries(5), entries(5))
    assert set(book._states) == {FORMAT_ROW}
    assert "newer version" in told[0]


@pytest.mark.parametrize(
    "text", ["", "no base64!", "eJwLSS0uAQAD3QGh", "eJyrrgUAAXUA+Q=="], ids=["empty", "letters", "no JSON", "no pair"]
)
def test_a_row_that_cannot_be_understood_has_nothing_and_is_replaced(text: str):
    book = Fleeting()
    cache.write(opened(book), HERE, KIND, rows := entries(1), rows)
    [name] = set(book._states) - {FORMAT_ROW}
    book.write_state(name, {cache.VALUE: text}, 1, NOW)
    assert cache.read(opened(book), HERE, KIND, rows) == {}
    cache.write(opened(book), HERE, KIND, rows, rows)
    assert cache.read(opened(book), HERE, KIND, rows) == rows


def test_a_row_that_unpacks_to_far_more_than_was_packed_has_nothing():
    bomb = base64.b64encode(zlib.compress(b" " * (cache.UNPACKED + 1) + b"{}")).decode()
    book = Fleeting()
    cache.write(opened(book), HERE, KIND, rows := entries(1), rows)
    [name] = set(book._states) - {FORMAT_ROW}
    book.write_state(name, {cache.VALUE: bomb}, 1, NOW)
    assert cache._unpacked(book.state(name)) == {}
    assert cache._text(bomb) == b" " * cache.UNPACKED
    assert cache.read(opened(book), HERE, KIND, rows) == {}


def test_of_two_sweeps_that_write_at_once_the_first_stays():
    class Raced(Fleeting):
        def write_state(self, name: str, values: Any, expected_version: int, now: Any) -> bool:
            if name != FORMAT_ROW and not self._states.get(name):
                super().write_state(name, values, 0, now)
            return super().write_state(name, values, expected_version, now)

    book = Raced()
    cache.write(opened(book), HERE, KIND, entries(3), entries(3))
    assert all(row.version == 1 for row in book._states.values())
