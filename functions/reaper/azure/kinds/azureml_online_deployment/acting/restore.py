"""Recreating a deleted deployment from its manifest; and moving its endpoint's traffic away from it before, and back.

https://learn.microsoft.com/rest/api/azureml/online-deployments/create-or-update
Traffic is changed by PUT of the whole endpoint, for which Azure documents no condition such as If-Match. So what is sent was read just before,
and if another change is in progress, Azure refuses ours: https://learn.microsoft.com/rest/api/azureml/online-endpoints/create-or-update
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from reaper.acting.contract import HalfDone, Interrupted, Manifest, PutBackResult, UndoResult
from reaper.azure import changes as acting
from reaper.azure.changes import RUN_AGAIN_LATER, is_refused_for_now, require_settled, write
from reaper.azure.kinds.azureml_online_deployment import BROKEN_STATES, CHANGING_STATES, details, listing, status_text
from reaper.azure.kinds.azureml_online_deployment.details import DeploymentDetails, chosen_settings, writable_body
from reaper.azure.kinds.azureml_online_deployment.listing import READ_ENDPOINTS
from reaper.azure.requests import ArmChange, Json, latest_known, parse_time
from reaper.errors import ActionWithdrawn, CloudError, Reason
from reaper.model import Resource, SideChange

if TYPE_CHECKING:
    from reaper.azure.session import CloudSession


WRITE_PERMISSION = f"{listing.DEPLOYMENT_ROOT}/write"
TRAFFIC_PERMISSION = f"{listing.ENDPOINT_ROOT}/write"
MAX_READS, PAUSE_S = 12, 5.0
"""How often, and every how many seconds, an endpoint is read until its new traffic is in place."""
MAX_PUT_BACK_TRIES = 4
"""How many tries there are to put traffic back: an action has two minutes in all."""
OWN_CHANGE_TAKES = timedelta(minutes=15)
"""How long after the beginning of an action its own change may be noted on the endpoint."""
SHARE = "traffic"
"""The side change of a delete: the percentage of its endpoint's details."""


def restore_deployment(cloud: CloudSession, manifest: Manifest) -> UndoResult:
    """Create it, or go on if it exists. Raises CloudError, and changes nothing, if the existing one isn't the reaper's."""
    recorded, recorded_endpoint = manifest.undo_state["deployment"], manifest.undo_state["endpoint"]
    endpoint = listing.read_endpoint(cloud, listing.endpoint_id(manifest.id))
    before, now = acting.endpoint_identity(recorded_endpoint), acting.endpoint_identity(endpoint)
    acting.require_same(before, now, READ_ENDPOINTS, "its endpoint")
    percent = details.traffic_percent(recorded_endpoint, recorded["name"]) or 0
    row = cloud.find(listing.deployment_request(manifest.id))
    if row is None or (_is_own_creation(row, manifest) and provisioning_state(row) in BROKEN_STATES):
        return _start_creation(cloud, manifest.id, recorded, percent)
    if provisioning_state(row) != "Succeeded":
        return _result_if_unready(provisioning_state(row), recorded["name"], percent)
    return _restore_share(cloud, endpoint, Share(endpoint_id=endpoint["id"], deployment_name=recorded["name"], percent=percent))


def is_recreated(row: Json, manifest: Manifest, *keys: str) -> bool:
    """Whether it was created after the manifest, with the manifest's values of `keys`: as a restore creates it.

    That is all that can be known, since Azure doesn't record who wrote what.
    """
    recorded, created = manifest.undo_state["deployment"], _created_at(row)
    return (
        created is not None
        and created > manifest.at
        and all(chosen_settings(row).get(key) == chosen_settings(recorded).get(key) for key in keys)
    )


def _start_creation(cloud: CloudSession, deployment_id: str, recorded: Json, percent: int) -> UndoResult:
    change = ArmChange(permission=WRITE_PERMISSION, path=deployment_id, body=writable_body(recorded), method="PUT")
    write(cloud, change, listing.endpoint_request(listing.endpoint_id(deployment_id)))
    instances = recorded["sku"]["capacity"]
    missing = (_waiting_sentence("it isn't ready yet", percent), *_identity_warning(recorded))
    because = f"recreating it has begun, with its settings, its tags and {instances} instances"
    return UndoResult(because=because, not_restored=missing, run_again=True)


