"""Leave to act is asked for directly before every changing call, and none is made once it is taken back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from on_aws.actions.stage import Stage
from on_aws.actions.test_act_permissions import SCENES, Scene
from reaper.acting.contract import OwnChanges, unchanged
from reaper.errors import ActionWithdrawn
from reaper.model import StepName
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.server import Server

READS = ("Describe", "List", "Get")
PLAYS = [(kind, move, scene) for kind, move, scenes in SCENES for scene in scenes]
ONE_CALL = {"sagemaker-notebook", "sagemaker-studio-app"}
WITHDRAWN = [(*play, times) for play in PLAYS for times in (0, 1) if not times or play[0] not in ONE_CALL]
"""Plays, and after how many calls leave is taken back."""


@dataclass
class Leave:
    """A permit that is given `times` times and then withdrawn; each asking is noted among the server's calls."""

    server: Server
    times: int = 99
    count: int = 0

    @contextmanager
    def __call__(
        self, own_changes: OwnChanges = unchanged, inside: str | None = None, *, may_be_gone: bool = False
    ) -> Iterator[None]:
        self.count += 1
        self.server.calls.append(self)  # type: ignore[arg-type]
        if self.count > self.times:
            raise ActionWithdrawn("its owner snoozed it")
        yield

    def after_wait(self, own_changes: OwnChanges = unchanged) -> None:
        """Nothing waits here."""


def changing(server: Server, first: int = 0) -> list[Any]:
    """The changing calls, and each asking for leave, in their order."""
    return [c for c in server.calls[first:] if isinstance(c, Leave) or not c.operation.startswith(READS)]


def named(calls: list[Any]) -> list[str]:
    return [c.operation for c in calls if not isinstance(c, Leave)]


@pytest.mark.parametrize(("kind", "move", "scene"), PLAYS, ids=lambda v: getattr(v, "__name__", str(v)))
def test_a_permit_is_required_right_before_each_changing_call(
    account: Account, server: Server, kind: str, move: StepName, scene: Scene
):
    leave, name = Leave(server), scene(account)
    Stage(server, kind).made(name, move, leave)
    calls = server.calls
    for at, call in enumerate(calls):
        if not isinstance(call, Leave) and not call.operation.startswith(READS):
            assert isinstance(calls[at - 1], Leave), call.operation
    assert leave.count == len(named(changing(server))) > 0


@pytest.mark.parametrize(("kind", "move", "scene", "times"), WITHDRAWN, ids=lambda v: getattr(v, "__name__", str(v)))
def test_no_changing_call_follows_a_withdrawn_permit(
    account: Account, server: Server, kind: str, move: StepName, scene: Scene, times: int
):
    leave, name = Leave(server, times), scene(account)
    stage = Stage(server, kind)
    resource = stage.again(stage.resource(name)).resource
    manifest = stage.manifest(resource, move)
    try:
        because = stage.carry(resource, manifest, leave).because
    except ActionWithdrawn as reason:
        because = str(reason)
    else:
        assert "its autoscaling stays (" in because, "what it belonged to was deleted before"
    assert "its owner snoozed it" in because
    assert len(named(changing(server))) == times
