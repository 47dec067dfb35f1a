"""Putting back what an interrupted stop left: the autoscaling minimum, if it is still exactly as the stop lowered it.

The number of the stop itself, instances or copies, is among its changes too: it shows whether it took effect.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from reaper.acting.contract import HalfDone, Interrupted, PutBackResult
from reaper.aws import autoscaling
from reaper.aws.kinds.sagemaker_endpoint.acting.autoscaling import register_target
from reaper.aws.kinds.sagemaker_endpoint.acting.live_settings import MINIMUM, Numbers, Settings
from reaper.aws.session import CloudSession
from reaper.errors import CloudError, Reason
from reaper.model import SideChange

PAUSES_S = (1.0, 3.0)
"""Seconds before everything is read again, after a call that may have been made or that was throttled."""
Row = Mapping[str, Any]
Read = Callable[[], Row]
SettingsOf = Callable[[Row], tuple[Settings, Numbers]]


def put_back_minimum(cloud: CloudSession, read: Read, settings_of: SettingsOf, interrupted: Interrupted) -> PutBackResult:
    """`read` describes the interrupted resource; `settings_of` tells its numbers. Raises CloudError if the minimum can't be put back now."""
    tried: set[str] = set()
    for pause in PAUSES_S:
        try:
            return _put_back_once(cloud, read, settings_of, interrupted, tried)
        except CloudError as error:
            if not (error.may_have_been_made or error.reason is Reason.THROTTLED):
                raise
        time.sleep(pause)
    return _put_back_once(cloud, read, settings_of, interrupted, tried)


def _put_back_once(
    cloud: CloudSession, read: Read, settings_of: SettingsOf, interrupted: Interrupted, tried: set[str]
) -> PutBackResult:
    """Read everything, then put the minimum back if the stop didn't take effect. `tried`: what an earlier try wanted to put back."""
    row = read()
    if row["CreationTime"] != interrupted.created:
        return PutBackResult(state=HalfDone.LEFT, because="it has been recreated since, so the reaper left it alone")
    numbers = settings_of(row)[1]
    if any(numbers.get(change.what) == change.ours for change in interrupted.changes):
        return PutBackResult(state=HalfDone.DONE, because="the stop took effect all the same")
    minimum = next((change for change in interrupted.changes if change.what.startswith(MINIMUM)), None)
    if minimum is None:
        return PutBackResult(state=HalfDone.UNCHANGED, because="nothing had changed")
    id_ = minimum.what.removeprefix(MINIMUM)
    targets = autoscaling.read_autoscaling_of(cloud, [id_]).targets
    target = next((row for row in targets if row["ScalableDimension"] in autoscaling.CAPACITY_DIMENSIONS), {})
    if target.get("MinCapacity") == minimum.before and not tried:
        return PutBackResult(state=HalfDone.UNCHANGED, because="nothing had changed")
    if target.get("MinCapacity") != minimum.before:
        if because := _left_because(target, row, minimum, interrupted.begun_at):
            text = f"the autoscaling minimum of {id_} stays as it is, because {because}"
            return PutBackResult(state=HalfDone.LEFT, because=text)
        tried.add(id_)
        register_target(cloud.change, target, MinCapacity=minimum.before)
    return PutBackResult(state=HalfDone.PUT_BACK, because=f"the autoscaling minimum of {id_} is {minimum.before} again")


def _left_because(target: Row, row: Row, change: SideChange, begun_at: datetime) -> str | None:
    """Why a minimum isn't put back: anything that shows that a person, or autoscaling, has changed something since."""
    if not target:
        return "it is gone"
    if target["MinCapacity"] != change.ours:
        return f"it was changed to {target['MinCapacity']} since"
    if target["MaxCapacity"] < change.before or (target.get("CreationTime") or begun_at) > begun_at:
        return "its autoscaling was changed since"
    if max(row["CreationTime"], row.get("LastModifiedTime") or row["CreationTime"]) > begun_at:
        return "what it scales was changed since"
    return None
