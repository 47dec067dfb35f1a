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
from functools import partial
from typing import TYPE_CHECKING, Any

from azure.mgmt.core.tools import parse_resource_id

from reaper.acting.contract import UndoState, any_members
from reaper.azure import computes, deployments
from reaper.azure.requests import ArmOperation, ArmRequest, Change, parse_time
from reaper.errors import CloudError, Reason

if TYPE_CHECKING:
    from reaper.azure.session import CloudSession


CHANGING_STATES = {*computes.CHANGING_STATES, *deployments.CHANGING_STATES, "Deleting"}
"""States that end without anyone's doing."""
RUN_AGAIN_LATER = "run it again in a few minutes"
CREATED_KEY = "made"
UNKNOWN_CREATION = "has no known creation time, so it may be another one; the reaper left it alone"
IDENTITY_MEMBERS = any_members(CREATED_KEY, "size", "model")
_WORKSPACE = (
    r"/subscriptions/(?P<account>[^/]+)/resourceGroups/[^/]+/providers/Microsoft\.MachineLearningServices/workspaces/[^/]+"
)
COMPUTE_ID = re.compile(rf"{_WORKSPACE}/computes/(?P<name>[^/]+)", re.IGNORECASE)
DEPLOYMENT_ID = re.compile(
    rf"{_WORKSPACE}/onlineEndpoints/(?P<name_of_endpoint>[^/]+)/deployments/(?P<name>[^/]+)", re.IGNORECASE
)


def write(cloud: CloudSession, change: Change, read: ArmRequest) -> None:
    """Change the resource that `read` reads. Raises CloudError, with Reason.GONE only if the resource itself is gone."""
    try:
        cloud.change(change)
    except CloudError as error:  # Azure also answers 404 for an operation that it doesn't know
        if error.reason is not Reason.GONE and not error.code.startswith("404"):
            raise
        cloud.call(read)
        text = f"Azure answered 404, although the resource exists ({error})"
        raise CloudError(Reason.REFUSED, change.permission, text, code=error.code) from error


def require_settled(state: object, permission: str) -> None:
    """Raises CloudError in a changing state: an undo would be refused now, or be undone by what is in progress."""
    if state in CHANGING_STATES:
        raise CloudError(Reason.REFUSED, permission, f"it is still {state}: {RUN_AGAIN_LATER}")


def compute_operation(cloud: CloudSession, compute_id: str, call: str) -> ArmOperation:
    """`start` or `stop`, ready to be sent."""
    begin = getattr(cloud.clients.operations_client().compute, f"begin_{call}")
    return ArmOperation(permission=f"{computes.ROOT}/{call}/action", path=f"{compute_id}/{call}", begin=_at(compute_id, 1, begin))


def delete_deployment(cloud: CloudSession, deployment_id: str) -> ArmOperation:
    begin = cloud.clients.operations_client().online_deployments.begin_delete
    return ArmOperation(permission=deployments.DELETE, path=deployment_id, begin=_at(deployment_id, 2, begin))


def _at(resource_id: str, depth: int, begin: Callable[..., object]) -> Callable[..., object]:
    """The operation on the resource: resource group, workspace and the names below it come first."""
    parts = parse_resource_id(resource_id)
    names = (parts["resource_group"], parts["name"], *(parts[f"child_name_{level}"] for level in range(1, depth + 1)))
    return partial(begin, *(str(name) for name in names))


def identity(row: Mapping[str, Any]) -> UndoState:
    """The creation time of a compute, deployment or endpoint, with its size and its model if it has them."""
    outer, system = row["properties"], row.get("systemData") or {}
    inner = outer.get("properties")
    vm_size = inner.get("vmSize") if isinstance(inner, dict) else None
    chosen = {"size": outer.get("instanceType") or vm_size, "model": outer.get("model")}
    made = outer.get("createdOn") or system.get("createdAt")
    return {CREATED_KEY: made, **{key: value for key, value in chosen.items() if value}}


def require_same(before: UndoState, now: UndoState, permission: str, subject: str = "it") -> None:
    """Raises CloudError if `subject` isn't the same as before, or if that can't be known."""
    was_created, created = (parse_time(state.get(CREATED_KEY)) for state in (before, now))
    if was_created is None or created is None:
        raise CloudError(Reason.REFUSED, permission, f"{subject} {UNKNOWN_CREATION}")
    if was_created != created:
        because = f"{subject} was recreated on {created:%Y-%m-%d %H:%M} UTC"
    else:
        keys = [key for key in ("size", "model") if _lower_if_text(now.get(key)) != _lower_if_text(before.get(key))]
        because = "; ".join(f"its {key} changed from {before.get(key)} to {now.get(key)}" for key in keys)
    if because:
        raise CloudError.left_alone(permission, because)


def _lower_if_text(value: Any) -> Any:
    """Azure spells sizes in capitals or not."""
    return value.lower() if isinstance(value, str) else value
