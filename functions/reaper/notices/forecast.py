"""What happens next to a resource and when. Nothing is announced that the run mode or the evidence forbids. Pure.

In run mode `announce` an action only may follow, since a person carries it out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from operator import itemgetter
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from reaper import registry
from reaper.calendars import office_hours
from reaper.calendars.freezes import MOMENT, Freeze
from reaper.calendars.office_hours import Hours
from reaper.case import PARTICIPLES, grace_words, notice_length, plain_participle, wanted_actions
from reaper.finding import HOURS_A_MONTH, Announcement, Finding, follow_up, is_action
from reaper.model import Ceiling, Confidence, Mode, Result, Rule, StepName, is_native
from reaper.notices.message import Audience
from reaper.record import last_notice_at
from reaper.text import DOLLARS, Currency, format_clock, format_day, format_time, format_usd

if TYPE_CHECKING:
    from reaper.policy.schema import Owners
    from reaper.snooze.links import MailLinks

OpenVisit = Callable[[str, bool, str, Sequence[Finding]], "MailLinks | None"]
Dated = tuple[Finding, StepName, datetime]

ANY_PARTICIPLE = "acted on"
"""Any action, if a line has no room for which."""
UNLESS = "unless it is used or kept before then"
NAMED_INTERVALS = {timedelta(days=7): ("once a week", "weekly"), timedelta(days=1): ("once a day", "daily")}
STORED = "Its settings are saved first, so it can be recreated."
COSTS_ON = "It keeps costing money until you stop it."
DAYS_OFF_WITHIN = timedelta(days=28)
"""The next days off that are listed."""
MAX_SPANS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeContext:
    """What every message of one run shares. `open_visit` makes the links of one mail from its address, whether that is the
    owner's, the zone of its times and its findings; None if there are none.

    `hours_history`: by resource id, what office hours did since the owner's last mail. `location_settings`: the settings that a command
    for admins needs to find this deployment's ledger and manifests, by name. `report_address`: where the whole report is stored.
    `sample`: nothing in it is real. `has_room`: owners' messages go to a chat, too. `currency`: what its readers read money in. `audience`: owners read dollars a day and the times of their office hours, admins dollars a month.
    """

    now: datetime
    mode: Mode
    owners: Owners
    run_id: str = ""
    hours_history: Mapping[str, str] = field(default_factory=dict)
    location_settings: Mapping[str, str] = field(default_factory=dict)
    report_address: str = ""
    sample: bool = False
    currency: Currency = DOLLARS
    audience: Audience = Audience.OWNERS
    has_room: bool = False
    open_visit: OpenVisit = lambda address, is_owner, tz, findings: None

    def rate(self, usd_per_hour: float) -> str:
        """`$189 a day`: what its readers get all costs in."""
        hours, unit = (HOURS_A_MONTH, "a month") if self.audience is Audience.ADMINS else (24, "a day")
        return f"{format_usd(usd_per_hour * hours, currency=self.currency)} {unit}"

    def time_zone(self, finding: Finding) -> str:
        """The zone of its times: for its owner that of its office hours, else the policy's."""
        hours = finding.case.rule.hours if self.audience is Audience.OWNERS else None
        return hours.tz if hours else self.owners.tz


def participle(finding: Finding, action: StepName) -> str:
    """The action in the words of the resource's kind, to complete `it was …`: `stopped`, or for an endpoint `scaled in`."""
    kind = registry.find_kind(finding.case.resource.kind)
    actions = kind.actions if kind else {}
    is_own = action in actions and not is_native(finding.case.resource, action)
    return actions[action].participle if is_own else plain_participle(finding.case.resource, action)


def will_or_may(mode: Mode) -> str:
    """`will be`, or `may be` in a run mode that only announces, where a person decides."""
    return "will be" if mode.acts else "may be"


def done_participle(finding: Finding) -> str:
    """What was done: `scaled in`, or `partly deleted` if the rest is another action."""
    return f"{'partly ' if finding.outcome.part_done else ''}{participle(finding, finding.step.name)}"


def next_sentence(finding: Finding, context: NoticeContext) -> str:
    """One to three sentences for its owner. The grace runs from the notice of this idle period, so a first notice starts it now."""
    mode, now = context.mode, context.now
    if is_action(finding):
        return _done_sentences(finding, context)
    if finding.case.rule.hours and finding.announced and finding.announced.by_hours:
        return _hours_sentences(finding, finding.announced, finding.case.rule.hours, context)
    if finding.announced is None:
        return _no_action_sentence(finding, mode)
    action, when = finding.announced.action, finding.announced.at
    rule, zone = finding.case.rule, context.time_zone(finding)
    time = f"on or after {format_time(when, zone)}" if when > now or rule.waits_because else "at any time"
    is_grace = finding.step.name is StepName.WARN and notice_length(finding.case, action) == rule.grace
    leaves = f" That leaves {grace_words(rule)}." if rule.business_days and is_grace else ""
    stored = f" {STORED}" if action is StepName.DELETE else ""
    saves = finding.case.saves_usd_per_hour.get(action)
    saving = f" This saves {context.rate(saves)}." if saves else ""
    later = _later_sentences(finding, max(when, now), finding.announced.then_at, context) if finding.announced.then_at else ""
    frozen = _freeze_sentence(rule, now, when, zone)
    return f"It {will_or_may(mode)} {participle(finding, action)} {time} {UNLESS}.{leaves}{frozen}{stored}{saving}{later}"


