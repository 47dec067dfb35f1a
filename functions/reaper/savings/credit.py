"""How one saving is counted from look to look. Pure.

A saving begins with an action of the reaper's, or with a stop that a notice prompted. Time is credited between two complete looks if both show
the resource at rest (gone, stopped, or idle with no more than the action left) and no person changed or deleted it between them. So its rate stays that of
the action: the list price before it, without what the action left. What can't be proven isn't credited.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, NamedTuple

from reaper.case import Case, Price
from reaper.finding import Finding, is_done
from reaper.model import ENDING_ACTIONS, BilledPart, Constrained, Result, State, StepName, Target
from reaper.policy.tags import tag_values
from reaper.record import CONFIRM_WITHIN, NO_RECORD, NO_SNOOZES, STOPPING_FOR, Record, Snooze, is_about_hours, last_notice_at

Parts = tuple[BilledPart, ...] | None
FIRST_YEAR, LAST_YEAR = (datetime(year, 1, 1, tzinfo=UTC) for year in (2000, 9000))
Moment = Annotated[datetime, Constrained(tz_constraint="aware", ge=FIRST_YEAR, lt=LAST_YEAR)]
"""A time of a saving: one that can be compared, moved and added up."""


class Cause(StrEnum):
    """Why something stopped costing money: an action of the reaper's, or its owner after a notice."""

    OURS = "ours"
    PROMPTED = "prompted"


class Span(NamedTuple):
    """A stretch of time that is credited."""

    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Whose saving it is. `tags`: those that the policy's `report.tags` names, by these keys."""

    id: str
    kind: str
    name: str
    target: Target
    region: str
    owner: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """A saving that still runs, or, while it `is_waiting`, one that begins if its owner stops the resource after the notice of `at`.

    `rate`: what it saves an hour, with the source and date of the price; None if that is unknown. `parts_left`: what the action left.
    `deletes`: whether the action deletes it, so that no person can. `called_at`: the reaper's last call to the resource. `looked_at`: up to when it is counted, in whole seconds. `resting`: whether the resource
    was at rest then.
    """

    subject: Subject
    cause: Cause
    action: StepName
    at: Moment
    ends_at: Moment
    rate: Price | None
    parts_left: Parts = ()
    deletes: bool = False
    called_at: Moment
    looked_at: Moment
    resting: bool = True
    fingerprint: str | None = None
    is_waiting: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What a look, from `at` to `over_at`, shows. `case`: as judged, None if it isn't listed. `record`, `snooze`: as they are now.

    `is_complete`: it missed nothing of its kind.
    """

    at: datetime
    over_at: datetime
    case: Case | None
    is_complete: bool = True
    record: Record = NO_RECORD
    snooze: Snooze = NO_SNOOZES.own


Counted = tuple[Saving | None, Span | None]
"""A saving after a look, None if it has ended, and the time that is credited."""


def begin_saving(finding: Finding, parts_left: Parts, tag_keys: Collection[str], horizon: timedelta) -> Saving | None:
    """The saving that the finding's action begins; None if it saves nothing of its own.

    A resource that lives in another one costs nothing beside it, so only its hours are counted; and so they are if it isn't known what
    autoscaling would have ended anyway.
    """
    case, record, action = finding.case, finding.record or NO_RECORD, finding.step.name
    act, is_left = record.act, finding.outcome.part_done and action is StepName.DELETE
    if not is_done(finding) or action not in ENDING_ACTIONS or act is None or act.action is not action:
        return None
    usd, excess = case.saves_usd_per_hour.get(action), finding.outcome.excess_usd_per_hour
    usd = None if usd is None or excess is None or case.resource.host_id else max(0.0, round(usd - excess, 6))
    if is_left or usd == 0 or case.resource.stop_by == "native":
        return None
    called_at, begun = max(act.at, record.called_at or act.at), _saving(case, act.at, usd, tag_keys, horizon)
    return replace(begun, action=action, parts_left=parts_left, called_at=called_at, looked_at=_whole_second(called_at))


def await_prompted(finding: Finding, tag_keys: Collection[str], horizon: timedelta) -> Saving | None:
    """What waits for the owner to stop a resource after a notice that counts; None if there is none, or if its autoscaling
    or its own idle shutdown may end it.
    """
    case, at = finding.case, last_notice_at(finding.notice)
    usd = max(0.0, round(case.price.usd_per_hour - case.excess_usd_per_hour, 6)) if case.price else None
    may_wait = case.verdict.state is State.IDLE and not case.resource.host_id and case.resource.stop_by != "native"
    if not may_wait or at is None or usd == 0 or is_about_hours(finding.notice):
        return None
    return replace(_saving(case, at, usd, tag_keys, horizon), cause=Cause.PROMPTED, resting=False, is_waiting=True)


def _saving(case: Case, at: datetime, usd: float | None, tag_keys: Collection[str], horizon: timedelta) -> Saving:
    """The saving of a stop at that time, which saves so much an hour."""
    return Saving(
        subject=subject_of(case, tag_keys),
        cause=Cause.OURS,
        action=StepName.STOP,
        at=at,
        ends_at=at + horizon,
        rate=replace(case.price, usd_per_hour=usd) if case.price and usd else None,
        called_at=at,
        looked_at=_whole_second(at),
    )


def count(saving: Saving, look: Look) -> Counted:
    """The saving after a look, with the time that this look credits. One that wasn't complete credits nothing, but may end it."""
    if not look.is_complete:
        return None if _is_over(saving, look) else saving, None
    if saving.is_waiting:
        return _count_waiting(saving, look)
    ended_at = _ended_by_reaper_at(saving, look)
    if ended_at and ended_at <= look.at:
        return None, _credit(saving, ended_at)
    still, credited = _count_look(saving, look)
    if ended_at is None or still is None:
        return still, credited
    spans = [span for span in (credited, _credit(still, ended_at)) if span]
    return None, Span(spans[0].since, spans[-1].until) if spans else None


