"""The whole fleet in two subscriptions: each name explains its verdict, and the sweep has to find just that."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fakes.sweeps import SweepOrder, sweep
from on_azure.conftest import NOW
from reaper import registry
from reaper.azure import targets
from reaper.finding import Finding, Report
from reaper.policy.parse import parse_policy
from reaper_sandbox.azure import fleet
from reaper_sandbox.azure.server import Server


@pytest.fixture(scope="module")
def story() -> Iterator[tuple[Server, Report]]:
    with Server(NOW) as server, pytest.MonkeyPatch.context() as patch:
        fleet.settle(server, NOW)
        for name, value in server.env.items():
            patch.setenv(name, value)
        order = SweepOrder(policy=parse_policy("version: 1", "policy", registry.kind_names()), now=NOW)
        yield server, sweep(targets.target_sessions(()), registry.kinds("azure"), order)


@pytest.fixture(scope="module")
def findings(story: tuple[Server, Report]) -> dict[str, Finding]:
    return {f.case.resource.id.rpartition("/")[2]: f for f in story[1].findings}


@pytest.mark.parametrize("name", fleet.EXPECTED)
def test_each_azure_verdict_matches_the_fleet(findings: dict[str, Finding], name: str):
    expected, verdict = fleet.EXPECTED[name], findings[name].case.verdict
    assert (findings[name].case.resource.kind, verdict.state, verdict.confidence) == (
        expected.kind,
        expected.state,
        expected.confidence,
    ), verdict.because


def test_only_seeded_azure_resources_are_reported(findings: dict[str, Finding]):
    assert set(findings) == set(fleet.EXPECTED)


def test_coverage_is_complete(story: tuple[Server, Report]):
    assert [(c.status, c.error) for c in story[1].coverage] == [("ok", None)] * 6


def test_a_sweep_changes_nothing_and_reads_no_key(story: tuple[Server, Report]):
    server = story[0]
    assert server.mutations == []
    assert {r.method for r in server.requests} == {"GET", "POST"}
    assert {r.path.rpartition("/")[2] for r in server.requests if r.method == "POST"} == {"resources", "metrics:getBatch"}


def test_every_call_of_a_sweep_is_a_declared_permission(story: tuple[Server, Report]):
    declared = {permission for kind in registry.kinds("azure") for permission in kind.permissions}
    actions = {r.action for r in story[0].requests} - {"", "Microsoft.ResourceGraph/resources/read"}
    assert actions == declared


@pytest.mark.parametrize("kind", registry.kinds("azure"), ids=lambda kind: kind.name)
def test_each_kind_calls_only_what_its_permissions_declare(story: tuple[Server, Report], kind):
    made = {call.removesuffix(" (batch)") for c in story[1].coverage if c.kind == kind.name for call in c.calls}
    assert made - {"Microsoft.ResourceGraph/resources/read"} <= set(kind.permissions)
