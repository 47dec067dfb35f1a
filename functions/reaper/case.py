"""What a run proved of a resource from cloud facts alone, how much it read, and the words for its actions and times that plans, mails and reports share:
lower case, without a full stop. Frozen data, and pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from reaper.calendars.freezes import freeze_at
from reaper.duration import format_duration
from reaper.model import Ceiling, Resource, Role, Rule, State, Status, StepName, Verdict, is_native
from reaper.text import count_noun

WANTED_ACTIONS = {Ceiling.STOP: (StepName.STOP,), Ceiling.DELETE: (StepName.DELETE, StepName.STOP)}
"""The actions of each ceiling, the strongest first."""
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
    `busy_hours`: the hours of use that this look proved and that had ended by then, as bits; bit 0 is the
    hour that begins at `busy_from`. `excess_usd_per_hour`: what of its cost autoscaling may end without any action.
    """

    resource: Resource
    rule: Rule
    verdict: Verdict
    usd_per_hour: float | None = None
    owner: Owner = NO_OWNER
    price: Price | None = None
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


def may_act(case: Case) -> bool:
    """The one predicate: only an idle resource that nothing protects can lead to anything but `none`.

    Office hours are separate: see `is_forced` and `may_start`.
    """
    return case.verdict.state is State.IDLE and case.rule.protected_because is None and case.rule.action is not Ceiling.IGNORE


def may_keep_hours(case: Case) -> bool:
    """Whether policy and protections allow its office hours to be applied, and the rest of an action to be carried out."""
    return case.rule.protected_because is None and case.resource.tags is not None and case.rule.action.rank >= Ceiling.STOP.rank


def is_stopped_by_hours(case: Case) -> bool:
    """Whether the rule's office hours, and not idleness alone, cause its stops."""
    return case.rule.hours is not None and case.rule.hours.by_rule


def is_in_weekly_summary(case: Case, action: StepName) -> bool:
    """Whether only the weekly summary tells its owner: daily stops and starts by office hours."""
    return action is StepName.START or (action is StepName.STOP and is_stopped_by_hours(case))


def wanted_actions(case: Case) -> tuple[StepName, ...]:
    """The actions that the policy leads to, the strongest first. By `then` it is a delete, once a stop has nothing left to do."""
    wanted, stop = WANTED_ACTIONS.get(case.rule.action, ()), case.blocked.get(StepName.STOP)
    if stop and stop.already_done and may_be_followed(case):
        return (StepName.DELETE,)
    return (StepName.STOP,) if wanted and case.rule.hours else wanted


def may_be_followed(case: Case) -> bool:
    """Whether `then` deletes what a stop leaves. Something must still be paid for: what costs nothing is left alone."""
    return case.rule.delete_after is not None and case.stop_leaves_cost and StepName.DELETE in case.blocked


PARTICIPLES = {StepName.STOP: "stopped", StepName.DELETE: "deleted", StepName.START: "started"}
"""The participle of an action if the kind has none of its own."""


def plain_participle(resource: Resource, action: StepName) -> str:
    """Completes `it was ...`, without the words of its kind."""
    return "switched to its own idle shutdown" if is_native(resource, action) else PARTICIPLES.get(action, action.value)


def notice_length(case: Case, action: StepName) -> timedelta:
    """How long before the action its owner is notified: the grace, or of a delete by `then` its `after`."""
    return (action is StepName.DELETE and case.rule.delete_after) or case.rule.grace


def grace_words(rule: Rule) -> str:
    """`3 days`, or `2 business days (germany)`."""
    days = rule.business_days
    return f"{count_noun(days.count, 'business day')} ({days.calendar})" if days else format_duration(rule.grace)


def frozen_because(rule: Rule, now: datetime) -> str | None:
    """Why nothing is stopped or deleted under the rule now: a freeze, or a calendar that can't be read."""
    if rule.waits_because:
        return f"nothing is stopped or deleted because {rule.waits_because}"
    freeze = freeze_at(rule.freezes, now)
    return f"frozen by {freeze.calendar} until {freeze.end.astimezone(UTC):%Y-%m-%d %H:%M} UTC" if freeze else None


def ago_text(when: datetime, now: datetime) -> str:
    """`2 days ago`."""
    length = max(now - when, timedelta())  # the other clock may be a little ahead
    return f"{format_duration(length)} ago"