def _later_sentences(finding: Finding, stopped_at: datetime, at: datetime, context: NoticeContext) -> str:
    """That `then` deletes it after that stop, and when at the earliest. The date itself is in the mail about the stop."""
    rule, zone = finding.case.rule, context.time_zone(finding)
    frozen = "" if rule.waits_because else _freeze_sentence(rule, stopped_at, at, zone)
    deleted = f"{will_or_may(context.mode)} {participle(finding, StepName.DELETE)}"
    return f" If it is still idle after that, it {deleted}, not before {format_time(at, zone)}.{frozen} {STORED}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionForecast:
    """The actions that a message announces: how many, how (`will be stopped or deleted`), and when the first one: `from Tue 24 Nov`, `on or after
    Tue 24 Nov 2026, 10:17 UTC`, `today from 20:30 UTC`. `brief` replaces a `how` that doesn't fit: `will be acted on`.
    """

    count: int
    how: str
    brief: str
    day: str
    time: str
    today: str

    def verbs(self, *, brief: bool) -> str:
        """`will be stopped or deleted`, or `will be acted on`."""
        return self.brief if brief else self.how


def announcements(findings: Sequence[Finding], context: NoticeContext) -> tuple[ActionForecast | None, ...]:
    """What is announced at the top: actions on what is idle, office hours that begin to apply, stops of today even while used.

    None for what doesn't happen. A date in the past becomes now.
    """
    said = [(f, f.announced) for f in findings if f.announced and not is_action(f)]
    by_hours = [(f, each) for f, each in said if each.by_hours]
    coming = [(f, each.action, each.at) for f, each in said if not each.by_hours]
    enrolled = [(f, each.action, each.at) for f, each in by_hours if f.step.name is StepName.WARN]
    today = [(f, each.action, each.forced_at) for f, each in by_hours if f.step.name is not StepName.WARN and each.forced_at]
    return _forecast_of(coming, context), _forecast_of(enrolled, context), _forecast_of(today, context)


def following_actions(findings: Sequence[Finding], context: NoticeContext, *, rest: bool) -> ActionForecast | None:
    """What follows the actions that were made, with its first date: the `rest` of parts, or else deletes by `then`. None if nothing follows."""
    known = ((f, follow_up(f)) for f in findings if (f.outcome.part_done is not None) is rest)
    return _forecast_of([(f, *following) for f, following in known if following], context)


def _forecast_of(due: Sequence[Dated], context: NoticeContext) -> ActionForecast | None:
    if not due:
        return None
    first, _, when = min(due, key=itemgetter(2))
    verbs, will = {participle(f, action) for f, action, _ in due}, will_or_may(context.mode)
    is_past, when, zone = (
        when <= context.now and not first.case.rule.waits_because,
        max(context.now, when),
        context.time_zone(first),
    )
    return ActionForecast(
        count=len(due),
        how=f"{will} {' or '.join(sorted(verbs, reverse=True))}",
        brief=f"{will} {ANY_PARTICIPLE}",
        day="at any time" if is_past else f"from {format_day(when, zone)}",
        time="at any time" if is_past else f"on or after {format_time(when, zone)}",
        today=f"today from {format_clock(when, zone)}",
    )


def _done_sentences(finding: Finding, context: NoticeContext) -> str:
    """What was done, or may have been, and when the rest follows if this run may announce that."""
    outcome, action = finding.outcome, finding.step.name
    if outcome.result is Result.REFUSED:
        return f"It wasn't {participle(finding, action)}. {_capitalized(outcome.because or 'the action was interrupted')}."
    if outcome.result is not Result.DONE:
        why = _capitalized(outcome.error or outcome.because or "it isn't known whether the action was carried out")
        return f"It may have been {participle(finding, action)}. {why}. Please check it."
    done = f"{_capitalized(outcome.because or f'it was {participle(finding, action)}')}."
    part = f" Already done: {outcome.part_done}." if outcome.part_done is not None else ""
    if (following := follow_up(finding)) is None:
        return f"{done}{part}"
    (action, at), zone = following, context.time_zone(finding)
    frozen = _freeze_sentence(finding.case.rule, context.now, at, zone)
    comes = f"{will_or_may(context.mode)} {participle(finding, action)} on or after {format_time(at, zone)} {UNLESS}.{frozen}"
    return f"{done}{part} The rest {comes}" if part else f"{done} What is left still costs money. It {comes} {STORED}"


