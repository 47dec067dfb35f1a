"""The reader of AWS kinds: lists and observes what a `Table` says, a whole batch at a time.

The calls that a listing, a first look and a closer look take are decided here, once for every kind. A table says what lists a kind,
what its states mean, which signals show its use, what an action does and what undoes it. Where it ends, a slot takes a function.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from reaper.aws import autoscaling, metrics, sagemaker
from reaper.errors import CloudError, Reason
from reaper.evidence import is_recent, last_used
from reaper.kind import ActionSpec, Command, Kind, StartStop, blocked_by, by_status, is_decided
from reaper.ledger.rows import comparable_id
from reaper.model import PROTECTING_TAGS, BilledPart, Resource, Role, StepName
from reaper.observation import IndirectEvidence, Observation, Reading, Window
from reaper.policy.tags import plain_key

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
        named = ((self.dimension, resource.id if self.by_id else resource.name),)
        return metrics.MetricQuery(namespace=self.namespace, metric=self.metric, stat=self.stat, dimensions=named, role=self.role)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """All that one observation of a kind has. `observations`, for closer looks at a kind with a host: all, those of siblings included."""

    cloud: CloudSession
    table: Table
    window: Window
    observations: Mapping[ResourceKey, Observation] = field(default_factory=dict)


Asked = Sequence[tuple[Resource, Sequence[metrics.MetricQuery]]]
"""What to ask CloudWatch of each."""
Look = Callable[[Sequence[Observation], Batch], Iterable[Observation]]
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

    `recreated_by`: the module that saves and recreates it, loaded only for that: see `recreation.Recreation`.
    """

    deletes: ClassVar[bool] = True
    because: str
    recreated_by: str
    has_autoscaling: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Table(Kind["CloudSession"]):
    """One AWS kind, as `completed` makes it work.

    `arns(cloud, row)`: the ARN of a row, and those of what it lives in, whose tags it inherits. `resource(cloud, row, tags)`: the resource in a row
    or a description. Else `size`, a key or a function of the row, and `component` say what it is billed as, and nothing once it is `Stopped`.
    `keep_row`: which rows of the list are resources at all. `as_now(cloud, resource, row)`: with what only a read right before an action adds. `parameters(resource)`: what names it in calls.
    `is_busy_published`: our own signal may be published for it. `signals`: metrics of each; `first_queries`, instead:
    what to ask for of the last hours, if the closer looks read the rest. `always`: looks at these; `closer_looks`: at those that were silent, in this order. `look_permissions`: of both.
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
    first_queries: Callable[[Sequence[Resource], Batch], Asked] | None = None
    always: Sequence[Look] = ()
    closer_looks: Sequence[Look] = ()
    look_permissions: tuple[str, ...] = ()
    same: tuple[str, ...] = ("CreationTime",)
    saved: tuple[str, ...] = ()
    same_text: str = ""
    id_below: str = ""
    page: str = ""
    page_about: str = ""


PERMISSION = "tag:GetResources"
SAGEMAKER_TYPES = ("app", "domain", "endpoint", "inference-component", "mlflow-tracking-server", "notebook-instance", "space")
BULK_TYPES = {f"sagemaker:{name}" for name in (*SAGEMAKER_TYPES, "user-profile")}
"""The types that the tagging API is known to cover. It returns nothing for any other, which would look like no tags:
https://docs.aws.amazon.com/resourcegroupstagging/latest/APIReference/supported-services.html"""
KnownTags = dict[str, str]
"""None where they couldn't be read, or two rows contradict each other: either may protect."""
TagsByArn = dict[str, dict[str, KnownTags | None]]
"""Tags by ARN in the form in which ids are compared, by lower-cased ARN: two names may differ in case only."""


def tags_by_arn(cloud: CloudSession, *types: str) -> TagsByArn | None:
    """The tags of every tagged resource of these types, such as `sagemaker:endpoint`; None, and noted, when they can't be read.

    A type that isn't among `BULK_TYPES` is never read so.
    """
    return cloud.read_or_none(PERMISSION, lambda: _read_tags(cloud, types))


