"""A manifest is undone only if it has the form of its kind and fits the ID; what it names is shown to the person who restores."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fakes.builders import NOW
from reaper import registry
from reaper.acting.contract import Manifest, unknown_member
from reaper.acting.manifest import named_parts, require_own_form
from reaper.cli import undo
from reaper.errors import CloudError
from reaper.model import StepName, Target

AWS, AZURE = Target(cloud="aws", account="123456789012", region="us-east-1"), Target(cloud="azure", account="Sub-1")
WORKSPACE = "/subscriptions/sub-1/resourceGroups/RG/providers/Microsoft.MachineLearningServices/workspaces/w"
IDS = {
    "sagemaker-endpoint": ("arn:aws:sagemaker:us-east-1:123456789012:endpoint/churn", "churn"),
    "sagemaker-inference-component": ("arn:aws:sagemaker:us-east-1:123456789012:inference-component/churn", "churn"),
    "sagemaker-notebook": ("arn:aws-cn:sagemaker:us-east-1:123456789012:notebook-instance/Churn", "churn"),
    "sagemaker-studio-app": (
        "arn:aws:sagemaker:us-east-1:123456789012:app/d-1/home/jupyterlab/default",
        "home/JupyterLab/default",
    ),
    "azureml-compute-instance": (f"{WORKSPACE}/computes/ann", "ann"),
    "azureml-compute-cluster": (f"{WORKSPACE.lower()}/computes/ann", "Ann"),
    "azureml-online-deployment": (f"{WORKSPACE}/onlineEndpoints/chat/deployments/blue", "chat/blue"),
}


def stored(kind: str = "sagemaker-endpoint", **changes: Any) -> Manifest:
    id_, name = IDS[kind]
    target = AWS if id_.startswith("arn") else AZURE
    manifest = Manifest(
        id=id_,
        kind=kind,
        name=name,
        target=target,
        region=target.region or "westeurope",
        action=StepName.STOP,
        run="run-1",
        at=NOW,
        undo_state={},
    )
    return replace(manifest, **changes)


def require(manifest: Manifest) -> None:
    require_own_form(manifest, registry.action_functions(manifest.kind))


@pytest.mark.parametrize("kind", IDS)
def test_what_fits_its_id_in_any_case_is_undone(kind: str):
    require(stored(kind))


def test_every_kind_that_acts_is_here():
    assert set(IDS) == {kind.name for kind in registry.kinds() if kind.actions}


@pytest.mark.parametrize("kind", IDS)
@pytest.mark.parametrize(
    ("changes", "because"),
    [
        pytest.param({"name": "other"}, "that the name of .* is other", id="another name"),
        pytest.param({"target": replace(AWS, account="999999999999")}, "that the account of .* is 9{12}", id="another account"),
        pytest.param({"id": "arn:aws:sagemaker:us-east-1:1:model/churn"}, "is no ID of that kind", id="another kind"),
        pytest.param({"action": StepName.START}, "a start of kind .* isn't undone", id="an action that is never undone"),
        pytest.param({"undo_state": {"cosmos": 1}}, "unknown member cosmos", id="an unknown member"),
    ],
)
def test_what_does_not_fit_its_id_or_kind_is_refused(kind: str, changes: dict[str, Any], because: str):
    with pytest.raises(CloudError, match=because):
        require(stored(kind, **changes))


@pytest.mark.parametrize(
    "changes", [{"region": "eu-west-1"}, {"target": replace(AWS, region="eu-west-1")}, {"target": replace(AWS, region=None)}]
)
def test_a_manifest_of_another_region_is_refused(changes: dict[str, Any]):
    with pytest.raises(CloudError, match="that the region of"):
        require(stored(**changes))


@pytest.mark.parametrize(
    ("record", "odd"),
    [
        pytest.param({"config": {"params": {"EndpointConfigName": "x"}}}, "config.params.EndpointConfigName", id="inside"),
        pytest.param({"variants": [{"DesiredWeight": 1}, {"RoutingConfig": {}}]}, "variants.RoutingConfig", id="in a list"),
        pytest.param({"previous": "s3://kept/m.json"}, "previous", id="a text for an object"),
        pytest.param({"previous": {"address": "a", "sha256": "b", "then": "c"}}, "previous.then", id="of the earlier manifest"),
        pytest.param({"components": []}, "components", id="components of a host"),
        pytest.param({"scaling": {"alarms": [{"AlarmName": "a", "Tags": []}]}}, "scaling.alarms.Tags", id="of an alarm"),
    ],
)
def test_an_unknown_member_is_named_wherever_it_is(record: dict[str, Any], odd: str):
    with pytest.raises(CloudError, match=f"the unknown member {odd},"):
        require(stored(action=StepName.DELETE, undo_state=record))


def test_the_command_prints_them_on_stderr(capsys: pytest.CaptureFixture[str]):
    undo._print_named_parts(stored(undo_state={"config": {"params": {"ExecutionRoleArn": "arn:aws:iam::1:role/serve"}}}))
    assert capsys.readouterr() == ("", f"{IDS['sagemaker-endpoint'][0]} names the role arn:aws:iam::1:role/serve\n")


def test_members_may_be_absent_or_null():
    assert unknown_member({"a": None}, {"a": {"b": None}, "c": None}) is None


def test_roles_images_and_buckets_are_found_wherever_they_are():
    record = {
        "config": {
            "params": {
                "ExecutionRoleArn": "arn:aws:iam::123456789012:role/serve",
                "DataCaptureConfig": {"DestinationS3Uri": "s3://captured/x"},
            }
        },
        "components": [{"Specification": {"Container": {"Image": "registry.example/any:1", "ArtifactUrl": "s3://models/m.tgz"}}}],
        "deployment": {
            "identity": {"userAssignedIdentities": {f"{WORKSPACE.partition('/providers')[0]}/x/userAssignedIdentities/me": {}}},
            "properties": {"environmentId": "azureml:env:1", "note": "plain text, s3 and role/x"},
        },
        "again": "s3://captured/x",
    }
    assert sorted(named_parts(stored(undo_state=record))) == [
        "bucket s3://captured/x",
        "bucket s3://models/m.tgz",
        "identity /subscriptions/sub-1/resourceGroups/RG/x/userAssignedIdentities/me",
        "image azureml:env:1",
        "image registry.example/any:1",
        "role arn:aws:iam::123456789012:role/serve",
    ]
