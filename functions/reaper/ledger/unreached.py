"""What the next runs read differently: first the places that earlier ones had no time for, and further back
what is in use after a notice called it idle.

Each is a named row of the ledger.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

from reaper.case import Coverage
from reaper.coverage import NOT_REACHED, PlaceName, place_name
from reaper.ledger.ledger import Ledger, update_row
from reaper.ledger.rows import sortable_time

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


def record_doubted(ledger: Ledger, doubted: Mapping[str, datetime], decided: Collection[str], oldest: datetime) -> None:
    """Remember what is in use although a notice called it idle, with the time of that notice, unless that is before `oldest`: late metrics may
    prove the notice wrong. `decided`: what this run knows. Raises CloudError.
    """
    before = _doubted_in(ledger.read_row(DOUBTED_ROW).values)
    others = {resource_id: when for resource_id, when in before.items() if resource_id not in decided}
    known = others | {resource_id: sortable_time(when) for resource_id, when in doubted.items()}
    newest = sorted(((when, resource_id) for resource_id, when in known.items() if when > sortable_time(oldest)), reverse=True)
    after = {resource_id: when for when, resource_id in newest[:MAX_DOUBTED]}
    if after != before:
        update_row(ledger, DOUBTED_ROW, lambda _: {IDS_COLUMN: json.dumps(after)})


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


def record_unreached(ledger: Ledger, rows: Iterable[Coverage]) -> None:
    """Remember the places that these rows say weren't reached, and forget those that were. Raises CloudError."""
    cloud_rows = [row for row in rows if not row.is_own]
    unreached = {place_name(row) for row in cloud_rows if NOT_REACHED in (row.error or "")}
    before = _places_in(ledger.read_row(UNREACHED_ROW).values)  # a row that can't be understood names none
    opened = {(row.cloud, row.account) for row in cloud_rows}
    reached = {place for place in before if place[2] is None and place[:2] in opened} | {place_name(row) for row in cloud_rows}
    after = (before - reached) | unreached
    if after != before:
        names = sorted(after, key=str)[:MAX_PLACES]
        update_row(ledger, UNREACHED_ROW, lambda _: {PLACES_COLUMN: json.dumps(names)})
