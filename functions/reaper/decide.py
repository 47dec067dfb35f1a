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
from reaper.actions.holds import Hold, KindInTarget, Release, RunScope
from reaper.errors import CloudError, ReaperError, Reason
from reaper.ledger.port import Ledger, RunStatistics
from reaper.limits import ENDING_ACTIONS, IdleShare, PastRuns
from reaper.model import Coverage, Finding, Memory, Outcome, Result, Status, Step, StepName, Target

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
ACTIONS = ENDING_ACTIONS | {StepName.START}
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
class LimitedSteps:
    """The findings with what is on hold among them. `since`: from when on each of these is, one moment for each hold that is over it.

    `jumped`: the places whose idle share says nothing of what is usual, all of them where earlier sweeps could not be read. `errors`: what
    could not be read or written.
    """

    findings: list[Finding]
    since: Mapping[str, frozenset[datetime]] = field(default_factory=dict)
    jumped: frozenset[KindInTarget] = frozenset()
    errors: tuple[ReaperError, ...] = ()


def apply_limits(
    findings: Sequence[Finding], memories: Mapping[str, Memory], limits: Limits, ledger: Ledger, look: RunScope, *, writes: bool
) -> LimitedSteps:
    """The findings, their stops and deletes on hold where there are too many, or where nobody can say what is usual.

    With `writes` the row of holds is written, by version, before anything is done or told; where that fails everything is on hold.
    """
    try:
        return _decided(findings, memories, limits, ledger, look, writes=writes)
    except CloudError as error:
        because = f"on hold, because what is on hold and what is usual could not be read or written: {error}"
        step = Step(name=StepName.HOLD, because=because)
        found = [replace(f, step=step) if f.step.name in ENDING_ACTIONS else f for f in findings]
        return LimitedSteps(findings=found, jumped=frozenset(_place(f) for f in findings), errors=(error,))


def read(coverage: Sequence[Coverage], others: Collection[Target] = ()) -> frozenset[KindInTarget]:
    """The places that a run read, wholly or in part; not those of `others`, which another run has under its lease."""
    rows = [(Target(cloud=c.cloud, account=c.account, region=c.region), c) for c in coverage if c.cloud != OURS]
    return frozenset(
        actions_holds.kind_in_target(target, c.kind) for target, c in rows if c.status in READ and target not in others
    )


def targets(coverage: Sequence[Coverage]) -> set[Target]:
    """The targets that a run looked at, whether it could read anything there or not."""
    return {Target(cloud=c.cloud, account=c.account, region=c.region) for c in coverage if c.cloud != OURS}


def current_holds(ledger: Ledger) -> list[Hold]:
    """What is on hold now. Raises CloudError."""
    return _standing(ledger)[0]


def release_hold(ledger: Ledger, by: str, now: datetime, lasting: timedelta = reaper_limits.RELEASE_FOR) -> Release:
    """Release every action whose date had come by `now`, and remove the holds. Raises CloudError.

    Where the idle share jumped, what is usual is learnt anew from now on.
    """
    found = _written_release(ledger, by, now, lasting)
    for _ in range(TRIES):
        _, version = _standing(ledger)
        if ledger.write_row(HOLD, actions_holds.holds_row([]), version, now):
            return found
    raise _lost(HOLD)


def perform_all(
    findings: Sequence[Finding], act: Callable[[Finding], tuple[Finding, Sequence[ReaperError], Mapping[str, int]]]
) -> Carried:
    """Every stop, delete and start made, dearest first; one that fails never stops the others."""
    done: dict[int, Finding] = {}
    errors: list[ReaperError] = []
    calls: dict[tuple[str, str | None, str], Counter[str]] = {}
    open_ = [i for i, f in enumerate(findings) if f.step.name in ACTIONS and f.outcome.result is Result.PLANNED]
    for index in sorted(open_, key=lambda i: by_cost_descending(findings[i])):
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
        if f.step.name in ENDING_ACTIONS
        and f.outcome.begun
        and f.outcome.result is Result.DONE
        # Of a delete in parts what lives inside goes first; of a stop it may be in another part.
        and (f.outcome.part_done is None or f.step.name is StepName.DELETE)
    }
    return [
        _taken_along(f, next((ended[id_] for id_ in intent.host_ids(f.case.resource) if id_ in ended), None)) for f in findings
    ]


def _taken_along(found: Finding, host: Finding | None) -> Finding:
    if host is None or found.outcome.begun:
        return found
    move, bar = host.step.name, found.case.blocked.get(host.step.name)
    if move is StepName.STOP and bar is not None and bar.already_done:
        return found  # nothing of it ran
    because = f"it was {plan.PARTICIPLES[move]} with {host.case.resource.name}, which it lives in, and comes back with it"
    failed = found.outcome.error or (found.outcome.because if found.outcome.result is Result.REFUSED else None)
    outcome = Outcome(result=Result.DONE, because=because, error=failed, already_done=True, host_id=host.case.resource.id)
    return replace(found, step=Step(name=move, because=because), outcome=outcome)


