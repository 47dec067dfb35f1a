"""What must be true whenever something is acted on, worked out from the truth of the depot and from the letters that were taken.

Nothing here asks the product what it thinks: office hours, protection, grace and silence are worked out once more, in the plainest way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from core.depot import Thing
from core.enforcer import policy
from core.fakes import DAY, HOUR
from reaper.message import Audience, Message
from reaper.model import Mode, Move
from reaper.policy import Policy

RANK = {"ignore": 0, "notify": 1, "stop": 2, "delete": 3}
GRACES = {"1h": HOUR, "1d": DAY, "3d": 3 * DAY, "7d": 7 * DAY}
SILENCES = {"4h": 4 * HOUR, "24h": DAY}
TICK = timedelta(minutes=20)
"""The most that time goes on within one sweep, after it looked."""
FALLBACK = "ml-admins@example.com"
NEXT = re.compile(
    r"^\d+\. (\S+)\n(?:   .*\n)*?   Next: It will be (\w+).*? on \w{3} (\d+ \w{3} \d{4}, \d\d:\d\d) UTC", re.MULTILINE
)
TEXT = """
version: 1
defaults: {{action: {action}, idle_after: {idle_after}, grace: {grace}, remind_every: 7d}}
limits: {{max_acts: {acts}, max_share: {share}%, max_usd_per_hour: {usd}, max_jump: {jump}%}}
owners: {{domains: [example.com], fallback: ml-admins@example.com}}
rules:
  - {{name: production, match: {{name: "prod-*"}}, action: ignore}}
  - {{name: guesses will do, match: {{name: "likely-*"}}, act_on: likely}}
  - {{name: dustbin, match: {{name: "waste-*"}}, action: delete}}
  - name: office
    match: {{name: "office-*"}}
    action: stop
    hours: {{on: "mon-fri 07:00-21:00", tz: UTC, start: ours}}
  - name: strict office
    match: {{name: "strict-*"}}
    action: stop
    hours: {{on: "mon-fri 07:00-21:00", tz: UTC, start: all, force: true}}
"""


@dataclass(frozen=True, kw_only=True)
class Knobs:
    """What the policy's authors turn."""

    action: str = "stop"
    idle_after: str = "24h"
    grace: str = "3d"
    acts: int = 20
    share: int = 100
    usd: float = 1000
    jump: int = 100

    def policy(self) -> Policy:
        text = TEXT.format(**self.__dict__)
        if text not in _PARSED:
            _PARSED[text] = policy(text)
        return _PARSED[text]


_PARSED: dict[str, Policy] = {}


@dataclass(frozen=True, kw_only=True)
class Told:
    """A letter about one thing: when it was taken, what it announced for when, and the grace in force then."""

    name: str
    when: datetime
    move: Move
    date: datetime
    grace: timedelta
    to: str


@dataclass(kw_only=True)
class Oracle:
    """What really happened. `acts`: (move, name, when, run). `snoozes`: by name, (given, until), the newest last."""

    knobs: Knobs = field(default_factory=Knobs)
    mode: Mode = Mode.ENFORCE
    told: list[Told] = field(default_factory=list)
    acts: list[tuple[Move, str, datetime, str]] = field(default_factory=list)
    snoozes: dict[str, list[tuple[datetime, datetime]]] = field(default_factory=dict)
    garbled: set[str] = field(default_factory=set)

    def hear(self, message: Message, addresses: Mapping[str, set[str]], now: datetime) -> Iterator[str]:
        """Notes what a letter announces. Yields what is wrong with it. `addresses`: by name, where letters about a thing may go."""
        for name, move, date in NEXT.findall(message.text):
            if message.audience is not Audience.OWNERS or not any(id_.endswith(f"/{name}") for id_ in message.resource_ids):
                continue
            when = datetime.strptime(date, "%d %b %Y, %H:%M").replace(tzinfo=UTC)
            grace = _grace(name, self.knobs)
            if message.to not in addresses.get(name, set()):
                yield f"{name}: told to {message.to}"
            if self.mode is not Mode.ENFORCE:
                yield f"{name}: {move} was announced in mode {self.mode}"
            what = Move.DELETE if move == "deleted" else Move.STOP
            self.told.append(Told(name=name, when=now, move=what, date=when, grace=grace, to=message.to))

    def wrong(self, thing: Thing, move: Move, now: datetime) -> Iterator[str]:
        """Everything that forbids this act now."""
        if self.mode is not Mode.ENFORCE:
            yield f"acted in mode {self.mode}"
        if thing.name in self.garbled:
            yield "what is remembered of it cannot be read"
        yield from _protected(thing, self.knobs, move, now)
        if any(name == thing.name and now - when < HOUR for m, name, when, _ in self.acts if m is move):
            yield f"{move} twice within the hour"
        if move is Move.START:
            yield from self._unasked(thing, now)
            return
        if any(given <= now < until for given, until in self.snoozes.get(thing.name, [])):
            yield "kept by a snooze"
        busy = _busy(thing, self.knobs, now)
        if _strict(thing.name) and _shut(now):
            yield from [] if busy else _unknown(thing, self.knobs, now)
        else:
            yield from [*busy, *_unknown(thing, self.knobs, now)]
        if _office(thing.name) and not _shut(now):
            yield "inside its office hours"
        if not any(True for told in self.told if not [*self._void(told, thing, move, now)]):
            why = [(t.when.isoformat(), *self._void(t, thing, move, now)) for t in self.told if t.name == thing.name]
            yield f"no notice: {why}"

    def _void(self, told: Told, thing: Thing, move: Move, now: datetime) -> Iterator[str]:
        """Why that letter gives no right to this act."""
        if told.name != thing.name:
            yield "about something else"
        if RANK[told.move] < RANK[move]:
            yield f"announced {told.move} only"
        if now - told.when < told.grace:
            yield f"the grace of {told.grace} is not over"
        if now < told.date:
            yield f"it said {told.date}"
        if told.to != address(thing):
            yield f"told to {told.to}, who is no longer its owner"
        if any(until > told.when for given, until in self.snoozes.get(thing.name, []) if given <= now):
            yield "answered by a snooze"
        if any(name == thing.name and when >= told.when for _, name, when, _ in self.acts):
            yield "used up by an act"
        if _strict(thing.name) and _shut(now):
            if told.when.date() not in {now.date(), (now - TICK).date()}:
                yield "not of the same day"
            return
        if any(told.when < use <= now for use in thing.uses):
            yield "used since"
        if any(t and t > told.when for t in (thing.created, thing.changed)):
            yield "made or changed since"
        if not thing.vague and any(start < now - 2 * TICK and end > told.when for start, end in thing.deaf):
            yield "without proof since"

    def _unasked(self, thing: Thing, now: datetime) -> Iterator[str]:
        """Why it must not be started."""
        if not _office(thing.name) or not (_open(now) or _open(now - TICK)):
            yield "started outside of office hours"
        if thing.up:
            yield "started although it runs"
        last = [(move, when) for move, name, when, _ in self.acts if name == thing.name][-1:]
        ours = last and last[0][0] is Move.STOP and (thing.changed is None or thing.changed <= last[0][1] + HOUR)
        if not _strict(thing.name) and not ours:
            yield "started although somebody else had stopped it"


