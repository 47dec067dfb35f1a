"""Tags in bulk, a hundred resources a call, instead of one call each.

The API never returns resources that were never tagged, so a missing ARN means no tags; it returns ARNs in a case of its own:
https://docs.aws.amazon.com/resourcegroupstagging/latest/APIReference/API_GetResources.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reaper.errors import ODD, CloudError, Trouble

if TYPE_CHECKING:
    from reaper.aws.cloud import Cloud

PERMISSION = "tag:GetResources"
ByName = dict[str, dict[str, str]]
Tagged = dict[str, dict[str, dict[str, str]]]
"""Tags by ARN as spelled, by lower-cased ARN: two names may differ in case only."""


def tagged(cloud: Cloud, *types: str) -> Tagged | None:
    """The tags of every tagged resource of these types (`endpoint`, `app`, ...); None, and noted, when they cannot be read."""
    names = [f"sagemaker:{name}" for name in types]
    rows = cloud.pages(
        "resourcegroupstaggingapi",
        "GetResources",
        "ResourceTagMappingList",
        "ResourceARN",
        token="PaginationToken",
        ResourceTypeFilters=names,
        ResourcesPerPage=100,
    )
    found: Tagged = {}
    try:
        for row in rows:
            arn = row["ResourceARN"]
            found.setdefault(arn.lower(), {})[arn] = {tag["Key"]: tag["Value"] for tag in row.get("Tags") or ()}
    except CloudError as error:
        cloud.note(error)
        return None
    except ODD as error:
        cloud.note(CloudError(Trouble.GARBLED, PERMISSION, f"a row cannot be read ({error})"))
        return None
    return found


def of(found: Tagged | None, *arns: str) -> dict[str, str] | None:
    """The tags of the first ARN, over those of the others that it lives in; None when tags could not be read."""
    if found is None:
        return None
    merged: dict[str, str] = {}
    for arn in reversed(arns):
        spelled = found.get(arn.lower(), {})
        for tags in [spelled[arn]] if arn in spelled else spelled.values():
            merged |= tags
    return merged


def by_name(cloud: Cloud, type: str) -> ByName | None:
    """Tags by lower-cased name of every tagged resource of one type; of names that differ in case only, those of both."""
    found = tagged(cloud, type)
    if found is None:
        return None
    names: ByName = {}
    for arn, spelled in found.items():
        for tags in spelled.values():
            names.setdefault(arn.rpartition("/")[2], {}).update(tags)
    return names


def fresh(cloud: Cloud, *arns: str) -> dict[str, str]:
    """The tags of the first ARN, over those of the others that it lives in, one authoritative call each, right before an act.

    Raises CloudError, but never GONE: tags that are not found are tags that could not be read.
    """
    merged: dict[str, str] = {}
    for arn in reversed(arns):
        try:
            rows = list(cloud.pages("sagemaker", "ListTags", "Tags", "Key", "Value", ResourceArn=arn))
        except CloudError as error:
            if error.trouble is not Trouble.GONE:
                raise
            raise CloudError(Trouble.REFUSED, error.operation, f"the tags of {arn} cannot be read: {error}") from error
        merged |= {row["Key"]: row["Value"] for row in rows}
    return merged
