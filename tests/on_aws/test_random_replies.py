"""A few hundred random fleets in schema-valid random replies: no sweep crashes, loses or repeats anything, or calls idle what is used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import boto3
import pytest

import seeds
from fakes.sweeps import SweepOrder, sweep
from on_aws.conftest import NOW
from on_aws.replies import Fleet, names
from reaper import registry
from reaper.aws.session import CloudSession
from reaper.finding import Report
from reaper.model import Confidence, State, Status, Target
from reaper.policy.parse import parse_policy
from reaper_sandbox.aws.server import Server

FLEETS, A_TEST = 240, 40
LISTS = {  # the kinds that `replies.Fleet` makes up; any other gets random rows, and must not be proven idle by them
    "sagemaker-endpoint": "ListEndpoints",
    "sagemaker-inference-component": "ListInferenceComponents",
    "sagemaker-notebook": "ListNotebookInstances",
    "sagemaker-studio-app": "ListApps",
}
POLICY = """
version: 1
rules:
  - {name: large, match: {usd_per_hour: ">= 5"}, idle_after: 21h}
  - {name: apps, match: {kind: sagemaker-studio-app}, idle_after: 2d, action: stop}
"""


@pytest.fixture(scope="module")
def place() -> Iterator[tuple[Server, CloudSession]]:
    with pytest.MonkeyPatch.context() as patch, Server(NOW) as server:
        for name, value in server.env.items():
            patch.setenv(name, value)
        yield server, CloudSession(boto3.Session(), Target(cloud="aws", account="123456789012", region="us-east-1"))


def _swept(place: tuple[Server, CloudSession], fleet: Fleet) -> Report:
    server, cloud = place
    server.rules[:] = [fleet.guard]
    order = SweepOrder(policy=parse_policy(POLICY, "policy", registry.kind_names()), now=NOW)
    return sweep([cloud], registry.kinds("aws"), order)


@pytest.mark.fresh
@pytest.mark.parametrize("first", range(seeds.first(FLEETS), seeds.first(FLEETS) + FLEETS, A_TEST))
def test_random_replies_never_crash_lose_repeat_or_yield_idle(place: tuple[Server, CloudSession], first: int):
    states: Counter[State] = Counter()
    for seed in range(first, first + A_TEST):
        fleet = Fleet(seed, NOW)
        report = _swept(place, fleet)
        assert [c.kind for c in report.coverage] == [kind.name for kind in registry.kinds("aws")], seed
        for coverage in report.coverage:
            reported = sorted(f.case.resource.name for f in report.findings if f.case.resource.kind == coverage.kind)
            assert coverage.resources == len(reported), seed
            if coverage.kind not in LISTS:
                continue
            if LISTS[coverage.kind] in fleet.failed and coverage.status in {Status.DENIED, Status.FAILED} and not reported:
                continue
            assert reported == names(fleet.of(coverage.kind)), (seed, coverage)
        idle = {f.case.resource.name for f in report.findings if f.case.verdict.state is State.IDLE}
        assert not idle & fleet.truly_used(), seed
        assert {f.case.resource.kind for f in report.findings if f.case.verdict.confidence is Confidence.PROVEN} <= LISTS.keys()
        states.update(f.case.verdict.state for f in report.findings)
    assert all(states[state] > 5 for state in (State.IDLE, State.ACTIVE, State.UNKNOWN, State.YOUNG)), states
