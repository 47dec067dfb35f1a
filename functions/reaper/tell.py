"""Carries out the warnings and reminders of a plan, each once, whoever else is sweeping, and remembers what was told.

A target's notices are decided and given under a lease; the memory is read after the lease was taken and written with the version that
was read. A notice counts when a channel accepted it: what was refused is a failure in the report and is tried again by the next sweep.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from reaper import channels, digest, offer, overview, plan
from reaper.channels import Delivery
from reaper.desk import Desk
from reaper.digest import TOLD, Occasion
from reaper.errors import CloudError
from reaper.ledger import KEEP, History, Ledger, Summary
from reaper.model import Coverage, Finding, Memory, Move, Outcome, Report, Result, State, Status, Step, Target
from reaper.policy import Policy

LEASE = timedelta(minutes=15)
TRIES = 4


@dataclass(slots=True, kw_only=True)
class _Round:
    """One round of telling: what was remembered before it, what was judged, and what went wrong."""

    now: datetime
    run_id: str
    memories: Mapping[str, Memory]
    judged: Mapping[str, Finding]
    gaps: list[Coverage]
    first: bool


def tell(report: Report, policy: Policy, desk: Desk) -> Report:
    """The report with steps decided under memory, notices given, and failures of ledger and channels in its coverage."""
    now, run_id = desk.clock(), report.run.id
    targets = sorted({f.case.resource.target for f in report.findings}, key=str)
    gaps: list[Coverage] = []
    ours = [t for t in targets if _leased(desk, t, run_id, now, gaps)]
    late: list[Coverage] = []
    try:
        told = _told(report, policy, desk, set(ours), gaps)
    finally:
        for target in ours:
            _release(desk, target, run_id, late)
    return replace(told, coverage=(*told.coverage, *late))


def recalled(report: Report, ledger: Ledger, now: datetime) -> Report:
    """The report with its steps as they follow from the ledger, which is only read: for an audit that knows of snoozes and notices."""
    try:
        return planned(report, ledger.recall([f.case.resource.id for f in report.findings], now), now)
    except CloudError as error:
        return replace(report, coverage=(*report.coverage, _gap("ledger", error)))


def planned(report: Report, memories: Mapping[str, Memory], now: datetime) -> Report:
    """The report with its steps as they follow from what is remembered; nothing is told or written."""
    return replace(report, findings=tuple(_planned(f, memories.get(f.case.resource.id, Memory()), now) for f in report.findings))


def _told(report: Report, policy: Policy, desk: Desk, ours: set[Target], gaps: list[Coverage]) -> Report:
    now = desk.clock()
    mine = [f for f in report.findings if f.case.resource.target in ours]
    others = [
        _left(f, "another sweep of this target is telling right now")
        for f in report.findings
        if f.case.resource.target not in ours
    ]
    try:
        memories = desk.ledger.recall([f.case.resource.id for f in mine], now)
    except CloudError as error:
        gaps.append(_gap("ledger", error))
        left = [_left(f, "what was told before could not be read") for f in mine]
        return replace(report, findings=(*left, *others), coverage=(*report.coverage, *gaps))
    judged = {f.case.resource.id: f for f in mine}
    this = _Round(now=now, run_id=report.run.id, memories=memories, judged=judged, gaps=gaps, first=_first(report, desk, gaps))
    occasion = _occasion(report, policy, desk, this)
    due = [_planned(f, memories.get(f.case.resource.id, Memory()), now) for f in mine]
    deliveries = channels.deliver(digest.owners(due, occasion), desk.lines)
    done = _remembered([_outcome(f, deliveries) for f in due], deliveries, desk, this)
    gaps += _refused(deliveries)
    _record(report, desk, this)
    _tidy(desk, this)
    after = replace(report, findings=(*done, *others), coverage=(*report.coverage, *gaps))
    return _with_overview(after, occasion, desk, this)


def _occasion(report: Report, policy: Policy, desk: Desk, this: _Round) -> Occasion:
    found = offer.links(report.findings, desk.offer, this.now) if desk.offer else {}
    return Occasion(
        now=this.now, mode=report.run.mode, owners=policy.owners, run_id=this.run_id, memories=this.memories, keep_link=found.get
    )


def _planned(found: Finding, memory: Memory, now: datetime) -> Finding:
    case = plan.spared_by_memory(found.case, memory, now)
    [step] = plan.plan([case], {case.resource.id: memory}, now)
    spared = case.verdict.state is not State.IDLE
    return replace(found, case=case, step=step, wasted_usd=None if spared else found.wasted_usd)


def _left(found: Finding, because: str) -> Finding:
    """Left alone this time, for a reason that has nothing to do with the resource."""
    return found if found.step.move is Move.NONE else replace(found, step=Step(move=Move.NONE, because=because))


def _outcome(found: Finding, deliveries: Sequence[Delivery]) -> Finding:
    if found.step.move not in TOLD:
        return found
    id_ = found.case.resource.id
    if id_ in channels.given(deliveries):
        return replace(found, outcome=Outcome(result=Result.DONE))
    errors = [str(d.error) for d in deliveries if d.error and id_ in d.message.resource_ids]
    why = (
        "; ".join(dict.fromkeys(errors))
        or "there is no address for it, or no channel for owners: see owners.domains and owners.fallback"
    )
    return replace(found, outcome=Outcome(result=Result.FAILED, error=f"its owner was not told: {why}"))


def _remembered(findings: Iterable[Finding], deliveries: Sequence[Delivery], desk: Desk, this: _Round) -> list[Finding]:
    receipts = channels.given(deliveries)
    kept = []
    for found in findings:
        try:
            _remember(found, receipts.get(found.case.resource.id), desk, this)
            kept.append(found)
        except CloudError as error:
            this.gaps.append(_gap("ledger", error))
            kept.append(replace(found, outcome=Outcome(result=Result.FAILED, error=f"it could not be remembered: {error}")))
    return kept


def _remember(found: Finding, receipt: str | None, desk: Desk, this: _Round) -> None:
    """Write what is to be known from now on; a lost race is decided again on what the other one wrote."""
    id_, move = found.case.resource.id, found.step.move
    memory = this.memories.get(id_, Memory())
    for _ in range(TRIES):
        new = plan.after(this.judged[id_].case, memory, this.now)
        new = plan.told(new, move, receipt, this.now) if receipt and move in TOLD else new
        if new == memory or desk.ledger.remember(id_, new, memory.version, this.now):
            if receipt and move in TOLD:
                what = "warned" if move is Move.WARN else "reminded"
                desk.ledger.note(History(id=id_, when=this.now, what=what, by=receipt, because=found.case.verdict.because))
            return
        memory = desk.ledger.recall([id_], this.now).get(id_, Memory())


def _refused(deliveries: Iterable[Delivery]) -> list[Coverage]:
    """One gap per channel that refused something, with the first reason and how many more there were."""
    errors: dict[str, list[CloudError]] = {}
    for done in deliveries:
        if done.error:
            errors.setdefault(done.channel, []).append(done.error)
    return [_gap(f"channel {name}", found[0], len(found) - 1) for name, found in errors.items()]


def _with_overview(report: Report, occasion: Occasion, desk: Desk, this: _Round) -> Report:
    """The admins' summary, if there is anything new to say; what refuses it is one more gap."""
    silent = {key for key in overview.topics(report) if key.startswith("unknown:")}
    known = None if this.first else {id_ for id_, memory in this.memories.items() if memory.idle_since} | silent
    troubles = [f"{gap.kind}: {gap.error}" for gap in this.gaps]
    message = overview.overview(report, occasion, known, troubles)
    refused = _refused(channels.deliver([message], desk.lines)) if message else []
    return replace(report, coverage=(*report.coverage, *refused))


