"""What a kind keeps of a resource can be written as JSON and read again, so that it can pass between the phases of a run."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter

from on_aws.actions.stage import Stage
from on_aws.conftest import NOW, Sweep
from reaper import registry
from reaper.aws.kinds.sagemaker_endpoint.description import EndpointDetails, ScaleInPlan
from reaper.aws.kinds.sagemaker_inference_component import ComponentDetails
from reaper.aws.kinds.sagemaker_studio_app import StudioAppDetails
from reaper.case import Blocked
from reaper.model import BilledPart
from reaper_sandbox.aws import fleet
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.records import Variant
from reaper_sandbox.aws.server import Server

DETAILS = [
    EndpointDetails(),
    EndpointDetails(
        copies={"one": 2, "two": None},
        scale_in=ScaleInPlan(instances_by_variant={"blue": 1}, blocked=Blocked(because="it runs one", already_done=True)),
        parts_after_stop=(BilledPart(component="Hosting", instance="ml.g5.xlarge", count=2),),
        unrestorable=Blocked(because="its configuration wasn't checked", not_read=True),
    ),
    ComponentDetails(endpoint_name="e", is_described=True, copies=2, models=("m",), can_wake=True, adapters=("a",)),
    StudioAppDetails(domain_id="d", app_type="JupyterLab", app_name="default", space_name="s", is_private_space=True),
]


@pytest.mark.parametrize("details", DETAILS, ids=lambda details: type(details).__name__)
def test_details_survive_json(details: Any):
    adapter = TypeAdapter(type(details))
    assert adapter.validate_json(adapter.dump_json(details)) == details


def test_every_resource_has_details_of_the_class_that_its_kind_names(server: Server, run_sweep: Sweep):
    fleet.settle(server, NOW)
    resources = [f.case.resource for f in run_sweep(regions=("us-east-1", "eu-west-1")).swept.findings]
    assert {type(r.details) for r in resources} > {EndpointDetails, ComponentDetails, StudioAppDetails}
    assert [r.id for r in resources if r.details is not None and type(r.details) is not registry.kind(r.kind).details] == []


@pytest.mark.parametrize("kind", ["sagemaker-endpoint", "sagemaker-inference-component"])
def test_observed_details_survive_json(account: Account, server: Server, kind: str):
    account.endpoint("e", variants=[Variant(model=None, scaling=(0, 4), count=2)])
    account.component("one", "e", copies=1)
    account.component("extra", "e", base="one")
    name = {"sagemaker-endpoint": "e", "sagemaker-inference-component": "one"}[kind]
    stage = Stage(server, kind)
    resource = stage.again(stage.resource(name)).resource
    adapter = TypeAdapter(registry.kind(kind).details)
    assert adapter.validate_json(adapter.dump_json(resource.details)) == resource.details
