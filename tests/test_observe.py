"""Phase 1: every kind on every target, from cloud facts alone; a failure is a row and hides nothing else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from fakes.builders import TARGET
from fakes.failing_ledger import FailingLedger
from fakes.fake_cloud import DENIED, FAKE_KIND, FakeSession
from fakes.fake_deployment import FakeDeployment
from reaper.case import Coverage
from reaper.coverage import NOT_REACHED
from reaper.errors import CloudError, Reason
from reaper.handover import Observed
from reaper.model import Resource, State, Status
from reaper.observation import Observation
from reaper.observe import observe


@pytest.fixture
def deployment() -> FakeDeployment:
    deployment = FakeDeployment(ledger=FailingLedger(), regions=("us-east-1", "eu-west-1"))
    deployment.cloud.add("churn")
    deployment.cloud.add("west", region="eu-west-1")
    return deployment


def observed(deployment: FakeDeployment, **context: object) -> Observed:
    opened = deployment.open_run()
    return observe(opened.run, replace(next(iter(opened.observe)), **context), opened.run.started_at)  # type: ignore[arg-type]


def test_what_earlier_runs_had_no_time_for_is_read_before_all_else():
    """More places than are read at once. The others wait until the last one was read."""
    regions = tuple(f"us-east-{number}" for number in range(1, 13))
    deployment = FakeDeployment(ledger=FailingLedger(), regions=regions)
    was_read = threading.Event()

    def discover(session: FakeSession) -> list[Resource]:
        if session.target.region == regions[-1]:
            was_read.set()
        elif not was_read.wait(60):
            raise CloudError(Reason.UNREACHABLE, "list", "the last region wasn't read first")
        return []

    first = frozenset({("aws", TARGET.account, regions[-1], FAKE_KIND.name)})
    part = observed(deployment, kinds=[replace(FAKE_KIND, discover=discover)], read_first=first)
    assert {row.error for row in part.coverage} == {None}


def test_a_row_says_that_the_time_was_over_before_all_else(deployment: FakeDeployment):
    """A row has three errors at most, and the next run reads first what this one had no time for."""

    def observe_late(session: FakeSession, resources: object, window: object) -> Iterator[Observation]:
        session.errors += [CloudError(Reason.THROTTLED, f"call {n}", "throttled") for n in range(4)]
        yield from ()
        raise CloudError(Reason.UNREACHABLE, "call", NOT_REACHED)

    part = observed(deployment, kinds=[replace(FAKE_KIND, observe=observe_late)])
    assert all(NOT_REACHED in (row.error or "") for row in part.coverage)


def test_every_target_is_observed_and_judged(deployment: FakeDeployment):
    part = observed(deployment)
    assert [(case.resource.name, case.verdict.state) for case in part.cases] == [("churn", State.IDLE), ("west", State.IDLE)]
    assert part.targets == (TARGET, replace(TARGET, region="eu-west-1"))
    assert {(row.region, row.status, row.resources) for row in part.coverage} == {
        ("us-east-1", Status.OK, 1),
        ("eu-west-1", Status.OK, 1),
    }


def test_observing_does_not_read_the_ledger(deployment: FakeDeployment):
    def fail(call: str, id_: str) -> None:
        raise AssertionError(call)

    deployment.ledger.fail_on = fail  # type: ignore[attr-defined]
    assert len(observed(deployment).cases) == 2


def test_a_denied_list_is_a_row_and_hides_no_other_target(deployment: FakeDeployment):
    calls: list[str] = []

    def deny_first(call: str, name: str) -> None:
        calls.extend([call] * (call == "list"))
        if call == "list" and len(calls) == 1:
            raise DENIED

    deployment.cloud.fail_on = deny_first
    part = observed(deployment)
    assert sorted(row.status for row in part.coverage) == [Status.DENIED, Status.OK]
    assert len(part.cases) == 1


@pytest.mark.parametrize(
    "error",
    [pytest.param(CloudError(Reason.THROTTLED, "x", "slow"), id="a failed call"), pytest.param(KeyError("x"), id="an odd reply")],
)
def test_what_could_not_be_observed_is_unknown(deployment: FakeDeployment, error: Exception):
    def fail(call: str, name: str) -> None:
        if call == "observe":
            raise error

    deployment.cloud.fail_on = fail
    part = observed(deployment)
    assert {case.verdict.state for case in part.cases} == {State.UNKNOWN}
    assert {row.status for row in part.coverage} == {Status.PARTIAL}


def test_what_is_no_odd_reply_ends_the_run(deployment: FakeDeployment):
    def end(call: str, name: str) -> None:
        raise MemoryError

    deployment.cloud.fail_on = end
    with pytest.raises(MemoryError):
        observed(deployment)


def test_a_resource_that_the_kind_forgets_is_unknown(deployment: FakeDeployment):
    part = observed(deployment, kinds=[replace(FAKE_KIND, observe=lambda session, resources, window: ())])
    assert {case.verdict.because for case in part.cases} == {"the kind returned no observation"}
    assert {case.verdict.state for case in part.cases} == {State.UNKNOWN}


def test_a_cloud_that_could_not_be_opened_is_in_the_coverage(deployment: FakeDeployment):
    row = Coverage(cloud="azure", account="unknown", region=None, kind="*", status=Status.FAILED, error="no")
    assert observed(deployment, unopened=(row,)).coverage[-1] == row


def test_kinds_of_another_cloud_are_not_asked(deployment: FakeDeployment):
    assert observed(deployment, kinds=[replace(FAKE_KIND, cloud="azure")]).coverage == ()


def test_progress_is_printed_for_each_list(deployment: FakeDeployment):
    lines: list[str] = []
    observed(deployment, progress=lines.append)
    assert sorted(line.partition(":")[0] for line in lines) == ["1 of 2", "2 of 2"]
