"""The nouns of the product as frozen data. No I/O, no clock, no decisions: those are in `evidence`, `judge` and `plan`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from reaper.calendars.terms import BusinessDays, Freeze, Hours


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
PROTECTING_TAGS = frozenset({"reaper:action", "reaper:keep-until"})
"""Tags of what a resource lives in that stay beside its own, under their key with a blank after it, which the policy ignores: it takes what
protects more. Not `reaper:keep`, which `reaper:keep: false` lifts.
"""


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

    `account_name` is for people, if the cloud gives one. `blocked_because`: why nothing in it may be changed now. Both may change, so they
    aren't part of the target's identity.
    """

    cloud: str
    account: str
    region: str | None = None
    account_name: str | None = field(default=None, compare=False)
    blocked_because: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """One AWS account with the regions to sweep there, or one Azure subscription.

    `regions`: names, or `all` for those that the account has enabled. `is_own`: reached with the process's own credentials, else through the
    target role. `may_act` False: it may be read and must not be changed. `is_management`: the management account of its organization, where
    stack sets create no role.
    """

    cloud: str
    id: str
    name: str | None = None
    regions: tuple[str, ...] = ()
    is_own: bool = True
    may_act: bool = True
    is_management: bool = False


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
    it lives in, `host_share`: the part of the host's cost that is its own, from 0 to 1. `fingerprint`: what the resource is like, if its kind has no time of
    change, or hosts others. `stop_by`: how its rule wants it stopped. `unread_because`: the part of its listing that couldn't be read; it proves nothing then.
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
    host_share: float | None = None
    fingerprint: str | None = None
    stop_by: str = "stop"
    unread_because: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What the policy and the resource's own tags say for this resource now. `protected_because` is the reason to leave it alone.

    `snooze_max` is the longest snooze that one use of its snooze link can ask for, in whole days. `only_notices`: the policy allows an
    action, but its `enforce_only` leaves this resource out; or in doubt, no rule that may apply allows one. `delete_after`: how long after a stop, or if a stop can do nothing, it is deleted
    (`then`). `business_days`: the grace in business days; `grace` is then their least length. `freezes`: those near the run. `waits_because`:
    a calendar can't be read, so no action may be made. `protection_ended_at`: when the last protection by a tag or an acceptance, its own or its
    host's, ended. `in_doubt`: an unknown price or size may have made the rule gentler than it is.
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
    only_notices: bool = False
    delete_after: timedelta | None = None
    business_days: BusinessDays | None = None
    freezes: tuple[Freeze, ...] = ()
    waits_because: str | None = None
    protection_ended_at: datetime | None = None
    in_doubt: bool = False
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
class SideChange:
    """A number that an action changes beside its main call, such as an autoscaling minimum: what it was and what the reaper set.

    `what` names it for the resource's kind, which alone can read it.
    """

    what: str
    before: int
    ours: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestReference:
    """Where a manifest is stored, and the SHA-256 of its bytes in hexadecimal: whatever else is stored there isn't ours."""

    address: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """The ledger record of a resource. `version` counts its writes, 0 before the first: a conditional write names the version it read.
    `written_at` is the time of the last write by the clock of its writer. The ledger itself sets both.

    `idle_since` is the start of the current idle period, `last_seen_idle_at` when a sweep last saw it idle: if the proof reaches back to that
    moment, it is still the same period. `notice_receipt` is the last notice's, `notified_owner` its recipient, and `notified_fingerprint` the
    resource's `fingerprint` then. `announced_action` is the action in the last warning, `act_not_before` the earliest time for it.
    `reminders`: how many reminders of idleness a channel has accepted since the last warning, `escalated_at` when they were first escalated, and
    `escalated_to` to which addressees, with blanks between them. `enrolment_digest` is the digest of what an enrolment notice named. `claimed_since` and `claimed_until`: the time that the
    last notice of idleness called idle, whether it still counts or not, and `claimed_to` its recipient. `wrong_hour`: an hour of use that
    proved such a notice wrong, until `wrong_notice_to` has a message about the notice of `wrong_notice_at`. `snoozed_at` is when the
    owner snoozed it. `disowned_by`: the address whose owner said, at `disowned_at`, that it isn't theirs.

    The intent of the last action: `last_action`, `last_action_at`, `last_action_run`, `manifest_address` and `manifest_sha256`, all written
    before its first call. `last_action_result` and `last_action_because`: its result, None while that is unknown. `last_action_part`: the part
    it did if it left something (`1 of 2 variants`). `last_action_told_at`: when its owner was notified of the result. `last_action_changes`:
    what it changes beside its main call, and `last_action_created` when the resource was created, for putting that back if the action is
    interrupted.

    `last_call_at`: when the reaper last changed the resource, by an action, a put-back, a restore or an undo. Its idle time counts from then.
    `lost_manifest`: the address of a manifest whose action this ledger doesn't know. Until a person restores it, nothing is done.
    """

    idle_since: datetime | None = None
    last_seen_idle_at: datetime | None = None
    warned_at: datetime | None = None
    notice_receipt: str | None = None
    notified_owner: str | None = None
    notified_fingerprint: str | None = None
    reminded_at: datetime | None = None
    reminders: int | None = None
    escalated_at: datetime | None = None
    escalated_to: str | None = None
    announced_action: AnnouncedAction | None = None
    act_not_before: datetime | None = None
    enrolment_digest: str | None = None
    claimed_since: datetime | None = None
    claimed_until: datetime | None = None
    claimed_to: str | None = None
    wrong_hour: datetime | None = None
    wrong_notice_at: datetime | None = None
    wrong_notice_to: str | None = None
    snoozed_until: datetime | None = None
    snoozed_at: datetime | None = None
    snoozed_by: str | None = None
    snooze_reason: str | None = None
    disowned_by: str | None = None
    disowned_at: datetime | None = None
    last_action: StepName | None = None
    last_action_at: datetime | None = None
    manifest_address: str | None = None
    manifest_sha256: str | None = None
    last_action_run: str | None = None
    last_action_result: Result | None = None
    last_action_because: str | None = None
    last_action_part: str | None = None
    last_action_told_at: datetime | None = None
    last_action_changes: tuple[SideChange, ...] | None = None
    last_action_created: datetime | None = None
    last_call_at: datetime | None = None
    lost_manifest: str | None = None
    written_at: datetime | None = field(default=None, compare=False)
    version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetUse:
    """A budget of the policy and what the idle resources that it is about cost a month, in US dollars; `unpriced` of them have no price."""

    name: str
    usd_per_month: float
    idle_usd_per_month: float
    unpriced: int

    @property
    def is_over(self) -> bool:
        """Whether they cost more than the budget."""
        return self.idle_usd_per_month > self.usd_per_month


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The facts of one run, known before it begins."""

    id: str
    started_at: datetime
    mode: Mode
    version: str
    policy_sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldReason:
    """Why an action is on hold, and since when. `release`: the options of `reaper release` that allow it; empty if no release helps.

    `after`: what follows the release.
    """

    because: str
    since: datetime | None = None
    release: str = ""
    after: str = ""


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
class NextAction:
    """An action that may come: from when on, the US dollars an hour that it saves (None: unknown), and what blocks it.

    `at`: None if something other than a missing notice or a hold blocks it.
    """

    step: StepName
    at: datetime | None
    saves_usd_per_hour: float | None
    blocked_because: str | None
