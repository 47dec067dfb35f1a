"""What spares a closer look: whoever was used, created or changed lately is told of as if everything had been described."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from core.fakes import DAY, HOUR, resource
from reaper import document, registry, rule
from reaper.evidence import first_look, settled
from reaper.judge import judge
from reaper.model import Observation, Part, Quiet, Reading, Resource, Role, Series, State, Verdict, Window
from reaper.policy import Policy
from reaper.sweep import window

NOON = datetime(2026, 11, 20, 12, 17, tzinfo=UTC)
"""A Friday."""
NIGHT = datetime(2026, 11, 20, 23, 17, tzinfo=UTC)
OFFICE = '{on: "mon-fri 07:00-21:00", tz: UTC}'
TYPE = "ml.g5.xlarge"


def parse(text: str) -> Policy:
    return document.parse(f"version: 1\n{text}", "policy.yaml", registry.names())


def listed(**given: Any) -> Resource:
    """An endpoint as the list names it: what it runs is not known."""
    return resource(parts=None, **given)


def waits(text: str, one: Resource, now: datetime = NOON) -> tuple[float, float]:
    """The shortest and the longest wait that may hold for it, in hours."""
    short, long = rule.waits(parse(text), one, None, now)
    return short / HOUR, long / HOUR


@pytest.mark.parametrize(
    ("match", "expected"),
    [
        pytest.param("{tags: {tier: hot}}", (24, 24), id="tags that it does not have"),
        pytest.param("{tags: {team: web}}", (4, 4), id="tags that it has"),
        pytest.param("{name: 'tmp-*'}", (24, 24), id="another name"),
        pytest.param("{name: 'chu*'}", (4, 4), id="its name"),
        pytest.param("{kind: sagemaker-notebook}", (24, 24), id="another kind"),
        pytest.param("{region: eu-west-1}", (24, 24), id="another region"),
        pytest.param("{account: '210987654321'}", (24, 24), id="another account"),
        pytest.param("{usd_per_hour: '>= 5'}", (4, 24), id="a price that is not known"),
        pytest.param("{size: 'ml.p5.*'}", (4, 24), id="a size that is not known"),
        pytest.param("{usd_per_hour: '>= 5', name: 'tmp-*'}", (24, 24), id="a price that is not known, of another name"),
    ],
)
def test_a_rule_shortens_the_wait_of_what_it_may_hold_for_and_of_nothing_else(match: str, expected: tuple[float, float]):
    assert waits(f"rules: [{{name: a, match: {match}, idle_after: 4h}}]", listed(tags={"team": "web"})) == expected


@pytest.mark.parametrize(
    ("now", "tags", "expected"),
    [
        pytest.param(NIGHT, {"team": "web"}, (0.5, 0.5), id="outside the hours"),
        pytest.param(NOON, {"team": "web"}, (24, 24), id="inside the hours"),
        pytest.param(NIGHT, {}, (24, 24), id="outside the hours of others"),
        pytest.param(
            NIGHT, {"team": "web", "reaper:hours": "mon-fri 07:00-24:00 UTC"}, (24, 24), id="inside the hours of its own tag"
        ),
        pytest.param(NIGHT, {"team": "web", "reaper:idle-after": "2h"}, (2, 2), id="outside, with a wait of its own"),
    ],
)
def test_hours_shorten_the_wait_only_outside_them_and_of_whom_they_are_for(now: datetime, tags: dict, expected: tuple):
    assert waits(f"rules: [{{name: a, match: {{tags: {{team: web}}}}, hours: {OFFICE}}}]", listed(tags=tags), now) == expected


def quiet(policy: Policy, one: Resource, now: datetime) -> Window:
    """The window of a sweep as it stands for that one resource."""
    short, long = rule.waits(policy, one, None, now)
    return replace(window(policy, now), quiet={one.id: Quiet(perhaps=now - short, surely=now - long)})


def looked(one: Resource, uses: list[float], start: datetime, stretch: Window, now: datetime) -> Observation:
    """What a look back to `start` shows of uses so many hours ago, under a heartbeat that never missed."""
    values = [math.nan] * -(-(stretch.end - start) // HOUR)
    for ago in uses:
        if start <= now - ago * HOUR < stretch.end:
            values[(now - ago * HOUR - start) // HOUR] = 1.0
    used = Series(start=start, step=HOUR, values=values, end=stretch.end)
    beats = replace(used, values=[60.0] * len(values))
    return Observation(
        resource=one,
        readings=(
            Reading(signal="Invocations", role=Role.ACTIVITY, series=used),
            Reading(signal="CPUUtilization", role=Role.HEARTBEAT, series=beats),
        ),
    )


def in_short(policy: Policy, one: Resource, uses: list[float], now: datetime) -> Verdict | None:
    """The verdict without a closer look; None for one that needs it."""
    stretch = quiet(policy, one, now)
    seen = looked(one, uses, first_look(one, stretch), stretch, now)
    blind = replace(seen, blind="it was used or changed too recently for a closer look")
    return judge(one, blind, rule.rule(policy, one, None, now), now) if settled(seen, stretch) else None


def in_full(policy: Policy, one: Resource, uses: list[float], usd: float | None, now: datetime) -> Verdict:
    """The verdict with everything described."""
    stretch = window(policy, now)
    return judge(one, looked(one, uses, stretch.start, stretch, now), rule.rule(policy, one, usd, now), now)


ages = st.floats(0.1, 100).map(lambda hours: round(hours, 2))
matches = st.sampled_from(
    ["{}", "{name: 'ch*'}", "{tags: {tier: hot}}", "{usd_per_hour: '>= 5'}", "{size: 'ml.g5.*'}", "{size: 'ml.p5.*'}"]
)
hours = st.sampled_from([None, OFFICE, '{on: "mon-fri 20:00-24:00", tz: UTC}'])
lengths = st.sampled_from([None, "30m", "2h", "4h", "3d"])
leeway = st.sampled_from([None, "[]", "[protect, tighten, loosen]"])
written = st.tuples(matches, st.fixed_dictionaries({"idle_after": lengths, "hours": hours, "tags_may": leeway}))
own = st.fixed_dictionaries(
    {},
    optional={
        "tier": st.just("hot"),
        "reaper:idle-after": st.sampled_from(["45m", "3h", "48h"]),
        "reaper:hours": st.sampled_from(["mon-fri 07:00-21:00 UTC", "mon-sun 20:00-24:00 UTC"]),
        "reaper:keep": st.just("true"),
    },
)
DEAR = [("{usd_per_hour: '>= 5'}", {"idle_after": "2h"})]


@settings(max_examples=400, deadline=None)
@given(
    specs=st.lists(written, max_size=4),
    tags=own,
    uses=st.lists(ages, max_size=3),
    born=st.tuples(ages, ages),
    run=st.tuples(st.sampled_from([TYPE, "ml.p5.48xlarge"]), st.sampled_from([None, 1.0, 9.0])),
    at=st.datetimes(datetime(2026, 11, 16), datetime(2026, 11, 23)),  # noqa: DTZ001
)
@example(DEAR, {}, [5.0], (90.0, 1.0), (TYPE, 9.0), NOON.replace(tzinfo=None))
@example(DEAR, {}, [5.0], (90.0, 1.0), (TYPE, 1.0), NOON.replace(tzinfo=None))
@example([], {}, [30.0], (90.0, 1.0), (TYPE, 1.0), NOON.replace(tzinfo=None))
def test_what_is_spared_a_closer_look_gets_the_verdict_of_one(
    specs: list, tags: dict, uses: list[float], born: tuple[float, float], run: tuple[str, float | None], at: datetime
):
    now = at.replace(tzinfo=UTC)
    rows = [{"match": match, **{k: v for k, v in more.items() if v}} for match, more in specs]
    text = ", ".join(f"{{name: r{n}" + "".join(f", {k}: {v}" for k, v in row.items()) + "}" for n, row in enumerate(rows))
    policy = parse(f"rules: [{text}]")
    one = listed(tags=tags, created=now - max(born) * HOUR, changed=now - min(born) * HOUR)
    known = replace(one, parts=(Part(component="Hosting", instance=run[0]),), size=f"{run[0]} x1")
    short, full = in_short(policy, one, uses, now), in_full(policy, known, uses, run[1], now)
    if short:
        assert (short.state, short.last_busy) == (full.state, full.last_busy)
        assert short.because == full.because or short.state is not State.ACTIVE
        assert short.state is not State.IDLE
    held = rule.rule(policy, known, run[1], now).idle_after
    least, most = rule.waits(policy, one, None, now)
    assert least <= held <= most


def test_what_was_used_within_every_wait_is_spared_a_closer_look():
    policy = parse("rules: [{name: hot, match: {tags: {tier: hot}}, idle_after: 4h}]")
    assert in_short(policy, listed(), [23.0], NOON) is not None
    assert in_short(policy, listed(tags={"tier": "hot"}), [23.0], NOON) is None


def test_what_is_young_and_was_used_needs_a_look_where_the_rules_that_may_hold_differ():
    policy = parse("rules: [{name: dear, match: {usd_per_hour: '>= 5'}, idle_after: 2h}]")
    young = listed(changed=NOON - HOUR)
    assert in_short(policy, young, [5.0], NOON) is None
    assert in_short(policy, young, [50.0], NOON) is not None


def test_of_what_is_young_the_last_use_is_told_however_long_ago():
    found = in_short(parse(""), listed(changed=NOON - HOUR), [99.0], NOON)
    assert found is not None
    assert (found.state, found.last_busy) == (State.YOUNG, (NOON - 99 * HOUR).replace(minute=0) + HOUR)


def test_a_first_look_reads_no_further_than_the_rules_that_may_hold_ask_for():
    policy = parse("rules: [{name: slow, match: {tags: {tier: slow}}, idle_after: 14d}]")
    for tags, expected in (({}, DAY), ({"tier": "slow"}, 14 * DAY)):
        one = listed(tags=tags)
        assert timedelta() <= (NOON - expected) - first_look(one, quiet(policy, one, NOON)) < HOUR
