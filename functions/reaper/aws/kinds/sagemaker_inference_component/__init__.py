"""SageMaker inference components: models that share the instances of one endpoint, each with copies of its own.

Metrics by component: https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html
Adapters run inside their base component, so their traffic is the base's too:
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_InferenceComponentSpecification.html
Tests compare the members with the SDK's own model.
Legal states: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeInferenceComponent.html
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from reaper.aws import autoscaling, metrics, sagemaker
from reaper.aws.autoscaling import component_resource_id
from reaper.aws.reader import (
    Asked,
    Batch,
    Deletion,
    Goal,
    Listing,
    Row,
    Scaling,
    Signal,
    Table,
    Tags,
    completed,
    key_of,
    listed_resource,
    recently_observed,
)
from reaper.aws.sagemaker import chosen_members, unknown_members_clause
from reaper.errors import CloudError, Reason
from reaper.evidence import is_recent, last_used, merge_heartbeats
from reaper.kind import block, by_status, is_decided, none_of, status_rule
from reaper.model import Resource, Role, StepName
from reaper.observation import Observation, Reading

if TYPE_CHECKING:
    from reaper.aws.session import CloudSession

ACTIVITY_METRICS = ("Invocations", "NoCapacityInvocationFailures")
HEARTBEAT_NAMESPACE = "/aws/sagemaker/InferenceComponents"
HEARTBEAT_METRICS = ("CPUUtilizationNormalized", "GPUUtilizationNormalized")
RESERVED_UNITS = ("NumberOfAcceleratorDevicesRequired", "MinMemoryRequiredInMb")
"""What a copy reserves of an instance: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_InferenceComponentComputeResourceRequirements.html"""
CHANGING_STATUSES = {"Creating", "Updating"}
STEADY_STATUSES = {"InService", "Failed"}
NAME_KEY = "InferenceComponentName"
REQUIRED_KEYS = (NAME_KEY, "InferenceComponentArn", "EndpointName")
DESCRIBE = ("DescribeInferenceComponent", "EndpointName")
ACTIVITY = tuple(Signal(namespace="AWS/SageMaker", metric=metric, dimension=NAME_KEY) for metric in ACTIVITY_METRICS)
HEARTBEATS = tuple(
    Signal(namespace=HEARTBEAT_NAMESPACE, metric=metric, dimension=NAME_KEY, stat="SampleCount", role=Role.HEARTBEAT)
    for metric in HEARTBEAT_METRICS
)
MEMBERS = ("InferenceComponentName", "EndpointName", "VariantName")
SERVICE_MEMBERS = {
    "CreationTime", "LastModifiedTime", "EndpointArn", "InferenceComponentArn", "InferenceComponentStatus", "FailureReason",
    "Specification", "Specifications", "RuntimeConfig", "LastDeploymentConfig",
}  # fmt: skip
SPECIFICATION_MEMBERS = (
    "InstanceType", "ModelName", "StartupParameters", "ComputeResourceRequirements", "BaseInferenceComponentName",
    "DataCacheConfig", "SchedulingConfig",
)  # fmt: skip
CONTAINER_MEMBERS = ("ArtifactUrl", "Environment", "ContainerMetricsConfig")
UNCOMPARED_KEYS = {"InferenceComponentStatus", "LastModifiedTime", "FailureReason", "RuntimeConfig"}
"""Compared as a field of the resource or as a number, or of no matter."""
DescriptionOrError = dict[str, Any] | CloudError


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentDetails:
    """What a component is made of, from its description, which `is_described` says was read.

    `siblings`: the other components of its endpoint, between a read right before an action and the observation after it. `can_wake`: whether
    autoscaling would wake it from zero copies; None if that couldn't be read. `adapters`: their names; None if they weren't read.
    `settings` and `numbers`: what may be changed about it, as read right before an action.
    """

    endpoint_name: str = ""
    siblings: tuple[Resource, ...] = ()
    is_described: bool = False
    copies: int | None = None
    base_component: str | None = None
    models: tuple[str, ...] = ()
    unrestorable_because: str | None = None
    can_wake: bool | None = None
    adapters: tuple[str, ...] | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    numbers: Mapping[str, int] = field(default_factory=dict)


def details_of(resource: Resource) -> ComponentDetails:
    """Its details; empty if it wasn't read."""
    return resource.details if isinstance(resource.details, ComponentDetails) else ComponentDetails()


def specifications(row: Row) -> list[Row]:
    """A reply has `Specification` or `Specifications`, never both."""
    return [spec for spec in (row.get("Specification"), *(row.get("Specifications") or ())) if spec]


