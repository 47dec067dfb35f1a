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
from reaper.cache import Cache
from reaper.errors import ODD, CloudError, Trouble, aside
from reaper.evidence import brief
from reaper.model import (
    Action,
    Bar,
    Case,
    Coverage,
    Finding,
    Kept,
    Kind,
    Memory,
    Move,
    Observation,
    Outcome,
    Price,
    Quiet,
    Resource,
    Result,
    State,
    Status,
    Target,
    Window,
    nothing_kept,
)
from reaper.policy import owners, rules
from reaper.policy.schema import Policy
from reaper.prices import PriceBook

T = TypeVar("T")
Reads = Callable[[Iterable[str]], Mapping[str, Kept]]
"""What earlier sweeps kept, by id."""
Waits = tuple[timedelta, timedelta]
"""The shortest and the longest that one may have to be silent."""
LAG = timedelta(minutes=5)
"""Metrics of the last minutes are still arriving, so the window ends this long before now."""
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
TARGETS_AT_ONCE = 8
ASKED = {Move.STOP: Action.STOP, Move.DELETE: Action.DELETE}
"""What a rule must allow for a move."""
DRAWN = frozenset({State.IDLE, State.UNKNOWN})
"""Whose signals the report draws."""


class Cloud(Protocol):
    """What the sweep needs of a cloud session; both clouds have the same shape."""

    target: Target
    calls: Any
    troubles: list[CloudError]

    def for_kind(self) -> Self:
        """The same target with fresh counters."""
        ...

    def anew(self) -> Self:
        """The same target with fresh counters and nothing remembered from before, for looking again."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What to sweep with: the policy, the prices, the moment, what is remembered, whom to tell of progress, and what earlier sweeps kept."""

    policy: Policy
    now: datetime
    book: PriceBook = field(default_factory=PriceBook)
    memories: Mapping[str, Memory] = field(default_factory=dict)
    progress: Callable[[str], None] = lambda text: None
    cache: Cache | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """Everything that one sweep found."""

    coverage: tuple[Coverage, ...]
    findings: tuple[Finding, ...]


def sweep(clouds: Sequence[Cloud], kinds: Sequence[Kind[Any]], order: Order) -> Swept:
    """Every kind of every target. Never raises CloudError: what could not be read is in the coverage.

    Whatever a kind or a reply trips over (`errors.ODD`) fails that kind only. What is no such thing, MemoryError above all, ends the run.
    """
    jobs = [(cloud.for_kind(), kind) for cloud in clouds for kind in kinds if kind.cloud == cloud.target.cloud]
    lock, finished = threading.Lock(), count(1)

    def job(pair: tuple[Cloud, Kind[Any]]) -> tuple[Coverage, list[Finding]]:
        done = _visit(*pair, order)
        with lock:
            order.progress(f"{next(finished)} of {len(jobs)}: {_told(done[0])}")
        return done

    if not jobs:
        return Swept(coverage=(), findings=())
    with ThreadPoolExecutor(min(TARGETS_AT_ONCE, len(jobs))) as pool:
        results = list(pool.map(job, jobs))
    return Swept(coverage=tuple(c for c, _ in results), findings=tuple(f for _, found in results for f in found))


def again(cloud: Cloud, kind: Kind[Any], resource: Resource, order: Order) -> Finding:
    """The finding of one resource, observed anew up to this very moment. Raises CloudError where anything of it could not be read.

    CloudWatch is asked to the end of this minute, so that the present one is seen too; whether Azure Monitor takes an end that lies ahead is
    not documented, and it is asked up to this minute. Its hours begin where those of a sweep at this moment would; they are cut as those
    of every sweep are, of which an earlier one may have begun some hours earlier.
    """
    on_aws = cloud.target.cloud == "aws"
    end = order.now.replace(second=0, microsecond=0) + (MINUTE if on_aws else timedelta(0))
    stretch = replace(window(order.policy, order.now, end), quiet=_quiet([resource], order), whole=True)
    seen = list(_safely(kind, lambda: kind.observe(cloud, [resource], stretch)))
    if cloud.troubles:
        with aside():
            raise cloud.troubles[0]
    if [(s.resource.id, s.resource.name) for s in seen] != [(resource.id, resource.name)]:
        raise CloudError(Trouble.GARBLED, kind.name, "it was asked for and not observed")
    if seen[0].gone:
        raise CloudError(Trouble.GONE, kind.name, "it is not there any more")
    [found] = _safely(kind, lambda: [_finding(seen[0], kind, order)])
    return found


