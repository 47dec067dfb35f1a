"""The hosts of this Azure: the public cloud, a sovereign one, or those in the settings.

Sovereign hosts and the audience of the batch metrics service: https://learn.microsoft.com/azure/azure-government/compare-azure-government-global-azure
and https://learn.microsoft.com/azure/azure-monitor/metrics/migrate-to-batch-api
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from reaper.errors import SettingsError
from reaper.urls import split_address

PUBLIC, PUBLIC_METRICS = "https://management.azure.com", "https://metrics.monitor.azure.com"
BATCH_HOSTS = {
    PUBLIC: "https://{region}.metrics.monitor.azure.com",
    "https://management.usgovcloudapi.net": "https://{region}.metrics.monitor.azure.us",
    "https://management.chinacloudapi.cn": "https://{region}.metrics.monitor.azure.cn",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AzureHosts:
    """The address of Resource Manager, and that of the batch metrics hosts with `{region}` for the region; None if unknown."""

    arm: str = PUBLIC
    metrics: str | None = BATCH_HOSTS[PUBLIC]

    @property
    def arm_scope(self) -> str:
        """The scope of tokens for Resource Manager. A host that isn't a cloud, such as a proxy, takes tokens of the public cloud."""
        return f"{self.arm if _host_of(self.arm).startswith('management.') else PUBLIC}/.default"

    @property
    def metrics_scope(self) -> str:
        """The scope of tokens for the batch metrics hosts: one for all regions of a cloud."""
        own = (self.metrics or "").replace("{region}.", "")
        return f"{own if _host_of(own).startswith('metrics.') else PUBLIC_METRICS}/.default"


def hosts_from_env(environ: Mapping[str, str]) -> AzureHosts:
    """The hosts in `environ`. Raises SettingsError for anything but an https address."""
    arm = _address_from_env(environ, "REAPER_ARM_ENDPOINT") or PUBLIC
    return AzureHosts(arm=arm, metrics=_address_from_env(environ, "REAPER_METRICS_ENDPOINT") or BATCH_HOSTS.get(arm))


def _address_from_env(environ: Mapping[str, str], name: str) -> str | None:
    text = environ.get(name, "").strip().rstrip("/")
    if text and (split_address(text).scheme != "https" or not split_address(text).netloc):
        example = {"REAPER_METRICS_ENDPOINT": BATCH_HOSTS[PUBLIC]}.get(name, PUBLIC)
        raise SettingsError(f"{name}={text!r} isn't an address such as {example}; tokens are only sent over https")
    return text or None


def _host_of(address: str) -> str:
    return split_address(address).hostname or ""
