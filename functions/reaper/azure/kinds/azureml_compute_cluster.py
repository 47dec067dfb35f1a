"""Azure ML compute clusters that keep nodes up. Azure removes idle nodes above the minimum; those below it cost money, used or not.

Metrics and their dimensions: https://learn.microsoft.com/azure/machine-learning/monitor-azure-machine-learning-reference
Scaling: https://learn.microsoft.com/azure/machine-learning/how-to-create-attach-compute-cluster
PATCH changes scale settings only, and all of them at once: https://learn.microsoft.com/rest/api/azureml/compute/update
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from reaper.azure import computes, metrics, reader
from reaper.azure.computes import ComputeDetails
from reaper.azure.metrics import MetricQuery, MetricResult, activity_reading, heartbeat_reading, stand_in_reading
from reaper.azure.reader import Scaling, State, Table, kind_of, read_workspace_metrics
from reaper.azure.requests import ArmChange, Json, valid_count
from reaper.errors import CloudError, Reason
from reaper.evidence import merge_heartbeats
from reaper.kind import block, none_of, status_rule
from reaper.model import BilledPart, Resource, StepName
from reaper.observation import Reading

NAME, TYPE = "azureml-compute-cluster", "AmlCompute"
WRITE = f"{computes.ROOT}/write"
SETTINGS, MINIMUM, MAXIMUM, IDLE_TIME = "scaleSettings", "minNodeCount", "maxNodeCount", "nodeIdleTimeBeforeScaleDown"
NODES = MetricQuery(
    namespace="Microsoft.MachineLearningServices/workspaces",
    metrics=("Active Nodes", "Total Nodes", "Idle Nodes"),
    aggregation="Maximum",
    split_by="ClusterName",
)


def cluster(compute: Resource) -> Resource:
    """A compute as a cluster. A change of its scaling leaves no time on it, so its fingerprint is the scaling that a notice is about."""
    details, scale = compute.details, compute.details.properties[SETTINGS]
    provisioning = details.provisioning_state
    status = str(details.properties.get("allocationState") or "") if provisioning == "Succeeded" else provisioning
    shape = f"min {scale.get(MINIMUM)} of {scale.get(MAXIMUM)} {str(details.properties.get('vmSize')).upper()}"
    return replace(computes.complete(compute, NAME, status, billed_parts(details)), fingerprint=shape)


def billed_parts(details: ComputeDetails) -> tuple[BilledPart, ...] | None:
    """The minimum nodes. Low-priority ones have a price of their own, which the snapshot may not have."""
    minimum, size = valid_count(details.properties[SETTINGS].get(MINIMUM)), details.properties.get("vmSize")
    if minimum == 0:
        return ()
    if minimum is None or not size:
        return None
    component = "LowPriority" if str(details.properties.get("vmPriority")).lower() == "lowpriority" else "Linux"
    return (BilledPart(component=component, instance=size, count=minimum),)


def nodes(state: str, resource: Resource) -> object:
    """How many of its nodes are in that state by the control plane's own account."""
    return resource.details.properties["nodeStateCounts"].get(state)


def has_no_minimum(resource: Resource) -> bool:
    """Its minimum is 0 nodes."""
    return valid_count(resource.details.properties[SETTINGS].get(MINIMUM)) == 0


def is_any_unknown(keys: tuple[str, ...], resource: Resource) -> bool:
    """Whether one of these numbers of its scaling can't be read."""
    return None in [valid_count(resource.details.properties[SETTINGS].get(key)) for key in keys]


def readings(active: MetricResult, total: MetricResult, idle: MetricResult) -> tuple[Reading, ...]:
    """Active nodes; either of the others as the heartbeat; and a stand-in for hours without a value of the first."""
    heartbeat = merge_heartbeats(heartbeat_reading("Total Nodes", total), heartbeat_reading("Idle Nodes", idle))
    stand_in = stand_in_reading("Active Nodes (or as many Idle as Total Nodes)", active, total, idle)
    return (activity_reading("Active Nodes", active), heartbeat, *([stand_in] if stand_in else []))


