"""The executor of AWS kinds: reads a resource right before an action, saves what an undo works with, sends the one call of the action, and undoes it.

Loaded only to act or to undo. What each of the three shapes of action does is decided here, once for every kind.

A scaling never works against autoscaling: the minimum that autoscaling keeps is lowered before, and raised after. Undoing is for the
very same resource only, and of its numbers only for those that are still as the stop left them. Any other number was chosen since, by
a person or by autoscaling, for what the resource has to do now: it stays. A call takes the capacity of one variant; the endpoint is
being updated after it, and refuses the next until it is in service:
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_UpdateEndpointWeightsAndCapacities.html
https://docs.aws.amazon.com/autoscaling/application/APIReference/API_RegisterScalableTarget.html
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from importlib import import_module
from typing import Any

from reaper.acting.contract import (
    NOTHING_BESIDE,
    NOTHING_CHANGED,
    PREVIOUS_MEMBERS,
    ActionFunctions,
    Earlier,
    HalfDone,
    Manifest,
    Members,
    Permit,
    PutBackResult,
    UndoResult,
    UndoState,
    any_members,
    done,
    part_of,
    put_back_number,
)
from reaper.aws import autoscaling, reader, recreation, sagemaker
from reaper.aws.autoscaling import CAPACITY_DIMENSIONS, name_in, target_key
from reaper.aws.reader import Deletion, Numbers, Row, Scaling, Table
from reaper.aws.recreation import (
    IN_SERVICE,
    SAVED_MEMBERS,
    Recreation,
    RestoredCount,
    autoscaling_digest,
    read_autoscaling_state,
    register_target,
)
from reaper.aws.sagemaker import ANY_REPLY_KEY, chosen_members
from reaper.aws.session import CloudSession, permission_of
from reaper.errors import CloudError, Reason
from reaper.finding import Outcome
from reaper.kind import ActionSpec, StartStop, Undo
from reaper.model import Resource, StepName
from reaper.record import Act, SideChange

MINIMUM, AUTOSCALING = "minimum of ", "autoscaling of "
UNDO_MEMBERS: Members = {
    **any_members("born", "same", "before", "wanted", "part", "parts"),
    "previous": PREVIOUS_MEMBERS,
    "scaling": SAVED_MEMBERS,
}


def functions_of(table: Table) -> ActionFunctions[CloudSession]:
    """How the actions of a kind are made."""
    undoable = {
        step: action for step, action in table.actions.items() if not (isinstance(action, StartStop) and not action.undo_call)
    }
    undone = {step: _how_undone(table, action) for step, action in undoable.items()}
    return ActionFunctions(
        read_now=partial(read_now, table),
        read_undo_state=partial(_read_undo_state, table),
        perform=partial(_perform, table),
        undo=partial(_undo, table),
        side_changes=_side_changes,
        put_back=partial(_put_back, table),
        undo_permissions=tuple(sorted({permission for _, permissions in undone.values() for permission in permissions})),
        undo_members={step: members for step, (members, _) in undone.items()},
        id_pattern=arn_pattern(table.id_below),
    )


def arn_pattern(below: str) -> re.Pattern[str]:
    """Matches the ARNs of a kind, whose last part `below` matches."""
    return re.compile(rf"arn:[^:]+:sagemaker:(?P<region>[^:]+):(?P<account>[^:]+):{below}", re.IGNORECASE)


def _recreation_of(action: Deletion) -> Recreation:
    """What recreates what the action deletes."""
    found: Recreation = import_module(action.recreated_by).RECREATION
    return found


def _how_undone(table: Table, action: ActionSpec) -> tuple[Members, tuple[str, ...]]:
    """The members of what its undo works with, and the permissions that it needs."""
    permission = partial(permission_of, table.listing.service)
    describe = permission(table.listing.describe)
    if isinstance(action, Deletion):
        recreated = _recreation_of(action)
        return recreated.members, (describe, *recreated.permissions)
    if isinstance(action, Scaling):
        return UNDO_MEMBERS, (describe, "sagemaker:ListTags", permission(action.call), *recreation.RESTORE_PERMISSIONS)
    undo = action.undo_call if isinstance(action, StartStop) else None
    return any_members(*table.same, *table.saved), (describe, *([permission(undo.call)] if undo else []))


def _parameters(table: Table, resource: Resource) -> Mapping[str, Any]:
    return table.parameters(resource) if table.parameters else {table.listing.key("name"): resource.name}


def _described(table: Table, cloud: CloudSession, parameters: Mapping[str, Any]) -> Row:
    listing = table.listing
    return cloud.call(listing.service, listing.describe, listing.want, **parameters)


def read_now(table: Table, cloud: CloudSession, resource: Resource) -> Resource:
    """Its description, what else a person may change about it, and last of all its tags, from the authoritative call."""
    row = _described(table, cloud, _parameters(table, resource))
    fresh = reader.resource_of(table, cloud, row, None)
    fresh = table.as_now(cloud, fresh, row) if table.as_now else fresh
    if isinstance(stop := table.actions.get(StepName.STOP), Scaling):
        fresh = _with_live_settings(cloud, stop, fresh, row)
    return replace(fresh, tags=reader.read_tags_now(cloud, *reader.arns_of(table, cloud, row)))


def _read_undo_state(table: Table, cloud: CloudSession, resource: Resource, step: StepName, earlier: Earlier) -> UndoState:
    action = table.actions[step]
    if isinstance(action, Scaling):
        return _scaling_state(table, action, cloud, resource, earlier)
    if isinstance(action, Deletion):
        return _recreation_of(action).read(cloud, resource, earlier)
    return chosen_members(_described(table, cloud, _parameters(table, resource)), *table.same, *table.saved)


def _perform(table: Table, cloud: CloudSession, resource: Resource, manifest: Manifest, permit: Permit) -> Outcome:
    """One call, sent once; before a scaling its autoscaling minimum is lowered, after a deletion its autoscaling deregistered. None is waited for."""
    action, saved = table.actions[manifest.action], manifest.undo_state
    if isinstance(action, Scaling):
        return _scale(table, action, cloud, resource, manifest, permit)
    with permit():
        cloud.change(table.listing.service, action.call, ANY_REPLY_KEY, **_parameters(table, resource))
    if isinstance(action, StartStop):
        return done(action.because)
    assert isinstance(action, Deletion)

    def before_deleting(now: Resource) -> Resource:
        return resource if now.status == "Deleting" and now.created == resource.created else now

    has_targets = action.has_autoscaling and saved["scaling"]["targets"]
    remaining = recreation.deregister_targets(cloud, saved["scaling"], permit, before_deleting) if has_targets else []
    with_it = " with its autoscaling" if has_targets and not remaining else ""
    return done("; ".join([action.because.format(autoscaling=with_it, **saved), *remaining]))


def _undo(table: Table, cloud: CloudSession, manifest: Manifest) -> UndoResult:
    """Can be run again and again, and then goes on with what is missing."""
    action = table.actions[manifest.action]
    if isinstance(action, Deletion):
        return _recreation_of(action).recreate(cloud, manifest)
    if isinstance(action, Scaling):
        return _undo_scaling(table, action, cloud, manifest)
    assert isinstance(action, StartStop)
    assert action.undo_call
    return _undo_start_stop(table, action.undo_call, cloud, manifest)


def _undo_start_stop(table: Table, undo: Undo, cloud: CloudSession, manifest: Manifest) -> UndoResult:
    """The call that undoes it, if it is still the same resource and not undone already."""
    listing, name, permission = table.listing, manifest.name, permission_of(table.listing.service, undo.call)
    row = _described(table, cloud, {listing.key("name"): name})
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


def _with_live_settings(cloud: CloudSession, scaling: Scaling, resource: Resource, row: Row) -> Resource:
    """The resource as the looks before an action compare it. Numbers have names of their own, because own calls set them; everything else that a
    person may change is a digest.
    """
    numbers = dict(scaling.numbers(row))
    saved = read_autoscaling_state(cloud, numbers)
    minima = {MINIMUM + target["ResourceId"]: int(target["MinCapacity"]) for target in _of_capacity(saved["targets"])}
    digests = {AUTOSCALING + id_: autoscaling_digest(saved, id_) for id_ in numbers}
    settings = {resource.name: sagemaker.digest(scaling.settings(row)), **digests}
    return replace(resource, details=replace(resource.details, settings=settings, numbers={**numbers, **minima}))


def _scaling_state(table: Table, scaling: Scaling, cloud: CloudSession, resource: Resource, earlier: Earlier) -> UndoState:
    """The number before and after, decided again from fresh replies, and all its autoscaling.

    `parts`: how many numbers there were to scale, this one and those of the actions that it goes on with included.
    """
    goal = scaling.goal(cloud, resource)
    [first, *_] = goal.wanted
    same = {
        "born": recreation.first_created(goal.row, reader.read_tags_now(cloud, goal.row[table.listing.key("arn")])),
        "same": goal.same,
    }
    part = _part(scaling, earlier, same, goal.wanted)
    return {
        **same,
        "before": {first: goal.before[first]},
        "wanted": {first: goal.wanted[first]},
        "previous": earlier.record,
        "part": part,
        "parts": part - 1 + len(goal.wanted),
        "scaling": read_autoscaling_state(cloud, [first]),
    }


def _part(scaling: Scaling, earlier: Earlier, same: UndoState, wanted: Numbers) -> int:
    """Which part this action is. It is the same as one before it on the same numbers that isn't known to have been carried out, and it goes on
    with one that left some of this very resource's numbers, if what that did still stands.
    """
    before = earlier.manifest
    if before is None or before.action is not StepName.STOP or before.undo_state.get("born") != same["born"]:
        return 1
    if "same" not in before.undo_state or not scaling.is_same(before.undo_state["same"], same["same"]):
        return 1
    if not wanted.keys().isdisjoint(before.undo_state["wanted"]):
        return 1 if earlier.is_known else part_of(before)
    left_some = part_of(before) < before.undo_state.get("parts", 1)
    return part_of(before) + 1 if left_some else 1


def _side_changes(manifest: Manifest) -> tuple[SideChange, ...]:
    """A scaling's: the autoscaling minimum, and the number itself, which shows whether it took effect. No other action has any."""
    saved = manifest.undo_state
    if "wanted" not in saved:
        return ()
    numbers = (SideChange(what=id_, before=saved["before"][id_], ours=count) for id_, count in saved["wanted"].items())
    return (*(change for _, change in _lowered_minima(saved)), *numbers)


