"""What Azure ML resources offer an owner to click or paste: the page in the studio, and lines for the Azure CLI. Pure.

Every part that comes from the cloud is escaped or quoted, and an ID that is not as Azure writes it has neither.
https://learn.microsoft.com/en-us/azure/machine-learning/how-to-manage-compute-instance
https://learn.microsoft.com/en-us/cli/azure/tag#az-tag-update
https://learn.microsoft.com/en-us/cli/azure/ml/compute
https://learn.microsoft.com/en-us/cli/azure/ml/online-deployment
"""

from __future__ import annotations

import re
from shlex import quote
from urllib.parse import quote as escape

from reaper.kind import Command
from reaper.model import Resource

STUDIO_URL = "https://ml.azure.com"
WORKSPACE_RESOURCE = re.compile(
    r"(/subscriptions/[0-9a-f-]{36}/resourcegroups/[^/?#&%]{1,90}/providers/microsoft\.machinelearningservices/workspaces/[A-Za-z0-9_-]{1,260})"
    r"/(?:computes/(?P<compute>[^/]+)|onlineendpoints/(?P<endpoint>[^/]+)(?:/deployments/[^/]+)?)",
    re.IGNORECASE,
)


def place(resource: Resource) -> str:
    """The workspace, which people know better than the subscription; else the subscription with its name."""
    target = resource.target
    if workspace := _id_parts(resource.id).get("workspaces"):
        return f"workspace {workspace}"
    return f"subscription {target.account_name} ({target.account})" if target.account_name else f"subscription {target.account}"


def console_url(resource: Resource) -> str | None:
    """A page of the studio, which lists computes and endpoints by workspace."""
    named = WORKSPACE_RESOURCE.fullmatch(resource.id)
    if named is None or not resource.id.isprintable():
        return None
    workspace = f"wsid={escape(named[1])}"
    if named["compute"]:
        return f"{STUDIO_URL}/compute/{escape(named['compute'], safe='')}/details?{workspace}"
    return f"{STUDIO_URL}/endpoints/realtime/{escape(named['endpoint'], safe='')}/detail?{workspace}"


def keep_line(resource: Resource, key: str, value: str) -> str | None:
    """The line that puts a tag on it. Not for computes: the Azure CLI can't tag them alone."""
    return f"az tag update --operation merge --resource-id {quote(resource.id)} --tags {key}={value}"


def stop_instance_command(resource: Resource) -> Command | None:
    """The line that stops a compute instance."""
    workspace = _workspace_options(resource.id)
    line = f"az ml compute stop --name {quote(resource.name)} {workspace}"
    return Command(label="Stop it now", line=line) if workspace else None


def start_instance_line(resource: Resource) -> str | None:
    """The line that starts a compute instance again."""
    workspace = _workspace_options(resource.id)
    return f"az ml compute start --name {quote(resource.name)} {workspace}" if workspace else None


def empty_cluster_command(resource: Resource) -> Command | None:
    """The line that lets a cluster's idle nodes go."""
    workspace = _workspace_options(resource.id)
    line = f"az ml compute update --name {quote(resource.name)} --min-instances 0 {workspace}"
    return Command(label="Set its minimum to 0 nodes now", line=line) if workspace else None


def scale_deployment_command(resource: Resource) -> Command | None:
    """The line that scales a deployment in."""
    named = _deployment_options(resource)
    line = f"az ml online-deployment update {named} --set instance_count=1"
    return Command(label="Scale it to one instance now", line=line) if named else None


def delete_deployment_command(resource: Resource) -> Command | None:
    """The line that deletes a deployment. Azure deletes none that still gets traffic."""
    named = _deployment_options(resource) if _traffic_percent(resource) == 0 else None
    return Command(label="Delete it now", line=f"az ml online-deployment delete {named}") if named else None


def _traffic_percent(resource: Resource) -> int | None:
    return getattr(resource.details, "traffic_percent", None)


def _deployment_options(resource: Resource) -> str | None:
    parts, workspace = _id_parts(resource.id), _workspace_options(resource.id)
    name, endpoint = parts.get("deployments"), parts.get("onlineendpoints")
    return f"--name {quote(name)} --endpoint-name {quote(endpoint)} {workspace}" if name and endpoint and workspace else None


def _workspace_options(arm_id: str) -> str | None:
    parts = _id_parts(arm_id)
    try:
        group, workspace = quote(parts["resourcegroups"]), quote(parts["workspaces"])
        return f"--workspace-name {workspace} --resource-group {group} --subscription {quote(parts['subscriptions'])}"
    except KeyError:
        return None


def _id_parts(arm_id: str) -> dict[str, str]:
    """What an ARM ID names, by type in lower case."""
    parts = arm_id.strip("/").split("/")
    return {key.lower(): value for key, value in zip(parts[::2], parts[1::2], strict=False)}