def _is_over(saving: Saving, look: Look) -> bool:
    """Whether it runs more than the action left. That counts even in a look that missed others of its kind: later calls of the reaper's may hide it."""
    parts = look.case.resource.parts if look.case else None
    if saving.is_waiting or not parts or look.at < max(_own_call_at(saving, look) + CONFIRM_WITHIN, saving.looked_at):
        return False
    return not _is_within(parts, saving.parts_left)


def _own_call_at(saving: Saving, look: Look) -> datetime:
    """The reaper's last call to it before the look."""
    called_at = look.record.called_at
    return max(saving.called_at, called_at) if called_at and called_at < look.at else saving.called_at


def _count_waiting(saving: Saving, look: Look) -> Counted:
    """A prompted saving begins when its owner stopped the resource. What vanished may have been deleted for any reason."""
    case, later = look.case, (look.record.called_at, look.snooze.at)
    if case is None or any(moment and moment > saving.at for moment in later) or _was_used_since(case, saving.at):
        return None, None
    changed = case.resource.changed
    if case.verdict.state in {State.IDLE, State.UNKNOWN}:
        return saving, None
    if case.resource.parts != () or changed is None or changed <= saving.at or _is_recreated(case, saving):
        return None, None
    begun = replace(
        saving,
        is_waiting=False,
        resting=True,
        at=changed,
        ends_at=changed + (saving.ends_at - saving.at),
        called_at=changed,
        looked_at=_whole_second(changed),
        fingerprint=case.resource.fingerprint,
    )
    return _count_look(begun, look)


def _ended_by_reaper_at(saving: Saving, look: Look) -> datetime | None:
    """When the reaper or an undo started it again; None if neither did. A person may have restarted it before an undo without effect."""
    act, called_at = look.record.act, look.record.called_at
    if act and act.action is StepName.START and act.result is Result.DONE:
        return act.at if act.at > saving.at else None
    if act is not None or called_at is None or called_at <= saving.called_at:
        return None
    times = (look.case.resource.changed, look.case.resource.created) if look.case else ()
    return min([called_at, *(t for t in times if t and t > saving.called_at + STOPPING_FOR)])


