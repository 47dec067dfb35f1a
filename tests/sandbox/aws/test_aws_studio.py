"""Notebook instances, and Studio's domains, users, spaces and apps."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.server import Server
from sandbox.aws.clients import NOW, Client

MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
SETTINGS = {"ExecutionRole": "arn:aws:iam::123456789012:role/r"}


@pytest.fixture
def sagemaker(client: Client) -> Any:
    """The SageMaker client."""
    return client("sagemaker")


def refusal(call: Any, **params: Any) -> str:
    """Code and message of the refusal."""
    with pytest.raises(ClientError) as caught:
        call(**params)
    error = caught.value.response["Error"]
    return f"{error['Code']}: {error['Message']}"


def test_a_notebook_is_created_stopped_and_deleted(server: Server, sagemaker: Any) -> None:
    name = {"NotebookInstanceName": "NB"}
    sagemaker.create_notebook_instance(
        **name, InstanceType="ml.g6.xlarge", RoleArn=SETTINGS["ExecutionRole"], VolumeSizeInGB=50, LifecycleConfigName="quiet"
    )
    server.now = NOW + DAY
    sagemaker.stop_notebook_instance(**name)
    reply = sagemaker.describe_notebook_instance(**name)
    assert (reply["NotebookInstanceStatus"], reply["CreationTime"], reply["LastModifiedTime"]) == ("Stopped", NOW, NOW + DAY)
    assert (reply["VolumeSizeInGB"], reply["InstanceType"]) == (50, "ml.g6.xlarge")
    [row] = sagemaker.list_notebook_instances(NotebookInstanceLifecycleConfigNameContains="qui")["NotebookInstances"]
    assert (row["NotebookInstanceLifecycleConfigName"], row["NotebookInstanceArn"]) == ("quiet", reply["NotebookInstanceArn"])
    sagemaker.start_notebook_instance(**name)
    assert sagemaker.describe_notebook_instance(**name)["NotebookInstanceStatus"] == "InService"
    sagemaker.stop_notebook_instance(**name)
    sagemaker.delete_notebook_instance(**name)
    assert refusal(sagemaker.describe_notebook_instance, **name) == "ValidationException: RecordNotFound"


@pytest.mark.parametrize(
    ("method", "status", "text"),
    [
        (
            "stop",
            "Stopped",
            "Status (Stopped) not in ([InService]). Unable to transition to (Stopping) for Notebook Instance (arn:",
        ),
        (
            "stop",
            "Pending",
            "Status (Pending) not in ([InService]). Unable to transition to (Stopping) for Notebook Instance (arn:",
        ),
        ("start", "InService", "Status (InService) not in ([Stopped, Failed]). Unable to transition to (Pending) for"),
        ("delete", "InService", "Status (InService) not in ([Stopped, Failed]). Unable to transition to (Deleting) for"),
    ],
)
def test_a_notebook_refuses_invalid_state_changes(sagemaker: Any, account: Account, method: str, status: str, text: str) -> None:
    account.notebook("nb", status=status)
    message = refusal(getattr(sagemaker, f"{method}_notebook_instance"), NotebookInstanceName="nb")
    assert message.startswith(f"ValidationException: {text}")


def test_notebooks_are_listed_by_name_and_filtered_by_time(sagemaker: Any, account: Account) -> None:
    account.notebook("b", changed=NOW - DAY)
    account.notebook("a", status="Stopped", tags={"x": "y"})
    rows = sagemaker.list_notebook_instances()["NotebookInstances"]
    assert [n["NotebookInstanceName"] for n in rows] == ["a", "b"]
    recent = sagemaker.list_notebook_instances(LastModifiedTimeAfter=NOW - 2 * DAY)["NotebookInstances"]
    assert [n["NotebookInstanceName"] for n in recent] == ["b"]
    assert len(sagemaker.list_notebook_instances(StatusEquals="Stopped")["NotebookInstances"]) == 1


def test_studio_is_built_through_its_own_operations(sagemaker: Any) -> None:
    domain = sagemaker.create_domain(
        DomainName="research", AuthMode="IAM", DefaultUserSettings=SETTINGS, SubnetIds=["subnet-1"], VpcId="vpc-1"
    )["DomainArn"].rpartition("/")[2]
    sagemaker.create_user_profile(DomainId=domain, UserProfileName="Ana")
    sagemaker.create_space(
        DomainId=domain, SpaceName="Lab", OwnershipSettings={"OwnerUserProfileName": "Ana"},
        SpaceSharingSettings={"SharingType": "Private"}, SpaceSettings={"AppType": "JupyterLab"},
    )  # fmt: skip
    named = {"DomainId": domain, "SpaceName": "Lab", "AppType": "JupyterLab", "AppName": "default"}
    arn = sagemaker.create_app(**named, ResourceSpec={"InstanceType": "ml.g5.xlarge"})["AppArn"]
    assert arn == f"arn:aws:sagemaker:us-east-1:123456789012:app/{domain}/Lab/JupyterLab/default"
    [row] = sagemaker.list_apps(DomainIdEquals=domain)["Apps"]
    assert row == {**named, "Status": "InService", "CreationTime": NOW, "ResourceSpec": {"InstanceType": "ml.g5.xlarge"}}
    reply = sagemaker.describe_app(**named)
    assert (reply["AppArn"], reply["LastUserActivityTimestamp"], reply["LastHealthCheckTimestamp"]) == (arn, NOW, NOW)
    [space] = sagemaker.list_spaces(DomainIdEquals=domain)["Spaces"]
    assert (space["OwnershipSettingsSummary"], space["SpaceSettingsSummary"]["AppType"]) == (
        {"OwnerUserProfileName": "Ana"},
        "JupyterLab",
    )
    assert sagemaker.describe_space(DomainId=domain, SpaceName="Lab")["SpaceArn"].endswith(f"space/{domain}/Lab")
    assert sagemaker.describe_user_profile(DomainId=domain, UserProfileName="Ana")["Status"] == "InService"
    assert [u["UserProfileName"] for u in sagemaker.list_user_profiles()["UserProfiles"]] == ["Ana"]
    assert [d["DomainName"] for d in sagemaker.list_domains()["Domains"]] == ["research"]
    assert sagemaker.describe_domain(DomainId=domain)["AuthMode"] == "IAM"


def test_studio_is_taken_down_from_the_inside_out(sagemaker: Any, account: Account) -> None:
    account.domain("d-1")
    account.user("ana", domain="d-1")
    account.space("lab", domain="d-1", owner="ana")
    account.app(space="lab", domain="d-1")
    named = {"DomainId": "d-1", "SpaceName": "lab"}
    app = named | {"AppType": "JupyterLab", "AppName": "default"}
    assert refusal(sagemaker.delete_space, **named).startswith("ResourceInUse:")
    sagemaker.delete_app(**app)
    assert [a["Status"] for a in sagemaker.list_apps()["Apps"]] == ["Deleted"]
    assert refusal(sagemaker.delete_app, **app).startswith("ResourceNotFound:")
    sagemaker.delete_space(**named)
    assert refusal(sagemaker.delete_domain, DomainId="d-1").startswith("ResourceInUse:")
    sagemaker.delete_user_profile(DomainId="d-1", UserProfileName="ana")
    sagemaker.delete_domain(DomainId="d-1", RetentionPolicy={"HomeEfsFileSystem": "Delete"})
    assert refusal(sagemaker.describe_domain, DomainId="d-1").startswith("ResourceNotFound:")


def test_a_missing_app_is_a_typed_error(sagemaker: Any, account: Account) -> None:
    account.domain("d-1")
    named = {"DomainId": "d-1", "SpaceName": "lab", "AppType": "JupyterLab", "AppName": "default"}
    for call in (sagemaker.describe_app, sagemaker.delete_app):
        with pytest.raises(sagemaker.exceptions.ResourceNotFound):
            call(**named)
    assert refusal(sagemaker.create_app, **named).startswith("ValidationException:")
    both = named | {"UserProfileName": "ana"}
    assert refusal(sagemaker.describe_app, **both).startswith("ValidationException:")


def test_apps_of_users_and_spaces_are_distinct(sagemaker: Any, account: Account) -> None:
    account.domain()
    account.app(user="ana", type="JupyterServer", instance="system", created=NOW - 2 * DAY)
    account.app(space="lab", used=NOW - DAY, checked=NOW - MINUTE)
    rows = sagemaker.list_apps()["Apps"]
    assert [(r.get("UserProfileName"), r.get("SpaceName"), r["AppType"]) for r in rows] == [
        (None, "lab", "JupyterLab"),
        ("ana", None, "JupyterServer"),
    ]
    assert [r["AppType"] for r in sagemaker.list_apps(UserProfileNameEquals="ana")["Apps"]] == ["JupyterServer"]
    lab = sagemaker.describe_app(DomainId="d-sandbox", SpaceName="lab", AppType="JupyterLab", AppName="default")
    assert (lab["LastUserActivityTimestamp"], lab["LastHealthCheckTimestamp"]) == (NOW - DAY, NOW - MINUTE)
    server = sagemaker.describe_app(DomainId="d-sandbox", UserProfileName="ana", AppType="JupyterServer", AppName="default")
    assert server["LastUserActivityTimestamp"] == server["LastHealthCheckTimestamp"]
