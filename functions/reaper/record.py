"""What the ledger has on one resource: the `Record` of what happened to it, and in a row of its own the `Snooze`, what a person said about it.

Frozen data, stored as documents. A part that doesn't exist is None, and is cleared by `replace(record, notice=None)`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from reaper.duration import format_duration
from reaper.model import AnnouncedAction, Resource, Result, State, StepName, Time

MAX_CLOCK_SKEW = timedelta(minutes=10)
"""A notice dated further ahead than this was written by a wrong clock and doesn't count."""
CONFIRM_WITHIN = timedelta(hours=1)
"""How long a requested action may take to show. After that the resource is planned from scratch."""
STOPPING_FOR = timedelta(minutes=15)
"""A change this soon after the start of an action may still be that action; a later change is not the reaper's."""
VOID_AHEAD = timedelta(days=7)
"""A time further ahead than this is void, so that one run with a wrong clock doesn't keep a resource from everything for years."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """The last notice that a channel accepted for the owner.

    `warned_at`: its warning, from which the grace counts; `reminded_at`: its last reminder. `receipt` is that of the last of both, `to` its
    recipient, and `shape` what the resource was like then (`planning.dates.shape`). `action`: what it announced, and `not_before` the earliest time
    for that. `hours`: the digest of the office hours that an enrolment named. `reminders`: how many reminders of idleness were accepted
    since the warning, `escalated_at` when they were first escalated, and `escalated_to` to which addressees.
    """

    warned_at: Time | None = None
    reminded_at: Time | None = None
    receipt: str | None = None
    to: str | None = None
    shape: str | None = None
    action: AnnouncedAction | None = None
    not_before: Time | None = None
    hours: str | None = None
    reminders: int = 0
    escalated_at: Time | None = None
    escalated_to: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The time that the last notice of idleness called idle, whether that notice still counts or not, and its recipient."""

    since: Time
    until: Time
    to: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """A message that is still to be sent: the notice `at` that time, `to` that recipient, called idle an `hour` of proven use."""

    hour: Time
    at: Time | None = None
    to: str | None = None


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
class Act:
    """The last action: its intent, written before its first call, and its `result`, None while that is unknown.

    `id` to `owner`: which resource it was, and whose, for its mail if it is no longer listed. `manifest`: what undoes it. `part`: the part it did
    if it left something (`1 of 2 variants`). `notified_at`: when a channel accepted the mail about its result. `changes`: what it changes beside its
    main call, and `created` when the resource was created, for putting that back if it is interrupted.
    """

    action: StepName
    at: Time
    run: str
    id: str
    kind: str
    name: str
    region: str
    owner: str | None = None
    manifest: ManifestReference | None = None
    changes: tuple[SideChange, ...] = ()
    created: Time | None = None
    result: Result | None = None
    because: str | None = None
    part: str | None = None
    notified_at: Time | None = None


def act_of(resource: Resource, action: StepName, run: str, at: datetime, owner: str | None = None) -> Act:
    """The intent of an action on that resource."""
    id_, name, region = resource.id, resource.name, resource.region
    return Act(action=action, at=at, run=run, id=id_, kind=resource.kind, name=name, region=region, owner=owner)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What happened to one resource. `version` counts its writes, 0 before the first: a conditional write names the version it read.
    `written_at` is the time of the last write by the clock of its writer. The ledger itself sets both.

    `idle_since` is the start of the current idle period, `seen_idle_at` when a sweep last saw it idle: if the proof reaches back to that
    moment, it is still the same period. `called_at`: when the reaper last changed the resource, by an action, a put-back, a restore or an undo. Its
    idle time counts from then. `notified_run`: the run of the last action of which a channel accepted the mail. `lost_manifest`: the address of a
    manifest whose action this ledger doesn't know. Until a person restores it, nothing is done. `state`: the last one if it isn't idle any more
    though its owner has a notice, as first seen then, or used, at `state_at`.
    """

    idle_since: Time | None = None
    seen_idle_at: Time | None = None
    notice: Notice | None = None
    claim: Claim | None = None
    correction: Correction | None = None
    act: Act | None = None
    called_at: Time | None = None
    notified_run: str | None = None
    lost_manifest: str | None = None
    state: State | None = None
    state_at: Time | None = None
    written_at: Time | None = field(default=None, compare=False)
    version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Snooze:
    """What a person said by the link of a mail: keep it `until` then, said `at` that time `by` that person; or, as `disowned_by` at
    `disowned_at`, that it isn't theirs. `version` counts its writes, 0 before the first.
    """

    until: Time | None = None
    at: Time | None = None
    by: str | None = None
    reason: str | None = None
    disowned_by: str | None = None
    disowned_at: Time | None = None
    version: int = 0


Protections = tuple[tuple[Time | None, Time | None, str | None, Time | None], ...]
"""Of a resource's own snooze and its host's: until when, since when, whose it isn't, and since when. Empty if there are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snoozes:
    """What people said about a resource itself, and about its host, which protects it as well."""

    own: Snooze = Snooze()
    host: Snooze = Snooze()

    @property
    def protections(self) -> Protections:
        """What in them protects. If it changes between two reads, a person has said something meanwhile."""
        both = [(each.until, each.at, each.disowned_by, each.disowned_at) for each in (self.own, self.host)]
        return tuple(both) if any(map(any, both)) else ()


NO_RECORD, NO_SNOOZES = Record(), Snoozes()


