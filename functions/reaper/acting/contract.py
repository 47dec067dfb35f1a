"""The functions and data of a kind's actions, which the executor of its cloud provides. Below mode enforce nothing imports this."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated, Any, Generic, Literal, Protocol, TypeVar

from reaper.errors import CloudError, Reason
from reaper.finding import Outcome
from reaper.model import Constrained, Resource, Result, StepName, Target, Time
from reaper.record import Act, ManifestReference, SideChange

C = TypeVar("C")
MAX_TRIES = 4
"""How often a number is put back. An action has two minutes in all."""
UndoState = Mapping[str, Any]
"""A JSON object: strings, numbers, booleans, null, lists and objects. Times are ISO 8601 strings."""
Members = Mapping[str, Any]
"""The members of an object, or of each object in a list, by name: None for one that may hold anything, else the members inside it."""


def any_members(*names: str) -> Members:
    """Members that may hold anything."""
    return dict.fromkeys(names)


def unknown_member(value: object, members: Members | None, name: str = "") -> str | None:
    """The name of a member that isn't among `members`; None if there is none. Lists have the members of each of their items."""
    if members is None or value is None:
        return None
    if isinstance(value, list):
        return next((odd for item in value if (odd := unknown_member(item, members, name))), None)
    if not isinstance(value, Mapping):
        return name
    for key, inner in value.items():
        path = f"{name}.{key}" if name else str(key)
        odd = unknown_member(inner, members[key], path) if key in members else path
        if odd:
            return odd
    return None


PREVIOUS_MEMBERS = any_members("address", "sha256")


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What an action is about to change or remove: everything that undoing it needs. Stored before the action.

    `continued`: the manifests of the earlier parts that this action went on with, the latest first. They are only read to undo it, and never
    stored with it.
    """

    id: str
    kind: str
    name: str
    target: Target
    region: str
    action: StepName
    run: str
    at: Time
    undo_state: UndoState
    schema: Literal[1] = 1
    continued: Annotated[tuple[Manifest, ...], Constrained(max_length=0)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """An earlier action on the same resource whose manifest still stands: its reference, and the manifest if it could be read and is ours.

    `is_known`: false if it isn't known whether it was carried out.
    """

    reference: ManifestReference | None = None
    manifest: Manifest | None = None
    is_known: bool = True

    @property
    def record(self) -> UndoState | None:
        """The reference as a new manifest's record names it, as `previous`."""
        return {"address": self.reference.address, "sha256": self.reference.sha256} if self.reference else None


NOTHING_EARLIER = Earlier()

OwnChanges = Callable[[Resource], Resource]
"""The resource as it was before the action's own earlier calls: takes their effects out if they are exactly what those calls set."""


def unchanged(resource: Resource) -> Resource:
    """The resource as it is: no earlier call of the action changed it."""
    return resource


class Permit(Protocol):
    """Permission to make the changing calls of one action, each sent once: `with permit(): cloud.change(...)`.

    Entering reads the resource with its tags once more, then the ledger. It raises `errors.ActionWithdrawn` if anything but the action's own
    calls changed the resource, or if no further call may be made.
    """

    def __call__(self, own_changes: OwnChanges = unchanged, *, may_be_gone: bool = False) -> AbstractContextManager[None]:
        """The permit of one call. `may_be_gone`: an earlier call deleted the resource, and this one removes what is left of it."""
        ...

    def after_wait(self, own_changes: OwnChanges = unchanged) -> None:
        """Repeat the whole look after a wait: resource, tags, activity, rules, snoozes, holds. Raises ActionWithdrawn."""
        ...


def part_of(manifest: Manifest) -> int:
    """Which part of one undertaking an action is. Above 1 it went on with the action whose manifest the record names as `previous`."""
    return int(manifest.undo_state.get("part", 1))


def done(because: str, part: str | None = None) -> Outcome:
    """The outcome of an action that was carried out. `part`, such as `1 of 2 variants`: it left something that is an action of its own."""
    return Outcome(result=Result.DONE, because=because, part_done=part, begun=True)


class HalfDone(StrEnum):
    """What looking at an interrupted action found, or did. `OURS`: what it changed is exactly as it left it, and is to be put back."""

    DONE = "done"
    UNCHANGED = "unchanged"
    OURS = "ours"
    PUT_BACK = "put back"
    LEFT = "left"


