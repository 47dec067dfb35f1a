"""Recreating a deleted deployment from its manifest and, once it is ready, restoring its traffic.

https://learn.microsoft.com/rest/api/azureml/online-deployments/create-or-update
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from reaper.actions.contract import Manifest, UndoResult
from reaper.azure import deployments, traffic
from reaper.azure.actions import identity
from reaper.azure.actions.endpoint_traffic import Share, provisioning_state, set_traffic
from reaper.azure.arm_values import parse_time
from reaper.azure.deployments import READ_ENDPOINTS
from reaper.azure.kinds.azureml_online_deployment import BROKEN_STATES, CHANGING_STATES
from reaper.azure.request import ArmChange, Json
from reaper.azure.writes import RUN_AGAIN_LATER, chosen_settings, require_settled, writable_body, write
from reaper.errors import CloudError, Reason

if TYPE_CHECKING:
    from reaper.azure.session import CloudSession

WRITE_PERMISSION = f"{deployments.DEPLOYMENT_ROOT}/write"


def restore_deployment(cloud: CloudSession, manifest: Manifest) -> UndoResult:
    """Create it, or go on if it exists. Raises CloudError, and changes nothing, if the existing one isn't the reaper's."""
    recorded, recorded_endpoint = manifest.undo_state["deployment"], manifest.undo_state["endpoint"]
    endpoint = deployments.read_endpoint(cloud, deployments.endpoint_id(manifest.id))
    before, now = identity.endpoint_identity(recorded_endpoint), identity.endpoint_identity(endpoint)
    identity.require_same(before, now, READ_ENDPOINTS, "its endpoint")
    percent = traffic.traffic_percent(recorded_endpoint, recorded["name"]) or 0
    row = _read_deployment_or_none(cloud, manifest.id)
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


def _read_deployment_or_none(cloud: CloudSession, deployment_id: str) -> Json | None:
    """None if it doesn't exist. Raises CloudError."""
    try:
        return deployments.read_deployment(cloud, deployment_id)
    except CloudError as error:
        if error.reason is not Reason.GONE:
            raise
        return None


def _start_creation(cloud: CloudSession, deployment_id: str, recorded: Json, percent: int) -> UndoResult:
    change = ArmChange(permission=WRITE_PERMISSION, path=deployment_id, body=writable_body(recorded), method="PUT")
    write(cloud, change, deployments.endpoint_id(deployment_id), READ_ENDPOINTS)
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
    return parse_time(identity.deployment_identity(row)[identity.CREATED_KEY])


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
    if not percent or traffic.traffic_percent(endpoint, share.deployment_name) == percent:
        return UndoResult(because=f"it exists, with {percent}% of the traffic")
    if others := traffic.other_shares(endpoint, share.deployment_name):
        now_to = f"its {percent}% of the traffic now goes to {', '.join(sorted(others))}"
        return UndoResult(because="it exists", not_restored=(now_to,))
    if (state := provisioning_state(endpoint)) != "Succeeded":
        waiting = _waiting_sentence(f"its endpoint is still {state}", percent)
        return UndoResult(because="it exists", not_restored=(waiting,), run_again=True)
    try:
        set_traffic(cloud, deployments.read_endpoint(cloud, share.endpoint_id), share)
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
