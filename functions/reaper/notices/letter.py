"""What one message to an owner is about: its headline and its subject, in which what happens and when is never cut off. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reaper.finding import Finding, Money, is_action, money_of
from reaper.model import NOTICES, Result, State, StepName
from reaper.notices import forecast
from reaper.notices.forecast import ActionForecast, NoticeContext
from reaper.notices.item import cost_sentence, has_cost, lasting_saving, rate_text, wasted_text
from reaper.notices.message import MAX_SUBJECT
from reaper.text import count_noun, tidy_line

MIN_NAME_LENGTH = 20
"""Characters to which a name in a subject may be cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """What one message is about. `idle`: what its idle resources cost, `wasted` already. `announced`: what isn't acted on, active ones too.

    `about_hours`: how many of these notices are about office hours as such. `coming`, `enrolled`, `today`: what it says will happen.
    """

    findings: Sequence[Finding]
    to_owner: bool
    context: NoticeContext
    idle: Money
    wasted: str
    announced: int
    acted: Sequence[Finding]
    about_hours: int
    coming: ActionForecast | None
    enrolled: ActionForecast | None
    today: ActionForecast | None

    @property
    def only_hours(self) -> bool:
        """Whether every notice is about office hours as such, so that the headline doesn't mention idleness."""
        return self.about_hours == len(self.findings)

    @property
    def done(self) -> list[Finding]:
        """What was done."""
        return [f for f in self.acted if f.outcome.result is Result.DONE]

    @property
    def unsure(self) -> list[Finding]:
        """What may have been done."""
        return [f for f in self.acted if f.outcome.result is Result.FAILED]


def letter_about(findings: Sequence[Finding], to_owner: bool, context: NoticeContext) -> Letter:
    """What a message about these findings says first."""
    notices = [f for f in findings if f.step.name in NOTICES]
    idle = [f for f in notices if f.case.verdict.state is State.IDLE]
    coming, enrolled, today = forecast.announcements(findings, context)
    return Letter(
        findings=findings,
        to_owner=to_owner,
        context=context,
        idle=money_of(idle),
        wasted=wasted_text(idle, context),
        announced=len(notices),
        acted=[f for f in findings if is_action(f)],
        about_hours=sum(f.announced is not None and f.announced.by_hours for f in findings),
        coming=coming,
        enrolled=enrolled,
        today=today,
    )


def subject_line(letter: Letter, part: tuple[int, int]) -> str:
    """The longest form that fits, marked as a reminder if it is one about something idle; with the name if there is only one, cut if need be."""
    findings, forms = letter.findings, _subject_forms(letter)
    idle = any(f.case.verdict.state is State.IDLE for f in findings) and not letter.only_hours
    reminder = "Reminder: " if idle and all(f.step.name is StepName.REMIND for f in findings) else ""
    name = tidy_line(findings[0].case.resource.name, 60, joiners=False) if len(findings) == 1 else ""
    number = f" ({part[0]} of {part[1]})" if part[1] > 1 else ""
    before = f"{'[Sample] ' if letter.context.sample else ''}{reminder}"
    for form in forms:
        room = MAX_SUBJECT - len(f"{before}{form}: {number}")
        if room >= min(len(name), MIN_NAME_LENGTH):
            short_name = f": {tidy_line(name, room, joiners=False)}" if name else ""
            return tidy_line(f"{before}{form}{short_name}{number}", MAX_SUBJECT, joiners=False)
    return f"{tidy_line(f'{before}{forms[-1]}', MAX_SUBJECT - len(number), joiners=False)}{number}"


def _subject_forms(letter: Letter) -> list[str]:
    """The subject, longest form first: what happens and when stays, count and cost give way."""
    full, short = (headline(letter, brief=brief) for brief in (False, True))
    if letter.context.sample:
        return [f"{full}; nothing will be stopped"]
    if not letter.idle.count or letter.only_hours:
        return [full, short]
    long_parts, short_parts = (_consequences(letter, brief=brief) for brief in (False, True))
    done, unsure, interrupted = letter.done, letter.unsure, _interrupted_phrase(letter.acted)
    also = [f"{len(done)} {'was' if len(done) == 1 else 'were'} {_participles(done)}{_saving_phrase(letter)}"] if done else []
    also += [interrupted] if interrupted else []
    also += [f"{len(unsure)} may have been {_participles(unsure)}, please check"] if unsure else []
    if long_parts:
        forms = ([full, *long_parts], [short, *long_parts], [short, *short_parts], short_parts)
        return ["; ".join([*parts, *also]) for parts in forms]
    ending = _no_action_phrase(letter)
    return ["; ".join([f"{head}{ending}", *also]) for head in (full, short)]


