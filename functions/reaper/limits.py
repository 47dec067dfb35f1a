"""Too many actions at once means none: caps by count, by share and by money, and a breaker for a jump of the idle share. Pure.

Over a cap, every stop and delete that it counts is on hold. Over the breaker, all of them in that place are. They wait until a person runs
`reaper release` or a later run is under the limit. Notices still go out, and starts are never on hold.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from math import floor
from statistics import median
from typing import TYPE_CHECKING

from reaper.actions import holds
from reaper.actions.holds import Hold, KindInTarget, LimitName, Release, RunScope
from reaper.case import Case, Step
from reaper.model import ENDING_ACTIONS, Memory, State, StepName
from reaper.planning.dates import action_due_at
from reaper.planning.enrolment import is_stopped_by_hours
from reaper.policy import office_hours
from reaper.text import format_usd

if TYPE_CHECKING:
    from reaper.policy.schema import Limits

RELEASE_FOR = timedelta(hours=24)
"""How long a release lasts by default."""
MIN_FOR_JUMP = 3
"""This many more idle resources are never a jump, however small the fleet. A jump needs as many earlier sweeps to compare with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleShare:
    """One place in one sweep: how many resources it had a verdict on, and how many of them were idle."""

    seen: int
    idle: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceCount:
    """One place in one run: how many resources no office hours stop, and how many of them are unknown or idle."""

    total: int = 0
    unknown: int = 0
    idle: int = 0


PlaceCounts = Mapping[KindInTarget, PlaceCount]
NO_OTHERS: PlaceCounts = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRuns:
    """Results of earlier runs: the idle shares by place, newest first, the holds in effect, and the last release."""

    shares: Mapping[KindInTarget, Sequence[IdleShare]] = field(default_factory=dict)
    holds: Sequence[Hold] = ()
    release: Release | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepsAndHolds:
    """One step for each case, in the same order, and the holds in effect from now on.

    `since`: when each hold over a resource began, by resource ID.
    """

    steps: list[Step]
    holds: list[Hold]
    since: Mapping[str, frozenset[datetime]]


PlannedCases = Sequence[tuple[Case, Step]]


def hold_over_limits(
    planned: PlannedCases,
    memories: Mapping[str, Memory],
    limits: Limits,
    past: PastRuns,
    scope: RunScope,
    others: PlaceCounts = NO_OTHERS,
) -> StepsAndHolds:
    """The steps, with every stop and delete that a limit forbids turned into `hold`. Actions that a release covers count toward no limit.

    `others`: how many more resources the run saw, without a planned step.
    """
    counts = count_places(case for case, _ in planned)
    add_counts(counts, others)
    due = _unreleased_cases(planned, memories, past.release, scope.now)
    jumped = _jump_holds(counts, limits, past, scope)
    exceeded = _exceeded_limits(counts, [case for case in due if not any(holds.covers_case(h, case) for h in jumped)], limits)
    whole = holds.updated_holds([hold for hold in past.holds if hold.limit is not LimitName.JUMP], exceeded, scope)
    over = {case.resource.id: _holds_over([*whole, *jumped], case, exceeded) for case in due}
    return StepsAndHolds(
        steps=[_held_step(step, over.get(case.resource.id, ())) for case, step in planned],
        holds=[*whole, *jumped],
        since={resource_id: frozenset(hold.since for hold in over_it) for resource_id, over_it in over.items() if over_it},
    )


def _unreleased_cases(
    planned: PlannedCases, memories: Mapping[str, Memory], release: Release | None, now: datetime
) -> list[Case]:
    """The cases with a planned stop or delete that no release covers."""
    ending = [case for case, step in planned if step.name in ENDING_ACTIONS]
    # By ID: some IDs occur more than once in a list.
    released = {case.resource.id for case in ending if is_released(case, memories.get(case.resource.id, Memory()), release, now)}
    return [case for case in ending if case.resource.id not in released]


def _jump_holds(counts: PlaceCounts, limits: Limits, past: PastRuns, scope: RunScope) -> list[Hold]:
    """The breaker's holds from now on."""
    return holds.updated_jump_holds(
        [hold for hold in past.holds if hold.limit is LimitName.JUMP],
        idle_jumps(counts, limits, past.shares),
        places_with_known_share(counts, scope.read_places),
        scope,
    )


def is_released(case: Case, memory: Memory, release: Release | None, now: datetime) -> bool:
    """Whether a release covers its action: it is valid now, and the action was due, or its office hours were over, when it was given."""
    if release is None or not release.given_at <= now < release.valid_until:
        return False
    hours = case.rule.hours if is_stopped_by_hours(case) else None
    dates = [action_due_at(case, memory, now), office_hours.closed_since(hours, now) if hours else None]
    known = [date for date in dates if date]
    return bool(known) and max(known) <= release.given_at


def count_places(cases: Iterable[Case]) -> dict[KindInTarget, PlaceCount]:
    """How many resources there are by place, without those that office hours stop."""
    states: dict[KindInTarget, list[State]] = defaultdict(list)
    for case in cases:
        states[holds.kind_in_target_of(case)] += [] if is_stopped_by_hours(case) else [case.verdict.state]
    return {
        place: PlaceCount(total=len(verdicts), unknown=verdicts.count(State.UNKNOWN), idle=verdicts.count(State.IDLE))
        for place, verdicts in states.items()
    }


