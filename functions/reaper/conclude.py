"""Carries out a plan: has what is due acted on, gives warnings and reminders, each once, whoever else is sweeping, and remembers it all.

A target's notices are decided and given under a lease; the memory is read after the lease was taken and written with the version that
was read. A notice counts when a channel accepted it: what was refused is a failure in the report and is tried again by the next sweep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from reaper import contained, decide, enrolment, idle_period, limits, memory_updates, plan
from reaper.actions import intent, unfinished
from reaper.actions.holds import RunScope
from reaper.actions.unfinished import UntoldAction
from reaper.coverage import add_failure_row, failure_row
from reaper.decide import Hand
from reaper.errors import CloudError, ReaperError, Reason
from reaper.ledger import lease
from reaper.ledger.opening import ensure_format
from reaper.ledger.port import HistoryEntry, Ledger, Recalled, Unfinished
from reaper.ledger.statistics import record_statistics, tidy
from reaper.ledger.update import update_memory
from reaper.model import (
    NOTICES,
    Blocked,
    Case,
    Coverage,
    Finding,
    Memory,
    Mode,
    Outcome,
    Report,
    Result,
    State,
    Status,
    Step,
    StepName,
    Target,
)
from reaper.notices import admin_summary, forecast, last_summary, owner_notice
from reaper.notices.channels import delivery
from reaper.notices.channels.delivery import Delivery
from reaper.notices.context import ConcludeContext
from reaper.notices.item import NoticeContext
from reaper.notices.message import Message
from reaper.policy.schema import Policy
from reaper.snooze import links as snooze_links

GARBLED = "what is remembered of it cannot be read, and somebody may have kept it"
TRIES = 4
TAKEN_OVER = "another sweep has taken over this target"
OVERVIEW = "summary"
"""The row of the ledger that has what the admins were told last."""


@dataclass(slots=True, kw_only=True)
class _Round:
    """One round of telling: whose targets it has, what was remembered before it, what was judged, and what went wrong."""

    now: datetime
    run_id: str
    targets: set[Target]
    memories: Recalled
    judged: Mapping[str, Finding]
    mode: Mode
    gaps: list[Coverage]
    renewed: datetime
    lost: bool = False


def tell(report: Report, policy: Policy, desk: ConcludeContext, hand: Hand | None = None) -> Report:
    """The report with steps decided under memory, acts made, notices given, and failures of all of these in its coverage.

    Whether notices carry the date of an action follows from the run's mode; without a `hand` nothing is acted on.
    """
    gaps = list(desk.troubles)
    if not _ready(desk, gaps):
        left = [_left(f, "what was told before could not be read") for f in report.findings]
        return replace(report, findings=tuple(left), coverage=(*report.coverage, *gaps))
    targets = sorted({f.case.resource.target for f in report.findings} | _left_behind(report, desk, gaps), key=str)
    ours = {t for t in targets if lease.take_lease(desk, t, report.run.id, gaps)}
    late: list[Coverage] = []
    try:
        told = _told(report, policy, desk, hand, ours, gaps)
    finally:
        for target in ours:
            lease.give_back_lease(desk, target, report.run.id, late)
    return replace(told, coverage=(*told.coverage, *late))


def _left_behind(report: Report, desk: ConcludeContext, gaps: list[Coverage]) -> set[Target]:
    """The targets with nothing to be seen in them but an action to tell of: what was done is told also where nothing can be read by now."""
    try:
        empty = decide.targets(report.coverage) - {f.case.resource.target for f in report.findings}
        return {target for target in empty if desk.ledger.unfinished(target, desk.clock())}
    except ReaperError as error:
        add_failure_row(gaps, failure_row("ledger", error))
        return set()


def recalled(report: Report, policy: Policy, ledger: Ledger, now: datetime) -> Report:
    """The report with its steps as they would follow from the ledger, which is only read: for an audit that knows of snoozes and notices."""
    try:
        memories = ledger.recall(_rows(report.findings), now)
    except ReaperError as error:
        return replace(report, coverage=(*report.coverage, failure_row("ledger", error)))
    lost = [failure_row("ledger", error) for error in memories.errors[:1]]
    look = RunScope(run=report.run.id, now=now, read_places=decide.read(report.coverage))
    planned = _plans(report.findings, memories, now, acting=True)
    found = decide.apply_limits(planned, memories, policy.limits, ledger, look, writes=False)
    lost += [failure_row("ledger", error) for error in found.errors]
    return replace(report, findings=tuple(found.findings), coverage=(*report.coverage, *lost))


def _told(
    report: Report, policy: Policy, desk: ConcludeContext, hand: Hand | None, ours: set[Target], gaps: list[Coverage]
) -> Report:
    now = desk.clock()
    mine = [f for f in report.findings if f.case.resource.target in ours]
    others = [
        _left(f, "another sweep of this target is telling right now")
        for f in report.findings
        if f.case.resource.target not in ours
    ]
    try:
        memories, late = _recalled(mine, ours, desk, now, gaps)
    except ReaperError as error:
        gaps.append(failure_row("ledger", error))
        left = [_left(f, "what was told before could not be read") for f in mine]
        return replace(report, findings=(*left, *others), coverage=(*report.coverage, *gaps))
    gaps += [failure_row("ledger", error, len(memories.errors) - 1) for error in memories.errors[:1]]
    others += [_left(f, GARBLED) for f in mine if _is_garbled(f, memories)]
    mine = [f for f in mine if not _is_garbled(f, memories)]
    if failed := unfinished.closed_actions_error(late):
        add_failure_row(gaps, failure_row("acts", failed))
    judged = {f.case.resource.id: f for f in mine}
    this = _Round(
        now=now,
        run_id=report.run.id,
        targets=ours,
        memories=memories,
        judged=judged,
        mode=report.run.mode,
        gaps=gaps,
        renewed=now,
    )
    look = RunScope(
        run=report.run.id, now=now, read_places=decide.read(report.coverage, {f.case.resource.target for f in others} - ours)
    )
    planned = _plans(mine, memories, now, this.mode.announces)
    held = decide.apply_limits(planned, memories, policy.limits, desk.ledger, look, writes=this.mode.announces)
    gaps += [failure_row("ledger", error) for error in held.errors]
    # Only after the limits: what is due counts for them whether its owner is reminded of it or not.
    found = held.findings if this.mode.acts else [_reminded(f, memories, now) for f in held.findings]
    weekly = _weekly(found, memories, now) if this.mode.announces else []
    occasion = _occasion([*found, *weekly], policy, desk, this)
    if hand:
        made = decide.perform_all([hand.narrow(f) for f in found], lambda one: _acted(one, hand, desk, this))
        found = made.findings
        gaps += _failures(made.errors)
        report = replace(report, coverage=decide.counted(report.coverage, made.calls))
    for one in found:
        if one.outcome.host_id is not None:
            _tried(partial(_note_gone_with, one, one.outcome.host_id, desk, this), this)
    due = {f.case.resource.id: f for f in found}
    # Apart, so that an old owner's mail about an action is never taken for the new owner's notice of the same resource.
    deliveries = _give(owner_notice.owner_notices(found, occasion), partial(_accepted, due, desk, this), desk, this)
    for id_, one in due.items():
        if not (id_ in delivery.receipts_by_id(deliveries) and one.step.name in NOTICES) and not _made(one):
            due[id_] = _remembered(_undelivered(one, deliveries, this), None, desk, this)
    summed = _give(
        owner_notice.owner_notices(weekly, occasion),
        partial(_accepted, {f.case.resource.id: f for f in weekly}, desk, this),
        desk,
        this,
    )
    told = owner_notice.owner_notices([one.finding for one in late], occasion)
    told_late = _give(told, partial(_accepted_late, {one.hint.id: one for one in late}, desk, this), desk, this)
    gaps += _refused([*deliveries, *summed, *told_late])
    gaps += _nowhere(due.values(), deliveries, this)
    record_statistics(report, list(due.values()), held.jumped, desk, gaps)
    tidy(desk, now, gaps)
    after = replace(report, findings=(*due.values(), *others), coverage=(*report.coverage, *gaps))
    if not ours and report.findings:
        return after
    seen = replace(after, findings=(*after.findings, *(one.finding for one in late)))
    return replace(_with_overview(seen, occasion, desk, this, held), findings=after.findings)


def _ready(desk: ConcludeContext, gaps: list[Coverage]) -> bool:
    """Whether the ledger can be written to: not where a newer version has, or where nobody can tell."""
    try:
        ensure_format(desk.ledger, desk.clock())
    except ReaperError as error:
        gaps.append(failure_row("ledger", error))
        return False
    return True


def _recalled(
    found: Sequence[Finding], ours: set[Target], desk: ConcludeContext, now: datetime, gaps: list[Coverage]
) -> tuple[Recalled, list[UntoldAction]]:
    """What is remembered of the findings, of what they live in, and of what earlier runs left open, which is closed here."""
    hints, unread = unfinished.read_unfinished(desk.ledger, ours, now)
    gaps += [failure_row("ledger", error, len(unread) - 1) for error in unread[:1]]
    ids = dict.fromkeys([*_rows(found), *(hint.id for hint in hints)])
    memories: Recalled = desk.ledger.recall(ids, now)
    return unfinished.close_and_list_untold(hints, found, memories, desk.ledger, now)


def _rows(found: Sequence[Finding]) -> list[str]:
    """The ids of the findings and of what they live in, each once."""
    return list(dict.fromkeys(id_ for f in found for id_ in (f.case.resource.id, *intent.host_ids(f.case.resource))))


def _is_garbled(found: Finding, memories: Recalled) -> bool:
    """Whether what is remembered of it, or of what it lives in, cannot be read."""
    return not memories.unreadable.isdisjoint({found.case.resource.id, *intent.host_ids(found.case.resource)})


def _weekly(found: Sequence[Finding], memories: Recalled, now: datetime) -> list[Finding]:
    """The weekly summaries of what office hours stop or start in this very run, which is never a reminder by itself."""
    because = "its office hours are kept, and its weekly summary is due"
    return [
        replace(f, step=Step(name=StepName.REMIND, because=because))
        for f in found
        if f.step.name in {*decide.ACTIONS, StepName.HOLD}
        and enrolment.is_summary_due(f.case, memories.get(f.case.resource.id, Memory()), now)
    ]


def _reminded(found: Finding, memories: Recalled, now: datetime) -> Finding:
    """What is due where only `reaper apply` acts is reminded of all the same, or its notice would lapse."""
    memory = memories.get(found.case.resource.id, Memory())
    last = idle_period.last_notice_at(memory)
    if (
        found.step.name not in limits.ENDING_ACTIONS
        or last is None
        or now < last + found.case.rule.remind_every - enrolment.CLOCK_JITTER
    ):
        return found
    return replace(found, step=Step(name=StepName.REMIND, because=f"{found.step.because}, and this run does not act"))


def _acted(found: Finding, hand: Hand, desk: ConcludeContext, this: _Round) -> decide.Acted:
    """One step carried out, every lease prolonged before that where it is time."""
    _prolonged(desk, this)
    return hand.act(found)


def _prolonged(desk: ConcludeContext, this: _Round) -> bool:
    """Whether all targets are still ours; every lease is prolonged once a third of it is over."""
    if desk.clock() - this.renewed <= lease.LEASE / 3:
        return True
    at = desk.clock()
    held = [lease.take_lease(desk, target, this.run_id, this.gaps) for target in this.targets]
    this.renewed = at if all(held) else this.renewed  # once lost, they are asked for again before the next message
    return all(held)


Accept = Callable[[str, str, Sequence[Delivery]], None]
"""What is to be done once a message about a resource was accepted: its id, the receipt, and what became of the message on every channel."""


def _give(messages: Iterable[Message], accept: Accept, desk: ConcludeContext, this: _Round) -> list[Delivery]:
    """Each message on every channel for owners, remembered before the next one is sent. A channel that stays out of reach is given up."""
    done: list[Delivery] = []
    missed: delivery.Misses = {}
    for message in messages:
        if not _prolonged(desk, this):
            this.lost = True
            break
        mine = delivery.deliver(message, desk.channels, missed)
        for id_, receipt in delivery.receipts_by_id(mine).items():
            accept(id_, receipt, mine)
        done += mine
    return done


def _accepted(
    due: dict[str, Finding], desk: ConcludeContext, this: _Round, id_: str, receipt: str, mine: Sequence[Delivery]
) -> None:
    """Its owner got a notice, or a mail about what this run did."""
    if due[id_].step.name in NOTICES:
        given = Outcome(result=Result.DONE, error=delivery.errors_by_id(mine).get(id_))
        due[id_] = _remembered(replace(due[id_], outcome=given), receipt, desk, this)
    else:
        _told_of_action(due[id_], unfinished.unfinished_entry(due[id_], this.run_id, this.now), receipt, desk, this)


def _accepted_late(
    late: Mapping[str, UntoldAction], desk: ConcludeContext, this: _Round, id_: str, receipt: str, mine: Sequence[Delivery]
) -> None:
    """Its owner got a mail about what an earlier run did."""
    _told_of_action(late[id_].finding, late[id_].hint, receipt, desk, this)


def _told_of_action(found: Finding, hint: Unfinished, receipt: str, desk: ConcludeContext, this: _Round) -> None:
    """Its owner knows what became of the action. Of a part, the mail is the notice for the rest."""
    now = desk.clock()
    announced = this.mode.announces and found.outcome.part_done is not None
    rest = unfinished.change_after_mail(found, receipt, now) if announced else unfinished.unchanged

    def change(memory: Memory) -> Memory:
        # Where the result itself could not be written it comes now.
        known = memory.last_action_result or not found.outcome.begun
        return rest(memory if known else memory_updates.with_result(memory, *_result(found)))

    _tried(lambda: desk.ledger.add_history(_mailed(hint, receipt, now, announced)), this)
    _tried(lambda: intent.record_owner_told(desk.ledger, hint, now, change), this)


def _note_gone_with(found: Finding, host: str, desk: ConcludeContext, this: _Round) -> None:
    """Leave what tells its owner of it even if the mail fails today, and what `reaper restore` says of it later on. Raises CloudError."""
    id_, because = found.case.resource.id, found.outcome.because or ""
    desk.ledger.add_history(HistoryEntry(id=id_, when=this.now, what=unfinished.WENT_ENTRY, by=this.run_id, because=host))
    desk.ledger.add_unfinished(unfinished.unfinished_entry(found, this.run_id, this.now))
    update_memory(
        desk.ledger,
        id_,
        lambda m: memory_updates.after_going_with_host(m, found.step.name, because, this.run_id, this.now),
        this.now,
    )


def _result(found: Finding) -> tuple[Result, str, str | None]:
    outcome = found.outcome
    return outcome.result, outcome.because or outcome.error or "", outcome.part_done


def _mailed(hint: Unfinished, receipt: str, now: datetime, rest: bool) -> HistoryEntry:
    return HistoryEntry(
        id=hint.id, when=now, what=unfinished.TOLD_ENTRY, by=receipt, because=unfinished.history_reason(hint, rest=rest)
    )


def _tried(write: Callable[[], None], this: _Round) -> None:
    """Write to the ledger; what fails is one more gap, and keeps nothing else from being written."""
    try:
        write()
    except ReaperError as error:
        add_failure_row(this.gaps, failure_row("ledger", error))


def _weeks(found: Sequence[Finding], desk: ConcludeContext, this: _Round) -> dict[str, str]:
    """What office hours did to each resource whose weekly summary is due, since its owner was last told."""
    said = {}
    for one in found:
        id_ = one.case.resource.id
        memory = this.memories.get(id_, Memory())
        last = idle_period.last_notice_at(memory)
        if last is None or not forecast.is_about_hours(one, this.mode, memory, this.now) or one.step.name is not StepName.REMIND:
            continue
        try:
            said[id_] = _counted([e.what for e in desk.ledger.history(id_) if e.when > last])
        except ReaperError as error:
            add_failure_row(this.gaps, failure_row("ledger", error))
            said[id_] = "what was done could not be read"
    return said


def _counted(words: Sequence[str]) -> str:
    """`it was stopped 5 times and started 4 times`."""
    counts = [(what, words.count(what)) for what in ("stopped", "started")]
    done = [f"{what} {'once' if n == 1 else f'{n} times'}" for what, n in counts if n]
    return f"it was {' and '.join(done)}" if done else ""


def _occasion(found: Sequence[Finding], policy: Policy, desk: ConcludeContext, this: _Round) -> NoticeContext:
    links = snooze_links.links_by_resource(found, desk.links, this.now) if desk.links else {}
    # A plain copy: what is remembered but cannot be read is left alone above, and must not keep the messages from being written.
    known = dict(this.memories)
    return NoticeContext(
        now=this.now,
        mode=this.mode,
        owners=policy.owners,
        run_id=this.run_id,
        memories=known,
        hours_history=_weeks(found, desk, this),
        location_settings=desk.places,
        snooze_link=links.get,
    )


def _plans(findings: Sequence[Finding], memories: Recalled, now: datetime, acting: bool) -> list[Finding]:
    """The findings with their steps; what is remembered but cannot be read may be somebody's wish to keep it, and is left alone."""
    cases = {f.case.resource.id: f.case for f in findings}
    found = [f if _is_garbled(f, memories) else _reachable(f, cases, memories, now) for f in findings]
    return [_left(f, GARBLED) if _is_garbled(f, memories) else _planned(f, memories, now, acting) for f in found]


