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
from reaper import cache
from reaper.cache import Shelf
from reaper.errors import CloudError, Trouble
from reaper.ledger.in_memory import Fleeting
from reaper.ledger.port import FORMAT_ROW, Ledger, State
from reaper.model import Kept, Part, Target

KIND = "sagemaker-endpoint"


def shelf(
    ledger: Ledger, target: Target = HERE, kind: str = KIND, *, writes: bool = True, tell: Callable[[str], None] = print
) -> Shelf:
    """What a sweep of its own sees."""
    return cache.shelf(cache.opened(ledger, NOW, tell, writes=writes), target, kind)


def entries(count: int, first: int = 0, **more: Any) -> dict[str, Kept]:
    return {f"id-{n}": Kept(stamp=f"stamp {n}", at=NOW, body={"n": n, **more}) for n in range(first, first + count)}


def test_what_was_kept_is_read_by_a_later_run(kept: Ledger):
    rows = entries(40, units=1.5, nested=[{"a": None, "ä": True}])
    cache.write(shelf(kept), rows, rows)
    assert cache.read(shelf(kept), [*rows, "other"]) == rows
    assert cache.read(shelf(kept, THERE, KIND), rows) == cache.read(shelf(kept, HERE, "other"), rows) == {}


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
    cache.write(shelf(kept), rows, rows)
    assert cache.read(shelf(kept), rows) == rows


def test_a_later_write_replaces_what_changed_and_drops_what_is_gone(kept: Ledger):
    cache.write(shelf(kept), entries(200), entries(200))
    fresh = {f"id-{n}": Kept(stamp="new", at=NOW) for n in range(100)}
    cache.write(shelf(kept), fresh, entries(150))
    held = cache.read(shelf(kept), entries(200))
    assert {id: kept.stamp for id, kept in held.items()} == {f"id-{n}": "new" if n < 100 else f"stamp {n}" for n in range(150)}


def test_a_sweep_that_may_not_write_leaves_the_ledger_as_it_is():
    book = Fleeting()
    cache.write(shelf(book, writes=False), entries(9), entries(9))
    assert book._states == {}


def test_a_row_grows_neither_in_entries_nor_in_letters_beyond_what_it_may():
    book, chance = Fleeting(), random.Random(1)
    cache.write(shelf(book), rows := entries(10_000), rows)
    assert len(cache.read(shelf(book), rows)) == cache.ROWS * cache.MOST
    wide = {id: Kept(stamp="s", at=NOW, body={"x": chance.randbytes(2000).hex()}) for id in entries(1600)}
    cache.write(shelf(book), wide, wide)
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
    cache.write(shelf(book, tell=told.append), entries(1), entries(1))
    assert cache.read(shelf(book, tell=told.append), entries(1)) == {}
    assert told
    assert all("still throttled" in text for text in told)


def test_nothing_is_kept_in_a_ledger_of_a_newer_version():
    book, told = Fleeting(), list[str]()
    book.write_state(FORMAT_ROW, {"number": "99"}, 0, NOW)
    cache.write(shelf(book, tell=told.append), entries(5), entries(5))
    assert set(book._states) == {FORMAT_ROW}
    assert "newer version" in told[0]


@pytest.mark.parametrize(
    "text", ["", "no base64!", "eJwLSS0uAQAD3QGh", "eJyrrgUAAXUA+Q=="], ids=["empty", "letters", "no JSON", "no pair"]
)
def test_a_row_that_cannot_be_understood_has_nothing_and_is_replaced(text: str):
    book = Fleeting()
    cache.write(shelf(book), rows := entries(1), rows)
    [name] = set(book._states) - {FORMAT_ROW}
    book.write_state(name, {cache.VALUE: text}, 1, NOW)
    assert cache.read(shelf(book), rows) == {}
    cache.write(shelf(book), rows, rows)
    assert cache.read(shelf(book), rows) == rows


