"""Which rule applies under office hours, and which if a price is unknown."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fakes.builders import resource
from reaper import registry
from reaper.calendars import office_hours
from reaper.calendars.office_hours import Hours, is_open, parse_hours
from reaper.model import Ceiling, Confidence, Rule
from reaper.policy.parse import parse_policy
from reaper.policy.rules import effective_rule, shortest_idle_after
from reaper.policy.schema import Policy
from reaper.policy.tags import MIN_IDLE_AFTER

HOUR = timedelta(hours=1)
NOON, NIGHT = datetime(2026, 11, 20, 12, tzinfo=UTC), datetime(2026, 11, 20, 23, tzinfo=UTC)
DAY_AND_NIGHT = {"day": NOON, "night": NIGHT}
OFFICE = '{on: "mon-fri 07:00-21:00", tz: UTC}'
LATE = '{on: "mon-fri 20:00-24:00", tz: UTC}'
DEAR = '{usd_per_hour: "> 5"}'
TAG = {"reaper:hours": "mon-fri 07:00-21:00 UTC"}


def parse(text: str) -> Policy:
    return parse_policy(f"version: 1\n{text}", "policy.yaml", registry.kind_names())


def holds(
    text: str, now: datetime, tags: dict[str, str] | None = None, usd: float | None = 1.0, kind: str = "sagemaker-notebook"
) -> Rule:
    """What holds for one notebook with `tags` under that text."""
    return effective_rule(parse(text), resource(kind=kind, tags=tags or {}), usd, now)


def two(first: str, second: str, now: datetime = NIGHT, tags: dict[str, str] | None = None) -> Rule:
    """What holds where an unknown price leaves open which of two rules does."""
    rules = f'[{{name: a, match: {{usd_per_hour: ">= 5"}}, {first}}}, {{name: b, {second}}}]'
    return holds(f"defaults: {{action: stop}}\nrules: {rules}", now, tags, usd=None)


def test_an_hours_tag_applies_without_rule_hours_and_never_forces():
    hours = holds("defaults: {action: stop}", NIGHT, TAG).hours
    assert hours == Hours(days=frozenset(range(5)), start=420, end=1260, tz="UTC", restart="ours", force=False, by_rule=False)


@pytest.mark.parametrize("now", DAY_AND_NIGHT.values(), ids=DAY_AND_NIGHT)
@pytest.mark.parametrize("may", ["[]", "[protect]", "[protect, tighten, loosen]"])
def test_an_hours_tag_alone_protects_but_shortens_nothing(may: str, now: datetime):
    rule = holds(f"defaults: {{action: stop, idle_after: 24h, tags_may: {may}}}", now, TAG)
    assert (rule.idle_after, rule.notes) == (24 * HOUR, ())
    assert rule.hours is not None


def test_a_tag_sets_the_calendar_and_the_rule_the_rest_of_hours():
    text = 'rules: [{name: a, hours: {on: "mon 01:00-02:00", tz: Europe/Berlin, start: all, override: 2h}}]'
    rule = holds(text, NIGHT, TAG)
    assert rule.hours == Hours(
        days=frozenset(range(5)), start=420, end=1260, tz="UTC", restart="all", override=2 * HOUR, by_rule=True
    )


def forced(on: str, tz: str, tag: str, more: str = "") -> Hours:
    """The hours in effect under a rule with force and a tag's hours."""
    text = f'rules: [{{name: a, {more}hours: {{on: "{on}", tz: {tz}, force: true}}}}]'
    hours = holds(text, NIGHT, {"reaper:hours": tag}).hours
    assert hours is not None
    return hours


def test_under_force_the_hours_of_rule_and_tag_are_joined():
    hours = forced("mon 01:00-02:00", "Europe/Berlin", "mon-fri 07:00-21:00 UTC")
    assert hours.also is not None
    assert (hours.start, hours.tz, hours.also.start, hours.also.tz, hours.force) == (420, "UTC", 60, "Europe/Berlin", True)
    assert office_hours.hours_text(hours) == "mon 01:00-02:00 Europe/Berlin and mon-fri 07:00-21:00"


