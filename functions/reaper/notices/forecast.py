"""What happens next to a resource and when. Nothing is announced that the run mode or the evidence forbids. Pure.

In run mode `announce` an action only may follow, since a person carries it out. Times are in the zone of the resource's office hours, else UTC.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from reaper import idle_period, registry
from reaper.case import Finding
from reaper.model import ACTIONS, Ceiling, Confidence, Hours, Memory, Mode, Result, StepName
from reaper.planning import dates, possible_actions, reasons
from reaper.policy import office_hours
from reaper.text import UTC, format_clock, format_day, format_time, format_usd

ANY_PARTICIPLE = "acted on"
"""Any action, if a line has no room for which."""
UNLESS = "unless it is used or kept before then"
NAMED_INTERVALS = {timedelta(days=7): ("once a week", "weekly"), timedelta(days=1): ("once a day", "daily")}
COSTS_ON = "It keeps costing money until you stop it."


def participle(finding: Finding, action: StepName) -> str:
    """The action in the words of the resource's kind, to complete `it was …`: `stopped`, or for an endpoint `scaled in`."""
    kind = finding.case.resource.kind
    actions = registry.kind(kind).actions if kind in registry.kind_names() else {}
    return actions[action].participle if action in actions else reasons.PARTICIPLES.get(action, action.value)


def time_zone_of(finding: Finding) -> str:
    """The zone of its times: that of its office hours, else UTC."""
    return finding.case.rule.hours.tz if finding.case.rule.hours else UTC


def will_or_may(mode: Mode) -> str:
    """`will be`, or `may be` in a run mode that only announces, where a person decides."""
    return "will be" if mode.acts else "may be"


def done_participle(finding: Finding) -> str:
    """What was done: `scaled in`, or `partly deleted` if the rest is another action."""
    return f"{'partly ' if finding.outcome.part_done else ''}{participle(finding, finding.step.name)}"


def saved_usd_per_hour(finding: Finding) -> float:
    """The dollars an hour that its action saves; nothing yet for a delete that left the resource itself running."""
    if finding.outcome.result is not Result.DONE or (finding.outcome.part_done and finding.step.name is StepName.DELETE):
        return 0.0
    return finding.case.saves_usd_per_hour.get(finding.step.name, 0.0)


def next_sentence(finding: Finding, mode: Mode, memory: Memory, now: datetime, week: str = "") -> str:
    """One to three sentences for its owner. The grace runs from the notice of this idle period, so a first notice starts it at `now`.

    `week`: what its office hours did since the owner's last mail, for a weekly summary.
    """
    if finding.step.name in ACTIONS:
        return _done_sentences(finding, mode, now)
    if finding.case.rule.hours and is_about_hours(finding, mode, memory, now):
        return _hours_sentences(finding, finding.case.rule.hours, (mode, memory), now, week)
    when = action_at(finding, mode, memory, now)
    if when is None:
        return _no_action_sentence(finding, mode)
    action = possible_actions.strongest_action(finding.case, now) or StepName.STOP
    time = f"on or after {format_time(when, time_zone_of(finding))}" if when > now else "at any time"
    stored = " Its settings are saved first, so it can be recreated." if action is StepName.DELETE else ""
    saves = finding.case.saves_usd_per_hour.get(action)
    saving = f" This saves {format_usd(saves * 24)} a day." if saves else ""
    return f"It {will_or_may(mode)} {participle(finding, action)} {time} {UNLESS}.{stored}{saving}"


def action_at(finding: Finding, mode: Mode, memory: Memory, now: datetime) -> datetime | None:
    """The earliest time at which the policy allows an action; None if it never does automatically."""
    if not mode.announces or finding.step.name in ACTIONS or possible_actions.strongest_action(finding.case, now) is None:
        return None
    if finding.step.name is not StepName.WARN and memory.warned_at:
        return max(memory.act_not_before or dates.earliest_action_at(finding.case, memory.warned_at), now)
    return dates.earliest_action_at(finding.case, now)


def is_about_hours(finding: Finding, mode: Mode, memory: Memory, now: datetime) -> bool:
    """Whether the notice is about its office hours as such: an enrolment, or a weekly summary."""
    if not mode.announces or not possible_actions.is_stopped_by_hours(finding.case):
        return False
    if finding.step.name is StepName.WARN:
        return possible_actions.strongest_action(finding.case, now) is not None
    return finding.step.name is StepName.REMIND and dates.enrolled_since(finding.case, memory, now) is not None


