"""One sweep: every kind on every target is discovered, observed, judged and planned; a failure of one is reported and never hides another."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import count
from typing import Any, Protocol, Self, TypeVar

from reaper import cache, conformance, judge, plan
from reaper.cache import ConfigurationCache
from reaper.errors import ODD_REPLY_ERRORS, CloudError, Reason, gone_as_partial
from reaper.evidence import summarize
from reaper.kind import Kind
from reaper.model import (
    Blocked,
    CachedDescription,
    Case,
    Ceiling,
    Coverage,
    Finding,
    Memory,
    Observation,
    Outcome,
    Price,
    RecentSince,
    Resource,
    Result,
    State,
    Status,
    StepName,
    Target,
    Window,
    nothing_cached,
)
from reaper.policy import owners, rules
from reaper.policy.schema import Policy
from reaper.prices import PriceBook

T = TypeVar("T")
Reads = Callable[[Iterable[str]], Mapping[str, CachedDescription]]
"""What earlier sweeps kept, by id."""
Waits = tuple[timedelta, timedelta]
"""The shortest and the longest that one may have to be silent."""
LAG = timedelta(minutes=5)
"""Metrics of the last minutes are still arriving, so the window ends this long before now."""
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
TARGETS_AT_ONCE = 8
ASKED = {StepName.STOP: Ceiling.STOP, StepName.DELETE: Ceiling.DELETE}
"""What a rule must allow for a move."""
DRAWN = frozenset({State.IDLE, State.UNKNOWN})
"""Whose signals the report draws."""


class CloudSession(Protocol):
    """What the sweep needs of a cloud session; both clouds have the same shape."""

    target: Target
    calls: Any
    errors: list[CloudError]

    def for_kind(self) -> Self:
        """The same target with fresh counters."""
        ...

    def without_cache(self) -> Self:
        """The same target with fresh counters and nothing remembered from before, for looking again."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserveContext:
    """What to sweep with: the policy, the prices, the moment, what is remembered, whom to tell of progress, and what earlier sweeps kept."""

    policy: Policy
    now: datetime
    book: PriceBook = field(default_factory=PriceBook)
    memories: Mapping[str, Memory] = field(default_factory=dict)
    progress: Callable[[str], None] = lambda text: None
    cache: ConfigurationCache | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """Everything that one sweep found."""

    coverage: tuple[Coverage, ...]
    findings: tuple[Finding, ...]


def sweep(clouds: Sequence[CloudSession], kinds: Sequence[Kind[Any]], order: ObserveContext) -> Swept:
    """Every kind of every target. Never raises CloudError: what could not be read is in the coverage.

    Whatever a kind or a reply trips over (`errors.ODD`) fails that kind only. What is no such thing, MemoryError above all, ends the run.
    """
    jobs = [(cloud.for_kind(), kind) for cloud in clouds for kind in kinds if kind.cloud == cloud.target.cloud]
    lock, finished = threading.Lock(), count(1)

    def job(pair: tuple[CloudSession, Kind[Any]]) -> tuple[Coverage, list[Finding]]:
        done = _visit(*pair, order)
        with lock:
            order.progress(f"{next(finished)} of {len(jobs)}: {_told(done[0])}")
        return done

    if not jobs:
        return Swept(coverage=(), findings=())
    with ThreadPoolExecutor(min(TARGETS_AT_ONCE, len(jobs))) as pool:
        results = list(pool.map(job, jobs))
    return Swept(coverage=tuple(c for c, _ in results), findings=tuple(f for _, found in results for f in found))


def assess_again(cloud: CloudSession, kind: Kind[Any], resource: Resource, order: ObserveContext) -> Finding:
    """The finding of one resource, observed anew up to this very moment. Raises CloudError where anything of it could not be read.

    CloudWatch is asked to the end of this minute, so that the present one is seen too; whether Azure Monitor takes an end that lies ahead is
    not documented, and it is asked up to this minute. Its hours begin where those of a sweep at this moment would; they are cut as those
    of every sweep are, of which an earlier one may have begun some hours earlier.
    """
    on_aws = cloud.target.cloud == "aws"
    end = order.now.replace(second=0, microsecond=0) + (MINUTE if on_aws else timedelta(0))
    stretch = replace(
        observation_window(order.policy, order.now, end), recent_since_by_id=_quiet([resource], order), reads_in_full=True
    )
    seen = list(_safely(kind, lambda: kind.observe(cloud, [resource], stretch)))
    if cloud.errors:
        with gone_as_partial():
            raise cloud.errors[0]
    if [(s.resource.id, s.resource.name) for s in seen] != [(resource.id, resource.name)]:
        raise CloudError(Reason.UNREADABLE, kind.name, "it was asked for and not observed")
    if seen[0].is_gone:
        raise CloudError(Reason.GONE, kind.name, "it is not there any more")
    [found] = _safely(kind, lambda: [_finding(seen[0], kind, order)])
    return found


