"""What must be true whenever something is acted on, worked out from the truth of the fake cloud and from the mails that were accepted.

Nothing here asks the product what it thinks: office hours, protection, grace and silence are worked out once more, in the plainest way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta

from fakes.builders import DAY, HOUR, NOW
from fakes.fake_cloud import FakeResource
from fakes.fake_deployment import policy
from reaper.model import Mode, StepName
from reaper.notices.message import Audience, Message
from reaper.policy.schema import Policy

RANK = {"ignore": 0, "notify": 1, "stop": 2, "delete": 3}
GRACES = {"1h": HOUR, "1d": DAY, "3d": 3 * DAY, "7d": 7 * DAY}
SILENCES = {"4h": 4 * HOUR, "24h": DAY}
TICK = timedelta(minutes=20)
"""The most that time goes on within one sweep, after it looked."""
FALLBACK = "ml-admins@example.com"
NEXT = re.compile(r"^\d+\. (\S+)\n(?:   .*\n)*?   (?:Next|Done): (.*)", re.MULTILINE)
"""What a mail says about each thing in it."""
BRIEF = re.compile(r"^- (\S+) \([^)]*\): .*?\. ((?:It|From|Its office hours,|Nothing|The evidence) .*)$", re.MULTILINE)
"""What it says about the cheapest ones, where there are many."""
WHEN = r"(?:on or after \w{3} (\d+ \w{3} \d{4}, \d\d:\d\d) UTC|at any time)"
SORTS = {
    "hours": re.compile(r"^From \w{3} (\d+ \w{3} \d{4}, \d\d:\d\d) UTC on, it (?:will|may) be (scaled|stopped)"),
    "today": re.compile(rf"^Its office hours, .*, have ended\. It (?:will|may) be (?:scaled in|stopped) {WHEN}"),
    "week": re.compile(r"^Its office hours, .*, apply\.()"),
    "rest": re.compile(rf"The rest (?:will|may) be (?:scaled in|stopped|deleted) {WHEN}"),
    "deleted": re.compile(rf"^It (?:will|may) be deleted.*? {WHEN}"),
    "stopped": re.compile(rf"^It (?:will|may) be (?:scaled in|stopped).*? {WHEN}"),
}
"""By what it announces: how it is said, and when."""
CLOSE = re.compile(r"07:00-(\d\d):00")
LAPSE = 14 * DAY
TEXT = """
version: 1
defaults: {{action: {action}, idle_after: {idle_after}, grace: {grace}, remind_every: 7d}}
limits: {{max_acts: {acts}, max_share: {share}%, {usd}max_jump: {jump}%}}
accept: [{{match: {{name: "*-1"}}, until: {until}, reason: a demo, by: Lee}}]
owners: {{domains: [example.com], fallback: ml-admins@example.com}}
{only}rules:
  - {{name: production, match: {{name: "prod-*"}}, action: ignore}}
  - {{name: guesses will do, match: {{name: "likely-*"}}, act_on: likely}}
  - {{name: dustbin, match: {{name: "waste-*"}}, action: delete}}
  - name: office
    match: {{name: "office-*"}}
    action: stop
    hours: {{on: "{hours}", tz: UTC, start: ours}}
  - name: strict office
    match: {{name: "strict-*"}}
    action: stop
    hours: {{on: "{hours}", tz: UTC, start: all, force: true}}
"""


@dataclass(frozen=True, kw_only=True)
class Knobs:
    """What the policy's authors turn."""

    action: str = "stop"
    idle_after: str = "24h"
    grace: str = "3d"
    acts: int = 20
    share: int = 100
    usd: float | None = 1000
    jump: int = 100
    close: int = 21
    canary: bool = False
    accepted: int = -99

    @property
    def accepted_until(self) -> datetime:
        """When the acceptance of whatever is the first of its sort ends, as a day of a policy's file says it."""
        return datetime.combine(NOW.date() + (self.accepted + 1) * DAY, time(), UTC)

    def policy(self) -> Policy:
        usd = "" if self.usd is None else f"max_usd_per_hour: {self.usd}, "
        only = "enforce_only: {tags: {team: null}}\n" if self.canary else ""
        text = TEXT.format(
            **{**self.__dict__, "usd": usd, "only": only, "hours": f"mon-fri 07:00-{self.close}:00"},
            until=(self.accepted_until - DAY).date(),
        )
        if text not in _PARSED:
            _PARSED[text] = policy(text)
        return _PARSED[text]


_PARSED: dict[str, Policy] = {}


@dataclass(frozen=True, kw_only=True)
class Told:
    """A mail about one thing: when it was accepted, what it announced (a key of SORTS, or nothing) for when, the grace in force then, and the
    end of the office hours that it named.
    """

    name: str
    when: datetime
    sort: str
    date: datetime
    grace: timedelta
    to: str
    close: int


