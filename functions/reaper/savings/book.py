"""The rows of savings in the ledger.

What still runs is under its target, `saving#<target>`. What was credited is under its month, `saved#<yyyy-mm>`: a row for each resource and
cause, with each action's rate and the stretches of time that count. Adding a stretch twice changes nothing, so a conclude may be repeated.
`trend#<yyyy-mm>` has a row for each day, target and kind.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

from reaper.errors import CloudError, Reason
from reaper.ledger.ledger import Ledger, comparable_id, target_from_text, target_text
from reaper.ledger.rows import sortable_time, valid_version
from reaper.ledger.store import AtVersion, Category, Key, Row
from reaper.ledger.update import write_until_accepted
from reaper.model import StepName, Target
from reaper.savings.credit import Cause, Saving, Span, Subject

if TYPE_CHECKING:
    from pydantic import TypeAdapter

OPERATION = "ledger:Read"


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedAction:
    """What one action saved: its rate in US dollars an hour, None if a price is unknown, and the times that count, oldest first."""

    subject: Subject
    cause: Cause
    action: StepName
    at: datetime
    usd_per_hour: float | None
    price_source: str | None = None
    price_as_of: str | None = None
    spans: tuple[Span, ...] = ()

    def hours(self, since: datetime, until: datetime) -> float:
        """The hours that count of a stretch of time."""
        parts = ((min(span.until, until) - max(span.since, since)) / timedelta(hours=1) for span in self.spans)
        return sum(part for part in parts if part > 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRow:
    """A saving that still runs, as stored."""

    key: Key
    saving: Saving
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendDay:
    """One day of a kind in one target, by the day's last complete look. The dollars are those of idle resources with a price."""

    day: str
    target: Target
    kind: str
    resources: int
    idle: int
    unpriced_idle: int
    idle_usd_per_hour: float


def read_open(ledger: Ledger, target: Target) -> tuple[list[OpenRow], list[CloudError]]:
    """The savings that still run in a target, and the errors of rows that can't be read. Raises CloudError if the ledger fails."""
    found: list[OpenRow] = []
    errors: list[CloudError] = []
    for row in ledger.store.query(Category.SAVING, target_text(target)):
        try:
            found.append(_open_row(row))
        except CloudError as error:
            errors.append(error)
    return found, errors


def add_open(ledger: Ledger, saving: Saving, now: datetime) -> None:
    """Store a saving that has just begun, unless it is there already."""
    _put(ledger, _open_key(saving), saving, 0, now)


def replace_open(ledger: Ledger, row: OpenRow, saving: Saving | None, now: datetime) -> None:
    """Store what became of a saving, or remove it. If another writer came first, that one's stays: the next look goes on from there."""
    if saving is None:
        ledger.store.delete(row.key)
    elif saving != row.saving:
        _put(ledger, row.key, saving, row.version, now)


def add_credits(ledger: Ledger, credited: Iterable[tuple[Saving, Span]], now: datetime) -> None:
    """Add these times to the rows of their months. Raises CloudError."""
    by_key: dict[Key, list[SavedAction]] = defaultdict(list)
    for saving, span in credited:
        for month, part in _by_month(span):
            key = Key(Category.SAVED, month, f"{comparable_id(saving.subject.id)}#{saving.cause}")
            by_key[key].append(_saved_action(saving, part))
    first = ledger.store.get_many(list(by_key))
    for key, actions in by_key.items():
        _add_to_row(ledger, key, actions, first.pop(key, None), now)


def read_saved(ledger: Ledger, since: datetime, until: datetime) -> Iterator[SavedAction]:
    """Every action with time that counts between these times, one query a month. Raises CloudError, also for a row that can't be read."""
    by_action: dict[tuple[str, Cause, datetime], SavedAction] = {}
    for month in months(since, until):
        for row in ledger.store.query(Category.SAVED, month):
            for action in _saved_actions(row):
                key = (row.key.name, action.cause, action.at)
                earlier = by_action.get(key)
                by_action[key] = replace(action, spans=(*earlier.spans, *action.spans)) if earlier else action
    return (action for action in by_action.values() if action.hours(since, until) > 0)


def write_trend(ledger: Ledger, days: Iterable[TrendDay], now: datetime) -> None:
    """Store these days; a later look of the day replaces an earlier one."""
    for day in days:
        columns = {each.name: str(getattr(day, each.name)) for each in fields(day)} | {"target": target_text(day.target)}
        key = Key(Category.TREND, day.day[:7], f"{day.day[8:]} {columns['target']} {day.kind}")
        ledger.store.put(key, columns, sortable_time(now))


def read_trend(ledger: Ledger, since: datetime, until: datetime) -> list[TrendDay]:
    """The days between these times, oldest first. Raises CloudError."""
    first, last = since.astimezone(UTC).date().isoformat(), until.astimezone(UTC).date().isoformat()
    stored = [row for month in months(since, until) for row in ledger.store.query(Category.TREND, month)]
    days = [_parsed(TrendDay, row, {**row.texts, "target": _target_facts(row)}) for row in stored]
    return [day for day in days if first <= day.day <= last]