@dataclass(frozen=True, slots=True, kw_only=True)
class PutBackResult:
    """How an interrupted action was settled, and why, as one sentence."""

    state: HalfDone
    because: str

    @property
    def result(self) -> Result:
        """The result of the action: done, not carried out (`refused`), or, if something stays changed, `failed`."""
        return {HalfDone.DONE: Result.DONE, HalfDone.LEFT: Result.FAILED}.get(self.state, Result.REFUSED)


NOTHING_CHANGED = PutBackResult(state=HalfDone.UNCHANGED, because="nothing had changed")
NOTHING_BESIDE = PutBackResult(state=HalfDone.UNCHANGED, because="nothing but its main call changes anything")


def put_back_number(
    look: Callable[[], PutBackResult | CloudError], write: Callable[[], None], pause: Callable[[int], None]
) -> PutBackResult:
    """Look at a number that an interrupted action changed, and write what was before if it is still ours; again after a pause if the cloud was at
    work, or the call may have worked although it failed. Raises CloudError if that can't be known or done now.

    `look`: what a fresh look shows, with the sentence for the number once it is back; or an error if the cloud is still at work on the resource, or
    can't be read for now. `pause(tries)` waits.
    """
    tries, may_be_back = 0, False
    while True:
        found = look()
        if isinstance(found, CloudError):
            refusal = found
        elif found.state is HalfDone.UNCHANGED:
            return replace(found, state=HalfDone.PUT_BACK) if may_be_back else NOTHING_CHANGED
        elif found.state is not HalfDone.OURS:
            return found
        else:
            try:
                write()
                return replace(found, state=HalfDone.PUT_BACK)
            except CloudError as error:
                is_throttled = error.reason is Reason.THROTTLED or error.code.startswith("409")
                if not (is_throttled or error.may_have_been_made):
                    raise
                refusal, may_be_back = error, may_be_back or error.may_have_been_made
        tries += 1
        if tries == MAX_TRIES:
            raise refusal
        pause(tries)


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoResult:
    """What an undo restored, as one sentence, and what it didn't, one sentence each.

    `run_again`: running it again can restore more, as soon as the resource is in service.
    """

    because: str
    not_restored: tuple[str, ...] = ()
    run_again: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionFunctions(Generic[C]):
    """How a kind's actions are made. Every function raises CloudError if a call fails, with Reason.GONE if the resource no longer exists.

    `read_now(cloud, resource)`: the resource as it is this moment, with its tags from the authoritative call, its `host_id` and its
    `fingerprint`. It is read several times before an action and compared: everything a person may change about the resource must show in it.
    `read_undo_state(cloud, resource, action, earlier)`: what undoing the action will need, read now. Changes nothing.
    `perform(cloud, resource, manifest, permit)`: carry out the action and say what was done (`done`). Each changing call is a `cloud.change` in a
    `with permit():` of its own, which lets what either raises through. After a wait it calls `permit.after_wait()`. Long-running
    operations are started, not waited for.
    `side_changes(manifest)`: what `perform` changes beside its main call.
    `put_back(cloud, resource, interrupted)`: look at what an interrupted action left, and put its side changes back: if the main call took
    effect, DONE; if nothing changed, UNCHANGED; if each value is still exactly ours, the resource has the same creation time and nothing shows
    a later change, PUT_BACK; else LEFT. Raises CloudError if it can't be known or done now. Of the resource only `id`, `name`, `region`
    and `target` are known.
    `undo(cloud, manifest)`: restore what the manifest says. Raises CloudError if nothing could be restored.
    `undo_members`: by action, the members that the record of its manifest has. `id_pattern`: matches the whole ID of every resource of the
    kind in any case; its groups `account`, `region` and `name...` (joined with `/`) are what the ID shows of these.
    """

    read_now: Callable[[C, Resource], Resource]
    read_undo_state: Callable[[C, Resource, StepName, Earlier], UndoState]
    perform: Callable[[C, Resource, Manifest, Permit], Outcome]
    undo: Callable[[C, Manifest], UndoResult]
    undo_permissions: tuple[str, ...]
    undo_members: Mapping[StepName, Members]
    id_pattern: re.Pattern[str]
    side_changes: Callable[[Manifest], tuple[SideChange, ...]]
    put_back: Callable[[C, Resource, Act], PutBackResult]
