"""Which Azure subscriptions there are to sweep, and a session for each.

https://learn.microsoft.com/rest/api/resources/subscriptions/list
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from azure.core.credentials import TokenCredential

from reaper.azure.clients import Clients
from reaper.azure.credential import new_credential
from reaper.azure.http_policies import GraphQuotaPolicy
from reaper.azure.service_hosts import AzureHosts, hosts_from_env
from reaper.azure.session import CloudSession
from reaper.azure.workspaces import READ_SUBSCRIPTION
from reaper.errors import CloudError, Reason, SettingsError
from reaper.model import Target

SIGN_IN_VARIABLES = (
    "IDENTITY_ENDPOINT",
    "MSI_ENDPOINT",
    "AZURE_FEDERATED_TOKEN_FILE",
    "AZURE_CLIENT_SECRET",
    "AZURE_CLIENT_CERTIFICATE_PATH",
)
"""Variables that are only there where DefaultAzureCredential can sign in with them."""


def target_sessions(subscriptions: Sequence[str], environ: Mapping[str, str] | None = None) -> list[CloudSession]:
    """One cloud per subscription: those asked for, or every one that the identity can read.

    A subscription that was asked for is given in any case: each kind then finds out, and tells, whether it can be read.
    Raises SettingsError for what cannot be a subscription id, CloudError where the readable ones cannot be listed.
    """
    endpoints, us, pace = hosts_from_env(os.environ if environ is None else environ), new_credential(), GraphQuotaPolicy()
    names = [valid_subscription_id(name) for name in subscriptions] or _readable_subscriptions(us, endpoints, pace)
    return [_session_for(us, name, endpoints, pace) for name in dict.fromkeys(names)]


def valid_subscription_id(subscription: str) -> str:
    """The id as everything else spells it. Raises SettingsError for what cannot be one."""
    if not re.fullmatch(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}", subscription):
        raise SettingsError(f"{subscription!r} is no subscription id, such as 00000000-0000-0000-0000-000000000000")
    return subscription.lower()


def has_credentials(environ: Mapping[str, str] | None = None) -> bool:
    """Whether anything here looks like a way to sign in to Azure. No call is made; a virtual machine's own identity is not seen."""
    settings = os.environ if environ is None else environ
    folder = Path(settings.get("AZURE_CONFIG_DIR") or Path.home() / ".azure")
    return any(settings.get(name) for name in SIGN_IN_VARIABLES) or (folder / "azureProfile.json").is_file()


def _session_for(us: TokenCredential, subscription: str, endpoints: AzureHosts, pace: GraphQuotaPolicy) -> CloudSession:
    return CloudSession(Clients(us, subscription, endpoints, pace), Target(cloud="azure", account=subscription))


def _readable_subscriptions(us: TokenCredential, endpoints: AzureHosts, pace: GraphQuotaPolicy) -> list[str]:
    start = _session_for(us, "unknown", endpoints, pace)
    rows = list(start.paged_rows(READ_SUBSCRIPTION, "/subscriptions", required_keys=("subscriptionId",)))
    found = sorted(str(row["subscriptionId"]).lower() for row in rows if row.get("state") != "Deleted")
    if not found:
        raise CloudError(
            Reason.DENIED, READ_SUBSCRIPTION, "the identity can read no subscription at all", missing=READ_SUBSCRIPTION
        )
    return found
