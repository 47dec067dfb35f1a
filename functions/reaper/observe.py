"""Phase 1: discovers, observes and judges every kind on every target, from cloud facts alone. A failure is a row of the coverage and hides nothing else."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, is_dataclass, replace
from datetime import datetime
from functools import partial
from itertools import count
from typing import Any

from reaper.case import Case, Coverage
from reaper.coverage import NOT_REACHED, PlaceName
from reaper.errors import ODD_REPLY_ERRORS, CloudError, Reason, odd_replies_as_errors
from reaper.handover import Observed
from reaper.judge import assess
from reaper.kind import Kind
from reaper.model import BilledPart, Resource, Run, Status, StepName, Target
from reaper.observation import CachedDescription, Observation, nothing_cached
from reaper.observing import cache
from reaper.observing.cache import ConfigurationCache, KindCache, LastUse, key_of, known_readings, seen_use
from reaper.observing.windows import ReadCached, observation_window, recent_since_by_id, recent_since_of
from reaper.policy import rules
from reaper.policy.schema import Policy
from reaper.prices import PriceBook
from reaper.sessions import CloudSession

MAX_CONCURRENT_JOBS = 8
"""Kinds that are observed at the same time; most of that time is spent waiting for a cloud."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserveContext:
    """The context of observing. `unopened`: a row for each cloud that couldn't even be opened.

    `only`: the resources to look at, if not all. `read_first`: places that earlier runs had no time for. `in_full`: IDs of
    resources whose whole window is read, even if they are in use. `deadline`: what isn't read by then is a failed row of the coverage.
    """

    sessions: Sequence[CloudSession]
    kinds: Sequence[Kind[Any]]
    policy: Policy
    clock: Callable[[], datetime]
    prices: PriceBook = field(default_factory=PriceBook)
    progress: Callable[[str], None] = lambda text: None
    cache: ConfigurationCache | None = None
    unopened: tuple[Coverage, ...] = ()
    only: Callable[[Resource], bool] = lambda resource: True
    read_first: frozenset[PlaceName] = frozenset()
    in_full: frozenset[str] = frozenset()
    deadline: datetime | None = None

    def is_over(self) -> bool:
        """Whether the time for reading is over."""
        return self.deadline is not None and self.clock() > self.deadline


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """One kind on one target, with a session of its own."""

    session: CloudSession
    kind: Kind[Any]
    context: ObserveContext
    now: datetime


def observe(run: Run, context: ObserveContext, now: datetime) -> Observed:
    """Every kind of every target, judged at `now`. Never raises CloudError: what couldn't be read is in the coverage.

    An odd reply (`errors.ODD_REPLY_ERRORS`) fails its kind only. Anything else, such as MemoryError, ends the run.
    """
    jobs = [
        _Job(session=session.for_kind(), kind=kind, context=context, now=now)
        for session in context.sessions
        for kind in context.kinds
        if kind.cloud == session.target.cloud
    ]
    for job in jobs:
        job.session.is_over = context.is_over  # then it makes no further call
    results = _observe_all(jobs, context)
    return Observed(
        run=run,
        targets=tuple(dict.fromkeys(session.target for session in context.sessions)),
        coverage=(*(row for row, _ in results), *context.unopened),
        cases=tuple(case for _, cases in results for case in cases),
    )


def _observe_all(jobs: Sequence[_Job], context: ObserveContext) -> list[tuple[Coverage, list[Case]]]:
    """The results in the order of the jobs. Those that earlier runs had no time for are done first."""
    lock, finished = threading.Lock(), count(1)

    def observe_one(job: _Job) -> tuple[Coverage, list[Case]]:
        row, cases = _observe_kind(job)
        where, status = f"{row.account} {row.region or ''}".strip(), "" if row.status is Status.OK else f", {row.status}"
        with lock:
            context.progress(f"{next(finished)} of {len(jobs)}: {where}: {row.kind}: {row.resources} found{status}")
        return row, cases

    def can_wait(index: int) -> bool:
        target = jobs[index].session.target
        return (target.cloud, target.account, target.region, jobs[index].kind.name) not in context.read_first

    if not jobs:
        return []
    order = sorted(range(len(jobs)), key=can_wait)
    with ThreadPoolExecutor(min(MAX_CONCURRENT_JOBS, len(jobs))) as pool:
        results = dict(zip(order, pool.map(observe_one, [jobs[index] for index in order]), strict=True))
    return [results[index] for index in range(len(jobs))]


