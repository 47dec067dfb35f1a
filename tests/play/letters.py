"""What must be true of every mail to an owner: it goes to the right person, and not too soon after the last one that said the same."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from play import terms
from play.post import Mail, Notice
from play.scene import SEEN, Scene, is_of, time_text
from play.terms import HOUR, MINUTE
from play.thing import Thing

if TYPE_CHECKING:
    from play.oracle import Oracle

JITTER = HOUR
"""How much early a reminder may be."""
FORCED_STOP = re.compile(r"have ended\..* even if it is in use|Outside them it .* even while it is in use")
"""How a mail says that office hours that are over stop something in use: a notice of the day, or a summary."""


def check(oracle: Oracle, mail: Mail) -> Iterator[str]:
    """What is wrong about one mail to an owner: to the wrong person, or too soon after the last one that said the same."""
    for notice in mail.notices:
        thing = oracle.things.get(notice.name)
        if thing is None:
            yield f"a mail to {mail.to} names {notice.name}, which is no resource"
            continue
        if mail.to not in {oracle.owner(thing, mail.at), oracle.owner(thing, mail.at - 5 * MINUTE)}:
            yield f"a mail about {notice.name} went to {mail.to}, but it belongs to {oracle.owner(thing, mail.at)}"
        enrols = thing.terms.hours and _announcing(oracle, mail)  # else they get notices of idle periods, as for everything
        again = _done_again if notice.is_done else _enrolled_again if enrols else _too_soon
        yield from again(oracle, thing, mail, notice)


def check_cards(scene: Scene) -> Iterator[str]:
    """A room tells no one anything: an owner's card is there only beside a mail that was accepted."""
    mailed = {mail.subject for mail in scene.mails}
    for subject in scene.cards:
        if subject not in mailed and not subject.startswith("[ML Idle Reaper]"):
            yield f"the room got {subject!r}, of which no mail was accepted"


def _done_again(oracle: Oracle, thing: Thing, mail: Mail, notice: Notice) -> Iterator[str]:
    """Each action is reported once; of those of office hours only where something went wrong."""
    if thing.terms.hours and "known" not in notice.text and "begun" not in notice.text:
        yield f"{mail.to} was told that {thing.name} was stopped by its hours, which belongs into the weekly summary"
    last = _last(oracle, thing, mail, is_done=True)
    if last is None or _broken(oracle, last):
        return
    begun = [c.when for s in oracle.scenes for c in s.changes if is_of(c, thing.name) and c.when > last.at]
    cut = [s for s in oracle.scenes if s.number > last.command and s.out_of_order & {"kill", "lost"}]
    if not begun and not cut:
        yield f"{mail.to} was told again of what was done to {thing.name}: {last.subject!r}, then {mail.subject!r}"


def _last(oracle: Oracle, thing: Thing, mail: Mail, *, is_done: bool) -> Mail | None:
    """The last mail before this one to the same person about the same thing."""
    return next(
        (
            m
            for m in reversed(oracle.mails)
            if m.at < mail.at and m.to == mail.to and any(n.name == thing.name and n.is_done is is_done for n in m.notices)
        ),
        None,
    )


def _broken(oracle: Oracle, mail: Mail) -> bool:
    """Whether the command that sent it ended, or lost its ledger, between the mail and its being remembered, so that it is sent again."""
    return any(s.number == mail.command and s.out_of_order & {"kill", "ledger", "writes", "lost mail"} for s in oracle.scenes)


def _announcing(oracle: Oracle, mail: Mail) -> bool:
    """Whether the run that sent it keeps office hours: neither mode notify nor the canary, outside which everything is as in that mode."""
    return not any(s.number == mail.command and (s.mode == "notify" or s.began in oracle.left_out) for s in oracle.scenes)


def _enrolled_again(oracle: Oracle, thing: Thing, mail: Mail, notice: Notice) -> Iterator[str]:
    """One enrolment, then a summary every so often, and one notice a day before something busy is stopped."""
    last = _last(oracle, thing, mail, is_done=False)
    if last is None or mail.at - last.at >= terms.REMIND - JITTER or _broken(oracle, last):
        return
    notice_before = next(n for n in last.notices if n.name == thing.name)
    if notice_before.announces is None and not _announcing(oracle, last):
        return
    forced = thing.terms.force and FORCED_STOP.search(notice.text)
    night = terms.closed_since(mail.at)
    if forced and not (FORCED_STOP.search(notice_before.text) and night and night == terms.closed_since(last.at)):
        return
    if any(last.at < at <= mail.at for at, tags in thing.truth.tags) or oracle.protected(thing, last.at):
        return
    if any(last.at < end for end in oracle.taken_away(thing, mail.at)):
        return
    yield (
        f"{mail.to} was told again of the office hours of {thing.name} after {mail.at - last.at}: {last.subject!r} announced "
        f"{notice_before.announces} for {time_text(notice_before.date)}, then {mail.subject!r} {notice.announces} for {time_text(notice.date)}"
    )


def _too_soon(oracle: Oracle, thing: Thing, mail: Mail, notice: Notice) -> Iterator[str]:
    """One notice in an idle period, then a reminder every so often."""
    last = _last(oracle, thing, mail, is_done=False)
    if last is None or mail.at - last.at >= terms.REMIND - JITTER or _broken(oracle, last):
        return
    notice_before = next(n for n in last.notices if n.name == thing.name)
    if notice_before.announces is None and notice.announces is not None:
        return
    if notice_before.date is None and notice.date is not None:  # the end of a jump brings a date
        return
    near = [
        thing,
        *thing.guests,
        *([thing.inside] if thing.inside else []),
    ]  # its host's tags are its own, its guests' changes too
    new = [
        thing.truth.used(last.at - SEEN, mail.at),
        any(last.at < t <= mail.at for one in near for t in [*one.truth.touched, *oracle.raised[one.name]]),
        any(last.at < t <= mail.at for one in near for t in _spoken(oracle, one)),
        any(last.at <= until <= mail.at for one in near for _, until in oracle.snoozes[one.name]),
        any(a.name in {one.name for one in near} and last.command <= a.scene and a.when <= mail.at for a in oracle.acts),
        any(last.at < end for end in oracle.taken_away(thing, mail.at)),  # so the announced action needs a new mail
        oracle.jumped(thing, last.at, mail.at),  # what was announced before a jump has lapsed by its end
        # What an earlier run may have made, and nobody knows, uses its notice up.
        any(n.name == thing.name and n.is_done for m in oracle.mails if m.command > last.command for n in m.notices),
    ]
    if not any(new):
        yield (
            f"{mail.to} was told again of {notice.name} after {mail.at - last.at}, with nothing new: {last.subject!r} announced "
            f"{notice_before.announces} for {time_text(notice_before.date)}, then {mail.subject!r} {notice.announces} for {time_text(notice.date)}"
        )


def _spoken(oracle: Oracle, thing: Thing) -> Iterator[datetime]:
    """When its tags began or ceased to say something: all but what no rule asks for."""
    before: dict[str, str] = {}
    for at, tags in thing.truth.tags:
        now = {key: value for key, value in tags.items() if key not in {"team"}}
        if now != before:
            yield at
        before = now
