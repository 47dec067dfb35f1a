"""Provisioned model throughputs. https://docs.aws.amazon.com/bedrock/latest/APIReference/API_ListProvisionedModelThroughputs.html"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from reaper_sandbox.aws.records import Tags
from reaper_sandbox.aws.reply import Refusal
from reaper_sandbox.aws.world import Region

ARN_TYPE, NAMED_BY = "provisioned-model", "provisionedModelId"
KIND_NAME = "bedrock-provisioned-throughput"
FLEET_VERDICTS = {"claude-never-used": "unknown"}
MODEL = "arn:aws:bedrock:us-east-1::foundation-model/anthropic.claude-v2"


@dataclass(slots=True, kw_only=True)
class Throughput:
    """So many model units. `term`: OneMonth or SixMonths, None without a commitment."""

    name: str
    arn: str
    created: datetime
    changed: datetime
    units: int = 1
    term: str | None = None
    status: str = "InService"
    tags: Tags = None


def seed(region: Region, name: str, created: datetime, **setup: Any) -> Throughput:
    """A throughput straight into memory; `setup` are fields of the record."""
    arn = region.arn(f"{ARN_TYPE}/{name}", service="bedrock")
    throughput = Throughput(name=name, arn=arn, created=created, **{"changed": created, **setup})
    region.shelf(ARN_TYPE)[name] = throughput
    return throughput


def seed_fleet(region: Region, now: datetime) -> None:
    """One without a single point."""
    seed(region, "claude-never-used", now - timedelta(days=40), tags={"owner": "orla@example.com"})


def list_throughputs(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """All of them in one page."""
    return {"provisionedModelSummaries": [_summary(one) for one in region.shelf(ARN_TYPE).values()]}


def list_tags(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """Of one throughput, by its ARN."""
    for one in region.shelf(ARN_TYPE).values():
        if one.arn == params["resourceARN"]:
            return {"tags": [{"key": key, "value": value} for key, value in (one.tags or {}).items()]}
    raise Refusal("ResourceNotFoundException", f"{params['resourceARN']} does not exist")


def _summary(one: Throughput) -> dict[str, Any]:
    term = {"commitmentDuration": one.term, "commitmentExpirationTime": one.created + timedelta(days=30)} if one.term else {}
    return {
        "provisionedModelName": one.name,
        "provisionedModelArn": one.arn,
        **dict.fromkeys(("modelArn", "desiredModelArn", "foundationModelArn"), MODEL),
        **dict.fromkeys(("modelUnits", "desiredModelUnits"), one.units),
        "status": one.status,
        **term,
        "creationTime": one.created,
        "lastModifiedTime": one.changed,
    }


OPERATIONS = {"ListProvisionedModelThroughputs": list_throughputs, "ListTagsForResource": list_tags}
