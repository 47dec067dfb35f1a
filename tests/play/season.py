"""The play itself: days of sweeps, people, accidents and outages, in an order that only the seed decides.

Time stands still while nothing is going on and is stepped from sweep to sweep; every command is a process of its own under that clock.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch
from urllib.parse import urlencode, urlsplit

import boto3

from play import terms, town
from play.clock import Clock
from play.clouds import SETTLES, Accident, Aws, Azure, Wire
from play.fleet import Thing
from play.oracle import Oracle, Scene, State
from play.post import Post
from play.shell import PRODUCT, Done, Shell
from play.terms import DAY, HOUR, MINUTE
from reaper.snooze import handler
from reaper.snooze.request import Request
from reaper_sandbox.aws import fault as aws_fault
from reaper_sandbox.azure import fault as azure_fault

SWEEPS = ((1, 10), (5, 0), (8, 20), (11, 50), (15, 30), (18, 40), (21, 50))
"""When a day's sweeps are, give or take some minutes."""
AWS_ACTS = r"sagemaker:(Stop|Delete|Update|Start).*|application-autoscaling:(Register|Delete).*"
AZURE_ACTS = r"Microsoft\.MachineLearningServices/.*(write|delete|stop/action|start/action)"
ACTS = f"{AWS_ACTS}|{AZURE_ACTS}"
WRITES = r"dynamodb:(Put|Update|Delete)Item"
METRICS = r"cloudwatch:GetMetricData|.*[Mm]etrics.*"
LOOKS = r"sagemaker:ListTags|Microsoft\.MachineLearningServices/.*read"
"""What is asked of a resource right before it is acted on; for Azure also what a sweep lists."""
KEEP = "https://keep.example.com"
TABLE = "ledger"


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """What is special about a day."""

    mode: str = "enforce"
    outage: str = ""
    accident: str = ""
    silence: bool = False
    calm: bool = False
    caps: str = ""
    sweeps: tuple[tuple[int, int], ...] = SWEEPS