def _lowered_minima(saved: UndoState) -> list[tuple[Row, SideChange]]:
    """The recorded targets whose autoscaling minimum is above what is wanted, each with how that changes."""
    wanted, minima = saved["wanted"], []
    for row in _of_capacity(saved["scaling"]["targets"]):
        id_, before = row["ResourceId"], row["MinCapacity"]
        if before > wanted.get(id_, before):
            minima.append((row, SideChange(what=MINIMUM + id_, before=before, ours=wanted[id_])))
    return minima


def _scale(
    table: Table, scaling: Scaling, cloud: CloudSession, resource: Resource, manifest: Manifest, permit: Permit
) -> Outcome:
    """The autoscaling minimum first, or autoscaling would undo the rest."""
    saved = manifest.undo_state
    minima = _lowered_minima(saved)

    def before_lowering(now: Resource) -> Resource:
        numbers = {**now.details.numbers}
        numbers |= {change.what: change.before for _, change in minima if numbers.get(change.what) == change.ours}
        return replace(now, details=replace(now.details, numbers=numbers))

    for target, change in minima:
        with permit():
            register_target(cloud.change, target, MinCapacity=change.ours)
    with permit(before_lowering):
        for id_, count in saved["wanted"].items():
            cloud.change("sagemaker", scaling.call, table.listing.key("arn"), **scaling.parameters(manifest.name, id_, count))
    lowered = "; the autoscaling minimum was lowered first" if minima else ""
    later = "; a scheduled action may raise it again" if saved["scaling"]["actions"] else ""
    part = f"{saved['part']} of {saved['parts']} {scaling.parts}" if saved["part"] < saved["parts"] else None
    changes = ", ".join(f"{name_in(id_)} from {saved['before'][id_]} to {count}" for id_, count in saved["wanted"].items())
    because = scaling.because.format(changes=changes, before=sum(saved["before"].values()))
    return done(f"{because}{lowered}{later}{sagemaker.stack_warning(resource.tags)}", part)


