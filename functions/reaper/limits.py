"""Too many actions at once means none: caps by count, by share and by money, per account and over the run, and a breaker. Pure.

Over a cap, every stop and delete that it counts is on hold. Where the idle share of a place jumps, so is every one there that no calendar asks
for, and no notice of idleness goes out (`planning.holding`). They wait until a person runs `reaper release` or a later run is under the limit.
Over a cap notices still go out, and starts are never on hold.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from math import floor, inf
from statistics import median
from typing import TYPE_CHECKING

from reaper.case import Case, Step
from reaper.model import ENDING_ACTIONS, HoldReason, Memory, State, StepName, Target
from reaper.pending import holds
from reaper.pending.holds import (
    ALL_ACCOUNTS,
    Breaker,
    Exceeded,
    Hold,
    HoldRow,
    HoldRows,
    IdleShare,
    KindInTarget,
    LimitName,
    PlaceCount,
    RunScope,
    Shares,
)
from reaper.planning.possible_actions import is_stopped_by_hours
from reaper.text import format_usd

if TYPE_CHECKING:
    from reaper.policy.schema import Limits

RELEASE_ALL = "--all"
"""The option of `reaper release` that ends the holds of whole runs, too."""
MIN_FOR_JUMP = 3
"""This many more idle resources are never a jump, however small the fleet. A jump needs as many earlier sweeps to compare with."""


PlaceCounts = Mapping[KindInTarget, PlaceCount]


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitedSteps:
    """One step for each case, in the same order, and the hold rows after this run.

    `since`: when each hold over a resource began, by resource ID.
    """

    steps: list[Step]
    rows: dict[str, HoldRow]
    since: Mapping[str, frozenset[datetime]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Caps:
    """The caps of an account, or of the whole run. `where` and `prefix` name it and its keys in reasons. `has_kinds`: a share holds its own
    kind only. `needs_price`: what has no price is on hold.
    """

    where: str
    max_acts: float
    max_share: float
    max_usd_per_hour: float
    max_scheduled: float = inf
    prefix: str = ""
    has_kinds: bool = False
    needs_price: bool = False


PlannedCases = Sequence[tuple[Case, Step]]


def rows_with_jumps(counts: PlaceCounts, limits: Limits, shares: Shares, rows: HoldRows, scope: RunScope) -> dict[str, HoldRow]:
    """The rows with the places, and the kinds over the whole run, in which many more resources are idle than in earlier runs."""
    sound = places_with_known_share(counts, scope.read_places)
    after_places = _rows_with_breakers(rows, idle_jumps(counts, limits, shares), sound, scope)
    jumping = {breaker.place for row in after_places.values() for breaker in row.jumps}
    run_counts = counts_over_run(counts, jumping)
    sudden = idle_jumps(run_counts, limits, shares, " in this run")
    return _rows_with_breakers(after_places, sudden, places_with_known_share(run_counts, run_counts), scope)


def hold_over_limits(
    planned: PlannedCases,
    memories: Mapping[str, Memory],
    limits: Limits,
    rows: HoldRows,
    scope: RunScope,
    counts: PlaceCounts,
) -> LimitedSteps:
    """The steps, with every stop and delete that a limit or a jump forbids turned into `hold`. What a release covers counts toward no limit."""
    ending = [case for case, step in planned if step.name in ENDING_ACTIONS]
    # By ID: some IDs occur more than once in a list.
    jumped = {case.resource.id: _jumps_over(case, rows) for case in ending}
    released = {c.resource.id for c in ending if holds.is_released(c, memories.get(c.resource.id, Memory()), rows, scope.now)}
    due = [case for case in ending if case.resource.id not in released and not jumped[case.resource.id]]
    after = _rows_after_limits(due, counts, limits, rows, scope)
    over = {
        case.resource.id: jumped[case.resource.id] or ([] if case.resource.id in released else _holds_over(case, after))
        for case in ending
    }
    return LimitedSteps(
        steps=[_held_step(step, case, over.get(case.resource.id, ())) for case, step in planned],
        rows=after,
        since={
            resource_id: frozenset(why.since for why in reasons if why.since) for resource_id, reasons in over.items() if reasons
        },
    )


def step_under_jumps(step: Step, case: Case, rows: HoldRows) -> Step:
    """The step, on hold if the idle share jumped there: for a run that leaves the limits to others."""
    return _held_step(step, case, _jumps_over(case, rows))


def count_places(cases: Iterable[Case]) -> dict[KindInTarget, PlaceCount]:
    """How many resources there are by place, without those that office hours stop."""
    counted: dict[KindInTarget, list[Case]] = defaultdict(list)
    for case in cases:
        counted[holds.kind_in_target_of(case)] += [] if is_stopped_by_hours(case) else [case]
    return {
        place: PlaceCount(
            total=len(there), unknown=sum(case.verdict.state is State.UNKNOWN for case in there), spared=sum(case.was_spared for case in there),
            idle=sum(case.verdict.state is State.IDLE for case in there), unanswered=sum(case.lacks_reply for case in there),
            asked=sum(bool(case.evidence) and not case.was_spared for case in there),
        )
        for place, there in counted.items()
    }  # fmt: skip


def add_counts(sums: dict[KindInTarget, PlaceCount], more: PlaceCounts) -> None:
    """Add `more` to the sums, place by place: a run over an organization has thousands of places, and each part only a few."""
    for place, count in more.items():
        before = sums.get(place, PlaceCount())
        sums[place] = PlaceCount(**{f.name: getattr(before, f.name) + getattr(count, f.name) for f in fields(PlaceCount)})


def counts_over_run(counts: PlaceCounts, jumping: Collection[KindInTarget] = ()) -> dict[KindInTarget, PlaceCount]:
    """Each kind over the run, if it has several places, without those in `jumping`: their own breaker holds them."""
    sums: dict[KindInTarget, PlaceCount] = {}
    places: dict[KindInTarget, int] = defaultdict(int)
    for place, count in counts.items():
        if place not in jumping:
            places[holds.run_place(place)] += 1
            add_counts(sums, {holds.run_place(place): count})
    return {place: count for place, count in sums.items() if places[place] > 1}


def idle_jumps(counts: PlaceCounts, limits: Limits, shares: Shares, where: str = "") -> dict[KindInTarget, str]:
    """The places where many more resources are idle than in earlier runs, with the reason. A broken signal is likelier than an empty office."""
    jumps = {
        place: _jump_because(f"{place[1]} resources{where}", idle_share(count), shares.get(place, ()), limits)
        for place, count in counts.items()
    }
    return {place: because for place, because in jumps.items() if because}


def places_that_may_jump(counts: PlaceCounts) -> list[KindInTarget]:
    """The places, and the kinds over the run, with so many idle resources that it may be a jump, whatever was usual."""
    return [place for each in (counts, counts_over_run(counts)) for place, n in each.items() if n.idle > MIN_FOR_JUMP]


def idle_share(count: PlaceCount) -> IdleShare:
    """The idle share of one place, without its unknown resources."""
    return IdleShare(seen=count.total - count.in_doubt, idle=count.idle)


def places_with_known_share(counts: PlaceCounts, read: Iterable[KindInTarget]) -> frozenset[KindInTarget]:
    """The places that were read and at most half of which is unknown or would be if asked about: their idle share means something."""
    counted = ((place, counts.get(place, PlaceCount())) for place in read)
    return frozenset(place for place, count in counted if 2 * count.in_doubt <= count.total)


def _jump_because(subject: str, now: IdleShare, shares: Sequence[IdleShare], limits: Limits) -> str | None:
    before = [share for share in shares if share.seen]
    if len(before) < MIN_FOR_JUMP or not now.seen:
        return None
    usual, count = median(share.idle / share.seen for share in before), median(share.idle for share in before)
    if now.idle - count <= MIN_FOR_JUMP or now.idle / now.seen - usual <= limits.max_jump:
        return None
    return f"{now.idle} of {now.seen} {subject} are idle, up from {usual:.0%}; max_jump is {limits.max_jump:.0%}"


def _rows_after_limits(
    due: Sequence[Case], counts: PlaceCounts, limits: Limits, rows: HoldRows, scope: RunScope
) -> dict[str, HoldRow]:
    """The rows after this run. What an account's limits hold doesn't count toward those of the run: it isn't carried out anyway."""
    by_account: dict[str, list[Case]] = defaultdict(list)
    for case in due:
        by_account[holds.account_key(case.resource.target)].append(case)
    totals: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for (target, kind), count in counts.items():
        for key in (holds.key_of_place((target, kind)), ALL_ACCOUNTS):
            totals[key][kind] += count.total
    exceeded = {
        key: _exceeded_limits(cases, totals[key], _account_caps(limits, cases[0].resource.target))
        for key, cases in by_account.items()
    }
    after = rows_with_holds({key: row for key, row in rows.items() if key != ALL_ACCOUNTS}, exceeded, scope)
    left = [case for case in due if not holds.holds_over(case, after)]
    over_run = _exceeded_limits(left, totals[ALL_ACCOUNTS], _run_caps(limits))
    run_row = {ALL_ACCOUNTS: rows.get(ALL_ACCOUNTS, HoldRow())}
    return {**after, **rows_with_holds(run_row, {ALL_ACCOUNTS: over_run}, scope)}