def window(policy: Policy, now: datetime, end: datetime | None = None) -> Window:
    """The stretch to read: from a full hour on, back over the longest `idle_after`, to a little before now, or to `end`.

    Both clouds cut their buckets from the start on; from the full hour on, every window cuts the same ones. The start hangs on `now` alone.
    """
    usual = _mark(now - LAG)
    reach = max(policy.defaults.lookback, rules.longest_idle_after(policy) + 2 * HOUR)
    start = (usual - reach).replace(minute=0, second=0, microsecond=0)
    return Window(start=start, end=end or usual, quiet_from=now - rules.shortest_idle_after(policy))


def _quiet(resources: Iterable[Resource], order: Order, kept: Reads = nothing_kept, *, priced: bool = True) -> dict[str, Quiet]:
    """By id, since when each must have been silent. One that the code trips over is left out: the shortest wait of all stands for it.

    Not `priced`: none of them ever has a price. Of several with one id each may be the one that is looked at: both ends stand for all.
    """
    left_out: set[str] = set()
    known: list[tuple[Resource, Waits]] = []
    for resource in resources:
        try:
            known.append((resource, _waits(resource, order, priced=priced)))
        except ODD:
            left_out.add(resource.id)
    left_open = [resource.id for resource, (short, long) in known if short < long]
    held = kept(left_open) if left_open else {}
    found: dict[str, Waits] = {}
    for resource, (short, long) in known:
        least, most = found.get(resource.id, (long, long))
        found[resource.id] = min(least, _as_kept(resource, held.get(resource.id), short, order)), max(most, long)
    shared = {waits: Quiet(perhaps=order.now - waits[0], surely=order.now - waits[1]) for waits in found.values()}
    return {id: shared[waits] for id, waits in found.items() if id not in left_out}


def _waits(resource: Resource, order: Order, *, priced: bool) -> Waits:
    """With a type that has no price, too, there is nothing that a closer look could find out about it."""
    price = order.book.price(resource)
    usd = price.usd_per_hour if price else None
    return rules.waits(order.policy, resource, usd, order.now, priced=priced and not resource.parts)


def _as_kept(resource: Resource, kept: Kept | None, short: timedelta, order: Order) -> timedelta:
    """The shortest wait that may hold for it, given what it ran when it was last described: that may spare a closer look, and nothing else.

    Never longer than the wait of the rule by which it is judged without one. What makes no sense is as if it had not been kept.
    """
    try:
        known = cache.as_kept(resource, kept, order.now)
        if known is None:
            return short
        judged = rules.rule(order.policy, resource, None, order.now).idle_after
        return max(short, min(judged, _waits(known, order, priced=False)[0]))
    except ODD:
        return short


def _mark(moment: datetime) -> datetime:
    """The last five-minute mark."""
    return moment.replace(minute=moment.minute - moment.minute % 5, second=0, microsecond=0)


def _visit(cloud: Cloud, kind: Kind[Any], order: Order) -> tuple[Coverage, list[Finding]]:
    try:
        resources = _discovered(cloud, kind)
    except CloudError as error:
        status = Status.DENIED if error.trouble is Trouble.DENIED else Status.FAILED
        return _coverage(cloud, kind, status, [error, *cloud.troubles], 0), []
    try:
        findings = list(_safely(kind, lambda: _findings(cloud, kind, resources, order)))
    except CloudError as error:
        cloud.troubles.append(error)
        findings = [_unjudged(resource, error, kind, order) for resource in resources]
    return _coverage(cloud, kind, _worst(cloud.troubles), cloud.troubles, len(findings)), findings


