"""What can be done to the resources of a kind, apart from what can be read of them. Below mode enforce none of it is ever imported.

A cloud's folder `acts` has one module for each kind that can act, named like the kind's own, which binds `ACTS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from reaper.model import Resource, StepName, Target

C = TypeVar("C")
UndoState = Mapping[str, Any]
"""A JSON object: texts, numbers, booleans, null, lists and objects. Times are ISO 8601 texts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What an act is about to change or take away: everything that undoing it needs. Stored before the act."""

    id: str
    kind: str
    name: str
    target: Target
    region: str
    action: StepName
    run: str
    at: datetime
    undo_state: UndoState


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """An earlier action on the same resource whose manifest still stands: its address, None if there is none.

    Not `is_readable`: it lies outside REAPER_MANIFESTS, so it is named and never read.
    """

    manifest_address: str | None = None
    is_readable: bool = True


NOTHING_EARLIER = Earlier()

CallCheck = Callable[[], None]
"""Asked before every changing call. It returns where the call may be made, and raises `errors.Withdrawn` where no further one may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionResult:
    """What an action did, as one sentence. `part`, such as `1 of 2 variants`, where it left something that is an action of its own."""

    because: str
    part_done: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoResult:
    """What undoing an act brought back, in one sentence, and what of it is not back, one sentence each.

    `again`: more of it can come back when it is run again, as soon as something is in service.
    """

    because: str
    not_restored: tuple[str, ...] = ()
    run_again: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionFunctions(Generic[C]):
    """How a kind's moves are made. Every function raises CloudError where a call fails, with Trouble.GONE where the resource is no more.

    A resource's `facts` may have: `within`, a tuple of `Resource`: what lives inside and would go with it, with the tags its own sweep sees
    (None: unreadable); `host`, the id of the resource that it lives in, whose snooze keeps it, too; `previous`, the address of an earlier act's
    manifest that still stands; `elsewhere`, that it lies outside REAPER_MANIFESTS, so that it is named and never read; `shape`, what it was
    like, for kinds whose changes leave no time; `stop_by`, the rule's way to stop.

    `look(cloud, resource)`: the resource as it is this moment, with its tags from the authoritative call.
    `record(cloud, resource, move)`: what undoing that move will need, read now. Nothing is changed.
    `carry(cloud, resource, manifest, permit)`: make the move and say what was done. `permit()` is called before each changing call, and
    what it raises goes through. It raises CloudError of trouble PARTIAL where something stays changed, and any other trouble where, if the
    call was sent once only, nothing is. Long-running operations are started, not waited for.
    `undo(cloud, manifest)`: bring back what the manifest says. Raises CloudError where nothing could be brought back.
    """

    read_now: Callable[[C, Resource], Resource]
    read_undo_state: Callable[[C, Resource, StepName], UndoState]
    perform: Callable[[C, Resource, Manifest, CallCheck], ActionResult]
    undo: Callable[[C, Manifest], UndoResult]
    undo_permissions: tuple[str, ...]
