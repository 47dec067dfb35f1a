"""The savings that a report shows: the month to date, the last 30 days by team or kind, and a quarter by week."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from reaper.ledger.ledger import Ledger
from reaper.savings.book import read_saved
from reaper.savings.credit import Cause
from reaper.savings.totals import TAG_PREFIX, Saved, Sum, month_begin, saved_by_week, summarize
from reaper.text import Currency, count_noun, format_usd

METHOD = "https://github.com/ml-idle-reaper/ml-idle-reaper/blob/main/docs/savings.md"
"""The page that says how savings are counted."""
RECENT = timedelta(days=30)
WEEKS = 13
"""A quarter, with the week that still runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """`by` names the groups of `recent`: `kind`, or the key of a tag."""

    month: Saved
    recent: Saved
    weeks: tuple[Saved, ...]
    by: str

    @property
    def has_any(self) -> bool:
        """Whether there is anything to show."""
        return any(saved.lines for saved in (self.month, self.recent, *self.weeks))


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
