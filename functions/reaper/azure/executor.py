"""The executor of Azure ML kinds: it reads a resource right before an action, sends what its `Table` says, once, and undoes it. Loaded only to act
or to undo.

Azure deletes nothing that gets traffic, so the share of an endpoint's only deployment is set to 0% first, and put back if no deletion follows.
Traffic is changed by PUT of the whole endpoint, for which Azure documents no condition such as If-Match. So what is sent was read just before,
and if another change is in progress, Azure refuses ours: https://learn.microsoft.com/rest/api/azureml/online-endpoints/create-or-update
Recreating: https://learn.microsoft.com/rest/api/azureml/online-deployments/create-or-update
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from azure.mgmt.core.tools import parse_resource_id

from reaper.acting.contract import (
    NOTHING_BESIDE,
    PREVIOUS_MEMBERS,
    ActionFunctions,
    Earlier,
    HalfDone,
    Manifest,
    Permit,
    PutBackResult,
    UndoResult,
    UndoState,
    any_members,
    done,
    put_back_number,
    unchanged,
)
from reaper.azure import computes, deployments
from reaper.azure.computes import compute_request
from reaper.azure.deployments import (
    DELETE,
    WRITE,
    WRITE_ENDPOINT,
    DeploymentDetails,
    deployment_request,
    endpoint_request,
    traffic_of,
)
from reaper.azure.reader import Action, Deletion, Scaling, State, Table
from reaper.azure.requests import ArmChange, ArmRequest, Json, duration_seconds, latest_known, parse_time
from reaper.azure.workspaces import require_assets
from reaper.errors import ActionWithdrawn, CloudError, Reason
from reaper.finding import Outcome
from reaper.kind import StartStop
from reaper.model import Resource, StepName
from reaper.record import Act, SideChange

if TYPE_CHECKING:
    from reaper.azure.session import CloudSession

CHANGING_STATES = {*computes.CHANGING_STATES, *deployments.CHANGING_STATES, "Deleting"}
"""States that end without anyone's doing."""
RUN_AGAIN_LATER = "run it again in a few minutes"
CREATED_KEY = "made"
UNKNOWN_CREATION = "has no known creation time, so it may be another one; the reaper left it alone"
IDENTITY_MEMBERS = any_members(CREATED_KEY, "size", "model")
_WORKSPACE = (
    r"/subscriptions/(?P<account>[^/]+)/resourceGroups/[^/]+/providers/Microsoft\.MachineLearningServices/workspaces/[^/]+"
)
COMPUTE_ID = re.compile(rf"{_WORKSPACE}/computes/(?P<name>[^/]+)", re.IGNORECASE)
DEPLOYMENT_ID = re.compile(
    rf"{_WORKSPACE}/onlineEndpoints/(?P<name_of_endpoint>[^/]+)/deployments/(?P<name>[^/]+)", re.IGNORECASE
)


def write(cloud: CloudSession, change: ArmChange, read: ArmRequest) -> None:
    """Change the resource that `read` reads. Raises CloudError, with Reason.GONE only if the resource itself is gone."""
    try:
        cloud.change(change)
    except CloudError as error:  # Azure also answers 404 for an operation that it doesn't know
        if error.reason is not Reason.GONE and not error.code.startswith("404"):
            raise
        cloud.call(read)
        text = f"Azure answered 404, although the resource exists ({error})"
        raise CloudError(Reason.REFUSED, change.permission, text, code=error.code) from error


def require_settled(state: object, permission: str) -> None:
    """Raises CloudError in a changing state: an undo would be refused now, or be undone by what is in progress."""
    if state in CHANGING_STATES:
        raise CloudError(Reason.REFUSED, permission, f"it is still {state}: {RUN_AGAIN_LATER}")


