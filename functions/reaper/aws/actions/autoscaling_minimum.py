"""The minimum that autoscaling keeps: lowered before a stop, or it would undo the stop, and raised again by an undo.

https://docs.aws.amazon.com/autoscaling/application/APIReference/API_RegisterScalableTarget.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from reaper.actions.contract import CallCheck, Manifest
from reaper.aws import autoscaling
from reaper.aws.actions.restored_count import RestoredCount
from reaper.aws.actions.saved_autoscaling import SavedAutoscaling, partial_error, register_target, target_key
from reaper.aws.session import CloudSession
from reaper.errors import ActionWithdrawn, CloudError, Reason

CAPACITY_DIMENSIONS = {autoscaling.VARIANT_DIMENSION, autoscaling.COPIES_DIMENSION}
UNCERTAIN_REASONS = {Reason.UNREACHABLE, Reason.UNREADABLE}
"""Failures after which the call may have been carried out."""


def lower_minimum(cloud: CloudSession, saved: SavedAutoscaling, least: Mapping[str, int], permit: CallCheck) -> None:
    """Lower the minimum of those targets to what `least` says by resource id, so that autoscaling does not undo what follows."""
    for target in _targets_to_lower(saved, least):
        permit()
        register_target(cloud, target, MinCapacity=least[target["ResourceId"]])


@contextmanager
def minimum_lowered(cloud: CloudSession, manifest: Manifest, permit: CallCheck) -> Iterator[None]:
    """The minimum lowered as the manifest says, and raised again if what follows fails or is withdrawn: a lowered minimum alone
    lets autoscaling scale in. Raising it needs no permit.

    If the failed call may have been carried out, the minimum stays lowered, or autoscaling would undo half of it; also if it can't be
    raised. Then an error with Reason.PARTIAL says so, and only this manifest knows what it was.
    """
    try:
        lower_minimum(cloud, manifest.undo_state["scaling"], manifest.undo_state["least"], permit)
        yield
    except CloudError as error:
        if error.retried or error.reason in UNCERTAIN_REASONS:
            clause = _stays_lowered_clause(manifest, "because the call may have been carried out")
        else:
            clause = _put_minimum_back(cloud, manifest)
        if clause:
            raise partial_error(error, clause) from error
        raise
    except ActionWithdrawn as reason:
        if clause := _put_minimum_back(cloud, manifest):
            raise ActionWithdrawn(f"{reason}; {clause}") from reason
        raise


def _put_minimum_back(cloud: CloudSession, manifest: Manifest) -> str | None:
    """The clause that says the minimum stays lowered, if it couldn't be raised."""
    try:
        raise_minimum(cloud, manifest.undo_state["scaling"], manifest.undo_state["least"])
    except CloudError as error:
        return _stays_lowered_clause(manifest, f"because it couldn't be put back ({error})")
    return None


def _stays_lowered_clause(manifest: Manifest, because: str) -> str | None:
    """None where no minimum was to be lowered."""
    targets = _targets_to_lower(manifest.undo_state["scaling"], manifest.undo_state["least"])
    stays = ", ".join(f"{t['ResourceId']} ({t['MinCapacity']} before)" for t in targets)
    text = (
        f"and the autoscaling minimum stays lowered, {because}: {stays}; "
        f"the manifest that run {manifest.run} stored restores it: `reaper restore {manifest.id}`"
    )
    return text if targets else None


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
        register_target(cloud, target, MinCapacity=least.count_to_request)
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
