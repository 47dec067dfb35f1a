"""The ledger's rows: the port of a store, what each row says, and how that is turned into a document, and back.

A row has strings by key. Four stores keep them, and know nothing of retention but the moment from which it counts: `touched`. Times are strings
that sort in order of time. Every row that was ever stored must be read, or be reported as unreadable; it must never look like no row.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from reaper.errors import CloudError, Reason
from reaper.model import Resource, Target, Time
from reaper.record import Record, Snooze, Snoozes
from reaper.text import DOLLARS, LIST_PRICES, validation_text

if TYPE_CHECKING:
    from pydantic import TypeAdapter

FIRST_NAME, LAST_NAME = "-", "~"
"""No name of a row that is queried is before the one or after the other."""
NEVER = "9999-12-31T23:59:59.999999+00:00"
"""When a row was touched that is never forgotten."""
VALUE_PREFIX = "v_"
"""Begins the columns of a named row's values."""
RESTORED = "restored"
"""What the history calls an undo."""
LONG_AGO = datetime.min.replace(tzinfo=UTC)
_STUDIO_APP_ARN = re.compile(r"(arn:[^:]+:sagemaker:[^:]*:[^:]*:app/[^/]+/[^/]+/)([^/]+)(/.+)", re.DOTALL)
DOCUMENT = "document"
"""The column of what is written as a document. A visit's is a value, which may be long."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
RETENTION = timedelta(days=400)
"""How long a row is retained from the moment it was touched. A snooze that ends later counts as touched when it ends."""
NEWEST_FIRST_BASE = 10**19
"""Partitions are read in ascending order, so the names of statistics and of the history count down from here."""
MAX_TEXT = 300
"""How long text for people may be in a document."""

Noun = TypeVar("Noun")
Stored = TypeVar("Stored", Record, Snooze)


class Category(StrEnum):
    """What a row is about."""

    RECORD = "record"
    SNOOZE = "snooze"
    HISTORY = "history"
    STATE = "state"
    LEASE = "lease"
    STATISTICS = "summary"
    VISIT = "visit"
    SAVING = "saving"
    SAVED = "saved"
    TREND = "trend"


READ_BY_KEY = frozenset({Category.STATE, Category.LEASE, Category.VISIT})
"""The categories of which no partition is ever queried, so that a store may lay their rows where it likes."""


class Key(NamedTuple):
    """Rows of one category and place are one partition, in the order of their names."""

    category: Category
    place: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row as it is stored. A column that isn't a string stays in it, as whatever the store makes of it."""

    key: Key
    columns: Mapping[str, Any]
    version: Any = None
    touched: str = ""

    def is_lapsed(self, before: str | None) -> bool:
        """Whether its retention began before that. That of a row that doesn't say never did."""
        return before is not None and "" < self.touched < before

    @property
    def texts(self) -> dict[str, str]:
        """The columns that are strings."""
        return {name: value for name, value in self.columns.items() if isinstance(value, str)}


@dataclass(frozen=True, slots=True, kw_only=True)
class AtVersion:
    """The row has this version and its retention didn't begin before `lapsed_before`; 0: there is no such row."""

    version: int
    lapsed_before: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeFor:
    """There is no row, or its `holder` is this one, or it was touched at `now` or earlier."""

    holder: str
    now: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Having:
    """The row still has this text in the column."""

    column: str
    text: str


Condition = AtVersion | FreeFor | Having


class RowStore(Protocol):
    """Every operation raises CloudError if the store fails. All reads are consistent. Writes of one row are atomic.

    `clock_skew`: this machine's clock minus the store's at the last read; zero if the store has no clock.
    """

    clock_skew: timedelta

    def get(self, key: Key) -> Row | None:
        """The row, in one request."""

    def get_many(self, keys: Collection[Key]) -> dict[Key, Row]:
        """The rows that exist, in as few requests as the store can."""

    def query(
        self, category: Category, place: str, first: str = FIRST_NAME, last: str = LAST_NAME, limit: int | None = None
    ) -> list[Row]:
        """The rows of one partition from name `first` to `last`, in the order of their names. No more than `limit` are read."""

    def put(self, key: Key, columns: Mapping[str, str], touched: str, condition: AtVersion | FreeFor | None = None) -> bool:
        """Replace the row. Under AtVersion its version is raised, else it has none. Returns False if the condition isn't met."""

    def delete(self, key: Key, having: Having | None = None) -> None:
        """Delete the row if it exists and the condition is met."""

    def forget_before(self, moment: str) -> int:
        """Delete every row touched before `moment`, now or later. Returns how many now."""

    def scan(self) -> Iterator[Row]:
        """Every row. A run never reads a whole store: this is for a person with rights of their own."""

    def close(self) -> None:
        """Close files and connections."""


