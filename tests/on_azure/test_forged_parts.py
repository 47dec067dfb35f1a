"""A decision that was handed over may claim anything: what proves idleness is the evidence of the resource that would be changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from on_azure.conftest import DAY, LONG_AGO
from on_azure.enforcing import Scene, idle_cluster, idle_instance
from reaper import __version__, registry
from reaper.act import act
from reaper.decide import DecideContext, decide
from reaper.finding import Step
from reaper.ledger.ledger import RunLeases
from reaper.model import Mode, Result, Run, StepName
from reaper.observe import ObserveContext, observe
from reaper_sandbox.azure import signals
from reaper_sandbox.azure.server import Server
from reaper_sandbox.azure.subscription import Workspace

HOURS = timedelta(hours=3)


def used_cluster(server: Server, vision: Workspace) -> Scene:
    """Notified of three days ago, in use now, beside a silent one."""
    silent = vision.cluster("silent", nodes=(2, 6), created=LONG_AGO)
    signals.nodes(silent, active=0, idle=2, since=LONG_AGO, until=LONG_AGO + 90 * DAY)
    scene = idle_cluster(server, vision)
    scene.one.sweep()
    scene.one.later(days=3)
    now = server.world.now
    signals.nodes(scene.thing, active=2, idle=0, since=now - HOURS, until=now)
    return scene


def used_instance(server: Server, vision: Workspace) -> Scene:
    """Notified of three days ago, in use now, beside a silent one."""
    silent = vision.instance("silent", created=LONG_AGO, started=LONG_AGO)
    signals.busy(silent, 0, since=LONG_AGO, until=LONG_AGO + 40 * DAY)
    scene = idle_instance(server, vision)
    scene.one.sweep()
    scene.one.later(days=3)
    now = server.world.now
    signals.busy(scene.thing, 1, since=now - HOURS, until=now)
    return scene


@pytest.mark.parametrize("build", [used_cluster, used_instance])
def test_another_computes_silence_proves_nothing_about_this_one(
    server: Server, vision: Workspace, build: Callable[[Server, Workspace], Scene]
):
    scene = build(server, vision)
    one = scene.one

    def clock() -> datetime:
        return server.world.now

    run = Run(id="run-9", started_at=clock(), mode=Mode.ENFORCE, version=__version__, policy_sha256="0" * 64)
    reading = ObserveContext(sessions=[one.session()], kinds=[registry.kind(one.kind)], policy=one.policy, clock=clock)
    decided = decide([observe(run, reading, clock())], DecideContext(policy=one.policy, ledger=one.ledger, clock=clock))
    [used] = [d for d in decided.findings if d.case.resource.id == scene.thing.id]
    case = replace(used.case, resource=replace(used.case.resource, name="silent"))
    forged = replace(used, case=case, step=Step(name=StepName.STOP, because="I say so"))
    [target] = decided.leased
    leases = RunLeases(ledger=one.ledger, run_id=run.id, clock=clock, renewed_at=clock(), targets={target})
    outcomes = act(replace(decided, findings=(forged,)), one.open_act(target, leases)).outcomes
    assert (outcomes[scene.thing.id].result, server.mutations) == (Result.REFUSED, [])
