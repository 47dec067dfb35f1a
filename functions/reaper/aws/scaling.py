"""Scaling SageMaker's instances and copies in, putting back what an interrupted scaling left, and undoing it: never against autoscaling.

Undoing is for the very same resource only, and of its numbers only for those that are still as the stop left them. Any other number was
chosen since, by a person or by autoscaling, for what the resource has to do now: it stays. A call takes the capacity of one variant; the
endpoint is being updated after it, and refuses the next until it is in service:
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_UpdateEndpointWeightsAndCapacities.html
The minimum that autoscaling keeps is lowered before, and raised after:
https://docs.aws.amazon.com/autoscaling/application/APIReference/API_RegisterScalableTarget.html
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from reaper.acting.contract import (
    PREVIOUS_MEMBERS,
    ActionResult,
    Earlier,
    HalfDone,
    Interrupted,
    Manifest,
    Members,
    OwnChanges,
    Permit,
    PutBackResult,
    UndoResult,
    UndoState,
    any_members,
    next_part,
    part_of,
)
from reaper.acting.put_back import LeftBehind, put_back
from reaper.aws import autoscaling, reader, recreation, sagemaker, tags
from reaper.aws.autoscaling import CAPACITY_DIMENSIONS
from reaper.aws.recreation import RestoredCount
from reaper.aws.saved_autoscaling import (
    SAVED_MEMBERS,
    autoscaling_digest,
    read_autoscaling_state,
    register_target,
    target_key,
)
from reaper.aws.session import CloudSession
from reaper.aws.table import Goal, Numbers, Row, Scaling, Table, Tags
from reaper.errors import CloudError, Reason
from reaper.model import Resource, SideChange, StepName

MINIMUM, AUTOSCALING = "minimum of ", "autoscaling of "
IN_SERVICE = "InService"
RUN_AGAIN = "run this again once the endpoint is in service"
UNDO_MEMBERS: Members = {
    **any_members("born", "same", "before", "wanted", "part", "parts"),
    "previous": PREVIOUS_MEMBERS,
    "scaling": SAVED_MEMBERS,
}


def with_live_settings(cloud: CloudSession, scaling: Scaling, resource: Resource, row: Row) -> Resource:
    """The resource as the looks before an action compare it. Numbers have names of their own, because own calls set them; everything else that a
    person may change is a digest.
    """
    numbers = dict(scaling.numbers(row))
    saved = read_autoscaling_state(cloud, numbers)
    minima = {MINIMUM + target["ResourceId"]: int(target["MinCapacity"]) for target in _of_capacity(saved["targets"])}
    digests = {AUTOSCALING + id_: autoscaling_digest(saved, id_) for id_ in numbers}
    settings = {resource.name: sagemaker.digest(scaling.settings(row)), **digests}
    return replace(resource, details=replace(resource.details, settings=settings, numbers={**numbers, **minima}))


def saved_state(table: Table, scaling: Scaling, cloud: CloudSession, resource: Resource, earlier: Earlier) -> UndoState:
    """The number before and after, decided again from fresh replies, and all its autoscaling.

    `parts`: how many numbers there were to scale, this one and those of the actions that it goes on with included.
    """
    goal = scaling.goal(cloud, resource)
    [first, *_] = goal.wanted
    same = {
        "born": recreation.first_created(goal.row, tags.read_tags_now(cloud, goal.row[table.listing.key("arn")])),
        "same": goal.same,
    }
    part = _part(earlier, same, goal)
    return {
        **same,
        "before": {first: goal.before[first]},
        "wanted": {first: goal.wanted[first]},
        "previous": earlier.record,
        "part": part,
        "parts": part - 1 + len(goal.wanted),
        "scaling": read_autoscaling_state(cloud, [first]),
    }


def _part(earlier: Earlier, same: UndoState, goal: Goal) -> int:
    """Which part this action is: the same as one before it on the same numbers that isn't known to have been carried out."""
    before = earlier.manifest
    if before and not earlier.is_known and _is_same_stop(before, same) and _overlaps(before, goal):
        return part_of(before)
    return next_part(earlier, lambda before: _continues(before, same, goal))