def summary_name(findings: Iterable[Finding]) -> str:
    """The name of a summary of office hours: `weekly summary`, `14-day summary`; just `summary` if their rules differ."""
    lengths = {f.case.rule.remind_every for f in findings}
    return f"{_interval_words(lengths.pop())[1]} summary" if len(lengths) == 1 else "summary"


def _interval_words(length: timedelta) -> tuple[str, str]:
    """`every 14 days` and `14-day`: in the largest unit that divides it."""
    units = {"day": timedelta(days=1), "hour": timedelta(hours=1), "minute": timedelta(minutes=1)}
    count, unit = next((length // unit, name) for name, unit in units.items() if not length % unit or name == "minute")
    return NAMED_INTERVALS.get(length, (f"every {count} {unit}s", f"{count}-{unit}"))


def _hours_sentences(finding: Finding, said: Announcement, hours: Hours, context: NoticeContext) -> str:
    mode, now, begins = context.mode, context.now, said.at
    week = context.hours_history.get(finding.case.resource.id, "")
    text, become = office_hours.hours_text(hours), f"{will_or_may(mode)} {participle(finding, StepName.STOP)}"
    where = f"{hours.tz}, except on days off in {' and '.join(hours.calendars)}" if hours.calendars else hours.tz
    named = f"{text} ({where})"
    also = _freeze_sentence(finding.case.rule, now, max(begins, now + DAYS_OFF_WITHIN), hours.tz) + _days_off_sentence(hours, now)
    if finding.step.name is StepName.WARN:
        even = ", even while it is in use" if hours.force else " if it is idle then"
        restart = " It is started when they begin." if StepName.START in finding.case.blocked else ""
        return f"From {format_time(begins, hours.tz)} on, it {become} outside its office hours ({text}, {where}){even}.{restart}{also} After this you get a summary {_interval_words(finding.case.rule.remind_every)[0]}."
    if said.forced_at:
        at = format_time(said.forced_at, hours.tz)
        return f"Its office hours, {named}, have ended. It {become} on or after {at}, even if it is in use."
    last = last_notice_at(finding.notice) or now
    # The summary is the last mail of its day, and so has to say what a notice of the same day says.
    stops = f"{'is' if mode.acts else 'can be'} {participle(finding, StepName.STOP)}"
    even = f" Outside them it {stops}, even while it is in use." if hours.force and StepName.START in finding.case.blocked else ""
    return f"Its office hours, {named}, apply.{even} Since {format_time(last, hours.tz)} {week or 'it was neither stopped nor started'}.{also}"


def _capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]


def _no_action_sentence(finding: Finding, mode: Mode) -> str:
    rule, wont = finding.case.rule, "it won't be stopped automatically"
    if mode.announces and rule.action.rank >= Ceiling.STOP.rank:
        if finding.case.verdict.confidence is Confidence.LIKELY and rule.act_on is not Confidence.LIKELY:
            return f"The evidence is indirect, so {wont}. {COSTS_ON}"
        action = wanted_actions(finding.case)[0]
        blocked = finding.case.blocked.get(action)
        if blocked and blocked.already_done and is_native(finding.case.resource, action):
            return f"{_capitalized(blocked.because)}. {COSTS_ON}"
        if blocked:
            return f"It can't be {PARTICIPLES[action]} automatically because {blocked.because}. {COSTS_ON}"
    return f"{_capitalized(wont)}. {COSTS_ON}"


def _freeze_sentence(rule: Rule, now: datetime, until: datetime, tz: str) -> str:
    """` Nothing is stopped from Sat 19 Dec to Sun 3 Jan (year-end).` for the freezes between these times; empty if there are none."""
    if rule.waits_because:
        return f" Nothing is stopped or deleted while {rule.waits_because.partition(': ')[0]}."
    spans = [_freeze_span(freeze, tz) for freeze in rule.freezes if freeze.start <= until and now < freeze.end]
    return f" Nothing is stopped or deleted {', '.join(spans[:MAX_SPANS])}." if spans else ""


def _days_off_sentence(hours: Hours, now: datetime) -> str:
    """` Next days off: Fri 25 Dec, Fri 1 Jan.`: those that would otherwise be open, in the next weeks; empty if there are none."""
    today = now.astimezone(ZoneInfo(hours.tz)).date()
    days = sorted(day for day in hours.days_off if today <= day <= today + DAYS_OFF_WITHIN and day.weekday() in hours.days)
    return f" Next days off: {', '.join(f'{day:%a} {day.day} {day:%b}' for day in days[:MAX_SPANS])}." if days else ""


def _freeze_span(freeze: Freeze, tz: str) -> str:
    """`from Sat 19 Dec to Sun 3 Jan (year-end)`, with times unless these are whole days in that zone."""
    ends = [moment.astimezone(ZoneInfo(tz)).time() for moment in (freeze.start, freeze.end)]
    if ends == [time(), time()]:
        return f"from {format_day(freeze.start, tz)} to {format_day(freeze.end - MOMENT, tz)} ({freeze.calendar})"
    return f"from {format_time(freeze.start, tz)} until {format_time(freeze.end, tz)} ({freeze.calendar})"
