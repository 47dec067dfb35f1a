"""Between the plan and the hands: what earlier sweeps and a person's release say about limits, and the acts of one sweep, dearest first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from reaper import limit
from reaper.errors import CloudError, ReaperError
from reaper.ledger import History, Ledger
from reaper.limit import ENDS, Past, Share
from reaper.model import Coverage, Finding, Memory, Move, Step, Target
from reaper.policy import Limits

RELEASE = "release"
"""Where in the history releases stand."""
SWEEPS, REACH = 10, 100
"""How many earlier sweeps tell what is usual, and among how many of the last ones they are looked for."""
MOVES = ENDS | {Move.START}


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """What the acts of one sweep came to: the findings in their old order, what failed, and the calls by (account, region, kind)."""

    findings: list[Finding]
    errors: list[ReaperError]
    calls: Mapping[tuple[str, str | None, str], Counter[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limited:
    """The findings, held where there are too many, and where the idle share is a sudden jump."""

    findings: list[Finding]
    jumped: frozenset[tuple[Target, str]] = frozenset()


def limited(
    findings: Sequence[Finding], memories: Mapping[str, Memory], limits: Limits, ledger: Ledger, now: datetime
) -> Limited:
    """The findings, their stops and deletes held where there are too many, or where nobody can say what is usual."""
    try:
        past = _past(findings, ledger, now)
    except CloudError as error:
        held = Step(move=Move.HOLD, because=f"held, because what earlier sweeps saw could not be read: {error}")
        return Limited(findings=[replace(f, step=held) if f.step.move in ENDS else f for f in findings])
    steps = limit.limited([(f.case, f.step) for f in findings], memories, limits, past, now)
    return Limited(
        findings=[replace(f, step=step) for f, step in zip(findings, steps, strict=True)],
        jumped=frozenset(limit.jumps([f.case for f in findings], limits, past)),
    )


def release(ledger: Ledger, by: str, now: datetime, lasting: timedelta = limit.RELEASE) -> datetime:
    """Let go what is held now; gives the moment until which that holds. Raises CloudError."""
    until = now + lasting
    ledger.note(History(id=RELEASE, when=now, what="released", by=by, because=until.isoformat()))
    return until


def carried(
    findings: Sequence[Finding], act: Callable[[Finding], tuple[Finding, Sequence[ReaperError], Mapping[str, int]]]
) -> Carried:
    """Every stop, delete and start made, dearest first; one that fails never stops the others."""
    done: dict[int, Finding] = {}
    errors: list[ReaperError] = []
    calls: dict[tuple[str, str | None, str], Counter[str]] = {}
    for index in sorted((i for i, f in enumerate(findings) if f.step.move in MOVES), key=lambda i: _dearest(findings[i])):
        resource = findings[index].case.resource
        done[index], failed, asked = act(findings[index])
        errors += failed
        calls.setdefault((resource.target.account, resource.target.region, resource.kind), Counter()).update(asked)
    return Carried(findings=[done.get(i, f) for i, f in enumerate(findings)], errors=errors, calls=calls)


def counted(coverage: Sequence[Coverage], calls: Mapping[tuple[str, str | None, str], Counter[str]]) -> tuple[Coverage, ...]:
    """The coverage with the calls of acts in it, those of looking again included."""
    return tuple(replace(c, calls={**Counter(c.calls) + calls.get((c.account, c.region, c.kind), Counter())}) for c in coverage)


def _past(findings: Sequence[Finding], ledger: Ledger, now: datetime) -> Past:
    released = [e for e in ledger.history(RELEASE) if e.when <= now]
    given = released[-1].when if released else None
    found = {place: ledger.summaries(*place, REACH) for place in {_place(f) for f in findings}}
    known = {place: [s for s in rows if given is None or s.started > given] for place, rows in found.items()}
    usual = {place: [s for s in rows if not s.held][:SWEEPS] for place, rows in known.items()}
    return Past(
        shares={place: [Share(seen=s.seen, idle=s.idle) for s in rows] for place, rows in usual.items()},
        jumped=frozenset(place for place, rows in known.items() if rows and rows[0].held and len(usual[place]) < limit.FEW),
        released=(given, datetime.fromisoformat(released[-1].because)) if given else None,
    )


def _place(found: Finding) -> tuple[Target, str]:
    return found.case.resource.target, found.case.resource.kind


def _dearest(found: Finding) -> tuple[bool, float, str]:
    """Known prices first, the highest of them before all; then by id, so that two sweeps take the same order."""
    usd = found.case.usd_per_hour
    return usd is None, -(usd or 0.0), found.case.resource.id