def _put_back(table: Table, cloud: CloudSession, resource: Resource, interrupted: Act) -> PutBackResult:
    """Put the autoscaling minimum of an interrupted scaling back, unless it took effect. A deletion changes nothing else."""
    scaling = table.actions.get(interrupted.action)
    if not isinstance(scaling, Scaling):
        return NOTHING_BESIDE
    minimum = next((change for change in interrupted.changes if change.what.startswith(MINIMUM)), None)
    target: dict[str, Any] = {}

    def look() -> PutBackResult | CloudError:
        try:
            row = _described(table, cloud, {table.listing.key("name"): resource.name})
            if row["CreationTime"] != interrupted.created:
                return PutBackResult(state=HalfDone.LEFT, because="it has been recreated since, so the reaper left it alone")
            numbers = scaling.numbers(row)
            if any(numbers.get(change.what) == change.ours for change in interrupted.changes):
                return PutBackResult(state=HalfDone.DONE, because="the stop took effect all the same")
            if minimum is None:
                return NOTHING_CHANGED
            id_ = minimum.what.removeprefix(MINIMUM)
            target.clear()
            target.update(next(iter(_of_capacity(autoscaling.read_autoscaling(cloud, [id_]).targets)), {}))
        except CloudError as error:
            if not (error.may_have_been_made or error.reason is Reason.THROTTLED):
                raise
            return error
        is_back = target.get("MinCapacity") == minimum.before
        if not is_back and (because := _left_because(target, row, minimum, interrupted.at)):
            text = f"the autoscaling minimum of {id_} stays as it is, because {because}"
            return PutBackResult(state=HalfDone.LEFT, because=text)
        because = f"the autoscaling minimum of {id_} is {minimum.before} again"
        return PutBackResult(state=HalfDone.UNCHANGED if is_back else HalfDone.OURS, because=because)

    def write() -> None:
        register_target(cloud.change, target, MinCapacity=minimum and minimum.before)

    return put_back_number(look, write, lambda tries: time.sleep(min(3, 2 * tries - 1)))


