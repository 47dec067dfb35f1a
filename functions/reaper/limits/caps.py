"""Too many actions at once means none: caps by count, by share and by money, per account and over the run. Pure.

Caps are of a day, not of a sweep: they count what is due and what runs of the last hours acted on (`acted`). Over a cap, every stop
and delete that it counts is on hold. Where the idle share of a place jumps (`breaker`), so is every one there that no calendar asks
for, and no notice of idleness goes out (`applying`). They wait until a person runs `reaper release` or a later run is under the limit.
Over a cap notices still go out, and starts are never on hold.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from math import floor, inf
from typing import TYPE_CHECKING

from reaper.case import Case, is_stopped_by_hours
from reaper.finding import Finding, Step
from reaper.limits import holds
from reaper.limits.breaker import PlaceCounts
from reaper.limits.holds import (
    ALL_ACCOUNTS,
    RECENT,
    ActedOn,
    Exceeded,
    Hold,
    HoldRow,
    HoldRows,
    LimitName,
    RunScope,
    acted_on,
    without,
)
from reaper.model import ENDING_ACTIONS, HoldReason, State, StepName, Target
from reaper.text import count_noun, format_usd

if TYPE_CHECKING:
    from reaper.policy.schema import Limits

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
