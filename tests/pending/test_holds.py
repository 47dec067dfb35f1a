"""What is on hold and what a person released: the rows in the ledger, through whole sweeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from fakes.builders import DAY, HOUR, NOW, TARGET
from fakes.fake_cloud import STARTABLE
from fakes.fake_deployment import POLICY, FakeDeployment, finding_of, policy, standing_holds
from fakes.memory_ledger import InMemoryLedger
from reaper.case import Coverage
from reaper.errors import CloudError, Reason
from reaper.ledger.ledger import MAX_TRIES
from reaper.limits import caps, holds
from reaper.limits.holds import Breaker, Exceeded, Hold, HoldRow, LimitName, Release, RunScope
from reaper.model import Mode, Result, Status, StepName

EAST, WEST = ("aws/123456789012/us-east-1", "aws/123456789012/eu-west-1")
KIND = "sagemaker-endpoint"
ACCOUNT = "aws/123456789012"
ACCOUNT_ROW = holds.row_name(ACCOUNT)
TOO_MANY = {ACCOUNT: {Exceeded(limit=LimitName.ACTIONS): "too many"}}
EMPTY = {ACCOUNT: HoldRow()}


class Frail(InMemoryLedger):
    """`refuses` fails on writing that row, `loses` is how often another run writes it first."""

    def __init__(self) -> None:
        super().__init__()
        self.refuses, self.loses = "", 0

    def write_row(self, name: str, values: Mapping[str, str], expected_version: int) -> bool:
        if name == self.refuses:
            raise CloudError(Reason.DENIED, "dynamodb:PutItem", "not allowed", missing="dynamodb:PutItem")
        if name == ACCOUNT_ROW and self.loses:
            self.loses -= 1
            super().write_row(name, self.read_row(name).values, self.read_row(name).version)
        return super().write_row(name, values, expected_version)


def due(count: int = 4, ledger: InMemoryLedger | None = None, **limits: Any) -> FakeDeployment:
    """So many things in two regions, half of them in each, all warned of and due."""
    deployment = FakeDeployment(ledger=ledger or InMemoryLedger(), regions=("us-east-1", "eu-west-1"))
    all_limits = {"max_acts": 3, "max_share": "100%", "max_usd_per_hour": 1000, "max_jump": "100%", **limits}
    deployment.policy = policy(
        POLICY.replace("{max_acts: 20, max_share: 100%, max_usd_per_hour: 1000}", str(all_limits).replace("'", ""))
    )
    for index in range(count):
        deployment.cloud.add(f"idle-{index}", region=deployment.regions[index % 2])
    deployment.sweep(Mode.ANNOUNCE)
    deployment.now += 3 * DAY
    return deployment


def places(deployment: FakeDeployment) -> frozenset[holds.KindInTarget]:
    """What a run must have read to end the account's holds."""
    return holds.read_hold_rows(deployment.ledger, [TARGET], deployment.now).rows[ACCOUNT].places


def moves(deployment: FakeDeployment, **fields: Any) -> set[StepName]:
    return {f.step.name for f in deployment.sweep(**fields).findings}


def test_a_hold_says_since_when_which_run_why_and_over_what():
    deployment = due()
    deployment.sweep()
    [hold] = standing_holds(deployment)
    because = "4 actions in account 123456789012 exceed max_acts: 3"
    assert (hold.since, hold.run, hold.because) == (deployment.now, "run-2", because)
    assert places(deployment) == {(EAST, KIND), (WEST, KIND)}


def test_another_run_over_its_limit_widens_the_hold_but_keeps_its_start():
    deployment = due(max_acts=1)
    deployment.sweep(regions=("us-east-1",))
    begun = deployment.now
    deployment.now += HOUR
    deployment.sweep(regions=("eu-west-1",))
    [hold] = standing_holds(deployment)
    assert (hold.since, hold.run, places(deployment)) == (begun, "run-2", {(EAST, KIND), (WEST, KIND)})


def test_a_hold_lasts_until_a_run_has_read_all_its_places():
    deployment = due()
    deployment.sweep()
    deployment.cloud.things["idle-0"].uses.append(deployment.now + HOUR)
    deployment.now += 2 * HOUR
    assert StepName.STOP not in moves(deployment, regions=("eu-west-1",))
    assert StepName.STOP in moves(deployment)
    assert standing_holds(deployment) == []


