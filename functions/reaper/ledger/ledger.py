"""What is remembered between sweeps, over rows: records, snoozes, named rows, leases, statistics and history.

Resources themselves are never written to. Azure compares resource IDs without regard to case, and so does the ledger; ARNs are compared
exactly, except for the type in the ARN of a Studio app.

One run at a time sends notices about a target and acts on it. Leases only save work: the row versions are what prevents conflicts. What the next
runs read differently are named rows: first the places that earlier ones had no time for, and further back what is in use after a notice called it
idle.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Annotated, TypeVar

from reaper.calendars import office_hours
from reaper.case import Coverage
from reaper.coverage import NOT_REACHED, PlaceName, add_failure_row, failure_row, place_name
from reaper.errors import CloudError, ReaperError, Reason
from reaper.ledger import rows
from reaper.ledger.rows import (
    DOCUMENT,
    LAST_NAME,
    NEVER,
    RETENTION,
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
    Stored,
    Visit,
    comparable_id,
    document_of,
    keys_of,
    named_row,
    newest_first,
    place_of,
    recalled_from,
    record_key,
    retained_since,
    snooze_key,
    sortable_time,
    understood,
    value_columns,
    versioned,
)
from reaper.model import Constrained, Target, Time
from reaper.record import VOID_AHEAD, Act, Record, Snooze, is_about_hours, is_same_intent

KEPT_FOR = timedelta(days=60)
"""How long a record is retained after its last write. What no sweep writes again for long lasts for RETENTION: an action or its manifest, a lost
manifest, when the reaper changed it, and an enrolment."""
TargetText = Annotated[str, Constrained(pattern="/.*/")]
"""What `target_text` returns, in a document."""
Written = TypeVar("Written")
ChangeRow = Callable[[NamedRow], Mapping[str, str] | None]
MAX_TRIES = 8
"""How often a write is tried before it counts as failed."""


class Ledger:
    """Every operation raises CloudError if the store fails. Only an operation that returns has taken effect for sure.

    `deployment`: whose ledger it should be; empty if that isn't known.
    """

    def __init__(self, store: RowStore, deployment: str = "") -> None:
        self.store = store
        self.deployment = deployment

    def recall(self, ids: Iterable[str], now: datetime) -> Recalled:
        """What is retained at `now` about these resources, read by key in as few requests as the store can."""
        return recalled_from(self.store.get_many(keys_of(ids)), now)

    def record(self, resource_id: str, now: datetime) -> Record:
        """The record of one resource; an empty one if there is none. Raises CloudError also if it, or its snooze, can't be read."""
        return self.recall([resource_id], now).record(resource_id)

    def snooze(self, resource_id: str, now: datetime) -> Snooze:
        """What a person said about one resource; empty if nothing. Raises CloudError also if it can't be read; its record needn't be."""
        return recalled_from(self.store.get_many({snooze_key(resource_id)}), now).snooze(resource_id)

    def recall_with_row(self, ids: Iterable[str], name: str, now: datetime) -> tuple[Recalled, NamedRow]:
        """The same and a named row, all read after this call, in one request if the store can."""
        stored = self.store.get_many({*keys_of(ids), row_key := _state_key(name)})
        named = stored.pop(row_key, None)
        return recalled_from(stored, now), named_row(named, name)

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
        condition = AtVersion(version=expected_version, lapsed_before=retained_since(now))
        return self.store.put(key, {"id": resource_id, DOCUMENT: rows.document_of(written)}, touched, condition)

    def write_snooze(self, resource_id: str, snooze: Snooze, expected_version: int, now: datetime) -> bool:
        """Write what a person said, as `write_record` does. It is retained until its snooze has ended for RETENTION."""
        touched = sortable_time(max(now, snooze.until or now))
        condition = AtVersion(version=expected_version, lapsed_before=retained_since(now))
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
        return recalled_from(named, now).with_newer(self.recall(elsewhere, now)) if elsewhere else recalled_from(named, now)

    def read_row(self, name: str) -> NamedRow:
        """The named row, empty if there is none. Named rows are never forgotten. A row that can't be read raises CloudError."""
        return named_row(self.store.get(_state_key(name)), name)

    def read_rows(self, names: Iterable[str]) -> Mapping[str, NamedRow]:
        """The named rows by name, in as few requests as the store can."""
        keys = {name: _state_key(name) for name in names}
        stored = self.store.get_many(list(keys.values()))
        return {name: named_row(stored.get(key), name) for name, key in keys.items()}

    def write_row(self, name: str, values: Mapping[str, str], expected_version: int) -> bool:
        """Replace the named row if its version is still `expected_version` (0: no row). Returns False if the version changed."""
        return self.store.put(_state_key(name), value_columns(values), NEVER, AtVersion(version=expected_version))

    def add_visit(self, visit: Visit) -> None:
        """Store what a mail's link opens. It is retained until the link expires."""
        key, touched = Key(Category.VISIT, "", visit.id), sortable_time(visit.expires - RETENTION)
        self.store.put(key, value_columns({DOCUMENT: rows.document_of(visit)}), touched, AtVersion(version=0))

    def visit(self, visit_id: str, now: datetime) -> Visit | None:
        """What the link with that ID opens; None if there is no such row, or none any longer. Raises CloudError also if it can't be read."""
        row = self.store.get(Key(Category.VISIT, "", visit_id))
        if row is None or row.is_lapsed(retained_since(now)):
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
        name = f"{newest_first(summary.started)}#{summary.run}"
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
        key = Key(Category.HISTORY, comparable_id(entry.id), f"{newest_first(entry.when)}#{digest}")
        self.store.put(key, {"id": entry.id, DOCUMENT: document}, sortable_time(entry.when))

    def history(self, resource_id: str, since: datetime, limit: int | None = None) -> list[HistoryEntry]:
        """The last `limit` entries of the resource's history that are not older than `since`, oldest first. No others are read."""
        last = f"{newest_first(since)}{LAST_NAME}"
        stored = self.store.query(Category.HISTORY, comparable_id(resource_id), last=last, limit=limit)
        return [rows.parse_document(HistoryEntry, row.columns.get(DOCUMENT), "a history entry") for row in reversed(stored)]

    def acted_on(self, now: datetime) -> list[str]:
        """The IDs of everything with an action or an undo on record. Reads every row: for a person with rights of their own, never for a run."""
        since, ids = retained_since(now), {}
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


