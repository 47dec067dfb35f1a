"""What is remembered between sweeps, over rows: memories, hints, named rows, leases, statistics and history.

Resources themselves are never written to. Azure compares resource IDs without regard to case, and so does the ledger; ARNs are compared
exactly, except for the type in the ARN of a Studio app.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256

from reaper.errors import CloudError, Reason
from reaper.idle_period import VOID_AHEAD
from reaper.ledger import rows
from reaper.ledger.rows import HistoryEntry, NamedRow, Recalled, RunStatistics, Unfinished, Visit, sortable_time
from reaper.ledger.store import LAST_NAME, NEVER, AtVersion, Category, FreeFor, Having, Key, Row, RowStore
from reaper.model import Memory, Target

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
RETENTION = timedelta(days=400)
"""How long an entry is retained after its last write. A snooze that ends later counts as written when it ends."""
SNOOZE_FIELDS = frozenset(
    {"snoozed_until", "snoozed_at", "snoozed_by", "snooze_reason", "disowned_by", "disowned_at", "written_at"}
)
"""The fields that the page of a snooze link writes."""
NEWEST_FIRST_BASE = 10**19
"""Partitions are read in ascending order, so the names of statistics and of the history count down from here."""
_STUDIO_APP_ARN = re.compile(r"(arn:[^:]+:sagemaker:[^:]*:[^:]*:app/[^/]+/[^/]+/)([^/]+)(/.+)", re.DOTALL)


class Ledger:
    """Every operation raises CloudError if the store fails. Only an operation that returns has taken effect for sure.

    `deployment`: whose ledger it should be; empty if that isn't known.
    """

    def __init__(self, store: RowStore, deployment: str = "") -> None:
        self.store = store
        self.deployment = deployment

    def recall(self, ids: Iterable[str], now: datetime) -> Recalled:
        """The memories of these resources that are still retained at `now`, by ID as given. An unreadable one raises when it is asked for."""
        key_by_id = {resource_id: memory_key(resource_id) for resource_id in ids}
        return _memories(key_by_id, self.store.get_many(set(key_by_id.values())), now)

    def memory(self, resource_id: str, now: datetime) -> Memory:
        """The memory of one resource; an empty one if there is none. Raises CloudError also if it can't be read."""
        memory: Memory = self.recall([resource_id], now).get(resource_id, Memory())
        return memory

    def recall_with_row(self, ids: Iterable[str], name: str, now: datetime) -> tuple[Recalled, NamedRow]:
        """The same memories and a named row, all read after this call, in one request if the store can."""
        key_by_id, row_key = {resource_id: memory_key(resource_id) for resource_id in ids}, _state_key(name)
        stored = self.store.get_many({row_key, *key_by_id.values()})
        return _memories(key_by_id, stored, now), _named_row(stored.get(row_key), name)

    def remember(
        self, resource_id: str, memory: Memory, expected_version: int, now: datetime, fields: Collection[str] | None = None
    ) -> bool:
        """Write `memory` if the stored version is still `expected_version` (0: no memory), and raise the version by one.

        Sets or removes only columns that this version of the product knows, and of these only `fields` if given: a forgotten memory that is
        still stored is only replaced as a whole. Ignores `memory.version`. `now` becomes the row's `written_at`, unless a fast clock wrote a later one.
        Returns False if the version changed: nothing was written; recall and decide again.
        """
        ahead = memory.written_at is not None and now < memory.written_at <= now + VOID_AHEAD
        columns = rows.memory_columns(replace(memory, written_at=memory.written_at if ahead else now), fields)
        lapsed_before = _retained_since(now) if fields is None or expected_version else None
        touched = sortable_time(max(now, memory.snoozed_until or now))
        condition = AtVersion(version=expected_version, lapsed_before=lapsed_before)
        return self.store.change(memory_key(resource_id), {"id": resource_id, **columns}, touched, condition)

    def unfinished(self, target: Target, now: datetime) -> list[Unfinished]:
        """Every hint of an unfinished action in the target, oldest first."""
        place = target_text(target)
        stored = self.store.query(Category.OPEN, "", f"{place} ", f"{place}!")
        since = _retained_since(now)
        hints = [rows.unfinished_from_row(row.columns, target) for row in stored if not row.is_lapsed(since)]
        return sorted(hints, key=lambda hint: (hint.at, hint.id))

    def unfinished_targets(self, now: datetime) -> list[Target]:
        """Every target with a hint, whether a run still sweeps it or not."""
        stored = self.store.query(Category.OPEN, "")
        since = _retained_since(now)
        places = {row.key.name.partition(" ")[0] for row in stored if not row.is_lapsed(since)}
        return [target_from_text(place) for place in sorted(places)]

    def add_unfinished(self, entry: Unfinished) -> None:
        """Add a hint before an action begins. Replaces an earlier hint for the same target and ID."""
        self.store.put(_hint_key(entry.target, entry.id), rows.columns_of(entry), sortable_time(entry.at))

    def remove_unfinished(self, target: Target, resource_id: str) -> None:
        """Remove the hint, if there is one."""
        self.store.delete(_hint_key(target, resource_id))

    def read_row(self, name: str) -> NamedRow:
        """The named row, empty if there is none. Named rows are never forgotten. A row that can't be read raises CloudError."""
        return _named_row(self.store.get(_state_key(name)), name)

    def read_rows(self, names: Iterable[str]) -> Mapping[str, NamedRow]:
        """The named rows by name, in as few requests as the store can."""
        keys = {name: _state_key(name) for name in names}
        stored = self.store.get_many(list(keys.values()))
        return {name: _named_row(stored.get(key), name) for name, key in keys.items()}

    def write_row(self, name: str, values: Mapping[str, str], expected_version: int) -> bool:
        """Replace the named row if its version is still `expected_version` (0: no row). Returns False if the version changed."""
        return self.store.put(_state_key(name), rows.value_columns(values), NEVER, AtVersion(version=expected_version))

    def add_visit(self, visit: Visit) -> None:
        """Store what a mail's link opens. It is retained until the link expires."""
        key, touched = Key(Category.VISIT, "", visit.id), sortable_time(visit.expires - RETENTION)
        self.store.put(key, rows.visit_columns(visit), touched, AtVersion(version=0))

    def visit(self, visit_id: str, now: datetime) -> Visit | None:
        """What the link with that ID opens; None if there is no such row, or none any longer. Raises CloudError also if it can't be read."""
        row = self.store.get(Key(Category.VISIT, "", visit_id))
        return rows.visit_from_row(row.columns, row.version) if row and not row.is_lapsed(_retained_since(now)) else None

    def take_lease(self, target: Target, holder: str, now: datetime, ttl: timedelta) -> bool:
        """Take the target until `now + ttl`, or extend the holder's own lease. Returns False while another holder's lease is valid."""
        condition = FreeFor(holder=holder, now=sortable_time(now))
        return self.store.put(_lease_key(target), {"holder": holder}, sortable_time(now + ttl), condition)

    def lease_holder(self, target: Target, now: datetime) -> str | None:
        """Who has the target at present; None if no lease on it is valid."""
        lease = self.store.get(_lease_key(target))
        if lease is None or lease.touched <= sortable_time(now):
            return None
        if "holder" not in lease.texts:
            raise CloudError(Reason.UNREADABLE, "ledger:Read", f"the lease on {lease.key.name} has no holder")
        return lease.texts["holder"]

    def give_back_lease(self, target: Target, holder: str) -> None:
        """Give the lease back. Does nothing if another holder has it by now."""
        self.store.delete(_lease_key(target), Having(column="holder", text=holder))

    def record_statistics(self, summary: RunStatistics) -> None:
        """Store the statistics. Replaces those of the same run, target and kind."""
        name = f"{_newest_first(summary.started)}#{summary.run}"
        key = Key(Category.STATISTICS, _statistics_place(summary.target, summary.kind), name)
        columns = rows.columns_of(summary) | rows.columns_of(summary.target)
        self.store.put(key, columns, sortable_time(summary.started))

    def statistics(self, target: Target, kind: str, limit: int) -> list[RunStatistics]:
        """The last `limit` statistics of the target and kind, newest first."""
        stored = self.store.query(Category.STATISTICS, _statistics_place(target, kind), limit=limit)
        return [rows.statistics_from_row(row.columns) for row in stored]

    def add_history(self, entry: HistoryEntry) -> None:
        """Append to the history. Adding the same entry twice adds it once, so repeating the call is safe."""
        columns = rows.columns_of(entry)
        digest = sha256(json.dumps(columns).encode()).hexdigest()[:16]  # entries of the same moment differ in it
        key = Key(Category.HISTORY, comparable_id(entry.id), f"{_newest_first(entry.when)}#{digest}")
        self.store.put(key, columns, sortable_time(entry.when))

    def history(self, resource_id: str, since: datetime, limit: int | None = None) -> list[HistoryEntry]:
        """The last `limit` entries of the resource's history that are not older than `since`, oldest first. No others are read."""
        last = f"{_newest_first(since)}{LAST_NAME}"
        stored = self.store.query(Category.HISTORY, comparable_id(resource_id), last=last, limit=limit)
        return [rows.history_from_row(row.columns) for row in reversed(stored)]

    def acted_on(self, now: datetime) -> list[str]:
        """The IDs of everything with an action or an undo on record. Reads every row: for a person with rights of their own, never for a run."""
        since, ids = _retained_since(now), {}
        for row in self.store.scan():
            is_action = row.key.category is Category.MEMORY and rows.COLUMNS["last_action_run"] in row.texts
            is_undo = row.key.category is Category.HISTORY and row.texts.get("what") == rows.RESTORED
            if (is_action or is_undo) and "id" in row.texts and not row.is_lapsed(since):
                ids[comparable_id(row.texts["id"])] = row.texts["id"]
        return sorted(ids.values())

    def runs_like(self, beginning: str) -> list[str]:
        """The runs whose last actions are on record and whose ID begins so. Reads every row, as `acted_on` does."""
        column = rows.COLUMNS["last_action_run"]
        found = (row.texts.get(column, "") for row in self.store.scan() if row.key.category is Category.MEMORY)
        return sorted({run for run in found if run.startswith(beginning)})

    def forget_before(self, moment: datetime) -> int:
        """Delete entries last written before `moment`, except snoozes that end later. Returns how many. Call it after every sweep."""
        return self.store.forget_before(sortable_time(moment))

    def close(self) -> None:
        """Close files and connections."""
        self.store.close()