def _observe_kind(job: _Job) -> tuple[Coverage, list[Case]]:
    errors = job.session.errors
    try:
        resources = _discovered_resources(job)
    except CloudError as error:
        status = Status.DENIED if error.reason is Reason.DENIED else Status.FAILED
        return _coverage_row(job, status, [error, *errors], 0), []
    try:
        with odd_replies_as_errors(job.kind.name):
            cases = list(_observed_cases(job, resources))
    except CloudError as error:
        errors.append(error)
        cases = [_assessed(job, _blind_observation(resource, error), replace(resource, tags=None)) for resource in resources]
    is_denied = any(error.reason is Reason.DENIED for error in errors)
    status = Status.DENIED if is_denied else Status.PARTIAL if errors else Status.OK
    return _coverage_row(job, status, errors, len(cases)), cases


def _discovered_resources(job: _Job) -> list[Resource]:
    """Each resource once, as it was listed last: a list that changes while it is paged through may bring a row twice.

    A fault of one resource is reported and hides no other. A resource without a usable ID is left out.
    """
    kind, session = job.kind, job.session
    with odd_replies_as_errors(kind.name):
        listed = list(kind.discover(session))
    resources: dict[tuple[str, str], Resource] = {}
    for row in listed:
        faults = faulty_fields(row)
        if faults:
            session.errors.append(CloudError(Reason.UNREADABLE, kind.name, _fault_text(row, faults)))
        if "id" not in faults:
            resource = without_faults(row, faults, kind.name, session.target)
            resources[resource.id, resource.name] = resource
    return [resource for resource in resources.values() if job.context.only(resource)]


def faulty_fields(resource: object) -> list[str]:
    """The fields whose values don't match their types, as a reply may put anything into any field; only `id` if it isn't a resource at all."""
    if not isinstance(resource, Resource):
        return ["id"]
    values = ((name, form, getattr(resource, name)) for name, (form, _) in _FIELDS.items())
    return [name for name, form, value in values if not (isinstance(value, form) and _is_sound(name, value))]


def without_faults(resource: Resource, wrong: list[str], kind: str, target: Target) -> Resource:
    """The resource with empty values instead of the wrong ones, which `unread_because` names. Its ID must be valid."""
    if not wrong:
        return resource
    name = resource.id.rstrip("/").rpartition("/")[2] or resource.id
    known: dict[str, Any] = {"name": name, "kind": kind, "target": target, "region": target.region or ""}
    instead: dict[str, Any] = {field: known.get(field, _FIELDS[field][1]) for field in wrong}
    return replace(resource, **{**instead, "unread_because": f"its {', '.join(wrong)} couldn't be read"})


def _fault_text(resource: object, wrong: list[str]) -> str:
    """What is wrong, for people, with the start of each odd value."""
    values = ", ".join(f"{name} {getattr(resource, name, resource)!r}"[:80] for name in wrong)
    name = resource.id if isinstance(resource, Resource) and "id" not in wrong else "a resource without a name, which is left out"
    return f"the reply about {name} can't be read: {values}"


def _is_sound(name: str, value: object) -> bool:
    """Whether a value of the right type can be used as that field."""
    if name == "details":
        return value is None or isinstance(value, bool | str) or is_dataclass(value)
    match value:
        case str():
            return bool(value.strip()) or name not in {"id", "name", "kind"}
        case datetime():
            return value.utcoffset() is not None
        case float():
            return 0 <= value <= 1
        case Mapping():
            return all(isinstance(text, str) for pair in value.items() for text in pair)
        case tuple():
            return all(isinstance(part, BilledPart) and _is_sound(name, part) for part in value)
        case BilledPart():
            is_text = isinstance(value.component, str) and isinstance(value.instance, str)
            return is_text and isinstance(value.count, int | float) and math.isfinite(value.count)
    return True


_FIELDS: Mapping[str, tuple[Any, Any]] = {
    "id": (str, ""),
    "name": (str, ""),
    "kind": (str, ""),
    "target": (Target, None),
    "region": (str, ""),
    "created": (datetime | None, None),
    "changed": (datetime | None, None),
    "status": (str, ""),
    "size": (str, ""),
    "parts": (tuple | None, None),
    "tags": (Mapping | None, None),
    "people": (Mapping, {}),
    "details": (object, None),
    "host_id": (str | None, None),
    "host_share": (float | None, None),
    "fingerprint": (str | None, None),
    "stop_by": (str, "stop"),
    "unread_because": (str | None, None),
}
"""The type of each field of a resource, and what replaces anything else."""


