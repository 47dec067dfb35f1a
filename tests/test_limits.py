"""Caps and breaker, as a function and through whole sweeps: over any of them nothing is acted on, and a release lets go what was seen."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from fakes.builders import DAY, HOUR, NOW, TARGET
from fakes.fake_deployment import POLICY, FakeDeployment, finding_of, policy, standing_holds
from fakes.judged_cases import case
from fakes.memory_ledger import InMemoryLedger
from reaper.calendars import office_hours
from reaper.case import Case
from reaper.errors import CloudError, Reason
from reaper.finding import Finding, Step
from reaper.ledger.rows import RunStatistics
from reaper.limits import holds
from reaper.limits.caps import count_places, hold_over_limits, idle_jumps, usual_share
from reaper.limits.holds import ALL_ACCOUNTS, HoldRow, LimitName, RunScope, Usual
from reaper.model import Mode, Result, State, Status, StepName
from reaper.policy.schema import Limits


def fleet(count: int, busy: int = 0, **limits: Any) -> FakeDeployment:
    """`count` idle things and `busy` used ones, all warned of, all due at the next sweep."""
    deployment = FakeDeployment()
    deployment.policy = limited_policy(**limits)
    for index in range(count):
        deployment.cloud.add(f"idle-{index:02}")
    for index in range(busy):
        deployment.cloud.add(f"busy-{index:02}", uses=[NOW + day * DAY / 2 for day in range(60)])
    for _ in range(3):
        deployment.sweep()
        deployment.now += HOUR
    deployment.know_days()
    deployment.now = NOW + 3 * DAY
    return deployment


def limited(planned: list[tuple[Case, Step]], limits: Limits, scope: RunScope) -> tuple[list[Step], Any]:
    """The planned steps under these limits, in a ledger without holds, and since when they are on hold."""
    rows = {key: HoldRow() for key in (ALL_ACCOUNTS, holds.account_key(TARGET))}
    findings = [Finding(case=case, step=step, record_version=1) for case, step in planned]
    held, _ = hold_over_limits(findings, limits, rows, scope, count_places(case for case, _ in planned))
    return [f.step for f in held], {f.case.resource.id: frozenset(f.on_hold_since) for f in held if f.on_hold_since}


def limited_policy(**limits: Any) -> Any:
    all_limits = {"max_acts": 20, "max_share": "100%", "max_usd_per_hour": 1000, "max_jump": "100%", **limits}
    return policy(POLICY.replace("{max_acts: 20, max_share: 100%, max_usd_per_hour: 1000}", str(all_limits).replace("'", "")))


def moves(deployment: FakeDeployment) -> list[str]:
    return [f.step.name.value for f in deployment.sweep().findings if f.case.resource.name.startswith("idle")]


@pytest.mark.parametrize(
    ("count", "busy", "limits", "on_hold"),
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
def test_actions_over_a_limit_are_all_on_hold(count, busy, limits, on_hold):
    deployment = fleet(count, busy, **limits)
    assert moves(deployment) == (["hold"] if on_hold else ["stop"]) * count
    assert bool(deployment.cloud.log) is not on_hold


def test_hold_names_its_reason_and_command_and_notifies_admins():
    deployment = fleet(4, max_acts=3)
    finding = finding_of(deployment.sweep(), "idle-00")
    assert finding.outcome.result is Result.PLANNED
    since = "would stop, but is on hold since 2026-11-24 10:17 UTC"
    release = "Run `reaper release --account 123456789012` to allow it"
    assert finding.step.because == f"{since}: 4 actions in account 123456789012 exceed max_acts: 3. {release}"
    assert any("on hold" in m.text.lower() and m.audience == "admins" for m in deployment.channel.messages[-3:])


def test_hold_of_one_action_is_worded_in_the_singular():
    assert (
        "1 action in account 123456789012 exceeds max_acts: 0" in finding_of(fleet(1, max_acts=0).sweep(), "idle-00").step.because
    )


def test_notices_go_out_while_actions_are_on_hold():
    deployment = fleet(4, max_acts=3)
    deployment.cloud.add("late")
    finding = finding_of(deployment.sweep(), "late")
    assert (finding.step.name, finding.outcome.result) == (StepName.WARN, Result.DONE)


def test_sweep_back_under_the_limit_carries_out_its_actions():
    deployment = fleet(4, max_acts=3)
    assert moves(deployment) == ["hold"] * 4
    deployment.cloud.things["idle-00"].uses.append(deployment.now + HOUR)
    deployment.now += 2 * HOUR
    assert sorted(moves(deployment)) == ["none", "stop", "stop", "stop"]


def test_release_allows_actions_on_hold_when_given():
    deployment = fleet(4, max_acts=3)
    assert moves(deployment) == ["hold"] * 4
    deployment.now += HOUR
    holds.release_actions(deployment.ledger, "lee@example.com", deployment.now)
    deployment.now += HOUR
    assert moves(deployment) == ["stop"] * 4


def test_release_at_the_moment_of_the_hold_counts():
    deployment = fleet(4, max_acts=3)
    assert moves(deployment) == ["hold"] * 4
    holds.release_actions(deployment.ledger, "lee@example.com", deployment.now)
    assert moves(deployment) == ["stop"] * 4


def test_release_does_not_cover_later_actions():
    deployment = fleet(4, max_acts=3)
    holds.release_actions(deployment.ledger, "lee@example.com", deployment.now - HOUR)
    assert moves(deployment) == ["hold"] * 4
    deployment.now += HOUR
    assert moves(deployment) == ["hold"] * 4


def test_hold_is_known_until_its_release_and_from_the_next_hold_on():
    deployment = fleet(4, max_acts=3)
    assert standing_holds(deployment) == []
    deployment.sweep()
    [hold] = standing_holds(deployment)
    assert (hold.run, hold.since, hold.exceeded.limit) == (f"run-{deployment.runs}", deployment.now, LimitName.ACTIONS)
    holds.release_actions(deployment.ledger, "lee@example.com", deployment.now)
    assert standing_holds(deployment) == []
    deployment.now += DAY
    deployment.sweep()
    assert [h.since for h in standing_holds(deployment)] == [deployment.now]


def test_release_ends_after_a_day():
    deployment = fleet(4, max_acts=3)
    deployment.sweep()
    holds.release_actions(deployment.ledger, "lee@example.com", deployment.now)
    deployment.now += DAY
    assert moves(deployment) == ["hold"] * 4


def broken(deployment: FakeDeployment) -> None:
    """The signal of use breaks down: everything seems idle since long ago."""
    for thing in deployment.cloud.things.values():
        thing.uses.clear()


@pytest.mark.parametrize("every", [pytest.param(DAY, id="daily"), pytest.param(HOUR / 2, id="twice an hour")])
def test_jump_of_the_idle_share_trips_the_breaker_until_a_release(every):
    deployment = fleet(2, 8, max_jump="25%")
    deployment.now = NOW + 2 * DAY
    broken(deployment)
    for _ in range(4 * DAY // every):
        deployment.now += every
        report = deployment.sweep()
        assert len(deployment.cloud.log) <= 2
    step = finding_of(report, "idle-00").step
    assert step.name is StepName.HOLD
    assert "are idle, up from 20%" in step.because or "suddenly many more were idle" in step.because
    assert deployment.cloud.log == []
    holds.release_actions(deployment.ledger, "lee@example.com", deployment.now)
    deployment.now += HOUR
    assert moves(deployment) == ["warn"] * 2, "notices from before the jump lapsed"
    deployment.now += 3 * DAY
    assert moves(deployment) == ["stop"] * 2
    deployment.cloud.add("another", created=NOW - 90 * DAY)
    for _ in range(5):
        deployment.now += DAY
        deployment.sweep()
    assert "another" in {name for _, name, _ in deployment.cloud.log}


def test_fleet_would_be_stopped_without_the_breaker():
    deployment = fleet(2, 8, max_jump="100%")
    deployment.now = NOW + 2 * DAY
    broken(deployment)
    for _ in range(5):
        deployment.now += DAY
        deployment.sweep()
    assert len(deployment.cloud.log) == 10


def test_unreadable_earlier_sweeps_put_every_action_on_hold():
    """Earlier sweeps are read where so many are idle that it may be a jump."""
    deployment = fleet(5, max_jump="25%")

    def summaries(*args: Any) -> Any:
        raise CloudError(Reason.THROTTLED, "dynamodb:Query", "still throttled")

    deployment.ledger.statistics = summaries  # type: ignore[method-assign]
    report = deployment.sweep()
    finding = finding_of(report, "idle-00")
    assert (finding.step.name, deployment.cloud.log) == (StepName.HOLD, [])
    assert "couldn't be read" in finding.step.because
    assert [c.kind for c in report.coverage if c.status is not Status.OK] == ["ledger"]
    deployment.cloud.things["idle-00"].uses.append(deployment.now)
    assert "ledger" in [c.kind for c in deployment.sweep().coverage], "also where nothing is due"


def test_most_expensive_resource_is_stopped_first():
    deployment = fleet(2)
    deployment.cloud.things["idle-01"].instance = "ml.p4d.24xlarge"
    deployment.sweep()
    assert [name for _, name, _ in deployment.cloud.log] == ["idle-01", "idle-00"]


def test_release_lasts_for_its_given_time():
    deployment = fleet(4, max_acts=3)
    assert holds.release_actions(
        deployment.ledger, "lee", deployment.now, timedelta(hours=2)
    ).valid_until == deployment.now + timedelta(hours=2)


def swept(days_ago: float, seen: int, idle: int) -> RunStatistics:
    started = NOW - days_ago * DAY
    return RunStatistics(run=f"{days_ago}", target=TARGET, kind="sagemaker-endpoint", started=started, seen=seen, idle=idle)


# NOW is 10:17 UTC.
@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        pytest.param([(1, 8, 1), (2, 8, 1), (3, 8, 1)], (0.125, 1), id="three days"),
        pytest.param([(1, 8, 1), (1.1, 8, 1), (2, 8, 1)], None, id="three sweeps of two days"),
        pytest.param([(0, 8, 1), (0.4, 8, 1), (1, 8, 1), (2, 8, 1)], None, id="today never counts"),
        pytest.param([(1, 0, 0), (2, 8, 1), (3, 8, 1)], None, id="an empty sweep is no day"),
        pytest.param([(1, 8, 1), (1.1, 8, 7), (1.2, 8, 8), (2, 8, 1), (3, 8, 1)], (0.125, 1), id="the lowest of a day"),
        pytest.param([(1, 20, 3), (1.1, 4, 2), (2, 20, 3), (3, 20, 3)], (0.15, 3), id="the lowest share and the lowest count"),
        pytest.param([(100, 8, 1), (200, 8, 1), (300, 8, 1)], (0.125, 1), id="however old"),
        pytest.param([(n, 8, 1 if n <= 10 else 8) for n in range(1, 40)], (0.125, 1), id="the ten newest"),
        pytest.param([(1, 8, 0), (2, 8, 4), (3, 8, 8)], (0.5, 4), id="the median"),
    ],
)
def test_usual_are_the_lowest_shares_of_the_newest_days(rows: list[tuple[float, int, int]], expected: tuple[float, float] | None):
    usual = usual_share([swept(*row) for row in rows], NOW)
    assert (usual and (usual.share, usual.idle)) == expected


def two_regions(**limits: Any) -> FakeDeployment:
    """Two things that are due in each of two regions."""
    deployment = fleet(4, **limits)
    for name in ("idle-02", "idle-03"):
        deployment.cloud.things[name].region = "eu-west-1"
    deployment.regions = ("us-east-1", "eu-west-1")
    deployment.now = NOW
    deployment.ledger = InMemoryLedger()
    deployment.sweep()
    deployment.now += 3 * DAY
    return deployment


def test_narrower_sweeps_do_not_carry_out_a_wider_sweeps_hold():
    deployment = two_regions(max_acts=3)
    assert {f.step.name for f in deployment.sweep().findings} == {StepName.HOLD}
    deployment.now += HOUR
    for region in deployment.regions:
        findings = deployment.sweep(regions=(region,)).findings
        assert {f.step.name for f in findings} == {StepName.HOLD}
    assert "4 actions in account 123456789012 exceed max_acts: 3" in findings[0].step.because
    assert deployment.cloud.log == []
    holds.release_actions(deployment.ledger, "lee", deployment.now)
    deployment.now += HOUR
    deployment.sweep(regions=("eu-west-1",))
    assert len(deployment.cloud.log) == 2


def test_equally_wide_sweep_under_the_limit_ends_the_hold():
    deployment = two_regions(max_acts=3)
    deployment.sweep()
    deployment.cloud.things["idle-00"].uses.append(deployment.now + HOUR)
    deployment.now += 2 * HOUR
    deployment.sweep()
    assert len(deployment.cloud.log) == 3


def test_notify_only_sweeps_do_not_make_a_breakdown_usual():
    deployment = fleet(2, 8, max_jump="25%")
    deployment.now = NOW + 2 * DAY
    broken(deployment)
    for _ in range(12):
        deployment.now += 2 * HOUR
        deployment.sweep(Mode.NOTIFY)
    for _ in range(4):
        deployment.now += DAY
        deployment.sweep()
    assert deployment.cloud.log == []


def test_release_in_one_region_leaves_the_breaker_of_another():
    deployment = fleet(2, 8, max_jump="25%", max_acts=1)
    deployment.now = NOW + 3 * DAY
    deployment.sweep()
    holds.release_actions(deployment.ledger, "lee", deployment.now)
    for _ in range(2):
        deployment.now += HOUR
        deployment.sweep()
    count = len(deployment.cloud.log)
    broken(deployment)
    for _ in range(5):
        deployment.now += DAY
        deployment.sweep()
    assert len(deployment.cloud.log) == count


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
def test_jump_needs_more_than_a_few_and_more_than_the_allowed_share(now, before, expected):
    cases = judged(*now)
    shares = {holds.kind_in_target_of(cases[0]): Usual(share=before[1] / before[0], idle=before[1])}
    assert bool(idle_jumps(count_places(cases), Limits(), shares)) is expected


def test_share_is_counted_by_kind():
    other = [replace(c, resource=replace(c.resource, kind="sagemaker-notebook")) for c in judged(4, 1)]
    cases = [replace(c, resource=replace(c.resource, id=f"arn:{n}")) for n, c in enumerate(judged(4, 1) + other)]
    acts = [(c, Step(name=StepName.STOP if c.verdict.state is State.IDLE else StepName.NONE, because="due")) for c in cases]
    steps, _ = limited(acts, Limits(), RunScope(run="r", now=NOW, read_places=frozenset()))
    assert [s.name for s in steps].count(StepName.STOP) == 2


# --- what a calendar asks for, and what has no price


def caps(*cases: Case, limits: Limits | None = None) -> list[StepName]:
    """What becomes of a stop of each of these; all of them are due."""
    due = [
        (replace(c, resource=replace(c.resource, id=f"arn:{n}")), Step(name=StepName.STOP, because="due"))
        for n, c in enumerate(cases)
    ]
    look = RunScope(run="r", now=NOW, read_places=frozenset({holds.kind_in_target_of(case())}))
    return [s.name for s in limited(due, limits or Limits(), look)[0]]


OFFICE = office_hours.parse_hours("mon-fri 07:00-21:00", "UTC")
ALL = {"max_share": "100%"}


def plain(usd: float | None = 1.0) -> Case:
    return replace(case(), usd_per_hour=usd)


def calendar(usd: float | None = 1.0, **fields: Any) -> Case:
    return replace(case(hours=replace(OFFICE, **fields)), usd_per_hour=usd)


def test_max_scheduled_puts_only_stops_by_office_hours_on_hold():
    limits = Limits(max_scheduled=2, **ALL)
    assert caps(calendar(), calendar(), plain(), limits=limits) == [StepName.STOP] * 3
    assert caps(calendar(), calendar(), calendar(), plain(), limits=limits) == [StepName.HOLD] * 3 + [StepName.STOP]


def test_stops_by_office_hours_count_for_neither_max_acts_nor_max_share():
    assert caps(*[calendar()] * 30, plain(), limits=Limits(max_acts=1)) == [StepName.STOP] * 31
    assert (
        caps(*[calendar()] * 3, plain(), plain(), limits=Limits(max_acts=1, **ALL)) == [StepName.STOP] * 3 + [StepName.HOLD] * 2
    )


def test_resources_on_office_hours_do_not_raise_the_share_of_others():
    assert caps(*[calendar()] * 6, plain(), plain(), limits=Limits()) == [StepName.STOP] * 6 + [StepName.HOLD] * 2


def test_resources_with_tag_hours_count_like_any_other():
    assert caps(*[calendar(by_rule=False)] * 2, limits=Limits(max_acts=1, **ALL)) == [StepName.HOLD] * 2


def test_actions_in_a_partly_denied_place_are_on_hold_like_the_rest():
    due = [(plain(), Step(name=StepName.STOP, because="due"))]
    steps, since = limited(due, Limits(max_acts=0), RunScope(run="r", now=NOW, read_places=frozenset()))
    assert [s.name for s in steps] == [StepName.HOLD]
    assert since == {due[0][0].resource.id: {NOW}}


def test_max_usd_per_hour_puts_every_action_on_hold():
    assert caps(calendar(150.0), plain(51.0), limits=Limits(**ALL)) == [StepName.HOLD] * 2
    assert caps(calendar(150.0), plain(50.0), limits=Limits(**ALL)) == [StepName.STOP] * 2


def test_cost_cap_in_the_policy_puts_only_unpriced_actions_on_hold():
    names = caps(plain(None), plain(), calendar(None), limits=Limits(max_usd_per_hour=1000, **ALL))
    assert names == [StepName.HOLD, StepName.STOP, StepName.STOP]


def test_unpriced_stops_by_office_hours_count_like_priced_stops():
    limits = Limits(max_usd_per_hour=1000, max_scheduled=1, **ALL)
    assert caps(calendar(None), calendar(None), limits=limits) == [StepName.HOLD] * 2


def test_default_cost_cap_puts_no_unpriced_action_on_hold():
    assert caps(plain(None), plain(), calendar(None), limits=Limits(**ALL)) == [StepName.STOP] * 3


def test_unpriced_actions_on_hold_do_not_count_for_max_acts():
    assert caps(plain(None), plain(), limits=Limits(max_usd_per_hour=1000, max_acts=1, **ALL)) == [StepName.HOLD, StepName.STOP]


def test_sweep_holds_an_unpriced_action_if_the_policy_sets_a_cost_cap():
    deployment = fleet(2)
    deployment.cloud.things["idle-00"].instance = "ml.nobody.knows"
    report = deployment.sweep()
    assert [finding_of(report, f"idle-0{n}").step.name for n in (0, 1)] == [StepName.HOLD, StepName.STOP]
    assert "its price is unknown, and the policy sets max_usd_per_hour: 1000" in finding_of(report, "idle-00").step.because
