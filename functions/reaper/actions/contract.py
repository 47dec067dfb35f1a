"""What a kind's actions are made of. Below mode enforce none of it is ever imported.

A cloud's folder `actions` has one module for each kind that can act, named like the kind's own, which binds `ACTS`, and helpers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from reaper.model import Resource, StepName, Target

C = TypeVar("C")
UndoState = Mapping[str, Any]
"""A JSON object: strings, numbers, booleans, null, lists and objects. Times are ISO 8601 strings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What an action is about to change or remove: everything that undoing it needs. Stored before the action."""

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
"""Called before every changing call. Returns if the call may be made; raises `errors.ActionWithdrawn` if no further call may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionResult:
    """What an action did, as one sentence. `part_done`, such as `1 of 2 variants`: it left something that is an action of its own."""

    because: str
    part_done: str | None = None


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

    `read_now(cloud, resource)`: the resource as it is this moment, with its tags from the authoritative call; with its `host_id`, its
    `fingerprint`, and with `contained`, each of which has the tags that its own sweep sees (None: unreadable).
    `read_undo_state(cloud, resource, action, earlier)`: what undoing the action will need, read now. Changes nothing.
    `perform(cloud, resource, manifest, permit)`: carry out the action and say what was done. It calls `permit()` before each changing call
    and lets what that raises through. It raises CloudError with Reason.PARTIAL if something stays changed; after any other reason, if the
    call was sent only once, nothing is. Long-running operations are started, not waited for.
    `undo(cloud, manifest)`: restore what the manifest says. Raises CloudError if nothing could be restored.
    """

    read_now: Callable[[C, Resource], Resource]
    read_undo_state: Callable[[C, Resource, StepName, Earlier], UndoState]
    perform: Callable[[C, Resource, Manifest, CallCheck], ActionResult]
    undo: Callable[[C, Manifest], UndoResult]
    undo_permissions: tuple[str, ...]