@pytest.mark.parametrize("tag", ["tue 12:00-13:00 UTC", "mon-fri 09:00-17:00 UTC"])
def test_a_tag_inside_the_hours_of_force_changes_nothing(tag: str):
    hours = forced("mon-fri 09:00-17:00", "UTC", tag)
    assert (office_hours.hours_text(hours), hours.also) == ("mon-fri 09:00-17:00", None)


def test_a_rule_may_let_tags_narrow_its_forced_hours():
    hours = forced("mon-fri 09:00-17:00", "UTC", "tue 12:00-13:00 UTC", more="tags_may: [tighten], ")
    assert (office_hours.hours_text(hours), hours.also) == ("tue 12:00-13:00", None)
    assert forced("mon-fri 09:00-17:00", "UTC", "tue 12:00-13:00 UTC", more="tags_may: [loosen], ").start == 540


zones = st.sampled_from(
    ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Kiritimati", "Africa/Casablanca"]
)
day_sets = st.sets(st.sampled_from(office_hours.DAYS), min_size=1).map(lambda days: ",".join(sorted(days)))
quarters = st.lists(st.integers(0, 96), min_size=2, max_size=2, unique=True).map(sorted)
spelled = st.builds(
    lambda days, span: f"{days} {span[0] // 4:02}:{span[0] % 4 * 15:02}-{span[1] // 4:02}:{span[1] % 4 * 15:02}",
    day_sets,
    quarters,
)


@given(on=spelled, tz=zones, tag=spelled, tag_tz=zones, minute=st.integers(0, 366 * 24 * 60))
@example(on="sun 01:00-04:00", tz="Europe/Berlin", tag="sun 01:00-02:15", tag_tz="Europe/Berlin", minute=297 * 24 * 60 + 105)
@example(on="mon-sun 00:00-05:00", tz="UTC", tag="mon-sun 00:00-19:00", tag_tz="America/New_York", minute=0)
def test_under_force_a_tag_closes_no_minute_that_the_rule_keeps_open(on: str, tz: str, tag: str, tag_tz: str, minute: int):
    at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=minute)
    hours, rule_hours, tag_hours = forced(on, tz, f"{tag} {tag_tz}"), parse_hours(on, tz), parse_hours(tag, tag_tz)
    assert is_open(hours, at) == (is_open(rule_hours, at) or is_open(tag_hours, at))
    closed, closes = office_hours.closed_since(hours, at), office_hours.next_close(hours, at)
    if is_open(hours, at):
        opened = office_hours.opened_today(hours, at)
        assert opened is not None
        assert (opened <= at, is_open(hours, opened)) == (True, True)
    else:
        assert closed is not None
        assert (is_open(hours, closed), is_open(hours, closed - timedelta(seconds=1))) == (False, True)
    assert closes is None or (not is_open(hours, closes) and is_open(hours, closes - timedelta(seconds=1)))


@pytest.mark.parametrize("tags", [None, TAG], ids=["rule alone", "with a tag"])
def test_hours_only_protect_a_kind_that_cannot_be_started(tags: dict[str, str] | None):
    text = f"defaults: {{action: stop}}\nrules: [{{name: a, hours: {{{OFFICE.strip('{}')}, start: all, force: true}}}}]"
    rule = holds(text, NIGHT, tags, kind="azureml-online-deployment")
    assert rule.hours is not None
    assert (rule.hours.by_rule, rule.hours.force, rule.hours.restart, rule.idle_after) == (False, False, "ours", 24 * HOUR)
    assert is_open(rule.hours, NOON)


def test_a_tag_leaves_the_effects_of_hours_to_the_rule():
    rule = holds(f"rules: [{{name: a, hours: {OFFICE}}}]", NIGHT, TAG)
    assert rule.idle_after == MIN_IDLE_AFTER