def _state_key(name: str) -> Key:
    return Key(Category.STATE, "", name)


def _lease_key(target: Target) -> Key:
    return Key(Category.LEASE, "", target_text(target))


def _statistics_place(target: Target, kind: str) -> str:
    return f"{target_text(target)}/{kind}"


def _act_in(row: Row) -> Act | None:
    """The last action in a row; None if it is about something else, or can't be read."""
    if row.key.category is not Category.RECORD:
        return None
    try:
        return versioned(Record, row, row.key.name).act
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


LEASE = timedelta(minutes=15)
UNREACHED_ROW, PLACES = "unreached", tuple[PlaceName, ...]
MAX_PLACES = 2000
"""More than that would not fit into a row. The order of the others doesn't matter."""
DOUBTED_ROW, DOUBTED = "doubted", dict[str, Time]
"""The time of the notice, by ID."""
MAX_DOUBTED = 1000


@dataclass(slots=True, kw_only=True)
class RunLeases:
    """The targets that one run has to itself. `failures`: a row if the ledger failed. `dead_runs`: runs that this one has taken over from."""

    ledger: Ledger
    run_id: str
    clock: Callable[[], datetime]
    renewed_at: datetime
    targets: set[Target] = field(default_factory=set)
    failures: list[Coverage] = field(default_factory=list)
    dead_runs: tuple[str, ...] = ()

    def take(self, target: Target) -> bool:
        """Take or prolong one lease, also that of a dead run. Returns False if another run has it, or if the ledger fails."""
        try:
            taken = self.prolong(target)
            holder = None if taken or not self.dead_runs else self.ledger.lease_holder(target, self.clock())
            if holder and holder in self.dead_runs:
                self.ledger.give_back_lease(target, holder)
                taken = self.prolong(target)
        except ReaperError as error:
            self.note_failure(error)
            return False
        if taken:
            self.targets.add(target)
        return taken

    def prolong(self, target: Target) -> bool:
        """Prolong one lease, or take it if it has run out. Returns False if another run has it. Raises CloudError if the ledger fails."""
        return self.ledger.take_lease(target, self.run_id, self.clock(), LEASE)

    def prolong_all(self) -> bool:
        """Prolong every lease once a third of its time is over. Returns whether the run still has all of them."""
        now = self.clock()
        if now - self.renewed_at <= LEASE / 3:
            return True
        taken = [self.take(target) for target in sorted(self.targets, key=str)]
        if all(taken):  # once a lease is lost, all are requested again before the next message
            self.renewed_at = now
        return all(taken)

    def note_failure(self, error: ReaperError) -> None:
        """One row, however often the ledger fails."""
        add_failure_row(self.failures, failure_row("ledger", error))

    def give_back(self, targets: Iterable[Target] | None = None) -> None:
        """Give these leases back, or all of them; a second time nothing happens."""
        for target in self.targets & set(self.targets if targets is None else targets):
            self.targets.discard(target)
            try:
                self.ledger.give_back_lease(target, self.run_id)
            except ReaperError as error:
                self.note_failure(error)


