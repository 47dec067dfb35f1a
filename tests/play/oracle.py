"""What must be true of everything the product does, worked out from the truth of the fleet and from the mails that were taken.

Nothing in here asks the product what it thinks: office hours, protection, grace, silence and limits are worked out once more, in the
plainest way. Each finding is one sentence that names the rule.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from play import letters, terms
from play.claims import Claims, place_of
from play.halves import Halves
from play.post import Mail, Notice
from play.scene import SEEN, Act, Scene, account_of, acts_of, same_day, time_text
from play.terms import ADMINS, DAY, HOUR, MINUTE, RANK
from play.thing import Thing

OPEN = timedelta(minutes=30)
"""The silence that lets office hours stop something."""
JUMP = re.compile(r"are idle(?: or were acted on)?, up from \d+%")
"""How a report says that the idle share jumped."""
LEARNS_FOR = 3
"""So many days with sweeps before today show what is usual. With fewer nothing jumps, and only limits protect."""
HARMLESS = {"owner", "team"}
KNOWN = {"reaper:owner", "reaper:idle-after", "reaper:action"}


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
    names_on_hold: set[str] = field(default_factory=set)
    counted: list[tuple[datetime, Thing]] = field(default_factory=list)
    unreported: dict[str, datetime] = field(default_factory=dict)
    unread: dict[str, Act] = field(default_factory=dict)
    prices: dict[str, float] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    carried: dict[tuple[str, str, str], datetime] = field(default_factory=dict)
    jumps: list[tuple[datetime, str, str]] = field(default_factory=list)
    accepted_until: datetime | None = None
    canary: bool = False
    left_out: list[datetime] = field(default_factory=list)
    claims: Claims = field(init=False)
    halves: Halves = field(init=False)

    def __post_init__(self) -> None:
        self.claims = Claims(self.things, self.protected, self.relearns)
        self.halves = Halves(self.things)

    def saw(self, scene: Scene) -> list[Act]:
        """Judge one command; gives what it did."""
        self.scenes.append(scene)
        self.mails += scene.mails
        acts = list(acts_of(scene))
        for row in (scene.report or {}).get("findings", ()):
            if row["usd_per_hour"] is not None:
                self.prices[row["name"].rpartition("/")[2]] = row["usd_per_hour"]
        self._note_jumps(scene)
        if self.canary and scene.undisturbed and scene.mode != "notify" and scene.status == 0:
            self.left_out.append(scene.began)
        checks = (
            self.claims.saw(scene),
            self.halves.saw(scene),
            self._ended_well(scene),
            self._twice(scene),
            self._limits(scene, acts),
            self._holds(scene, acts),
            letters.check_cards(scene),
        )
        self.wrong += [(scene.began, why) for check in checks for why in check]
        for act in acts:
            thing = self.things[act.name]
            check = self._start if act.what == "start" else self._stop
            self.wrong += [(act.when, f"{act.name} ({thing.kind}) {act.what}: {why}") for why in check(thing, act, scene)]
            if act.what == "start":
                self.raised[act.name].append(act.when)
        self.acts += acts
        for name, at in self.halves.put_back:
            if at == scene.ended:
                self.raised[name].append(at)
        self.wrong += [(mail.at, why) for mail in scene.mails for why in letters.check(self, mail)]
        self.wrong += [(scene.ended, why) for why in self._unread(scene, acts)]
        self._count(scene, acts)
        return acts

    def undone(self, name: str) -> None:
        """A person has restored or started it, so its owner needs no mail any more about what was done."""
        self.unread.pop(name, None)
        self.halves.open.pop(name, None)

    def jumped(self, thing: Thing, since: datetime, until: datetime) -> bool:
        """Whether a report said in that time that the idle share jumped where it is."""
        return any(since <= at <= until and kind == thing.kind and where in thing.id for at, kind, where in self.jumps)

    def relearns(self, thing: Thing, when: datetime) -> bool:
        """Whether a release ended a jump where it is, and too few days with sweeps have shown since what is usual there: nothing jumps."""
        sweeps = [s for s in self.scenes if s.verb == "sweep" and s.report is not None]
        for at, _ in self.releases:
            last = max((s.began for s in sweeps if s.began <= at), default=at)
            if at <= when and self.jumped(thing, last, at):
                sound = [s.began for s in sweeps if s.began > at and s.out_of_order <= {"mail"}]
                days = {began.date() for began in sound if not self.jumped(thing, began, began)}
                if sum(day < when.date() for day in days) < LEARNS_FOR:
                    return True
        return False

    def _note_jumps(self, scene: Scene) -> None:
        for row in (scene.report or {}).get("findings", ()):
            if JUMP.search(row["step_because"]):
                where = "" if "in this run" in row["step_because"] else f":{row['region']}:{row['account']}:"
                self.jumps.append((scene.began, row["kind"], where if row["cloud"] == "aws" else ""))

    def owner(self, thing: Thing, when: datetime) -> str:
        """Who must get the mail then."""
        owner = thing.truth.tags_at(when).get("owner", "")
        return owner.lower() if owner.endswith("@example.com") else ADMINS

    def protected(self, thing: Thing, when: datetime) -> list[str]:
        """What its tags, snoozes and rule say against stopping it then."""
        tags = thing.truth.tags_at(when)
        protections = [f"the tag {key}={value}" for key, value in tags.items() if _protects(key, value, when)]
        protections += [f"a snooze until {until}" for begin, until in self.snoozes[thing.name] if begin <= when < until]
        if thing.inside:  # its host's tags are its own, where it has no others
            theirs = thing.inside.truth.tags_at(when).items()
            protections += [
                f"a snooze of its host until {until}" for begin, until in self.snoozes[thing.inside.name] if begin <= when < until
            ]
            protections += [
                f"{key}={value} on its host" for key, value in theirs if key not in tags and _protects(key, value, when)
            ]
        if self.accepted_until and thing.name.startswith(terms.ACCEPTED) and when < self.accepted_until:
            protections.append("an acceptance")
        if self.canary:
            protections.append("the canary, which it is not in,")
        return protections + (["its rule"] if RANK[thing.terms.action] < RANK["stop"] else [])

    def taken_away(self, thing: Thing, when: datetime) -> list[datetime]:
        """When a protection ended before that moment, or a run that announces saw that it is out of the canary: earlier notices are used up."""
        tags, ends = thing.truth.tags_at(when), list(self.left_out)
        for one in [thing, *([thing.inside] if thing.inside else [])]:
            ends += [until for _, until in self.snoozes[one.name]]
            value = one.truth.tags_at(when).get("reaper:keep-until") if one is thing or "reaper:keep-until" not in tags else None
            ends += [kept_until(value)] if value else []
        if self.accepted_until and thing.name.startswith(terms.ACCEPTED):
            ends.append(self.accepted_until)
        return [end for end in ends if end <= when]

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
            parts = max(thing.least() - 1, 0)  # each is announced by the mail about the one before
            if thing.terms.hours or not self._left_alone(thing, since - parts * (thing.terms.grace + 6 * HOUR), end):
                continue
            if not any(n.name == thing.name for m in self.mails for n in m.notices) and thing.level() > thing.least():
                yield f"{thing.name} ({thing.kind}) has been idle since {time_text(thing.truth.last_use(end))} and no mail says so"
            if thing.guests and (thing.terms.action != "delete" or any(one.exists() for one in thing.guests)):
                continue  # what hosts components is neither stopped nor deleted, only they are
            gone = thing.terms.action == "delete" and not any(n in thing.kind for n in ("notebook", "app", "cluster", "instance"))
            if thing.exists() and (gone or thing.level() > thing.least()):
                yield f"{thing.name} ({thing.kind}) has been idle since {time_text(thing.truth.last_use(end))} and still runs {thing.level()}"

    def late_nights(self, since: datetime, end: datetime) -> Iterator[str]:
        """What keeps office hours and ran at the end of a night after that moment, or stood still on a working day, for no reason."""
        for scene in (s for s in self.scenes if s.verb == "sweep" and s.began >= since):
            at = scene.began
            for thing in (t for t in self.things.values() if t.terms.hours and self._kept_hours(t, at)):
                closed, opened, up = terms.closed_since(at), terms.opened_at(at), scene.after[thing.name].level > 0
                touched = max((t for t in thing.truth.touched if t <= at), default=thing.born)
                if closed and at - closed > 8 * HOUR and up and touched < closed and not thing.truth.used(at - HOUR, at):
                    yield f"{thing.name} ({thing.kind}) still runs at {time_text(at)}, long after its office hours"
                ended = [a for a in self.acts if a.name == thing.name and a.when < at and a.what == "stop"]
                if opened and not up and ended and touched < ended[-1].when and at - opened > HOUR:
                    yield f"{thing.name} ({thing.kind}) is not started at {time_text(at)}, though the product had stopped it"

    def _left_alone(self, thing: Thing, since: datetime, end: datetime) -> bool:
        """Whether nothing at all spoke against stopping it between the two moments."""
        near = [thing, *thing.guests, *([thing.inside] if thing.inside else [])]
        tags = [at for one in near for at, _ in one.truth.tags if since <= at]
        busy = thing.truth.used(since - idle_after(thing, end), end) or (thing.truth.last_touch(end) or thing.born) > since
        snoozed = any(until > since for one in near for _, until in self.snoozes[one.name])
        reshaped = any(act.name == guest.name and act.when > since for guest in thing.guests for act in self.acts)
        return not (tags or busy or snoozed or reshaped or self.protected(thing, end))

    def _kept_hours(self, thing: Thing, at: datetime) -> bool:
        """Whether its enrolment can't have been void for any of the days in which it is replaced."""
        since = at - terms.REMIND - 2 * DAY
        changed = any(when > since for when, _ in thing.truth.tags)
        snoozed = any(until > since for _, until in self.snoozes[thing.name])
        spared = any(end > since for end in self.left_out)
        return not (changed or snoozed or spared or self.protected(thing, at)) and at - self.scenes[0].began > 3 * DAY

    def _stop(self, thing: Thing, act: Act, scene: Scene) -> Iterator[str]:
        at = act.when
        if scene.verb in {"restore", "undo"}:  # it was smaller before
            return
        if not scene.acts:
            yield f"by `{scene.verb}` in mode {scene.mode}, which must change nothing"
        yield from (f"although {why} protects it" for why in self.protected(thing, at))
        on_it = [one.name for one in thing.guests if scene.before[one.name].exists]
        if on_it:
            yield f"{', '.join(on_it)} were on it, and an action touches one resource"
        if RANK[act.what] > RANK[thing.terms.action]:
            yield f"its rule allows {thing.terms.action} at most"
        if thing.terms.hours:
            yield from self._by_hours(thing, at)
        else:
            yield from self._idle(thing, at, idle_after(thing, at))
            yield from self._noticed(thing, act)

    def _idle(self, thing: Thing, at: datetime, least: timedelta) -> Iterator[str]:
        last = thing.truth.last_use(at - SEEN)
        if last and last > at - least:
            yield f"it was used until {time_text(last)}"
        elif thing.truth.used(at - least, at - SEEN):  # nothing shows it, but that many are silent at once
            is_jump = place_of(thing) in self.claims.jumps
            self.counts["stopped while used unseen"] += not is_jump
            if is_jump:
                yield "it was used, unseen, where the signals are lost"
        touched = max([t for t in (thing.truth.last_touch(at), *self.raised[thing.name]) if t], default=thing.born)
        if at - least < touched:
            yield f"it was changed at {time_text(touched)}"

    def _noticed(self, thing: Thing, act: Act) -> Iterator[str]:
        owner, at = self.owner(thing, act.when), act.when
        notices = [(m, n) for m in self.mails for n in m.notices if n.name == thing.name and m.at < at]
        mine = [(m, n) for m, n in notices if m.to == owner and (n.rest or not n.is_done)]
        if not mine:
            yield f"{owner} never got a notice"
            return
        ends = self.taken_away(thing, at)
        self.counts["notices used up by a protection"] += any(m.at < end for m, _ in mine for end in ends)
        # A host without its components is another one than its owner was told of.
        ends += [a.when for one in thing.guests for a in self.acts if a.name == one.name and a.what == "delete"]
        since = max(
            [t for t in (thing.truth.last_use(at - SEEN), thing.truth.last_touch(at), *self.raised[thing.name], *ends) if t]
        )
        good = [
            (m, n)
            for m, n in mine
            if _covers(n, act) and m.at > since and m.at <= at - thing.terms.grace + MINUTE and n.date and n.date <= at + MINUTE
        ]
        if not good:
            last = mine[-1]
            yield (
                f"no notice to {owner} announced it in time: it was last used or changed at {time_text(since)}, the last mail of "
                f"{time_text(last[0].at)} announced {last[1].announces or 'nothing'} for {time_text(last[1].date)}"
            )
        elif not _covers(mine[-1][1], act):
            yield f"the last mail to {owner}, of {time_text(mine[-1][0].at)}, no longer announced it"

    def _by_hours(self, thing: Thing, at: datetime) -> Iterator[str]:
        since = terms.closed_since(at)
        if since is None:
            yield "its office hours are on"
            return
        busy = thing.truth.used(at - OPEN, at - SEEN)
        touched = thing.truth.last_touch(at)
        if touched and since <= touched and at - touched < terms.OVERRIDE:
            yield f"it was started by hand at {time_text(touched)}, outside its hours"
        if busy and not thing.terms.force:
            yield f"it was used until {time_text(thing.truth.last_use(at - SEEN))}"
        owner, ended = self.owner(thing, at), max(self.taken_away(thing, at), default=thing.born)
        mine = [m for m in self.mails for n in m.notices if n.name == thing.name and m.to == owner and n.announces and m.at < at]
        mine = [m for m in mine if m.at > ended]
        grace = min(thing.terms.grace, HOUR) if thing.terms.force else thing.terms.grace
        if not any(m.at <= at - grace + MINUTE for m in mine):
            yield f"{owner} had no notice {grace} before"
        if busy and not any(since <= m.at <= at - min(grace, HOUR) + MINUTE or same_day(m.at, at) for m in mine):
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
        opened = terms.opened_at(act.when)
        if thing.terms.all and not (opened and by_hand and by_hand >= opened):
            pass
        elif last is None or (by_hand and by_hand > last):
            yield f"its owner stopped it{f' at {time_text(by_hand)}' if by_hand else ''}, not the product"
        yield from (f"although {why} protects it" for why in self.protected(thing, act.when))

    def _ended_well(self, scene: Scene) -> Iterator[str]:
        allowed = {0, 3} if scene.verb == "sweep" else {0, 1, 3}
        allowed |= (
            {2} if scene.verb in {"restore", "release", "plan", "apply"} and scene.out_of_order & {"ledger", "writes"} else set()
        )
        allowed |= {-9} if "kill" in scene.out_of_order else set()
        if scene.verb == "apply" and not scene.out_of_order and not self.halves.open:
            allowed -= {3}
        if scene.status not in allowed:
            yield f"`{scene.verb}` ended with status {scene.status}: {scene.stderr[-400:]}"
        if "Traceback" in scene.stderr:
            yield f"`{scene.verb}` tripped: {scene.stderr[-1500:]}"

    def _twice(self, scene: Scene) -> Iterator[str]:
        for change in scene.changes:
            if change.refused or not change.action.startswith(("sagemaker:", "Microsoft.MachineLearningServices")):
                continue
            key = (change.action, change.what, json.dumps(change.parameters, default=str, sort_keys=True))
            before = self.carried.get(key)
            thing = next((t for t in self.things.values() if t.name == change.what or f"/{t.name}/" in f"{change.what}/"), None)
            between = [a.when for a in self.acts if a.name == thing.name] + thing.truth.touched if thing else []
            if before and thing and not any(before < when <= change.when for when in between) and scene.verb != "restore":
                yield f"{thing.name}: {change.action} was made twice, at {time_text(before)} and at {time_text(change.when)}"
            self.carried[key] = change.when

    def _limits(self, scene: Scene, acts: Sequence[Act]) -> Iterator[str]:
        if scene.verb not in {"sweep", "apply"}:
            return
        new = {a.name: self.things[a.name] for a in acts if a.what != "start" and not self._released(a, scene)}
        self.counted += [(scene.began, thing) for thing in new.values()]
        recent = {thing.name: thing for at, thing in self.counted if at > scene.began - 22 * HOUR}
        self.counts["caps that earlier runs filled"] += bool(new) and len(recent) > len(new)
        for account in sorted({account_of(thing) for thing in new.values()}):
            yield from self._account_limits(account, [t for t in recent.values() if account_of(t) == account], new, scene)
        ordinary = sum(1 for thing in recent.values() if not thing.terms.hours)
        if ordinary > scene.caps.run_acts and any(not thing.terms.hours for thing in new.values()):
            yield f"{ordinary} were stopped in 22 hours, more than run.max_acts {scene.caps.run_acts}"

    def _account_limits(self, account: str, things: Sequence[Thing], new: Mapping[str, Thing], scene: Scene) -> Iterator[str]:
        """`things`: what runs of the last 22 hours stopped there; `new`: what this one did. Only what is new exceeds a cap."""
        ordinary, caps = [t for t in things if not t.terms.hours], scene.caps
        by_hours = [t for t in things if t.terms.hours]
        if len(ordinary) > caps.acts and any(t.name in new for t in ordinary):
            yield f"{len(ordinary)} were stopped in 22 hours in {account}, more than max_acts {caps.acts}"
        if len(by_hours) > caps.scheduled and any(t.name in new for t in by_hours):
            yield f"{len(by_hours)} were stopped by hours in 22 hours in {account}, more than {caps.scheduled}"
        usd = sum(self.prices.get(t.name, 0.0) for t in things)
        if usd > caps.usd + 0.001:
            yield f"what costs ${usd:.2f} an hour was stopped in 22 hours in {account}, more than max_usd_per_hour {caps.usd:g}"
        for kind, count in Counter(t.kind for t in ordinary).items():
            there = [t for t in self.things.values() if t.kind == kind and account_of(t) == account and not t.terms.hours]
            candidates = [t for t in there if scene.before[t.name].exists or t in ordinary]
            is_new = any(t.name in new for t in ordinary if t.kind == kind)
            if is_new and count > max(1, int(caps.share * len(candidates))):
                yield f"{count} of {len(candidates)} {kind} were stopped in 22 hours in {account}, more than max_share"

    def _released(self, act: Act, scene: Scene) -> bool:
        """Whether a person released it: its date, or the end of its hours, had come when they did."""
        thing = self.things[act.name]
        dates = [n.date for m in self.mails for n in m.notices if n.name == act.name and n.date and m.at < act.when]
        since = terms.closed_since(act.when) if thing.terms.hours else max((d for d in dates if d <= act.when), default=None)
        return since is not None and any(begin <= scene.began < until and since <= begin for begin, until in self.releases)

    def _holds(self, scene: Scene, acts: Sequence[Act]) -> Iterator[str]:
        if scene.report is None or not scene.acts:
            return
        rows = [f for f in scene.report["findings"] if f["step"] == "hold"]
        names = {f["name"].rpartition("/")[2] for f in rows}
        yield from self._under_a_hold(rows, scene, acts)
        if scene.undisturbed:
            yield from self._held_by_another(rows, scene, acts)
        text = " ".join(m.text for m in scene.mails if m.summary and "on hold" in m.subject)
        for name in names - self.names_on_hold:
            self.unreported[name] = scene.began
        for name in list(self.unreported):
            if text or name not in names:
                del self.unreported[name]
        self.names_on_hold = names
        if self.unreported and not scene.out_of_order & {"mail", "kill", "ledger", "writes", "lost"}:
            yield f"on hold, and no summary said so: {', '.join(sorted(self.unreported))}"
            self.unreported.clear()

    def _held_by_another(self, rows: Sequence[Mapping[str, Any]], scene: Scene, acts: Sequence[Act]) -> Iterator[str]:
        """What is on hold by a limit of its account although so few are due there or were acted on that day, whatever is due in another.

        What was begun and came to nothing counts as well: what was refused or failed, and what a killed command may have been about.
        """
        day = [one for one in self.scenes if scene.began - one.began < DAY]
        tried = {name for one in day for name in one.came_to_nothing}
        cut = sum("kill" in one.out_of_order for one in day)
        for word, most, by_hours in (("max_acts", scene.caps.acts, False), ("max_scheduled", scene.caps.scheduled, True)):
            held = [row for row in rows if word in row["step_because"] and "run.max" not in row["step_because"]]
            recent = {a.name for a in (*self.acts, *acts) if a.what != "start" and scene.began - a.when < DAY}
            counted = [self.things[name] for name in recent | tried if self.things[name].terms.hours is by_hours]
            for account in {row["account"] for row in held}:
                due = sum(row["account"] == account for row in held) + sum(account_of(one) == account for one in counted) + cut
                if due <= most:
                    yield f"{due} are due in {account}, which {word} {most} allows, and are on hold"

    def _under_a_hold(self, rows: Sequence[Mapping[str, Any]], scene: Scene, acts: Sequence[Act]) -> Iterator[str]:
        """What was done although the report says that everything like it is on hold."""
        for act in (a for a in acts if a.what != "start" and not self._released(a, scene)):
            thing = self.things[act.name]
            for row in rows:
                because, in_place = row["step_because"], row["kind"] == thing.kind and f":{row['region']}:" in thing.id
                if not re.search("in this run|in all accounts", because) and row["account"] != account_of(thing):
                    continue
                over_run, ordinary = "exceed run." in because, not thing.terms.hours
                whole = "exceeds max_usd" in because or "exceeds run.max_usd" in because
                capped = ("max_acts" in because or over_run) and ordinary
                shared = "max_share" in because and row["kind"] == thing.kind and ordinary
                jumped = (
                    "max_jump" in because and (in_place or ("in this run" in because and row["kind"] == thing.kind)) and ordinary
                )
                calendar = "max_scheduled" in because and thing.terms.hours
                if whole or capped or shared or jumped or calendar:
                    yield f"{act.name} was not held, though {row['name']} was: {because}"
                    break

    def _unread(self, scene: Scene, acts: Sequence[Act]) -> Iterator[str]:
        """What was done without a mail to its owner by the end of the next sweep that nothing was in the way of."""
        for act in acts:
            if act.what != "start" and not self.things[act.name].terms.hours and scene.acts:
                self.unread[act.name] = act
        for half in self.halves.open.values():
            if half.command == scene.number:
                self.unread[half.name] = Act(name=half.name, what="interruption", when=half.at, scene=scene.number)
        names = {n.name for m in scene.mails for n in m.notices if n.is_done}
        for name in [name for name in self.unread if name in names]:
            del self.unread[name]
        if scene.undisturbed:
            for name, act in self.unread.items():
                yield f"{name} ({self.things[name].kind}): nobody was told of its {act.what} of {time_text(act.when)}"
            self.unread.clear()

    def _count(self, scene: Scene, acts: Sequence[Act]) -> None:
        """What came about, for a play in which nothing happens proves nothing."""
        self.counts[f"actions by {scene.verb}"] += len(acts)
        self.counts["sweeps"] += scene.verb == "sweep"
        self.counts["mails"] += len(scene.mails)
        self.counts["cards beside mails"] += sum(mail.subject in scene.cards for mail in scene.mails)
        self.counts["cards while mail was refused"] += len(scene.cards) if "mail" in scene.out_of_order else 0
        accounts = {account_of(self.things[act.name]) for act in acts if self.things[act.name].cloud == "aws"}
        self.counts["acts in both AWS accounts at once"] += len(accounts) > 1
        for act in acts:
            thing = self.things[act.name]
            self.counts["actions on components"] += bool(thing.inside) and act.what != "start" and scene.acts
            self.counts["deletes of empty hosts"] += bool(thing.guests) and act.what == "delete" and scene.acts
        self.counts.update(f"{act.what} by {'hours' if self.things[act.name].terms.hours else scene.verb}" for act in acts)
        notices = [n for m in scene.mails for n in m.notices]
        self.counts["notices"] += sum(1 for n in notices if not n.is_done)
        self.counts["mails about parts"] += sum(1 for n in notices if n.rest)
        self.counts["mails about what is done"] += sum(1 for n in notices if n.is_done)
        rows = scene.report["findings"] if scene.report else ()
        self.counts["held"] += sum(1 for row in rows if row["step"] == "hold")
        self.counts["refused at the last look"] += sum(1 for row in rows if row["outcome"] == "refused")
        for word in ("max_acts", "max_share", "max_usd_per_hour", "max_scheduled", "max_jump"):
            self.counts[f"held by {word}"] += any(row["step"] == "hold" and word in row["step_because"] for row in rows)


def idle_after(thing: Thing, when: datetime) -> timedelta:
    """How long it must have been silent then."""
    value = thing.truth.tags_at(when).get("reaper:idle-after", "")
    return min(thing.terms.idle_after, HOUR * int(value[:-1])) if value.endswith("h") else thing.terms.idle_after


def kept_until(value: str) -> datetime:
    """The end of a keep-until; of a day, in the middle of Europe's."""
    until = datetime.fromisoformat(value)
    return until if until.tzinfo else until.replace(tzinfo=UTC) + DAY


def _protects(key: str, value: str, when: datetime) -> bool:
    if not key.startswith("reaper:") or key in HARMLESS:
        return False
    if key == "reaper:keep-until":
        return when < kept_until(value)
    if key == "reaper:action":
        return RANK.get(value, 0) < RANK["stop"]
    return key not in KNOWN


def _covers(notice: Notice, act: Act) -> bool:
    return notice.announces is not None and RANK[notice.announces] >= RANK[act.what]
