"""Between the plan and the hands: what earlier sweeps and a person's release say about limits, and the acts of one sweep, dearest first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import sha256

from reaper import limit
from reaper.errors import CloudError, ReaperError
from reaper.ledger import History, Ledger, Summary
from reaper.limit import ENDS, Past, Share
from reaper.model import Coverage, Finding, Memory, Move, Result, Step, Target
from reaper.policy import Limits

RELEASE, HOLDS = "release", "holds"
"""Where in the history releases stand, and what was held."""
OURS = "reaper"
SWEEPS, REACH = 10, 100
"""How many earlier sweeps tell what is usual, and among how many of the last ones they are looked for."""
MOVES = ENDS | {Move.START}


Acted = tuple[Finding, Sequence[ReaperError], Mapping[str, int]]
"""A finding with the outcome of its act, what failed, and the API calls it took."""


def anything(found: Finding) -> Finding:
    """Where no plan file narrows what may be done."""
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Hand:
    """What acts: `act` carries out one step, `narrow` leaves alone what must not be done this time (its step or its outcome says why)."""

    act: Callable[[Finding], Acted]
    narrow: Callable[[Finding], Finding] = anything


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """What the acts of one sweep came to: the findings in their old order, what failed, and the calls by (account, region, kind)."""

    findings: list[Finding]
    errors: list[ReaperError]
    calls: Mapping[tuple[str, str | None, str], Counter[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """Where and when limits are looked at: the ledger with what came before, the moment, and the scope of the sweep."""

    ledger: Ledger
    now: datetime
    scope: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limited:
    """The findings, held where there are too many, where the idle share is a sudden jump, and what could not be read for knowing that."""

    findings: list[Finding]
    jumped: frozenset[tuple[Target, str]] = frozenset()
    scope: frozenset[str] | None = None
    errors: tuple[ReaperError, ...] = ()


def limited(findings: Sequence[Finding], memories: Mapping[str, Memory], limits: Limits, at: Looked) -> Limited:
    """The findings, their stops and deletes held where there are too many, or where nobody can say what is usual.

    What a wider sweep held stays held in a narrower one: nobody gets past a limit in slices.
    """
    try:
        past = _past(findings, at)
        last = _last_hold(at, past)
    except CloudError as error:
        hold = Step(move=Move.HOLD, because=f"held, because what earlier sweeps saw could not be read: {error}")
        return Limited(findings=[replace(f, step=hold) if f.step.move in ENDS else f for f in findings], errors=(error,))
    planned = [(f.case, f.step if f.outcome.result is Result.PLANNED else Step(move=Move.NONE, because="")) for f in findings]
    steps = limit.limited(planned, memories, limits, past, at.now)
    found = [replace(f, step=step) if step.move is Move.HOLD else f for f, step in zip(findings, steps, strict=True)]
    if last is not None and not last <= at.scope:
        found = [_still(f, memories.get(f.case.resource.id, Memory()), past, at.now) if f.step.move in ENDS else f for f in found]
    return Limited(
        findings=found,
        jumped=frozenset(limit.jumps([f.case for f in findings], limits, past)),
        scope=at.scope if any(f.step.move is Move.HOLD for f in found) and (last is None or last < at.scope) else None,
    )


def hold(ledger: Ledger, scope: frozenset[str], run: str, now: datetime) -> None:
    """Remember over which targets and kinds the acts of a sweep were held. Raises CloudError."""
    ledger.note(History(id=HOLDS, when=now, what="held", by=run, because=" ".join(sorted(scope))))


def scope(coverage: Sequence[Coverage]) -> frozenset[str]:
    """The targets and kinds that a sweep looked at or tried to, each in eight characters."""
    places = {f"{c.cloud}/{c.account}/{c.region}/{c.kind}" for c in coverage if c.cloud != OURS}
    return frozenset(sha256(place.encode()).hexdigest()[:8] for place in places)


def release(ledger: Ledger, by: str, now: datetime, lasting: timedelta = limit.RELEASE) -> datetime:
    """Let go what is held now; gives the moment until which that holds. Raises CloudError."""
    until = now + lasting
    ledger.note(History(id=RELEASE, when=now, what="released", by=by, because=until.isoformat()))
    return until


def held(ledger: Ledger, now: datetime) -> History | None:
    """The sweep (`by`) whose acts were held last, if nobody has let them go since. Raises CloudError."""
    released = [e.when for e in ledger.history(RELEASE) if e.when <= now]
    return _held(ledger, now, released[-1] if released else None)


def carried(
    findings: Sequence[Finding], act: Callable[[Finding], tuple[Finding, Sequence[ReaperError], Mapping[str, int]]]
) -> Carried:
    """Every stop, delete and start made, dearest first; one that fails never stops the others."""
    done: dict[int, Finding] = {}
    errors: list[ReaperError] = []
    calls: dict[tuple[str, str | None, str], Counter[str]] = {}
    open_ = [i for i, f in enumerate(findings) if f.step.move in MOVES and f.outcome.result is Result.PLANNED]
    for index in sorted(open_, key=lambda i: _dearest(findings[i])):
        resource = findings[index].case.resource
        done[index], failed, asked = act(findings[index])
        errors += failed
        calls.setdefault((resource.target.account, resource.target.region, resource.kind), Counter()).update(asked)
    return Carried(findings=[done.get(i, f) for i, f in enumerate(findings)], errors=errors, calls=calls)


def counted(coverage: Sequence[Coverage], calls: Mapping[tuple[str, str | None, str], Counter[str]]) -> tuple[Coverage, ...]:
    """The coverage with the calls of acts in it, those of looking again included."""
    return tuple(replace(c, calls={**Counter(c.calls) + calls.get((c.account, c.region, c.kind), Counter())}) for c in coverage)


def _past(findings: Sequence[Finding], at: Looked) -> Past:
    released = [e for e in at.ledger.history(RELEASE) if e.when <= at.now]
    given = released[-1].when if released else None
    known = {place: _since(at.ledger.summaries(*place, REACH), given) for place in {_place(f) for f in findings}}
    usual = {place: [s for s in rows if not s.held][:SWEEPS] for place, rows in known.items()}
    return Past(
        shares={place: [Share(seen=s.seen, idle=s.idle) for s in rows] for place, rows in usual.items()},
        jumped=frozenset(place for place, rows in known.items() if rows and rows[0].held and len(usual[place]) < limit.FEW),
        released=(given, datetime.fromisoformat(released[-1].because)) if given else None,
    )


def _since(rows: Sequence[Summary], given: datetime | None) -> Sequence[Summary]:
    """What counts after a release: where a jump was let go with it, only what came later; elsewhere it changes nothing."""
    before = next((s for s in rows if given and s.started <= given), None)
    return [s for s in rows if given and s.started > given] if before and before.held else rows


def _last_hold(at: Looked, past: Past) -> frozenset[str] | None:
    """The scope of the last sweep whose acts were held, if nobody has let them go since."""
    last = _held(at.ledger, at.now, past.released[0] if past.released else None)
    return frozenset(last.because.split()) if last else None


def _held(ledger: Ledger, now: datetime, released: datetime | None) -> History | None:
    holds = [e for e in ledger.history(HOLDS) if e.when <= now]
    return None if not holds or (released and holds[-1].when <= released) else holds[-1]


def _still(found: Finding, memory: Memory, past: Past, now: datetime) -> Finding:
    if memory.held_at is None or limit.released(memory, past, now):
        return found
    because = f"would {found.step.move}, but a wider sweep held it; `reaper release` lets it go, or a sweep as wide that is under the limits"
    return replace(found, step=Step(move=Move.HOLD, because=because))


def _place(found: Finding) -> tuple[Target, str]:
    return found.case.resource.target, found.case.resource.kind


def _dearest(found: Finding) -> tuple[bool, float, str]:
    """Known prices first, the highest of them before all; then by id, so that two sweeps take the same order."""
    usd = found.case.usd_per_hour
    return usd is None, -(usd or 0.0), found.case.resource.id
