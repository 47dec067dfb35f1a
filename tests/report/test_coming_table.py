"""The coming actions of a whole report: by date, blocked ones by reason, and their totals before limits."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from fakes.builders import DAY, NOW
from fakes.judged_cases import case
from fakes.mails import compose_summary
from fakes.sample_findings import occasion
from fakes.sample_reports import report
from reaper.finding import Finding, Step
from reaper.model import Mode, NextAction, StepName
from reaper.report import html
from reaper.report.summary import ON_HOLD, coming_actions, coming_sentence
from reaper.text import format_usd

ONLY_ONE = "it already runs no more than one instance per variant"


def coming(
    at: timedelta | None, saves: float | None = 1.0, because: str | None = None, step: StepName = StepName.NONE
) -> Finding:
    finding = Finding(case=case(), step=Step(name=step, because="nothing is due"))
    when = NOW + at if at is not None else None
    return replace(finding, next=NextAction(step=StepName.STOP, at=when, saves_usd_per_hour=saves, blocked_because=because))


def hourly(usd: float) -> str:
    return f"{format_usd(usd)} an hour"


def test_actions_come_by_date_and_of_one_date_the_largest_saving_first():
    both = coming_actions([coming(2 * DAY), coming(DAY, 1.0), coming(DAY, 7.0), coming(DAY, None)])
    assert [(each.at - NOW, each.saves_usd_per_hour) for each in both.dated] == [
        (DAY, 7.0),
        (DAY, 1.0),
        (DAY, None),
        (2 * DAY, 1.0),
    ]
    assert (both.saves_usd_per_hour, both.unpriced) == (9.0, 1)


def test_a_blocked_action_is_in_no_total_and_joins_those_blocked_alike():
    could = NextAction(step=StepName.DELETE, at=NOW + DAY, saves_usd_per_hour=7.09, blocked_because=None)
    alike = [
        replace(coming(None, because=f"{ONLY_ONE}; delete would save $7.09 an hour"), could=could),
        replace(
            coming(None, because=f"{ONLY_ONE}; delete would save $7.10 an hour"), could=replace(could, saves_usd_per_hour=7.10)
        ),
        replace(coming(None, because=f"{ONLY_ONE}; delete would save EUR 6.52 an hour"), could=None),
    ]
    table = coming_actions(alike)
    assert (table.dated, table.saves_usd_per_hour) == ((), 0)
    [group] = table.blocked
    assert (group.because, len(group.findings)) == (f"{ONLY_ONE}; delete is possible", 3)
    assert round(group.could_usd_per_hour, 2) == 14.19


def test_what_is_on_hold_counts_before_limits_and_says_so():
    held = coming(timedelta(0), 2.0, because="on hold, because 4 actions exceed max_acts: 3", step=StepName.HOLD)
    table = coming_actions([held, coming(DAY)])
    assert [(each.at, each.because) for each in table.dated] == [(NOW, ON_HOLD), (NOW + DAY, None)]
    assert table.saves_usd_per_hour == 3.0


def test_five_thousand_actions_show_twenty_and_count_the_rest():
    of = report(tuple(coming(DAY, 0.5) for _ in range(5000)))
    page, mail = html.render(of), compose_summary(of, occasion())
    assert page.count('<td class="short">') == mail.text.count("saves $365 a month") == 20
    assert "4,980 more come later" in page
    assert "and 4980 more later" in mail.text
    assert "If enforced from today: 5,000 actions by Sun 22 Nov, saving $1,825,000 a month" in mail.text


def test_the_sentence_says_when_it_is_not_enforced():
    table = coming_actions([coming(2 * DAY, 60.0), coming(DAY, 1.2), coming(DAY, None)])
    assert coming_sentence(table, Mode.ENFORCE, hourly) == "3 actions by Mon 23 Nov, saving $61.20 an hour (unknown for 1)"
    assert coming_sentence(table, Mode.AUDIT, hourly).startswith("If enforced from today: 3 actions by")
    assert coming_sentence(coming_actions([]), Mode.AUDIT, hourly) == "No action is coming"
