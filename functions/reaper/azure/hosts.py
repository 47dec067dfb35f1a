"""Which hosts our own identity may be shown to: a token opens everything that the identity can, so it goes to Azure's own hosts only.

Public, Government and China: https://learn.microsoft.com/azure/azure-government/compare-azure-government-global-azure#guidance-for-developers
and https://learn.microsoft.com/azure/china/resources-developer-guide; partitioned DNS endpoints of storage accounts:
https://learn.microsoft.com/azure/storage/common/storage-account-overview#azure-dns-zone-endpoints-preview
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

from reaper.azure.endpoints import BATCH_HOSTS

SUFFIXES = {
    "vault": ("vault.azure.net", "vault.usgovcloudapi.net", "vault.azure.cn"),
    "blob": ("blob.core.windows.net", "blob.core.usgovcloudapi.net", "blob.core.chinacloudapi.cn", "blob.storage.azure.net"),
    "table": ("table.core.windows.net", "table.core.usgovcloudapi.net", "table.core.chinacloudapi.cn", "table.storage.azure.net"),
    "communication": ("communication.azure.com",),
}
"""By service: what its hosts end with."""
_HOST = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z0-9-]+(?::443)?", re.IGNORECASE)


def suffix(address: str, service: str, environ: Mapping[str, str] | None = None) -> str | None:
    """What the host of this https address ends with as one of Azure's for that service; None for any other host and way of writing one.

    A cloud that REAPER_ARM_ENDPOINT names as `https://management.<domain>` has its services under that domain. The domain of a host on
    this machine is the host itself, and counts only where Resource Manager is played on this machine, too.
    """
    known, parts = os.environ if environ is None else environ, urlsplit(address)
    arm = known.get("REAPER_ARM_ENDPOINT", "").strip()
    if parts.scheme != "https":
        return None
    if _HOST.fullmatch(parts.netloc) and not _digits(parts.hostname):
        host = (parts.hostname or "").lower()
        return next((end for end in (*SUFFIXES[service], *_own(arm, service)) if host.endswith(f".{end}")), None)
    plain = re.fullmatch(r"(?:localhost|127\.0\.0\.1|\[::1\])(?::\d+)?", parts.netloc)
    return parts.netloc if plain and is_local(arm) else None


def refusal(address: str, service: str, environ: Mapping[str, str] | None = None) -> str | None:
    """Why no token is asked for at that address; None where it may be."""
    if suffix(address, service, environ):
        return None
    return (
        f"{address.partition('?')[0]}: no host of Azure's for this, which end with .{', .'.join(SUFFIXES[service])}: "
        "our identity is not shown to it; REAPER_ARM_ENDPOINT names another cloud"
    )


def is_local(address: str) -> bool:
    """Whether the address is on this machine."""
    host = urlsplit(address).hostname or ""
    return host == "localhost" or (_digits(host) and ip_address(host).is_loopback)


def _own(arm: str, service: str) -> tuple[str, ...]:
    """What hosts of the cloud of that Resource Manager end with; of the three known ones the list above says it."""
    if arm.rstrip("/") in BATCH_HOSTS:
        return ()
    head, _, domain = (urlsplit(arm).hostname or "").partition(".")
    return (f"{service}.{domain}", f"{service}.core.{domain}") if head == "management" and "." in domain else ()


def _digits(host: str | None) -> bool:
    try:
        return bool(ip_address(host or ""))
    except ValueError:
        return False
