"""What is on hold and what a person released: two rows of the ledger as data, and how a run changes the first. Pure.

A hold covers the targets and kinds that its run read. While it lasts, nothing due in them is carried out, except what a release covers. A
run that reads all of them and is under the limit removes it, and so does a release.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from typing import Any

from reaper.case import Case, Coverage
from reaper.coverage import OWN, target_of_row
from reaper.errors import CloudError, Reason
from reaper.ledger.stored_text import parse_time, sortable_time, target_text
from reaper.model import Status, Target
from reaper.planning.enrolment import is_stopped_by_hours

READ_STATUSES = frozenset({Status.OK, Status.PARTIAL})
KindInTarget = tuple[str, str]
"""A target, as the ledger writes it, and the name of a kind."""


class LimitName(StrEnum):
    """Which limit was exceeded, and so which actions are on hold.

    `actions` (`max_acts`, `max_share`): all but those of office hours. `dollars` (`max_usd_per_hour`): all. `scheduled` (`max_scheduled`):
    those of office hours. `unpriced`: those without a price, except those of office hours. `jump` (the breaker): all in one place except
    those of office hours. `older`: all, in a ledger of an earlier version.
    """

    ACTIONS = "actions"
    DOLLARS = "dollars"
    SCHEDULED = "scheduled"
    UNPRICED = "unpriced"
    JUMP = "jump"
    OLDER = "older"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Since when actions are on hold, which run found the limit exceeded, why, and in which targets (as the ledger writes them) and kinds.

    `marks` replace both in a hold of an earlier version: each place in eight characters. `unread`: the places in both lists that none of
    its runs read, so that they need not be read to end it.
    """

    limit: LimitName
    since: datetime
    run: str
    because: str
    targets: frozenset[str] = frozenset()
    kinds: frozenset[str] = frozenset()
    marks: frozenset[str] = frozenset()
    unread: frozenset[KindInTarget] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A person's permission to carry out what was due. `usual_since`: for each place, from when on its idle shares show what is usual there."""

    given_at: datetime
    valid_until: datetime
    by: str
    usual_since: Mapping[KindInTarget, datetime] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunScope:
    """A run, its time, and the places that it read (`ok` or `partial`)."""

    run: str
    now: datetime
    read_places: frozenset[KindInTarget]


def kind_in_target(target: Target, kind: str) -> KindInTarget:
    """The place where resources of a kind are listed."""
    return target_text(target), kind


def kind_in_target_of(case: Case) -> KindInTarget:
    """The place of a resource."""
    return kind_in_target(case.resource.target, case.resource.kind)


def read_places(coverage: Iterable[Coverage], others: Collection[Target] = ()) -> frozenset[KindInTarget]:
    """The places that a run read, wholly or in part, without those in `others`, which another run has leased."""
    rows = [(target_of_row(row), row) for row in coverage if row.cloud != OWN and row.status in READ_STATUSES]
    return frozenset(kind_in_target(target, row.kind) for target, row in rows if target not in others)


def covers_case(hold: Hold, case: Case) -> bool:
    """Whether the hold covers an action on this resource."""
    return _covers_place(hold, kind_in_target_of(case)) and limit_counts_case(hold.limit, case)


def limit_counts_case(limit: LimitName, case: Case) -> bool:
    """Whether the limit counts actions on such a resource, whatever its place."""
    return {
        LimitName.DOLLARS: True,
        LimitName.OLDER: True,
        LimitName.SCHEDULED: is_stopped_by_hours(case),
        LimitName.UNPRICED: not is_stopped_by_hours(case) and case.usd_per_hour is None,
    }.get(limit, not is_stopped_by_hours(case))


def updated_holds(standing: Iterable[Hold], exceeded: Mapping[LimitName, str], scope: RunScope) -> list[Hold]:
    """The holds of whole runs after this run, which exceeded the limits in `exceeded`."""
    before = {hold.limit: hold for hold in standing}
    remaining = [hold for limit, hold in before.items() if limit not in exceeded and not _has_read_all(hold, scope.read_places)]
    return remaining + [_merged_hold(_new_hold(limit, because, scope), before.get(limit)) for limit, because in exceeded.items()]


def updated_jump_holds(
    standing: Iterable[Hold], sudden: Mapping[KindInTarget, str], sound: Collection[KindInTarget], scope: RunScope
) -> list[Hold]:
    """The holds of single places after this run: the places whose share jumped, and those of earlier jumps that it saw too little of.

    `sound`: the places in which at most half of the resources are unknown. The jump of a sound place that isn't `sudden` any more is over.
    """
    before = {place: hold for hold in standing for place in covered_places(hold)}
    remaining = [
        hold for place, hold in before.items() if place not in sudden and not (place in scope.read_places and place in sound)
    ]
    new_holds = [
        (place, _new_hold(LimitName.JUMP, because, replace(scope, read_places=frozenset({place}))))
        for place, because in sudden.items()
    ]
    return remaining + [_merged_hold(hold, before.get(place)) for place, hold in new_holds]


def covered_places(hold: Hold) -> frozenset[KindInTarget]:
    """Every place that the hold covers, whether its run read it or not."""
    return frozenset((target, kind) for target in hold.targets for kind in hold.kinds)


