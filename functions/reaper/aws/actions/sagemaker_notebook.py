"""Stopping and starting a notebook instance; its volume is never touched.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_StopNotebookInstance.html
"""

from __future__ import annotations

from typing import Any

from reaper.actions.contract import Acts, Made, Manifest, Permit, Record, Undone
from reaper.aws import tags
from reaper.aws.kinds import sagemaker_notebook as kind
from reaper.aws.plain_json import DONE, some
from reaper.aws.session import Cloud
from reaper.errors import CloudError, Trouble
from reaper.model import Move, Resource

CALLS = {Move.STOP: "StopNotebookInstance", Move.START: "StartNotebookInstance"}
SAME = ("CreationTime", "InstanceType")
"""What another notebook instance of that name, or one that somebody changed, has otherwise. Nobody else's is ever started."""
ALREADY = {Move.STOP: ("Stopping", "Stopped"), Move.START: ("Pending", "InService")}


def look(cloud: Cloud, resource: Resource) -> Resource:
    """Two calls: its description and its tags."""
    row = _describe(cloud, resource.name)
    return kind.resource(cloud, row, tags.fresh(cloud, row["NotebookInstanceArn"]))


def record(cloud: Cloud, resource: Resource, move: Move) -> Record:
    """What it was like; starting it again needs its name only, and that it is still the same one."""
    row = _describe(cloud, resource.name)
    return some(row, *SAME, "NotebookInstanceStatus", "VolumeSizeInGB", "NotebookInstanceLifecycleConfigName")


def carry(cloud: Cloud, resource: Resource, manifest: Manifest, permit: Permit) -> Made:
    """One call. One that somebody else was quicker with is done."""
    stops = manifest.move is Move.STOP
    permit()
    try:
        cloud.call("sagemaker", CALLS[manifest.move], DONE, NotebookInstanceName=resource.name)
    except CloudError as error:
        if any(f"Status ({status})" in str(error) for status in ALREADY[manifest.move]):
            return Made(because=f"it had just been {'stopped' if stops else 'started'} already")
        raise
    return Made(because="it is stopping; its volume stays" if stops else "it is starting")


def undo(cloud: Cloud, manifest: Manifest) -> Undone:
    """Start what was stopped. A start is left alone: somebody may be at work on it by now."""
    if manifest.move is not Move.STOP:
        raise _refused(f"{manifest.name} was started, and stopping it again could end somebody's work: left alone")
    row = _describe(cloud, manifest.name)
    if some(row, *SAME) != {name: manifest.record.get(name) for name in SAME}:
        raise _refused(f"{manifest.name} was made anew or got another instance type since: it is left as it is")
    status = row["NotebookInstanceStatus"]
    if status in ALREADY[Move.START]:
        return Undone(because=f"its status is {status} already")
    if status != "Stopped":
        raise _refused(f"the status of {manifest.name} is {status}: run it again once it is Stopped")
    cloud.call("sagemaker", CALLS[Move.START], DONE, NotebookInstanceName=manifest.name)
    return Undone(because="it is starting", lost=("What was in memory, and what was installed outside its volume, is lost.",))


def _describe(cloud: Cloud, name: str) -> dict[str, Any]:
    return cloud.call("sagemaker", "DescribeNotebookInstance", "NotebookInstanceStatus", NotebookInstanceName=name)


def _refused(text: str) -> CloudError:
    return CloudError(Trouble.REFUSED, "sagemaker:StartNotebookInstance", text)


ACTS = Acts(
    look=look,
    record=record,
    carry=carry,
    undo=undo,
    undo_permissions=("sagemaker:DescribeNotebookInstance", "sagemaker:StartNotebookInstance"),
)
