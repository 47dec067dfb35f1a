"""Changes that go through the public operations of azure-mgmt-machinelearningservices. Which others don't, and why, is in `request`.

Each is begun and not waited for: Azure's poller would block for minutes, and the next sweep checks the result.
https://learn.microsoft.com/rest/api/azureml/compute and https://learn.microsoft.com/rest/api/azureml/online-deployments
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from azure.mgmt.core.tools import parse_resource_id

from reaper.azure.request import ArmOperation
from reaper.azure.workspaces import PROVIDER

if TYPE_CHECKING:
    from azure.mgmt.machinelearningservices import MachineLearningServicesMgmtClient

COMPUTE_ROOT = f"{PROVIDER}/workspaces/computes"
DELETE_PERMISSION = f"{PROVIDER}/workspaces/onlineEndpoints/deployments/delete"


def stop_instance(instance_id: str) -> ArmOperation:
    """Stops a compute instance."""
    place = _place(instance_id, 1)

    def begin(client: MachineLearningServicesMgmtClient, **options: Any) -> object:
        return client.compute.begin_stop(*place, **options)

    return ArmOperation(permission=f"{COMPUTE_ROOT}/stop/action", path=f"{instance_id}/stop", begin=begin)


def start_instance(instance_id: str) -> ArmOperation:
    """Starts a compute instance."""
    place = _place(instance_id, 1)

    def begin(client: MachineLearningServicesMgmtClient, **options: Any) -> object:
        return client.compute.begin_start(*place, **options)

    return ArmOperation(permission=f"{COMPUTE_ROOT}/start/action", path=f"{instance_id}/start", begin=begin)


def delete_deployment(deployment_id: str) -> ArmOperation:
    """Deletes an online deployment."""
    place = _place(deployment_id, 2)

    def begin(client: MachineLearningServicesMgmtClient, **options: Any) -> object:
        return client.online_deployments.begin_delete(*place, **options)

    return ArmOperation(permission=DELETE_PERMISSION, path=deployment_id, begin=begin)


def _place(resource_id: str, depth: int) -> tuple[str, ...]:
    """Resource group, workspace and the names below it, as operations take them."""
    parts = parse_resource_id(resource_id)
    names = (parts["resource_group"], parts["name"], *(parts[f"child_name_{level}"] for level in range(1, depth + 1)))
    return tuple(str(name) for name in names)
