"""Turns the ledger's nouns into flat rows of strings and back.

Every memory that was ever stored must be read, or be reported as unreadable; it must never look like no memory.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import fields as fields_of
from datetime import datetime
from hashlib import sha256
from types import UnionType
from typing import Annotated, Any, NotRequired, get_args, get_origin, get_type_hints

from pydantic import PlainValidator, Strict, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from reaper.errors import CloudError, Reason
from reaper.ledger.port import RETENTION, HistoryEntry, RunStatistics, Unfinished
from reaper.ledger.stored_text import parse_time, sortable_time
from reaper.model import Memory, SideChange, Target

COLUMNS: Mapping[str, str] = {
    "idle_since": "idle_since",
    "last_seen_idle_at": "idle_seen",
    "warned_at": "warned_at",
    "notice_receipt": "receipt",
    "notified_owner": "told",
    "notified_fingerprint": "shape",
    "reminded_at": "reminded_at",
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
    "written_at": "written",
}
"""The column that stores each field of a memory. A field may be renamed; a column that was ever written never is."""


def retained_from(memory: Memory, now: datetime) -> datetime:
    """Start of retention: the write, or the snooze's end if later."""
    return max(now, memory.snoozed_until or now)


def is_retained(touched: object, now: datetime) -> bool:
    """Whether a row with this `touched` column, a `sortable_time`, is still retained at `now`. A row that has no such column always is."""
    return not isinstance(touched, str) or not touched or touched >= sortable_time(now - RETENTION)


def entry_digest(entry: HistoryEntry) -> str:
    """A digest that differs between two entries of the same moment, and is the same for the same entry."""
    return sha256(json.dumps(history_columns(entry)).encode()).hexdigest()[:16]


def memory_columns(memory: Memory, fields: Collection[str] | None = None) -> dict[str, str]:
    """The columns of `fields` (None: all) that have a value, as strings. The store keeps the version itself."""
    values = {column: getattr(memory, field) for field, column in COLUMNS.items() if fields is None or field in fields}
    return {column: _column_text(value) for column, value in values.items() if value is not None}


def written_columns(fields: Collection[str] | None = None) -> frozenset[str]:
    """The columns that a write of `fields` (None: all) sets or removes; it leaves every other column unchanged."""
    return frozenset(column for field, column in COLUMNS.items() if fields is None or field in fields)


def merge_row(row: Mapping[str, Any], memory: Memory, fields: Collection[str] | None = None) -> dict[str, Any]:
    """The stored row with the columns of `fields` (None: all that this version knows) replaced, and all others unchanged."""
    replaced = written_columns(fields)
    return {column: value for column, value in row.items() if column not in replaced} | memory_columns(memory, fields)


def memory_from_row(row: Mapping[str, Any], version: object, resource_id: str) -> Memory:
    """The memory in a row. Ignores columns of a later version of this product.

    Raises CloudError if a column isn't readable: a column that holds something else than a string isn't a missing column.
    """
    try:
        columns = _MEMORY_ROW.validate_python(row)
        stored = {field: columns[column] for field, column in COLUMNS.items() if column in columns}
        return Memory(**stored, version=_parse_version(version))
    except ValueError as error:
        raise _unreadable_error(f"the ledger record of {resource_id}", error) from error


def unfinished_columns(entry: Unfinished) -> dict[str, str]:
    """A hint of an unfinished action as strings."""
    values = {name: getattr(entry, name) for name in ("id", "kind", "name", "owner", "region", "run") if getattr(entry, name)}
    return {**values, "action": entry.action.value, "at": sortable_time(entry.at)}


def unfinished_from_row(row: Mapping[str, Any], target: Target) -> Unfinished:
    """The hint in a row. Raises CloudError if it isn't readable."""
    try:
        return Unfinished(target=target, **{"owner": None, **_UNFINISHED_ROW.validate_python({"region": "", "run": "", **row})})
    except ValueError as error:
        raise _unreadable_error("a record of an unfinished action", error) from error


def statistics_columns(summary: RunStatistics) -> dict[str, str]:
    """The statistics of a run as strings."""
    region = {"region": summary.target.region} if summary.target.region else {}
    return {
        "run": summary.run,
        "cloud": summary.target.cloud,
        "account": summary.target.account,
        "kind": summary.kind,
        "started": sortable_time(summary.started),
        "seen": str(summary.seen),
        "idle": str(summary.idle),
        "usd_per_hour": repr(float(summary.usd_per_hour)),
        "unpriced": str(summary.unpriced),
        **region,
    }


