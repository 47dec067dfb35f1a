"""What only a kind knows of a resource crosses the joints between phases as JSON, so it must come back the same."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pydantic import TypeAdapter

from on_azure.conftest import CLUSTER, DEPLOYMENT, INSTANCE
from reaper import registry
from reaper.azure.deployments import with_autoscale
from reaper.azure.session import CloudSession
from reaper_sandbox.azure.subscription import Workspace


@pytest.mark.parametrize("kind", [CLUSTER, INSTANCE, DEPLOYMENT])
def test_details_of_azure_kinds_survive_json(cloud: CloudSession, vision: Workspace, kind: str):
    vision.cluster("gpus")
    vision.instance("ada")
    vision.endpoint("chat").deployment("blue", capacity=3)
    [resource] = registry.kind(kind).discover(cloud)
    details = with_autoscale(cloud, resource).details if kind == DEPLOYMENT else resource.details
    adapter = TypeAdapter(registry.kind(kind).details)
    assert adapter.validate_json(adapter.dump_json(details)) == details


def test_a_sweep_does_not_load_the_sdk_that_only_actions_need():
    script = "import sys, reaper.azure.targets; from reaper import registry; list(registry.kinds('azure'))"
    script += "; print([name for name in sys.modules if name.startswith('azure.mgmt.machinelearning')])"
    completed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert completed.stdout.strip() == "[]"