def base_component(row: Row) -> str | None:
    """The component that this one is an adapter of."""
    names = (spec.get("BaseInferenceComponentName") for spec in specifications(row))
    return next((str(name) for name in names if name), None)


def copies_running(row: Row) -> int | None:
    """How many copies run now."""
    count: int | None = (row.get("RuntimeConfig") or {}).get("CurrentCopyCount")
    return count


def copy_count(row: Row) -> int:
    """How many copies it is meant to have."""
    runtime = row.get("RuntimeConfig") or {}
    return int(runtime.get("DesiredCopyCount", runtime.get("CurrentCopyCount", 0)))


def settings_of(row: Row) -> Row:
    """Everything that a person may change but its copies."""
    return {key: value for key, value in row.items() if key not in UNCOMPARED_KEYS}


def unrestorable_because(row: Row) -> str | None:
    """The clause that says why an inference component can't be recreated; adapters never are."""
    specs, name = specifications(row), row.get("InferenceComponentName")
    if not specs or base_component(row):
        return f"{name} is an adapter or has no readable specification, so it couldn't be recreated"
    odd = [unknown_members_clause(row, MEMBERS, SERVICE_MEMBERS)]
    odd += [unknown_members_clause(s, SPECIFICATION_MEMBERS, ("Container",)) for s in specs]
    odd += [unknown_members_clause(s.get("Container") or {}, CONTAINER_MEMBERS, ("DeployedImage",)) for s in specs]
    return next((f"the component {name} {one}" for one in odd if one), None)


def specifications_to_create(row: Row) -> dict[str, Any]:
    """What it runs, as create calls take it; a reply shows an image as it was named and as it was found."""
    made = []
    for one in specifications(row):
        spec = chosen_members(one, *SPECIFICATION_MEMBERS)
        if container := one.get("Container"):
            image = (container.get("DeployedImage") or {}).get("SpecifiedImage")
            spec["Container"] = {**({"Image": image} if image else {}), **chosen_members(container, *CONTAINER_MEMBERS)}
        made.append(spec)
    return {"Specification": made[0]} if row.get("Specification") else {"Specifications": made}


def component_resource(cloud: CloudSession, row: Row, own_tags: Tags) -> Resource:
    """A row of the list, or a description, with its tags."""
    _, endpoint = arns_of(cloud, row)
    details = ComponentDetails(endpoint_name=row["EndpointName"])
    return replace(listed_resource(TABLE, cloud, row, own_tags), details=details, host_id=endpoint)


def arns_of(cloud: CloudSession, row: Row) -> tuple[str, str]:
    """Its ARN, and that of the endpoint that it runs on, in the case of its name; replies have it lower-cased."""
    return row["InferenceComponentArn"], cloud.sagemaker_arn("endpoint", row["EndpointName"])


def with_siblings(cloud: CloudSession, resource: Resource, row: Row) -> Resource:
    """With all others on its endpoint, right before an action."""
    hosted = list_rows(cloud, NAME_KEY, EndpointNameEquals=row["EndpointName"])
    names = sorted({one[NAME_KEY] for one in hosted} - {resource.name})
    found = cloud.map_concurrently(lambda name: cloud.find("sagemaker", *DESCRIBE, InferenceComponentName=name), names)
    siblings = tuple(component_resource(cloud, sibling, None) for sibling in found if sibling)
    return replace(resource, details=replace(details_of(resource), siblings=siblings))


def list_rows(cloud: CloudSession, *has: str, **filters: Any) -> list[dict[str, Any]]:
    """The rows of all components, or of those that match. Raises CloudError, also for a row without the keys `has`."""
    operation, want = "ListInferenceComponents", "InferenceComponents"
    return list(cloud.paged_rows("sagemaker", operation, want, *has, MaxResults=100, **filters))


def describe_all(cloud: CloudSession, names: Sequence[str]) -> dict[str, DescriptionOrError]:
    """The description of each, by its name, or why there is none."""
    replies = cloud.map_concurrently(lambda name: cloud.describe(*DESCRIBE, InferenceComponentName=name), names)
    return dict(zip(names, replies, strict=True))


def first_queries(resources: Sequence[Resource], batch: Batch) -> Asked:
    """The traffic of all. A component that was read alone brings its siblings along."""
    named = {key_of(r) for r in resources}
    every = [*resources, *(s for r in resources for s in details_of(r).siblings if key_of(s) not in named)]
    return [(r, [signal.query(r) for signal in ACTIVITY]) for r in every]


