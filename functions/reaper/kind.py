"""A kind: one sort of resource, and everything the product knows about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from reaper.model import BilledPart, Blocked, Observation, Resource, StepName, Window

C = TypeVar("C")


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionSpec:
    """What one move does to a resource of a kind, and how it is undone, for people.

    `verb` completes `it was …`. `permissions`: what the move needs beyond those for reading. `undo` is empty where nothing brings it back.
    `in_vain`: where it changes nothing, as a clause, and what to do then, for `policy check`.
    """

    participle: str
    effect: str
    undo: str
    permissions: tuple[str, ...]
    no_effect_where: str = ""


def no_actions(resource: Resource) -> Mapping[StepName, Blocked | None]:
    """The moves of a kind that only tells."""
    return {}


def no_parts_left(resource: Resource, move: StepName) -> tuple[BilledPart, ...]:
    """What is still paid for after a move that ends all cost."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind(Generic[C]):
    """One sort of resource and everything the product knows about it.

    `discover(cloud)` yields the resources, tags included. `observe(cloud, resources, window)` takes the whole batch and yields one
    observation for each. `permissions` are the exact IAM or RBAC actions that both need. `able(resource)` says of an observed resource
    which of the moves in `deeds` could be made now, and `left(resource, move)` what is still paid for after one of them; how they are made
    is not here but in the cloud's folder `acts`. Without deeds a kind only tells. `needs`: what has to be set up by hand before one of it is
    ever proven idle, else only `likely`. Not `priced`: none ever has a price of its own. The rest is for docs/kinds.md.
    """

    name: str
    cloud: str
    title: str
    docs: str
    permissions: tuple[str, ...]
    activity: str
    heartbeat: str
    without_proof: str
    discover: Callable[[C], Iterable[Resource]]
    observe: Callable[[C, Sequence[Resource], Window], Iterable[Observation]]
    blocked_actions: Callable[[Resource], Mapping[StepName, Blocked | None]] = no_actions
    parts_after: Callable[[Resource, StepName], tuple[BilledPart, ...] | None] = no_parts_left
    actions: Mapping[StepName, ActionSpec] = field(default_factory=dict)
    details: type | None = None
    needs_setup: str = ""
    has_price: bool = True