@dataclass(kw_only=True)
class Oracle:
    """What really happened. `notices`: what every mail announced. `acts`: (action, name, when, run). `snoozes`: by name, (given, until), the
    newest last. `lowered`: what the reaper's calls have left half done, since when. `called`: when its calls last changed what. `ahead`: how rows are
    dated that a fast clock wrote. `known`: those that were given when the permit for the last call was requested. `garbled`: the names whose ledger records
    can't be read. `taken`: when a run last saw that nothing may be done with it.
    """

    knobs: Knobs = field(default_factory=Knobs)
    mode: Mode = Mode.ENFORCE
    notices: list[Told] = field(default_factory=list)
    acts: list[tuple[StepName, str, datetime, str]] = field(default_factory=list)
    snoozes: dict[str, list[tuple[datetime, datetime]]] = field(default_factory=dict)
    known: dict[str, list[tuple[datetime, datetime]]] = field(default_factory=dict)
    lowered: dict[str, datetime] = field(default_factory=dict)
    called: dict[str, datetime] = field(default_factory=dict)
    ahead: dict[str, datetime] = field(default_factory=dict)
    garbled: set[str] = field(default_factory=set)
    taken: dict[str, datetime] = field(default_factory=dict)

    def hear(self, message: Message, addresses: Mapping[str, set[str]], now: datetime) -> Iterator[str]:
        """Notes what a mail announces. Yields what is wrong with it. `addresses`: by name, where mails about a thing may go."""
        if message.audience is not Audience.OWNERS:
            return
        for name, sentence in [*NEXT.findall(message.text), *BRIEF.findall(message.text)]:
            sort, date = _announced(sentence, now)
            if sort and self.mode not in {Mode.ENFORCE, Mode.ANNOUNCE}:
                yield f"{name}: {sentence!r} in mode {self.mode}"
            if self.is_ahead(name, now) and not _past(sentence):
                yield f"{name}: {sentence!r}, and its row is dated ahead"
            if message.to not in addresses.get(name, set()) and not _past(sentence):
                yield f"{name}: told to {message.to}"
            if sort or not _past(sentence):
                grace, close = GRACES[self.knobs.grace], CLOSE.search(sentence)
                self.notices.append(
                    Told(
                        name=name, when=now, sort=sort, date=date, grace=grace, to=message.to, close=int(close[1]) if close else 0
                    )
                )

    def wrong(self, thing: FakeResource, move: StepName, now: datetime) -> Iterator[str]:
        """Everything that forbids this action now."""
        if self.mode is not Mode.ENFORCE:
            yield f"acted in mode {self.mode}"
        if {thing.name, thing.host} & self.garbled:
            yield "what is remembered of it cannot be read"
        if self.is_ahead(thing.name, now):
            yield "its row is dated ahead"
        yield from _protected(thing, self.knobs, move, now)
        if any(name == thing.name and now - when < HOUR for m, name, when, _ in self.acts if m is move):
            yield f"{move} twice within the hour"
        if move is StepName.START:
            yield from self._unasked(thing, now)
            return
        yield from self.active_snoozes(thing, now)
        busy = [*_busy(thing, self.knobs, now), *self._young(thing, now)]
        forced = _strict(thing.name) and _shut(now, _close(thing, self.knobs)) and not self.snoozed(thing.host, now)
        if forced:
            yield from [] if busy else _unknown(thing, self.knobs, now)
        else:
            yield from [*busy, *_unknown(thing, self.knobs, now)]
        if (_office(thing.name) or _tagged(thing)) and not _shut(now, _close(thing, self.knobs)):
            yield "inside its office hours"
        if not self.right(thing, move, now):
            why = [(t.when.isoformat(), t.sort, *self._void(t, thing, move, now)) for t in self.notices if t.name == thing.name]
            yield f"no notice: {why}"
        if forced and busy and not self._same_day(thing, now):
            yield "busy, and not told on the same day"

    def is_ahead(self, name: str, now: datetime) -> bool:
        """Whether its row is dated so far ahead that one of the clocks is wrong, and not so far that this means nothing."""
        return timedelta(minutes=10) < self.ahead.get(name, now) - now <= 7 * DAY

    def _young(self, thing: FakeResource, now: datetime) -> Iterator[str]:
        """Whether the reaper itself changed it too short a time ago."""
        called = self.called.get(thing.name)
        if called and now - called < _silence(thing, self.knobs, now) and called >= thing.created:
            yield f"changed by the reaper {now - called} ago"

    def active_snoozes(self, thing: FakeResource, now: datetime) -> Iterator[str]:
        """Which snooze keeps it: its own, or that of its host."""
        for name in (thing.name, thing.host):
            if self.snoozed(name, now):
                yield f"{name} is kept by a snooze"

    def snoozed(self, name: str, now: datetime) -> bool:
        """Whether a snooze holds that was given before the permit was requested."""
        return any(begin <= now < until for begin, until in self.known.get(name, []))

    def right(self, thing: FakeResource, move: StepName, now: datetime) -> list[Told]:
        """The mails that give the right to this action: of idleness, or under a rule's office hours the enrolment."""
        mine = [notice for notice in self.notices if notice.name == thing.name]
        if not mine or not mine[-1].sort:
            return []
        return [notice for notice in mine if not [*self._void(notice, thing, move, now)]]

    def _void(self, notice: Told, thing: FakeResource, move: StepName, now: datetime) -> Iterator[str]:
        """Why that mail gives no right to this action."""
        wanted = (
            {"hours"}
            if _office(thing.name)
            else {"deleted", "rest"}
            if move is StepName.DELETE
            else {"deleted", "stopped", "rest"}
        )
        if notice.sort not in wanted:
            yield f"announced {notice.sort} only"
        if now - notice.when < notice.grace:
            yield f"the grace of {notice.grace} is not over"
        if now < notice.date:
            yield f"it said {notice.date}"
        last = max(t.when for t in self.notices if t.name == notice.name)
        if now > max(last, notice.date) + LAPSE:
            yield f"so long ago that it lapsed, the last letter was of {last}"
        if notice.to != address(thing):
            yield f"told to {notice.to}, who is no longer its owner"
        both = [
            *self.known.get(thing.name, []),
            *(self.known.get(thing.host, [])),
        ]  # what came after the leave nobody could know of
        if any(until > notice.when for begin, until in both if begin < now):
            yield "answered by a snooze"
        ends = [self.knobs.accepted_until] if thing.name.endswith("-1") else []
        ends += [until] if (until := _kept_until(thing)) else []
        if any(notice.when < end <= now for end in ends) or self.taken.get(thing.name, notice.when) > notice.when:
            yield "taken away since"
        if thing.created > notice.when:
            yield "made anew since"
        if _office(thing.name):
            if notice.close != _close(thing, self.knobs):
                yield "about other hours"
            return
        after = notice.sort == "rest"
        if any(name == thing.name and (when > notice.when if after else when >= notice.when) for _, name, when, _ in self.acts):
            yield "used up by an act"
        if any(notice.when < use <= now for use in thing.uses):
            yield "used since"
        if thing.changed and thing.changed > notice.when:
            yield "changed since"
        if not thing.without_heartbeat and any(start < now - 2 * TICK and end > notice.when for start, end in thing.metric_gaps):
            yield "without proof since"

    def sees(self, thing: FakeResource, now: datetime) -> None:
        """A run that writes looks at a thing: what protects it, or what the policy allows, may use up its notice."""
        known = self.is_ahead(thing.name, now) or thing.name in self.garbled or thing.tags is None
        why = [] if known else [*_protected(thing, self.knobs, StepName.STOP, now)]
        mild = ("not in enforce_only", "stop is more than")
        if any(self.mode is not Mode.NOTIFY or not each.startswith(mild) for each in why):
            self.taken[thing.name] = now

    def _same_day(self, thing: FakeResource, now: datetime) -> bool:
        """Whether its owner was notified of its hours today, an hour ago or a whole grace."""
        days = {now.date(), (now - TICK).date()}
        mine = [
            t for t in self.notices if t.name == thing.name and t.sort in {"hours", "today", "week"} and t.to == address(thing)
        ]
        return any(t.when.date() in days and now - t.when >= min(t.grace, HOUR) for t in mine)

    def _unasked(self, thing: FakeResource, now: datetime) -> Iterator[str]:
        """Why it must not be started."""
        if not (_office(thing.name) or _tagged(thing)) or not (
            _open(now, _close(thing, self.knobs)) or _open(now - TICK, _close(thing, self.knobs))
        ):
            yield "started outside of office hours"
        if thing.running_since:
            yield "started although it runs"
        last = [(move, when) for move, name, when, _ in self.acts if name == thing.name][-1:]
        ours = last and last[0][0] is StepName.STOP and (thing.changed is None or thing.changed <= last[0][1] + HOUR)
        if not _strict(thing.name) and not ours:
            yield "started although somebody else had stopped it"
        opened = now.replace(hour=7, minute=0, second=0, microsecond=0)
        if not ours and thing.changed and opened <= thing.changed:
            yield "started although it was changed after today's opening"


