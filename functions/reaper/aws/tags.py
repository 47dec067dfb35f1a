"""Tags in bulk, a hundred resources a call, instead of one call each.

The tagging API never returns resources that were never tagged, so a missing ARN means no tags; it returns ARNs in a case of its own:
https://docs.aws.amazon.com/resourcegroupstagging/latest/APIReference/API_GetResources.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from reaper.errors import CloudError, Reason
from reaper.ledger.rows import comparable_id
from reaper.model import PROTECTING_TAGS
from reaper.policy.tags import plain_key

if TYPE_CHECKING:
    from reaper.aws.session import CloudSession

PERMISSION = "tag:GetResources"
SAGEMAKER_TYPES = ("app", "domain", "endpoint", "inference-component", "mlflow-tracking-server", "notebook-instance", "space")
BULK_TYPES = {f"sagemaker:{name}" for name in (*SAGEMAKER_TYPES, "user-profile")}
"""The types that the tagging API is known to cover. It returns nothing for any other, which would look like no tags:
https://docs.aws.amazon.com/resourcegroupstagging/latest/APIReference/supported-services.html"""
Tags = dict[str, str]
"""None where they couldn't be read, or two rows contradict each other: either may protect."""
TagsByArn = dict[str, dict[str, Tags | None]]
"""Tags by ARN in the form in which ids are compared, by lower-cased ARN: two names may differ in case only."""


def tags_by_arn(cloud: CloudSession, *types: str) -> TagsByArn | None:
    """The tags of every tagged resource of these types, such as `sagemaker:endpoint`; None, and noted, when they can't be read.

    A type that isn't among `BULK_TYPES` is never read so.
    """
    return cloud.read_or_none(PERMISSION, lambda: _read_tags(cloud, types))


def _read_tags(cloud: CloudSession, types: Sequence[str]) -> TagsByArn:
    if unknown := sorted({*types} - BULK_TYPES):
        raise CloudError(Reason.REFUSED, PERMISSION, f"the tagging API isn't known to cover {', '.join(unknown)}")
    by_arn: TagsByArn = {}
    listed = ("resourcegroupstaggingapi", "GetResources", "ResourceTagMappingList", "ResourceARN")
    for row in cloud.paged_rows(*listed, token_key="PaginationToken", ResourceTypeFilters=list(types), ResourcesPerPage=100):
        arn, pairs = row["ResourceARN"], [(tag.get("Key"), tag.get("Value")) for tag in row.get("Tags") or ()]
        # What isn't a pair of strings may protect.
        is_read = all(isinstance(key, str) and key and isinstance(value, str) for key, value in pairs)
        spelled, key = by_arn.setdefault(arn.lower(), {}), comparable_id(arn)
        spelled[key] = _merge((spelled.get(key, {}), *({k: v} for k, v in pairs))) if is_read else None
        if spelled[key] is None:
            text = f"the tags of {arn} can't be read, or contradict each other"
            cloud.add_error(CloudError(Reason.UNREADABLE, PERMISSION, text))
    return by_arn


def tags_one_by_one(cloud: CloudSession, permission: str, arns: Sequence[str], read: Callable[[str], Tags]) -> TagsByArn:
    """The tags of resources that the tagging API doesn't cover, by a call of their own service each; None, and noted, where that fails."""
    every = cloud.map_concurrently(lambda arn: cloud.read_or_none(permission, partial(read, arn)), arns)
    by_arn: TagsByArn = {}
    for arn, own_tags in zip(arns, every, strict=True):
        by_arn.setdefault(arn.lower(), {})[comparable_id(arn)] = own_tags
    return by_arn


def _merge(every: Iterable[Tags | None]) -> Tags | None:
    """The tags of all; None as soon as some can't be read or two contradict each other."""
    merged: Tags = {}
    for tags in every:
        if tags is None or any(merged[key] != tags[key] for key in merged.keys() & tags.keys()):
            return None
        merged |= tags
    return merged


def tags_of(by_arn: TagsByArn | None, *arns: str) -> Tags | None:
    """The tags of the first ARN, over those of the others that it lives in; None when tags couldn't be read."""
    if by_arn is None:
        return None
    merged: Tags = {}
    for arn in reversed(arns):
        spelled = by_arn.get(arn.lower(), {})
        # Those of the spelling that is surely the same resource; else those of all spellings, since one of them may be.
        tags = spelled[comparable_id(arn)] if comparable_id(arn) in spelled else _merge(spelled.values())
        if tags is None:
            return None
        merged = _inside(merged, tags)
    return merged


def _inside(outer: Tags, own: Tags) -> Tags:
    """Its own tags, over those of what it lives in, of which those that may protect stay: `PROTECTING_TAGS`."""
    merged, named = dict(own), {key.rstrip() for key in own}
    for key, value in outer.items():
        while key in merged and plain_key(key) in PROTECTING_TAGS and key.rstrip() in named:
            key += " "
        merged.setdefault(key, value)
    return merged


def read_tags_now(cloud: CloudSession, *arns: str) -> dict[str, str]:
    """The tags of the first ARN, over those of the others that it lives in, one authoritative call each, right before an action.

    Raises CloudError, but never GONE: tags that are not found are tags that couldn't be read.
    """
    merged: Tags = {}
    for arn in reversed(arns):
        try:
            rows = list(cloud.paged_rows("sagemaker", "ListTags", "Tags", "Key", "Value", ResourceArn=arn))
        except CloudError as error:
            if error.reason is not Reason.GONE:
                raise
            raise CloudError(Reason.REFUSED, error.operation, f"the tags of {arn} can't be read: {error}") from error
        merged = _inside(merged, {row["Key"]: row["Value"] for row in rows})
    return merged
