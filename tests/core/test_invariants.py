"""A deployment is driven through everything that can go wrong at once, and what must never happen is looked for after every act.

`REAPER_INVARIANTS=nightly` plays many more games, each from another beginning; `mutation` few, and stops at the first that is lost.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import floor

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from core.depot import ACTS, Depot, Thing, Yard
from core.enforcer import Enforcer
from core.fakes import DAY, HOUR, NOW
from core.frail import Frail
from core.oracle import GRACES, SILENCES, Knobs, Oracle, address
from reaper import enforce, plan
from reaper.acts import Manifest
from reaper.errors import CloudError, Trouble
from reaper.manifest import parse
from reaper.message import Message
from reaper.model import Memory, Mode, Move, Report, Result, Status

GAMES = {"": 150, "mutation": 50, "nightly": 5000}
PROFILE = os.environ.get("REAPER_INVARIANTS", "")
NAMES = ("plain-1", "plain-2", "plain-3", "likely-1", "waste-1", "waste-2", "office-1", "strict-1", "prod-1")
INSTANCES = {"ml.g5.xlarge": 1.408, "ml.p4d.24xlarge": 25.25125, "ml.unheard.of": 0.0}
TAGS = (
    {},
    {},
    {"team": "risk"},
    {"reaper:keep": "true"},
    {"reaper:kep": "true"},
    {"reaper:keep-until": "2026-12-05"},
    {"reaper:keep-until": "next week"},
    {"reaper:action": "notify"},
    {"reaper:action": "stop"},
    {"reaper:idle-after": "4h"},
    {"reaper:owner": "lee@example.com"},
    {"reaper:owner": "lee@elsewhere.org"},
    None,
)
SEEN: Counter[str] = Counter()
"""What happened in all games together: a machine that never acts would prove nothing."""


class Killed(BaseException):
    """The process ends here: nothing of it does anything any more."""


ALL = -1
CALLS = ("list", "observe", "look", "again", "record", "carry", "write", "send")
MEMORY = ("recall", "remember", "lease", "release", "summary", "summaries", "note", "history")
FAILURES = ("denied", "throttled", "unreachable", "odd", "killed")
faults = st.one_of(
    st.tuples(st.sampled_from(CALLS + MEMORY), st.sampled_from([ALL, 0, 1, 2, 3, 5]), st.sampled_from(FAILURES)),
    st.tuples(st.sampled_from(["carry", "carried"]), st.sampled_from([0, 0, 1]), st.sampled_from(FAILURES)),
    st.tuples(st.just("remembered"), st.sampled_from([0, 1, 2]), st.just("unreachable")),
)
"""(call, which of them, what goes wrong). `carried` and `remembered` fail after they took effect."""
ANYTHING = ("used", "kept", "tagged", "lost", "changed", "updating", "stopped", "deleted", "later", "twice")
events = st.one_of(
    st.tuples(st.sampled_from(["list", "observe", "look"]), st.sampled_from(ANYTHING)),
    st.tuples(st.just("again"), st.sampled_from(["used", "kept", "deleted", "later", "twice"])),
    st.tuples(st.just("record"), st.sampled_from(["kept", "kept", "deleted", "later", "twice"])),
    st.tuples(st.just("carry"), st.sampled_from(["deleted", "later", "twice"])),
)
"""(call, what happens just before it is answered): only what the reaper can still know by then."""
HAPPENINGS = (
    "used",
    "changed",
    "kept",
    "tagged",
    "changed",
    "updating",
    "settled",
    "stopped",
    "started",
    "deleted",
    "patchy",
    "vague",
    "deaf",
)
waits = st.sampled_from(
    [timedelta(minutes=m) for m in (1, 16, 59, 61)]
    + [5 * HOUR, 13 * HOUR, DAY, 3 * DAY, 3 * DAY + HOUR, 4 * DAY, 8 * DAY, 21 * DAY]
)
which = st.integers(0, len(NAMES) - 1)
EASY = [Knobs(grace=grace, idle_after=length) for grace in ("1h", *GRACES) for length in SILENCES]
knobs = st.sampled_from(EASY) | st.builds(
    Knobs,
    action=st.sampled_from(["stop", "stop", "delete", "notify"]),
    idle_after=st.sampled_from(list(SILENCES)),
    grace=st.sampled_from(list(GRACES)),
    acts=st.sampled_from([20, 20, 2, 1, 0]),
    share=st.sampled_from([100, 100, 50, 25, 0]),
    usd=st.sampled_from([1000.0, 1000.0, 26.0, 2.0]),
    jump=st.sampled_from([100, 25]),
)


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What is to go wrong in one sweep."""

    faults: list[tuple[str, int, str]]
    events: list[tuple[str, str]]
    tags: dict[str, str] | None
    which: int


