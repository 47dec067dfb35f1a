"""Putting back what an interrupted stop left: autoscaling minima that are still exactly as the stop lowered them.

The numbers of the stop itself, instances or copies, are among its changes too: they show whether it took effect.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from reaper.acting.contract import HalfDone, Interrupted, PutBackResult
from reaper.aws import autoscaling
from reaper.aws.kinds.sagemaker_endpoint.acting.autoscaling import register_target
from reaper.aws.kinds.sagemaker_endpoint.acting.delete import fetch_endpoint
from reaper.aws.kinds.sagemaker_endpoint.acting.live_settings import MINIMUM, component_settings, endpoint_settings
from reaper.aws.session import CloudSession
from reaper.errors import CloudError, Reason
from reaper.model import SideChange

PAUSES_S = (1.0, 3.0)
"""Seconds before everything is read again, after a call that may have been made or that was throttled."""
Row = Mapping[str, Any]


@dataclass(slots=True, kw_only=True)
class _Settled:
    """What was found and done, by autoscaling's resource IDs: stopped after all, put back, and left alone with the reason."""

    stopped: list[str] = field(default_factory=list)
    restored: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


def put_back(cloud: CloudSession, row: Row, interrupted: Interrupted) -> PutBackResult:
    """`row`: the description of the interrupted resource. Raises CloudError if a minimum couldn't be put back now."""
    if row["CreationTime"] != interrupted.created:
        return PutBackResult(state=HalfDone.LEFT, because="it has been recreated since, so the reaper left it alone")
    tried: set[str] = set()
    for pause in PAUSES_S:
        try:
            return _put_back_once(cloud, interrupted, tried)
        except CloudError as error:
            if not (error.may_have_been_made or error.reason is Reason.THROTTLED):
                raise
        time.sleep(pause)
    return _put_back_once(cloud, interrupted, tried)


def _put_back_once(cloud: CloudSession, interrupted: Interrupted, tried: set[str]) -> PutBackResult:
    """Read everything, then put back each minimum whose stop didn't take effect. `tried`: minima of earlier tries."""
    minima = [change for change in interrupted.changes if change.what.startswith(MINIMUM)]
    stops = [change for change in interrupted.changes if change not in minima]
    targets = _targets(cloud, minima)
    settled = _Settled()
    rows = {change.what: _read_scaled(cloud, change.what) for change in stops}
    settled.stopped += [change.what for change in stops if _number(rows[change.what], change.what) == change.ours]
    for change in minima:
        id_ = change.what.removeprefix(MINIMUM)
        target = targets.get(id_)
        if id_ in settled.stopped:
            continue
        if target and target["MinCapacity"] == change.before:
            settled.restored += [id_] if change.what in tried else []
        elif because := _left_because(target, rows.get(id_), change, interrupted.begun_at):
            settled.left.append(f"the autoscaling minimum of {id_} stays as it is, because {because}")
        elif target:
            tried.add(change.what)
            register_target(cloud.change, target, MinCapacity=change.before)
            settled.restored.append(id_)
    return _to_result(settled, {change.what.removeprefix(MINIMUM): change.before for change in minima})


def _targets(cloud: CloudSession, minima: Sequence[SideChange]) -> dict[str, Row]:
    scaling = autoscaling.read_autoscaling_of(cloud, [change.what.removeprefix(MINIMUM) for change in minima])
    return {row["ResourceId"]: row for row in scaling.targets if row["ScalableDimension"] in autoscaling.CAPACITY_DIMENSIONS}


def _read_scaled(cloud: CloudSession, resource_id: str) -> Row | None:
    """The description of the endpoint or component that autoscaling calls so; None if it is gone."""
    sort, name = resource_id.split("/")[:2]
    if sort == "inference-component":
        return cloud.find("sagemaker", "DescribeInferenceComponent", "EndpointName", InferenceComponentName=name)
    return fetch_endpoint(cloud, name)


def _number(row: Row | None, resource_id: str) -> int | None:
    """The instances or copies in a description."""
    if row is None:
        return None
    settings = endpoint_settings if resource_id.startswith("endpoint/") else component_settings
    return settings(row)[1].get(resource_id)


def _left_because(target: Row | None, row: Row | None, change: SideChange, begun_at: datetime) -> str | None:
    """Why a minimum isn't put back: anything that shows that a person, or autoscaling, has changed something since."""
    if target is None or row is None:
        return "it is gone"
    if target["MinCapacity"] != change.ours:
        return f"it was changed to {target['MinCapacity']} since"
    if target["MaxCapacity"] < change.before or (target.get("CreationTime") or begun_at) > begun_at:
        return "its autoscaling was changed since"
    if max(row["CreationTime"], row.get("LastModifiedTime") or row["CreationTime"]) > begun_at:
        return "what it scales was changed since"
    return None


def _to_result(settled: _Settled, before: Mapping[str, int]) -> PutBackResult:
    if settled.stopped:
        return PutBackResult(state=HalfDone.DONE, because="the stop took effect all the same")
    clauses = [f"the autoscaling minimum of {id_} is {before[id_]} again" for id_ in settled.restored]
    clauses += settled.left
    if settled.left:
        return PutBackResult(state=HalfDone.LEFT, because="; ".join(clauses))
    state = HalfDone.PUT_BACK if settled.restored else HalfDone.UNCHANGED
    return PutBackResult(state=state, because="; ".join(clauses) or "nothing had changed")