def _rows_with_breakers(
    rows: HoldRows, jumped: Mapping[KindInTarget, str], sound: Collection[KindInTarget], scope: RunScope
) -> dict[str, HoldRow]:
    """The rows with the jumps of this run. `sound`: the places that show their share: a jump there that isn't in `jumped` any more is over."""
    updated = dict(rows)
    for key, row in rows.items():
        known = {breaker.place: breaker for breaker in row.breakers}
        for place, because in jumped.items():
            if holds.key_of_place(place) == key:
                before = known.get(place, Breaker(target=place[0], kind=place[1]))
                known[place] = replace(before, because=because, since=before.since or scope.now, run=before.run or scope.run)
        for place, breaker in known.items():
            if breaker.since and place not in jumped and place in sound and _read_kind(row, place, scope):
                known[place] = holds.ended_breaker(breaker, scope.now)
        updated[key] = replace(row, breakers=tuple(known.values()))
        if key == ALL_ACCOUNTS and jumped.keys() & known.keys():
            kinds = {kind for place, kind in jumped if (place, kind) in known}
            updated[key] = _with_places(updated[key], {p for p in scope.read_places if p[1] in kinds})
    return updated


def rows_with_holds(rows: HoldRows, exceeded: Mapping[str, Mapping[Exceeded, str]], scope: RunScope) -> dict[str, HoldRow]:
    """The rows with the limits that this run exceeded. A limit that it didn't exceed holds on until a run has read all places of its row."""
    updated = {}
    for key, row in rows.items():
        now_over, before = exceeded.get(key, {}), {hold.exceeded: hold for hold in row.holds}
        stays = [hold for limit, hold in before.items() if limit not in now_over and not row.places <= scope.read_places]
        new = [_new_hold(limit, because, before.get(limit), scope) for limit, because in now_over.items()]
        row = replace(row, holds=(*stays, *new))
        if new:
            row = _with_places(row, {p for p in scope.read_places if key in {ALL_ACCOUNTS, holds.key_of_place(p)}})
        elif not row.holds and not (key == ALL_ACCOUNTS and row.jumps):
            row = replace(row, reads=())
        updated[key] = row
    return updated


