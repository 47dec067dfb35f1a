"""A deployment is driven through everything that can go wrong at once, and what must never happen is looked for after every act.

`make test` plays the same games each time, as few as it takes until everything has come about once; `make soak` plays many more, from the
seeds that it prints. `REAPER_INVARIANTS=mutation` plays few, and stops at the first that is lost.
"""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import floor
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

import seeds
from fakes.builders import DAY, HOUR, NOW, TARGET
from fakes.failing_ledger import FailingLedger
from fakes.fake_cloud import ACTS, STARTABLE, FakeCloud, FakeResource, FakeSession
from fakes.fake_deployment import FakeDeployment
from fakes.reference_model import GRACES, SILENCES, Knobs, Oracle, address
from reaper.acting import restore
from reaper.acting.contract import Manifest, unchanged
from reaper.acting.manifest import parse_manifest
from reaper.errors import CloudError, Reason
from reaper.finding import PLANNED, Report, Step
from reaper.handover import Decided
from reaper.limits import holds
from reaper.model import Mode, Pause, Result, Status, StepName
from reaper.notices.message import Message
from reaper.pending import stop_switch

GAMES, SOAK_GAMES, ROUNDS = 60, 300, 5
"""A round of games begins from one seed."""
PROFILE = os.environ.get("REAPER_INVARIANTS", "")
NAMES = (
    "plain-1",
    "plain-2",
    "double-1",
    "likely-1",
    "waste-1",
    "waste-house",
    "waste-inner",
    "office-1",
    "strict-1",
    "prod-1",
    "away-1",
    "away-2",
)
HOUSE, INNER = "waste-house", "waste-inner"
AWAY = "210987654321"
"""The account of those whose name begins with `away`."""
AHEAD = (timedelta(minutes=9), timedelta(minutes=11), 5 * HOUR, 6 * DAY, 8 * DAY)
HELD = ("plain-1", "waste-1", HOUSE)
"""Those that have an autoscaling minimum, which an action lowers first."""
FLEETS = (
    ["double-1", "plain-1"],
    ["plain-1", "away-1", "away-2"],
    [HOUSE, INNER],
    [HOUSE, INNER, "double-1"],
    ["office-1", "strict-1"],
)
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
    {"reaper:hours": "mon-fri 07:00-21:00 UTC"},
    None,
)
SEEN: Counter[str] = Counter()
"""What happened in all games together: a machine that never acts would prove nothing."""


EVERYTHING = (
    *("stop", "delete", "start", "hold", "refused", "failed", "killed", "denied", "odd", "rest", "by hours", "second call"),
    *("unpriced", "lost reply", "restored", "again", "hosted", "canary", "left out", "paused", "paused between"),
    *("half done", "put back", "settled", "last look", "call look", "away", "ahead", "forged", "swapped", "spared"),
)


class Killed(BaseException):
    """The process ends here: nothing of it does anything any more."""


