"""What is on hold, which idle shares jumped, and what a person released: one ledger row per account and one for whole runs.

While a hold stands, nothing due under it is carried out, except what a release covers. A run that is under its limits and has read every place
that the row names removes it, and so does a release."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from hashlib import sha256

from reaper import registry
from reaper.calendars import office_hours
from reaper.case import Case, Coverage, is_stopped_by_hours
from reaper.coverage import target_of_row
from reaper.ledger.ledger import Ledger, TargetText, target_text, update_row
from reaper.ledger.rows import DOCUMENT, NamedRow, comparable_id, document_of, parse_document
from reaper.model import Status, Target, Time
from reaper.record import Snooze

COUNTED_FOR = timedelta(hours=22)
"""How long a run's actions count, from its start: a day, but for what a daily run may be late."""
RECENT = f"the last {COUNTED_FOR // timedelta(hours=1)} hours"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActedOn:
    """A resource with a stop or delete, as a short digest of its ID, and its target. `started`: when the run that acted on it began; None if it is only due.

    `by_hours`: the office hours of its rule asked for it. `usd_per_hour`: what it cost then, if known.
    """

    digest: str
    kind: str
    target: str = ""
    started: Time | None = None
    usd_per_hour: float | None = None
    by_hours: bool = False


def acted_on(case: Case, started: datetime | None = None) -> ActedOn:
    """The resource as a run counts it."""
    return ActedOn(
        digest=sha256(comparable_id(case.resource.id).encode()).hexdigest()[:10],
        kind=case.resource.kind,
        target=target_text(case.resource.target),
        started=started,
        usd_per_hour=case.usd_per_hour,
        by_hours=is_stopped_by_hours(case),
    )


def without(acted: Iterable[ActedOn], others: Iterable[ActedOn]) -> list[ActedOn]:
    """What was acted on and isn't among the others. A stop by office hours is one thing, and a stop for another reason a second one."""
    known = {(each.digest, each.by_hours) for each in others}
    return [each for each in acted if (each.digest, each.by_hours) not in known]


def acted_row(key: str) -> str:
    """The name of the row of the account with that key."""
    return f"acted {key}"


def acted_columns(acted: Collection[ActedOn], own: ActedOn) -> dict[str, str]:
    """The row with one more, as columns of the ledger. Of one that it has, the higher cost stays."""
    costs = [a.usd_per_hour for a in (*acted, own) if a.digest == own.digest and a.usd_per_hour is not None]
    rows = (*without(acted, [own]), replace(own, usd_per_hour=max(costs, default=None)))
    return {DOCUMENT: document_of(rows, tuple[ActedOn, ...])}


def acted_from_columns(name: str, values: Mapping[str, str], now: datetime) -> tuple[ActedOn, ...]:
    """What still counts in the row of that name. Raises CloudError if it can't be read."""
    subject, advice = f"the row {name!r} with what was acted on", "; delete it, which costs one day's count"
    acted = parse_document(tuple[ActedOn, ...], values.get(DOCUMENT), subject, advice) if values else ()
    return tuple(each for each in acted if each.started and now - each.started < COUNTED_FOR)


READ_STATUSES = frozenset({Status.OK, Status.PARTIAL})
HOLD_ROW = "hold"
"""The row of whole runs. That of an account has its key in the name, too."""
RELEASE_FOR = timedelta(hours=24)
"""How long a release lasts by default."""
KindInTarget = tuple[str, str]
"""A place: a target, as the ledger writes it, and the name of a kind."""
ALL_ACCOUNTS = "*"
"""Replaces the account in what is about a kind over a whole run, and is the key of the run's own row."""
LONG_AGO = datetime.min.replace(tzinfo=UTC)
QUIET_FOR = timedelta(hours=48)
"""How long after a jump no owner is notified of idleness there. After that, notices go out without a date."""