def _reachable(found: Finding, cases: Mapping[str, Case], memories: Recalled, now: datetime) -> Finding:
    """With every action blocked that would take along something whose owner can't be told: known here, before anything is announced."""
    inside = {inner.id for inner in found.case.resource.contained}
    if not inside or not inside.isdisjoint(memories.unreadable):
        return found
    because = contained.unannounceable_inside(found.case, cases, memories, now)
    acts = {move: bar or (Blocked(because=because) if because else None) for move, bar in found.case.blocked.items()}
    return replace(found, case=replace(found.case, blocked=acts))


def _planned(found: Finding, memories: Recalled, now: datetime, acting: bool) -> Finding:
    host = intent.host_memory(found.case.resource, memories)
    memory = memory_updates.after_host_snooze(memories.get(found.case.resource.id, Memory()), host)
    case = plan.with_snooze(found.case, memory, now, host)
    [step] = plan.plan_steps([case], {case.resource.id: memory}, now, acting=acting)
    spared = case.verdict.state is not State.IDLE
    known = memory if memory != Memory() else None
    return replace(found, case=case, step=step, wasted_usd=None if spared else found.wasted_usd, memory=known)


def _left(found: Finding, because: str) -> Finding:
    """Left alone this time, for a reason that has nothing to do with the resource."""
    return found if found.step.name is StepName.NONE else replace(found, step=Step(name=StepName.NONE, because=because))


