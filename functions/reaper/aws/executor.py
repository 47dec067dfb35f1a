"""The executor of AWS kinds: reads a resource right before an action, saves what an undo works with, sends the one call of the action, and undoes it.

Loaded only to act or to undo. What each of the three shapes of action does is decided here, once for every kind; `scaling` has the longest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any

from reaper.acting.contract import (
    NOTHING_BESIDE,
    ActionFunctions,
    Earlier,
    Manifest,
    Members,
    Permit,
    PutBackResult,
    UndoResult,
    UndoState,
    any_members,
    done,
)
from reaper.aws import reader, recreation, scaling
from reaper.aws.recreation import Recreation
from reaper.aws.sagemaker import ANY_REPLY_KEY, chosen_members
from reaper.aws.session import CloudSession, permission_of
from reaper.aws.table import Deletion, Scaling, Table
from reaper.errors import CloudError, Reason
from reaper.finding import Outcome
from reaper.kind import ActionSpec, StartStop, Undo
from reaper.model import Resource, StepName
from reaper.record import Act, SideChange


def functions_of(table: Table) -> ActionFunctions[CloudSession]:
    """How the actions of a kind are made."""
    undoable = {
        step: action for step, action in table.actions.items() if not (isinstance(action, StartStop) and not action.undo_call)
    }
    return ActionFunctions(
        read_now=partial(read_now, table),
        read_undo_state=partial(_read_undo_state, table),
        perform=partial(_perform, table),
        undo=partial(_undo, table),
        side_changes=partial(_side_changes, table),
        put_back=partial(_put_back, table),
        undo_permissions=tuple(sorted({p for action in undoable.values() for p in _undo_permissions(table, action)})),
        undo_members={step: _members(table, action) for step, action in undoable.items()},
        id_pattern=arn_pattern(table.id_below),
    )


def arn_pattern(below: str) -> re.Pattern[str]:
    """Matches the ARNs of a kind, whose last part `below` matches."""
    return re.compile(rf"arn:[^:]+:sagemaker:(?P<region>[^:]+):(?P<account>[^:]+):{below}", re.IGNORECASE)


def recreation_of(action: Deletion) -> Recreation:
    """What recreates what the action deletes."""
    found: Recreation = import_module(action.recreated_by).RECREATION
    return found


def _undo_permissions(table: Table, action: ActionSpec) -> tuple[str, ...]:
    describe = permission_of(table.listing.service, table.listing.describe)
    if isinstance(action, Deletion):
        return (describe, *recreation_of(action).permissions)
    if isinstance(action, Scaling):
        own = permission_of(table.listing.service, action.call)
        return (describe, "sagemaker:ListTags", own, *recreation.RESTORE_PERMISSIONS)
    undo = action.undo_call if isinstance(action, StartStop) else None
    return (describe, *([permission_of(table.listing.service, undo.call)] if undo else []))


def _members(table: Table, action: ActionSpec) -> Members:
    if isinstance(action, Deletion):
        return recreation_of(action).members
    return scaling.UNDO_MEMBERS if isinstance(action, Scaling) else any_members(*table.same, *table.saved)


def _parameters(table: Table, resource: Resource) -> Mapping[str, Any]:
    return table.parameters(resource) if table.parameters else {table.listing.key("name"): resource.name}


def read_now(table: Table, cloud: CloudSession, resource: Resource) -> Resource:
    """Its description, what else a person may change about it, and last of all its tags, from the authoritative call."""
    row = reader.described(cloud, table, _parameters(table, resource))
    fresh = reader.resource_of(table, cloud, row, None)
    fresh = table.as_now(cloud, fresh, row) if table.as_now else fresh
    if isinstance(stop := table.actions.get(StepName.STOP), Scaling):
        fresh = scaling.with_live_settings(cloud, stop, fresh, row)
    return replace(fresh, tags=reader.read_tags_now(cloud, *reader.arns_of(table, cloud, row)))


def _read_undo_state(table: Table, cloud: CloudSession, resource: Resource, step: StepName, earlier: Earlier) -> UndoState:
    action = table.actions[step]
    if isinstance(action, Scaling):
        return scaling.saved_state(table, action, cloud, resource, earlier)
    if isinstance(action, Deletion):
        return recreation_of(action).read(cloud, resource, earlier)
    return chosen_members(reader.described(cloud, table, _parameters(table, resource)), *table.same, *table.saved)


def _perform(table: Table, cloud: CloudSession, resource: Resource, manifest: Manifest, permit: Permit) -> Outcome:
    """One call, sent once; before a scaling its autoscaling minimum is lowered, after a deletion its autoscaling deregistered. None is waited for."""
    action, saved = table.actions[manifest.action], manifest.undo_state
    if isinstance(action, Scaling):
        return scaling.perform(table, action, cloud, manifest, permit, resource.tags)
    with permit():
        cloud.change(table.listing.service, action.call, ANY_REPLY_KEY, **_parameters(table, resource))
    if isinstance(action, StartStop):
        return done(action.because)
    assert isinstance(action, Deletion)
    remaining = (
        recreation.deregister_targets(cloud, saved["scaling"], permit, _being_deleted(resource)) if action.has_autoscaling else []
    )
    with_it = " with its autoscaling" if action.has_autoscaling and saved["scaling"]["targets"] and not remaining else ""
    return done("; ".join([action.because.format(autoscaling=with_it, **saved), *remaining]))


def _being_deleted(before: Resource) -> Any:
    """Takes out everything, if the resource is being deleted, and is still the same."""
    return lambda now: before if now.status == "Deleting" and now.created == before.created else now


def _side_changes(table: Table, manifest: Manifest) -> tuple[SideChange, ...]:
    """A scaling's; a deletion changes nothing beside what it deletes."""
    return scaling.side_changes(manifest) if isinstance(table.actions[manifest.action], Scaling) else ()


