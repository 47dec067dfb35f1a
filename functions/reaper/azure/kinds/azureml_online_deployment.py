"""Deployments of managed online endpoints, each on its own: leftovers of a blue/green change cost as much as the serving deployment.

Metrics, Average only if so documented: https://learn.microsoft.com/azure/machine-learning/monitor-azure-machine-learning-reference
Cost is `instanceType` times `sku.capacity`: https://learn.microsoft.com/azure/machine-learning/how-to-view-online-endpoints-costs
Changes: https://learn.microsoft.com/rest/api/azureml/online-deployments
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING

from reaper.azure import deployments, metrics, reader, workspaces
from reaper.azure.deployments import BROKEN_STATES, CHANGING_STATES, WRITE, WRITE_ENDPOINT, Deployment, DeploymentDetails
from reaper.azure.metrics import MetricQuery, activity_reading, heartbeat_reading
from reaper.azure.reader import Deletion, Scaling, State, Table, each, kind_of, needs_closer_look, state_in, state_not_in
from reaper.azure.requests import ArmChange, Json, reading, valid_count
from reaper.errors import CloudError, Reason
from reaper.evidence import first_read_from, is_recent, merge_heartbeats
from reaper.kind import Command, block, by_status, is_decided, status_rule
from reaper.model import BilledPart, Resource, StepName
from reaper.observation import Observation, Window

if TYPE_CHECKING:
    from reaper.azure.session import CloudSession


TRAFFIC_QUERY = MetricQuery(
    namespace="Microsoft.MachineLearningServices/workspaces/onlineEndpoints/deployments",
    metrics=("RequestsPerMinute", "CpuUtilizationPercentage", "DeploymentCapacity"),
    aggregation="Average",
    described_by=deployments.deployment_request,  # Resource Graph goes on showing a deleted one for minutes
)
ON_KUBERNETES = "it runs on your own Kubernetes nodes, which Azure ML doesn't bill"
ONE_DEPLOYMENT = "--name {deployments} --endpoint-name {onlineendpoints}" + reader.IN_WORKSPACE


def with_readings(cloud: CloudSession, observations: Sequence[Observation], window: Window) -> list[Observation]:
    """The observations with their readings, those that are free apart. Of what was used in the last hours, the readings begin there, unless
    all of its region fits into one call.
    """
    billed = [one for one in observations if not one.free_because]
    large = {region for region, count in Counter(one.resource.region for one in billed).items() if count > metrics.MAX_RESOURCES}
    starts = {
        one.resource.id: first_read_from(one.resource, window)
        if one.resource.region in large and not is_decided(one)
        else window.start
        for one in billed
    }
    in_full = [one for one in observations if starts.get(one.resource.id) == window.start]
    others = [one for one in observations if starts.get(one.resource.id, window.start) > window.start]
    since = min((starts[one.resource.id] for one in others), default=window.start)
    first = list(_with_readings(cloud, others, replace(window, start=since)))
    # An incomplete reply proves nothing, and a second one wouldn't make it whole.
    whole = [one for one in first if all(reading.complete for reading in one.readings)]
    silent = [one for one in whole if needs_closer_look(one) and not is_recent(one, window)]
    read = {one.resource.id: one for one in (*first, *_with_readings(cloud, [*in_full, *silent], window))}
    return [read.get(one.resource.id, one) for one in observations]


def _with_readings(cloud: CloudSession, observations: Sequence[Observation], window: Window) -> Iterator[Observation]:
    regions = {one.resource.id: one.resource.region for one in observations}
    results = metrics.fetch_metrics(cloud, regions, TRAFFIC_QUERY, window)
    for one in observations:
        traffic, *alive = (results.result_of(one.resource.id, metric) for metric in TRAFFIC_QUERY.metrics)
        heartbeat = merge_heartbeats(*map(heartbeat_reading, TRAFFIC_QUERY.metrics[1:], alive))
        is_gone = one.resource.id.lower() in results.gone_ids
        readings = one.readings if is_gone else (activity_reading(TRAFFIC_QUERY.metrics[0], traffic), heartbeat)
        yield replace(one, is_gone=is_gone, readings=readings)


def as_it_is_now(cloud: CloudSession, observations: Sequence[Observation], window: Window) -> Iterable[Observation]:
    """Those that were silent, as the source itself describes them now."""
    silent = [one.resource.id for one in observations if needs_closer_look(one)]
    current = deployments.list_current_rows(cloud, silent, [one.resource.id for one in observations])
    return each(partial(_as_it_is_now, current))(cloud, observations, window)


def _as_it_is_now(current: Mapping[str, Json], cloud: CloudSession, observation: Observation) -> Observation:
    listed = observation.resource
    try:
        row, endpoint = deployments.read_row_and_endpoint(cloud, listed.id, current)
        siblings = frozenset(listed.details.siblings)
        deployment = Deployment(row=row, endpoint=endpoint, workspace=listed.details.workspace, siblings=siblings)
        with reading(deployments.READ_DEPLOYMENTS, str(row.get("id"))):
            fresh = replace(deployments.deployment_resource(cloud, deployment), id=listed.id, name=listed.name)
    except CloudError as error:
        if error.operation == deployments.READ_DEPLOYMENTS and error.reason is Reason.GONE:
            return replace(observation, is_gone=True)
        cloud.add_error(error)
        is_odd = error.reason is Reason.UNREADABLE
        because = "its description can't be read" if is_odd else f"it couldn't be read again: {error}"
        return replace(observation, unknown_because=because)
    return by_status(replace(observation, resource=fresh), (*STATES, *ENDPOINT_STATES))


def with_autoscale_of_all(cloud: CloudSession, observations: Sequence[Observation], window: Window) -> Iterable[Observation]:
    """All that are still there, whatever was decided: their autoscale may block a scale-in."""
    return (
        one if one.is_gone else replace(one, resource=deployments.with_autoscale(cloud, one.resource)) for one in observations
    )


def state_without_instances(resource: Resource) -> str | None:
    details: DeploymentDetails = resource.details
    is_empty = details.provisioning_state in BROKEN_STATES and not details.states_instances
    return details.provisioning_state or "missing" if details.instances == 0 or is_empty else None


on_kubernetes = attrgetter("details.on_kubernetes")
OWN, ENDPOINTS, SOUND = "provisioning_state", "endpoint_state", {"Succeeded", *BROKEN_STATES}
STATES = (
    status_rule("free", on_kubernetes, ON_KUBERNETES),
    status_rule("free", partial(state_in, {"Deleting"}, OWN), "it is being deleted"),
    status_rule("changing", partial(state_in, CHANGING_STATES, OWN), "its state is {0}"),
    status_rule("free", state_without_instances, "its state is {0} and it has no instances, so it costs nothing"),
    status_rule("unknown", partial(state_not_in, SOUND, OWN), "its state is {0}"),
)
ENDPOINT_STATES = (
    status_rule("free", partial(state_in, {"Deleting"}, ENDPOINTS), "its endpoint is being deleted"),
    status_rule("changing", partial(state_in, CHANGING_STATES, ENDPOINTS), "its endpoint's state is {0}"),
    status_rule("unknown", partial(state_not_in, SOUND, ENDPOINTS), "its endpoint's state is {0}"),
)
"""An endpoint that is being changed may be moving its traffic at this very moment."""


def parts_after(resource: Resource, action: StepName) -> tuple[BilledPart, ...] | None:
    """Scaled to one instance it still costs that instance."""
    if action is not StepName.STOP or resource.parts is None:
        return ()
    return tuple(replace(part, count=min(part.count, 1)) for part in resource.parts)


def scaling_in(resource: Resource) -> str | None:
    """Its state while it is being scaled to one instance."""
    return state_in(CHANGING_STATES, OWN, resource) if resource.details.instances == 1 else None


def instances_left(resource: Resource) -> str | None:
    """How many instances it has, if there is none to save."""
    return {0: "no instance", 1: "one instance"}.get(resource.details.instances)


def kept_by_its_own_scaling(resource: Resource) -> str | None:
    """That its scale settings keep more than one instance."""
    scale = resource.details.scale_settings or {}
    if str(scale.get("scaleType")).lower() != "targetutilization" or scale.get("minInstances") in (None, 0, 1):
        return None
    return f"its autoscaling keeps at least {scale['minInstances']} instances and would undo a scale-in"


def is_traffic_unknown(resource: Resource) -> bool:
    """Its share of its endpoint's traffic, or of what is mirrored, can't be read."""
    return None in (resource.details.traffic_percent, resource.details.mirrored_percent)


def others_at_work(resource: Resource) -> str | None:
    """Its share of the traffic and who might take it, unless it is its endpoint's only deployment or gets none."""
    details: DeploymentDetails = resource.details
    share, others = details.traffic_percent, ", ".join(details.siblings) or "another deployment"
    text = f"it gets {share}% of its endpoint's traffic; shift that to {others} first"
    return text if share and (details.siblings or share != 100) else None


