"""Compute clusters: the minimum down to 0 nodes, and back.

PATCH changes scale settings only, all of them at once, so what is to stay is sent along and looked at afterwards:
https://learn.microsoft.com/rest/api/azureml/compute/update
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from reaper.actions.contract import Acts, Made, Manifest, Permit, Record, Undone
from reaper.azure import computes
from reaper.azure.actions import identity
from reaper.azure.arm_values import lapse
from reaper.azure.count import count
from reaper.azure.kinds import azureml_compute_cluster as kind
from reaper.azure.request import Call
from reaper.azure.writes import afterwards, always, change, made_before, patient, ready
from reaper.errors import CloudError, Trouble
from reaper.model import Move, Resource

if TYPE_CHECKING:
    from reaper.azure.session import Cloud

WRITE = f"{computes.ROOT}/write"
LEAST, MOST, REST = "minNodeCount", "maxNodeCount", "nodeIdleTimeBeforeScaleDown"


def look(cloud: Cloud, resource: Resource) -> Resource:
    """The cluster with its own and its workspace's tags as they are now."""
    found = kind.cluster(cloud, computes.again(cloud, resource, kind.TYPE))
    return replace(found, id=resource.id, name=resource.name)


def record(cloud: Cloud, resource: Resource, move: Move) -> Record:
    """Its scale settings, its size and when it was made."""
    row = computes.row(cloud, resource.id)
    return {"scaleSettings": _scale(row), "was": identity.of_compute(row)}


def carry(cloud: Cloud, resource: Resource, manifest: Manifest, permit: Permit) -> Made:
    """Minimum to 0. Raises CloudError, too, where something else is changed before or afterwards."""
    row, recorded = computes.row(cloud, resource.id), manifest.record["scaleSettings"]
    identity.check(manifest.record["was"], identity.of_compute(row), WRITE)
    before = _scale(row)
    if not _same(before, recorded, LEAST, MOST, REST):
        raise CloudError(Trouble.REFUSED, WRITE, f"its scaling was {_told(recorded)} a moment ago and is {_told(before)} now")
    _set(cloud, resource.id, before, 0, permit)
    because = f"its minimum is 0 nodes instead of {before[LEAST]}; its maximum of {before[MOST]} and its idle time are as before"
    return Made(because=because)


def undo(cloud: Cloud, manifest: Manifest) -> Undone:
    """The old minimum back, under today's maximum, where it is the same cluster and nobody chose another minimum since."""
    return patient(lambda: _raise(cloud, manifest))


def _raise(cloud: Cloud, manifest: Manifest) -> Undone:
    row, old = computes.row(cloud, manifest.id), manifest.record["scaleSettings"][LEAST]
    identity.check(manifest.record.get("was") or {}, identity.of_compute(row), WRITE)
    ready(row["properties"].get("provisioningState"), WRITE)
    now = _scale(row)
    wanted = min(old, now[MOST])
    short = (f"its maximum is {now[MOST]} nodes today, so the minimum cannot be {old} again",) if wanted < old else ()
    if now[LEAST] == wanted:
        return Undone(because=f"its minimum is {now[LEAST]} nodes already", lost=short)
    if now[LEAST] != 0:
        return Undone(because=f"its minimum is {now[LEAST]} nodes, which somebody chose since: left as it is")
    _set(cloud, manifest.id, now, wanted, always)
    return Undone(because=f"its minimum is {wanted} nodes again", lost=short)


def _scale(row: Mapping[str, Any]) -> dict[str, Any]:
    scale = computes.inner_of(row)["scaleSettings"]
    if count(scale.get(LEAST)) is None or count(scale.get(MOST)) is None:
        raise CloudError(Trouble.GARBLED, computes.PERMISSION, f"the scaling of {row['id']} cannot be read ({_told(scale)})")
    return dict(scale)


def _set(cloud: Cloud, id_: str, before: Mapping[str, Any], least: int, permit: Permit) -> None:
    """The minimum, with everything else as it is `before`; then a look at what became of it."""
    wanted = {**before, LEAST: least}
    body = {"properties": {"properties": {"scaleSettings": wanted}}}
    call = Call(permission=WRITE, path=id_, body=body, method="PATCH")
    make = partial(change, cloud, call, id_, computes.PERMISSION, permit)
    if made_before(make, lambda: _same(_scale(computes.row(cloud, id_)), wanted, LEAST, MOST, REST)):
        return
    after = afterwards(lambda: _scale(computes.row(cloud, id_)))
    if not _same(after, wanted, LEAST, MOST, REST):
        raise CloudError(Trouble.PARTIAL, WRITE, f"its scaling was to be {_told(wanted)}, but Azure made it {_told(after)}")


def _same(one: Mapping[str, Any], other: Mapping[str, Any], *keys: str) -> bool:
    return all(lapse(one.get(key)) == lapse(other.get(key)) for key in keys)


def _told(scale: Mapping[str, Any]) -> str:
    return f"{scale.get(LEAST)} to {scale.get(MOST)} nodes with an idle time of {scale.get(REST)}"


ACTS = Acts(look=look, record=record, carry=carry, undo=undo, undo_permissions=(WRITE,))