@dataclass(slots=True)
class Season:
    """One play. `diary` is what happened, line by line, for the person who has to find out why something is wrong."""

    dice: Random
    clock: Clock
    wire: Wire
    aws: Aws
    azure: Azure
    post: Post
    shell: Shell
    things: list[Thing]
    home: Path
    oracle: Oracle = field(init=False)
    diary: list[str] = field(default_factory=list)
    rules: list[tuple[Any, Any]] = field(default_factory=list)
    before_act: dict[str, Any] = field(default_factory=dict)
    runs: dict[str, str] = field(default_factory=dict)
    drifted: set[str] = field(default_factory=set)
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
        self.struck, self.today = 0, script
        (self.home / "policy.yaml").write_text(terms.policy(self.post.port, terms.CAPS[script.caps]))
        self._tidy(script)
        with self._out_of_order(script):
            for hour, minute in script.sweeps:
                when = midnight + timedelta(hours=hour, minutes=minute + self.dice.randint(-9, 9))
                self.until(when, script)
                self._by_hand(script)
                self.sweep(script)
        self.until(midnight + DAY, script)

    def until(self, when: datetime, script: Script) -> None:
        """Life goes on until then: people work, come back to what was stopped, and meddle."""
        since = self.clock.now
        if when <= since:
            return
        for thing in self.things:
            thing.silent = script.silence and town.falls_silent(thing)
        self._people(since, when, script)
        for thing in self.things:
            thing.live(since, when)
        self.clock.to(when)

    def sweep(self, script: Script) -> None:
        """One sweep, with an accident if the day has one in mind, and with people who act in the middle of it."""
        if not script.calm and self.dice.random() < 0.4:
            self._interrupt()
        if script.accident and (self.struck == 0 or self.dice.random() < 0.4):
            self._arm(script.accident)
        mode = "announce" if script.mode == "apply" else script.mode
        self.command("sweep", "--mode", mode, "--format", "json", "--output", "report.json", mode=mode)
        if script.mode == "apply":
            (self.home / "plan.json").unlink(missing_ok=True)
            self.command("plan", "--output", "plan.json", mode="plan")
            if (self.home / "plan.json").exists():
                self.command("apply", "plan.json", mode="apply")
        if self.wire.accident and self.wire.accident.happened:
            self.struck += 1
        self.wire.accident = None
        self.wire.meanwhile.clear()
        if self.oracle.names_on_hold and self.dice.random() < (1.0 if script.calm else 0.3) and not script.silence:
            self.release()

    def release(self) -> None:
        """An admin has read the summary and lets go what is on hold."""
        result = self.command("release", mode="release")
        if result.status == 0:
            self.oracle.releases.append((self.clock.now, self.clock.now + DAY))

    def command(self, *argv: str, mode: str) -> Done:
        """One command of the product, judged by the oracle."""
        self.wire.command += 1
        (self.home / "report.json").unlink(missing_ok=True)
        before, portraits = self._states(), {t.name: t.portrait() for t in self.things if t.exists()}
        mails, changes, began = len(self.post.mails), len(self.wire.changes), self.clock.now
        result = self.shell(*argv)
        scene = Scene(
            number=self.wire.command,
            verb=argv[0],
            mode=mode,
            began=began,
            ended=self.clock.now,
            status=result.status,
            stderr=result.stderr,
            out_of_order=frozenset(self._troubles(self.today.outage)),
            before=before,
            after=self._states(),
            changes=self.wire.changes[changes:],
            mails=self.post.mails[mails:],
            report=self._report(),
            caps=terms.CAPS[self.today.caps],
            calm=self.today.calm,
        )
        self.counts.update(self._accidents(scene))
        self._tell(scene, result)
        for act in self.oracle.saw(scene):
            self.say(f"  {act.what} {act.name}")
            if act.what != "start" and act.name not in self.before_act:
                self.before_act[act.name] = portraits[act.name]
            elif act.what == "start":
                self.before_act.pop(act.name, None)
        return result

    def _accidents(self, scene: Scene) -> Iterator[str]:
        """What went wrong with a command, by name."""
        yield from (f"outage of {one}" for one in scene.out_of_order & set(OUTAGES) | (scene.out_of_order & {"mail"}))
        if self.wire.accident and self.wire.accident.happened:
            yield "lost" if self.wire.accident.how == "lost" else "killed"
            yield self.wire.accident.happened.partition(":")[0]
        if scene.mode == "notify" and any(n.announces for m in self.oracle.mails for n in m.notices):
            yield "lowered to notify"

    def restore(self, thing: Thing) -> None:
        """Its owner wants it back; afterwards it must be as it was, field by field."""
        wanted = self.before_act.get(thing.name)
        self.counts["restored"] += wanted is not None
        self.oracle.undone(thing.name)
        for _ in range(4):
            result = self.command("restore", thing.id, mode="restore")
            self.clock.to(self.clock.now + 10 * MINUTE)
            if result.status == 0:
                break
        if wanted is None or thing.name in self.drifted or self.today.outage in {"ledger", "writes"}:
            return
        now = thing.portrait() if thing.exists() else None
        if now != wanted:
            self.oracle.wrong.append(
                (self.clock.now, f"{thing.name} ({thing.kind}) is not as it was before: {_differ(wanted, now)}; {result.stdout}")
            )
        self.before_act.pop(thing.name, None)

    def click(self, thing: Thing, link: str, days: int) -> None:
        """A person opens the link in a mail and sends its form."""
        result = self.shell(link, str(days), program="click")
        self.say(f"click for {thing.name}, {days} days: {result.status} {result.stdout}{result.stderr[-300:]}")
        if result.status == 0:
            self.oracle.snoozes[thing.name].append((self.clock.now, self.clock.now + days * DAY - HOUR))

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

    def _people(self, since: datetime, until: datetime, script: Script) -> None:
        """What people do in between, before their resources' metrics are published."""
        for thing in self.things:
            if thing.sleeps and not thing.level() and thing.wants(since, until) and not script.calm:
                self._comes_back(thing, since)
        if script.calm:
            return
        for thing, date in self._announced(since, until + HOUR):
            self._last_minute(thing, date, since, until)
        if self.dice.random() < 0.25:
            self._meddle(self.dice.choice(self.things))

    def _comes_back(self, thing: Thing, now: datetime) -> None:
        """A person wants to work and finds it stopped."""
        if thing.terms.hours and terms.is_open(now + 2 * HOUR):
            return
        choice = self.dice.random()
        if choice < 0.4:
            self.say(f"{thing.name} is started by hand")
            self._start(thing)
        elif choice < 0.7 and thing.name in self.before_act:
            self.say(f"{thing.name} is restored by its owner")
            self.restore(thing)

    def _start(self, thing: Thing) -> None:
        thing.started_by_hand(self.clock.now)
        self.before_act.pop(thing.name, None)
        self.oracle.undone(thing.name)

    def _by_hand(self, script: Script) -> None:
        """On working days a person works late on what was stopped for the night, and stops in the morning what is always started."""
        now = self.clock.now
        closed, opened = terms.closed_since(now), terms.opened_at(now)
        for thing in (t for t in self.things if t.terms.hours and not script.calm):
            if closed and now.hour >= 21 and terms.is_open(closed - MINUTE) and now - closed < 6 * HOUR and not thing.level():
                if self.dice.random() < 0.3:
                    self.counts["started by hand in the evening"] += 1
                    self.say(f"{thing.name} is started by hand in the evening")
                    self._start(thing)
            elif opened and thing.terms.all and thing.level() and now.hour < 11 and self.dice.random() < 0.4:
                self.counts["stopped by hand in the morning"] += 1
                self.say(f"{thing.name} is stopped by hand in the morning")
                thing.stopped_by_hand(now)

    def _tidy(self, script: Script) -> None:
        """Most of what protects something is taken off again the next day."""
        for thing in self.things:
            tags = thing.truth.tags_at(self.clock.now)
            if any(key.startswith("reaper:") for key in tags) and self.dice.random() < 0.6 and not script.calm:
                self._tag(thing, {key.replace("-", "__").replace(":", "_"): None for key in tags if key.startswith("reaper:")})

    def _announced(self, since: datetime, until: datetime) -> Iterator[tuple[Thing, datetime]]:
        """What mails announce for that stretch."""
        newest = {n.name: n for m in self.oracle.mails for n in m.notices if not n.is_done}
        for thing in self.things:
            notice = newest.get(thing.name)
            if notice and notice.date and since < notice.date <= until and thing.level() > thing.least():
                yield thing, notice.date

    def _last_minute(self, thing: Thing, date: datetime, since: datetime, until: datetime) -> None:
        """Minutes before the announced stop something happens to it."""
        choice, when = self.dice.random(), max(since, min(date, until) - self.dice.randint(9, 25) * MINUTE)
        if choice < 0.2:
            self.say(f"{thing.name} is used at {when:%H:%M}, shortly before {date:%H:%M}")
            thing.use(when, when + 6 * MINUTE)
            self.counts["used just before its date"] += 1
        elif choice < 0.3:
            self._tag(thing, self.dice.choice(TAGS))
        elif choice < 0.4:
            links = [n.link for m in self.oracle.mails for n in m.notices if n.name == thing.name and n.link]
            if links:
                self.click(thing, links[-1], self.dice.choice((1, 3)))

    def _meddle(self, thing: Thing) -> None:
        """A person does something at no special moment."""
        choice = self.dice.random()
        if choice < 0.3:
            self._tag(thing, self.dice.choice(TAGS))
        elif choice < 0.6 and thing.name in self.before_act:
            self.say(f"{thing.name} is restored, and left alone")
            self.restore(thing)
        elif choice < 0.7 and thing.exists() and thing.level() > thing.least():
            self.say(f"{thing.name} is stopped by hand")
            thing.stopped_by_hand(self.clock.now)
            self.drifted.add(thing.name)
        elif choice < 0.9 and thing.exists() and thing.level() <= thing.least():
            self.say(f"{thing.name} is started by hand, and left alone")
            self._start(thing)

    def _tag(self, thing: Thing, tags: dict[str, str | None]) -> None:
        if not thing.exists():
            return
        made = {key: value and value.format(soon=f"{self.clock.now + 2 * DAY:%Y-%m-%d}") for key, value in tags.items()}
        self.say(f"{thing.name} is tagged {made}")
        thing.retag(self.clock.now, **made)
        if thing.name in self.before_act:
            self.drifted.add(thing.name)

    def _interrupt(self) -> None:
        """A person protects what is about to be stopped: by a tag once it has been judged, or by a link once it has been looked at again."""
        now = self.clock.now
        due = list(self._announced(now - 3 * DAY, now))
        for thing, _ in self.dice.sample(due, min(2, len(due))):
            if self.dice.random() < 0.6:
                link = next(
                    (n.link for m in reversed(self.oracle.mails) for n in m.notices if n.name == thing.name and n.link), None
                )
                if link and self.dice.random() < 0.5:
                    self.wire.meanwhile.append((LOOKS, re.escape(thing.name), partial(self._snooze_now, thing, link)))
                else:
                    self.wire.meanwhile.append((METRICS, "", partial(self._tag_now, thing)))

    def _tag_now(self, thing: Thing) -> None:
        self.counts["tagged in the middle of a sweep"] += 1
        self._tag(thing, {"reaper_keep": "true"})

    def _snooze_now(self, thing: Thing, link: str) -> None:
        """The page is served by this process, because a command is running in the shell."""
        keys = dict(self.shell.environ)
        self.counts["snoozed in the middle of a sweep"] += 1
        parts = urlsplit(link)
        form = urlencode({"t": parts.query.removeprefix("t="), "days": 1, "reason": "just in time"}).encode()
        door = handler.open_handler(keys)
        reply = door.handle(Request(method="POST", path=parts.path, body=form), self.clock.now)
        self.say(f"{thing.name} is snoozed in the middle of the sweep: {reply.status}")
        if reply.status == 200:
            self.oracle.snoozes[thing.name].append((self.clock.now, self.clock.now + DAY - HOUR))

    def _arm(self, accident: str) -> None:
        """Something is to happen to one of the next command's calls."""
        how = {"kill": self.dice.choice(("before", "after")), "lost": "lost"}[accident]
        choices = (
            (ACTS, "smtp:Data", WRITES)
            if accident == "lost"
            else (ACTS, ACTS, "smtp:Data", WRITES, WRITES, "sagemaker:DescribeEndpoint")
        )
        action = self.dice.choice(choices)
        self.wire.accident = Accident(
            action=action, how=how, skip=self.dice.choice((0, 0, 1, 2)) if action != WRITES else self.dice.randint(0, 30)
        )

    def _troubles(self, also: str) -> Iterator[str]:
        if also:
            yield also
        if self.wire.accident and self.wire.accident.happened:
            lost = "lost mail" if "smtp" in self.wire.accident.happened else "lost"
            yield lost if self.wire.accident.how == "lost" else "kill"

    @contextmanager
    def _out_of_order(self, script: Script) -> Iterator[None]:
        """What is out of order for the day."""
        aws, azure = self.aws.rules, self.azure.rules
        saved = (list(aws), list(azure))
        if script.outage == "mail":
            self.post.down = "451 4.3.0 come back later"
        elif script.outage:
            broken = OUTAGES[script.outage]
            aws += [aws_fault.on(broken[0], broken[2])]
            azure += [azure_fault.on(".*", broken[1], broken[3])]
        yield
        self.post.down = None
        aws[:], azure[:] = saved

    def _states(self) -> dict[str, State]:
        return {thing.name: State(exists=thing.exists(), level=thing.level()) for thing in self.things}

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
        for mail in scene.mails:
            self.say(f"  mail to {mail.to}: {mail.subject}")
            for n in mail.notices:
                self.say(f"    {n.name}: {'done' if n.is_done else n.announces} {n.date or ''}")
        for row in (scene.report or {}).get("findings", ()):
            if row["outcome"] in {"refused", "failed"}:
                self.say(f"  {row['name']}: {row['step']} {row['outcome']}: {row['outcome_because'] or row['error']}")
        for change in scene.changes:
            if change.action.startswith(("sagemaker", "Microsoft", "application")):
                self.say(f"  call {change.action} {change.what}{f' REFUSED {change.refused}' if change.refused else ''}")


