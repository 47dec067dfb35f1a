"""SageMaker inference endpoints: real-time with any number of variants, asynchronous, serverless, and hosts of inference components.

Metrics and their dimensions: https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html
Asynchronous endpoints publish no Invocations: https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference-monitor.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from reaper.aws import autoscaling, configuration_cache, endpoint_actions, endpoint_description, metrics, restorable, tags
from reaper.aws import endpoint_metrics as signals
from reaper.aws.autoscaling import Scaling
from reaper.aws.endpoint_actions import SETTLED, UNSETTLED, Around
from reaper.aws.endpoint_description import Described
from reaper.aws.kinds import sagemaker_inference_component as component
from reaper.aws.metrics import Query
from reaper.aws.scale_in_plan import needs_scaling
from reaper.errors import CloudError, Trouble
from reaper.evidence import settled
from reaper.model import Hint, Kept, Kind, Observation, Reading, Resource, Window

if TYPE_CHECKING:
    from reaper.aws.session import Cloud

NAME = "sagemaker-endpoint"
Components = dict[str, list[dict[str, Any]]]
MOVING = {*UNSETTLED, "Deleting"}
KNOWN = {*MOVING, *component.SETTLED}
"""What the status of a component may be; one that moves unsettles its host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """One silent endpoint, looked at closely: `described` None when that failed, and then `blind` says why."""

    resource: Resource
    described: Described | None = None
    blind: str | None = None
    busy_with: str | None = None
    components: tuple[Mapping[str, Any], ...] = ()
    keep: Kept | None = None
    queries: signals.Queries = field(default_factory=dict)


def discover(cloud: Cloud) -> Iterator[Resource]:
    """Every endpoint of the region, whatever its state."""
    rows = list(cloud.listed("ListEndpoints", "Endpoints", "EndpointArn"))
    found = tags.tagged(cloud, "endpoint") if rows else {}
    for row in rows:
        yield resource(cloud, {"EndpointName": None, **row}, tags.of(found, row["EndpointArn"]))


def resource(cloud: Cloud, row: Mapping[str, Any], found: Mapping[str, str] | None) -> Resource:
    """A row of the list, or a description, with its tags."""
    return Resource(
        kind=NAME,
        id=row["EndpointArn"],
        name=row["EndpointName"],
        target=cloud.target,
        region=cloud.region,
        created=row.get("CreationTime"),
        changed=row.get("LastModifiedTime"),
        status=row.get("EndpointStatus", ""),
        tags=found,
    )


def observe(cloud: Cloud, resources: Sequence[Resource], window: Window) -> Iterator[Observation]:
    """Traffic of all in bulk; only what was silent is described, and then asked for every signal that it could show use by."""
    listed = _listed_variants(cloud) if resources else {}
    asked = {r.id: signals.traffic(r.name, listed.get(r.name, ())) for r in resources if r.status not in {"Creating", "Deleting"}}
    first = metrics.first(cloud, [(r, asked.get(r.id, ())) for r in resources], window)
    silent = []
    for resource in resources:
        seen = Observation(resource=resource, readings=_readings(asked.get(resource.id, {}), first))
        if settled := _settled(seen, window):
            yield settled
        else:
            silent.append(resource)
    kept = window.kept([r.id for r in silent]) if silent else {}
    looks = list(cloud.each(lambda resource: _look(cloud, resource, kept.get(resource.id)), silent))
    components = _components(cloud) if _may_host(cloud, looks) else {}
    full = _with_facts(cloud, [_with_components(look, components) for look in looks], window)
    answers = metrics.answers(cloud, [q for look in full for q in look.queries], window)
    for look in full:
        yield _observation(look, _readings(look.queries, answers), window)


def _settled(seen: Observation, window: Window) -> Observation | None:
    """What needs no Describe: in use or new enough that no rule can call it idle, or in a state that says it all."""
    status = seen.resource.status
    if status == "Deleting":
        return replace(seen, free="it is being deleted")
    if status in UNSETTLED:
        return replace(seen, unsettled=f"its status is {status}")
    if settled(seen, window):
        return replace(seen, blind="it was used or changed too recently for a closer look")
    return None


def _listed_variants(cloud: Cloud) -> dict[str, list[str]]:
    """Variants by endpoint that ran within two weeks, from the heartbeat's own dimensions: 500 a call instead of one Describe each."""
    found: dict[str, list[str]] = {}
    try:
        for pairs in metrics.dimensions(cloud, signals.INSTANCES, "CPUUtilization"):
            if pairs.keys() == {"EndpointName", "VariantName"}:
                found.setdefault(pairs["EndpointName"], []).append(pairs["VariantName"])
    except CloudError as error:
        cloud.note(error)
    return found


