"""Which Azure subscriptions there are to sweep, and a session for each.

https://learn.microsoft.com/rest/api/resources/subscriptions/list
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from azure.core.credentials import TokenCredential

from reaper.azure.clients import Session
from reaper.azure.credential import credential
from reaper.azure.http_policies import Pace
from reaper.azure.service_hosts import Endpoints, from_env
from reaper.azure.session import Cloud
from reaper.azure.workspaces import SUBSCRIPTION
from reaper.errors import CloudError, SettingsError, Trouble
from reaper.model import Target

SIGNS = (
    "IDENTITY_ENDPOINT",
    "MSI_ENDPOINT",
    "AZURE_FEDERATED_TOKEN_FILE",
    "AZURE_CLIENT_SECRET",
    "AZURE_CLIENT_CERTIFICATE_PATH",
)
"""Variables that are only there where DefaultAzureCredential can sign in with them."""


def clouds(subscriptions: Sequence[str], environ: Mapping[str, str] | None = None) -> list[Cloud]:
    """One cloud per subscription: those asked for, or every one that the identity can read.

    A subscription that was asked for is given in any case: each kind then finds out, and tells, whether it can be read.
    Raises SettingsError for what cannot be a subscription id, CloudError where the readable ones cannot be listed.
    """
    endpoints, us, pace = from_env(os.environ if environ is None else environ), credential(), Pace()
    names = [known(name) for name in subscriptions] or _readable(us, endpoints, pace)
    return [_cloud(us, name, endpoints, pace) for name in dict.fromkeys(names)]


def known(subscription: str) -> str:
    """The id as everything else spells it. Raises SettingsError for what cannot be one."""
    if not re.fullmatch(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}", subscription):
        raise SettingsError(f"{subscription!r} is no subscription id, such as 00000000-0000-0000-0000-000000000000")
    return subscription.lower()


def has_credentials(environ: Mapping[str, str] | None = None) -> bool:
    """Whether anything here looks like a way to sign in to Azure. No call is made; a virtual machine's own identity is not seen."""
    settings = os.environ if environ is None else environ
    folder = Path(settings.get("AZURE_CONFIG_DIR") or Path.home() / ".azure")
    return any(settings.get(name) for name in SIGNS) or (folder / "azureProfile.json").is_file()


def _cloud(us: TokenCredential, subscription: str, endpoints: Endpoints, pace: Pace) -> Cloud:
    return Cloud(Session(us, subscription, endpoints, pace), Target(cloud="azure", account=subscription))


def _readable(us: TokenCredential, endpoints: Endpoints, pace: Pace) -> list[str]:
    start = _cloud(us, "unknown", endpoints, pace)
    rows = list(start.pages(SUBSCRIPTION, "/subscriptions", has=("subscriptionId",)))
    found = sorted(str(row["subscriptionId"]).lower() for row in rows if row.get("state") != "Deleted")
    if not found:
        raise CloudError(Trouble.DENIED, SUBSCRIPTION, "the identity can read no subscription at all", missing=SUBSCRIPTION)
    return found
