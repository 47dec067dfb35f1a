"""The minimum that autoscaling keeps: lowered before a stop, or it would undo the stop, and raised again by an undo or if the stop fails.

https://docs.aws.amazon.com/autoscaling/application/APIReference/API_RegisterScalableTarget.html
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reaper.actions.contract import Manifest, Permit
from reaper.aws import autoscaling
from reaper.aws.actions.live_settings import MINIMUM, numbers_set
from reaper.aws.actions.restored_count import RestoredCount
from reaper.aws.actions.saved_autoscaling import SavedAutoscaling, register_target, target_key
from reaper.aws.autoscaling import CAPACITY_DIMENSIONS
from reaper.aws.session import CloudSession
from reaper.model import SideChange


def minimum_changes(saved: SavedAutoscaling, least: Mapping[str, int]) -> tuple[SideChange, ...]:
    """What lowering the minimum of those targets to what `least` says by resource ID changes."""
    return tuple(
        SideChange(what=MINIMUM + target["ResourceId"], before=target["MinCapacity"], ours=least[target["ResourceId"]])
        for target in _targets_to_lower(saved, least)
    )


def lower_minimum(cloud: CloudSession, manifest: Manifest, permit: Permit) -> list[SideChange]:
    """Lower the minimum as the manifest says, one call each, so that autoscaling does not undo what follows. Returns what was changed."""
    saved, least = manifest.undo_state["scaling"], manifest.undo_state["least"]
    made: list[SideChange] = []
    for target, change in zip(_targets_to_lower(saved, least), minimum_changes(saved, least), strict=True):
        with permit(numbers_set(made)):
            register_target(cloud.change, target, MinCapacity=change.ours)
        made.append(change)
    return made


def raise_minimum(
    cloud: CloudSession, saved: SavedAutoscaling, least: Mapping[str, int], chosen: Mapping[str, int] | None = None
) -> list[str]:
    """Raise the minimum of those targets if it is still as it was lowered. Returns what couldn't be raised.

    `chosen`: counts by resource ID that were changed since. A minimum above them would scale them up, so it stays lowered.
    """
    now = {target_key(row): row for row in autoscaling.read_autoscaling(cloud).targets}
    lost = []
    for target in _targets_to_lower(saved, least):
        current, resource_id = now.get(target_key(target)), target["ResourceId"]
        if current is None:
            lost.append(f"The scalable target of {resource_id} is gone.")
        elif chosen and (number := chosen.get(resource_id, target["MinCapacity"])) < target["MinCapacity"]:
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
        target
        for target in saved["targets"]
        if target["ScalableDimension"] in CAPACITY_DIMENSIONS
        and target["MinCapacity"] > least.get(target["ResourceId"], target["MinCapacity"])
    ]


def maximum_by_id(cloud: CloudSession) -> dict[str, int]:
    """The maximum by resource id that autoscaling allows now."""
    return {
        row["ResourceId"]: int(row["MaxCapacity"])
        for row in autoscaling.read_autoscaling(cloud).targets
        if row["ScalableDimension"] in CAPACITY_DIMENSIONS
    }
