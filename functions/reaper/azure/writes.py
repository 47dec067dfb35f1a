"""Changes in Azure, made one at a time by the actions.

Resource Manager answers 200, 201, 202 or 204, often without a body, and goes on working on its own:
https://learn.microsoft.com/azure/azure-resource-manager/management/async-operations
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from reaper.azure.request import ArmRequest, Change, Json
from reaper.errors import CloudError, Reason

if TYPE_CHECKING:
    from reaper.azure.session import CloudSession

T = TypeVar("T")
READ_ONLY_PROPERTIES = {"provisioningState", "scoringUri", "swaggerUri"}
"""Properties of endpoints and deployments that Azure fills in."""
LAST_OPERATION_PROPERTY = "azureasyncoperationuri"
"""A free property of endpoints and deployments in which Azure notes the operation that last changed them."""
CHANGING_STATES = frozenset(
    {
        "Creating",
        "Updating",
        "Scaling",
        "Deleting",
        "Starting",
        "Stopping",
        "Restarting",
        "Resizing",
        "SettingUp",
        "UserSettingUp",
    }
)
"""States that end without anyone's doing."""
RUN_AGAIN_LATER = "run it again in a few minutes"


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


def with_retry_advice(undo: Callable[[], T]) -> T:
    """The result of `undo`. Raises its CloudError, with advice if Azure refused it for now."""
    try:
        return undo()
    except CloudError as error:
        if not is_refused_for_now(error):
            raise
        message = str(error).removeprefix(f"{error.operation}: ")
        raise error.reworded(f"{message}; {RUN_AGAIN_LATER}") from error


def chosen_settings(body: Mapping[str, Any]) -> Json:
    """What people chose about an endpoint or deployment: equal before and after an operation that changes none of it."""
    settings = writable_body(body)
    free = settings["properties"].get("properties")
    chosen = {k: v for k, v in free.items() if k.lower() != LAST_OPERATION_PROPERTY} if isinstance(free, dict) else free
    return {**settings, "tags": settings.get("tags") or {}, "properties": {**settings["properties"], "properties": chosen or {}}}


def settings_digest(settings: Mapping[str, Any]) -> str:
    """The same for equal settings, and as good as never for others."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def writable_body(body: Mapping[str, Any]) -> Json:
    """What PUT accepts of an endpoint or deployment as it was read: all but what Azure fills in."""
    outer = {key: body[key] for key in ("location", "kind", "tags", "sku") if body.get(key) is not None}
    properties = {key: value for key, value in body["properties"].items() if key not in READ_ONLY_PROPERTIES}
    identity = body.get("identity")
    return {**outer, "properties": properties} | ({"identity": _identity_to_write(identity)} if identity else {})


def _identity_to_write(identity: Mapping[str, Any]) -> Json:
    """Identities by type and name. Azure assigns their object IDs."""
    users = identity.get("userAssignedIdentities")
    return {"type": identity["type"]} | ({"userAssignedIdentities": {user: {} for user in users}} if users else {})