def _undelivered(found: Finding, deliveries: Sequence[Delivery], this: _Round) -> Finding:
    if found.step.name not in NOTICES:
        return found
    errors = [str(d.error) for d in deliveries if d.error and found.case.resource.id in d.message.resource_ids]
    nowhere = TAKEN_OVER if this.lost else "there is no address for it: see owners.domains and owners.fallback"
    why = "; ".join(dict.fromkeys(errors)) or nowhere
    return replace(found, outcome=Outcome(result=Result.FAILED, error=f"its owner was not told: {why}"))


def _remembered(found: Finding, receipt: str | None, desk: ConcludeContext, this: _Round) -> Finding:
    try:
        found = replace(found, memory=_remember(found, receipt, desk, this))
    except ReaperError as error:
        add_failure_row(this.gaps, failure_row("ledger", error))
        return replace(found, outcome=Outcome(result=Result.FAILED, error=f"it could not be remembered: {error}"))
    if receipt:
        what = "warned" if found.step.name is StepName.WARN else "reminded"
        try:
            desk.ledger.add_history(
                HistoryEntry(id=found.case.resource.id, when=this.now, what=what, by=receipt, because=found.case.verdict.because)
            )
        except ReaperError as error:
            add_failure_row(this.gaps, failure_row("ledger", error))
    return found


