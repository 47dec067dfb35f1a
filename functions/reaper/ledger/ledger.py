"""What is remembered between sweeps, over rows: records, snoozes, named rows, leases, statistics and history.

Resources themselves are never written to. Azure compares resource IDs without regard to case, and so does the ledger; ARNs are compared
exactly, except for the type in the ARN of a Studio app.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Annotated, TypeVar

from reaper.calendars import office_hours
from reaper.errors import CloudError, Reason
from reaper.ledger import rows
from reaper.ledger.rows import (
    DOCUMENT,
    LAST_NAME,
    NEVER,
    VALUE_PREFIX,
    AtVersion,
    Category,
    FreeFor,
    Having,
    HistoryEntry,
    Key,
    NamedRow,
    Recalled,
    Row,
    RowStore,
    RunStatistics,
    Visit,
    comparable_id,
    sortable_time,
)
from reaper.model import Constrained, Target
from reaper.record import VOID_AHEAD, Act, Record, Snooze, is_about_hours, is_same_intent

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
RETENTION = timedelta(days=400)
"""How long a row is retained from the moment it was touched. A snooze that ends later counts as touched when it ends."""
KEPT_FOR = timedelta(days=60)
"""How long a record is retained after its last write. What no sweep writes again for long lasts for RETENTION: an action or its manifest, a lost
manifest, when the reaper changed it, and an enrolment."""
TargetText = Annotated[str, Constrained(pattern="/.*/")]
"""What `target_text` returns, in a document."""
Stored = TypeVar("Stored", Record, Snooze)
Written = TypeVar("Written")
ChangeRow = Callable[[NamedRow], Mapping[str, str] | None]
MAX_TRIES = 8
"""How often a write is tried before it counts as failed."""
NEWEST_FIRST_BASE = 10**19
"""Partitions are read in ascending order, so the names of statistics and of the history count down from here."""


class Ledger:
    """Every operation raises CloudError if the store fails. Only an operation that returns has taken effect for sure.

    `deployment`: whose ledger it should be; empty if that isn't known.
    """

    def __init__(self, store: RowStore, deployment: str = "") -> None:
        self.store = store
        self.deployment = deployment

    def recall(self, ids: Iterable[str], now: datetime) -> Recalled:
        """What is retained at `now` about these resources, read by key in as few requests as the store can."""
        return _recalled(self.store.get_many(_keys_of(ids)), now)

    def record(self, resource_id: str, now: datetime) -> Record:
        """The record of one resource; an empty one if there is none. Raises CloudError also if it, or its snooze, can't be read."""
        return self.recall([resource_id], now).record(resource_id)

    def snooze(self, resource_id: str, now: datetime) -> Snooze:
        """What a person said about one resource; empty if nothing. Raises CloudError also if it can't be read; its record needn't be."""
        return _recalled(self.store.get_many({snooze_key(resource_id)}), now).snooze(resource_id)

    def recall_with_row(self, ids: Iterable[str], name: str, now: datetime) -> tuple[Recalled, NamedRow]:
        """The same and a named row, all read after this call, in one request if the store can."""
        stored = self.store.get_many({*_keys_of(ids), row_key := _state_key(name)})
        named = stored.pop(row_key, None)
        return _recalled(stored, now), _named_row(named, name)

    def write_record(self, resource_id: str, record: Record, expected_version: int, now: datetime) -> bool:
        """Write the record if the stored version is still `expected_version` (0: no record), and raise the version by one.

        Ignores `record.version`. `now` becomes its `written_at`, unless a fast clock wrote a later one. Returns False if the version changed:
        nothing was written; recall and decide again.
        """
        ahead = record.written_at is not None and now < record.written_at <= now + VOID_AHEAD
        written = record if ahead else replace(record, written_at=now)
        lasts = record.act or record.lost_manifest or record.called_at or is_about_hours(record.notice)
        kept_for = RETENTION if lasts else KEPT_FOR
        key, touched = record_key(resource_id), sortable_time(now - RETENTION + kept_for)
        condition = AtVersion(version=expected_version, lapsed_before=_retained_since(now))
        return self.store.put(key, {"id": resource_id, DOCUMENT: rows.document_of(written)}, touched, condition)

    def write_snooze(self, resource_id: str, snooze: Snooze, expected_version: int, now: datetime) -> bool:
        """Write what a person said, as `write_record` does. It is retained until its snooze has ended for RETENTION."""
        touched = sortable_time(max(now, snooze.until or now))
        condition = AtVersion(version=expected_version, lapsed_before=_retained_since(now))
        columns = {"id": resource_id, DOCUMENT: rows.document_of(snooze)}
        return self.store.put(snooze_key(resource_id), columns, touched, condition)

    def recall_target(self, target: Target, now: datetime, ids: Iterable[str] = ()) -> Recalled:
        """What is retained at `now` about every resource in the target, listed or not: two queries. Those of these IDs that say another place
        are read by key as well.
        """
        place = place_of(target)
        stored = [row for category in (Category.RECORD, Category.SNOOZE) for row in self.store.query(category, place)]
        # A long name may be shortened in the store.
        named = {Key(row.key.category, place, comparable_id(row.texts.get("id", row.key.name))): row for row in stored}
        elsewhere = [id_ for id_ in ids if record_key(id_).place != place]
        return _recalled(named, now).with_newer(self.recall(elsewhere, now)) if elsewhere else _recalled(named, now)

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
        return self.store.put(_state_key(name), _value_columns(values), NEVER, AtVersion(version=expected_version))

    def add_visit(self, visit: Visit) -> None:
        """Store what a mail's link opens. It is retained until the link expires."""
        key, touched = Key(Category.VISIT, "", visit.id), sortable_time(visit.expires - RETENTION)
        self.store.put(key, _value_columns({DOCUMENT: rows.document_of(visit)}), touched, AtVersion(version=0))

    def visit(self, visit_id: str, now: datetime) -> Visit | None:
        """What the link with that ID opens; None if there is no such row, or none any longer. Raises CloudError also if it can't be read."""
        row = self.store.get(Key(Category.VISIT, "", visit_id))
        if row is None or row.is_lapsed(_retained_since(now)):
            return None
        subject = "the list of resources behind a link"
        visit = rows.parse_document(Visit, row.columns.get(f"{VALUE_PREFIX}{DOCUMENT}"), subject)
        try:
            office_hours.time_zone(visit.tz)
        except ValueError as error:
            raise CloudError(Reason.UNREADABLE, "ledger:Read", f"{subject} can't be read ({error})") from error
        return visit

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
        target = Target(cloud=summary.target.cloud, account=summary.target.account, region=summary.target.region)
        self.store.put(key, {DOCUMENT: rows.document_of(replace(summary, target=target))}, sortable_time(summary.started))

    def statistics(self, target: Target, kind: str, limit: int) -> list[RunStatistics]:
        """The last `limit` statistics of the target and kind, newest first."""
        stored = self.store.query(Category.STATISTICS, _statistics_place(target, kind), limit=limit)
        return [rows.parse_document(RunStatistics, row.columns.get(DOCUMENT), "a record of run statistics") for row in stored]

    def add_history(self, entry: HistoryEntry) -> None:
        """Append to the history. Adding the same entry twice adds it once, so repeating the call is safe."""
        document = rows.document_of(entry)
        digest = sha256(document.encode()).hexdigest()[:16]  # entries of the same moment differ in it
        key = Key(Category.HISTORY, comparable_id(entry.id), f"{_newest_first(entry.when)}#{digest}")
        self.store.put(key, {"id": entry.id, DOCUMENT: document}, sortable_time(entry.when))

    def history(self, resource_id: str, since: datetime, limit: int | None = None) -> list[HistoryEntry]:
        """The last `limit` entries of the resource's history that are not older than `since`, oldest first. No others are read."""
        last = f"{_newest_first(since)}{LAST_NAME}"
        stored = self.store.query(Category.HISTORY, comparable_id(resource_id), last=last, limit=limit)
        return [rows.parse_document(HistoryEntry, row.columns.get(DOCUMENT), "a history entry") for row in reversed(stored)]

    def acted_on(self, now: datetime) -> list[str]:
        """The IDs of everything with an action or an undo on record. Reads every row: for a person with rights of their own, never for a run."""
        since, ids = _retained_since(now), {}
        for row in self.store.scan():
            is_undo = row.key.category is Category.HISTORY and f'"{rows.RESTORED}"' in row.texts.get(DOCUMENT, "")
            act = _act_in(row)
            known = act.id if act else row.texts.get("id") if is_undo else None
            if known and not row.is_lapsed(since):
                ids[comparable_id(known)] = known
        return sorted(ids.values())

    def runs_like(self, beginning: str) -> list[str]:
        """The runs whose last actions are on record and whose ID begins so. Reads every row, as `acted_on` does."""
        acts = filter(None, map(_act_in, self.store.scan()))
        return sorted({act.run for act in acts if act.run.startswith(beginning)})

    def forget_before(self, moment: datetime) -> int:
        """Delete entries last written before `moment`, except snoozes that end later. Returns how many. Call it after every sweep."""
        return self.store.forget_before(sortable_time(moment))

    def close(self) -> None:
        """Close files and connections."""
        self.store.close()


