"""Bringing a deleted deployment back as its manifest says, and, once it is there, its traffic.

https://learn.microsoft.com/rest/api/azureml/online-deployments/create-or-update
"""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

from reaper.actions.contract import Manifest, UndoResult
from reaper.azure import deployments, traffic
from reaper.azure.actions import identity
from reaper.azure.actions.endpoint_traffic import other_shares, provisioning_state, set_traffic
from reaper.azure.arm_values import parse_time
from reaper.azure.deployments import READ_ENDPOINTS
from reaper.azure.kinds.azureml_online_deployment import BROKEN_STATES, CHANGING_STATES
from reaper.azure.request import ArmRequest, Json
from reaper.azure.writes import RUN_AGAIN_LATER, always_permit, chosen_settings, require_settled, writable_body, write
from reaper.errors import CloudError, Reason

if TYPE_CHECKING:
    from reaper.azure.session import CloudSession

WRITE_PERMISSION = f"{deployments.DEPLOYMENT_ROOT}/write"


def restore_deployment(cloud: CloudSession, manifest: Manifest) -> UndoResult:
    """Create it, or go on where it is there. Raises CloudError, and changes nothing, where what is there is none of ours.

    What an earlier action had changed before the delete, such as its instances or its traffic, has a manifest of its own, which is named.
    """
    undone = _restore_step(cloud, manifest)
    address = manifest.undo_state.get("previous")
    if undone.run_again or not address:
        return undone
    command = shlex.join(["reaper", "restore", manifest.id, "--manifest", address])
    earlier = f"An earlier action had changed it before: `{command}` takes that back, too."
    return replace(undone, not_restored=(*undone.not_restored, earlier))


def is_recreated(row: Json, manifest: Manifest, *keys: str) -> bool:
    """Whether it was made after the manifest, with just what that has of `keys`: as a restore creates it.

    That is what is known of it, since Azure keeps no note of who wrote what.
    """
    old, after = manifest.undo_state["deployment"], parse_time(identity.deployment_identity(row)[identity.CREATED_KEY])
    return (
        after is not None
        and after > manifest.at
        and all(chosen_settings(row).get(key) == chosen_settings(old).get(key) for key in keys)
    )


def _restore_step(cloud: CloudSession, manifest: Manifest) -> UndoResult:
    old, above = manifest.undo_state["deployment"], deployments.endpoint_id(manifest.id)
    endpoint = deployments.read_endpoint(cloud, above)
    identity.require_same(
        identity.endpoint_identity(manifest.undo_state["endpoint"]),
        identity.endpoint_identity(endpoint),
        READ_ENDPOINTS,
        "its endpoint",
    )
    share = traffic.traffic_percent(manifest.undo_state["endpoint"], old["name"]) or 0
    try:
        row = deployments.read_deployment(cloud, manifest.id)
    except CloudError as error:
        if error.reason is not Reason.GONE:
            raise
        return _start_creation(cloud, manifest.id, old, share)
    if _is_our_creation(row, manifest) and provisioning_state(row) in BROKEN_STATES:
        return _start_creation(cloud, manifest.id, old, share)
    if provisioning_state(row) != "Succeeded":
        return _result_if_unready(provisioning_state(row), old["name"], share)
    return _restore_share(cloud, endpoint, old["name"], share)


def _start_creation(cloud: CloudSession, id_: str, old: Json, share: int) -> UndoResult:
    call = ArmRequest(permission=WRITE_PERMISSION, path=id_, body=writable_body(old), method="PUT")
    write(cloud, call, deployments.endpoint_id(id_), READ_ENDPOINTS, always_permit)
    because = f"creating it again has begun, with its settings, its tags and {old['sku']['capacity']} instances"
    return UndoResult(
        because=because, not_restored=(_waiting_sentence("it is not there yet", share), *_identity_warning(old)), run_again=True
    )


def _is_our_creation(row: Json, manifest: Manifest) -> bool:
    """Whether it is the one that an earlier restore began to create. One that broke, as for want of quota, is written once more.

    Raises CloudError unless it is that one, or the one that was to be deleted and was not: that was made when the manifest says.
    """
    if is_recreated(row, manifest, "properties", "sku", "tags"):
        return True
    old = manifest.undo_state["deployment"]
    before, after = (parse_time(identity.deployment_identity(body)[identity.CREATED_KEY]) for body in (old, row))
    if before is None or before != after:
        raise CloudError(Reason.REFUSED, WRITE_PERMISSION, f"another deployment {old['name']} is there now: left as it is")
    if chosen_settings(row)["properties"] != chosen_settings(old)["properties"]:
        raise CloudError(
            Reason.REFUSED, WRITE_PERMISSION, "it was never deleted, and its properties changed since: left as it is"
        )
    return False


def _result_if_unready(found: str, name: str, share: int) -> UndoResult:
    if found in CHANGING_STATES:
        return UndoResult(because="it is there", not_restored=(_waiting_sentence(f"it is still {found}", share),), run_again=True)
    require_settled(found, WRITE_PERMISSION)
    raise CloudError(
        Reason.REFUSED, WRITE_PERMISSION, f"a deployment {name} is there, but its state is {found}: run it again when it is gone"
    )


def _restore_share(cloud: CloudSession, endpoint: Json, name: str, share: int) -> UndoResult:
    """It is there and ready. Its share comes back when nobody else has got it meanwhile."""
    if not share or traffic.traffic_percent(endpoint, name) == share:
        return UndoResult(because=f"it is there, with {share} % of the traffic")
    if others := other_shares(endpoint, name):
        return UndoResult(
            because="it is there", not_restored=(f"its {share} % of the traffic now goes to {', '.join(sorted(others))}",)
        )
    if (found := provisioning_state(endpoint)) != "Succeeded":
        return UndoResult(
            because="it is there", not_restored=(_waiting_sentence(f"its endpoint is still {found}", share),), run_again=True
        )
    try:
        set_traffic(cloud, endpoint["id"], name, share, always_permit)
    except CloudError as error:
        if error.reason is Reason.GONE:
            raise
        return UndoResult(
            because="it is there", not_restored=(f"its {share} % of the traffic could not be put back: {error}",), run_again=True
        )
    return UndoResult(because=f"it is there, and gets {share} % of the traffic again")


def _waiting_sentence(why: str, share: int) -> str:
    return f"{why}: {RUN_AGAIN_LATER}{f', which puts its traffic ({share} %) back' if share else ''}"


def _identity_warning(old: Json) -> tuple[str, ...]:
    if "systemassigned" not in str((old.get("identity") or {}).get("type")).lower():
        return ()
    return ("its system-assigned identity is a new one: the old one's role assignments must be made again",)
