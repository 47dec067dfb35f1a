"""Which hours of metrics a run reads, and since when each resource must have been silent to count as idle. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta

from reaper.errors import ODD_REPLY_ERRORS
from reaper.model import Resource
from reaper.observation import CachedDescription, RecentSince, Window, nothing_cached
from reaper.observing import cache
from reaper.policy import rules
from reaper.policy.schema import Policy
from reaper.prices import PriceBook

ReadCached = Callable[[Iterable[str]], Mapping[str, CachedDescription]]
"""What earlier sweeps described, by id."""
IdleAfterRange = tuple[timedelta, timedelta]
"""The shortest and the longest `idle_after` that may apply to a resource."""
LAG = timedelta(minutes=5)
"""The window ends this long before now, because metrics of the last minutes are still arriving."""
HOUR = timedelta(hours=1)


def observation_window(policy: Policy, now: datetime, end: datetime | None = None) -> Window:
    """The window to read: from a full hour back over the longest `idle_after`, to a little before now, or to `end`.

    Both clouds align their buckets to the start. A start at a full hour gives every window the same ones. It depends on `now` alone.
    """
    latest = now - LAG
    usual_end = latest.replace(minute=latest.minute - latest.minute % 5, second=0, microsecond=0)
    length = max(policy.defaults.lookback, rules.longest_idle_after(policy) + 2 * HOUR)
    start = (usual_end - length).replace(minute=0, second=0, microsecond=0)
    return Window(start=start, end=end or usual_end, recent_since=now - rules.shortest_idle_after(policy))


def recent_since_by_id(
    resources: Iterable[Resource],
    policy: Policy,
    prices: PriceBook,
    now: datetime,
    read_cached: ReadCached = nothing_cached,
    *,
    has_price: bool = True,
) -> dict[str, RecentSince]:
    """Since when each resource must have been silent, by id.

    A resource whose rule can't be found is left out: its kind isn't asked about it. If `has_price` is False, none of
    them ever has a price. If several have the same id, the range covers all of them.
    """
    broken: set[str] = set()
    known: list[tuple[Resource, IdleAfterRange]] = []
    for resource in resources:
        try:
            known.append((resource, _idle_after_range(resource, policy, prices, now, has_price=has_price)))
        except ODD_REPLY_ERRORS:
            broken.add(resource.id)
    undecided = [resource.id for resource, (short, long) in known if short < long]
    cached = read_cached(undecided) if undecided else {}
    ranges: dict[str, IdleAfterRange] = {}
    for resource, (short, long) in known:
        least, most = ranges.get(resource.id, (long, long))
        narrowed = _shortest_as_cached(resource, cached.get(resource.id), short, policy, prices, now)
        ranges[resource.id] = min(least, narrowed), max(most, long)
    shared = {
        lengths: RecentSince(under_some_rule=now - lengths[0], under_every_rule=now - lengths[1]) for lengths in ranges.values()
    }
    return {resource_id: shared[lengths] for resource_id, lengths in ranges.items() if resource_id not in broken}


def recent_since_of(resource: Resource, policy: Policy, prices: PriceBook, now: datetime) -> RecentSince | None:
    """Since when a resource that is described by now must have been silent; None if its rule can't be found."""
    try:
        short, long = _idle_after_range(resource, policy, prices, now, has_price=False)
    except ODD_REPLY_ERRORS:
        return None
    return RecentSince(under_some_rule=now - short, under_every_rule=now - long)


def _idle_after_range(resource: Resource, policy: Policy, prices: PriceBook, now: datetime, *, has_price: bool) -> IdleAfterRange:
    """The range for a resource. If its type is known and has no price, a closer look can't find one either."""
    price = prices.price(resource)
    usd = price.usd_per_hour if price else None
    return rules.idle_after_range(policy, resource, usd, now, priced=has_price and not resource.parts)


def _shortest_as_cached(
    resource: Resource,
    cached: CachedDescription | None,
    short: timedelta,
    policy: Policy,
    prices: PriceBook,
    now: datetime,
) -> timedelta:
    """The shortest `idle_after` that may apply, given what it ran when it was last described: that may save a closer look, nothing else.

    Never longer than the `idle_after` of the rule that applies without that knowledge.
    """
    described = cache.as_last_described(resource, cached, now)
    if described is None:
        return short
    judged = rules.effective_rule(policy, resource, None, now).idle_after
    return max(short, min(judged, _idle_after_range(described, policy, prices, now, has_price=False)[0]))
