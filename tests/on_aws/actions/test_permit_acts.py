"""Leave to act is asked for directly before every changing call, and none is made once it is taken back; a lost reply loses no manifest."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from on_aws.actions.stage import Stage
from on_aws.actions.test_act_permissions import SCENES, Scene
from reaper.errors import ActionWithdrawn, CloudError, Reason
from reaper.model import StepName
from reaper_sandbox.aws import scaled
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.autoscaling import VARIANT
from reaper_sandbox.aws.fault import denied, lost, on
from reaper_sandbox.aws.records import Variant
from reaper_sandbox.aws.server import Server

READS = ("Describe", "List", "Get")
PUT_BACK = "RegisterScalableTarget"
KEY = ("endpoint/e/variant/AllTraffic", VARIANT)
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

    def __call__(self) -> None:
        self.count += 1
        self.server.calls.append(self)  # type: ignore[arg-type]
        if self.count > self.times:
            raise ActionWithdrawn("its owner snoozed it")


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
    before = named(changing(server))
    assert [c for c in before if c != PUT_BACK] == [c for c in before[:times] if c != PUT_BACK]
    assert before.count(PUT_BACK) in (0, 2), "what was lowered is put back"


def autoscaled(account: Account) -> None:
    account.endpoint("e", variants=[Variant(count=3)])
    scaled.variant(account, "e", least=2)


def state(account: Account) -> tuple[int, int]:
    return account.contents.endpoints["e"].variants[0].count, account.contents.scalable[KEY].least


def test_a_snooze_between_minimum_and_scale_in_restores_the_minimum(account: Account, server: Server):
    autoscaled(account)
    with pytest.raises(ActionWithdrawn):
        Stage(server, "sagemaker-endpoint").made("e", StepName.STOP, Leave(server, 1))
    assert state(account) == (3, 2)


def test_a_minimum_that_stays_lowered_after_a_snooze_is_reported(account: Account, server: Server):
    autoscaled(account)
    refuse = on("RegisterScalableTarget", denied())
    server.rules.append(lambda call: refuse(call) if account.contents.scalable[KEY].least == 1 else None)
    with pytest.raises(ActionWithdrawn, match="snoozed it; and the autoscaling minimum stays lowered"):
        Stage(server, "sagemaker-endpoint").made("e", StepName.STOP, Leave(server, 1))


def test_a_scale_in_with_a_lost_reply_says_the_call_was_retried(account: Account, server: Server):
    account.endpoint("e", variants=[Variant(count=3)])
    server.world.settle_after = timedelta(minutes=10)
    server.rules.append(on("UpdateEndpointWeightsAndCapacities", lost(), times=1))
    with pytest.raises(CloudError, match="Cannot update in-progress endpoint") as raised:
        Stage(server, "sagemaker-endpoint").move("e", StepName.STOP)
    assert (raised.value.reason, raised.value.retried) == (Reason.REFUSED, True)
    assert account.contents.endpoints["e"].variants[0].count == 1


def test_after_a_lost_reply_undo_restores_counts_and_minimum(account: Account, server: Server):
    autoscaled(account)
    stage = Stage(server, "sagemaker-endpoint")
    server.world.settle_after = timedelta(minutes=10)
    server.rules.append(on("UpdateEndpointWeightsAndCapacities", lost(), times=1))
    resource = stage.again(stage.resource("e")).resource
    manifest = stage.manifest(resource, StepName.STOP)
    with pytest.raises(CloudError, match="minimum stays lowered, because the call may have been carried out") as raised:
        stage.carry(resource, manifest)
    assert (raised.value.reason, raised.value.retried, state(account)) == (Reason.PARTIAL, True, (1, 1))
    server.now += timedelta(hours=1)
    stage.undo(manifest)
    assert state(account) == (3, 2)
