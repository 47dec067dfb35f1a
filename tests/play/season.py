"""The play itself: days of sweeps, people, accidents and outages, in an order that only the seed decides.

Time stands still while nothing is going on and is stepped from sweep to sweep; every command is a process of its own under that clock.
"""

from __future__ import annotations

import json
import os
import secrets
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import boto3

from play import people, terms, town, troubles
from play.clock import Clock
from play.clouds import SETTLES, Aws, Azure, Wire
from play.oracle import Oracle
from play.post import Post, Room
from play.scene import Scene, State
from play.scripts import BEGIN, Script
from play.shell import PRODUCT, Done, Shell
from play.terms import DAY, HOUR, MINUTE
from play.thing import Thing

KEEP = "https://keep.example.com"
TABLE = "ledger"
PLACES = ("--account", f"{town.HUB},{town.MEMBER}", "--role-name", town.SWEEPER)
"""The AWS accounts of every sweep."""


@dataclass(slots=True)
class Season:
    """One play. `diary` is what happened, line by line, for the person who has to find out why something is wrong."""

    dice: Random
    clock: Clock
    wire: Wire
    aws: Aws
    azure: Azure
    post: Post
    room: Room
    shell: Shell
    things: list[Thing]
    home: Path
    oracle: Oracle = field(init=False)
    diary: list[str] = field(default_factory=list)
    rules: list[tuple[Any, Any]] = field(default_factory=list)
    before_act: dict[str, Any] = field(default_factory=dict)
    runs: dict[str, str] = field(default_factory=dict)
    drifted: set[str] = field(default_factory=set)
    history_at: datetime = BEGIN
    """From when on the history of lost signals is back, once they aren't lost any more."""
    accepted: date | None = None
    struck: int = 0
    today: Script = field(default_factory=Script)
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.oracle = Oracle({thing.name: thing for thing in self.things})

    def say(self, text: str) -> None:
        """One line for the diary."""
        self.diary.append(f"{self.clock.now:%a %d %H:%M:%S}  {text}")
        with (self.home / "diary.txt").open("a", encoding="utf-8") as file:
            file.write(self.diary[-1] + "\n")

    def day(self, script: Script) -> None:
        """One day of the play, from midnight (UTC) to midnight."""
        midnight = self.clock.now.replace(hour=0, minute=0, second=0, microsecond=0)
        self.say(f"--- {script}")
        if self.today.silence and not script.silence:
            self.history_at = midnight + self.dice.choice((0, 9)) * HOUR
        self.struck, self.today = 0, script
        if script.spared == "accepted":
            self.oracle.accepted_until = midnight + DAY - 2 * HOUR
            self.accepted = midnight.date()
        self.oracle.canary = script.spared == "canary"
        text = terms.policy(self.post.port, terms.CAPS[script.caps], self.accepted, canary=self.oracle.canary)
        (self.home / "policy.yaml").write_text(text)
        people.tidy(self, script)
        with troubles.out_of_order(self, script):
            for hour, minute in script.sweeps:
                when = midnight + timedelta(hours=hour, minutes=minute + self.dice.randint(-9, 9))
                self.until(when, script)
                people.by_hand(self, script)
                self.sweep(script)
        self.until(midnight + DAY, script)

    def until(self, when: datetime, script: Script) -> None:
        """Life goes on until then: people work, come back to what was stopped, and meddle."""
        since = self.clock.now
        if when <= since:
            return
        for thing in self.things:
            thing.silent = town.falls_silent(thing, script.silence)
            if thing.owed and not thing.silent and since >= self.history_at:
                self.say(f"the lost signals of {thing.name} are back")
                thing.catch_up(since)
        people.between(self, since, when, script)
        when = max(when, self.clock.now)  # a restore that is tried again may outlast the gap
        for thing in self.things:
            thing.live(since, when)
            if not script.late and thing.silent:
                thing.owed.clear()  # these never come
        self.clock.to(when)

    def sweep(self, script: Script) -> None:
        """One sweep, with an accident if the day has one in mind, and with people who act in the middle of it."""
        if not script.calm and self.dice.random() < 0.4:
            people.interrupt(self)
        if script.accident and (self.struck == 0 or self.dice.random() < 0.4):
            troubles.arm(self, script.accident)
        mode = "announce" if script.mode == "apply" else script.mode
        self.command("sweep", *PLACES, "--mode", mode, "--format", "json", "--output", "report.json", mode=mode)
        if script.mode == "apply":
            (self.home / "plan.json").unlink(missing_ok=True)
            self.command("plan", *PLACES, "--output", "plan.json", mode="plan")
            if (self.home / "plan.json").exists():
                self.command("apply", *PLACES, "plan.json", mode="apply")
        if self.wire.accident and self.wire.accident.happened:
            self.struck += 1
        self.wire.accident = None
        self.wire.meanwhile.clear()
        if self.oracle.names_on_hold and self.dice.random() < (1.0 if script.calm else 0.3) and not script.silence:
            self.release()

    def release(self) -> None:
        """An admin has read the summary and lets go what is on hold."""
        result = self.command("release", "--all", mode="release")
        if result.status == 0:
            self.oracle.releases.append((self.clock.now, self.clock.now + DAY))

    def command(self, *argv: str, mode: str) -> Done:
        """One command of the product, judged by the oracle."""
        self.wire.command += 1
        (self.home / "report.json").unlink(missing_ok=True)
        before, portraits = self._states(), {t.name: t.portrait() for t in self.things if t.exists()}
        mails, changes, began = len(self.post.mails), len(self.wire.changes), self.clock.now
        self.room.cards.clear()
        result = self.shell(*argv)
        scene = Scene(
            number=self.wire.command,
            verb=argv[0],
            mode=mode,
            began=began,
            ended=self.clock.now,
            status=result.status,
            stderr=result.stderr,
            out_of_order=frozenset(troubles.names(self, self.today.outage)),
            before=before,
            after=self._states(),
            changes=self.wire.changes[changes:],
            mails=self.post.mails[mails:],
            cards=list(self.room.cards),
            report=self._report(),
            caps=terms.CAPS[self.today.caps],
            calm=self.today.calm,
        )
        self.counts.update(self._accidents(scene))
        half_open = set(self.oracle.halves.open)
        self._tell(scene, result)
        for act in self.oracle.saw(scene):
            self.say(f"  {act.what} {act.name}")
            if act.what != "start" and act.name not in self.before_act:
                self.before_act[act.name] = portraits[act.name]
            elif act.what == "start":
                self.before_act.pop(act.name, None)
        for name in half_open ^ set(self.oracle.halves.open):
            self.say(f"  {name} {'is settled' if name in half_open else 'is half done'}")
        return result

    def _accidents(self, scene: Scene) -> Iterator[str]:
        """What went wrong with a command, by name."""
        yield from (f"outage of {one}" for one in scene.out_of_order & set(troubles.OUTAGES) | (scene.out_of_order & {"mail"}))
        if self.wire.accident and self.wire.accident.happened:
            yield "lost" if self.wire.accident.how == "lost" else "killed"
            yield self.wire.accident.happened.partition(":")[0]
        if scene.mode == "notify" and any(n.announces for m in self.oracle.mails for n in m.notices):
            yield "lowered to notify"

    def restore(self, thing: Thing) -> None:
        """Its owner wants it back; afterwards it must be as it was, field by field."""
        gone = thing.inside if thing.inside and not thing.inside.exists() else None  # its host is restored first
        wanted = self.before_act.get(thing.name)
        self.counts["restored"] += wanted is not None
        for one in (gone, thing) if gone else (thing,):
            self.oracle.undone(one.name)
            result = self._restored(one)
        if wanted is None or thing.name in self.drifted or self.today.outage in {"ledger", "writes", "permission"}:
            return
        now = thing.portrait() if thing.exists() else None
        if now != wanted:
            self.oracle.wrong.append(
                (self.clock.now, f"{thing.name} ({thing.kind}) is not as it was before: {_differ(wanted, now)}; {result.stdout}")
            )
        self.before_act.pop(thing.name, None)

    def _restored(self, thing: Thing) -> Done:
        """The last of up to four tries."""
        for _ in range(4):
            result = self.command("restore", thing.id, "--role-name", town.RESTORER, mode="restore")
            self.clock.to(self.clock.now + 10 * MINUTE)
            if result.status == 0:
                break
        return result

    def end(self, calm_since: datetime, most: int = 1000) -> None:
        """What must hold when nothing has been out of order since that moment: nothing is stuck, and everything can be brought back.

        What the last sweep held back, and an admin released since, is for one more sweep to carry out. Of everything at `most` so many are
        tried, every kind among them.
        """
        if self.oracle.releases and self.oracle.releases[-1][0] > self.clock.now - 6 * HOUR:
            self.until(self.clock.now + 2 * HOUR, self.today)
            self.sweep(self.today)
        for why in [*self.oracle.stuck(calm_since, self.clock.now), *self.oracle.late_nights(calm_since, self.clock.now)]:
            self.oracle.wrong.append((self.clock.now, why))
        stopped = [thing for thing in self.things if thing.name in self.before_act]
        first = {thing.kind: thing for thing in stopped}.values()
        for thing in [*first, *(thing for thing in stopped if thing not in first)][:most]:
            self.restore(thing)

    def _states(self) -> dict[str, State]:
        return {thing.name: State(exists=thing.exists(), level=thing.level(), sides=thing.sides()) for thing in self.things}

    def _report(self) -> Any:
        file = self.home / "report.json"
        return json.loads(file.read_text()) if file.exists() and file.stat().st_size else None

    def _tell(self, scene: Scene, result: Done) -> None:
        states = ""
        if scene.report:
            states = ", ".join(f"{count} {state}" for state, count in scene.report["totals"]["by_state"].items() if count)
            holds = sum(1 for f in scene.report["findings"] if f["step"] == "hold")
            states += f", {holds} on hold" if holds else ""
        happened = f" [{self.wire.accident.happened}]" if self.wire.accident and self.wire.accident.happened else ""
        self.say(f"$ reaper {' '.join(result.argv)} -> {scene.status}{happened} {states}")
        if result.status not in {0, -9}:
            self.say(f"  {' '.join(result.stderr[-400:].split())}")
        for mail in scene.mails:
            self.say(f"  mail to {mail.to}: {mail.subject}")
            for n in mail.notices:
                self.say(f"    {n.name}: {'done' if n.is_done else n.announces} {n.date or ''}")
        for row in (scene.report or {}).get("findings", ()):
            if row["step"] == "hold":
                self.say(f"  {row['name']}: {row['step_because']}")
            if row["outcome"] in {"refused", "failed"}:
                self.say(f"  {row['name']}: {row['step']} {row['outcome']}: {row['outcome_because'] or row['error']}")
        for change in scene.changes:
            if change.action.startswith(("sagemaker", "Microsoft", "application")):
                self.say(f"  call {change.action} {change.what}{f' REFUSED {change.refused}' if change.refused else ''}")


