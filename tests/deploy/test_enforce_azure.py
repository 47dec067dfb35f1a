"""Mode enforce on Azure under exactly the actions of the two roles that the Bicep files deploy: every act of every kind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from deploy.test_bicep import ASSIGN, ENFORCE, actions
from reaper.finding import Report
from reaper.model import ACTIONS, Mode
from reaper.policy.file import load_policy
from reaper.run import run
from reaper.settings import Settings
from reaper_sandbox.azure import signals
from reaper_sandbox.azure.rights import deny, only
from reaper_sandbox.azure.server import Server
from reaper_sandbox.azure.subscription import Endpoint, Thing

NOW = datetime(2026, 11, 21, 10, 17, tzinfo=UTC)
LONG_AGO, DAY = NOW - timedelta(days=20), timedelta(days=1)
POLICY = """
version: 1
defaults: {{action: stop, idle_after: 24h, grace: 3d, act_on: likely}}
limits: {{max_share: 100%, max_usd_per_hour: 1000}}
owners: {{fallback: admins@example.com, domains: [example.com]}}
channels: [{{type: folder, path: "{folder}"}}]
rules:
  - {{name: office, match: {{name: office}}, action: stop, hours: {{on: "mon-sun 00:00-24:00", tz: UTC, start: all}}}}
  - {{name: gentle, match: {{name: gentle}}, action: stop, stop_by: native}}
  - {{name: dropped, match: {{name: "gone/*"}}, action: delete}}
