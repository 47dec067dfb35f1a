"""Online deployments: down to one instance, deleted with all that is needed to create them again, and back.

https://learn.microsoft.com/rest/api/azureml/online-deployments; traffic is changed by PUT of the whole endpoint:
https://learn.microsoft.com/rest/api/azureml/online-endpoints/create-or-update
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from reaper.actions.contract import Acts, Made, Manifest, Permit, Record, Undone
from reaper.azure import assets, deployments, traffic
from reaper.azure.actions import deployment_restore, endpoint_traffic, identity
from reaper.azure.actions.endpoint_traffic import state
from reaper.azure.count import count
from reaper.azure.deployments import DEPLOYMENTS, Deployment
from reaper.azure.kinds import azureml_online_deployment as kind
from reaper.azure.request import UNREADABLE, Call, Json
from reaper.azure.writes import always, change, made_before, patient, ready, said, settings
from reaper.errors import CloudError, Trouble, Withdrawn
from reaper.model import Move, Resource

if TYPE_CHECKING:
    from reaper.azure.session import Cloud

DELETE, WRITE = f"{deployments.ROOT}/delete", f"{deployments.ROOT}/write"
OWN = ("properties", "sku", "tags", "identity", "kind", "location")


def look(cloud: Cloud, resource: Resource) -> Resource:
    """The deployment with its own, its endpoint's and its workspace's tags, its traffic and its siblings as they are now."""
    found = _known(cloud, deployments.fresh(cloud, resource.id, resource.facts["workspace"]))
    return replace(found, id=resource.id, name=resource.name)


def record(cloud: Cloud, resource: Resource, move: Move) -> Record:
    """The whole deployment and its endpoint with its traffic, and of one that is to be deleted, what it can be created from again.

    Raises CloudError where it could not be created again.
    """
    row, endpoint = deployments.one(cloud, resource.id), deployments.endpoint(cloud, deployments.endpoint_id(resource.id))
    made_from = assets.still_there(cloud, row, resource.facts["workspace"]) if move is Move.DELETE else []
    return {"deployment": row, "endpoint": endpoint, "assets": made_from, "previous": resource.facts.get("previous")}


def carry(cloud: Cloud, resource: Resource, manifest: Manifest, permit: Permit) -> Made:
    """Start to scale it in, or to delete it. Raises CloudError, and does nothing, where it is not as recorded any more."""
    now = deployments.fresh(cloud, resource.id, resource.facts["workspace"])
    _unchanged(cloud, resource, manifest, now)
    if manifest.move is Move.STOP:
        return Made(because=_scale_in(cloud, now.row, permit))
    _same_endpoint(now.endpoint, manifest, traffic.shares(manifest.record["endpoint"]))
    share = traffic.share(now.endpoint, now.row["name"])
    if share:
        return Made(because=_delete_with_traffic(cloud, resource, manifest, share, permit))
    return Made(because=_delete(cloud, now.row["id"], permit))


def undo(cloud: Cloud, manifest: Manifest) -> Undone:
    """As many instances as before; or the deployment itself, and once it is there, its traffic."""
    way = _scale_out if manifest.move is Move.STOP else deployment_restore.restore
    return patient(lambda: way(cloud, manifest))


def _known(cloud: Cloud, one: Deployment) -> Resource:
    try:
        return kind.deployment(cloud, one)
    except UNREADABLE as error:
        raise CloudError(Trouble.GARBLED, DEPLOYMENTS, f"{one.row.get('id')} cannot be read ({error!r})") from error


def _unchanged(cloud: Cloud, resource: Resource, manifest: Manifest, now: Deployment) -> None:
    """Raises CloudError where it, or a tag that it has from anywhere, is not as when the act was decided, or something bars the act now."""
    old, known = manifest.record["deployment"], _known(cloud, now)
    changed = [key for key in OWN if settings(now.row).get(key) != settings(old).get(key)]
    if known.tags != resource.tags and "tags" not in changed:
        changed.append("tags")
    if changed:
        raise CloudError(Trouble.REFUSED, kind.NAME, f"its {', '.join(changed)} changed a moment ago")
    identity.check(identity.of_deployment(old), identity.of_deployment(now.row), kind.NAME)
    if bar := kind.able(kind.with_autoscale(cloud, known))[manifest.move]:
        raise CloudError(Trouble.REFUSED, kind.NAME, bar.because)


def _same_endpoint(endpoint: Json, manifest: Manifest, shares: dict[str, Any] | None) -> None:
    """Raises CloudError where the endpoint is not as recorded, with these `shares` of its traffic; zeros may be left out."""
    old = manifest.record["endpoint"]
    identity.check(identity.of_endpoint(old), identity.of_endpoint(endpoint), kind.NAME, "its endpoint")
    changed = [key for key in OWN if _but_traffic(endpoint).get(key) != _but_traffic(old).get(key)]
    given = [{name: share for name, share in (found or {}).items() if share} for found in (traffic.shares(endpoint), shares)]
    changed += ["traffic"] if given[0] != given[1] else []
    if changed:
        raise CloudError(Trouble.REFUSED, kind.NAME, f"its endpoint's {', '.join(changed)} changed a moment ago")


def _but_traffic(endpoint: Json) -> Json:
    found = settings(endpoint)
    return {**found, "properties": {key: value for key, value in found["properties"].items() if key != traffic.TRAFFIC}}


def _scale_in(cloud: Cloud, row: Json, permit: Permit) -> str:
    _resize(cloud, row, 1, permit)
    return f"scaling it from {row['sku']['capacity']} instances to one has begun; the next sweep sees what became of it"


def _resize(cloud: Cloud, row: Json, capacity: int, permit: Permit) -> None:
    """Tags are not sent along: as they were read they might undo one that was set just now."""
    id_ = row["id"]
    call = Call(permission=WRITE, path=id_, body={"sku": {**row["sku"], "capacity": capacity}}, method="PATCH")
    make = partial(change, cloud, call, id_, DEPLOYMENTS, permit)
    made_before(make, lambda: (deployments.one(cloud, id_).get("sku") or {}).get("capacity") == capacity)


def _scale_out(cloud: Cloud, manifest: Manifest) -> Undone:
    """The old number of instances, where it is the same deployment, or its like from a restore, and runs the one that it was scaled to."""
    row, recorded = deployments.one(cloud, manifest.id), manifest.record["deployment"]
    if not deployment_restore.remade(row, manifest, "properties", "tags"):
        identity.check(identity.of_deployment(recorded), identity.of_deployment(row), WRITE)
    ready(state(row), WRITE)
    now, old = count((row.get("sku") or {}).get("capacity")), recorded["sku"]["capacity"]
    if now is None:
        raise CloudError(Trouble.GARBLED, DEPLOYMENTS, f"how many instances {manifest.name} runs is not known")
    if now == old:
        return Undone(because=f"it runs {now} instances already")
    if now != 1:
        return Undone(because=f"it runs {now} instances, which somebody or autoscale chose since: left as it is")
    _resize(cloud, row, old, always)
    return Undone(because=f"scaling it back from {now} to {old} instances has begun")


def _delete(cloud: Cloud, id_: str, permit: Permit) -> str:
    call = Call(permission=DELETE, path=id_, method="DELETE")
    make = partial(change, cloud, call, id_, DEPLOYMENTS, permit)
    try:
        if made_before(make, lambda: state(deployments.one(cloud, id_)) == "Deleting"):
            return "it is being deleted already"
    except CloudError as error:
        if error.trouble is not Trouble.GONE or not error.retried:
            raise
        return "it is deleted"
    return "deleting it has begun; the next sweep sees what became of it"


def _delete_with_traffic(cloud: Cloud, resource: Resource, manifest: Manifest, share: int, permit: Permit) -> str:
    """Its traffic to 0 %, a wait, another look, and only then the delete. What fails in between puts the traffic back."""
    above, name = deployments.endpoint_id(resource.id), manifest.record["deployment"]["name"]
    recorded = traffic.shares(manifest.record["endpoint"])
    endpoint_traffic.silence(cloud, above, name, lambda endpoint: _same_endpoint(endpoint, manifest, recorded), permit)
    try:
        endpoint_traffic.settle(cloud, above)
        _still_meant(cloud, resource, manifest)
        told = _delete(cloud, resource.id, permit)
    except CloudError as error:
        if error.trouble is Trouble.GONE:
            raise
        back = endpoint_traffic.put_back(cloud, resource.id, share)
        text = f"{said(error)}; its traffic had been set from {share} % to 0 %, {back}"
        raise error.retold(text, Trouble.PARTIAL) from error
    except Withdrawn as reason:  # who snoozes it a moment before it goes wants it to answer
        back = endpoint_traffic.put_back(cloud, resource.id, share)
        raise Withdrawn(f"{reason}; its traffic had been set from {share} % to 0 %, {back}") from reason
    return f"its {share} % of the traffic was set to 0 %, and {told}"


def _still_meant(cloud: Cloud, resource: Resource, manifest: Manifest) -> None:
    """Raises CloudError where a tag, a setting or a sibling came during the wait: the last look before the delete."""
    now = deployments.fresh(cloud, resource.id, resource.facts["workspace"])
    _unchanged(cloud, resource, manifest, now)
    _same_endpoint(now.endpoint, manifest, {})
    if now.beside:
        raise CloudError(Trouble.REFUSED, kind.NAME, f"{', '.join(sorted(now.beside))} came beside it a moment ago")


ACTS = Acts(
    look=look, record=record, carry=carry, undo=undo, undo_permissions=(WRITE, endpoint_traffic.WRITE, deployments.ASSIGN)
)
