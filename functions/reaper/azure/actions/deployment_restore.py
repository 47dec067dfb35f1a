"""Bringing a deleted deployment back as its manifest says, and, once it is there, its traffic.

https://learn.microsoft.com/rest/api/azureml/online-deployments/create-or-update
"""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

from reaper.actions.contract import Manifest, Undone
from reaper.azure import deployments, traffic
from reaper.azure.actions import identity
from reaper.azure.actions.endpoint_traffic import elsewhere, share_out, state
from reaper.azure.arm_values import moment
from reaper.azure.deployments import ENDPOINTS
from reaper.azure.kinds.azureml_online_deployment import BROKEN, UNSETTLED
from reaper.azure.request import Call, Json
from reaper.azure.writes import LATER, always, change, ready, settings, writable
from reaper.errors import CloudError, Trouble

if TYPE_CHECKING:
    from reaper.azure.session import Cloud

WRITE = f"{deployments.ROOT}/write"


def restore(cloud: Cloud, manifest: Manifest) -> Undone:
    """Create it, or go on where it is there. Raises CloudError, and changes nothing, where what is there is none of ours.

    What an earlier action had changed before the delete, such as its instances or its traffic, has a manifest of its own, which is named.
    """
    undone = _back(cloud, manifest)
    address = manifest.record.get("previous")
    if undone.again or not address:
        return undone
    command = shlex.join(["reaper", "restore", manifest.id, "--manifest", address])
    earlier = f"An earlier action had changed it before: `{command}` takes that back, too."
    return replace(undone, lost=(*undone.lost, earlier))


def remade(row: Json, manifest: Manifest, *keys: str) -> bool:
    """Whether it was made after the manifest, with just what that has of `keys`: as a restore creates it.

    That is what is known of it, since Azure keeps no note of who wrote what.
    """
    old, after = manifest.record["deployment"], moment(identity.of_deployment(row)[identity.MADE])
    return after is not None and after > manifest.at and all(settings(row).get(key) == settings(old).get(key) for key in keys)


def _back(cloud: Cloud, manifest: Manifest) -> Undone:
    old, above = manifest.record["deployment"], deployments.endpoint_id(manifest.id)
    endpoint = deployments.endpoint(cloud, above)
    identity.check(identity.of_endpoint(manifest.record["endpoint"]), identity.of_endpoint(endpoint), ENDPOINTS, "its endpoint")
    share = traffic.share(manifest.record["endpoint"], old["name"]) or 0
    try:
        row = deployments.one(cloud, manifest.id)
    except CloudError as error:
        if error.trouble is not Trouble.GONE:
            raise
        return _created(cloud, manifest.id, old, share)
    if _known(row, manifest) and state(row) in BROKEN:
        return _created(cloud, manifest.id, old, share)
    if state(row) != "Succeeded":
        return _unready(state(row), old["name"], share)
    return _with_traffic(cloud, endpoint, old["name"], share)


def _created(cloud: Cloud, id_: str, old: Json, share: int) -> Undone:
    call = Call(permission=WRITE, path=id_, body=writable(old), method="PUT")
    change(cloud, call, deployments.endpoint_id(id_), ENDPOINTS, always)
    because = f"creating it again has begun, with its settings, its tags and {old['sku']['capacity']} instances"
    return Undone(because=because, lost=(_waiting("it is not there yet", share), *_new_identity(old)), again=True)


def _known(row: Json, manifest: Manifest) -> bool:
    """Whether it is the one that an earlier restore began to create. One that broke, as for want of quota, is written once more.

    Raises CloudError unless it is that one, or the one that was to be deleted and was not: that was made when the manifest says.
    """
    if remade(row, manifest, "properties", "sku", "tags"):
        return True
    old = manifest.record["deployment"]
    before, after = (moment(identity.of_deployment(body)[identity.MADE]) for body in (old, row))
    if before is None or before != after:
        raise CloudError(Trouble.REFUSED, WRITE, f"another deployment {old['name']} is there now: left as it is")
    if settings(row)["properties"] != settings(old)["properties"]:
        raise CloudError(Trouble.REFUSED, WRITE, "it was never deleted, and its properties changed since: left as it is")
    return False


def _unready(found: str, name: str, share: int) -> Undone:
    if found in UNSETTLED:
        return Undone(because="it is there", lost=(_waiting(f"it is still {found}", share),), again=True)
    ready(found, WRITE)
    raise CloudError(
        Trouble.REFUSED, WRITE, f"a deployment {name} is there, but its state is {found}: run it again when it is gone"
    )


def _with_traffic(cloud: Cloud, endpoint: Json, name: str, share: int) -> Undone:
    """It is there and ready. Its share comes back when nobody else has got it meanwhile."""
    if not share or traffic.share(endpoint, name) == share:
        return Undone(because=f"it is there, with {share} % of the traffic")
    if others := elsewhere(endpoint, name):
        return Undone(because="it is there", lost=(f"its {share} % of the traffic now goes to {', '.join(sorted(others))}",))
    if (found := state(endpoint)) != "Succeeded":
        return Undone(because="it is there", lost=(_waiting(f"its endpoint is still {found}", share),), again=True)
    try:
        share_out(cloud, endpoint["id"], name, share, always)
    except CloudError as error:
        if error.trouble is Trouble.GONE:
            raise
        return Undone(because="it is there", lost=(f"its {share} % of the traffic could not be put back: {error}",), again=True)
    return Undone(because=f"it is there, and gets {share} % of the traffic again")


def _waiting(why: str, share: int) -> str:
    return f"{why}: {LATER}{f', which puts its traffic ({share} %) back' if share else ''}"


def _new_identity(old: Json) -> tuple[str, ...]:
    if "systemassigned" not in str((old.get("identity") or {}).get("type")).lower():
        return ()
    return ("its system-assigned identity is a new one: the old one's role assignments must be made again",)