def closer_look(observations: Sequence[Observation], batch: Batch) -> Iterator[Observation]:
    """All signals of what was silent, a description of every component on an endpoint that has a silent one, and what is read once for the region."""
    cloud, window = batch.cloud, batch.window
    endpoints = {details_of(one.resource).endpoint_name for one in observations}
    hosted = {key: one for key, one in batch.observations.items() if details_of(one.resource).endpoint_name in endpoints}
    # The rule of the silent one may be shorter than that of an adapter, whose last use counts for it.
    known = [one.resource for one in hosted.values() if window.known.get(one.resource.id)]
    hosted |= recently_observed([(r, [signal.query(r) for signal in ACTIVITY]) for r in known], batch)
    # Of one whose status this version doesn't know, everything is read, too: its use may count for its base.
    settled = {key for key, one in hosted.items() if one.free_because or one.changing_because}
    silent = [one for key, one in hosted.items() if key not in settled and not is_recent(one, window)]
    hosted |= {key_of(one.resource): one for one in _with_all_signals(silent, batch)}
    names = [one.resource.name for one in hosted.values()]
    described = describe_all(cloud, names)
    looks = [_as_described(hosted[key_of(one.resource)], described, list(hosted.values())) for one in observations]
    yield from _with_region_facts(cloud, looks)


def _with_all_signals(observations: Sequence[Observation], batch: Batch) -> Iterator[Observation]:
    """Traffic and one heartbeat over the whole window: either of two metrics will do."""
    resources = [one.resource for one in observations]
    queries = [signal.query(r) for r in resources for signal in (*ACTIVITY, *HEARTBEATS)]
    results = metrics.fetch_metrics(batch.cloud, queries, batch.window)
    for one in observations:
        traffic = (results[signal.query(one.resource)] for signal in ACTIVITY)
        heartbeat = merge_heartbeats(*(results[signal.query(one.resource)] for signal in HEARTBEATS))
        yield replace(one, readings=(*traffic, heartbeat))


def _as_described(
    observation: Observation, described: Mapping[str, DescriptionOrError], hosted: Sequence[Observation]
) -> Observation:
    row = described[observation.resource.name]
    if isinstance(row, CloudError):
        return replace(_with_details(observation, siblings=()), unknown_because=f"it couldn't be described: {row}")
    observation = by_status(_with_description(observation, row), (*STATES, *DESCRIBED_STATES))
    if is_decided(observation):
        return observation
    copies = details_of(observation.resource).copies
    size = f"{copies} {'copy' if copies == 1 else 'copies'}" if copies else ""
    name, endpoint = observation.resource.name, details_of(observation.resource).endpoint_name
    others = [o for o in hosted if o.resource.name != name and details_of(o.resource).endpoint_name == endpoint]
    share = _host_share([name, *(other.resource.name for other in others)], described)
    sized = replace(observation, resource=replace(observation.resource, size=size, host_share=share))
    return _with_adapters(sized, described, others)


def _with_description(observation: Observation, row: Row) -> Observation:
    """With its status and last change of this moment, because the list may be minutes old, and what it is made of."""
    resource = observation.resource
    details = ComponentDetails(
        endpoint_name=details_of(resource).endpoint_name,
        is_described=True,
        copies=copies_running(row),
        base_component=base_component(row),
        models=tuple(sorted(sagemaker.model_names(row))),
        unrestorable_because=unrestorable_because(row),
    )
    times = [t for t in (resource.changed, row.get("LastModifiedTime")) if t]
    status = str(row.get("InferenceComponentStatus", resource.status))
    return replace(observation, resource=replace(resource, status=status, changed=max(times, default=None), details=details))


def _with_details(observation: Observation, **changes: Any) -> Observation:
    resource = observation.resource
    return replace(observation, resource=replace(resource, details=replace(details_of(resource), **changes)))


def _host_share(names: Sequence[str], described: Mapping[str, DescriptionOrError]) -> float | None:
    """The share of the first of what all components of its endpoint reserve: of accelerators if each reserves some, else of memory. None if a
    description is missing, or if they run on several variants, which cost differently.
    """
    read = {name: row for name in names if (row := described.get(name)) is not None and not isinstance(row, CloudError)}
    known = {name: row for name, row in read.items() if not base_component(row) and copies_running(row) != 0}
    if len(read) < len(names) or len({row.get("VariantName") for row in known.values()}) > 1:
        return None
    for unit in RESERVED_UNITS:
        each = {name: (row.get("Specification") or {}).get("ComputeResourceRequirements") or {} for name, row in known.items()}
        reserved = {name: float(needs.get(unit) or 0) * (copies_running(known[name]) or 0) for name, needs in each.items()}
        if all(reserved.values()):
            return reserved[names[0]] / sum(reserved.values())
    return None