def _read_tags(cloud: CloudSession, types: Sequence[str]) -> TagsByArn:
    if unknown := sorted({*types} - BULK_TYPES):
        raise CloudError(Reason.REFUSED, PERMISSION, f"the tagging API isn't known to cover {', '.join(unknown)}")
    by_arn: TagsByArn = {}
    listed = ("resourcegroupstaggingapi", "GetResources", "ResourceTagMappingList", "ResourceARN")
    for row in cloud.paged_rows(*listed, token_key="PaginationToken", ResourceTypeFilters=list(types), ResourcesPerPage=100):
        arn, pairs = row["ResourceARN"], [(tag.get("Key"), tag.get("Value")) for tag in row.get("Tags") or ()]
        # What isn't a pair of strings may protect.
        is_read = all(isinstance(key, str) and key and isinstance(value, str) for key, value in pairs)
        spelled, key = by_arn.setdefault(arn.lower(), {}), comparable_id(arn)
        spelled[key] = _merge((spelled.get(key, {}), *({k: v} for k, v in pairs))) if is_read else None
        if spelled[key] is None:
            text = f"the tags of {arn} can't be read, or contradict each other"
            cloud.add_error(CloudError(Reason.UNREADABLE, PERMISSION, text))
    return by_arn


def tags_one_by_one(cloud: CloudSession, permission: str, arns: Sequence[str], read: Callable[[str], KnownTags]) -> TagsByArn:
    """The tags of resources that the tagging API doesn't cover, by a call of their own service each; None, and noted, where that fails."""
    every = cloud.map_concurrently(lambda arn: cloud.read_or_none(permission, partial(read, arn)), arns)
    by_arn: TagsByArn = {}
    for arn, own_tags in zip(arns, every, strict=True):
        by_arn.setdefault(arn.lower(), {})[comparable_id(arn)] = own_tags
    return by_arn


def _merge(every: Iterable[KnownTags | None]) -> KnownTags | None:
    """The tags of all; None as soon as some can't be read or two contradict each other."""
    merged: KnownTags = {}
    for tags in every:
        if tags is None or any(merged[key] != tags[key] for key in merged.keys() & tags.keys()):
            return None
        merged |= tags
    return merged


def tags_of(by_arn: TagsByArn | None, *arns: str) -> KnownTags | None:
    """The tags of the first ARN, over those of the others that it lives in; None when tags couldn't be read."""
    if by_arn is None:
        return None
    merged: KnownTags = {}
    for arn in reversed(arns):
        spelled = by_arn.get(arn.lower(), {})
        # Those of the spelling that is surely the same resource; else those of all spellings, since one of them may be.
        tags = spelled[comparable_id(arn)] if comparable_id(arn) in spelled else _merge(spelled.values())
        if tags is None:
            return None
        merged = _inside(merged, tags)
    return merged


def _inside(outer: KnownTags, own: KnownTags) -> KnownTags:
    """Its own tags, over those of what it lives in, of which those that may protect stay: `PROTECTING_TAGS`."""
    merged, named = dict(own), {key.rstrip() for key in own}
    for key, value in outer.items():
        while key in merged and plain_key(key) in PROTECTING_TAGS and key.rstrip() in named:
            key += " "
        merged.setdefault(key, value)
    return merged


def read_tags_now(cloud: CloudSession, *arns: str) -> dict[str, str]:
    """The tags of the first ARN, over those of the others that it lives in, one authoritative call each, right before an action.

    Raises CloudError, but never GONE: tags that are not found are tags that couldn't be read.
    """
    merged: KnownTags = {}
    for arn in reversed(arns):
        try:
            rows = list(cloud.paged_rows("sagemaker", "ListTags", "Tags", "Key", "Value", ResourceArn=arn))
        except CloudError as error:
            if error.reason is not Reason.GONE:
                raise
            raise CloudError(Reason.REFUSED, error.operation, f"the tags of {arn} can't be read: {error}") from error
        merged = _inside(merged, {row["Key"]: row["Value"] for row in rows})
    return merged


