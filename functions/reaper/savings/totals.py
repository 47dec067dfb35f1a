"""What was saved in a stretch of time, as `reaper savings`, the report and the mails show it. Totals are the sums of the lines, to the cent."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from reaper.errors import SettingsError
from reaper.ledger.ledger import Ledger
from reaper.savings.book import SavedAction, SavedRow, read_saved
from reaper.savings.credit import Cause, Subject
from reaper.text import Currency, count_noun, format_usd

GROUPINGS = ("owner", "account", "kind")
TAG_PREFIX = "tag:"
NO_KEY = "(none)"
METHOD = "https://github.com/ml-idle-reaper/ml-idle-reaper/blob/main/docs/savings.md"
"""The page that says how savings are counted."""
RECENT = timedelta(days=30)
WEEKS = 13
"""A quarter, with the week that still runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedLine:
    """What one action saved: US dollars to the cent, and the hours, of which `unpriced_hours` have no price. It was credited up to `until`."""

    subject: Subject
    cause: Cause
    action: SavedAction
    until: datetime
    saved_usd: float
    hours: float
    unpriced_hours: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum:
    """What some lines come to; `key` is the owner, account, kind or value of a tag that they have in common."""

    key: str = ""
    saved_usd: float
    hours: float
    unpriced_hours: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """What was saved from `since` to `until`: `ours` by the reaper's own actions, and `prompted` by owners after a notice, which no other figure
    contains. `groups` are of `ours`, the most saved first; `lines` are of both, oldest first.
    """

    since: datetime
    until: datetime
    ours: Sum
    prompted: Sum
    groups: tuple[Sum, ...]
    lines: tuple[SavedLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The month to date, the last 30 days by team or kind, and a quarter by week. `by` names the groups of `recent`: `kind`, or the key of a tag."""

    month: Saved
    recent: Saved
    weeks: tuple[Saved, ...]
    by: str

    @property
    def has_any(self) -> bool:
        """Whether there is anything to show."""
        return any(saved.lines for saved in (self.month, self.recent, *self.weeks))


def summarize(rows: Iterable[SavedRow], since: datetime, until: datetime, by: str = "kind") -> Saved:
    """What was saved within a time of the months of these rows, grouped by `owner`, `account`, `kind` or `tag:KEY`. Raises SettingsError for another grouping."""
    require_grouping(by)
    by_action: dict[tuple[str, Cause, datetime], list[tuple[SavedRow, SavedAction, float]]] = defaultdict(list)
    for row in rows:
        for action in row.actions:
            if hours := action.hours(since, until):
                by_action[row.subject.id.lower(), row.cause, action.at].append((row, action, hours))
    lines = sorted((_line(parts, until) for parts in by_action.values()), key=lambda line: line.action.at)
    by_key: dict[str, list[SavedLine]] = defaultdict(list)
    ours = [line for line in lines if line.cause is Cause.OURS]
    for line in ours:
        by_key[group_key(line.subject, by)].append(line)
    groups = [_sum(same, key) for key, same in by_key.items()]
    return Saved(
        since=since,
        until=until,
        ours=_sum(ours),
        prompted=_sum([line for line in lines if line.cause is Cause.PROMPTED]),
        groups=tuple(sorted(groups, key=lambda group: (-group.saved_usd, group.key))),
        lines=tuple(lines),
    )


def saved_by_week(rows: Sequence[SavedRow], since: datetime, until: datetime) -> list[Saved]:
    """The same by week: each begins on Monday in UTC, but for the first, which begins at `since`."""
    first = since.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    monday = first - timedelta(days=first.weekday())
    mondays = [monday + timedelta(days=7 * number) for number in range((until - monday) // timedelta(days=7) + 1)]
    return [summarize(rows, max(since, begin), min(until, begin + timedelta(days=7))) for begin in mondays if begin < until]


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
        tags = {key.lower(): value for key, value in subject.tags.items()}
        return tags.get(by.removeprefix(TAG_PREFIX).lower()) or NO_KEY
    return {"owner": subject.owner, "account": subject.target.account, "kind": subject.kind}[by] or NO_KEY


def _line(parts: Sequence[tuple[SavedRow, SavedAction, float]], until: datetime) -> SavedLine:
    """The line of one action, of which each month has a part."""
    row, last, _ = parts[-1]
    hours, end = sum(hours for *_, hours in parts), until.timestamp()
    return SavedLine(
        subject=row.subject,
        cause=row.cause,
        action=last,
        until=datetime.fromtimestamp(max(min(span[1], end) for span in last.spans if span[0] < end), UTC),
        saved_usd=round(last.rate.usd_per_hour * hours, 2) if last.rate else 0.0,
        hours=round(hours, 2),
        unpriced_hours=0.0 if last.rate else round(hours, 2),
    )


def _sum(lines: Sequence[SavedLine], key: str = "") -> Sum:
    return Sum(
        key=key,
        saved_usd=round(sum((line.saved_usd for line in lines), 0.0), 2),
        hours=round(sum((line.hours for line in lines), 0.0), 2),
        unpriced_hours=round(sum((line.unpriced_hours for line in lines), 0.0), 2),
    )


def saved_text(saved: Saved, currency: Currency) -> str:
    """`$1,204 (list price), 230 unpriced hours`: what the reaper's actions saved, without what notices prompted."""
    owns = {line.action.rate.own for line in saved.lines if line.cause is Cause.OURS and line.action.rate}
    basis = {frozenset({True}): "own prices", frozenset({True, False}): "list and own prices"}.get(frozenset(owns), "list price")
    return f"{format_usd(saved.ours.saved_usd, currency=currency)} ({basis}){_unpriced_text(saved.ours)}"


def group_text(group: Sum, currency: Currency) -> str:
    """`$800`, or `$800, 3 unpriced hours`."""
    return f"{format_usd(group.saved_usd, currency=currency)}{_unpriced_text(group)}"


def _unpriced_text(saved: Sum) -> str:
    return f", {count_noun(max(1, round(saved.unpriced_hours)), 'unpriced hour')}" if saved.unpriced_hours else ""


def grouping(tag_keys: Sequence[str]) -> str:
    """What views group savings by: the first key of `report.tags`, else the kind."""
    return f"{TAG_PREFIX}{tag_keys[0]}" if tag_keys else "kind"


def read_overview(ledger: Ledger, tag_keys: Sequence[str], now: datetime) -> Overview:
    """What the ledger has. Raises CloudError."""
    midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    quarter = midnight - timedelta(days=midnight.weekday(), weeks=WEEKS - 1)
    rows, by = read_saved(ledger, quarter, now), grouping(tag_keys)
    return Overview(
        month=summarize(rows, month_begin(now), now, by),
        recent=summarize(rows, now - RECENT, now, by),
        weeks=tuple(saved_by_week(rows, quarter, now)),
        by=by.removeprefix(TAG_PREFIX),
    )