def statistics_from_row(row: Mapping[str, Any]) -> RunStatistics:
    """The statistics in a row. Raises CloudError if they aren't readable."""
    try:
        target = Target(**_TARGET_ROW.validate_python(row))
        return RunStatistics(target=target, **_STATISTICS_ROW.validate_python(row))
    except ValueError as error:
        raise _unreadable_error("a record of run statistics", error) from error


def history_columns(entry: HistoryEntry) -> dict[str, str]:
    """A history entry as strings."""
    return {"id": entry.id, "when": sortable_time(entry.when), "what": entry.what, "by": entry.by, "because": entry.because}


def history_from_row(row: Mapping[str, Any]) -> HistoryEntry:
    """The history entry in a row. Raises CloudError if it isn't readable."""
    try:
        return HistoryEntry(**_HISTORY_ROW.validate_python(row))
    except ValueError as error:
        raise _unreadable_error("a history entry", error) from error


def valid_version(version: object, subject: str) -> int:
    """The version of a row as a store returns it. Raises CloudError for one that would look like no row."""
    try:
        return _parse_version(version)
    except ValueError as error:
        raise _unreadable_error(subject, error) from error


def _column_text(value: Any) -> str:
    if isinstance(value, tuple):
        return json.dumps([[change.what, change.before, change.ours] for change in value])
    return sortable_time(value) if isinstance(value, datetime) else str(value)


def _parse_column_time(text: object) -> datetime:
    if not isinstance(text, str):
        raise ValueError("Input should be a valid string")
    return parse_time(text)


def _parse_changes(text: object) -> tuple[SideChange, ...]:
    if not isinstance(text, str):
        raise ValueError("Input should be a valid string")
    try:
        return tuple(SideChange(what=str(what), before=int(before), ours=int(ours)) for what, before, ours in json.loads(text))
    except TypeError as error:
        raise ValueError(f"{text!r} isn't a list of changes") from error


def _parse_version(version: object) -> int:
    """A version as a store returns it. Raises ValueError for one below 1, which would look like no memory."""
    if isinstance(version, bool) or not isinstance(version, int | str) or int(version) < 1:
        raise ValueError(f"{version!r} is not a version")
    return int(version)


def _unreadable_error(subject: str, error: ValueError) -> CloudError:
    reasons = str(error)
    if isinstance(error, ValidationError):
        reasons = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors(include_url=False))
    return CloudError(Reason.UNREADABLE, "ledger:Read", f"{subject} can't be read ({reasons})")


_COLUMN_TYPES: Mapping[Any, Any] = {
    str: Annotated[str, Strict()],
    datetime: Annotated[datetime, PlainValidator(_parse_column_time)],
    tuple[SideChange, ...]: Annotated[tuple[SideChange, ...], PlainValidator(_parse_changes)],
}
"""How columns are parsed: nothing but a string is a string or a time, and no number is taken for a time."""


def _row_of(noun: type, columns: Mapping[str, str]) -> TypeAdapter[dict[str, Any]]:
    """Parses the named columns as the types that `noun` gives its fields; a field that may be None is an optional column."""
    hints = get_type_hints(noun)
    types = {column: _column_type(hints[field]) for field, column in columns.items()}
    return TypeAdapter(TypedDict(f"{noun.__name__}Row", types))  # type: ignore[operator]


def _column_type(hint: Any) -> Any:
    if get_origin(hint) is UnionType:
        [inner] = [part for part in get_args(hint) if part is not type(None)]
        return NotRequired[_COLUMN_TYPES.get(inner, inner)]
    return _COLUMN_TYPES.get(hint, hint)


def _own_names(noun: type, *, but: Collection[str] = ()) -> dict[str, str]:
    return {field.name: field.name for field in fields_of(noun) if field.name not in but}


_MEMORY_ROW = _row_of(Memory, COLUMNS)
_UNFINISHED_ROW = _row_of(Unfinished, _own_names(Unfinished, but={"target"}))
_STATISTICS_ROW = _row_of(RunStatistics, _own_names(RunStatistics, but={"target"}))
_TARGET_ROW = _row_of(Target, _own_names(Target, but={"account_name", "blocked_because"}))
_HISTORY_ROW = _row_of(HistoryEntry, _own_names(HistoryEntry))
