"""`reaper savings`: what was saved since a time, from the ledger alone."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from reaper import duration, settings
from reaper.cli.options import current_time
from reaper.cli.output import print_warning
from reaper.cli.places import ledger_address, ledger_label
from reaper.errors import SettingsError
from reaper.ledger import opening
from reaper.ledger.ledger import RETENTION
from reaper.text import clean_line, format_usd

if TYPE_CHECKING:
    from reaper.savings.totals import Saved, SavedLine

METHOD = "docs/savings.md says how savings are counted and what is left out."


class SavingsFormat(StrEnum):
    """The formats of savings."""

    TEXT = "text"
    JSON = "json"
    CSV = "csv"


def show_savings(
    since: Annotated[str, typer.Option(help="Duration such as 30d, or ISO date or time", metavar="30d|DATE")] = "30d",
    by: Annotated[
        str, typer.Option(help="Grouping; tag keys are those of report.tags", metavar="owner|account|kind|tag:KEY")
    ] = "kind",
    format: Annotated[SavingsFormat, typer.Option(help="Output format")] = SavingsFormat.TEXT,
) -> None:
    """Show what the reaper has saved, at list price. Reads the ledger and asks no cloud."""
    from reaper.savings import book, totals

    totals.require_grouping(by)
    now, base = current_time(), settings.from_env(os.environ)
    begin = _parse_since(since, now)
    if base.ledger:
        opening.require_existing(base.ledger)
    ledger = opening.open_ledger(ledger_address(base), os.environ, read_only=True)
    month = totals.month_begin(now)
    actions = list(book.read_saved(ledger, min(begin, month), now))
    saved = totals.summarize(actions, begin, now, by)
    if format is SavingsFormat.JSON:
        sys.stdout.write(json.dumps(savings_json(saved), indent=1, allow_nan=False) + "\n")
    elif format is SavingsFormat.CSV:
        sys.stdout.write(_csv(saved))
    else:
        _print_text(saved, totals.summarize(actions, month, now), by, ledger_label(base))
    if by.startswith(totals.TAG_PREFIX) and saved.groups and {group.key for group in saved.groups} == {totals.NO_KEY}:
        print_warning(f"no saving has the tag {by.removeprefix(totals.TAG_PREFIX)!r}; only the tags in report.tags are kept")


def savings_json(saved: Saved) -> dict[str, Any]:
    """The savings as JSON. `prompted_usd` is in no other total; `actions` has what was prompted, too."""
    return {
        "schema": 1,
        "since": _time(saved.since),
        "until": _time(saved.until),
        "saved_usd": saved.saved_usd,
        "prompted_usd": saved.prompted_usd,
        "unpriced_hours": saved.unpriced_hours,
        "by": [{"key": group.key, "saved_usd": group.saved_usd, "hours": group.hours} for group in saved.groups],
        "actions": [_action_json(line) for line in saved.actions],
    }


def _action_json(line: SavedLine) -> dict[str, Any]:
    subject = line.subject
    return {
        "id": subject.id,
        "kind": subject.kind,
        "name": subject.name,
        "account": subject.target.account,
        "region": subject.region,
        "owner": subject.owner,
        "tags": dict(subject.tags),
        "action": line.action.value,
        "cause": line.cause.value,
        "at": _time(line.at),
        "until": _time(line.until),
        "hours": line.hours,
        "saved_usd": line.saved_usd,
        "unpriced_hours": line.unpriced_hours,
        "usd_per_hour": line.usd_per_hour,
        "price": {"source": line.price_source, "as_of": line.price_as_of} if line.price_source else None,
    }


def _csv(saved: Saved) -> str:
    """A header and one row per action; the price and the tags as JSON."""
    from reaper.report.csv import safe_cell

    rows = [_action_json(line) for line in saved.actions]
    out, names = io.StringIO(), list(rows[0]) if rows else ["id", "kind", "action", "cause", "at", "until", "saved_usd"]
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([safe_cell(json.dumps(v) if isinstance(v, dict) else v) for v in row.values()] for row in rows)
    return out.getvalue()


def _print_text(saved: Saved, month: Saved, by: str, ledger: str) -> None:
    since, this_month = f"{saved.since:%Y-%m-%d}", format_usd(month.saved_usd)
    lines = [f"Saved {format_usd(saved.saved_usd)} since {since}, and {this_month} this month, at list price"]
    if saved.unpriced_hours:
        lines.append(f"  {saved.unpriced_hours:,.0f} more hours: price unknown")
    if saved.prompted_usd:
        lines.append(
            f"  {format_usd(saved.prompted_usd)} prompted: owners stopped these themselves after a notice. It isn't in the other figures."
        )
    if not saved.actions:
        lines.append("  No saving counts in this time.")
    sys.stdout.write("\n".join([*lines, ""]))
    if saved.groups:
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column(clean_line(by), overflow="fold")
        for heading in ("saved", "hours", "price unknown"):
            table.add_column(heading, justify="right")
        for group in saved.groups:
            hours = [f"{group.hours:,.0f}", f"{group.unpriced_hours:,.0f} h" if group.unpriced_hours else ""]
            table.add_row(clean_line(group.key), format_usd(group.saved_usd), *hours)
        sys.stdout.write("\n")
        Console(highlight=False, markup=False, emoji=False).print(table)
    sys.stdout.write(f"\n{METHOD}\nLedger: {ledger}\n")


def _parse_since(text: str, now: datetime) -> datetime:
    """When the time begins: so long ago, or at that date (UTC) or time. Raises SettingsError."""
    try:
        is_length = text.strip()[-1:].isalpha() and text.strip()[-1] != "Z"
        begin = now - duration.parse_duration(text, RETENTION) if is_length else datetime.fromisoformat(text.strip())
    except ValueError as error:
        expected = f"expected {duration.EXPECTED_DURATION} of at most {RETENTION.days}d, or an ISO date or time"
        raise SettingsError(f"--since {text!r}: {expected}") from error
    begin = begin if begin.tzinfo else begin.replace(tzinfo=UTC)
    if begin >= now:
        raise SettingsError(f"--since {text!r}: that isn't in the past")
    if begin < now - RETENTION:
        raise SettingsError(f"--since {text!r}: savings are kept for {RETENTION.days} days")
    return begin.astimezone(UTC)


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