def test_an_action_is_refused_if_a_hold_is_recorded_after_deciding():
    deployment = due(2)
    hold = Hold(exceeded=Exceeded(limit=LimitName.ACTIONS), since=deployment.now, run="another", because="too many")

    def record_hold(call: str, name: str) -> None:
        if call == "look":
            row = deployment.ledger.read_row(ACCOUNT_ROW)
            columns = holds.row_columns(HoldRow(holds=(hold,)))
            assert deployment.ledger.write_row(ACCOUNT_ROW, columns, row.version)

    deployment.cloud.before_call = record_hold
    finding = finding_of(deployment.sweep(), "idle-0")
    assert finding.outcome.because == "it is on hold since this was decided: too many"
    assert deployment.cloud.log == []


def test_the_hold_is_recorded_before_any_notice():
    deployment, hold_flags = due(), list[bool]()
    deployment.channel.on_message = lambda message: hold_flags.append(bool(standing_holds(deployment)))
    deployment.sweep()
    assert hold_flags
    assert all(hold_flags)


def test_where_the_hold_cannot_be_written_everything_is_on_hold():
    deployment = due(ledger=Frail())
    deployment.ledger.refuses = ACCOUNT_ROW  # type: ignore[attr-defined]
    report = deployment.sweep()
    assert ({f.step.name for f in report.findings}, deployment.cloud.log) == ({StepName.HOLD}, [])
    assert [c.missing for c in report.coverage if c.status is not Status.OK][:1] == ["dynamodb:PutItem"]


def test_where_the_hold_cannot_be_understood_everything_is_on_hold():
    deployment = due(max_acts=20)
    version = deployment.ledger.read_row(ACCOUNT_ROW).version
    deployment.ledger.write_row(ACCOUNT_ROW, {"document": '{"holds": [{}]}'}, version)
    assert (moves(deployment), deployment.cloud.log) == ({StepName.HOLD}, [])


@pytest.mark.parametrize(("times", "expected"), [(MAX_TRIES - 1, StepName.STOP), (MAX_TRIES, StepName.HOLD)])
def test_a_lost_race_for_the_hold_is_decided_again_a_few_times(times: int, expected: StepName):
    deployment = due(ledger=Frail(), max_acts=3)
    deployment.sweep()
    deployment.policy = due(max_acts=20).policy
    deployment.ledger.loses = times  # type: ignore[attr-defined]
    assert moves(deployment) == {expected}


def test_a_hold_covers_only_what_was_read():
    def row(region: str, status: Status) -> Coverage:
        return Coverage(cloud="aws", account="123456789012", region=region, kind=KIND, status=status)

    read = holds.read_places([row("us-east-1", Status.OK), row("eu-west-1", Status.DENIED), row("ap-south-1", Status.FAILED)])
    assert read == {(EAST, KIND)}
    look = RunScope(run="r", now=NOW, read_places=read)
    standing = caps.rows_with_holds(EMPTY, TOO_MANY, look)
    assert caps.rows_with_holds(standing, {}, look) == EMPTY


def test_a_run_that_missed_a_place_does_not_end_its_hold():
    everywhere = frozenset((target, kind) for target in (EAST, WEST) for kind in (KIND, "sagemaker-notebook"))
    look = RunScope(run="r", now=NOW, read_places=everywhere)
    missed = replace(look, read_places=look.read_places - {(EAST, KIND)})
    standing = caps.rows_with_holds(EMPTY, TOO_MANY, look)
    assert caps.rows_with_holds(standing, {}, missed) == standing
    assert caps.rows_with_holds(standing, {}, look) == EMPTY
    never_read = caps.rows_with_holds(EMPTY, TOO_MANY, missed)
    assert caps.rows_with_holds(never_read, {}, missed) == EMPTY
    widened = caps.rows_with_holds(never_read, TOO_MANY, replace(look, read_places=frozenset({(EAST, KIND)})))
    assert caps.rows_with_holds(widened, {}, missed) == widened


def test_places_read_in_part_count_but_not_those_of_another_run():
    row = Coverage(cloud="aws", account="123456789012", region="us-east-1", kind=KIND, status=Status.PARTIAL)
    assert holds.read_places([row, replace(row, cloud="reaper", kind="ledger")]) == {(EAST, KIND)}
    assert holds.read_places([row], {TARGET}) == frozenset()


