"""Changes in Azure, made one at a time by the actions.

Resource Manager answers 200, 201, 202 or 204, often without a body, and goes on working on its own:
https://learn.microsoft.com/azure/azure-resource-manager/management/async-operations
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from reaper.actions.contract import CallCheck
from reaper.azure.request import ArmOperation, ArmRequest, Json
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


def always_permit() -> None:
    """The permit of calls that restore something: nothing holds them up."""


def write(cloud: CloudSession, request: ArmRequest | ArmOperation, path: str, read_permission: str, permit: CallCheck) -> None:
    """Ask `permit`, then change the resource at `path`, which is read with `read_permission`. Raises CloudError.

    Reason.GONE only if the resource itself is gone: Azure also answers 404 for an operation that it doesn't know.
    """
    permit()
    try:
        cloud.call(request)
    except CloudError as error:
        if error.reason is not Reason.GONE and not error.code.startswith("404"):
            raise
        _require_exists(cloud, ArmRequest(permission=read_permission, path=path, required_keys=("id",)), error)
        text = f"Azure answered 404, although the resource exists ({error})"
        raise CloudError(Reason.REFUSED, request.permission, text, code=error.code, retried=error.retried) from error


def _require_exists(cloud: CloudSession, read: ArmRequest, refusal: CloudError) -> None:
    """Raises CloudError if the resource is gone, which an earlier try of the call that met `refusal` may have caused."""
    try:
        cloud.call(read)
    except CloudError as error:
        error.retried = refusal.retried
        raise


def was_already_written(send: Callable[[], None], is_written: Callable[[], bool]) -> bool:
    """Whether an earlier try, whose reply was lost, made the change, and `send` was refused for just that. `is_written` checks.

    Raises the CloudError of `send` if it didn't.
    """
    try:
        send()
    except CloudError as error:
        if error.reason in {Reason.GONE, Reason.UNREACHABLE} or not (error.reason is Reason.REFUSED or error.retried):
            raise
        if not read_after_write(is_written):
            raise
        return True
    return False


def read_after_write(read: Callable[[], T]) -> T:
    """What `read` returns after a change. Raises CloudError with Reason.PARTIAL for any failure: something has been changed already."""
    try:
        return read()
    except CloudError as error:
        text = f"it was changed, but the result couldn't be checked: {error}"
        raise error.reworded(text, Reason.PARTIAL) from error


def require_settled(state: object, permission: str) -> None:
    """Raises CloudError in a changing state: an undo would be refused now, or be undone by what is in progress."""
    if state in CHANGING_STATES:
        raise CloudError(Reason.REFUSED, permission, f"it is still {state}: {RUN_AGAIN_LATER}")


def with_retry_advice(undo: Callable[[], T]) -> T:
    """The result of `undo`. Raises its CloudError, with advice if Azure is still working on the resource (409)."""
    try:
        return undo()
    except CloudError as error:
        if not error.code.startswith("409"):
            raise
        raise error.reworded(f"{message_without_operation(error)}; {RUN_AGAIN_LATER}") from error


def message_without_operation(error: CloudError) -> str:
    """The message, without the operation before it."""
    return str(error).removeprefix(f"{error.operation}: ")


def chosen_settings(body: Mapping[str, Any]) -> Json:
    """What people chose about an endpoint or deployment: equal before and after an operation that changes none of it."""
    settings = writable_body(body)
    free = settings["properties"].get("properties")
    chosen = {k: v for k, v in free.items() if k.lower() != LAST_OPERATION_PROPERTY} if isinstance(free, dict) else free
    return {**settings, "tags": settings.get("tags") or {}, "properties": {**settings["properties"], "properties": chosen or {}}}


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