def _put_back(table: Table, cloud: CloudSession, resource: Resource, interrupted: Act) -> PutBackResult:
    action = table.actions.get(interrupted.action)
    return scaling.settle(table, action, cloud, resource, interrupted) if isinstance(action, Scaling) else NOTHING_BESIDE


def _undo(table: Table, cloud: CloudSession, manifest: Manifest) -> UndoResult:
    """Can be run again and again, and then goes on with what is missing."""
    action = table.actions[manifest.action]
    if isinstance(action, Deletion):
        return recreation_of(action).recreate(cloud, manifest)
    if isinstance(action, Scaling):
        return scaling.undo(table, action, cloud, manifest)
    assert isinstance(action, StartStop)
    assert action.undo_call
    return _undo_start_stop(table, action.undo_call, cloud, manifest)


def _undo_start_stop(table: Table, undo: Undo, cloud: CloudSession, manifest: Manifest) -> UndoResult:
    """The call that undoes it, if it is still the same resource and not undone already."""
    listing, name, permission = table.listing, manifest.name, permission_of(table.listing.service, undo.call)
    row = reader.described(cloud, table, {listing.key("name"): name})
    resource = reader.resource_of(table, cloud, row, None)
    if chosen_members(row, *table.same) != {key: manifest.undo_state.get(key) for key in table.same}:
        text = f"{name} was recreated or got another {table.same_text} since"
        raise CloudError.left_alone(permission, text)
    if resource.status in undo.done:
        return UndoResult(because=f"its status is {resource.status} already")
    if resource.status not in undo.needs:
        wanted = " or ".join(undo.needs)
        text = f"the status of {name} is {resource.status}; run this again once it is {wanted}"
        raise CloudError(Reason.REFUSED, permission, text)
    if because := undo.left_because(table.as_now(cloud, resource, row) if table.as_now else resource):
        raise CloudError(Reason.REFUSED, permission, because)
    cloud.call(listing.service, undo.call, ANY_REPLY_KEY, **{listing.key("name"): name})
    return UndoResult(because=undo.because, not_restored=undo.lost)