def comparable_id(resource_id: str) -> str:
    """The form in which IDs are compared and stored: ARM IDs, which begin with a slash, in lower case; ARNs unchanged.

    Only the type in the ARN of a Studio app is lowered, because AWS spells it both `jupyterlab` and `JupyterLab`.
    https://learn.microsoft.com/en-us/azure/azure-resource-manager/management/overview (resource names)
    """
    if resource_id.startswith("/"):
        return resource_id.lower()
    app = _STUDIO_APP_ARN.fullmatch(resource_id) if ":app/" in resource_id else None
    return f"{app[1]}{app[2].lower()}{app[3]}" if app else resource_id


def target_text(target: Target) -> str:
    """A target as one string: cloud, account and region, with `-` for no region."""
    return f"{target.cloud}/{target.account}/{target.region or '-'}"


def target_from_text(text: str) -> Target:
    """The inverse of `target_text`. Raises ValueError for anything else."""
    cloud, account, region = text.split("/", 2)
    return Target(cloud=cloud, account=account, region=None if region == "-" else region)


def memory_key(resource_id: str) -> Key:
    """Memories of one subscription, or of one AWS account and region, lie together: a store may read them together."""
    same = comparable_id(resource_id)
    if same.startswith("/"):
        parts = same.split("/")
        return Key(Category.MEMORY, parts[2] if parts[1] == "subscriptions" and len(parts) > 2 else "other", same)
    parts = same.split(":", 5)
    return Key(Category.MEMORY, f"{parts[4]} {parts[3]}" if len(parts) == 6 and parts[0] == "arn" else "other", same)