def _announced(sentence: str, now: datetime) -> tuple[str, datetime]:
    """What a sentence announces and for when; for nothing, and now, where it announces nothing."""
    for sort, pattern in SORTS.items():
        if match := pattern.search(sentence):
            date = match.group(1)
            return sort, datetime.strptime(date, "%d %b %Y, %H:%M").replace(tzinfo=UTC) if date else now
    return "", now


def _past(sentence: str) -> bool:
    """Whether a sentence is about what was done, or may have been, and nothing that comes."""
    return not sentence.startswith(("It will", "From ", "Its office hours", "Nothing is done", "The evidence"))


def address(thing: FakeResource) -> str:
    """The addresses that mails about it go to."""
    owner = (thing.tags or {}).get("reaper:owner", "")
    return owner if owner.endswith("@example.com") else FALLBACK


def ceiling(name: str, knobs: Knobs) -> str:
    """The most that the policy's file lets be done."""
    return {"prod": "ignore", "waste": "delete", "office": "stop", "strict": "stop"}.get(name.split("-")[0], knobs.action)


def _kept_until(thing: FakeResource) -> datetime | None:
    """The end that its tag names; None for none that can be read."""
    try:
        until = datetime.fromisoformat((thing.tags or {}).get("reaper:keep-until", ""))
    except ValueError:
        return None
    return until if until.tzinfo else until.replace(tzinfo=UTC) + DAY + 12 * HOUR


