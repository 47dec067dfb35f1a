"""What is judged and decided: the case of a resource, its step and outcome, and the report that lists them. Frozen data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

from reaper.model import (
    ACTIONS,
    BudgetUse,
    HoldReason,
    NextAction,
    Pause,
    Resource,
    Result,
    Role,
    Rule,
    Run,
    State,
    Status,
    StepName,
    Verdict,
)
from reaper.record import Record, Snooze
from reaper.text import DOLLARS, Currency

if TYPE_CHECKING:
    from reaper.savings.totals import Overview

HOURS_A_MONTH = 730
OWN = "reaper"
"""The cloud of coverage rows about the reaper itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """Why an action can't be carried out on a resource now: a clause that reads after "because".

    `already_done`: the resource already is as the action would leave it. `not_read`: the sweep didn't read enough to know; a person may do it.
    """

    because: str
    already_done: bool = False
    not_read: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """US dollars an hour, with the source and the date of the figure. `own`: the policy's `prices` changed it; else it is a list price."""

    usd_per_hour: float
    source: str
    as_of: str
    own: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """An address that a tag or the cloud names as the owner's, but that may not be mailed. For display only."""

    address: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The address to notify and its source; `address` is None if no owner is known.

    `claimed`: the owner that a tag or the cloud names, if no address of the resource's own may be mailed. Nothing is ever sent there.
    `disowned_by`: the owner that a tag or the cloud names, who said that it isn't theirs.
    """

    address: str | None
    source: str
    claimed: Claim | None = None
    disowned_by: str | None = None


NO_OWNER = Owner(address=None, source="no owner was looked for")


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A reading in brief: how many buckets had a point, the last busy one, the highest value, and the level it counts above (None: any value).

    `slots`: at most 56 of six hours each, up to the end of the window; empty if nothing is drawn. Activity: the highest value in
    percent of the peak, 0 if nothing was busy. Heartbeat: 1 if every bucket was live, else 0. `seen_at`: when an earlier sweep read it.
    """

    signal: str
    subject: str
    role: Role
    points: int
    last_busy: datetime | None
    peak: float | None
    complete: bool
    slots: tuple[int, ...] = ()
    busy_above: float | None = 0.0
    seen_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A judged resource. `blocked`: the actions its kind knows, each with what blocks it now, None if nothing does.

    `saves_usd_per_hour`: US dollars an hour that an action would save, if known. `stop_leaves_cost`: a stop leaves something to pay for.
    `wasted_usd`: its cost while idle. `busy_hours`: the hours of use that this look proved and that had ended by then, as bits; bit 0 is the
    hour that begins at `busy_from`. `excess_usd_per_hour`: what of its cost autoscaling may end without any action.
    """

    resource: Resource
    rule: Rule
    verdict: Verdict
    usd_per_hour: float | None = None
    owner: Owner = NO_OWNER
    price: Price | None = None
    wasted_usd: float | None = None
    evidence: tuple[Evidence, ...] = ()
    blocked: Mapping[StepName, Blocked | None] = field(default_factory=dict)
    saves_usd_per_hour: Mapping[StepName, float] = field(default_factory=dict)
    stop_leaves_cost: bool = False
    busy_from: datetime | None = None
    busy_hours: int = 0
    excess_usd_per_hour: float = 0.0

    @property
    def was_spared(self) -> bool:
        """Whether this run read none of its signals, because it knows a use that an earlier one saw."""
        return any(evidence.seen_at for evidence in self.evidence)

    @property
    def lacks_reply(self) -> bool:
        """Whether a reply was incomplete and showed no use, which leaves unknown what is neither young nor exempt."""
        return self.verdict.state is not State.ACTIVE and not all(evidence.complete for evidence in self.evidence)


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
class Finding:
    """One line of the report. `record`, `snooze`: what the ledger has on it; None if none was read or there is none.

    `next`: what the policy leads to; None if it allows no stop or delete, or the action is done. `could`: the best that its kind could do, whatever
    the policy. Both are None unless it is idle. `host_share`: what of its host's price it accounts for, if known. No total counts it: the host's
    own line does.
    """

    case: Case
    step: Step
    outcome: Outcome
    owner: Owner
    price: Price | None
    wasted_usd: float | None
    evidence: tuple[Evidence, ...]
    record: Record | None = None
    snooze: Snooze | None = None
    next: NextAction | None = None
    could: NextAction | None = None
    host_share: Price | None = None

    @property
    def is_action(self) -> bool:
        """Whether its step is an action, carried out or not."""
        return self.step.name in ACTIONS

    @property
    def is_done(self) -> bool:
        """Whether the reaper itself changed it; a resource that was already stopped or gone doesn't count."""
        return self.is_action and self.outcome.result is Result.DONE and not self.outcome.already_done

    @property
    def saved_usd_per_hour(self) -> float:
        """The dollars an hour that its action saves; nothing yet for a delete that left the resource itself running."""
        if self.outcome.result is not Result.DONE or (self.outcome.part_done and self.step.name is StepName.DELETE):
            return 0.0
        return self.case.saves_usd_per_hour.get(self.step.name, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """How much of one target and kind was read. `calls` counts API calls by permission name, `metrics` the metrics requested of CloudWatch; retries
    of the SDK are not counted.
    """

    cloud: str
    account: str
    region: str | None
    kind: str
    status: Status
    account_name: str | None = None
    resources: int = 0
    calls: Mapping[str, int] = field(default_factory=dict)
    metrics: int = 0
    missing: str | None = None
    error: str | None = None

    @property
    def is_own(self) -> bool:
        """Whether it is about the reaper itself: a channel, an action or the ledger, not a list."""
        return self.cloud == OWN


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
    prices = [f.price.usd_per_hour for f in findings if f.price]
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
        return tuple(f for f in self.settled if f.is_done)

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
        return sorted(idle, key=lambda f: (f.price is None, -(f.price.usd_per_hour if f.price else 0), f.case.resource.name))

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
        actions = [f for f in self.findings if f.is_action]
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
        settled = [f for f in self.idle if f.is_action and f.outcome.result is Result.DONE]
        done = [f for f in settled if f.is_done]
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
                saves_usd_per_hour=round(sum(f.saved_usd_per_hour for f in done), 4),
                already=len(settled) - len(done),
            ),
        )