def _is_own_creation(row: Json, manifest: Manifest) -> bool:
    """Whether an earlier restore began to create it. If that failed, for example for lack of quota, it is written once more.

    Raises CloudError unless it is that one, or the one that was to be deleted and wasn't: its creation time is in the manifest.
    """
    if is_recreated(row, manifest, "properties", "sku", "tags"):
        return True
    recorded = manifest.undo_state["deployment"]
    if _created_at(recorded) is None or _created_at(recorded) != _created_at(row):
        text = f"a different deployment {recorded['name']} exists now; the reaper left it alone"
        raise CloudError(Reason.REFUSED, WRITE_PERMISSION, text)
    if chosen_settings(row)["properties"] != chosen_settings(recorded)["properties"]:
        text = "it was never deleted, and its properties have changed since; the reaper left it alone"
        raise CloudError(Reason.REFUSED, WRITE_PERMISSION, text)
    return False


def _created_at(row: Json) -> datetime | None:
    return parse_time(acting.deployment_identity(row)[acting.CREATED_KEY])


def _result_if_unready(state: str, name: str, percent: int) -> UndoResult:
    if state in CHANGING_STATES:
        waiting = _waiting_sentence(f"it is still {state}", percent)
        return UndoResult(because="it exists", not_restored=(waiting,), run_again=True)
    require_settled(state, WRITE_PERMISSION)
    text = f"a deployment {name} exists, but its state is {state}: run it again when it is gone"
    raise CloudError(Reason.REFUSED, WRITE_PERMISSION, text)


def _restore_share(cloud: CloudSession, endpoint: Json, share: Share) -> UndoResult:
    """It exists and is ready. Its share is restored unless another deployment has it by now."""
    percent = share.percent
    if not percent or details.traffic_percent(endpoint, share.deployment_name) == percent:
        return UndoResult(because=f"it exists, with {percent}% of the traffic")
    if others := details.other_shares(endpoint, share.deployment_name):
        now_to = f"its {percent}% of the traffic now goes to {', '.join(sorted(others))}"
        return UndoResult(because="it exists", not_restored=(now_to,))
    if (state := provisioning_state(endpoint)) != "Succeeded":
        waiting = _waiting_sentence(f"its endpoint is still {state}", percent)
        return UndoResult(because="it exists", not_restored=(waiting,), run_again=True)
    try:
        set_traffic(cloud, listing.read_endpoint(cloud, share.endpoint_id), share)
    except CloudError as error:
        if error.reason is Reason.GONE:
            raise
        failed = f"its {percent}% of the traffic couldn't be restored: {error}"
        return UndoResult(because="it exists", not_restored=(failed,), run_again=True)
    return UndoResult(because=f"it exists, and gets {percent}% of the traffic again")


def _waiting_sentence(because: str, percent: int) -> str:
    return f"{because}: {RUN_AGAIN_LATER}{f', which restores its traffic ({percent}%)' if percent else ''}"


