"""Between the plan and what carries it out: the limits of one run with what earlier runs and a person's release say, and its actions in
their order, most expensive first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from reaper import limits as reaper_limits
from reaper import plan
from reaper.actions import holds as actions_holds
from reaper.actions import intent
from reaper.actions.holds import Hold, Look, Place, Release
from reaper.errors import CloudError, ReaperError, Trouble
from reaper.ledger.port import Ledger, Summary
from reaper.limits import ENDS, Past, Share
from reaper.model import Coverage, Finding, Memory, Move, Outcome, Result, Status, Step, Target

if TYPE_CHECKING:
    from reaper.policy.schema import Limits

HOLD, RELEASE = "hold", "release"
"""The rows of the ledger that have what is on hold and the last release. Ledgers of 49f8b6c had both in the history."""
HOLDS = "holds"
"""Where in the history of such a ledger it stands what was on hold."""
OURS = "reaper"
SWEEPS = 10
"""How many earlier sweeps tell what is usual, however old."""
TRIES = 4
MOVES = ENDS | {Move.START}
READ = frozenset({Status.OK, Status.PARTIAL})


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
class Limited:
    """The findings with what is on hold among them. `since`: from when on each of these is, one moment for each hold that is over it.

    `jumped`: the places whose idle share says nothing of what is usual, all of them where earlier sweeps could not be read. `errors`: what
    could not be read or written.
    """

    findings: list[Finding]
    since: Mapping[str, frozenset[datetime]] = field(default_factory=dict)
    jumped: frozenset[Place] = frozenset()
    errors: tuple[ReaperError, ...] = ()


def limited(
    findings: Sequence[Finding], memories: Mapping[str, Memory], limits: Limits, ledger: Ledger, look: Look, *, writes: bool
) -> Limited:
    """The findings, their stops and deletes on hold where there are too many, or where nobody can say what is usual.

    With `writes` the row of holds is written, by version, before anything is done or told; where that fails everything is on hold.
    """
    try:
        return _decided(findings, memories, limits, ledger, look, writes=writes)
    except CloudError as error:
        because = f"on hold, because what is on hold and what is usual could not be read or written: {error}"
        step = Step(move=Move.HOLD, because=because)
        found = [replace(f, step=step) if f.step.move in ENDS else f for f in findings]
        return Limited(findings=found, jumped=frozenset(_place(f) for f in findings), errors=(error,))


def read(coverage: Sequence[Coverage], others: Collection[Target] = ()) -> frozenset[Place]:
    """The places that a run read, wholly or in part; not those of `others`, which another run has under its lease."""
    rows = [(Target(cloud=c.cloud, account=c.account, region=c.region), c) for c in coverage if c.cloud != OURS]
    return frozenset(actions_holds.place(target, c.kind) for target, c in rows if c.status in READ and target not in others)


def targets(coverage: Sequence[Coverage]) -> set[Target]:
    """The targets that a run looked at, whether it could read anything there or not."""
    return {Target(cloud=c.cloud, account=c.account, region=c.region) for c in coverage if c.cloud != OURS}


def standing(ledger: Ledger) -> list[Hold]:
    """What is on hold now. Raises CloudError."""
    return _standing(ledger)[0]


def release(ledger: Ledger, by: str, now: datetime, lasting: timedelta = reaper_limits.RELEASE) -> Release:
    """Release every action whose date had come by `now`, and remove the holds. Raises CloudError.

    Where the idle share jumped, what is usual is learnt anew from now on.
    """
    found = _written_release(ledger, by, now, lasting)
    for _ in range(TRIES):
        _, version = _standing(ledger)
        if ledger.write_state(HOLD, actions_holds.to_row([]), version, now):
            return found
    raise _lost(HOLD)


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
    return Carried(findings=_with_guests([done.get(i, f) for i, f in enumerate(findings)]), errors=errors, calls=calls)


def _with_guests(findings: Sequence[Finding]) -> list[Finding]:
    """The findings, and what lived in a resource that was stopped or deleted just now has its outcome: its owner may be another one."""
    ended = {
        f.case.resource.id: f
        for f in findings
        if f.step.move in ENDS
        and f.outcome.begun
        and f.outcome.result is Result.DONE
        # Of a delete in parts what lives inside goes first; of a stop it may be in another part.
        and (f.outcome.part is None or f.step.move is Move.DELETE)
    }
    return [_taken_along(f, next((ended[id_] for id_ in intent.hosts(f.case.resource) if id_ in ended), None)) for f in findings]


def _taken_along(found: Finding, host: Finding | None) -> Finding:
    if host is None or found.outcome.begun:
        return found
    move, bar = host.step.move, found.case.acts.get(host.step.move)
    if move is Move.STOP and bar is not None and bar.done:
        return found  # nothing of it ran
    because = f"it was {plan.ENDED[move]} with {host.case.resource.name}, which it lives in, and comes back with it"
    failed = found.outcome.error or (found.outcome.because if found.outcome.result is Result.REFUSED else None)
    outcome = Outcome(result=Result.DONE, because=because, error=failed, already=True, host=host.case.resource.id)
    return replace(found, step=Step(move=move, because=because), outcome=outcome)


def counted(coverage: Sequence[Coverage], calls: Mapping[tuple[str, str | None, str], Counter[str]]) -> tuple[Coverage, ...]:
    """The coverage with the calls of acts in it, those of looking again included."""
    return tuple(replace(c, calls={**Counter(c.calls) + calls.get((c.account, c.region, c.kind), Counter())}) for c in coverage)


def _decided(
    findings: Sequence[Finding], memories: Mapping[str, Memory], limits: Limits, ledger: Ledger, look: Look, *, writes: bool
) -> Limited:
    planned = [(f.case, f.step if f.outcome.result is Result.PLANNED else Step(move=Move.NONE, because="")) for f in findings]
    for _ in range(TRIES):
        before, version = _standing(ledger)
        released = _released(ledger, look.now)
        past = Past(shares=_shares(findings, ledger, released), holds=before, release=released)
        now = reaper_limits.limited(planned, memories, limits, past, look)
        if not writes or _kept(now.holds, before, version, ledger, look.now):
            return _as_limited(findings, now)
    raise _lost(HOLD)


def _as_limited(findings: Sequence[Finding], now: reaper_limits.Limited) -> Limited:
    found = [replace(f, step=s) if s.move is Move.HOLD else f for f, s in zip(findings, now.steps, strict=True)]
    return Limited(
        findings=found,
        since=now.since,
        jumped=frozenset(place for h in now.holds if h.sort is actions_holds.Sort.JUMP for place in actions_holds.places(h)),
    )


def _kept(holds: Sequence[Hold], before: Sequence[Hold], version: int, ledger: Ledger, now: datetime) -> bool:
    """Whether the holds stand in the ledger as they are. The row is made by the first run, so that no later one looks into the history."""
    return (version > 0 and set(holds) == set(before)) or ledger.write_state(HOLD, actions_holds.to_row(holds), version, now)


def _standing(ledger: Ledger) -> tuple[list[Hold], int]:
    """What is on hold and the row's version; where there is no row yet, what an earlier version of this product noted."""
    state = ledger.state(HOLD)
    return (actions_holds.from_row(state.values) if state.version else _older_hold(ledger)), state.version


