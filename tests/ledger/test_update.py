"""Compare and swap: what another writer wrote meanwhile is read, changed and written over, a limited number of times."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fakes.builders import HOUR, NOW
from fakes.ledger_places import ARN
from fakes.memory_ledger import InMemoryLedger
from fakes.records import a_record, changed
from reaper.errors import CloudError, Reason
from reaper.ledger.ledger import MAX_TRIES, update_record, update_row, write_until_accepted
from reaper.record import Record


class BusyLedger(InMemoryLedger):
    """A ledger to which another run writes right before each of the first `times` writes. `reads` counts recalls."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times, self.reads = times, 0

    def recall(self, ids, now):
        self.reads += 1
        return super().recall(ids, now)

    def write_record(self, resource_id, record, expected_version, now):
        if self.times:
            self.times -= 1
            stored = InMemoryLedger.recall(self, [resource_id], now).record(resource_id)
            super().write_record(resource_id, changed(stored, reminded_at=now), stored.version, now)
        return super().write_record(resource_id, record, expected_version, now)

    def write_row(self, name, values, expected_version):
        if self.times:
            self.times -= 1
            row = self.read_row(name)
            super().write_row(name, {"other": str(self.times)}, row.version)
        return super().write_row(name, values, expected_version)


def with_receipt(receipt: str) -> Callable[[Record], Record]:
    return lambda record: changed(record, receipt=receipt)


@pytest.mark.parametrize("times", [0, 1, MAX_TRIES - 1])
def test_an_update_keeps_what_other_writers_wrote(times):
    ledger = BusyLedger(times)
    written = update_record(ledger, ARN, with_receipt("r-1"), NOW)
    stored = ledger.record(ARN, NOW)
    assert (written.notice.receipt, stored.notice.receipt, stored.version) == ("r-1", "r-1", times + 1)
    assert stored.notice.reminded_at == (NOW if times else None)


def test_an_update_fails_if_other_writers_always_come_first():
    ledger = BusyLedger(MAX_TRIES)
    with pytest.raises(CloudError, match=f"other writers came first {MAX_TRIES} times") as raised:
        update_record(ledger, ARN, with_receipt("r-1"), NOW)
    assert raised.value.reason is Reason.REFUSED
    assert ledger.record(ARN, NOW).notice.receipt is None


def test_an_update_that_changes_nothing_is_not_written():
    ledger = BusyLedger(0)
    assert update_record(ledger, ARN, lambda record: record, NOW) == Record()
    assert ARN not in ledger.recall([ARN], NOW)


def test_a_known_memory_saves_the_first_read_only():
    ledger = BusyLedger(0)
    ledger.write_record(ARN, a_record(warned_at=NOW), 0, NOW)
    known = ledger.record(ARN, NOW)
    ledger.reads = 0
    update_record(ledger, ARN, with_receipt("r-1"), NOW, known)
    assert ledger.reads == 0
    update_record(ledger, ARN, with_receipt("r-2"), NOW + HOUR, known)
    assert ledger.reads == 1, "the known record is outdated by now"


def test_a_row_is_replaced_on_whatever_version_is_stored():
    ledger = BusyLedger(2)
    update_row(ledger, "hold", lambda row: {**row.values, "run": "a"})
    assert ledger.read_row("hold").values == {"other": "0", "run": "a"}
    assert ledger.read_row("hold").values == {"other": "0", "run": "a"}


def test_a_false_result_counts_as_accepted():
    assert write_until_accepted(lambda: False, "the row") is False