BLOCKS = (
    block(on_kubernetes, ON_KUBERNETES),
    block(scaling_in, "its state is {0}", StepName.STOP, already_done=True),
    block(partial(state_in, {"Deleting"}, OWN), "its state is {0}", StepName.DELETE, already_done=True),
    block(partial(state_not_in, SOUND, OWN), "its state is {0}"),
    block(partial(state_in, {*CHANGING_STATES, "Deleting"}, ENDPOINTS), "its endpoint's state is {0}"),
    block(lambda resource: resource.details.instances is None, "its instance count is unknown", StepName.STOP),
    block(instances_left, "it already has {0}, and Azure allows no fewer", StepName.STOP, already_done=True),
    block(kept_by_its_own_scaling, "{0}", StepName.STOP),
    block(attrgetter("details.autoscale_because"), "{0}", StepName.STOP),
    block(is_traffic_unknown, "its share of its endpoint's traffic is unknown", StepName.DELETE),
    block(
        lambda resource: resource.details.endpoint_created is None,
        "its endpoint's creation time is unknown, so the endpoint couldn't be recognized later",
        StepName.DELETE,
    ),
    block(attrgetter("details.unclear_asset_because"), "{0}", StepName.DELETE),
    block(attrgetter("details.mirrored_percent"), "it gets {0}% of its endpoint's traffic mirrored", StepName.DELETE),
    block(others_at_work, "{0}", StepName.DELETE),
)
"""Those of every action, of the scale-in, and of the delete."""


