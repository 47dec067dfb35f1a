"""Moving an endpoint's traffic away from a deployment that is to go, and back.

Traffic is changed by PUT of the whole endpoint, for which Azure documents no condition such as If-Match. So the endpoint is read just
before, and a change that somebody else has under way makes Azure refuse ours:
https://learn.microsoft.com/rest/api/azureml/online-endpoints/create-or-update
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from reaper.actions.contract import CallCheck
from reaper.azure import deployments, traffic
from reaper.azure.deployments import READ_ENDPOINTS
from reaper.azure.kinds.azureml_online_deployment import CHANGING_STATES
from reaper.azure.request import ArmRequest, Json
from reaper.azure.writes import always_permit, message_without_operation, read_after_write, writable_body, write
from reaper.errors import CloudError, Reason

if TYPE_CHECKING:
    from reaper.azure.session import CloudSession

WRITE_PERMISSION = f"{deployments.ENDPOINT_ROOT}/write"
MAX_LOOKS, PAUSE_S = 12, 5.0
"""How often, and every how many seconds, an endpoint is looked at until it has taken its new traffic in."""
MAX_RESTORE_TRIES = 4
"""How often it is tried to put traffic back: an act has two minutes in all."""
NOT_PERFORMED = frozenset({Reason.DENIED, Reason.THROTTLED, Reason.GONE})


def set_traffic(
    cloud: CloudSession,
    id_: str,
    name: str,
    percent: int,
    permit: CallCheck,
    require_fit: Callable[[Json], None] = lambda endpoint: None,
) -> None:
    """Begin to give the deployment `name` this share. `fits` raises CloudError where the endpoint, read just before, must be left alone."""
    endpoint = deployments.read_endpoint(cloud, id_)
    require_fit(endpoint)
    body = writable_body(endpoint)
    body["properties"] = {**body["properties"], traffic.TRAFFIC_KEY: traffic.with_traffic_percent(endpoint, name, percent)}
    write(cloud, ArmRequest(permission=WRITE_PERMISSION, path=id_, body=body, method="PUT"), id_, READ_ENDPOINTS, permit)


def stop_traffic(cloud: CloudSession, id_: str, name: str, fits: Callable[[Json], None], permit: CallCheck) -> None:
    """Begin to set its share to 0 %. Raises CloudError, as Trouble.PARTIAL where its traffic may be gone all the same."""
    try:
        set_traffic(cloud, id_, name, 0, permit, fits)
    except CloudError as error:
        # A try whose reply was lost may have begun what this one was refused for.
        surely_not = error.reason in NOT_PERFORMED and not error.retried
        if surely_not or traffic.traffic_percent(read_after_write(lambda: deployments.read_endpoint(cloud, id_)), name) != 0:
            raise


def wait_until_settled(cloud: CloudSession, id_: str) -> None:
    """Wait until the endpoint has taken its traffic in, a minute at most: Azure deletes nothing that gets traffic. Raises CloudError."""
    found = ""
    for again in range(MAX_LOOKS):
        if again:
            cloud.clients.pause(PAUSE_S)
        found = provisioning_state(read_after_write(lambda: deployments.read_endpoint(cloud, id_)))
        if found == "Succeeded":
            return
        if found not in CHANGING_STATES:
            break
    raise CloudError(Reason.PARTIAL, WRITE_PERMISSION, f"its endpoint's state is {found}, so it was not deleted")


def restore_traffic(cloud: CloudSession, id_: str, share: int) -> str:
    """Begin to give a deployment that was not deleted its share again, if that can be; says what became of it. Raises nothing."""
    above, name = deployments.endpoint_id(id_), id_.rpartition("/")[2]
    try:
        if provisioning_state(deployments.read_deployment(cloud, id_)) == "Deleting":
            return "where it stays, because it is being deleted"
        return next(
            filter(None, (_try_to_restore(cloud, above, name, share, bool(again)) for again in range(MAX_RESTORE_TRIES))), ""
        ) or ("and its endpoint is still at work on that: undoing puts the traffic back")
    except CloudError as error:
        if error.reason is Reason.GONE:
            return "where it stays, because it is gone"
        return f"which could not be taken back now ({message_without_operation(error)}): undoing puts the traffic back"


def other_shares(endpoint: Json, name: str) -> dict[str, Any]:
    """The shares of all others that have one."""
    return {
        key: value for key, value in (traffic.traffic_by_name(endpoint) or {}).items() if key.lower() != name.lower() and value
    }


def provisioning_state(body: Json) -> str:
    """The state of an endpoint or deployment."""
    return str(body["properties"].get("provisioningState") or "missing")


def _try_to_restore(cloud: CloudSession, above: str, name: str, share: int, again: bool) -> str:
    """One try; empty while the endpoint is at work."""
    if again:
        cloud.clients.pause(PAUSE_S)
    endpoint = deployments.read_endpoint(cloud, above)
    if others := other_shares(endpoint, name):
        return f"and by now it goes to {', '.join(sorted(others))}"
    if provisioning_state(endpoint) in CHANGING_STATES:
        return ""
    set_traffic(cloud, above, name, share, always_permit)
    return f"and setting it back to {share} % has begun"
