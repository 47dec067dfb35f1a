"""Carries out a plan: has what is due acted on, gives warnings and reminders, each once, whoever else is sweeping, and remembers it all.

A target's notices are decided and given under a lease; the memory is read after the lease was taken and written with the version that
was read. A notice counts when a channel accepted it: what was refused is a failure in the report and is tried again by the next sweep.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from reaper import channels, digest, enforce, fingerprint, offer, overview, plan, turn
from reaper.channels import Delivery
from reaper.desk import Desk
from reaper.digest import TOLD, Occasion
from reaper.enforce import Hand
from reaper.errors import CloudError, ReaperError, Trouble
from reaper.gap import add, gap
from reaper.hold import Look
from reaper.ledger import History, Ledger, Recalled
from reaper.message import Message
from reaper.model import Coverage, Finding, Memory, Move, Outcome, Report, Result, State, Status, Step, Target
from reaper.policy import Policy
from reaper.record import record, tidy

GARBLED = "what is remembered of it cannot be read, and somebody may have kept it"
TRIES = 4
PATIENCE = 3
"""Messages in a row that a channel may miss before it is given up for this sweep."""
OVERVIEW = "summary"
"""The row of the ledger that has what the admins were told last."""


@dataclass(slots=True, kw_only=True)
class _Round:
    """One round of telling: whose targets it has, what was remembered before it, what was judged, and what went wrong."""

    now: datetime
    run_id: str
    targets: set[Target]
    memories: Mapping[str, Memory]
    judged: Mapping[str, Finding]
    announces: bool
    gaps: list[Coverage]


def tell(report: Report, policy: Policy, desk: Desk, hand: Hand | None = None) -> Report:
    """The report with steps decided under memory, acts made, notices given, and failures of all of these in its coverage.

    Whether notices carry the date of an action follows from the run's mode; without a `hand` nothing is acted on.
    """
    targets = sorted({f.case.resource.target for f in report.findings}, key=str)
    gaps = list(desk.troubles)
    ours = {t for t in targets if turn.taken(desk, t, report.run.id, gaps)}
    late: list[Coverage] = []
    try:
        told = _told(report, policy, desk, hand, ours, gaps)
    finally:
        for target in ours:
            turn.over(desk, target, report.run.id, late)
    return replace(told, coverage=(*told.coverage, *late))


def recalled(report: Report, policy: Policy, ledger: Ledger, now: datetime) -> Report:
    """The report with its steps as they would follow from the ledger, which is only read: for an audit that knows of snoozes and notices."""
    try:
        memories = ledger.recall([f.case.resource.id for f in report.findings], now)
    except ReaperError as error:
        return replace(report, coverage=(*report.coverage, gap("ledger", error)))
    lost = [gap("ledger", error) for error in memories.errors[:1]]
    look = Look(run=report.run.id, now=now, read=enforce.read(report.coverage))
    planned = _plans(report.findings, memories, now, acting=True)
    found = enforce.limited(planned, memories, policy.limits, ledger, look, writes=False)
    lost += [gap("ledger", error) for error in found.errors]
    return replace(report, findings=tuple(found.findings), coverage=(*report.coverage, *lost))


def _told(report: Report, policy: Policy, desk: Desk, hand: Hand | None, ours: set[Target], gaps: list[Coverage]) -> Report:
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
        gaps.append(gap("ledger", error))
        left = [_left(f, "what was told before could not be read") for f in mine]
        return replace(report, findings=(*left, *others), coverage=(*report.coverage, *gaps))
    gaps += [gap("ledger", error, len(memories.errors) - 1) for error in memories.errors[:1]]
    others += [_left(f, GARBLED) for f in mine if f.case.resource.id in memories.garbled]
    mine = [f for f in mine if f.case.resource.id not in memories.garbled]
    judged = {f.case.resource.id: f for f in mine}
    this = _Round(
        now=now,
        run_id=report.run.id,
        targets=ours,
        memories=memories,
        judged=judged,
        announces=report.run.mode.announces,
        gaps=gaps,
    )
    occasion = _occasion(report, policy, desk, this)
    look = Look(run=report.run.id, now=now, read=enforce.read(report.coverage, {f.case.resource.target for f in others} - ours))
    planned = _plans(mine, memories, now, this.announces)
    held = enforce.limited(planned, memories, policy.limits, desk.ledger, look, writes=this.announces)
    gaps += [gap("ledger", error) for error in held.errors]
    found = held.findings
    if hand:
        made = enforce.carried([hand.narrow(f) for f in found], hand.act)
        found = made.findings
        gaps += _failures(made.errors)
        report = replace(report, coverage=enforce.counted(report.coverage, made.calls))
    due = {f.case.resource.id: f for f in found}
    deliveries = _give(digest.owners(found, occasion), due, desk, this)
    for id_, one in due.items():
        if not (id_ in channels.given(deliveries) and one.step.move in TOLD) and not _made(one):
            due[id_] = _remembered(_undelivered(one, deliveries), None, desk, this)
    gaps += _refused(deliveries)
    gaps += _nowhere(due.values(), deliveries)
    record(report, list(due.values()), held.jumped, desk, gaps)
    tidy(desk, now, gaps)
    after = replace(report, findings=(*due.values(), *others), coverage=(*report.coverage, *gaps))
    return _with_overview(after, occasion, desk, this, held) if ours or not report.findings else after


def _give(messages: Iterable[Message], due: dict[str, Finding], desk: Desk, this: _Round) -> list[Delivery]:
    """Each message on every channel for owners, remembered before the next one is sent. A channel that stays out of reach is given up."""
    done: list[Delivery] = []
    missed: dict[str, list[CloudError]] = {}
    renewed = this.now
    for message in messages:
        if desk.clock() - renewed > turn.LEASE / 3:
            renewed = desk.clock()
            if not all(turn.taken(desk, target, this.run_id, this.gaps) for target in this.targets):
                break
        mine = []
        for line in (line for line in desk.lines if message.audience in line.readers):
            out = missed.setdefault(line.name, [])
            mine.append(channels.attempt(message, line, out[-1] if len(out) >= PATIENCE else None))
            error = mine[-1].error
            missed[line.name] = [*out, error] if error and error.trouble is Trouble.UNREACHABLE else []
        for id_, receipt in channels.given(mine).items():
            if due[id_].step.move in TOLD:
                given = Outcome(result=Result.DONE, error=channels.missed(mine).get(id_))
                due[id_] = _remembered(replace(due[id_], outcome=given), receipt, desk, this)
        done += mine
    return done


def _occasion(report: Report, policy: Policy, desk: Desk, this: _Round) -> Occasion:
    found = offer.links(report.findings, desk.offer, this.now) if desk.offer else {}
    # A plain copy: what is remembered but cannot be read is left alone above, and must not keep the messages from being written.
    known = dict(this.memories)
    return Occasion(
        now=this.now, mode=report.run.mode, owners=policy.owners, run_id=this.run_id, memories=known, keep_link=found.get
    )


def _plans(findings: Iterable[Finding], memories: Recalled, now: datetime, acting: bool) -> list[Finding]:
    """The findings with their steps; what is remembered but cannot be read may be somebody's wish to keep it, and is left alone."""
    return [
        _left(f, GARBLED)
        if f.case.resource.id in memories.garbled
        else _planned(f, memories.get(f.case.resource.id, Memory()), now, acting)
        for f in findings
    ]


