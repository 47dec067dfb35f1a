"""The reader of Azure ML kinds: it lists, reads and observes what a `Table` says, a whole batch at a time.

Metrics of computes are the workspace's, split by the compute's name."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from shlex import quote
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote as escape

from reaper.azure.metrics import MetricQuery, fetch_metrics
from reaper.azure.requests import ArmChange, ArmRequest, Json
from reaper.case import Blocked
from reaper.evidence import is_recent
from reaper.kind import ActionSpec, Block, Command, Kind, StartStop, blocked_by, by_status, is_decided, no_line
from reaper.model import BilledPart, Resource, StepName, is_native
from reaper.observation import Observation, Reading, Window

if TYPE_CHECKING:
    from reaper.azure.session import CloudSession

IN_WORKSPACE = " --workspace-name {workspaces} --resource-group {resourcegroups} --subscription {subscriptions}"
"""The end of a line."""
STUDIO_URL = "https://ml.azure.com"
WORKSPACE_RESOURCE = re.compile(
    r"(/subscriptions/[0-9a-f-]{36}/resourcegroups/[^/?#&%]{1,90}/providers/microsoft\.machinelearningservices/workspaces/[A-Za-z0-9_-]{1,260})"
    r"/(?:computes/(?P<compute>[^/]+)|onlineendpoints/(?P<endpoint>[^/]+)(?:/deployments/[^/]+)?)",
    re.IGNORECASE,
)


def place(resource: Resource) -> str:
    """The workspace, which people know better than the subscription; else the subscription with its name."""
    target = resource.target
    if workspace := _id_parts(resource.id).get("workspaces"):
        return f"workspace {workspace}"
    return f"subscription {target.account_name} ({target.account})" if target.account_name else f"subscription {target.account}"


def console_url(resource: Resource) -> str | None:
    """A page of the studio, which lists computes and endpoints by workspace."""
    named = WORKSPACE_RESOURCE.fullmatch(resource.id)
    if named is None or not resource.id.isprintable():
        return None
    workspace = f"wsid={escape(named[1])}"
    if named["compute"]:
        return f"{STUDIO_URL}/compute/{escape(named['compute'], safe='')}/details?{workspace}"
    return f"{STUDIO_URL}/endpoints/realtime/{escape(named['endpoint'], safe='')}/detail?{workspace}"


def keep_line(resource: Resource, key: str, value: str) -> str | None:
    """The line that puts a tag on it. Not for computes: the Azure CLI can't tag them alone."""
    return f"az tag update --operation merge --resource-id {quote(resource.id)} --tags {key}={value}"


def command(label: str, template: str, resource: Resource) -> Command | None:
    """The line under that label; None if the ID doesn't name what the line needs."""
    text = line(template, resource)
    return Command(label=label, line=text) if text else None


def line(template: str, resource: Resource) -> str | None:
    """A line for the Azure CLI about the resource; None if its ID doesn't name what the line needs."""
    parts = {**_id_parts(resource.id), "name": resource.name}
    try:
        return template.format(**{key: quote(value) for key, value in parts.items()})
    except KeyError:
        return None


def _id_parts(arm_id: str) -> dict[str, str]:
    """What an ARM ID names, by type in lower case."""
    parts = arm_id.strip("/").split("/")
    return {key.lower(): value for key, value in zip(parts[::2], parts[1::2], strict=False)}


TOO_RECENT = "it was used or changed too recently for a closer look"

