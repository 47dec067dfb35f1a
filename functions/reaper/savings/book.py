"""The ledger's rows of savings, each of them one document, and the run that folds its sweep into them.

What still runs is under its target, `saving#<target>`. What was credited is under `saved#`, in the order of months: a row for each month, resource
and cause, with each action's rate and the stretches of time that count. Adding a stretch twice changes nothing, so a conclude may be repeated.
`trend#<yyyy-mm>` has a row for each day, target and kind, `trend#latest` one for each target with its kinds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from reaper import registry
from reaper.case import Case, Coverage, Price
from reaper.coverage import target_of_row
from reaper.errors import CloudError, ReaperError, Reason
from reaper.finding import Finding, is_action, is_done, judged_case, money_of
from reaper.ledger.ledger import Ledger, target_text, write_until_accepted
from reaper.ledger.rows import (
    LAST_NAME,
    LONG_AGO,
    AtVersion,
    Category,
    Key,
    Recalled,
    Row,
    comparable_id,
    document_of,
    parse_document,
    sortable_time,
    unreadable,
    valid_version,
)
from reaper.model import State, Status, StepName, Target
from reaper.savings import credit
from reaper.savings.credit import Cause, Look, Moment, Saving, Span, Subject

if TYPE_CHECKING:
    from reaper.handover import Decided
    from reaper.policy.schema import Policy

Noun = TypeVar("Noun", "Saving", "SavedRow", "TrendDay")
COLUMN = "facts"
LATEST = "latest"
"""Where the trend notes the kinds that each target had when it was last read."""
MAX_USD_PER_HOUR = 1e9
"""What the rates of a readable row are below."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedAction:
    """What one action saved: its rate, None if unknown, and the times that count, oldest first, in seconds since 1970."""

    action: StepName
    at: Moment
    rate: Price | None
    spans: tuple[tuple[int, int], ...] = ()

    def hours(self, since: datetime, until: datetime) -> float:
        """The hours that count of a stretch of time."""
        begin, end = since.timestamp(), until.timestamp()
        return sum(max(0.0, min(last, end) - max(first, begin)) for first, last in self.spans) / 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedRow:
    """What the actions on one resource saved, for one cause."""

    subject: Subject
    cause: Cause
    actions: tuple[SavedAction, ...] = ()


class OpenRow(NamedTuple):
    """A saving that still runs, as stored."""

    key: Key
    saving: Saving
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendDay:
    """One day of a kind in one target, by the day's last complete look. The dollars are those of idle resources with a price."""

    day: str
    target: Target
    kind: str
    resources: int
    idle: int
    unpriced_idle: int
    idle_usd_per_hour: float


def read_open(ledger: Ledger, target: Target) -> tuple[list[OpenRow], list[CloudError]]:
    """The savings that still run in a target, and the errors of rows that can't be read. Raises CloudError if the ledger fails."""
    found: list[OpenRow] = []
    errors: list[CloudError] = []
    for row in ledger.store.query(Category.SAVING, target_text(target)):
        try:
            found.append(OpenRow(row.key, _parsed(Saving, row), valid_version(row.version, row.key.name)))
        except CloudError as error:
            errors.append(error)
    return found, errors


def add_open(ledger: Ledger, saving: Saving, now: datetime) -> None:
    """Store a saving that has just begun, unless it is there already."""
    name = f"{comparable_id(saving.subject.id)}#{saving.cause} {sortable_time(saving.at)}"
    _put(ledger, Key(Category.SAVING, target_text(saving.subject.target), name), saving, 0, now)


def replace_open(ledger: Ledger, row: OpenRow, saving: Saving | None, now: datetime) -> None:
    """Store a saving after a look, or remove it if it has ended (None). If another writer came first, that one's stays: the next look goes on from there."""
    if saving is None:
        ledger.store.delete(row.key)
    elif saving != row.saving:
        _put(ledger, row.key, saving, row.version, now)


def add_credits(ledger: Ledger, credited: Iterable[tuple[Saving, Span]], now: datetime) -> list[CloudError]:
    """Add these times to the rows of their months. Returns the errors of rows that can't be read. Raises CloudError if the ledger fails."""
    errors: list[CloudError] = []
    by_key: dict[Key, list[tuple[Saving, Span]]] = defaultdict(list)
    for saving, span in credited:
        for month, part in _by_month(span):
            by_key[Key(Category.SAVED, "", f"{month} {comparable_id(saving.subject.id)}#{saving.cause}")].append((saving, part))
    stored = ledger.store.get_many(list(by_key)) if by_key else {}
    for key, new in by_key.items():
        try:
            _add_to_row(ledger, key, new, stored.get(key), now)
        except CloudError as error:
            if error.reason is not Reason.UNREADABLE:
                raise
            errors.append(error)
    return errors


def _add_to_row(ledger: Ledger, key: Key, new: Sequence[tuple[Saving, Span]], known: Row | None, now: datetime) -> None:
    first = [known]

    def attempt() -> bool | None:
        row = first.pop() if first else ledger.store.get(key)
        before = _parsed(SavedRow, row) if row else None
        after = before or SavedRow(subject=new[0][0].subject, cause=new[0][0].cause)
        for saving, span in new:
            after = _with_credit(after, saving, span)
        version = valid_version(row.version, key.name) if row else 0
        return after == before or _put(ledger, key, after, version, now) or None

    write_until_accepted(attempt, f"the savings of {key.name}")