def _identity_warning(recorded: Json) -> tuple[str, ...]:
    if "systemassigned" not in str((recorded.get("identity") or {}).get("type")).lower():
        return ()
    return ("its system-assigned identity is a new one: recreate the role assignments of the old one",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The percentage of its endpoint's traffic that one deployment gets."""

    endpoint_id: str
    deployment_name: str
    percent: int


def set_traffic(cloud: CloudSession, endpoint: Json, share: Share) -> None:
    """Begin to set the share on the endpoint, which was read just before. Raises CloudError."""
    body = writable_body(endpoint)
    shares = details.with_traffic_percent(endpoint, share.deployment_name, share.percent)
    body["properties"] = {**body["properties"], details.TRAFFIC_KEY: shares}
    change = ArmChange(permission=TRAFFIC_PERMISSION, path=share.endpoint_id, body=body, method="PUT")
    write(cloud, change, listing.endpoint_request(share.endpoint_id))


def wait_until_settled(cloud: CloudSession, endpoint_id: str) -> None:
    """Wait up to a minute until the endpoint's new traffic is in place: Azure deletes nothing that gets traffic. Raises CloudError."""
    state = ""
    for reads in range(MAX_READS):
        if reads:
            cloud.clients.pause(PAUSE_S)
        state = provisioning_state(listing.read_endpoint(cloud, endpoint_id))
        if state == "Succeeded":
            return
        if state not in CHANGING_STATES:
            break
    raise CloudError(Reason.REFUSED, TRAFFIC_PERMISSION, f"its endpoint's state is {state}, so it wasn't deleted")


def without_own_change(before: Resource, now: Resource) -> Resource:
    """The deployment as it was before the action set its share to 0%. Raises ActionWithdrawn if that isn't how it is."""
    details: DeploymentDetails = now.details
    if details.traffic_percent != 0:
        raise ActionWithdrawn("its share of its endpoint's traffic changed a moment ago")
    state = before.details.endpoint_state if details.endpoint_state == "Succeeded" else details.endpoint_state
    details = replace(details, traffic_percent=before.details.traffic_percent, endpoint_state=state)
    return replace(now, details=details, status=status_text(details), changed=before.changed)


def put_back(cloud: CloudSession, resource: Resource, interrupted: Interrupted) -> PutBackResult:
    """Settle an interrupted delete: `ActionFunctions.put_back`. Raises CloudError if it can't be known now how it ended."""
    change = next((change for change in interrupted.changes if change.what == SHARE), None)
    if change is None:
        return PutBackResult(state=HalfDone.UNCHANGED, because="nothing but its main call changes anything")
    tries, may_be_back, above = 0, False, listing.endpoint_id(resource.id)
    while True:
        row = cloud.find(listing.deployment_request(resource.id))
        if row is None:
            return PutBackResult(state=HalfDone.DONE, because="it is deleted")
        endpoint = listing.read_endpoint(cloud, above)
        if settled := _settled(row, endpoint, interrupted, change):
            return _put_back_result(change) if may_be_back and settled.state is HalfDone.UNCHANGED else settled
        share = Share(endpoint_id=above, deployment_name=row["name"], percent=change.before)
        refusal = _refused_for_now(cloud, endpoint, share)
        if refusal is None:
            return _put_back_result(change)
        tries, may_be_back = tries + 1, may_be_back or refusal.may_have_been_made
        if tries == MAX_PUT_BACK_TRIES:
            raise refusal
        cloud.clients.pause(PAUSE_S)


def _refused_for_now(cloud: CloudSession, endpoint: Json, share: Share) -> CloudError | None:
    """Begin to put the share back. Returns the error if that must be tried again: Azure is still at work, or the call may have worked although
    it failed; None if it has begun. Raises any other CloudError.
    """
    state = provisioning_state(endpoint)
    if state in CHANGING_STATES:
        return CloudError(Reason.REFUSED, TRAFFIC_PERMISSION, f"its endpoint is still {state}")
    try:
        set_traffic(cloud, endpoint, share)
    except CloudError as error:
        if not (error.may_have_been_made or is_refused_for_now(error)):
            raise
        return error
    return None


def _settled(row: Json, endpoint: Json, interrupted: Interrupted, change: SideChange) -> PutBackResult | None:
    """How the action is settled; None if its traffic is to be put back, or may yet change. Raises CloudError if it can't be read."""
    if interrupted.created is None or _created_at(row) != interrupted.created:
        return PutBackResult(state=HalfDone.LEFT, because="it may be another deployment by now, so its traffic stays as it is")
    if provisioning_state(row) == "Deleting":
        return PutBackResult(state=HalfDone.DONE, because="it is being deleted")
    percent = details.traffic_percent(endpoint, row["name"])
    if percent is None:
        raise CloudError(Reason.UNREADABLE, READ_ENDPOINTS, "its share of its endpoint's traffic can't be read")
    if percent == change.before:
        if provisioning_state(endpoint) in CHANGING_STATES:
            return None  # the action's own call may only be about to show
        return PutBackResult(state=HalfDone.UNCHANGED, because=f"it gets {percent}% of its endpoint's traffic, as before")
    return _left(row, endpoint, interrupted.begun_at, change)


def _left(row: Json, endpoint: Json, begun_at: datetime, change: SideChange) -> PutBackResult | None:
    """LEFT if anything shows that its traffic was changed after the action, or may have been."""
    because = None
    percent = details.traffic_percent(endpoint, row["name"])
    changed_at = latest_known(*(parse_time((body.get("systemData") or {}).get("lastModifiedAt")) for body in (row, endpoint)))
    if others := details.other_shares(endpoint, row["name"]):
        because = f"its {change.before}% of the traffic goes to {', '.join(sorted(others))} by now, so it stays as it is"
    elif percent != change.ours:
        because = f"its traffic has been set to {percent}% since, so it stays as it is"
    elif changed_at and changed_at > begun_at + OWN_CHANGE_TAKES:
        when = f"{changed_at:%Y-%m-%d %H:%M} UTC"
        because = f"it or its endpoint was changed since, on {when}, so its traffic stays at {percent}% ({change.before}% before)"
    return PutBackResult(state=HalfDone.LEFT, because=because) if because else None


def _put_back_result(change: SideChange) -> PutBackResult:
    because = f"its traffic was at 0%, and setting it back to {change.before}% has begun"
    return PutBackResult(state=HalfDone.PUT_BACK, because=because)


def provisioning_state(body: Json) -> str:
    """The state of an endpoint or deployment."""
    return str(body["properties"].get("provisioningState") or "missing")
