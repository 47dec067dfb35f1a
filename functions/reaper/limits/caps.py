"""Too many actions at once means none, and a jump of the idle share is likelier a broken signal than an empty office: caps per account and over the run,
and the breaker of a place, or of a kind over a run of several places. Pure, but for what it reads and records of usual shares.

Caps are of a day, not of a sweep: they count what is due and what runs of the last hours acted on (`acted`). Over a cap, every stop
and delete that it counts is on hold. Where the idle share of a place jumps, so is every one there that no calendar asks
for, and no notice of idleness goes out (`applying`). They wait until a person runs `reaper release` or a later run is under the limit.
Over a cap notices still go out, and starts are never on hold.

A sweep adds a row for each place that it could read, of which at most half is unknown, and without a jump, there or over the run: what shows
what is usual. However often sweeps run, a day counts once, by its lowest share: a signal that breaks hour by hour is compared with the days
before. With fewer than three days the caps alone protect.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, date, datetime, timedelta
from math import floor, inf
from statistics import median
from typing import TYPE_CHECKING

from reaper.case import Case, Coverage, is_stopped_by_hours
from reaper.finding import Finding, Step
from reaper.ledger.ledger import Ledger, target_from_text
from reaper.ledger.rows import RunStatistics
from reaper.limits import holds
from reaper.limits.holds import (
    ALL_ACCOUNTS,
    RECENT,
    ActedOn,
    Breaker,
    Exceeded,
    Hold,
    HoldRow,
    HoldRows,
    KindInTarget,
    LimitName,
    PlaceCount,
    RunScope,
    Shares,
    Usual,
    acted_on,
    without,
)
from reaper.model import ENDING_ACTIONS, HoldReason, Run, State, StepName, Target
from reaper.policy.rules import effective_rule
from reaper.record import Snooze, snooze_sentence
from reaper.text import count_noun, format_usd

if TYPE_CHECKING:
    from reaper.policy.schema import Limits, Policy

RELEASE_ALL = "--all"
"""The option of `reaper release` that ends the holds of whole runs, too."""


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


def hold_over_limits(
    findings: Sequence[Finding], limits: Limits, rows: HoldRows, scope: RunScope, counts: PlaceCounts
) -> tuple[list[Finding], dict[str, HoldRow]]:
    """The findings, with every stop and delete that a limit or a jump forbids turned into `hold`, and the rows after this run. What a release
    covers counts toward no limit.
    """
    ending = [f for f in findings if f.step.name in ENDING_ACTIONS and f.record_version is not None]
    # By ID: some IDs occur more than once in a list.
    jumped = {f.case.resource.id: _jumps_over(f.case, rows) for f in ending}
    released = {f.case.resource.id for f in ending if holds.is_released(f.case, f.due_at, rows, scope.now)}
    due = [f.case for f in ending if f.case.resource.id not in released and not jumped[f.case.resource.id]]
    after = _rows_after_limits(due, _share_bases(findings, counts, scope), limits, rows, scope)
    over = {(id_ := f.case.resource.id): jumped[id_] or ([] if id_ in released else _holds_over(f.case, after)) for f in ending}
    return [_held(f, over.get(f.case.resource.id, ())) for f in findings], after


def held_by_jumps(finding: Finding, rows: HoldRows) -> Finding:
    """The finding, on hold if the idle share jumped there: for a run that leaves the limits to others."""
    return _held(finding, _jumps_over(finding.case, rows))


def exceeded_by(case: Case, acted: Sequence[ActedOn], limits: Limits) -> str:
    """Why one more stop or delete exceeds a cap of its account, whatever was decided; empty if it doesn't. Shares aside: they are of all resources."""
    caps = _account_caps(limits, case.resource.target)
    return "; ".join(_exceeded_limits(_counted([case]), acted, None, caps).values())


