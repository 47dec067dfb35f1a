"""SageMaker MLflow tracking servers. They cost by the hour while they run, and AWS publishes no metric of their use.

So nothing can prove one idle: a server that has been running unchanged for longer than `idle_after` is `likely` idle at most.
`IsActive` in a reply says whether it runs, not whether it is used.

https://docs.aws.amazon.com/sagemaker/latest/dg/mlflow.html
States: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeMlflowTrackingServer.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from reaper.aws import sagemaker, tags
from reaper.errors import CloudError
from reaper.evidence import is_recent
from reaper.kind import Command, Kind
from reaper.model import BilledPart, Resource, StepName
from reaper.observation import IndirectEvidence, Observation, Window

if TYPE_CHECKING:
    from reaper.aws.session import CloudSession

NAME = "sagemaker-mlflow-server"
RUNNING_STATUSES = {"Created", "Started", "Updated", "MaintenanceComplete"}
CHANGING_STATUSES = {"Creating", "Starting", "Updating", "Stopping", "Deleting", "MaintenanceInProgress"}
STOPPED_STATUS = "Stopped"
PRICE_COMPONENT = "MLflow"
"""In the price snapshot by size: Small, in two regions. Every other price is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MlflowServerDetails:
    """`is_active`: what the list says about whether it runs."""

    is_active: bool = False


def discover(cloud: CloudSession) -> Iterator[Resource]:
    """Every tracking server of the region, stopped ones too."""
    rows = list(cloud.paged_rows("sagemaker", "ListMlflowTrackingServers", "TrackingServerSummaries", MaxResults=100))
    by_arn = tags.tags_by_arn(cloud, "sagemaker:mlflow-tracking-server") if rows else {}

    def parse(row: Mapping[str, Any]) -> Resource:
        return resource_from_row(cloud, row, tags.tags_of(by_arn, row["TrackingServerArn"]))

    return cloud.each("sagemaker:ListMlflowTrackingServers", rows, parse)


def resource_from_row(cloud: CloudSession, row: Mapping[str, Any], own_tags: Mapping[str, str] | None) -> Resource:
    """A row of the list, with its tags. The list has no size."""
    listed = sagemaker.listed_resource(cloud, "TrackingServer", row, own_tags, NAME)
    details = MlflowServerDetails(is_active=row.get("IsActive") == "Active")
    return replace(listed, parts=() if listed.status == STOPPED_STATUS else None, details=details)


def observe(cloud: CloudSession, resources: Sequence[Resource], window: Window) -> Iterator[Observation]:
    """What its status says; the size of each that has been running for long."""
    yield from cloud.map_concurrently(lambda resource: _look_closer(cloud, resource, window), resources)


def _look_closer(cloud: CloudSession, resource: Resource, window: Window) -> Observation:
    observation = Observation(resource=resource)
    if resource.status == STOPPED_STATUS:
        return replace(observation, free_because="it is stopped")
    if resource.status in CHANGING_STATUSES:
        return replace(observation, changing_because=f"its status is {resource.status}")
    if resource.status not in RUNNING_STATUSES:
        return replace(observation, unknown_because=f"its status is {resource.status or 'missing'}")
    if not details_of(resource).is_active:
        return replace(observation, unknown_because=f"its status is {resource.status}, but AWS doesn't call it active")
    if is_recent(observation, window):
        return replace(observation, unknown_because="it was changed too recently for a closer look")
    return _with_size(cloud, _with_indirect_evidence(observation))


def details_of(resource: Resource) -> MlflowServerDetails:
    """Its details; empty if it wasn't read."""
    return resource.details if isinstance(resource.details, MlflowServerDetails) else MlflowServerDetails()


def _with_size(cloud: CloudSession, observation: Observation) -> Observation:
    """With the size that only a description has. If it can't be read, the verdict is unknown, because a rule may match the size."""
    named = {"TrackingServerName": observation.resource.name}
    reply = cloud.describe("DescribeMlflowTrackingServer", "TrackingServerSize", **named)
    if isinstance(reply, CloudError):
        return replace(observation, unknown_because=f"its size couldn't be read: {reply}")
    size = str(reply["TrackingServerSize"])
    parts = (BilledPart(component=PRICE_COMPONENT, instance=size),)
    return replace(observation, resource=replace(observation.resource, size=size, parts=parts))


def _with_indirect_evidence(observation: Observation) -> Observation:
    resource = observation.resource
    since = max((t for t in (resource.created, resource.changed) if t), default=None)
    if since is None:
        return observation
    because = f"running since {since:%Y-%m-%d %H:%M} UTC, no metric shows its use"
    return replace(observation, indirect_evidence=IndirectEvidence(since=since, because=because))


def stop_command(resource: Resource) -> Command:
    """The line that stops it. https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_StopMlflowTrackingServer.html"""
    line = sagemaker.sagemaker_line(resource, "stop-mlflow-tracking-server", tracking_server_name=resource.name)
    return Command(label=sagemaker.in_account(resource, "Stop it now"), line=line)


KIND = Kind(
    name=NAME,
    cloud="aws",
    title="SageMaker MLflow tracking server",
    docs="https://docs.aws.amazon.com/sagemaker/latest/dg/mlflow.html",
    permissions=("sagemaker:ListMlflowTrackingServers", "sagemaker:DescribeMlflowTrackingServer", tags.PERMISSION),
    activity="none: AWS publishes no metric of its use",
    heartbeat="none",
    without_proof="likely if it has been running unchanged for longer than idle_after; exempt when stopped",
    discover=discover,
    observe=observe,
    details=MlflowServerDetails,
    commands={StepName.STOP: stop_command},
    keep_line=sagemaker.keep_line,
    price_keys=(PRICE_COMPONENT,),
)