def _look(cloud: Cloud, resource: Resource, kept: Kept | None) -> _Look:
    try:
        found = endpoint_description.describe(cloud, resource.name, lambda row: configuration_cache.recalled(resource, kept, row))
    except CloudError as error:
        if error.trouble is not Trouble.GONE:
            cloud.note(error)
        return _Look(resource=resource, blind=f"it could not be described: {error}")
    changed = found.raw.get("LastModifiedTime") or resource.changed
    known = replace(
        resource,
        status=found.status,
        changed=changed,
        parts=endpoint_description.parts(found),
        size=endpoint_description.size(found),
    )
    return _Look(resource=known, described=found, keep=configuration_cache.keep(resource, found))


def _may_host(cloud: Cloud, looks: Sequence[_Look]) -> bool:
    """Whether inference components must be listed: an endpoint looks like a host, or any component of the region reported lately."""
    if not looks or any(look.described and look.described.hosts for look in looks):
        return bool(looks)
    try:
        return any(True for _ in metrics.dimensions(cloud, "/aws/sagemaker/InferenceComponents", "CPUUtilizationNormalized"))
    except CloudError as error:
        cloud.note(error)
        return True


def _components(cloud: Cloud) -> Components | None:
    """Inference components by endpoint; None, and noted, when they cannot be listed."""
    found: Components = {}
    try:
        for row in cloud.pages("sagemaker", "ListInferenceComponents", "InferenceComponents", *component.KEYS, MaxResults=100):
            found.setdefault(row["EndpointName"], []).append(row)
    except CloudError as error:
        cloud.note(error)
        return None
    return found


def _with_components(look: _Look, components: Components | None) -> _Look:
    """The look with everything to ask for. A host is as young as the youngest of its components, and unsettled or unknown while one is.

    One that hosts none, and has no model of its own, can serve nothing: its heartbeat alone proves it idle, since its last change.
    """
    found = look.described
    if found is None:
        return look
    if components is None and found.hosts:
        return replace(look, blind="whether it hosts inference components, and their traffic, could not be read")
    mine = (components or {}).get(look.resource.name, [])
    if found.hosts and not found.only_hosts and not mine and any(v.count for v in found.variants):
        return replace(
            look,
            blind="it may host inference components but has none now, and whether it has models of its own could not be read",
        )
    asked = signals.full(look.resource.name, found, [row["InferenceComponentName"] for row in mine])
    asked = signals.without_components(asked) if found.only_hosts and not mine else asked
    return _moved(replace(look, queries=asked, components=tuple(mine)), mine)


def _moved(look: _Look, rows: Sequence[Mapping[str, Any]]) -> _Look:
    """The look with what the list, or the descriptions, say of its components: when they changed, and whether one is changing now."""
    times = [t for row in rows for t in (row.get("CreationTime"), row.get("LastModifiedTime")) if t]
    latest = max([*times, *([look.resource.changed] if look.resource.changed else [])], default=None)
    said = {row["InferenceComponentName"]: str(row.get("InferenceComponentStatus", "")) for row in rows}
    moving = next((f"its component {name} is {status}" for name, status in said.items() if status in MOVING), None)
    odd = next((f"its component {n} is {s}, which we do not know" for n, s in said.items() if s and s not in KNOWN), None)
    return replace(
        look,
        resource=replace(look.resource, changed=latest),
        busy_with=look.busy_with or moving,
        blind=look.blind or odd,
    )


def _with_facts(cloud: Cloud, looks: Sequence[_Look], window: Window) -> list[_Look]:
    """What `able` needs: what scaling in would do, whether it could be created again, and whether a component's own tags forbid it."""
    clear = [look for look in looks if look.described and not look.blind]
    scaled = any(look.described and needs_scaling(look.described) for look in clear)
    read = autoscaling.read_or_note(cloud) if scaled else Scaling()
    found = tags.by_name(cloud, "inference-component") if any(look.components for look in clear) else {}
    names = [row["InferenceComponentName"] for look in clear for row in look.components]
    rows: dict[str, Mapping[str, Any] | None] = dict(
        zip(names, cloud.each(lambda name: _described_component(cloud, name), names), strict=True)
    )
    configs = [look.described.config for look in clear if look.described]
    gone = restorable.gone(cloud, restorable.models(*configs, *(row for row in rows.values() if row)))
    around = Around(read=read, rows=rows, gone=gone)
    return [_with_facts_of(cloud, _as_described(look, rows), around, found, window) for look in looks]


def _as_described(look: _Look, rows: Mapping[str, Mapping[str, Any] | None]) -> _Look:
    """With what its components' descriptions say at this moment; the list may be minutes old. Blind where one cannot be had."""
    named = [(one["InferenceComponentName"], rows.get(one["InferenceComponentName"])) for one in look.components]
    moved = _moved(look, [{**row, "InferenceComponentName": name} for name, row in named if row])
    unread = [name for name, row in named if row is not None and not row]
    return replace(moved, blind=moved.blind or f"its component {unread[0]} could not be described") if unread else moved


