"""Applies limits and jumps to a plan: what exceeds a limit is on hold, and the holds are recorded before any mail is sent.

A jump of the idle share is more likely a broken signal than an empty office, so what its owners would read might be untrue: no notice of idleness
for two days, then none with a date, and earlier ones lapse.

It also takes out first notices whose mail is about too little money, and notices that wait for the hours of `notices.send`. Actions stay, so this
only takes actions away: without a notice there is none. Nothing is recorded as notified.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING

from reaper import limits, plan
from reaper.case import Blocked, Case, Step
from reaper.handover import Decision
from reaper.ledger.ledger import Ledger, write_until_accepted
from reaper.model import ACTIONS, ENDING_ACTIONS, NOTICES, HoldReason, Mode, State, StepName, Target
from reaper.notices.owner_notice import notice_address
from reaper.pending import holds
from reaper.pending.holds import QUIET_FOR, Breaker, HoldRows, KindInTarget, RunScope
from reaper.planning import breaker, possible_actions
from reaper.planning.breaker import PlaceCounts
from reaper.planning.possible_actions import is_in_weekly_summary
from reaper.planning.valid_notice import without_void_notice
from reaper.policy import office_hours, send_window
from reaper.record import NO_RECORD, NO_SNOOZES, Record, Snooze, Snoozes
from reaper.report.run_report import finding_of
from reaper.text import format_usd

if TYPE_CHECKING:
    from reaper.policy.schema import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A decision and what it is based on. `is_blocked`: an interrupted action, or a first notice that isn't sent, blocks
    whatever the plan leads to.
    """

    decision: Decision
    record: Record = NO_RECORD
    snoozes: Snoozes = NO_SNOOZES
    is_blocked: bool = False

    @property
    def is_known(self) -> bool:
        """Whether its record could be read, so that something about it may be written."""
        return self.decision.record_version is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """What limits need to know of a run besides its plan. `others`: the counts of what needs no decision. `targets`: those it is about.

    `notices_only`: the run leaves limits and holds to others; where the idle share jumped, what is due is on hold.
    """

    scope: RunScope
    others: PlaceCounts
    targets: Collection[Target]
    policy: Policy
    announces: bool
    writes: bool
    notices_only: bool


def apply_limits(planned: Sequence[Planned], swept: Swept, ledger: Ledger) -> tuple[Sequence[Planned], HoldRows]:
    """The plan after limits and jumps, once both are recorded, by version, and the rows with these. Raises CloudError."""
    now, caps = swept.scope.now, swept.policy.limits
    known = [each.decision.case for each in planned if each.is_known]
    counts = breaker.count_places(each.decision.reported_case for each in planned if each.is_known)
    breaker.add_counts(counts, swept.others)
    idle: dict[KindInTarget, list[tuple[Case, Snooze]]] = defaultdict(list)
    for each in (each for each in planned if each.is_known and each.decision.verdict.state is State.IDLE):
        idle[holds.kind_in_target_of(each.decision.case)].append((each.decision.case, each.snoozes.own))

    def attempt() -> tuple[Sequence[Planned], HoldRows] | None:
        read = holds.read_hold_rows(ledger, swept.targets, now)
        if swept.notices_only:
            after = _after_jumps(planned, read.rows, swept)
            return [_with_step(each, limits.step_under_jumps(each.decision, read.rows)) for each in after], read.rows
        ended = breaker.ended_before(known, chain.from_iterable(read.acted.values()), read.rows)
        scope = replace(swept.scope, acted=read.acted, idle=idle, ended=ended)
        idle_or_ended = breaker.with_ended(counts, ended, known)
        shares = breaker.usual_shares(ledger, breaker.places_that_may_jump(idle_or_ended, caps, read.rows), read.rows, now)
        rows: HoldRows = breaker.rows_with_jumps(idle_or_ended, swept.policy, shares, read.rows, scope)
        after = _after_jumps(planned, rows, swept)
        if swept.announces:
            after, rows = _after_caps(after, rows, counts, replace(swept, scope=scope))
        rows = holds.with_held_accounts(rows)
        return (after, rows) if not swept.writes or holds.record_rows(ledger, rows, read) else None

    return write_until_accepted(attempt, f"the row {holds.HOLD_ROW!r}")


def without_step(planned: Planned, because: str, now: datetime, *, acting: bool) -> Planned:
    """The decision if nothing is known of holds and jumps: no action, and no notice of idleness."""
    decision = planned.decision
    if decision.step.name in ENDING_ACTIONS:
        return without_action(planned, because)
    by_hours = acting and plan.follows_hours(decision.reported_case, planned.record.notice, now)
    if decision.step.name in NOTICES and not by_hours:
        return _with_step(planned, Step(name=StepName.NONE, because=f"no notice is sent, because {because}"))
    return planned


def without_action(planned: Planned, because: str) -> Planned:
    """The decision with its action on hold; that of a start is none."""
    held = planned.decision.step.name
    if held is StepName.START:
        return _with_step(planned, Step(name=StepName.NONE, because=f"it isn't started, because {because}"))
    if held not in ENDING_ACTIONS:
        return planned
    why = HoldReason(because=because)
    return _with_step(planned, Step(name=StepName.HOLD, because=f"on hold, because {because}", held=held, hold_reasons=(why,)))