def _new_hold(limit: Exceeded, because: str, earlier: Hold | None, scope: RunScope) -> Hold:
    if earlier:
        return replace(earlier, because=because)
    return Hold(exceeded=limit, since=scope.now, run=scope.run, because=because)


def _read_kind(row: HoldRow, place: KindInTarget, scope: RunScope) -> bool:
    """Whether the run read the place; for a kind over whole runs, every place of that kind which the row names."""
    if holds.key_of_place(place) != ALL_ACCOUNTS:
        return place in scope.read_places
    return {p for p in row.places if holds.run_place(p) == place} <= scope.read_places


def _with_places(row: HoldRow, more: Collection[KindInTarget]) -> HoldRow:
    """The row with these places added. Targets that have the same kinds are written together: there may be thousands."""
    kinds_by_target: dict[str, set[str]] = defaultdict(set)
    for target, kind in row.places | set(more):
        kinds_by_target[target].add(kind)
    targets: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for target, kinds in sorted(kinds_by_target.items()):
        targets[tuple(sorted(kinds))].append(target)
    return replace(row, reads=tuple((kinds, tuple(names)) for kinds, names in sorted(targets.items())))


def _account_caps(limits: Limits, target: Target) -> _Caps:
    return _Caps(
        where=f" in {account_text(target.cloud, target.account, target.account_name)}",
        max_acts=limits.max_acts,
        max_share=limits.max_share,
        max_usd_per_hour=limits.max_usd_per_hour,
        max_scheduled=limits.max_scheduled,
        has_kinds=True,
        needs_price="max_usd_per_hour" in limits.model_fields_set,
    )


def _run_caps(limits: Limits) -> _Caps:
    """The caps over the run. One that the policy doesn't set is never below that of an account."""
    run = limits.run

    def cap(key: str) -> float:
        own: float = getattr(run, key)
        return own if key in run.model_fields_set else max(own, getattr(limits, key))

    return _Caps(
        where=" in this run",
        max_acts=cap("max_acts"),
        max_share=cap("max_share"),
        max_usd_per_hour=cap("max_usd_per_hour"),
        prefix="run.",
    )


def account_text(cloud: str, account: str, name: str | None = None) -> str:
    """`account 123456789012 (ml-prod)`."""
    return f"{'subscription' if cloud == 'azure' else 'account'} {account}{f' ({name})' if name and name != account else ''}"


