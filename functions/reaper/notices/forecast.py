"""What happens next to a resource and when, said so that it is true: nothing that the run mode or the evidence forbids is announced. Pure.

In run mode `announce` an action only may come, since a person carries it out. Times are in the zone of the resource's office hours, else UTC.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from reaper import enrolment, idle_period, plan, registry
from reaper.model import Action, Confidence, Finding, Hours, Memory, Mode, Move, Result
from reaper.policy import office_hours
from reaper.text import UTC, clock, day, moment, money

DONE = frozenset({Move.STOP, Move.DELETE, Move.START})
PLAIN = {Move.STOP: "stopped", Move.DELETE: "deleted", Move.START: "started again"}
ANY = "acted on"
"""Any of these, where there is no room for which."""
UNLESS = "unless it is used or kept before then"
NAMED = {timedelta(days=7): ("once a week", "weekly"), timedelta(days=1): ("once a day", "daily")}
COSTS_ON = "It keeps costing money until you stop it."


def verb(found: Finding, move: Move) -> str:
    """What is said to be done to a resource of its kind: `stopped`, or for an endpoint `scaled in`. It completes `it was …`."""
    kind = found.case.resource.kind
    deeds = registry.kind(kind).deeds if kind in registry.names() else {}
    return deeds[move].verb if move in deeds else PLAIN.get(move, move.value)


def zone(found: Finding) -> str:
    """The zone that its times are told in: that of its office hours, else UTC."""
    return found.case.rule.hours.tz if found.case.rule.hours else UTC


def will(mode: Mode) -> str:
    """`will be`, or `may be` in a run mode that only announces: there a person decides whether it is carried out."""
    return "will be" if mode.acts else "may be"


def done(found: Finding) -> str:
    """What was done to it, as far as that goes: `scaled in`, or `partly deleted` where the rest is an action of its own."""
    return f"{'partly ' if found.outcome.part else ''}{verb(found, found.step.move)}"


def saved(found: Finding) -> float:
    """The dollars an hour that its action saves. Of a delete that left the resource itself running, nothing yet."""
    if found.outcome.result is not Result.DONE or (found.outcome.part and found.step.move is Move.DELETE):
        return 0.0
    return found.case.saves.get(found.step.move, 0.0)


def following(found: Finding, mode: Mode, memory: Memory, now: datetime, week: str = "") -> str:
    """One to three sentences for its owner. The grace runs from the notice of this idle spell, so a first notice starts it at `now`.

    `week`: what its office hours did since its owner was last told, in a weekly summary.
    """
    if found.step.move in DONE:
        return _done(found, mode, now)
    if found.case.rule.hours and enrols(found, mode, memory, now):
        return _by_hours(found, found.case.rule.hours, (mode, memory), now, week)
    when = act_at(found, mode, memory, now)
    if when is None:
        return _why_nothing(found, mode)
    move = plan.act(found.case, now) or Move.STOP
    time = f"on or after {moment(when, zone(found))}" if when > now else "at any time"
    stored = " Its settings are saved first, so it can be recreated." if move is Move.DELETE else ""
    saves = found.case.saves.get(move)
    saving = f" This saves {money(saves * 24)} a day." if saves else ""
    return f"It {will(mode)} {verb(found, move)} {time} {UNLESS}.{stored}{saving}"


def act_at(found: Finding, mode: Mode, memory: Memory, now: datetime) -> datetime | None:
    """The earliest moment at which the policy lets it be acted on; None when it never does by itself."""
    if not mode.announces or found.step.move in DONE or plan.act(found.case, now) is None:
        return None
    if found.step.move is not Move.WARN and memory.warned_at:
        return max(memory.promised or plan.promise(found.case, memory.warned_at), now)
    return plan.promise(found.case, now)


def enrols(found: Finding, mode: Mode, memory: Memory, now: datetime) -> bool:
    """Whether the notice is about its office hours as such: an enrolment, or a weekly summary."""
    if not mode.announces or not enrolment.asked(found.case):
        return False
    if found.step.move is Move.WARN:
        return plan.act(found.case, now) is not None
    return found.step.move is Move.REMIND and enrolment.since(found.case, memory, now) is not None


def stops_in_use(found: Finding, mode: Mode, memory: Memory, now: datetime) -> datetime | None:
    """When it is stopped even while it is used, where the notice is that of the same day: its office hours are over. Else None."""
    if found.step.move is not Move.REMIND or not enrols(found, mode, memory, now):
        return None
    return plan.forced_at(found.case, memory, now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Coming:
    """Of all in a message, how many are meant, how (`will be stopped or deleted`), when the first of them and in which zone that is told.

    `past`: at any time. `brief` stands for `how` where that has no room: `will be acted on`.
    """

    count: int
    how: str
    brief: str
    first: datetime
    tz: str = UTC
    past: bool = False

    @property
    def day(self) -> str:
        """`from Tue 24 Nov`, or `at any time`."""
        return "at any time" if self.past else f"from {day(self.first, self.tz)}"

    @property
    def time(self) -> str:
        """`on or after Tue 24 Nov 2026, 10:17 UTC`, or `at any time`."""
        return "at any time" if self.past else f"on or after {moment(self.first, self.tz)}"

    @property
    def today(self) -> str:
        """`today from 20:30 UTC`."""
        return f"today from {clock(self.first, self.tz)}"


def coming(found: Sequence[Finding], mode: Mode, memories: Mapping[str, Memory], now: datetime) -> Coming | None:
    """What the top of a message announces; None when nothing happens by itself. A date in the past is given as `now`."""
    known = [(f, memories.get(f.case.resource.id, Memory())) for f in found]
    dates = [(f, when) for f, memory in known if not enrols(f, mode, memory, now) and (when := act_at(f, mode, memory, now))]
    verbs = {verb(f, plan.act(f.case, now) or Move.STOP) for f, _ in dates}
    return _first(dates, verbs, mode, now)


def enrolling(found: Sequence[Finding], mode: Mode, memories: Mapping[str, Memory], now: datetime) -> Coming | None:
    """Those that a first notice about office hours is for, with the first date from which these are kept; None where there is none."""
    new = [f for f in found if f.step.move is Move.WARN and enrols(f, mode, memories.get(f.case.resource.id, Memory()), now)]
    return _first([(f, plan.promise(f.case, now)) for f in new], {verb(f, Move.STOP) for f in new}, mode, now)


def in_use(found: Sequence[Finding], mode: Mode, memories: Mapping[str, Memory], now: datetime) -> Coming | None:
    """Those that are stopped today even while used; None where there is none."""
    dates = [(f, at) for f in found if (at := stops_in_use(f, mode, memories.get(f.case.resource.id, Memory()), now))]
    return _first(dates, {verb(f, Move.STOP) for f, _ in dates}, mode, now)


def rest(found: Sequence[Finding], mode: Mode, now: datetime) -> Coming | None:
    """What is left of actions that were made in part, with the first date on which that comes; None where this run announces nothing of it."""
    parts = [f for f in found if f.outcome.result is Result.DONE and f.outcome.part and mode.announces and plan.leads_on(f.case)]
    return _first([(f, plan.promise(f.case, now)) for f in parts], {verb(f, f.step.move) for f in parts}, mode, now)


def _first(dates: Sequence[tuple[Finding, datetime]], verbs: Iterable[str], mode: Mode, now: datetime) -> Coming | None:
    if not dates:
        return None
    first, when = min(dates, key=lambda pair: pair[1])
    how = f"{will(mode)} {' or '.join(sorted(verbs, reverse=True))}"
    return Coming(count=len(dates), how=how, brief=f"{will(mode)} {ANY}", first=max(now, when), tz=zone(first), past=when <= now)


def _done(found: Finding, mode: Mode, now: datetime) -> str:
    """What was done, or may have been, and when the rest of it comes where this run may announce that."""
    outcome, move = found.outcome, found.step.move
    if outcome.result is not Result.DONE:
        why = _sentence(outcome.error or outcome.because or "it isn't known whether it was made")
        return f"It may have been {verb(found, move)}. {why}. Please check it."
    said = f"{_sentence(outcome.because or f'it was {verb(found, move)}')}."
    if outcome.part is None:
        return said
    if not (mode.announces and plan.leads_on(found.case)):
        return f"{said} Done so far: {outcome.part}."
    when = moment(plan.promise(found.case, now), zone(found))
    return f"{said} Done so far: {outcome.part}. The rest {will(mode)} {verb(found, move)} on or after {when} {UNLESS}."


def every(found: Finding) -> str:
    """How often its owner gets a summary of its office hours: `once a week`, `every 14 days`."""
    length = found.case.rule.remind_every
    count, unit = _counted(length)
    return NAMED[length][0] if length in NAMED else f"every {count} {unit}s"


def summary(found: Iterable[Finding]) -> str:
    """What a summary of office hours is called: `weekly summary`, `14-day summary`; just `summary` where their rules have it differ."""
    lengths = {f.case.rule.remind_every for f in found}
    if len(lengths) != 1:
        return "summary"
    [length] = lengths
    count, unit = _counted(length)
    return f"{NAMED[length][1] if length in NAMED else f'{count}-{unit}'} summary"


def _counted(length: timedelta) -> tuple[int, str]:
    """`14` and `day`, in the largest unit of which it is a whole number."""
    units = {"day": timedelta(days=1), "hour": timedelta(hours=1), "minute": timedelta(minutes=1)}
    return next((length // one, name) for name, one in units.items() if not length % one or name == "minute")


def _by_hours(found: Finding, hours: Hours, told: tuple[Mode, Memory], now: datetime, week: str) -> str:
    """About its office hours as such: `told` is the run mode and what is remembered of it."""
    mode, memory = told
    named, become = f"{office_hours.written(hours)} ({hours.tz})", f"{will(mode)} {verb(found, Move.STOP)}"
    if found.step.move is Move.WARN:
        when = moment(plan.promise(found.case, now), hours.tz)
        even = ", even while it is used" if hours.force else ", whenever it is idle then"
        restart = " It is started again when they begin." if Move.START in found.case.acts else ""
        return f"From {when} on it {become} outside its office hours, {named}{even}.{restart} After this you get a summary {every(found)}."
    if then := plan.forced_at(found.case, memory, now):
        at = moment(then, hours.tz)
        return f"Its office hours, {named}, are over. It {become} on or after {at}, even while it is used."
    last = idle_period.last_notice(memory) or now
    # The summary is the last mail of its day, and so has to say what a notice of the same day says.
    stops = f"{'is' if mode.acts else 'can be'} {verb(found, Move.STOP)}"
    even = f" Whenever they are over it {stops}, even while it is used." if hours.force and Move.START in found.case.acts else ""
    return f"Its office hours, {named}, are kept.{even} Since {moment(last, hours.tz)} {week or 'it was neither stopped nor started'}."


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _why_nothing(found: Finding, mode: Mode) -> str:
    if not mode.announces or found.case.rule.action.rank < Action.STOP.rank:
        return f"It won't be stopped automatically. {COSTS_ON}"
    if found.case.verdict.confidence is Confidence.LIKELY and found.case.rule.act_on is not Confidence.LIKELY:
        return f"The evidence is indirect, so it won't be stopped automatically. {COSTS_ON}"
    bar = found.case.acts.get(Move.DELETE if found.case.rule.action is Action.DELETE else Move.STOP)
    if bar:
        return f"It can't be stopped automatically because {bar.because}. {COSTS_ON}"
    return f"It won't be stopped automatically. {COSTS_ON}"
