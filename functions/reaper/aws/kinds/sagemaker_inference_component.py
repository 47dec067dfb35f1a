"""SageMaker inference components: models that share the instances of one endpoint, each with copies of its own.

Metrics by component: https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html
Adapters run inside their base component, so their traffic is the base's too:
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_InferenceComponentSpecification.html
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from reaper.aws import autoscaling, component_actions, metrics, protection, restorable, tags
from reaper.aws.autoscaling import Scaling
from reaper.aws.metrics import Answer, Query
from reaper.errors import CloudError, Trouble
from reaper.evidence import either, last_used, settled
from reaper.model import Kind, Observation, Reading, Resource, Role, Window

if TYPE_CHECKING:
    from reaper.aws.session import Cloud

NAME = "sagemaker-inference-component"
KEYS = ("InferenceComponentName", "InferenceComponentArn", "EndpointName")
UNSETTLED = {"Creating", "Updating"}
SETTLED = {"InService", "Failed"}
ACTIVITY = (("Invocations", "Sum"), ("NoCapacityInvocationFailures", "Sum"))
Description = dict[str, Any] | CloudError
HEARTBEAT = ("CPUUtilizationNormalized", "GPUUtilizationNormalized")


def discover(cloud: Cloud) -> Iterator[Resource]:
    """Every component of the region. Its endpoint's tags are its own too, where it has no others.

    One that cannot be placed fails them all: it may be an adapter of any other.
    """
    rows = list(cloud.pages("sagemaker", "ListInferenceComponents", "InferenceComponents", *KEYS[1:], MaxResults=100))
    found = tags.tagged(cloud, "inference-component", "endpoint") if rows else {}
    for row in rows:
        yield resource(cloud, {KEYS[0]: None, **row}, tags.of(found, row["InferenceComponentArn"], host(cloud, row)))


def host(cloud: Cloud, row: Mapping[str, Any]) -> str:
    """The ARN of the endpoint that it runs on, in the case of its name; replies have it lower-cased."""
    return f"arn:{cloud.partition}:sagemaker:{cloud.region}:{cloud.target.account}:endpoint/{row['EndpointName']}"


def resource(cloud: Cloud, row: Mapping[str, Any], found: Mapping[str, str] | None) -> Resource:
    """A row of the list, or a description, with its tags."""
    return Resource(
        kind=NAME,
        id=row["InferenceComponentArn"],
        name=row["InferenceComponentName"],
        target=cloud.target,
        region=cloud.region,
        created=row.get("CreationTime"),
        changed=row.get("LastModifiedTime"),
        status=row.get("InferenceComponentStatus", ""),
        tags=found,
        facts={"endpoint": row["EndpointName"], "host": host(cloud, row)},
    )


def inside(cloud: Cloud, row: Mapping[str, Any], own: Mapping[str, str] | None, hosts: Mapping[str, str] | None) -> Resource:
    """The same as part of an endpoint: with its own tags over those of its host; None where either could not be read."""
    return resource(cloud, row, None if own is None or hosts is None else {**hosts, **own})


def observe(cloud: Cloud, resources: Sequence[Resource], window: Window) -> Iterator[Observation]:
    """Traffic of all in bulk; a description of every component on an endpoint where one was silent.

    One that was looked at alone brings the others of its endpoint along in its facts: adapters among them are part of it.
    """
    asked_for = {r.name for r in resources}
    resources = [*resources, *(s for r in resources for s in r.facts.get("siblings", ()) if s.name not in asked_for)]
    first = metrics.first(cloud, [(r, _queries(r.name)[: len(ACTIVITY)]) for r in resources], window)
    seen = {r.name: Observation(resource=r, readings=_readings(r.name, first)) for r in resources}
    silent = {name for name, one in seen.items() if not _recent(one, window)}
    answers = metrics.answers(cloud, [q for name in silent for q in _queries(name)], window)
    seen |= {name: replace(seen[name], readings=_readings(name, answers)) for name in silent}
    hosts = {seen[name].resource.facts["endpoint"] for name in silent}
    asked = [r for r in resources if r.facts["endpoint"] in hosts]
    described = dict(zip([r.name for r in asked], cloud.each(lambda r: _describe(cloud, r), asked), strict=True))
    found = [
        _observation(one, described, seen, window) if name in silent else _recent_observation(one)
        for name, one in seen.items()
        if name in asked_for
    ]
    runs = any(one.resource.facts.get("copies") and not one.free and not one.blind for one in found)
    read = autoscaling.read_or_note(cloud) if runs else None
    gone = restorable.gone(cloud, {name for one in found for name in one.resource.facts.get("models", ())})
    yield from (_with_gone(_with_wake(one, read), gone) for one in found)


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
    return _of_status(seen) or replace(seen, blind="it was used or changed too recently for a closer look")


def _of_status(seen: Observation) -> Observation | None:
    """What its status says by itself; None for one in which silence can be judged."""
    status = seen.resource.status
    if status == "Deleting":
        return replace(seen, free="it is being deleted")
    if status in UNSETTLED:
        return replace(seen, unsettled=f"its status is {status}")
    return None if status in SETTLED else replace(seen, blind=f"its status is {status or 'missing'}, which we do not know")


def _describe(cloud: Cloud, resource: Resource) -> Description:
    try:
        return cloud.call("sagemaker", "DescribeInferenceComponent", "EndpointName", InferenceComponentName=resource.name)
    except CloudError as error:
        if error.trouble is not Trouble.GONE:
            cloud.note(error)
        return error


def _observation(
    seen: Observation, described: Mapping[str, Description], all_seen: Mapping[str, Observation], window: Window
) -> Observation:
    row = described[seen.resource.name]
    if isinstance(row, CloudError):
        return replace(seen, blind=f"it could not be described: {row}")
    seen = _as_described(seen, row)
    copies, base = (row.get("RuntimeConfig") or {}).get("CurrentCopyCount"), _base(row)
    seen = _with(seen, copies=copies, base=base, lost=restorable.component(row), models=tuple(sorted(restorable.models(row))))
    if odd := _of_status(seen):
        return odd
    if base:
        return replace(seen, free=f"it is an adapter inside {base} and takes no capacity of its own")
    if copies == 0:
        return replace(seen, free="it runs no copies right now")
    size = f"{copies} {'copy' if copies == 1 else 'copies'}" if copies else ""
    return _with_adapters(replace(seen, resource=replace(seen.resource, size=size)), described, all_seen, window)


def _as_described(seen: Observation, row: Mapping[str, Any]) -> Observation:
    """With its status and last change of this moment; the list may be minutes old."""
    known = seen.resource
    status = str(row.get("InferenceComponentStatus") or known.status)
    times = [t for t in (known.changed, row.get("LastModifiedTime")) if t]
    return replace(seen, resource=replace(known, status=status, changed=max(times, default=None)))


def _with(seen: Observation, **facts: Any) -> Observation:
    return replace(seen, resource=replace(seen.resource, facts={**seen.resource.facts, **facts}))


def _with_wake(seen: Observation, read: Scaling | None) -> Observation:
    wakes = None if read is None else autoscaling.wakes_component(read, seen.resource.name)
    return _with(seen, wakes=wakes)


def _with_gone(seen: Observation, gone: Collection[str]) -> Observation:
    because = restorable.without(seen.resource.facts.get("models", ()), gone)
    return _with(seen, lost=because) if because else seen


def _with_adapters(
    seen: Observation, described: Mapping[str, Description], all_seen: Mapping[str, Observation], window: Window
) -> Observation:
    """The traffic of its adapters is its own, it is as young as the youngest of them, and their own tags forbid what would end them."""
    resource, extra = seen.resource, list(seen.readings)
    within: list[Resource] = []
    for one in all_seen.values():
        other = described.get(one.resource.name)
        if one.resource.facts["endpoint"] != resource.facts["endpoint"] or other is None or one.resource.name == resource.name:
            continue
        if isinstance(other, CloudError) and other.trouble is Trouble.GONE:
            # What has been deleted is an adapter of nothing. Of what may have been one until a moment ago, the use still counts.
            extra += _traffic(one, "deleted component") if last_used(one) else ()
            continue
        if isinstance(other, CloudError):
            return replace(seen, blind=f"whether {one.resource.name} is an adapter of it could not be read")
        if _base(other) == resource.name:
            within.append(one.resource)
            extra += _traffic(one, "adapter")
            times = [t for t in (resource.changed, one.resource.created, one.resource.changed) if t]
            resource = replace(resource, changed=max(times, default=None))
    seen = replace(seen, resource=resource, readings=tuple(extra))
    held = {one.name: one.tags for one in within}
    return _with(seen, adapters=tuple(held), within=tuple(within), kept=protection.kept(held, window.end))


def _traffic(seen: Observation, what: str) -> list[Reading]:
    return [replace(r, signal=f"{r.signal} of {what} {seen.resource.name}") for r in seen.readings if r.role is Role.ACTIVITY]


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
        "sagemaker:ListModels",
        tags.PERMISSION,
        *metrics.PERMISSIONS,
        *autoscaling.PERMISSIONS,
    ),
    activity="Invocations by InferenceComponentName, its adapters' included; NoCapacityInvocationFailures",
    heartbeat="CPUUtilizationNormalized or GPUUtilizationNormalized samples in /aws/sagemaker/InferenceComponents, same dimension",
    otherwise="unknown; exempt with no copies. Its money is its endpoint's, so it has no price of its own",
    discover=discover,
    observe=observe,
    able=component_actions.able,
    deeds=component_actions.DEEDS,
    priced=False,
)