class LimitName(StrEnum):
    """Which limit was exceeded, and so which actions are on hold.

    `actions` (`max_acts`) and `share` (`max_share`, in an account only its own kind): all but those of office hours. `dollars`
    (`max_usd_per_hour`): all. `scheduled` (`max_scheduled`): those of office hours. `unpriced`: those without a price, except those of
    office hours.
    """

    ACTIONS = "actions"
    SHARE = "share"
    DOLLARS = "dollars"
    SCHEDULED = "scheduled"
    UNPRICED = "unpriced"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exceeded:
    """A limit that was exceeded. `kind`: the only kind it counts and holds; empty for all."""

    limit: LimitName
    kind: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A hold: the limit that was exceeded, since when, which run found that, and the reason for people."""

    exceeded: Exceeded
    since: Time
    run: str
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """The breaker of one place, or of a kind over whole runs. `since`: when its idle share jumped; None while it is normal.

    `lapsed_at`: notices of idleness up to then lead to no action. `usual_since`: only later sweeps show what is usual there. `protections`:
    those that ended shortly before the jump, in words. `acted`: what runs had just ended there when it jumped, or since.
    """

    target: TargetText
    kind: str
    since: Time | None = None
    run: str = ""
    because: str = ""
    lapsed_at: Time | None = None
    usual_since: Time | None = None
    protections: str = ""
    acted: tuple[ActedOn, ...] = ()

    @property
    def place(self) -> KindInTarget:
        """Where it works."""
        return self.target, self.kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A person's permission to carry out what was due."""

    given_at: Time
    valid_until: Time
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldRow:
    """The row of one account, or of whole runs. `reads`: the places that a run must have read to end its holds, as lists of kinds and targets.

    `accounts`, in the row of whole runs: those whose row has something on hold.
    """

    holds: tuple[Hold, ...] = ()
    breakers: tuple[Breaker, ...] = ()
    reads: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = ()
    release: Release | None = None
    accounts: tuple[str, ...] = ()

    @property
    def places(self) -> frozenset[KindInTarget]:
        """The places that a run must have read to end its holds."""
        return frozenset((target, kind) for kinds, targets in self.reads for kind in kinds for target in targets)

    @property
    def jumps(self) -> tuple[Breaker, ...]:
        """The breakers that a jump has tripped."""
        return tuple(breaker for breaker in self.breakers if breaker.since)


HoldRows = Mapping[str, HoldRow]
"""The rows of some accounts, by `account_key`, and that of whole runs under ALL_ACCOUNTS."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunScope:
    """A run, its time, and the places that it read (`ok` or `partial`).

    `acted`: what earlier runs acted on in the last hours, by `account_key`. `idle`: what is idle, by place. `ended`: see
    `caps.ended_before`.
    """

    run: str
    now: datetime
    read_places: frozenset[KindInTarget]
    acted: Mapping[str, Sequence[ActedOn]] = field(default_factory=dict)
    idle: Mapping[KindInTarget, Sequence[tuple[Case, Snooze]]] = field(default_factory=dict)
    ended: Sequence[ActedOn] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRows:
    """`rows`: those of some accounts and of whole runs, without what a release has ended. `stored`: the same rows as they are in the ledger.

    `acted`: see `RunScope`. `read`: all of it, by the name of its row.
    """

    rows: HoldRows
    stored: HoldRows
    read: Mapping[str, NamedRow]
    acted: Mapping[str, Sequence[ActedOn]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceCount:
    """One place in one run: the resources that are idle, active, young or unknown, and that no office hours stop. `asked`: their signals were read.
    `spared`: they weren't, because an earlier run saw a use. `unanswered`: an incomplete reply showed no use. `acted`: idle until a run ended them.
    """

    total: int = 0
    unknown: int = 0
    idle: int = 0
    asked: int = 0
    spared: int = 0
    unanswered: int = 0
    acted: int = 0

    @property
    def in_doubt(self) -> int:
        """How many would be unknown if all had been asked about, and been answered as often."""
        return min(self.total, self.unknown + round(self.spared * self.unanswered / max(1, self.asked)))

    @property
    def seen(self) -> int:
        """How many an idle share is of: those with a verdict that no outage leaves in doubt."""
        return self.total - self.in_doubt


@dataclass(frozen=True, slots=True, kw_only=True)
class Usual:
    """What is usual in a place: the idle share, from 0 to 1, and how many are idle."""

    share: float
    idle: float


Shares = Mapping[KindInTarget, Usual]
"""What is usual, by place; nothing of places where too few days are known."""


def account_key(target: Target) -> str:
    """The account or subscription of a target, as the ledger writes it."""
    return f"{target.cloud}/{target.account}".lower()


def key_of_place(place: KindInTarget) -> str:
    """The key of the row that has the place."""
    cloud, account, _ = place[0].split("/", 2)
    return ALL_ACCOUNTS if account == ALL_ACCOUNTS else f"{cloud}/{account}".lower()


def kind_in_target(target: Target, kind: str) -> KindInTarget:
    """The place where resources of a kind are listed."""
    return target_text(target), kind


def kind_in_target_of(case: Case) -> KindInTarget:
    """The place of a resource."""
    return kind_in_target(case.resource.target, case.resource.kind)


def run_place(place: KindInTarget) -> KindInTarget:
    """The kind of a place over a whole run: in all accounts and no region, as `target_text` writes it."""
    return f"{place[0].partition('/')[0]}/{ALL_ACCOUNTS}/-", place[1]


def read_places(coverage: Iterable[Coverage], others: Collection[Target] = ()) -> frozenset[KindInTarget]:
    """The places that a run read, wholly or in part, without those in `others`, which another run has leased."""
    rows = [(target_of_row(row), row) for row in coverage if not row.is_own and row.status in READ_STATUSES]
    return frozenset(kind_in_target(target, row.kind) for target, row in rows if target not in others)


def breakers_over(case: Case, rows: HoldRows) -> list[Breaker]:
    """The breakers of the resource's place, and of its kind over whole runs."""
    place = kind_in_target_of(case)
    targets = {place[0], run_place(place)[0]}
    return [b for _, row in _rows_over(case, rows) for b in row.breakers if b.kind == place[1] and b.target in targets]


