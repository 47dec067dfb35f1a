"""A policy's `calendars`: what they must say, what errors suggest, and what `policy check` warns about."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import jsonschema
import pytest

from reaper.calendars.calendar import Calendar
from reaper.calendars.resolve import with_calendars
from reaper.errors import PolicyError
from reaper.policy.lint import lint_policy
from reaper.policy.parse import parse_policy
from reaper.policy.schema import policy_schema
from reaper.registry import kind_names

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)


def parsed(spec: str, name: str = "some"):
    return parse_policy(f"version: 1\ncalendars:\n  {name}: {spec}\n", "p.yaml", kind_names())


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        pytest.param("{}", "expected exactly one of dates, ics, country, change_calendar", id="nothing"),
        pytest.param("{dates: [2026-12-24], ics: a.ics}", "change_calendar, not dates and ics", id="two sources"),
        pytest.param("{dates: [2027-01-03/2026-12-24]}", "did you mean 2026-12-24/2027-01-03?", id="reversed"),
        pytest.param("{dates: [2026-12-24/2099-01-01]}", "a freeze must end", id="a freeze that never ends"),
        pytest.param("{dates: [24.12.2026]}", "expected a day such as 2026-12-24", id="no date"),
        pytest.param("{dates: [2026-02-30]}", "calendars.some.dates[0]", id="no such day"),
        pytest.param("{ics: a.ics, subdiv: BY}", "subdiv goes with country only", id="a region of a file"),
        pytest.param("{country: DE, match: a}", "match goes with ics only", id="titles of a country"),
        pytest.param("{country: Germny}", "expected an ISO 3166 code such as DE", id="a country by its name"),
        pytest.param("{country: DE, subdiv: BX}", "unknown subdiv 'BX' of DE; known are BB, BE", id="no such state"),
        pytest.param("{dates: [2026-12-24], tz: Europe/Berlim}", "did you mean Europe/Berlin?", id="no such zone"),
        pytest.param("{dates: [2026-12-24], weekend: friday}", "expected days such as sat,sun", id="no weekday"),
        pytest.param("{dats: [2026-12-24]}", "unknown key; did you mean dates?", id="no such key"),
    ],
)
def test_a_calendar_that_makes_no_sense_is_refused_at_its_line(spec: str, problem: str):
    with pytest.raises(PolicyError) as caught:
        parsed(spec)
    assert str(caught.value).startswith("p.yaml:3: calendars.some")
    assert problem in str(caught.value)


def test_a_calendars_name_is_a_plain_word():
    with pytest.raises(PolicyError, match=r"p.yaml:3: calendars.a b: .*expected a plain word such as year-end"):
        parsed("{dates: [2026-12-24]}", name="a b")


def test_the_schema_for_editors_knows_each_sort_of_calendar():
    schema = policy_schema(kind_names())
    known = [
        {"dates": ["2026-12-24/2027-01-03"]},
        {"ics": "a.ics", "match": "x*"},
        {"country": "DE", "subdiv": "BY"},
        {"change_calendar": "x"},
    ]
    jsonschema.validate({"version": 1, "calendars": {f"c{n}": spec for n, spec in enumerate(known)}}, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"version": 1, "calendars": {"c": {"dates": ["24.12."]}}}, schema)


@pytest.mark.parametrize(
    ("spec", "warning"),
    [
        pytest.param("{dates: [2027-06-01]}", "calendar 'some' has no effect: name it in freeze", id="nothing uses it"),
        pytest.param("{country: DE}", "only the holidays of all of DE", id="no state"),
        pytest.param("{dates: [2026-12-24]}", "has no entry after 2026-12-24", id="ends soon"),
        pytest.param("{dates: [2026-10-24]}", "can't be relied on: its last entry ended on 2026-10-24", id="over"),
        pytest.param("{ics: nowhere.ics}", "can't be relied on: iCalendar file 'nowhere.ics': can't be read", id="no file"),
    ],
)
def test_policy_check_warns_of_a_calendar_that_does_not_do_what_it_should(spec: str, warning: str):
    policy = with_calendars(parsed(spec), None, NOW)
    warnings = lint_policy(policy, f"version: 1\ncalendars:\n  some: {spec}\n", "p.yaml", NOW)
    assert [line for line in warnings if line.startswith("p.yaml:3: ") and warning in line], warnings


@pytest.mark.parametrize(
    ("length", "warning"),
    [
        pytest.param(
            timedelta(hours=20), "covers 83% of the next year, so as a freeze it allows almost no stop", id="nearly always"
        ),
        pytest.param(timedelta(hours=8), "no such day is a business day: a grace such as 2bd hardly ever ends", id="every night"),
    ],
)
def test_policy_check_warns_of_a_freeze_that_leaves_no_room(length: timedelta, warning: str):
    text = "version: 1\ncalendars:\n  some: {dates: [2027-06-01]}\ndefaults: {freeze: [some]}\n"
    nights = tuple((NOW + timedelta(days=n), NOW + timedelta(days=n) + length) for n in range(400))
    policy = parse_policy(text, "p.yaml", ["sagemaker-endpoint"]).with_calendars(
        {"some": Calendar(name="some", tz="UTC", stretches=nights)}
    )
    assert [line for line in lint_policy(policy, text, "p.yaml", NOW) if warning in line]
