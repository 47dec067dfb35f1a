"""docs/doctor.md: its sample is what `reaper doctor` prints in the demo, and it names every check."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from reaper import registry, settings
from reaper.cli import doctor
from reaper.doctor.check import Check, CheckStatus, DoctorContext
from reaper.doctor.examine import examine
from reaper_sandbox.aws.fault import without
from reaper_sandbox.demo.practice_world import PracticeWorld, practice_world
from reaper_sandbox.demo.sweep_demo import isolated_environment

PAGE = (Path(__file__).parents[2] / "docs/doctor.md").read_text()
WIDTH = 110
SAMPLES = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(scope="module")
def practice() -> Iterator[PracticeWorld]:
    with practice_world(lambda: datetime.now(UTC), lambda progress: None) as world, isolated_environment(world.exports):
        yield world


def examined() -> list[Check]:
    chosen = settings.from_env({**os.environ, "REAPER_MODE": "enforce"})
    context = DoctorContext(
        settings=chosen, environ=dict(os.environ), clock=lambda: datetime.now(UTC), kinds=registry.kinds(), includes_undo=False
    )
    return examine(context)


def rendered(checks: list[Check], world: PracticeWorld) -> str:
    """The text, with the names of this folder, port and day as the page has them."""
    shown = doctor.render(checks, WIDTH).replace(str(world.home), "/tmp/reaper-practice-x1y2")
    shown = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:8080", shown)
    return re.sub(r"[A-Z][a-z]{2} \d+ [A-Z][a-z]{2} \d{4}, \d\d:\d\d UTC", "Sat 21 Nov 2026, 10:17 UTC", shown)


def words(shown: str) -> list[str]:
    """Without line ends, whose places depend on the length of a folder's name, and without the number of permissions: each kind has its own."""
    return re.sub(r"\d+ permissions", "permissions", shown).split()


def test_the_sample_is_what_the_demo_prints(practice: PracticeWorld):
    assert words(rendered(examined(), practice)) == words(SAMPLES[0])


def test_the_example_of_a_missing_permission_is_true(practice: PracticeWorld):
    practice.aws.rules.insert(0, without("sagemaker:ListApps"))
    try:
        checks = [check for check in examined() if check.missing]
    finally:
        del practice.aws.rules[0]
    assert words(rendered(checks, practice).rpartition("1 check")[0]) == words(SAMPLES[1])


def test_the_page_names_every_check_of_the_demo(practice: PracticeWorld):
    names = {check.check for check in examined()}
    known = {name for name in names if f"`{name}`" in PAGE or f"`{name.partition('.')[0]}.*`" in PAGE}
    assert names == known
    assert all(f"`{status.value}`" in PAGE for status in CheckStatus)