def _described_component(cloud: Cloud, name: str) -> Mapping[str, Any] | None:
    """Its description; None where it is gone by now, and nothing in it where it cannot be had, which is noted."""
    try:
        return cloud.call("sagemaker", "DescribeInferenceComponent", "EndpointName", InferenceComponentName=name)
    except CloudError as error:
        if error.trouble is Trouble.GONE:
            return None
        cloud.note(error)
        return {}


def _with_facts_of(cloud: Cloud, look: _Look, around: Around, found: tags.ByName | None, window: Window) -> _Look:
    """Of its components as listed, and those of a fresh look where it has had one, which knows their tags better."""
    known = look.resource
    if look.described is None or look.blind:
        return look
    own = {row["InferenceComponentName"]: row for row in look.components}
    inside = {name: None if found is None else found.get(name.lower(), {}) for name in own}
    listed = {row["InferenceComponentArn"]: component.inside(cloud, row, inside[name], known.tags) for name, row in own.items()}
    within = tuple((listed | {c.id: c for c in known.facts.get("within", ())}).values())
    more = endpoint_actions.facts(known, look.described, inside, around, window.end) | _hosted(look.components)
    return replace(look, resource=replace(known, facts={**known.facts, **more, "within": within}))


def _hosted(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What tells the endpoint as its owner was told of it from one that hosts something else by now.

    Traffic is asked for by the names of the components that are there, so of one that was used and taken away nothing is seen any more.
    """
    names = sorted(row["InferenceComponentName"] for row in rows)
    joined = max((row["CreationTime"] for row in rows if row.get("CreationTime")), default=None)
    return {"shape": f"hosts {sha256(' '.join(names).encode()).hexdigest()[:16]}" if names else "hosts nothing", "joined": joined}


def _readings(asked: signals.Queries, answers: dict[Query, metrics.Answer]) -> tuple[Reading, ...]:
    return tuple(
        Reading(signal=signal, role=role, subject=subject, series=answers[query].series, complete=answers[query].complete)
        for query, (role, signal, subject) in asked.items()
    )


def _observation(look: _Look, readings: tuple[Reading, ...], window: Window) -> Observation:
    seen = Observation(resource=look.resource, readings=readings, blind=look.blind, keep=look.keep)
    found, status = look.described, look.resource.status
    if found is None:
        return seen
    if status == "Deleting":
        return replace(seen, free="it is being deleted")
    if status in UNSETTLED or look.busy_with:
        return replace(seen, unsettled=look.busy_with or f"its status is {status}")
    if look.blind:
        return seen
    if status not in SETTLED:
        return replace(seen, blind=f"its status is {status}, which we do not know")
    if not found.variants and status != "Failed":
        return replace(seen, blind=f"its status is {status}, yet its description names no variant")
    return _idle_cost(seen, found, window)


def _idle_cost(seen: Observation, found: Described, window: Window) -> Observation:
    """Serverless and scaled-in endpoints cost nothing while idle, but for provisioned concurrency."""
    if any(v.serverless and v.serverless.get("ProvisionedConcurrency") for v in found.variants):
        because = (
            "it keeps provisioned concurrency and shows no invocation; serverless endpoints have no heartbeat to prove it by"
        )
        return replace(seen, hint=Hint(since=window.start, because=because))
    if found.variants and all(v.serverless for v in found.variants):
        return replace(seen, free="it is serverless and costs nothing while idle")
    if not any(v.count for v in found.variants):
        return replace(seen, free=f"its status is {found.status} and it runs no instances, so it costs nothing")
    return seen


KIND = Kind(
    name=NAME,
    cloud="aws",
    title="SageMaker endpoint",
    docs="https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html",
    permissions=(
        "sagemaker:ListEndpoints",
        "sagemaker:DescribeEndpoint",
        "sagemaker:DescribeEndpointConfig",
        "sagemaker:ListInferenceComponents",
        "sagemaker:DescribeInferenceComponent",
        "sagemaker:ListModels",
        tags.PERMISSION,
        *metrics.PERMISSIONS,
        *autoscaling.PERMISSIONS,
    ),
    activity="Invocations of every production and shadow variant and of every inference component it hosts; asynchronous: backlog, "
    "processed and failed invocations, model latency",
    heartbeat="CPUUtilization samples of every variant that runs instances",
    otherwise="unknown; exempt where it runs no instances or is serverless; likely for silent provisioned concurrency; a host of inference "
    "components that has none now is judged by its heartbeat alone, from its last change",
    discover=discover,
    observe=observe,
    able=endpoint_actions.able,
    left=endpoint_actions.left,
    deeds=endpoint_actions.DEEDS,
)