def operation(cloud: CloudSession, resource_id: str, call: str) -> ArmChange:
    """`start` or `stop` of a compute or `delete` of a deployment, ready to be sent by the SDK. Resource group, workspace and names below come first."""
    sdk, parts = cloud.clients.operations_client(), parse_resource_id(resource_id)
    names = [str(parts[key]) for key in ("resource_group", "name", "child_name_1", "child_name_2") if key in parts]
    if call == "delete":
        return ArmChange(permission=DELETE, path=resource_id, begin=partial(sdk.online_deployments.begin_delete, *names))
    begin = partial(getattr(sdk.compute, f"begin_{call}"), *names)
    return ArmChange(permission=f"{computes.ROOT}/{call}/action", path=f"{resource_id}/{call}", begin=begin)


def identity(row: Mapping[str, Any]) -> UndoState:
    """The creation time of a compute, deployment or endpoint, with its size and its model if it has them."""
    outer, system = row["properties"], row.get("systemData") or {}
    inner = outer.get("properties")
    vm_size = inner.get("vmSize") if isinstance(inner, dict) else None
    chosen = {"size": outer.get("instanceType") or vm_size, "model": outer.get("model")}
    made = outer.get("createdOn") or system.get("createdAt")
    return {CREATED_KEY: made, **{key: value for key, value in chosen.items() if value}}


def require_same(before: UndoState, now: UndoState, permission: str, subject: str = "it") -> None:
    """Raises CloudError if `subject` isn't the same as before, or if that can't be known."""
    was_created, created = (parse_time(state.get(CREATED_KEY)) for state in (before, now))
    if was_created is None or created is None:
        raise CloudError(Reason.REFUSED, permission, f"{subject} {UNKNOWN_CREATION}")
    if was_created != created:
        because = f"{subject} was recreated on {created:%Y-%m-%d %H:%M} UTC"
    else:
        keys = [key for key in ("size", "model") if _lower_if_text(now.get(key)) != _lower_if_text(before.get(key))]
        because = "; ".join(f"its {key} changed from {before.get(key)} to {now.get(key)}" for key in keys)
    if because:
        raise CloudError.left_alone(permission, because)


def _lower_if_text(value: Any) -> Any:
    """Azure spells sizes in capitals or not."""
    return value.lower() if isinstance(value, str) else value


MEMBERS = {**any_members("deployment", "endpoint", "assets"), "previous": PREVIOUS_MEMBERS}
TRAFFIC = "traffic"
"""What a delete changes beside its main call."""
MAX_READS, PAUSE_S = 12, 5.0
"""How often, and every how many seconds, an endpoint is read until its new traffic is in place."""
OWN_CHANGE_TAKES = timedelta(minutes=15)
"""How long after the beginning of an action its own change may be noted on the endpoint."""


def recorded_share(state: State) -> int:
    return traffic_of(state)[0] or 0


def is_recreated(row: Json, manifest: Manifest, *keys: str) -> bool:
    """Whether it was created after the manifest, with its values of `keys`, as a restore does it: Azure doesn't record who wrote what."""
    recorded, created = deployments.chosen_settings(manifest.undo_state["deployment"]), _created_at(row)
    now = deployments.chosen_settings(row)
    return created is not None and created > manifest.at and all(now.get(key) == recorded.get(key) for key in keys)


def _set_share(cloud: CloudSession, deployment_id: str, state: State, percent: int) -> None:
    """PUT replaces the whole endpoint, so the state has it as it was read just before."""
    body, name = deployments.writable_body(state["endpoint"]), state["deployment"]["name"]
    body["properties"] = {**body["properties"], deployments.TRAFFIC_KEY: {**traffic_of(state)[1], name: percent}}
    endpoint = endpoint_request(deployment_id)
    write(cloud, ArmChange(permission=WRITE_ENDPOINT, path=endpoint.path, body=body, method="PUT"), endpoint)


