"""What is judged and decided: the case of a resource, its step and outcome, and the report that lists them. Frozen data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from reaper.model import Memory, Resource, Result, Role, Rule, Run, Status, StepName, Verdict


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
    """US dollars an hour at list price, with the source and the date of the figure."""

    usd_per_hour: float
    source: str
    as_of: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """An address that a tag or the cloud names as the owner's, but that may not be mailed. For display only."""

    address: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The address to notify and its source; `address` is None if no owner is known.

    `claimed`: the owner that a tag or the cloud names, if no address of the resource's own may be mailed. Nothing is ever sent there.
    """

    address: str | None
    source: str
    claimed: Claim | None = None


NO_OWNER = Owner(address=None, source="no owner was looked for")


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A reading in brief: how many buckets had a point, the last busy one, the highest value, and the level it counts above (None: any value).

    `slots`: at most 56 of six hours each, up to the end of the window; empty if nothing is drawn. Activity: the highest value in
    percent of the peak, 0 if nothing was busy. Heartbeat: 1 if every bucket was live, else 0.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A judged resource. `blocked`: the actions its kind knows, each with what blocks it now, None if nothing does.

    `saves_usd_per_hour`: US dollars an hour that an action would save, if known. `wasted_usd`: its cost while idle. `busy_hours`: the hours
    of use that this look proved and that had ended by then, as bits; bit 0 is the hour that begins at `busy_from`.
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
    busy_from: datetime | None = None
    busy_hours: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What to do now with one resource, and why."""

    name: StepName
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a step: `because` says what was done or why it was refused, `error` what failed. `already_done`: nothing was left to do.

    `begun`: calls were made, or may have been. `part_done`, such as `1 of 2 variants`: the rest is an action of its own. `host_id`: the ID of
    its host, whose action affected it too.
    """

    result: Result
    error: str | None = None
    because: str | None = None
    already_done: bool = False
    begun: bool = False
    part_done: str | None = None
    host_id: str | None = None


PLANNED = Outcome(result=Result.PLANNED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of the report. `memory`: its ledger record; None if none was read or there is none."""

    case: Case
    step: Step
    outcome: Outcome
    owner: Owner
    price: Price | None
    wasted_usd: float | None
    evidence: tuple[Evidence, ...]
    memory: Memory | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """How much of one target and kind was read. `calls` counts API calls by permission name; retries of the SDK are not counted."""

    cloud: str
    account: str
    region: str | None
    kind: str
    status: Status
    account_name: str | None = None
    resources: int = 0
    calls: Mapping[str, int] = field(default_factory=dict)
    missing: str | None = None
    error: str | None = None


UNTIL_RESUMED = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
"""The end of a pause that lasts until a person ends it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """The stop switch is on: until when, which person set it, and when. `unreadable_because`: why it can't be read, and so counts as on."""

    until: datetime = UNTIL_RESUMED
    by: str = ""
    at: datetime | None = None
    unreadable_because: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRun(Run):
    """The facts of a run, for its report. `pause`: the stop switch, if it was on when the run ended."""

    finished_at: datetime
    pause: Pause | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The whole run."""

    run: FinishedRun
    coverage: tuple[Coverage, ...]
    findings: tuple[Finding, ...]