def _rows_after_limits(
    due: Sequence[Case], bases: Mapping[str, Mapping[str, int]], limits: Limits, rows: HoldRows, scope: RunScope
) -> dict[str, HoldRow]:
    """The rows after this run. What an account's limits hold doesn't count toward those of the run: it isn't carried out anyway."""
    by_account: dict[str, list[Case]] = defaultdict(list)
    for case in due:
        by_account[holds.account_key(case.resource.target)].append(case)
    exceeded = {}
    for key, cases in by_account.items():
        caps = _account_caps(limits, cases[0].resource.target)
        exceeded[key] = _exceeded_limits(_counted(cases), scope.acted.get(key, ()), bases[key], caps)
    after = rows_with_holds({key: row for key, row in rows.items() if key != ALL_ACCOUNTS}, exceeded, scope)
    left = [case for case in due if not holds.holds_over(case, after)]
    acted = [each for those in scope.acted.values() for each in those]
    over_run = _exceeded_limits(_counted(left), acted, bases[ALL_ACCOUNTS], _run_caps(limits))
    run_row = {ALL_ACCOUNTS: rows.get(ALL_ACCOUNTS, HoldRow())}
    return {**after, **rows_with_holds(run_row, {ALL_ACCOUNTS: over_run}, scope)}


def _share_bases(findings: Iterable[Finding], counts: PlaceCounts, scope: RunScope) -> dict[str, Counter[str]]:
    """How many resources of each kind a share is of, by account and over the run: those that may be idle, and those acted on that are so no more."""
    bases: dict[str, Counter[str]] = defaultdict(Counter)
    for place, count in counts.items():
        for key in (holds.key_of_place(place), ALL_ACCOUNTS):
            bases[key][place[1]] += count.seen
    known = (f.case for f in findings if f.record_version is not None)
    there = _counted(case for case in known if case.verdict.state not in {State.EXEMPT, State.UNKNOWN})
    for account, acted in scope.acted.items():
        for key in (account, ALL_ACCOUNTS):
            bases[key].update(each.kind for each in without(acted, there) if not each.by_hours)
    return bases


def _counted(cases: Iterable[Case]) -> list[ActedOn]:
    """Each resource once: some occur more than once in a list."""
    return list({case.resource.id: acted_on(case) for case in cases}.values())


def rows_with_holds(rows: HoldRows, exceeded: Mapping[str, Mapping[Exceeded, str]], scope: RunScope) -> dict[str, HoldRow]:
    """The rows with the limits that this run exceeded. A limit that it didn't exceed holds on until a run has read all places of its row."""
    updated = {}
    for key, row in rows.items():
        now_over, before = exceeded.get(key, {}), {hold.exceeded: hold for hold in row.holds}
        stays = [hold for limit, hold in before.items() if limit not in now_over and not row.places <= scope.read_places]
        new = [
            replace(before.get(limit, Hold(exceeded=limit, since=scope.now, run=scope.run, because="")), because=because)
            for limit, because in now_over.items()
        ]
        row = replace(row, holds=(*stays, *new))
        if new:
            row = holds.with_places(row, {p for p in scope.read_places if key in {ALL_ACCOUNTS, holds.key_of_place(p)}})
        elif not row.holds and not (key == ALL_ACCOUNTS and row.jumps):
            row = replace(row, reads=())
        updated[key] = row
    return updated


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
        where=" in all accounts",
        max_acts=cap("max_acts"),
        max_share=cap("max_share"),
        max_usd_per_hour=cap("max_usd_per_hour"),
        prefix="run.",
    )


def account_text(cloud: str, account: str, name: str | None = None) -> str:
    """`account 123456789012 (ml-prod)`."""
    return f"{'subscription' if cloud == 'azure' else 'account'} {account}{f' ({name})' if name and name != account else ''}"