def _observed_cases(job: _Job, resources: list[Resource]) -> Iterator[Case]:
    """A case for each resource, also for one that the kind forgets. One that its rules can't be applied to isn't observed at all."""
    policy, kind = job.context.policy, job.kind
    cached = KindCache(cache=job.context.cache, target=job.session.target, kind=kind.name) if job.context.cache else None
    read_cached: ReadCached = partial(cache.read_cached, cached) if cached else nothing_cached
    recent = recent_since_by_id(resources, policy, job.context.prices, job.now, read_cached, has_price=kind.has_price)
    judged = [resource for resource in resources if resource.id in recent]
    stored = cache.read_stored(cached).uses if cached and cached.cache.may_write and kind.spares_known else {}
    window = replace(
        observation_window(policy, job.now),
        recent_since_by_id=recent,
        read_cached=_without_deletable(judged, policy, read_cached) if StepName.DELETE in kind.actions else read_cached,
        in_full=job.context.in_full,
        known=known_readings(judged, stored, recent, job.context.in_full, job.now),
        recent_since_of=partial(recent_since_of, policy=policy, prices=job.context.prices, now=job.now),
    )
    uses: dict[bytes, LastUse] = {}
    described: dict[str, CachedDescription] = {}
    unobserved = {(resource.id, resource.name): resource for resource in resources}
    for observation in kind.observe(job.session, judged, window):
        listed = unobserved.pop((observation.resource.id, observation.resource.name), None)
        if observation.to_cache:
            described[observation.resource.id] = observation.to_cache
        if listed and kind.spares_known:
            key = key_of(listed.id)
            uses |= {key: use} if (use := seen_use(observation, listed, stored.get(key), window, job.now)) else {}
        if listed and not observation.is_gone:
            yield _assessed(job, _with_listing_fault(observation, listed), listed)
    for resource in unobserved.values():
        known = resource if resource.id in recent else replace(resource, tags=None)
        yield _assessed(job, Observation(resource=resource, unknown_because="the kind returned no observation"), known)
    if cached:
        cache.write_cached(cached, described, {resource.id for resource in resources}, uses)


def _without_deletable(resources: Iterable[Resource], policy: Policy, read_cached: ReadCached) -> ReadCached:
    """What is cached, except of resources that a rule may delete: whether one could be recreated must be read again."""

    def read(ids: Iterable[str]) -> Mapping[str, CachedDescription]:
        wanted = set(ids)
        named = [resource for resource in resources if resource.id in wanted]
        return read_cached(wanted - {resource.id for resource in named if rules.may_delete(policy, resource, None)})

    return read


def _with_listing_fault(observation: Observation, listed: Resource) -> Observation:
    """The observation, unknown if a part of the resource's listing couldn't be read: then its silence proves nothing."""
    unread = listed.unread_because
    resource = replace(observation.resource, unread_because=unread)
    return replace(observation, unknown_because=unread, resource=resource) if unread else observation


def _assessed(job: _Job, observation: Observation, listed: Resource) -> Case:
    """The case. A resource that the code fails on is unknown, as far as it is known from its listing, and reported. The others are still judged."""
    policy, prices = job.context.policy, job.context.prices
    try:
        return assess(observation, job.kind, policy, prices, job.now)
    except ODD_REPLY_ERRORS as error:
        failure = CloudError(Reason.UNREADABLE, job.kind.name, f"{listed.id} couldn't be judged ({error!r})")
        job.session.errors.append(failure)
        return assess(_blind_observation(listed, failure), job.kind, policy, prices, job.now)


def _blind_observation(resource: Resource, error: CloudError) -> Observation:
    """What is known of a resource of which only the listing is trusted."""
    plain = replace(resource, parts=None, size="", people={}, details=None, host_id=None, fingerprint=None, unread_because=None)
    return Observation(resource=plain, unknown_because=f"it couldn't be observed: {error}")


def _coverage_row(job: _Job, status: Status, errors: Sequence[CloudError], resources: int) -> Coverage:
    target = job.session.target
    texts = sorted(dict.fromkeys(str(error) for error in errors), key=lambda text: NOT_REACHED not in text)  # for the next run
    more = f" (and {len(texts) - 3} more)" if len(texts) > 3 else ""
    missing = list(dict.fromkeys(error.missing for error in errors if error.missing))
    return Coverage(
        cloud=target.cloud,
        account=target.account,
        account_name=target.account_name,
        region=target.region,
        kind=job.kind.name,
        status=status,
        resources=resources,
        calls=dict(job.session.calls),
        metrics=job.session.metrics,
        missing=", ".join(missing) or None,
        error="; ".join(texts[:3]) + more if texts else None,
    )
