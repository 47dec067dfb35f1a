"""Where each resource stands: what to do with it now, what came of that, and the report that lists them. Frozen data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from reaper.case import Case, Coverage, Price
from reaper.model import ACTIONS, BudgetUse, HoldReason, NextAction, Pause, Result, Run, State, Status, StepName, Time, Verdict
from reaper.record import NO_RECORD, NO_SNOOZES, Notice, Protections, Record, Snooze, Snoozes
from reaper.text import DOLLARS, Currency

if TYPE_CHECKING:
    from reaper.savings.totals import Overview


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One resource at one moment, as planning sees it: a case at the time `now`, with its record and its snoozes. Without `announces` its run
    plans and announces no action.

    `lapsed`: when jumps of the idle share ended in its place. `interrupted`: why it may only be started: an action on it may be half done.
    """

    case: Case
    now: datetime
    record: Record = NO_RECORD
    snoozes: Snoozes = NO_SNOOZES
    announces: bool = True
    lapsed: tuple[datetime | None, ...] = ()
    interrupted: str | None = None


def with_notice(view: View, notice: Notice | None) -> View:
    """The view if that had been the last notice."""
    return replace(view, record=replace(view.record, notice=notice))


HOURS_A_MONTH = 730
OTHER_RUN = "another sweep is processing this target"
"""Why a run leaves a resource alone that another one has leased."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What to do now with one resource, and why. `held`: the action on hold, or the notice that isn't sent, and each reason in brief."""

    name: StepName
    because: str
    held: StepName | None = None
    hold_reasons: tuple[HoldReason, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a step: `because` says what was done or why it was refused, `error` what failed. `already_done`: nothing was left to do.

    `begun`: calls were made, or may have been. `excess_usd_per_hour`: what of its saving autoscaling may have ended anyway; None if the
    re-check doesn't say. `part_done`, such as `1 of 2 variants`: the rest is an action of its own.
    """

    result: Result
    error: str | None = None
    because: str | None = None
    already_done: bool = False
    begun: bool = False
    part_done: str | None = None
    excess_usd_per_hour: float | None = None


PLANNED = Outcome(result=Result.PLANNED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """What a message about a resource says will be done, and not before when.

    `by_hours`: the message is about its office hours as such; `at` is when they begin to count. `forced_at`: when they stop it today although it
    is in use. `then_at`: when `then` deletes what that stop leaves, at the earliest.
    """

    action: StepName
    at: Time
    by_hours: bool = False
    forced_at: Time | None = None
    then_at: Time | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Where one resource stands, and what this run does about it: a line of the report. Fields only; `planning.standing` computes them.

    `case` has the verdict to report; `judged` is that of the evidence, if it differs: while it is snoozed, or soon after a call of the reaper's.
    `idle_since`, `idle_for` and `wasted_usd` are those of its whole idle period, as far as the ledger knows it; None unless it is idle.
    `notice`: the last one, if it counts. `due_at`: when the action falls due that it announced. `announced`: what a message of this run about it
    announces, if actions are announced. `rest_at`: when the rest of its action follows if only a part of it is done; `delete_at`: when `then`
    deletes what it leaves. Both are the earliest times, and None if nothing follows.

    `record_version`: the version of its record when this was decided; None if nothing about it may be written. `snoozes`: what protected it then.
    `is_blocked`: an interrupted action, or a first notice that isn't sent, blocks whatever the plan leads to. `needs_summary`: its weekly summary
    of office hours is due. `on_hold_since`: since when the holds over it stand.

    `next`: what the policy leads to; None if it allows no stop or delete, or the action is done. `could`: the best that its kind could do, whatever
    the policy. Both are None unless it is idle. `host_share`: what of its host's price it accounts for, if known. No total counts it: the host's
    own line does. `record`, `snooze`: what the ledger has on it; None if none was read or there is none.
    """

    case: Case
    step: Step
    outcome: Outcome = PLANNED
    judged: Verdict | None = None
    idle_since: Time | None = None
    idle_for: timedelta | None = None
    wasted_usd: float | None = None
    notice: Notice | None = None
    due_at: Time | None = None
    announced: Announcement | None = None
    rest_at: Time | None = None
    delete_at: Time | None = None
    record_version: int | None = None
    snoozes: Protections = ()
    is_blocked: bool = False
    needs_summary: bool = False
    on_hold_since: tuple[Time, ...] = ()
    next: NextAction | None = None
    could: NextAction | None = None
    host_share: Price | None = None
    record: Record | None = None
    snooze: Snooze | None = None


def finding_of(case: Case, because: str, now: datetime) -> Finding:
    """The finding about a case that nothing is decided about, for that reason; `now`: when that was clear."""
    idle_for = case.verdict.idle_for
    return Finding(
        case=case,
        step=Step(name=StepName.NONE, because=because),
        idle_since=now - idle_for if idle_for else None,
        idle_for=idle_for,
        wasted_usd=wasted_usd(case, idle_for),
    )


def wasted_usd(case: Case, idle_for: timedelta | None) -> float | None:
    """What it cost in that time at its price of today; None if either is unknown."""
    usd = case.usd_per_hour
    return round(usd * (idle_for / timedelta(hours=1)), 2) if usd is not None and idle_for else None


def left_alone(finding: Finding, because: str) -> Finding:
    """The finding without a step, for that reason."""
    return replace(finding, step=Step(name=StepName.NONE, because=because), outcome=PLANNED)


def is_action(finding: Finding) -> bool:
    """Whether its step is an action, carried out or not."""
    return finding.step.name in ACTIONS


def is_done(finding: Finding) -> bool:
    """Whether the reaper itself changed it; a resource that was already stopped or gone doesn't count."""
    return is_action(finding) and finding.outcome.result is Result.DONE and not finding.outcome.already_done


def follow_up(finding: Finding) -> tuple[StepName, datetime] | None:
    """What follows its action, now that it is done, and from when on: the rest of it, or a delete by `then`. None if nothing does."""
    if finding.outcome.result is not Result.DONE:
        return None
    if finding.outcome.part_done is not None:
        return (finding.step.name, finding.rest_at) if finding.rest_at else None
    return (StepName.DELETE, finding.delete_at) if finding.delete_at else None


def can_be_kept(finding: Finding) -> bool:
    """Whether its owner can still keep it: it wasn't acted on, or something follows."""
    return not is_action(finding) or follow_up(finding) is not None


def saved_usd_per_hour(finding: Finding) -> float:
    """The dollars an hour that its action saves; nothing yet for a delete that left the resource itself running."""
    outcome, action = finding.outcome, finding.step.name
    if outcome.result is not Result.DONE or (outcome.part_done and action is StepName.DELETE):
        return 0.0
    return finding.case.saves_usd_per_hour.get(action, 0.0)


def judged_case(finding: Finding) -> Case:
    """Its case with the verdict of the evidence."""
    return replace(finding.case, verdict=finding.judged) if finding.judged else finding.case


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRun(Run):
    """The facts of a run, for its report. `pause`: the stop switch, if it was on when the run ended. `report_tags`: the policy's `report.tags`.

    `currency`: what people read money in. `budgets`: with what was idle. `acceptances`: notes, and whether one ends. `gb_seconds`: billed, if known.
    """

    finished_at: datetime
    pause: Pause | None = None
    report_tags: tuple[str, ...] = ()
    currency: Currency = DOLLARS
    budgets: tuple[BudgetUse, ...] = ()
    acceptances: Mapping[str, bool] = field(default_factory=dict)
    gb_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Money:
    """What some resources cost; `unpriced` of `count` have no price, and never count as zero dollars."""

    count: int
    unpriced: int
    usd_per_hour: float
    wasted_usd: float


def money_of(findings: Iterable[Finding]) -> Money:
    """What these cost together."""
    findings = list(findings)
    prices = [f.case.price.usd_per_hour for f in findings if f.case.price]
    return Money(
        count=len(findings),
        unpriced=len(findings) - len(prices),
        usd_per_hour=sum(prices),
        wasted_usd=sum(f.wasted_usd or 0 for f in findings),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Actions:
    """The actions of a run, in the report's order. `settled`: done, or found to be done already. `lost`: refused or failed."""

    on_hold: tuple[Finding, ...]
    planned: tuple[Finding, ...]
    settled: tuple[Finding, ...]
    lost: tuple[Finding, ...]

    @property
    def done(self) -> tuple[Finding, ...]:
        """What the reaper itself did."""
        return tuple(f for f in self.settled if is_done(f))

    @property
    def failed(self) -> tuple[Finding, ...]:
        """Those that failed, or may have. An action that was refused because the resource had changed isn't a failure."""
        return tuple(f for f in self.lost if f.outcome.result is Result.FAILED)

    @property
    def refused(self) -> tuple[Finding, ...]:
        """Those that were due and weren't carried out, because something had changed or couldn't be read again."""
        return tuple(f for f in self.lost if f.outcome.result is Result.REFUSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActedOn:
    """How many idle resources this run acted on, what they cost an hour, what of that it saved, and how many were `already` stopped or gone."""

    count: int = 0
    usd_per_hour: float = 0.0
    saves_usd_per_hour: float = 0.0
    already: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """`by_state` has every state, also empty ones. Dollars are those of idle resources with a price.

    Resources that were acted on were idle when they were judged, and count as idle; `acted` says how many they are.
    """

    resources: int
    by_state: dict[str, int]
    idle_usd_per_hour: float
    idle_usd_per_month: float
    wasted_usd: float
    unpriced_idle: int
    calls: int
    acted: ActedOn


@dataclass(frozen=True, kw_only=True)
class Report:
    """The whole run. What follows from its lines is computed once, for every format: what is idle, gaps, actions and money.

    `savings`: None if there is no ledger or it can't be read.
    """

    run: FinishedRun
    coverage: tuple[Coverage, ...]
    findings: tuple[Finding, ...]
    savings: Overview | None = None

    @cached_property
    def idle(self) -> list[Finding]:
        """The idle resources, most expensive first, those without a price last."""
        idle = [f for f in self.findings if f.case.verdict.state is State.IDLE]
        return sorted(
            idle, key=lambda f: (f.case.price is None, -(f.case.price.usd_per_hour if f.case.price else 0), f.case.resource.name)
        )

    @cached_property
    def unknown(self) -> list[Finding]:
        """The resources about which nothing could be proven, by name."""
        return sorted((f for f in self.findings if f.case.verdict.state is State.UNKNOWN), key=lambda f: f.case.resource.name)

    @cached_property
    def cloud_rows(self) -> list[Coverage]:
        """The rows about clouds: a target and kind each, without those about the reaper itself."""
        return [row for row in self.coverage if not row.is_own]

    @cached_property
    def gaps(self) -> list[Coverage]:
        """The rows about clouds that are incomplete."""
        return [row for row in self.cloud_rows if row.status is not Status.OK]

    @cached_property
    def own_failures(self) -> list[Coverage]:
        """What failed in the reaper itself: channels, actions, notices, the ledger."""
        return [row for row in self.coverage if row.is_own and row.status is not Status.OK]

    @property
    def is_complete(self) -> bool:
        """Whether coverage is complete and nothing failed in the reaper itself."""
        return not self.gaps and not self.own_failures

    @cached_property
    def actions(self) -> Actions:
        """The actions by result."""
        actions = [f for f in self.findings if is_action(f)]
        return Actions(
            on_hold=tuple(f for f in self.findings if f.step.name is StepName.HOLD),
            planned=tuple(f for f in actions if f.outcome.result is Result.PLANNED),
            settled=tuple(f for f in actions if f.outcome.result is Result.DONE),
            lost=tuple(f for f in actions if f.outcome.result in {Result.REFUSED, Result.FAILED}),
        )

    @cached_property
    def totals(self) -> Totals:
        """The sums of the report."""
        states, money = Counter(f.case.verdict.state for f in self.findings), money_of(self.idle)
        settled = [f for f in self.idle if is_action(f) and f.outcome.result is Result.DONE]
        done = [f for f in settled if is_done(f)]
        return Totals(
            resources=len(self.findings),
            by_state={state.value: states[state] for state in State},
            idle_usd_per_hour=round(money.usd_per_hour, 4),
            idle_usd_per_month=round(money.usd_per_hour * HOURS_A_MONTH, 2),
            wasted_usd=round(money.wasted_usd, 2),
            unpriced_idle=money.unpriced,
            calls=sum(sum(row.calls.values()) for row in self.coverage),
            acted=ActedOn(
                count=len(done),
                usd_per_hour=round(money_of(settled).usd_per_hour, 4),
                saves_usd_per_hour=round(sum(saved_usd_per_hour(f) for f in done), 4),
                already=len(settled) - len(done),
            ),
        )