def test_a_row_that_unpacks_to_far_more_than_was_packed_has_nothing():
    bomb = base64.b64encode(zlib.compress(b" " * (cache.UNPACKED + 1) + b"{}")).decode()
    book = Fleeting()
    cache.write(shelf(book), rows := entries(1), rows)
    [name] = set(book._states) - {FORMAT_ROW}
    book.write_state(name, {cache.VALUE: bomb}, 1, NOW)
    assert cache._unpacked(book.state(name)) == {}
    assert cache._text(bomb) == b" " * cache.UNPACKED
    assert cache.read(shelf(book), rows) == {}


def test_of_two_sweeps_that_write_at_once_the_first_stays():
    class Raced(Fleeting):
        def write_state(self, name: str, values: Any, expected_version: int, now: Any) -> bool:
            if name != FORMAT_ROW and not self._states.get(name):
                super().write_state(name, values, 0, now)
            return super().write_state(name, values, expected_version, now)

    book = Raced()
    cache.write(shelf(book), entries(3), entries(3))
    assert all(row.version == 1 for row in book._states.values())


class Counted(Fleeting):
    """Counts what it is asked for, by name; every question after `good` ones fails."""

    def __init__(self, good: float = math.inf) -> None:
        super().__init__()
        self.good, self.asked = good, list[str]()

    def state(self, name: str) -> State:
        self.asked.append(name)
        if len(self.asked) > self.good:
            raise CloudError(Trouble.THROTTLED, "dynamodb:GetItem", "still throttled")
        return super().state(name)


def test_a_sweep_of_a_target_and_kind_reads_each_row_once():
    book = Counted()
    held, rows = shelf(book), entries(300)
    for _ in range(2):
        cache.read(held, rows)
    cache.write(held, rows, rows)
    assert sorted(book.asked) == sorted({*book.asked})
    assert len(book.asked) == cache.ROWS + 1


@pytest.mark.parametrize("good", [0, 3, cache.ROWS])
def test_after_its_first_failure_a_run_asks_the_ledger_no_more_and_says_so_once(good: int):
    book, told = Counted(good), list[str]()
    opened = cache.opened(book, NOW, told.append, writes=True)

    def sweep(number: int) -> None:
        held, rows = cache.shelf(opened, HERE, f"kind {number}"), entries(300)
        cache.read(held, rows)
        cache.write(held, rows, rows)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(sweep, range(24)))
    assert len(book.asked) == good + 1
    assert len(told) == 1
    assert book._states == {}


def test_what_stands_there_is_not_written_again_until_it_is_too_old():
    book, rows = Fleeting(), entries(3)
    versions = []
    for later in (timedelta(), cache.LASTS, cache.LASTS + timedelta(seconds=1), cache.LASTS * 2):
        held = cache.shelf(cache.opened(book, NOW + later, print, writes=True), HERE, KIND)
        cache.write(held, rows, rows)
        versions.append(max(row.version for name, row in book._states.items() if name != FORMAT_ROW))
    assert versions == [1, 1, 2, 2]


def test_one_bad_entry_costs_no_other():
    book, rows = Fleeting(), entries(40)
    cache.write(shelf(book), rows, rows)
    name, held = next((name, row) for name, row in book._states.items() if name != FORMAT_ROW)
    raw = json.loads(cache._text(held.values[cache.VALUE]))
    assert len(raw) > 1
    bad = next(iter(raw))
    raw[bad] |= {"at": "2026-01-01T00:00:00"}
    packed = base64.b64encode(zlib.compress(json.dumps(raw).encode())).decode()
    book.write_state(name, {cache.VALUE: packed}, held.version, NOW)
    assert cache.read(shelf(book), rows).keys() == rows.keys() - {bad}
    cache.write(shelf(book), rows, rows)
    assert cache.read(shelf(book), rows) == rows


def test_what_cannot_be_written_as_json_fails_nothing():
    book, told = Fleeting(), list[str]()
    rows = {"one": Kept(stamp="s", body={"x": object()})}
    cache.write(shelf(book, tell=told.append), rows, rows)
    assert len(told) == 1
    assert set(book._states) <= {FORMAT_ROW}


def test_the_failure_is_known_before_the_next_thread_may_ask():
    opened = cache.opened(Counted(0), NOW, print, writes=True)
    with pytest.raises(CloudError):
        cache._ask(opened, lambda: opened.ledger.state("row"))
    assert cache._ask(opened, lambda: opened.ledger.state("row")) is None
