"""Phase 1: discovers, observes and judges every kind on every target, from cloud facts alone. A failure is a row of the coverage and hides nothing else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from itertools import count
from typing import Any

from reaper.assess import assess
from reaper.case import Case, Coverage
from reaper.coverage import NOT_REACHED, PlaceName
from reaper.errors import ODD_REPLY_ERRORS, CloudError, Reason, odd_replies_as_errors
from reaper.handover import Observed
from reaper.kind import Kind
from reaper.model import Resource, Run, Status
from reaper.observation import CachedDescription, Observation, nothing_cached
from reaper.observing import cache, conformance
from reaper.observing.cache import ConfigurationCache
from reaper.observing.windows import ReadCached, observation_window, recent_since_by_id
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
        _new_job(session, kind, context, now)
        for session in context.sessions
        for kind in context.kinds
        if kind.cloud == session.target.cloud
    ]
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
        with lock:
            context.progress(f"{next(finished)} of {len(jobs)}: {_progress_line(row)}")
        return row, cases

    if not jobs:
        return []
    order = sorted(range(len(jobs)), key=lambda index: _place_of(jobs[index]) not in context.read_first)
    with ThreadPoolExecutor(min(MAX_CONCURRENT_JOBS, len(jobs))) as pool:
        results = dict(zip(order, pool.map(observe_one, [jobs[index] for index in order]), strict=True))
    return [results[index] for index in range(len(jobs))]


def _place_of(job: _Job) -> PlaceName:
    target = job.session.target
    return target.cloud, target.account, target.region, job.kind.name


def _new_job(session: CloudSession, kind: Kind[Any], context: ObserveContext, now: datetime) -> _Job:
    """The job, with a session that makes no call once the time for reading is over."""
    own_session = session.for_kind()
    own_session.is_over = context.is_over
    return _Job(session=own_session, kind=kind, context=context, now=now)


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
        cases = [_unobserved_case(job, resource, error) for resource in resources]
    return _coverage_row(job, _worst_status(errors), errors, len(cases)), cases


def _discovered_resources(job: _Job) -> list[Resource]:
    """Each resource once, as it was listed last: a list that changes while it is paged through may bring a row twice.

    A fault of one resource is reported and hides no other. A resource without a usable ID is left out.
    """
    kind, session = job.kind, job.session
    with odd_replies_as_errors(kind.name):
        listed = list(kind.discover(session))
    resources: dict[tuple[str, str], Resource] = {}
    for row in listed:
        faults = conformance.faulty_fields(row)
        if faults:
            session.errors.append(CloudError(Reason.UNREADABLE, kind.name, conformance.fault_text(row, faults)))
        if "id" not in faults:
            resource = conformance.without_faults(row, faults, kind.name, session.target)
            resources[resource.id, resource.name] = resource
    return [resource for resource in resources.values() if job.context.only(resource)]


def _observed_cases(job: _Job, resources: list[Resource]) -> Iterator[Case]:
    policy, kind = job.context.policy, job.kind
    cached = cache.kind_cache(job.context.cache, job.session.target, kind.name) if job.context.cache else None
    read_cached: ReadCached = partial(cache.read_cached, cached) if cached else nothing_cached
    window = replace(
        observation_window(policy, job.now),
        recent_since_by_id=recent_since_by_id(
            resources, policy, job.context.prices, job.now, read_cached, has_price=kind.has_price
        ),
        read_cached=_without_deletable(resources, policy, read_cached),
        in_full=job.context.in_full,
    )
    described: dict[str, CachedDescription] = {}
    unobserved = {(resource.id, resource.name): resource for resource in resources}
    for observation in kind.observe(job.session, resources, window):
        listed = unobserved.pop((observation.resource.id, observation.resource.name), None)
        if observation.to_cache:
            described[observation.resource.id] = observation.to_cache
        if listed and not observation.is_gone:
            yield _assessed(job, _with_listing_fault(observation, listed))
    for resource in unobserved.values():
        yield _assessed(job, Observation(resource=resource, unknown_because="the kind returned no observation"))
    if cached:
        cache.write_cached(cached, described, {resource.id for resource in resources})


def _without_deletable(resources: Iterable[Resource], policy: Policy, read_cached: ReadCached) -> ReadCached:
    """What is cached, except of resources that a rule may delete: whether one could be recreated must be read again."""

    def read(ids: Iterable[str]) -> Mapping[str, CachedDescription]:
        wanted = set(ids)
        named = [resource for resource in resources if resource.id in wanted]
        return read_cached(wanted - {resource.id for resource in named if _may_be_deleted(resource, policy)})

    return read


def _may_be_deleted(resource: Resource, policy: Policy) -> bool:
    """Whether a rule may delete it. True if the code fails on it."""
    try:
        return rules.may_delete(policy, resource, None)
    except ODD_REPLY_ERRORS:
        return True


def _with_listing_fault(observation: Observation, listed: Resource) -> Observation:
    """The observation, unknown if a part of the resource's listing couldn't be read: then its silence proves nothing."""
    unread = listed.unread_because
    resource = replace(observation.resource, unread_because=unread)
    return replace(observation, unknown_because=unread, resource=resource) if unread else observation


def _assessed(job: _Job, observation: Observation) -> Case:
    """The case. A resource that the code fails on is unknown, and reported. The others are still judged."""
    try:
        return assess(observation, job.kind, job.context.policy, job.context.prices, job.now)
    except ODD_REPLY_ERRORS as error:
        failure = CloudError(Reason.UNREADABLE, job.kind.name, f"{observation.resource.id} couldn't be judged ({error!r})")
        job.session.errors.append(failure)
        return _unobserved_case(job, observation.resource, failure)


def _unobserved_case(job: _Job, resource: Resource, error: CloudError) -> Case:
    """The case of a resource of which only the name is trusted, without its tags if those can't be understood."""
    blind = _blind_observation(resource, error)
    policy, prices = job.context.policy, job.context.prices
    try:
        return assess(blind, job.kind, policy, prices, job.now)
    except ODD_REPLY_ERRORS:
        return assess(replace(blind, resource=replace(blind.resource, tags=None)), job.kind, policy, prices, job.now)


def _blind_observation(resource: Resource, error: CloudError) -> Observation:
    named = conformance.without_faults(resource, conformance.faulty_fields(resource), resource.kind, resource.target)
    plain = replace(
        named, parts=None, size="", people={}, details=None, host_id=None, contained=(), fingerprint=None, unread_because=None
    )
    return Observation(resource=plain, unknown_because=f"it couldn't be observed: {error}")


def _worst_status(errors: Sequence[CloudError]) -> Status:
    if any(error.reason is Reason.DENIED for error in errors):
        return Status.DENIED
    return Status.PARTIAL if errors else Status.OK


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
        missing=", ".join(missing) or None,
        error="; ".join(texts[:3]) + more if texts else None,
    )


def _progress_line(row: Coverage) -> str:
    where = f"{row.account} {row.region or ''}".strip()
    status = "" if row.status is Status.OK else f", {row.status}"
    return f"{where}: {row.kind}: {row.resources} found{status}"