def older_hold(marks: str, run: str, since: datetime) -> Hold:
    """The hold in a history entry of an earlier version: its places in eight characters each, separated by blanks."""
    because = "a sweep of an earlier version exceeded its limits"
    return Hold(limit=LimitName.OLDER, since=since, run=run, because=because, marks=frozenset(marks.split()))


def holds_row(standing: Iterable[Hold]) -> dict[str, str]:
    """The holds as columns of the ledger."""
    return {"holds": json.dumps([_hold_json(hold) for hold in standing])}


def holds_from_row(values: Mapping[str, str]) -> list[Hold]:
    """The holds in a row; none in an empty one. Raises CloudError if it can't be read."""
    try:
        return [_hold_from_json(fields) for fields in json.loads(values.get("holds", "[]"))]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CloudError(Reason.UNREADABLE, "ledger:Read", f"what is on hold can't be read ({error!r})") from error


def release_row(release: Release) -> dict[str, str]:
    """The release as columns of the ledger."""
    usual_since = [[target, kind, sortable_time(when)] for (target, kind), when in sorted(release.usual_since.items())]
    return {
        "given": sortable_time(release.given_at),
        "until": sortable_time(release.valid_until),
        "by": release.by,
        "anew": json.dumps(usual_since),
    }


def release_from_row(values: Mapping[str, str]) -> Release | None:
    """The release in a row; None in an empty one. Raises CloudError if it can't be read."""
    if not values:
        return None
    try:
        return Release(
            given_at=parse_time(values["given"]),
            valid_until=parse_time(values["until"]),
            by=values["by"],
            usual_since={(target, kind): parse_time(when) for target, kind, when in json.loads(values["anew"])},
        )
    except (ValueError, KeyError, TypeError) as error:
        raise CloudError(Reason.UNREADABLE, "ledger:Read", f"the last release can't be read ({error!r})") from error


def _new_hold(limit: LimitName, because: str, scope: RunScope) -> Hold:
    targets, kinds = frozenset(target for target, _ in scope.read_places), frozenset(kind for _, kind in scope.read_places)
    hold = Hold(limit=limit, since=scope.now, run=scope.run, because=because, targets=targets, kinds=kinds)
    return replace(hold, unread=_possible_places(covered_places(hold), scope.read_places) - scope.read_places)


def _possible_places(places: Collection[KindInTarget], read: Collection[KindInTarget]) -> frozenset[KindInTarget]:
    """The places that can exist: each kind belongs to one cloud, that of the targets in which it was read."""
    clouds = {kind: target.partition("/")[0] for target, kind in read}
    return frozenset(place for place in places if clouds.get(place[1]) == place[0].partition("/")[0])


def _merged_hold(hold: Hold, earlier: Hold | None) -> Hold:
    """Both holds as one: since the earlier one, in the places of both."""
    if earlier is None:
        return hold
    targets, kinds = hold.targets | earlier.targets, hold.kinds | earlier.kinds
    merged = replace(hold, since=earlier.since, run=earlier.run, targets=targets, kinds=kinds)
    read = (covered_places(hold) - hold.unread) | (covered_places(earlier) - earlier.unread)
    return replace(merged, unread=_possible_places(covered_places(merged), read) - read)


def _covers_place(hold: Hold, place: KindInTarget) -> bool:
    return (place[0] in hold.targets and place[1] in hold.kinds) or _place_mark(place) in hold.marks


def _has_read_all(hold: Hold, read: frozenset[KindInTarget]) -> bool:
    """Whether a run that read these places read every target and kind of the hold, and each kind wherever the hold's runs did."""
    marks = {_place_mark(where) for where in read} if hold.marks else set()
    lists = hold.targets <= {target for target, _ in read} and hold.kinds <= {kind for _, kind in read}
    return lists and _possible_places(covered_places(hold), read) - hold.unread <= read and hold.marks <= marks


def _place_mark(where: KindInTarget) -> str:
    """A place in eight characters, as version 49f8b6c wrote it."""
    target = f"{where[0].removesuffix('/-')}/None" if where[0].endswith("/-") else where[0]
    return sha256(f"{target}/{where[1]}".encode()).hexdigest()[:8]


def _hold_json(hold: Hold) -> dict[str, Any]:
    lists = {"targets": sorted(hold.targets), "kinds": sorted(hold.kinds), "marks": sorted(hold.marks)}
    unread = [list(where) for where in sorted(hold.unread)]
    return {
        "sort": hold.limit.value,
        "since": sortable_time(hold.since),
        "run": hold.run,
        "because": hold.because,
        **lists,
        "unread": unread,
    }


def _hold_from_json(fields: Mapping[str, Any]) -> Hold:
    lists = {name: frozenset(map(str, fields[name])) for name in ("targets", "kinds", "marks")}
    unread = frozenset((str(target), str(kind)) for target, kind in fields.get("unread", ()))
    return Hold(
        limit=LimitName(fields["sort"]),
        since=parse_time(fields["since"]),
        run=fields["run"],
        because=fields["because"],
        unread=unread,
        **lists,
    )
