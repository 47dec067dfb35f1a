"""What was saved since a time, as `reaper savings`, the report and the mails show it. Totals are the sums of the lines, to the cent."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from reaper.errors import SettingsError
from reaper.ledger.ledger import Ledger
from reaper.model import StepName
from reaper.savings.book import SavedAction, read_saved
from reaper.savings.credit import Cause, Subject

GROUPINGS = ("owner", "account", "kind")
TAG_PREFIX = "tag:"
NO_KEY = "(none)"


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedLine:
    """What one action saved in a stretch of time: US dollars to the cent, and the hours. `unpriced_hours`: those of them without a price."""

    subject: Subject
    cause: Cause
    action: StepName
    at: datetime
    until: datetime
    saved_usd: float
    hours: float
    unpriced_hours: float
    usd_per_hour: float | None
    price_source: str | None
    price_as_of: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedGroup:
    """What the reaper's own actions saved for one owner, account, kind or value of a tag."""

    key: str
    saved_usd: float
    hours: float
    unpriced_hours: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """What was saved from `since` to `until`. `prompted_usd` is what owners saved after a notice, and in no other total; `actions` has both.

    `groups`: the most saved first.
    """

    since: datetime
    until: datetime
    saved_usd: float
    prompted_usd: float
    hours: float
    unpriced_hours: float
    groups: tuple[SavedGroup, ...]
    actions: tuple[SavedLine, ...]


def saved_since(ledger: Ledger, since: datetime, now: datetime, by: str = "kind") -> Saved:
    """What was saved since a time, grouped by `owner`, `account`, `kind` or `tag:KEY`. Raises CloudError, and SettingsError for another grouping."""
    return summarize(list(read_saved(ledger, since, now)), since, now, by)


def summarize(actions: Iterable[SavedAction], since: datetime, until: datetime, by: str = "kind") -> Saved:
    """The same of actions that were read before, for any stretch of time within that."""
    require_grouping(by)
    lines = [_line(action, since, until) for action in actions if action.hours(since, until) > 0]
    lines.sort(key=lambda line: (line.at, line.subject.id))
    ours = [line for line in lines if line.cause is Cause.OURS]
    by_key: dict[str, list[SavedLine]] = defaultdict(list)
    for line in ours:
        by_key[group_key(line.subject, by)].append(line)
    groups = [_group(key, same) for key, same in by_key.items()]
    whole = _group("", ours)
    return Saved(
        since=since,
        until=until,
        saved_usd=whole.saved_usd,
        prompted_usd=_group("", [line for line in lines if line.cause is Cause.PROMPTED]).saved_usd,
        hours=whole.hours,
        unpriced_hours=whole.unpriced_hours,
        groups=tuple(sorted(groups, key=lambda group: (-group.saved_usd, group.key))),
        actions=tuple(lines),
    )


def saved_by_week(actions: Sequence[SavedAction], since: datetime, until: datetime) -> list[tuple[datetime, float, float]]:
    """The start of each week (Monday, UTC) with the dollars that the reaper saved in it, and those that it prompted."""
    monday = since.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    monday -= timedelta(days=monday.weekday())
    weeks = []
    while monday < until:
        saved = summarize(actions, max(since, monday), min(until, monday + timedelta(days=7)))
        weeks.append((monday, saved.saved_usd, saved.prompted_usd))
        monday += timedelta(days=7)
    return weeks


def month_begin(now: datetime) -> datetime:
    """The first moment of the month, in UTC."""
    return now.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def require_grouping(by: str) -> None:
    """Raises SettingsError unless the savings can be grouped by that."""
    if by not in GROUPINGS and not (by.startswith(TAG_PREFIX) and by != TAG_PREFIX):
        raise SettingsError(f"--by {by!r}: expected {', '.join(GROUPINGS)}, or tag:KEY with a key of report.tags")


def group_key(subject: Subject, by: str) -> str:
    """The owner, account, kind or value of a tag. Keys of tags ignore case."""
    if by.startswith(TAG_PREFIX):
        wanted = by.removeprefix(TAG_PREFIX).lower()
        return next((value for key, value in subject.tags.items() if key.lower() == wanted and value), NO_KEY)
    return {"owner": subject.owner, "account": subject.target.account, "kind": subject.kind}[by] or NO_KEY


def _line(action: SavedAction, since: datetime, until: datetime) -> SavedLine:
    hours, usd = action.hours(since, until), action.usd_per_hour
    return SavedLine(
        subject=action.subject,
        cause=action.cause,
        action=action.action,
        at=action.at,
        until=max(min(span.until, until) for span in action.spans if span.since < until),
        saved_usd=0.0 if usd is None else round(usd * hours, 2),
        hours=round(hours, 2),
        unpriced_hours=round(hours, 2) if usd is None else 0.0,
        usd_per_hour=usd,
        price_source=action.price_source,
        price_as_of=action.price_as_of,
    )


def _group(key: str, lines: Sequence[SavedLine]) -> SavedGroup:
    return SavedGroup(
        key=key,
        saved_usd=round(sum((line.saved_usd for line in lines), 0.0), 2),
        hours=round(sum((line.hours for line in lines), 0.0), 2),
        unpriced_hours=round(sum((line.unpriced_hours for line in lines), 0.0), 2),
    )
