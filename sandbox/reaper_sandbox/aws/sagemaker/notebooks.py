"""Notebook instances and the states they may go between.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_StopNotebookInstance.html
"""

from __future__ import annotations

from typing import Any

from reaper_sandbox.aws.records import Notebook
from reaper_sandbox.aws.reply import invalid
from reaper_sandbox.aws.sagemaker import tags
from reaper_sandbox.aws.sagemaker.listing import begin, chosen, page, settle
from reaper_sandbox.aws.world import Region

PLATFORMS = (
    "notebook-al1-v1",
    "notebook-al2-v1",
    "notebook-al2-v2",
    "notebook-al2-v3",
    "notebook-al2023-v1",
    "notebook-al2023-v2",
)
NEW_PLATFORMS = ("notebook-al2023-v1", "notebook-al2023-v2")
"""What is still created and started. The first is what a new one gets unless it asks for another.

https://docs.aws.amazon.com/sagemaker/latest/dg/nbi-al2.html
"""
LISTED = ("NotebookInstanceLifecycleConfigName", "DefaultCodeRepository", "AdditionalCodeRepositories")


def list_notebooks(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """By name unless asked otherwise."""
    settle(region)
    notebooks = chosen(region.notebooks.values(), params, sort="Name", order="Ascending")
    if lifecycle := params.get("NotebookInstanceLifecycleConfigNameContains"):
        notebooks = [n for n in notebooks if lifecycle in n.extra.get(LISTED[0], "")]
    rows, following = page(region, "ListNotebookInstances", notebooks, params)
    shown = [_summary(n) | {key: n.extra[key] for key in LISTED if key in n.extra} for n in rows]
    return {"NotebookInstances": shown, "NextToken": following}


def describe_notebook(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """With its volume, role and network."""
    notebook = find(region, params["NotebookInstanceName"])
    usual = {
        "VolumeSizeInGB": 5,
        "RoleArn": f"arn:aws:iam::{region.account}:role/notebook",
        "DirectInternetAccess": "Enabled",
        "RootAccess": "Enabled",
        "PlatformIdentifier": NEW_PLATFORMS[0],
    }
    return usual | notebook.extra | _summary(notebook) | {"FailureReason": notebook.failure}


def create_notebook(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """Of any instance type, under a name that does not exist."""
    settle(region)
    _check_platform(params)
    name, now = params["NotebookInstanceName"], region.now
    arn = region.arn(f"notebook-instance/{name}")
    if name in region.notebooks:
        raise invalid(f"Cannot create a duplicate Notebook Instance ({arn})")
    extra = {k: v for k, v in params.items() if k not in ("NotebookInstanceName", "InstanceType", "Tags")}
    if "LifecycleConfigName" in extra:
        extra[LISTED[0]] = extra.pop("LifecycleConfigName")
    notebook = Notebook(
        name=name, arn=arn, instance=params["InstanceType"], created=now, changed=now, extra=extra,
        tags=tags.read(params.get("Tags")),
    )  # fmt: skip
    region.notebooks[name] = notebook
    begin(region, notebook, "Pending", "InService")
    return {"NotebookInstanceArn": arn}


def start_notebook(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """Stopped or failed ones, on a platform that is still supported."""
    _check_platform(describe_notebook(region, params))
    _move(region, params["NotebookInstanceName"], ("Stopped", "Failed"), "Pending", "InService")
    return {}


def stop_notebook(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """Those in service."""
    _move(region, params["NotebookInstanceName"], ("InService",), "Stopping", "Stopped")
    return {}


def update_notebook(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """Another instance type or platform for a stopped one; its volume stays."""
    _check_platform(params)
    notebook = find(region, params["NotebookInstanceName"])
    _move(region, notebook.name, ("Stopped", "Failed"), "Updating", "Stopped")
    notebook.instance = params.get("InstanceType", notebook.instance)
    if "PlatformIdentifier" in params:
        notebook.extra["PlatformIdentifier"] = params["PlatformIdentifier"]
    return {}


def delete_notebook(region: Region, params: dict[str, Any]) -> dict[str, Any]:
    """Stopped or failed ones; their data is lost."""
    _move(region, params["NotebookInstanceName"], ("Stopped", "Failed"), "Deleting", "")
    return {}


def find(region: Region, name: str) -> Notebook:
    """The notebook instance of that very name. Raises ValidationException."""
    settle(region)
    if name not in region.notebooks:
        raise invalid("RecordNotFound")
    return region.notebooks[name]


def _check_platform(params: dict[str, Any]) -> None:
    """Raises ValidationException for no platform at all, and for one on which nothing is created or started since 2026-07-01."""
    platform = params.get("PlatformIdentifier", NEW_PLATFORMS[0])
    if platform not in PLATFORMS:
        raise invalid(f"Value '{platform}' at 'platformIdentifier' failed to satisfy constraint: ({'|'.join(PLATFORMS)})")
    if platform not in NEW_PLATFORMS:
        raise invalid(f"Notebook instances on {platform} can no longer be created or started. Use {NEW_PLATFORMS[0]}.")


def _move(region: Region, name: str, allowed: tuple[str, ...], status: str, final_status: str) -> None:
    notebook = find(region, name)
    if notebook.status not in allowed:
        raise invalid(
            f"Status ({notebook.status}) not in ([{', '.join(allowed)}]). "
            f"Unable to transition to ({status}) for Notebook Instance ({notebook.arn})"
        )
    begin(region, notebook, status, final_status)


def _summary(notebook: Notebook) -> dict[str, Any]:
    return {
        "NotebookInstanceName": notebook.name,
        "NotebookInstanceArn": notebook.arn,
        "NotebookInstanceStatus": notebook.status,
        "Url": f"{notebook.name}.notebook.{notebook.arn.split(':')[3]}.sagemaker.aws",
        "InstanceType": notebook.instance,
        "CreationTime": notebook.created,
        "LastModifiedTime": notebook.changed,
    }


OPERATIONS = {
    "ListNotebookInstances": list_notebooks,
    "DescribeNotebookInstance": describe_notebook,
    "CreateNotebookInstance": create_notebook,
    "StartNotebookInstance": start_notebook,
    "StopNotebookInstance": stop_notebook,
    "UpdateNotebookInstance": update_notebook,
    "DeleteNotebookInstance": delete_notebook,
}
