from __future__ import annotations

from datetime import timedelta

import pytest

from on_aws.actions.stage import Barred, Stage
from on_aws.conftest import NOW
from reaper.case import Blocked
from reaper.errors import ActionWithdrawn, CloudError, Reason
from reaper.model import StepName
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.fault import denied, garbage, on
from reaper_sandbox.aws.server import Server


@pytest.fixture
def stage(server: Server) -> Stage:
    return Stage(server, "sagemaker-notebook")


def status(account: Account, name: str = "nb") -> str:
    return account.contents.notebooks[name].status


def test_a_stopped_notebook_is_started_again_by_undoing_the_stop(account: Account, stage: Stage):
    account.notebook("nb")
    message, manifest = stage.move("nb", StepName.STOP)
    assert (status(account), message) == ("Stopped", "it is stopping; its volume stays")
    undone = stage.undo(manifest)
    assert (status(account), undone.because) == ("InService", "it is starting")
    assert "lost" in undone.not_restored[0]


def test_a_start_is_carried_out_and_never_undone(account: Account, stage: Stage):
    account.notebook("nb", status="Stopped")
    _, manifest = stage.move("nb", StepName.START)
    assert status(account) == "InService"
    with pytest.raises(CloudError, match="a start of kind sagemaker-notebook isn't undone"):
        stage.undo(manifest)
    assert status(account) == "InService"


@pytest.mark.parametrize(
    ("start_status", "stop", "start"),
    [
        ("InService", None, Blocked(because="it is running already", already_done=True)),
        ("Stopped", Blocked(because="it is stopped already", already_done=True), None),
        *(
            (s, Blocked(because=f"its status is {s}"), Blocked(because=f"its status is {s}"))
            for s in ("PendingMaintenance", "Updating")
        ),
        ("Pending", Blocked(because="its status is Pending"), Blocked(because="it is starting already", already_done=True)),
        ("Stopping", Blocked(because="it is stopping already", already_done=True), Blocked(because="its status is Stopping")),
        *(
            (s, Blocked(because=f"its status is {s}"), Blocked(because=f"its status is {s}"))
            for s in ("Deleting", "Failed", "Novel")
        ),
    ],
)
def test_status_decides_which_actions_are_blocked(
    account: Account, stage: Stage, start_status: str, stop: Blocked | None, start: Blocked | None
):
    account.notebook("nb", status=start_status)
    assert stage.able("nb") == {StepName.STOP: stop, StepName.START: start}


def test_a_notebook_updated_since_the_sweep_is_blocked(account: Account, stage: Stage):
    account.notebook("nb")
    resource = stage.resource("nb")
    account.contents.notebooks["nb"].status = "Updating"
    assert stage.again(resource).changing_because == "its status is Updating"
    with pytest.raises(Barred):
        stage.move("nb", StepName.STOP)


def test_a_notebook_stopped_a_moment_earlier_is_not_the_reapers_stop(account: Account, stage: Stage, server: Server):
    account.notebook("nb")
    resource = stage.again(stage.resource("nb")).resource
    manifest = stage.manifest(resource, StepName.STOP)
    account.contents.notebooks["nb"].status = "Stopped"
    with pytest.raises(ActionWithdrawn, match="its status, size changed a moment ago"):
        stage.carry(resource, manifest)
    assert not stage.parameters("sagemaker:StopNotebookInstance")


def test_rereading_a_deleted_resource_raises_gone(account: Account, stage: Stage):
    account.notebook("nb")
    resource = stage.resource("nb")
    account.contents.notebooks.clear()
    with pytest.raises(CloudError) as raised:
        stage.again(resource)
    assert raised.value.reason is Reason.GONE


@pytest.mark.parametrize("operation", ["DescribeNotebookInstance", "ListTags"])
@pytest.mark.parametrize("fault", [denied(), garbage()], ids=["denied", "garbled"])
def test_an_unreadable_notebook_is_not_stopped(account: Account, stage: Stage, server: Server, operation: str, fault):
    account.notebook("nb")
    server.rules.append(on(operation, fault))
    with pytest.raises(CloudError):
        stage.move("nb", StepName.STOP)
    assert status(account) == "InService"


def test_a_denied_stop_names_the_permission(account: Account, stage: Stage, server: Server):
    account.notebook("nb")
    server.rules.append(on("StopNotebookInstance", denied()))
    with pytest.raises(CloudError) as raised:
        stage.move("nb", StepName.STOP)
    assert raised.value.missing == "sagemaker:StopNotebookInstance"


def test_the_recheck_reads_the_current_tags(account: Account, stage: Stage):
    account.notebook("nb", tags={"team": "x"})
    resource = stage.resource("nb")
    account.contents.notebooks["nb"].tags = {"team": "x", "reaper:keep": "true"}
    assert stage.again(resource).resource.tags == {"team": "x", "reaper:keep": "true"}


def test_undoing_waits_for_a_stop_to_end(account: Account, stage: Stage, server: Server):
    server.world.settle_after = timedelta(minutes=3)
    account.notebook("nb")
    _, manifest = stage.move("nb", StepName.STOP)
    with pytest.raises(CloudError, match="run this again once it is Stopped"):
        stage.undo(manifest)
    server.now = NOW + timedelta(minutes=4)
    assert stage.undo(manifest).because == "it is starting"
