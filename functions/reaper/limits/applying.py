"""Applies limits and jumps to a plan: what exceeds a limit is on hold, and the holds are recorded before any mail is sent.

A jump of the idle share is more likely a broken signal than an empty office, so what its owners would read might be untrue: no notice of idleness
for two days, then none with a date, and earlier ones lapse.

It also takes out first notices whose mail is about too little money, and notices that wait for the hours of `notices.send`. Actions stay, so this
only takes actions away: without a notice there is none. Nothing is recorded as notified.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING

from reaper import plan
from reaper.calendars import office_hours
from reaper.case import Blocked, Case, is_in_weekly_summary, may_act
from reaper.finding import Finding, Step, View, judged_case, with_notice
from reaper.ledger.ledger import Ledger, write_until_accepted
from reaper.limits import caps, holds
from reaper.limits.caps import PlaceCounts
from reaper.limits.holds import QUIET_FOR, Breaker, HoldRows, KindInTarget, RunScope
from reaper.model import ACTIONS, ENDING_ACTIONS, NOTICES, HoldReason, Mode, State, StepName, Target
from reaper.notices.owner_notice import notice_address
from reaper.plan import stand
from reaper.record import Record, Snooze
from reaper.text import format_usd

if TYPE_CHECKING:
    from reaper.policy.schema import Policy


Known = Mapping[str, View]
"""By resource ID, what the ledger has on it and what protects it, as this run saw it."""


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


def apply_limits(findings: Sequence[Finding], known: Known, swept: Swept, ledger: Ledger) -> tuple[Sequence[Finding], HoldRows]:
    """The findings after limits and jumps, once both are recorded, by version, and the rows with these. Raises CloudError."""
    now, limits = swept.scope.now, swept.policy.limits
    decided = [f for f in findings if f.record_version is not None]
    cases, counts = [judged_case(f) for f in decided], caps.count_places(f.case for f in decided)
    caps.add_counts(counts, swept.others)
    idle: dict[KindInTarget, list[tuple[Case, Snooze]]] = defaultdict(list)
    for f in (f for f in decided if f.case.verdict.state is State.IDLE):
        idle[holds.kind_in_target_of(f.case)].append((f.case, known[f.case.resource.id].snoozes.own))

    def attempt() -> tuple[Sequence[Finding], HoldRows] | None:
        read = holds.read_hold_rows(ledger, swept.targets, now)
        if swept.notices_only:
            after = _after_jumps(findings, known, read.rows)
            return [caps.held_by_jumps(f, read.rows) for f in after], read.rows
        ended = caps.ended_before(cases, chain.from_iterable(read.acted.values()), read.rows)
        scope = replace(swept.scope, acted=read.acted, idle=idle, ended=ended)
        idle_or_ended = caps.with_ended(counts, ended, cases)
        shares = caps.usual_shares(ledger, caps.places_that_may_jump(idle_or_ended, limits, read.rows), read.rows, now)
        rows: HoldRows = caps.rows_with_jumps(idle_or_ended, swept.policy, shares, read.rows, scope)
        after = _after_jumps(findings, known, rows)
        if swept.announces:
            after, rows = caps.hold_over_limits(after, limits, rows, scope, counts)
        rows = holds.with_held_accounts(rows)
        return (after, rows) if not swept.writes or holds.record_rows(ledger, rows, read) else None

    return write_until_accepted(attempt, f"the row {holds.HOLD_ROW!r}")


def held_while_unknown(finding: Finding, because: str, now: datetime, *, acting: bool) -> Finding:
    """The finding if nothing is known of holds and jumps: no action, and no notice of idleness."""
    if finding.step.name in ENDING_ACTIONS:
        return without_action(finding, because)
    view = View(case=finding.case, now=now, record=Record(notice=finding.notice))
    by_hours = acting and plan.follows_hours(view)
    if finding.step.name in NOTICES and not by_hours:
        return _with_no_step(finding, f"no notice is sent, because {because}")
    return finding


def without_action(finding: Finding, because: str) -> Finding:
    """The finding with its action on hold; that of a start is none."""
    held = finding.step.name
    if held is StepName.START:
        return _with_no_step(finding, f"it isn't started, because {because}")
    if held not in ENDING_ACTIONS:
        return finding
    why = HoldReason(because=because)
    return replace(finding, step=Step(name=StepName.HOLD, because=f"on hold, because {because}", held=held, hold_reasons=(why,)))


def after_jumps(finding: Finding, known: View, breakers: Sequence[Breaker]) -> Finding:
    """The finding under these breakers. What office hours decide stays as it is, and so does, in a run that announces nothing, what another run
    has announced. `known`: what the ledger has on it, for this run.

    An action that is due stays, too, while a jump stands: the limits put it on hold.
    """
    case, judged = finding.case, replace(known, case=judged_case(finding))  # some IDs occur more than once in a list
    view = with_notice(replace(known, case=case), finding.notice)
    if not breakers or finding.is_blocked or (known.announces and plan.follows_hours(view)):
        return finding
    jumps = [breaker for breaker in breakers if breaker.since]
    if not jumps:
        again = stand(replace(judged, lapsed=tuple(breaker.lapsed_at for breaker in breakers)))
        return finding if again.notice == finding.notice else again
    if finding.step.name not in {*NOTICES, StepName.NONE} or not may_act(case):
        return finding
    if not known.announces and plan.has_announced_action(view):
        return finding
    latest = max(jump.since for jump in jumps if jump.since)
    protections = jumps[0].protections and f"and {jumps[0].protections}"
    because = f"{jumps[0].because.partition(';')[0]}, {protections or 'which may be a fault in the metrics'}"
    if known.now - latest < QUIET_FOR:
        until = f"{latest + QUIET_FOR:%Y-%m-%d %H:%M} UTC"
        return _with_no_step(finding, f"no notice is sent until {until}, because {because}")
    # A notice that goes out announces neither a stop nor a delete.
    blocked = {
        name: found or (Blocked(because=because) if name in ENDING_ACTIONS else None) for name, found in case.blocked.items()
    }
    is_dated = finding.notice is not None and finding.notice.action is not None
    undated = replace(view, case=replace(judged.case, blocked=blocked))
    return stand(with_notice(undated, None if is_dated else finding.notice))


def _with_no_step(finding: Finding, because: str) -> Finding:
    return replace(finding, step=Step(name=StepName.NONE, because=because))


def _after_jumps(findings: Iterable[Finding], known: Known, rows: HoldRows) -> list[Finding]:
    return [
        f if f.record_version is None else after_jumps(f, known[f.case.resource.id], holds.breakers_over(f.case, rows))
        for f in findings
    ]


def above_floor(findings: list[Finding], policy: Policy, mode: Mode) -> list[Finding]:
    """The findings without the first notices in mails about less than `notify_above` a day. What has no price counts as above it."""
    if policy.notify_above is None:
        return findings
    mails: dict[tuple[str, bool], list[float | None]] = defaultdict(list)
    addresses = [_address(finding, policy, mode) for finding in findings]
    for finding, address in zip(findings, addresses, strict=True):
        if address:
            mails[address].append(finding.case.usd_per_hour)
    below = {to: 24 * sum(usd or 0 for usd in costs) for to, costs in mails.items() if None not in costs}
    floor, currency = policy.notify_above.usd_per_day, policy.prices.shown_in
    after = list(findings)
    for index, (finding, address) in enumerate(zip(findings, addresses, strict=True)):
        if address in below and finding.step.name is StepName.WARN and below[address] < floor:
            worth, least = (format_usd(usd, currency=currency).removesuffix(".00") for usd in (below[address], floor))
            whose = "its owner's notice" if address[1] else "the notice about what has no known owner"
            because = f"below notify_above: {least} a day"
            unsent = _unsent(finding, f"{whose} is worth {worth} a day, {because}", because)
            after[index] = replace(unsent, is_blocked=True)
    return after


def _address(finding: Finding, policy: Policy, mode: Mode) -> tuple[str, bool] | None:
    """Where this run's mail about it would go, and whether that is its owner; None if it is in none."""
    action = finding.step.name
    is_notified = action in ACTIONS and (mode.acts or mode is Mode.AUDIT) and not is_in_weekly_summary(finding.case, action)
    found = notice_address(finding, policy.owners) if is_notified or action in NOTICES else None
    return (found[0].lower(), found[1]) if found else None


def until_sent(finding: Finding, policy: Policy, opens_at: datetime) -> Finding:
    """The finding without a notice that waits until notices go out again."""
    hours = policy.send_hours
    if finding.step.name not in NOTICES or hours is None:
        return finding
    opens = f"{opens_at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    because = f"its notice waits until {opens}, because notices are sent {office_hours.hours_text(hours)} {hours.tz} only"
    return _unsent(finding, because, f"waiting until {opens}")


def _unsent(finding: Finding, because: str, briefly: str) -> Finding:
    held = finding.step.name
    step = Step(name=StepName.NONE, because=because, held=held, hold_reasons=(HoldReason(because=briefly),))
    return replace(finding, step=step)
