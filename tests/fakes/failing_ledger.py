"""A ledger that fails on request: `fail_on` may raise before an operation, and again after it took effect."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta

from fakes.memory_ledger import InMemoryLedger
from reaper.errors import CloudError, Reason
from reaper.ledger.rows import HistoryEntry, NamedRow, Recalled, RunStatistics
from reaper.model import Target
from reaper.record import Record, Snooze


class FailingLedger(InMemoryLedger):
    """`reaper.ledger.ledger.Ledger`. The records of the IDs in `unreadable_ids` can't be read."""

    def __init__(self) -> None:
        super().__init__()
        self.fail_on: Callable[[str, str], None] = lambda call, id: None
        self.unreadable_ids: set[str] = set()

    def recall(self, ids: Iterable[str], now: datetime) -> Recalled:
        self.fail_on("recall", "")
        return self._spoilt(super().recall(ids, now))

    def recall_target(self, target: Target, now: datetime, ids: Iterable[str] = ()) -> Recalled:
        self.fail_on("recall", "")
        return self._spoilt(super().recall_target(target, now, ids))

    def _spoilt(self, recalled: Recalled) -> Recalled:
        spoilt = {
            id: CloudError(Reason.UNREADABLE, "ledger", f"{id} cannot be read") for id in self.unreadable_ids if id in recalled
        }
        return recalled.with_newer(Recalled(unreadable=spoilt)) if spoilt else recalled

    def write_record(self, resource_id: str, record: Record, expected_version: int, now: datetime) -> bool:
        self.fail_on("remember", resource_id)
        written = super().write_record(resource_id, record, expected_version, now)
        self.fail_on("remembered", resource_id)
        return written

    def write_snooze(self, resource_id: str, snooze: Snooze, expected_version: int, now: datetime) -> bool:
        self.fail_on("snooze", resource_id)
        written = super().write_snooze(resource_id, snooze, expected_version, now)
        self.fail_on("snoozed", resource_id)
        return written

    def read_row(self, name: str) -> NamedRow:
        self.fail_on("row", name)
        return super().read_row(name)

    def read_rows(self, names: Iterable[str]) -> Mapping[str, NamedRow]:
        wanted = list(names)
        self.fail_on("row", wanted[0])
        return super().read_rows(wanted)

    def write_row(self, name: str, values: Mapping[str, str], expected_version: int) -> bool:
        self.fail_on("write row", name)
        return super().write_row(name, values, expected_version)

    def take_lease(self, target: Target, holder: str, now: datetime, ttl: timedelta) -> bool:
        self.fail_on("lease", holder)
        return super().take_lease(target, holder, now, ttl)

    def lease_holder(self, target: Target, now: datetime) -> str | None:
        self.fail_on("holder", "")
        return super().lease_holder(target, now)

    def give_back_lease(self, target: Target, holder: str) -> None:
        self.fail_on("release", holder)
        super().give_back_lease(target, holder)

    def record_statistics(self, summary: RunStatistics) -> None:
        self.fail_on("summary", "")
        super().record_statistics(summary)

    def statistics(self, target: Target, kind: str, limit: int) -> list[RunStatistics]:
        self.fail_on("summaries", "")
        return super().statistics(target, kind, limit)

    def add_history(self, entry: HistoryEntry) -> None:
        self.fail_on("note", entry.id)
        super().add_history(entry)
        self.fail_on("noted", entry.id)

    def history(self, id: str, since: datetime, limit: int | None = None) -> list[HistoryEntry]:
        self.fail_on("history", id)
        return super().history(id, since, limit)
