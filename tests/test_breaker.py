"""The breaker: a jump of the idle share in one place holds that place, and what says nothing of use teaches nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from fakes.builders import DAY, HOUR, NOW, TARGET
from fakes.fake_cloud import DENIED, STARTABLE
from fakes.fake_deployment import POLICY, FakeDeployment, jumped_places, policy, standing_holds
from fakes.judged_cases import case
from reaper.calendars import office_hours
from reaper.limits import caps, holds
from reaper.model import State, StepName

KIND = "sagemaker-endpoint"
LIMITS = "{max_acts: 20, max_share: 100%, max_usd_per_hour: 1000}"
REGIONS = ("us-east-1", "eu-west-1")


def fleet(idle: int = 2, busy: int = 8, regions: tuple[str, ...] = REGIONS[:1]) -> FakeDeployment:
    """So many things in each region, days of which are known."""
    deployment = FakeDeployment(
        policy=policy(POLICY.replace(LIMITS, "{max_acts: 50, max_share: 100%, max_usd_per_hour: 1000}")), regions=regions
    )
    for region in regions:
        for index in range(idle):
            deployment.cloud.add(f"{region}-idle-{index}", region=region)
        for index in range(busy):
            uses = [NOW + day * DAY / 2 for day in range(60)]
            deployment.cloud.add(f"{region}-busy-{index}", region=region, uses=uses)
    for _ in range(3):
        deployment.sweep()
        deployment.now += HOUR
    deployment.know_days()
    return deployment


def silence(deployment: FakeDeployment, region: str) -> None:
    """The signal of use breaks down there: everything seems idle since long ago."""
    for thing in deployment.cloud.things.values():
        if thing.region == region:
            thing.uses.clear()


def blind(deployment: FakeDeployment, length: timedelta, names: str = "") -> None:
    """Nothing is known of these things for so long from now on."""
    for name, thing in deployment.cloud.things.items():
        if name.startswith(names):
            start, end = deployment.now - DAY, deployment.now + length
            thing.metric_gaps.append((start, end))
            thing.uses = [use for use in thing.uses if not start <= use < end]


def acted(deployment: FakeDeployment, region: str) -> int:
    return sum(1 for _, name, _ in deployment.cloud.log if name.startswith(region))


def rows(deployment: FakeDeployment) -> int:
    return len(deployment.ledger.statistics(TARGET, KIND, 999))


def test_jump_in_one_place_puts_only_that_place_on_hold():
    deployment = fleet(regions=REGIONS)
    silence(deployment, "eu-west-1")
    for _ in range(8):
        deployment.now += DAY / 2
        deployment.sweep()
    assert (acted(deployment, "us-east-1"), acted(deployment, "eu-west-1")) == (2, 0)
    assert jumped_places(deployment) == {("aws/123456789012/eu-west-1", KIND)}


def test_actions_on_hold_by_a_jump_do_not_count_for_max_acts():
    deployment = fleet(regions=REGIONS)
    deployment.policy = policy(POLICY.replace(LIMITS, "{max_acts: 2, max_share: 100%, max_usd_per_hour: 1000}"))
    silence(deployment, "eu-west-1")
    for _ in range(8):
        deployment.now += DAY / 2
        deployment.sweep()
    assert acted(deployment, "us-east-1") == 2


def test_blind_sweep_does_not_count_as_zero_idle():
    deployment = fleet()
    known = rows(deployment)
    blind(deployment, 10 * DAY)
    for _ in range(4):
        deployment.sweep()
        deployment.now += HOUR
    assert rows(deployment) == known


@pytest.mark.parametrize(("unknown", "counts"), [(5, True), (6, False)])
def test_share_is_known_with_at_most_half_unknown(unknown: int, counts: bool):
    deployment = fleet(busy=8)
    known = rows(deployment)
    for index in range(unknown):
        deployment.cloud.things[f"us-east-1-busy-{index}"].incomplete_replies = True
        deployment.cloud.things[f"us-east-1-busy-{index}"].uses.clear()
    deployment.sweep()
    assert rows(deployment) == known + counts


def test_denied_sweep_does_not_change_the_usual_share():
    deployment = fleet()
    known = rows(deployment)

    def denied(call: str, name: str) -> None:
        if call == "list":
            raise DENIED

    deployment.cloud.fail_on = denied
    deployment.sweep()
    assert rows(deployment) == known


def test_long_outage_leaves_the_breaker_unchanged():
    deployment = fleet()
    blind(deployment, 12 * DAY / 2)
    for _ in range(12):
        deployment.sweep()
        deployment.now += DAY / 2
    silence(deployment, "us-east-1")
    for _ in range(8):
        deployment.sweep()
        deployment.now += DAY / 2
    assert (acted(deployment, "us-east-1"), len(jumped_places(deployment))) == (0, 1)


def test_caps_alone_protect_before_three_sweeps():
    deployment = fleet()
    deployment.ledger = FakeDeployment().ledger
    silence(deployment, "us-east-1")
    deployment.sweep()
    deployment.now += 3 * DAY
    deployment.sweep()
    assert acted(deployment, "us-east-1") == 10


def in_a_jump() -> FakeDeployment:
    """Everything is silent and due, and the first two are truly idle."""
    deployment = fleet()
    silence(deployment, "us-east-1")
    for _ in range(8):
        deployment.now += DAY / 2
        deployment.sweep()
    assert (acted(deployment, "us-east-1"), len(jumped_places(deployment))) == (0, 1)
    return deployment


def heal(deployment: FakeDeployment) -> None:
    for name, thing in deployment.cloud.things.items():
        if "busy" in name:
            thing.uses.append(deployment.now)


def test_jump_ends_when_the_share_is_back_to_normal():
    deployment = in_a_jump()
    heal(deployment)
    deployment.now += HOUR
    deployment.sweep()
    assert (jumped_places(deployment), acted(deployment, "us-east-1")) == (set(), 0)
    deployment.now += 3 * DAY - HOUR
    heal(deployment)
    deployment.now += HOUR
    deployment.sweep()
    assert acted(deployment, "us-east-1") == 2, "their owners got new notices"


def test_blind_sweep_does_not_end_a_jump():
    deployment = in_a_jump()
    blind(deployment, DAY, "us-east-1-busy")
    deployment.now += HOUR
    deployment.sweep()
    assert (len(jumped_places(deployment)), acted(deployment, "us-east-1")) == (1, 0)


def test_lasting_jump_does_not_become_usual():
    deployment = in_a_jump()
    known = rows(deployment)
    for _ in range(12):
        deployment.now += DAY / 2
        deployment.sweep()
    assert (rows(deployment), acted(deployment, "us-east-1")) == (known, 0)


def test_release_restarts_the_usual_share_of_that_place():
    deployment = in_a_jump()
    holds.release_actions(deployment.ledger, "lee", deployment.now)
    deployment.now += HOUR
    deployment.sweep()
    assert (acted(deployment, "us-east-1"), jumped_places(deployment)) == (0, set())
    holds.release_actions(deployment.ledger, "lee", deployment.now)
    deployment.now += 3 * DAY
    deployment.sweep()
    assert (acted(deployment, "us-east-1"), jumped_places(deployment)) == (10, set()), "a later release forgets nothing of it"


# --- office hours


def test_resources_on_office_hours_are_not_part_of_the_idle_share():
    hours = office_hours.parse_hours("mon-fri 07:00-21:00", "UTC")
    tagged = replace(hours, by_rule=False)
    cases = [case(), case(State.ACTIVE), case(State.UNKNOWN), *(case(hours=hours) for _ in range(5)), case(hours=tagged)]
    [count] = caps.count_places(cases).values()
    assert (count.seen, count.idle) == (3, 2)


def test_half_a_fleet_on_office_hours_stops_every_evening():
    deployment = FakeDeployment(now=datetime.fromisoformat("2026-11-16T10:00+00:00"))
    deployment.cloud.kind_name = STARTABLE
    hours = "[{name: office, match: {name: 'desk-*'}, grace: 1h, idle_after: 1h, hours: {on: 'mon-fri 07:00-19:00', tz: UTC}}]"
    deployment.policy = policy(POLICY.replace("100%,", "25%,") + f"rules: {hours}\n")
    for index in range(6):
        deployment.cloud.add(f"desk-{index}", uses=[deployment.now + day * DAY + 8 * HOUR for day in range(-3, 5)])
        deployment.cloud.add(f"other-{index}", uses=[deployment.now + n * DAY / 4 for n in range(-8, 40)])
    for hour in range(0, 3 * 24, 3):
        deployment.sweep()
        assert (standing_holds(deployment), jumped_places(deployment)) == ([], set()), hour
        deployment.now += 3 * HOUR
    stops = [when.date() for move, _, when in deployment.cloud.log if move is StepName.STOP]
    assert [stops.count(day) for day in sorted(set(stops))] == [6] * 3