def delete(cloud: CloudSession, resource: Resource, manifest: Manifest, permit: Permit) -> str:
    """Begin to delete it. If it gets traffic, set that to 0%, wait until that is in place, and look at everything again before."""
    percent, own_changes = recorded_share(manifest.undo_state), unchanged
    change = operation(cloud, resource.id, "delete")
    if percent:
        with permit():  # the endpoint is read once more, in case its tags changed since the permit's own look
            state = {**manifest.undo_state, "endpoint": cloud.call(endpoint_request(resource.id), once=True)}
            if deployments.endpoint_digest(state) != resource.details.endpoint_digest:
                raise CloudError(Reason.REFUSED, resource.kind, "its endpoint's settings changed a moment ago")
            _set_share(cloud, resource.id, state, 0)
        _wait_until_settled(cloud, resource.id)
        own_changes = partial(_without_own_change, resource)
        permit.after_wait(own_changes)
    with permit(own_changes):
        write(cloud, change, deployment_request(resource.id))
    moved = f"its {percent}% of the traffic was set to 0%, and " if percent else ""
    return f"{moved}deletion started; the next sweep checks the result"


def _wait_until_settled(cloud: CloudSession, resource_id: str) -> None:
    """Wait up to a minute until the endpoint's new traffic is in place. Raises CloudError."""
    state = ""
    for reads in range(MAX_READS):
        if reads:
            cloud.clients.pause(PAUSE_S)
        state = _state_of(cloud.call(endpoint_request(resource_id)))
        if state == "Succeeded":
            return
        if state not in deployments.CHANGING_STATES:
            break
    raise CloudError(Reason.REFUSED, WRITE_ENDPOINT, f"its endpoint's state is {state}, so it wasn't deleted")


def _without_own_change(before: Resource, now: Resource) -> Resource:
    """The deployment as it was before the action set its share to 0%. Raises ActionWithdrawn if that isn't how it is."""
    was: DeploymentDetails = before.details
    details: DeploymentDetails = now.details
    if details.traffic_percent != 0:
        raise ActionWithdrawn("its share of its endpoint's traffic changed a moment ago")
    state = was.endpoint_state if details.endpoint_state == "Succeeded" else details.endpoint_state
    own = replace(details, traffic_percent=was.traffic_percent, endpoint_state=state)
    return replace(now, details=own, status=deployments.status_text(own), changed=before.changed)


def side_changes(manifest: Manifest) -> tuple[SideChange, ...]:
    """Its share of the traffic, which is set to 0% before it is deleted. No other action has any."""
    percent = recorded_share(manifest.undo_state) if manifest.action is StepName.DELETE else 0
    return (SideChange(what=TRAFFIC, before=percent, ours=0),) if percent else ()


def put_back_share(cloud: CloudSession, resource: Resource, interrupted: Act) -> PutBackResult:
    """Settle an interrupted delete: `ActionFunctions.put_back`. Raises CloudError if it can't be known now how it ended."""
    change = next((change for change in interrupted.changes if change.what == TRAFFIC), None)
    if change is None:
        return NOTHING_BESIDE
    own_change, state = change, dict[str, Json]()

    def look() -> PutBackResult | CloudError:
        row = cloud.find(deployment_request(resource.id))
        if row is None:
            return PutBackResult(state=HalfDone.DONE, because="it is deleted")
        state.update(deployment=row, endpoint=cloud.call(endpoint_request(resource.id)))
        return _left_behind(state, interrupted, own_change)

    def pause(tries: int) -> None:
        cloud.clients.pause(PAUSE_S)

    return put_back_number(look, partial(_set_share, cloud, resource.id, state, own_change.before), pause)


