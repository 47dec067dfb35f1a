"""What the next runs read differently, each a named row: first the places that earlier ones had no time for, and further back what is in use
after a notice called it idle.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

from reaper.case import Coverage
from reaper.coverage import NOT_REACHED, PlaceName, place_name
from reaper.ledger.ledger import Ledger, update_row
from reaper.ledger.rows import DOCUMENT, NamedRow, document_of, understood
from reaper.model import Time

UNREACHED_ROW, PLACES = "unreached", tuple[PlaceName, ...]
MAX_PLACES = 2000
"""More than that would not fit into a row. The order of the others doesn't matter."""
DOUBTED_ROW, DOUBTED = "doubted", dict[str, Time]
"""The time of the notice, by ID."""
MAX_DOUBTED = 1000


def read_hints(ledger: Ledger) -> tuple[frozenset[PlaceName], frozenset[str]]:
    """The same, and the IDs of what to read as a whole. Raises CloudError."""
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
