"""What is on hold and what a person released: two rows of the ledger as data, and how a run changes the first. Pure.

A hold is over the targets and kinds that its run read. While it stands nothing due in them is done, except what a release covers. A run
that read all of them and is under the limit removes it, and so does a release.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from typing import Any

from reaper.enrolment import asked
from reaper.errors import CloudError, Trouble
from reaper.ledger.codec import moment, stamp
from reaper.ledger.codec import place as written
from reaper.model import Case, Target

Place = tuple[str, str]
"""A target, as the ledger writes it, and the name of a kind."""


class Sort(StrEnum):
    """Which limit it is, and so which actions are on hold.

    `actions` (`max_acts`, `max_share`): all that no calendar asks for. `dollars` (`max_usd_per_hour`): all. `scheduled` (`max_scheduled`):
    those that a calendar asks for. `unpriced`: those without a price that no calendar asks for. `jump` (the breaker): all in one place that
    no calendar asks for. `older`: all, in a ledger of an earlier version.
    """

    ACTIONS = "actions"
    DOLLARS = "dollars"
    SCHEDULED = "scheduled"
    UNPRICED = "unpriced"
    JUMP = "jump"
    OLDER = "older"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Since when a limit holds actions, which run found it exceeded, why, and over which targets (as the ledger writes them) and kinds.

    `marks` stand for both in a hold of an earlier version: each place in eight characters. `unread`: the places in both lists that no run
    of it read, so that they need not be read to end it.
    """

    sort: Sort
    since: datetime
    run: str
    because: str
    targets: frozenset[str] = frozenset()
    kinds: frozenset[str] = frozenset()
    marks: frozenset[str] = frozenset()
    unread: frozenset[Place] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A person's word that holds from `given` until `until`. `anew`: from when on a place's idle shares say what is usual there."""

    given: datetime
    until: datetime
    by: str
    anew: Mapping[Place, datetime] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Which run looks, when, and what it read (`ok` or `partial`)."""

    run: str
    now: datetime
    read: frozenset[Place]


def place(target: Target, kind: str) -> Place:
    """Where a kind is looked for."""
    return written(target), kind


def of(case: Case) -> Place:
    """Where a resource was found."""
    return place(case.resource.target, case.resource.kind)


def holds(hold: Hold, case: Case) -> bool:
    """Whether the hold is over an action on this resource."""
    return _over(hold, of(case)) and concerns(hold.sort, case)


def concerns(sort: Sort, case: Case) -> bool:
    """Whether an action on this resource is of those that the limit is about, wherever the resource is."""
    return {
        Sort.DOLLARS: True,
        Sort.OLDER: True,
        Sort.SCHEDULED: asked(case),
        Sort.UNPRICED: not asked(case) and case.usd_per_hour is None,
    }.get(sort, not asked(case))


def renewed(standing: Iterable[Hold], exceeded: Mapping[Sort, str], look: Look) -> list[Hold]:
    """The holds over whole runs as they stand after this one, which found the limits in `exceeded` exceeded."""
    before = {hold.sort: hold for hold in standing}
    kept = [hold for sort, hold in before.items() if sort not in exceeded and not _read_all(hold, look.read)]
    return kept + [_widened(_begun(sort, because, look), before.get(sort)) for sort, because in exceeded.items()]


def jumping(standing: Iterable[Hold], sudden: Mapping[Place, str], sound: Collection[Place], look: Look) -> list[Hold]:
    """The holds over single places after this run: the places in a jump, and those in one before of which it saw too little.

    `sound` are those of whose resources at most half are unknown; in one of these that is not `sudden` any more the jump is over.
    """
    before = {where: hold for hold in standing for where in places(hold)}
    kept = [hold for where, hold in before.items() if where not in sudden and not (where in look.read and where in sound)]
    found = [(where, _begun(Sort.JUMP, because, replace(look, read=frozenset({where})))) for where, because in sudden.items()]
    return kept + [_widened(hold, before.get(where)) for where, hold in found]


def places(hold: Hold) -> frozenset[Place]:
    """Every place that it is over, whether its run read it or not."""
    return frozenset((target, kind) for target in hold.targets for kind in hold.kinds)


def older(places_: str, run: str, since: datetime) -> Hold:
    """The hold that an entry of an earlier version's history speaks of: its places in eight characters each, apart by blanks."""
    because = "a sweep of an earlier version was over its limits"
    return Hold(sort=Sort.OLDER, since=since, run=run, because=because, marks=frozenset(places_.split()))


