"""What all SageMaker lists share: filters, sorting, pages of at most 100 (10 unless asked), and changes of state that time completes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from reaper_sandbox.aws import token
from reaper_sandbox.aws.moment import read
from reaper_sandbox.aws.reply import invalid
from reaper_sandbox.aws.world import Region

DEFAULT_PAGE, MAX_PAGE = 10, 100
TIMES = {
    "CreationTimeAfter": ("created", 1),
    "CreationTimeBefore": ("created", -1),
    "LastModifiedTimeAfter": ("changed", 1),
    "LastModifiedTimeBefore": ("changed", -1),
}
SORTS = {"Name": "name", "CreationTime": "created", "LastModifiedTime": "changed", "Status": "status"}


def settle(region: Region) -> None:
    """Complete every change of state whose time has come. A status of "" means that the record goes."""
    due = [record for record in region.moving if record.pending and record.pending[0] <= region.now]
    for record in due:
        status, record.pending = record.pending[1], None
        if status:
            record.status = status
        else:
            _forget(region, record)
    if due:
        region.moving = [record for record in region.moving if record.pending]


def begin(region: Region, record: Any, status: str, final_status: str) -> None:
    """Start a change of state: `status` for as long as the world's `settle_after`, and `then` after it."""
    record.status = status
    record.pending = (region.now + region.world.settle_after, final_status)
    if hasattr(record, "changed"):
        record.changed = region.now
    region.moving = [other for other in region.moving if other is not record] + [record]
    settle(region)


def _forget(region: Region, record: Any) -> None:
    for shelf in region.shelves().values():
        for key in [key for key, other in shelf.items() if other is record]:
            del shelf[key]


def chosen(records: Iterable[Any], params: dict[str, Any], sort: str = "CreationTime", order: str = "Descending") -> list[Any]:
    """The records that pass the filters every list has, in the order asked for."""
    rows = list(records)
    if name := params.get("NameContains"):
        rows = [r for r in rows if name.lower() in r.name.lower()]
    if status := params.get("StatusEquals"):
        rows = [r for r in rows if r.status == status]
    for key, (attribute, sign) in TIMES.items():
        if key in params:
            edge = read(params[key])
            rows = [r for r in rows if sign * (getattr(r, attribute) - edge).total_seconds() > 0]
    attribute = SORTS[params.get("SortBy", sort)]
    rows.sort(key=lambda r: getattr(r, attribute), reverse=params.get("SortOrder", order) == "Descending")
    return rows


def page(region: Region, operation: str, rows: list[Any], params: dict[str, Any]) -> tuple[list[Any], str | None]:
    """One page of `rows` and the token of the next. Raises ValidationException for a size over 100 or a token of another list."""
    size = int(params.get("MaxResults") or DEFAULT_PAGE)
    if size > MAX_PAGE:
        raise invalid(
            f"1 validation error detected: Value '{size}' at 'maxResults' failed to satisfy constraint: "
            f"Member must have value less than or equal to {MAX_PAGE}"
        )
    first = token.read(params.get("NextToken"), operation, invalid("Invalid pagination token."))
    more = first + size < len(rows)
    return rows[first : first + size], token.write(operation, first + size) if more else region.world.last_token