@contextmanager
def season(
    home: Path,
    seed: int,
    begin: datetime,
    length: timedelta,
    product: Path = PRODUCT,
    without: Collection[str] = frozenset(),
) -> Iterator[Season]:
    """Both clouds filled and serving, the mail server, and a shell whose commands find all of them and nothing else."""
    dice, clock = Random(seed), Clock(begin)
    running: list[Shell] = []
    wire = Wire(clock=clock, victim=lambda: running[0].pid if running else None)
    with ExitStack() as stack:
        aws, azure = stack.enter_context(Aws(wire)), stack.enter_context(Azure(wire))
        post, room = stack.enter_context(Post(wire)), stack.enter_context(Room())
        azure.world.operations.takes = SETTLES
        things = town.settle(aws, azure, begin, begin + length, dice, without)
        environ = {
            **aws.env,
            **azure.env,
            "REAPER_LEDGER": f"dynamodb://{TABLE}",
            "REAPER_MANIFESTS": str(home / "manifests"),
            "REAPER_POLICY": str(home / "policy.yaml"),
            "REAPER_SUBSCRIPTIONS": town.SUBSCRIPTION,
            "REAPER_REGIONS": ",".join(town.REGIONS),
            "REAPER_SNOOZE_URL": KEEP,
            "REAPER_SNOOZE_KEYS": "env:PLAY_KEYS",
            "REAPER_SECRET_ROOM": room.url,
            "PLAY_KEYS": secrets.token_urlsafe(48),
            "AWS_MAX_ATTEMPTS": "2",
        }
        stack.enter_context(patch.dict(os.environ, environ))
        _table()
        running.append(stack.enter_context(Shell(home, clock, environ, product)))
        yield Season(dice, clock, wire, aws, azure, post, room, running[0], things, home)


def _table() -> None:
    """The ledger's table, as template.yaml makes it."""
    boto3.client("dynamodb").create_table(
        TableName=TABLE,
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")],
    )


def _differ(wanted: Any, now: Any) -> str:
    if not isinstance(wanted, dict) or not isinstance(now, dict):
        return f"{wanted} became {now}"
    return "; ".join(f"{key}: {wanted[key]!r} became {now.get(key)!r}" for key in wanted if wanted[key] != now.get(key))