def after_jumps(planned: Planned, breakers: Sequence[Breaker], now: datetime, *, acting: bool) -> Planned:
    """The decision under these breakers, and the record it is based on. What office hours decide stays as it is, and so does, in a run that isn't
    `acting`, what another run has announced.

    An action that is due stays, too, while a jump stands: the limits put it on hold.
    """
    decision, record = planned.decision, planned.record
    if not breakers or not planned.is_known or planned.is_blocked:
        return planned
    if acting and plan.follows_hours(decision.reported_case, record.notice, now):
        return planned
    jumps = [breaker for breaker in breakers if breaker.since]
    if not jumps:
        ends = [breaker.lapsed_at for breaker in breakers]
        valid = without_void_notice(decision.reported_case, record, planned.snoozes, now, announces=acting, lapsed=ends)
        return planned if valid == record else _planned_again(planned, valid, now, acting)
    if decision.step.name not in {*NOTICES, StepName.NONE} or not possible_actions.may_act(decision.reported_case):
        return planned
    if not acting and plan.has_announced_action(decision.reported_case, record, now):
        return planned
    latest = max(jump.since for jump in jumps if jump.since)
    protections = jumps[0].protections and f"and {jumps[0].protections}"
    because = f"{jumps[0].because.partition(';')[0]}, {protections or 'which may be a fault in the metrics'}"
    if now - latest < QUIET_FOR:
        until = f"{latest + QUIET_FOR:%Y-%m-%d %H:%M} UTC"
        return _with_step(planned, Step(name=StepName.NONE, because=f"no notice is sent until {until}, because {because}"))
    # A notice that goes out announces neither a stop nor a delete.
    blocked = {
        name: found or (Blocked(because=because) if name in ENDING_ACTIONS else None)
        for name, found in decision.case.blocked.items()
    }
    undated = replace(planned, decision=replace(decision, case=replace(decision.case, blocked=blocked)))
    valid = replace(record, notice=None) if record.notice and record.notice.action is not None else record
    return _planned_again(undated, valid, now, acting)


def _with_step(planned: Planned, step: Step, on_hold_since: Iterable[datetime] = ()) -> Planned:
    return replace(planned, decision=replace(planned.decision, step=step, on_hold_since=tuple(sorted(on_hold_since))))


def _after_jumps(planned: Iterable[Planned], rows: HoldRows, swept: Swept) -> list[Planned]:
    return [
        after_jumps(each, holds.breakers_over(each.decision.case, rows), swept.scope.now, acting=swept.announces)
        for each in planned
    ]


def _after_caps(planned: Sequence[Planned], rows: HoldRows, counts: PlaceCounts, swept: Swept) -> tuple[list[Planned], HoldRows]:
    known = [each for each in planned if each.is_known]
    cases = [(each.decision.reported_case, each.decision.step) for each in known]
    records = {each.decision.case.resource.id: each.record for each in known}
    steps, rows, since = limits.hold_over_limits(cases, records, swept.policy.limits, rows, swept.scope, counts)
    remaining, after = iter(steps), list(planned)
    for index, each in enumerate(planned):
        if each.is_known and (step := next(remaining)).name is StepName.HOLD:
            after[index] = _with_step(each, step, since.get(each.decision.case.resource.id, ()))
    return after, rows


def _planned_again(planned: Planned, record: Record, now: datetime, acting: bool) -> Planned:
    step = plan.plan_step(planned.decision.reported_case, record, planned.snoozes, now, acting=acting)
    return replace(planned, decision=replace(planned.decision, step=step), record=record)


def above_floor(planned: list[Planned], policy: Policy, mode: Mode) -> list[Planned]:
    """The plan without the first notices in mails about less than `notify_above` a day. What has no price counts as above it."""
    if policy.notify_above is None:
        return planned
    mails: dict[tuple[str, bool], list[float | None]] = defaultdict(list)
    addresses = [_address(each.decision, policy, mode) for each in planned]
    for each, address in zip(planned, addresses, strict=True):
        if address:
            mails[address].append(each.decision.case.usd_per_hour)
    below = {to: 24 * sum(usd or 0 for usd in costs) for to, costs in mails.items() if None not in costs}
    floor, currency = policy.notify_above.usd_per_day, policy.prices.shown_in
    after = list(planned)
    for index, (each, address) in enumerate(zip(planned, addresses, strict=True)):
        if address in below and each.decision.step.name is StepName.WARN and below[address] < floor:
            worth, least = (format_usd(usd, currency=currency).removesuffix(".00") for usd in (below[address], floor))
            whose = "its owner's notice" if address[1] else "the notice about what has no known owner"
            because = f"below notify_above: {least} a day"
            after[index] = replace(_unsent(each, f"{whose} is worth {worth} a day, {because}", because), is_blocked=True)
    return after


def _address(decision: Decision, policy: Policy, mode: Mode) -> tuple[str, bool] | None:
    """Where this run's mail about it would go, and whether that is its owner; None if it is in none."""
    case, step = decision.reported_case, decision.step
    is_told = step.name in ACTIONS and (mode.acts or mode is Mode.AUDIT) and not is_in_weekly_summary(case, step.name)
    found = notice_address(finding_of(case, step, decision.outcome), policy.owners) if is_told or step.name in NOTICES else None
    return (found[0].lower(), found[1]) if found else None


def until_sent(planned: Planned, policy: Policy, opens_at: datetime) -> Planned:
    """The plan of one resource without a notice that waits until notices go out again."""
    hours = send_window.send_hours(policy)
    if planned.decision.step.name not in NOTICES or hours is None:
        return planned
    opens = f"{opens_at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    because = f"its notice waits until {opens}, because notices are sent {office_hours.hours_text(hours)} {hours.tz} only"
    return _unsent(planned, because, f"waiting until {opens}")


def _unsent(planned: Planned, because: str, briefly: str) -> Planned:
    held = planned.decision.step.name
    step = Step(name=StepName.NONE, because=because, held=held, hold_reasons=(HoldReason(because=briefly),))
    return replace(planned, decision=replace(planned.decision, step=step))