def _protected(thing: FakeResource, knobs: Knobs, move: StepName, now: datetime) -> Iterator[str]:
    if thing.tags is None:
        yield "its tags cannot be read"
        return
    if knobs.canary and "team" in thing.tags:
        yield "not in enforce_only"
    if thing.name.endswith("-1") and now < knobs.accepted_until:
        yield "accepted"
    most = RANK[ceiling(thing.name, knobs)]
    for key, value in thing.tags.items():
        if key == "reaper:action":
            most = min(most, RANK.get(value, 0))
        elif key == "reaper:keep-until":
            until = _kept_until(thing)
            if until is None or now < until:
                yield f"kept until {value}"
        elif key not in {"reaper:owner", "reaper:idle-after", "reaper:hours", "team"}:
            yield f"protected by {key}"
    if most < RANK[StepName.STOP if move is StepName.START else move]:
        yield f"{move} is more than policy and tags allow"


def _busy(thing: FakeResource, knobs: Knobs, now: datetime) -> list[str]:
    close, least, changed = _close(thing, knobs), _silence(thing, knobs, now), thing.changed
    if _office(thing.name) and not _open(now, close) and changed and not _open(changed, close) and now - changed < 4 * HOUR:
        same_night = not any(_open(changed + n * HOUR / 4, close) for n in range(16) if changed + n * HOUR / 4 <= now)
        if same_night and not _strict(thing.name):
            return ["started by hand out of hours"]
    return [
        *[f"used {now - use} ago" for use in thing.uses if now - least < use <= now],
        *[f"made or changed {now - when} ago" for when in (thing.created, changed) if when and now - when < least],
        *([f"its status is {thing.status}"] if thing.status != "InService" else []),
    ]


def _unknown(thing: FakeResource, knobs: Knobs, now: datetime) -> Iterator[str]:
    if thing.running_since is None:
        yield "it is stopped already"
    if thing.incomplete_replies:
        yield "its metrics are incomplete"
    if thing.without_heartbeat and not thing.name.startswith(
        ("likely", "strict")
    ):  # what is stopped even while used needs no proof of silence
        yield "the evidence is indirect"
    least = _silence(thing, knobs, now)
    if not thing.without_heartbeat and any(start < now - 2 * TICK and end > now - least for start, end in thing.metric_gaps):
        yield "its heartbeat was not there all the time"


def _silence(thing: FakeResource, knobs: Knobs, now: datetime) -> timedelta:
    """How long it must have been silent."""
    least, wish = SILENCES[knobs.idle_after], SILENCES.get((thing.tags or {}).get("reaper:idle-after", ""))
    if wish and wish <= least:
        return wish
    return min(least, HOUR / 2) if _office(thing.name) and _shut(now, _close(thing, knobs)) else least


def _office(name: str) -> bool:
    return name.startswith(("office", "strict"))


def _strict(name: str) -> bool:
    return name.startswith("strict")


def _tagged(thing: FakeResource) -> bool:
    """Whether a tag sets its office hours."""
    return "reaper:hours" in (thing.tags or {})


def _close(thing: FakeResource, knobs: Knobs) -> int:
    """The hour at which its office hours end: its tag's, or its rule's."""
    return 21 if _tagged(thing) else knobs.close


def _shut(now: datetime, close: int) -> bool:
    """Whether office hours are over, or were when the sweep looked."""
    return not (_open(now, close) and _open(now - TICK, close))


def _open(at: datetime, close: int) -> bool:
    return at.weekday() < 5 and 7 <= at.hour < close