def counted(coverage: Sequence[Coverage], calls: Mapping[tuple[str, str | None, str], Counter[str]]) -> tuple[Coverage, ...]:
    """The coverage with the calls of acts in it, those of looking again included."""
    return tuple(replace(c, calls={**Counter(c.calls) + calls.get((c.account, c.region, c.kind), Counter())}) for c in coverage)


def _decided(
    findings: Sequence[Finding], memories: Mapping[str, Memory], limits: Limits, ledger: Ledger, look: RunScope, *, writes: bool
) -> LimitedSteps:
    planned = [(f.case, f.step if f.outcome.result is Result.PLANNED else Step(name=StepName.NONE, because="")) for f in findings]
    for _ in range(TRIES):
        before, version = _standing(ledger)
        released = _released(ledger, look.now)
        past = PastRuns(shares=_shares(findings, ledger, released), holds=before, release=released)
        now = reaper_limits.hold_over_limits(planned, memories, limits, past, look)
        if not writes or _kept(now.holds, before, version, ledger, look.now):
            return _as_limited(findings, now)
    raise _lost(HOLD)


def _as_limited(findings: Sequence[Finding], now: reaper_limits.StepsAndHolds) -> LimitedSteps:
    found = [replace(f, step=s) if s.name is StepName.HOLD else f for f, s in zip(findings, now.steps, strict=True)]
    return LimitedSteps(
        findings=found,
        since=now.since,
        jumped=frozenset(
            place for h in now.holds if h.limit is actions_holds.LimitName.JUMP for place in actions_holds.covered_places(h)
        ),
    )


def _kept(holds: Sequence[Hold], before: Sequence[Hold], version: int, ledger: Ledger, now: datetime) -> bool:
    """Whether the holds stand in the ledger as they are. The row is made by the first run, so that no later one looks into the history."""
    return (version > 0 and set(holds) == set(before)) or ledger.write_row(HOLD, actions_holds.holds_row(holds), version, now)


def _standing(ledger: Ledger) -> tuple[list[Hold], int]:
    """What is on hold and the row's version; where there is no row yet, what an earlier version of this product noted."""
    state = ledger.read_row(HOLD)
    return (actions_holds.holds_from_row(state.values) if state.version else _older_hold(ledger)), state.version


def _older_hold(ledger: Ledger) -> list[Hold]:
    holds, releases = ledger.history(HOLDS), ledger.history(RELEASE)
    if not holds or (releases and holds[-1].when <= releases[-1].when):
        return []
    return [actions_holds.older_hold(holds[-1].because, holds[-1].by, holds[-1].when)]


def _released(ledger: Ledger, now: datetime) -> Release | None:
    """The last release; none that is dated later than now, by a clock that was wrong."""
    found = actions_holds.release_from_row(ledger.read_row(RELEASE).values)
    return found if found and found.given_at <= now else None


def _written_release(ledger: Ledger, by: str, now: datetime, lasting: timedelta) -> Release:
    for _ in range(TRIES):
        state = ledger.read_row(RELEASE)
        last = actions_holds.release_from_row(state.values)
        jumped = {
            place: now
            for h in current_holds(ledger)
            if h.limit is actions_holds.LimitName.JUMP
            for place in actions_holds.covered_places(h)
        }
        found = Release(
            given_at=now, valid_until=now + lasting, by=by, usual_since={**(last.usual_since if last else {}), **jumped}
        )
        if ledger.write_row(RELEASE, actions_holds.release_row(found), state.version, now):
            return found
    raise _lost(RELEASE)


def _shares(findings: Sequence[Finding], ledger: Ledger, released: Release | None) -> dict[KindInTarget, list[IdleShare]]:
    anew = released.usual_since if released else {}
    places = {_place(f): (f.case.resource.target, f.case.resource.kind) for f in findings}
    return {
        place: [IdleShare(seen=s.seen, idle=s.idle) for s in _usual(ledger, *where, anew.get(place))]
        for place, where in places.items()
    }


def _usual(ledger: Ledger, target: Target, kind: str, anew: datetime | None) -> list[RunStatistics]:
    """The last sweeps of a place that say what is usual. Older ledgers have rows of jumps among them, as many as there were sweeps."""
    limit_ = SWEEPS
    while True:
        rows = ledger.statistics(target, kind, limit_)
        found = [s for s in rows if not s.was_jump and s.seen and (anew is None or s.started > anew)][:SWEEPS]
        if len(found) == SWEEPS or len(rows) < limit_ or (anew and rows[-1].started <= anew):
            return found
        limit_ *= 10


def _lost(what: str) -> CloudError:
    return CloudError(Reason.REFUSED, "ledger", f"the row {what!r}: somebody else wrote first, {TRIES} times")


def _place(found: Finding) -> KindInTarget:
    return actions_holds.kind_in_target_of(found.case)


def by_cost_descending(found: Finding) -> tuple[bool, float, str]:
    """Known prices first, the highest of them before all; then by id, so that two sweeps take the same order."""
    usd = found.case.usd_per_hour
    return usd is None, -(usd or 0.0), found.case.resource.id
