"""Carries out the warnings and reminders of a plan, each once, whoever else is sweeping, and remembers what was told.

A target's notices are decided and given under a lease; the memory is read after the lease was taken and written with the version that
was read. A notice counts when a channel accepted it: what was refused is a failure in the report and is tried again by the next sweep.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from reaper import channels, digest, offer, overview, plan
from reaper.channels import Delivery
from reaper.desk import Desk
from reaper.digest import TOLD, Occasion
from reaper.errors import CloudError, ReaperError, Trouble
from reaper.ledger import KEEP, History, Ledger, Summary
from reaper.message import Message
from reaper.model import Coverage, Finding, Memory, Move, Outcome, Report, Result, State, Status, Step, Target
from reaper.policy import Policy

LEASE = timedelta(minutes=15)
TRIES = 4
PATIENCE = 3
"""Messages in a row that a channel may miss before it is given up for this sweep."""
OVERVIEW, MARKS = "overview", 3_000
"""Where in the history it stands what the admins were told last, and how many topics of it are kept."""


@dataclass(slots=True, kw_only=True)
class _Round:
    """One round of telling: what was remembered before it, what was judged, and what went wrong."""

    now: datetime
    run_id: str
    memories: Mapping[str, Memory]
    judged: Mapping[str, Finding]
    gaps: list[Coverage]


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
    except ReaperError as error:
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
    except ReaperError as error:
        gaps.append(_gap("ledger", error))
        left = [_left(f, "what was told before could not be read") for f in mine]
        return replace(report, findings=(*left, *others), coverage=(*report.coverage, *gaps))
    judged = {f.case.resource.id: f for f in mine}
    this = _Round(now=now, run_id=report.run.id, memories=memories, judged=judged, gaps=gaps)
    occasion = _occasion(report, policy, desk, this)
    due = {f.case.resource.id: _planned(f, memories.get(f.case.resource.id, Memory()), now) for f in mine}
    deliveries = _give(digest.owners(list(due.values()), occasion), due, desk, this)
    for id_, found in due.items():
        if id_ not in channels.given(deliveries):
            due[id_] = _remembered(_undelivered(found, deliveries), None, desk, this)
    gaps += _refused(deliveries)
    gaps += _nowhere(due.values(), deliveries)
    _record(report, desk, this)
    _tidy(desk, this)
    after = replace(report, findings=(*due.values(), *others), coverage=(*report.coverage, *gaps))
    return _with_overview(after, occasion, desk, this) if ours or not report.findings else after


def _give(messages: Iterable[Message], due: dict[str, Finding], desk: Desk, this: _Round) -> list[Delivery]:
    """Each message on every channel for owners, remembered before the next one is sent. A channel that stays out of reach is given up."""
    done: list[Delivery] = []
    missed: dict[str, list[CloudError]] = {}
    for message in messages:
        mine = []
        for line in (line for line in desk.lines if message.audience in line.readers):
            out = missed.setdefault(line.name, [])
            mine.append(channels.attempt(message, line, out[-1] if len(out) >= PATIENCE else None))
            error = mine[-1].error
            missed[line.name] = [*out, error] if error and error.trouble is Trouble.UNREACHABLE else []
        for id_, receipt in channels.given(mine).items():
            due[id_] = _remembered(replace(due[id_], outcome=Outcome(result=Result.DONE)), receipt, desk, this)
        done += mine
    return done


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


def _undelivered(found: Finding, deliveries: Sequence[Delivery]) -> Finding:
    if found.step.move not in TOLD:
        return found
    errors = [str(d.error) for d in deliveries if d.error and found.case.resource.id in d.message.resource_ids]
    why = "; ".join(dict.fromkeys(errors)) or "there is no address for it: see owners.domains and owners.fallback"
    return replace(found, outcome=Outcome(result=Result.FAILED, error=f"its owner was not told: {why}"))


def _remembered(found: Finding, receipt: str | None, desk: Desk, this: _Round) -> Finding:
    try:
        _remember(found, receipt, desk, this)
    except ReaperError as error:
        _add(this.gaps, _gap("ledger", error))
        return replace(found, outcome=Outcome(result=Result.FAILED, error=f"it could not be remembered: {error}"))
    if receipt:
        what = "warned" if found.step.move is Move.WARN else "reminded"
        try:
            desk.ledger.note(
                History(id=found.case.resource.id, when=this.now, what=what, by=receipt, because=found.case.verdict.because)
            )
        except ReaperError as error:
            _add(this.gaps, _gap("ledger", error))
    return found


def _remember(found: Finding, receipt: str | None, desk: Desk, this: _Round) -> None:
    """Write what is to be known from now on; a lost race is decided again on what the other one wrote."""
    id_, move = found.case.resource.id, found.step.move
    memory = this.memories.get(id_, Memory())
    for _ in range(TRIES):
        new = plan.after(this.judged[id_].case, memory, this.now)
        new = plan.told(new, move, receipt, this.now) if receipt and move in TOLD else new
        if new == memory or desk.ledger.remember(id_, new, memory.version, this.now):
            return
        memory = desk.ledger.recall([id_], this.now).get(id_, Memory())
    raise CloudError(Trouble.REFUSED, "ledger", f"{id_}: somebody else wrote first, {TRIES} times")


def _nowhere(findings: Iterable[Finding], deliveries: Sequence[Delivery]) -> list[Coverage]:
    """Notices that no message carried, because nobody may be written to about them."""
    carried = {id_ for d in deliveries for id_ in d.message.resource_ids}
    lost = [f for f in findings if f.step.move in TOLD and f.case.resource.id not in carried]
    text = f"{len(lost)} notices have no address that mail may go to: set owners.fallback, or add a domain to owners.domains"
    return [Coverage(cloud="reaper", account="", region=None, kind="notices", status=Status.FAILED, error=text)] if lost else []


def _add(gaps: list[Coverage], gap: Coverage) -> None:
    """One row per thing that fails, however often it does."""
    if all(known.kind != gap.kind for known in gaps):
        gaps.append(gap)


def _refused(deliveries: Iterable[Delivery]) -> list[Coverage]:
    """One gap per channel that refused something, with the first reason and how many more there were."""
    errors: dict[str, list[CloudError]] = {}
    for done in deliveries:
        if done.error:
            errors.setdefault(done.channel, []).append(done.error)
    return [_gap(f"channel {name}", found[0], len(found) - 1) for name, found in errors.items()]


def _with_overview(report: Report, occasion: Occasion, desk: Desk, this: _Round) -> Report:
    """The admins' summary, if there is anything in it that the last one they got did not say; what refuses it is one more gap."""
    try:
        said = desk.ledger.history(OVERVIEW)
    except ReaperError as error:
        return replace(report, coverage=(*report.coverage, _gap("ledger", error)))
    before = frozenset(said[-1].because.split()) if said else frozenset()
    troubles = [f"{gap.kind}: {gap.error}" for gap in this.gaps if _mark(f"trouble:{gap.kind}") not in before]
    topics = {*overview.topics(report), *(f"trouble:{gap.kind}" for gap in this.gaps)}
    known = {topic for topic in topics if _mark(topic) in before} if said else None
    message = overview.overview(report, occasion, known, troubles)
    done = channels.deliver([message], desk.lines) if message else []
    gaps = _refused(done)
    if any(d.receipt for d in done):
        marks = " ".join(sorted(_mark(topic) for topic in topics)[:MARKS])
        try:
            desk.ledger.note(History(id=OVERVIEW, when=this.now, what="overview", by=this.run_id, because=marks))
        except ReaperError as error:
            gaps.append(_gap("ledger", error))
    return replace(report, coverage=(*report.coverage, *gaps))


