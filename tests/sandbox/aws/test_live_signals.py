"""A fleet that stays up: hours after it was seeded, its verdicts are still those that its names say."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from fakes.builders import NOW
from reaper.policy.file import load_policy
from reaper.run import run
from reaper.settings import Settings
from reaper_sandbox.aws import fleet
from reaper_sandbox.aws.live_signals import keep_publishing
from reaper_sandbox.aws.server import Server
from reaper_sandbox.demo.sweep_demo import DEMO_POLICY, isolated_environment

SETTINGS = Settings(cloud="aws", regions=("us-east-1", "eu-west-1"))
GROWING_UP = {"deployed-an-hour-ago", "updated-this-morning", "heartbeat-began-late", "nb-started-an-hour-ago"}
"""What is old enough for another verdict after some hours."""


def verdicts(server: Server, now: datetime) -> dict[str, str]:
    server.now = now
    with isolated_environment(server.env):
        report = run(SETTINGS, load_policy(DEMO_POLICY), lambda: now)
    return {f.case.resource.name: f.case.verdict.state.value for f in report.findings if f.case.resource.name not in GROWING_UP}


@pytest.mark.parametrize("hours", [6, 40])
def test_a_live_fleet_has_its_verdicts_hours_later(hours: int):
    with Server(NOW) as server:
        fleet.settle(server, NOW)
        before = verdicts(server, NOW)
        server.rules.append(keep_publishing(server))
        later = verdicts(server, NOW + timedelta(hours=hours))
    aged = {"creating-now", "update-in-progress", "used-an-hour-ago/JupyterLab/default", "keep-until-next-month"}
    kept = before.keys() - (aged if hours > 24 else set())
    assert {name: later[name] for name in kept} == {name: before[name] for name in kept}


def test_a_fleet_without_live_signals_becomes_unknown():
    with Server(NOW) as server:
        fleet.settle(server, NOW)
        later = verdicts(server, NOW + timedelta(hours=6))
    assert later["churn-idle-9-days"] == "unknown"


def test_what_had_stopped_publishing_stays_silent():
    with Server(NOW) as server:
        fleet.settle(server, NOW)
        server.rules.append(keep_publishing(server))
        later = verdicts(server, NOW + timedelta(hours=6))
    assert {later[name] for name in ("heartbeat-stopped-3-days-ago", "nb-busy-series-stopped")} == {"unknown"}
    assert later["churn-idle-9-days"] == "idle"
