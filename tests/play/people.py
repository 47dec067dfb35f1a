"""What people do in a play: they work, come back to what was stopped, tag, snooze and meddle, also in the middle of a sweep."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlencode, urlsplit

from play import terms
from play.halves import Half
from play.scripts import Script
from play.terms import DAY, HOUR, MINUTE
from play.thing import Thing
from reaper.snooze import handler
from reaper.snooze.pages import Request

if TYPE_CHECKING:
    from play.season import Season

METRICS = r"cloudwatch:GetMetricData|.*[Mm]etrics.*"
LOOKS = r"sagemaker:ListTags|Microsoft\.MachineLearningServices/.*read"
"""What is asked of a resource right before it is acted on; for Azure also what a sweep lists."""
TAGS: Sequence[dict[str, str | None]] = (
    {"reaper_keep": "true"},
    {"reaper_keep": None, "reaper_keep__until": None, "reaper_action": None},
    {"reaper_keep": None, "reaper_keep__until": None, "reaper_action": None},
    {"reaper_keep__until": "{soon}"},
    {"reaper_keep__until": "{hours}"},
    {"reaper_action": "notify"},
    {"owner": "fay@example.com"},
    {"owner": "gil@example.com"},
    {"reaper_kep": "true"},
    {"reaper_kep": None},
    {"team": "vision"},
)
"""What people put on resources, or take off."""
NOTICES_AFTER = 20 * MINUTE
"""When a person sees at the earliest that a deployment is half done: a change of the first quarter of an hour may be the product's own."""


def click(play: Season, thing: Thing, link: str, days: int) -> None:
    """A person opens the link in a mail and sends its form."""
    result = play.shell(link, str(days), program="click")
    play.say(f"click for {thing.name}, {days} days: {result.status} {result.stdout}{result.stderr[-300:]}")
    if result.status == 0:
        play.oracle.snoozes[thing.name].append((play.clock.now, play.clock.now + days * DAY - HOUR))


def between(play: Season, since: datetime, until: datetime, script: Script) -> None:
    """What people do in between, before their resources' metrics are published."""
    for thing in play.things:
        if thing.sleeps and not thing.level() and thing.wants(since, until) and not script.calm:
            _comes_back(play, thing, since)
    if script.calm:
        return
    for half in list(play.oracle.halves.open.values()):
        _half_way(play, half)
    for thing, date in announced(play, since, until + HOUR):
        _last_minute(play, thing, date, since, until)
    if play.dice.random() < 0.25:
        _meddle(play, play.dice.choice(play.things))


def _comes_back(play: Season, thing: Thing, now: datetime) -> None:
    """A person wants to work and finds it stopped."""
    if thing.terms.hours and terms.is_open(now + 2 * HOUR):
        return
    choice = play.dice.random()
    if choice < 0.4:
        play.say(f"{thing.name} is started by hand")
        start(play, thing)
    elif choice < 0.7 and thing.name in play.before_act:
        play.say(f"{thing.name} is restored by its owner")
        play.restore(thing)


def start(play: Season, thing: Thing) -> None:
    """A person starts it, or scales it out."""
    thing.started_by_hand(play.clock.now)
    play.before_act.pop(thing.name, None)
    play.oracle.undone(thing.name)


def by_hand(play: Season, script: Script) -> None:
    """On working days a person works late on what was stopped for the night, and stops in the morning what is always started."""
    now = play.clock.now
    closed, opened = terms.closed_since(now), terms.opened_at(now)
    for thing in (t for t in play.things if t.terms.hours and not script.calm):
        if closed and now.hour >= 21 and terms.is_open(closed - MINUTE) and now - closed < 6 * HOUR and not thing.level():
            if play.dice.random() < 0.3:
                play.counts["started by hand in the evening"] += 1
                play.say(f"{thing.name} is started by hand in the evening")
                start(play, thing)
        elif opened and thing.terms.all and thing.level() and now.hour < 11 and play.dice.random() < 0.4:
            play.counts["stopped by hand in the morning"] += 1
            play.say(f"{thing.name} is stopped by hand in the morning")
            thing.stopped_by_hand(now)


def _half_way(play: Season, half: Half) -> None:
    """A person notices that something odd was done to a resource, and changes it."""
    thing, now, choice = next(t for t in play.things if t.name == half.name), play.clock.now, play.dice.random()
    if half.theirs is not None or half.touched or choice > 0.4 or not thing.exists():
        return
    if choice < 0.25:
        theirs = {key: 100 if key == "traffic" else value + 1 for key, value in half.before.items()}
        play.say(f"{thing.name}: a person sets {theirs}")
        thing.set_sides(theirs, now)
        play.oracle.halves.by_person(thing.name, theirs)
        play.drifted.add(thing.name)
    else:
        play.say(f"{thing.name}: a person scales it, half done as it is")
        thing.started_by_hand(now if thing.cloud == "aws" else max(now, half.at + NOTICES_AFTER))
        play.oracle.halves.by_person(thing.name, None)


