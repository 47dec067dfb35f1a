"""The world of `reaper demo --serve`: both simulated clouds under the real clock, with everything that the commands need in one folder.

Owners were notified two days ago, by a real sweep of that time, so that the first actions are due.
"""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from reaper.model import Mode
from reaper.policy.file import load_policy
from reaper.run import run
from reaper.settings import Settings
from reaper_sandbox.aws import fleet as aws_fleet
from reaper_sandbox.aws.live_signals import keep_publishing
from reaper_sandbox.aws.server import Server as Aws
from reaper_sandbox.azure import fleet as azure_fleet
from reaper_sandbox.azure.server import Server as Azure
from reaper_sandbox.demo.practice_fleet import PRACTICE_POLICY, add_organization
from reaper_sandbox.demo.practice_page import serve_page
from reaper_sandbox.demo.sweep_demo import isolated_environment

NOTIFIED_BEFORE = timedelta(days=2)
OPERATIONS_TAKE = timedelta(seconds=1)
"""How long Azure stops, starts and scales."""
REGIONS = ("us-east-1", "eu-west-1")


@dataclass(frozen=True, slots=True, kw_only=True)
class PracticeWorld:
    """Running clouds. `exports` lead every command to them and to the folder `home`: ledger, manifests, policy and mails."""

    aws: Aws
    azure: Azure
    home: Path
    exports: dict[str, str]


@contextmanager
def practice_world(clock: Callable[[], datetime], progress: Callable[[str], None]) -> Iterator[PracticeWorld]:
    """Set up both clouds and serve them. At the end the ports are closed and the folder is removed."""
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="reaper-practice-"))).resolve()
        aws, azure = stack.enter_context(Aws()), stack.enter_context(Azure())
        progress("both clouds: setting up the simulated fleet")
        _set_up(aws, azure, clock())
        exports = aws.env | azure.env | _stores(home)
        exports["REAPER_SNOOZE_URL"] = stack.enter_context(serve_page(exports, clock))
        world = PracticeWorld(aws=aws, azure=azure, home=home, exports=exports)
        _write_policy(home)
        progress(f"a sweep of {NOTIFIED_BEFORE.days} days ago: notifying owners")
        _sweep_in_the_past(world, clock() - NOTIFIED_BEFORE)
        aws.rules.append(keep_publishing(aws))
        yield world


def _set_up(aws: Aws, azure: Azure, now: datetime) -> None:
    azure.world.operations.takes = OPERATIONS_TAKE
    aws_fleet.settle(aws, now)
    add_organization(aws, now)
    azure_fleet.settle(azure, now)


def _stores(home: Path) -> dict[str, str]:
    """The reaper's own settings but for the page's address."""
    return {
        "REAPER_REGIONS": ",".join(REGIONS),
        "REAPER_LEDGER": f"sqlite://{home}/ledger.db",
        "REAPER_MANIFESTS": str(home / "manifests"),
        "REAPER_POLICY": str(home / "policy.yaml"),
        "REAPER_DEPLOYMENT": "practice",
        "REAPER_SNOOZE_KEYS": "env:PRACTICE_SNOOZE_KEYS",
        "PRACTICE_SNOOZE_KEYS": secrets.token_urlsafe(48),
    }


def _write_policy(home: Path) -> None:
    policy = home / "policy.yaml"
    policy.write_text(PRACTICE_POLICY.format(policy=policy, mail=home / "mail"), encoding="utf-8")


def _sweep_in_the_past(world: PracticeWorld, past: datetime) -> None:
    """A real sweep at that time: its notices are in the folder and in the ledger."""
    settings = Settings(mode=Mode.ANNOUNCE, regions=REGIONS, organization=True, ledger=world.exports["REAPER_LEDGER"])
    world.aws.now = world.azure.now = past
    with isolated_environment(world.exports):
        run(settings, load_policy(world.exports["REAPER_POLICY"]), lambda: past)
    world.aws.now = None
    world.azure.now = None