TOO_RECENT = "it was used or changed too recently for a closer look"
CAMEL_HUMP = re.compile(r"(?<!^)(?=[A-Z])")


def completed(table: Table) -> Table:
    """The kind that the product works with."""
    stop = table.actions.get(StepName.STOP)
    undo = stop.undo_call if isinstance(stop, StartStop) else None
    return replace(
        table,
        permissions=_read_permissions(table),
        discover=partial(discover, table),
        observe=partial(observe, table),
        blocked_actions=partial(blocked_by, table.actions, table.blocks),
        actions={step: replace(action, permissions=_act_permissions(table, action)) for step, action in table.actions.items()},
        commands={
            **{step: partial(_command, table, action) for step, action in table.actions.items() if action.label},
            **table.commands,
        },
        undo_line=partial(_line, table, undo.call) if undo else table.undo_line,
        console_url=partial(sagemaker.console_url, table.page, table.page_about) if table.page else table.console_url,
    )


def _read_permissions(table: Table) -> tuple[str, ...]:
    listing = table.listing
    tagging = f"{listing.service}:{listing.tags_call[0]}" if listing.tags_call else PERMISSION
    of_metrics = metrics.PERMISSIONS if table.is_busy_published or table.first_queries else metrics.PERMISSIONS[:1]
    reads = (f"{listing.service}:{listing.list}", *table.look_permissions, tagging)
    reads += of_metrics if table.is_busy_published or table.first_queries or table.signals else ()
    return reads + (autoscaling.PERMISSIONS if any(isinstance(a, Scaling) for a in table.actions.values()) else ())


def _act_permissions(table: Table, action: ActionSpec) -> tuple[str, ...]:
    own = ("sagemaker:ListTags", *action.permissions, f"{table.listing.service}:{action.call}")
    if isinstance(action, Scaling):
        return (*own, autoscaling.SCHEDULE_PERMISSION, "application-autoscaling:RegisterScalableTarget")
    if isinstance(action, Deletion) and action.has_autoscaling:
        return (*own, autoscaling.SCHEDULE_PERMISSION, "application-autoscaling:DeregisterScalableTarget")
    return own


def _command(table: Table, action: ActionSpec, resource: Resource) -> Command | None:
    named = {_dashed(table.listing.key("name")): resource.name}
    arguments = action.arguments(resource) if callable(action.arguments) else {**named, **action.arguments}
    if arguments is None:
        return None
    note = action.note(resource) if callable(action.note) else action.note
    label = f"{sagemaker.in_account(resource, action.label)}{note}"
    return Command(label=label, line=sagemaker.sagemaker_line(resource, _dashed(action.call), **arguments))


def _line(table: Table, call: str, resource: Resource) -> str:
    return sagemaker.sagemaker_line(resource, _dashed(call), **{_dashed(table.listing.key("name")): resource.name})


def _dashed(name: str) -> str:
    """As the AWS CLI spells it: `stop-notebook-instance`."""
    return CAMEL_HUMP.sub("-", name).lower()


def discover(table: Table, cloud: CloudSession) -> Iterator[Resource]:
    """Every resource of the region, stopped ones too; none where AWS doesn't offer the service, which has no host there.

    A row that can't be read hides no other, unless the list's `has` says so.
    """
    listing = table.listing
    every = cloud.paged_rows(
        listing.service, listing.list, listing.rows, *listing.has, token_key=listing.token_key, **{listing.page_size: 100}
    )
    try:
        rows = [row for row in every if table.keep_row is None or table.keep_row(row)]
    except CloudError as error:
        if error.reason is not Reason.UNREACHABLE or cloud.is_over() or cloud.is_offered(listing.service):
            raise
        rows = []
    by_arn = _tags_of_rows(table, cloud, rows) if rows else {}

    def parse(row: Row) -> Resource:
        return resource_of(table, cloud, row, tags_of(by_arn, *arns_of(table, cloud, row)))

    return map(parse, rows) if listing.has else cloud.each(f"{listing.service}:{listing.list}", rows, parse)


