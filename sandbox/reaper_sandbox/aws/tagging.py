"""Tags in bulk. Resources that never had a tag are never shown; those that once had one are, with no tags.

https://docs.aws.amazon.com/resourcegroupstagging/latest/APIReference/API_GetResources.html
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from reaper_sandbox.aws import token
from reaper_sandbox.aws.reply import Refusal
from reaper_sandbox.aws.sagemaker.listing import settle
from reaper_sandbox.aws.sagemaker.tags import shown
from reaper_sandbox.aws.world import Region

MAX_PAGE, DEFAULT_PAGE = 100, 50
Row = tuple[str, dict[str, str]]
Names = Sequence[str]


def get_resources(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """Ours and moto's; `PaginationToken` is empty on the last page."""
    arns, types = params.get("ResourceARNList") or (), params.get("ResourceTypeFilters") or ()
    if arns and (types or params.get("TagFilters") or params.get("ResourcesPerPage") or params.get("PaginationToken")):
        raise invalid("ResourceARNList cannot be combined with filters or pagination.")
    size = int(params.get("ResourcesPerPage") or DEFAULT_PAGE)
    if not 1 <= size <= MAX_PAGE:
        raise invalid(f"ResourcesPerPage must be between 1 and {MAX_PAGE}.")
    expired = Refusal("PaginationTokenExpiredException", "The pagination token is not valid or has expired.")
    first = token.read(params.get("PaginationToken"), "GetResources", expired)
    tagged = _rows(region, arns, types, params.get("TagFilters") or ())
    rows = list(islice(tagged, first, first + size + 1))
    more = len(rows) > size
    return {
        "ResourceTagMappingList": [{"ResourceARN": arn, "Tags": shown(tags)} for arn, tags in rows[:size]],
        "PaginationToken": token.write("GetResources", first + size) if more else "",
    }


def _rows(region: Region, arns: Names, types: Names, filters: Sequence[dict[str, Any]]) -> Iterator[Row]:
    settle(region)
    shelves = [shelf for shelf in region.shelves().values() if shelf]
    ours = {_type_of(next(iter(shelf.values())).arn): shelf for shelf in shelves}
    for (service, kind), shelf in ours.items():
        if types and not {service, f"{service}:{kind}"} & {*types}:
            continue
        for record in shelf.values():
            if record.tags is not None and (not filters or _matches(record.tags, filters)):
                arn = record.arn.lower() if region.world.lower_tag_arns else record.arn
                if not arns or arn in arns:
                    yield arn, record.tags
    if not types or any(name.removeprefix("sagemaker:") not in region.shelves() for name in types):
        yield from (row for row in _moto(region) if _wanted(row, arns, types) and _matches(row[1], filters))


def _moto(region: Region) -> list[Row]:
    from moto.resourcegroupstaggingapi.models import resourcegroupstaggingapi_backends

    backend = resourcegroupstaggingapi_backends[region.account][region.name]
    page = backend.get_resources(resources_per_page=1_000_000, tags_per_page=1_000_000_000)[1]
    return [(resource.arn, dict(resource.tags)) for resource in page]


def _wanted(row: Row, arns: Names, types: Names) -> bool:
    arn = row[0]
    service, kind = _type_of(arn)
    return (not arns or arn in arns) and (not types or service in types or f"{service}:{kind}" in types)


def _type_of(arn: str) -> tuple[str, str]:
    """`sagemaker` and `endpoint`, as type filters name them."""
    return arn.split(":")[2], arn.split(":", 5)[-1].replace(":", "/").split("/")[0]


def _matches(tags: dict[str, str], filters: Sequence[dict[str, Any]]) -> bool:
    return all(f["Key"] in tags and (not f.get("Values") or tags[f["Key"]] in f["Values"]) for f in filters)


def invalid(message: str) -> Refusal:
    """The tagging API's word for parameters it does not like."""
    return Refusal("InvalidParameterException", message)


OPERATIONS = {"GetResources": get_resources}