def _discovered(cloud: Cloud, kind: Kind[Any]) -> list[Resource]:
    """Each resource once, as it was listed last: a list that changes while it is paged through may bring a row twice.

    What of one cannot be read is noted and hides no other; one that cannot even be named is left out.
    """
    found: dict[tuple[str, str], Resource] = {}
    for listed in _safely(kind, lambda: kind.discover(cloud)):
        wrong = conformance.faults(listed)
        if wrong:
            cloud.troubles.append(CloudError(Trouble.GARBLED, kind.name, conformance.told(listed, wrong)))
        if "id" not in wrong:
            resource = conformance.mended(listed, wrong, kind.name, cloud.target)
            found[resource.id, resource.name] = resource
    return list(found.values())


def _safely(kind: Kind[Any], found: Callable[[], Iterable[T]]) -> Iterator[T]:
    """The same, but a reply so odd that the code trips over it fails this kind only, and loudly."""
    try:
        yield from found()
    except ODD as error:
        raise CloudError(Trouble.GARBLED, kind.name, f"a reply could not be understood ({error!r})") from error


def _findings(cloud: Cloud, kind: Kind[Any], resources: list[Resource], order: Order) -> Iterator[Finding]:
    shelf = cache.shelf(order.cache, cloud.target, kind.name) if order.cache else None
    reads: Reads = partial(cache.read, shelf) if shelf else nothing_kept
    quiet = _quiet(resources, order, reads, priced=kind.priced)
    stretch = replace(window(order.policy, order.now), quiet=quiet, kept=_spared(resources, order, reads))
    fresh: dict[str, Kept] = {}
    left = {(resource.id, resource.name): resource for resource in resources}
    for observation in kind.observe(cloud, resources, stretch):
        listed = left.pop((observation.resource.id, observation.resource.name), None)
        if observation.keep:
            fresh[observation.resource.id] = observation.keep
        if listed and not observation.gone:
            yield _judged(cloud, _doubted(observation, listed), kind, order)
    for resource in left.values():
        yield _judged(cloud, Observation(resource=resource, blind="it was not observed"), kind, order)
    if shelf:
        cache.write(shelf, fresh, {resource.id for resource in resources})


def _spared(resources: Iterable[Resource], order: Order, reads: Reads) -> Reads:
    """What earlier sweeps kept of those that no rule may delete: whether one could be created again must be asked for anew."""

    def kept(ids: Iterable[str]) -> Mapping[str, Kept]:
        wanted = set(ids)
        mine = [resource for resource in resources if resource.id in wanted]
        return reads(wanted - {resource.id for resource in mine if _may_delete(resource, order)})

    return kept


def _may_delete(resource: Resource, order: Order) -> bool:
    """Whether a rule may; so it is for one that the code trips over."""
    try:
        return rules.may_delete(order.policy, resource, None)
    except ODD:
        return True


def _doubted(seen: Observation, listed: Resource) -> Observation:
    """Where a part of its row could not be read, its silence proves nothing."""
    unread = listed.facts.get(conformance.UNREAD)
    facts = {**seen.resource.facts, conformance.UNREAD: unread}
    return replace(seen, blind=unread, resource=replace(seen.resource, facts=facts)) if unread else seen


def _judged(cloud: Cloud, seen: Observation, kind: Kind[Any], order: Order) -> Finding:
    """The finding. One that the code trips over is unknown, and noted; the others stay judged."""
    try:
        return _finding(seen, kind, order)
    except ODD as error:
        trouble = CloudError(Trouble.GARBLED, kind.name, f"{seen.resource.id} could not be judged ({error!r})")
        cloud.troubles.append(trouble)
        return _unjudged(seen.resource, trouble, kind, order)