def _tags_of_rows(table: Table, cloud: CloudSession, rows: Sequence[Row]) -> TagsByArn | None:
    """In bulk, or by a call of their own service each where the tagging API doesn't cover them."""
    listing = table.listing
    if listing.tags_call is None:
        return tags_by_arn(cloud, *listing.tag_types)
    operation, parameter, want = listing.tags_call

    def read(arn: str) -> dict[str, str]:
        reply = cloud.call(listing.service, operation, want, **{parameter: arn})
        return {str(tag["key"]): str(tag["value"]) for tag in reply[want]}

    arns = [str(row[listing.key("arn")]) for row in rows if row.get(listing.key("arn"))]
    return tags_one_by_one(cloud, f"{listing.service}:{operation}", arns, read)


def arns_of(table: Table, cloud: CloudSession, row: Row) -> Sequence[str]:
    """Its ARN, and those of what it lives in."""
    return table.arns(cloud, row) if table.arns else (row[table.listing.key("arn")],)


def resource_of(table: Table, cloud: CloudSession, row: Row, own_tags: Tags) -> Resource:
    """A row of the list, or a description, with its tags."""
    if table.resource:
        return table.resource(cloud, row, own_tags)
    listed = listed_resource(table, cloud, row, own_tags)
    size = table.size(row) if callable(table.size) else row.get(table.size, "")
    return replace(_sized(table, listed, size), details=table.details_of(row) if table.details_of else None)


def listed_resource(table: Table, cloud: CloudSession, row: Row, own_tags: Tags) -> Resource:
    """What a row of a list, or a description, says of any resource."""
    key = table.listing.key
    return Resource(
        kind=table.name,
        id=row[key("arn")],
        name=row.get(key("name")) or "",
        target=cloud.target,
        region=cloud.region,
        created=row.get(key("created")),
        changed=row.get(key("changed")),
        status=row.get(key("status"), ""),
        tags=own_tags,
    )


def _sized(table: Table, resource: Resource, size: str) -> Resource:
    parts = (BilledPart(component=table.component, instance=size),) if size and table.component else None
    return replace(resource, size=size, parts=() if resource.status == "Stopped" else parts)


def observe(table: Table, cloud: CloudSession, resources: Sequence[Resource], window: Window) -> Iterator[Observation]:
    """Their states; the signals of what these leave open, in bulk; then a closer look at what was silent."""
    batch = Batch(cloud=cloud, table=table, window=window)
    observations = _first_look(resources, batch)
    batch = replace(batch, observations=observations) if table.host else batch
    silent: list[Observation] = []
    for resource in resources:
        key = key_of(resource)
        one = observations[key] if table.host else observations.pop(key)  # what isn't silent needs no memory
        if is_decided(one):
            yield one
        elif is_recent(one, window):
            yield replace(one, unknown_because=TOO_RECENT)
        else:
            silent.append(one)
    yield from _looked_at(silent, table.closer_looks, batch)


def _first_look(resources: Sequence[Resource], batch: Batch) -> dict[ResourceKey, Observation]:
    """Every observation, with the signals that cost least."""
    table, known = batch.table, batch.window.known
    if table.first_queries:
        seen = {key_of(r): Observation(resource=r, readings=known.get(r.id, ())) for r in resources}
        seen |= recently_observed(table.first_queries([r for r in resources if r.id not in known], batch), batch)
        return {key: by_status(one, table.states) for key, one in seen.items()}
    decided = [by_status(Observation(resource=resource), table.states) for resource in resources]
    to_read = [one.resource for one in decided if not is_decided(one) and not known.get(one.resource.id)]
    read = sagemaker.busy_readings if table.is_busy_published else read_signals
    readings = read(to_read, batch) | {id_: kept for id_, kept in known.items() if kept}
    seen_all = [replace(one, readings=readings.get(one.resource.id, ())) for one in decided]
    return {key_of(one.resource): one for one in _looked_at(seen_all, table.always, batch)}