def scale_settings(state: State) -> Json:
    """Its minimum, maximum and idle time. Raises CloudError if they can't be read."""
    scale = state[SETTINGS]
    if valid_count(scale.get(MINIMUM)) is None or valid_count(scale.get(MAXIMUM)) is None:
        raise CloudError(Reason.UNREADABLE, computes.PERMISSION, f"its scaling can't be read ({scaling_text(scale)})")
    return {key: scale.get(key) for key in (MINIMUM, MAXIMUM, IDLE_TIME)}


def scaling_text(scale: State) -> str:
    return f"{scale.get(MINIMUM)} to {scale.get(MAXIMUM)} nodes with an idle time of {scale.get(IDLE_TIME)}"


def set_scaling(cluster_id: str, state: State, scale: Json) -> ArmChange:
    """What is to stay is sent along, as it was read: never a member that Azure didn't show."""
    shown = {key: value for key, value in scale.items() if key in state[SETTINGS]}
    body = {"properties": {"properties": {SETTINGS: {**state[SETTINGS], **shown}}}}
    return ArmChange(permission=WRITE, path=cluster_id, body=body, method="PATCH")


TABLE = Table(
    name=NAME,
    title="Azure ML compute cluster",
    docs="https://learn.microsoft.com/azure/machine-learning/how-to-create-attach-compute-cluster",
    activity="Active Nodes above 0; an unfinished job or pipeline step on it; nodes running; allocation state Resizing",
    heartbeat="points of Total Nodes or Idle Nodes",
    without_proof="unknown; exempt if its minimum is 0 nodes. The waste is the price of the minimum nodes",
    permissions=(*computes.PERMISSIONS, computes.READ_JOBS, metrics.PERMISSION),
    discover=partial(computes.list_computes, TYPE, cluster),
    read_now=partial(computes.read_compute_now, TYPE, cluster),
    states=(
        status_rule("free", {"Deleting"}, "it is being deleted"),
        status_rule("in_use", partial(nodes, "runningNodeCount"), "{0} of its nodes are running"),
        status_rule("in_use", partial(nodes, "preparingNodeCount"), "{0} of its nodes are being prepared for a job"),
        status_rule("in_use", {"Resizing"}, "it is resizing"),
        status_rule("changing", {"Creating", "Updating"}, "its state is {status}"),
        status_rule("free", has_no_minimum, "its minimum is 0 nodes, so it costs nothing while idle"),
        status_rule("unknown", none_of("Steady"), "its state is {status}"),
        status_rule("unknown", partial(is_any_unknown, (MINIMUM,)), "its minimum node count is unknown"),
    ),
    blocks=(
        block({"Deleting"}, "it is being deleted"),
        block(has_no_minimum, "its minimum is already 0 nodes", already_done=True),
        block(none_of("Steady"), "its state is {status}"),
        block(partial(is_any_unknown, (MINIMUM, MAXIMUM)), "its minimum or maximum node count is unknown"),
    ),
    signals=partial(read_workspace_metrics, NODES, readings),
    closer_looks=(computes.with_jobs,),
    saved=(SETTINGS,),
    undo_permissions=(WRITE,),
    actions={
        StepName.STOP: Scaling(
            participle="set to a minimum of 0 nodes",
            noun="scale-in",
            effect="sets its minimum to 0 nodes, so that Azure removes idle ones. Its maximum and idle time stay, and the next job starts nodes",
            undo="sets its minimum back to what it was, but not above its current maximum",
            permissions=(WRITE,),
            what="minimum",
            part="scaling",
            to=0,
            number=MINIMUM,
            limit=MAXIMUM,
            of=computes.compute_request,
            section=scale_settings,
            change=set_scaling,
            text="{} nodes".format,
            section_text=scaling_text,
            outcome="its minimum is 0 nodes instead of {minNodeCount}; its maximum of {maxNodeCount} and its idle time are unchanged",
        )
    },
    commands={
        StepName.STOP: partial(
            reader.command,
            "Set its minimum to 0 nodes now",
            "az ml compute update --name {name} --min-instances 0" + reader.IN_WORKSPACE,
        )
    },
    price_keys=("Linux", "LinuxSpot"),
    details=ComputeDetails,
)
KIND = kind_of(TABLE)
