"""Stopping a Studio app, which AWS calls deleting it: the space, the home directory and every file in them stay.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DeleteApp.html
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reaper.acting.contract import ActionFunctions, ActionResult, Earlier, Manifest, Permit, UndoResult, UndoState, any_members
from reaper.aws import tags
from reaper.aws.kinds import acting
from reaper.aws.kinds import sagemaker_studio_app as kind
from reaper.aws.sagemaker import ANY_REPLY_KEY, chosen_members, tags_parameter, to_plain_json
from reaper.aws.session import CloudSession
from reaper.errors import CloudError, Reason
from reaper.model import Resource, StepName

SAVED_KEYS = (*kind.IDENTITY_KEYS, "ResourceSpec", "RecoveryMode", "CreationTime")


def read_now(cloud: CloudSession, resource: Resource) -> Resource:
    """Its description, with whose space it is in, and the tags of the app, its space or user profile and its domain, merged as `discover`
    merges them.
    """
    row = _fetch_app(cloud, kind.names_of(resource.details))
    if row["Status"] == "Deleted":
        raise CloudError(Reason.GONE, "sagemaker:DescribeApp", f"{resource.name} has been deleted")
    _, homes = kind.app_and_parent_arns(cloud, row)
    app = kind.resource_from_row(cloud, row, tags.read_tags_now(cloud, _app_arn(row), *homes))
    return kind.with_space_owner(app, kind.read_space_owners(cloud, row["DomainId"], row.get("SpaceName")))


def read_undo_state(cloud: CloudSession, resource: Resource, action: StepName, earlier: Earlier) -> UndoState:
    """What CreateApp needs, with the app's own tags only: it inherits the others anyway."""
    row = _fetch_app(cloud, kind.names_of(resource.details))
    app = chosen_members(row, *SAVED_KEYS)
    return {"app": app, "tags": tags.read_tags_now(cloud, _app_arn(row))}


def perform(cloud: CloudSession, resource: Resource, manifest: Manifest, permit: Permit) -> ActionResult:
    """One call."""
    with permit():
        cloud.change("sagemaker", "DeleteApp", ANY_REPLY_KEY, **kind.app_parameters(manifest.undo_state["app"]))
    return ActionResult(because="its app is being deleted; the space and all files in it stay")


def undo(cloud: CloudSession, manifest: Manifest) -> UndoResult:
    """Recreate the app, unless it exists already or was started and stopped since: AWS shows deleted apps for a while."""
    app = manifest.undo_state["app"]
    named = [app.get("DomainId"), app.get("SpaceName") or app.get("UserProfileName"), app.get("AppType"), app.get("AppName")]
    if "/".join(map(str, named)).casefold() != manifest.id.partition(":app/")[2].casefold():
        text = f"the manifest's record is about another app than {manifest.name}, so it isn't used"
        raise CloudError(Reason.REFUSED, "sagemaker:CreateApp", text)
    row = cloud.find("sagemaker", "DescribeApp", "Status", **kind.app_parameters(app)) or {}
    status = str(row.get("Status", ""))
    if status in {"InService", "Pending"}:
        return UndoResult(because=f"its status is {status} already")
    if status not in {"", "Deleted"}:
        text = f"the status of {manifest.name} is {status}; run this again once it is deleted"
        raise CloudError(Reason.REFUSED, "sagemaker:CreateApp", text)
    if row and to_plain_json(row.get("CreationTime")) != app.get("CreationTime"):
        raise CloudError.left_alone("sagemaker:CreateApp", f"{manifest.name} was started and stopped since")
    spec = {"ResourceSpec": app["ResourceSpec"]} if app.get("ResourceSpec") else {}
    cloud.call(
        "sagemaker", "CreateApp", "AppArn", **kind.app_parameters(app), **spec, **tags_parameter(manifest.undo_state["tags"])
    )
    lost = ["Running kernels and unsaved work in memory are lost."]
    lost += ["It isn't started in recovery mode."] if app.get("RecoveryMode") else []
    return UndoResult(because="it is starting with the same instance, image and tags", not_restored=tuple(lost))


def _fetch_app(cloud: CloudSession, names: Mapping[str, Any]) -> dict[str, Any]:
    return cloud.call("sagemaker", "DescribeApp", "Status", **kind.app_parameters(names))


def _app_arn(row: Mapping[str, Any]) -> str:
    if not row.get("AppArn"):
        raise CloudError(Reason.UNREADABLE, "sagemaker:DescribeApp", "the reply has no AppArn")
    return str(row["AppArn"])


ACTS = ActionFunctions(
    read_now=read_now,
    read_undo_state=read_undo_state,
    perform=perform,
    undo=undo,
    undo_permissions=("sagemaker:DescribeApp", "sagemaker:CreateApp", "sagemaker:AddTags"),
    undo_members={StepName.STOP: {"app": any_members(*SAVED_KEYS), "tags": None}},
    id_pattern=acting.arn_pattern("app/[^/]+/(?P<name>[^/]+/[^/]+/[^/]+)"),
)
