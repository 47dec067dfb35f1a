"""Changes in Azure, made one at a time by the actions, and whether the resource to restore is the one that was acted on.

Resource Manager answers 200, 201, 202 or 204, often without a body, and goes on working on its own:
https://learn.microsoft.com/azure/azure-resource-manager/management/async-operations
Stop, start and delete are public operations of azure-mgmt-machinelearningservices (why others aren't, is in `requests`). Each is begun and not
waited for: Azure's poller would block for minutes, and the next sweep checks the result. The SDK is loaded, which takes a second, when the operation
is made, so that nothing but the call itself comes after its permit:
https://learn.microsoft.com/rest/api/azureml/compute and https://learn.microsoft.com/rest/api/azureml/online-deployments
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

from azure.mgmt.core.tools import parse_resource_id

from reaper.acting.contract import Manifest, UndoResult, UndoState, any_members
from reaper.azure.requests import ArmOperation, ArmRequest, Change, parse_time
from reaper.azure.workspaces import PROVIDER
from reaper.errors import CloudError, Reason
from reaper.model import Resource

if TYPE_CHECKING:
    from reaper.azure.session import CloudSession


Undo = Callable[["CloudSession", Manifest], UndoResult]
CHANGING_STATES = {"Creating", "Updating", "Scaling", "Deleting", "Starting", "Stopping", "Restarting", "Resizing"}
CHANGING_STATES |= {"SettingUp", "UserSettingUp"}
"""States that end without anyone's doing."""
RUN_AGAIN_LATER = "run it again in a few minutes"
COMPUTE_ROOT = f"{PROVIDER}/workspaces/computes"
DELETE_PERMISSION = f"{PROVIDER}/workspaces/onlineEndpoints/deployments/delete"
CREATED_KEY = "made"
IDENTITY_MEMBERS = any_members(CREATED_KEY, "size", "model")
_WORKSPACE = (
    r"/subscriptions/(?P<account>[^/]+)/resourceGroups/[^/]+/providers/Microsoft\.MachineLearningServices/workspaces/[^/]+"
)
COMPUTE_ID = re.compile(rf"{_WORKSPACE}/computes/(?P<name>[^/]+)", re.IGNORECASE)
DEPLOYMENT_ID = re.compile(
    rf"{_WORKSPACE}/onlineEndpoints/(?P<name_of_endpoint>[^/]+)/deployments/(?P<name>[^/]+)", re.IGNORECASE
)


def write(cloud: CloudSession, change: Change, path: str, read_permission: str) -> None:
    """Change the resource at `path`, which is read with `read_permission`. Raises CloudError.

    Reason.GONE only if the resource itself is gone: Azure also answers 404 for an operation that it doesn't know.
    """
    try:
        cloud.change(change)
    except CloudError as error:
        if error.reason is not Reason.GONE and not error.code.startswith("404"):
            raise
        cloud.call(ArmRequest(permission=read_permission, path=path, required_keys=("id",)))
        text = f"Azure answered 404, although the resource exists ({error})"
        raise CloudError(Reason.REFUSED, change.permission, text, code=error.code) from error


def require_settled(state: object, permission: str) -> None:
    """Raises CloudError in a changing state: an undo would be refused now, or be undone by what is in progress."""
    if state in CHANGING_STATES:
        raise CloudError(Reason.REFUSED, permission, f"it is still {state}: {RUN_AGAIN_LATER}")


def is_refused_for_now(error: CloudError) -> bool:
    """Whether Azure refused a change only because it was throttled, or still at work on the resource (409)."""
    return error.reason is Reason.THROTTLED or error.code.startswith("409")


def with_retry_advice(undo: Undo) -> Undo:
    """`undo`, whose CloudError gives advice if Azure refused it for now."""

    @wraps(undo)
    def advised(cloud: CloudSession, manifest: Manifest) -> UndoResult:
        try:
            return undo(cloud, manifest)
        except CloudError as error:
            if not is_refused_for_now(error):
                raise
            message = str(error).removeprefix(f"{error.operation}: ")
            raise error.reworded(f"{message}; {RUN_AGAIN_LATER}") from error

    return advised


