"""Too many at once means none: caps by count, by share and by money, and a breaker for a jump of the idle share. Pure.

Over a cap every stop and delete that it counts is on hold, over the breaker every one in that place, until a person has looked and runs
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

from reaper import plan
from reaper.actions import holds
from reaper.actions.holds import Hold, KindInTarget, LimitName, Release, RunScope
from reaper.enrolment import is_stopped_by_hours
from reaper.model import Case, Memory, State, Step, StepName
from reaper.policy import office_hours

if TYPE_CHECKING:
    from reaper.policy.schema import Limits

ENDING_ACTIONS = frozenset({StepName.STOP, StepName.DELETE})
RELEASE_FOR = timedelta(hours=24)
"""So long a release holds when it is not said otherwise."""
MIN_FOR_JUMP = 3
"""So many more idle ones are never a jump, however small the fleet; and so many earlier sweeps must be known to speak of one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleShare:
    """Of one place in one sweep: how many resources it had something to say of, and how many of them were idle."""

    seen: int
    idle: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRuns:
    """What earlier runs and people leave behind: the idle shares by place, newest first, the holds that stand, and the last release."""

    shares: Mapping[KindInTarget, Sequence[IdleShare]] = field(default_factory=dict)
    holds: Sequence[Hold] = ()
    release: Release | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepsAndHolds:
    """One step for each case, in the same order, and the holds that stand from now on.

    `since`: by the id of each resource on hold, since when the holds over it stand.
    """

    steps: list[Step]
    holds: list[Hold]
    since: Mapping[str, frozenset[datetime]]


PlannedCases = Sequence[tuple[Case, Step]]


def hold_over_limits(
    planned: PlannedCases, memories: Mapping[str, Memory], limits: Limits, past: PastRuns, look: RunScope
) -> StepsAndHolds:
    """The steps, every stop and delete among them that a limit forbids turned into `hold`. What a release covers counts for no limit."""
    cases = [case for case, _ in planned]
    covered = {
        case.resource.id
        for case, step in planned
        if step.name in ENDING_ACTIONS and is_released(case, memories.get(case.resource.id, Memory()), past.release, look.now)
    }
    jumped = holds.updated_jump_holds(
        [h for h in past.holds if h.limit is LimitName.JUMP],
        idle_jumps(cases, limits, past.shares),
        places_with_known_share(cases, look.read_places),
        look,
    )
    acts = [case for case, step in planned if step.name in ENDING_ACTIONS and case.resource.id not in covered]
    exceeded = _exceeded_limits(cases, [case for case in acts if not any(holds.covers_case(h, case) for h in jumped)], limits)
    whole = holds.updated_holds([h for h in past.holds if h.limit is not LimitName.JUMP], exceeded, look)
    why = {case.resource.id: _holds_over([*whole, *jumped], case, exceeded) for case in acts}
    return StepsAndHolds(
        steps=[_held_step(step, why.get(case.resource.id, ())) for case, step in planned],
        holds=[*whole, *jumped],
        since={id_: frozenset(h.since for h in over) for id_, over in why.items() if over},
    )


def is_released(case: Case, memory: Memory, release: Release | None, now: datetime) -> bool:
    """Whether a release covers its action: it holds now, and the action's date, or the end of its office hours, had come when it was given."""
    if release is None or not release.given_at <= now < release.valid_until:
        return False
    hours = case.rule.hours if is_stopped_by_hours(case) else None
    dates = [plan.action_due_at(case, memory, now), office_hours.closed_since(hours, now) if hours else None]
    known = [date for date in dates if date]
    return bool(known) and max(known) <= release.given_at


def idle_jumps(
    cases: Iterable[Case], limits: Limits, shares: Mapping[KindInTarget, Sequence[IdleShare]]
) -> dict[KindInTarget, str]:
    """The places where suddenly many more are idle than in the sweeps before: rather a broken signal than an empty office."""
    found = {place: _jump_because(group, shares.get(place, ()), limits) for place, group in _grouped_by_place(cases).items()}
    return {place: text for place, text in found.items() if text}


def idle_share(cases: Iterable[Case]) -> IdleShare:
    """How much of one place is idle: without what a rule's calendar stops, by day and by night, and without what is unknown."""
    states = [case.verdict.state for case in cases if not is_stopped_by_hours(case)]
    return IdleShare(seen=len(states) - states.count(State.UNKNOWN), idle=states.count(State.IDLE))


def places_with_known_share(cases: Iterable[Case], read: Iterable[KindInTarget]) -> frozenset[KindInTarget]:
    """The places that were read and of which at most half is unknown, so that their idle share says something."""
    groups = _grouped_by_place(cases)
    return frozenset(place for place in read if _is_half_known(groups.get(place, [])))


