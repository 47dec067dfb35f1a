"""The breaker: a jump of the idle share in one place holds that place, and what says nothing of use teaches nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from fakes.builders import DAY, HOUR, NOW, TARGET
from fakes.fake_cloud import DENIED
from fakes.fake_deployment import POLICY, Enforcer, policy
from fakes.judged_cases import case
from reaper import limits
from reaper.actions import hold_ledger, holds
from reaper.ledger.port import RunStatistics
from reaper.model import State, StepName
from reaper.policy import office_hours

KIND = "sagemaker-endpoint"
LIMITS = "{max_acts: 20, max_share: 100%, max_usd_per_hour: 1000}"
REGIONS = ("us-east-1", "eu-west-1")


def fleet(idle: int = 2, busy: int = 8, regions: tuple[str, ...] = REGIONS[:1]) -> Enforcer:
    """So many things in each region, three sweeps of which are known."""
    there = Enforcer(
        policy=policy(POLICY.replace(LIMITS, "{max_acts: 50, max_share: 100%, max_usd_per_hour: 1000}")), regions=regions
    )
    for region in regions:
        for index in range(idle):
            there.depot.add(f"{region}-idle-{index}", region=region)
        for index in range(busy):
            uses = [NOW + day * DAY / 2 for day in range(60)]
            there.depot.add(f"{region}-busy-{index}", region=region, uses=uses)
    for _ in range(3):
        there.sweep()
        there.now += HOUR
    return there


def silence(there: Enforcer, region: str) -> None:
    """The signal of use breaks down there: everything seems idle since long ago."""
    for thing in there.depot.things.values():
        if thing.region == region:
            thing.uses.clear()


def blind(there: Enforcer, length: timedelta, names: str = "") -> None:
    """Nothing is known of these things for so long from now on."""
    for name, thing in there.depot.things.items():
        if name.startswith(names):
            start, end = there.now - DAY, there.now + length
            thing.deaf.append((start, end))
            thing.uses = [use for use in thing.uses if not start <= use < end]


def acted(there: Enforcer, region: str) -> int:
    return sum(1 for _, name, _ in there.depot.log if name.startswith(region))


def rows(there: Enforcer) -> int:
    return len(there.ledger.statistics(TARGET, KIND, 999))


def jumping(there: Enforcer) -> list[frozenset[holds.KindInTarget]]:
    return [holds.covered_places(h) for h in hold_ledger.current_holds(there.ledger) if h.limit == "jump"]


def test_a_jump_in_one_place_holds_that_place_only():
    there = fleet(regions=REGIONS)
    silence(there, "eu-west-1")
    for _ in range(8):
        there.now += DAY / 2
        there.sweep()
    assert (acted(there, "us-east-1"), acted(there, "eu-west-1")) == (2, 0)
    assert jumping(there) == [{("aws/123456789012/eu-west-1", KIND)}]


def test_what_a_jump_holds_is_not_too_many_for_the_others():
    there = fleet(regions=REGIONS)
    there.policy = policy(POLICY.replace(LIMITS, "{max_acts: 2, max_share: 100%, max_usd_per_hour: 1000}"))
    silence(there, "eu-west-1")
    for _ in range(8):
        there.now += DAY / 2
        there.sweep()
    assert acted(there, "us-east-1") == 2


def test_a_blind_sweep_is_no_sweep_in_which_nothing_was_idle():
    there = fleet()
    known = rows(there)
    blind(there, 10 * DAY)
    for _ in range(4):
        there.sweep()
        there.now += HOUR
    assert rows(there) == known


@pytest.mark.parametrize(("unknown", "counts"), [(5, True), (6, False)])
def test_at_most_half_may_be_unknown(unknown: int, counts: bool):
    there = fleet(busy=8)
    known = rows(there)
    for index in range(unknown):
        there.depot.things[f"us-east-1-busy-{index}"].patchy = True
        there.depot.things[f"us-east-1-busy-{index}"].uses.clear()
    there.sweep()
    assert rows(there) == known + counts


def test_a_denied_sweep_teaches_nothing():
    there = fleet()
    known = rows(there)

    def denied(call: str, name: str) -> None:
        if call == "list":
            raise DENIED

    there.depot.blunder = denied
    there.sweep()
    assert rows(there) == known


def test_an_outage_of_more_sweeps_than_count_leaves_the_breaker_as_it_was():
    there = fleet()
    blind(there, 12 * DAY / 2)
    for _ in range(12):
        there.sweep()
        there.now += DAY / 2
    silence(there, "us-east-1")
    for _ in range(8):
        there.sweep()
        there.now += DAY / 2
    assert (acted(there, "us-east-1"), len(jumping(there))) == (0, 1)


def test_the_last_ten_count_however_many_jumps_an_older_ledger_has_since():
    there = fleet()
    for index in range(150):
        told = RunStatistics(run=f"old-{index}", target=TARGET, kind=KIND, started=there.now, seen=10, idle=10, was_jump=True)
        there.ledger.record_statistics(told)
        there.now += HOUR
    silence(there, "us-east-1")
    for _ in range(8):
        there.sweep()
        there.now += DAY / 2
    assert acted(there, "us-east-1") == 0


def test_with_fewer_than_three_sweeps_the_caps_alone_protect():
    there = fleet()
    there.ledger = Enforcer().ledger
    silence(there, "us-east-1")
    there.sweep()
    there.now += 3 * DAY
    there.sweep()
    assert acted(there, "us-east-1") == 10


def in_a_jump() -> Enforcer:
    """Everything is silent and due, and the first two are truly idle."""
    there = fleet()
    silence(there, "us-east-1")
    for _ in range(8):
        there.now += DAY / 2
        there.sweep()
    assert (acted(there, "us-east-1"), len(jumping(there))) == (0, 1)
    return there


def heal(there: Enforcer) -> None:
    for name, thing in there.depot.things.items():
        if "busy" in name:
            thing.uses.append(there.now)


def test_a_jump_ends_when_the_share_is_as_it_was():
    there = in_a_jump()
    heal(there)
    there.now += HOUR
    there.sweep()
    assert (jumping(there), acted(there, "us-east-1")) == ([], 2)


def test_a_blind_sweep_does_not_end_a_jump():
    there = in_a_jump()
    blind(there, DAY, "us-east-1-busy")
    there.now += HOUR
    there.sweep()
    assert (len(jumping(there)), acted(there, "us-east-1")) == (1, 0)


def test_a_jump_lasts_as_long_as_it_is_one_and_teaches_nothing():
    there = in_a_jump()
    known = rows(there)
    for _ in range(12):
        there.now += DAY / 2
        there.sweep()
    assert (rows(there), acted(there, "us-east-1")) == (known, 0)


def test_after_a_release_what_is_usual_is_learnt_anew_in_that_place():
    there = in_a_jump()
    given = hold_ledger.release_hold(there.ledger, "lee", there.now)
    assert given.usual_since == {("aws/123456789012/us-east-1", KIND): there.now}
    there.now += HOUR
    there.sweep()
    assert (acted(there, "us-east-1"), jumping(there)) == (10, [])
    later = hold_ledger.release_hold(there.ledger, "lee", there.now)
    assert later.usual_since == given.usual_since, "a later release forgets nothing of it"


# --- office hours


def test_what_keeps_its_rules_hours_counts_neither_as_seen_nor_as_idle():
    hours = office_hours.parse_hours("mon-fri 07:00-21:00", "UTC")
    tagged = replace(hours, by_rule=False)
    cases = [case(), case(State.ACTIVE), case(State.UNKNOWN), *(case(hours=hours) for _ in range(5)), case(hours=tagged)]
    [count] = limits.count_places(cases).values()
    assert limits.idle_share(count) == limits.IdleShare(seen=3, idle=2)


def test_half_a_fleet_on_office_hours_is_stopped_every_evening():
    there = Enforcer(now=datetime.fromisoformat("2026-11-16T10:00+00:00"))
    hours = "[{name: office, match: {name: 'desk-*'}, grace: 1h, idle_after: 1h, hours: {on: 'mon-fri 07:00-19:00', tz: UTC}}]"
    there.policy = policy(POLICY.replace("100%,", "25%,") + f"rules: {hours}\n")
    for index in range(6):
        there.depot.add(f"desk-{index}", uses=[there.now + day * DAY + 8 * HOUR for day in range(-3, 5)])
        there.depot.add(f"other-{index}", uses=[there.now + n * DAY / 4 for n in range(-8, 40)])
    for hour in range(0, 3 * 24, 3):
        there.sweep()
        assert not hold_ledger.current_holds(there.ledger), hour
        there.now += 3 * HOUR
    stops = [when.date() for move, _, when in there.depot.log if move is StepName.STOP]
    assert [stops.count(day) for day in sorted(set(stops))] == [6] * 3