def _continues(before: Manifest, same: UndoState, goal: Goal) -> bool:
    """Whether this action goes on with that one: it left some of this very resource's numbers, and what it did still stands."""
    left_some = part_of(before) < before.undo_state.get("parts", 1)
    return left_some and _is_same_stop(before, same) and not _overlaps(before, goal)


def _is_same_stop(before: Manifest, same: UndoState) -> bool:
    return before.action is StepName.STOP and all(before.undo_state.get(key) == value for key, value in same.items())


def _overlaps(before: Manifest, goal: Goal) -> bool:
    return not goal.wanted.keys().isdisjoint(before.undo_state["wanted"])


def side_changes(manifest: Manifest) -> tuple[SideChange, ...]:
    """The autoscaling minimum, and the number itself: it shows whether the action took effect."""
    saved = manifest.undo_state
    numbers = (SideChange(what=id_, before=saved["before"][id_], ours=count) for id_, count in saved["wanted"].items())
    return (*minimum_changes(saved), *numbers)


def minimum_changes(saved: UndoState) -> tuple[SideChange, ...]:
    """The autoscaling minima that are above what is wanted."""
    wanted = saved["wanted"]
    return tuple(
        SideChange(what=MINIMUM + target["ResourceId"], before=target["MinCapacity"], ours=wanted[target["ResourceId"]])
        for target in _targets_to_lower(saved)
    )


def perform(
    table: Table, scaling: Scaling, cloud: CloudSession, manifest: Manifest, permit: Permit, own_tags: Tags
) -> ActionResult:
    """The autoscaling minimum first, or autoscaling would undo the rest."""
    saved = manifest.undo_state
    minima = minimum_changes(saved)
    for target, change in zip(_targets_to_lower(saved), minima, strict=True):
        with permit():
            register_target(cloud.change, target, MinCapacity=change.ours)
    with permit(numbers_set(minima)):
        for id_, count in saved["wanted"].items():
            _set_number(table, scaling, cloud.change, manifest.name, id_, count)
    lowered = "; the autoscaling minimum was lowered first" if minima else ""
    later = "; a scheduled action may raise it again" if saved["scaling"]["actions"] else ""
    part = f"{saved['part']} of {saved['parts']} {scaling.parts}" if saved["part"] < saved["parts"] else None
    changes = ", ".join(f"{_last(id_)} from {saved['before'][id_]} to {count}" for id_, count in saved["wanted"].items())
    told = f"{scaling.told.format(changes=changes, before=sum(saved['before'].values()))}{lowered}{later}{sagemaker.stack_warning(own_tags)}"
    return ActionResult(because=told, part_done=part)


def _set_number(table: Table, scaling: Scaling, send: Callable[..., Any], name: str, id_: str, count: int) -> None:
    """One call. `send`: the session's `call` or `change`."""
    send("sagemaker", scaling.call, table.listing.key("arn"), **scaling.parameters(name, id_, count))


def numbers_set(made: Sequence[SideChange]) -> OwnChanges:
    """Takes out the numbers that earlier calls set."""

    def as_before(now: Resource) -> Resource:
        numbers = {**now.details.numbers}
        numbers |= {change.what: change.before for change in made if numbers.get(change.what) == change.ours}
        return replace(now, details=replace(now.details, numbers=numbers))

    return as_before


