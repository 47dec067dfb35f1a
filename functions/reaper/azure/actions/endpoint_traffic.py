"""Moving an endpoint's traffic away from a deployment that is to be deleted, and back.

Traffic is changed by PUT of the whole endpoint, for which Azure documents no condition such as If-Match. So the endpoint is read just
before, and if another change is in progress, Azure refuses ours:
https://learn.microsoft.com/rest/api/azureml/online-endpoints/create-or-update
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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
MAX_READS, PAUSE_S = 12, 5.0
"""How often, and every how many seconds, an endpoint is read until its new traffic is in place."""
MAX_RESTORE_TRIES = 4
"""How many tries there are to restore traffic: an action has two minutes in all."""
NOT_PERFORMED = frozenset({Reason.DENIED, Reason.THROTTLED, Reason.GONE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The percentage of its endpoint's traffic that one deployment gets."""

    endpoint_id: str
    deployment_name: str
    percent: int


def always_fits(endpoint: Json) -> None:
    """The check of a change that fits any endpoint."""


def set_traffic(cloud: CloudSession, share: Share, permit: CallCheck, require_fit: Callable[[Json], None] = always_fits) -> None:
    """Begin to set the share. `require_fit` raises CloudError if the endpoint, read just before, must be left alone."""
    endpoint = deployments.read_endpoint(cloud, share.endpoint_id)
    require_fit(endpoint)
    body = writable_body(endpoint)
    shares = traffic.with_traffic_percent(endpoint, share.deployment_name, share.percent)
    body["properties"] = {**body["properties"], traffic.TRAFFIC_KEY: shares}
    request = ArmRequest(permission=WRITE_PERMISSION, path=share.endpoint_id, body=body, method="PUT")
    write(cloud, request, share.endpoint_id, READ_ENDPOINTS, permit)


def stop_traffic(
    cloud: CloudSession, endpoint_id: str, name: str, require_fit: Callable[[Json], None], permit: CallCheck
) -> None:
    """Begin to set the share of the deployment `name` to 0%. Raises CloudError, with Reason.PARTIAL if it may be 0% all the same."""
    try:
        set_traffic(cloud, Share(endpoint_id=endpoint_id, deployment_name=name, percent=0), permit, require_fit)
    except CloudError as error:
        # If an earlier reply was lost, a refusal can mean that the change is already in progress.
        surely_not = error.reason in NOT_PERFORMED and not error.retried
        if surely_not or _traffic_after_write(cloud, endpoint_id, name) != 0:
            raise


def _traffic_after_write(cloud: CloudSession, endpoint_id: str, name: str) -> int | None:
    endpoint = read_after_write(lambda: deployments.read_endpoint(cloud, endpoint_id))
    return traffic.traffic_percent(endpoint, name)


def wait_until_settled(cloud: CloudSession, endpoint_id: str) -> None:
    """Wait up to a minute until the endpoint's new traffic is in place: Azure deletes nothing that gets traffic. Raises CloudError."""
    state = ""
    for reads in range(MAX_READS):
        if reads:
            cloud.clients.pause(PAUSE_S)
        state = provisioning_state(read_after_write(lambda: deployments.read_endpoint(cloud, endpoint_id)))
        if state == "Succeeded":
            return
        if state not in CHANGING_STATES:
            break
    raise CloudError(Reason.PARTIAL, WRITE_PERMISSION, f"its endpoint's state is {state}, so it wasn't deleted")


def restore_traffic(cloud: CloudSession, deployment_id: str, percent: int) -> str:
    """Begin to restore the share of a deployment that wasn't deleted, if possible. Returns the result as a clause; raises nothing."""
    name = deployment_id.rpartition("/")[2]
    share = Share(endpoint_id=deployments.endpoint_id(deployment_id), deployment_name=name, percent=percent)
    try:
        if provisioning_state(deployments.read_deployment(cloud, deployment_id)) == "Deleting":
            return "where it stays, because it is being deleted"
        return _restore_share_with_tries(cloud, share)
    except CloudError as error:
        if error.reason is Reason.GONE:
            return "where it stays, because it is gone"
        return f"which couldn't be reverted now ({message_without_operation(error)}): undo restores the traffic"


def _restore_share_with_tries(cloud: CloudSession, share: Share) -> str:
    """Sets the share as soon as the endpoint is settled. Returns the result as a clause; raises CloudError."""
    for tries in range(MAX_RESTORE_TRIES):
        if tries:
            cloud.clients.pause(PAUSE_S)
        endpoint = deployments.read_endpoint(cloud, share.endpoint_id)
        if others := other_shares(endpoint, share.deployment_name):
            return f"and by now it goes to {', '.join(sorted(others))}"
        if provisioning_state(endpoint) not in CHANGING_STATES:
            set_traffic(cloud, share, always_permit)
            return f"and setting it back to {share.percent}% has begun"
    return "and the endpoint is still updating; undo restores the traffic"


def other_shares(endpoint: Json, name: str) -> dict[str, Any]:
    """The shares of all other deployments that have one."""
    shares = traffic.traffic_by_name(endpoint) or {}
    return {other: percent for other, percent in shares.items() if other.lower() != name.lower() and percent}


def provisioning_state(body: Json) -> str:
    """The state of an endpoint or deployment."""
    return str(body["properties"].get("provisioningState") or "missing")