def _exceeded_limits(
    due: Sequence[ActedOn], acted: Sequence[ActedOn], bases: Mapping[str, int] | None, caps: _Caps
) -> dict[Exceeded, str]:
    """The caps that what is `due` exceeds, together with what was `acted` on in the last hours, each with the reason.

    Each resource counts once. `bases`: how many resources of each kind a share is of; None: no share counts.
    """
    # Without a price nothing counts where the policy sets a cost cap, but for stops by office hours.
    priced = [e for e in due if e.by_hours or not caps.needs_price or not holds.lacks_price(e.kind, e.usd_per_hour)]
    unpriced = f"its price is unknown, and the policy sets max_usd_per_hour: {caps.max_usd_per_hour:g}"
    counted = [*priced, *without(acted, priced)]
    calendar, ordinary = [e for e in counted if e.by_hours], [e for e in counted if not e.by_hours]
    reasons = {
        Exceeded(limit=LimitName.ACTIONS): _over_count(ordinary, "max_acts", caps.max_acts, caps),
        Exceeded(limit=LimitName.SCHEDULED): _over_count(calendar, "max_scheduled", caps.max_scheduled, caps),
        Exceeded(limit=LimitName.DOLLARS): _over_cost(counted, acted, caps),
        Exceeded(limit=LimitName.UNPRICED): unpriced if len(priced) < len(due) else "",
        **(_over_shares(ordinary, bases, caps) if bases is not None else {}),
    }
    return {exceeded: because for exceeded, because in reasons.items() if because}


def _due_in(counted: Sequence[ActedOn]) -> int:
    return sum(each.started is None for each in counted)


def _both(counted: Sequence[ActedOn]) -> str:
    """Both numbers, if earlier runs acted, too."""
    due = _due_in(counted)
    return f" ({due} due, {len(counted) - due} in {RECENT})" if due < len(counted) else ""


def _over_count(counted: Sequence[ActedOn], key: str, most: float, caps: _Caps) -> str:
    if not _due_in(counted) or len(counted) <= most:
        return ""
    verb = "exceeds" if len(counted) == 1 else "exceed"
    return f"{count_noun(len(counted), 'action')}{caps.where}{_both(counted)} {verb} {caps.prefix}{key}: {most}"


def _over_cost(counted: Sequence[ActedOn], acted: Sequence[ActedOn], caps: _Caps) -> str:
    costs: dict[str, float] = defaultdict(float)
    for each in (*counted, *acted):
        costs[each.digest] = max(costs[each.digest], each.usd_per_hour or 0.0)
    if not _due_in(counted) or sum(costs.values()) <= caps.max_usd_per_hour:
        return ""
    whose = f"the cost of {count_noun(len(counted), 'action')}{caps.where}{_both(counted)}, {format_usd(sum(costs.values()), 2)} an hour"
    return f"{whose}, exceeds {caps.prefix}max_usd_per_hour: {caps.max_usd_per_hour:g}"


def _over_shares(counted: Sequence[ActedOn], bases: Mapping[str, int], caps: _Caps) -> dict[Exceeded, str]:
    """Kinds of which too large a share would be stopped. One resource is always allowed, or small fleets could never be cleaned up."""
    reasons: dict[Exceeded, list[str]] = defaultdict(list)
    for kind in {each.kind for each in counted}:
        own, base = [each for each in counted if each.kind == kind], bases.get(kind, 0)
        if _due_in(own) and len(own) > max(1 if caps.max_share else 0, floor(caps.max_share * base + 1e-9)):
            exceeds = f"exceed {caps.prefix}max_share: {caps.max_share:.0%}"
            because = f"{len(own)} of {base} {kind} resources{caps.where}{_both(own)} {exceeds}"
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