def target_text(target: Target) -> str:
    """A target as one string: cloud, account and region, with `-` for no region."""
    return f"{target.cloud}/{target.account}/{target.region or '-'}"


def target_from_text(text: str) -> Target:
    """The inverse of `target_text`. Raises ValueError for anything else."""
    cloud, account, region = text.split("/", 2)
    return Target(cloud=cloud, account=account, region=None if region == "-" else region)


def place_of(target: Target) -> str:
    """Where the records of a target's resources lie."""
    return target.account.lower() if target.region is None else f"{target.account} {target.region}"


def _keys_of(ids: Iterable[str]) -> set[Key]:
    """The keys of the records and of the snoozes of these resources."""
    return {key for resource_id in ids for key in (record_key(resource_id), snooze_key(resource_id))}


def record_key(resource_id: str) -> Key:
    """The key of a record: it follows from the ID alone."""
    return Key(Category.RECORD, *_place_and_name(resource_id))


def snooze_key(resource_id: str) -> Key:
    """The key of a snooze."""
    return Key(Category.SNOOZE, *_place_and_name(resource_id))


def _place_and_name(resource_id: str) -> tuple[str, str]:
    """What lies in one subscription, or in one AWS account and region, lies together: it is recalled by one query."""
    same = comparable_id(resource_id)
    if same.startswith("/"):
        parts = same.split("/")
        return (parts[2] if parts[1] == "subscriptions" and len(parts) > 2 else "other"), same
    parts = same.split(":", 5)
    return (f"{parts[4]} {parts[3]}" if len(parts) == 6 and parts[0] == "arn" else "other"), same


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