def months(since: datetime, until: datetime) -> list[str]:
    """The months, in UTC, that a stretch of time touches: `2026-11`."""
    first, last = since.astimezone(UTC), until.astimezone(UTC)
    count = (last.year - first.year) * 12 + last.month - first.month
    return [f"{first.year + (first.month - 1 + n) // 12}-{(first.month - 1 + n) % 12 + 1:02d}" for n in range(count + 1)]


def _by_month(span: Span) -> Iterator[tuple[str, Span]]:
    since = span.since.astimezone(UTC)
    for month in months(span.since, span.until):
        following = (since.replace(day=1, hour=0, minute=0, second=0) + timedelta(days=32)).replace(day=1)
        until = min(following, span.until)
        if until > since:
            yield month, Span(since, until)
        since = following


def _saved_action(saving: Saving, span: Span) -> SavedAction:
    return SavedAction(
        subject=saving.subject,
        cause=saving.cause,
        action=saving.action,
        at=saving.at,
        usd_per_hour=saving.usd_per_hour,
        price_source=saving.price_source,
        price_as_of=saving.price_as_of,
        spans=(span,),
    )


def _add_to_row(ledger: Ledger, key: Key, new: Sequence[SavedAction], known: Row | None, now: datetime) -> None:
    first = [known]

    def attempt() -> bool | None:
        row = first.pop() if first else ledger.store.get(key)
        before = list(_saved_actions(row)) if row else []
        after = _joined(before, new)
        if after == before and row:
            return True
        actions = [_action_facts(action) for action in after]
        columns = {**_subject_columns(new[-1].subject), "cause": new[-1].cause.value, "actions": json.dumps(actions)}
        version = valid_version(row.version, key.name) if row else 0
        return ledger.store.put(key, columns, sortable_time(now), AtVersion(version=version)) or None

    write_until_accepted(attempt, f"the savings of {key.name}")


def _joined(before: Sequence[SavedAction], new: Sequence[SavedAction]) -> list[SavedAction]:
    """The actions with the new times. Times that overlap or follow each other become one."""
    by_time = {action.at: action for action in before}
    for action in new:
        known = by_time.get(action.at, action)
        spans: list[Span] = []
        for span in sorted({*known.spans, *action.spans}):
            if spans and span.since <= spans[-1].until:
                spans[-1] = Span(spans[-1].since, max(spans[-1].until, span.until))
            else:
                spans.append(span)
        by_time[action.at] = replace(known, spans=tuple(spans), subject=action.subject)
    return [by_time[at] for at in sorted(by_time)]


def _put(ledger: Ledger, key: Key, saving: Saving, version: int, now: datetime) -> None:
    text = _adapter(Saving).dump_json(saving, exclude={"subject"}).decode()
    ledger.store.put(key, {**_subject_columns(saving.subject), "saving": text}, sortable_time(now), AtVersion(version=version))


def _open_key(saving: Saving) -> Key:
    began = "prompted" if saving.cause is Cause.PROMPTED else sortable_time(saving.at)
    return Key(Category.SAVING, target_text(saving.subject.target), f"{comparable_id(saving.subject.id)}#{began}")


def _open_row(row: Row) -> OpenRow:
    saving = _parsed(Saving, row, {**_facts(row, "saving"), "subject": _subject_facts(row)})
    return OpenRow(key=row.key, saving=saving, version=valid_version(row.version, row.key.name))


def _saved_actions(row: Row) -> Iterator[SavedAction]:
    head = {"subject": _subject_facts(row), "cause": row.texts.get("cause")}
    for facts in _facts(row, "actions"):
        yield _parsed(SavedAction, row, {**facts, **head})


def _action_facts(action: SavedAction) -> dict[str, Any]:
    facts: dict[str, Any] = _adapter(SavedAction).dump_python(action, mode="json", exclude={"subject", "cause", "spans"})
    return facts | {"spans": [[int(moment.timestamp()) for moment in span] for span in action.spans]}


def _subject_columns(subject: Subject) -> dict[str, str]:
    """The subject as columns of their own, in which `reaper forget` finds a person's address."""
    columns = {name: str(getattr(subject, name)) for name in ("id", "kind", "name", "region")}
    owner = {"owner": subject.owner} if subject.owner else {}
    return columns | owner | {"target": target_text(subject.target), "tags": json.dumps(dict(subject.tags))}


def _subject_facts(row: Row) -> dict[str, Any]:
    names = ("id", "kind", "name", "region", "owner")
    facts = {name: row.texts[name] for name in names if name in row.texts}
    return {**facts, "target": _target_facts(row), "tags": _facts(row, "tags")}


def _target_facts(row: Row) -> Target | None:
    try:
        return target_from_text(row.texts.get("target", ""))
    except ValueError:
        return None


def _facts(row: Row, column: str) -> Any:
    try:
        return json.loads(row.texts[column])
    except (KeyError, ValueError) as error:
        raise _unreadable(row) from error


def _parsed(noun: Any, row: Row, facts: Mapping[str, Any]) -> Any:
    try:
        return _adapter(noun).validate_python(facts)
    except ValueError as error:
        raise _unreadable(row) from error


def _unreadable(row: Row) -> CloudError:
    return CloudError(Reason.UNREADABLE, OPERATION, f"the ledger's row of savings {row.key.name} can't be read")


@cache
def _adapter(noun: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter  # slow to load, and a start reads no savings

    return TypeAdapter(noun)
