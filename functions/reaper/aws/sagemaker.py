"""What SageMaker's kinds share: lines and pages for owners, the `Busy` signal, and what could be
recreated from a description.

In lines and pages, every part that comes from the cloud is escaped or quoted, and what decides on the host must have its exact form:
https://docs.aws.amazon.com/cli/latest/reference/sagemaker/add-tags.html
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from shlex import quote
from typing import TYPE_CHECKING, Any
from urllib.parse import quote as escape

from reaper.aws import metrics
from reaper.evidence import is_recent, point_count
from reaper.kind import Command
from reaper.model import Resource, Role
from reaper.observation import Observation, Reading

if TYPE_CHECKING:
    from reaper.aws.reader import Batch
    from reaper.aws.session import CloudSession


REGION = re.compile(r"[a-z]{2}(?:-[a-z]{2,10}){1,3}-[1-9]")
HOST_BY_PARTITION = {
    "aws": "https://{}.console.aws.amazon.com",
    "aws-cn": "https://{}.console.amazonaws.cn",
    "aws-us-gov": "https://console.amazonaws-us-gov.com",
}
"""By the partition that an ARN begins with."""
STACK_TAG = "aws:cloudformation:stack-name"
NAMESPACE, METRIC, DIMENSION = "MLIdleReaper", "Busy", "Resource"
ANY_REPLY_KEY = "ResponseMetadata"
"""What every true reply has, for calls that answer nothing else."""
RESTORED_TAG = "ml-idle-reaper:restored"
MAX_TAGS = 50
MAX_MODEL_PAGES = 20


def sagemaker_line(resource: Resource, operation: str, **options: str) -> str:
    """A call of the AWS CLI in the resource's region: `aws sagemaker stop-notebook-instance --region ... --notebook-instance-name ...`."""
    named = "".join(f" --{name.replace('_', '-')} {quote(value)}" for name, value in options.items())
    return f"aws sagemaker {operation} --region {quote(resource.region)}{named}"


def stop_command(operation: str, option: str, resource: Resource) -> Command:
    """The line that stops what the reaper itself doesn't, by the option that names it."""
    return Command(label=in_account(resource, "Stop it now"), line=sagemaker_line(resource, operation, **{option: resource.name}))


def in_account(resource: Resource, text: str) -> str:
    """The text with the account: SageMaker's calls take names, and the same name in the account of other credentials is another resource."""
    return f"{text}, in account {resource.target.account}"


def keep_line(resource: Resource, key: str, value: str) -> str | None:
    """The line that puts a tag on any SageMaker resource."""
    return f"{sagemaker_line(resource, 'add-tags', resource_arn=resource.id)} --tags Key={key},Value={value}"


def console_url(page: str, page_about: str, resource: Resource) -> str | None:
    """A page of the SageMaker console, about the resource or what its details name so; None if the ID or the region is not as AWS writes it."""
    name = getattr(resource.details, page_about, "") if page_about else resource.name
    partition = resource.id.split(":")[1] if resource.id.startswith("arn:") else ""
    if not name or not name.isprintable() or partition not in HOST_BY_PARTITION or not REGION.fullmatch(resource.region):
        return None
    host = HOST_BY_PARTITION[partition].format(resource.region)
    return f"{host}/sagemaker/home?region={resource.region}#/{page}/{escape(name, safe='')}"


def undeletable_because(resource: Resource) -> str | None:
    """The clause that says why it must not be deleted here: reserved tags can't be restored, nor what they tie it to."""
    keys = sorted(key for key in resource.tags or {} if key.lower().startswith("aws:"))
    if not keys:
        return None
    if stack := _stack_name(resource.tags):
        return f"it belongs to stack {stack}; delete it in CloudFormation"
    return f"its tag {keys[0]} is reserved by AWS and couldn't be restored"


def stack_warning(own_tags: Mapping[str, str] | None) -> str:
    """What a stack may do to a scaled resource, to be added to a sentence; empty without a stack."""
    stack = _stack_name(own_tags)
    return f"; its stack {stack} may change it back" if stack else ""


def _stack_name(own_tags: Mapping[str, str] | None) -> str | None:
    return next((value for key, value in (own_tags or {}).items() if key.lower() == STACK_TAG), None)


def busy_readings(resources: Sequence[Resource], batch: Batch) -> dict[str, tuple[Reading, ...]]:
    """`Busy`, which our own script publishes, as activity and as heartbeat, by resource id. Without any point it isn't published there.

    The whole window is only read of what the first look leaves open.
    """
    cloud, window = batch.cloud, batch.window
    spelled = _published_arns(cloud) if resources else {}
    arns = {r.id: (spelled or {}).get(r.id.lower(), [r.id]) for r in resources}
    queries_by_id = {
        id_: [metrics.query(NAMESPACE, METRIC, "Maximum", **{DIMENSION: arn}) for arn in named] for id_, named in arns.items()
    }
    first = metrics.fetch_first_look(cloud, [(r, queries_by_id[r.id]) for r in resources if r.id not in window.known], window)
    observations = [
        Observation(resource=r, readings=tuple(first[q] for q in queries_by_id[r.id] if q in first)) for r in resources
    ]
    silent = [observation.resource.id for observation in observations if not is_recent(observation, window)]
    results = first | metrics.fetch_metrics(cloud, [q for id_ in silent for q in queries_by_id[id_]], window)
    readings = {id_: tuple(r for q in asked for r in _with_heartbeat(results[q])) for id_, asked in queries_by_id.items()}
    if spelled is not None:
        return readings
    # Without a list of what is published, a series that seems empty may be there under another spelling.
    return {i: tuple(replace(r, complete=r.complete and point_count(r) > 0) for r in pairs) for i, pairs in readings.items()}