def stop_instance(cloud: CloudSession, instance_id: str) -> ArmOperation:
    begin = _at(instance_id, 1, cloud.clients.operations_client().compute.begin_stop)
    return ArmOperation(permission=f"{COMPUTE_ROOT}/stop/action", path=f"{instance_id}/stop", begin=begin)


def start_instance(cloud: CloudSession, instance_id: str) -> ArmOperation:
    begin = _at(instance_id, 1, cloud.clients.operations_client().compute.begin_start)
    return ArmOperation(permission=f"{COMPUTE_ROOT}/start/action", path=f"{instance_id}/start", begin=begin)


def delete_deployment(cloud: CloudSession, deployment_id: str) -> ArmOperation:
    begin = _at(deployment_id, 2, cloud.clients.operations_client().online_deployments.begin_delete)
    return ArmOperation(permission=DELETE_PERMISSION, path=deployment_id, begin=begin)


def _at(resource_id: str, depth: int, begin: Callable[..., object]) -> Callable[..., object]:
    """The operation on the resource: resource group, workspace and the names below it come first."""
    parts = parse_resource_id(resource_id)
    names = (parts["resource_group"], parts["name"], *(parts[f"child_name_{level}"] for level in range(1, depth + 1)))
    return partial(begin, *(str(name) for name in names))


def compute_identity(row: Mapping[str, Any]) -> UndoState:
    """A compute's creation time and size."""
    outer = row["properties"]
    return {CREATED_KEY: outer.get("createdOn") or _created_at(row), "size": (outer.get("properties") or {}).get("vmSize")}


def compute_identity_of(resource: Resource) -> UndoState:
    """The same of a compute as it was read for an action."""
    created = resource.created.isoformat() if resource.created else None
    return {CREATED_KEY: created, "size": resource.details.properties.get("vmSize")}


def require_known_creation(resource: Resource) -> None:
    """Raises CloudError if it isn't known when it was created: undoing couldn't recognize it."""
    if resource.created is None:
        text = "it has no known creation time, so it may be another one; the reaper left it alone"
        raise CloudError(Reason.REFUSED, resource.kind, text)


def deployment_identity(row: Mapping[str, Any]) -> UndoState:
    """A deployment's creation time, size and model."""
    return {CREATED_KEY: _created_at(row), "size": row["properties"].get("instanceType"), "model": row["properties"].get("model")}


def endpoint_identity(row: Mapping[str, Any]) -> UndoState:
    """An endpoint's creation time."""
    return {CREATED_KEY: _created_at(row)}


def require_same(before: UndoState, now: UndoState, permission: str, subject: str = "it") -> None:
    """Raises CloudError if `subject` isn't the same as before, or if that can't be known."""
    was_created, created = (parse_time(state.get(CREATED_KEY)) for state in (before, now))
    if was_created is None or created is None:
        text = f"{subject} has no known creation time, so it may be another one; the reaper left it alone"
        raise CloudError(Reason.REFUSED, permission, text)
    if was_created != created:
        because = f"{subject} was recreated on {created:%Y-%m-%d %H:%M} UTC"
    else:
        changed = [key for key in now if key != CREATED_KEY and _lower_if_text(now[key]) != _lower_if_text(before.get(key))]
        because = "; ".join(f"its {key} changed from {before.get(key)} to {now[key]}" for key in changed)
    if because:
        raise CloudError.left_alone(permission, because)


def _created_at(row: Mapping[str, Any]) -> Any:
    return (row.get("systemData") or {}).get("createdAt")


def _lower_if_text(value: Any) -> Any:
    """Azure spells sizes in capitals or not."""
    return value.lower() if isinstance(value, str) else value