TAGS: Sequence[dict[str, str | None]] = (
    {"reaper_keep": "true"},
    {"reaper_keep": None, "reaper_keep__until": None, "reaper_action": None},
    {"reaper_keep": None, "reaper_keep__until": None, "reaper_action": None},
    {"reaper_keep__until": "{soon}"},
    {"reaper_action": "notify"},
    {"owner": "fay@example.com"},
    {"owner": "gil@example.com"},
    {"reaper_kep": "true"},
    {"reaper_kep": None},
    {"team": "vision"},
)
"""What people put on resources, or take off."""
OUTAGES: dict[str, tuple[str, str, Any, Any]] = {
    "metrics": ("GetMetricData", r".*metrics.*", aws_fault.throttled(), azure_fault.error(503)),
    "permission": (
        "ListTags|DescribeNotebookInstance|UpdateEndpoint.*",
        r".*/computes/.*",
        aws_fault.denied(),
        azure_fault.denied(),
    ),
    "ledger": ("(BatchGet|Get|Put|Update|Delete)Item|Query", r"never", aws_fault.error(500), azure_fault.error(500)),
    "writes": ("(Put|Update|Delete)Item", r"never", aws_fault.error(500), azure_fault.error(500)),
}
"""What does not work for a day: the AWS operations and Azure paths, and how they fail."""


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
        post = stack.enter_context(Post(wire))
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
            "PLAY_KEYS": secrets.token_urlsafe(48),
            "AWS_MAX_ATTEMPTS": "2",
        }
        stack.enter_context(patch.dict(os.environ, environ))
        _table()
        running.append(stack.enter_context(Shell(home, clock, environ, product)))
        yield Season(dice, clock, wire, aws, azure, post, running[0], things, home)


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


