"""What the ledger's rows say: their nouns, and how each is turned into columns of strings and back.

Every row that was ever stored must be read, or be reported as unreadable; it must never look like no row.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from dataclasses import fields as fields_of
from datetime import UTC, datetime
from functools import cache
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, get_args, get_origin, get_type_hints

from reaper.errors import CloudError, Reason
from reaper.model import Memory, SideChange, StepName, Target
from reaper.policy import office_hours
from reaper.text import DOLLARS, LIST_PRICES, validation_text

if TYPE_CHECKING:
    from pydantic import TypeAdapter

VALUE_PREFIX = "v_"
"""Begins the columns of a named row's values."""
RESTORED = "restored"
"""What the history calls an undo."""
COLUMNS: Mapping[str, str] = {
    "idle_since": "idle_since",
    "last_seen_idle_at": "idle_seen",
    "warned_at": "warned_at",
    "notice_receipt": "receipt",
    "notified_owner": "told",
    "notified_fingerprint": "shape",
    "reminded_at": "reminded_at",
    "reminders": "reminders",
    "escalated_at": "escalated_at",
    "escalated_to": "escalated_to",
    "announced_action": "announced",
    "act_not_before": "promised",
    "enrolment_digest": "enrolled",
    "claimed_since": "claimed",
    "claimed_until": "claim_end",
    "claimed_to": "claim_told",
    "wrong_hour": "wrong_hour",
    "wrong_notice_at": "wrong_at",
    "wrong_notice_to": "wrong_told",
    "snoozed_until": "snoozed_until",
    "snoozed_at": "snoozed_at",
    "snoozed_by": "snoozed_by",
    "snooze_reason": "snoozed_why",
    "disowned_by": "disowned",
    "disowned_at": "disowned_at",
    "last_action": "last_act",
    "last_action_at": "acted_at",
    "manifest_address": "manifest",
    "manifest_sha256": "manifest_sha256",
    "last_action_run": "act_run",
    "last_action_result": "act_result",
    "last_action_because": "act_because",
    "last_action_part": "act_part",
    "last_action_told_at": "act_told",
    "last_action_changes": "act_changes",
    "last_action_created": "act_created",
    "last_call_at": "called_at",
    "lost_manifest": "lost_manifest",
    "written_at": "written",
}
"""The column that stores each field of a memory. A field may be renamed; a column that was ever written never is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatistics:
    """One sweep of one target and kind: how many resources were idle, active or young, and how many of them idle."""

    run: str
    target: Target
    kind: str
    started: datetime
    seen: int
    idle: int


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
    """A hint of an action whose owner doesn't know the result yet: enough to notify them even if it is no longer listed."""

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
class VisitResource:
    """One resource that a mail's link can keep, for at most `max_days` at a time, and what the page shows of it."""

    id: str
    kind: str
    name: str
    where: str
    max_days: int
    usd_per_hour: float | None = None
    idle_since: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """What the link in one mail opens until it `expires`. `is_owner`: the mail went to the owner, and not to the fallback that stands in.

    `currency` and `rate`, so much of it to the US dollar, and `basis`, what its costs are, say how the page shows money.
    """

    id: str
    address: str
    is_owner: bool
    sent_at: datetime
    expires: datetime
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

    def with_newer(self, newer: Recalled) -> Recalled:
        """These memories, with the newer ones in their place. What couldn't be read once stays unreadable."""
        errors = self._errors | newer._errors
        return Recalled({**{id_: memory for id_, memory in self.items() if id_ not in errors}, **newer}, errors)

    def __missing__(self, resource_id: str) -> Memory:
        raise self._errors.get(resource_id) or KeyError(resource_id)

    def get(self, resource_id: str, default: Any = None) -> Any:
        """The memory, or `default` if there is none. Raises CloudError if there is one that can't be read."""
        return default if resource_id not in self and resource_id not in self._errors else self[resource_id]


def columns_of(noun: Any) -> dict[str, str]:
    """The fields of a row's noun that have a value, as strings, without those of `_NOT_IN_ROW`."""
    values = {each.name: getattr(noun, each.name) for each in fields_of(noun) if each.name not in _NOT_IN_ROW}
    return {name: _column_text(value) for name, value in values.items() if value is not None}


def memory_columns(memory: Memory, fields: Collection[str] | None = None) -> dict[str, str | None]:
    """The columns of `fields` (None: all), as strings; None for a field without a value. The store keeps the version itself."""
    values = {column: getattr(memory, field) for field, column in COLUMNS.items() if fields is None or field in fields}
    return {column: None if value is None else _column_text(value) for column, value in values.items()}


def memory_from_row(row: Mapping[str, Any], version: object, resource_id: str) -> Memory:
    """The memory in a row, without columns of a later version. Raises CloudError if a column isn't readable, or isn't a string."""
    subject = f"the ledger record of {resource_id}"
    with _unreadable(subject):
        columns = _row_of(Memory).validate_python(row)
        stored = {field: columns[column] for field, column in COLUMNS.items() if column in columns}
        return Memory(**stored, version=valid_version(version, subject))


def named_row(columns: Mapping[str, Any], version: object, name: str) -> NamedRow:
    """The named row in a row. Raises CloudError if it isn't readable."""
    values = {column.removeprefix(VALUE_PREFIX): value for column, value in columns.items() if column.startswith(VALUE_PREFIX)}
    if not all(isinstance(value, str) for value in values.values()):
        raise CloudError(Reason.UNREADABLE, "ledger:Read", f"the row {name!r} has a value that isn't a string")
    return NamedRow(values=values, version=valid_version(version, f"the row {name!r}"))