def _versioned(form: type[Stored], row: Row, subject: str) -> Stored:
    """The record or snooze in a row, with its version. Raises CloudError if it can't be read."""
    stored = rows.parse_document(form, row.columns.get(DOCUMENT), subject)
    return replace(stored, version=rows.valid_version(row.version, subject))


def _recalled(stored: Mapping[Key, Row], now: datetime) -> Recalled:
    """What the rows say, by ID. An unreadable row doesn't affect the others."""
    since = _retained_since(now)
    records: dict[str, Record] = {}
    snoozes: dict[str, Snooze] = {}
    unreadable: dict[str, CloudError] = {}
    for key, row in stored.items():
        if row.is_lapsed(since):
            continue
        try:
            if key.category is Category.RECORD:
                records[key.name] = _versioned(Record, row, f"the ledger record of {key.name}")
            else:
                snoozes[key.name] = _versioned(Snooze, row, f"the snooze of {key.name}")
        except CloudError as error:
            if error.reason is not Reason.UNREADABLE:
                raise
            unreadable[key.name] = error
    return Recalled(records, snoozes, unreadable)


def _named_row(row: Row | None, name: str) -> NamedRow:
    """The named row in a row. Raises CloudError if it isn't readable."""
    if row is None:
        return NamedRow()
    values = {column.removeprefix(VALUE_PREFIX): row.columns[column] for column in row.columns if column.startswith(VALUE_PREFIX)}
    if not all(isinstance(value, str) for value in values.values()):
        raise CloudError(Reason.UNREADABLE, "ledger:Read", f"the row {name!r} has a value that isn't a string")
    return NamedRow(values=values, version=rows.valid_version(row.version, f"the row {name!r}"))


