"""What spares a closer look: a resource that was used, created or changed lately is reported as if everything had been described."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fakes.builders import DAY, HOUR, resource
from reaper import registry
from reaper.evidence import first_read_from, is_recent
from reaper.judge import judge_resource
from reaper.model import BilledPart, Resource, Role, State, Verdict
from reaper.observation import CachedDescription, Observation, Reading, RecentSince, Series, Window
from reaper.observing import cache, windows
from reaper.observing.windows import observation_window
from reaper.policy import rules
from reaper.policy.parse import parse_policy
from reaper.policy.schema import Policy
from reaper.prices import PriceBook

NOON = datetime(2026, 11, 20, 12, 17, tzinfo=UTC)
"""A Friday."""
NIGHT = datetime(2026, 11, 20, 23, 17, tzinfo=UTC)
OFFICE = '{on: "mon-fri 07:00-21:00", tz: UTC}'
TYPE = "ml.g5.xlarge"
Ran = tuple[str | None, float | None]


def parse(text: str) -> Policy:
    return parse_policy(f"version: 1\n{text}", "policy.yaml", registry.kind_names())


def listed(**fields: Any) -> Resource:
    """An endpoint as the list names it: what it runs is not known."""
    return resource(parts=None, **fields)


def waits(text: str, one: Resource, now: datetime = NOON) -> tuple[float, float]:
    """The shortest and the longest wait that may hold for it, in hours."""
    short, long = rules.idle_after_range(parse(text), one, None, now)
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
def test_a_rule_shortens_the_wait_only_for_what_it_may_match(match: str, expected: tuple[float, float]):
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
    assert (
        waits(
            f"rules: [{{name: a, match: {{tags: {{team: web}}}}, hours: {OFFICE}}}]",
            listed(kind="sagemaker-notebook", tags=tags),
            now,
        )
        == expected
    )


def quiet(policy: Policy, one: Resource, now: datetime, ran: Ran = (None, None), *, priced: bool = True) -> Window:
    """The window of a sweep as it stands for that one resource, and for the type and price that an earlier sweep kept of it."""
    kind, usd = ran
    parts, mark = (BilledPart(component="Hosting", instance=kind or ""),), cache.revision_of(one.created, one.changed) or ""
    descriptions = (
        {one.id: CachedDescription(revision=mark, described_at=now - HOUR, parts=parts, size=f"{kind} x1")} if kind else {}
    )
    return replace(
        observation_window(policy, now),
        recent_since_by_id=windows.recent_since_by_id(
            [one], policy, book(kind, usd), now, lambda ids: descriptions, has_price=priced
        ),
    )


def book(kind: str | None, usd: float | None) -> PriceBook:
    """That one price, or none."""
    rows = {"Hosting": {kind: [usd, "list"]} if kind and usd else {}}
    return PriceBook({"aws": {"prices": {"us-east-1": rows}, "dates": {}, "as_of": "2026-11-01"}})


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


def in_short(
    policy: Policy, one: Resource, uses: list[float], now: datetime, ran: Ran = (None, None), *, priced: bool = True
) -> Verdict | None:
    """The verdict without a closer look; None for one that needs it."""
    stretch = quiet(policy, one, now, ran, priced=priced)
    observation = looked(one, uses, first_read_from(one, stretch), stretch, now)
    blind = replace(observation, unknown_because="it was used or changed too recently for a closer look")
    return judge_resource(blind, rules.effective_rule(policy, one, None, now), now) if is_recent(observation, stretch) else None


def in_full(policy: Policy, one: Resource, uses: list[float], usd: float | None, now: datetime) -> Verdict:
    """The verdict with everything described."""
    stretch = observation_window(policy, now)
    return judge_resource(looked(one, uses, stretch.start, stretch, now), rules.effective_rule(policy, one, usd, now), now)


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
    how=st.sampled_from(["listed", "kept", "never priced"]),
)
@example(DEAR, {}, [5.0], (90.0, 1.0), (TYPE, 9.0), NOON.replace(tzinfo=None), "listed")
@example(DEAR, {}, [5.0], (90.0, 1.0), (TYPE, 1.0), NOON.replace(tzinfo=None), "listed")
@example([], {}, [30.0], (90.0, 1.0), (TYPE, 1.0), NOON.replace(tzinfo=None), "listed")
@example(DEAR, {}, [5.0], (90.0, 80.0), (TYPE, 9.0), NOON.replace(tzinfo=None), "kept")
@example(DEAR, {}, [5.0], (90.0, 80.0), (TYPE, None), NOON.replace(tzinfo=None), "kept")
@example(DEAR, {}, [5.0], (90.0, 80.0), (TYPE, None), NOON.replace(tzinfo=None), "never priced")
def test_what_is_spared_a_closer_look_gets_the_verdict_of_one(
    specs: list, tags: dict, uses: list[float], born: tuple[float, float], run: tuple[str, float | None], at: datetime, how: str
):
    now = at.replace(tzinfo=UTC)
    rows = [{"match": match, **{k: v for k, v in more.items() if v}} for match, more in specs]
    text = ", ".join(f"{{name: r{n}" + "".join(f", {k}: {v}" for k, v in row.items()) + "}" for n, row in enumerate(rows))
    policy = parse(f"rules: [{text}]")
    one = listed(tags=tags, created=now - max(born) * HOUR, changed=now - min(born) * HOUR)
    priced = how != "never priced"
    known = replace(one, parts=(BilledPart(component="Hosting", instance=run[0]),), size=f"{run[0]} x1")
    known, usd = (known, run[1]) if priced else (replace(one, size="1 copy"), None)
    short = in_short(policy, one, uses, now, run if how == "kept" else (None, None), priced=priced)
    full = in_full(policy, known, uses, usd, now)
    if short:
        assert (short.state, short.last_busy) == (full.state, full.last_busy)
        assert short.because == full.because or short.state is not State.ACTIVE
        assert short.state is not State.IDLE
    idle_after = rules.effective_rule(policy, known, usd, now).idle_after
    least, most = rules.idle_after_range(policy, one, None, now, priced=priced)
    assert least <= idle_after <= most
    as_described = windows.recent_since_of(known, policy, book(run[0], usd), now)
    assert as_described is not None
    assert now - as_described.under_some_rule <= idle_after


@pytest.mark.parametrize(
    ("ran", "priced", "spared"),
    [
        pytest.param((None, None), True, False, id="nothing known of it"),
        pytest.param((TYPE, 9.0), True, False, id="dear when it was described"),
        pytest.param((TYPE, 1.0), True, True, id="cheap when it was described"),
        pytest.param((TYPE, None), True, True, id="of a type without price"),
        pytest.param((None, None), False, True, id="of a kind without prices"),
    ],
)
def test_a_rule_on_prices_asks_for_a_look_only_where_a_price_may_be_found(ran: Ran, priced: bool, spared: bool):
    policy = parse("rules: [{name: dear, match: {usd_per_hour: '>= 5'}, idle_after: 2h}]")
    one = listed(changed=NOON - 2 * DAY)
    verdict = in_short(policy, one, [5.0], NOON, ran, priced=priced)
    assert verdict == (in_full(policy, one, [5.0], None, NOON) if spared else None)


def test_an_instance_type_without_a_price_needs_no_look_for_one():
    policy = parse("rules: [{name: dear, match: {usd_per_hour: '>= 5'}, idle_after: 2h}]")
    one = resource(parts=(BilledPart(component="Hosting", instance="ml.zz9.large"),))
    assert in_short(policy, one, [5.0], NOON) == in_full(policy, one, [5.0], None, NOON)


def test_a_kind_without_prices_still_needs_a_look_for_its_size():
    policy = parse("rules: [{name: big, match: {size: 'ml.p5.*'}, idle_after: 2h}]")
    assert in_short(policy, listed(), [5.0], NOON, priced=False) is None


def test_two_of_one_id_share_the_shorter_wait():
    policy = parse("rules: [{name: hot, match: {tags: {tier: hot}}, idle_after: 4h}]")
    hot, cold = listed(tags={"tier": "hot"}), listed()
    for both in ([hot, cold], [cold, hot]):
        assert windows.recent_since_by_id(both, policy, PriceBook(), NOON) == {
            hot.id: RecentSince(under_some_rule=NOON - 4 * HOUR, under_every_rule=NOON - DAY),
        }


def test_of_two_of_one_id_an_odd_one_leaves_both_the_shortest_wait_of_all():
    odd = listed(tags={"reaper:keep": 5})
    assert windows.recent_since_by_id([listed(), odd], parse(""), PriceBook(), NOON) == {}


def test_what_was_used_within_every_wait_is_spared_a_closer_look():
    policy = parse("rules: [{name: hot, match: {tags: {tier: hot}}, idle_after: 4h}]")
    assert in_short(policy, listed(), [23.0], NOON) is not None
    assert in_short(policy, listed(tags={"tier": "hot"}), [23.0], NOON) is None


def test_a_young_used_resource_needs_a_look_if_its_possible_rules_differ():
    policy = parse("rules: [{name: dear, match: {usd_per_hour: '>= 5'}, idle_after: 2h}]")
    young = listed(changed=NOON - HOUR)
    assert in_short(policy, young, [5.0], NOON) is None
    assert in_short(policy, young, [50.0], NOON) is not None


def test_of_what_is_young_the_last_use_is_told_however_long_ago():
    verdict = in_short(parse(""), listed(changed=NOON - HOUR), [99.0], NOON)
    assert verdict is not None
    assert (verdict.state, verdict.last_busy) == (State.YOUNG, (NOON - 99 * HOUR).replace(minute=0) + HOUR)


def test_a_first_look_reads_no_further_than_the_possible_rules_need():
    policy = parse("rules: [{name: slow, match: {tags: {tier: slow}}, idle_after: 14d}]")
    for tags, expected in (({}, DAY), ({"tier": "slow"}, 14 * DAY)):
        one = listed(tags=tags)
        assert timedelta() <= (NOON - expected) - first_read_from(one, quiet(policy, one, NOON)) < HOUR