def holds_over(case: Case, rows: HoldRows) -> list[tuple[str, Hold]]:
    """The holds over an action on this resource, each with the key of its row."""
    return [(key, hold) for key, row in _rows_over(case, rows) for hold in row.holds if _counts_case(hold.exceeded, case)]


def _rows_over(case: Case, rows: HoldRows) -> list[tuple[str, HoldRow]]:
    """The row of the resource's account and that of whole runs, each with its key."""
    return [(key, rows[key]) for key in (account_key(case.resource.target), ALL_ACCOUNTS) if key in rows]


def is_released(case: Case, due_at: datetime | None, rows: HoldRows, now: datetime) -> bool:
    """Whether a release covers its action: it is valid now, and the action was due, or its office hours were over, when it was given."""
    releases = [row.release for _, row in _rows_over(case, rows) if row.release]
    valid = [release.given_at for release in releases if release.given_at <= now < release.valid_until]
    if not valid:
        return False
    hours = case.rule.hours if is_stopped_by_hours(case) else None
    dates = [due_at, office_hours.closed_since(hours, now) if hours else None]
    known = [date for date in dates if date]
    return bool(known) and max(known) <= max(valid)


def settled_rows(rows: HoldRows, now: datetime) -> dict[str, HoldRow]:
    """The rows without what a release has ended since. Where a release ended a jump, the usual share is learned afresh.

    A time that a wrong clock has dated ahead counts as now: otherwise no release would end the hold, and a jump's end would void every
    notice until then.
    """
    run_release = rows.get(ALL_ACCOUNTS, HoldRow()).release
    return {key: _settled_row(row, run_release, now) for key, row in rows.items()}


def _settled_row(row: HoldRow, run_release: Release | None, now: datetime) -> HoldRow:
    given_at = [release.given_at for release in (row.release, run_release) if release and release.given_at <= now]
    ended_at = max(given_at, default=LONG_AGO)
    holds = (replace(hold, since=min(hold.since, now)) for hold in row.holds)
    times = ("since", "lapsed_at", "usual_since")
    breakers = [replace(b, **{name: min(at, now) for name in times if (at := getattr(b, name))}) for b in row.breakers]
    return replace(
        row,
        holds=tuple(hold for hold in holds if hold.since > ended_at),
        breakers=tuple(ended_breaker(b, ended_at, released=True) if b.since and b.since <= ended_at else b for b in breakers),
    )


def ended_breaker(breaker: Breaker, at: datetime, *, released: bool = False) -> Breaker:
    """The breaker once its jump is over."""
    usual_since = at if released else breaker.usual_since
    return Breaker(target=breaker.target, kind=breaker.kind, lapsed_at=at, usual_since=usual_since)


def with_places(row: HoldRow, more: Collection[KindInTarget]) -> HoldRow:
    """The row with these places added. Targets that have the same kinds are written together: there may be thousands."""
    kinds_by_target: dict[str, set[str]] = defaultdict(set)
    for target, kind in row.places | set(more):
        kinds_by_target[target].add(kind)
    targets: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for target, kinds in sorted(kinds_by_target.items()):
        targets[tuple(sorted(kinds))].append(target)
    return replace(row, reads=tuple((kinds, tuple(names)) for kinds, names in sorted(targets.items())))


