"""The hosts that the reaper's own identity may be shown to. A token opens all that the identity can, so only Azure's own hosts get one.

Public, Government and China: https://learn.microsoft.com/azure/azure-government/compare-azure-government-global-azure#guidance-for-developers
and https://learn.microsoft.com/azure/china/resources-developer-guide; partitioned DNS endpoints of storage accounts:
https://learn.microsoft.com/azure/storage/common/storage-account-overview#azure-dns-zone-endpoints-preview
"""

from __future__ import annotations

import os
import re
from urllib.parse import SplitResult

from reaper.azure.session import BATCH_HOSTS
from reaper.text import shorten
from reaper.urls import is_loopback, split_address

SUFFIXES = {
    "vault": ("vault.azure.net", "vault.usgovcloudapi.net", "vault.azure.cn"),
    "blob": ("blob.core.windows.net", "blob.core.usgovcloudapi.net", "blob.core.chinacloudapi.cn", "blob.storage.azure.net"),
    "table": ("table.core.windows.net", "table.core.usgovcloudapi.net", "table.core.chinacloudapi.cn", "table.storage.azure.net"),
    "communication": ("communication.azure.com",),
}
"""By service: the endings of its hosts."""
GOVERNMENT = "https://management.usgovcloudapi.net"
GOVERNMENT_MAIL = "communication.azure.us"
"""The domain of Communication Services in Azure Government, which counts only there. No page of the vendor seems to name it."""
COSMOS_SUFFIX = "table.cosmos.azure.com"
_HOST = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+(?=[0-9-]*[a-z])[a-z0-9-]+\.?(?::443)?", re.IGNORECASE)
"""A name, and no IP address."""
_PLAIN_NETLOC = re.compile(r"(?:[\w.]+|\[[0-9a-f:]+\])(?::\d+)?", re.IGNORECASE)
"""Host and port, and nothing else."""
ALTERNATIVES = {
    "blob": "a custom domain needs an address with a signature (SAS); or use the account's own host",
    "table": "another host needs a connection string",
}
"""By service: what works with another host."""


def azure_suffix(address: str, service: str) -> str | None:
    """The ending of the https address's host, if it is one of Azure's for that service; None for any other host or spelling.

    A cloud that REAPER_ARM_ENDPOINT names as `https://management.<domain>` has its services under that domain. The ending of a host on
    this machine is the host itself, and counts only if Resource Manager is simulated on this machine too.
    """
    parts, arm = split_address(address), _arm_endpoint()
    if parts.scheme != "https":
        return None
    if _HOST.fullmatch(parts.netloc):
        host = (parts.hostname or "").lower().removesuffix(".")
        return next((end for end in (*SUFFIXES[service], *_sovereign_suffixes(arm, service)) if host.endswith(f".{end}")), None)
    return parts.netloc if _is_loopback_netloc(parts) and is_loopback(split_address(arm).hostname) else None


def refused_because(address: str, service: str) -> str | None:
    """Why no token is requested for that address; None if one may be."""
    if azure_suffix(address, service):
        return None
    return f"{shorten(address.partition('?')[0], 200)}: {_not_azure_because(address, service)}: so it gets no token of the reaper's identity"


def _not_azure_because(address: str, service: str) -> str:
    parts = split_address(address)
    host = (parts.hostname or "").lower().removesuffix(".")
    if not host:
        return "this is not an address such as https://<name>." + SUFFIXES[service][0]
    if parts.scheme != "https":
        return f"tokens are only sent over https, not over {parts.scheme or 'this'}"
    if _is_loopback_netloc(parts):
        return "a host on this machine counts only if REAPER_ARM_ENDPOINT is on this machine too"
    if service == "table" and host.endswith(f".{COSMOS_SUFFIX}"):
        return "Azure Cosmos DB accepts no storage token; use its connection string"
    ends = ", .".join((*SUFFIXES[service], *_sovereign_suffixes(_arm_endpoint(), service)))
    more = f"; {ALTERNATIVES[service]}" if service in ALTERNATIVES else ""
    return f"not an Azure host for this service; those end with .{ends} (REAPER_ARM_ENDPOINT names another cloud){more}"


def _arm_endpoint() -> str:
    return os.environ.get("REAPER_ARM_ENDPOINT", "").strip()


def _is_loopback_netloc(parts: SplitResult) -> bool:
    return bool(_PLAIN_NETLOC.fullmatch(parts.netloc)) and is_loopback(parts.hostname)


def _sovereign_suffixes(arm: str, service: str) -> tuple[str, ...]:
    """The endings of hosts in that Resource Manager's cloud; those of the three known clouds are nearly all in the list above."""
    if arm.rstrip("/") in BATCH_HOSTS:
        return (GOVERNMENT_MAIL,) if arm.rstrip("/") == GOVERNMENT and service == "communication" else ()
    head, _, domain = (split_address(arm).hostname or "").partition(".")
    return (f"{service}.{domain}", f"{service}.core.{domain}") if head == "management" and "." in domain else ()
