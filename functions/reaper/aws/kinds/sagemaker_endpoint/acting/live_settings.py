"""What may be changed about an endpoint or a component, as the looks before an action compare it; what of it the action's own calls changed;
and the minimum that autoscaling keeps, which is lowered before a stop, or it would undo the stop.

Numbers have names of their own, because own calls set them: instances by a variant's ID for autoscaling, copies by a component's, and the
minimum of each. Everything else is a digest. Other changes than one's own always show.

https://docs.aws.amazon.com/autoscaling/application/APIReference/API_RegisterScalableTarget.html
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from reaper.acting.contract import Manifest, OwnChanges, Permit
from reaper.aws import autoscaling
from reaper.aws.autoscaling import CAPACITY_DIMENSIONS
from reaper.aws.kinds.acting import RestoredCount
from reaper.aws.kinds.sagemaker_endpoint.acting.autoscaling import (
    SavedAutoscaling,
    autoscaling_digest,
    register_target,
    target_key,
)
from reaper.aws.kinds.sagemaker_inference_component.blocked import copy_count
from reaper.aws.sagemaker import digest
from reaper.aws.session import CloudSession
from reaper.model import Resource, SideChange

MINIMUM, SCALING = "minimum of ", "autoscaling of "
UNCOMPARED_KEYS = {"EndpointStatus", "InferenceComponentStatus", "LastModifiedTime", "FailureReason", "RuntimeConfig"}
"""Compared as a field of the resource or as a number, or of no matter."""
COUNT_KEYS = {"CurrentInstanceCount", "DesiredInstanceCount", "VariantStatus"}
VARIANT_KEYS = ("ProductionVariants", "ShadowProductionVariants")
Settings = dict[str, str]
Numbers = dict[str, int]


def endpoint_settings(row: Mapping[str, Any]) -> tuple[Settings, Numbers]:
    """Of an endpoint's description. A pending deployment counts if it is of another configuration."""
    name, shown = row["EndpointName"], {key: value for key, value in row.items() if key not in UNCOMPARED_KEYS}
    shown |= {key: [_without(one, COUNT_KEYS) for one in row.get(key) or ()] for key in VARIANT_KEYS}
    pending = (shown.pop("PendingDeploymentSummary", None) or {}).get("EndpointConfigName")
    variants = [one for key in VARIANT_KEYS for one in row.get(key) or ()]
    counts = [(one["VariantName"], one.get("DesiredInstanceCount", one.get("CurrentInstanceCount"))) for one in variants]
    numbers = {autoscaling.variant_resource_id(name, variant): int(count) for variant, count in counts if count is not None}
    is_pending = pending not in {None, row.get("EndpointConfigName")}
    return {name: digest([shown, is_pending])}, numbers


def component_settings(row: Mapping[str, Any]) -> tuple[Settings, Numbers]:
    """Of a component's description."""
    id_ = autoscaling.component_resource_id(row["InferenceComponentName"])
    return {id_: digest(_without(row, UNCOMPARED_KEYS))}, {id_: copy_count(row)}


def autoscaling_settings(saved: SavedAutoscaling, ids: Collection[str]) -> tuple[Settings, Numbers]:
    """Of the autoscaling of those resource IDs."""
    minima = {MINIMUM + row["ResourceId"]: int(row["MinCapacity"]) for row in _of_capacity(saved["targets"])}
    return {SCALING + id_: autoscaling_digest(saved, id_) for id_ in ids}, minima


def merged(parts: Sequence[tuple[Settings, Numbers]]) -> dict[str, Any]:
    """The `settings` and `numbers` of all parts, as fields of a resource's details."""
    return {"settings": dict(ChainMap(*(part[0] for part in parts))), "numbers": dict(ChainMap(*(part[1] for part in parts)))}


def _without(row: Mapping[str, Any], keys: Collection[str]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key not in keys}