def _exceeded_limits(due: Sequence[Case], totals: Mapping[str, int], caps: _Caps) -> dict[Exceeded, str]:
    """The caps that the actions on `due` exceed, each with the reason. `totals`: how many resources there are of each kind."""
    unpriced = [case for case in due if _lacks_required_price(case, caps)]
    others = [case for case in due if not _lacks_required_price(case, caps)]
    calendar, ordinary = [c for c in others if is_stopped_by_hours(c)], [c for c in others if not is_stopped_by_hours(c)]
    usd = sum(case.usd_per_hour for case in others if case.usd_per_hour is not None)
    reasons = {
        Exceeded(limit=LimitName.ACTIONS): _over_count(len(ordinary), "max_acts", caps.max_acts, caps),
        Exceeded(limit=LimitName.SCHEDULED): _over_count(len(calendar), "max_scheduled", caps.max_scheduled, caps),
        Exceeded(limit=LimitName.DOLLARS): _over_cost(len(others), usd, caps),
        Exceeded(limit=LimitName.UNPRICED): (
            f"its price is unknown, and the policy sets max_usd_per_hour: {caps.max_usd_per_hour:g}" if unpriced else ""
        ),
        **_over_shares(ordinary, totals, caps),
    }
    return {exceeded: because for exceeded, because in reasons.items() if because}


def _lacks_required_price(case: Case, caps: _Caps) -> bool:
    """Whether its price is unknown and the policy sets a cost cap. Never for stops by office hours."""
    return caps.needs_price and holds.lacks_price(case) and not is_stopped_by_hours(case)


def _over_count(count: int, key: str, most: float, caps: _Caps) -> str:
    if count <= most:
        return ""
    return f"{count} action{'' if count == 1 else 's'}{caps.where} exceed{'s' if count == 1 else ''} {caps.prefix}{key}: {most}"


def _over_cost(count: int, usd: float, caps: _Caps) -> str:
    if usd <= caps.max_usd_per_hour:
        return ""
    whose = f"the cost of {count} action{'' if count == 1 else 's'}{caps.where}"
    return f"{whose}, {format_usd(usd, 2)} an hour, exceeds {caps.prefix}max_usd_per_hour: {caps.max_usd_per_hour:g}"


def _over_shares(due: Sequence[Case], totals: Mapping[str, int], caps: _Caps) -> dict[Exceeded, str]:
    """Kinds of which too large a share would be stopped. One resource is always allowed, or small fleets could never be cleaned up."""
    reasons: dict[Exceeded, list[str]] = defaultdict(list)
    for kind, count in Counter(case.resource.kind for case in due).items():
        total = totals.get(kind, 0)
        if count > max(1 if caps.max_share else 0, floor(caps.max_share * total + 1e-9)):
            because = f"{count} of {total} {kind} resources{caps.where} exceed {caps.prefix}max_share: {caps.max_share:.0%}"
            reasons[Exceeded(limit=LimitName.SHARE, kind=kind if caps.has_kinds else "")].append(because)
    return {exceeded: "; ".join(sorted(texts)) for exceeded, texts in reasons.items()}


def _jumps_over(case: Case, rows: HoldRows) -> list[HoldReason]:
    """The jumps over an action. No calendar's action is on hold because of one, and no release of that action helps."""
    if is_stopped_by_hours(case):
        return []
    after = "; its owner then gets a new notice first"
    jumps = (breaker for breaker in holds.breakers_over(case, rows) if breaker.since)
    return [
        HoldReason(because=b.because, since=b.since, release=_release_options(holds.key_of_place(b.place), case), after=after)
        for b in jumps
    ]


def _holds_over(case: Case, rows: HoldRows) -> list[HoldReason]:
    return [
        HoldReason(because=hold.because, since=hold.since, release=_release_options(key, case))
        for key, hold in holds.holds_over(case, rows)
    ]


def _release_options(key: str, case: Case) -> str:
    """The options of `reaper release` that end what the row with that key holds."""
    return RELEASE_ALL if key == ALL_ACCOUNTS else f"--account {case.resource.target.account}"


def _held_step(step: Step, case: Case, why: Sequence[HoldReason]) -> Step:
    if not why or step.name not in ENDING_ACTIONS:
        return step
    since = f"{min(reason.since for reason in why if reason.since).astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    reasons = "; ".join(dict.fromkeys(reason.because for reason in why))
    options = max((reason.release for reason in why), key=RELEASE_ALL.__eq__)
    return Step(
        name=StepName.HOLD,
        because=f"would {step.name}, but is on hold since {since}: {reasons}. Run `reaper release {options}` to allow it{why[0].after}",
        held=step.name,
        hold_reasons=tuple(dict.fromkeys(why)),
    )
