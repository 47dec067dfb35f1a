"""Too many at once means none: caps by count, by share and by money, and a breaker for a jump of the idle share. Pure.

Over any of them every stop and every delete of the sweep is held, whatever its kind, until a person has looked and runs `reaper release`
or a later sweep is back under. Notices still go out, and starts are never held.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import floor
from statistics import median

from reaper.model import Case, Memory, Move, State, Step, Target
from reaper.policy import Limits

ENDS = frozenset({Move.STOP, Move.DELETE})
RELEASE = timedelta(hours=24)
"""So long a release holds when it is not said otherwise."""
FEW = 3
"""So many more idle ones are never a jump, however small the fleet; and so many earlier sweeps must be known to speak of one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """How many of one target and kind were seen in one sweep, and how many of them were idle."""

    seen: int
    idle: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What earlier sweeps leave behind: their shares by target and kind, newest first, and the last release with the moment until which it
    holds. Not among the shares: those of sweeps that were a jump themselves, and those before the release, which made the new level usual.

    `jumped`: where the last sweep was a jump and what was usual before it is out of reach; it lasts until somebody releases it.
    """

    shares: Mapping[tuple[Target, str], Sequence[Share]] = field(default_factory=dict)
    jumped: frozenset[tuple[Target, str]] = frozenset()
    released: tuple[datetime, datetime] | None = None


def limited(
    planned: Sequence[tuple[Case, Step]], memories: Mapping[str, Memory], limits: Limits, past: Past, now: datetime
) -> list[Step]:
    """The steps in the same order, every stop and delete among them turned into `hold` where there are too many of them.

    What a person has released does not count and is not held.
    """
    ends = [(case, step) for case, step in planned if step.move in ENDS]
    acts = [pair for pair in ends if not released(memories.get(pair[0].resource.id, Memory()), past, now)]
    sudden = jumps([case for case, _ in planned], limits, past).values()
    over = [*_too_many(acts, limits), *_too_great(planned, acts, limits), *sudden] if acts else []
    if not over:
        return [step for _, step in planned]
    others, them = (f" with {_count(len(acts) - 1, 'other')}", "them") if len(acts) > 1 else ("", "it")
    because = f"held{others}, because {'; '.join(over)}. `reaper release` lets {them} go"
    held = {case.resource.id for case, _ in acts}
    return [
        Step(move=Move.HOLD, because=f"would {step.move}, but is {because}") if case.resource.id in held else step
        for case, step in planned
    ]


def jumps(cases: Iterable[Case], limits: Limits, past: Past) -> dict[tuple[Target, str], str]:
    """The targets and kinds of which suddenly many more are idle than in the sweeps before: rather a broken signal than an empty office."""
    groups: dict[tuple[Target, str], list[Case]] = defaultdict(list)
    for case in cases:
        groups[(case.resource.target, case.resource.kind)].append(case)
    sudden = {place: _jump(found, past.shares.get(place, ()), limits) for place, found in groups.items()}
    lasting = {place: f"of {place[1]} suddenly many more were idle some time ago" for place in past.jumped & groups.keys()}
    return lasting | {place: text for place, text in sudden.items() if text}


def _jump(cases: Sequence[Case], shares: Sequence[Share], limits: Limits) -> str | None:
    before = [share for share in shares if share.seen]
    idle = sum(1 for case in cases if case.verdict.state is State.IDLE)
    if len(before) < FEW:
        return None
    usual, count = median(s.idle / s.seen for s in before), median(s.idle for s in before)
    if idle - count <= FEW or idle / len(cases) - usual <= limits.max_jump:
        return None
    what = f"{idle} of {len(cases)} {cases[0].resource.kind} are idle where it used to be {usual:.0%}"
    return f"{what}, a jump of more than max_jump: {limits.max_jump:.0%}"


def released(memory: Memory, past: Past, now: datetime) -> bool:
    """Whether a person let it go after it was held: what was held only since then, nobody has looked at."""
    if past.released is None or memory.held_at is None:
        return False
    given, until = past.released
    return memory.held_at <= given <= now < until


def _too_many(acts: Sequence[tuple[Case, Step]], limits: Limits) -> Iterable[str]:
    if len(acts) > limits.max_acts:
        yield f"{_count(len(acts), 'act')} are more than max_acts: {limits.max_acts}"
    usd = sum(case.usd_per_hour for case, _ in acts if case.usd_per_hour is not None)
    if usd > limits.max_usd_per_hour:
        yield f"what they cost, ${usd:,.2f} an hour, is more than max_usd_per_hour: {limits.max_usd_per_hour:g}"


def _too_great(planned: Sequence[tuple[Case, Step]], acts: Sequence[tuple[Case, Step]], limits: Limits) -> Iterable[str]:
    """Kinds of which too great a part would go. One is always allowed, or small fleets could not be tidied at all."""
    for kind, seen in _by_kind(case for case, _ in planned).items():
        count = sum(1 for case, _ in acts if case.resource.kind == kind)
        if count > max(1 if limits.max_share else 0, floor(limits.max_share * len(seen) + 1e-9)):
            yield f"{count} of {len(seen)} {kind} are more than max_share: {limits.max_share:.0%}"


def _by_kind(cases: Iterable[Case]) -> dict[str, list[Case]]:
    found: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        found[case.resource.kind].append(case)
    return found


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")