def test_a_region_that_another_run_has_keeps_its_hold():
    deployment = due()
    deployment.sweep()
    deployment.policy = due(max_acts=20).policy
    assert deployment.ledger.take_lease(TARGET, "another run", deployment.now, HOUR)
    deployment.sweep()
    assert (EAST, KIND) in places(deployment)
    assert standing_holds(deployment)
    deployment.ledger.give_back_lease(TARGET, "another run")
    deployment.sweep()
    assert standing_holds(deployment) == []


def test_a_region_that_is_empty_by_now_was_read_and_ends_a_hold():
    deployment = due()
    deployment.sweep()
    del deployment.cloud.things["idle-1"], deployment.cloud.things["idle-3"]
    assert moves(deployment) == {StepName.STOP}


def test_a_sweep_that_only_notifies_neither_makes_nor_ends_a_hold():
    deployment = due()
    deployment.sweep(Mode.NOTIFY)
    assert standing_holds(deployment) == []
    deployment.sweep()
    deployment.policy = due(max_acts=20).policy
    deployment.sweep(Mode.NOTIFY)
    assert len(standing_holds(deployment)) == 1


def test_an_audit_shows_what_would_be_on_hold_and_writes_nothing():
    deployment = due()
    before = deployment.ledger.read_rows([holds.HOLD_ROW, ACCOUNT_ROW])
    assert moves(deployment, mode=Mode.AUDIT) == {StepName.HOLD}
    assert deployment.ledger.read_rows([holds.HOLD_ROW, ACCOUNT_ROW]) == before


def test_a_plan_of_one_region_cannot_bypass_the_hold_of_a_wide_sweep():
    deployment = due()
    deployment.sweep(Mode.ANNOUNCE)
    for region in deployment.regions:
        assert moves(deployment, mode=Mode.AUDIT, regions=(region,)) == {StepName.HOLD}


def test_a_reminder_of_what_is_due_does_not_take_it_out_of_the_limits():
    deployment = due(4, max_acts=3)
    deployment.now += 4 * DAY
    deployment.sweep(Mode.ANNOUNCE)
    assert len(standing_holds(deployment)) == 1


def test_a_sweep_that_announces_makes_a_hold_too():
    deployment = due()
    assert (moves(deployment, mode=Mode.ANNOUNCE), len(standing_holds(deployment))) == ({StepName.HOLD}, 1)


# --- releases


def test_a_release_without_a_hold_covers_what_was_due():
    deployment = due()
    assert standing_holds(deployment) == []
    holds.release_actions(deployment.ledger, "lee", deployment.now)
    deployment.now += HOUR
    assert moves(deployment) == {StepName.STOP}


def test_a_release_does_not_cover_what_comes_due_after_it():
    deployment = due()
    holds.release_actions(deployment.ledger, "lee", deployment.now - timedelta(minutes=1))
    assert moves(deployment) == {StepName.HOLD}


def test_what_a_release_covers_counts_for_no_limit():
    deployment = due()
    holds.release_actions(deployment.ledger, "lee", deployment.now)
    deployment.cloud.add("late")
    deployment.sweep()
    assert len(deployment.cloud.log) == 4
    deployment.now += 3 * DAY
    assert finding_of(deployment.sweep(), "late").step.name is StepName.STOP


def test_a_use_after_the_release_takes_an_action_out_of_it():
    deployment = due(5, max_acts=0)
    holds.release_actions(deployment.ledger, "lee", deployment.now, timedelta(days=7))
    deployment.cloud.things["idle-0"].uses.append(deployment.now + HOUR)
    deployment.now += 2 * DAY
    deployment.sweep()
    deployment.now += 4 * DAY
    finding = finding_of(deployment.sweep(), "idle-0")
    assert (finding.step.name, len(deployment.cloud.log)) == (StepName.HOLD, 4)


def test_a_release_that_is_over_holds_again_since_then():
    deployment = due()
    deployment.sweep()
    holds.release_actions(deployment.ledger, "lee", deployment.now, timedelta(hours=1))
    deployment.now += HOUR
    assert moves(deployment) == {StepName.HOLD}
    assert [h.since for h in standing_holds(deployment)] == [deployment.now]


def test_a_release_dated_in_the_future_covers_nothing():
    deployment = due()
    holds.release_actions(deployment.ledger, "lee", deployment.now + DAY)
    assert moves(deployment) == {StepName.HOLD}