def _first(report: Report, desk: Desk, gaps: list[Coverage]) -> bool:
    """Whether this ledger has never seen a sweep of the first list in the report."""
    for row in report.coverage[:1]:
        try:
            return not desk.ledger.summaries(Target(cloud=row.cloud, account=row.account, region=row.region), row.kind, 1)
        except CloudError as error:
            gaps.append(_gap("ledger", error))
    return True


def _record(report: Report, desk: Desk, this: _Round) -> None:
    for row in report.coverage:
        idle = [f for f in this.judged.values() if f.case.resource.kind == row.kind and f.case.verdict.state is State.IDLE]
        idle = [f for f in idle if (f.case.resource.target.account, f.case.resource.target.region) == (row.account, row.region)]
        summary = Summary(
            run=this.run_id,
            target=Target(cloud=row.cloud, account=row.account, region=row.region),
            kind=row.kind,
            started=report.run.started_at,
            seen=row.resources,
            idle=len(idle),
            usd_per_hour=sum(f.price.usd_per_hour for f in idle if f.price),
            unpriced=sum(1 for f in idle if f.price is None),
        )
        try:
            desk.ledger.record(summary)
        except CloudError as error:
            this.gaps.append(_gap("ledger", error))
            return


def _tidy(desk: Desk, this: _Round) -> None:
    """Forget what nobody has written for more than a year; DynamoDB does so by itself, the others do not."""
    try:
        desk.ledger.forget_before(this.now - KEEP)
    except CloudError as error:
        this.gaps.append(_gap("ledger", error))


def _leased(desk: Desk, target: Target, run_id: str, now: datetime, gaps: list[Coverage]) -> bool:
    try:
        return desk.ledger.lease(target, run_id, now, LEASE)
    except CloudError as error:
        gaps.append(_gap("ledger", error))
        return False


def _release(desk: Desk, target: Target, run_id: str, gaps: list[Coverage]) -> None:
    try:
        desk.ledger.release(target, run_id)
    except CloudError as error:
        gaps.append(_gap("ledger", error))


def _gap(what: str, error: CloudError, more: int = 0) -> Coverage:
    """A failure of our own means, told as loudly as one of a cloud."""
    text = f"{error}" + (f" (and {more} more)" if more else "")
    return Coverage(cloud="reaper", account="", region=None, kind=what, status=Status.FAILED, missing=error.missing, error=text)