def read_gaps(ledger: Ledger) -> tuple[frozenset[PlaceName], frozenset[str]]:
    """The places to read first, and the IDs of what to read as a whole. Raises CloudError."""
    rows = ledger.read_rows((UNREACHED_ROW, DOUBTED_ROW))
    places, doubted = understood(PLACES, rows[UNREACHED_ROW]), understood(DOUBTED, rows[DOUBTED_ROW])
    return frozenset(places or ()), frozenset(doubted or ())


def record_doubted(
    ledger: Ledger, row: NamedRow, doubted: Mapping[str, datetime], ids: Collection[str], oldest: datetime
) -> None:
    """Remember what is in use although a notice called it idle, with the time of that notice, unless that is before `oldest`: late metrics may
    prove the notice wrong. `ids`: what this run knows. `row`: as read. Raises CloudError.
    """
    before = understood(DOUBTED, row) or {}
    known = {resource_id: when for resource_id, when in before.items() if resource_id not in ids} | dict(doubted)
    newest = sorted(((when, resource_id) for resource_id, when in known.items() if when > oldest), reverse=True)
    after = {resource_id: when for when, resource_id in newest[:MAX_DOUBTED]}
    if after != before:
        update_row(ledger, DOUBTED_ROW, lambda _: {DOCUMENT: document_of(after, DOUBTED)}, known=row)


def record_unreached(ledger: Ledger, row: NamedRow, rows: Iterable[Coverage]) -> None:
    """Remember the places that these rows say weren't reached, and forget those that were. `row`: as read. Raises CloudError."""
    cloud_rows = [row for row in rows if not row.is_own]
    before = frozenset(understood(PLACES, row) or ())  # a row that can't be understood names none
    opened = {(row.cloud, row.account) for row in cloud_rows}
    reached = {place for place in before if place[2] is None and place[:2] in opened} | {place_name(row) for row in cloud_rows}
    after = (before - reached) | {place_name(row) for row in cloud_rows if NOT_REACHED in (row.error or "")}
    if after != before:
        names = tuple(sorted(after, key=str)[:MAX_PLACES])
        update_row(ledger, UNREACHED_ROW, lambda _: {DOCUMENT: document_of(names, PLACES)}, known=row)