def _with_adapters(
    observation: Observation, described: Mapping[str, DescriptionOrError], others: Sequence[Observation]
) -> Observation:
    """The traffic of its adapters is its own, and it is as young as the youngest of them."""
    resource, readings = observation.resource, list(observation.readings)
    adapters: list[Resource] = []
    for other in others:
        row = described.get(other.resource.name)
        if isinstance(row, CloudError) and row.reason is Reason.GONE:
            # A deleted component is no adapter. If it was one until a moment ago, its use still counts.
            readings += _traffic_readings(other, "deleted component") if last_used(other) else ()
        elif isinstance(row, CloudError):
            return replace(observation, unknown_because=f"whether {other.resource.name} is an adapter of it couldn't be read")
        elif row is not None and base_component(row) == resource.name:
            adapters.append(other.resource)
            readings += _traffic_readings(other, "adapter")
    times = [t for t in (resource.changed, *(t for a in adapters for t in (a.created, a.changed))) if t]
    changed = replace(observation, resource=replace(resource, changed=max(times, default=None)), readings=tuple(readings))
    return _with_details(changed, adapters=tuple(adapter.name for adapter in adapters))


def _traffic_readings(observation: Observation, what: str) -> list[Reading]:
    name = observation.resource.name
    return [replace(r, signal=f"{r.signal} of {what} {name}") for r in observation.readings if r.role is Role.ACTIVITY]


def _with_region_facts(cloud: CloudSession, observations: Sequence[Observation]) -> Iterator[Observation]:
    """With what is read once for the region: what would wake each from zero, and whether its models still exist."""
    details = [details_of(observation.resource) for observation in observations]
    runs = any(d.copies and not o.free_because and not o.unknown_because for d, o in zip(details, observations, strict=True))
    scaling = autoscaling.read_autoscaling_or_none(cloud) if runs else None
    deleted = sagemaker.deleted_models(cloud, {name for d in details for name in d.models})
    for observation, known in zip(observations, details, strict=True):
        can_wake = scaling and autoscaling.can_wake_component(scaling, observation.resource.name)
        because = sagemaker.missing_model_because(known.models, deleted) or known.unrestorable_because
        yield _with_details(observation, can_wake=can_wake, unrestorable_because=because)


def adapters_because(resource: Resource) -> str | None:
    """The clause for adapters, which run inside it: what ends it ends them."""
    details = details_of(resource)
    if details.adapters is None:
        return None if details.copies == 0 else "whether adapters are on it couldn't be read"
    count = len(details.adapters)
    if count > 1:
        return f"{count} adapters are on it; delete them first"
    return f"the adapter {details.adapters[0]} is on it; delete it first" if count else None


def copies_goal(cloud: CloudSession, resource: Resource) -> Goal:
    """No copies, if something would wake it again. Raises CloudError if nothing would."""
    id_ = component_resource_id(resource.name)
    if not autoscaling.can_wake_component(autoscaling.read_autoscaling(cloud, {id_}), resource.name):
        text = f"{resource.name}: nothing would scale it up from zero any more"
        raise CloudError(Reason.REFUSED, "application-autoscaling:DescribeScalingPolicies", text)
    row, same = described(cloud, resource.name)
    return Goal(row=row, same=same, before={id_: copy_count(row)}, wanted={id_: 0})


def described(cloud: CloudSession, name: str) -> tuple[Row, Row]:
    """Its description, with what it is made of and the endpoint and variant that it is on."""
    row = cloud.call("sagemaker", *DESCRIBE, InferenceComponentName=name)
    places = [str(row.get(key, "")) for key in MEMBERS[1:]]
    return row, {"made_of": specifications_to_create(row), "on": places}


def copies_parameters(name: str, id_: str, count: int) -> dict[str, Any]:
    """Of the call that asks for that many copies."""
    return {NAME_KEY: name, "DesiredRuntimeConfig": {"CopyCount": count}}


def numbers_of(row: Row) -> dict[str, int]:
    """Its copies, as a description has them."""
    return {component_resource_id(row[NAME_KEY]): copy_count(row)}


