"""One resource of the play: what is really there, who uses it when, and what people do to it behind the product's back.

A thing's truth (when it is used, what was done to it) is kept apart from what its cloud publishes of it, so that the oracle can ask the
truth, and an outage can hide it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar

from play import terms

Span = tuple[datetime, datetime]
RESTORED = "ml-idle-reaper:restored"
"""The tag by which restoring knows what it made."""


@dataclass(slots=True, kw_only=True)
class Truth:
    """What really happened: uses (`unseen`: those that aren't published, `late`: those that were, and when), changes by
    people, and which tags it had since when."""

    uses: list[Span] = field(default_factory=list)
    unseen: list[Span] = field(default_factory=list)
    touched: list[datetime] = field(default_factory=list)
    stopped_by_hand: list[datetime] = field(default_factory=list)
    tags: list[tuple[datetime, dict[str, str]]] = field(default_factory=list)
    late: list[tuple[datetime, Span]] = field(default_factory=list)

    def used(self, since: datetime, until: datetime) -> bool:
        """Whether it was in use at any time of that stretch."""
        return any(start < until and end > since for start, end in [*self.uses, *self.unseen])

    def last_use(self, before: datetime) -> datetime | None:
        """When it was last seen in use before that moment."""
        return max((min(end, before) for start, end in self.uses if start < before), default=None)

    def last_touch(self, before: datetime) -> datetime | None:
        """When a person last changed it before that moment."""
        return max((at for at in self.touched if at <= before), default=None)

    def tags_at(self, when: datetime) -> dict[str, str]:
        """Its tags then."""
        return next((tags for at, tags in reversed(self.tags) if at <= when), {})


class Thing(ABC):
    """One resource. `plan` are the uses that its owner has in mind; it is used then if it runs."""

    kind: ClassVar[str]
    cloud: ClassVar[str]
    sleeps: ClassVar[bool] = True
    """Whether a stopped one cannot be used."""

    def __init__(self, name: str, owner: str, plan: Sequence[Span], born: datetime) -> None:
        self.name, self.owner, self.plan, self.born = name, owner, list(plan), born
        self.truth = Truth(touched=[born], tags=[(born, {"owner": owner})])
        self.inside: Thing | None = None
        """Its host."""
        self.guests: list[Thing] = []
        """The resources on it."""
        self.silent = False
        """Whether its cloud publishes nothing of its use, though it is used: a broken signal."""
        self.owed: list[tuple[datetime, datetime, bool]] = []
        """The stretches whose use isn't published yet, and whether it was busy in them."""

    @property
    def terms(self) -> terms.Terms:
        """What the policy says of it."""
        return terms.of(self.name)

    @property
    @abstractmethod
    def id(self) -> str:
        """Its ARN or ARM id."""

    @abstractmethod
    def level(self) -> int:
        """How many machines are paid for; 0 for what is stopped or gone."""

    @abstractmethod
    def least(self) -> int:
        """How many are left when it is stopped."""

    @abstractmethod
    def exists(self) -> bool:
        """Whether it exists."""

    @abstractmethod
    def portrait(self) -> Any:
        """All that makes it what it is, without times and ids."""

    @abstractmethod
    def show(self, since: datetime, until: datetime, *, busy: bool) -> None:
        """Publish its metrics for that stretch."""

    def sides(self) -> dict[str, int]:
        """The settings that stopping or deleting it changes beside its main call, by name."""
        return {}

    def set_sides(self, sides: dict[str, int], now: datetime) -> None:
        """Its owner changes these settings by hand."""
        raise NotImplementedError

    def is_reachable(self) -> bool:
        """Whether it could be used if it runs."""
        return True

    def beat(self, since: datetime, until: datetime) -> None:
        """Publish what shows that it is alive in that stretch, and nothing of its use."""
        self.show(since, until, busy=False)

    def show_use(self, since: datetime, until: datetime, *, busy: bool) -> None:
        """Publish nothing but its use in that stretch."""
        raise NotImplementedError

    @abstractmethod
    def put_tags(self, tags: dict[str, str]) -> None:
        """Replace its tags."""

    @abstractmethod
    def start(self, now: datetime) -> None:
        """Its owner starts it, or scales it out, by hand."""

    @abstractmethod
    def stop(self, now: datetime) -> None:
        """Its owner stops it, or scales it in, by hand."""

    def retag(self, now: datetime, **changes: str | None) -> None:
        """Its owner sets tags, or takes them off (None)."""
        tags = {**self.truth.tags_at(now), **{_key(k): v for k, v in changes.items() if v is not None}}
        for key in [_key(k) for k, v in changes.items() if v is None]:
            tags.pop(key, None)
        self.truth.tags.append((now, tags))
        if self.exists():
            self.put_tags({**tags, **({RESTORED: mark} if (mark := self.mark()) else {})})

    def mark(self) -> str | None:
        """The value of the tag that restoring put on it, if there is one."""
        return None

    def use(self, since: datetime, until: datetime) -> None:
        """It is used in that stretch, which is not published yet."""
        for thing in (self, self.inside, *self.guests):
            if thing:
                thing.plan.append((since, until))

    def live(self, since: datetime, until: datetime) -> None:
        """Time passes: it is used as planned, if it runs, and its cloud publishes what it sees."""
        if not self.exists() or (self.sleeps and not self.level()):
            return
        wanted = self.plan if self.is_reachable() else ()
        busy = [(max(start, since), min(end, until)) for start, end in sorted(wanted) if start < until and end > since]
        at = since
        for start, end in _joined(busy):
            if at < start:
                self._publish(at, start, busy=False)
            self._publish(start, end, busy=True)
            (self.truth.unseen if self.silent else self.truth.uses).append((start, end))
            at = end
        if at < until:
            self._publish(at, until, busy=False)

    def _publish(self, since: datetime, until: datetime, *, busy: bool) -> None:
        if not self.silent:
            self.show(since, until, busy=busy)
            return
        self.beat(since, until)
        self.owed.append((since, until, busy))

    def catch_up(self, now: datetime) -> None:
        """Its cloud publishes the history of its use that was lost."""
        if not self.exists():
            self.owed.clear()
        for since, until, busy in self.owed:
            self.show_use(since, until, busy=busy)
        spans = [(since, until) for since, until, busy in self.owed if busy]
        self.owed.clear()
        self.truth.unseen = [span for span in self.truth.unseen if span not in spans]
        self.truth.uses += spans
        self.truth.late += [(now, span) for span in spans]

    @abstractmethod
    def vanish(self) -> None:
        """It was never there."""

    def wants(self, since: datetime, until: datetime) -> bool:
        """Whether its owner would like to use it in that stretch."""
        return any(start < until and end > since for start, end in self.plan)

    def started_by_hand(self, now: datetime) -> None:
        """Its owner starts it."""
        self.start(now)
        self.truth.touched.append(now)

    def stopped_by_hand(self, now: datetime) -> None:
        """Its owner stops it."""
        self.stop(now)
        self.truth.touched.append(now)
        self.truth.stopped_by_hand.append(now)


def _key(name: str) -> str:
    return name.replace("__", "-").replace("_", ":")


def _joined(spans: Sequence[Span]) -> list[Span]:
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            start, end = joined[-1][0], max(joined.pop()[1], end)
        joined.append((start, end))
    return joined