def _left_because(target: Row, row: Row, change: SideChange, begun_at: datetime) -> str | None:
    """Why a minimum isn't put back: anything that shows that a person, or autoscaling, has changed something since."""
    if not target:
        return "it is gone"
    if target["MinCapacity"] != change.ours:
        return f"it was changed to {target['MinCapacity']} since"
    if target["MaxCapacity"] < change.before or (target.get("CreationTime") or begun_at) > begun_at:
        return "its autoscaling was changed since"
    if max(row["CreationTime"], row.get("LastModifiedTime") or row["CreationTime"]) > begun_at:
        return "what it scales was changed since"
    return None


def _undo_scaling(table: Table, scaling: Scaling, cloud: CloudSession, manifest: Manifest) -> UndoResult:
    """Back to the numbers of before, under today's maximum of autoscaling, and then its minimum; of the earlier parts of a stop too.

    One number after the other. Those that can't have their turn in this run get it in the next. Raises CloudError if all fail.
    """
    listing, name = table.listing, manifest.name
    row = _require_same(table, scaling, cloud, manifest)
    records = [one.undo_state for one in (manifest, *manifest.continued)]
    counts, gone = _compared_counts(scaling, row, records, cloud)
    wanted = [(id_, number) for id_, count in counts.items() if (number := count.count_to_request) is not None]

    def is_in_service() -> bool:
        return bool(_described(table, cloud, {listing.key("name"): name})[listing.key("status")] == IN_SERVICE)

    def request(one: tuple[str, int]) -> None:
        cloud.call("sagemaker", scaling.call, listing.key("arn"), **scaling.parameters(name, *one))

    refused, later = recreation.send_in_turn(wanted, is_in_service, request)
    if refused and len(refused) == len(wanted):
        raise refused[0][1]
    missing = {id_ for id_, _ in (*(one for one, _ in refused), *later)}
    failures = recreation.not_restored_sentences(
        {name_in(id_): error for (id_, _), error in refused}, [name_in(id_) for id_, _ in later]
    )
    kept = [text for count in counts.values() for text in count.not_restored]
    minima = [text for saved in records for text in _raise_minimum(cloud, saved, counts, missing)]
    return UndoResult(
        because=f"its previous {scaling.what} were requested" if wanted else f"none of its {scaling.what} changed",
        not_restored=(*kept, *gone, *failures, *minima),
        run_again=bool(failures),
    )