def to_row(standing: Iterable[Hold]) -> dict[str, str]:
    """The holds as the ledger keeps them."""
    return {"holds": json.dumps([_plain(hold) for hold in standing])}


def from_row(values: Mapping[str, str]) -> list[Hold]:
    """The holds in a row; none in an empty one. Raises CloudError for one that cannot be read."""
    try:
        return [_hold(said) for said in json.loads(values.get("holds", "[]"))]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CloudError(Trouble.GARBLED, "ledger:Read", f"what is on hold cannot be read ({error!r})") from error


def to_release(release: Release) -> dict[str, str]:
    """A release as the ledger keeps it."""
    anew = [[target, kind, stamp(when)] for (target, kind), when in sorted(release.anew.items())]
    return {"given": stamp(release.given), "until": stamp(release.until), "by": release.by, "anew": json.dumps(anew)}


def from_release(values: Mapping[str, str]) -> Release | None:
    """The release in a row; None in an empty one. Raises CloudError for one that cannot be read."""
    if not values:
        return None
    try:
        return Release(
            given=moment(values["given"]),
            until=moment(values["until"]),
            by=values["by"],
            anew={(target, kind): moment(when) for target, kind, when in json.loads(values["anew"])},
        )
    except (ValueError, KeyError, TypeError) as error:
        raise CloudError(Trouble.GARBLED, "ledger:Read", f"the last release cannot be read ({error!r})") from error


def _begun(sort: Sort, because: str, look: Look) -> Hold:
    targets, kinds = frozenset(target for target, _ in look.read), frozenset(kind for _, kind in look.read)
    found = Hold(sort=sort, since=look.now, run=look.run, because=because, targets=targets, kinds=kinds)
    return replace(found, unread=_of_one_cloud(places(found), look.read) - look.read)


def _of_one_cloud(found: Collection[Place], read: Collection[Place]) -> frozenset[Place]:
    """Those of the places that there can be: a kind is of one cloud, that of any target in which it was read."""
    clouds = {kind: target.partition("/")[0] for target, kind in read}
    return frozenset(where for where in found if clouds.get(where[1]) == where[0].partition("/")[0])


def _widened(hold: Hold, before: Hold | None) -> Hold:
    """The hold as that of an earlier run which still stands, over the places of both."""
    if before is None:
        return hold
    targets, kinds = hold.targets | before.targets, hold.kinds | before.kinds
    both = replace(hold, since=before.since, run=before.run, targets=targets, kinds=kinds)
    read = (places(hold) - hold.unread) | (places(before) - before.unread)
    return replace(both, unread=_of_one_cloud(places(both), read) - read)


def _over(hold: Hold, where: Place) -> bool:
    return (where[0] in hold.targets and where[1] in hold.kinds) or _mark(where) in hold.marks


def _read_all(hold: Hold, read: frozenset[Place]) -> bool:
    """Whether a run that read these places read every target and every kind that the hold is over, and each kind wherever the hold's did."""
    marks = {_mark(where) for where in read} if hold.marks else set()
    lists = hold.targets <= {target for target, _ in read} and hold.kinds <= {kind for _, kind in read}
    return lists and _of_one_cloud(places(hold), read) - hold.unread <= read and hold.marks <= marks


def _mark(where: Place) -> str:
    """A place in eight characters, as version 49f8b6c wrote it."""
    target = f"{where[0].removesuffix('/-')}/None" if where[0].endswith("/-") else where[0]
    return sha256(f"{target}/{where[1]}".encode()).hexdigest()[:8]


def _plain(hold: Hold) -> dict[str, Any]:
    lists = {"targets": sorted(hold.targets), "kinds": sorted(hold.kinds), "marks": sorted(hold.marks)}
    unread = [list(where) for where in sorted(hold.unread)]
    return {
        "sort": hold.sort.value,
        "since": stamp(hold.since),
        "run": hold.run,
        "because": hold.because,
        **lists,
        "unread": unread,
    }


def _hold(said: Mapping[str, Any]) -> Hold:
    lists = {name: frozenset(map(str, said[name])) for name in ("targets", "kinds", "marks")}
    unread = frozenset((str(target), str(kind)) for target, kind in said.get("unread", ()))
    return Hold(
        sort=Sort(said["sort"]), since=moment(said["since"]), run=said["run"], because=said["because"], unread=unread, **lists
    )
