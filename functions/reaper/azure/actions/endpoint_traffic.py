"""Moving an endpoint's traffic away from a deployment that is to go, and back.

Traffic is changed by PUT of the whole endpoint, for which Azure documents no condition such as If-Match. So the endpoint is read just
before, and a change that somebody else has under way makes Azure refuse ours:
https://learn.microsoft.com/rest/api/azureml/online-endpoints/create-or-update
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from reaper.actions.contract import Permit
from reaper.azure import deployments, traffic
from reaper.azure.deployments import ENDPOINTS
from reaper.azure.kinds.azureml_online_deployment import UNSETTLED
from reaper.azure.request import Call, Json
from reaper.azure.writes import afterwards, always, change, said, writable
from reaper.errors import CloudError, Trouble

if TYPE_CHECKING:
    from reaper.azure.session import Cloud

WRITE = f"{deployments.UPPER_ROOT}/write"
LOOKS, PAUSE = 12, 5.0
"""How often, and every how many seconds, an endpoint is looked at until it has taken its new traffic in."""
BACK = 4
"""How often it is tried to put traffic back: an act has two minutes in all."""
SURELY_NOT = frozenset({Trouble.DENIED, Trouble.THROTTLED, Trouble.GONE})


def share_out(
    cloud: Cloud, id_: str, name: str, percent: int, permit: Permit, fits: Callable[[Json], None] = lambda endpoint: None
) -> None:
    """Begin to give the deployment `name` this share. `fits` raises CloudError where the endpoint, read just before, must be left alone."""
    endpoint = deployments.endpoint(cloud, id_)
    fits(endpoint)
    body = writable(endpoint)
    body["properties"] = {**body["properties"], traffic.TRAFFIC: traffic.with_share(endpoint, name, percent)}
    change(cloud, Call(permission=WRITE, path=id_, body=body, method="PUT"), id_, ENDPOINTS, permit)


def silence(cloud: Cloud, id_: str, name: str, fits: Callable[[Json], None], permit: Permit) -> None:
    """Begin to set its share to 0 %. Raises CloudError, as Trouble.PARTIAL where its traffic may be gone all the same."""
    try:
        share_out(cloud, id_, name, 0, permit, fits)
    except CloudError as error:
        # A try whose reply was lost may have begun what this one was refused for.
        surely_not = error.trouble in SURELY_NOT and not error.retried
        if surely_not or traffic.share(afterwards(lambda: deployments.endpoint(cloud, id_)), name) != 0:
            raise


def settle(cloud: Cloud, id_: str) -> None:
    """Wait until the endpoint has taken its traffic in, a minute at most: Azure deletes nothing that gets traffic. Raises CloudError."""
    found = ""
    for again in range(LOOKS):
        if again:
            cloud.session.pause(PAUSE)
        found = state(afterwards(lambda: deployments.endpoint(cloud, id_)))
        if found == "Succeeded":
            return
        if found not in UNSETTLED:
            break
    raise CloudError(Trouble.PARTIAL, WRITE, f"its endpoint's state is {found}, so it was not deleted")


def put_back(cloud: Cloud, id_: str, share: int) -> str:
    """Begin to give a deployment that was not deleted its share again, if that can be; says what became of it. Raises nothing."""
    above, name = deployments.endpoint_id(id_), id_.rpartition("/")[2]
    try:
        if state(deployments.one(cloud, id_)) == "Deleting":
            return "where it stays, because it is being deleted"
        return next(filter(None, (_tried(cloud, above, name, share, bool(again)) for again in range(BACK))), "") or (
            "and its endpoint is still at work on that: undoing puts the traffic back"
        )
    except CloudError as error:
        if error.trouble is Trouble.GONE:
            return "where it stays, because it is gone"
        return f"which could not be taken back now ({said(error)}): undoing puts the traffic back"


def elsewhere(endpoint: Json, name: str) -> dict[str, Any]:
    """The shares of all others that have one."""
    return {key: value for key, value in (traffic.shares(endpoint) or {}).items() if key.lower() != name.lower() and value}


def state(body: Json) -> str:
    """The state of an endpoint or deployment."""
    return str(body["properties"].get("provisioningState") or "missing")


def _tried(cloud: Cloud, above: str, name: str, share: int, again: bool) -> str:
    """One try; empty while the endpoint is at work."""
    if again:
        cloud.session.pause(PAUSE)
    endpoint = deployments.endpoint(cloud, above)
    if others := elsewhere(endpoint, name):
        return f"and by now it goes to {', '.join(sorted(others))}"
    if state(endpoint) in UNSETTLED:
        return ""
    share_out(cloud, above, name, share, always)
    return f"and setting it back to {share} % has begun"