State = Mapping[str, Any]
"""What is stored of a resource before an action, or the same as it is now."""
Look = Callable[["CloudSession", Sequence[Observation], Window], Iterable[Observation]]
"""Looks at a whole batch, and returns an observation for each, in order. What is decided by then is only passed on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling(ActionSpec):
    """Sets one number, or a duration, to what costs least, and back while it is still as we set it.

    `of(id)`: the request that reads what has it. `section(state)`: the part of a state that is sent as a whole, with the number under the key
    `number` and its own upper limit, if it has one, under `limit`. Raises CloudError if it can't be read. `change(id, state, section)` sends it.
    `is_checked`: the result shows at once.

    For people: `what` is the number's name, `text(number)` the number; `part` and `section_text(section)` the section's, if it has more than
    that. `outcome`: what was done, with the members of the section as it was, and `doubt(resource)` after it. `may_stay`: that Azure may refuse to
    set it back; `if_unknown`: that its API may not show it. The shape of a native stop has no other texts.
    """

    participle: str = ""
    effect: str = ""
    undo: str = ""
    what: str
    part: str = ""
    to: object
    number: str
    limit: str = ""
    of: Callable[[str], ArmRequest]
    section: Callable[[State], Json]
    change: Callable[[str, State, Json], ArmChange]
    text: Callable[[object], str] = str
    section_text: Callable[[State], str] | None = None
    outcome: str = ""
    doubt: Callable[[Resource], str | None] = no_line
    is_checked: bool = True
    may_stay: str = ""
    if_unknown: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion(ActionSpec):
    """Deletes a deployment, which the stored replies recreate. Its traffic is set to 0% before, and put back if no deletion follows."""

    deletes: ClassVar[bool] = True


Action = StartStop | Scaling | Deletion


@dataclass(frozen=True, slots=True, kw_only=True)
class Table(Kind["CloudSession"]):
    """One Azure ML kind as data. `read_now`: how one is read right before an action.

    `signals` adds the readings of what the states leave open, and each of `closer_looks` looks at what was silent. `native`: the shape of a stop by
    the cloud's own idle shutdown; `native_blocks` it beside what blocks a stop. `undo_command`: the line that undoes a stop. `saved`: the members of
    a compute's properties that are stored before an action; empty for a deployment, which is stored whole.
    """

    cloud: str = "azure"
    read_now: Callable[[CloudSession, Resource], Resource]
    signals: Look
    closer_looks: Sequence[Look]
    actions: Mapping[StepName, Action]
    native: Scaling | None = None
    native_blocks: Sequence[Block] = ()
    saved: tuple[str, ...] = ()
    undo_permissions: tuple[str, ...]
    undo_command: str = ""


def kind_of(table: Table) -> Table:
    """The kind that the product works with."""
    return replace(
        table,
        observe=partial(observe, table),
        blocked_actions=partial(_blocked_actions, table),
        parts_after=partial(_parts_after, table),
        undo_line=partial(_undo_line, table),
        console_url=console_url,
        place=place,
        has_idle_shutdown=table.native is not None,
    )


def observe(table: Table, cloud: CloudSession, resources: Sequence[Resource], window: Window) -> Iterable[Observation]:
    """Its states; then the metrics, in bulk, of what they leave open; then a closer look at what was silent."""
    observations: Iterable[Observation] = [by_status(Observation(resource=one), table.states) for one in resources]
    observations = [
        replace(one, unknown_because=TOO_RECENT) if needs_closer_look(one) and is_recent(one, window) else one
        for one in table.signals(cloud, list(observations), window)
    ]
    for look in table.closer_looks:
        observations = look(cloud, list(observations), window)
    return observations


def each(look: Callable[[CloudSession, Observation], Observation]) -> Look:
    """A look at one that was silent, as a look at a whole batch."""

    def look_at_all(cloud: CloudSession, observations: Sequence[Observation], window: Window) -> Iterable[Observation]:
        silent = [one for one in observations if needs_closer_look(one)]
        looked = iter(cloud.map_concurrently(partial(look, cloud), silent))
        return [next(looked) if needs_closer_look(one) else one for one in observations]

    return look_at_all


def needs_closer_look(observation: Observation) -> bool:
    """Whether nothing is decided yet, neither by its states nor by a look at it."""
    return not (observation.is_gone or is_decided(observation))


def state_in(states: Collection[str], field: str, resource: Resource) -> str | None:
    """For a row of `states` or `blocks`: the state that its details have in `field`, if it is one of these."""
    state: str = getattr(resource.details, field)
    return state if state in states else None


def state_not_in(states: Collection[str], field: str, resource: Resource) -> str | None:
    """The state that its details have in `field`, if it is none of these."""
    state: str = getattr(resource.details, field)
    return None if state in states else state or "missing"


def read_workspace_metrics(
    query: MetricQuery,
    readings: Callable[..., tuple[Reading, ...]],
    cloud: CloudSession,
    observations: Sequence[Observation],
    window: Window,
) -> Iterator[Observation]:
    """`Table.signals` of computes: `readings` makes them from the results of one compute, in the order of the query's metrics."""
    spaces = [one.resource.details.workspace for one in observations if not is_decided(one)]
    results = fetch_metrics(cloud, {space.id: space.region for space in spaces}, query, window)
    for one in observations:
        home, name = one.resource.details.workspace.id, one.resource.name
        own = [results.result_of(home, metric, name) for metric in query.metrics]
        yield one if is_decided(one) else replace(one, readings=readings(*own))


def _blocked_actions(table: Table, resource: Resource) -> dict[StepName, Blocked | None]:
    """What keeps each action from being carried out now."""
    if not resource.details:
        return dict.fromkeys(table.actions, Blocked(because="it couldn't be observed"))
    found = blocked_by(table.actions, table.blocks, resource)
    if table.native and is_native(resource, StepName.STOP) and not found[StepName.STOP]:
        found |= blocked_by({StepName.STOP: table.native}, table.native_blocks, resource)
    return found


def _parts_after(table: Table, resource: Resource, action: StepName) -> tuple[BilledPart, ...] | None:
    """All of it as long as its own idle shutdown hasn't stopped it."""
    return resource.parts if table.native and is_native(resource, action) else table.parts_after(resource, action)


def _undo_line(table: Table, resource: Resource) -> str | None:
    """None for an idle shutdown, which only `reaper restore` sets to what it was."""
    if is_native(resource, StepName.STOP) or not table.undo_command:
        return None
    return line(table.undo_command, resource)
