"""Pages of the studio and lines for the Azure CLI, for people.

What comes from the cloud is escaped or quoted, and an ID that is not as Azure writes it has neither:
https://learn.microsoft.com/azure/machine-learning/how-to-manage-compute-instance and https://learn.microsoft.com/cli/azure/ml
"""

from __future__ import annotations

import re
from shlex import quote
from urllib.parse import quote as escape

from reaper.kind import Command
from reaper.model import Resource

IN_WORKSPACE = " --workspace-name {workspaces} --resource-group {resourcegroups} --subscription {subscriptions}"
"""The end of a line."""
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


def command(label: str, template: str, resource: Resource) -> Command | None:
    """The line under that label; None if the ID doesn't name what the line needs."""
    text = line(template, resource)
    return Command(label=label, line=text) if text else None


def line(template: str, resource: Resource) -> str | None:
    """A line for the Azure CLI about the resource; None if its ID doesn't name what the line needs."""
    parts = {**_id_parts(resource.id), "name": resource.name}
    try:
        return template.format(**{key: quote(value) for key, value in parts.items()})
    except KeyError:
        return None


def _id_parts(arm_id: str) -> dict[str, str]:
    """What an ARM ID names, by type in lower case."""
    parts = arm_id.strip("/").split("/")
    return {key.lower(): value for key, value in zip(parts[::2], parts[1::2], strict=False)}