def settle(table: Table, scaling: Scaling, cloud: CloudSession, resource: Resource, interrupted: Interrupted) -> PutBackResult:
    """Put the autoscaling minimum of an interrupted action back, unless the action took effect."""
    minimum = next((change for change in interrupted.changes if change.what.startswith(MINIMUM)), None)
    target: dict[str, Any] = {}

    def look() -> LeftBehind:
        row = reader.described(cloud, table, {table.listing.key("name"): resource.name})
        if because := _settled(row, scaling, interrupted, minimum):
            return LeftBehind(settled=because)
        assert minimum is not None
        id_ = minimum.what.removeprefix(MINIMUM)
        rows = autoscaling.read_autoscaling_of(cloud, [id_]).targets
        target.clear()
        target.update(next((row for row in rows if row["ScalableDimension"] in CAPACITY_DIMENSIONS), {}))
        because_left = _left_because(target, row, minimum, interrupted.begun_at)
        return LeftBehind(
            is_back=target.get("MinCapacity") == minimum.before,
            left_because=because_left and f"the autoscaling minimum of {id_} stays as it is, because {because_left}",
            told=f"the autoscaling minimum of {id_} is {minimum.before} again",
        )

    def write() -> None:
        register_target(cloud.change, target, MinCapacity=minimum and minimum.before)

    return put_back(look, write, lambda tries: time.sleep(min(3, 2 * tries - 1)))


def _settled(row: Row, scaling: Scaling, interrupted: Interrupted, minimum: SideChange | None) -> PutBackResult | None:
    """How it ended, if no minimum has to be put back."""
    if row["CreationTime"] != interrupted.created:
        return PutBackResult(state=HalfDone.LEFT, because="it has been recreated since, so the reaper left it alone")
    numbers = scaling.numbers(row)
    if any(numbers.get(change.what) == change.ours for change in interrupted.changes):
        return PutBackResult(state=HalfDone.DONE, because="the stop took effect all the same")
    return None if minimum else PutBackResult(state=HalfDone.UNCHANGED, because="nothing had changed")


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


@dataclass(slots=True, kw_only=True)
class _Undo:
    """An undo on its way: the numbers by ID, those that aren't back, and the sentences about what is gone and what failed."""

    counts: dict[str, RestoredCount] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)
    gone: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