def add_counts(sums: dict[KindInTarget, PlaceCount], more: PlaceCounts) -> None:
    """Add `more` to the sums, place by place: a run over an organization has thousands of places, and each part only a few."""
    for place, count in more.items():
        before = sums.get(place, PlaceCount())
        sums[place] = PlaceCount(
            total=before.total + count.total, unknown=before.unknown + count.unknown, idle=before.idle + count.idle
        )


def idle_jumps(
    counts: PlaceCounts, limits: Limits, shares: Mapping[KindInTarget, Sequence[IdleShare]]
) -> dict[KindInTarget, str]:
    """The places where many more resources are idle than in earlier runs, with the reason. A broken signal is likelier than an empty office."""
    jumps = {place: _jump_because(place[1], idle_share(count), shares.get(place, ()), limits) for place, count in counts.items()}
    return {place: because for place, because in jumps.items() if because}


def idle_share(count: PlaceCount) -> IdleShare:
    """The idle share of one place, without its unknown resources."""
    return IdleShare(seen=count.total - count.unknown, idle=count.idle)


def places_with_known_share(counts: PlaceCounts, read: Iterable[KindInTarget]) -> frozenset[KindInTarget]:
    """The places that were read and at most half of which is unknown, so that their idle share means something."""
    counted = ((place, counts.get(place, PlaceCount())) for place in read)
    return frozenset(place for place, count in counted if 2 * count.unknown <= count.total)


def _jump_because(kind: str, now: IdleShare, shares: Sequence[IdleShare], limits: Limits) -> str | None:
    before = [share for share in shares if share.seen]
    if len(before) < MIN_FOR_JUMP or not now.seen:
        return None
    usual, count = median(share.idle / share.seen for share in before), median(share.idle for share in before)
    if now.idle - count <= MIN_FOR_JUMP or now.idle / now.seen - usual <= limits.max_jump:
        return None
    return f"{now.idle} of {now.seen} {kind} resources are idle, up from {usual:.0%}; max_jump is {limits.max_jump:.0%}"


def _exceeded_limits(counts: PlaceCounts, due: Sequence[Case], limits: Limits) -> dict[LimitName, str]:
    """The caps that the actions on `due` exceed, each with the reason."""
    unpriced = [case for case in due if _lacks_required_price(case, limits)]
    others = [case for case in due if not _lacks_required_price(case, limits)]
    calendar, ordinary = [c for c in others if is_stopped_by_hours(c)], [c for c in others if not is_stopped_by_hours(c)]
    usd = sum(case.usd_per_hour for case in others if case.usd_per_hour is not None)
    exceeded = {
        LimitName.ACTIONS: "; ".join(
            [*_over_count(ordinary, "max_acts", limits.max_acts), *_over_share(counts, ordinary, limits)]
        ),
        LimitName.SCHEDULED: "; ".join(_over_count(calendar, "max_scheduled", limits.max_scheduled)),
        LimitName.DOLLARS: _over_cost(len(others), usd, limits),
        LimitName.UNPRICED: f"its price is unknown, and the policy sets max_usd_per_hour: {limits.max_usd_per_hour:g}"
        if unpriced
        else "",
    }
    return {limit: because for limit, because in exceeded.items() if because}


def _lacks_required_price(case: Case, limits: Limits) -> bool:
    """Whether its price is unknown and the policy sets a cost cap. Never for stops by office hours."""
    return case.usd_per_hour is None and not is_stopped_by_hours(case) and "max_usd_per_hour" in limits.model_fields_set


def _over_count(due: Sequence[Case], key: str, most: int) -> Iterator[str]:
    if len(due) > most:
        yield f"{len(due)} action{' exceeds' if len(due) == 1 else 's exceed'} {key}: {most}"


def _over_cost(count: int, usd: float, limits: Limits) -> str:
    if usd <= limits.max_usd_per_hour:
        return ""
    whose = "its" if count == 1 else "their"
    return f"{whose} cost of {format_usd(usd, 2)} an hour exceeds max_usd_per_hour: {limits.max_usd_per_hour:g}"


def _over_share(counts: PlaceCounts, due: Sequence[Case], limits: Limits) -> Iterator[str]:
    """Kinds of which too large a share would be stopped. One resource is always allowed, or small fleets could never be cleaned up."""
    totals: dict[str, int] = defaultdict(int)
    for (_, kind), count in counts.items():
        totals[kind] += count.total
    for kind, total in totals.items():
        count_due = sum(1 for case in due if case.resource.kind == kind)
        if count_due > max(1 if limits.max_share else 0, floor(limits.max_share * total + 1e-9)):
            yield f"{count_due} of {total} {kind} resources exceed max_share: {limits.max_share:.0%}"


def _holds_over(standing: Iterable[Hold], case: Case, exceeded: Collection[LimitName]) -> list[Hold]:
    """The holds over an action. A limit that this run exceeds covers everything it counts, even in places with incomplete coverage."""
    return [h for h in standing if holds.covers_case(h, case) or (h.limit in exceeded and holds.limit_counts_case(h.limit, case))]


def _held_step(step: Step, why: Sequence[Hold]) -> Step:
    if not why or step.name not in ENDING_ACTIONS:
        return step
    since = f"{min(h.since for h in why).astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    reasons = "; ".join(dict.fromkeys(h.because for h in why))
    return Step(
        name=StepName.HOLD,
        because=f"would {step.name}, but is on hold since {since}: {reasons}. Run `reaper release` to allow it",
    )
