"""The Azure subscriptions to sweep, and a session for each.

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
from reaper.case import Coverage
from reaper.errors import CloudError, Reason, SettingsError
from reaper.model import Account, Target
from reaper.settings import Settings

SIGN_IN_VARIABLES = (
    "IDENTITY_ENDPOINT",
    "MSI_ENDPOINT",
    "AZURE_FEDERATED_TOKEN_FILE",
    "AZURE_CLIENT_SECRET",
    "AZURE_CLIENT_CERTIFICATE_PATH",
)
"""Variables that are only set if DefaultAzureCredential can sign in with them."""


def target_sessions(subscriptions: Sequence[str], environ: Mapping[str, str] | None = None) -> list[CloudSession]:
    """A session per subscription: the requested ones, or each that the identity can read.

    A requested subscription always has a session; each kind then reports whether it can be read.
    Raises SettingsError for an invalid subscription ID, CloudError if the readable ones can't be listed.
    """
    hosts = hosts_from_env(os.environ if environ is None else environ)
    credential, graph_quota = new_credential(), GraphQuotaPolicy()
    requested = [valid_subscription_id(subscription) for subscription in subscriptions]
    ids = requested or _readable_subscriptions(credential, hosts, graph_quota)
    return [_session_for(credential, subscription, hosts, graph_quota) for subscription in dict.fromkeys(ids)]


def list_accounts(settings: Settings) -> list[Account]:
    """The subscriptions to sweep. Raises SettingsError for an invalid ID, CloudError if the readable ones can't be listed."""
    return [Account(cloud="azure", id=session.target.account) for session in target_sessions(settings.subscriptions)]


def open_account(settings: Settings, account: Account, *, may_act: bool) -> tuple[list[CloudSession], list[Coverage]]:
    """The session of that subscription. Whether it can be read is found out by each kind."""
    return target_sessions((account.id,)), []


def valid_subscription_id(subscription: str) -> str:
    """The ID in the usual spelling. Raises SettingsError if it isn't valid."""
    if not re.fullmatch(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}", subscription):
        raise SettingsError(f"{subscription!r} isn't a subscription ID such as 00000000-0000-0000-0000-000000000000")
    return subscription.lower()


def has_credentials(environ: Mapping[str, str] | None = None) -> bool:
    """Whether there seems to be a way to sign in to Azure. Makes no call; a virtual machine's own identity isn't detected."""
    settings = os.environ if environ is None else environ
    folder = Path(settings.get("AZURE_CONFIG_DIR") or Path.home() / ".azure")
    return any(settings.get(name) for name in SIGN_IN_VARIABLES) or (folder / "azureProfile.json").is_file()


def _session_for(
    credential: TokenCredential, subscription: str, hosts: AzureHosts, graph_quota: GraphQuotaPolicy
) -> CloudSession:
    return CloudSession(Clients(credential, subscription, hosts, graph_quota), Target(cloud="azure", account=subscription))


def _readable_subscriptions(credential: TokenCredential, hosts: AzureHosts, graph_quota: GraphQuotaPolicy) -> list[str]:
    session = _session_for(credential, "unknown", hosts, graph_quota)
    rows = list(session.paged_rows(READ_SUBSCRIPTION, "/subscriptions", required_keys=("subscriptionId",)))
    ids = sorted(str(row["subscriptionId"]).lower() for row in rows if row.get("state") != "Deleted")
    if not ids:
        raise CloudError(
            Reason.DENIED,
            READ_SUBSCRIPTION,
            "the identity can't read any subscription; assign it the audit role",
            missing=READ_SUBSCRIPTION,
        )
    return ids