STATES = (
    status_rule("free", {"Deleting"}, "it is being deleted"),
    status_rule("changing", CHANGING_STATUSES),
    status_rule("unknown", none_of(*STEADY_STATUSES), "this version doesn't recognize its status {status}"),
)
DESCRIBED_STATES = (
    status_rule("free", lambda r: details_of(r).base_component, "it is an adapter inside {0} and takes no capacity of its own"),
    status_rule("free", lambda r: details_of(r).copies == 0, "it runs no copies right now"),
)
BLOCKS = (
    block({"Deleting"}, "it is being deleted already", already_done=True),
    block(none_of(*STEADY_STATUSES), "its status is {status}"),
    block(lambda r: details_of(r).base_component, "it is an adapter inside {0} and uses no capacity of its own"),
    block(lambda r: not details_of(r).is_described, "it wasn't checked closely"),
    block(adapters_because),
    block(lambda r: details_of(r).copies == 0, "it runs no copies already", StepName.STOP, already_done=True),
    block(none_of("InService"), "its status is {status}, in which it can't be scaled", StepName.STOP),
    block(lambda r: details_of(r).can_wake is None, autoscaling.UNREAD, StepName.STOP),
    block(
        lambda r: not details_of(r).can_wake,
        f"no step scaling policy on {ACTIVITY_METRICS[1]} would wake it from zero",
        StepName.STOP,
    ),
    block(
        sagemaker.undeletable_because, "{0}", StepName.DELETE
    ),  # its tags include its endpoint's, and that stack manages it too
    block(lambda r: details_of(r).unrestorable_because, "{0}", StepName.DELETE),
)
TABLE = Table(
    name="sagemaker-inference-component",
    cloud="aws",
    title="SageMaker inference component",
    docs="https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html",
    activity="Invocations by InferenceComponentName, its adapters' included; NoCapacityInvocationFailures",
    heartbeat="CPUUtilizationNormalized or GPUUtilizationNormalized samples in /aws/sagemaker/InferenceComponents, same dimension",
    without_proof="unknown; exempt with no copies. Its endpoint's price includes it, so it has none of its own, only a share of that",
    listing=Listing(
        list="ListInferenceComponents",
        rows="InferenceComponents",
        prefix="InferenceComponent",
        describe="DescribeInferenceComponent",
        want="EndpointName",
        has=REQUIRED_KEYS[1:],
        tag_types=("sagemaker:inference-component", "sagemaker:endpoint"),
    ),
    states=STATES,
    details=ComponentDetails,
    arns=arns_of,
    resource=component_resource,
    as_now=with_siblings,
    first_queries=first_queries,
    closer_looks=(closer_look,),
    look_permissions=("sagemaker:DescribeInferenceComponent", "sagemaker:ListModels"),
    blocks=BLOCKS,
    actions={
        StepName.STOP: Scaling(
            call="UpdateInferenceComponentRuntimeConfig",
            goal=copies_goal,
            numbers=numbers_of,
            settings=settings_of,
            parameters=copies_parameters,
            because="its {before} copies are scaling to zero; a request scales it up again",
            what="copies",
            number="number of copies of {}",
            described=described,
            is_same=operator.eq,
            same_text="specification, endpoint or variant",
            label="Scale it to zero now",
            arguments={"desired-runtime-config": "CopyCount=0"},
            participle="scaled to zero copies",
            noun="scale-in",
            effect="takes its copies to zero, only if a step scaling policy would wake it again and no adapters are on it; lowers the autoscaling "
            "minimum first",
            undo="restores its copy count and the autoscaling minimum, if they are still as the stop left them and it is the same component",
            no_effect_where="one without a step scaling policy that would wake it keeps its copies; give it one on NoCapacityInvocationFailures, or "
            "write `action: delete`",
        ),
        StepName.DELETE: Deletion(
            call="DeleteInferenceComponent",
            because="it is being deleted; its endpoint and model stay",
            recreated_by="reaper.aws.kinds.sagemaker_inference_component.recreation",
            has_autoscaling=True,
            permissions=("sagemaker:DescribeEndpoint", "sagemaker:DescribeModel"),
            participle="deleted",
            effect="deletes the component and its autoscaling; the endpoint, its instances and the model stay; never one with adapters on it",
            undo="recreates it on its endpoint with its tags and copies, and once it is in service (run it again then) its autoscaling; "
            "it gets the tag ml-idle-reaper:restored, which tells the next run to continue; one that a person recreated is left alone",
        ),
    },
    id_below="inference-component/(?P<name>.+)",
    page="endpoints",
    page_about="endpoint_name",
    keep_line=sagemaker.keep_line,
    has_price=False,
    host="sagemaker-endpoint",
    spares_known=True,
)
KIND = completed(TABLE)