def _older_hold(ledger: Ledger) -> list[Hold]:
    holds, releases = ledger.history(HOLDS), ledger.history(RELEASE)
    if not holds or (releases and holds[-1].when <= releases[-1].when):
        return []
    return [actions_holds.older(holds[-1].because, holds[-1].by, holds[-1].when)]


def _released(ledger: Ledger, now: datetime) -> Release | None:
    """The last release; none that is dated later than now, by a clock that was wrong."""
    found = actions_holds.from_release(ledger.state(RELEASE).values)
    return found if found and found.given <= now else None


def _written_release(ledger: Ledger, by: str, now: datetime, lasting: timedelta) -> Release:
    for _ in range(TRIES):
        state = ledger.state(RELEASE)
        last = actions_holds.from_release(state.values)
        jumped = {place: now for h in standing(ledger) if h.sort is actions_holds.Sort.JUMP for place in actions_holds.places(h)}
        found = Release(given=now, until=now + lasting, by=by, anew={**(last.anew if last else {}), **jumped})
        if ledger.write_state(RELEASE, actions_holds.to_release(found), state.version, now):
            return found
    raise _lost(RELEASE)


def _shares(findings: Sequence[Finding], ledger: Ledger, released: Release | None) -> dict[Place, list[Share]]:
    anew = released.anew if released else {}
    places = {_place(f): (f.case.resource.target, f.case.resource.kind) for f in findings}
    return {
        place: [Share(seen=s.seen, idle=s.idle) for s in _usual(ledger, *where, anew.get(place))]
        for place, where in places.items()
    }


def _usual(ledger: Ledger, target: Target, kind: str, anew: datetime | None) -> list[Summary]:
    """The last sweeps of a place that say what is usual. Older ledgers have rows of jumps among them, as many as there were sweeps."""
    limit_ = SWEEPS
    while True:
        rows = ledger.summaries(target, kind, limit_)
        found = [s for s in rows if not s.held and s.seen and (anew is None or s.started > anew)][:SWEEPS]
        if len(found) == SWEEPS or len(rows) < limit_ or (anew and rows[-1].started <= anew):
            return found
        limit_ *= 10


def _lost(what: str) -> CloudError:
    return CloudError(Trouble.REFUSED, "ledger", f"the row {what!r}: somebody else wrote first, {TRIES} times")


def _place(found: Finding) -> Place:
    return actions_holds.of(found.case)


def _dearest(found: Finding) -> tuple[bool, float, str]:
    """Known prices first, the highest of them before all; then by id, so that two sweeps take the same order."""
    usd = found.case.usd_per_hour
    return usd is None, -(usd or 0.0), found.case.resource.id