@pytest.mark.parametrize(
    ("wait", "tags", "by_night"),
    [
        pytest.param("", {}, 0.5, id="from the defaults"),
        pytest.param("idle_after: 8h, ", {}, 8, id="written in the rule"),
        pytest.param("idle_after: 24h, ", {}, 24, id="written in the rule as by default"),
        pytest.param("", {"reaper:idle-after": "6h"}, 6, id="written in a tag"),
        pytest.param("", {"reaper:idle-after": "24h"}, 24, id="written in a tag as by default"),
        pytest.param("idle_after: 8h, ", {"reaper:idle-after": "2h"}, 2, id="in both, and the tag may tighten"),
        pytest.param("idle_after: 8h, ", {"reaper:idle-after": "9h"}, 8, id="in both, and the tag may not loosen"),
        pytest.param("", {"reaper:idle-after": "48h"}, 0.5, id="a tag that is ignored"),
    ],
)
def test_outside_hours_30m_is_enough_unless_the_rule_says_more(wait: str, tags: dict, by_night: float):
    text = f"defaults: {{idle_after: 24h}}\nrules: [{{name: a, {wait}hours: {OFFICE}}}]"
    rule = holds(text, NIGHT, tags)
    assert rule.idle_after == by_night * HOUR
    assert ("outside its office hours, 30m of silence is enough" in rule.notes) is (by_night == 0.5)
    assert holds(text, NOON, tags).idle_after == (by_night if by_night != 0.5 else 24) * HOUR


def test_shortest_idle_after_includes_the_effect_of_hours():
    assert shortest_idle_after(parse(f"rules: [{{name: a, hours: {OFFICE}}}]")) == MIN_IDLE_AFTER
    assert shortest_idle_after(parse(f"rules: [{{name: a, idle_after: 8h, hours: {OFFICE}}}]")) == 8 * HOUR


GENTLER: dict[str, tuple[str, str, Any]] = {
    "name": ("grace: 1h", "grace: 2h", "rule 'a' or rule 'b'"),
    "action": ("action: delete", "action: notify", Ceiling.NOTIFY),
    "idle_after": ("idle_after: 2h", "idle_after: 8h", 8 * HOUR),
    "grace": ("grace: 1h", "grace: 2h", 2 * HOUR),
    "remind_every": ("remind_every: 1d", "remind_every: 2d", 48 * HOUR),
    "snooze_max": ("snooze_max: 1d", "snooze_max: 2d", 48 * HOUR),
    "act_on": ("act_on: likely", "act_on: proven", Confidence.PROVEN),
    "stop_by": ("stop_by: native", "stop_by: stop", "stop"),
    "hours": ("grace: 1h", f"hours: {OFFICE}", Hours(days=frozenset(range(5)), start=420, end=1260, tz="UTC", by_rule=False)),
    "protected_because": ("action: stop", "action: ignore", "rule 'a' or rule 'b' says ignore"),
    "only_notices": ("grace: 1h", "grace: 2h", False),
    "delete_after": ("grace: 1h", "grace: 2h", None),
    "business_days": ("grace: 1h", "grace: 2h", None),
    "freezes": ("grace: 1h", "grace: 2h", ()),
    "waits_because": ("grace: 1h", "grace: 2h", None),
    "protection_ended_at": ("grace: 1h", "grace: 2h", None),
    "in_doubt": ("grace: 1h", "grace: 2h", True),
    "notes": ("grace: 1h", "grace: 2h", ("its price or size is unknown, so the gentler of these rules applies",)),
}


def test_the_gentlest_rule_chooses_every_field():
    assert set(GENTLER) == set(Rule.__dataclass_fields__)


@pytest.mark.parametrize("field", GENTLER)
def test_the_gentler_of_two_possible_rules_applies_in_any_order(field: str):
    one, other, expected = GENTLER[field]
    assert getattr(two(one, other), field) == expected
    assert getattr(two(other, one), field) == expected


