"""Changes in Azure, made one at a time by the acts.

Resource Manager answers 200, 201, 202 or 204, often without a body, and goes on by itself:
https://learn.microsoft.com/azure/azure-resource-manager/management/async-operations
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from reaper.actions.contract import Permit
from reaper.azure.request import Call, Json
from reaper.errors import CloudError, Trouble

if TYPE_CHECKING:
    from reaper.azure.session import Cloud

T = TypeVar("T")
READ_ONLY = {"provisioningState", "scoringUri", "swaggerUri"}
"""Properties of endpoints and deployments that Azure fills in itself."""
LAST_OPERATION = "azureasyncoperationuri"
"""Among the free properties of endpoints and deployments Azure notes the operation that last changed them."""
BETWEEN = frozenset(
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
LATER = "run it again in a few minutes"


def always() -> None:
    """The permit of calls that put something back: these are never held up."""


def change(cloud: Cloud, call: Call, path: str, read: str, permit: Permit) -> None:
    """Ask `permit`, and make a change of the resource at `path`, which is read with the right `read`. Raises CloudError.

    Trouble.GONE only where the resource itself is gone: Azure also answers 404 for an operation that it does not know.
    """
    permit()
    try:
        cloud.call(call)
    except CloudError as error:
        if error.trouble is not Trouble.GONE and not error.code.startswith("404"):
            raise
        _there(cloud, Call(permission=read, path=path, has=("id",)), error)
        text = f"Azure answered 404, although it is still there ({error})"
        raise CloudError(Trouble.REFUSED, call.permission, text, code=error.code, retried=error.retried) from error


def _there(cloud: Cloud, look: Call, refusal: CloudError) -> None:
    """Raises CloudError where the resource is gone, which an earlier try of what met `refusal` may have done."""
    try:
        cloud.call(look)
    except CloudError as error:
        error.retried = refusal.retried
        raise


def made_before(make: Callable[[], None], seen: Callable[[], bool]) -> bool:
    """Whether the change was made by an earlier try, whose reply was lost, and `make` was refused for just that; `seen` looks for it.

    Raises the CloudError of `make` where it was not.
    """
    try:
        make()
    except CloudError as error:
        if error.trouble in {Trouble.GONE, Trouble.UNREACHABLE} or not (error.trouble is Trouble.REFUSED or error.retried):
            raise
        if not afterwards(seen):
            raise
        return True
    return False


def afterwards(look: Callable[[], T]) -> T:
    """What `look` finds after a change was made. Raises CloudError, as Trouble.PARTIAL whatever failed: something was changed already."""
    try:
        return look()
    except CloudError as error:
        text = f"it was changed, but what became of it could not be looked at: {error}"
        raise error.retold(text, Trouble.PARTIAL) from error


def ready(state: object, permission: str) -> None:
    """Raises CloudError in a state in between: what is taken back then would be refused, or be undone by what is under way."""
    if state in BETWEEN:
        raise CloudError(Trouble.REFUSED, permission, f"it is still {state}: {LATER}")


def patient(undo: Callable[[], T]) -> T:
    """What `undo` gives. Raises its CloudError, with what to do about it where Azure is at work on the resource (409)."""
    try:
        return undo()
    except CloudError as error:
        if not error.code.startswith("409"):
            raise
        raise error.retold(f"{said(error)}; {LATER}") from error


def said(error: CloudError) -> str:
    """What went wrong, without the operation before it."""
    return str(error).removeprefix(f"{error.operation}: ")


def settings(body: Mapping[str, Any]) -> Json:
    """What people chose about an endpoint or deployment: the same before and after an operation that changes none of it."""
    found = writable(body)
    free = found["properties"].get("properties")
    chosen = {k: v for k, v in free.items() if k.lower() != LAST_OPERATION} if isinstance(free, dict) else free
    return {**found, "tags": found.get("tags") or {}, "properties": {**found["properties"], "properties": chosen or {}}}


def writable(body: Mapping[str, Any]) -> Json:
    """What of an endpoint or deployment, as it was read, can be written by PUT: all but what Azure fills in itself."""
    kept = {key: body[key] for key in ("location", "kind", "tags", "sku") if body.get(key) is not None}
    properties = {key: value for key, value in body["properties"].items() if key not in READ_ONLY}
    identity = body.get("identity")
    return {**kept, "properties": properties} | ({"identity": _identity(identity)} if identity else {})


def _identity(given: Mapping[str, Any]) -> Json:
    """Identities by type and name; their object ids are Azure's to give."""
    users = given.get("userAssignedIdentities")
    return {"type": given["type"]} | ({"userAssignedIdentities": {id_: {} for id_ in users}} if users else {})