def observation_window(policy: Policy, now: datetime, end: datetime | None = None) -> Window:
    """The stretch to read: from a full hour on, back over the longest `idle_after`, to a little before now, or to `end`.

    Both clouds cut their buckets from the start on; from the full hour on, every window cuts the same ones. The start hangs on `now` alone.
    """
    usual = _mark(now - LAG)
    reach = max(policy.defaults.lookback, rules.longest_idle_after(policy) + 2 * HOUR)
    start = (usual - reach).replace(minute=0, second=0, microsecond=0)
    return Window(start=start, end=end or usual, recent_since=now - rules.shortest_idle_after(policy))


def _quiet(
    resources: Iterable[Resource], order: ObserveContext, kept: Reads = nothing_cached, *, priced: bool = True
) -> dict[str, RecentSince]:
    """By id, since when each must have been silent. One that the code trips over is left out: the shortest wait of all stands for it.

    Not `priced`: none of them ever has a price. Of several with one id each may be the one that is looked at: both ends stand for all.
    """
    left_out: set[str] = set()
    known: list[tuple[Resource, Waits]] = []
    for resource in resources:
        try:
            known.append((resource, _waits(resource, order, priced=priced)))
        except ODD_REPLY_ERRORS:
            left_out.add(resource.id)
    left_open = [resource.id for resource, (short, long) in known if short < long]
    held = kept(left_open) if left_open else {}
    found: dict[str, Waits] = {}
    for resource, (short, long) in known:
        least, most = found.get(resource.id, (long, long))
        found[resource.id] = min(least, _as_kept(resource, held.get(resource.id), short, order)), max(most, long)
    shared = {
        waits: RecentSince(under_some_rule=order.now - waits[0], under_every_rule=order.now - waits[1])
        for waits in found.values()
    }
    return {id: shared[waits] for id, waits in found.items() if id not in left_out}


def _waits(resource: Resource, order: ObserveContext, *, priced: bool) -> Waits:
    """With a type that has no price, too, there is nothing that a closer look could find out about it."""
    price = order.book.price(resource)
    usd = price.usd_per_hour if price else None
    return rules.idle_after_range(order.policy, resource, usd, order.now, priced=priced and not resource.parts)


def _as_kept(resource: Resource, kept: CachedDescription | None, short: timedelta, order: ObserveContext) -> timedelta:
    """The shortest wait that may hold for it, given what it ran when it was last described: that may spare a closer look, and nothing else.

    Never longer than the wait of the rule by which it is judged without one. What makes no sense is as if it had not been kept.
    """
    try:
        known = cache.as_last_described(resource, kept, order.now)
        if known is None:
            return short
        judged = rules.effective_rule(order.policy, resource, None, order.now).idle_after
        return max(short, min(judged, _waits(known, order, priced=False)[0]))
    except ODD_REPLY_ERRORS:
        return short


def _mark(moment: datetime) -> datetime:
    """The last five-minute mark."""
    return moment.replace(minute=moment.minute - moment.minute % 5, second=0, microsecond=0)


def _visit(cloud: CloudSession, kind: Kind[Any], order: ObserveContext) -> tuple[Coverage, list[Finding]]:
    try:
        resources = _discovered(cloud, kind)
    except CloudError as error:
        status = Status.DENIED if error.reason is Reason.DENIED else Status.FAILED
        return _coverage(cloud, kind, status, [error, *cloud.errors], 0), []
    try:
        findings = list(_safely(kind, lambda: _findings(cloud, kind, resources, order)))
    except CloudError as error:
        cloud.errors.append(error)
        findings = [_unjudged(resource, error, kind, order) for resource in resources]
    return _coverage(cloud, kind, _worst(cloud.errors), cloud.errors, len(findings)), findings


