"""Tags of every resource the sandbox keeps itself. AddTags overwrites; ARNs must be spelled as the resource's own.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ListTags.html
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from reaper_sandbox.aws.records import Tags
from reaper_sandbox.aws.reply import Refusal, invalid
from reaper_sandbox.aws.sagemaker.listing import settle
from reaper_sandbox.aws.world import Region


def read(tags: Iterable[Mapping[str, str]] | None) -> Tags:
    """Tags as a request spells them; None where it has none."""
    return {t["Key"]: t["Value"] for t in tags} if tags else None


def shown(tags: Tags) -> list[dict[str, str]]:
    """Tags as a reply spells them."""
    return [{"Key": key, "Value": value} for key, value in (tags or {}).items()]


def list_tags(region: Region, params: dict[str, Any]) -> dict[str, Any] | None:
    """One page is enough for 50 tags."""
    record = _find(region, params["ResourceArn"])
    return {"Tags": shown(record.tags)} if record else None


def add_tags(region: Region, params: dict[str, Any]) -> dict[str, Any] | None:
    """A key that is there already gets the new value."""
    record = _find(region, params["ResourceArn"])
    if record is None:
        return None
    tags = (record.tags or {}) | (read(params["Tags"]) or {})
    if len(tags) > 50:
        raise invalid("Cannot have more than 50 tags on a resource.")
    record.tags = tags
    return {"Tags": shown(tags)}


def delete_tags(region: Region, params: dict[str, Any]) -> dict[str, Any] | None:
    """The tagging API goes on to know the resource, with no tags."""
    record = _find(region, params["ResourceArn"])
    if record is None:
        return None
    if record.tags:
        record.tags = {key: value for key, value in record.tags.items() if key not in params["TagKeys"]}
    return {}


def _find(region: Region, arn: str) -> Any:
    """The record with that ARN; None for kinds that are moto's. Raises ValidationException."""
    kind = arn.split(":")[-1].split("/")[0]
    shelf = region.shelves().get(kind)
    if shelf is None:
        return None
    settle(region)
    for record in shelf.values():
        if record.arn == arn:
            return record
    raise _gone(arn, kind)


def _gone(arn: str, kind: str) -> Refusal:
    if kind in ("endpoint", "endpoint-config", "inference-component"):
        return invalid(f'Could not find {kind.replace("-config", " configuration").replace("-", " ")} "{arn}".')
    if kind == "notebook-instance":
        return invalid("RecordNotFound")
    return Refusal("ResourceNotFound", "Resource does not exist.")


OPERATIONS = {"ListTags": list_tags, "AddTags": add_tags, "DeleteTags": delete_tags}