ALL = -1
LOST = {"lost": Reason.UNREACHABLE, "cut": Reason.UNREADABLE}
"""How a call fails that was made all the same: no reply (408 and 5xx too), or one that can't be read."""
CALLS = ("list", "observe", "look", "last look", "call look", "again", "record", "lower", "carry", "put back", "write", "send")
MEMORY = (
    "recall",
    "row",
    "remember",
    "lease",
    "release",
    "summary",
    "summaries",
    "note",
    "history",
    "begin",
    "end",
    "unfinished",
)
FAILURES = ("denied", "throttled", "unreachable", "odd", "killed")
AFTERWARDS = (*LOST, "killed")
"""How a call can fail that took effect: what the cloud refuses or throttles did not."""
faults = st.one_of(
    st.tuples(st.sampled_from(CALLS + MEMORY), st.sampled_from([ALL, 0, 1, 2, 3, 5]), st.sampled_from(FAILURES)),
    st.tuples(st.sampled_from(["lower", "carry"]), st.sampled_from([0, 0, 1]), st.sampled_from(FAILURES)),
    st.tuples(st.sampled_from(["lowered", "carried", "was put back"]), st.sampled_from([0, 0, 1]), st.sampled_from(AFTERWARDS)),
    st.tuples(st.sampled_from(["remembered", "began", "ended", "noted"]), st.sampled_from([0, 1, 2]), st.just("unreachable")),
    st.tuples(
        st.sampled_from(["remembered", "began", "ended", "noted", "send", "sent"]), st.sampled_from([0, 1]), st.just("killed")
    ),
)
"""(call, which of them, what goes wrong). `carried`, `remembered` and their like fail after they took effect."""
ANYTHING = ("used", "kept", "tagged", "lost", "changed", "updating", "stopped", "deleted", "later", "twice")
events = st.one_of(
    st.tuples(st.sampled_from(["list", "observe", "look"]), st.sampled_from(ANYTHING)),
    st.tuples(st.just("again"), st.sampled_from(["used", "kept", "deleted", "later", "twice"])),
    st.tuples(st.sampled_from(["last look", "call look"]), st.sampled_from([a for a in ANYTHING if a != "used"])),
    st.tuples(st.just("record"), st.sampled_from(["kept", "kept", "deleted", "later", "twice", "paused", "paused"])),
    st.tuples(st.just("carry"), st.sampled_from(["deleted", "later", "twice", "kept", "hosted", "paused", "paused"])),
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
    "outage",
    "hosted",
    "refused",
    "resized",
)
waits = st.sampled_from(
    [timedelta(minutes=m) for m in (1, 16, 59, 61)]
    + [5 * HOUR, 13 * HOUR, DAY, 3 * DAY, 3 * DAY + HOUR, 4 * DAY, 8 * DAY, 21 * DAY]
)
which = st.integers(0, len(NAMES) - 1)
EASY = [
    Knobs(grace=grace, idle_after=length, usd=usd, canary=usd is None and grace == "1h")
    for grace in ("1h", *GRACES)
    for length in SILENCES
    for usd in (1000, None)
]
knobs = st.sampled_from(EASY) | st.builds(
    Knobs,
    action=st.sampled_from(["stop", "stop", "delete", "notify"]),
    idle_after=st.sampled_from(list(SILENCES)),
    grace=st.sampled_from(list(GRACES)),
    acts=st.sampled_from([20, 20, 2, 1, 0]),
    share=st.sampled_from([100, 100, 50, 25, 0]),
    usd=st.sampled_from([1000.0, 1000.0, None, 26.0, 2.0]),
    jump=st.sampled_from([100, 25]),
    close=st.sampled_from([21, 21, 19]),
    canary=st.sampled_from([False, False, False, True]),
    accepted=st.sampled_from([-99, -99, 1, 4, 9]),
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
        self.ledger = FailingLedger()
        self.deployment = FakeDeployment(ledger=self.ledger)
        self.cloud = self.deployment.cloud
        self.cloud.kind_name = STARTABLE
        self.deployment.accounts = (TARGET.account, AWAY)
        self.oracle = Oracle()
        self.wrong: list[str] = []
        self.released: datetime | None = None
        self.covered: set[tuple[str, str]] = set()
        self.deleted: dict[str, FakeResource] = {}
        self.trial = QUIET
        self.pending: list[tuple[str, str]] = []
        self.calls: Counter[str] = Counter()
        self.hit: list[tuple[str, str]] = []
        self.looked_at = self.deployment.now - 30 * DAY
        self.addresses: dict[str, set[str]] = {}
        self.spent: Counter[tuple[str, str]] = Counter()
        self.gone: dict[str, datetime] = {}
        self.inner = self.dead = False
        self.paused_until: datetime | None = None
        self.was_paused = False
        self.looks: Counter[str] = Counter()
        self.forged = False
        for place in (self.cloud, self.deployment.store, self.deployment.channel, self.ledger):
            place.fail_on = self.fail_on  # type: ignore[attr-defined]
        self.cloud.before_permit = self.before_permit
        self.cloud.before_call, self.cloud.on_action, self.deployment.channel.on_message = (
            self.before_call,
            self.on_action,
            self.on_message,
        )

    # The world

    @initialize(
        fleet=st.sampled_from(FLEETS) | st.lists(st.sampled_from(NAMES), min_size=1, max_size=5, unique=True),
        turned=knobs,
        instance=st.sampled_from(["ml.g5.xlarge", "ml.g5.xlarge", "ml.unheard.of"]),
    )
    def begin(self, fleet: list[str], turned: Knobs, instance: str) -> None:
        for name in fleet:
            self.add(name, instance=instance)
        self.turn(turned)

    def add(self, name: str, **fields: Any) -> FakeResource:
        """A thing in the shape that its name says."""
        variants, host = 2 if name == "double-1" else 1, HOUSE if name == INNER else ""
        minimum, account = 2 if name in HELD else 0, AWAY if name.startswith("away") else TARGET.account
        fields = {"account": account, **fields}
        return self.cloud.add(
            name, without_heartbeat=name.startswith("likely"), variants=variants, host=host, minimum=minimum, **fields
        )

    @rule(turned=knobs)
    def turn(self, turned: Knobs) -> None:
        self.oracle.knobs, self.deployment.policy = turned, turned.policy()

    @rule(which=which, what=st.sampled_from(HAPPENINGS), tags=st.sampled_from(TAGS))
    def happening(self, which: int, what: str, tags: dict[str, str] | None) -> None:
        self.trial = replace(self.trial, tags=tags, which=which)
        self.happen(what, self.pick(which))

    @rule(which=which, instance=st.sampled_from(list(INSTANCES)), age=st.sampled_from([timedelta(), 5 * HOUR, 90 * DAY]))
    def make(self, which: int, instance: str, age: timedelta) -> None:
        name, now = NAMES[which], self.deployment.now
        if name not in self.cloud.things:
            born = max(now - age, self.gone.get(name, NOW - 90 * DAY))
            self.add(name, created=born, running_since=born, instance=instance)

    @rule(names=st.sets(st.sampled_from(NAMES), max_size=1))
    def garble(self, names: set[str]) -> None:
        self.oracle.garbled = names
        self.ledger.unreadable_ids = {self.cloud.id(name) for name in names}

    @rule(which=which, by=st.sampled_from(AHEAD))
    def ahead(self, which: int, by: timedelta) -> None:
        """A process whose clock is fast writes to a row."""
        for thing in self.pick(which):
            if thing.name not in self.oracle.garbled:
                SEEN["ahead"] += 1
                record, inner, self.inner = self.deployment.record(thing.name), self.inner, True
                assert self.ledger.write_record(self.cloud.id(thing.name), record, record.version, self.deployment.now + by)
                self.inner = inner
                self.oracle.ahead.pop(thing.name, None)
                if by <= 7 * DAY:  # what is further ahead is void, and the next write replaces it
                    self.oracle.ahead[thing.name] = self.deployment.now + by

    @rule(lasting=st.sampled_from([None, None, HOUR, HOUR, DAY, 3 * DAY]))
    def pause(self, lasting: timedelta | None) -> None:
        """A person turns the stop switch on, or off."""
        self.switched(self.deployment.now + lasting if lasting else None)

    def switched(self, until: datetime | None) -> None:
        """Written to the ledger by another process, which nothing fails for."""
        inner, self.inner = self.inner, True
        if until:
            stop_switch.set_pause(self.ledger, Pause(until=until, by="lee"), self.deployment.now)
        else:
            stop_switch.end_pause(self.ledger, "lee", self.deployment.now)
        self.inner, self.paused_until = inner, until

    @rule()
    def release(self) -> None:
        holds.release_actions(self.ledger, "lee@example.com", self.deployment.now)
        self.released = self.deployment.now

    @rule(which=which, refused=st.sampled_from([True, True, False]), swapped=st.booleans())
    def restore(self, which: int, refused: bool, swapped: bool) -> None:
        """What `reaper restore` does with what was stopped or deleted, where anything was; `refused` where no machine is to be had. `swapped`:
        the manifest is another one at first.
        """
        inner, self.inner = self.inner, True
        can = [name for name in NAMES if self.is_restorable(name)]
        if can:
            name = can[which % len(can)]
            if name in self.cloud.things:
                self.cloud.things[name].refused = refused
            manifest = self.manifest_of(name)
            if swapped:
                self.swapped(name, manifest)
            self.restored(name, manifest)
        self.inner = inner

    def is_restorable(self, name: str) -> bool:
        """Whether something was done to it that stands."""
        if name in self.oracle.garbled or not self.manifest_of(name):
            return False
        thing = self.cloud.things.get(name)
        return thing is None or thing.running_since is None or thing.variants < thing.whole

    def manifest_of(self, name: str) -> str:
        """The address of the manifest that its record names; empty if it names none."""
        act = self.deployment.record(name).act
        return act.manifest.address if act and act.manifest else ""

    def swapped(self, name: str, manifest: str) -> None:
        """Somebody replaces the manifest by one of a better machine."""
        SEEN["swapped"] += 1
        texts, before = self.deployment.store.texts, deepcopy(self.cloud.things.get(name))
        own = texts[manifest]
        texts[manifest] = own.replace("ml.", "ml.p5.")
        with suppress(CloudError):
            result = restore.restore_resource(self.cloud.id(name), self.deployment.restore_context())
            self.wrong.append(f"{name} was restored from a manifest that isn't ours: {result}")
        if self.cloud.things.get(name) != before:
            self.wrong.append(f"{name} was changed after a manifest that isn't ours")
        texts[manifest] = own

    def restored(self, name: str, manifest: str) -> None:
        """It is back as it was, or its manifest is kept for another time."""
        there_before = name in self.cloud.things
        self.oracle.ahead.pop(name, None)
        result = restore.restore_resource(self.cloud.id(name), self.deployment.restore_context())
        if result.error or not result.undone:
            self.wrong.append(f"{name} could not be restored: {result}")
        elif result.undone.run_again:
            SEEN["again"] += 1
            if self.manifest_of(name) != manifest:
                self.wrong.append(f"{name} is not all back, and its manifest is forgotten")
        else:
            SEEN["restored"] += 1
            thing = self.cloud.things[name]
            if thing.running_since is None or thing.variants != thing.whole:
                self.wrong.append(f"{thing} came back in part")
            if not there_before and name in self.deleted:
                self.same(self.deleted[name], thing)

    def pick(self, which: int) -> list[FakeResource]:
        names = sorted(self.cloud.things)
        return [self.cloud.things[names[which % len(names)]]] if names else []

    def happen(self, what: str, things: list[FakeResource]) -> None:
        for thing in things:
            getattr(self, f"_{what}")(thing)

    def _used(self, thing: FakeResource) -> None:
        thing.uses.append(self.deployment.now)

    def _tagged(self, thing: FakeResource) -> None:
        thing.tags = None if self.trial.tags is None else dict(self.trial.tags)
        self.addresses.setdefault(thing.name, set()).add(address(thing))

    def _lost(self, thing: FakeResource) -> None:
        thing.tags = None

    def _changed(self, thing: FakeResource) -> None:
        thing.changed = self.deployment.now

    def _updating(self, thing: FakeResource) -> None:
        thing.status = "Updating"

    def _settled(self, thing: FakeResource) -> None:
        if thing.status == "Updating":
            thing.status, thing.changed = "InService", self.deployment.now

    def _stopped(self, thing: FakeResource) -> None:
        thing.running_since, thing.changed = None, self.deployment.now

    def _started(self, thing: FakeResource) -> None:
        if thing.running_since is None:
            thing.running_since = thing.changed = self.deployment.now

    def _deleted(self, thing: FakeResource) -> None:
        self.gone[thing.name] = self.deployment.now
        self.oracle.lowered.pop(thing.name, None)
        del self.cloud.things[thing.name]

    def _patchy(self, thing: FakeResource) -> None:
        thing.incomplete_replies = not thing.incomplete_replies

    def _vague(self, thing: FakeResource) -> None:
        thing.without_heartbeat = True

    def _deaf(self, thing: FakeResource) -> None:
        """For some hours there were no metrics of it: hours that no sweep has seen yet, for proof that was there stays proof."""
        ago = (1, 5, 24)[self.trial.which % 3] * HOUR
        start = max(self.deployment.now - ago, self.looked_at)
        if start + HOUR / 2 <= self.deployment.now:
            thing.metric_gaps.append((start, start + HOUR / 2))

    def _outage(self, thing: FakeResource) -> None:
        """For some hours there were no metrics of anything."""
        start, end = max(self.deployment.now - 5 * HOUR, self.looked_at), self.deployment.now - HOUR / 2
        for each in self.cloud.things.values() if start < end else ():
            each.metric_gaps.append((start, end))

    def _resized(self, thing: FakeResource) -> None:
        """A person sets another minimum."""
        thing.minimum = 1 + self.trial.which % 3
        self.oracle.lowered.pop(thing.name, None)

    def _refused(self, thing: FakeResource) -> None:
        thing.refused = not thing.refused

    def _hosted(self, thing: FakeResource) -> None:
        """A person snoozes what hosts others."""
        if HOUSE in self.cloud.things:
            SEEN["hosted"] += 1
            self._kept(self.cloud.things[HOUSE])

    def _paused(self, thing: FakeResource) -> None:
        """A person turns the stop switch on for an hour."""
        SEEN["paused between"] += 1
        self.switched(self.deployment.now + HOUR)

    def _later(self, thing: FakeResource) -> None:
        self.deployment.now += timedelta(minutes=18)

    def _twice(self, thing: FakeResource) -> None:
        """Another sweep begins while the first one is at work."""
        self.inner, run, count = True, f"run-{self.deployment.runs + 1}", self.counted()
        self.wrong.append("the second sweep raised")
        known, self.oracle.known = self.oracle.known, {}
        self.deployment.sweep(self.oracle.mode)
        self.oracle.known = known
        self.wrong.remove("the second sweep raised")
        self.inner = False
        self.capped(run, count)

    def _kept(self, thing: FakeResource) -> None:
        """Its owner clicks on the link and keeps it for some days, unless it is kept for longer."""
        until = self.deployment.now + (1 + self.trial.which) * DAY

        if thing.name in self.oracle.garbled:
            return
        inner, self.inner = self.inner, True
        snooze = self.deployment.snooze(thing.name)
        if not snooze.until or snooze.until <= until:
            self.oracle.snoozes.setdefault(thing.name, []).append((self.deployment.now, until))
            kept = replace(snooze, until=until, by="lee@example.com")
            assert self.ledger.write_snooze(self.cloud.id(thing.name), kept, snooze.version, self.deployment.now)
        self.inner = inner

    def before_call(self, call: str, name: str) -> None:
        """What is to happen before that call is answered happens, once."""
        if self.inner:
            return
        call = self.named(call, name)
        # Time goes on last: what happens after the metrics were asked for, they cannot show.
        for event in sorted((e for e in self.pending if e[0] == call), key=lambda e: e[1] in {"later", "twice"}):
            self.pending.remove(event)
            things = [self.cloud.things[name]] if name in self.cloud.things else self.pick(self.trial.which)
            self.happen(event[1], things)

    def fail_on(self, call: str, name: str) -> None:
        """What is to fail fails."""
        if self.inner:
            return
        if self.dead:
            raise Killed
        self.note(call, name)
        call = self.named(call, name)
        index = self.calls[call]
        self.calls[call] += 1
        for how in [how for what, nth, how in self.trial.faults if what == call and nth in {ALL, index}]:
            if not (how == "throttled" and call in {"write", "lower", "carry"}):  # tried once more
                self.hit.append((call, name))
            self.fail(call, how)

    def fail(self, call: str, how: str) -> None:
        SEEN[f"{how}"] += 1
        if how == "killed":
            self.dead = True
            raise Killed
        if how in LOST:
            raise CloudError(LOST[how], call, how, retried=True)
        if call in {"carried", "remembered", "began", "ended", "noted"}:
            raise CloudError(Reason.UNREACHABLE, call, "no answer")
        if how == "odd" and call not in MEMORY and call != "write":
            raise OSError("odd") if call == "send" else KeyError("odd")
        trouble = Reason.UNREADABLE if how == "odd" else Reason(how)
        raise CloudError(trouble, call, how, missing=call if how == "denied" else None)

    def note(self, call: str, name: str) -> None:
        """What was looked at how often, and what is half done or put back from now on."""
        thing, now = self.cloud.things.get(name), self.deployment.now
        if call == "look":
            self.looks[name] += 1
            SEEN[self.named(call, name)] += 1
        if call == "lowered":
            SEEN["half done"] += 1
            self.oracle.lowered[name] = now
        if call == "was put back" and thing:
            SEEN["put back"] += 1
            self.oracle.lowered.pop(name, None)
        if call in {"lowered", "was put back"}:
            self.oracle.called[name] = now
        if call == "carried":
            self.oracle.lowered.pop(name, None)

    def named(self, call: str, name: str) -> str:
        """The second time that metrics are read is another call, and so is each further look at a resource."""
        if call == "look":
            return {0: "look", 1: "look", 2: "last look"}.get(self.looks[name], "call look")
        return "again" if call == "observe" and self.calls["look"] else call

    # The reaper

    @rule(
        mode=st.sampled_from([Mode.ENFORCE, Mode.ENFORCE, Mode.ENFORCE, Mode.ANNOUNCE, Mode.NOTIFY, Mode.AUDIT]),
        trial=trials,
        wait=waits,
    )
    def sweep(self, mode: Mode, trial: Trial, wait: timedelta) -> None:
        self.deployment.now += wait
        self.trial, self.pending, self.hit, self.calls = trial, list(trial.events), [], Counter()
        self.looks = Counter()
        self.addresses = {name: {address(thing)} for name, thing in self.cloud.things.items()}
        self.oracle.mode, run, count = mode, f"run-{self.deployment.runs + 1}", self.counted()
        report = self.swept(mode)
        self.looked_at = self.deployment.now
        self.trial, self.pending = replace(trial, faults=[]), []
        self.capped(run, count)
        if report and not self.forged:
            self.shown(report)
            self.known(run)
            self.settled(report, trial)
            if mode.writes and not (trial.faults or trial.events) and all(c.status is Status.OK for c in report.coverage):
                for thing in self.cloud.things.values():
                    self.oracle.sees(thing, self.looked_at)

    @rule(trial=trials, wait=st.sampled_from([timedelta(), timedelta(minutes=10), 6 * HOUR]))
    def due(self, trial: Trial, wait: timedelta) -> None:
        """Notices are sent about everything, and the next sweep comes when the time is over."""
        self.sweep(Mode.ENFORCE, QUIET, wait)
        self.sweep(Mode.ENFORCE, trial, GRACES[self.oracle.knobs.grace])

    @rule(trial=trials, first=trials, turned=st.none() | knobs, what=st.none() | st.sampled_from(HAPPENINGS), which=which)
    def parts(self, trial: Trial, first: Trial, turned: Knobs | None, what: str | None, which: int) -> None:
        """A first part is acted on, something happens, and the rest comes due."""
        if "double-1" not in self.cloud.things:
            self.add("double-1")
        self.due(first, timedelta())
        if what:
            self.happening(which=which, what=what, tags=trial.tags)
        if turned:
            self.turn(turned)
        self.sweep(Mode.ANNOUNCE, QUIET, GRACES[self.oracle.knobs.grace] / 2)
        self.sweep(Mode.ENFORCE, trial, GRACES[self.oracle.knobs.grace] / 2 + DAY)

    @rule(
        at=st.sampled_from(["lowered", "lowered", "carry", "carried", "lower"]),
        what=st.none() | st.sampled_from(HAPPENINGS),
        which=which,
        wait=st.sampled_from([timedelta(minutes=16), 5 * HOUR, 5 * HOUR, DAY]),
        trial=trials,
    )
    def half_done(self, at: str, what: str | None, which: int, wait: timedelta, trial: Trial) -> None:
        """The process ends in the middle of an action, something happens, and the next runs find what it left."""
        for name in HELD[:2]:
            if name not in self.cloud.things:
                self.add(name)
        self.due(replace(QUIET, faults=[(at, 0, "killed")]), timedelta())
        if what:
            self.happening(which=which, what=what, tags={})
        self.sweep(Mode.ENFORCE, trial, wait)
        self.sweep(Mode.ENFORCE, QUIET, HOUR)
        self.sweep(Mode.ENFORCE, QUIET, GRACES[self.oracle.knobs.grace])

    @rule(call=st.sampled_from(["look", "record", "carry"]), what=st.sampled_from(["hosted", "paused", "hosted", "kept", "odd"]))
    def between(self, call: str, what: str) -> None:
        """Something happens between the notice of a house and the last call of its action."""
        for name in (HOUSE, INNER):
            if name not in self.cloud.things:
                self.add(name)
        trial = replace(QUIET, faults=[(call, 1, what)]) if what == "odd" else replace(QUIET, events=[(call, what)])
        self.due(trial, timedelta())

    @rule(trial=trials, early=st.booleans(), what=st.sampled_from(HAPPENINGS), which=which, turned=st.none() | knobs)
    def due_but(self, trial: Trial, early: bool, what: str, which: int, turned: Knobs | None) -> None:
        """Something happens just before notices are sent, or while the time runs."""
        grace = GRACES[self.oracle.knobs.grace]
        if early:
            self.happening(which=which, what=what, tags=trial.tags)
        self.sweep(Mode.ENFORCE, QUIET, timedelta())
        self.deployment.now += grace / 2
        if turned:
            self.turn(turned)
        if not early:
            self.happening(which=which, what=what, tags=trial.tags)
        self.sweep(Mode.ENFORCE, QUIET, timedelta())
        self.sweep(Mode.ENFORCE, trial, grace / 2)

    @rule(trial=trials, which=which)
    def narrowed(self, trial: Trial, which: int) -> None:
        """Owners are told of a stop, and then the canary leaves one of the things out."""
        self.sweep(Mode.ENFORCE, QUIET, timedelta())
        self.turn(replace(self.oracle.knobs, canary=True))
        self.trial = replace(QUIET, tags={"team": "risk"})
        self.happen("tagged", self.pick(which))
        self.sweep(Mode.ENFORCE, trial, GRACES[self.oracle.knobs.grace])

    @rule(
        which=which,
        how=st.sampled_from(["kept", "accepted", "tagged", "canary"]),
        mode=st.sampled_from([None, Mode.ENFORCE, Mode.NOTIFY]),
    )
    def spared(self, which: int, how: str, mode: Mode | None) -> None:
        """Between two notices and the date of the first, nothing may be done with one of the things for some hours. No run may see it."""
        self.sweep(Mode.ENFORCE, QUIET, timedelta())
        turned, grace = self.oracle.knobs, GRACES[self.oracle.knobs.grace]
        for thing in self.pick(which):
            before, end = thing.tags, self.deployment.now + grace / 2
            if how == "accepted":
                self.turn(replace(turned, accepted=(end.date() - NOW.date()).days - 1))
            elif how == "canary":
                self.turn(replace(turned, canary=True))
                thing.tags = {**(before or {}), "team": "risk"}
            else:
                kept = f"{end:%Y-%m-%dT%H:%M:%S+00:00}"
                thing.tags = {**(before or {}), **({"reaper:keep-until": kept} if how == "kept" else {"reaper:keep": "true"})}
            self.addresses.setdefault(thing.name, set()).add(address(thing))
            SEEN["spared"] += 1
            if mode:
                self.sweep(mode, QUIET, grace / 3)
            if how in {"canary", "tagged"}:
                thing.tags = before
                self.turn(turned)
        self.sweep(Mode.ENFORCE, QUIET, grace)

    @rule(move=st.sampled_from([StepName.STOP, StepName.DELETE]), trial=trials, wait=waits)
    def forge(self, move: StepName, trial: Trial, wait: timedelta) -> None:
        """What decide handed to act is replaced by what asks for an action on everything."""

        def forged(value: Any) -> Any:
            if not isinstance(value, Decided) or not value.run.mode.acts:
                return value
            SEEN["forged"] += 1
            step = Step(name=move, because="it was forged")
            return replace(value, findings=tuple(replace(d, step=step, outcome=PLANNED) for d in value.findings))

        self.forged, self.deployment.hand_over = True, forged
        self.sweep(Mode.ENFORCE, trial, wait)
        self.forged, self.deployment.hand_over = False, unchanged

    @rule(first=trials, second=trials, morning=trials, late=st.booleans())
    def night(self, first: Trial, second: Trial, morning: Trial, late: bool) -> None:
        """Office hours end, and begin again."""
        day = self.deployment.now.replace(hour=21, minute=10) + (DAY if self.deployment.now.hour >= 21 else timedelta())
        self.sweep(Mode.ENFORCE, first, day - self.deployment.now)
        self.sweep(Mode.ENFORCE, second, max(HOUR, min(DAY / 3, GRACES[self.oracle.knobs.grace])))
        self.sweep(Mode.ENFORCE, morning, day + 10 * HOUR + (HOUR / 3 if late else timedelta()) - self.deployment.now)

    def swept(self, mode: Mode) -> Report | None:
        """The report; None where the process was killed."""
        try:
            return self.deployment.sweep(mode)
        except Killed:
            SEEN["killed"] += 1
            return None
        finally:
            self.dead = False

    @invariant()
    def nothing_is_wrong(self) -> None:
        assert not self.wrong, self.wrong

    def before_permit(self) -> None:
        """A snooze or a pause from now on comes too late for the permit of a call."""
        self.was_paused = self.paused_until is not None and self.paused_until > self.deployment.now
        SEEN["paused"] += self.was_paused
        self.oracle.known = {name: list(periods) for name, periods in self.oracle.snoozes.items()}

    def on_action(self, manifest: Manifest, thing: FakeResource) -> None:
        """Right before a call takes effect."""
        now, move = self.deployment.now, manifest.action
        began = [when for _, name, when, run in self.oracle.acts if (name, run) == (manifest.name, manifest.run)]
        half_done = now - self.oracle.lowered.get(manifest.name, now - DAY) < DAY
        if half_done and not began and move is not StepName.START:
            self.wrong.append(f"{move} {thing.name} at {now}, and an earlier action on it is half done")
        if self.was_paused:
            self.wrong.append(f"{move} {thing.name} at {now}, and the stop switch was on")
        if move is not StepName.START:
            self.gone[thing.name] = now
        if thing.name != manifest.name or (move, manifest.name, manifest.run) in [(m, n, r) for m, n, _, r in self.oracle.acts]:
            SEEN["second call"] += 1
            self.wrong += [f"{move} {thing.name} at {now}: {why}" for why in self.oracle.active_snoozes(thing, now)]
        if thing.name != manifest.name and manifest.name in self.cloud.things:
            self.first(manifest, self.cloud.things[manifest.name])
        elif thing.name == manifest.name:
            self.first(manifest, thing)
            if move is not StepName.START:
                self.stored(manifest, thing)

    def first(self, manifest: Manifest, thing: FakeResource) -> None:
        """Right before the first call of an action takes effect."""
        now, move, run = self.deployment.now, manifest.action, manifest.run
        if (move, thing.name, run) in [(m, n, r) for m, n, _, r in self.oracle.acts]:
            return
        self.wrong += [f"{move} {thing.name} at {now}: {why}" for why in self.oracle.wrong(thing, move, now)]
        rights = self.oracle.right(thing, move, now)
        if (
            self.released
            and rights
            and max(min(t.date for t in rights), self.released) == self.released <= now < self.released + DAY
        ):
            self.covered.add((run, thing.name))
        SEEN["canary"] += self.oracle.knobs.canary
        SEEN["rest"] += any(notice.sort == "rest" for notice in rights)
        SEEN["by hours"] += move is StepName.STOP and thing.name.startswith(("office", "strict"))
        self.oracle.acts.append((move, thing.name, now, run))
        self.spent[run, thing.name] = INSTANCES[thing.instance]
        SEEN[move.value] += 1

    def stored(self, manifest: Manifest, thing: FakeResource) -> None:
        """What undoes it is in the store, and brings back the same thing."""
        manifests = [parse_manifest(text, address) for address, text in self.deployment.store.texts.items()]
        mine = [m for m in manifests if (m.id, m.action, m.run) == (manifest.id, manifest.action, manifest.run)]
        if manifest not in mine:  # one that was throttled is looked at again, and has another
            self.wrong.append(f"{manifest.action} {thing.name} without its manifest: {mine}")
            return
        elsewhere = FakeCloud(clock=lambda: self.deployment.now)
        if manifest.action is StepName.DELETE:
            self.deleted[thing.name] = deepcopy(thing)
        else:
            elsewhere.things[thing.name] = replace(thing, running_since=None, refused=False)
        ACTS.undo(FakeSession(elsewhere), manifest)
        self.same(thing, elsewhere.things[thing.name])

    def known(self, run: str) -> None:
        """Where the ledger answered, it knows of every action of the run, and of what became of it."""
        if any(call in (*MEMORY, "remembered", "began", "ended", "noted") for call, _ in self.hit):
            return
        for move, name, when, by in self.oracle.acts:
            if by != run or name in self.oracle.garbled:
                continue
            inner, self.inner = self.inner, True
            record = self.deployment.record(name)
            self.inner = inner
            act = record.act
            if act and (act.action, act.run, act.result) == (move, run, None):
                self.wrong.append(f"nobody knows what became of {move} {name} at {when}")
            elif act is None:
                self.wrong.append(f"{move} {name} at {when} is forgotten")

    def settled(self, report: Report, trial: Trial) -> None:
        """After a sweep that acts and that nothing disturbed, nothing is half done for less than a day."""
        quiet = not (trial.faults or trial.events or self.paused_until or self.oracle.garbled)
        whole = all(c.status is Status.OK for c in report.coverage if c.kind in {"acts", "ledger"})
        busy = any("another sweep" in (f.step.because + str(f.outcome.because)) for f in report.findings)
        if self.oracle.mode is not Mode.ENFORCE or not quiet or not whole or busy:
            return
        SEEN["settled"] += 1
        for name, when in self.oracle.lowered.items():
            thing = self.cloud.things.get(name)
            if thing and thing.minimum == 0 and thing.running_since and thing.created < when and self.deployment.now - when < DAY:
                self.wrong.append(f"{name} was left half done at {when}")

    def same(self, before: FakeResource, after: FakeResource) -> None:
        if (before.instance, before.tags) != (after.instance, after.tags) or after.running_since is None:
            self.wrong.append(f"{before} came back as {after}")

    def on_message(self, message: Message) -> None:
        if self.dead:
            return
        self.wrong += self.oracle.hear(message, self.addresses, self.deployment.now)

    def counted(self) -> Counter[str]:
        """How many things there are in each account."""
        return Counter(thing.account for thing in self.cloud.things.values())

    def capped(self, run: str, counts: Counter[str]) -> None:
        """No more was acted on in any account than the limits allow; what a person released does not count, and office hours count for money
        alone. What was forged keeps to `max_acts`.
        """
        acts = [name for move, name, _, by in self.oracle.acts if by == run and move is not StepName.START]
        acts = [name for name in acts if (run, name) not in self.covered]
        SEEN["away"] += len([name for name in acts if name.startswith("away")])
        for account in (TARGET.account, AWAY):
            self.capped_in(run, [name for name in acts if name.startswith("away") is (account == AWAY)], counts[account])

    def capped_in(self, run: str, acts: list[str], count: int) -> None:
        plain = [name for name in acts if not name.startswith(("office", "strict"))]
        limits = self.oracle.knobs
        usd = sum(self.spent[run, name] for name in acts)
        most = max(1 if limits.share else 0, floor(limits.share * count / 100 + 1e-9))
        if len(plain) > limits.acts or (not self.forged and len(plain) > most):
            self.wrong.append(f"{run} acted on {acts} of {count}: {limits}")
        if not self.forged and usd > (1000 if limits.usd is None else limits.usd):
            self.wrong.append(f"{run} acted on {acts} for ${usd} an hour: {limits}")
        unpriced = [name for name in plain if self.spent[run, name] == 0]
        SEEN["unpriced"] += len(unpriced)
        if unpriced and limits.usd is not None and not self.forged:
            self.wrong.append(f"{run} acted on {unpriced} without a price under max_usd_per_hour")

    def shown(self, report: Report) -> None:
        """Whatever failed is in the report."""
        off: list[object] = [c for c in report.coverage if c.status is not Status.OK]
        off += [f for f in report.findings if f.outcome.result in {Result.REFUSED, Result.FAILED}]
        if [hit for hit in self.hit if hit[0] != "carried"] and not off:
            self.wrong.append(f"{self.hit} failed, and the report says nothing of it")
        findings = {f.case.resource.name: f for f in report.findings}
        for call, name in self.hit:
            outcome = findings[name].outcome if name in findings else None
            lost = outcome and call == "carried" and "reply was lost" in (outcome.because or "")
            SEEN["lost reply"] += bool(lost)
            off_call = call in {"look", "record", "carry", "carried"} and outcome and not lost
            if off_call and outcome and outcome.result not in {Result.REFUSED, Result.FAILED}:
                self.wrong.append(f"{call} failed for {name}: {outcome}")
        SEEN.update(f.outcome.result.value for f in report.findings)
        SEEN["left out"] += sum(f.case.rule.only_notices for f in report.findings)
        SEEN.update(f.step.name.value for f in report.findings if f.step.name is StepName.HOLD)


def play(number: int, games: int) -> None:
    """A round of games from that seed. Raises where one is lost."""
    print(f"seed {number}")
    run_state_machine_as_test(
        seed(number)(Deployment),
        settings=settings(
            max_examples=games,
            stateful_step_count=20,
            deadline=None,
            database=None,
            derandomize=False,
            phases=(Phase.generate,) if PROFILE == "mutation" else (Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.fresh
@pytest.mark.timeout(1800)
def test_no_failure_leads_to_an_action_on_a_protected_resource():
    for number in seeds.FRESH or range(1, ROUNDS + 1):
        play(number, SOAK_GAMES if seeds.FRESH else GAMES)
        if not seeds.FRESH and all(SEEN[what] for what in EVERYTHING):
            break
    assert [what for what in EVERYTHING if not SEEN[what]] == []