def _is_half_known(cases: Sequence[Case]) -> bool:
    counted = [case for case in cases if not is_stopped_by_hours(case)]
    return 2 * idle_share(counted).seen >= len(counted)


def _jump_because(cases: Sequence[Case], shares: Sequence[IdleShare], limits: Limits) -> str | None:
    before, now = [s for s in shares if s.seen], idle_share(cases)
    if len(before) < MIN_FOR_JUMP or not now.seen:
        return None
    usual, count = median(s.idle / s.seen for s in before), median(s.idle for s in before)
    if now.idle - count <= MIN_FOR_JUMP or now.idle / now.seen - usual <= limits.max_jump:
        return None
    what = f"{now.idle} of {now.seen} {cases[0].resource.kind} are idle where it used to be {usual:.0%}"
    return f"{what}, a jump of more than max_jump: {limits.max_jump:.0%}"


def _exceeded_limits(cases: Sequence[Case], acts: Sequence[Case], limits: Limits) -> dict[LimitName, str]:
    """The caps that the actions on `acts` are over, each with the reason."""
    unpriced = [case for case in acts if _lacks_required_price(case, limits)]
    others = [case for case in acts if not _lacks_required_price(case, limits)]
    calendar, ordinary = [c for c in others if is_stopped_by_hours(c)], [c for c in others if not is_stopped_by_hours(c)]
    usd = sum(case.usd_per_hour for case in others if case.usd_per_hour is not None)
    found = {
        LimitName.ACTIONS: "; ".join(
            [*_over_count(ordinary, "max_acts", limits.max_acts), *_over_share(cases, ordinary, limits)]
        ),
        LimitName.SCHEDULED: "; ".join(_over_count(calendar, "max_scheduled", limits.max_scheduled)),
        LimitName.DOLLARS: f"what they cost, ${usd:,.2f} an hour, is more than max_usd_per_hour: {limits.max_usd_per_hour:g}"
        if usd > limits.max_usd_per_hour
        else "",
        LimitName.UNPRICED: f"its price is not known, and the policy sets max_usd_per_hour: {limits.max_usd_per_hour:g}"
        if unpriced
        else "",
    }
    return {sort: because for sort, because in found.items() if because}


def _lacks_required_price(case: Case, limits: Limits) -> bool:
    """Whether nobody can say if it is too dear: only where the policy itself sets what that is, and never for a calendar's stops."""
    return case.usd_per_hour is None and not is_stopped_by_hours(case) and "max_usd_per_hour" in limits.model_fields_set


def _over_count(acts: Sequence[Case], key: str, most: int) -> Iterator[str]:
    if len(acts) > most:
        yield f"{len(acts)} action{' is' if len(acts) == 1 else 's are'} more than {key}: {most}"


def _over_share(cases: Iterable[Case], acts: Sequence[Case], limits: Limits) -> Iterator[str]:
    """Kinds of which too great a part would go. One is always allowed, or small fleets could not be tidied at all."""
    seen: dict[str, int] = defaultdict(int)
    for case in cases:
        seen[case.resource.kind] += not is_stopped_by_hours(case)
    for kind, total in seen.items():
        count = sum(1 for case in acts if case.resource.kind == kind)
        if count > max(1 if limits.max_share else 0, floor(limits.max_share * total + 1e-9)):
            yield f"{count} of {total} {kind} are more than max_share: {limits.max_share:.0%}"


def _holds_over(standing: Iterable[Hold], case: Case, exceeded: Collection[LimitName]) -> list[Hold]:
    """The holds over an action. A limit that this run exceeds holds all that it counts, also in places that were not read in full."""
    return [h for h in standing if holds.covers_case(h, case) or (h.limit in exceeded and holds.limit_counts_case(h.limit, case))]


def _held_step(step: Step, why: Sequence[Hold]) -> Step:
    if not why or step.name not in ENDING_ACTIONS:
        return step
    since = f"{min(h.since for h in why).astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    reasons = "; ".join(dict.fromkeys(h.because for h in why))
    return Step(
        name=StepName.HOLD, because=f"would {step.name}, but is on hold since {since}: {reasons}. `reaper release` releases it"
    )


def _grouped_by_place(cases: Iterable[Case]) -> dict[KindInTarget, list[Case]]:
    found: dict[KindInTarget, list[Case]] = defaultdict(list)
    for case in cases:
        found[holds.kind_in_target_of(case)].append(case)
    return found