def _remember(found: Finding, receipt: str | None, desk: ConcludeContext, this: _Round) -> Memory | None:
    """Write what is to be known from now on; a lost race is decided again on what the other one wrote. None where it is nothing."""
    id_ = found.case.resource.id
    host = intent.host_memory(found.case.resource, this.memories)

    def change(memory: Memory) -> Memory:
        new = memory_updates.after_judging(this.judged[id_].case, memory_updates.after_host_snooze(memory, host), this.now)
        if receipt and found.step.name in NOTICES:
            new = memory_updates.after_notice(found.case, new, found.step, receipt, desk.clock(), acting=this.mode.announces)
        return memory_updates.after_action(new) if found.outcome.already_done else new

    new = update_memory(desk.ledger, id_, change, this.now, this.memories.get(id_, Memory()))
    return new if new != Memory() else None


def _made(found: Finding) -> bool:
    """Whether it was acted on: then what is to be remembered stands in the ledger already."""
    return found.step.name in decide.ACTIONS and found.outcome.begun


def _failures(errors: Sequence[ReaperError]) -> list[Coverage]:
    """One row for all acts that failed, which names a permission where one was missing."""
    first = next((e for e in errors if getattr(e, "missing", None)), errors[0] if errors else None)
    return [failure_row("acts", first, len(errors) - 1)] if first else []