def _mark(topic: str) -> str:
    """A topic in eight characters, for remembering many of them."""
    return hashlib.sha256(topic.encode("utf-8", "replace")).hexdigest()[:8]


def _record(report: Report, desk: Desk, this: _Round) -> None:
    done = {(t.account, t.region) for t in (f.case.resource.target for f in this.judged.values())}
    for row in (r for r in report.coverage if (r.account, r.region) in done):
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
        except ReaperError as error:
            this.gaps.append(_gap("ledger", error))
            return


def _tidy(desk: Desk, this: _Round) -> None:
    """Forget what nobody has written for more than a year; DynamoDB does so by itself, the others do not."""
    try:
        desk.ledger.forget_before(this.now - KEEP)
    except ReaperError as error:
        this.gaps.append(_gap("ledger", error))


def _leased(desk: Desk, target: Target, run_id: str, now: datetime, gaps: list[Coverage]) -> bool:
    try:
        return desk.ledger.lease(target, run_id, now, LEASE)
    except ReaperError as error:
        gaps.append(_gap("ledger", error))
        return False


def _release(desk: Desk, target: Target, run_id: str, gaps: list[Coverage]) -> None:
    try:
        desk.ledger.release(target, run_id)
    except ReaperError as error:
        gaps.append(_gap("ledger", error))


def _gap(what: str, error: ReaperError, more: int = 0) -> Coverage:
    """A failure of our own means, told as loudly as one of a cloud."""
    text = f"{error}" + (f" (and {more} more)" if more else "")
    return Coverage(
        cloud="reaper",
        account="",
        region=None,
        kind=what,
        status=Status.FAILED,
        missing=getattr(error, "missing", None),
        error=text,
    )
