"""Compute clusters: the minimum set to 0 nodes, and back.

PATCH changes scale settings only, and all of them at once. So what is to stay is sent along, as it was read right before, and checked
afterwards:
https://learn.microsoft.com/rest/api/azureml/compute/update
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from reaper.acting.contract import (
    NOTHING_EARLIER,
    ActionFunctions,
    ActionResult,
    Earlier,
    Manifest,
    Permit,
    UndoResult,
    UndoState,
)
from reaper.azure import computes
from reaper.azure.kinds import acting
from reaper.azure.kinds import azureml_compute_cluster as kind
from reaper.azure.kinds.acting import require_settled, with_retry_advice, write
from reaper.azure.requests import ArmChange, Json, duration_seconds, valid_count
from reaper.errors import ActionWithdrawn, CloudError, Reason
from reaper.model import Resource, StepName

if TYPE_CHECKING:
    from reaper.azure.session import CloudSession


WRITE_PERMISSION = f"{computes.ROOT}/write"
MIN_NODES_KEY, MAX_NODES_KEY, IDLE_TIME_KEY = "minNodeCount", "maxNodeCount", "nodeIdleTimeBeforeScaleDown"


def read_now(cloud: CloudSession, resource: Resource) -> Resource:
    """The cluster with its own and its workspace's tags as they are now."""
    fresh = kind.cluster_resource(computes.read_compute_now(cloud, resource, kind.TYPE))
    return replace(fresh, id=resource.id, name=resource.name)


def read_undo_state(cloud: CloudSession, resource: Resource, action: StepName, earlier: Earlier = NOTHING_EARLIER) -> UndoState:
    """Its scale settings, its size and its creation time, as it was just read. Raises CloudError if one of them is unknown."""
    acting.require_known_creation(resource)
    return {"scaleSettings": _scale_settings(resource.details.properties), "was": acting.compute_identity_of(resource)}


def perform(cloud: CloudSession, resource: Resource, manifest: Manifest, permit: Permit) -> ActionResult:
    """Set the minimum to 0. The permit holds only for the scale settings that are sent."""
    before = _scale_settings(resource.details.properties)
    if before != manifest.undo_state["scaleSettings"]:
        raise ActionWithdrawn(f"its scaling was {_scaling_text(manifest.undo_state['scaleSettings'])} a moment ago")
    with permit():
        _set_minimum(cloud, resource.id, before, 0)
    after, wanted = _read_scaling(cloud, resource.id), {**before, MIN_NODES_KEY: 0}
    if after[MIN_NODES_KEY] != 0:
        raise CloudError(Reason.REFUSED, WRITE_PERMISSION, _deviation(wanted, after))
    was = f"its minimum is 0 nodes instead of {before[MIN_NODES_KEY]}"
    if not _is_same_scaling(after, wanted):
        return ActionResult(because=f"{was}; {_deviation(wanted, after)}")
    return ActionResult(because=f"{was}; its maximum of {before[MAX_NODES_KEY]} and its idle time are unchanged")


@with_retry_advice
def undo(cloud: CloudSession, manifest: Manifest) -> UndoResult:
    """Restore the old minimum, but not above the current maximum, if it is the same cluster and its minimum is still 0."""
    row, old = computes.read_row(cloud, manifest.id), manifest.undo_state["scaleSettings"][MIN_NODES_KEY]
    acting.require_same(manifest.undo_state.get("was") or {}, acting.compute_identity(row), WRITE_PERMISSION)
    require_settled(row["properties"].get("provisioningState"), WRITE_PERMISSION)
    scale = _scale_settings(computes.properties_of(row))
    minimum, maximum = scale[MIN_NODES_KEY], scale[MAX_NODES_KEY]
    wanted = min(old, maximum)
    too_low = (f"its maximum is now {maximum} nodes, so its minimum can't be {old}",) if wanted < old else ()
    if minimum == wanted:
        return UndoResult(because=f"its minimum is already {minimum} nodes", not_restored=too_low)
    if minimum != 0:
        return UndoResult(because=f"its minimum has been set to {minimum} nodes since, so the reaper left it alone")
    _set_minimum(cloud, manifest.id, scale, wanted)
    after = _read_scaling(cloud, manifest.id)
    if not _is_same_scaling(after, {**scale, MIN_NODES_KEY: wanted}):
        raise CloudError(Reason.PARTIAL, WRITE_PERMISSION, _deviation({**scale, MIN_NODES_KEY: wanted}, after))
    return UndoResult(because=f"its minimum is {wanted} nodes again", not_restored=too_low)


def _scale_settings(properties: Mapping[str, Any]) -> Json:
    scale = properties["scaleSettings"]
    if valid_count(scale.get(MIN_NODES_KEY)) is None or valid_count(scale.get(MAX_NODES_KEY)) is None:
        raise CloudError(Reason.UNREADABLE, computes.PERMISSION, f"its scaling can't be read ({_scaling_text(scale)})")
    return dict(scale)


def _read_scaling(cloud: CloudSession, cluster_id: str) -> Json:
    return _scale_settings(computes.read_properties(cloud, cluster_id))


def _set_minimum(cloud: CloudSession, cluster_id: str, before: Json, minimum: int) -> None:
    """Set the minimum, with everything else as it was `before`."""
    body = {"properties": {"properties": {"scaleSettings": {**before, MIN_NODES_KEY: minimum}}}}
    change = ArmChange(permission=WRITE_PERMISSION, path=cluster_id, body=body, method="PATCH")
    write(cloud, change, cluster_id, computes.PERMISSION)


def _deviation(wanted: Json, after: Json) -> str:
    return f"its scaling should be {_scaling_text(wanted)}, but Azure set it to {_scaling_text(after)}"


def _is_same_scaling(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    keys = (MIN_NODES_KEY, MAX_NODES_KEY, IDLE_TIME_KEY)
    return all(duration_seconds(one.get(key)) == duration_seconds(other.get(key)) for key in keys)


def _scaling_text(scale: Mapping[str, Any]) -> str:
    return f"{scale.get(MIN_NODES_KEY)} to {scale.get(MAX_NODES_KEY)} nodes with an idle time of {scale.get(IDLE_TIME_KEY)}"


ACTS = ActionFunctions(
    read_now=read_now,
    read_undo_state=read_undo_state,
    perform=perform,
    undo=undo,
    undo_permissions=(WRITE_PERMISSION,),
    undo_members={StepName.STOP: {"scaleSettings": None, "was": acting.IDENTITY_MEMBERS}},
    id_pattern=acting.COMPUTE_ID,
)
