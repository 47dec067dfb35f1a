"""Notices that were wrong because signals were lost: none goes out while that is plain to see, and each is taken back once, no other is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from play import terms
from play.post import Mail
from play.scene import SEEN, Scene, account_of, time_text
from play.terms import DAY, HOUR
from play.thing import Thing

QUIET = 2 * DAY
"""How long after a jump no notices of idleness go out; then they have no date."""
FOOLED, SHARE = 5, 0.75
"""So many resources of a place that seem to be idle and aren't, where so great a share is reported as idle, are a jump under any circumstances."""
Place = tuple[str, str, str]


@dataclass(slots=True, kw_only=True)
class Claim:
    """What a notice said: idle at `at`, and for `idle_after` before. `settled`: taken back, or not to be taken back any more."""

    name: str
    to: str
    at: datetime
    idle_after: timedelta
    dated: bool
    settled: bool = False

    def denied_by(self, thing: Thing) -> tuple[datetime, datetime] | None:
        """When its use became known and when it ended, if it proves the notice wrong beyond doubt."""
        first, last = self.at - self.idle_after + HOUR, self.at - HOUR - SEEN
        known = [(when, end) for when, (start, end) in thing.truth.late if when > self.at and start < last and end > first]
        return max(known, default=None)


@dataclass(slots=True)
class Claims:
    """All notices of idleness, and what was taken back. `protected`: what speaks against stopping a thing at a time. `relearns`: whether
    nothing can jump where it is, because a release has ended a jump there.
    """

    things: Mapping[str, Thing]
    protected: Callable[[Thing, datetime], Sequence[str]]
    relearns: Callable[[Thing, datetime], bool]
    made: list[Claim] = field(default_factory=list)
    taken: dict[tuple[str, str], datetime] = field(default_factory=dict)
    jumps: dict[Place, datetime] = field(default_factory=dict)
    unnoticed: set[Place] = field(default_factory=set)
    """Where signals were lost before it was known what is usual: what is silent then seems usual later on."""
    counts: Counter[str] = field(default_factory=Counter)
    could_doubt: bool = True
    """Whether the run before was undisturbed: it sees the use and remembers its doubt, and the next one looks far enough back to be sure."""

    def saw(self, scene: Scene) -> Iterator[str]:
        """What is wrong about the notices of one command, and about what it took back or didn't."""
        yield from self._in_a_jump(scene)
        for mail in scene.mails:
            for name in mail.corrects:
                yield from self._taken_back(name, mail, scene)
            self.made += self._claims(mail, scene)
        if scene.undisturbed and self.could_doubt:
            yield from self._owed(scene)
        self.could_doubt = scene.undisturbed or (self.could_doubt and scene.verb != "sweep")

    def _claims(self, mail: Mail, scene: Scene) -> Iterator[Claim]:
        for notice in mail.notices:
            thing = self.things.get(notice.name)
            if thing is None or notice.is_done or thing.terms.hours:
                continue
            yield Claim(
                name=thing.name,
                to=mail.to,
                at=mail.at,
                idle_after=min(thing.terms.idle_after, 12 * HOUR),
                dated=notice.date is not None,
                settled=bool(scene.out_of_order & {"kill", "lost"}),
            )

    def _taken_back(self, name: str, mail: Mail, scene: Scene) -> Iterator[str]:
        thing, last = self.things[name], self.taken.get((name, mail.to))
        claims = [c for c in self.made if (c.name, c.to) == (name, mail.to) and (last is None or c.at > last)]
        if last and not claims and not scene.out_of_order & {"kill", "lost"}:
            yield f"{mail.to} was told twice, at {time_text(last)} and {time_text(mail.at)}, that a notice about {name} was wrong"
        elif not any(thing.truth.used(c.at - terms.LOOKBACK - HOUR, c.at) for c in claims):
            yield f"a notice to {mail.to} about {name} was taken back, but it was true"
        self.taken[name, mail.to] = mail.at
        self.counts["taken back"] += 1
        self.counts["taken back with a date"] += any(c.dated for c in claims)
        for claim in claims:
            claim.settled = True

    def _owed(self, scene: Scene) -> Iterator[str]:
        for claim in (c for c in self.made if not c.settled and c.at < scene.began):
            thing = self.things[claim.name]
            denied = claim.denied_by(thing)
            if denied is None or denied[0] > scene.began - SEEN:
                claim.settled = claim.at < scene.began - terms.LOOKBACK - 2 * DAY
            elif scene.began - denied[1] > terms.LOOKBACK - 2 * HOUR or not thing.exists():
                claim.settled = True
                self.counts["too old to be taken back"] += 1
            elif not self.protected(thing, scene.began):
                claim.settled = True
                when = "with a date" if claim.dated else "without a date"
                yield (
                    f"the notice {when} to {claim.to} of {time_text(claim.at)} about {claim.name} was wrong, as is known since "
                    f"{time_text(denied[0])}, and isn't taken back"
                )

    def _in_a_jump(self, scene: Scene) -> Iterator[str]:
        """Notices that went out although so many seem to be idle at once that it must be a fault."""
        self._note_jumps(scene)
        for mail in scene.mails:
            for notice in mail.notices:
                thing = self.things.get(notice.name)
                since = self.jumps.get(place_of(thing)) if thing and not thing.terms.hours and not notice.is_done else None
                if since is None or notice.name not in self.things or _watched(self.things[notice.name]):
                    continue
                if scene.began - since < QUIET:
                    yield f"{mail.to} got a notice about {notice.name}, though the signals there have been lost since {time_text(since)}"
                elif notice.date:
                    yield f"{mail.to} got a notice with a date about {notice.name}, though the signals there are lost"

    def _note_jumps(self, scene: Scene) -> None:
        idle = {row["name"].rpartition("/")[2] for row in (scene.report or {}).get("findings", ()) if row["state"] == "idle"}
        places: dict[Place, list[Thing]] = {}
        for thing in (t for t in self.things.values() if t.exists()):
            places.setdefault(place_of(thing), []).append(thing)
        for place, there in places.items():
            fooled = [thing for thing in there if thing.silent and self._seems_idle(thing, scene.began)]
            if len(fooled) >= FOOLED and sum(thing.name in idle for thing in there) / len(there) >= SHARE:
                if place not in self.jumps and self.relearns(fooled[0], scene.began):
                    self.unnoticed.add(place)
                if place not in self.unnoticed:
                    self.counts["places with lost signals"] += place not in self.jumps
                    self.jumps.setdefault(place, scene.began)
            elif not any(thing.silent for thing in there):
                self.jumps.pop(place, None)
                self.unnoticed.discard(place)

    def _seems_idle(self, thing: Thing, now: datetime) -> bool:
        """Whether it is in use and nothing shows it."""
        since = now - thing.terms.idle_after - HOUR
        seen = any(start < now and end > since for start, end in thing.truth.uses)
        touched = (thing.truth.last_touch(now) or thing.born) > since
        return thing.truth.used(now - thing.terms.idle_after, now) and not seen and not touched and not self.protected(thing, now)


def place_of(thing: Thing) -> Place:
    """Its account or subscription, its region, and its kind."""
    region = thing.id.split(":")[3] if thing.id.startswith("arn:") else ""
    return account_of(thing), region, thing.kind


def _watched(thing: Thing) -> bool:
    """Whether no notice ever announces anything for it, so that a jump has nothing to prevent."""
    return thing.terms.action == "notify"
