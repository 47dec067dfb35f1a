from __future__ import annotations

from datetime import timedelta

import pytest

from on_aws.actions.stage import Barred, Stage
from on_aws.conftest import NOW, Sweep
from reaper import registry
from reaper.case import Blocked
from reaper.errors import CloudError, Reason
from reaper.model import StepName
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.fault import denied, on
from reaper_sandbox.aws.server import Server

KIND = "sagemaker-studio-app"
LAB = "lab/JupyterLab/default"
KEY = ("d-sandbox", "lab", "JupyterLab", "default")


@pytest.fixture
def stage(server: Server, account: Account) -> Stage:
    account.domain(tags={"team": "research"})
    account.user("ana")
    account.space("lab", owner="ana", tags={"cost": "7"})
    return Stage(server, KIND)


def test_undo_recreates_an_app_with_its_own_tags_only(account: Account, stage: Stage):
    account.app(space="lab", instance="ml.g5.xlarge", tags={"owner": "ana"})
    message, manifest = stage.move(LAB, StepName.STOP)
    assert account.contents.apps[KEY].status == "Deleted"
    assert ("d-sandbox", "lab") in account.contents.spaces
    assert message == "its app is being deleted; the space and all files in it stay"
    undone = stage.undo(manifest)
    app = account.contents.apps[KEY]
    assert (app.status, app.resources, app.tags) == ("InService", {"InstanceType": "ml.g5.xlarge"}, {"owner": "ana"})
    assert undone.not_restored == ("Running kernels and unsaved work in memory are lost.",)


def test_undoing_waits_for_the_deletion_to_end(account: Account, stage: Stage, server: Server):
    server.world.settle_after = timedelta(minutes=3)
    account.app(space="lab")
    _, manifest = stage.move(LAB, StepName.STOP)
    with pytest.raises(CloudError, match="run this again once it is deleted"):
        stage.undo(manifest)
    server.now = NOW + timedelta(minutes=4)
    assert "starting" in stage.undo(manifest).because


def test_an_app_of_a_user_profile_is_one_persons_own(account: Account, stage: Stage):
    account.app(user="ana", type="KernelGateway", instance="ml.g4dn.xlarge")
    stage.move("ana/KernelGateway/default", StepName.STOP)
    assert account.contents.apps["d-sandbox", "ana", "KernelGateway", "default"].status == "Deleted"


@pytest.mark.parametrize("type_", ["RStudioServerPro", "RSessionGateway", "Canvas", "TensorBoard", "DetailedProfiler", "Novel"])
def test_shared_apps_are_blocked(account: Account, stage: Stage, type_: str):
    account.app(user="ana", type=type_, instance="ml.t3.medium")
    assert "serve more than one person" in stage.bar(f"ana/{type_}/default", StepName.STOP)


def test_apps_on_system_instances_are_blocked(account: Account, stage: Stage):
    account.app(user="ana", type="JupyterServer", instance="system")
    assert stage.bar("ana/JupyterServer/default", StepName.STOP) == "it has no instance of its own"


def test_an_app_in_a_space_without_an_owner_is_blocked(account: Account, stage: Stage):
    account.space("common")
    account.app(space="common")
    assert "shared space" in stage.bar("common/JupyterLab/default", StepName.STOP)
    with pytest.raises(Barred):
        stage.move("common/JupyterLab/default", StepName.STOP)


def test_an_unreadable_space_blocks_the_stop_and_shows_in_coverage(
    account: Account, stage: Stage, server: Server, run_sweep: Sweep
):
    account.app(space="lab")
    server.rules.append(on("ListSpaces", denied()))
    assert stage.bar(LAB, StepName.STOP) == "the owner of its space couldn't be read"
    assert run_sweep(KIND).coverage(KIND).missing == "sagemaker:ListSpaces"


@pytest.mark.parametrize(
    ("status", "bar"),
    [
        ("InService", None),
        ("Pending", Blocked(because="its status is Pending")),
        ("Failed", Blocked(because="its status is Failed")),
        ("Deleting", Blocked(because="it is being deleted already", already_done=True)),
    ],
)
def test_status_decides_which_actions_are_blocked(account: Account, stage: Stage, status: str, bar: Blocked | None):
    account.app(user="ana", status=status)
    assert stage.able("ana/JupyterLab/default") == {StepName.STOP: bar}


@pytest.mark.parametrize("where", ["app", "space", "domain"])
def test_the_recheck_sees_keep_tags_on_the_app_and_its_parents(account: Account, stage: Stage, where: str):
    account.app(space="lab")
    resource = stage.resource(LAB)
    record = {
        "app": account.contents.apps[KEY],
        "space": account.contents.spaces["d-sandbox", "lab"],
        "domain": account.contents.domains["d-sandbox"],
    }[where]
    record.tags = {"reaper:keep": "true"}
    assert stage.again(resource).resource.tags["reaper:keep"] == "true"


@pytest.mark.parametrize("status", ["Deleted", None])
def test_rereading_a_deleted_resource_raises_gone(account: Account, stage: Stage, status: str | None):
    account.app(space="lab")
    resource = stage.resource(LAB)
    if status:
        account.contents.apps[KEY].status = status
    else:
        account.contents.apps.clear()
    with pytest.raises(CloudError) as raised:
        stage.again(resource)
    assert raised.value.reason is Reason.GONE


def test_missing_tags_do_not_mean_the_app_is_gone(account: Account, stage: Stage):
    account.app(space="lab")
    resource = stage.resource(LAB)
    account.contents.domains.clear()
    with pytest.raises(CloudError) as raised:
        stage.again(resource)
    assert raised.value.reason is Reason.REFUSED


@pytest.mark.parametrize("operation", ["DescribeApp", "ListTags", "DeleteApp"])
def test_a_denied_delete_is_reported_and_deletes_nothing(account: Account, stage: Stage, server: Server, operation: str):
    account.app(user="ana")
    resource = stage.resource("ana/JupyterLab/default")
    server.rules.append(on(operation, denied()))
    acts = registry.action_functions(KIND)
    with pytest.raises(CloudError) as raised:
        stage.carry(acts.read_now(stage.cloud(), resource), stage.manifest(resource, StepName.STOP))
    assert raised.value.missing == f"sagemaker:{operation}"
    assert account.contents.apps["d-sandbox", "ana", "JupyterLab", "default"].status == "InService"