def _planned(found: Finding, memory: Memory, now: datetime, acting: bool) -> Finding:
    case = plan.spared_by_memory(found.case, memory, now)
    [step] = plan.plan([case], {case.resource.id: memory}, now, acting=acting)
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
        add(this.gaps, gap("ledger", error))
        return replace(found, outcome=Outcome(result=Result.FAILED, error=f"it could not be remembered: {error}"))
    if receipt:
        what = "warned" if found.step.move is Move.WARN else "reminded"
        try:
            desk.ledger.note(
                History(id=found.case.resource.id, when=this.now, what=what, by=receipt, because=found.case.verdict.because)
            )
        except ReaperError as error:
            add(this.gaps, gap("ledger", error))
    return found


def _remember(found: Finding, receipt: str | None, desk: Desk, this: _Round) -> None:
    """Write what is to be known from now on; a lost race is decided again on what the other one wrote."""
    id_ = found.case.resource.id
    memory = this.memories.get(id_, Memory())
    for _ in range(TRIES):
        new = plan.after(this.judged[id_].case, memory, this.now)
        if receipt and found.step.move in TOLD:
            new = plan.told(found.case, new, found.step, receipt, desk.clock(), acting=this.announces)
        if found.outcome.already:
            new = plan.moved(new)
        if new == memory or desk.ledger.remember(id_, new, memory.version, this.now):
            return
        memory = desk.ledger.recall([id_], this.now).get(id_, Memory())
    raise CloudError(Trouble.REFUSED, "ledger", f"{id_}: somebody else wrote first, {TRIES} times")


