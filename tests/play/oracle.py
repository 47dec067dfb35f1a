"""What must be true of everything the product does, worked out from the truth of the fleet and from the mails that were taken.

Nothing in here asks the product what it thinks: office hours, protection, grace, silence and limits are worked out once more, in the
plainest way. Each finding is one sentence that names the rule.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from play import terms
from play.clouds import Change
from play.fleet import Thing
from play.post import Mail, Notice
from play.terms import ADMINS, DAY, HOUR, MINUTE, RANK

SEEN = 6 * MINUTE
"""How old a use must be before the product has to know of it: what its cloud takes to publish it, and a bucket."""
OPEN = timedelta(minutes=30)
"""The silence that lets office hours stop something."""
JITTER = HOUR
"""How much early a reminder may be."""
HARMLESS = {"owner", "team"}
KNOWN = {"reaper:owner", "reaper:idle-after", "reaper:action"}


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """One thing at one moment."""

    there: bool
    level: int


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
    report: Mapping[str, Any] | None

    @property
    def acts(self) -> bool:
        """Whether it may stop anything."""
        return (self.verb, self.mode) == ("sweep", "enforce") or self.verb == "apply"


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """Something that a command did to a thing."""

    name: str
    what: str
    when: datetime
    scene: int


@dataclass(slots=True)
class Oracle:
    """Watches the play. `wrong` is everything that must not have happened, as (time, sentence)."""

    things: Mapping[str, Thing]
    wrong: list[tuple[datetime, str]] = field(default_factory=list)
    mails: list[Mail] = field(default_factory=list)
    acts: list[Act] = field(default_factory=list)
    scenes: list[Scene] = field(default_factory=list)
    snoozes: dict[str, list[tuple[datetime, datetime]]] = field(default_factory=lambda: defaultdict(list))
    releases: list[tuple[datetime, datetime]] = field(default_factory=list)
    raised: dict[str, list[datetime]] = field(default_factory=lambda: defaultdict(list))
    held: set[str] = field(default_factory=set)
    untold: dict[str, datetime] = field(default_factory=dict)
    carried: dict[tuple[str, str, str], datetime] = field(default_factory=dict)

    def saw(self, scene: Scene) -> list[Act]:
        """Judge one command; gives what it did."""
        self.scenes.append(scene)
        self.mails += scene.mails
        found = list(_acts(scene))
        for problem in [*self._ended_well(scene), *self._twice(scene), *self._limits(scene, found), *self._holds(scene)]:
            self.wrong.append((scene.began, problem))
        for act in found:
            thing = self.things[act.name]
            check = self._start if act.what == "start" else self._stop
            self.wrong += [(act.when, f"{act.name} ({thing.kind}) {act.what}: {why}") for why in check(thing, act, scene)]
            if act.what == "start":
                self.raised[act.name].append(act.when)
        self.acts += found
        self.wrong += [(mail.at, why) for mail in scene.mails for why in self._mail(mail)]
        return found

    def owner(self, thing: Thing, when: datetime) -> str:
        """Who is to be told then."""
        found = thing.truth.tags_at(when).get("owner", "")
        return found.lower() if found.endswith("@example.com") else ADMINS

    def protected(self, thing: Thing, when: datetime) -> list[str]:
        """What its tags, snoozes and rule say against stopping it then."""
        tags = thing.truth.tags_at(when)
        found = [f"the tag {key}={value}" for key, value in tags.items() if _protects(key, value, when)]
        found += [f"a snooze until {until}" for given, until in self.snoozes[thing.name] if given <= when < until]
        near = [*thing.guests, *([thing.inside] if thing.inside else [])]
        found += [
            f"a snooze of {one.name}" for one in near if any(given <= when < until for given, until in self.snoozes[one.name])
        ]
        found += [
            f"{key}={value} on {one.name}"
            for one in thing.guests
            for key, value in one.truth.tags_at(when).items()
            if _protects(key, value, when)
        ]
        return found + (["its rule"] if RANK[thing.terms.action] < RANK["stop"] else [])

    def ready(self, thing: Thing, when: datetime) -> bool:
        """Whether it has been idle for so long, and unprotected, that it ought to be stopped some day soon."""
        quiet = when - idle_after(thing, when)
        return (
            not self.protected(thing, when)
            and not thing.truth.used(quiet, when)
            and (thing.truth.last_touch(when) or thing.born) < quiet
        )

    def stuck(self, since: datetime, end: datetime) -> Iterator[str]:
        """What had to be stopped between the two moments, because nothing at all spoke against it, and still runs."""
        for thing in self.things.values():
            tags = [at for at, _ in thing.truth.tags if since <= at]
            busy = thing.truth.used(since - idle_after(thing, end), end) or (thing.truth.last_touch(end) or thing.born) > since
            snoozed = any(until > since for _, until in self.snoozes[thing.name])
            if tags or busy or snoozed or thing.terms.hours or self.protected(thing, end):
                continue
            if thing.guests and thing.terms.action != "delete":
                continue  # what hosts components is not stopped, only they are
            gone = thing.terms.action == "delete" and not any(n in thing.kind for n in ("notebook", "app", "cluster", "instance"))
            if thing.there() and (gone or thing.level() > thing.least()):
                yield f"{thing.name} ({thing.kind}) has been idle since {_time(thing.truth.last_use(end))} and still runs {thing.level()}"

    def _stop(self, thing: Thing, act: Act, scene: Scene) -> Iterator[str]:
        at = act.when
        if not scene.acts:
            yield f"by `{scene.verb}` in mode {scene.mode}, which must change nothing"
        yield from (f"although {why} protects it" for why in self.protected(thing, at))
        if RANK[act.what] > RANK[thing.terms.action]:
            yield f"its rule allows {thing.terms.action} at most"
        if thing.terms.hours:
            yield from self._by_hours(thing, at)
        else:
            yield from self._idle(thing, at, idle_after(thing, at))
            yield from self._noticed(thing, act)

    def _idle(self, thing: Thing, at: datetime, least: timedelta) -> Iterator[str]:
        if thing.truth.used(at - least, at - SEEN):
            last = thing.truth.last_use(at - SEEN)
            yield f"it was used until {_time(last)}{', unseen' if thing.silent else ''}"
        touched = max([t for t in (thing.truth.last_touch(at), *self.raised[thing.name]) if t], default=thing.born)
        if at - least < touched:
            yield f"it was changed at {_time(touched)}"

    def _noticed(self, thing: Thing, act: Act) -> Iterator[str]:
        owner, at = self.owner(thing, act.when), act.when
        told = [(m, n) for m in self.mails for n in m.notices if n.name == thing.name and m.at < at]
        mine = [(m, n) for m, n in told if m.to == owner and not n.done]
        if not mine:
            yield f"{owner} never got a notice"
            return
        since = max([t for t in (thing.truth.last_use(at - SEEN), thing.truth.last_touch(at), *self.raised[thing.name]) if t])
        good = [
            (m, n)
            for m, n in mine
            if _covers(n, act) and m.at > since and m.at <= at - thing.terms.grace + MINUTE and n.date and n.date <= at + MINUTE
        ]
        if not good:
            last = mine[-1]
            yield (
                f"no notice to {owner} announced it in time: it was last used or changed at {_time(since)}, the last mail of "
                f"{_time(last[0].at)} announced {last[1].announces or 'nothing'} for {_time(last[1].date)}"
            )
        elif not _covers(mine[-1][1], act):
            yield f"the last mail to {owner}, of {_time(mine[-1][0].at)}, no longer announced it"

    def _by_hours(self, thing: Thing, at: datetime) -> Iterator[str]:
        since = terms.closed_since(at)
        if since is None:
            yield "its office hours are on"
            return
        busy = thing.truth.used(at - OPEN, at - SEEN)
        touched = thing.truth.last_touch(at)
        if touched and since <= touched and at - touched < terms.OVERRIDE and not thing.terms.force:
            yield f"it was started by hand at {_time(touched)}, outside its hours"
        if busy and not thing.terms.force:
            yield f"it was used until {_time(thing.truth.last_use(at - SEEN))}"
        owner = self.owner(thing, at)
        mine = [m for m in self.mails for n in m.notices if n.name == thing.name and m.to == owner and n.announces and m.at < at]
        grace = min(thing.terms.grace, HOUR) if thing.terms.force else thing.terms.grace
        if not any(m.at <= at - grace + MINUTE for m in mine):
            yield f"{owner} had no notice {grace} before"
        if busy and not any(since <= m.at <= at - min(grace, HOUR) + MINUTE or _same_day(m.at, at) for m in mine):
            yield "it was busy, and its owner had no notice of the same day"

    def _start(self, thing: Thing, act: Act, scene: Scene) -> Iterator[str]:
        if scene.verb in {"restore", "undo"}:
            return
        if not scene.acts:
            yield f"by `{scene.verb}` in mode {scene.mode}, which must change nothing"
        if not thing.terms.hours:
            yield "no office hours ask for it"
        if not terms.is_open(act.when):
            yield "its office hours are over"
        ended = [a.when for a in self.acts if a.name == thing.name and a.what != "start"]
        last = max(ended, default=None)
        by_hand = max((t for t in thing.truth.stopped_by_hand if t <= act.when), default=None)
        if last is None or (by_hand and by_hand > last):
            yield f"its owner stopped it{f' at {_time(by_hand)}' if by_hand else ''}, not the product"
        yield from (f"although {why} protects it" for why in self.protected(thing, act.when))

    def _ended_well(self, scene: Scene) -> Iterator[str]:
        allowed = {0, 3} if scene.verb == "sweep" else {0, 1, 3}
        allowed |= {-9} if "kill" in scene.out_of_order else set()
        if scene.status not in allowed:
            yield f"`{scene.verb}` ended with status {scene.status}: {scene.stderr[-400:]}"
        if "Traceback" in scene.stderr:
            yield f"`{scene.verb}` tripped: {scene.stderr[-1500:]}"

    def _twice(self, scene: Scene) -> Iterator[str]:
        for change in scene.changes:
            if change.refused or not change.action.startswith(("sagemaker:", "Microsoft.MachineLearningServices")):
                continue
            key = (change.action, change.what, json.dumps(change.given, default=str, sort_keys=True))
            before = self.carried.get(key)
            thing = next((t for t in self.things.values() if t.name == change.what or f"/{t.name}/" in f"{change.what}/"), None)
            between = [a.when for a in self.acts if a.name == thing.name] + thing.truth.touched if thing else []
            if (
                before
                and thing
                and not any(before < when <= change.when for when in between)
                and scene.verb != "restore"
            ):
                yield f"{thing.name}: {change.action} was made twice, at {_time(before)} and at {_time(change.when)}"
            self.carried[key] = change.when

    def _limits(self, scene: Scene, found: Sequence[Act]) -> Iterator[str]:
        if scene.verb not in {"sweep", "apply"} or any(given <= scene.began < until for given, until in self.releases):
            return
        ended = [self.things[a.name] for a in found if a.what != "start" and not self.things[a.name].terms.hours]
        if len(ended) > terms.MAX_ACTS:
            yield f"{len(ended)} were stopped in one run, more than max_acts"
        for kind, count in Counter(t.kind for t in ended).items():
            seen = sum(1 for t in self.things.values() if t.kind == kind and scene.before[t.name].there)
            if count > max(1, int(terms.MAX_SHARE * seen)):
                yield f"{count} of {seen} {kind} were stopped in one run, more than max_share"

    def _holds(self, scene: Scene) -> Iterator[str]:
        if scene.report is None or not scene.acts:
            return
        held = {f["name"].rpartition("/")[2] for f in scene.report["findings"] if f["step"] == "hold"}
        said = " ".join(m.text for m in scene.mails if m.summary and "HELD" in m.subject)
        for name in held - self.held:
            self.untold[name] = scene.began
        for name in list(self.untold):
            if said or name not in held:
                del self.untold[name]
        self.held = held
        if self.untold and not scene.out_of_order & {"mail", "kill", "ledger"}:
            yield f"on hold, and no summary said so: {', '.join(sorted(self.untold))}"
            self.untold.clear()

    def _mail(self, mail: Mail) -> Iterator[str]:
        """What is wrong about one mail to an owner: to somebody else, or too soon after the last one that said the same."""
        for notice in mail.notices:
            thing = self.things.get(notice.name)
            if thing is None:
                yield f"a mail to {mail.to} names {notice.name}, which is no resource"
                continue
            if mail.to not in {self.owner(thing, mail.at), self.owner(thing, mail.at - 5 * MINUTE)}:
                yield f"a mail about {notice.name} went to {mail.to}, but it belongs to {self.owner(thing, mail.at)}"
            if not notice.done:
                yield from self._too_soon(thing, mail, notice)

    def _too_soon(self, thing: Thing, mail: Mail, notice: Notice) -> Iterator[str]:
        earlier = [
            (m, n)
            for m in self.mails
            for n in m.notices
            if n.name == notice.name and not n.done and m.to == mail.to and m.at < mail.at
        ]
        if not earlier:
            return
        last, said = earlier[-1]
        gap = mail.at - last.at
        if gap >= terms.REMIND - JITTER or said.announces != notice.announces:
            return
        new = [
            thing.truth.used(last.at - SEEN, mail.at),
            any(last.at < t <= mail.at for t in [*thing.truth.touched, *self.raised[thing.name]]),
            any(last.at < t <= mail.at for t, _ in thing.truth.tags),
            any(last.at <= until <= mail.at for _, until in self.snoozes[thing.name]),
            any(a.name == thing.name and last.at <= a.when <= mail.at for a in self.acts),
            any(last.command <= s.number <= mail.command and s.out_of_order & {"kill", "ledger", "lost"} for s in self.scenes),
        ]
        if not any(new):
            yield f"{mail.to} was told again of {notice.name} after {gap}, with nothing new: {last.subject!r}, then {mail.subject!r}"


def idle_after(thing: Thing, when: datetime) -> timedelta:
    """How long it must have been silent then."""
    said = thing.truth.tags_at(when).get("reaper:idle-after", "")
    return min(thing.terms.idle_after, HOUR * int(said[:-1])) if said.endswith("h") else thing.terms.idle_after


def _protects(key: str, value: str, when: datetime) -> bool:
    if not key.startswith("reaper:") or key in HARMLESS:
        return False
    if key == "reaper:keep-until":
        until = datetime.fromisoformat(value)
        return when < (until if until.tzinfo else until.replace(tzinfo=UTC) + DAY)
    if key == "reaper:action":
        return RANK.get(value, 0) < RANK["stop"]
    return key not in KNOWN


def _acts(scene: Scene) -> Iterator[Act]:
    for name, before in scene.before.items():
        after = scene.after[name]
        what = _what(before, after)
        if what:
            yield Act(name=name, what=what, when=_when(name, scene), scene=scene.number)


def _what(before: State, after: State) -> str | None:
    if before.there and not after.there:
        return "delete" if before.level else None
    if after.level != before.level:
        return "stop" if after.level < before.level else "start"
    return None


def _when(name: str, scene: Scene) -> datetime:
    mine = [c.when for c in scene.changes if not c.refused and (c.what == name or f"/{name}/" in f"{c.what}/")]
    return mine[0] if mine else scene.ended


def _covers(notice: Notice, act: Act) -> bool:
    return notice.announces is not None and RANK[notice.announces] >= RANK[act.what]


def _same_day(one: datetime, other: datetime) -> bool:
    return one.astimezone(terms.ZONE).date() == other.astimezone(terms.ZONE).date()


def _time(when: datetime | None) -> str:
    return f"{when.astimezone(UTC):%a %d %H:%M}" if when else "no time"