def _trials(faults: st.SearchStrategy[list[tuple[str, int, str]]], least: int, most: int) -> st.SearchStrategy[Trial]:
    happening = st.lists(events, min_size=least, max_size=most, unique_by=lambda event: event[1])
    return st.builds(Trial, faults=faults, events=happening, tags=st.sampled_from(TAGS), which=which)


trials = st.one_of(
    _trials(st.just([]), 1, 2),
    _trials(st.lists(faults, min_size=1, max_size=2), 0, 0),
    _trials(st.lists(faults, max_size=2), 0, 2),
)
QUIET = Trial(faults=[], events=[], tags={}, which=0)


class Deployment(RuleBasedStateMachine):
    """Things, the reaper, and the world around both."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Frail()
        self.there = Enforcer(ledger=self.ledger)
        self.depot = self.there.depot
        self.oracle = Oracle()
        self.wrong: list[str] = []
        self.held: dict[str, datetime] = {}
        self.released: tuple[datetime, frozenset[str]] | None = None
        self.deleted: dict[str, tuple[Manifest, Thing]] = {}
        self.trial = QUIET
        self.pending: list[tuple[str, str]] = []
        self.calls: Counter[str] = Counter()
        self.hit: list[tuple[str, str]] = []
        self.addresses: dict[str, set[str]] = {}
        self.spent: Counter[tuple[str, str]] = Counter()
        self.gone: dict[str, datetime] = {}
        self.inner = self.dead = False
        for place in (self.depot, self.there.store, self.there.post, self.ledger):
            place.blunder = self.blunder  # type: ignore[attr-defined]
        self.depot.meanwhile, self.depot.witness, self.there.post.heard = self.meanwhile, self.witness, self.heard

    # The world

    @initialize(fleet=st.lists(st.sampled_from(NAMES), min_size=1, max_size=5, unique=True), turned=knobs)
    def begin(self, fleet: list[str], turned: Knobs) -> None:
        for name in fleet:
            self.depot.add(name, vague=name.startswith("likely"))
        self.turn(turned)

    @rule(turned=knobs)
    def turn(self, turned: Knobs) -> None:
        self.oracle.knobs, self.there.policy = turned, turned.policy()

    @rule(which=which, what=st.sampled_from(HAPPENINGS), tags=st.sampled_from(TAGS))
    def happening(self, which: int, what: str, tags: dict[str, str] | None) -> None:
        self.trial = replace(self.trial, tags=tags, which=which)
        self.happen(what, self.pick(which))

    @rule(which=which, instance=st.sampled_from(list(INSTANCES)), age=st.sampled_from([timedelta(), 5 * HOUR, 90 * DAY]))
    def make(self, which: int, instance: str, age: timedelta) -> None:
        name, now = NAMES[which], self.there.now
        if name not in self.depot.things:
            born = max(now - age, self.gone.get(name, NOW - 90 * DAY))
            self.depot.add(name, created=born, up=born, instance=instance, vague=name.startswith("likely"))

    @rule(names=st.sets(st.sampled_from(NAMES), max_size=1))
    def garble(self, names: set[str]) -> None:
        self.oracle.garbled = names
        self.ledger.garbled = {self.depot.id(name) for name in names}

    @rule()
    def release(self) -> None:
        enforce.release(self.ledger, "lee@example.com", self.there.now)
        self.released = (self.there.now, frozenset(self.held))

    @rule(which=which)
    def restore(self, which: int) -> None:
        """What `reaper restore` does with what was deleted."""
        name = NAMES[which]
        if name in self.deleted and name not in self.depot.things:
            manifest, before = self.deleted[name]
            ACTS.undo(Yard(self.depot), manifest)
            self.same(before, self.depot.things[name])
            self.remember(name, plan.undone)

    def pick(self, which: int) -> list[Thing]:
        names = sorted(self.depot.things)
        return [self.depot.things[names[which % len(names)]]] if names else []

    def happen(self, what: str, things: list[Thing]) -> None:
        for thing in things:
            getattr(self, f"_{what}")(thing)

    def _used(self, thing: Thing) -> None:
        thing.uses.append(self.there.now)

    def _tagged(self, thing: Thing) -> None:
        thing.tags = None if self.trial.tags is None else dict(self.trial.tags)
        self.addresses.setdefault(thing.name, set()).add(address(thing))

    def _lost(self, thing: Thing) -> None:
        thing.tags = None

    def _changed(self, thing: Thing) -> None:
        thing.changed = self.there.now

    def _updating(self, thing: Thing) -> None:
        thing.status = "Updating"

    def _settled(self, thing: Thing) -> None:
        if thing.status == "Updating":
            thing.status, thing.changed = "InService", self.there.now

    def _stopped(self, thing: Thing) -> None:
        thing.up, thing.changed = None, self.there.now

    def _started(self, thing: Thing) -> None:
        if thing.up is None:
            thing.up = thing.changed = self.there.now

    def _deleted(self, thing: Thing) -> None:
        self.gone[thing.name] = self.there.now
        del self.depot.things[thing.name]

    def _patchy(self, thing: Thing) -> None:
        thing.patchy = not thing.patchy

    def _vague(self, thing: Thing) -> None:
        thing.vague = True

    def _deaf(self, thing: Thing) -> None:
        """For some hours there were no metrics of it."""
        ago = (1, 5, 24)[self.trial.which % 3] * HOUR
        thing.deaf.append((self.there.now - ago, self.there.now - ago + HOUR / 2))

    def _later(self, thing: Thing) -> None:
        self.there.now += timedelta(minutes=18)

    def _twice(self, thing: Thing) -> None:
        """Another sweep begins while the first one is at work."""
        self.inner, run, seen = True, f"run-{self.there.runs + 1}", len(self.depot.things)
        self.wrong.append("the second sweep raised")
        self.there.sweep(self.oracle.mode)
        self.wrong.remove("the second sweep raised")
        self.inner = False
        self.capped(run, seen)

    def _kept(self, thing: Thing) -> None:
        """Its owner clicks on the link and keeps it for some days, unless it is kept for longer."""
        until = self.there.now + (1 + self.trial.which) * DAY

        def keep(memory: Memory) -> Memory:
            if memory.snoozed_until and memory.snoozed_until > until:
                return memory
            self.oracle.snoozes.setdefault(thing.name, []).append((self.there.now, until))
            return replace(memory, snoozed_until=until, snoozed_by="lee@example.com")

        self.remember(thing.name, keep)

    def remember(self, name: str, change: Callable[[Memory], Memory]) -> None:
        """Written to the ledger by another process, which nothing fails for."""
        if name in self.oracle.garbled:
            return
        inner, self.inner = self.inner, True
        memory = self.there.memory(name)
        assert self.ledger.remember(self.depot.id(name), change(memory), memory.version, self.there.now)
        self.inner = inner

    def meanwhile(self, call: str, name: str) -> None:
        """What is to happen before that call is answered happens, once."""
        if self.inner:
            return
        call = self.named(call)
        for event in [e for e in self.pending if e[0] == call]:
            self.pending.remove(event)
            things = [self.depot.things[name]] if name in self.depot.things else self.pick(self.trial.which)
            self.happen(event[1], things)

    def blunder(self, call: str, name: str) -> None:
        """What is to fail fails."""
        if self.inner:
            return
        if self.dead:
            raise Killed
        call = self.named(call)
        index = self.calls[call]
        self.calls[call] += 1
        for how in [how for what, nth, how in self.trial.faults if what == call and nth in {ALL, index}]:
            self.hit.append((call, name))
            self.fail(call, how)

    def fail(self, call: str, how: str) -> None:
        SEEN[f"{how}"] += 1
        if how == "killed":
            self.dead = True
            raise Killed
        if call in {"carried", "remembered"}:
            raise CloudError(Trouble.UNREACHABLE, call, "no answer")
        if how == "odd" and call not in MEMORY and call != "write":
            raise OSError("odd") if call == "send" else KeyError("odd")
        trouble = Trouble.GARBLED if how == "odd" else Trouble(how)
        raise CloudError(trouble, call, how, missing=call if how == "denied" else None)

    def named(self, call: str) -> str:
        """The second time that metrics are read is another call."""
        return "again" if call == "observe" and self.calls["look"] else call

    # The reaper

    @rule(mode=st.sampled_from([Mode.ENFORCE, Mode.ENFORCE, Mode.ENFORCE, Mode.NOTIFY, Mode.AUDIT]), trial=trials, wait=waits)
    def sweep(self, mode: Mode, trial: Trial, wait: timedelta) -> None:
        self.there.now += wait
        self.trial, self.pending, self.hit, self.calls = trial, list(trial.events), [], Counter()
        self.addresses = {name: {address(thing)} for name, thing in self.depot.things.items()}
        self.oracle.mode, run, seen = mode, f"run-{self.there.runs + 1}", len(self.depot.things)
        report = self.swept(mode)
        self.trial, self.pending = replace(trial, faults=[]), []
        self.capped(run, seen)
        if report:
            self.shown(report)
            self.held |= {f.case.resource.name: self.there.now for f in report.findings if f.step.move is Move.HOLD}

    @rule(trial=trials, wait=st.sampled_from([timedelta(), timedelta(minutes=10), 6 * HOUR]))
    def due(self, trial: Trial, wait: timedelta) -> None:
        """Everything is told about, and the next sweep comes when the time is over."""
        self.sweep(Mode.ENFORCE, QUIET, wait)
        self.sweep(Mode.ENFORCE, trial, GRACES[self.oracle.knobs.grace])

    @rule(trial=trials, early=st.booleans(), what=st.sampled_from(HAPPENINGS), which=which, turned=st.none() | knobs)
    def due_but(self, trial: Trial, early: bool, what: str, which: int, turned: Knobs | None) -> None:
        """Something happens just before people are told, or while the time runs."""
        grace = GRACES[self.oracle.knobs.grace]
        if early:
            self.happening(which=which, what=what, tags=trial.tags)
        self.sweep(Mode.ENFORCE, QUIET, timedelta())
        self.there.now += grace / 2
        if turned:
            self.turn(turned)
        if not early:
            self.happening(which=which, what=what, tags=trial.tags)
        self.sweep(Mode.ENFORCE, QUIET, timedelta())
        self.sweep(Mode.ENFORCE, trial, grace / 2)

    @rule(first=trials, second=trials, morning=trials, late=st.booleans())
    def night(self, first: Trial, second: Trial, morning: Trial, late: bool) -> None:
        """Office hours end, and begin again."""
        day = self.there.now.replace(hour=21, minute=10) + (DAY if self.there.now.hour >= 21 else timedelta())
        self.sweep(Mode.ENFORCE, first, day - self.there.now)
        self.sweep(Mode.ENFORCE, second, max(HOUR, min(DAY / 3, GRACES[self.oracle.knobs.grace])))
        self.sweep(Mode.ENFORCE, morning, day + 10 * HOUR + (HOUR / 3 if late else timedelta()) - self.there.now)

    def swept(self, mode: Mode) -> Report | None:
        """The report; None where the process was killed."""
        try:
            return self.there.sweep(mode)
        except Killed:
            SEEN["killed"] += 1
            return None
        finally:
            self.dead = False

    @invariant()
    def nothing_is_wrong(self) -> None:
        assert not self.wrong, self.wrong

    def witness(self, manifest: Manifest, thing: Thing) -> None:
        """Right before an act takes effect."""
        now, move = self.there.now, manifest.move
        self.wrong += [f"{move} {thing.name} at {now}: {why}" for why in self.oracle.wrong(thing, move, now)]
        self.oracle.acts.append((move, thing.name, now, manifest.run))
        self.spent[manifest.run, thing.name] = INSTANCES[thing.instance]
        SEEN[move.value] += 1
        if move is not Move.START:
            self.stored(manifest, thing)

    def stored(self, manifest: Manifest, thing: Thing) -> None:
        """What undoes it is in the store, and brings back the same thing."""
        kept = [parse(text, address) for address, text in self.there.store.texts.items()]
        mine = [m for m in kept if (m.id, m.move, m.run) == (manifest.id, manifest.move, manifest.run)]
        if mine != [manifest]:
            self.wrong.append(f"{manifest.move} {thing.name} without its manifest: {mine}")
            return
        elsewhere = Depot(clock=lambda: self.there.now)
        if manifest.move is Move.DELETE:
            self.gone[thing.name] = self.there.now
            self.deleted[thing.name] = manifest, deepcopy(thing)
        else:
            elsewhere.things[thing.name] = replace(thing, up=None)
        ACTS.undo(Yard(elsewhere), mine[0])
        self.same(thing, elsewhere.things[thing.name])

    def same(self, before: Thing, after: Thing) -> None:
        if (before.instance, before.tags) != (after.instance, after.tags) or after.up is None:
            self.wrong.append(f"{before} came back as {after}")

    def heard(self, message: Message) -> None:
        if self.dead:
            return
        self.wrong += self.oracle.hear(message, self.addresses, self.there.now)

    def capped(self, run: str, seen: int) -> None:
        """No more was acted on than the limits allow; what a person had let go does not count."""
        acts = [(name, when) for move, name, when, by in self.oracle.acts if by == run and move is not Move.START]
        acts = [(name, when) for name, when in acts if not self.let_go(name, when)]
        limits = self.oracle.knobs
        usd = sum(self.spent[run, name] for name, _ in acts)
        most = max(1 if limits.share else 0, floor(limits.share * seen / 100 + 1e-9))
        if len(acts) > min(limits.acts, most) or usd > limits.usd:
            self.wrong.append(f"{run} acted on {acts} of {seen} for ${usd} an hour: {limits}")

    def shown(self, report: Report) -> None:
        """Whatever failed is in the report."""
        off: list[object] = [c for c in report.coverage if c.status is not Status.OK]
        off += [f for f in report.findings if f.outcome.result in {Result.REFUSED, Result.FAILED}]
        if self.hit and not off:
            self.wrong.append(f"{self.hit} failed, and the report says nothing of it")
        found = {f.case.resource.name: f for f in report.findings}
        for call, name in self.hit:
            if call in {"look", "record", "carry", "carried"} and found[name].outcome.result not in {
                Result.REFUSED,
                Result.FAILED,
            }:
                self.wrong.append(f"{call} failed for {name}: {found[name].outcome}")
        SEEN.update(f.outcome.result.value for f in report.findings)
        SEEN.update(f.step.move.value for f in report.findings if f.step.move is Move.HOLD)

    def let_go(self, name: str, when: datetime) -> bool:
        """Whether a person's release covers it."""
        return self.released is not None and name in self.released[1] and self.released[0] <= when < self.released[0] + DAY


def test_whatever_goes_wrong_nothing_is_acted_on_that_must_be_left_alone():
    run_state_machine_as_test(
        Deployment,
        settings=settings(
            max_examples=GAMES[PROFILE],
            stateful_step_count=20,
            deadline=None,
            database=None,
            derandomize=PROFILE != "nightly",
            phases=(Phase.generate,) if PROFILE == "mutation" else (Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
        ),
    )
    assert {"stop", "delete", "start", "hold", "refused", "failed", "killed", "denied", "odd"} <= set(SEEN), SEEN
