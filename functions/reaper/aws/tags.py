"""Tags in bulk, a hundred resources a call, instead of one call each.

The API never returns resources that were never tagged, so a missing ARN means no tags; it returns ARNs in a case of its own:
https://docs.aws.amazon.com/resourcegroupstagging/latest/APIReference/API_GetResources.html
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from reaper.errors import CloudError, Reason
from reaper.ledger.stored_text import comparable_id

if TYPE_CHECKING:
    from reaper.aws.session import CloudSession

PERMISSION = "tag:GetResources"
Tags = dict[str, str]
TagsByName = dict[str, Tags | None]
"""None where they couldn't be read, or two rows contradict each other: either may protect."""
TagsByArn = dict[str, dict[str, Tags | None]]
"""Tags by ARN in the form in which ids are compared, by lower-cased ARN: two names may differ in case only."""


def tags_by_arn(cloud: CloudSession, *types: str) -> TagsByArn | None:
    """The tags of every tagged resource of these types (`endpoint`, `app`, ...); None, and noted, when they can't be read."""
    names = [f"sagemaker:{name}" for name in types]
    rows = cloud.paged_rows(
        "resourcegroupstaggingapi",
        "GetResources",
        "ResourceTagMappingList",
        "ResourceARN",
        token_key="PaginationToken",
        ResourceTypeFilters=names,
        ResourcesPerPage=100,
    )
    by_arn: TagsByArn = {}
    try:
        for row in rows:
            arn = row["ResourceARN"]
            spelled, key = by_arn.setdefault(arn.lower(), {}), comparable_id(arn)
            spelled[key] = _with_error_added(cloud, arn, _merge_two(spelled.get(key, {}), _tags_of_row(row)))
    except CloudError as error:
        cloud.add_error(error)
        return None
    return by_arn


def _with_error_added(cloud: CloudSession, arn: str, tags: Tags | None) -> Tags | None:
    if tags is None:
        cloud.add_error(CloudError(Reason.UNREADABLE, PERMISSION, f"the tags of {arn} can't be read, or contradict each other"))
    return tags


def _tags_of_row(row: Mapping[str, Any]) -> Tags | None:
    """The tags of one row; None if one of them isn't a pair of strings: it may protect."""
    merged: Tags | None = {}
    for tag in row.get("Tags") or ():
        key, value = tag.get("Key"), tag.get("Value")
        merged = _merge_two(merged, {key: value} if isinstance(key, str) and key and isinstance(value, str) else None)
    return merged


def _merge_two(one: Tags | None, other: Tags | None) -> Tags | None:
    """The tags of both; None where they couldn't be read, or contradict each other."""
    if one is None or other is None or any(one[key] != other[key] for key in one.keys() & other.keys()):
        return None
    return one | other


def _merge_all(every: Iterable[Tags | None]) -> Tags | None:
    """The tags of all; None as soon as some can't be read or two contradict each other."""
    merged: Tags | None = {}
    for tags in every:
        merged = _merge_two(merged, tags)
    return merged


def tags_of(by_arn: TagsByArn | None, *arns: str) -> Tags | None:
    """The tags of the first ARN, over those of the others that it lives in; None when tags couldn't be read."""
    if by_arn is None:
        return None
    merged: Tags = {}
    for arn in reversed(arns):
        tags = _tags_of_arn(by_arn.get(arn.lower(), {}), arn)
        if tags is None:
            return None
        merged |= tags
    return merged


def _tags_of_arn(spelled: Mapping[str, Tags | None], arn: str) -> Tags | None:
    """Those of the spelling that is surely the same resource; else those of all spellings, since one of them may be."""
    return spelled[comparable_id(arn)] if comparable_id(arn) in spelled else _merge_all(spelled.values())


def tags_by_name(cloud: CloudSession, resource_type: str) -> TagsByName | None:
    """Tags by lower-cased name of every tagged resource of one type; of names that differ in case only, those of both."""
    by_arn = tags_by_arn(cloud, resource_type)
    if by_arn is None:
        return None
    names: TagsByName = {}
    for arn, spelled in by_arn.items():
        name = arn.rpartition("/")[2]
        names[name] = _merge_two(names.get(name, {}), _merge_all(spelled.values()))
    return names


def read_tags_now(cloud: CloudSession, *arns: str) -> dict[str, str]:
    """The tags of the first ARN, over those of the others that it lives in, one authoritative call each, right before an action.

    Raises CloudError, but never GONE: tags that are not found are tags that couldn't be read.
    """
    merged: dict[str, str] = {}
    for arn in reversed(arns):
        try:
            rows = list(cloud.paged_rows("sagemaker", "ListTags", "Tags", "Key", "Value", ResourceArn=arn))
        except CloudError as error:
            if error.reason is not Reason.GONE:
                raise
            raise CloudError(Reason.REFUSED, error.operation, f"the tags of {arn} can't be read: {error}") from error
        merged |= {row["Key"]: row["Value"] for row in rows}
    return merged
