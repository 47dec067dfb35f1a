"""Actions that earlier runs began and didn't report: each is closed if its result is unknown, and its owner gets a mail about it.

A run finds them in the records of each target that it leases, and by the row of open targets in those that no run sweeps any more.

An action whose manifest is new may also be one that this ledger doesn't know: it was emptied, replaced or restored from a backup since. Such an
action may be half done, and the row that said what it had changed is gone. Its resource is left alone until a person restores it. Nothing is put
back from a manifest that the ledger doesn't name, because nothing proves what is in a store. Its address says enough to find it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING

from reaper import registry
from reaper.case import Case, Owner
from reaper.errors import CloudError, ReaperError, Reason
from reaper.finding import Finding, Outcome, Step, View, is_action
from reaper.ledger.ledger import Ledger, TargetText, target_from_text, target_text, update_intent, update_record, update_row
from reaper.ledger.rows import DOCUMENT, HistoryEntry, NamedRow, Recalled, comparable_id, document_of, parse_document
from reaper.model import Ceiling, Resource, Result, Rule, Run, State, StepName, Target, Verdict
from reaper.plan import with_follow_ups
from reaper.planning import dates
from reaper.record import Act, Record, closed_unknown, dated_ahead_because, is_interrupted, is_unfinished, left_stopped
from reaper.text import clean_line

if TYPE_CHECKING:
    from reaper.handover import Decided

NO_ACTION = "Nothing was stopped, deleted or started"
NOT_KNOWN = "it isn't known whether the action was carried out"
OPEN_TARGETS_ROW, OPEN_TARGETS = "open targets", tuple[TargetText, ...]
"""The named row with the targets that may have an action which isn't settled, or which its owner doesn't know of."""
BEGAN = "began"
"""In the history: a run was about to store the manifest of an action. It is written before that, and so is never missing by a crash."""
LISTED_FOR = timedelta(days=5)
"""No listed manifest is older: they are those of today and the three days before."""


def own_outcome(record: Record, run_id: str, action: StepName) -> Outcome | None:
    """The outcome that the run's own intent shows; None if the record has no such intent."""
    act = record.act
    return outcome_in(act) if act and (act.run, act.action) == (run_id, action) else None