def _held(finding: Finding, why: Sequence[HoldReason]) -> Finding:
    step = finding.step
    if not why or step.name not in ENDING_ACTIONS:
        return finding
    times = sorted({reason.since for reason in why if reason.since})
    since = f"{times[0].astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    reasons = "; ".join(dict.fromkeys(reason.because for reason in why))
    options = max((reason.release for reason in why), key=RELEASE_ALL.__eq__)
    held = Step(
        name=StepName.HOLD,
        because=f"would {step.name}, but is on hold since {since}: {reasons}. Run `reaper release {options}` to allow it{why[0].after}",
        held=step.name,
        hold_reasons=tuple(dict.fromkeys(why)),
    )
    return replace(finding, step=held, on_hold_since=tuple(times))


MIN_FOR_JUMP = 3
"""This many more idle resources are never a jump, however small the fleet. A jump needs as many earlier days to compare with."""
USUAL_DAYS = 10
"""So many of the newest days show what is usual."""
MAX_ROWS = 1000
"""The most rows of a place that are read: three weeks of a sweep every half-hour."""
RECENTLY = timedelta(hours=48)
"""A jump names the protections that ended so shortly before it."""
PlaceCounts = Mapping[KindInTarget, PlaceCount]


def rows_with_jumps(counts: PlaceCounts, policy: Policy, shares: Shares, rows: HoldRows, scope: RunScope) -> dict[str, HoldRow]:
    """The rows with the places, and the kinds over the whole run, in which many more resources are idle than in earlier days."""
    sound = places_with_known_share(counts, scope.read_places)
    after_places = _rows_with_breakers(rows, idle_jumps(counts, policy.limits, shares), sound, policy, scope)
    jumping = {breaker.place for row in after_places.values() for breaker in row.jumps}
    over_run, run_counts = _shares_over_run(counts, shares, jumping), counts_over_run(counts, jumping)
    sudden = idle_jumps(run_counts, policy.limits, over_run, " in this run")
    return _rows_with_breakers(after_places, sudden, places_with_known_share(run_counts, run_counts), policy, scope)


def count_places(cases: Iterable[Case]) -> dict[KindInTarget, PlaceCount]:
    """How many resources there are by place: see `PlaceCount`."""
    counted: dict[KindInTarget, list[Case]] = defaultdict(list)
    for case in cases:
        is_left_out = is_stopped_by_hours(case) or case.verdict.state is State.EXEMPT
        counted[holds.kind_in_target_of(case)] += [] if is_left_out else [case]
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


def ended_before(cases: Iterable[Case], acted: Iterable[ActedOn], rows: HoldRows) -> tuple[ActedOn, ...]:
    """What runs ended in the last hours, or before a jump that still stands: not what office hours asked for, was judged since, or is protected."""
    stood = (each for row in rows.values() for jump in row.jumps for each in jump.acted)
    there = {
        acted_on(case).digest
        for case in cases
        if case.verdict.state in {State.IDLE, State.ACTIVE}
        or is_stopped_by_hours(case)
        or (case.rule.protected_because and not case.rule.in_doubt)  # a protection in doubt, as by an unknown price, is none
    }
    left = {each.digest: each for each in (*stood, *acted) if not each.by_hours and each.digest not in there}
    return tuple(left.values())


def with_ended(counts: PlaceCounts, ended: Iterable[ActedOn], cases: Iterable[Case]) -> PlaceCounts:
    """The counts of the places that were read with what runs ended there: a fast schedule may never see as much idle at once.

    Among the `cases` is what was scaled in, and is young since: it is counted already.
    """
    sums, listed = dict(counts), {acted_on(case).digest for case in cases if case.verdict.state is State.YOUNG}
    for each in ended:
        if (place := (each.target, each.kind)) in counts:
            add_counts(sums, {place: PlaceCount(total=each.digest not in listed, idle=1, acted=1)})
    return sums


def counts_over_run(counts: PlaceCounts, jumping: Collection[KindInTarget] = ()) -> dict[KindInTarget, PlaceCount]:
    """Each kind over the run, if it has several places, without those in `jumping`: their own breaker holds them."""
    sums: dict[KindInTarget, PlaceCount] = {}
    places: Counter[KindInTarget] = Counter()
    for place, count in counts.items():
        if place not in jumping:
            places[holds.run_place(place)] += 1
            add_counts(sums, {holds.run_place(place): count})
    return {place: count for place, count in sums.items() if places[place] > 1}


