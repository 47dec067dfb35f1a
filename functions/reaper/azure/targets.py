"""The Azure subscriptions to sweep, and a session for each.

https://learn.microsoft.com/rest/api/resources/subscriptions/list
The list of what lies below a management group names the subscriptions that the identity can't read, too, which Resource Graph leaves out:
https://learn.microsoft.com/rest/api/managementgroups/management-groups/get-descendants
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote

from azure.core.credentials import TokenCredential

from reaper.azure import workspaces
from reaper.azure.session import CA_BUNDLE_VARIABLES, Clients, CloudSession, GraphQuotaPolicy, hosts_from_env, new_credential
from reaper.azure.workspaces import READ_SUBSCRIPTION, Subscription, display_name, last_segment, parse_subscription
from reaper.case import Coverage
from reaper.errors import CloudError, Reason, SettingsError
from reaper.model import Account, Target
from reaper.settings import SUBSCRIPTION_ID, Settings

READ_BELOW, GROUPS = "Microsoft.Management/managementGroups/descendants/read", "/providers/Microsoft.Management/managementGroups"
SIGN_IN_VARIABLES = (
    "IDENTITY_ENDPOINT",
    "MSI_ENDPOINT",
    "AZURE_FEDERATED_TOKEN_FILE",
    "AZURE_CLIENT_SECRET",
    "AZURE_CLIENT_CERTIFICATE_PATH",
)
"""Variables that are only set if DefaultAzureCredential can sign in with them."""
SIGN_IN_PREFIXES = ("AZURE_", "IDENTITY_", "MSI_", *CA_BUNDLE_VARIABLES)
"""How the names of the variables begin that decide who signs in, where, and which certificates to trust."""
NOT_CHANGEABLE = "its subscription wasn't Enabled or PastDue when the run began, and the reaper acts only in such subscriptions"
NOT_SWEPT = "the deployment no longer sweeps its subscription"


def target_sessions(subscriptions: Sequence[str]) -> list[CloudSession]:
    """One per requested subscription, or per readable one. Raises SettingsError for an invalid ID, CloudError if those can't be listed."""
    ids = SUBSCRIPTION_ID.read_all("subscriptions", subscriptions)
    return [_open_session(subscription) for subscription in ids or _list_readable()]


def list_accounts(settings: Settings) -> list[Account]:
    """The subscriptions to sweep: the requested ones, those below the management group, or all that the identity can read.

    One that can't be read is listed too, if it was requested or is below the group; each kind then reports that it can't be read. Raises
    SettingsError for an invalid ID and for a group that can't be read, CloudError if the readable ones can't be listed.
    """
    names: dict[str, str | None] = dict.fromkeys(SUBSCRIPTION_ID.read_all("subscriptions", settings.subscriptions))
    if settings.management_group:
        names = _below_group(settings.management_group, tuple(names))
    readable = _list_readable(may_fail=bool(names))
    accounts: list[Account] = []
    for subscription, name in (names or dict.fromkeys(readable)).items():
        # Where the list doesn't say what may be acted on, `open_account` reads the state before any action.
        known_name, blocked_because = readable.get(subscription, (None, None))
        accounts.append(Account(cloud="azure", id=subscription, name=known_name or name, may_act=blocked_because is None))
    return accounts


def open_account(settings: Settings, account: Account, *, may_act: bool) -> tuple[list[CloudSession], list[Coverage]]:
    """The session of that subscription. Each kind reports whether it can be read.

    With `may_act` the subscription's state is read at once, so that nothing is changed in one that is Warned, Disabled or Expired, and
    nothing in one that the settings no longer name.
    """
    session, because = _open_session(account.id), None if account.may_act else NOT_CHANGEABLE
    if may_act and settings.subscriptions and account.id not in map(str.lower, settings.subscriptions):
        because = NOT_SWEPT
    session.target = replace(session.target, account_name=account.name, blocked_because=because)
    if may_act and because is None:
        try:
            workspaces.read_subscription(session)
        except CloudError as error:
            text = f"the state of its subscription can't be read: {error}"
            session.target = replace(session.target, blocked_because=text)
    return [session], []


def has_credentials(environ: Mapping[str, str] | None = None) -> bool:
    """Whether there seems to be a way to sign in to Azure. Makes no call; a virtual machine's own identity isn't detected."""
    settings = os.environ if environ is None else environ
    folder = Path(settings.get("AZURE_CONFIG_DIR") or Path.home() / ".azure")
    return any(settings.get(name) for name in SIGN_IN_VARIABLES) or (folder / "azureProfile.json").is_file()


def _open_session(subscription: str) -> CloudSession:
    names = sorted(name for name in os.environ if name.startswith(SIGN_IN_PREFIXES))
    credential, graph_quota = _sign_in(tuple((name, os.environ[name]) for name in names))
    clients = Clients(credential, subscription, hosts_from_env(os.environ), graph_quota)
    return CloudSession(clients, Target(cloud="azure", account=subscription))


@lru_cache(maxsize=1)
def _sign_in(variables: tuple[tuple[str, str], ...]) -> tuple[TokenCredential, GraphQuotaPolicy]:
    """What all subscriptions share, as long as the variables stay the same: a credential, which caches its tokens, and what is known of a quota."""
    return new_credential(), GraphQuotaPolicy()


def _below_group(group: str, wanted: Sequence[str]) -> dict[str, str | None]:
    """The names of the subscriptions below the group, readable or not, or of the wanted ones among them. Raises SettingsError for one outside, if the
    group can't be read, and if none is left.
    """
    try:
        path = f"{GROUPS}/{quote(group, safe='')}/descendants"
        rows = list(_open_session("unknown").paged_rows(READ_BELOW, path, required_keys=("id", "type")))
    except CloudError as error:
        if error.reason not in {Reason.DENIED, Reason.GONE, Reason.REFUSED}:
            raise
        text = f"management group {group!r} can't be read: it needs {READ_BELOW} on {GROUPS}/{group} ({error})"
        raise SettingsError(text) from error
    found = [row for row in rows if row["type"].lower().endswith("/subscriptions")]
    below = {last_segment(row["id"]).lower(): display_name(row.get("properties")) for row in found}
    if outside := [subscription for subscription in wanted if subscription not in below]:
        raise SettingsError(f"subscription {outside[0]} isn't below the management group {group!r}")
    if not below:
        raise SettingsError(f"the management group {group!r} has no subscriptions")
    return {subscription: name for subscription, name in below.items() if not wanted or subscription in wanted}


def _list_readable(*, may_fail: bool = False) -> dict[str, Subscription]:
    """The subscriptions that the identity can read, by ID. Raises CloudError if there is none, unless it `may_fail`."""
    readable: dict[str, Subscription] = {}
    try:
        for row in _open_session("unknown").paged_rows(READ_SUBSCRIPTION, "/subscriptions", required_keys=("subscriptionId",)):
            if str(row.get("state")).strip().lower() != "deleted":
                readable[str(row["subscriptionId"]).lower()] = parse_subscription(row)
    except CloudError:
        if not may_fail:
            raise
        return {}
    if not readable and not may_fail:
        text = "the identity can't read any subscription; assign it the audit role"
        raise CloudError(Reason.DENIED, READ_SUBSCRIPTION, text, missing=READ_SUBSCRIPTION)
    return dict(sorted(readable.items()))