def _left_behind(state: State, interrupted: Act, change: SideChange) -> PutBackResult | CloudError:
    row, endpoint = state["deployment"], state["endpoint"]
    if interrupted.created is None or _created_at(row) != interrupted.created:
        because = "it may be another deployment by now, so its traffic stays as it is"
        return PutBackResult(state=HalfDone.LEFT, because=because)
    if _state_of(row) == "Deleting":
        return PutBackResult(state=HalfDone.DONE, because="it is being deleted")
    percent, progress = traffic_of(state)[0], _state_of(endpoint)
    if percent is None:
        text = "its share of its endpoint's traffic can't be read"
        raise CloudError(Reason.UNREADABLE, deployments.READ_ENDPOINTS, text)
    is_back = percent == change.before
    if not is_back and (left := _left_because(state, percent, interrupted.at, change)):
        return PutBackResult(state=HalfDone.LEFT, because=left)
    if progress in deployments.CHANGING_STATES:
        return CloudError(Reason.REFUSED, WRITE_ENDPOINT, f"its endpoint is still {progress}")
    because = f"its traffic was at {change.ours}%, and setting it back to {change.before}% has begun"
    return PutBackResult(state=HalfDone.UNCHANGED if is_back else HalfDone.OURS, because=because)


def _left_because(state: State, percent: int, begun_at: datetime, change: SideChange) -> str | None:
    """What shows that its traffic was changed after the action, or may have been."""
    row, endpoint = state["deployment"], state["endpoint"]
    if others := deployments.others_with_traffic(state):
        return f"its {change.before}% of the traffic goes to {', '.join(sorted(others))} by now, so it stays as it is"
    if percent != change.ours:
        return f"its traffic has been set to {percent}% since, so it stays as it is"
    changed_at = latest_known(*(parse_time((body.get("systemData") or {}).get("lastModifiedAt")) for body in (row, endpoint)))
    if changed_at and changed_at > begun_at + OWN_CHANGE_TAKES:
        when = f"{changed_at:%Y-%m-%d %H:%M} UTC"
        return f"it or its endpoint was changed since, on {when}, so its traffic stays at {percent}% ({change.before}% before)"
    return None


def recreate(cloud: CloudSession, manifest: Manifest) -> UndoResult:
    """Create it, or restore the traffic of one that is ready. Raises CloudError, and changes nothing, if that isn't the reaper's."""
    recorded, percent = manifest.undo_state["deployment"], recorded_share(manifest.undo_state)
    endpoint = cloud.call(endpoint_request(manifest.id))
    before, now = identity(manifest.undo_state["endpoint"]), identity(endpoint)
    require_same(before, now, deployments.READ_ENDPOINTS, "its endpoint")
    row = cloud.find(deployment_request(manifest.id))
    if row is None or (_is_own_creation(row, manifest) and _state_of(row) in deployments.BROKEN_STATES):
        change = ArmChange(permission=WRITE, path=manifest.id, body=deployments.writable_body(recorded), method="PUT")
        write(cloud, change, endpoint_request(manifest.id))
        missing = [_waiting("it isn't ready yet", percent)]
        if "systemassigned" in str((recorded.get("identity") or {}).get("type")).lower():
            missing.append("its system-assigned identity is a new one: recreate the role assignments of the old one")
        because = f"recreating it has begun, with its settings, its tags and {recorded['sku']['capacity']} instances"
        return UndoResult(because=because, not_restored=tuple(missing), run_again=True)
    if (state := _state_of(row)) in deployments.CHANGING_STATES:
        return _exists(_waiting(f"it is still {state}", percent), run_again=True)
    require_settled(state, WRITE)
    if state != "Succeeded":
        text = f"a deployment {recorded['name']} exists, but its state is {state}: run it again when it is gone"
        raise CloudError(Reason.REFUSED, WRITE, text)
    return _restore_share(cloud, manifest, endpoint)


def _is_own_creation(row: Json, manifest: Manifest) -> bool:
    """Whether an earlier restore began to create it. If that failed, for example for lack of quota, it is written once more.

    Raises CloudError unless it is that one, or the one that was to be deleted and wasn't: its creation time is in the manifest.
    """
    recorded = manifest.undo_state["deployment"]
    if is_recreated(row, manifest, "properties", "sku", "tags"):
        return True
    if _created_at(recorded) is None or _created_at(recorded) != _created_at(row):
        raise CloudError.left_alone(WRITE, f"a different deployment {recorded['name']} exists now")
    if deployments.chosen_settings(row)["properties"] != deployments.chosen_settings(recorded)["properties"]:
        raise CloudError.left_alone(WRITE, "it was never deleted, and its properties have changed since")
    return False