def tidy(play: Season, script: Script) -> None:
    """Most of what protects something is taken off again the next day."""
    for thing in play.things:
        tags = thing.truth.tags_at(play.clock.now)
        if any(key.startswith("reaper:") for key in tags) and play.dice.random() < 0.6 and not script.calm:
            tag(play, thing, {key.replace("-", "__").replace(":", "_"): None for key in tags if key.startswith("reaper:")})


def announced(play: Season, since: datetime, until: datetime) -> Iterator[tuple[Thing, datetime]]:
    """What mails announce for that stretch."""
    newest = {n.name: n for m in play.oracle.mails for n in m.notices if not n.is_done}
    for thing in play.things:
        notice = newest.get(thing.name)
        if notice and notice.date and since < notice.date <= until and thing.level() > thing.least():
            yield thing, notice.date


def _last_minute(play: Season, thing: Thing, date: datetime, since: datetime, until: datetime) -> None:
    """Minutes before the announced stop something happens to it."""
    choice, when = play.dice.random(), max(since, min(date, until) - play.dice.randint(9, 25) * MINUTE)
    if choice < 0.2 and (not thing.guests or any(guest.exists() for guest in thing.guests)):  # a host is used where they are
        play.say(f"{thing.name} is used at {when:%H:%M}, shortly before {date:%H:%M}")
        thing.use(when, when + 6 * MINUTE)
        play.counts["used just before its date"] += 1
    elif choice < 0.3:
        tag(play, thing, play.dice.choice(TAGS))
    elif choice < 0.4:
        links = [n.link for m in play.oracle.mails for n in m.notices if n.name == thing.name and n.link]
        if links:
            click(play, thing, links[-1], play.dice.choice((1, 3)))


def _meddle(play: Season, thing: Thing) -> None:
    """A person does something at no special moment."""
    choice = play.dice.random()
    if choice < 0.3:
        tag(play, thing, play.dice.choice(TAGS))
    elif choice < 0.6 and thing.name in play.before_act:
        play.say(f"{thing.name} is restored, and left alone")
        play.restore(thing)
    elif choice < 0.7 and thing.exists() and thing.level() > thing.least():
        play.say(f"{thing.name} is stopped by hand")
        thing.stopped_by_hand(play.clock.now)
        play.drifted.add(thing.name)
    elif choice < 0.9 and thing.exists() and thing.level() <= thing.least():
        play.say(f"{thing.name} is started by hand, and left alone")
        start(play, thing)


def tag(play: Season, thing: Thing, tags: dict[str, str | None]) -> None:
    if not thing.exists():
        return
    until = f"{play.clock.now + HOUR:%Y-%m-%dT%H:%M:%S+00:00}"  # over before the next sweep, mostly
    made = {key: value and value.format(soon=f"{play.clock.now + 2 * DAY:%Y-%m-%d}", hours=until) for key, value in tags.items()}
    play.say(f"{thing.name} is tagged {made}")
    thing.retag(play.clock.now, **made)
    if thing.name in play.before_act:
        play.drifted.add(thing.name)


def interrupt(play: Season) -> None:
    """A person protects what is about to be stopped: by a tag once it has been judged, or by a link once it has been looked at again."""
    now = play.clock.now
    due = list(announced(play, now - 3 * DAY, now))
    for thing, _ in play.dice.sample(due, min(2, len(due))):
        if play.dice.random() < 0.6:
            link = next((n.link for m in reversed(play.oracle.mails) for n in m.notices if n.name == thing.name and n.link), None)
            if link and play.dice.random() < 0.5:
                play.wire.meanwhile.append((LOOKS, re.escape(thing.name), partial(_snooze_now, play, thing, link)))
            else:
                play.wire.meanwhile.append((METRICS, "", partial(_tag_now, play, thing)))


def _tag_now(play: Season, thing: Thing) -> None:
    play.counts["tagged in the middle of a sweep"] += 1
    tag(play, thing, {"reaper_keep": "true"})


def _snooze_now(play: Season, thing: Thing, link: str) -> None:
    """The page is served by this process, because a command is running in the shell."""
    keys = dict(play.shell.environ)
    play.counts["snoozed in the middle of a sweep"] += 1
    parts = urlsplit(link)
    form = urlencode(parse_qs(parts.query) | {"days": 1, "reason": "just in time"}, doseq=True).encode()
    door = handler.open_handler(keys)
    reply = door.handle(Request(method="POST", path=parts.path, body=form), play.clock.now)
    play.say(f"{thing.name} is snoozed in the middle of the sweep: {reply.status}")
    if reply.status == 200:
        play.oracle.snoozes[thing.name].append((play.clock.now, play.clock.now + DAY - HOUR))
