"""What a rule carries of the policy's calendars near a run, and what a policy may say of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fakes.builders import DAY, NOW, resource
from fakes.read_calendars import calendar, days_of, frozen, unreadable
from reaper import registry
from reaper.calendars import office_hours
from reaper.calendars.calendar import Calendar
from reaper.calendars.freezes import BusinessDays
from reaper.calendars.office_hours import Hours
from reaper.errors import PolicyError
from reaper.model import Rule
from reaper.planning.dates import hours_digest
from reaper.policy import lint
from reaper.policy.parse import parse_policy
from reaper.policy.rules import effective_rule
from reaper.policy.schema import Policy

CALENDARS = "calendars: {year-end: {dates: [2026-12-24]}, closing: {dates: [2026-12-24]}, germany: {dates: [2026-12-24], tz: Europe/Berlin}}\n"
YEAR_END, CLOSING = calendar("year-end", "2026-12-19/2027-01-03"), calendar("closing", "2026-12-28/2027-01-07")
GERMANY = calendar("germany", "2026-12-25/2026-12-26", "2027-01-01", tz="Europe/Berlin")
OFFICE = "on: 'mon-fri 07:00-21:00', tz: Europe/Berlin"
DEAR = "match: {usd_per_hour: '>= 5'}"


def parse(text: str) -> Policy:
    return parse_policy(f"version: 1\n{CALENDARS}{text}", "policy.yaml", registry.kind_names())


def rule_of(text: str, *calendars: Calendar, now: datetime = NOW, usd: float | None = 1.0, **fields: Any) -> Rule:
    """The rule of one notebook, with these calendars read."""
    policy = parse(text).with_calendars({each.name: each for each in calendars})
    return effective_rule(policy, resource(kind="sagemaker-notebook", **fields), usd, now)


def test_a_rules_freezes_replace_those_of_the_defaults():
    text = "defaults: {freeze: [year-end]}\nrules: [{name: a, match: {name: churn}, freeze: [closing]}]"
    assert rule_of(text, YEAR_END, CLOSING).freezes == (frozen("2026-12-28", "2027-01-07", "closing"),)
    assert rule_of(text, YEAR_END, CLOSING, name="other").freezes == (frozen("2026-12-19", "2027-01-03"),)


def test_freezes_that_overlap_are_one_and_far_ones_are_left_out():
    far = calendar("closing", "2026-12-28/2027-01-07", "2026-07-01", "2027-12-01")
    [freeze] = rule_of("defaults: {freeze: [year-end, closing]}", YEAR_END, far).freezes
    assert (freeze.calendar, freeze.start, freeze.end) == (
        "year-end and closing",
        YEAR_END.stretches[0][0],
        CLOSING.stretches[0][1],
    )


def test_a_freeze_stays_while_an_action_may_have_begun_to_wait_before_it():
    past = calendar("year-end", "2026-08-01/2026-08-10")
    assert rule_of("defaults: {grace: 3d, freeze: year-end}", past).freezes == ()
    assert rule_of("defaults: {grace: 90d, freeze: year-end}", past).freezes == (frozen("2026-08-01", "2026-08-10"),)


@pytest.mark.parametrize(
    ("text", "calendars", "because"),
    [
        pytest.param(
            "freeze: year-end", [], "the freeze calendar 'year-end' can't be read: this run hasn't read it", id="freeze not read"
        ),
        pytest.param(
            "freeze: year-end",
            [unreadable("year-end")],
            "the freeze calendar 'year-end' can't be read: no such file",
            id="freeze",
        ),
        pytest.param(
            "grace: 2bd, business_days: germany",
            [unreadable("germany")],
            "the business-day calendar 'germany' can't be read: no such file",
            id="business days",
        ),
        pytest.param("grace: 2d, business_days: germany", [unreadable("germany")], None, id="business days that don't count"),
        pytest.param("freeze: year-end", [YEAR_END], None, id="readable"),
    ],
)
def test_a_calendar_that_cannot_be_read_makes_actions_wait(text: str, calendars: list[Calendar], because: str | None):
    assert rule_of(f"defaults: {{{text}}}", *calendars).waits_because == because


def test_freezes_of_a_calendar_past_its_last_day_still_count():
    past = replace(YEAR_END, unreadable_because="past its last day")
    rule = rule_of("defaults: {freeze: year-end}", past)
    assert (len(rule.freezes), rule.waits_because) == (1, "the freeze calendar 'year-end' can't be read: past its last day")


def test_days_off_that_cannot_be_read_are_working_days():
    text = f"rules: [{{name: a, hours: {{{OFFICE}, except: germany}}}}]"
    for calendars, days in (
        ([GERMANY], GERMANY.days),
        ([], frozenset()),
        ([replace(GERMANY, unreadable_because="x")], frozenset()),
    ):
        rule = rule_of(text, *calendars)
        assert rule.hours is not None
        assert (rule.hours.calendars, rule.hours.days_off, rule.waits_because) == (("germany",), days, None)


def test_an_hours_tag_keeps_the_days_off_of_the_rule():
    text = f"rules: [{{name: a, hours: {{{OFFICE}, except: germany}}}}]"
    hours = rule_of(text, GERMANY, tags={"reaper:hours": "mon-sun 06:00-22:00 UTC"}).hours
    assert hours is not None
    assert (hours.start, hours.days_off) == (360, GERMANY.days)
    assert not office_hours.is_open(hours, datetime(2026, 12, 25, 12, tzinfo=UTC))


def test_a_grace_in_business_days_has_a_least_length():
    rule = rule_of("defaults: {grace: 2bd, business_days: germany}", GERMANY)
    assert rule.grace == timedelta(hours=46)
    assert rule.business_days == BusinessDays(count=2, calendar="germany", tz="Europe/Berlin", days_off=GERMANY.days)
    unread = rule_of("defaults: {grace: 2bd, business_days: germany}").business_days
    assert unread == BusinessDays(count=2, calendar="germany", tz="Europe/Berlin")


def gentlest(one: str, other: str) -> list[Rule]:
    """What holds while the price leaves open which of two rules does, in both orders."""
    pairs = ((one, other), (other, one))
    rules = [f"rules: [{{name: a, {DEAR}, {first}}}, {{name: b, {second}}}]" for first, second in pairs]
    return [rule_of(text, YEAR_END, CLOSING, GERMANY, usd=None) for text in rules]


def test_of_two_possible_rules_the_freezes_of_both_hold():
    for rule in gentlest("freeze: year-end", "freeze: closing"):
        assert [(f.start, f.end) for f in rule.freezes] == [(YEAR_END.stretches[0][0], CLOSING.stretches[0][1])]


def test_of_two_possible_rules_the_most_business_days_count():
    for rule in gentlest("grace: 2bd, business_days: germany", "grace: 4bd, business_days: year-end"):
        assert rule.business_days is not None
        assert (rule.business_days.count, rule.business_days.days_off) == (
            5,
            GERMANY.days | YEAR_END.days,
        )  # one more: the zones differ
        assert rule.grace == timedelta(hours=4 * 23)
    for rule in gentlest("grace: 2bd, business_days: germany", "grace: 3d"):
        assert (rule.grace, rule.business_days and rule.business_days.count) == (3 * DAY, 2)


@pytest.mark.parametrize(
    ("other", "is_off"),
    [
        pytest.param(f"hours: {{{OFFICE}, except: germany}}", True, id="both close"),
        pytest.param(f"hours: {{{OFFICE}}}", False, id="one is open"),
        pytest.param("grace: 1h", False, id="one has no hours"),
    ],
)
def test_of_two_possible_rules_a_day_off_counts_only_if_both_have_it(other: str, is_off: bool):
    for rule in gentlest(f"hours: {{{OFFICE}, except: germany}}", other):
        assert rule.hours is not None
        assert (bool(rule.hours.days_off), bool(rule.hours.calendars)) == (is_off, is_off)


def test_the_enrolment_holds_the_names_of_calendars_and_not_their_days():
    hours = office_hours.parse_hours("mon-fri 07:00-21:00", "UTC")
    named = replace(hours, calendars=("germany",))
    assert hours_digest(named) != hours_digest(hours)
    assert hours_digest(named) == hours_digest(replace(named, days_off=GERMANY.days))


zones = st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Cairo"])
spans = st.lists(st.integers(0, 96), min_size=2, max_size=2, unique=True).map(sorted)


@given(zones, st.sets(st.integers(0, 6), min_size=1), spans, st.integers(0, 800), st.integers(0, 24 * 12 - 1))
def test_a_day_off_equals_a_weekday_that_the_hours_do_not_name(tz, days, span, ahead, part):
    day = NOW.date() + ahead * DAY
    at = (datetime.combine(day, time(), ZoneInfo(tz)) + part * timedelta(minutes=5)).astimezone(UTC)
    named = frozenset(days) - {day.weekday()}
    assume(at.astimezone(ZoneInfo(tz)).date() == day and named)
    closed = Hours(days=frozenset(days), start=15 * span[0], end=15 * span[1], tz=tz, days_off=frozenset({day}))
    unnamed = replace(closed, days=named, days_off=frozenset())
    for ask in (office_hours.is_open, office_hours.closed_since, office_hours.opened_today, office_hours.next_close):
        assert ask(closed, at) == ask(unnamed, at)


def test_weeks_of_days_off_hide_neither_the_last_closing_nor_the_next():
    [away] = days_of("2026-11-02/2026-12-20")
    hours = Hours(days=frozenset({0}), start=480, end=1080, tz="UTC", days_off=frozenset(away))
    assert office_hours.closed_since(hours, NOW) == datetime(2026, 10, 26, 18, tzinfo=UTC)
    assert office_hours.next_close(hours, NOW) == datetime(2026, 12, 21, 18, tzinfo=UTC)
    always = Hours(days=frozenset(range(7)), start=0, end=1440, tz="UTC", days_off=frozenset({NOW.date()}))
    assert not office_hours.is_open(always, NOW)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(
            "defaults: {freeze: [yaer-end]}",
            "policy.yaml:3: defaults.freeze: unknown calendar 'yaer-end'; did you mean year-end?",
            id="freeze",
        ),
        pytest.param(
            f"rules: [{{name: a, hours: {{{OFFICE}, except: [germny]}}}}]",
            "policy.yaml:3: rules[0].hours.except: unknown calendar 'germny'; did you mean germany?",
            id="days off",
        ),
        pytest.param(
            "defaults: {business_days: x, grace: 2bd}",
            "policy.yaml:3: defaults.business_days: unknown calendar 'x'; valid here: year-end, closing, germany",
            id="business days",
        ),
        pytest.param(
            "rules: [{name: a, grace: 2bd}]",
            "policy.yaml:3: rules[0].grace: 2bd needs the calendar of its business days; add business_days: and the name of a calendar, "
            "here or in the defaults",
            id="without a calendar",
        ),
        pytest.param(
            "defaults: {grace: 2 BD}",
            "policy.yaml:3: defaults.grace: '2 BD' is not valid: expected a duration such as 30m, 4h, 3d or 2w, or business days such as 2bd",
            id="spelled otherwise",
        ),
        pytest.param(
            "defaults: {grace: 61bd}", "policy.yaml:3: defaults.grace: '61bd' is not valid: expected 1bd to 60bd", id="too many"
        ),
        pytest.param(
            "defaults: {grace: 0bd}", "policy.yaml:3: defaults.grace: '0bd' is not valid: expected 1bd to 60bd", id="none"
        ),
        pytest.param(
            "defaults: {action: stop, grace: 4bd, business_days: germany, then: {action: delete, after: 3d}}",
            "policy.yaml:3: defaults.then.after: 3d is shorter than the grace (4bd, at least 92h); write 92h or more",
            id="a then shorter than its business days",
        ),
        pytest.param(
            "defaults: {idle_after: 2bd}",
            "policy.yaml:3: defaults.idle_after: '2bd' is not valid: expected a duration such as 30m, 4h, 3d or 2w; only grace can be in "
            "business days",
            id="not in a grace",
        ),
        pytest.param(
            f"rules: [{{name: a, hours: {{{OFFICE}, exept: [germany]}}}}]",
            "policy.yaml:3: rules[0].hours.exept: unknown key; did you mean except?",
            id="misspelled except",
        ),
    ],
)
def test_a_wrong_calendar_is_an_error_with_the_fix(text: str, problem: str):
    with pytest.raises(PolicyError) as error:
        parse(text)
    assert str(error.value) == problem


def test_an_unknown_calendar_in_a_policy_without_any_says_where_they_go():
    with pytest.raises(PolicyError, match="unknown calendar 'x'; add it under calendars"):
        parse_policy("version: 1\ndefaults: {freeze: x}", "policy.yaml", registry.kind_names())


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        pytest.param(
            "defaults: {action: stop, act_on: proven, freeze: [year-end]}\nrules: [{name: a, freeze: [closing]}]",
            "rule 'a': its freeze replaces that of the defaults, so year-end doesn't hold it; list it too, if you want that",
            id="a rule drops one",
        ),
        pytest.param(
            "rules: [{name: a, freeze: [closing]}]",
            "rule 'a': freeze has no effect, since its action is notify",
            id="only notices",
        ),
        pytest.param(
            "defaults: {freeze: [closing]}",
            "defaults: freeze has no effect, since no rule stops or deletes anything",
            id="no actions at all",
        ),
        pytest.param(
            f"rules: [{{name: a, match: {{kind: sagemaker-notebook}}, hours: {{{OFFICE}, except: germany}}}}]",
            None,
            id="days off are fine",
        ),
        pytest.param("defaults: {business_days: germany}\nrules: [{name: a, grace: 1bd}]", None, id="business days are fine"),
    ],
)
def test_policy_check_warns_of_calendars_without_effect(text: str, warning: str | None):
    warnings = [
        line for line in lint.lint_policy(parse(text), f"version: 1\n{CALENDARS}{text}", "p") if "stop has no effect" not in line
    ]
    assert [line.partition(": ")[2] for line in warnings] == ([warning] if warning else [])
