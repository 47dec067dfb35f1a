"""The reader of AWS kinds: lists and observes what a `Table` says, a whole batch at a time.

The calls that a listing, a first look and a closer look take are decided here, once for every kind."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from reaper.aws import autoscaling, metrics, sagemaker
from reaper.aws.table import Batch, Deletion, Look, ResourceKey, Row, Scaling, Table, Tags, key_of
from reaper.errors import CloudError, Reason
from reaper.evidence import is_recent, last_used
from reaper.kind import ActionSpec, Command, StartStop, blocked_by, by_status, is_decided
from reaper.ledger.rows import comparable_id
from reaper.model import PROTECTING_TAGS, BilledPart, Resource, Role, StepName
from reaper.observation import IndirectEvidence, Observation, Reading, Window
from reaper.policy.tags import plain_key

if TYPE_CHECKING:
    from reaper.aws.session import CloudSession
    from reaper.aws.table import Batch, Look

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
    of_metrics = metrics.PERMISSIONS if table.is_busy_published or table.first_look else metrics.PERMISSIONS[:1]
    reads = (f"{listing.service}:{listing.list}", *table.look_permissions, tagging)
    reads += of_metrics if table.is_busy_published or table.first_look or table.signals else ()
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
    observations = _first_look(table, cloud, resources, window)
    batch = Batch(table=table, window=window, observations=observations if table.host else {})
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
    yield from _looked_at(silent, table.closer_looks, cloud, batch)


def _first_look(
    table: Table, cloud: CloudSession, resources: Sequence[Resource], window: Window
) -> dict[ResourceKey, Observation]:
    """Every observation, with the signals that cost least."""
    if table.first_look:
        seen = table.first_look(cloud, resources, window)
        return {key: by_status(one, table.states) for key, one in seen.items()}
    decided = [by_status(Observation(resource=resource), table.states) for resource in resources]
    to_read = [one.resource for one in decided if not is_decided(one) and not window.known.get(one.resource.id)]
    read = sagemaker.busy_readings if table.is_busy_published else partial(read_signals, table)
    readings = read(cloud, to_read, window) | {id_: known for id_, known in window.known.items() if known}
    seen_all = [replace(one, readings=readings.get(one.resource.id, ())) for one in decided]
    batch = Batch(table=table, window=window, observations={})
    return {key_of(one.resource): one for one in _looked_at(seen_all, table.always, cloud, batch)}


def _looked_at(
    observations: Sequence[Observation], looks: Sequence[Look], cloud: CloudSession, batch: Batch
) -> Iterable[Observation]:
    """The observations after these looks, each at what is still undecided, in the same order."""
    for look in looks:
        undecided = [one for one in observations if not is_decided(one)]
        looked = {key_of(one.resource): one for one in look(cloud, undecided, batch)}
        observations = [looked.get(key_of(one.resource), one) for one in observations]
    return observations


def each(look: Callable[[CloudSession, Observation, Batch], Observation]) -> Look:
    """A look at one resource, as a look at several at once."""

    def look_at_all(cloud: CloudSession, observations: Sequence[Observation], batch: Batch) -> Iterable[Observation]:
        return cloud.map_concurrently(lambda one: look(cloud, one, batch), observations)

    return look_at_all


def read_signals(
    table: Table, cloud: CloudSession, resources: Sequence[Resource], window: Window
) -> dict[str, tuple[Reading, ...]]:
    """Every signal of each, by resource ID. The whole window is only read of what was silent in the last hours."""
    signals = table.signals
    first = metrics.fetch_first_look(cloud, [(r, [s.query(r) for s in signals]) for r in resources], window)
    shown = {r.id: tuple(s.reading(r, first) for s in signals) for r in resources}
    silent = [r for r in resources if not is_recent(Observation(resource=r, readings=shown[r.id]), window)]
    whole = metrics.fetch_metrics(cloud, [s.query(r) for r in silent for s in signals], window)
    return shown | {r.id: tuple(s.reading(r, whole) for s in signals) for r in silent}


@each
def with_size(cloud: CloudSession, observation: Observation, batch: Batch) -> Observation:
    """The size, which only a description has. A rule may match it, so the verdict is unknown if it can't be read."""
    table, resource = batch.table, observation.resource
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

    def look(cloud: CloudSession, observations: Sequence[Observation], batch: Batch) -> Iterator[Observation]:
        for one in observations:
            since = max((t for t in (one.resource.created, one.resource.changed) if t), default=None)
            text = f"running since {since:%Y-%m-%d %H:%M} UTC, {because}"
            yield replace(one, indirect_evidence=IndirectEvidence(since=since, because=text)) if since else one

    return look