def _value_columns(values: Mapping[str, str]) -> dict[str, str]:
    return {f"{VALUE_PREFIX}{name}": value for name, value in values.items()}


def _act_in(row: Row) -> Act | None:
    """The last action in a row; None if it is about something else, or can't be read."""
    if row.key.category is not Category.RECORD:
        return None
    try:
        return _versioned(Record, row, row.key.name).act
    except CloudError:
        return None


def write_until_accepted(attempt: Callable[[], Written | None], subject: str) -> Written:
    """The first result of `attempt` that isn't None. An attempt reads, decides and writes; None means that another writer came first.

    Raises CloudError if the ledger fails or another writer came first MAX_TRIES times. `subject` names the row in that error.
    """
    for _ in range(MAX_TRIES):
        written = attempt()
        if written is not None:
            return written
    raise CloudError(Reason.REFUSED, "ledger", f"{subject}: other writers came first {MAX_TRIES} times in a row")


def update_record(
    ledger: Ledger, resource_id: str, change: Callable[[Record], Record], now: datetime, known: Record | None = None
) -> Record:
    """Apply `change` to whatever record is stored. Returns the record as written; an unchanged one isn't written.

    `known` is the record as read before, which saves a read. Raises CloudError if the ledger fails or other writers always come first.
    """
    return _update(ledger.record, ledger.write_record, resource_id, change, now, known)


def update_intent(
    ledger: Ledger, act: Act, change: Callable[[Record], Record], now: datetime, known: Record | None = None
) -> Record:
    """Change the record, whatever its version is, as long as it still has that intent. Returns the record. Raises CloudError."""
    return update_record(ledger, act.id, lambda record: change(record) if is_same_intent(record, act) else record, now, known)


def update_snooze(
    ledger: Ledger, resource_id: str, change: Callable[[Snooze], Snooze], now: datetime, known: Snooze | None = None
) -> Snooze:
    """Apply `change` to whatever a person said, as `update_record` does."""
    return _update(ledger.snooze, ledger.write_snooze, resource_id, change, now, known)


def _update(
    read: Callable[[str, datetime], Stored],
    write: Callable[[str, Stored, int, datetime], bool],
    resource_id: str,
    change: Callable[[Stored], Stored],
    now: datetime,
    known: Stored | None,
) -> Stored:
    first = [known] if known is not None else []

    def attempt() -> Stored | None:
        stored = first.pop() if first else read(resource_id, now)
        new = change(stored)
        return new if new == stored or write(resource_id, new, stored.version, now) else None

    return write_until_accepted(attempt, resource_id)


def update_row(
    ledger: Ledger, name: str, change: ChangeRow, subject: str | None = None, known: NamedRow | None = None
) -> Mapping[str, str]:
    """Replace a named row by what `change` makes of it; None writes nothing. Returns its values. Raises CloudError about `subject`."""
    first = [known] if known is not None else []

    def attempt() -> Mapping[str, str] | None:
        row = first.pop() if first else ledger.read_row(name)
        if (values := change(row)) is None:
            return row.values
        return values if ledger.write_row(name, values, row.version) else None

    return write_until_accepted(attempt, subject or f"the row {name!r}")
