"""An AWS kind as a table: what lists it, what its states mean, which signals show its use, what an action does, and what undoes it.

Where a table ends, a slot takes a function. `reader` and `executor` work with these tables, a whole batch at a time; no table calls AWS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from reaper.aws import metrics
from reaper.kind import ActionSpec, Kind
from reaper.model import Resource, Role
from reaper.observation import Observation, Reading, Window

if TYPE_CHECKING:
    from reaper.aws.session import CloudSession

Row = Mapping[str, Any]
Tags = Mapping[str, str] | None
Numbers = Mapping[str, int]
"""Instances or copies, by what autoscaling calls their resource."""
ResourceKey = tuple[str, str]
"""ID and name: AWS spells some ARNs in lower case, so that two names have one."""


def key_of(resource: Resource) -> ResourceKey:
    """The key of a resource among all of its kind."""
    return resource.id, resource.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """One paged list, and the description of one resource. `prefix` begins the keys of a row: `{prefix}Arn`, `{prefix}Name`, `{prefix}Status`.

    `token_key`, `page_size`: its paging. `want`: a key that every description has. `has`: the keys without which a row fails the whole list. `tag_types`: as the tagging API names them.
    `tags_call`: for what that API doesn't cover, the operation of its own service, its parameter and the key of the reply. `keys`: of a service
    that spells `created`, `changed` or `status` in its own way.
    """

    service: str = "sagemaker"
    list: str
    rows: str
    prefix: str
    token_key: str = "NextToken"
    page_size: str = "MaxResults"
    describe: str = ""
    want: str = ""
    has: tuple[str, ...] = ()
    tag_types: tuple[str, ...] = ()
    tags_call: tuple[str, str, str] | None = None
    keys: Mapping[str, str] = field(default_factory=dict)

    def key(self, name: str) -> str:
        """The key of a row's `arn`, `name`, `status`, `created` or `changed`."""
        usual = {"created": "CreationTime", "changed": "LastModifiedTime"}
        return self.keys.get(name) or usual.get(name) or f"{self.prefix}{name.capitalize()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """One metric of a resource, by the dimension that names it: by name or, with `by_id`, by ARN. `role`: what a point in it proves."""

    namespace: str
    metric: str
    dimension: str
    stat: str = "Sum"
    by_id: bool = False
    role: Role = Role.ACTIVITY

    def query(self, resource: Resource) -> metrics.MetricQuery:
        """The series of one resource."""
        named = {self.dimension: resource.id if self.by_id else resource.name}
        return metrics.query(self.namespace, self.metric, self.stat, **named)

    def reading(self, resource: Resource, results: Mapping[metrics.MetricQuery, metrics.MetricResult]) -> Reading:
        """What it showed of one resource."""
        result = results[self.query(resource)]
        return Reading(signal=self.metric, role=self.role, series=result.series, complete=result.complete)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """All that one observation of a kind has: its table, the window, and every observation, those of siblings included."""

    table: Table
    window: Window
    observations: Mapping[ResourceKey, Observation]


Look = Callable[["CloudSession", Sequence[Observation], Batch], Iterable[Observation]]
"""A look at several resources at once, which returns them with more known of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What a scaling would do, decided from fresh replies: the description, what the resource is made of (`same`), its numbers `before`, and those
    that it is to have. The first of `wanted` is scaled now; each other one is an action of its own.
    """

    row: Row
    same: Mapping[str, Any]
    before: Numbers
    wanted: Numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling(ActionSpec):
    """Sets one number, instances or copies, to what costs least; its autoscaling minimum first, or autoscaling would undo it.

    `goal(cloud, resource)` raises CloudError if nothing can be scaled. Of a description: `numbers(row)`, by what autoscaling calls them, and `settings(row)`,
    everything else that a person may change. `parameters(name, id, count)` of the call. `because`: what it does, once it was sent, with `{changes}` or the number `{before}`. `what`: its numbers, for
    people; `number`: one of them; `parts`: what several are. For undoing, `described(cloud, name)` is the description now with what it is made
    of, `is_same(saved, now)` compares that, and `same_text` says in what it may differ.
    """

    goal: Callable[[CloudSession, Resource], Goal]
    numbers: Callable[[Row], Numbers]
    settings: Callable[[Row], object]
    parameters: Callable[[str, str, int], Mapping[str, Any]]
    because: str
    what: str
    number: str
    parts: str = ""
    described: Callable[[CloudSession, str], tuple[Row, Row]]
    is_same: Callable[[Row, Row], bool]
    same_text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion(ActionSpec):
    """Deletes what saved replies recreate, and then its autoscaling. `because`: what it does, once it was sent, with what was saved, and `{autoscaling}` if that went, too.

    `recreated_by`: the module that saves and recreates it, loaded only for that: see `executor.Recreation`.
    """

    deletes: ClassVar[bool] = True
    because: str
    recreated_by: str
    has_autoscaling: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Table(Kind["CloudSession"]):
    """One AWS kind, as `reader.completed` makes it work.

    `arns(cloud, row)`: the ARN of a row, and those of what it lives in, whose tags it inherits. `resource(cloud, row, tags)`: the resource in a row
    or a description. Else `size`, a key or a function of the row, and `component` say what it is billed as, and nothing once it is `Stopped`.
    `keep_row`: which rows of the list are resources at all. `as_now(cloud, resource, row)`: with what only a read right before an action adds. `parameters(resource)`: what names it in calls.
    `is_busy_published`: our own signal may be published for it. `signals`: metrics of each; `first_look`: another way to read the signals of all that
    their state leaves open, by ID. `always`: looks at these; `closer_looks`: at those that were silent, in this order. `look_permissions`: of both.
    `same`, `saved`: what a start or stop saves of a description; the first tells another resource of its name, and `same_text` says in what.
    `id_below`: matches the last part of its ARN. `page`: of the console, about the resource or what its details name under `page_about`.
    """

    listing: Listing
    arns: Callable[[CloudSession, Row], Sequence[str]] | None = None
    resource: Callable[[CloudSession, Row, Tags], Resource] | None = None
    keep_row: Callable[[Row], bool] | None = None
    size: str | Callable[[Row], str] = ""
    component: str = ""
    details_of: Callable[[Row], object] | None = None
    as_now: Callable[[CloudSession, Resource, Row], Resource] | None = None
    parameters: Callable[[Resource], Mapping[str, Any]] | None = None
    is_busy_published: bool = False
    signals: Sequence[Signal] = ()
    first_look: Callable[[CloudSession, Sequence[Resource], Window], Mapping[ResourceKey, Observation]] | None = None
    always: Sequence[Look] = ()
    closer_looks: Sequence[Look] = ()
    look_permissions: tuple[str, ...] = ()
    same: tuple[str, ...] = ("CreationTime",)
    saved: tuple[str, ...] = ()
    same_text: str = ""
    id_below: str = ""
    page: str = ""
    page_about: str = ""