def scripts(days: int, calm: int, dice: Random) -> list[Script]:
    """What is special about each day: nothing on the first, then one thing after the other in any order, and calm days at the end.

    A silence lasts two days, or nothing would be due before it ends.
    """
    special = list(SPECIALS)
    dice.shuffle(special)
    days_of = [day for one in special for day in ([one, one] if one.silence else [one])]
    middle = (days_of * (days // len(days_of) + 1))[: days - calm - 1]
    return [Script(), *middle, *[Script(calm=True)] * calm]


SPECIALS = (
    Script(outage="ledger"),
    Script(outage="writes"),
    Script(caps="few"),
    Script(caps="cheap"),
    Script(accident="kill"),
    Script(accident="lost"),
    Script(mode="notify"),
    Script(outage="metrics"),
    Script(outage="mail"),
    Script(mode="apply"),
    Script(outage="permission"),
    Script(silence=True),
    Script(accident="kill", outage="mail"),
    Script(mode="audit"),
)
FEW, FEWER = ((1, 10), (8, 20), (18, 40), (21, 50)), ((1, 10), (8, 20), (18, 40))
"""When a day's sweeps are in the excerpt."""
EXCERPT = (
    Script(sweeps=FEWER),
    Script(sweeps=FEW, accident="kill"),
    Script(sweeps=FEWER, accident="lost", outage="mail"),
    Script(sweeps=FEWER[:2], mode="notify"),
    Script(sweeps=FEWER, mode="apply"),
    Script(sweeps=FEWER, calm=True),
    Script(sweeps=FEWER, calm=True),
)
"""A week with what has cost most, from a Monday on."""
BEGIN = datetime(2026, 10, 19, tzinfo=UTC)
"""A Monday, in the week before clocks are put back in Europe."""