def _shares_over_run(counts: PlaceCounts, shares: Shares, jumping: Collection[KindInTarget]) -> Shares:
    """What is usual of each kind over the run: the sum of what is usual in each of its places, as large as these are now.

    A place of which too few days are known adds what it shows now, and so no jump.
    """
    sums: dict[KindInTarget, list[tuple[int, float, float]]] = defaultdict(list)
    for place, count in counts.items():
        usual = shares.get(place) or Usual(share=count.idle / max(1, count.seen), idle=count.idle)
        if place not in jumping:
            sums[holds.run_place(place)].append((count.seen, usual.share * count.seen, min(usual.idle, count.seen)))
    totals = {place: [sum(column) for column in zip(*each, strict=True)] for place, each in sums.items()}
    return {place: Usual(share=share / max(1, seen), idle=idle) for place, (seen, share, idle) in totals.items()}


def idle_jumps(counts: PlaceCounts, limits: Limits, shares: Shares, where: str = "") -> dict[KindInTarget, str]:
    """The places where many more resources are idle than in earlier days, with the reason."""
    jumps = {}
    for place, now in counts.items():
        usual = shares.get(place)
        if usual and now.idle > usual.idle + MIN_FOR_JUMP and now.idle / now.seen > usual.share + limits.max_jump:
            what = f"{place[1]} resources{where} are idle{' or were acted on' if now.acted else ''}"
            jumps[place] = f"{now.idle} of {now.seen} {what}, up from {usual.share:.0%}; max_jump is {limits.max_jump:.0%}"
    return jumps


def places_that_may_jump(counts: PlaceCounts, limits: Limits, rows: HoldRows) -> list[KindInTarget]:
    """The places in which so many resources are idle, there or over the run, that it may be a jump, whatever was usual."""
    standing = {breaker.place for row in rows.values() for breaker in row.jumps}
    sums = [*counts.items(), *counts_over_run(counts).items(), *counts_over_run(counts, standing).items()]
    high = {place for place, n in sums if n.idle > MIN_FOR_JUMP and n.idle / n.seen > limits.max_jump}
    return [place for place in counts if not high.isdisjoint({place, holds.run_place(place)})]


def places_with_known_share(counts: PlaceCounts, read: Iterable[KindInTarget]) -> frozenset[KindInTarget]:
    """The places that were read and at most half of which is unknown or would be if asked about: their idle share means something."""
    counted = ((place, counts.get(place, PlaceCount())) for place in read)
    return frozenset(place for place, count in counted if 2 * count.in_doubt <= count.total)


def usual_shares(ledger: Ledger, places: Iterable[KindInTarget], rows: HoldRows, now: datetime) -> Shares:
    """What is usual in these places since the last release of a jump there, or of their kind over a run. Raises CloudError."""
    since = {b.place: b.usual_since for row in rows.values() for b in row.breakers if b.usual_since}
    shares = {}
    for place in places:
        begin = max(since.get(each, holds.LONG_AGO) for each in (place, holds.run_place(place)))
        known = ledger.statistics(target_from_text(place[0]), place[1], MAX_ROWS)
        if usual := usual_share((row for row in known if row.started > begin), now):
            shares[place] = usual
    return shares


def usual_share(rows: Iterable[RunStatistics], now: datetime) -> Usual | None:
    """What is usual by the newest days before today, however old; None if too few are known."""
    days: dict[date, list[RunStatistics]] = defaultdict(list)
    for row in rows:
        if row.seen and (day := row.started.astimezone(UTC).date()) < now.astimezone(UTC).date():
            days[day].append(row)
    newest = [days[day] for day in sorted(days, reverse=True)[:USUAL_DAYS]]
    if len(newest) < MIN_FOR_JUMP:
        return None
    lowest = median(min(row.idle / row.seen for row in day) for day in newest)
    return Usual(share=lowest, idle=median(min(row.idle for row in day) for day in newest))