def address(thing: Thing) -> str:
    """To whom letters about it go."""
    said = (thing.tags or {}).get("reaper:owner", "")
    return said if said.endswith("@example.com") else FALLBACK


def ceiling(name: str, knobs: Knobs) -> str:
    """The most that the policy's file lets be done."""
    return {"prod": "ignore", "waste": "delete", "office": "stop", "strict": "stop"}.get(name.split("-")[0], knobs.action)


def _protected(thing: Thing, knobs: Knobs, move: Move, now: datetime) -> Iterator[str]:
    if thing.tags is None:
        yield "its tags cannot be read"
        return
    most = RANK[ceiling(thing.name, knobs)]
    for key, value in thing.tags.items():
        if key == "reaper:action":
            most = min(most, RANK.get(value, 0))
        elif key == "reaper:keep-until":
            until = datetime.fromisoformat(value)
            if now < (until if until.tzinfo else until.replace(tzinfo=UTC) + DAY + 12 * HOUR):
                yield f"kept until {value}"
        elif key not in {"reaper:owner", "reaper:idle-after", "team"}:
            yield f"protected by {key}"
    if most < RANK[Move.STOP if move is Move.START else move]:
        yield f"{move} is more than policy and tags allow"


def _busy(thing: Thing, knobs: Knobs, now: datetime) -> list[str]:
    least = _silence(thing, knobs, now)
    if _office(thing.name) and not _open(now) and thing.changed and not _open(thing.changed) and now - thing.changed < 4 * HOUR:
        same_night = not any(_open(thing.changed + n * HOUR / 4) for n in range(16) if thing.changed + n * HOUR / 4 <= now)
        if same_night and not _strict(thing.name):
            return ["started by hand out of hours"]
    return [
        *[f"used {now - use} ago" for use in thing.uses if now - least < use <= now],
        *[f"made or changed {now - when} ago" for when in (thing.created, thing.changed) if when and now - when < least],
        *([f"its status is {thing.status}"] if thing.status != "InService" else []),
    ]


def _unknown(thing: Thing, knobs: Knobs, now: datetime) -> Iterator[str]:
    if thing.up is None:
        yield "it is stopped already"
    if thing.patchy:
        yield "its metrics are incomplete"
    if thing.vague and not thing.name.startswith("likely"):
        yield "the evidence is indirect"
    least = _silence(thing, knobs, now)
    if not thing.vague and any(start < now - 2 * TICK and end > now - least for start, end in thing.deaf):
        yield "its heartbeat was not there all the time"


def _silence(thing: Thing, knobs: Knobs, now: datetime) -> timedelta:
    """How long it must have been silent."""
    least = SILENCES[knobs.idle_after]
    least = min(least, SILENCES.get((thing.tags or {}).get("reaper:idle-after", ""), least))
    return min(least, HOUR / 2) if _office(thing.name) and _shut(now) else least


def _grace(name: str, knobs: Knobs) -> timedelta:
    return min(GRACES[knobs.grace], HOUR) if _strict(name) else GRACES[knobs.grace]


def _office(name: str) -> bool:
    return name.startswith(("office", "strict"))


def _strict(name: str) -> bool:
    return name.startswith("strict")


def _shut(now: datetime) -> bool:
    """Whether office hours are over, or were when the sweep looked."""
    return not (_open(now) and _open(now - TICK))


def _open(at: datetime) -> bool:
    return at.weekday() < 5 and 7 <= at.hour < 21