def _require_same(table: Table, scaling: Scaling, cloud: CloudSession, manifest: Manifest) -> Row:
    """The description as it is now. Raises CloudError if it was recreated, is made of something else, or isn't in service."""
    saved, name, operation = manifest.undo_state, manifest.name, f"sagemaker:{scaling.call}"
    row, same = scaling.described(cloud, name)
    if not recreation.is_same_resource(cloud, row, row[table.listing.key("arn")], saved.get("born")):
        raise CloudError.left_alone(operation, f"{name} has been recreated since")
    if not scaling.is_same(saved["same"], same):
        raise CloudError.left_alone(operation, f"{name} has another {scaling.same_text} now")
    if (status := row[table.listing.key("status")]) != IN_SERVICE:
        raise CloudError(Reason.REFUSED, operation, f"the status of {name} is {status}; run this again once it is {IN_SERVICE}")
    return row


def _compared_counts(
    scaling: Scaling, row: Row, records: Sequence[UndoState], cloud: CloudSession
) -> tuple[dict[str, RestoredCount], list[str]]:
    """Every number as it was, as the stop left it, and now; and a sentence for each that is gone. A later action's manifest, which comes first,
    knows better.
    """
    now, targets = scaling.numbers(row), _of_capacity(autoscaling.read_autoscaling(cloud).targets)
    maxima = {target["ResourceId"]: int(target["MaxCapacity"]) for target in targets}
    counts: dict[str, RestoredCount] = {}
    gone = []
    for saved in records:
        for id_, before in saved["before"].items():
            if id_ not in now:
                gone.append(f"Its variant {name_in(id_)} is gone.")
            elif id_ not in counts:
                counts[id_] = RestoredCount(
                    label=f"The {scaling.number.format(name_in(id_))}",
                    before=before,
                    stopped_at=saved["wanted"][id_],
                    now=now[id_],
                    maximum=maxima.get(id_),
                )
    return counts, gone


def _raise_minimum(
    cloud: CloudSession, saved: UndoState, counts: Mapping[str, RestoredCount], missing: Collection[str]
) -> list[str]:
    """Raise autoscaling's minimum where the number is restored, if it is still as it was lowered: raised first, it would scale out on its own, to
    less than before. Returns what couldn't be raised. A minimum above a number that was chosen since would scale that up, so it stays lowered.
    """
    now = {target_key(row): row for row in autoscaling.read_autoscaling(cloud).targets}
    lost = []
    for target, change in _lowered_minima(saved):
        current, id_ = now.get(target_key(target)), target["ResourceId"]
        count = counts.get(id_)
        if id_ in missing:
            continue
        if current is None:
            lost.append(f"The scalable target of {id_} is gone.")
        elif count and count.was_chosen_since and count.now < change.before:
            text = f"restoring {change.before} would override the count of {count.now} set since"
            lost.append(f"The autoscaling minimum of {id_} stays at {current['MinCapacity']}: {text}.")
        else:
            least = RestoredCount(
                label=f"The autoscaling minimum of {id_}",
                before=change.before,
                stopped_at=change.ours,
                now=current["MinCapacity"],
                maximum=max(change.ours, current["MaxCapacity"]),
            )
            if least.count_to_request is not None:
                register_target(cloud.call, target, MinCapacity=least.count_to_request)
            lost += least.not_restored
    return lost


def _of_capacity(targets: Iterable[Row]) -> list[Row]:
    """Those that scale instances or copies."""
    return [row for row in targets if row["ScalableDimension"] in CAPACITY_DIMENSIONS]