def _restore_share(cloud: CloudSession, manifest: Manifest, endpoint: Json) -> UndoResult:
    """It exists and is ready. Its share is restored unless another deployment has it by now."""
    percent, state = recorded_share(manifest.undo_state), {**manifest.undo_state, "endpoint": endpoint}
    if not percent or traffic_of(state)[0] == percent:
        return UndoResult(because=f"it exists, with {percent}% of the traffic")
    if others := deployments.others_with_traffic(state):
        return _exists(f"its {percent}% of the traffic now goes to {', '.join(sorted(others))}")
    if (progress := _state_of(endpoint)) != "Succeeded":
        return _exists(_waiting(f"its endpoint is still {progress}", percent), run_again=True)
    try:
        state = {**manifest.undo_state, "endpoint": cloud.call(endpoint_request(manifest.id))}
        _set_share(cloud, manifest.id, state, percent)
    except CloudError as error:
        if error.reason is Reason.GONE:
            raise
        return _exists(f"its {percent}% of the traffic couldn't be restored: {error}", run_again=True)
    return UndoResult(because=f"it exists, and gets {percent}% of the traffic again")


def _exists(missing: str, *, run_again: bool = False) -> UndoResult:
    return UndoResult(because="it exists", not_restored=(missing,), run_again=run_again)


def _waiting(because: str, percent: int) -> str:
    return f"{because}: {RUN_AGAIN_LATER}{f', which restores its traffic ({percent}%)' if percent else ''}"


def _created_at(row: Json) -> datetime | None:
    return parse_time(identity(row)[CREATED_KEY])


def _state_of(body: Json) -> str:
    return str(body["properties"].get("provisioningState") or "missing")


def functions_of(table: Table) -> ActionFunctions[CloudSession]:
    """How the actions of that kind are made and undone."""
    by = ("by",) if table.native else ()
    members = {**any_members(*by, *table.saved), "was": IDENTITY_MEMBERS} if table.saved else MEMBERS
    return ActionFunctions(
        read_now=table.read_now,
        read_undo_state=partial(_read_undo_state, table),
        perform=partial(_perform, table),
        undo=partial(_undo, table),
        undo_permissions=table.undo_permissions,
        undo_members={step: members for step in table.actions if step is not StepName.START},
        id_pattern=COMPUTE_ID if table.saved else DEPLOYMENT_ID,
        side_changes=side_changes,
        put_back=put_back_share,
    )


def _read_undo_state(table: Table, cloud: CloudSession, resource: Resource, step: StepName, earlier: Earlier) -> UndoState:
    """What the resource is like: a deployment whole, its endpoint with its traffic and, before a delete, the assets it would be recreated from.
    Raises CloudError if it couldn't be recognized or recreated later.
    """
    if resource.created is None and not isinstance(table.actions[step], StartStop):
        raise CloudError(Reason.REFUSED, resource.kind, f"it {UNKNOWN_CREATION}")
    if table.saved:
        return _state_of_compute(table, resource, step)
    row, endpoint = deployments.read_row_and_endpoint(cloud, resource.id)
    assets = require_assets(cloud, row, resource.details.workspace) if step is StepName.DELETE else []
    return {"deployment": row, "endpoint": endpoint, "assets": assets, "previous": earlier.record}


def _state_of_compute(table: Table, resource: Resource, step: StepName) -> UndoState:
    by = {"by": resource.stop_by if step is StepName.STOP else None} if table.native else {}
    saved = {name: resource.details.properties.get(name) for name in table.saved}
    created = resource.created.isoformat() if resource.created else None
    return {**by, **saved, "was": {CREATED_KEY: created, "size": resource.details.properties.get("vmSize")}}