def _made(found: Finding) -> bool:
    """Whether it was acted on: then what is to be remembered stands in the ledger already."""
    return found.step.move in enforce.MOVES and found.outcome.result is Result.DONE and not found.outcome.already


def _failures(errors: Sequence[ReaperError]) -> list[Coverage]:
    """One row for all acts that failed, which names a permission where one was missing."""
    first = next((e for e in errors if getattr(e, "missing", None)), errors[0] if errors else None)
    return [gap("acts", first, len(errors) - 1)] if first else []


def _nowhere(findings: Iterable[Finding], deliveries: Sequence[Delivery]) -> list[Coverage]:
    """Notices that no message carried, because nobody may be written to about them."""
    carried = {id_ for d in deliveries for id_ in d.message.resource_ids}
    lost = [f for f in findings if f.step.move in TOLD and f.case.resource.id not in carried]
    text = f"{len(lost)} notices have no address that mail may go to: set owners.fallback, or add a domain to owners.domains"
    return [Coverage(cloud="reaper", account="", region=None, kind="notices", status=Status.FAILED, error=text)] if lost else []


def _refused(deliveries: Iterable[Delivery]) -> list[Coverage]:
    """One gap per channel that refused something, with the first reason and how many more there were."""
    errors: dict[str, list[CloudError]] = {}
    for done in deliveries:
        if done.error:
            errors.setdefault(done.channel, []).append(done.error)
    return [gap(f"channel {name}", found[0], len(found) - 1) for name, found in errors.items()]


def _with_overview(report: Report, occasion: Occasion, desk: Desk, this: _Round, held: enforce.Limited) -> Report:
    """The admins' summary, if there is anything in it that the last one they got did not say; what refuses it is one more gap."""
    try:
        said = desk.ledger.state(OVERVIEW)
    except ReaperError as error:
        return replace(report, coverage=(*report.coverage, gap("ledger", error)))
    ours = {f"trouble:{row.kind}" for row in this.gaps}
    exact, topics = ours | overview.alarms(report, held.since), ours | overview.topics(report, held.since)
    known = fingerprint.known(exact, topics - exact, said.values) if said.version else None
    troubles = [f"{row.kind}: {row.error}" for row in this.gaps if f"trouble:{row.kind}" not in (known or ())]
    message = overview.overview(report, occasion, known, troubles, held.since)
    done = channels.deliver([message], desk.lines) if message else []
    gaps = _refused(done)
    if any(d.receipt for d in done):
        gaps += _remembered_overview(fingerprint.to_row(exact, topics - exact), desk, this.now)
    return replace(report, coverage=(*report.coverage, *gaps))


def _remembered_overview(row: Mapping[str, str], desk: Desk, now: datetime) -> list[Coverage]:
    """Keep what the admins know now in the place of what they knew; the last one to tell them counts."""
    try:
        for _ in range(TRIES):
            if desk.ledger.write_state(OVERVIEW, row, desk.ledger.state(OVERVIEW).version, now):
                return []
        raise CloudError(Trouble.REFUSED, "ledger", f"the row {OVERVIEW!r}: somebody else wrote first, {TRIES} times")
    except ReaperError as error:
        return [gap("ledger", error)]
