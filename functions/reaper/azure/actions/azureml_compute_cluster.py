"""Compute clusters: the minimum down to 0 nodes, and back.

PATCH changes scale settings only, all of them at once, so what is to stay is sent along and looked at afterwards:
https://learn.microsoft.com/rest/api/azureml/compute/update
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from reaper.actions.contract import ActionFunctions, ActionResult, CallCheck, Earlier, Manifest, UndoResult, UndoState
from reaper.azure import computes
from reaper.azure.actions import identity
from reaper.azure.arm_values import duration_seconds
from reaper.azure.count import valid_count
from reaper.azure.kinds import azureml_compute_cluster as kind
from reaper.azure.request import ArmRequest
from reaper.azure.writes import always_permit, read_after_write, require_settled, was_already_written, with_retry_advice, write
from reaper.errors import CloudError, Reason
from reaper.model import Resource, StepName

if TYPE_CHECKING:
    from reaper.azure.session import CloudSession

WRITE_PERMISSION = f"{computes.ROOT}/write"
MIN_NODES_KEY, MAX_NODES_KEY, IDLE_TIME_KEY = "minNodeCount", "maxNodeCount", "nodeIdleTimeBeforeScaleDown"


def read_now(cloud: CloudSession, resource: Resource) -> Resource:
    """The cluster with its own and its workspace's tags as they are now."""
    found = kind.cluster_resource(cloud, computes.read_compute_now(cloud, resource, kind.TYPE))
    return replace(found, id=resource.id, name=resource.name)


def read_undo_state(cloud: CloudSession, resource: Resource, move: StepName, earlier: Earlier) -> UndoState:
    """Its scale settings, its size and when it was made."""
    row = computes.read_row(cloud, resource.id)
    return {"scaleSettings": _scale_settings(row), "was": identity.compute_identity(row)}


def perform(cloud: CloudSession, resource: Resource, manifest: Manifest, permit: CallCheck) -> ActionResult:
    """Minimum to 0. Raises CloudError, too, where something else is changed before or afterwards."""
    row, recorded = computes.read_row(cloud, resource.id), manifest.undo_state["scaleSettings"]
    identity.require_same(manifest.undo_state["was"], identity.compute_identity(row), WRITE_PERMISSION)
    before = _scale_settings(row)
    if not _is_same_scaling(before, recorded, MIN_NODES_KEY, MAX_NODES_KEY, IDLE_TIME_KEY):
        raise CloudError(
            Reason.REFUSED,
            WRITE_PERMISSION,
            f"its scaling was {_scaling_text(recorded)} a moment ago and is {_scaling_text(before)} now",
        )
    _set_minimum(cloud, resource.id, before, 0, permit)
    because = f"its minimum is 0 nodes instead of {before[MIN_NODES_KEY]}; its maximum of {before[MAX_NODES_KEY]} and its idle time are as before"
    return ActionResult(because=because)


def undo(cloud: CloudSession, manifest: Manifest) -> UndoResult:
    """The old minimum back, under today's maximum, where it is the same cluster and nobody chose another minimum since."""
    return with_retry_advice(lambda: _raise_minimum(cloud, manifest))


def _raise_minimum(cloud: CloudSession, manifest: Manifest) -> UndoResult:
    row, old = computes.read_row(cloud, manifest.id), manifest.undo_state["scaleSettings"][MIN_NODES_KEY]
    identity.require_same(manifest.undo_state.get("was") or {}, identity.compute_identity(row), WRITE_PERMISSION)
    require_settled(row["properties"].get("provisioningState"), WRITE_PERMISSION)
    now = _scale_settings(row)
    wanted = min(old, now[MAX_NODES_KEY])
    short = (f"its maximum is {now[MAX_NODES_KEY]} nodes today, so the minimum cannot be {old} again",) if wanted < old else ()
    if now[MIN_NODES_KEY] == wanted:
        return UndoResult(because=f"its minimum is {now[MIN_NODES_KEY]} nodes already", not_restored=short)
    if now[MIN_NODES_KEY] != 0:
        return UndoResult(because=f"its minimum is {now[MIN_NODES_KEY]} nodes, which somebody chose since: left as it is")
    _set_minimum(cloud, manifest.id, now, wanted, always_permit)
    return UndoResult(because=f"its minimum is {wanted} nodes again", not_restored=short)


def _scale_settings(row: Mapping[str, Any]) -> dict[str, Any]:
    scale = computes.properties_of(row)["scaleSettings"]
    if valid_count(scale.get(MIN_NODES_KEY)) is None or valid_count(scale.get(MAX_NODES_KEY)) is None:
        raise CloudError(
            Reason.UNREADABLE, computes.PERMISSION, f"the scaling of {row['id']} cannot be read ({_scaling_text(scale)})"
        )
    return dict(scale)


def _set_minimum(cloud: CloudSession, id_: str, before: Mapping[str, Any], least: int, permit: CallCheck) -> None:
    """The minimum, with everything else as it is `before`; then a look at what became of it."""
    wanted = {**before, MIN_NODES_KEY: least}
    body = {"properties": {"properties": {"scaleSettings": wanted}}}
    call = ArmRequest(permission=WRITE_PERMISSION, path=id_, body=body, method="PATCH")
    make = partial(write, cloud, call, id_, computes.PERMISSION, permit)
    if was_already_written(
        make,
        lambda: _is_same_scaling(
            _scale_settings(computes.read_row(cloud, id_)), wanted, MIN_NODES_KEY, MAX_NODES_KEY, IDLE_TIME_KEY
        ),
    ):
        return
    after = read_after_write(lambda: _scale_settings(computes.read_row(cloud, id_)))
    if not _is_same_scaling(after, wanted, MIN_NODES_KEY, MAX_NODES_KEY, IDLE_TIME_KEY):
        raise CloudError(
            Reason.PARTIAL,
            WRITE_PERMISSION,
            f"its scaling was to be {_scaling_text(wanted)}, but Azure made it {_scaling_text(after)}",
        )


def _is_same_scaling(one: Mapping[str, Any], other: Mapping[str, Any], *keys: str) -> bool:
    return all(duration_seconds(one.get(key)) == duration_seconds(other.get(key)) for key in keys)


def _scaling_text(scale: Mapping[str, Any]) -> str:
    return f"{scale.get(MIN_NODES_KEY)} to {scale.get(MAX_NODES_KEY)} nodes with an idle time of {scale.get(IDLE_TIME_KEY)}"


ACTS = ActionFunctions(
    read_now=read_now, read_undo_state=read_undo_state, perform=perform, undo=undo, undo_permissions=(WRITE_PERMISSION,)
)