def headline(letter: Letter, *, brief: bool = False) -> str:
    """`3 idle ML resources cost $171 a day`, or what else the message is about; if `brief`, `3 idle, $171 a day`."""
    idle = letter.idle
    if letter.only_hours or not (idle.count or letter.acted):
        return hours_headline(letter, brief=brief)
    if not idle.count:
        actions = _actions_headline(letter, brief=brief)
        hours = hours_headline(letter, brief=brief) if letter.announced else ""
        if letter.today or letter.enrolled:  # what is new, or stops something in use, comes first
            return f"{hours}; {actions}"
        return f"{actions}; {hours[:1].lower()}{hours[1:]}" if hours else actions
    if brief:
        among = f" of {letter.announced}" if letter.announced > idle.count else ""
        return f"{idle.count}{among} idle, {rate_text(idle, letter.context)}"
    # What the message announces is among those its headline counts.
    whose = "" if letter.to_owner else " with no known owner"
    which = f"{count_noun(idle.count, 'idle ML resource')}{whose}"
    if letter.announced != idle.count:
        also = " and" if has_cost(idle) else ""
        verb = "is" if idle.count == 1 else "are"
        which = f"{idle.count} of {count_noun(letter.announced, 'ML resource')}{whose} {verb} idle{also}"
    return cost_sentence(which, idle, letter.context)


def _consequences(letter: Letter, *, brief: bool) -> list[str]:
    """What happens next and when: `1 will be scaled in from Tue 24 Nov`; if `brief`, `1 will be acted on from Tue 24 Nov`."""
    coming, enrolled, today = letter.coming, letter.enrolled, letter.today
    who = "it" if len(letter.findings) == 1 else "all" if coming and coming.count == len(letter.findings) else ""
    parts = [f"{who or coming.count} {coming.verbs(brief=brief)} {coming.day}"] if coming else []
    parts += [f"{enrolled.count} {enrolled.verbs(brief=brief)} outside office hours {enrolled.day}"] if enrolled else []
    return parts + ([f"{today.count} {today.verbs(brief=brief)} {today.today}, even while used"] if today else [])


def _no_action_phrase(letter: Letter) -> str:
    """That nothing happens automatically: ` until you stop it`; or that office hours apply."""
    if letter.about_hours:
        return f"; office hours apply to {letter.about_hours}"
    idle = letter.idle
    until = f"until you stop {'it' if idle.count == 1 else 'them'}" if letter.to_owner else "until stopped"
    runs = f"; {'it runs' if idle.count == 1 else 'they run'}" if idle.unpriced == idle.count else ""
    return f"{runs} {until}"


def _saving_phrase(letter: Letter) -> str:
    """`, saving $24.00 a day`; empty if what was done saves nothing, or the price is unknown."""
    saves = sum(map(lasting_saving, letter.done))
    return f", saving {letter.context.rate(saves)}" if saves else ""


def _interrupted_phrase(acted: Sequence[Finding]) -> str:
    """`1 action was interrupted, and nothing has changed`; empty if none was."""
    count = sum(f.outcome.result is Result.REFUSED for f in acted)
    return f"{count} action{' was' if count == 1 else 's were'} interrupted, and nothing has changed" if count else ""


def _participles(acted: Sequence[Finding]) -> str:
    """`deleted or scaled in`: what was done, or was begun."""
    named = {
        forecast.done_participle(f) if f.outcome.result is Result.DONE else forecast.participle(f, f.step.name) for f in acted
    }
    return " or ".join(sorted(named))


def hours_headline(letter: Letter, *, brief: bool = False) -> str:
    """What office hours lead to and when: a stop today, the first ones from a day on, or nothing new in a summary."""
    today, enrolled = letter.today, letter.enrolled
    if today:
        return f"{count_noun(today.count, 'ML resource')} {today.verbs(brief=brief)} {today.today}, even while used"
    summary = forecast.summary_name(f for f in letter.findings if f.step.name is StepName.REMIND)
    if enrolled:
        rest = f"; {summary} of {letter.announced - enrolled.count} more" if letter.announced > enrolled.count else ""
        return (
            f"{count_noun(enrolled.count, 'ML resource')} {enrolled.verbs(brief=brief)} outside office hours {enrolled.day}{rest}"
        )
    return f"{summary.capitalize()}: office hours apply to {count_noun(letter.announced, 'ML resource')}"


def _actions_headline(letter: Letter, *, brief: bool) -> str:
    """What was done, and when the rest follows; what is uncertain is not called done."""
    done, unsure = letter.done, letter.unsure
    verbs = forecast.ANY_PARTICIPLE if brief else _participles(done or unsure or letter.acted)
    interrupted = _interrupted_phrase(letter.acted)
    if not (done or unsure):
        return interrupted
    ending = f"; {interrupted}" if interrupted else ""
    if not done:
        return f"{count_noun(len(unsure), 'ML resource')} may have been {verbs}; please check{ending}"
    saved = "" if brief else _saving_phrase(letter)
    also = f"; {len(unsure)} more may have been" if unsure else ""
    rest, deleted = (forecast.following_actions(done, letter.context, rest=rest) for rest in (True, False))
    then = f"; the rest {rest.verbs(brief=brief)} {rest.day}" if rest else ""
    which = "it" if len(done) == 1 else "all" if deleted and deleted.count == len(done) else deleted.count if deleted else ""
    then += f"; {which} {deleted.verbs(brief=brief)} {deleted.day}" if deleted else ""
    return f"{count_noun(len(done), 'idle ML resource')} {'was' if len(done) == 1 else 'were'} {verbs}{saved}{then}{also}{ending}"
