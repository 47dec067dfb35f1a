"""Changes in Azure, made one at a time by the acts.

Resource Manager answers 200, 201, 202 or 204, often without a body, and goes on by itself:
https://learn.microsoft.com/azure/azure-resource-manager/management/async-operations
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from reaper.actions.contract import CallCheck
from reaper.azure.request import ArmRequest, Json
from reaper.errors import CloudError, Reason

if TYPE_CHECKING:
    from reaper.azure.session import CloudSession

T = TypeVar("T")
READ_ONLY_PROPERTIES = {"provisioningState", "scoringUri", "swaggerUri"}
"""Properties of endpoints and deployments that Azure fills in itself."""
LAST_OPERATION_PROPERTY = "azureasyncoperationuri"
"""Among the free properties of endpoints and deployments Azure notes the operation that last changed them."""
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
"""States that pass by themselves."""
RUN_AGAIN_LATER = "run it again in a few minutes"


def always_permit() -> None:
    """The permit of calls that put something back: these are never held up."""


def write(cloud: CloudSession, call: ArmRequest, path: str, read: str, permit: CallCheck) -> None:
    """Ask `permit`, and make a change of the resource at `path`, which is read with the right `read`. Raises CloudError.

    Trouble.GONE only where the resource itself is gone: Azure also answers 404 for an operation that it does not know.
    """
    permit()
    try:
        cloud.call(call)
    except CloudError as error:
        if error.reason is not Reason.GONE and not error.code.startswith("404"):
            raise
        _require_exists(cloud, ArmRequest(permission=read, path=path, required_keys=("id",)), error)
        text = f"Azure answered 404, although it is still there ({error})"
        raise CloudError(Reason.REFUSED, call.permission, text, code=error.code, retried=error.retried) from error


def _require_exists(cloud: CloudSession, look: ArmRequest, refusal: CloudError) -> None:
    """Raises CloudError where the resource is gone, which an earlier try of what met `refusal` may have done."""
    try:
        cloud.call(look)
    except CloudError as error:
        error.retried = refusal.retried
        raise


def was_already_written(make: Callable[[], None], seen: Callable[[], bool]) -> bool:
    """Whether the change was made by an earlier try, whose reply was lost, and `make` was refused for just that; `seen` looks for it.

    Raises the CloudError of `make` where it was not.
    """
    try:
        make()
    except CloudError as error:
        if error.reason in {Reason.GONE, Reason.UNREACHABLE} or not (error.reason is Reason.REFUSED or error.retried):
            raise
        if not read_after_write(seen):
            raise
        return True
    return False


def read_after_write(look: Callable[[], T]) -> T:
    """What `look` finds after a change was made. Raises CloudError, as Trouble.PARTIAL whatever failed: something was changed already."""
    try:
        return look()
    except CloudError as error:
        text = f"it was changed, but what became of it could not be looked at: {error}"
        raise error.reworded(text, Reason.PARTIAL) from error


def require_settled(state: object, permission: str) -> None:
    """Raises CloudError in a state in between: what is taken back then would be refused, or be undone by what is under way."""
    if state in CHANGING_STATES:
        raise CloudError(Reason.REFUSED, permission, f"it is still {state}: {RUN_AGAIN_LATER}")


def with_retry_advice(undo: Callable[[], T]) -> T:
    """What `undo` gives. Raises its CloudError, with what to do about it where Azure is at work on the resource (409)."""
    try:
        return undo()
    except CloudError as error:
        if not error.code.startswith("409"):
            raise
        raise error.reworded(f"{message_without_operation(error)}; {RUN_AGAIN_LATER}") from error


def message_without_operation(error: CloudError) -> str:
    """What went wrong, without the operation before it."""
    return str(error).removeprefix(f"{error.operation}: ")


def chosen_settings(body: Mapping[str, Any]) -> Json:
    """What people chose about an endpoint or deployment: the same before and after an operation that changes none of it."""
    found = writable_body(body)
    free = found["properties"].get("properties")
    chosen = {k: v for k, v in free.items() if k.lower() != LAST_OPERATION_PROPERTY} if isinstance(free, dict) else free
    return {**found, "tags": found.get("tags") or {}, "properties": {**found["properties"], "properties": chosen or {}}}


def writable_body(body: Mapping[str, Any]) -> Json:
    """What of an endpoint or deployment, as it was read, can be written by PUT: all but what Azure fills in itself."""
    kept = {key: body[key] for key in ("location", "kind", "tags", "sku") if body.get(key) is not None}
    properties = {key: value for key, value in body["properties"].items() if key not in READ_ONLY_PROPERTIES}
    identity = body.get("identity")
    return {**kept, "properties": properties} | ({"identity": _identity_to_write(identity)} if identity else {})


def _identity_to_write(given: Mapping[str, Any]) -> Json:
    """Identities by type and name; their object ids are Azure's to give."""
    users = given.get("userAssignedIdentities")
    return {"type": given["type"]} | ({"userAssignedIdentities": {id_: {} for id_ in users}} if users else {})