def record_statistics(
    ledger: Ledger, run: Run, cases: Sequence[Case], coverage: Sequence[Coverage], unusual: Collection[KindInTarget]
) -> None:
    """Record a row for each place whose `cases` show what is usual, except the `unusual` ones. Raises CloudError."""
    counts = count_places(cases)
    known = places_with_known_share(counts, holds.read_places(coverage))
    for place in sorted(place for place in known & counts.keys() if {place, holds.run_place(place)}.isdisjoint(unusual)):
        if seen := counts[place].seen:
            target, idle = target_from_text(place[0]), counts[place].idle
            row = RunStatistics(run=run.id, target=target, kind=place[1], started=run.started_at, seen=seen, idle=idle)
            ledger.record_statistics(row)


def _rows_with_breakers(
    rows: HoldRows, jumped: Mapping[KindInTarget, str], sound: Collection[KindInTarget], policy: Policy, scope: RunScope
) -> dict[str, HoldRow]:
    """The rows with the jumps of this run. `sound`: the places that show their share: a jump there that isn't in `jumped` any more is over."""
    updated = dict(rows)
    for key, row in rows.items():
        known = {breaker.place: breaker for breaker in row.breakers}
        for place, because in jumped.items():
            if holds.key_of_place(place) == key:
                known[place] = _tripped(known.get(place, Breaker(target=place[0], kind=place[1])), because, policy, scope)
        for place, breaker in known.items():
            reads = {p for p in row.places if holds.run_place(p) == place} if key == holds.ALL_ACCOUNTS else {place}
            if breaker.since and place not in jumped and place in sound and reads <= scope.read_places:
                known[place] = holds.ended_breaker(breaker, scope.now)
        updated[key] = replace(row, breakers=tuple(known.values()))
        if key == holds.ALL_ACCOUNTS and jumped.keys() & known.keys():
            kinds = {kind for place, kind in jumped if (place, kind) in known}
            updated[key] = holds.with_places(updated[key], {p for p in scope.read_places if p[1] in kinds})
    return updated


def _tripped(breaker: Breaker, because: str, policy: Policy, scope: RunScope) -> Breaker:
    """The breaker while there is a jump. If protections ended shortly before it, its reason counts them: `8 of them were accepted until 26 Nov`."""
    since = breaker.since or scope.now
    cases = (each for p, there in scope.idle.items() if breaker.place in {p, holds.run_place(p)} for each in there)
    idle = [each for each in cases if not is_stopped_by_hours(each[0])]
    ends = Counter(filter(None, (_protected_until(*each, policy, since - RECENTLY) for each in idle)))
    protections = "; ".join(f"{n} of them {'was' if n == 1 else 'were'} {text}" for text, n in ends.most_common(3))
    because = f"{because}; {protections}" if protections else because
    acted = tuple(a for a in scope.ended if breaker.place in {(place := (a.target, a.kind)), holds.run_place(place)})
    return replace(breaker, because=because, since=since, run=breaker.run or scope.run, protections=protections, acted=acted)


def _protected_until(case: Case, snooze: Snooze, policy: Policy, then: datetime) -> str | None:
    """How and until which day an idle resource was protected `then`, as far as its tags, the policy and its snooze say."""
    because = effective_rule(policy, case.resource, case.usd_per_hour, then).protected_because or ""
    if snooze.until and snooze.until > then:
        because = snooze_sentence(snooze)
    found = re.search(r"(accepted|kept by tag|snoozed) until (\d{4}-\d\d-\d\d)", because)
    return f"{found[1]} until {(day := date.fromisoformat(found[2])).day} {day:%b}" if found else None