def _unjudged(resource: Resource, error: CloudError, kind: Kind[Any], order: Order) -> Finding:
    """The finding of one of which nothing but its name is believed; not even its tags where it is they that cannot be understood."""
    blind = _blind(resource, error)
    try:
        return _finding(blind, kind, order)
    except ODD:
        return _finding(replace(blind, resource=replace(blind.resource, tags=None)), kind, order)


def _blind(resource: Resource, error: CloudError) -> Observation:
    named = conformance.mended(resource, conformance.faults(resource), resource.kind, resource.target)
    plain = replace(named, parts=None, size="", people={}, facts={})
    return Observation(resource=plain, blind=f"it could not be observed: {error}")


def _finding(seen: Observation, kind: Kind[Any], order: Order) -> Finding:
    resource = seen.resource
    price = order.book.price(resource)
    usd = price.usd_per_hour if price else None
    holds = rules.rule(order.policy, resource, usd, order.now)
    verdict = judge.judge(resource, seen, holds, order.now)
    resource = replace(resource, facts={**resource.facts, "stop_by": holds.stop_by})
    belongs = owners.owner(resource, order.policy.owners.tags, order.policy.owners.domains, order.policy.owners.fallback)
    case = Case(
        resource=resource,
        rule=holds,
        verdict=verdict,
        usd_per_hour=usd,
        owner=belongs.address,
        acts=_able(resource, kind, order),
        saves=_saves(resource, usd, kind, order.book),
    )
    [step] = plan.plan([case], order.memories, order.now)
    return Finding(
        case=case,
        step=step,
        outcome=Outcome(result=Result.PLANNED),
        owner=belongs,
        price=price,
        wasted_usd=_wasted(price, verdict.idle_for),
        evidence=tuple(brief(r, drawn=verdict.state in DRAWN) for r in seen.readings),
    )


def _able(resource: Resource, kind: Kind[Any], order: Order) -> dict[Move, Bar | None]:
    """What bars each move, the rules of whatever lives inside and would go with it included (`facts["within"]`)."""
    if unread := resource.facts.get(conformance.UNREAD):
        return {move: Bar(because=unread) for move in kind.deeds}
    try:
        bars = dict(kind.able(resource))
    except ODD as error:
        return {move: Bar(because=f"what can be done to it cannot be told ({error!r})") for move in kind.deeds}
    for inner in resource.facts.get("within", ()):
        holds = rules.rule(order.policy, inner, None, order.now)
        spared = "its tags could not be read" if inner.tags is None else holds.protected
        for move, action in ASKED.items():
            if move in bars and bars[move] is None and (spared or holds.action.rank < action.rank):
                bars[move] = Bar(
                    because=f"{inner.name} inside it may not: {spared or f'{holds.name} allows {holds.action} at most'}"
                )
    return bars


def _saves(resource: Resource, usd: float | None, kind: Kind[Any], book: PriceBook) -> dict[Move, float]:
    """What each move that ends something would save an hour; nothing where a price is not known."""
    found: dict[Move, float] = {}
    for move in (Move.STOP, Move.DELETE) if usd is not None else ():
        left = kind.left(resource, move) if move in kind.deeds else None
        price = book.price(replace(resource, parts=left))
        if usd is not None and (left == () or price):
            found[move] = round(usd - (price.usd_per_hour if price else 0.0), 6)
    return found


def _wasted(price: Price | None, idle_for: timedelta | None) -> float | None:
    return round(price.usd_per_hour * (idle_for / timedelta(hours=1)), 2) if price and idle_for else None


def _worst(troubles: Sequence[CloudError]) -> Status:
    if any(t.trouble is Trouble.DENIED for t in troubles):
        return Status.DENIED
    return Status.PARTIAL if troubles else Status.OK


def _coverage(cloud: Cloud, kind: Kind[Any], status: Status, troubles: Sequence[CloudError], resources: int) -> Coverage:
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