def _shape(table: Table, step: StepName, by: str | None) -> Action:
    """The action, or its other way by the cloud's own idle shutdown. Raises CloudError for one that isn't known."""
    if table.native and step is StepName.STOP and by != "stop":
        if by != "native":
            raise CloudError(Reason.REFUSED, table.name, f"{step} by {by!r} isn't possible")
        return table.native
    return table.actions[step]


def _perform(table: Table, cloud: CloudSession, resource: Resource, manifest: Manifest, permit: Permit) -> Outcome:
    """Carry it out. Raises ActionWithdrawn, and does nothing, if it isn't as recorded."""
    action = _shape(table, manifest.action, resource.stop_by)
    if not _is_recorded(table, resource, manifest):
        raise ActionWithdrawn("its settings changed a moment ago")
    if isinstance(action, Scaling):
        return done(_scale(action, cloud, resource, manifest, permit))
    if isinstance(action, Deletion):
        return done(delete(cloud, resource, manifest, permit))
    change = operation(cloud, resource.id, action.call)
    with permit():
        write(cloud, change, compute_request(resource.id))
    return done(action.because)


def _is_recorded(table: Table, resource: Resource, manifest: Manifest) -> bool:
    """Whether the manifest has the compute, or the deployment and the endpoint, that the permit compares with."""
    state, now = manifest.undo_state, resource.details
    if table.saved:
        return _state_of_compute(table, resource, manifest.action) == state
    recorded = deployments.with_digests(now, state)
    return bool(recorded == now) and recorded_share(state) == (now.traffic_percent or 0)


def _scale(scaling: Scaling, cloud: CloudSession, resource: Resource, manifest: Manifest, permit: Permit) -> str:
    """Set the number, and check it if that shows at once. The permit holds only for the section that is sent."""
    before = scaling.section(manifest.undo_state)
    wanted = {**before, scaling.number: scaling.to}
    change = scaling.change(resource.id, manifest.undo_state, wanted)
    with permit():
        write(cloud, change, scaling.of(resource.id))
    outcome = f"{scaling.outcome.format(**before)}{scaling.doubt(resource) or ''}"
    if not scaling.is_checked:
        return outcome
    after = _section_now(scaling, cloud, resource.id)
    if not _is_same(after, {scaling.number: scaling.to}):
        raise CloudError(Reason.REFUSED, change.permission, _deviation(scaling, wanted, after))
    if _is_same(after, wanted):
        return outcome
    number = f"its {scaling.what} is {scaling.text(scaling.to)} instead of {before[scaling.number]}"
    return f"{number}; {_deviation(scaling, wanted, after)}"


def _section_now(scaling: Scaling, cloud: CloudSession, resource_id: str) -> Json:
    return scaling.section(computes.properties_of(cloud.call(scaling.of(resource_id))))


def _is_same(section: State, wanted: State) -> bool:
    """Whether all that is wanted is there. Durations may be spelled differently."""
    return all(duration_seconds(section.get(key)) == duration_seconds(value) for key, value in wanted.items())


def _deviation(scaling: Scaling, wanted: State, after: State) -> str:
    should, is_now = (
        scaling.section_text(it) if scaling.section_text else scaling.text(it[scaling.number]) for it in (wanted, after)
    )
    return f"its {scaling.part or scaling.what} should be {should}, but Azure set it to {is_now}"


def _undo(table: Table, cloud: CloudSession, manifest: Manifest) -> UndoResult:
    """Undo it, if it is still the same resource. If Azure refuses for now, the CloudError says to run it again."""
    try:
        return _undo_action(table, cloud, manifest)
    except CloudError as error:
        if error.reason is not Reason.THROTTLED and not error.code.startswith("409"):  # still at work on the resource
            raise
        message = str(error).removeprefix(f"{error.operation}: ")
        raise error.reworded(f"{message}; {RUN_AGAIN_LATER}") from error