def with_held_accounts(rows: HoldRows) -> dict[str, HoldRow]:
    """The rows, with the accounts that have something on hold in the row of whole runs."""
    run_row = rows.get(ALL_ACCOUNTS, HoldRow())
    on_hold = {key for key, row in rows.items() if key != ALL_ACCOUNTS and (row.holds or row.jumps)}
    accounts = tuple(sorted((set(run_row.accounts) - rows.keys()) | on_hold))
    return {**rows, ALL_ACCOUNTS: replace(run_row, accounts=accounts)}


def row_name(key: str) -> str:
    """The name of the row with that key."""
    return HOLD_ROW if key == ALL_ACCOUNTS else f"{HOLD_ROW} {key}"


def read_hold_rows(ledger: Ledger, targets: Iterable[Target], now: datetime) -> ReadRows:
    """The rows of the targets' accounts, and that of whole runs, with what runs acted on there, in one batch. Raises CloudError."""
    keys = {account_key(target) for target in targets}
    return _read_rows(ledger, keys, now, acted=keys)


def _read_rows(ledger: Ledger, accounts: Collection[str], now: datetime, acted: Collection[str] = ()) -> ReadRows:
    keys = (ALL_ACCOUNTS, *accounts)
    read = ledger.read_rows([*map(row_name, keys), *map(acted_row, acted)])
    stored = {key: row_from_columns(read[row_name(key)].values) for key in keys}
    return ReadRows(
        rows=settled_rows(stored, now),
        stored=stored,
        read=read,
        acted={key: acted_from_columns(acted_row(key), read[acted_row(key)].values, now) for key in acted},
    )


def record_rows(ledger: Ledger, rows: HoldRows, before: ReadRows) -> bool:
    """Write the rows that have changed, by version. Returns False if another run wrote one first."""
    changed = [key for key, row in rows.items() if row != before.stored[key]]
    return all(ledger.write_row(row_name(key), row_columns(rows[key]), before.read[row_name(key)].version) for key in changed)


def release_actions(
    ledger: Ledger, by: str, now: datetime, valid_for: timedelta = RELEASE_FOR, accounts: Collection[str] = ()
) -> Release:
    """Release every action of these accounts (by `account_key`; empty: of all) that was due by `now`. Ends their holds and jumps. Raises CloudError.

    In places whose idle share jumped, the usual share is learned from the runs after `now`.
    """
    release = Release(given_at=now, valid_until=now + valid_for, by=by)

    def released(row: NamedRow) -> dict[str, str]:
        return row_columns(_settled_row(replace(row_from_columns(row.values), release=release), None, now))

    for key in accounts or (ALL_ACCOUNTS,):
        update_row(ledger, row_name(key), released)
    return release


def standing_rows(ledger: Ledger, now: datetime, accounts: Collection[str] = ()) -> dict[str, HoldRow]:
    """The rows of these accounts that have something on hold, by `account_key`; empty: those of all, and of whole runs. Raises CloudError."""
    run_row = _read_rows(ledger, (), now).stored[ALL_ACCOUNTS]
    rows = _read_rows(ledger, accounts or run_row.accounts, now).rows
    keys = accounts or rows
    return {key: row for key, row in rows.items() if key in keys and (row.holds or row.jumps)}


def row_columns(row: HoldRow) -> dict[str, str]:
    """The row as columns of the ledger."""
    return {DOCUMENT: document_of(row)}


def row_from_columns(values: Mapping[str, str]) -> HoldRow:
    """The row; an empty one if there is none. Raises CloudError if it can't be read."""
    return parse_document(HoldRow, values.get(DOCUMENT), "what is on hold") if values else HoldRow()


def lacks_price(kind: str, usd_per_hour: float | None) -> bool:
    """Whether the price of a resource is unknown. One whose host's price includes it has none to know."""
    return usd_per_hour is None and registry.has_price(kind)


def _counts_case(exceeded: Exceeded, case: Case) -> bool:
    """Whether the limit counts, and so holds, actions on such a resource."""
    if exceeded.limit is LimitName.DOLLARS:
        return True
    if exceeded.limit is LimitName.SCHEDULED:
        return is_stopped_by_hours(case)
    if exceeded.limit is LimitName.UNPRICED and not lacks_price(case.resource.kind, case.usd_per_hour):
        return False
    return not is_stopped_by_hours(case) and exceeded.kind in {"", case.resource.kind}
