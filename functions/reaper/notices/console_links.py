"""Where a resource stands in its cloud's console, as an address that a mail can link to. Pure.

Every part that comes from the cloud is escaped, and what would decide on the host is held to its form; else there is no address.
https://docs.aws.amazon.com/sagemaker/latest/dg/realtime-endpoints.html
https://learn.microsoft.com/en-us/azure/machine-learning/how-to-manage-compute-instance
"""

from __future__ import annotations

import re
from urllib.parse import quote

from reaper.model import Resource

AWS_REGION = re.compile(r"[a-z]{2}(?:-[a-z]{2,10}){1,3}-[1-9]")
HOST_BY_PARTITION = {
    "aws": "https://{}.console.aws.amazon.com",
    "aws-cn": "https://{}.console.amazonaws.cn",
    "aws-us-gov": "https://console.amazonaws-us-gov.com",
}
"""By the partition that an ARN begins with."""
STUDIO_URL = "https://ml.azure.com"
WORKSPACE_RESOURCE = re.compile(
    r"(/subscriptions/[0-9a-f-]{36}/resourcegroups/[^/?#&%]{1,90}/providers/microsoft\.machinelearningservices/workspaces/[A-Za-z0-9_-]{1,260})"
    r"/(?:computes/(?P<compute>[^/]+)|onlineendpoints/(?P<endpoint>[^/]+)(?:/deployments/[^/]+)?)",
    re.IGNORECASE,
)
MAX_NAME_LENGTH = 300
"""Characters of a name; no cloud takes a longer one."""


def console_address(resource: Resource) -> str | None:
    """The https address of its page; None for a kind without one that a link can lead to, and for an id that is not as the cloud writes it."""
    if not resource.name.isprintable() or not 0 < len(resource.name) <= MAX_NAME_LENGTH:
        return None
    return _studio_address(resource.id) if resource.target.cloud == "azure" else _sagemaker_address(resource)


def _sagemaker_address(resource: Resource) -> str | None:
    pages = {
        "sagemaker-endpoint": ("endpoints", resource.name),
        "sagemaker-inference-component": ("endpoints", str(resource.facts.get("endpoint") or "")),
        "sagemaker-notebook": ("notebook-instances", resource.name),
    }
    page, name = pages.get(resource.kind, ("", ""))
    partition = resource.id.split(":")[1] if resource.id.startswith("arn:") else ""
    if not name.isprintable() or not name or partition not in HOST_BY_PARTITION or not AWS_REGION.fullmatch(resource.region):
        return None
    host = HOST_BY_PARTITION[partition].format(resource.region)
    return f"{host}/sagemaker/home?region={resource.region}#/{page}/{quote(name, safe='')}"


def _studio_address(arm_id: str) -> str | None:
    """A page of the studio, which lists computes and endpoints by workspace."""
    found = WORKSPACE_RESOURCE.fullmatch(arm_id)
    if found is None or not arm_id.isprintable():
        return None
    space = f"wsid={quote(found[1])}"
    if found["compute"]:
        return f"{STUDIO_URL}/compute/{quote(found['compute'], safe='')}/details?{space}"
    return f"{STUDIO_URL}/endpoints/realtime/{quote(found['endpoint'], safe='')}/detail?{space}"
