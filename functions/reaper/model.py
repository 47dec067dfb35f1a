"""The nouns of the product as frozen data. No I/O, no clock, no decisions: those are in `evidence`, `judge` and `plan`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any


class State(StrEnum):
    """What a verdict can say. Only `idle` can lead to an action."""

    ACTIVE = "active"
    IDLE = "idle"
    YOUNG = "young"
    EXEMPT = "exempt"
    UNKNOWN = "unknown"


class Confidence(StrEnum):
    """`proven`: silent while the heartbeat was alive. `likely`: indirect evidence only; leads to notices only, unless a rule says `act_on: likely`."""

    PROVEN = "proven"
    LIKELY = "likely"


class Role(StrEnum):
    """What a signal is good for."""

    ACTIVITY = "activity"
    HEARTBEAT = "heartbeat"


class Mode(StrEnum):
    """What a run may do. `audit` only reports. `notify` also notifies owners. `announce` also names the dates of actions, which only `reaper apply`
    carries out. `enforce` also acts.
    """

    AUDIT = "audit"
    NOTIFY = "notify"
    ANNOUNCE = "announce"
    ENFORCE = "enforce"

    @property
    def writes(self) -> bool:
        """Whether it notifies owners and remembers that: it needs a ledger and a channel."""
        return self is not Mode.AUDIT

    @property
    def announces(self) -> bool:
        """Whether notices carry the date of an action."""
        return self not in {Mode.AUDIT, Mode.NOTIFY}

    @property
    def acts(self) -> bool:
        """Whether it carries out what it announced. No other mode loads the acting code."""
        return self is Mode.ENFORCE


class Ceiling(StrEnum):
    """The ceiling a policy sets for a resource, gentlest first."""

    IGNORE = "ignore"
    NOTIFY = "notify"
    STOP = "stop"
    DELETE = "delete"

    @property
    def rank(self) -> int:
        """0 for `ignore` up to 3 for `delete`."""
        return list(Ceiling).index(self)


class StepName(StrEnum):
    """What a step asks for."""

    NONE = "none"
    WARN = "warn"
    REMIND = "remind"
    STOP = "stop"
    DELETE = "delete"
    START = "start"
    HOLD = "hold"


ENDING_ACTIONS = frozenset({StepName.STOP, StepName.DELETE})
ACTIONS = ENDING_ACTIONS | {StepName.START}
"""The steps that change something in a cloud; the first two of them end a cost."""
NOTICES = frozenset({StepName.WARN, StepName.REMIND})
"""The steps that send a mail and change nothing."""


class AnnouncedAction(StrEnum):
    """What a notice said would happen. `hours`: an enrolment notice, after which office hours are kept day by day."""

    STOP = "stop"
    DELETE = "delete"
    HOURS = "hours"


class Result(StrEnum):
    """The result of a step."""

    PLANNED = "planned"
    DONE = "done"
    REFUSED = "refused"
    FAILED = "failed"


class Status(StrEnum):
    """How much of one target and kind was read."""

    OK = "ok"
    PARTIAL = "partial"
    DENIED = "denied"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One place to sweep: an AWS account and region, or an Azure subscription (region None: its resources name their own).

    `account_name` is for people, if the cloud gives one. It may change, so it isn't part of the target's identity.
    """

    cloud: str
    account: str
    region: str | None = None
    account_name: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class BilledPart:
    """Something with a price of its own: `count` units of `instance` billed under `component`, a key of the price snapshot."""

    component: str
    instance: str
    count: float = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One thing in a cloud. `tags` None: they couldn't be read. `parts` None: what it runs is unknown.

    `details`: what only its kind needs, an instance of `Kind.details`; None until the kind has read it. `host_id`: the ID of the resource
    it lives in. `contained`: what lives inside and would go with it. `fingerprint`: what the resource is like, if its kind has no time of
    change. `stop_by`: how its rule wants it stopped. `unread_because`: the part of its listing that couldn't be read; it proves nothing then.
    """

    kind: str
    id: str
    name: str
    target: Target
    region: str
    created: datetime | None
    changed: datetime | None = None
    status: str = ""
    size: str = ""
    parts: tuple[BilledPart, ...] | None = None
    tags: Mapping[str, str] | None = field(default_factory=dict)
    people: Mapping[str, str] = field(default_factory=dict)
    details: Any = None
    host_id: str | None = None
    contained: tuple[Resource, ...] = ()
    fingerprint: str | None = None
    stop_by: str = "stop"
    unread_because: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentSince:
    """Since when one resource must have been silent to count as idle.

    `under_some_rule`: silence since then is enough under some rule that may apply to it. `under_every_rule`: it is enough under each of them.
    They differ only if a rule asks for a price or a size that is still unknown.
    """

    under_some_rule: datetime
    under_every_rule: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedDescription:
    """What a sweep stores of a resource for later ones, valid only while the resource has this `revision`.

    `body`: what never changes, as JSON. `parts` and `size`: what it ran at `described_at`; they may save a closer look, but never decide a
    verdict. `described_at` is the clock of the run that wrote it, None until then.
    """

    revision: str
    described_at: datetime | None = None
    body: Mapping[str, Any] = field(default_factory=dict)
    parts: tuple[BilledPart, ...] | None = None
    size: str = ""


def nothing_cached(ids: Iterable[str]) -> Mapping[str, CachedDescription]:
    """An empty cache."""
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The time range over which signals are read, and by resource ID how long each must have been silent.

    What was busy, created or changed after `RecentSince.under_some_rule` needs no closer look: no rule calls it idle. `recent_since` is that
    time for resources that aren't in `recent_since_by_id`. `reads_in_full`: the first look, too, reads the whole range. `read_cached(ids)`
    has what earlier sweeps stored.
    """

    start: datetime
    end: datetime
    recent_since: datetime
    recent_since_by_id: Mapping[str, RecentSince] = field(default_factory=dict)
    reads_in_full: bool = False
    read_cached: Callable[[Iterable[str]], Mapping[str, CachedDescription]] = nothing_cached


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Evenly spaced buckets, the first at `start`. A bucket without a point is NaN; `values` is empty if none has one.

    `end`: nothing after it was read, so the last bucket may be cut short there; None if all are whole.
    """

    start: datetime
    step: timedelta
    values: Sequence[float] = ()
    end: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one signal showed. `subject` is the part it is about (a variant), empty for the whole resource. `event_at` is for single events."""

    signal: str
    role: Role
    subject: str = ""
    series: Series | None = None
    event_at: datetime | None = None
    busy_above: float = 0.0
    complete: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class IndirectEvidence:
    """Indirect evidence that nothing happened since `since`; enough for a `likely` verdict at most."""

    since: datetime
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """An observed resource with its readings, and what the control plane itself says about it (each a clause for people).

    `in_use_because`: it is working right now. `free_because`: it costs nothing while idle. `changing_because`: it is being created or changed.
    `unknown_because`: why nothing can be proven. `is_gone`: it was deleted since it was listed, or an outdated list still named it.
    `to_cache`: what later sweeps need not read again.
    """

    resource: Resource
    readings: tuple[Reading, ...] = ()
    indirect_evidence: IndirectEvidence | None = None
    in_use_because: str | None = None
    free_because: str | None = None
    changing_because: str | None = None
    unknown_because: str | None = None
    is_gone: bool = False
    to_cache: CachedDescription | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hours:
    """Office hours: on these weekdays (Monday 0) from `start` to `end`, minutes after midnight, in the IANA zone `tz`.

    `restart`: which resources are started when they begin, `ours` or `all`. `force`: busy resources are stopped too. `override`: how long a
    manual start outside them is respected. `by_rule`: the policy's rule asks for them. Otherwise only the resource's own tag does: they
    protect it inside office hours, and neither shorten nor force anything.
    """

    days: frozenset[int]
    start: int
    end: int
    tz: str
    restart: str = "ours"
    force: bool = False
    override: timedelta = timedelta(hours=4)
    by_rule: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What the policy and the resource's own tags say for this resource now. `protected_because` is the reason to leave it alone.

    `snooze_max` is the longest snooze that one use of its snooze link can ask for, in whole days.
    """

    name: str
    action: Ceiling
    idle_after: timedelta
    grace: timedelta
    remind_every: timedelta
    snooze_max: timedelta = timedelta(days=30)
    act_on: Confidence = Confidence.PROVEN
    stop_by: str = "stop"
    hours: Hours | None = None
    protected_because: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The state of a resource; `idle_for` and `confidence` only when idle. `because` is one sentence for a person."""

    state: State
    because: str
    idle_for: timedelta | None = None
    last_busy: datetime | None = None
    confidence: Confidence | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """The ledger record of a resource. `version` counts its writes, 0 before the first: a conditional write names the version it read.

    `idle_since` is the start of the current idle period, `last_seen_idle_at` when a sweep last saw it idle: if the proof reaches back to that
    moment, it is still the same period. `notice_receipt` is the last notice's, `notified_owner` its recipient, and `notified_fingerprint` the
    resource's `fingerprint` then. `announced_action` is the action in the last warning, `act_not_before` the earliest time for it.
    `enrolment_digest` is the digest of what an enrolment notice named. `held_at` is read from older ledgers only. `snoozed_at` is when the
    owner snoozed it.

    The intent of the last action: `last_action`, `last_action_at`, `last_action_run` and `manifest_address`, all written before its first
    call. `last_action_result` and `last_action_because`: its result, None while that is unknown. `last_action_part`: the part it did if it
    left something (`1 of 2 variants`). `last_action_told_at`: when its owner was notified of the result.
    """

    idle_since: datetime | None = None
    last_seen_idle_at: datetime | None = None
    warned_at: datetime | None = None
    notice_receipt: str | None = None
    notified_owner: str | None = None
    notified_fingerprint: str | None = None
    reminded_at: datetime | None = None
    announced_action: AnnouncedAction | None = None
    act_not_before: datetime | None = None
    enrolment_digest: str | None = None
    held_at: datetime | None = None
    snoozed_until: datetime | None = None
    snoozed_at: datetime | None = None
    snoozed_by: str | None = None
    snooze_reason: str | None = None
    last_action: StepName | None = None
    last_action_at: datetime | None = None
    manifest_address: str | None = None
    last_action_run: str | None = None
    last_action_result: Result | None = None
    last_action_because: str | None = None
    last_action_part: str | None = None
    last_action_told_at: datetime | None = None
    version: int = 0


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

    `saves_usd_per_hour`: US dollars an hour that an action would save, if known. `wasted_usd`: its cost while idle.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The facts of one run, known before it begins."""

    id: str
    started_at: datetime
    mode: Mode
    version: str
    policy_sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRun(Run):
    """The facts of a run, for its report."""

    finished_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The whole run."""

    run: FinishedRun
    coverage: tuple[Coverage, ...]
    findings: tuple[Finding, ...]