def _count_look(saving: Saving, look: Look) -> Counted:
    if look.at <= saving.looked_at:
        return saving, None
    case, called_at, own_call_at = look.case, look.record.called_at, _own_call_at(saving, look)
    known = replace(saving, called_at=max(saving.called_at, called_at or saving.called_at))
    if case is None:
        act = look.record.act if look.record.act and look.record.act.at >= saving.at else None
        is_ours = saving.deletes or (act is not None and act.action is StepName.DELETE and act.result is Result.DONE)
        return _counted_on(known, look) if is_ours else (None, None)
    changed_at = case.resource.changed
    is_changed = changed_at is not None and changed_at > max(own_call_at + STOPPING_FOR, saving.looked_at)
    # Some kinds note a change whenever a job comes and goes: it is none if its shape is that of the last look.
    is_same = case.resource.fingerprint is not None and saving.fingerprint in {None, case.resource.fingerprint}
    if _is_recreated(case, saving) or (is_changed and not is_same):
        return None, None
    known = replace(known, fingerprint=case.resource.fingerprint)
    is_at_rest = _is_at_rest(case, saving, own_call_at, look.at)
    if is_at_rest and not is_changed:
        return _counted_on(known, look)
    state, parts = case.verdict.state, case.resource.parts
    if not is_at_rest and state not in {State.ACTIVE, State.UNKNOWN} and look.at < own_call_at + CONFIRM_WITHIN:
        return saving, None  # the action may not show yet
    if not is_at_rest and parts is not None and not _is_within(parts, saving.parts_left):
        return None, None
    # Only what a look has shown by its end is at rest from then on.
    looked_at = look.over_at if is_at_rest else look.at
    return _counted(replace(known, resting=is_at_rest, looked_at=_whole_second(looked_at)), look)


def _counted_on(saving: Saving, look: Look) -> Counted:
    """The saving of what this look shows at rest: credited since the last look if that did, too."""
    looked_at = _whole_second(look.at, up=False) if saving.resting else _whole_second(look.over_at)
    after = replace(saving, resting=True, looked_at=max(saving.looked_at, looked_at))
    return _counted(after, look, _credit(saving, look.at))


def _counted(saving: Saving, look: Look, credit: Span | None = None) -> Counted:
    return None if look.at >= saving.ends_at else saving, credit


def _credit(saving: Saving, until: datetime) -> Span | None:
    """The time from the last look to `until`, if it was at rest then, and not beyond the horizon."""
    span = Span(saving.looked_at, _whole_second(min(until, saving.ends_at), up=False))
    return span if saving.resting and span.until > span.since else None


def _is_recreated(case: Case, saving: Saving) -> bool:
    return case.resource.created is not None and case.resource.created > saving.at


def _is_at_rest(case: Case, saving: Saving, own_call_at: datetime, now: datetime) -> bool:
    """Whether it is stopped, or idle with no more than the action left. `own_call_at`: the reaper's last call to it before the look."""
    state, parts = case.verdict.state, case.resource.parts
    if state is State.UNKNOWN or (state is State.ACTIVE and _was_used_since(case, own_call_at)):
        return False
    if parts == ():
        return True
    is_young = _is_young_by_reaper(case, own_call_at, now)
    if parts is None:  # it wasn't described, and is as the call left it
        return is_young and case.resource.changed is not None
    return (state is State.IDLE or is_young) and _is_within(parts, saving.parts_left)


def _is_young_by_reaper(case: Case, own_call_at: datetime, now: datetime) -> bool:
    """Whether it is young only because the reaper changed it: since then it was neither used nor recreated."""
    created, age = case.resource.created, now - own_call_at
    is_old = created is not None and now - created >= case.rule.idle_after
    recent = age < case.rule.idle_after + STOPPING_FOR
    return case.verdict.state is State.YOUNG and is_old and recent and not _was_used_since(case, own_call_at)


def _is_within(parts: tuple[BilledPart, ...], left: Parts) -> bool:
    """Whether no more is paid for than `left`."""
    return left is not None and _counts(parts) <= _counts(left)


def _counts(parts: tuple[BilledPart, ...]) -> Counter[tuple[str, str]]:
    counts: Counter[tuple[str, str]] = Counter()
    for part in parts:
        counts[part.component, part.instance.lower()] += part.count  # type: ignore[assignment]
    return counts


def _was_used_since(case: Case, moment: datetime) -> bool:
    used = case.verdict.last_busy
    return (case.verdict.state is State.ACTIVE and used is None) or (used is not None and used > moment)


def subject_of(case: Case, tag_keys: Collection[str]) -> Subject:
    """The subject of a saving. Of its tags only those that the policy's `report.tags` names are kept; keys ignore case."""
    resource = case.resource
    tags = {key: value for key in tag_keys for _, value in tag_values(resource.tags, key)[:1]}
    return Subject(
        id=resource.id,
        kind=resource.kind,
        name=resource.name,
        target=Target(cloud=resource.target.cloud, account=resource.target.account, region=resource.target.region),
        region=resource.region,
        owner=case.owner.address,
        tags=tags,
    )


def _whole_second(moment: datetime, *, up: bool = True) -> datetime:
    whole = moment.replace(microsecond=0)
    return whole + timedelta(seconds=1) if up and whole < moment else whole