def sku(state: State) -> Json:
    """Raises CloudError if its instance count is unknown."""
    row = state["deployment"]
    if valid_count((row.get("sku") or {}).get("capacity")) is None:
        raise CloudError(Reason.UNREADABLE, deployments.READ_DEPLOYMENTS, f"the instance count of {row['name']} is unknown")
    return dict(row["sku"])


def set_sku(deployment_id: str, state: State, sku: Json) -> ArmChange:
    """Tags aren't sent along: as they were read they might undo one that was set just now."""
    return ArmChange(permission=WRITE, path=deployment_id, body={"sku": sku}, method="PATCH")


def delete_line(resource: Resource) -> Command | None:
    """Not while it gets traffic: then Azure refuses."""
    gets_none = resource.details is not None and resource.details.traffic_percent == 0
    line = "az ml online-deployment delete " + ONE_DEPLOYMENT
    return reader.command("Delete it now", line, resource) if gets_none else None


TABLE = Table(
    name=deployments.NAME,
    title="Azure ML managed online deployment",
    docs="https://learn.microsoft.com/azure/machine-learning/concept-endpoints-online",
    activity="RequestsPerMinute (Average) above 0",
    heartbeat="points of CpuUtilizationPercentage or DeploymentCapacity",
    without_proof="unknown; exempt on Kubernetes, whose nodes Azure ML doesn't bill, and if it has no instances",
    permissions=(*deployments.PERMISSIONS, metrics.PERMISSION, deployments.READ_AUTOSCALE),
    discover=deployments.list_deployments,
    read_now=deployments.read_now,
    states=STATES,
    blocks=BLOCKS,
    signals=with_readings,
    closer_looks=(as_it_is_now, with_autoscale_of_all),
    undo_permissions=(WRITE, WRITE_ENDPOINT, deployments.ASSIGN_IDENTITY),
    actions={
        StepName.STOP: Scaling(
            participle="scaled to one instance",
            noun="scale-in",
            effect="scales it to one instance, because Azure can't stop it. Not if Azure Monitor's autoscale keeps more; and an autoscale "
            "that adds instances under load will undo it",
            undo="scales it back to as many instances as it had",
            permissions=(WRITE,),
            no_effect_where="a deployment with one instance stays as it is and costs the same, because Azure allows no fewer; "
            "`then: {action: delete, after: 14d}` or `action: delete` ends that",
            still_billed="that instance",
            what="capacity",
            text="{} instances".format,
            to=1,
            number="capacity",
            of=deployments.deployment_request,
            section=sku,
            change=set_sku,
            outcome="scaling it from {capacity} instances to one has started; the next sweep checks the result",
            is_checked=False,
        ),
        StepName.DELETE: Deletion(
            participle="deleted",
            effect="deletes it if it gets no traffic, or if it is its endpoint's only deployment, whose traffic is set to 0% first. Refused if its "
            "model, environment or code version no longer exists; those in a registry are assumed to exist. Setting the traffic of an endpoint "
            "with user-assigned identities takes the permission to assign each of them. Its settings are stored first, environment variables "
            "included, and those may contain secrets: keep the store of manifests private",
            undo="recreates it with its model, settings, tags, instances and, once it is ready, its traffic",
            permissions=(deployments.DELETE, WRITE_ENDPOINT, deployments.ASSIGN_IDENTITY, *workspaces.ASSET_PERMISSIONS),
        ),
    },
    parts_after=parts_after,
    commands={
        StepName.STOP: partial(
            reader.command,
            "Scale it to one instance now",
            f"az ml online-deployment update {ONE_DEPLOYMENT} --set instance_count=1",
        ),
        StepName.DELETE: delete_line,
    },
    keep_line=reader.keep_line,
    price_keys=("Linux",),
    details=DeploymentDetails,
)
KIND = kind_of(TABLE)