def clock_skew(date: str | None) -> timedelta:
    """This machine's clock minus the `Date` of a reply that just came; zero if it has none, or none that can be read.

    https://www.rfc-editor.org/rfc/rfc9110#section-6.6.1
    """
    from email.utils import parsedate_to_datetime  # late: it loads sockets, and only a ledger in a cloud needs it

    try:
        return datetime.now(UTC) - parsedate_to_datetime(date or "")
    except (TypeError, ValueError, OverflowError):  # a date without a zone, too
        return timedelta(0)


def is_met(condition: Condition | None, row: Row | None) -> bool:
    """Whether the row as read meets the condition. A version that can't be read is no version."""
    if isinstance(condition, AtVersion):
        if row is None or row.is_lapsed(condition.lapsed_before):
            return condition.version == 0
        return condition.version > 0 and str(row.version) == str(condition.version)
    if isinstance(condition, FreeFor):
        return row is None or row.columns.get("holder") == condition.holder or row.touched <= condition.now
    return condition is None or (row is not None and row.columns.get(condition.column) == condition.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatistics:
    """One sweep of one target and kind: how many resources were idle, active or young, and how many of them idle."""

    run: str
    target: Target
    kind: str
    started: Time
    seen: int
    idle: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """One event of a resource: `what` happened in a word or two (`warned`, `kept`), `by` which person or run, and one sentence that says why."""

    id: str
    when: Time
    what: str
    by: str
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VisitResource:
    """One resource that a mail's link can keep, for at most `max_days` at a time, and what the page shows of it."""

    id: str
    kind: str
    name: str
    where: str
    max_days: int
    usd_per_hour: float | None = None
    idle_since: Time | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """What the link in one mail opens until it `expires`. `is_owner`: the mail went to the owner, and not to the fallback that stands in.

    `currency` and `rate`, so much of it to the US dollar, and `basis`, what its costs are, say how the page shows money.
    """

    id: str
    address: str
    is_owner: bool
    sent_at: Time
    expires: Time
    tz: str
    resources: tuple[VisitResource, ...]
    currency: str = DOLLARS.code
    rate: float = DOLLARS.rate
    basis: str = LIST_PRICES


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedRow:
    """One named row of the ledger: its values, and the number of writes; 0 if there is no such row."""

    values: Mapping[str, str] = field(default_factory=dict)
    version: int = 0


class Recalled:
    """The records and snoozes of some resources, by comparable ID.

    One that exists but can't be read may protect, so it must never look like none: asking for it raises CloudError.
    """

    def __init__(
        self,
        records: Mapping[str, Record] | None = None,
        snoozes: Mapping[str, Snooze] | None = None,
        unreadable: Mapping[str, CloudError] | None = None,
    ) -> None:
        self._errors = dict(unreadable or {})
        self._records = {id_: record for id_, record in (records or {}).items() if id_ not in self._errors}
        self._snoozes = {id_: snooze for id_, snooze in (snoozes or {}).items() if id_ not in self._errors}

    @property
    def errors(self) -> list[CloudError]:
        """Why each of the unreadable ones can't be read."""
        return list(self._errors.values())

    def readable_only(self) -> Recalled:
        """The same, with nothing in place of what can't be read: to show it, never to act on it."""
        return Recalled(self._records, self._snoozes)

    @property
    def readable(self) -> Mapping[str, Record]:
        """The records that can be read, by comparable ID."""
        return self._records

    def __contains__(self, resource_id: str) -> bool:
        """Whether anything is stored about the resource."""
        id_ = comparable_id(resource_id)
        return id_ in self._records or id_ in self._snoozes or id_ in self._errors

    def is_unreadable(self, *ids: str) -> bool:
        """Whether the record or the snooze of any of these can't be read. Leave such a resource alone, and report it."""
        return any(comparable_id(resource_id) in self._errors for resource_id in ids)

    def record(self, resource_id: str) -> Record:
        """The record, an empty one if there is none. Raises CloudError if it can't be read."""
        return self._records.get(self._readable_id(resource_id), Record())

    def snooze(self, resource_id: str) -> Snooze:
        """What a person said about it, empty if nothing. Raises CloudError if it can't be read."""
        return self._snoozes.get(self._readable_id(resource_id), Snooze())

    def snoozes(self, resource: Resource) -> Snoozes:
        """What people said about it and its host. If both forms of the host's ID have a snooze, the longer one. Raises CloudError."""
        hosts = [self.snooze(host_id) for host_id in host_ids(resource)]
        host = max(hosts, key=lambda snooze: snooze.until or LONG_AGO, default=Snooze())
        return Snoozes(own=self.snooze(resource.id), host=host)

    def with_newer(self, newer: Recalled) -> Recalled:
        """These, with the newer ones in their place. What couldn't be read once stays unreadable."""
        return Recalled(self._records | newer._records, self._snoozes | newer._snoozes, self._errors | newer._errors)

    def _readable_id(self, resource_id: str) -> str:
        id_ = comparable_id(resource_id)
        if id_ in self._errors:
            raise self._errors[id_]
        return id_


def comparable_id(resource_id: str) -> str:
    """The form in which IDs are compared and stored: ARM IDs, which begin with a slash, in lower case; ARNs unchanged.

    Only the type in the ARN of a Studio app is lowered, because AWS spells it both `jupyterlab` and `JupyterLab`.
    https://learn.microsoft.com/en-us/azure/azure-resource-manager/management/overview (resource names)
    """
    if resource_id.startswith("/"):
        return resource_id.lower()
    app = _STUDIO_APP_ARN.fullmatch(resource_id) if ":app/" in resource_id else None
    return f"{app[1]}{app[2].lower()}{app[3]}" if app else resource_id


def host_ids(resource: Resource) -> Sequence[str]:
    """The IDs under which its host may be recorded: some old ARNs are in lower case, although the host's name isn't."""
    host = resource.host_id
    return list(dict.fromkeys([host, host.lower()])) if host else []


def remembered_ids(*resources: Resource) -> Sequence[str]:
    """The IDs of everything stored that may protect these: their own and their hosts', each once."""
    return list(dict.fromkeys(id_ for resource in resources for id_ in (resource.id, *host_ids(resource))))


def place_of(target: Target) -> str:
    """Where the records of a target's resources lie."""
    return target.account.lower() if target.region is None else f"{target.account} {target.region}"


def record_key(resource_id: str) -> Key:
    """The key of a record: it follows from the ID alone."""
    return Key(Category.RECORD, *_place_and_name(resource_id))


def snooze_key(resource_id: str) -> Key:
    """The key of a snooze."""
    return Key(Category.SNOOZE, *_place_and_name(resource_id))


def keys_of(ids: Iterable[str]) -> set[Key]:
    """The keys of the records and of the snoozes of these resources."""
    return {key for resource_id in ids for key in (record_key(resource_id), snooze_key(resource_id))}


def _place_and_name(resource_id: str) -> tuple[str, str]:
    """What lies in one subscription, or in one AWS account and region, lies together: it is recalled by one query."""
    same = comparable_id(resource_id)
    if same.startswith("/"):
        parts = same.split("/")
        return (parts[2] if parts[1] == "subscriptions" and len(parts) > 2 else "other"), same
    parts = same.split(":", 5)
    return (f"{parts[4]} {parts[3]}" if len(parts) == 6 and parts[0] == "arn" else "other"), same


def retained_since(now: datetime) -> str:
    return sortable_time(now - RETENTION)


def newest_first(when: datetime) -> str:
    return f"{NEWEST_FIRST_BASE - (when - EPOCH) // timedelta(microseconds=1):020d}"


def versioned(form: type[Stored], row: Row, subject: str) -> Stored:
    """The record or snooze in a row, with its version. Raises CloudError if it can't be read."""
    stored = parse_document(form, row.columns.get(DOCUMENT), subject)
    return replace(stored, version=valid_version(row.version, subject))


def recalled_from(stored: Mapping[Key, Row], now: datetime) -> Recalled:
    """What the rows say, by ID. An unreadable row doesn't affect the others."""
    since = retained_since(now)
    records: dict[str, Record] = {}
    snoozes: dict[str, Snooze] = {}
    unreadable: dict[str, CloudError] = {}
    for key, row in stored.items():
        if row.is_lapsed(since):
            continue
        try:
            if key.category is Category.RECORD:
                records[key.name] = versioned(Record, row, f"the ledger record of {key.name}")
            else:
                snoozes[key.name] = versioned(Snooze, row, f"the snooze of {key.name}")
        except CloudError as error:
            if error.reason is not Reason.UNREADABLE:
                raise
            unreadable[key.name] = error
    return Recalled(records, snoozes, unreadable)


def named_row(row: Row | None, name: str) -> NamedRow:
    """The named row in a row. Raises CloudError if it isn't readable."""
    if row is None:
        return NamedRow()
    values = {column.removeprefix(VALUE_PREFIX): row.columns[column] for column in row.columns if column.startswith(VALUE_PREFIX)}
    if not all(isinstance(value, str) for value in values.values()):
        raise CloudError(Reason.UNREADABLE, "ledger:Read", f"the row {name!r} has a value that isn't a string")
    return NamedRow(values=values, version=valid_version(row.version, f"the row {name!r}"))


def value_columns(values: Mapping[str, str]) -> dict[str, str]:
    return {f"{VALUE_PREFIX}{name}": value for name, value in values.items()}


def document_of(noun: Any, form: Any = None) -> str:
    """A noun as a document, without its version. Texts for people are cut. Raises ValueError for what no run could read again.

    `form`: what it is, for a tuple or a dict of nouns.
    """
    form = form or type(noun)
    text = adapter(form).dump_json(_without_long_texts(noun), exclude_defaults=True, exclude={"version"})
    adapter(form).validate_json(text, strict=True)  # a time without a zone, for example
    return text.decode()


def parse_document(form: type[Noun], text: Any, subject: str, advice: str = "", operation: str = "ledger:Read") -> Noun:
    """The noun in a document. Raises CloudError, with advice for people, if it isn't exactly what this version writes."""
    noun: Any = form
    with unreadable(subject, advice, operation):
        parsed: Noun = adapter(noun).validate_json(text or "", strict=True, extra="forbid")
        return parsed


def understood(form: type[Noun], row: NamedRow) -> Noun | None:
    """The noun in a named row that only saves work; None if it isn't exactly what this version writes."""
    try:
        return parse_document(form, row.values.get(DOCUMENT), "the row")
    except CloudError:
        return None


def _without_long_texts(noun: Any) -> Any:
    if isinstance(noun, Snooze):
        return replace(noun, by=_cut(noun.by), reason=_cut(noun.reason))
    if isinstance(noun, Record) and noun.act:
        return replace(noun, act=replace(noun.act, because=_cut(noun.act.because)))
    return noun


def _cut(text: str | None) -> str | None:
    return f"{text[: MAX_TEXT - 1]}…" if text and len(text) > MAX_TEXT else text


def valid_version(version: object, subject: str) -> int:
    """The version of a row as a store returns it. Raises CloudError for one below 1, which would look like no row."""
    with unreadable(subject):
        if isinstance(version, bool) or not isinstance(version, int | str) or int(version) < 1:
            raise ValueError(f"{version!r} is not a version")
        return int(version)


def sortable_time(moment: datetime) -> str:
    """An aware datetime in UTC with a fixed width, so that strings sort as times do. Raises ValueError for a naive one."""
    if moment.utcoffset() is None:
        raise ValueError(f"{moment!r} has no time zone")
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


@contextmanager
def unreadable(subject: str, advice: str = "", operation: str = "ledger:Read") -> Iterator[None]:
    """Turns ValueError, and RecursionError of a list in lists, into CloudError, which names the subject and the columns that can't be read."""
    try:
        yield
    except (ValueError, RecursionError) as error:
        from pydantic import ValidationError

        reasons = str(error)
        if isinstance(error, ValidationError):
            reasons = "; ".join(
                f"{'.'.join(map(str, e['loc']))}: {validation_text(e['msg'])}" for e in error.errors(include_url=False)
            )
        raise CloudError(Reason.UNREADABLE, operation, f"{subject} can't be read ({reasons}){advice}") from error


@cache
def adapter(noun: Any) -> TypeAdapter[Any]:
    """Reads and writes such data as JSON."""
    from pydantic import TypeAdapter  # would slow every `--help` and cold start

    return TypeAdapter(noun)
