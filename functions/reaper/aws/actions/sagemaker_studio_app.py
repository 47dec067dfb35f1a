"""Stopping a Studio app, which AWS calls deleting it: the space, the home directory and every file in them stay.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DeleteApp.html
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reaper.actions.contract import Acts, Made, Manifest, Permit, Record, Undone
from reaper.aws import tags
from reaper.aws.kinds import sagemaker_studio_app as kind
from reaper.aws.plain_json import DONE, plain, some, tag_list
from reaper.aws.session import Cloud
from reaper.errors import CloudError, Trouble
from reaper.model import Move, Resource


def look(cloud: Cloud, resource: Resource) -> Resource:
    """Its description, and the tags of the app, its space or user profile and its domain, merged as `discover` merges them."""
    row = _describe(cloud, resource.facts)
    if row["Status"] == "Deleted":
        raise CloudError(Trouble.GONE, "sagemaker:DescribeApp", f"{resource.name} has been deleted")
    _, homes = kind.arns(cloud, row)
    return kind.resource(cloud, row, tags.fresh(cloud, _arn(row), *homes))


def record(cloud: Cloud, resource: Resource, move: Move) -> Record:
    """What CreateApp needs, with the app's own tags only: it inherits the others anyway."""
    row = _describe(cloud, resource.facts)
    app = some(row, *kind.IDENTITY, "ResourceSpec", "RecoveryMode", "CreationTime")
    return {"app": app, "tags": tags.fresh(cloud, _arn(row))}


def carry(cloud: Cloud, resource: Resource, manifest: Manifest, permit: Permit) -> Made:
    """One call."""
    permit()
    cloud.call("sagemaker", "DeleteApp", DONE, **_names(manifest.record["app"]))
    return Made(because="its app is being deleted; the space and all files in it stay")


def undo(cloud: Cloud, manifest: Manifest) -> Undone:
    """Create the app again, unless it is there already, or somebody started and stopped it since: AWS shows deleted apps for a while."""
    app = manifest.record["app"]
    row = _find(cloud, app)
    status = str(row.get("Status", ""))
    if status in {"InService", "Pending"}:
        return Undone(because=f"its status is {status} already")
    if status not in {"", "Deleted"}:
        text = f"the status of {manifest.name} is {status}: run it again once it is deleted"
        raise CloudError(Trouble.REFUSED, "sagemaker:CreateApp", text)
    if row and plain(row.get("CreationTime")) != app.get("CreationTime"):
        text = f"{manifest.name} was started and stopped by somebody since: it is left as it is"
        raise CloudError(Trouble.REFUSED, "sagemaker:CreateApp", text)
    spec = {"ResourceSpec": app["ResourceSpec"]} if app.get("ResourceSpec") else {}
    cloud.call("sagemaker", "CreateApp", "AppArn", **_names(app), **spec, **tag_list(manifest.record["tags"]))
    lost = ["Running kernels and unsaved work in memory are lost."]
    lost += ["It is not started in recovery mode again."] if app.get("RecoveryMode") else []
    return Undone(because="it is starting with the same instance, image and tags", lost=tuple(lost))


def _describe(cloud: Cloud, names: Mapping[str, Any]) -> dict[str, Any]:
    return cloud.call("sagemaker", "DescribeApp", "Status", **_names(names))


def _names(names: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that name an app: of a space or of a user profile, never of both."""
    found = {key: names[key] for key in kind.IDENTITY if names.get(key)}
    if "SpaceName" in found:
        found.pop("UserProfileName", None)
    return found


def _arn(row: Mapping[str, Any]) -> str:
    if not row.get("AppArn"):
        raise CloudError(Trouble.GARBLED, "sagemaker:DescribeApp", "the reply has no AppArn")
    return str(row["AppArn"])


def _find(cloud: Cloud, names: Mapping[str, Any]) -> dict[str, Any]:
    """Its description; empty where there is none any more."""
    try:
        return _describe(cloud, names)
    except CloudError as error:
        if error.trouble is Trouble.GONE:
            return {}
        raise


ACTS = Acts(
    look=look,
    record=record,
    carry=carry,
    undo=undo,
    undo_permissions=("sagemaker:DescribeApp", "sagemaker:CreateApp", "sagemaker:AddTags"),
)
