"""A kind: one sort of resource, and everything the product knows about it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, ClassVar, Generic, Literal, TypeVar, get_args

from reaper.case import Blocked
from reaper.model import BilledPart, Resource, StepName
from reaper.observation import Observation, Window

C = TypeVar("C")
MAX_PASTED_LENGTH = 1000
"""Characters. A real ARN or ARM ID is far shorter, and a longer one is not pasted anywhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A line for a shell, and the label that says what it does: `Stop it now`."""

    label: str
    line: str


def is_pasteable(*texts: str) -> bool:
    """Whether these texts can stand in a line that people paste: printable and of a sane length."""
    return all(text.isprintable() and len(text) <= MAX_PASTED_LENGTH for text in texts)


def no_line(*_: object) -> None:
    """The default for a kind without such a line, address or reason."""


def nothing(*_: object) -> tuple[()]:
    """The default of a table that its cloud's reader hasn't completed, and what is paid for after an action that ends all cost."""
    return ()


def account_of(resource: Resource) -> str:
    """`account 123456789012`."""
    return f"account {resource.target.account}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionSpec:
    """What one action does to a resource of a kind, and how to undo it, for people.

    `participle` completes "It will be ...". `noun`: what it is called, if not by its name. `undo` completes "Undoing it ...". `permissions`: what the action needs beyond those for reading.
    `no_effect_where`, for `policy check`: when the action changes nothing, and what to do then. `still_billed`: what a stop may leave to pay for.
    `call`: the cloud's operation. `label` names the line that people can paste to make it, with `note` after it. `arguments`: the options of that line
    beside its name, or a function of the resource that returns them all, and None if there can be no line.
    """

    deletes: ClassVar[bool] = False
    """Whether the resource is gone once it is done."""
    participle: str
    effect: str
    undo: str
    permissions: tuple[str, ...] = ()
    no_effect_where: str = ""
    still_billed: str = ""
    noun: str = ""
    call: str = ""
    label: str = ""
    note: str | Callable[[Resource], str] = ""
    arguments: Mapping[str, str] | Callable[[Resource], Mapping[str, str] | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Undo:
    """The call that undoes a start or stop. `needs`: the statuses in which it can be sent; none: in any but a changing one. `done`: those in which nothing is left to undo.
    `lost`: what it doesn't bring back. `left_because(resource)`: why it isn't sent all the same.
    """

    call: str
    because: str
    needs: Collection[str] = ()
    done: Collection[str] = ()
    lost: tuple[str, ...] = ()
    left_because: Callable[[Resource], str | None] = no_line


@dataclass(frozen=True, slots=True, kw_only=True)
class StartStop(ActionSpec):
    """One call on one resource, sent once. `because`: what it does, once it was sent.

    `allowed`: the statuses in which it can be sent. `done`: those in which nothing is left to do, each with its clause. `left_because(resource)`:
    why it is left alone all the same. `status_noun`: what people call its status.
    """

    because: str
    allowed: Collection[str]
    done: Mapping[str, str]
    undo_call: Undo | None = None
    left_because: Callable[[Resource], str | None] = no_line
    status_noun: str = "status"


def start_stop_blocked(action: StartStop, resource: Resource) -> Blocked | None:
    """Why it can't be sent now."""
    if resource.status in action.allowed:
        because = action.left_because(resource)
        return Blocked(because=because) if because else None
    done = action.done.get(resource.status)
    return Blocked(because=done or f"its {action.status_noun} is {resource.status or 'missing'}", already_done=done is not None)


Effect = Literal["free", "in_use", "changing", "unknown"]
When = Collection[str] | Callable[[Resource], object]
"""Statuses, or a question about the resource. What a question returns stands in the clause as `{0}`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusRule:
    """What statuses mean: the resource is free, in use or changing, or nothing can be proven; and the clause for people."""

    effect: Effect
    when: When
    because: str


def status_rule(effect: Effect, when: When, because: str = "its status is {status}") -> StatusRule:
    """One row of a kind's `states`. `{status}` in the clause is the resource's."""
    return StatusRule(effect=effect, when=when, because=because)


def none_of(*statuses: str) -> Callable[[Resource], object]:
    """Any other status."""
    return lambda resource: resource.status not in statuses


def by_status(observation: Observation, rules: Sequence[StatusRule]) -> Observation:
    """The observation with what the first rule that applies says; unchanged if only signals can tell."""
    resource = observation.resource
    for rule in rules:
        if answer := _answer(rule.when, resource):
            changes: dict[str, Any] = {f"{rule.effect}_because": rule.because.format(answer, status=resource.status or "missing")}
            return replace(observation, **changes)
    return observation


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """What blocks actions, all or those of `steps`. `already_done`: because nothing is left to do."""

    when: When
    because: str
    steps: tuple[StepName, ...]
    already_done: bool


def block(when: When, because: str = "{0}", *steps: StepName, already_done: bool = False) -> Block:
    """One row of a kind's `blocks`. A question may return the whole `Blocked`; what else it returns stands in the clause as `{0}`."""
    return Block(when=when, because=because, steps=steps, already_done=already_done)


