"""`reaper savings`: what was saved since a time, from the ledger alone."""

from __future__ import annotations

import csv
import json
import os
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table

from reaper import duration, settings
from reaper.cli.options import PolicyOption, current_time
from reaper.cli.output import print_warning
from reaper.cli.places import ledger_address, ledger_label
from reaper.errors import SettingsError
from reaper.ledger import opening
from reaper.ledger.rows import RETENTION
from reaper.policy.file import load_policy
from reaper.report.json import utc_text
from reaper.text import Currency, clean_line, format_usd

if TYPE_CHECKING:
    from reaper.savings.totals import Saved, SavedLine

COLUMNS = (
    "id", "kind", "name", "account", "region", "owner", "tags", "action", "cause", "at", "until", "hours", "saved_usd",
    "unpriced_hours", "usd_per_hour", "price_source", "price_as_of",
)  # fmt: skip
METHOD = "docs/savings.md says how savings are counted and what is left out."


def show_savings(
    since: Annotated[str, typer.Option(help="Duration such as 30d, or ISO date or time", metavar="30d|DATE")] = "30d",
    by: Annotated[
        str, typer.Option(help="Grouping; tag keys are those of report.tags", metavar="owner|account|kind|tag:KEY")
    ] = "kind",
    policy: PolicyOption = None,
    format: Annotated[Literal["text", "json", "csv"], typer.Option(help="Output format")] = "text",
) -> None:
    """Show what the reaper has saved, from its ledger. Text is in the policy's currency, JSON and CSV in US dollars."""
    from reaper.savings import book, totals

    totals.require_grouping(by)
    now, base = current_time(), settings.from_env(os.environ)
    begin = _parse_since(since, now)
    currency = load_policy(base.policy if policy is None else policy).policy.prices.shown_in
    if base.ledger:
        opening.require_existing(base.ledger)
    ledger = opening.open_ledger(ledger_address(base), os.environ, read_only=True)
    month = totals.month_begin(now)
    rows = book.read_saved(ledger, min(begin, month), now)
    saved = totals.summarize(rows, begin, now, by)
    if format == "json":
        sys.stdout.write(json.dumps(savings_json(saved), indent=1, allow_nan=False) + "\n")
    elif format == "csv":
        _print_csv(saved)
    else:
        _print_text(saved, totals.summarize(rows, month, now), by, ledger_label(base), currency)
    if by.startswith(totals.TAG_PREFIX) and saved.groups and {group.key for group in saved.groups} == {totals.NO_KEY}:
        print_warning(f"no saving has the tag {by.removeprefix(totals.TAG_PREFIX)!r}; only the tags in report.tags are kept")


def savings_json(saved: Saved) -> dict[str, Any]:
    """The savings as JSON. `prompted_usd` is in no other total; `actions` has what was prompted, too."""
    return {
        "schema": 1,
        "since": utc_text(saved.since),
        "until": utc_text(saved.until),
        "saved_usd": saved.ours.saved_usd,
        "prompted_usd": saved.prompted.saved_usd,
        "unpriced_hours": saved.ours.unpriced_hours,
        "by": [{"key": group.key, "saved_usd": group.saved_usd, "hours": group.hours} for group in saved.groups],
        "actions": [_action_json(line) for line in saved.lines],
    }


def _action_json(line: SavedLine) -> dict[str, Any]:
    subject, action = line.subject, line.action
    return {
        "id": subject.id,
        "kind": subject.kind,
        "name": subject.name,
        "account": subject.target.account,
        "region": subject.region,
        "owner": subject.owner,
        "tags": dict(subject.tags),
        "action": action.action.value,
        "cause": line.cause.value,
        "at": utc_text(action.at),
        "until": utc_text(line.until),
        "hours": line.hours,
        "saved_usd": line.saved_usd,
        "unpriced_hours": line.unpriced_hours,
        "usd_per_hour": action.rate and action.rate.usd_per_hour,
        "price_source": action.rate and action.rate.source,
        "price_as_of": action.rate and action.rate.as_of,
    }


def _print_csv(saved: Saved) -> None:
    """A header and one row per action, with the tags as JSON."""
    from reaper.report.csv import safe_cell

    writer = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in map(_action_json, saved.lines):
        writer.writerow({name: safe_cell(json.dumps(value) if name == "tags" else value) for name, value in row.items()})


def _print_text(saved: Saved, month: Saved, by: str, ledger: str, currency: Currency) -> None:
    from reaper.savings.totals import saved_text

    this_month = f"This month: {saved_text(month, currency)}."
    sys.stdout.write(f"Saved since {saved.since:%Y-%m-%d}: {saved_text(saved, currency)}. {this_month}\n")
    if saved.prompted.hours:
        usd = format_usd(saved.prompted.saved_usd, currency=currency)
        sys.stdout.write(f"  {usd} prompted: owners stopped these themselves after a notice. It isn't in the other figures.\n")
    sys.stdout.write("\n" if saved.lines else "  No saving counts in this time.\n\n")
    if saved.groups:
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column(clean_line(by), overflow="fold")
        for heading in ("saved", "hours", "price unknown"):
            table.add_column(heading, justify="right")
        for group in saved.groups:
            unpriced = f"{group.unpriced_hours:,.0f} h" if group.unpriced_hours else ""
            cells = (format_usd(group.saved_usd, currency=currency), f"{group.hours:,.0f}", unpriced)
            table.add_row(clean_line(group.key), *cells)
        Console(highlight=False, markup=False, emoji=False).print(table)
        sys.stdout.write("\n")
    sys.stdout.write(f"{METHOD}\nLedger: {ledger}\n")


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
