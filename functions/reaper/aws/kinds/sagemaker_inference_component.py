"""SageMaker inference components: models that share the instances of one endpoint, each with copies of its own.

Metrics by component: https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html
Adapters run inside their base component, so their traffic is the base's too:
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_InferenceComponentSpecification.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from reaper.aws import series, tags
from reaper.aws.series import Answer, Query
from reaper.errors import CloudError, Trouble
from reaper.evidence import either, settled
from reaper.model import Kind, Observation, Reading, Resource, Role, Window

if TYPE_CHECKING:
    from reaper.aws.cloud import Cloud

NAME = "sagemaker-inference-component"
KEYS = ("InferenceComponentName", "InferenceComponentArn", "EndpointName")
UNSETTLED = {"Creating", "Updating"}
ACTIVITY = (("Invocations", "Sum"), ("NoCapacityInvocationFailures", "Sum"))
Description = dict[str, Any] | CloudError
HEARTBEAT = ("CPUUtilizationNormalized", "CPUUtilization")


def discover(cloud: Cloud) -> Iterator[Resource]:
    """Every component of the region. Its endpoint's tags are its own too, where it has no others."""
    rows = list(cloud.pages("sagemaker", "ListInferenceComponents", "InferenceComponents", *KEYS, MaxResults=100))
    found = tags.tagged(cloud, "inference-component", "endpoint") if rows else {}
    for row in rows:
        endpoint = f"arn:{cloud.partition}:sagemaker:{cloud.region}:{cloud.target.account}:endpoint/{row['EndpointName']}"
        yield Resource(
            kind=NAME,
            id=row["InferenceComponentArn"],
            name=row["InferenceComponentName"],
            target=cloud.target,
            region=cloud.region,
            created=row.get("CreationTime"),
            changed=row.get("LastModifiedTime"),
            status=row.get("InferenceComponentStatus", ""),
            tags=tags.of(found, row["InferenceComponentArn"], endpoint),
            facts={"endpoint": row["EndpointName"]},
        )


def observe(cloud: Cloud, resources: Sequence[Resource], window: Window) -> Iterator[Observation]:
    """Traffic of all in bulk; a description of every component on an endpoint where one was silent."""
    traffic = [q for r in resources for q in _queries(r.name)[: len(ACTIVITY)]]
    first = series.answers(cloud, traffic, series.recent(window))
    seen = {r.name: Observation(resource=r, readings=_readings(r.name, first)) for r in resources}
    silent = {name for name, one in seen.items() if not _recent(one, window)}
    answers = series.answers(cloud, [q for name in silent for q in _queries(name)], window)
    seen |= {name: replace(seen[name], readings=_readings(name, answers)) for name in silent}
    hosts = {seen[name].resource.facts["endpoint"] for name in silent}
    asked = [r for r in resources if r.facts["endpoint"] in hosts]
    described = dict(zip([r.name for r in asked], cloud.each(lambda r: _describe(cloud, r), asked), strict=True))
    for name, one in seen.items():
        yield _observation(one, described, seen) if name in silent else _recent_observation(one)


def _queries(name: str) -> list[Query]:
    pair = (("InferenceComponentName", name),)
    traffic = [Query(namespace="AWS/SageMaker", metric=metric, stat=stat, dimensions=pair) for metric, stat in ACTIVITY]
    hearts = [
        Query(namespace="/aws/sagemaker/InferenceComponents", metric=m, stat="SampleCount", dimensions=pair) for m in HEARTBEAT
    ]
    return traffic + hearts


def _readings(name: str, answers: dict[Query, Answer]) -> tuple[Reading, ...]:
    found = [(query.metric, answers[query]) for query in _queries(name) if query in answers]
    traffic = [Reading(signal=m, role=Role.ACTIVITY, series=a.series, complete=a.complete) for m, a in found[: len(ACTIVITY)]]
    hearts = [Reading(signal=m, role=Role.HEARTBEAT, series=a.series, complete=a.complete) for m, a in found[len(ACTIVITY) :]]
    return (*traffic, either(*hearts)) if hearts else tuple(traffic)


def _recent(seen: Observation, window: Window) -> bool:
    return seen.resource.status in {*UNSETTLED, "Deleting"} or settled(seen, window)


def _recent_observation(seen: Observation) -> Observation:
    status = seen.resource.status
    if status == "Deleting":
        return replace(seen, free="it is being deleted")
    if status in UNSETTLED:
        return replace(seen, unsettled=f"its status is {status}")
    return replace(seen, blind="it was used or changed too recently for a closer look")


def _describe(cloud: Cloud, resource: Resource) -> Description:
    try:
        return cloud.call("sagemaker", "DescribeInferenceComponent", "EndpointName", InferenceComponentName=resource.name)
    except CloudError as error:
        if error.trouble is not Trouble.GONE:
            cloud.note(error)
        return error


def _observation(seen: Observation, described: Mapping[str, Description], all_seen: Mapping[str, Observation]) -> Observation:
    row = described[seen.resource.name]
    if isinstance(row, CloudError):
        return replace(seen, blind=f"it could not be described: {row}")
    if base := _base(row):
        return replace(seen, free=f"it is an adapter inside {base} and takes no capacity of its own")
    copies = (row.get("RuntimeConfig") or {}).get("CurrentCopyCount")
    if copies == 0:
        return replace(seen, free="it runs no copies right now")
    size = f"{copies} {'copy' if copies == 1 else 'copies'}" if copies else ""
    return _with_adapters(replace(seen, resource=replace(seen.resource, size=size)), described, all_seen)


def _with_adapters(seen: Observation, described: Mapping[str, Description], all_seen: Mapping[str, Observation]) -> Observation:
    """The traffic of its adapters is its own, and it is as young as the youngest of them."""
    resource, extra = seen.resource, list(seen.readings)
    for one in all_seen.values():
        other = described.get(one.resource.name)
        if one.resource.facts["endpoint"] != resource.facts["endpoint"] or other is None or one.resource.name == resource.name:
            continue
        if isinstance(other, CloudError):
            return replace(seen, blind=f"whether {one.resource.name} is an adapter of it could not be read")
        if _base(other) == resource.name:
            extra += [
                replace(r, signal=f"{r.signal} of adapter {one.resource.name}") for r in one.readings if r.role is Role.ACTIVITY
            ]
            times = [t for t in (resource.changed, one.resource.created, one.resource.changed) if t]
            resource = replace(resource, changed=max(times, default=None))
    return replace(seen, resource=resource, readings=tuple(extra))


def _base(row: Mapping[str, Any]) -> str | None:
    """The component that this one is an adapter of. A reply has `Specification` or `Specifications`, never both."""
    specs = [row.get("Specification"), *(row.get("Specifications") or ())]
    return next((str(s["BaseInferenceComponentName"]) for s in specs if s and s.get("BaseInferenceComponentName")), None)


KIND = Kind(
    name=NAME,
    cloud="aws",
    title="SageMaker inference component",
    docs="https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html",
    permissions=(
        "sagemaker:ListInferenceComponents",
        "sagemaker:DescribeInferenceComponent",
        tags.PERMISSION,
        *series.PERMISSIONS,
    ),
    activity="Invocations by InferenceComponentName, its adapters' included; NoCapacityInvocationFailures",
    heartbeat="CPUUtilizationNormalized samples in /aws/sagemaker/InferenceComponents, same dimension",
    otherwise="unknown; exempt with no copies. Its money is its endpoint's, so it has no price of its own",
    discover=discover,
    observe=observe,
)
