"""The nouns of the product as frozen data. No I/O, no clock, no decisions: those are in `evidence`, `judge` and `plan`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any

from reaper.calendars.freezes import BusinessDays, Freeze
from reaper.calendars.office_hours import Hours


class Constrained:
    """Has pydantic refuse other values of a field in a document. Nothing here loads pydantic."""

    def __init__(self, **constraints: object) -> None:
        self._constraints = constraints

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        return handler(source) | self._constraints


AnyTime = Annotated[datetime, Constrained(tz_constraint="aware")]
"""A time with a zone, in a document, even one that UTC has no year for."""
Time = Annotated[
    datetime,
    Constrained(tz_constraint="aware", ge=datetime.min.replace(tzinfo=UTC), le=datetime.max.replace(tzinfo=UTC)),
]
"""A time with a zone, in a document. One that is before or after all times of UTC can't be written in it."""


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
    created: Time | None
    changed: Time | None = None
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
    protection_ended_at: Time | None = None
    in_doubt: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The state of a resource; `idle_for` and `confidence` only when idle. `because` is one sentence for a person."""

    state: State
    because: str
    idle_for: timedelta | None = None
    last_busy: Time | None = None
    confidence: Confidence | None = None


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
    started_at: Time
    mode: Mode
    version: str
    policy_sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldReason:
    """Why an action is on hold, and since when. `release`: the options of `reaper release` that allow it; empty if no release helps.

    `after`: what follows the release.
    """

    because: str
    since: Time | None = None
    release: str = ""
    after: str = ""


UNTIL_RESUMED = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
"""The end of a pause that lasts until a person ends it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """The stop switch is on: until when, which person set it, and when. `unreadable_because`: why it can't be read, and so counts as on."""

    until: AnyTime = UNTIL_RESUMED
    by: str = ""
    at: Time | None = None
    unreadable_because: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NextAction:
    """An action that may come: from when on, the US dollars an hour that it saves (None: unknown), and what blocks it.

    `at`: None if something other than a missing notice or a hold blocks it.
    """

    step: StepName
    at: Time | None
    saves_usd_per_hour: float | None
    blocked_because: str | None


def is_native(resource: Resource, action: StepName) -> bool:
    """Whether the action is no stop, but switches on the cloud's own idle shutdown (`stop_by: native`), which may stop it later."""
    return action is StepName.STOP and resource.stop_by == "native"
