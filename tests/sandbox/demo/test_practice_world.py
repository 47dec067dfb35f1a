"""The world of `reaper demo --serve` after it has been up for hours."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from reaper.policy.file import load_policy
from reaper.run import run
from reaper.settings import Settings
from reaper_sandbox.demo.practice_world import REGIONS, PracticeWorld, practice_world
from reaper_sandbox.demo.sweep_demo import isolated_environment


def due_actions(world: PracticeWorld, now: datetime) -> set[str]:
    world.aws.now = world.azure.now = now
    settings = Settings(regions=REGIONS, organization=True, ledger=world.exports["REAPER_LEDGER"])
    with isolated_environment(world.exports):
        report = run(settings, load_policy(world.exports["REAPER_POLICY"]), lambda: now)
    return {f.case.resource.name for f in report.findings if f.step.name in {"stop", "delete", "hold"}}


def test_the_same_actions_are_due_hours_later():
    now = datetime.now(UTC)
    with practice_world(lambda: now, lambda text: None) as world:
        before = due_actions(world, now)
        assert {"fraud-idle", "segmentation-idle", "similar-items-idle", "idle-min-nodes"} < before
        assert due_actions(world, now + timedelta(hours=9)) == before