"""


@dataclass
class Estate:
    """One subscription with one silent resource for each act, and the deployment that sweeps it."""

    server: Server
    home: Path
    cluster: Thing
    instances: dict[str, Thing]
    served: Thing
    gone: Endpoint

    @property
    def runs_as(self) -> str:
        """The id of the user-assigned identity of the endpoint whose traffic is set."""
        return f"{self.gone.id.partition('/providers/')[0]}/providers/Microsoft.ManagedIdentity/userAssignedIdentities/serving"

    def sweep(self, mode: Mode) -> Report:
        settings = Settings(
            mode=mode, cloud="azure", ledger=f"sqlite://{self.home}/ledger.db", manifests=str(self.home / "manifests")
        )
        now = self.server.world.now
        return run(settings, load_policy(POLICY.format(folder=self.home / "mails")), lambda: now)

    def later(self, days: int) -> None:
        self.server.now = self.server.world.now + timedelta(days=days)
        self.server.world.operations.settle(self.server.world.now)

    def state(self) -> dict[str, Any]:
        inner = {name: thing.body["properties"]["properties"] for name, thing in self.instances.items()}
        return {
            "least": self.cluster.body["properties"]["properties"]["scaleSettings"]["minNodeCount"],
            "instances": {name: (one["state"], one.get("idleTimeBeforeShutdown")) for name, one in inner.items()},
            "capacity": self.served.body["sku"]["capacity"],
            "traffic": {name: share for name, share in self.gone.body["properties"]["traffic"].items() if share},
        }


@pytest.fixture
def estate(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Estate]:
    for name in [n for n in os.environ if n.startswith(("AZURE_", "REAPER_", "IDENTITY_"))]:
        monkeypatch.delenv(name)
    with Server(NOW) as server:
        for name, value in server.env.items():
            monkeypatch.setenv(name, value)
        server.rules.append(only(*actions(), *actions(ENFORCE), ASSIGN))
        server.world.operations.takes = timedelta(0)
        vision = server.subscription("11111111-1111-1111-1111-111111111111").workspace("vision")
        cluster = vision.cluster("nodes", nodes=(3, 6))
        signals.nodes(cluster, active=0, idle=3, since=LONG_AGO)
        instances = {name: vision.instance(name) for name in ("ada", "gentle", "office")}
        instances["office"].set("properties.properties.state", "Stopped")
        served, gone = vision.endpoint("served").deployment("blue", capacity=3), vision.endpoint("gone")
        for deployment in (served, gone.deployment("blue")):
            signals.capacity(deployment, since=LONG_AGO)
        gone.traffic(blue=100)
        new_estate = Estate(server, tmp_path, cluster, instances, served, gone)
        gone.body["identity"] = {
            "type": "UserAssigned",
            "userAssignedIdentities": {new_estate.runs_as: {"principalId": "p", "clientId": "c"}},
        }
        server.rules.append(deny(ASSIGN, f"(?!{new_estate.runs_as}$).*"))
        yield new_estate


BEFORE = {
    "least": 3,
    "instances": {"ada": ("Running", None), "gentle": ("Running", None), "office": ("Stopped", None)},
    "capacity": 3,
    "traffic": {"blue": 100},
}
AFTER = {
    "least": 0,
    "instances": {"ada": ("Stopped", None), "gentle": ("Running", "PT60M"), "office": ("Running", None)},
    "capacity": 1,
    "traffic": {},
}


def changes(server: Server) -> set[str]:
    """The actions of all that was changed."""
    return {request.action for request in server.requests if request.mutation and request.action.startswith("Microsoft.Machine")}


def test_the_actions_of_all_kinds_need_exactly_the_two_roles(estate: Estate):
    estate.sweep(Mode.ENFORCE)
    estate.later(days=4)
    report = estate.sweep(Mode.ENFORCE)
    estate.later(days=0)
    outcomes = {
        f.case.resource.name: (str(f.step.name), str(f.outcome.result)) for f in report.findings if f.step.name in ACTIONS
    }
    stopped = dict.fromkeys(("nodes", "ada", "gentle", "served/blue"), ("stop", "done"))
    assert outcomes == {**stopped, "gone/blue": ("delete", "done")}
    assert [c for c in report.coverage if c.status != "ok"] == []
    assert estate.state() == AFTER
    used = {request.action for request in estate.server.requests}
    assert {a.lower() for a in actions(ENFORCE)} - {a.lower() for a in used} == set(), "granted and not used by any act"
    assert {a.lower() for a in actions()} - {a.lower() for a in used} == set()


@pytest.mark.parametrize("mode", [Mode.AUDIT, Mode.NOTIFY])
def test_below_enforce_nothing_is_changed_even_with_the_role_at_hand(estate: Estate, mode: Mode):
    estate.sweep(Mode.NOTIFY)
    estate.later(days=4)
    estate.sweep(mode)
    assert (changes(estate.server), estate.state()) == (set(), BEFORE)


def test_an_endpoint_whose_identity_may_not_be_assigned_keeps_its_traffic(estate: Estate):
    estate.server.rules.append(deny(ASSIGN, estate.runs_as))
    estate.sweep(Mode.ENFORCE)
    estate.later(days=4)
    report = estate.sweep(Mode.ENFORCE)
    [outcome] = [f.outcome for f in report.findings if f.case.resource.name == "gone/blue"]
    assert str(outcome.result) == "failed"
    assert f"missing permission {ASSIGN} on {estate.runs_as}" in str(outcome.error)
    assert estate.state()["traffic"] == BEFORE["traffic"]
    [gap] = [c for c in report.coverage if c.kind == "acts"]
    assert gap.missing == ASSIGN


def test_without_the_second_role_every_action_fails_and_names_the_missing(estate: Estate):
    estate.server.rules[:] = [only(*actions(), *(a for a in actions(ENFORCE) if a.endswith("/read")))]
    estate.sweep(Mode.ENFORCE)
    estate.later(days=4)
    report = estate.sweep(Mode.ENFORCE)
    failed = [f for f in report.findings if f.step.name in ACTIONS]
    assert {str(f.outcome.result) for f in failed} == {"failed"}
    assert len(failed) == 6
    assert estate.state() == BEFORE
    [gap] = [c for c in report.coverage if c.kind == "acts"]
    assert gap.missing in actions(ENFORCE)