def value_columns(values: Mapping[str, str]) -> dict[str, str]:
    """The values of a named row as columns."""
    return {f"{VALUE_PREFIX}{name}": value for name, value in values.items()}


def visit_columns(visit: Visit) -> dict[str, str]:
    """A visit as columns of values, which may be long."""
    return value_columns(columns_of(visit) | {"resources": json.dumps([columns_of(each) for each in visit.resources])})


def visit_from_row(columns: Mapping[str, Any], version: object) -> Visit:
    """The visit in a row. Raises CloudError if it isn't readable."""
    subject = "the list of resources behind a link"
    values = named_row(columns, version, subject).values
    with _unreadable(subject):
        stored = json.loads(values.get("resources", ""))
        resources = [_row_of(VisitResource).validate_python(row) for row in (stored if isinstance(stored, list) else [stored])]
        office_hours.time_zone(values.get("tz", ""))
        return Visit(resources=tuple(VisitResource(**row) for row in resources), **_row_of(Visit).validate_python(values))


def unfinished_from_row(row: Mapping[str, Any], target: Target) -> Unfinished:
    """The hint in a row. Raises CloudError if it isn't readable."""
    with _unreadable("a record of an unfinished action"):
        return Unfinished(target=target, **{"owner": None, **_row_of(Unfinished).validate_python(row)})


def statistics_from_row(row: Mapping[str, Any]) -> RunStatistics:
    """The statistics in a row. Raises CloudError if they aren't readable."""
    with _unreadable("a record of run statistics"):
        target = Target(**_row_of(Target).validate_python(row))
        return RunStatistics(target=target, **_row_of(RunStatistics).validate_python(row))


def history_from_row(row: Mapping[str, Any]) -> HistoryEntry:
    """The history entry in a row. Raises CloudError if it isn't readable."""
    with _unreadable("a history entry"):
        return HistoryEntry(**_row_of(HistoryEntry).validate_python(row))


def valid_version(version: object, subject: str) -> int:
    """The version of a row as a store returns it. Raises CloudError for one below 1, which would look like no row."""
    with _unreadable(subject):
        if isinstance(version, bool) or not isinstance(version, int | str) or int(version) < 1:
            raise ValueError(f"{version!r} is not a version")
        return int(version)


def sortable_time(moment: datetime) -> str:
    """An aware datetime in UTC with a fixed width, so that strings sort as times do. Raises ValueError for a naive one."""
    if moment.utcoffset() is None:
        raise ValueError(f"{moment!r} has no time zone")
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def parse_time(text: str) -> datetime:
    """The inverse of `sortable_time`. Raises ValueError for a naive time, TypeError for anything but a string."""
    moment = datetime.fromisoformat(text)
    if moment.utcoffset() is None:
        raise ValueError(f"{text!r} has no time zone")
    return moment


@contextmanager
def _unreadable(subject: str) -> Iterator[None]:
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
        raise CloudError(Reason.UNREADABLE, "ledger:Read", f"{subject} can't be read ({reasons})") from error


def _column_text(value: Any) -> str:
    if isinstance(value, tuple):
        return json.dumps([[change.what, change.before, change.ours] for change in value])
    return sortable_time(value) if isinstance(value, datetime) else str(value)


def _parse_changes(text: str) -> tuple[SideChange, ...]:
    try:
        return tuple(SideChange(what=str(what), before=int(before), ours=int(ours)) for what, before, ours in json.loads(text))
    except TypeError as error:
        raise ValueError(f"{text!r} isn't a list of changes") from error


@cache
def adapter(noun: Any) -> TypeAdapter[Any]:
    """Reads and writes such data as JSON."""
    from pydantic import TypeAdapter  # would slow every `--help` and cold start

    return TypeAdapter(noun)


@cache
def _row_of(noun: type) -> TypeAdapter[dict[str, Any]]:
    """Parses the columns of a noun as the types of its fields; one that may be None is optional. Only a string is a string or a time."""
    from pydantic import AfterValidator, Strict, TypeAdapter  # slow to load, and a start reads no row
    from typing_extensions import TypedDict

    text = Annotated[str, Strict()]
    parsed: Mapping[Any, Any] = {
        str: text,
        datetime: Annotated[text, AfterValidator(parse_time)],
        tuple[SideChange, ...]: Annotated[text, AfterValidator(_parse_changes)],
    }
    hints = get_type_hints(noun)
    columns = COLUMNS if noun is Memory else {each.name: each.name for each in fields_of(noun) if each.name not in _NOT_IN_ROW}
    types = {}
    for field_name, column in columns.items():
        hint = hints[field_name]
        if is_optional := get_origin(hint) is UnionType:
            [hint] = [part for part in get_args(hint) if part is not type(None)]
        types[column] = NotRequired[parsed.get(hint, hint)] if is_optional else parsed.get(hint, hint)
    return TypeAdapter(TypedDict(f"{noun.__name__}Row", types))  # type: ignore[operator]


_NOT_IN_ROW = frozenset({"target", "account_name", "blocked_because", "resources"})
"""Fields that are in the key, that change, or that are written in another way."""
