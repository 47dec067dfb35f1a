"""Bedrock provisioned throughput: model units that are billed by the hour, used or not.

AWS publishes no heartbeat for it, and a series is there only once it was used, so silence is `likely` at most, and only after a use that the same
series showed. It is never deleted: its ARN and its capacity couldn't be brought back, and a commitment can't be ended early.

https://docs.aws.amazon.com/bedrock/latest/userguide/prov-throughput.html
Metrics: https://docs.aws.amazon.com/bedrock/latest/userguide/monitoring.html
"""

from __future__ import annotations

from shlex import quote

from reaper.aws.reader import Listing, Row, Signal, Table, completed, with_past_use
from reaper.kind import none_of, status_rule
from reaper.model import Resource

NAMESPACE, DIMENSION = "AWS/Bedrock", "ModelId"
"""AWS names the dimension; that it has the ARN of what is provisioned, public tools show."""
METRICS = ("Invocations", "InvocationClientErrors", "InvocationServerErrors", "InvocationThrottles")


def size_of(row: Row) -> str:
    """`anthropic.claude-v2 x2, SixMonths`: everything that its price depends on."""
    model = str(row.get("foundationModelArn") or row["modelArn"]).rpartition("/")[2]
    term = f", {row['commitmentDuration']}" if row.get("commitmentDuration") else ""
    return f"{model} x{row['modelUnits']}{term}"


def keep_line(resource: Resource, key: str, value: str) -> str:
    """The line that puts a tag on it."""
    return f"aws bedrock tag-resource --region {quote(resource.region)} --resource-arn {quote(resource.id)} --tags key={key},value={value}"


KIND = completed(
    Table(
        name="bedrock-provisioned-throughput",
        cloud="aws",
        title="Bedrock provisioned throughput",
        docs="https://docs.aws.amazon.com/bedrock/latest/userguide/prov-throughput.html",
        activity="Invocations, client or server errors or throttles above 0, by the ARN as ModelId",
        heartbeat="none",
        without_proof="likely if it was used within the look-back, and not for longer than idle_after; otherwise unknown",
        listing=Listing(
            service="bedrock",
            list="ListProvisionedModelThroughputs",
            rows="provisionedModelSummaries",
            token_key="nextToken",
            page_size="maxResults",
            prefix="provisionedModel",
            keys={"status": "status", "created": "creationTime", "changed": "lastModifiedTime"},
            tags_call=("ListTagsForResource", "resourceARN", "tags"),
        ),
        states=(
            status_rule("changing", {"Creating", "Updating"}),
            status_rule("free", {"Failed"}, "its status is Failed, so nothing is provisioned"),
            status_rule("unknown", none_of("InService"), "this version doesn't recognize its status {status}"),
        ),
        size=size_of,
        signals=tuple(Signal(namespace=NAMESPACE, metric=metric, dimension=DIMENSION, by_id=True) for metric in METRICS),
        closer_looks=(with_past_use,),
        keep_line=keep_line,
    )
)
