"""Stopping and starting a notebook instance; its volume is never touched.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_StopNotebookInstance.html
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from reaper.acting.contract import ActionFunctions, ActionResult, Earlier, Manifest, Permit, UndoResult, UndoState, any_members
from reaper.aws import tags
from reaper.aws.kinds import acting
from reaper.aws.kinds import sagemaker_notebook as kind
from reaper.aws.sagemaker import ANY_REPLY_KEY, chosen_members
from reaper.aws.session import CloudSession
from reaper.errors import CloudError, Reason
from reaper.model import Resource, StepName

OPERATIONS = {StepName.STOP: "StopNotebookInstance", StepName.START: "StartNotebookInstance"}
IDENTITY_KEYS = ("CreationTime", "InstanceType")
"""What differs in another notebook instance of that name, or in one that was changed. Undo starts neither."""
SAVED_KEYS = (*IDENTITY_KEYS, "NotebookInstanceStatus", "VolumeSizeInGB", "NotebookInstanceLifecycleConfigName")
STARTED_STATUSES = ("Pending", "InService")


def read_now(cloud: CloudSession, resource: Resource) -> Resource:
    """Two calls: its description and its tags."""
    row = _fetch_notebook(cloud, resource.name)
    own_tags = tags.read_tags_now(cloud, row["NotebookInstanceArn"])
    return replace(kind.resource_from_row(cloud, row, own_tags), details=kind.details_from_row(row))


def read_undo_state(cloud: CloudSession, resource: Resource, action: StepName, earlier: Earlier) -> UndoState:
    """What it was like; starting it again needs its name only, and that it is still the same one."""
    row = _fetch_notebook(cloud, resource.name)
    return chosen_members(row, *SAVED_KEYS)


def perform(cloud: CloudSession, resource: Resource, manifest: Manifest, permit: Permit) -> ActionResult:
    """One call."""
    with permit():
        cloud.change("sagemaker", OPERATIONS[manifest.action], ANY_REPLY_KEY, NotebookInstanceName=resource.name)
    return ActionResult(because="it is stopping; its volume stays" if manifest.action is StepName.STOP else "it is starting")


def undo(cloud: CloudSession, manifest: Manifest) -> UndoResult:
    """Start what was stopped."""
    row = _fetch_notebook(cloud, manifest.name)
    if chosen_members(row, *IDENTITY_KEYS) != {name: manifest.undo_state.get(name) for name in IDENTITY_KEYS}:
        raise CloudError.left_alone(
            "sagemaker:StartNotebookInstance", f"{manifest.name} was recreated or got another instance type since"
        )
    status = row["NotebookInstanceStatus"]
    if status in STARTED_STATUSES:
        return UndoResult(because=f"its status is {status} already")
    if status != "Stopped":
        raise _start_refusal(f"the status of {manifest.name} is {status}; run this again once it is Stopped")
    stopped = replace(kind.resource_from_row(cloud, row, None), details=kind.details_from_row(row))
    if because := kind.not_startable_because(stopped):
        raise _start_refusal(because)
    cloud.call("sagemaker", OPERATIONS[StepName.START], ANY_REPLY_KEY, NotebookInstanceName=manifest.name)
    return UndoResult(
        because="it is starting", not_restored=("What was in memory, and what was installed outside its volume, is lost.",)
    )


def _fetch_notebook(cloud: CloudSession, name: str) -> dict[str, Any]:
    return cloud.call("sagemaker", "DescribeNotebookInstance", "NotebookInstanceStatus", NotebookInstanceName=name)


def _start_refusal(text: str) -> CloudError:
    return CloudError(Reason.REFUSED, "sagemaker:StartNotebookInstance", text)


ACTS = ActionFunctions(
    read_now=read_now,
    read_undo_state=read_undo_state,
    perform=perform,
    undo=undo,
    undo_permissions=("sagemaker:DescribeNotebookInstance", "sagemaker:StartNotebookInstance"),
    undo_members={StepName.STOP: any_members(*SAVED_KEYS)},
    id_pattern=acting.arn_pattern("notebook-instance/(?P<name>.+)"),
)