def _undo_action(table: Table, cloud: CloudSession, manifest: Manifest) -> UndoResult:
    action = _shape(table, manifest.action, manifest.undo_state.get("by", "stop"))
    if isinstance(action, Deletion):
        return recreate(cloud, manifest)
    row = cloud.call(compute_request(manifest.id) if table.saved else deployment_request(manifest.id))
    if table.saved:
        require_same(manifest.undo_state.get("was") or {}, identity(row), table.name)
    elif not is_recreated(row, manifest, "properties", "tags"):
        require_same(identity(manifest.undo_state["deployment"]), identity(row), WRITE)
    if isinstance(action, StartStop):
        return _start_again(action, cloud, manifest.id, str(computes.properties_of(row).get("state")))
    require_settled(row["properties"].get("provisioningState"), action.permissions[0])
    state = computes.properties_of(row) if table.saved else {"deployment": row}
    return _scale_back(action, cloud, manifest, state)


def _start_again(action: StartStop, cloud: CloudSession, compute_id: str, status: str) -> UndoResult:
    """Make the call that undoes it, unless that is done already."""
    undo = action.undo_call
    if undo is None:
        raise CloudError(Reason.REFUSED, action.call, f"{action.call} isn't undone")
    change = operation(cloud, compute_id, undo.call)
    if status in undo.done:
        return UndoResult(because=f"it is already {status}")
    require_settled(status, change.permission)
    write(cloud, change, compute_request(compute_id))
    return UndoResult(because=undo.because, not_restored=undo.lost)


def _scale_back(scaling: Scaling, cloud: CloudSession, manifest: Manifest, state: State) -> UndoResult:
    """The old number, but not above its present limit, unless it was set to another one since."""
    section, old = scaling.section(state), scaling.section(manifest.undo_state)[scaling.number]
    number, most = section[scaling.number], section.get(scaling.limit)
    wanted = {**section, scaling.number: old if most is None else min(old, most)}
    change = scaling.change(manifest.id, state, wanted)
    if number is None and scaling.if_unknown and scaling.of(manifest.id).permission in cloud.clients.older_versions:
        raise CloudError(Reason.REFUSED, change.permission, f"{scaling.if_unknown}; check it in the studio")
    limit = f"its maximum is now {scaling.text(most)}, so its {scaling.what} can't be {old}"
    too_low = () if wanted[scaling.number] == old else (limit,)
    if _is_same(section, wanted):
        return UndoResult(because=f"its {scaling.what} is already {scaling.text(number)}", not_restored=too_low)
    if not _is_same(section, {scaling.number: scaling.to}):
        because = f"its {scaling.what} has been set to {scaling.text(number)} since, so the reaper left it alone"
        return UndoResult(because=because)
    return _set_back(scaling, cloud, change, manifest.id, wanted, too_low)


def _set_back(
    scaling: Scaling, cloud: CloudSession, change: ArmChange, resource_id: str, wanted: Json, too_low: tuple[str, ...]
) -> UndoResult:
    """Set the number, and check it if that shows at once. What may stay is no error if Azure refuses to set it back."""
    number = scaling.text(wanted[scaling.number])
    try:
        write(cloud, change, scaling.of(resource_id))
    except CloudError as error:
        if not scaling.may_stay or error.reason is not Reason.REFUSED:
            raise
    if not scaling.is_checked:
        return UndoResult(because=f"scaling it back from {scaling.to} to {number} has started", not_restored=too_low)
    after = _section_now(scaling, cloud, resource_id)
    if _is_same(after, wanted):
        return UndoResult(because=f"its {scaling.what} is {number} again", not_restored=too_low)
    if not scaling.may_stay:
        raise CloudError(Reason.PARTIAL, change.permission, _deviation(scaling, wanted, after))
    still = scaling.may_stay.format(after[scaling.number])
    return UndoResult(because=f"its {scaling.what} is unchanged", not_restored=(still,))
