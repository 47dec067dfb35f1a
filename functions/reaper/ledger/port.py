"""The ledger's port: what is remembered between sweeps, and what every ledger can do with it.

Resources themselves are never written to. Azure compares resource IDs without regard to case, and so does every ledger; ARNs are compared
exactly, except for the type in the ARN of a Studio app.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeVar

from reaper.errors import CloudError, Reason
from reaper.ledger.stored_rows import StoredRows
from reaper.model import Memory, StepName, Target

RETENTION = timedelta(days=400)
"""How long an entry is retained after its last write. A snooze that ends later counts as written when it ends."""
SNOOZE_FIELDS = frozenset({"snoozed_until", "snoozed_at", "snoozed_by", "snooze_reason", "written_at"})
"""The fields that a click on a snooze link writes."""
Row = TypeVar("Row")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatistics:
    """One sweep of one target and kind in numbers. `usd_per_hour` is the cost of the idle resources, without the `unpriced` among them."""

    run: str
    target: Target
    kind: str
    started: datetime
    seen: int
    idle: int
    usd_per_hour: float = 0.0
    unpriced: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """One event of a resource: `what` happened in a word or two (`warned`, `kept`), `by` which person or run, and one sentence that says why."""

    id: str
    when: datetime
    what: str
    by: str
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfinished:
    """A hint that an action on `id` has begun and its owner doesn't know the result yet.

    It holds enough to notify the owner even if the resource is no longer listed.
    """

    target: Target
    id: str
    kind: str
    name: str
    region: str
    owner: str | None
    action: StepName
    run: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedRow:
    """One named row of the ledger: its values, and the number of writes; 0 if there is no such row."""

    values: Mapping[str, str] = field(default_factory=dict)
    version: int = 0


class Recalled(dict[str, Memory]):
    """The readable memories by resource ID.

    A memory that exists but can't be read may be a snooze, so it must never look like no memory: asking for it raises CloudError.
    """

    def __init__(self, memories: Mapping[str, Memory], unreadable: Mapping[str, CloudError]) -> None:
        super().__init__(memories)
        self._errors = dict(unreadable)

    @property
    def unreadable(self) -> frozenset[str]:
        """The IDs whose memory can't be read. Leave these resources alone, and report them."""
        return frozenset(self._errors)

    @property
    def errors(self) -> list[CloudError]:
        """Why each of them can't be read."""
        return list(self._errors.values())

    def error_of(self, resource_id: str) -> CloudError:
        """Why this one can't be read."""
        return self._errors[resource_id]

    def __missing__(self, resource_id: str) -> Memory:
        raise self._errors.get(resource_id) or KeyError(resource_id)

    def get(self, resource_id: str, default: Any = None) -> Any:
        """The memory, or `default` if there is none. Raises CloudError if there is one that can't be read."""
        return default if resource_id not in self and resource_id not in self._errors else self[resource_id]


def memories_from_rows(rows: Mapping[str, Row], parse: Callable[[str, Row], Memory]) -> Recalled:
    """The rows as memories. An unreadable row doesn't affect the others; any other error of `parse` is raised."""
    memories: dict[str, Memory] = {}
    unreadable: dict[str, CloudError] = {}
    for resource_id, row in rows.items():
        try:
            memories[resource_id] = parse(resource_id, row)
        except CloudError as error:
            if error.reason is not Reason.UNREADABLE:
                raise
            unreadable[resource_id] = error
    return Recalled(memories, unreadable)


class Ledger(Protocol):
    """What a ledger can do. Every operation raises CloudError if the store fails. Only an operation that returns has taken effect for sure."""

    def recall(self, ids: Iterable[str], now: datetime) -> Recalled:
        """The memories of these resources that are still retained at `now`, keyed by the IDs as given.

        An unreadable memory raises when it is asked for. The others are returned all the same.
        """
        ...

    def recall_with_row(self, ids: Iterable[str], name: str, now: datetime) -> tuple[Recalled, NamedRow]:
        """The same memories and a named row, all read after this call, in one request if the store can."""
        ...

    def remember(
        self, resource_id: str, memory: Memory, expected_version: int, now: datetime, fields: Collection[str] | None = None
    ) -> bool:
        """Write `memory` if the stored version is still `expected_version` (0: no memory), and raise the version by one.

        Sets or removes only columns that this version of the product knows, and of these only `fields` if given. `now` becomes the row's
        `written_at`. Ignores `memory.version`.
        Returns False if the version changed: nothing was written; recall and decide again.
        """
        ...

    def unfinished(self, target: Target, now: datetime) -> list[Unfinished]:
        """Every hint of an unfinished action in the target, oldest first."""
        ...

    def unfinished_targets(self, now: datetime) -> list[Target]:
        """Every target with a hint, whether a run still sweeps it or not. May include one without a hint."""
        ...

    def add_unfinished(self, entry: Unfinished) -> None:
        """Add a hint before an action begins. Replaces an earlier hint for the same target and ID."""
        ...

    def remove_unfinished(self, target: Target, resource_id: str) -> None:
        """Remove the hint, if there is one."""
        ...

    def read_row(self, name: str) -> NamedRow:
        """The named row, empty if there is none. Named rows are never forgotten. A row that can't be read raises CloudError."""
        ...

    def read_rows(self, names: Iterable[str]) -> Mapping[str, NamedRow]:
        """The named rows by name, in as few requests as the store can."""
        ...

    def write_row(self, name: str, values: Mapping[str, str], expected_version: int, now: datetime) -> bool:
        """Replace the named row if its version is still `expected_version` (0: no row). Returns False if the version changed."""
        ...

    def take_lease(self, target: Target, holder: str, now: datetime, ttl: timedelta) -> bool:
        """Take the target until `now + ttl`, or extend the holder's own lease. Returns False while another holder's lease is valid."""
        ...

    def lease_holder(self, target: Target, now: datetime) -> str | None:
        """Who has the target at present; None if no lease on it is valid."""
        ...

    def give_back_lease(self, target: Target, holder: str) -> None:
        """Give the lease back. Does nothing if another holder has it by now."""
        ...

    def record_statistics(self, summary: RunStatistics) -> None:
        """Store the statistics. Replaces those of the same run, target and kind."""
        ...

    def statistics(self, target: Target, kind: str, limit: int) -> list[RunStatistics]:
        """The last `limit` statistics of the target and kind, newest first."""
        ...

    def add_history(self, entry: HistoryEntry) -> None:
        """Append to the history. Adding the same entry twice adds it once, so repeating the call is safe."""
        ...

    def history(self, resource_id: str, since: datetime, limit: int) -> list[HistoryEntry]:
        """The last `limit` entries of the resource's history that are not older than `since`, oldest first. No others are read."""
        ...

    def forget_before(self, moment: datetime) -> int:
        """Delete entries last written before `moment`, except snoozes that end later. Returns how many.

        Call it after every sweep. A store that expires entries itself does nothing. A store that has to scan everything does it once a day.
        """
        ...

    def stored_rows(self) -> StoredRows:
        """Every row as it is stored, for a person with rights of their own: a run never reads a whole ledger."""
        ...

    def close(self) -> None:
        """Close files and connections."""
        ...