def recently_observed(asked: Asked, batch: Batch) -> dict[ResourceKey, Observation]:
    """Each with what its queries showed of the last hours."""
    first = metrics.fetch_first_look(batch.cloud, asked, batch.window)
    return {key_of(r): Observation(resource=r, readings=tuple(first[query] for query in queries)) for r, queries in asked}


def _looked_at(observations: Sequence[Observation], looks: Sequence[Look], batch: Batch) -> Iterable[Observation]:
    """The observations after these looks, each at what is still undecided, in the same order."""
    for look in looks:
        undecided = [one for one in observations if not is_decided(one)]
        looked = {key_of(one.resource): one for one in look(undecided, batch)}
        observations = [looked.get(key_of(one.resource), one) for one in observations]
    return observations


def each(look: Callable[[Observation, Batch], Observation]) -> Look:
    """A look at one resource, as a look at several at once."""

    def look_at_all(observations: Sequence[Observation], batch: Batch) -> Iterable[Observation]:
        return batch.cloud.map_concurrently(lambda one: look(one, batch), observations)

    return look_at_all


def read_signals(resources: Sequence[Resource], batch: Batch) -> dict[str, tuple[Reading, ...]]:
    """Every signal of each, by resource ID. The whole window is only read of what was silent in the last hours."""
    cloud, signals, window = batch.cloud, batch.table.signals, batch.window
    seen = recently_observed([(r, [s.query(r) for s in signals]) for r in resources], batch).values()
    shown = {one.resource.id: one.readings for one in seen}
    silent = [one.resource for one in seen if not is_recent(one, window)]
    whole = metrics.fetch_metrics(cloud, [s.query(r) for r in silent for s in signals], window)
    return shown | {r.id: tuple(whole[s.query(r)] for s in signals) for r in silent}


@each
def with_size(observation: Observation, batch: Batch) -> Observation:
    """The size, which only a description has. A rule may match it, so the verdict is unknown if it can't be read."""
    cloud, table, resource = batch.cloud, batch.table, observation.resource
    listing = table.listing
    row = cloud.describe(listing.describe, listing.want, **{listing.key("name"): resource.name})
    if isinstance(row, CloudError):
        return replace(observation, unknown_because=f"its size couldn't be read: {row}")
    size = row[str(table.size)]
    if not isinstance(size, str):
        operation = f"{listing.service}:{listing.describe}"
        cloud.add_error(CloudError(Reason.UNREADABLE, operation, f"the size of {resource.name} can't be read"))
        return replace(observation, unknown_because="its size can't be read")
    return replace(observation, resource=_sized(table, resource, size))


def with_uptime(because: str) -> Look:
    """Uptime as indirect evidence: running and unchanged since."""

    def look(observations: Sequence[Observation], batch: Batch) -> Iterator[Observation]:
        for one in observations:
            since = max((t for t in (one.resource.created, one.resource.changed) if t), default=None)
            text = f"running since {since:%Y-%m-%d %H:%M} UTC, {because}"
            yield replace(one, indirect_evidence=IndirectEvidence(since=since, because=text)) if since else one

    return look


def with_past_use(observations: Sequence[Observation], batch: Batch) -> Iterator[Observation]:
    """Silence after a use that the same series showed is indirect evidence. A series without any point may be the wrong one."""
    names = ", ".join(signal.metric for signal in batch.table.signals)
    for one in observations:
        if used := last_used(one):
            because = f"no point above 0 in {names} since {used:%Y-%m-%d %H:%M} UTC, and no heartbeat as proof"
            yield replace(one, indirect_evidence=IndirectEvidence(since=used, because=because))
        else:
            because = "none of its metrics had a point within the look-back, so silence proves nothing"
            yield replace(one, unknown_because=because)
