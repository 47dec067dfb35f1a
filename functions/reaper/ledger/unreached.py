"""The places that runs had no time to read, in one named row of the ledger. The next run reads them first."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime

from reaper.case import Coverage
from reaper.coverage import OWN, PlaceName, place_name
from reaper.ledger.port import Ledger
from reaper.ledger.update import update_row
from reaper.planning.run_age import NOT_REACHED

UNREACHED_ROW = "unreached"
PLACES_COLUMN = "places"
MAX_PLACES = 2000
"""More than that would not fit into a row. The order of the others doesn't matter."""


def read_unreached(ledger: Ledger) -> frozenset[PlaceName]:
    """The places that earlier runs had no time for. A row that can't be understood names none. Raises CloudError."""
    try:
        places = json.loads(ledger.read_row(UNREACHED_ROW).values.get(PLACES_COLUMN, "[]"))
        return frozenset((cloud, account, region, kind) for cloud, account, region, kind in places)
    except (ValueError, TypeError):
        return frozenset()


def record_unreached(ledger: Ledger, rows: Iterable[Coverage], now: datetime) -> None:
    """Remember the places that these rows say weren't reached, and forget those that were. Raises CloudError."""
    cloud_rows = [row for row in rows if row.cloud != OWN]
    unreached = {place_name(row) for row in cloud_rows if NOT_REACHED in (row.error or "")}
    before = read_unreached(ledger)
    opened = {(row.cloud, row.account) for row in cloud_rows}
    reached = {place for place in before if place[2] is None and place[:2] in opened} | {place_name(row) for row in cloud_rows}
    after = (before - reached) | unreached
    if after != before:
        names = sorted(after, key=str)[:MAX_PLACES]
        update_row(ledger, UNREACHED_ROW, lambda _: {PLACES_COLUMN: json.dumps(names)}, now)