def blocked_by(
    actions: Mapping[StepName, ActionSpec], blocks: Sequence[Block], resource: Resource
) -> dict[StepName, Blocked | None]:
    """The first block of each action, if any, and what the statuses of a start or stop say."""
    found: dict[StepName, Blocked | None] = {}
    for step, action in actions.items():
        own = start_stop_blocked(action, resource) if isinstance(action, StartStop) else None
        found[step] = next(filter(None, (_blocked(row, resource) for row in blocks if step in (row.steps or (step,)))), own)
    return found


def _blocked(row: Block, resource: Resource) -> Blocked | None:
    answer = _answer(row.when, resource)
    if isinstance(answer, Blocked) or not answer:
        return answer or None
    return Blocked(because=row.because.format(answer, status=resource.status or "missing"), already_done=row.already_done)


def _answer(when: When, resource: Resource) -> Any:
    return when(resource) if callable(when) else resource.status in when


def is_decided(observation: Observation) -> bool:
    """Whether the resource's own state says enough, so that no signal needs to be read."""
    return any(getattr(observation, f"{effect}_because") for effect in get_args(Effect))


def no_actions(resource: Resource) -> Mapping[StepName, Blocked | None]:
    """The actions of a kind that only notifies."""
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind(Generic[C]):
    """One sort of resource and everything the product knows about it. A kind without `actions` only notifies.

    `states`: what its statuses mean, and `blocks`, what blocks its actions: the first that applies. `discover(cloud)` yields the resources, tags included. `observe(cloud, resources, window)` takes the whole batch and yields an
    observation for each. `permissions`: the exact IAM or RBAC actions that both need. `details`: the type of its resources' `details`.

    `blocked_actions(resource)` says which of the `actions` an observed resource allows now, and `parts_after(resource, action)`
    what is still paid for after one of them; `parts_anyway(resource)`, what would be without any, once its autoscaling has scaled it in. The
    executor of its cloud carries the actions out.

    For owners: `commands`, by action what they can paste to do the same; `undo_line(resource)`, which undoes a stop, None if only
    `reaper restore` can; `keep_line(resource, key, value)`, which puts a tag on it; `console_url(resource)`; and `place(resource)`, the
    account or workspace that people know it by.

    For `policy check` and reports: `needs_setup`, what must be set up before any of it is ever proven idle. `price_keys`: the components of the price
    snapshot that its parts are billed under; a kind with `has_price=False` never has a price of its own.

    `host`: the name of the kind that its resources live in. `has_idle_shutdown`: its cloud has an idle shutdown, which `stop_by: native` switches on.

    `spares_known`: its `observe` asks for no metrics of what `Window.known` says is in use. Never of a kind that can be started: office hours
    may stop what is in use.

    `activity`, `heartbeat` and `without_proof` say for docs/kinds.md, and for readers of the table, what makes it idle. What is `free` there is
    exempt in a report, and what is `changing` is young.
    """

    name: str
    cloud: str
    title: str
    docs: str
    permissions: tuple[str, ...] = ()
    activity: str
    heartbeat: str
    without_proof: str
    states: Sequence[StatusRule] = ()
    blocks: Sequence[Block] = ()
    discover: Callable[[C], Iterable[Resource]] = nothing
    observe: Callable[[C, Sequence[Resource], Window], Iterable[Observation]] = nothing
    blocked_actions: Callable[[Resource], Mapping[StepName, Blocked | None]] = no_actions
    parts_after: Callable[[Resource, StepName], tuple[BilledPart, ...] | None] = nothing
    parts_anyway: Callable[[Resource], tuple[BilledPart, ...] | None] = attrgetter("parts")
    actions: Mapping[StepName, ActionSpec] = field(default_factory=dict)
    details: type | None = None
    commands: Mapping[StepName, Callable[[Resource], Command | None]] = field(default_factory=dict)
    undo_line: Callable[[Resource], str | None] = no_line
    console_url: Callable[[Resource], str | None] = no_line
    keep_line: Callable[[Resource, str, str], str | None] = no_line
    place: Callable[[Resource], str] = account_of
    price_keys: tuple[str, ...] = ()
    needs_setup: str = ""
    has_price: bool = True
    host: str | None = None
    has_idle_shutdown: bool = False
    spares_known: bool = False

    @property
    def can_be_started(self) -> bool:
        """Whether the reaper can start it again, so that office hours may stop it."""
        return StepName.START in self.actions