def undo(table: Table, scaling: Scaling, cloud: CloudSession, manifest: Manifest) -> UndoResult:
    """Back to the numbers of before, under today's maximum of autoscaling, and then its minimum; of the earlier parts of a stop too."""
    row = _require_same(table, scaling, cloud, manifest)
    records = [one.undo_state for one in (manifest, *manifest.continued)]
    progress = _Undo()
    _compare_counts(scaling, row, records, _maximum_by_id(cloud), progress)
    _restore_counts(table, scaling, cloud, manifest.name, progress)
    kept = [text for count in progress.counts.values() for text in count.not_restored]
    minima = [text for saved in records for text in _raise_minimum(cloud, saved, progress)]
    is_requested = any(count.count_to_request is not None for count in progress.counts.values())
    return UndoResult(
        because=f"its previous {scaling.what} were requested" if is_requested else f"none of its {scaling.what} changed",
        not_restored=(*kept, *progress.gone, *progress.failures, *minima),
        run_again=bool(progress.failures),
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


def _compare_counts(scaling: Scaling, row: Row, records: Sequence[UndoState], maxima: Numbers, progress: _Undo) -> None:
    """Every number as it was, as the stop left it, and now. A later action's manifest, which comes first, knows better."""
    now = scaling.numbers(row)
    for saved in records:
        for id_, before in saved["before"].items():
            if id_ not in now:
                progress.gone.append(f"Its variant {id_.rpartition('/')[2]} is gone.")
            elif id_ not in progress.counts:
                progress.counts[id_] = RestoredCount(
                    label=f"The {scaling.number.format(_last(id_))}",
                    before=before,
                    stopped_at=saved["wanted"][id_],
                    now=now[id_],
                    maximum=maxima.get(id_),
                )


def _restore_counts(table: Table, scaling: Scaling, cloud: CloudSession, name: str, progress: _Undo) -> None:
    """One number after the other. Those that can't have their turn in this run get it in the next. Raises CloudError if all fail."""
    requests = {id_: count.count_to_request for id_, count in progress.counts.items()}
    waiting = {id_: number for id_, number in requests.items() if number is not None}
    wanted, refused = len(waiting), dict[str, CloudError]()
    while waiting and _is_in_service(table, cloud, name):
        id_, count = next(iter(waiting.items()))
        del waiting[id_]
        try:
            _set_number(table, scaling, cloud.call, name, id_, count)
        except CloudError as error:
            refused[id_] = error
    if refused and len(refused) == wanted:
        raise next(iter(refused.values()))
    progress.missing |= {*refused, *waiting}
    progress.failures += not_restored_sentences({_last(id_): error for id_, error in refused.items()}, [*map(_last, waiting)])


def _is_in_service(table: Table, cloud: CloudSession, name: str) -> bool:
    row = reader.described(cloud, table, {table.listing.key("name"): name})
    return bool(row[table.listing.key("status")] == IN_SERVICE)


def _last(id_: str) -> str:
    return id_.rpartition("/")[2]


def not_restored_sentences(refused: Mapping[str, CloudError], later: Sequence[str]) -> list[str]:
    """The sizes and weights of variants that aren't back, and how they come back."""
    sentences = [f"Not restored: the size or weight of {name} ({error}). Run this again." for name, error in refused.items()]
    return sentences + ([f"Not restored yet: the size of {', '.join(later)}; {RUN_AGAIN}."] if later else [])


def _raise_minimum(cloud: CloudSession, saved: UndoState, progress: _Undo) -> list[str]:
    """Raise autoscaling's minimum where the number is restored, if it is still as it was lowered: raised first, it would scale out on its own, to
    less than before. Returns what couldn't be raised. A minimum above a number that was chosen since would scale that up, so it stays lowered.
    """
    now = {target_key(row): row for row in autoscaling.read_autoscaling(cloud).targets}
    lost = []
    for target in _targets_to_lower(saved):
        current, id_ = now.get(target_key(target)), target["ResourceId"]
        count = progress.counts.get(id_)
        if id_ in progress.missing:
            continue
        if current is None:
            lost.append(f"The scalable target of {id_} is gone.")
        elif count and count.was_chosen_since and count.now < target["MinCapacity"]:
            text = f"restoring {target['MinCapacity']} would override the count of {count.now} set since"
            lost.append(f"The autoscaling minimum of {id_} stays at {current['MinCapacity']}: {text}.")
        else:
            lost += _raise_target_minimum(cloud, target, saved["wanted"][id_], current)
    return lost


def _raise_target_minimum(cloud: CloudSession, target: Row, lowered_to: int, current: Row) -> list[str]:
    least = RestoredCount(
        label=f"The autoscaling minimum of {target['ResourceId']}",
        before=target["MinCapacity"],
        stopped_at=lowered_to,
        now=current["MinCapacity"],
        maximum=max(lowered_to, current["MaxCapacity"]),
    )
    if least.count_to_request is not None:
        register_target(cloud.call, target, MinCapacity=least.count_to_request)
    return least.not_restored


def _targets_to_lower(saved: UndoState) -> list[Mapping[str, Any]]:
    """The recorded targets whose minimum is above what is wanted."""
    wanted, targets = saved["wanted"], _of_capacity(saved["scaling"]["targets"])
    return [row for row in targets if row["MinCapacity"] > wanted.get(row["ResourceId"], row["MinCapacity"])]


def _maximum_by_id(cloud: CloudSession) -> dict[str, int]:
    """The maximum by resource ID that autoscaling allows now."""
    return {row["ResourceId"]: int(row["MaxCapacity"]) for row in _of_capacity(autoscaling.read_autoscaling(cloud).targets)}


def _of_capacity(targets: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Those that scale instances or copies."""
    return [row for row in targets if row["ScalableDimension"] in CAPACITY_DIMENSIONS]
