"""The executor of Azure ML kinds: it reads a resource right before an action, sends what its `Table` says, once, and undoes it. Loaded only to act
or to undo.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from reaper.acting.contract import ActionFunctions, Earlier, Manifest, Permit, UndoResult, UndoState, any_members, done
from reaper.azure import computes, deletion
from reaper.azure.computes import compute_request
from reaper.azure.deployments import WRITE, deployment_request
from reaper.azure.reader import Action, Deletion, Scaling, State, Table
from reaper.azure.requests import ArmChange, Json, duration_seconds
from reaper.errors import ActionWithdrawn, CloudError, Reason
from reaper.finding import Outcome
from reaper.kind import StartStop
from reaper.model import Resource, StepName

if TYPE_CHECKING:
    from reaper.azure.session import CloudSession


def functions_of(table: Table) -> ActionFunctions[CloudSession]:
    """How the actions of that kind are made and undone."""
    by = ("by",) if table.native else ()
    members = {**any_members(*by, *table.saved), "was": deletion.IDENTITY_MEMBERS} if table.saved else deletion.MEMBERS
    return ActionFunctions(
        read_now=table.read_now,
        read_undo_state=partial(_read_undo_state, table),
        perform=partial(_perform, table),
        undo=partial(_undo, table),
        undo_permissions=table.undo_permissions,
        undo_members={step: members for step in table.actions if step is not StepName.START},
        id_pattern=deletion.COMPUTE_ID if table.saved else deletion.DEPLOYMENT_ID,
        side_changes=deletion.side_changes,
        put_back=deletion.put_back_share,
    )


def _read_undo_state(table: Table, cloud: CloudSession, resource: Resource, step: StepName, earlier: Earlier) -> UndoState:
    """What the resource is like. Raises CloudError if it couldn't be recognized or recreated later."""
    if resource.created is None and not isinstance(table.actions[step], StartStop):
        raise CloudError(Reason.REFUSED, resource.kind, f"it {deletion.UNKNOWN_CREATION}")
    if table.saved:
        return _state_of_compute(table, resource, step)
    return {**deletion.read_state(cloud, resource, step), "previous": earlier.record}


def _state_of_compute(table: Table, resource: Resource, step: StepName) -> UndoState:
    by = {"by": resource.stop_by if step is StepName.STOP else None} if table.native else {}
    saved = {name: resource.details.properties.get(name) for name in table.saved}
    created = resource.created.isoformat() if resource.created else None
    return {**by, **saved, "was": {deletion.CREATED_KEY: created, "size": resource.details.properties.get("vmSize")}}


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
    if table.saved:
        is_recorded = _state_of_compute(table, resource, manifest.action) == manifest.undo_state
    else:
        is_recorded = deletion.is_recorded(resource, manifest.undo_state)
    if not is_recorded:
        raise ActionWithdrawn("its settings changed a moment ago")
    if isinstance(action, Scaling):
        return done(_scale(action, cloud, resource, manifest, permit))
    if isinstance(action, Deletion):
        return done(deletion.delete(cloud, resource, manifest, permit))
    operation = deletion.compute_operation(cloud, resource.id, action.call)
    with permit():
        deletion.write(cloud, operation, compute_request(resource.id))
    return done(action.because)


def _scale(scaling: Scaling, cloud: CloudSession, resource: Resource, manifest: Manifest, permit: Permit) -> str:
    """Set the number, and check it if that shows at once. The permit holds only for the section that is sent."""
    before = scaling.section(manifest.undo_state)
    wanted = {**before, scaling.number: scaling.to}
    change = scaling.change(resource.id, manifest.undo_state, wanted)
    with permit():
        deletion.write(cloud, change, scaling.of(resource.id))
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
        raise error.reworded(f"{message}; {deletion.RUN_AGAIN_LATER}") from error


def _undo_action(table: Table, cloud: CloudSession, manifest: Manifest) -> UndoResult:
    action = _shape(table, manifest.action, manifest.undo_state.get("by", "stop"))
    if isinstance(action, Deletion):
        return deletion.recreate(cloud, manifest)
    row = cloud.call(compute_request(manifest.id) if table.saved else deployment_request(manifest.id))
    if table.saved:
        deletion.require_same(manifest.undo_state.get("was") or {}, deletion.identity(row), table.name)
    elif not deletion.is_recreated(row, manifest, "properties", "tags"):
        deletion.require_same(deletion.identity(manifest.undo_state["deployment"]), deletion.identity(row), WRITE)
    if isinstance(action, StartStop):
        return _start_again(action, cloud, manifest.id, str(computes.properties_of(row).get("state")))
    deletion.require_settled(row["properties"].get("provisioningState"), action.permissions[0])
    state = computes.properties_of(row) if table.saved else {"deployment": row}
    return _scale_back(action, cloud, manifest, state)


def _start_again(action: StartStop, cloud: CloudSession, compute_id: str, status: str) -> UndoResult:
    """Make the call that undoes it, unless that is done already."""
    undo = action.undo_call
    if undo is None:
        raise CloudError(Reason.REFUSED, action.call, f"{action.call} isn't undone")
    operation = deletion.compute_operation(cloud, compute_id, undo.call)
    if status in undo.done:
        return UndoResult(because=f"it is already {status}")
    deletion.require_settled(status, operation.permission)
    deletion.write(cloud, operation, compute_request(compute_id))
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
        deletion.write(cloud, change, scaling.of(resource_id))
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