def _nowhere(findings: Iterable[Finding], deliveries: Sequence[Delivery], this: _Round) -> list[Coverage]:
    """Notices that no message carried: nobody may be written to about them, or another sweep has taken over."""
    carried = {id_ for d in deliveries for id_ in d.message.resource_ids}
    lost = [f for f in findings if f.step.name in NOTICES and f.case.resource.id not in carried]
    text = f"{len(lost)} notices have no address that mail may go to: set owners.fallback, or add a domain to owners.domains"
    text = f"{len(lost)} notices were not sent: {TAKEN_OVER}" if this.lost else text
    return [Coverage(cloud="reaper", account="", region=None, kind="notices", status=Status.FAILED, error=text)] if lost else []


def _refused(deliveries: Iterable[Delivery]) -> list[Coverage]:
    """One gap per channel that refused something, with the first reason and how many more there were."""
    errors: dict[str, list[CloudError]] = {}
    for done in deliveries:
        if done.error:
            errors.setdefault(done.channel, []).append(done.error)
    return [failure_row(f"channel {name}", found[0], len(found) - 1) for name, found in errors.items()]


def _with_overview(
    report: Report, occasion: NoticeContext, desk: ConcludeContext, this: _Round, held: decide.LimitedSteps
) -> Report:
    """The admins' summary, if there is anything in it that the last one they got did not say; what refuses it is one more gap."""
    try:
        said = desk.ledger.read_row(OVERVIEW)
    except ReaperError as error:
        return replace(report, coverage=(*report.coverage, failure_row("ledger", error)))
    ours = {f"trouble:{row.kind}" for row in this.gaps}
    exact, topics = ours | admin_summary.urgent_topics(report, held.since), ours | admin_summary.topics(report, held.since)
    known = last_summary.known_topics(exact, topics - exact, said.values) if said.version else None
    troubles = [f"{row.kind}: {row.error}" for row in this.gaps if f"trouble:{row.kind}" not in (known or ())]
    message = admin_summary.admin_summary(report, occasion, known, troubles, held.since)
    done = delivery.deliver_all([message], desk.channels) if message else []
    gaps = _refused(done)
    if any(d.receipt for d in done):
        gaps += _remembered_overview(last_summary.topics_row(exact, topics - exact), desk, this.now)
    return replace(report, coverage=(*report.coverage, *gaps))


def _remembered_overview(row: Mapping[str, str], desk: ConcludeContext, now: datetime) -> list[Coverage]:
    """Keep what the admins know now in the place of what they knew; the last one to tell them counts."""
    try:
        for _ in range(TRIES):
            if desk.ledger.write_row(OVERVIEW, row, desk.ledger.read_row(OVERVIEW).version, now):
                return []
        raise CloudError(Reason.REFUSED, "ledger", f"the row {OVERVIEW!r}: somebody else wrote first, {TRIES} times")
    except ReaperError as error:
        return [failure_row("ledger", error)]