def outcome_in(act: Act) -> Outcome:
    """The outcome of an action. Without a result it isn't known."""
    if act.result in {None, Result.FAILED}:
        return Outcome(result=Result.FAILED, error=act.because or NOT_KNOWN, begun=True)
    return Outcome(result=act.result or Result.FAILED, because=act.because, begun=True, part_done=act.part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfinished:
    """An action in that target that is still open, or whose owner has no mail about it yet."""

    target: Target
    act: Act

    @property
    def is_open(self) -> bool:
        """Whether it was interrupted and is still to be put back."""
        return self.act.result is None

    @property
    def outcome(self) -> Outcome:
        """Its outcome, for its mail."""
        outcome = outcome_in(self.act)
        return replace(outcome, error=interrupted_because(self.act)) if self.is_open else outcome


def change_open_targets(
    ledger: Ledger, finished: Collection[Target], begun: Collection[Target], known: NamedRow | None = None
) -> None:
    """Take out the targets in which everything is settled and mailed, and add those with actions to come. Raises CloudError.

    A target is noted before the first intent there, by version even if it is there: another run may be about to take it out. `known`: see
    `update_row`. Nothing is taken out of a row that was written since: that run may have noted it for an action to come.
    """

    def changed(row: NamedRow) -> Mapping[str, str] | None:
        before = set(targets_in(row))
        is_as_read = known is None or row.version == known.version
        after = (before - set(finished if is_as_read else ())) | set(begun)
        if after == before and not begun:
            return None
        return {DOCUMENT: document_of(tuple(sorted(map(target_text, after))), OPEN_TARGETS)}

    update_row(ledger, OPEN_TARGETS_ROW, changed, known=known)


def targets_in(row: NamedRow) -> list[Target]:
    """Every target that may have an unfinished action, whether a run still sweeps it or not. Raises CloudError if the row can't be read."""
    advice = "; delete it: the next runs find what is open in the targets that they sweep"
    stored = row.values.get(DOCUMENT)
    texts = parse_document(OPEN_TARGETS, stored, f"the row {OPEN_TARGETS_ROW!r}", advice) if row.values else ()
    return [target_from_text(text) for text in texts]


def is_unreported(record: Record) -> bool:
    """Whether its owner still gets a mail about its settled action. The weekly summary is enough for what was started."""
    act = record.act
    is_settled = act is not None and act.result is not None and (act.action, act.result) != (StepName.START, Result.DONE)
    return is_settled and act is not None and act.notified_at is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What was done about one target's unfinished actions: the records after it, actions that no mail has reported, those that are
    interrupted, and those that were closed just now.
    """

    target: Target
    recalled: Recalled
    unreported: tuple[Unfinished, ...] = ()
    interrupted: tuple[Unfinished, ...] = ()
    closed: tuple[Unfinished, ...] = ()

    @property
    def unreported_interrupted(self) -> tuple[Unfinished, ...]:
        """The interrupted actions whose owners don't know of them yet."""
        return tuple(each for each in self.interrupted if each.act.notified_at is None)

    @property
    def is_finished(self) -> bool:
        """Whether nothing in the target is open or unreported."""
        return not self.recalled.errors and not any(
            is_unreported(record) or is_unfinished(record) for record in self.recalled.readable.values()
        )


def settle_target(
    target: Target, cases: Mapping[str, Case], recalled: Recalled, ledger: Ledger, run_id: str, now: datetime
) -> Settled:
    """Close every open action of earlier runs in the target, but for interrupted ones: these are first put back. Raises CloudError.

    `cases`: what is listed there, by comparable ID. The run's own actions stay open: if a workflow repeats decide, they may be under way. Nothing
    is done about a record that is dated ahead, until that is past.
    """
    records = {id_: record for id_, record in recalled.readable.items() if not dated_ahead_because(record, now)}
    closing = [id_ for id_, record in records.items() if is_unfinished(record, run_id) and not is_interrupted(record)]
    changed = {id_: update_record(ledger, id_, closed_unknown, now, records[id_]) for id_ in closing}
    for id_, case in cases.items():
        if id_ not in records or (act := records[id_].act) is None:
            continue
        if dates.is_left_stopped(View(case=case, now=now, record=records[id_])):
            changed[id_] = update_intent(ledger, act, left_stopped, now)
    if changed:
        recalled = recalled.with_newer(ledger.recall(changed, now))
        records |= {id_: recalled.record(id_) for id_ in changed if not recalled.is_unreadable(id_)}
    interrupted, unreported = [], []
    for id_, record in records.items():
        act = record.act and replace(record.act, id=cases[id_].resource.id if id_ in cases else record.act.id)
        if act and is_interrupted(record, run_id):
            interrupted.append(Unfinished(target=target, act=act))
        elif act and act.run != run_id and is_unreported(record):
            unreported.append(Unfinished(target=target, act=act))
    closed = tuple(each for each in unreported if comparable_id(each.act.id) in closing)
    return Settled(target=target, recalled=recalled, unreported=tuple(unreported), interrupted=tuple(interrupted), closed=closed)


def interrupted_because(act: Act) -> str:
    """Why nothing is done to the resource of an interrupted action."""
    when = f"{act.at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    return f"an action on it was interrupted on {when}, and what it had changed isn't put back yet"


def closed_actions_error(closed: Sequence[Unfinished]) -> CloudError | None:
    """The error in the report about the actions that were closed just now, or that are interrupted."""
    if not closed:
        return None
    first, more = closed[0], f" (and {len(closed) - 1} more)" if len(closed) > 1 else ""
    text = f"{first.act.id}: {first.outcome.error}; `reaper restore {first.act.id}` undoes it{more}"
    return CloudError(Reason.PARTIAL, "act", text)


def unreported_finding(unfinished: Unfinished, listed: Case | None, now: datetime | None) -> Finding:
    """The action as a finding to mail about. The mail goes to the owner at that time, and never counts as a notice to a new owner.

    `now`: from when on what follows is dated; None if nothing is announced.
    """
    act, outcome, zero = unfinished.act, unfinished.outcome, timedelta()
    unsure = outcome.result is Result.FAILED
    because = "an earlier run may have changed it" if unsure else "it is unchanged since an earlier run"
    verdict = Verdict(state=State.EXEMPT, because=because)
    owner = Owner(address=act.owner, source="its owner at the time of the action")
    no_rule = Rule(name="no rule", action=Ceiling.IGNORE, idle_after=zero, grace=zero, remind_every=zero)
    case = listed or Case(resource=unlisted_resource(unfinished), rule=no_rule, verdict=verdict, owner=owner)
    owner = owner if act.owner else case.owner
    hours = case.rule.hours and replace(case.rule.hours, by_rule=False)  # a weekly summary isn't enough
    finding = Finding(
        case=replace(case, verdict=verdict, owner=owner, rule=replace(case.rule, hours=hours), evidence=()),
        step=Step(name=act.action, because="an earlier run carried it out, and its owner has no mail about it yet"),
        outcome=outcome,
    )
    return with_follow_ups(finding, now) if now else finding


def unlisted_resource(unfinished: Unfinished) -> Resource:
    """What its action says of the resource."""
    act = unfinished.act
    return Resource(kind=act.kind, id=act.id, name=act.name, target=unfinished.target, region=act.region, created=None)


def digest_of(resource_id: str) -> str:
    """The digest of an ID in the names of its manifests."""
    return sha256(comparable_id(resource_id).encode()).hexdigest()[:24]


def run_and_digest(address: str) -> tuple[str, str]:
    """What the address of a manifest says: the run that stored it, and the digest of its resource's ID."""
    run, name = ["", *re.split(r"[/\\]", address)][-2:]
    return run, name.partition("-")[0]


def record_known(ledger: Ledger, resource_id: str, run: str, now: datetime, because: str) -> None:
    """Record that the ledger knows of the action of that run. Raises CloudError."""
    ledger.add_history(HistoryEntry(id=resource_id, when=now, what=BEGAN, by=run, because=because))


def note_lost_actions(
    cases: Iterable[Case], recalled: Recalled, stored: Iterable[str], ledger: Ledger, now: datetime
) -> Recalled:
    """The records, with the address of its manifest in that of each case with an action that the ledger doesn't know. Raises CloudError.

    `stored`: the addresses of the manifests of the last days.
    """
    by_digest: dict[str, list[str]] = defaultdict(list)
    for address in stored:
        by_digest[run_and_digest(address)[1]].append(address)
    ids = [case.resource.id for case in cases] if by_digest else []
    lost = [id_ for id_ in ids if (found := by_digest.get(digest_of(id_))) and _note_lost(id_, found, recalled, ledger, now)]
    return recalled.with_newer(ledger.recall(lost, now)) if lost else recalled


def _note_lost(resource_id: str, found: Sequence[str], recalled: Recalled, ledger: Ledger, now: datetime) -> bool:
    """Whether an action of one of these manifests is unknown; then its address is in the record."""
    if recalled.is_unreadable(resource_id):
        return False
    record = recalled.record(resource_id)
    others = [address for address in found if record.act is None or run_and_digest(address)[0] != record.act.run]
    if not others or record.lost_manifest:
        return False
    runs = {entry.by for entry in ledger.history(resource_id, now - LISTED_FOR)}
    unknown = next((address for address in reversed(others) if run_and_digest(address)[0] not in runs), None)
    if unknown:
        update_record(ledger, resource_id, lambda record: replace(record, lost_manifest=unknown), now)
    return unknown is not None


def half_done_because(record: Record, run_id: str | None = None) -> str | None:
    """Why a resource with this record may only be started: an action may be half done, one of another run or one that the ledger doesn't know."""
    if record.act and record.lost_manifest is None and is_interrupted(record, run_id):
        return interrupted_because(record.act)
    return (
        record.lost_manifest
        and f"the ledger doesn't know of an action on it that may be half done; its manifest is {record.lost_manifest}"
    )


def lost_actions_error(ids: Sequence[str], recalled: Recalled) -> CloudError | None:
    """The error in the report about those resources with such an action; None if there are none."""
    records = {id_: recalled.readable.get(same) for same, id_ in {comparable_id(id_): id_ for id_ in reversed(ids)}.items()}
    lost = [(id_, record) for id_, record in records.items() if record and record.lost_manifest]
    if not lost:
        return None
    (resource_id, record), more = lost[-1], f" (and {len(lost) - 1} more)" if len(lost) > 1 else ""
    fix = f"read it, then `reaper restore {resource_id} --trust-manifest` settles it"
    return CloudError(Reason.PARTIAL, "act", f"{resource_id}: {half_done_because(record)}; {fix}{more}")


def done_so_far(run: Run, decided: Decided | None, ledger: Ledger | None, now: datetime) -> str:
    """The actions that were carried out, those that may have been, and those that weren't begun. `decided`: None if nothing was decided yet."""
    if not run.mode.writes:
        return "Nothing was changed."
    if decided is None:
        return f"{NO_ACTION}, and no notice was sent."
    put_back = "What an earlier run left half done may have been put back. " if run.mode.acts and decided.interrupted else ""
    due = [f for f in decided.findings if is_action(f) and f.outcome.result is Result.PLANNED]
    if not (run.mode.acts and ledger and due):
        return f"{put_back}{NO_ACTION}. Some notices may have been sent; the next sweep goes on with the others."
    by_state: dict[str, list[str]] = defaultdict(list)
    for finding in due:
        resource, state = finding.case.resource, _state_of(finding, run, ledger, now)
        by_state[state].append(f"{registry.action_noun(resource.kind, finding.step.name)} {clean_line(resource.name)}")
    if by_state.keys() == {"Not begun"}:
        return f"{put_back}{NO_ACTION}: none of {len(due)} actions was begun."
    lines = [
        f"{state}: {', '.join(by_state[state])}"
        for state in ("Done", "Not done", "May have been done", "Not begun")
        if by_state[state]
    ]
    undo = f"The next sweep notifies the owners. To undo what was done, run:\n  reaper undo --run {run.id}"
    return put_back + "\n".join(["What this run did:", *lines, undo])


def _state_of(finding: Finding, run: Run, ledger: Ledger, now: datetime) -> str:
    try:
        outcome = own_outcome(ledger.record(finding.case.resource.id, now), run.id, finding.step.name)
    except ReaperError:
        return "May have been done"
    if outcome is None:
        return "Not begun"
    return {Result.DONE: "Done", Result.REFUSED: "Not done"}.get(outcome.result, "May have been done")
