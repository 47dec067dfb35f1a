"""Breaker and caps on any schedule: a signal that breaks stops no more resources hourly than daily, and no share is diluted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.builders import DAY, HOUR, NOW, TARGET
from fakes.fake_cloud import STARTABLE
from fakes.fake_deployment import POLICY, FakeDeployment, finding_of, jumped_places, policy, standing_holds
from reaper.acting import restore
from reaper.errors import CloudError
from reaper.limits import caps, holds
from reaper.model import Mode, Result, State, StepName

KIND = "sagemaker-endpoint"
ACCOUNT = holds.account_key(TARGET)
DAYS_BEFORE = 4


def deployment_of(count: int, text: str = "", rules: str = "", **fields: Any) -> FakeDeployment:
    """So many things under `limits`, and rules."""
    limits = text or "max_share: 100%, max_jump: 100%"
    return FakeDeployment(policy=limited(limits, rules), **fields) if count == 0 else with_things(limits, rules, count, fields)


def limited(limits: str, rules: str = "") -> Any:
    text = POLICY.replace("{max_acts: 20, max_share: 100%, max_usd_per_hour: 1000}", f"{{{limits}}}")
    return policy(text.replace("grace: 3d", "grace: 1h") + rules)


def with_things(limits: str, rules: str, count: int, fields: dict[str, Any]) -> FakeDeployment:
    deployment = FakeDeployment(policy=limited(limits, rules), **fields)
    for index in range(count):
        deployment.cloud.add(f"idle-{index:02}")
    return deployment


def used_daily(deployment: FakeDeployment, count: int, until_day: int, **fields: Any) -> None:
    """Things that are used once a day each, one every hour, up to that day."""
    for index in range(count):
        uses = [NOW + day * DAY + index * HOUR for day in range(-20, until_day)]
        deployment.cloud.add(f"daily-{index:02}", uses=uses, **fields)


def sweep_for(deployment: FakeDeployment, length: timedelta, every: timedelta, mode: Mode = Mode.ENFORCE) -> None:
    for _ in range(length // every):
        deployment.now += every
        deployment.sweep(mode)


def sweep_for_days_before(deployment: FakeDeployment, every: timedelta, days: int) -> None:
    """The days that make the usual share, in which nothing is idle, four times a day at most; and so many more."""
    sweep_for(deployment, DAYS_BEFORE * DAY, max(every, 6 * HOUR))
    sweep_for(deployment, days * DAY, every)


def ended(deployment: FakeDeployment) -> list[str]:
    return [name for move, name, _ in deployment.cloud.log if move is not StepName.START]


@pytest.mark.parametrize("every", [DAY, 6 * HOUR, HOUR], ids=["daily", "six-hourly", "hourly"])
def test_a_signal_that_breaks_hour_by_hour_trips_the_breaker(every: timedelta):
    deployment = deployment_of(0, "max_acts: 50")
    used_daily(deployment, 24, until_day=DAYS_BEFORE)
    sweep_for_days_before(deployment, every, 4)
    assert len(ended(deployment)) <= 6, "a quarter in a day, by max_share"
    assert len(jumped_places(deployment)) == 1


@pytest.mark.parametrize(
    ("broken", "left"),
    [
        pytest.param(24, {}, id="every signal"),
        pytest.param(8, {}, id="a third of them"),
        pytest.param(24, {"variants": 2, "least": 1}, id="scaled in"),
    ],
)
@pytest.mark.parametrize(("every", "most"), [(DAY, 0), (HOUR, 6)], ids=["daily", "hourly"])
def test_what_was_just_stopped_still_counts_as_idle_for_a_jump(every: timedelta, most: int, broken: int, left: dict[str, Any]):
    """Without a share as a cap and with a short grace, an hourly sweep sees two idle things at a time."""
    deployment = deployment_of(0, "max_acts: 50, max_share: 100%")
    for index in range(24):
        until = DAYS_BEFORE if index < broken else 30
        deployment.cloud.add(f"t-{index:02}", uses=[NOW + day * DAY + index * HOUR for day in range(-20, until)], **left)
    sweep_for_days_before(deployment, every, 5)
    assert len(ended(deployment)) <= most
    [row] = holds.standing_rows(deployment.ledger, deployment.now).values()
    words = " or were acted on, up from 0%" if every == HOUR and not left else ", up from 0%"
    assert f"sagemaker-endpoint resources are idle{words}" in row.jumps[0].because


def test_a_jump_is_over_once_what_is_left_is_used_again():
    deployment = deployment_of(0, "max_acts: 50, max_share: 100%")
    used_daily(deployment, 8, until_day=DAYS_BEFORE)
    used_daily(deployment, 1, until_day=30)
    sweep_for_days_before(deployment, HOUR, 2)
    assert len(jumped_places(deployment)) == 1
    for thing in deployment.cloud.things.values():
        thing.uses = [*thing.uses, *(deployment.now + hour * HOUR for hour in range(48))]
    stopped = len(ended(deployment))
    sweep_for(deployment, 2 * DAY, HOUR)
    assert jumped_places(deployment) == set()
    assert len(ended(deployment)) == stopped


def test_what_was_restored_and_kept_is_no_part_of_a_standing_jump():
    deployment = deployment_of(0, "max_acts: 50, max_share: 100%")
    used_daily(deployment, 24, until_day=30)
    for index in range(8):
        deployment.cloud.things[f"daily-{index:02}"].uses = [NOW + day * DAY + index * HOUR for day in range(-20, DAYS_BEFORE)]
    sweep_for_days_before(deployment, HOUR, 2)
    assert len(jumped_places(deployment)) == 1
    for name in ended(deployment):
        deployment.cloud.things[name].running_since = deployment.cloud.things[name].changed = deployment.now
        deployment.cloud.things[name].tags = {"reaper:keep": "true"}
    sweep_for(deployment, 2 * DAY, HOUR)
    assert jumped_places(deployment) == set()


def test_what_office_hours_ended_is_no_jump():
    hours = "rules: [{name: office, match: {name: 'desk-*'}, hours: {on: 'mon-fri 01:00-02:00', tz: UTC}}]\n"
    deployment = deployment_of(0, "max_acts: 2, max_share: 100%", hours)
    deployment.cloud.kind_name = STARTABLE
    used_daily(deployment, 10, until_day=30)
    sweep_for(deployment, DAYS_BEFORE * DAY, DAY)
    for index in range(6):
        deployment.cloud.add(f"desk-{index}")
    sweep_for(deployment, DAY, 3 * HOUR)
    assert len(set(ended(deployment))) == 6
    assert jumped_places(deployment) == set()


def test_a_narrow_run_sees_no_jump_where_earlier_runs_stopped_something():
    deployment = deployment_of(0, "max_acts: 50, max_share: 100%", regions=("us-east-1", "eu-west-1"))
    used_daily(deployment, 20, until_day=30)
    sweep_for(deployment, DAYS_BEFORE * DAY, DAY)
    for index in range(5):
        deployment.cloud.add(f"idle-{index}")
    sweep_for(deployment, 4 * HOUR, 2 * HOUR)
    assert len(ended(deployment)) == 5
    deployment.now += HOUR
    deployment.sweep(regions=("eu-west-1",))
    assert jumped_places(deployment) == set()


def test_an_hourly_schedule_stops_what_is_idle_within_the_caps_of_a_day():
    deployment = deployment_of(5, "max_acts: 2, max_share: 100%, max_jump: 100%")
    for name in list(deployment.cloud.things):
        deployment.cloud.things[name].uses = [NOW - DAY + HOUR * int(name[-2:])]
    sweep_for(deployment, 20 * HOUR, HOUR)
    assert len(ended(deployment)) == 2
    sweep_for(deployment, 3 * DAY, HOUR)
    assert len(ended(deployment)) == 2, "three are due and on hold, until a person says so"


def test_narrow_runs_over_idle_places_do_not_blind_the_breaker_of_a_run():
    regions = ("us-east-1", "eu-west-1", "eu-north-1", "ap-south-1")
    deployment = deployment_of(0, "max_acts: 50, max_share: 100%", regions=regions)
    deployment.policy = policy(
        POLICY.replace("max_acts: 20", "max_acts: 50, run: {max_share: 100%}").replace("action: stop", "action: notify")
    )
    for index in range(6):
        deployment.cloud.add(f"idle-{index}", region=regions[index % 2])
        deployment.cloud.add(f"used-{index}", region=regions[2 + index % 2], uses=[NOW + n * DAY / 2 for n in range(-20, 12)])
    for _ in range(6):
        deployment.sweep()
        for hours in (2, 4):
            deployment.now += hours * HOUR
            deployment.sweep(regions=regions[:2])
        deployment.now += 18 * HOUR
    deployment.policy = policy(
        POLICY.replace("max_acts: 20", "max_acts: 50, run: {max_share: 100%}").replace("grace: 3d", "grace: 1h")
    )
    sweep_for(deployment, 4 * DAY, DAY / 2)
    assert [name for name in ended(deployment) if name.startswith("used")] == []
    assert ("aws/*/-", KIND) in jumped_places(deployment)


def test_a_jump_over_the_run_does_not_become_usual_in_its_places():
    regions = ("us-east-1", "eu-west-1", "eu-north-1")
    deployment = deployment_of(0, "max_acts: 50, max_share: 100%, run: {max_share: 100%}", regions=regions)
    for index in range(9):
        deployment.cloud.add(f"used-{index}", region=regions[index % 3], uses=[NOW + n * DAY / 2 for n in range(-20, 8)])
    sweep_for(deployment, 4 * DAY, DAY / 2)
    sweep_for(deployment, 20 * DAY, DAY / 2)
    assert (ended(deployment), jumped_places(deployment)) == ([], {("aws/*/-", KIND)})


def test_at_most_a_thousand_rows_are_read_where_a_jump_is_possible():
    deployment, asked = deployment_of(6, "max_acts: 50"), list[int]()
    statistics = deployment.ledger.statistics

    def counted(target: Any, kind: str, limit: int) -> Any:
        asked.append(limit)
        return statistics(target, kind, limit)

    deployment.ledger.statistics = counted  # type: ignore[method-assign]
    deployment.sweep(Mode.ANNOUNCE)
    assert asked == [1000]
    for index in range(20):
        deployment.cloud.add(f"used-{index}", uses=[NOW - HOUR])
    deployment.sweep(Mode.ANNOUNCE)
    assert asked == [1000], "6 of 26 are fewer than a quarter"


# --- what dilutes no share


def test_the_example_of_the_readme_stops_no_endpoint_in_use():
    """Production is ignored; ten dev endpoints in use seem idle once their signal is lost."""
    rules = "rules: [{name: production is left alone, match: {name: 'prod-*'}, action: ignore}]\n"
    deployment = deployment_of(0, "max_acts: 20, max_share: 25%, max_usd_per_hour: 200", rules)
    for index in range(40):
        deployment.cloud.add(f"prod-{index}", uses=[NOW + n * DAY / 2 for n in range(-20, 30)])
    for index in range(10):
        deployment.cloud.add(f"dev-{index}", uses=[NOW + n * DAY / 2 for n in range(-20, 8)])
    sweep_for(deployment, 12 * DAY, DAY / 2)
    assert (ended(deployment), len(jumped_places(deployment))) == ([], 1)


UNTIL = {"reaper:keep-until": "2026-12-31"}


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"tags": {"reaper:keep": "true"}}, id="kept by tag"),
        pytest.param({"tags": UNTIL}, id="kept until a day"),
        pytest.param({"tags": {"reaper:action": "ignore"}}, id="ignored by tag"),
        pytest.param({"running_since": None}, id="stopped"),
        pytest.param({"name": "accepted"}, id="accepted"),
        pytest.param({"name": "ignored"}, id="ignored by a rule"),
    ],
)
def test_what_is_left_alone_is_in_neither_share(fields: dict[str, Any]):
    more = "accept: [{match: {name: 'accepted-*'}, until: 2027-01-31, reason: fair, by: lee}]\n"
    more += "rules: [{name: none, match: {name: 'ignored-*'}, action: ignore}]\n"
    deployment = deployment_of(2, "max_acts: 50, max_share: 50%, max_jump: 100%", more)
    deployment.cloud.add("used", uses=[NOW + n * DAY / 2 for n in range(-20, 30)])
    fields = dict(fields)
    name = fields.pop("name", "other")
    for index in range(20):
        deployment.cloud.add(f"{name}-{index}", **fields)
    report = deployment.sweep()
    deployment.now += 2 * HOUR
    reported = [finding.case for finding in report.findings]
    assert [(count.seen, count.idle) for count in caps.count_places(reported).values()] == [(3, 2)]
    assert "2 of 3 sagemaker-endpoint resources" in finding_of(deployment.sweep(), "idle-00").step.because


def test_what_a_rule_only_notifies_of_is_in_the_base():
    rules = "rules: [{name: quiet, match: {name: 'notify-*'}, action: notify}]\n"
    deployment = deployment_of(2, "max_acts: 50, max_share: 50%, max_jump: 100%", rules)
    for index in range(2):
        deployment.cloud.add(f"notify-{index}")
    deployment.sweep()
    deployment.now += 2 * HOUR
    assert finding_of(deployment.sweep(), "idle-00").step.name is StepName.STOP


# --- the caps of a day


def stop(deployment: FakeDeployment, *names: str) -> None:
    """These are told of and stopped, an hour after one another."""
    for name in names:
        deployment.cloud.add(name)
    deployment.sweep()
    deployment.now += 2 * HOUR
    deployment.sweep()
    assert ended(deployment)[-len(names) :] == sorted(names) or set(ended(deployment)[-len(names) :]) == set(names)


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ("max_acts: 3", "4 actions in account 123456789012 (2 due, 2 in the last 22 hours) exceed max_acts: 3"),
        (
            "max_share: 50%",
            "4 of 6 sagemaker-endpoint resources in account 123456789012 (2 due, 2 in the last 22 hours) exceed max_share: 50%",
        ),
        (
            "max_usd_per_hour: 5",
            "the cost of 4 actions in account 123456789012 (2 due, 2 in the last 22 hours), $5.63 an hour, exceeds max_usd_per_hour: 5",
        ),
        ("run: {max_acts: 3}", "4 actions in all accounts (2 due, 2 in the last 22 hours) exceed run.max_acts: 3"),
        (
            "run: {max_share: 50%}",
            "4 of 6 sagemaker-endpoint resources in all accounts (2 due, 2 in the last 22 hours) exceed run.max_share: 50%",
        ),
    ],
    ids=["max_acts", "max_share", "max_usd_per_hour", "run.max_acts", "run.max_share"],
)
def test_a_cap_counts_what_earlier_runs_acted_on(limits: str, reason: str):
    share = "" if limits.startswith("max_share") else ", max_share: 100%"
    deployment = deployment_of(0, f"{limits}{share}, max_jump: 100%")
    for index in range(2):
        deployment.cloud.add(f"used-{index}", uses=[NOW + n * DAY / 2 for n in range(-20, 20)])
    stop(deployment, "a", "b")
    for name in ("c", "d"):
        deployment.cloud.add(name)
    deployment.sweep()
    deployment.now += 2 * HOUR
    for mode in (Mode.AUDIT, Mode.ENFORCE):
        step = finding_of(deployment.sweep(mode), "c").step
        assert (step.name, reason in step.because) == (StepName.HOLD, True), step.because
    deployment.now += 19 * HOUR + HOUR / 2
    deployment.sweep()
    assert len(ended(deployment)) == 2
    deployment.now += HOUR / 2
    deployment.sweep()
    assert len(ended(deployment)) == 4, "22 hours after the run that acted"


def test_narrow_runs_together_keep_to_the_caps_of_their_account():
    deployment = deployment_of(0, "max_acts: 3, max_share: 100%, max_jump: 100%", regions=("us-east-1", "eu-west-1"))
    for index in range(4):
        deployment.cloud.add(f"t-{index}", region=deployment.regions[index % 2])
    deployment.sweep(Mode.ANNOUNCE)
    deployment.now += 2 * HOUR
    for region in deployment.regions:
        deployment.sweep(regions=(region,))
    assert len(ended(deployment)) == 2


def test_one_of_a_kind_is_allowed_in_that_time():
    deployment = deployment_of(0, "max_share: 25%, max_jump: 100%")
    stop(deployment, "a")
    deployment.cloud.add("b")
    sweep_for(deployment, 10 * HOUR, HOUR)
    assert ended(deployment) == ["a"]
    sweep_for(deployment, 14 * HOUR, HOUR)
    assert ended(deployment) == ["a", "b"]


def test_only_what_is_due_exceeds_a_cap():
    deployment = deployment_of(0, "max_acts: 3, max_share: 100%, max_jump: 100%")
    stop(deployment, "a", "b", "c")
    deployment.policy = limited("max_acts: 1, max_share: 100%, max_jump: 100%")
    deployment.now += HOUR
    deployment.sweep()
    assert standing_holds(deployment) == []


def test_what_a_release_covered_counts_for_no_later_run():
    deployment = deployment_of(4, "max_acts: 2, max_share: 100%, max_jump: 100%")
    deployment.sweep()
    deployment.now += 2 * HOUR
    deployment.sweep()
    holds.release_actions(deployment.ledger, "lee", deployment.now, HOUR)
    deployment.sweep()
    assert len(ended(deployment)) == 4
    stop(deployment, "later-1", "later-2")


def test_an_undo_takes_nothing_out():
    deployment = deployment_of(0, "max_acts: 2, max_share: 100%, max_jump: 100%")
    stop(deployment, "a", "b")
    assert restore.restore_resource(deployment.cloud.id("a"), deployment.restore_context()).undone
    deployment.cloud.add("c")
    deployment.sweep()
    deployment.now += 2 * HOUR
    assert "2 in the last 22 hours" in finding_of(deployment.sweep(), "c").step.because


def test_a_resource_counts_once_however_often_it_is_acted_on():
    deployment = deployment_of(0, "max_acts: 1, max_share: 100%, max_jump: 100%")
    deployment.cloud.add("parts", variants=3)
    sweep_for(deployment, 3 * DAY, HOUR)
    assert len(ended(deployment)) == 3
    assert set(ended(deployment)) == {"parts"}


def test_stops_by_office_hours_count_for_max_scheduled_of_a_day_only():
    hours = "rules: [{name: office, match: {name: 'desk-*'}, hours: {on: 'mon-fri 01:00-02:00', tz: UTC}}]\n"
    deployment = deployment_of(0, "max_scheduled: 1, max_acts: 1, max_share: 100%, max_jump: 100%", hours)
    deployment.cloud.kind_name = STARTABLE
    deployment.cloud.add("desk-1")
    deployment.sweep()
    deployment.now += 2 * HOUR
    deployment.sweep()
    assert ended(deployment) == ["desk-1"]
    deployment.cloud.add("desk-2")
    deployment.cloud.add("plain")
    deployment.sweep()
    deployment.now += 2 * HOUR
    report = deployment.sweep()
    assert (
        "2 actions in account 123456789012 (1 due, 1 in the last 22 hours) exceed max_scheduled: 1"
        in finding_of(report, "desk-2").step.because
    )
    assert ended(deployment) == ["desk-1", "plain"]


def test_two_runs_at_once_keep_to_the_caps():
    """Each decided before the other acted: the row of the account is written before each intent."""
    deployment = deployment_of(0, "max_acts: 1, max_share: 100%, max_jump: 100%", regions=("us-east-1", "eu-west-1"))
    for name, region in zip("ab", deployment.regions, strict=True):
        deployment.cloud.add(name, region=region)
    deployment.sweep(Mode.ANNOUNCE)
    deployment.now += 2 * HOUR

    def other_run(call: str, name: str) -> None:
        if (call, name) == ("look", "a"):
            deployment.cloud.before_call = lambda call, name: None
            deployment.sweep(regions=("eu-west-1",))

    deployment.cloud.before_call = other_run
    report = deployment.sweep(regions=("us-east-1",))
    assert ended(deployment) == ["b"]
    outcome = finding_of(report, "a").outcome
    assert (outcome.result, "(1 due, 1 in the last 22 hours)" in (outcome.because or "")) == (Result.REFUSED, True)


@pytest.mark.parametrize(
    "text",
    [
        "no JSON",
        "{}",
        '[{"digest":"a","kind":"k","host":"h"}]',
        '[{"digest": 1}]',
        '[{"digest":"a","kind":"k","started":"2026-11-24T10:00:00"}]',
    ],
)
def test_an_unreadable_row_of_what_was_acted_on_holds_everything(text: str):
    deployment = deployment_of(1)
    deployment.sweep()
    deployment.now += 2 * HOUR
    assert deployment.ledger.write_row(holds.acted_row(ACCOUNT), {"document": text}, 0)
    assert finding_of(deployment.sweep(), "idle-00").step.name is StepName.HOLD
    with pytest.raises(CloudError) as raised:
        holds.read_hold_rows(deployment.ledger, [TARGET], deployment.now)
    said = str(raised.value)
    assert said.startswith(f"ledger:Read: the row 'acted {ACCOUNT}' with what was acted on can't be read (")
    assert said.endswith("); delete it, which costs one day's count")


# --- protections that end


@pytest.mark.parametrize(
    ("tags", "policy_text", "words"),
    [
        pytest.param(
            {},
            "accept: [{match: {name: 'safe-*'}, until: 2026-11-26, reason: fair, by: lee}]\n",
            "accepted until 26 Nov",
            id="accepted",
        ),
        pytest.param({"reaper:keep-until": "2026-11-26T00:00Z"}, "", "kept by tag until 26 Nov", id="tag"),
    ],
)
def test_a_jump_names_protections_that_ended_and_not_the_metrics(tags: dict[str, str], policy_text: str, words: str):
    deployment = deployment_of(0, "max_acts: 50, max_share: 100%", policy_text)
    for index in range(8):
        deployment.cloud.add(f"safe-{index}", tags=dict(tags))
    for index in range(10):
        deployment.cloud.add(f"used-{index}", uses=[NOW + n * DAY / 2 for n in range(-20, 40)])
    sweep_for(deployment, 6 * DAY, DAY / 2)
    assert jumped_places(deployment) == {("aws/123456789012/us-east-1", KIND)}
    step = finding_of(deployment.sweep(), "safe-0").step
    assert f"8 of 18 sagemaker-endpoint resources are idle, up from 0%, and 8 of them were {words}" in step.because
    assert "metrics" not in step.because
    [text] = [m.text for m in deployment.channel.messages if "IDLE SHARE JUMPED" in m.text]
    assert "metrics" not in text.partition("IDLE SHARE JUMPED")[2].partition("\n\n")[0]
    sweep_for(deployment, 5 * DAY, DAY / 2)
    assert ended(deployment) == [], "it holds as any jump does"
    [row] = holds.standing_rows(deployment.ledger, deployment.now).values()
    assert f"8 of them were {words}" in row.jumps[0].because, "as long as it stands"


def test_a_protection_that_ended_long_before_is_no_reason():
    deployment = deployment_of(0, "max_acts: 50, max_share: 100%, max_jump: 25%")
    for index in range(8):
        deployment.cloud.add(
            f"t-{index}", tags={"reaper:keep-until": "2026-11-20T00:00Z"}, uses=[NOW + n * DAY / 2 for n in range(-20, 8)]
        )
    sweep_for(deployment, 6 * DAY, DAY / 2)
    assert "may be a fault in the metrics" in finding_of(deployment.sweep(), "t-0").step.because


# --- properties


@settings(max_examples=8, deadline=None)
@given(
    idle=st.lists(st.integers(0, 60), min_size=1, max_size=12),
    steps=st.lists(st.sampled_from([1, 1, 1, 2, 5, 11]), min_size=20, max_size=40),
    most=st.integers(0, 4),
    share=st.sampled_from(["0%", "25%", "50%", "100%"]),
    narrow=st.lists(st.booleans(), min_size=40, max_size=40),
)
def test_no_schedule_exceeds_a_cap_in_any_22_hours(idle: list[int], steps: list[int], most: int, share: str, narrow: list[bool]):
    """Things fall idle at random hours; sweeps come at random times, some over one region only."""
    deployment = deployment_of(0, f"max_acts: {most}, max_share: {share}, max_jump: 100%", regions=("us-east-1", "eu-west-1"))
    for index, hour in enumerate(idle):
        last = NOW + (hour - 24) * HOUR
        deployment.cloud.add(f"t-{index}", region=deployment.regions[index % 2], uses=[last - n * DAY / 2 for n in range(40)])
    for index, hours in enumerate(steps):
        deployment.now += hours * HOUR
        deployment.sweep(regions=deployment.regions[:1] if narrow[index] else None)
    times = [when for _, _, when in deployment.cloud.log]
    for start in times:
        together = sum(start <= when < start + holds.COUNTED_FOR for when in times)
        allowed = {"0%": 0, "25%": max(1, len(idle) // 4), "50%": max(1, len(idle) // 2), "100%": 99}[share]
        assert together <= min(most, allowed), Counter(times)


def first_jump(every: int, uses: Sequence[Sequence[float]], lost: int, days: int, mode: Mode) -> timedelta | None:
    """When a schedule sees a jump: so many hours between sweeps, and no use is known from the hour that the signal is lost."""
    deployment = deployment_of(0, "max_acts: 50, max_share: 100%")
    for index, hours in enumerate(uses):
        deployment.cloud.add(f"t-{index}", uses=[NOW + h * HOUR for h in hours if h < lost])
    while deployment.now < NOW + days * DAY:
        deployment.now += every * HOUR
        deployment.sweep(mode)
        if jumped_places(deployment):
            return deployment.now - NOW
    return None


@settings(max_examples=4, deadline=None)
@given(
    phases=st.lists(st.tuples(st.integers(0, 23), st.sampled_from([6, 12, 24])), min_size=5, max_size=10),
    lost=st.integers(4 * 24, 5 * 24),
    slow=st.sampled_from([6, 12, 24]),
    fast=st.sampled_from([2, 3]),
    mode=st.sampled_from([Mode.ANNOUNCE, Mode.ENFORCE]),
)
def test_a_faster_schedule_trips_the_breaker_no_later(phases: list[tuple[int, int]], lost: int, slow: int, fast: int, mode: Mode):
    uses = [[hour + n * every for n in range(-30, 24)] for hour, every in phases]
    slowly = first_jump(slow, uses, lost, 8, mode)
    if slowly is not None:
        quickly = first_jump(fast, uses, lost, 8, mode)
        assert quickly is not None
        assert quickly <= slowly


@pytest.mark.parametrize("every", [HOUR], ids=["hourly"])
def test_a_protection_in_doubt_hides_nothing_from_the_breaker(every: timedelta):
    """A stopped machine has no price, so that an acceptance by price may match."""
    accepted = "accept: [{match: {usd_per_hour: '< 1'}, until: 2026-12-30, reason: cheap, by: Lee}]\n"
    deployment = deployment_of(0, "max_acts: 50, max_share: 100%", accepted)
    deployment.cloud.kind_name = STARTABLE
    used_daily(deployment, 24, until_day=DAYS_BEFORE)
    sweep_for(deployment, DAYS_BEFORE * DAY, 6 * HOUR)
    sweep_for(deployment, 2 * DAY, every)
    assert len(ended(deployment)) <= 6
    assert len(jumped_places(deployment)) == 1


def test_what_is_on_hours_now_is_no_part_of_what_runs_ended():
    deployment = deployment_of(5, "max_acts: 50, max_share: 100%")
    deployment.cloud.kind_name = STARTABLE
    sweep_for(deployment, 2 * DAY, DAY)
    assert len(ended(deployment)) == 5
    hours = "rules: [{name: office, hours: {on: 'mon-sun 00:00-23:00', tz: UTC}}]\n"
    deployment.policy = limited("max_acts: 50, max_share: 100%", hours)
    for thing in deployment.cloud.things.values():
        thing.running_since = thing.changed = deployment.now
    deployment.now += HOUR
    assert all(f.case.verdict.state is State.YOUNG for f in deployment.sweep().findings)
    assert jumped_places(deployment) == set()
