"""Where a run counts savings: it goes on with those that still run, begins those of its own actions, and notes the trend of the day."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from reaper import registry
from reaper.case import Case, Coverage
from reaper.coverage import target_of_row
from reaper.errors import ReaperError
from reaper.finding import Finding, is_action, is_done, judged_case, money_of
from reaper.ledger.ledger import Ledger
from reaper.ledger.rows import LONG_AGO, Recalled, comparable_id
from reaper.model import State, Status, Target
from reaper.savings import book, credit
from reaper.savings.book import OpenRow, TrendDay
from reaper.savings.credit import Cause, Look, Saving, Span

if TYPE_CHECKING:
    from reaper.handover import Decided
    from reaper.policy.schema import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """What a run knows `now`, once its mails are sent. `findings`: with their records as they are now. `recalled`: what it knows of decided resources."""

    ledger: Ledger
    now: datetime
    decided: Decided
    findings: Sequence[Finding]
    recalled: Recalled
    coverage: Sequence[Coverage]
    policy: Policy


def record_savings(sweep: Sweep) -> list[ReaperError]:
    """Count every saving in the targets of the sweep. A target that fails doesn't affect the others. Returns the errors."""
    complete = complete_kinds(sweep.coverage)
    by_target: dict[Target, list[Finding]] = defaultdict(list)
    for finding in sweep.findings:
        by_target[finding.case.resource.target].append(finding)
    errors: list[ReaperError] = []
    for target in sorted(sweep.decided.leased, key=str):
        try:
            errors += _record_target(target, by_target.get(target, ()), complete[target], sweep)
        except ReaperError as error:
            errors.append(error)
    try:
        _record_trend(by_target, complete, sweep)
    except ReaperError as error:
        errors.append(error)
    return errors


def _record_trend(findings: Mapping[Target, Sequence[Finding]], complete: Mapping[Target, set[str]], sweep: Sweep) -> None:
    """Note the day of each kind that was read as a whole, in the targets of the sweep and in those in which there is nothing."""
    targets = sorted((t for t in complete if t in sweep.decided.leased or t not in findings), key=str)
    latest = book.latest_kinds(sweep.ledger, targets)
    for target in targets:
        had, kinds = latest[target], complete[target]
        days = list(_trend(target, findings.get(target, ()), kinds, had, sweep))
        book.write_trend(sweep.ledger, days, sweep.now)
        has = had.difference(kinds).union(day.kind for day in days if day.resources)
        if has != had:
            book.write_latest_kinds(sweep.ledger, target, has, sweep.now)


def _record_target(target: Target, findings: Sequence[Finding], kinds: Collection[str], sweep: Sweep) -> list[ReaperError]:
    """Fold the sweep into each saving of the target, and begin new ones. What is credited is written before what it is credited to."""
    ledger, now = sweep.ledger, sweep.now
    rows, unread = book.read_open(ledger, target)
    ids = [row.saving.subject.id for row in rows if row.saving.subject.id not in sweep.recalled]
    recalled = ledger.recall(ids, now).with_newer(sweep.recalled) if ids else sweep.recalled
    known, cases = {(row.saving.subject.id, row.saving.cause, row.saving.at) for row in rows}, _cases_by_id(findings, sweep)
    waiting = {comparable_id(row.saving.subject.id) for row in rows if row.saving.cause is Cause.PROMPTED}
    begun, awaited = _begun(findings, kinds, sweep)
    begun = {id_: saving for id_, saving in begun.items() if (saving.subject.id, saving.cause, saving.at) not in known}
    after: list[tuple[OpenRow, Saving | None]] = []
    credited: list[tuple[Saving, Span]] = []
    for row in rows:
        saving, id_ = row.saving, comparable_id(row.saving.subject.id)
        if recalled.is_unreadable(id_):
            continue
        look = Look(
            at=sweep.decided.run.started_at,
            over_at=sweep.decided.decided_at,
            case=cases.get(id_),
            is_complete=saving.subject.kind in kinds,
            record=recalled.record(id_),
            snooze=recalled.snooze(id_),
        )
        still, span = credit.count(saving, look)
        credited += [(still or saving, span)] if span else []
        if still and still.is_waiting and look.is_complete and look.case and look.case.verdict.state is State.IDLE:
            still = awaited.get(id_)
        if still is None and saving.is_waiting:
            still = begun.pop(id_, None)
        after.append((row, still))
    for saving in [*begun.values(), *(saving for id_, saving in awaited.items() if id_ not in waiting)]:
        book.add_open(ledger, saving, now)
    not_added = book.add_credits(ledger, credited, now)
    for row, still in after:
        book.replace_open(ledger, row, still, now)
    return [*unread, *not_added]


def _begun(findings: Sequence[Finding], kinds: Collection[str], sweep: Sweep) -> tuple[dict[str, Saving], dict[str, Saving]]:
    """By ID, the savings that this run's actions begin, and what waits for an owner to act on a notice."""
    tag_keys, horizon = sweep.policy.report.tags, sweep.policy.savings.horizon
    begun: dict[str, Saving] = {}
    awaited: dict[str, Saving] = {}
    for finding in findings:
        resource, action = finding.case.resource, finding.step.name
        kind = registry.find_kind(resource.kind)
        if kind and is_done(finding) and action in kind.actions:
            saving = credit.begin_saving(finding, kind.parts_after(resource, action), tag_keys, horizon)
            begun |= {comparable_id(resource.id): replace(saving, deletes=kind.actions[action].deletes)} if saving else {}
        elif resource.kind in kinds and not is_action(finding):
            saving = credit.await_prompted(finding, tag_keys, horizon)
            awaited |= {comparable_id(resource.id): saving} if saving else {}
    return begun, awaited


def _cases_by_id(findings: Sequence[Finding], sweep: Sweep) -> dict[str, Case]:
    """The cases as judged, which a snooze doesn't change. Of several with one ID, as of apps that were deleted and started again, the newest."""
    judged = {(f.case.resource.id, f.case.resource.name): judged_case(f) for f in sweep.decided.findings}
    oldest_first = sorted((f.case for f in findings), key=lambda case: case.resource.created or LONG_AGO)
    return {comparable_id(c.resource.id): judged.get((c.resource.id, c.resource.name), c) for c in oldest_first}


def complete_kinds(coverage: Iterable[Coverage]) -> Mapping[Target, set[str]]:
    """By target, the kinds of which every row says that they were read as a whole."""
    kinds: dict[Target, set[str]] = defaultdict(set)
    gaps: dict[Target, set[str]] = defaultdict(set)
    for row in coverage:
        if not row.is_own:
            (kinds if row.status is Status.OK else gaps)[target_of_row(row)].add(row.kind)
    return defaultdict(set, {target: complete - gaps[target] for target, complete in kinds.items()})


def _trend(
    target: Target, findings: Sequence[Finding], kinds: Collection[str], had: Collection[str], sweep: Sweep
) -> Iterator[TrendDay]:
    """A day for each kind that is there, and a zero for one that the target `had` and that is gone."""
    day = sweep.decided.run.started_at.astimezone(UTC).date().isoformat()
    for kind in sorted(kinds):
        same = [f for f in findings if f.case.resource.kind == kind]
        idle = money_of(f for f in same if f.case.verdict.state is State.IDLE)
        if same or kind in had:
            yield TrendDay(
                day=day,
                target=target,
                kind=kind,
                resources=len(same),
                idle=idle.count,
                unpriced_idle=idle.unpriced,
                idle_usd_per_hour=round(idle.usd_per_hour, 6),
            )