def _discovered(cloud: CloudSession, kind: Kind[Any]) -> list[Resource]:
    """Each resource once, as it was listed last: a list that changes while it is paged through may bring a row twice.

    What of one cannot be read is noted and hides no other; one that cannot even be named is left out.
    """
    found: dict[tuple[str, str], Resource] = {}
    for listed in _safely(kind, lambda: kind.discover(cloud)):
        wrong = conformance.faulty_fields(listed)
        if wrong:
            cloud.errors.append(CloudError(Reason.UNREADABLE, kind.name, conformance.fault_text(listed, wrong)))
        if "id" not in wrong:
            resource = conformance.without_faults(listed, wrong, kind.name, cloud.target)
            found[resource.id, resource.name] = resource
    return list(found.values())


def _safely(kind: Kind[Any], found: Callable[[], Iterable[T]]) -> Iterator[T]:
    """The same, but a reply so odd that the code trips over it fails this kind only, and loudly."""
    try:
        yield from found()
    except ODD_REPLY_ERRORS as error:
        raise CloudError(Reason.UNREADABLE, kind.name, f"a reply could not be understood ({error!r})") from error


def _findings(cloud: CloudSession, kind: Kind[Any], resources: list[Resource], order: ObserveContext) -> Iterator[Finding]:
    shelf = cache.kind_cache(order.cache, cloud.target, kind.name) if order.cache else None
    reads: Reads = partial(cache.read_cached, shelf) if shelf else nothing_cached
    quiet = _quiet(resources, order, reads, priced=kind.has_price)
    stretch = replace(
        observation_window(order.policy, order.now), recent_since_by_id=quiet, read_cached=_spared(resources, order, reads)
    )
    fresh: dict[str, CachedDescription] = {}
    left = {(resource.id, resource.name): resource for resource in resources}
    for observation in kind.observe(cloud, resources, stretch):
        listed = left.pop((observation.resource.id, observation.resource.name), None)
        if observation.to_cache:
            fresh[observation.resource.id] = observation.to_cache
        if listed and not observation.is_gone:
            yield _judged(cloud, _doubted(observation, listed), kind, order)
    for resource in left.values():
        yield _judged(cloud, Observation(resource=resource, unknown_because="it was not observed"), kind, order)
    if shelf:
        cache.write_cached(shelf, fresh, {resource.id for resource in resources})


def _spared(resources: Iterable[Resource], order: ObserveContext, reads: Reads) -> Reads:
    """What earlier sweeps kept of those that no rule may delete: whether one could be created again must be asked for anew."""

    def kept(ids: Iterable[str]) -> Mapping[str, CachedDescription]:
        wanted = set(ids)
        mine = [resource for resource in resources if resource.id in wanted]
        return reads(wanted - {resource.id for resource in mine if _may_delete(resource, order)})

    return kept


def _may_delete(resource: Resource, order: ObserveContext) -> bool:
    """Whether a rule may; so it is for one that the code trips over."""
    try:
        return rules.may_delete(order.policy, resource, None)
    except ODD_REPLY_ERRORS:
        return True


def _doubted(seen: Observation, listed: Resource) -> Observation:
    """Where a part of its row could not be read, its silence proves nothing."""
    unread = listed.facts.get(conformance.UNREAD_FACT)
    facts = {**seen.resource.facts, conformance.UNREAD_FACT: unread}
    return replace(seen, unknown_because=unread, resource=replace(seen.resource, facts=facts)) if unread else seen


def _judged(cloud: CloudSession, seen: Observation, kind: Kind[Any], order: ObserveContext) -> Finding:
    """The finding. One that the code trips over is unknown, and noted; the others stay judged."""
    try:
        return _finding(seen, kind, order)
    except ODD_REPLY_ERRORS as error:
        trouble = CloudError(Reason.UNREADABLE, kind.name, f"{seen.resource.id} could not be judged ({error!r})")
        cloud.errors.append(trouble)
        return _unjudged(seen.resource, trouble, kind, order)


def _unjudged(resource: Resource, error: CloudError, kind: Kind[Any], order: ObserveContext) -> Finding:
    """The finding of one of which nothing but its name is believed; not even its tags where it is they that cannot be understood."""
    blind = _blind(resource, error)
    try:
        return _finding(blind, kind, order)
    except ODD_REPLY_ERRORS:
        return _finding(replace(blind, resource=replace(blind.resource, tags=None)), kind, order)