def with_past_use(cloud: CloudSession, observations: Sequence[Observation], batch: Batch) -> Iterator[Observation]:
    """Silence after a use that the same series showed is indirect evidence. A series without any point may be the wrong one."""
    names = ", ".join(signal.metric for signal in batch.table.signals)
    for one in observations:
        if used := last_used(one):
            because = f"no point above 0 in {names} since {used:%Y-%m-%d %H:%M} UTC, and no heartbeat as proof"
            yield replace(one, indirect_evidence=IndirectEvidence(since=used, because=because))
        else:
            because = "none of its metrics had a point within the look-back, so silence proves nothing"
            yield replace(one, unknown_because=because)


def described(cloud: CloudSession, table: Table, parameters: Mapping[str, object]) -> Row:
    """The description as it is now. Raises CloudError."""
    listing = table.listing
    return cloud.call(listing.service, listing.describe, listing.want, **parameters)


LOG_PERMISSION = "logs:DescribeLogStreams"
MAX_LOG_DELAY = timedelta(hours=1)
"""How late the time of a log stream's last event may be known."""
MAX_EVENT_AHEAD = timedelta(days=1)
"""CloudWatch Logs takes events up to two hours ahead; a time beyond this is none."""


def with_log(signal: str, group: str, name: str) -> Look:
    """The stream `{resource}/{signal}` of the log `group`, which people know by `name`.

    It counts from an hour after what is known of it, since a later event may not be known yet.
    """

    @each
    def look(cloud: CloudSession, observation: Observation, batch: Batch) -> Observation:
        resource, end = observation.resource, batch.window.end
        stream = {"logGroupName": group, "logStreamNamePrefix": f"{resource.name}/{signal}"}
        event = cloud.attempt(LOG_PERMISSION, lambda: _last_event_at(cloud, stream, end + MAX_EVENT_AHEAD))
        if isinstance(event, CloudError):
            return replace(observation, unknown_because=f"its log couldn't be read: {event}")
        event_at = max(event, min(event + MAX_LOG_DELAY, end)) if event else None
        log = Reading(signal=signal, role=Role.ACTIVITY, event_at=event_at)
        evidence = None
        if resource.created and resource.changed:
            since = max(t for t in (event, resource.changed, resource.created) if t) + MAX_LOG_DELAY
            quiet = f"no new {name} log events" if event else f"no {name} log"
            because = f"running since {resource.changed:%Y-%m-%d %H:%M} UTC, {quiet}, no Busy signal as proof"
            evidence = IndirectEvidence(since=since, because=because)
        return replace(observation, readings=(*observation.readings, log), indirect_evidence=evidence)

    return look


def _last_event_at(cloud: CloudSession, stream: dict[str, str], latest: datetime) -> datetime | None:
    """When the log last grew, as far as is known; None without such a log. Raises CloudError, also for a time after `latest`."""
    try:
        streams = list(cloud.paged_rows("logs", "DescribeLogStreams", "logStreams", token_key="nextToken", **stream))
    except CloudError as error:
        if error.reason is Reason.GONE:
            return None
        raise
    stamps = [s.get(key) for s in streams for key in ("lastEventTimestamp", "lastIngestionTime")]
    return max((_event_time(stamp, latest) for stamp in stamps if stamp is not None), default=None)


def _event_time(stamp: Any, latest: datetime) -> datetime:
    """A time in milliseconds since 1970. Raises CloudError for what is none."""
    if isinstance(stamp, int) and not isinstance(stamp, bool) and 0 <= stamp <= latest.timestamp() * 1000:
        return datetime.fromtimestamp(stamp / 1000, UTC)
    raise CloudError(Reason.UNREADABLE, LOG_PERMISSION, f"{str(stamp)[:40]!r} is not the time of an event")
