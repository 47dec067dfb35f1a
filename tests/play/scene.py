"""One command of the product as the oracle sees it: how everything was before and after, and what was done in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from play import terms
from play.clouds import Change
from play.post import Mail
from play.terms import MINUTE, Caps
from play.thing import Thing

SEEN = 6 * MINUTE
"""How old a use must be before the product has to know of it: what its cloud takes to publish it, and a bucket."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """One thing at one moment."""

    exists: bool
    level: int
    sides: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One command of the product: when, what for, what was out of order, how everything was before and after, and what it left."""

    number: int
    verb: str
    mode: str
    began: datetime
    ended: datetime
    status: int
    stderr: str
    out_of_order: frozenset[str]
    before: Mapping[str, State]
    after: Mapping[str, State]
    changes: Sequence[Change]
    mails: Sequence[Mail]
    cards: Sequence[str]
    report: Mapping[str, Any] | None
    caps: Caps
    calm: bool

    @property
    def acts(self) -> bool:
        """Whether it may stop anything."""
        return (self.verb, self.mode) == ("sweep", "enforce") or self.verb == "apply"

    @property
    def came_to_nothing(self) -> set[str]:
        """What it began to stop or delete, and didn't, as its report says."""
        rows = (self.report or {}).get("findings", ())
        tried = [row for row in rows if row["step"] in {"stop", "delete"} and row["outcome"] in {"refused", "failed"}]
        return {row["name"].rpartition("/")[2] for row in tried}

    @property
    def undisturbed(self) -> bool:
        """Whether it was a sweep that tells people of what was done, and nothing was in its way."""
        return self.verb == "sweep" and self.mode != "audit" and not self.out_of_order


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """Something that a command did to a thing."""

    name: str
    what: str
    when: datetime
    scene: int


def acts_of(scene: Scene) -> Iterator[Act]:
    for name, before in scene.before.items():
        after = scene.after[name]
        what = _what(before, after)
        if what:
            yield Act(name=name, what=what, when=_when(name, scene), scene=scene.number)


def _what(before: State, after: State) -> str | None:
    if before.exists and not after.exists:
        return "delete" if before.level else None
    if after.level != before.level:
        return "stop" if after.level < before.level else "start"
    return None


def _when(name: str, scene: Scene) -> datetime:
    mine = [c.when for c in scene.changes if not c.refused and is_of(c, name)]
    return mine[0] if mine else scene.ended


def is_of(change: Change, name: str) -> bool:
    return change.what == name or f"/{name}/" in f"{change.what}/"


def same_day(one: datetime, other: datetime) -> bool:
    return one.astimezone(terms.ZONE).date() == other.astimezone(terms.ZONE).date()


def time_text(when: datetime | None) -> str:
    return f"{when.astimezone(UTC):%a %d %H:%M}" if when else "no time"


def account_of(thing: Thing) -> str:
    """The AWS account or Azure subscription that the thing's ID names."""
    return thing.id.split("/")[2] if thing.id.startswith("/") else thing.id.split(":")[4]