def numbers_set(made: Sequence[SideChange]) -> OwnChanges:
    """Takes out the numbers that earlier calls set."""

    def as_before(now: Resource) -> Resource:
        numbers = {**now.details.numbers}
        numbers |= {change.what: change.before for change in made if numbers.get(change.what) == change.ours}
        return replace(now, details=replace(now.details, numbers=numbers))

    return as_before


def being_deleted(before: Resource) -> OwnChanges:
    """Takes out everything, if the resource is being deleted, and is still the same."""
    return lambda now: before if now.status == "Deleting" and now.created == before.created else now


def minimum_changes(saved: SavedAutoscaling, least: Mapping[str, int]) -> tuple[SideChange, ...]:
    """What lowering the minimum of those targets to what `least` says by resource ID changes."""
    return tuple(
        SideChange(what=MINIMUM + target["ResourceId"], before=target["MinCapacity"], ours=least[target["ResourceId"]])
        for target in _targets_to_lower(saved, least)
    )


def lower_minimum(cloud: CloudSession, manifest: Manifest, permit: Permit) -> Sequence[SideChange]:
    """Lower the minimum as the manifest says, so that autoscaling does not undo what follows. Returns what was changed."""
    saved, least = manifest.undo_state["scaling"], manifest.undo_state["least"]
    changes = minimum_changes(saved, least)
    for target, change in zip(_targets_to_lower(saved, least), changes, strict=True):
        with permit():
            register_target(cloud.change, target, MinCapacity=change.ours)
    return changes


def raise_minimum(cloud: CloudSession, saved: SavedAutoscaling, least: Mapping[str, int], chosen: Mapping[str, int]) -> list[str]:
    """Raise the minimum of those targets if it is still as it was lowered. Returns what couldn't be raised.

    `chosen`: counts by resource ID that were changed since. A minimum above them would scale them up, so it stays lowered.
    """
    now = {target_key(row): row for row in autoscaling.read_autoscaling(cloud).targets}
    lost = []
    for target in _targets_to_lower(saved, least):
        current, resource_id = now.get(target_key(target)), target["ResourceId"]
        if current is None:
            lost.append(f"The scalable target of {resource_id} is gone.")
        elif (number := chosen.get(resource_id, target["MinCapacity"])) < target["MinCapacity"]:
            text = f"restoring {target['MinCapacity']} would override the count of {number} set since"
            lost.append(f"The autoscaling minimum of {resource_id} stays at {current['MinCapacity']}: {text}.")
        else:
            lost += _raise_target_minimum(cloud, target, least[resource_id], current)
    return lost


def _raise_target_minimum(
    cloud: CloudSession, target: Mapping[str, Any], lowered_to: int, current: Mapping[str, Any]
) -> list[str]:
    what = f"The autoscaling minimum of {target['ResourceId']}"
    least = RestoredCount(
        label=what,
        before=target["MinCapacity"],
        stopped_at=lowered_to,
        now=current["MinCapacity"],
        maximum=max(lowered_to, current["MaxCapacity"]),
    )
    if least.count_to_request is not None:
        register_target(cloud.call, target, MinCapacity=least.count_to_request)
    return least.not_restored


def _targets_to_lower(saved: SavedAutoscaling, least: Mapping[str, int]) -> list[Mapping[str, Any]]:
    """The recorded targets whose minimum is above what `least` says by resource id."""
    return [
        row for row in _of_capacity(saved["targets"]) if row["MinCapacity"] > least.get(row["ResourceId"], row["MinCapacity"])
    ]


def maximum_by_id(cloud: CloudSession) -> dict[str, int]:
    """The maximum by resource id that autoscaling allows now."""
    return {row["ResourceId"]: int(row["MaxCapacity"]) for row in _of_capacity(autoscaling.read_autoscaling(cloud).targets)}


def _of_capacity(targets: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Those that scale instances or copies."""
    return [row for row in targets if row["ScalableDimension"] in CAPACITY_DIMENSIONS]
