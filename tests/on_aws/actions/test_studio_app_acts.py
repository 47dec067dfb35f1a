from __future__ import annotations

from datetime import timedelta

import pytest

from on_aws.actions.stage import Barred, Stage
from on_aws.conftest import NOW, Sweep
from reaper import registry
from reaper.errors import CloudError, Reason
from reaper.model import Blocked, StepName
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


def test_an_app_comes_back_with_its_instance_and_its_own_tags_only(account: Account, stage: Stage):
    account.app(space="lab", instance="ml.g5.xlarge", tags={"owner": "ana"})
    said, manifest = stage.move(LAB, StepName.STOP)
    assert account.contents.apps[KEY].status == "Deleted"
    assert ("d-sandbox", "lab") in account.contents.spaces
    assert said == "its app is being deleted; the space and all files in it stay"
    undone = stage.undo(manifest)
    app = account.contents.apps[KEY]
    assert (app.status, app.resources, app.tags) == ("InService", {"InstanceType": "ml.g5.xlarge"}, {"owner": "ana"})
    assert undone.not_restored == ("Running kernels and unsaved work in memory are lost.",)


def test_undoing_twice_does_no_harm(account: Account, stage: Stage):
    account.app(space="lab")
    _, manifest = stage.move(LAB, StepName.STOP)
    stage.undo(manifest)
    assert stage.undo(manifest).because == "its status is InService already"
    assert len(stage.asked("sagemaker:CreateApp")) == 1


def test_undoing_waits_for_the_deletion_to_end(account: Account, stage: Stage, server: Server):
    server.world.settle_after = timedelta(minutes=3)
    account.app(space="lab")
    _, manifest = stage.move(LAB, StepName.STOP)
    with pytest.raises(CloudError, match="run it again once it is deleted"):
        stage.undo(manifest)
    server.now = NOW + timedelta(minutes=4)
    assert "starting" in stage.undo(manifest).because


def test_an_app_of_a_user_profile_is_one_persons_own(account: Account, stage: Stage):
    account.app(user="ana", type="KernelGateway", instance="ml.g4dn.xlarge")
    stage.move("ana/KernelGateway/default", StepName.STOP)
    assert account.contents.apps["d-sandbox", "ana", "KernelGateway", "default"].status == "Deleted"


@pytest.mark.parametrize("type_", ["RStudioServerPro", "RSessionGateway", "Canvas", "TensorBoard", "DetailedProfiler", "Novel"])
def test_apps_that_are_not_one_persons_own_are_barred(account: Account, stage: Stage, type_: str):
    account.app(user="ana", type=type_, instance="ml.t3.medium")
    assert "more than one person's own" in stage.bar(f"ana/{type_}/default", StepName.STOP)


def test_system_instances_are_barred(account: Account, stage: Stage):
    account.app(user="ana", type="JupyterServer", instance="system")
    assert stage.bar("ana/JupyterServer/default", StepName.STOP) == "it has no instance of its own"


def test_an_app_in_a_space_that_belongs_to_nobody_is_barred(account: Account, stage: Stage):
    account.space("common")
    account.app(space="common")
    assert "shared space" in stage.bar("common/JupyterLab/default", StepName.STOP)
    with pytest.raises(Barred):
        stage.move("common/JupyterLab/default", StepName.STOP)


def test_a_space_that_cannot_be_read_bars_the_stop_and_coverage_tells(
    account: Account, stage: Stage, server: Server, run_sweep: Sweep
):
    account.app(space="lab")
    server.rules.append(on("ListSpaces", denied()))
    assert stage.bar(LAB, StepName.STOP) == "whose space it is in could not be read"
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
def test_each_state_allows_what_it_allows(account: Account, stage: Stage, status: str, bar: Blocked | None):
    account.app(user="ana", status=status)
    assert stage.able("ana/JupyterLab/default") == {StepName.STOP: bar}


@pytest.mark.parametrize("where", ["app", "space", "domain"])
def test_a_keep_tag_put_anywhere_above_it_since_the_sweep_is_seen(account: Account, stage: Stage, where: str):
    account.app(space="lab")
    seen = stage.seen(LAB)
    record = {
        "app": account.contents.apps[KEY],
        "space": account.contents.spaces["d-sandbox", "lab"],
        "domain": account.contents.domains["d-sandbox"],
    }[where]
    record.tags = {"reaper:keep": "true"}
    assert stage.again(seen).resource.tags["reaper:keep"] == "true"


@pytest.mark.parametrize("status", ["Deleted", None])
def test_one_that_is_gone_says_so(account: Account, stage: Stage, status: str | None):
    account.app(space="lab")
    seen = stage.seen(LAB)
    if status:
        account.contents.apps[KEY].status = status
    else:
        account.contents.apps.clear()
    with pytest.raises(CloudError) as told:
        stage.again(seen)
    assert told.value.reason is Reason.GONE


def test_tags_that_cannot_be_found_are_not_an_app_that_is_gone(account: Account, stage: Stage):
    account.app(space="lab")
    seen = stage.seen(LAB)
    account.contents.domains.clear()
    with pytest.raises(CloudError) as told:
        stage.again(seen)
    assert told.value.reason is Reason.REFUSED


@pytest.mark.parametrize("operation", ["DescribeApp", "ListTags", "DeleteApp"])
def test_denied_is_told_and_nothing_is_deleted(account: Account, stage: Stage, server: Server, operation: str):
    account.app(user="ana")
    seen = stage.seen("ana/JupyterLab/default")
    server.rules.append(on(operation, denied()))
    acts = registry.action_functions(KIND)
    with pytest.raises(CloudError) as told:
        stage.carry(acts.read_now(stage.cloud(), seen), stage.manifest(seen, StepName.STOP))
    assert told.value.missing == f"sagemaker:{operation}"
    assert account.contents.apps["d-sandbox", "ana", "JupyterLab", "default"].status == "InService"