def snoozed_because(snoozes: Snoozes, created: datetime | None, now: datetime) -> str | None:
    """The sentence about the snooze in effect, if any. That of its host protects it, too. `created`: when the resource was created."""
    if is_snoozed(snoozes.own, created, now):
        return snooze_sentence(snoozes.own)
    is_by_host = snoozes.host.until is not None and snoozes.host.until > now
    return f"its host is {snooze_sentence(snoozes.host)}" if is_by_host else None


def is_snoozed(snooze: Snooze, created: datetime | None, now: datetime) -> bool:
    """Whether a snooze is in effect. A snooze from before the resource was created was for another one with the same ID."""
    return snooze.until is not None and snooze.until > now and not is_recreated(snooze, created)


def is_recreated(snooze: Snooze, created: datetime | None) -> bool:
    """Whether the resource was created after its snooze, under an ID that another resource had."""
    return snooze.at is not None and created is not None and created - snooze.at > MAX_CLOCK_SKEW


def snooze_sentence(snooze: Snooze) -> str:
    """The sentence about a snooze that is in effect."""
    until = snooze.until.astimezone(UTC) if snooze.until else None
    reason = f": {snooze.reason}" if snooze.reason else ""
    return f"snoozed until {until:%Y-%m-%d %H:%M} UTC by {snooze.by or 'someone'}{reason}"


def is_about_hours(notice: Notice | None) -> bool:
    """Whether the last notice was about office hours, which apply whether it is used or idle."""
    return notice is not None and notice.action is AnnouncedAction.HOURS


def before_action(record: Record, begun: Act) -> Record:
    """The record just before an action, so that later runs know that it may have been carried out.

    A start keeps the manifest of its stop.
    """
    kept = record.act.manifest if record.act and begun.action is StepName.START else begun.manifest
    created = begun.created if begun.changes else None
    return replace(record, act=replace(begun, manifest=kept, created=created), called_at=begun.at)


def with_result(record: Record, result: Result, because: str, part: str | None = None) -> Record:
    """The record once the result of an action is known, or can't be known: its notice is used up."""
    act = record.act and replace(
        record.act, result=result, because=because, part=part, notified_at=None, changes=(), created=None
    )
    return replace(after_action(record), act=act)


def closed_unknown(record: Record) -> Record:
    """The record with an action that is still open closed with an unknown result."""
    if record.act is None or record.act.result is not None:
        return record
    because = (
        f"it isn't known whether the action was carried out: run {record.act.run} started it on "
        f"{record.act.at.astimezone(UTC):%Y-%m-%d %H:%M} UTC and stopped before recording the result"
    )
    return with_result(record, Result.FAILED, because)


def left_stopped(record: Record) -> Record:
    """The record of what office hours stopped and don't start: its owner gets a mail, and other hours need a new notice."""
    if record.act is None:
        return record
    because = f"{record.act.because}; it is protected or its office hours no longer apply, so it isn't started for now"
    return replace(record, notice=None, act=replace(record.act, notified_at=None, because=because))


def is_same_intent(record: Record, act: Act) -> bool:
    """Whether the record has that very intent."""
    return record.act is not None and (record.act.run, record.act.action) == (act.run, act.action)


def is_unfinished(record: Record, run: str | None = None) -> bool:
    """Whether a run other than `run` began an action whose result is unknown."""
    return record.act is not None and record.act.result is None and record.act.run != run


def is_interrupted(record: Record, run: str | None = None) -> bool:
    """Whether a run other than `run` began an action that may be half done. What is silent because of it proves nothing."""
    return is_unfinished(record, run) and record.act is not None and bool(record.act.changes)


def after_action(record: Record) -> Record:
    """The record after an action: its notice is used up, and another action needs another notice. An enrolment lasts."""
    notice = record.notice if is_about_hours(record.notice) else None
    return replace(record, notice=notice, claim=None, idle_since=None, seen_idle_at=None, state=None, state_at=None)


def after_undo(record: Record, now: datetime) -> Record:
    """The record after an undo: of the action it keeps only when the resource was last changed. Another action needs a new notice."""
    return replace(after_action(record), act=None, called_at=now)


def last_notice_at(notice: Notice | None) -> datetime | None:
    """The time of the last notice of any sort."""
    return max((t for t in (notice.warned_at, notice.reminded_at) if t), default=None) if notice else None


def dated_ahead_because(record: Record, now: datetime) -> str | None:
    """Why nothing is sent or done: the row was written, its owner notified, or an action begun later than `now`. One of the clocks is wrong."""
    notice, act = record.notice or Notice(), record.act
    times = (record.written_at, notice.warned_at, notice.reminded_at, act and act.at, record.called_at)
    ahead = max((t - now for t in times if t and t - now <= VOID_AHEAD), default=timedelta(0))
    if ahead <= MAX_CLOCK_SKEW:
        return None
    return f"its ledger record is dated {format_duration(ahead)} ahead of this run's clock, so nothing is sent or done until that is past"


def without_void_times(record: Record, now: datetime) -> Record:
    """The record without times that are too far ahead to be true. An action whose result isn't known stays."""
    last, act = last_notice_at(record.notice), record.act
    if last and last - now > VOID_AHEAD:
        record = replace(record, notice=None)
    if record.called_at and record.called_at - now > VOID_AHEAD:
        record = replace(record, called_at=None)
    return replace(record, act=None) if act and act.result is not None and act.at - now > VOID_AHEAD else record