def _blind(resource: Resource, error: CloudError) -> Observation:
    named = conformance.without_faults(resource, conformance.faulty_fields(resource), resource.kind, resource.target)
    plain = replace(named, parts=None, size="", people={}, facts={}, details=None, fingerprint=None)
    return Observation(resource=plain, unknown_because=f"it could not be observed: {error}")


def _finding(seen: Observation, kind: Kind[Any], order: ObserveContext) -> Finding:
    resource = seen.resource
    price = order.book.price(resource)
    usd = price.usd_per_hour if price else None
    holds = rules.effective_rule(order.policy, resource, usd, order.now)
    verdict = judge.judge_resource(resource, seen, holds, order.now)
    resource = replace(resource, stop_by=holds.stop_by)
    belongs = owners.owner(resource, order.policy.owners.tags, order.policy.owners.domains, order.policy.owners.fallback)
    case = Case(
        resource=resource,
        rule=holds,
        verdict=verdict,
        usd_per_hour=usd,
        owner=belongs.address,
        blocked=_able(resource, kind, order),
        saves_usd_per_hour=_saves(resource, usd, kind, order.book),
    )
    [step] = plan.plan_steps([case], order.memories, order.now)
    return Finding(
        case=case,
        step=step,
        outcome=Outcome(result=Result.PLANNED),
        owner=belongs,
        price=price,
        wasted_usd=_wasted(price, verdict.idle_for),
        evidence=tuple(summarize(r, with_slots=verdict.state in DRAWN) for r in seen.readings),
    )


def _able(resource: Resource, kind: Kind[Any], order: ObserveContext) -> dict[StepName, Blocked | None]:
    """What bars each move, the rules of whatever lives inside and would go with it included (`facts["within"]`)."""
    if unread := resource.facts.get(conformance.UNREAD_FACT):
        return {move: Blocked(because=unread) for move in kind.actions}
    try:
        bars = dict(kind.blocked_actions(resource))
    except ODD_REPLY_ERRORS as error:
        return {move: Blocked(because=f"what can be done to it cannot be told ({error!r})") for move in kind.actions}
    for inner in resource.facts.get("within", ()):
        holds = rules.effective_rule(order.policy, inner, None, order.now)
        spared = "its tags could not be read" if inner.tags is None else holds.protected_because
        for move, action in ASKED.items():
            if move in bars and bars[move] is None and (spared or holds.action.rank < action.rank):
                bars[move] = Blocked(
                    because=f"{inner.name} inside it may not: {spared or f'{holds.name} allows {holds.action} at most'}"
                )
    return bars


def _saves(resource: Resource, usd: float | None, kind: Kind[Any], book: PriceBook) -> dict[StepName, float]:
    """What each move that ends something would save an hour; nothing where a price is not known."""
    found: dict[StepName, float] = {}
    for move in (StepName.STOP, StepName.DELETE) if usd is not None else ():
        left = kind.parts_after(resource, move) if move in kind.actions else None
        price = book.price(replace(resource, parts=left))
        if usd is not None and (left == () or price):
            found[move] = round(usd - (price.usd_per_hour if price else 0.0), 6)
    return found


def _wasted(price: Price | None, idle_for: timedelta | None) -> float | None:
    return round(price.usd_per_hour * (idle_for / timedelta(hours=1)), 2) if price and idle_for else None


def _worst(troubles: Sequence[CloudError]) -> Status:
    if any(t.reason is Reason.DENIED for t in troubles):
        return Status.DENIED
    return Status.PARTIAL if troubles else Status.OK


def _coverage(cloud: CloudSession, kind: Kind[Any], status: Status, troubles: Sequence[CloudError], resources: int) -> Coverage:
    texts = list(dict.fromkeys(str(t) for t in troubles))
    more = f" (and {len(texts) - 3} more)" if len(texts) > 3 else ""
    missing = list(dict.fromkeys(t.missing for t in troubles if t.missing))
    return Coverage(
        cloud=cloud.target.cloud,
        account=cloud.target.account,
        account_name=cloud.target.account_name,
        region=cloud.target.region,
        kind=kind.name,
        status=status,
        resources=resources,
        calls=dict(cloud.calls),
        missing=", ".join(missing) or None,
        error="; ".join(texts[:3]) + more if texts else None,
    )


def _told(coverage: Coverage) -> str:
    where = f"{coverage.account} {coverage.region or ''}".strip()
    return f"{where}: {coverage.kind}: {coverage.resources} seen" + (
        "" if coverage.status is Status.OK else f", {coverage.status}"
    )
