"""What the next runs read differently, each a named row: first the places that earlier ones had no time for, and further back what is in use
after a notice called it idle.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

from reaper.case import Coverage
from reaper.coverage import NOT_REACHED, PlaceName, place_name
from reaper.ledger.ledger import Ledger, update_row
from reaper.ledger.rows import NamedRow, sortable_time

UNREACHED_ROW = "unreached"
PLACES_COLUMN = "places"
MAX_PLACES = 2000
"""More than that would not fit into a row. The order of the others doesn't matter."""
DOUBTED_ROW = "doubted"
IDS_COLUMN = "ids"
MAX_DOUBTED = 1000


def read_hints(ledger: Ledger) -> tuple[frozenset[PlaceName], frozenset[str]]:
    """The same, and the IDs of what to read as a whole. Raises CloudError."""
    rows = ledger.read_rows((UNREACHED_ROW, DOUBTED_ROW))
    return _places_in(rows[UNREACHED_ROW].values), frozenset(_doubted_in(rows[DOUBTED_ROW].values))


def record_doubted(
    ledger: Ledger, row: NamedRow, doubted: Mapping[str, datetime], ids: Collection[str], oldest: datetime
) -> None:
    """Remember what is in use although a notice called it idle, with the time of that notice, unless that is before `oldest`: late metrics may
    prove the notice wrong. `ids`: what this run knows. `row`: as read. Raises CloudError.
    """
    before = _doubted_in(row.values)
    others = {resource_id: when for resource_id, when in before.items() if resource_id not in ids}
    known = others | {resource_id: sortable_time(when) for resource_id, when in doubted.items()}
    newest = sorted(((when, resource_id) for resource_id, when in known.items() if when > sortable_time(oldest)), reverse=True)
    after = {resource_id: when for when, resource_id in newest[:MAX_DOUBTED]}
    if after != before:
        update_row(ledger, DOUBTED_ROW, lambda _: {IDS_COLUMN: json.dumps(after)}, known=row)


def _places_in(values: Mapping[str, str]) -> frozenset[PlaceName]:
    try:
        places = json.loads(values.get(PLACES_COLUMN, "[]"))
        return frozenset((cloud, account, region, kind) for cloud, account, region, kind in places)
    except (ValueError, TypeError):
        return frozenset()


def _doubted_in(values: Mapping[str, str]) -> dict[str, str]:
    try:
        return {str(resource_id): str(when) for resource_id, when in json.loads(values.get(IDS_COLUMN, "{}")).items()}
    except (ValueError, AttributeError):
        return {}


def record_unreached(ledger: Ledger, row: NamedRow, rows: Iterable[Coverage]) -> None:
    """Remember the places that these rows say weren't reached, and forget those that were. `row`: as read. Raises CloudError."""
    cloud_rows = [row for row in rows if not row.is_own]
    before = _places_in(row.values)  # a row that can't be understood names none
    opened = {(row.cloud, row.account) for row in cloud_rows}
    reached = {place for place in before if place[2] is None and place[:2] in opened} | {place_name(row) for row in cloud_rows}
    after = (before - reached) | {place_name(row) for row in cloud_rows if NOT_REACHED in (row.error or "")}
    if after != before:
        names = sorted(after, key=str)[:MAX_PLACES]
        update_row(ledger, UNREACHED_ROW, lambda _: {PLACES_COLUMN: json.dumps(names)}, known=row)