def stops_in_use_at(finding: Finding, mode: Mode, memory: Memory, now: datetime) -> datetime | None:
    """When it is stopped even while it is used, for a notice of the same day whose office hours are over; else None."""
    if finding.step.name is not StepName.REMIND or not is_about_hours(finding, mode, memory, now):
        return None
    return dates.forced_stop_at(finding.case, memory, now)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionForecast:
    """The actions that a message announces: how many, how (`will be stopped or deleted`), when the first one, and the zone of that time.

    `past`: at any time. `brief` replaces a `how` that doesn't fit: `will be acted on`.
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
        return "at any time" if self.past else f"from {format_day(self.first, self.tz)}"

    @property
    def time(self) -> str:
        """`on or after Tue 24 Nov 2026, 10:17 UTC`, or `at any time`."""
        return "at any time" if self.past else f"on or after {format_time(self.first, self.tz)}"

    @property
    def today(self) -> str:
        """`today from 20:30 UTC`."""
        return f"today from {format_clock(self.first, self.tz)}"


def next_actions(findings: Sequence[Finding], mode: Mode, memories: Mapping[str, Memory], now: datetime) -> ActionForecast | None:
    """What the top of a message announces; None if nothing happens automatically. A date in the past becomes `now`."""
    remembered = [(f, memories.get(f.case.resource.id, Memory())) for f in findings]
    dates = [
        (f, when)
        for f, memory in remembered
        if not is_about_hours(f, mode, memory, now) and (when := action_at(f, mode, memory, now))
    ]
    verbs = {participle(f, possible_actions.strongest_action(f.case, now) or StepName.STOP) for f, _ in dates}
    return _forecast_of(dates, verbs, mode, now)


def next_enrolments(
    findings: Sequence[Finding], mode: Mode, memories: Mapping[str, Memory], now: datetime
) -> ActionForecast | None:
    """Those with a first notice about office hours, and the first date from which they are kept; None if there are none."""
    new = [
        f
        for f in findings
        if f.step.name is StepName.WARN and is_about_hours(f, mode, memories.get(f.case.resource.id, Memory()), now)
    ]
    return _forecast_of(
        [(f, dates.earliest_action_at(f.case, now)) for f in new], {participle(f, StepName.STOP) for f in new}, mode, now
    )


def stops_today(findings: Sequence[Finding], mode: Mode, memories: Mapping[str, Memory], now: datetime) -> ActionForecast | None:
    """Those that are stopped today even while used; None if there are none."""
    dates = [(f, at) for f in findings if (at := stops_in_use_at(f, mode, memories.get(f.case.resource.id, Memory()), now))]
    return _forecast_of(dates, {participle(f, StepName.STOP) for f, _ in dates}, mode, now)


def remaining_actions(findings: Sequence[Finding], mode: Mode, now: datetime) -> ActionForecast | None:
    """The rest of actions that were made in part, with its first date; None if this run announces none of it."""
    parts = [
        f
        for f in findings
        if f.outcome.result is Result.DONE and f.outcome.part_done and mode.announces and possible_actions.may_keep_hours(f.case)
    ]
    return _forecast_of(
        [(f, dates.earliest_action_at(f.case, now)) for f in parts], {participle(f, f.step.name) for f in parts}, mode, now
    )


def _forecast_of(
    dates: Sequence[tuple[Finding, datetime]], verbs: Iterable[str], mode: Mode, now: datetime
) -> ActionForecast | None:
    if not dates:
        return None
    first, when = min(dates, key=lambda pair: pair[1])
    how = f"{will_or_may(mode)} {' or '.join(sorted(verbs, reverse=True))}"
    return ActionForecast(
        count=len(dates),
        how=how,
        brief=f"{will_or_may(mode)} {ANY_PARTICIPLE}",
        first=max(now, when),
        tz=time_zone_of(first),
        past=when <= now,
    )


def _done_sentences(finding: Finding, mode: Mode, now: datetime) -> str:
    """What was done, or may have been, and when the rest follows if this run may announce that."""
    outcome, action = finding.outcome, finding.step.name
    if outcome.result is Result.REFUSED:
        return f"It wasn't {participle(finding, action)}. {_capitalized(outcome.because or 'the action was interrupted')}."
    if outcome.result is not Result.DONE:
        why = _capitalized(outcome.error or outcome.because or "it isn't known whether the action was carried out")
        return f"It may have been {participle(finding, action)}. {why}. Please check it."
    done = f"{_capitalized(outcome.because or f'it was {participle(finding, action)}')}."
    if outcome.part_done is None:
        return done
    if not (mode.announces and possible_actions.may_keep_hours(finding.case)):
        return f"{done} Already done: {outcome.part_done}."
    when = format_time(dates.earliest_action_at(finding.case, now), time_zone_of(finding))
    return f"{done} Already done: {outcome.part_done}. The rest {will_or_may(mode)} {participle(finding, action)} on or after {when} {UNLESS}."


def summary_interval(finding: Finding) -> str:
    """How often its owner gets a summary of its office hours: `once a week`, `every 14 days`."""
    length = finding.case.rule.remind_every
    count, unit = _counted_unit(length)
    return NAMED_INTERVALS[length][0] if length in NAMED_INTERVALS else f"every {count} {unit}s"


def summary_name(findings: Iterable[Finding]) -> str:
    """The name of a summary of office hours: `weekly summary`, `14-day summary`; just `summary` if their rules differ."""
    lengths = {f.case.rule.remind_every for f in findings}
    if len(lengths) != 1:
        return "summary"
    [length] = lengths
    count, unit = _counted_unit(length)
    return f"{NAMED_INTERVALS[length][1] if length in NAMED_INTERVALS else f'{count}-{unit}'} summary"


def _counted_unit(length: timedelta) -> tuple[int, str]:
    """`14` and `day`: the count in the largest unit that divides it."""
    units = {"day": timedelta(days=1), "hour": timedelta(hours=1), "minute": timedelta(minutes=1)}
    return next((length // unit, name) for name, unit in units.items() if not length % unit or name == "minute")


def _hours_sentences(finding: Finding, hours: Hours, known: tuple[Mode, Memory], now: datetime, week: str) -> str:
    """About its office hours as such. `known`: the run mode and what the ledger has."""
    mode, memory = known
    text, become = office_hours.hours_text(hours), f"{will_or_may(mode)} {participle(finding, StepName.STOP)}"
    named = f"{text} ({hours.tz})"
    if finding.step.name is StepName.WARN:
        when = format_time(dates.earliest_action_at(finding.case, now), hours.tz)
        even = ", even while it is in use" if hours.force else " if it is idle then"
        restart = " It is started when they begin." if StepName.START in finding.case.blocked else ""
        return f"From {when} on, it {become} outside its office hours ({text}, {hours.tz}){even}.{restart} After this you get a summary {summary_interval(finding)}."
    if then := dates.forced_stop_at(finding.case, memory, now):
        at = format_time(then, hours.tz)
        return f"Its office hours, {named}, have ended. It {become} on or after {at}, even if it is in use."
    last = idle_period.last_notice_at(memory) or now
    # The summary is the last mail of its day, and so has to say what a notice of the same day says.
    stops = f"{'is' if mode.acts else 'can be'} {participle(finding, StepName.STOP)}"
    even = f" Outside them it {stops}, even while it is in use." if hours.force and StepName.START in finding.case.blocked else ""
    return f"Its office hours, {named}, apply.{even} Since {format_time(last, hours.tz)} {week or 'it was neither stopped nor started'}."


def _capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]


def _no_action_sentence(finding: Finding, mode: Mode) -> str:
    if not mode.announces or finding.case.rule.action.rank < Ceiling.STOP.rank:
        return f"It won't be stopped automatically. {COSTS_ON}"
    if finding.case.verdict.confidence is Confidence.LIKELY and finding.case.rule.act_on is not Confidence.LIKELY:
        return f"The evidence is indirect, so it won't be stopped automatically. {COSTS_ON}"
    blocked = finding.case.blocked.get(StepName.DELETE if finding.case.rule.action is Ceiling.DELETE else StepName.STOP)
    if blocked:
        return f"It can't be stopped automatically because {blocked.because}. {COSTS_ON}"
    return f"It won't be stopped automatically. {COSTS_ON}"