def _hint_key(target: Target, resource_id: str) -> Key:
    """All hints are one partition, ordered by target."""
    return Key(Category.OPEN, "", f"{target_text(target)} {comparable_id(resource_id)}")


def _state_key(name: str) -> Key:
    return Key(Category.STATE, "", name)


def _lease_key(target: Target) -> Key:
    return Key(Category.LEASE, "", target_text(target))


def _statistics_place(target: Target, kind: str) -> str:
    return f"{target_text(target)}/{kind}"


def _retained_since(now: datetime) -> str:
    return sortable_time(now - RETENTION)


def _newest_first(when: datetime) -> str:
    return f"{NEWEST_FIRST_BASE - (when - EPOCH) // timedelta(microseconds=1):020d}"


def _memories(key_by_id: Mapping[str, Key], stored: Mapping[Key, Row], now: datetime) -> Recalled:
    """The rows as memories. An unreadable row doesn't affect the others."""
    since = _retained_since(now)
    memories: dict[str, Memory] = {}
    unreadable: dict[str, CloudError] = {}
    for resource_id, key in key_by_id.items():
        row = stored.get(key)
        if row is None or row.is_lapsed(since):
            continue
        try:
            memories[resource_id] = rows.memory_from_row(row.columns, row.version, resource_id)
        except CloudError as error:
            if error.reason is not Reason.UNREADABLE:
                raise
            unreadable[resource_id] = error
    return Recalled(memories, unreadable)


def _named_row(row: Row | None, name: str) -> NamedRow:
    return rows.named_row(row.columns, row.version, name) if row else NamedRow()
