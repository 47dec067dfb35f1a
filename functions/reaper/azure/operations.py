"""Changes that go through the public operations of azure-mgmt-machinelearningservices. Which others don't, and why, is in `request`.

Each is begun and not waited for: Azure's poller would block for minutes, and the next sweep checks the result. The SDK is loaded, which
takes a second, when the operation is made, so that nothing but the call itself comes after its permit.
https://learn.microsoft.com/rest/api/azureml/compute and https://learn.microsoft.com/rest/api/azureml/online-deployments
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from azure.mgmt.core.tools import parse_resource_id

from reaper.azure.request import ArmOperation
from reaper.azure.workspaces import PROVIDER

if TYPE_CHECKING:
    from reaper.azure.session import CloudSession

COMPUTE_ROOT = f"{PROVIDER}/workspaces/computes"
DELETE_PERMISSION = f"{PROVIDER}/workspaces/onlineEndpoints/deployments/delete"


def stop_instance(cloud: CloudSession, instance_id: str) -> ArmOperation:
    """Stops a compute instance."""
    begin = _at(instance_id, 1, cloud.clients.operations_client().compute.begin_stop)
    return ArmOperation(permission=f"{COMPUTE_ROOT}/stop/action", path=f"{instance_id}/stop", begin=begin)


def start_instance(cloud: CloudSession, instance_id: str) -> ArmOperation:
    """Starts a compute instance."""
    begin = _at(instance_id, 1, cloud.clients.operations_client().compute.begin_start)
    return ArmOperation(permission=f"{COMPUTE_ROOT}/start/action", path=f"{instance_id}/start", begin=begin)


def delete_deployment(cloud: CloudSession, deployment_id: str) -> ArmOperation:
    """Deletes an online deployment."""
    begin = _at(deployment_id, 2, cloud.clients.operations_client().online_deployments.begin_delete)
    return ArmOperation(permission=DELETE_PERMISSION, path=deployment_id, begin=begin)


def _at(resource_id: str, depth: int, begin: Callable[..., object]) -> Callable[..., object]:
    """The operation on the resource: resource group, workspace and the names below it come first."""
    parts = parse_resource_id(resource_id)
    names = (parts["resource_group"], parts["name"], *(parts[f"child_name_{level}"] for level in range(1, depth + 1)))
    return partial(begin, *(str(name) for name in names))
