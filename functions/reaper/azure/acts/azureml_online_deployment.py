"""Online deployments: down to one instance, deleted with all that is needed to create them again, and back.

https://learn.microsoft.com/rest/api/azureml/online-deployments; traffic is changed by PUT of the whole endpoint:
https://learn.microsoft.com/rest/api/azureml/online-endpoints/create-or-update
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from reaper.acts import Acts, Manifest, Record, Undone
from reaper.azure import autoscale, deployments, traffic
from reaper.azure.call import UNREADABLE, Call, Json
from reaper.azure.change import afterwards, change, writable
from reaper.azure.count import count
from reaper.azure.deployments import DEPLOYMENTS, ENDPOINTS, Deployment
from reaper.azure.kinds import azureml_online_deployment as kind
from reaper.errors import CloudError, Trouble
from reaper.model import Move, Resource

if TYPE_CHECKING:
    from reaper.azure.cloud import Cloud

DELETE, WRITE = f"{deployments.ROOT}/delete", f"{deployments.ROOT}/write"
WRITE_ENDPOINT = f"{deployments.UPPER_ROOT}/write"
OWN = ("properties", "sku", "tags", "identity", "kind", "location")
ENDPOINT = ("id", "name", "kind", "location", "tags", "identity")
LOOKS, PAUSE = 12, 5.0
"""How often, and every how many seconds, an endpoint is looked at until it has taken its new traffic in."""


def look(cloud: Cloud, resource: Resource) -> Resource:
    """The deployment with its own, its endpoint's and its workspace's tags, its traffic and its siblings as they are now."""
    found = _known(cloud, deployments.fresh(cloud, resource.id, resource.facts["workspace"]))
    return replace(found, id=resource.id, name=resource.name)


def record(cloud: Cloud, resource: Resource, move: Move) -> Record:
    """The whole deployment and how its endpoint shares its traffic. Raises CloudError where autoscale would undo the move."""
    row, endpoint = deployments.one(cloud, resource.id), deployments.endpoint(cloud, deployments.endpoint_id(resource.id))
    if move is Move.STOP and (least := autoscale.kept(cloud, resource.id)) > 1:
        raise CloudError(Trouble.REFUSED, WRITE, f"Azure Monitor's autoscale keeps at least {least} instances, and would undo it")
    shares = {key: endpoint["properties"].get(key) for key in (traffic.TRAFFIC, traffic.MIRROR, "authMode")}
    return {"deployment": row, "endpoint": {key: endpoint.get(key) for key in ENDPOINT} | shares}


def carry(cloud: Cloud, resource: Resource, manifest: Manifest) -> str:
    """Start to scale it in, or to delete it. Raises CloudError, and does nothing, where it is not as recorded any more."""
    now = deployments.fresh(cloud, resource.id, resource.facts["workspace"])
    changed = [key for key in OWN if now.row.get(key) != manifest.record["deployment"].get(key)]
    if changed:
        raise CloudError(Trouble.REFUSED, kind.NAME, f"its {', '.join(changed)} changed a moment ago")
    if bar := kind.able(_known(cloud, now))[manifest.move]:
        raise CloudError(Trouble.REFUSED, kind.NAME, bar.because)
    return _scale_in(cloud, now.row) if manifest.move is Move.STOP else _delete(cloud, now)


def undo(cloud: Cloud, manifest: Manifest) -> Undone:
    """As many instances as before; or the deployment itself, and once it is there, its traffic."""
    return _scale_out(cloud, manifest) if manifest.move is Move.STOP else _restore(cloud, manifest)


def _known(cloud: Cloud, one: Deployment) -> Resource:
    try:
        return kind.deployment(cloud, one)
    except UNREADABLE as error:
        raise CloudError(Trouble.GARBLED, DEPLOYMENTS, f"{one.row.get('id')} cannot be read ({error!r})") from error


def _scale_in(cloud: Cloud, row: Json) -> str:
    _resize(cloud, row, 1)
    return f"scaling it from {row['sku']['capacity']} instances to one has begun; the next sweep sees what became of it"


def _resize(cloud: Cloud, row: Json, capacity: int) -> None:
    """Tags are not sent along: as they were read they might undo one that was set just now."""
    body = {"sku": {**row["sku"], "capacity": capacity}}
    change(cloud, Call(permission=WRITE, path=row["id"], body=body, method="PATCH"), row["id"], DEPLOYMENTS)


def _scale_out(cloud: Cloud, manifest: Manifest) -> Undone:
    row, old = deployments.one(cloud, manifest.id), manifest.record["deployment"]["sku"]["capacity"]
    now = count((row.get("sku") or {}).get("capacity"))
    if now is None:
        raise CloudError(Trouble.GARBLED, DEPLOYMENTS, f"how many instances {manifest.name} runs is not known")
    if now >= old:
        return Undone(because=f"it runs {now} instances already")
    _resize(cloud, row, old)
    return Undone(because=f"scaling it back from {now} to {old} instances has begun")


def _delete(cloud: Cloud, now: Deployment) -> str:
    share = traffic.share(now.endpoint, now.row["name"])
    if share:
        _silence(cloud, now)
    try:
        change(cloud, Call(permission=DELETE, path=now.row["id"], method="DELETE"), now.row["id"], DEPLOYMENTS)
    except CloudError as error:
        # A try whose reply was lost may have begun what this one was refused for.
        if error.trouble is Trouble.REFUSED and _state(afterwards(lambda: deployments.one(cloud, now.row["id"]))) == "Deleting":
            return "it is being deleted already"
        if share and error.trouble is not Trouble.GONE:
            text = f"{error}; but its traffic was set from {share} % to 0 %, which undoing puts back"
            raise CloudError(Trouble.PARTIAL, DELETE, text, code=error.code, missing=error.missing) from error
        raise
    moved = f"its {share} % of the traffic was set to 0 %, and " if share else ""
    return f"{moved}deleting it has begun; the next sweep sees what became of it"


def _silence(cloud: Cloud, now: Deployment) -> None:
    """Its traffic to 0 %. This is waited for, a minute at most: Azure deletes nothing that gets traffic.

    Left to the next sweep, the delete would come with a manifest that knows of no traffic to bring back.
    """
    wanted = traffic.with_share(now.endpoint, now.row["name"], 0)
    _share_out(cloud, now.endpoint, wanted)
    state = ""
    for look_again in range(LOOKS):
        if look_again:
            cloud.session.pause(PAUSE)
        endpoint = afterwards(lambda: deployments.endpoint(cloud, now.endpoint["id"]))
        state = _state(endpoint)
        if state == "Succeeded":
            return _agree(endpoint, now.endpoint, wanted)
        if state not in kind.UNSETTLED:
            break
    text = (
        f"its traffic was set to 0 %, but its endpoint's state is {state}, so it was not deleted; undoing puts the traffic back"
    )
    raise CloudError(Trouble.PARTIAL, WRITE_ENDPOINT, text)


def _share_out(cloud: Cloud, endpoint: Json, wanted: Mapping[str, Any]) -> None:
    """The endpoint as it was read a moment ago, with this traffic; Azure knows no way to change the traffic alone."""
    body = writable(endpoint)
    body["properties"] = {**body["properties"], traffic.TRAFFIC: dict(wanted)}
    change(cloud, Call(permission=WRITE_ENDPOINT, path=endpoint["id"], body=body, method="PUT"), endpoint["id"], ENDPOINTS)


def _agree(after: Json, before: Json, wanted: Mapping[str, Any]) -> None:
    """Raises CloudError where the endpoint came out otherwise than meant; zeros may be left out."""
    nonzero = [{name: share for name, share in (given or {}).items() if share} for given in (traffic.shares(after), wanted)]
    if nonzero[0] != nonzero[1] or (after.get("tags") or {}) != (before.get("tags") or {}):
        text = f"its endpoint's traffic was to be {dict(wanted)}, but is {traffic.shares(after)}, or its tags changed; it was not deleted"
        raise CloudError(Trouble.PARTIAL, WRITE_ENDPOINT, text)


def _restore(cloud: Cloud, manifest: Manifest) -> Undone:
    old = manifest.record["deployment"]
    share = traffic.share({"properties": manifest.record["endpoint"]}, old["name"]) or 0
    endpoint = deployments.endpoint(cloud, deployments.endpoint_id(manifest.id))
    waiting = (f"its traffic ({share} %) is put back when run again",) if share else ()
    try:
        row = deployments.one(cloud, manifest.id)
    except CloudError as error:
        if error.trouble is not Trouble.GONE:
            raise
        call = Call(permission=WRITE, path=manifest.id, body=writable(old), method="PUT")
        change(cloud, call, endpoint["id"], ENDPOINTS)
        because = f"creating it again has begun, with its settings, its tags and {old['sku']['capacity']} instances"
        return Undone(because=because, lost=(*waiting, *_new_identity(old)))
    return _with_traffic(cloud, endpoint, row, old, share)


def _with_traffic(cloud: Cloud, endpoint: Json, row: Json, old: Json, share: int) -> Undone:
    """The deployment is there. Its share comes back when it is ready, and when nobody else has got it meanwhile."""
    state, name = _state(row), old["name"]
    if state not in {"Succeeded", *kind.UNSETTLED}:
        raise CloudError(
            Trouble.REFUSED, WRITE, f"a deployment {name} is there, but its state is {state}: run again when it is gone"
        )
    if not _same(row, old):
        raise CloudError(Trouble.REFUSED, WRITE, f"another deployment {name} is there now; it was left alone")
    if not share or traffic.share(endpoint, name) == share:
        return Undone(because=f"it is there, with {share} % of the traffic; its state is {state}")
    at_work = next(
        (f"{what} {s}" for what, s in (("it is", state), ("its endpoint is", _state(endpoint))) if s != "Succeeded"), None
    )
    if at_work:
        return Undone(because="it is there", lost=(f"{at_work}: its traffic ({share} %) is put back when run again",))
    wanted = traffic.with_share(endpoint, name, share)
    others = {key: value for key, value in wanted.items() if key != name and value}
    if others:
        return Undone(because="it is there", lost=(f"its {share} % of the traffic now goes to {', '.join(sorted(others))}",))
    _share_out(cloud, endpoint, wanted)
    return Undone(because=f"it is there, and gets {share} % of the traffic again")


def _same(row: Json, old: Json) -> bool:
    return all(row["properties"].get(key) == old["properties"].get(key) for key in ("model", "environmentId", "instanceType"))


def _new_identity(old: Json) -> tuple[str, ...]:
    if "systemassigned" not in str((old.get("identity") or {}).get("type")).lower():
        return ()
    return ("its system-assigned identity is a new one: the old one's role assignments must be made again",)


def _state(body: Json) -> str:
    return str(body["properties"].get("provisioningState") or "missing")


ACTS = Acts(look=look, record=record, carry=carry, undo=undo, undo_permissions=(WRITE, WRITE_ENDPOINT))