def _with_credit(row: SavedRow, saving: Saving, new: Span) -> SavedRow:
    """The row with that time. Times that overlap or follow each other become one."""
    by_time = {action.at: action for action in row.actions}
    known = by_time.get(saving.at) or SavedAction(action=saving.action, at=saving.at, rate=saving.rate)
    spans: list[tuple[int, int]] = []
    for first, last in sorted([*known.spans, (int(new.since.timestamp()), int(new.until.timestamp()))]):
        joins = bool(spans) and first <= spans[-1][1]
        spans[-1:] = [(spans[-1][0], max(spans[-1][1], last))] if joins else [*spans[-1:], (first, last)]
    by_time[saving.at] = replace(known, spans=tuple(spans))
    return replace(row, subject=saving.subject, actions=tuple(by_time[at] for at in sorted(by_time)))


def read_saved(ledger: Ledger, since: datetime, until: datetime) -> list[SavedRow]:
    """What was credited in the months from `since` to `until`. Raises CloudError, also for a row that can't be read."""
    first, last = (f"{moment.astimezone(UTC):%Y-%m}" for moment in (since, until))
    return [_parsed(SavedRow, row) for row in ledger.store.query(Category.SAVED, "", first, f"{last}{LAST_NAME}")]


def write_trend(ledger: Ledger, days: Iterable[TrendDay], now: datetime) -> None:
    """Store these days; a later look of the day replaces an earlier one."""
    for day in days:
        key = Key(Category.TREND, day.day[:7], f"{day.day[8:]} {target_text(day.target)} {day.kind}")
        ledger.store.put(key, {COLUMN: document_of(day)}, sortable_time(now))


def latest_kinds(ledger: Ledger, targets: Iterable[Target]) -> Mapping[Target, set[str]]:
    """By target, the kinds of which it had something when they were last read as a whole. Raises CloudError."""
    keys = {Key(Category.TREND, LATEST, target_text(target)): target for target in targets}
    stored = {keys[key]: set(row.texts.get(COLUMN, "").split()) for key, row in ledger.store.get_many(list(keys)).items()}
    return defaultdict(set, stored)


def read_trend(ledger: Ledger, since: datetime, until: datetime) -> list[TrendDay]:
    """The days from `since` to `until`, oldest first. Raises CloudError."""
    first, last = (moment.astimezone(UTC).date().isoformat() for moment in (since, until))
    stored = [row for month in months(since, until) for row in ledger.store.query(Category.TREND, month)]
    return [day for row in stored if first <= (day := _parsed(TrendDay, row)).day <= last]


def months(since: datetime, until: datetime) -> list[str]:
    """The months, in UTC, that a stretch of time touches: `2026-11`."""
    first, last = ((moment.year * 12 + moment.month - 1) for moment in (since.astimezone(UTC), until.astimezone(UTC)))
    return [f"{number // 12}-{number % 12 + 1:02d}" for number in range(first, last + 1)]


def _by_month(span: Span) -> Iterator[tuple[str, Span]]:
    begins = [datetime.fromisoformat(f"{month}-01T00:00:00+00:00") for month in months(*span)]
    for since, until in zip([span.since, *begins[1:]], [*begins[1:], span.until], strict=True):
        if since < until:
            yield f"{since.astimezone(UTC):%Y-%m}", Span(since, until)


def _put(ledger: Ledger, key: Key, noun: Saving | SavedRow, version: int, now: datetime) -> bool:
    columns = {"id": noun.subject.id, COLUMN: document_of(noun)}
    return ledger.store.put(key, columns, sortable_time(now), AtVersion(version=version))


def _parsed(form: type[Noun], row: Row) -> Noun:
    subject = f"the ledger's row of savings {row.key.name}"
    noun = parse_document(form, row.texts.get(COLUMN), subject)
    rates = [noun.rate] if isinstance(noun, Saving) else [action.rate for action in getattr(noun, "actions", ())]
    with unreadable(subject):
        if any(rate and not 0 <= rate.usd_per_hour < MAX_USD_PER_HOUR for rate in rates):
            raise ValueError("it has no rate of a saving")
    return noun


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
    latest = latest_kinds(sweep.ledger, targets)
    for target in targets:
        had, kinds = latest[target], complete[target]
        days = list(_trend(target, findings.get(target, ()), kinds, had, sweep))
        write_trend(sweep.ledger, days, sweep.now)
        has = had.difference(kinds).union(day.kind for day in days if day.resources)
        if has != had:
            key = Key(Category.TREND, LATEST, target_text(target))
            sweep.ledger.store.put(key, {COLUMN: " ".join(sorted(has))}, sortable_time(sweep.now))


def _record_target(target: Target, findings: Sequence[Finding], kinds: Collection[str], sweep: Sweep) -> list[ReaperError]:
    """Fold the sweep into each saving of the target, and begin new ones. What is credited is written before what it is credited to."""
    ledger, now = sweep.ledger, sweep.now
    rows, unread = read_open(ledger, target)
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
        if still is None and saving.is_waiting and (new := begun.pop(id_, None)):
            replace_open(ledger, row, new, now)  # at once, for no later run sees that the action began it
        else:
            after.append((row, still))
    for saving in [*begun.values(), *(saving for id_, saving in awaited.items() if id_ not in waiting)]:
        add_open(ledger, saving, now)
    not_added = add_credits(ledger, credited, now)
    for row, still in after:
        replace_open(ledger, row, still, now)
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