def test_a_release_of_an_evening_covers_no_stop_of_the_next():
    deployment = FakeDeployment(now=datetime.fromisoformat("2026-11-17T10:00+00:00"))
    hours = "[{name: office, match: {}, grace: 1h, hours: {on: 'mon-fri 07:00-19:00', tz: UTC}}]"
    deployment.policy = policy(POLICY.replace("100%, max_usd", "100%, max_scheduled: 0, max_usd") + f"rules: {hours}\n")
    deployment.cloud.kind_name = STARTABLE
    deployment.cloud.add("desk")
    deployment.sweep()
    deployment.now = deployment.now.replace(hour=20)
    assert moves(deployment) == {StepName.HOLD}
    holds.release_actions(deployment.ledger, "lee", deployment.now, timedelta(days=7))
    assert moves(deployment) == {StepName.STOP}
    deployment.cloud.things["desk"].running_since, deployment.cloud.things["desk"].changed = (
        deployment.now + 12 * HOUR,
        deployment.now + 12 * HOUR,
    )
    deployment.cloud.things["desk"].uses.append(deployment.now + 13 * HOUR)
    deployment.now += DAY + 3 * HOUR
    assert moves(deployment) == {StepName.HOLD}


def test_a_row_says_the_same_when_it_is_read_again():
    hold = Hold(exceeded=Exceeded(limit=LimitName.SHARE, kind=KIND), since=NOW, run="r", because="b")
    jump = Breaker(target=EAST, kind=KIND, since=NOW, run="r", because="j", lapsed_at=NOW - DAY, usual_since=NOW - DAY)
    release = Release(given_at=NOW, valid_until=NOW + DAY, by="lee")
    row = HoldRow(holds=(hold,), breakers=(jump,), reads=(((KIND,), (EAST, WEST)),), release=release, accounts=("aws/1",))
    assert holds.row_from_columns(holds.row_columns(row)) == row
    assert row.places == {(EAST, KIND), (WEST, KIND)}


UNREADABLE = [
    pytest.param('{"holds":[{"exceeded":{"limit":"actions"},"since":"2026-11-24T10:00:00","run":"r","because":"b"}]}', id="hold"),
    pytest.param(f'{{"breakers":[{{"target":"{EAST}","kind":"{KIND}","since":"2026-11-24T10:00:00"}}]}}', id="jump"),
    pytest.param(f'{{"breakers":[{{"target":"{EAST}","kind":"{KIND}","lapsed_at":"2026-11-24T10:00:00"}}]}}', id="end of a jump"),
    pytest.param('{"breakers":[{"target":"east","kind":"k"}]}', id="no target"),
    pytest.param('{"breakers":[{"target":"aws/east","kind":"k"}]}', id="half a target"),
    pytest.param('{"hold":[]}', id="an unknown field"),
    pytest.param('{"accounts":"aws/1"}', id="a text for a list"),
    pytest.param("", id="nothing"),
    pytest.param("[]", id="a list"),
    pytest.param('{"release":{"given_at":"2026-11-24T10:00:00","valid_until":"2026-11-25T10:00:00Z","by":""}}', id="release"),
    pytest.param('{"release":{"given_at":"2026-11-24T10:00:00Z","valid_until":"2026-11-25T10:00:00","by":""}}', id="its end"),
]


@pytest.mark.parametrize("key", [ACCOUNT, holds.ALL_ACCOUNTS])
@pytest.mark.parametrize("text", UNREADABLE)
def test_a_row_that_no_run_writes_holds_everything(text: str, key: str):
    deployment = due()
    assert deployment.ledger.write_row(holds.row_name(key), {"document": text}, 0)
    report = deployment.sweep()
    assert {f.step.name for f in report.findings} == {StepName.HOLD}
    assert "what is on hold can't be read" in " ".join(row.error or "" for row in report.coverage)
    with pytest.raises(CloudError, match="what is on hold can't be read"):
        holds.release_actions(deployment.ledger, "lee", deployment.now, accounts=[] if key == holds.ALL_ACCOUNTS else [key])


def test_an_action_on_hold_is_refused_only_by_the_hold():
    deployment = due()
    deployment.sweep()
    deployment.policy = due(max_acts=20).policy
    assert {f.outcome.result for f in deployment.sweep().findings} == {Result.DONE}