def _with_heartbeat(activity: Reading) -> tuple[Reading, Reading]:
    return activity, replace(activity, signal="Busy heartbeat", role=Role.HEARTBEAT, busy_above=float("-inf"))


def _published_arns(cloud: CloudSession) -> dict[str, list[str]] | None:
    """The ARNs as published, by lower-cased ARN: SageMaker spells one ARN in several cases, CloudWatch tells them apart.

    None, and noted, when they can't be listed.
    """
    rows = cloud.read_or_none("cloudwatch:ListMetrics", lambda: list(metrics.published_dimensions(cloud, NAMESPACE, METRIC)))
    if rows is None:
        return None
    arns: dict[str, list[str]] = {}
    for pairs in rows:
        if pairs.keys() == {DIMENSION}:
            arns.setdefault(pairs[DIMENSION].lower(), []).append(pairs[DIMENSION])
    return arns


def to_plain_json(value: Any) -> Any:
    """The same without what the SDK adds; times become ISO 8601 strings in UTC, which the SDK accepts."""
    if isinstance(value, Mapping):
        return {str(key): to_plain_json(one) for key, one in value.items() if key != ANY_REPLY_KEY}
    if isinstance(value, (list, tuple)):
        return [to_plain_json(one) for one in value]
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else value


def chosen_members(row: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Those members of `row` that are there and hold something, as plain JSON."""
    return {name: to_plain_json(row[name]) for name in names if row.get(name) not in (None, {}, [])}


def digest(value: Any) -> str:
    """A short digest of a reply or of a part of one: two are equal if nothing in them differs."""
    return sha256(json.dumps(to_plain_json(value), sort_keys=True, default=str).encode()).hexdigest()[:16]


def tags_parameter(tags: Mapping[str, str]) -> dict[str, Any]:
    """The parameter `Tags` of a create call; nothing without tags. AWS refuses keys that it reserves."""
    shown = [{"Key": key, "Value": value} for key, value in tags.items() if not key.lower().startswith("aws:")]
    return {"Tags": shown} if shown else {}


def unknown_members_clause(row: Mapping[str, Any], *known: Collection[str]) -> str | None:
    """The clause that names the unknown members that hold something; None without any."""
    names = {name for some in known for name in some} | {ANY_REPLY_KEY}
    unknown = sorted(name for name, value in row.items() if name not in names and value not in (None, {}, []))
    return f"has {', '.join(unknown)}, which this version can't restore" if unknown else None


def model_names(*rows: Mapping[str, Any]) -> set[str]:
    """The models that variants or specifications name, within configurations and components as described."""
    names: set[str] = set()
    for row in rows:
        inner = [row.get("Specification"), *(row.get("Specifications") or ())]
        inner += [*(row.get("ProductionVariants") or ()), *(row.get("ShadowProductionVariants") or ())]
        names |= {str(part["ModelName"]) for part in inner if part and part.get("ModelName")}
    return names


def missing_model_because(needed: Collection[str], deleted: Collection[str]) -> str | None:
    """The clause for a model that is needed and gone."""
    missing = sorted(set(needed) & set(deleted))
    return f"its model {missing[0]} is gone, so it can't be recreated" if missing else None


def no_room_for_tag_because(own_tags: Mapping[str, str] | None) -> str | None:
    """The clause for tags that leave no room for the one that marks a recreated resource ."""
    keys = [key for key in {**(own_tags or {}), RESTORED_TAG: ""} if not key.startswith("aws:")]
    if len(keys) <= MAX_TAGS:
        return None
    return f"it has {MAX_TAGS} tags, which leaves no room for the tag that marks a recreated resource"


def deleted_models(cloud: CloudSession, wanted: Collection[str]) -> set[str]:
    """Those of the models that were deleted, in bulk, from the newest on.

    None of them if that can't be read, which is noted, or if there are too many models to list: right before a deletion each one is
    read.
    """
    return cloud.read_or_none("sagemaker:ListModels", lambda: _unlisted_models(cloud, set(wanted))) or set()


def _unlisted_models(cloud: CloudSession, missing: set[str]) -> set[str]:
    rows = cloud.paged_rows("sagemaker", "ListModels", "Models", "ModelName", MaxResults=100) if missing else ()
    for count, row in enumerate(rows, 1):
        missing.discard(row["ModelName"])
        if not missing or count == MAX_MODEL_PAGES * 100:
            return set()
    return missing
