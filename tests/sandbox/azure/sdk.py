"""The real SDK clients, pointed at the sandbox."""

from __future__ import annotations

from typing import Any

from azure.communication.email import EmailClient
from azure.identity import DefaultAzureCredential
from azure.mgmt.machinelearningservices import MachineLearningServicesMgmtClient
from azure.mgmt.monitor import MonitorManagementClient
from azure.mgmt.resourcegraph import ResourceGraphClient
from azure.monitor.querymetrics import MetricsClient

from reaper_sandbox.azure.server import Server

SUB = "11111111-1111-1111-1111-111111111111"
MANAGEMENT = "https://management.azure.com"
QUICK: dict[str, Any] = {"retry_total": 1, "retry_backoff_factor": 0.01, "polling_interval": 0}


def ml(server: Server, subscription: str = SUB, **more: Any) -> MachineLearningServicesMgmtClient:
    options = {"api_version": "2025-12-01", "credential_scopes": [f"{MANAGEMENT}/.default"], **QUICK, **more}
    return MachineLearningServicesMgmtClient(DefaultAzureCredential(), subscription, base_url=server.url, **options)


def graph(server: Server, **more: Any) -> ResourceGraphClient:
    scopes = [f"{MANAGEMENT}/.default"]
    return ResourceGraphClient(DefaultAzureCredential(), base_url=server.url, credential_scopes=scopes, **{**QUICK, **more})


def monitor(server: Server) -> MonitorManagementClient:
    scopes = [f"{MANAGEMENT}/.default"]
    return MonitorManagementClient(DefaultAzureCredential(), SUB, base_url=server.url, credential_scopes=scopes, **QUICK)


def batch(server: Server, audience: str = "https://metrics.monitor.azure.com") -> MetricsClient:
    return MetricsClient(server.url, DefaultAzureCredential(), audience=audience, **QUICK)


def mailer(server: Server) -> EmailClient:
    return EmailClient(server.url, DefaultAzureCredential(), **QUICK)