@pytest.mark.parametrize(
    ("first", "second", "force", "restart", "by_rule"),
    [
        pytest.param("force: true, start: all", "force: true, start: all", True, "all", True, id="both force"),
        pytest.param("force: true", "start: all", False, "ours", True, id="one forces"),
        pytest.param("start: all", "start: all", False, "all", True, id="both start all"),
        pytest.param("start: all", "force: true", False, "ours", True, id="the other forces"),
    ],
)
def test_uncertain_rules_force_and_start_all_only_if_both_do(first: str, second: str, force: bool, restart: str, by_rule: bool):
    one, other = (f"hours: {{{OFFICE.strip('{}')}, {more}}}" for more in (first, second))
    hours = two(one, other).hours
    assert hours is not None
    assert (hours.force, hours.restart, hours.by_rule) == (force, restart, by_rule)


def test_the_longer_of_two_overrides_applies():
    one, other = (f"hours: {{{OFFICE.strip('{}')}, override: {wait}}}" for wait in ("1h", "6h"))
    assert [two(*order).hours.override for order in ((one, other), (other, one))] == [6 * HOUR, 6 * HOUR]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("first", "second", "idle_after"),
    [
        pytest.param(f"hours: {OFFICE}", "grace: 1h", 24 * HOUR, id="the first has hours"),
        pytest.param("grace: 1h", f"hours: {OFFICE}", 24 * HOUR, id="the second has hours"),
        pytest.param(f"hours: {OFFICE}", f"hours: {LATE}", 24 * HOUR, id="the hours differ"),
        pytest.param(f"hours: {OFFICE}", f"hours: {OFFICE}", MIN_IDLE_AFTER, id="both have the same"),
        pytest.param(f"hours: {OFFICE}", f"idle_after: 8h, hours: {OFFICE}", 8 * HOUR, id="one waits longer"),
    ],
)
def test_uncertain_rules_shorten_idle_after_only_if_both_do(first: str, second: str, idle_after: timedelta):
    at = datetime(2026, 11, 21, 3, tzinfo=UTC)
    assert two(first, second, at).idle_after == two(second, first, at).idle_after == idle_after


@pytest.mark.parametrize("now", DAY_AND_NIGHT.values(), ids=DAY_AND_NIGHT)
def test_of_different_hours_the_open_ones_protect_and_none_force(now: datetime):
    one, other = (f"hours: {{{hours.strip('{}')}, force: true, start: all}}" for hours in (OFFICE, LATE))
    for hours in (two(one, other, now).hours, two(other, one, now).hours):
        assert hours is not None
        assert hours.start == (420 if now == NOON else 1200)
        assert (hours.by_rule, hours.force, hours.restart) == (False, False, "ours")


def test_a_tag_never_makes_uncertain_hours_stop_or_shorten():
    rule = two(f"hours: {{{OFFICE.strip('{}')}, force: true}}", "grace: 1h", NIGHT, {"reaper:hours": "mon 01:00-02:00 UTC"})
    assert rule.hours is not None
    assert (rule.hours.start, rule.hours.by_rule, rule.hours.force, rule.idle_after) == (60, False, False, 24 * HOUR)


waits = st.sampled_from([None, "30m", "2h", "8h", "3d"])
calendars = st.sampled_from([None, OFFICE, LATE])
specs = st.builds(lambda wait, hours: {"idle_after": wait, "hours": hours} if hours else {"idle_after": wait}, waits, calendars)


def _written(name: str, spec: dict[str, Any], match: str) -> str:
    keys = "".join(f", {key}: {value}" for key, value in spec.items() if value)
    return f"{{name: {name}, match: {match}{keys}}}"


@given(specs, specs, st.datetimes(datetime(2026, 11, 16), datetime(2026, 11, 23)))  # noqa: DTZ001
def test_an_unknown_price_never_shortens_idle_after(first: dict, second: dict, at: datetime):
    now = at.replace(tzinfo=UTC)
    both = f"rules: [{_written('a', first, DEAR)}, {_written('b', second, '{}')}]"
    unknown, dear, cheap = (holds(both, now, usd=usd) for usd in (None, 9.0, 1.0))
    assert unknown.idle_after >= max(dear.idle_after, cheap.idle_after)
    assert shortest_idle_after(parse(both)) <= min(r.idle_after for r in (unknown, dear, cheap))
