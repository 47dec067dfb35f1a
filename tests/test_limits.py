"""Caps and breaker, as a function and through whole sweeps: over any of them nothing is acted on, and a release lets go what was seen."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from fakes.builders import DAY, HOUR, NOW
from fakes.fake_deployment import POLICY, Enforcer, of, policy
from fakes.judged_cases import case
from reaper.actions import hold_ledger, holds
from reaper.actions.holds import RunScope
from reaper.errors import CloudError, Reason
from reaper.ledger.in_memory import InMemoryLedger
from reaper.limits import IdleShare, PastRuns, count_places, idle_jumps
from reaper.limits import hold_over_limits as limited_steps
from reaper.model import Case, Mode, Result, State, Status, Step, StepName
from reaper.policy import office_hours
from reaper.policy.schema import Limits


def fleet(count: int, busy: int = 0, **limits: Any) -> Enforcer:
    """`count` idle things and `busy` used ones, all warned of, all due at the next sweep."""
    there = Enforcer()
    there.policy = limited(**limits)
    for index in range(count):
        there.depot.add(f"idle-{index:02}")
    for index in range(busy):
        there.depot.add(f"busy-{index:02}", uses=[NOW + day * DAY / 2 for day in range(60)])
    for _ in range(3):
        there.sweep()
        there.now += HOUR
    there.now = NOW + 3 * DAY
    return there


def limited(**limits: Any) -> Any:
    said = {"max_acts": 20, "max_share": "100%", "max_usd_per_hour": 1000, "max_jump": "100%", **limits}
    return policy(POLICY.replace("{max_acts: 20, max_share: 100%, max_usd_per_hour: 1000}", str(said).replace("'", "")))


def moves(there: Enforcer) -> list[str]:
    return [f.step.name.value for f in there.sweep().findings if f.case.resource.name.startswith("idle")]


@pytest.mark.parametrize(
    ("count", "busy", "limits", "held"),
    [
        pytest.param(3, 0, {"max_acts": 3}, False, id="as many as may be"),
        pytest.param(4, 0, {"max_acts": 3}, True, id="one more than may be"),
        pytest.param(1, 0, {"max_acts": 0}, True, id="none may be"),
        pytest.param(2, 6, {"max_share": "25%"}, False, id="a quarter of them"),
        pytest.param(3, 6, {"max_share": "25%"}, True, id="more than a quarter of them"),
        pytest.param(1, 0, {"max_share": "25%"}, False, id="the only one there is"),
        pytest.param(2, 1, {"max_share": "25%"}, True, id="more than the one that is always allowed"),
        pytest.param(1, 9, {"max_share": "0%"}, True, id="no share at all"),
        pytest.param(2, 0, {"max_usd_per_hour": 2.816}, False, id="exactly as dear as may be"),
        pytest.param(2, 0, {"max_usd_per_hour": 2.82}, False, id="two at $1.408 an hour"),
        pytest.param(2, 0, {"max_usd_per_hour": 2.8}, True, id="dearer than may be"),
    ],
)
def test_over_a_limit_all_acts_are_held(count, busy, limits, held):
    there = fleet(count, busy, **limits)
    assert moves(there) == (["hold"] if held else ["stop"]) * count
    assert bool(there.depot.log) is not held


def test_a_held_act_says_why_and_how_many_and_what_to_do_and_admins_are_told():
    there = fleet(4, max_acts=3)
    found = of(there.sweep(), "idle-00")
    assert found.outcome.result is Result.PLANNED
    since = "would stop, but is on hold since 2026-11-24 10:17 UTC"
    assert found.step.because == f"{since}: 4 actions are more than max_acts: 3. `reaper release` releases it"
    assert any("on hold" in m.text.lower() and m.audience == "admins" for m in there.post.messages[-3:])


def test_one_action_is_one():
    assert "1 action is more than max_acts: 0" in of(fleet(1, max_acts=0).sweep(), "idle-00").step.because


def test_notices_still_go_out_while_acts_are_held():
    there = fleet(4, max_acts=3)
    there.depot.add("late")
    found = of(there.sweep(), "late")
    assert (found.step.name, found.outcome.result) == (StepName.WARN, Result.DONE)


def test_a_sweep_that_is_back_under_the_limit_goes_on_by_itself():
    there = fleet(4, max_acts=3)
    assert moves(there) == ["hold"] * 4
    there.depot.things["idle-00"].uses.append(there.now + HOUR)
    there.now += 2 * HOUR
    assert sorted(moves(there)) == ["none", "stop", "stop", "stop"]


def test_a_release_lets_go_what_was_held_when_it_was_given():
    there = fleet(4, max_acts=3)
    assert moves(there) == ["hold"] * 4
    there.now += HOUR
    hold_ledger.release_hold(there.ledger, "lee@example.com", there.now)
    there.now += HOUR
    assert moves(there) == ["stop"] * 4


def test_a_release_at_the_very_moment_of_the_hold_counts():
    there = fleet(4, max_acts=3)
    assert moves(there) == ["hold"] * 4
    hold_ledger.release_hold(there.ledger, "lee@example.com", there.now)
    assert moves(there) == ["stop"] * 4


def test_a_release_says_nothing_of_what_nobody_had_seen_held():
    there = fleet(4, max_acts=3)
    hold_ledger.release_hold(there.ledger, "lee@example.com", there.now - HOUR)
    assert moves(there) == ["hold"] * 4
    there.now += HOUR
    assert moves(there) == ["hold"] * 4


def test_a_hold_is_known_until_it_is_released_and_again_when_there_is_a_new_one():
    there = fleet(4, max_acts=3)
    assert hold_ledger.current_holds(there.ledger) == []
    there.sweep()
    [found] = hold_ledger.current_holds(there.ledger)
    assert (found.run, found.since, found.limit) == (f"run-{there.runs}", there.now, "actions")
    hold_ledger.release_hold(there.ledger, "lee@example.com", there.now)
    assert hold_ledger.current_holds(there.ledger) == []
    there.now += DAY
    there.sweep()
    assert [h.since for h in hold_ledger.current_holds(there.ledger)] == [there.now]


def test_a_release_is_over_after_a_day():
    there = fleet(4, max_acts=3)
    there.sweep()
    hold_ledger.release_hold(there.ledger, "lee@example.com", there.now)
    there.now += DAY
    assert moves(there) == ["hold"] * 4


def broken(there: Enforcer) -> None:
    """The signal of use breaks down: everything seems idle since long ago."""
    for thing in there.depot.things.values():
        thing.uses.clear()


@pytest.mark.parametrize("every", [pytest.param(DAY, id="daily"), pytest.param(HOUR / 2, id="twice an hour")])
def test_a_jump_of_the_idle_share_trips_the_breaker_and_stays_tripped(every):
    there = fleet(2, 8, max_jump="25%")
    there.now = NOW + 2 * DAY
    broken(there)
    for _ in range(4 * DAY // every):
        there.now += every
        report = there.sweep()
        assert len(there.depot.log) <= 2
    held = of(report, "idle-00").step
    assert held.name is StepName.HOLD
    assert "are idle, up from 20%" in held.because or "suddenly many more were idle" in held.because
    assert there.depot.log == []
    hold_ledger.release_hold(there.ledger, "lee@example.com", there.now)
    there.now += HOUR
    assert "stop" in moves(there)
    there.depot.add("another", created=NOW - 90 * DAY)
    for _ in range(5):
        there.now += DAY
        there.sweep()
    assert "another" in {name for _, name, _ in there.depot.log}


def test_without_the_breaker_all_of_them_would_be_stopped():
    there = fleet(2, 8, max_jump="100%")
    there.now = NOW + 2 * DAY
    broken(there)
    for _ in range(5):
        there.now += DAY
        there.sweep()
    assert len(there.depot.log) == 10


def test_where_earlier_sweeps_cannot_be_read_everything_is_held():
    there = fleet(1)

    def summaries(*given: Any) -> Any:
        raise CloudError(Reason.THROTTLED, "dynamodb:Query", "still throttled")

    there.ledger.statistics = summaries  # type: ignore[method-assign]
    report = there.sweep()
    found = of(report, "idle-00")
    assert (found.step.name, there.depot.log) == (StepName.HOLD, [])
    assert "could not be read" in found.step.because
    assert [c.kind for c in report.coverage if c.status is not Status.OK] == ["ledger"]
    there.depot.things["idle-00"].uses.append(there.now)
    assert "ledger" in [c.kind for c in there.sweep().coverage], "also where nothing is due"


def test_the_dearest_goes_first():
    there = fleet(2)
    there.depot.things["idle-01"].instance = "ml.p4d.24xlarge"
    there.sweep()
    assert [name for _, name, _ in there.depot.log] == ["idle-01", "idle-00"]


def test_a_release_lasts_as_long_as_is_said():
    there = fleet(4, max_acts=3)
    assert hold_ledger.release_hold(there.ledger, "lee", there.now, timedelta(hours=2)).valid_until == there.now + timedelta(
        hours=2
    )


def test_sweeps_that_saw_nothing_say_nothing_of_what_is_usual():
    cases = [case() for _ in range(8)]
    place, usual = holds.kind_in_target_of(cases[0]), [IdleShare(seen=8, idle=1)] * 3
    assert place in idle_jumps(count_places(cases), Limits(), {place: [IdleShare(seen=0, idle=0), *usual]})
    assert idle_jumps(count_places(cases), Limits(), {place: [IdleShare(seen=0, idle=0)] * 3}) == {}


def two_regions(**limits: Any) -> Enforcer:
    """Two things that are due in each of two regions."""
    there = fleet(4, **limits)
    for name in ("idle-02", "idle-03"):
        there.depot.things[name].region = "eu-west-1"
    there.regions = ("us-east-1", "eu-west-1")
    there.now = NOW
    there.ledger = InMemoryLedger()
    there.sweep()
    there.now += 3 * DAY
    return there


def test_what_a_wider_sweep_held_is_not_done_in_slices():
    there = two_regions(max_acts=3)
    assert {f.step.name for f in there.sweep().findings} == {StepName.HOLD}
    there.now += HOUR
    for region in there.regions:
        found = there.sweep(regions=(region,)).findings
        assert {f.step.name for f in found} == {StepName.HOLD}
    assert "4 actions are more than max_acts: 3" in found[0].step.because
    assert there.depot.log == []
    hold_ledger.release_hold(there.ledger, "lee", there.now)
    there.now += HOUR
    there.sweep(regions=("eu-west-1",))
    assert len(there.depot.log) == 2


def test_a_sweep_as_wide_that_is_under_the_limit_ends_the_hold():
    there = two_regions(max_acts=3)
    there.sweep()
    there.depot.things["idle-00"].uses.append(there.now + HOUR)
    there.now += 2 * HOUR
    there.sweep()
    assert len(there.depot.log) == 3


def test_sweeps_that_only_notify_do_not_teach_the_breaker_that_a_breakdown_is_usual():
    there = fleet(2, 8, max_jump="25%")
    there.now = NOW + 2 * DAY
    broken(there)
    for _ in range(12):
        there.now += 2 * HOUR
        there.sweep(Mode.NOTIFY)
    for _ in range(4):
        there.now += DAY
        there.sweep()
    assert there.depot.log == []


def test_a_release_in_one_region_does_not_blind_the_breaker_of_another():
    there = fleet(2, 8, max_jump="25%", max_acts=1)
    there.now = NOW + 3 * DAY
    there.sweep()
    hold_ledger.release_hold(there.ledger, "lee", there.now)
    for _ in range(2):
        there.now += HOUR
        there.sweep()
    done = len(there.depot.log)
    broken(there)
    for _ in range(5):
        there.now += DAY
        there.sweep()
    assert len(there.depot.log) == done


def judged(count: int, idle: int) -> list[Case]:
    return [case(State.IDLE if index < idle else State.ACTIVE) for index in range(count)]


@pytest.mark.parametrize(
    ("now", "before", "expected"),
    [
        pytest.param((20, 3), (20, 0), False, id="three more are few"),
        pytest.param((10, 4), (20, 0), True, id="four more, and a great share"),
        pytest.param((16, 4), (16, 0), False, id="just the share that is allowed"),
        pytest.param((5, 4), (20, 2), False, id="two more in a fleet that shrank"),
    ],
)
def test_a_jump_is_of_more_than_few_and_of_a_greater_share_than_allowed(now, before, expected):
    cases = judged(*now)
    shares = {holds.kind_in_target_of(cases[0]): [IdleShare(seen=before[0], idle=before[1])] * 3}
    assert bool(idle_jumps(count_places(cases), Limits(), shares)) is expected


def test_the_share_is_counted_kind_by_kind():
    other = [replace(c, resource=replace(c.resource, kind="sagemaker-notebook")) for c in judged(4, 1)]
    cases = [replace(c, resource=replace(c.resource, id=f"arn:{n}")) for n, c in enumerate(judged(4, 1) + other)]
    acts = [(c, Step(name=StepName.STOP if c.verdict.state is State.IDLE else StepName.NONE, because="due")) for c in cases]
    steps = limited_steps(acts, {}, Limits(), PastRuns(), RunScope(run="r", now=NOW, read_places=frozenset())).steps
    assert [s.name for s in steps].count(StepName.STOP) == 2


# --- what a calendar asks for, and what has no price


def caps(*cases: Case, limits: Limits | None = None) -> list[StepName]:
    """What becomes of a stop of each of these; all of them are due."""
    due = [
        (replace(c, resource=replace(c.resource, id=f"arn:{n}")), Step(name=StepName.STOP, because="due"))
        for n, c in enumerate(cases)
    ]
    look = RunScope(run="r", now=NOW, read_places=frozenset({holds.kind_in_target_of(case())}))
    return [s.name for s in limited_steps(due, {}, limits or Limits(), PastRuns(), look).steps]


OFFICE = office_hours.parse_hours("mon-fri 07:00-21:00", "UTC")
ALL = {"max_share": "100%"}


def plain(usd: float | None = 1.0) -> Case:
    return replace(case(), usd_per_hour=usd)


def calendar(usd: float | None = 1.0, **given: Any) -> Case:
    return replace(case(hours=replace(OFFICE, **given)), usd_per_hour=usd)


def test_over_max_scheduled_only_the_calendars_stops_are_on_hold():
    limits = Limits(max_scheduled=2, **ALL)
    assert caps(calendar(), calendar(), plain(), limits=limits) == [StepName.STOP] * 3
    assert caps(calendar(), calendar(), calendar(), plain(), limits=limits) == [StepName.HOLD] * 3 + [StepName.STOP]


def test_what_a_calendar_asks_for_counts_neither_for_max_acts_nor_for_max_share():
    assert caps(*[calendar()] * 30, plain(), limits=Limits(max_acts=1)) == [StepName.STOP] * 31
    assert (
        caps(*[calendar()] * 3, plain(), plain(), limits=Limits(max_acts=1, **ALL)) == [StepName.STOP] * 3 + [StepName.HOLD] * 2
    )


def test_a_calendars_resources_make_no_fleet_of_which_more_others_may_go():
    assert caps(*[calendar()] * 6, plain(), plain(), limits=Limits()) == [StepName.STOP] * 6 + [StepName.HOLD] * 2


def test_hours_that_only_a_tag_has_count_like_any_other():
    assert caps(*[calendar(by_rule=False)] * 2, limits=Limits(max_acts=1, **ALL)) == [StepName.HOLD] * 2


def test_what_is_due_in_a_place_that_was_denied_in_part_is_on_hold_like_the_rest():
    due = [(plain(), Step(name=StepName.STOP, because="due"))]
    found = limited_steps(due, {}, Limits(max_acts=0), PastRuns(), RunScope(run="r", now=NOW, read_places=frozenset()))
    assert [s.name for s in found.steps] == [StepName.HOLD]
    assert found.since == {due[0][0].resource.id: {NOW}}


def test_over_max_usd_per_hour_everything_is_on_hold():
    assert caps(calendar(150.0), plain(51.0), limits=Limits(**ALL)) == [StepName.HOLD] * 2
    assert caps(calendar(150.0), plain(50.0), limits=Limits(**ALL)) == [StepName.STOP] * 2


def test_where_the_file_sets_dollars_what_has_no_price_and_only_that_is_on_hold():
    found = caps(plain(None), plain(), calendar(None), limits=Limits(max_usd_per_hour=1000, **ALL))
    assert found == [StepName.HOLD, StepName.STOP, StepName.STOP]


def test_a_calendars_stops_without_a_price_count_like_its_others():
    limits = Limits(max_usd_per_hour=1000, max_scheduled=1, **ALL)
    assert caps(calendar(None), calendar(None), limits=limits) == [StepName.HOLD] * 2


def test_the_default_alone_holds_nothing_for_want_of_a_price():
    assert caps(plain(None), plain(), calendar(None), limits=Limits(**ALL)) == [StepName.STOP] * 3


def test_what_is_on_hold_for_want_of_a_price_is_not_one_too_many():
    assert caps(plain(None), plain(), limits=Limits(max_usd_per_hour=1000, max_acts=1, **ALL)) == [StepName.HOLD, StepName.STOP]


def test_a_policy_file_that_sets_dollars_holds_what_has_no_price():
    there = fleet(2)
    there.depot.things["idle-00"].instance = "ml.nobody.knows"
    report = there.sweep()
    assert [of(report, f"idle-0{n}").step.name for n in (0, 1)] == [StepName.HOLD, StepName.STOP]
    assert "its price is not known, and the policy sets max_usd_per_hour: 1000" in of(report, "idle-00").step.because
