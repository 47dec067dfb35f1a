"""Recreating a Studio app with the same instance, image and tags. https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateApp.html"""

from __future__ import annotations

from reaper.acting.contract import Earlier, Manifest, UndoResult, UndoState, any_members
from reaper.aws import reader
from reaper.aws.kinds.sagemaker_studio_app import IDENTITY_KEYS, app_parameters, parameters_of
from reaper.aws.recreation import Recreation
from reaper.aws.sagemaker import chosen_members, tags_parameter, to_plain_json
from reaper.aws.session import CloudSession
from reaper.errors import CloudError, Reason
from reaper.model import Resource

PERMISSION = "sagemaker:CreateApp"
SAVED_KEYS = (*IDENTITY_KEYS, "ResourceSpec", "RecoveryMode", "CreationTime")


def read(cloud: CloudSession, resource: Resource, earlier: Earlier) -> UndoState:
    """Everything that CreateApp takes, with the app's own tags only: it inherits the others anyway."""
    row = cloud.call("sagemaker", "DescribeApp", "AppArn", **parameters_of(resource))
    return {"app": chosen_members(row, *SAVED_KEYS), "tags": reader.read_tags_now(cloud, row["AppArn"])}


def recreate(cloud: CloudSession, manifest: Manifest) -> UndoResult:
    """Recreate the app, unless it exists already or was started and stopped since: AWS shows deleted apps for a while."""
    app, name = manifest.undo_state["app"], manifest.name
    named = [app.get("DomainId"), app.get("SpaceName") or app.get("UserProfileName"), app.get("AppType"), app.get("AppName")]
    if "/".join(map(str, named)).casefold() != manifest.id.partition(":app/")[2].casefold():
        raise CloudError(Reason.REFUSED, PERMISSION, f"the manifest's record is about another app than {name}, so it isn't used")
    row = cloud.find("sagemaker", "DescribeApp", "Status", **app_parameters(app)) or {}
    status = str(row.get("Status", ""))
    if status in {"InService", "Pending"}:
        return UndoResult(because=f"its status is {status} already")
    if status not in {"", "Deleted"}:
        raise CloudError(Reason.REFUSED, PERMISSION, f"the status of {name} is {status}; run this again once it is deleted")
    if row and to_plain_json(row.get("CreationTime")) != app.get("CreationTime"):
        raise CloudError.left_alone(PERMISSION, f"{name} was started and stopped since")
    spec = {"ResourceSpec": app["ResourceSpec"]} if app.get("ResourceSpec") else {}
    cloud.call("sagemaker", "CreateApp", "AppArn", **app_parameters(app), **spec, **tags_parameter(manifest.undo_state["tags"]))
    lost = ["Running kernels and unsaved work in memory are lost."]
    lost += ["It isn't started in recovery mode."] if app.get("RecoveryMode") else []
    return UndoResult(because="it is starting with the same instance, image and tags", not_restored=tuple(lost))


RECREATION = Recreation(
    read=read,
    recreate=recreate,
    members={"app": any_members(*SAVED_KEYS), "tags": None},
    permissions=(PERMISSION, "sagemaker:AddTags"),
)
