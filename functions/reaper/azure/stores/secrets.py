"""Texts in Key Vault: https://learn.microsoft.com/rest/api/keyvault/secrets/get-secret/get-secret"""

from __future__ import annotations

import re
from typing import Any

from azure.core import PipelineClient
from azure.core.exceptions import AzureError
from azure.core.pipeline.policies import BearerTokenCredentialPolicy, UserAgentPolicy
from azure.core.rest import HttpRequest, HttpResponse

from reaper.azure.session import ShortRetryPolicy, new_credential
from reaper.azure.stores import trusted_hosts
from reaper.errors import CloudError, Reason
from reaper.urls import split_address

OPERATION = "Microsoft.KeyVault/vaults/secrets/getSecret/action"
API_VERSION = "7.4"
LIMITS: dict[str, Any] = {"connection_timeout": 2, "read_timeout": 3, "retry_total": 1}
"""Seconds and tries, for the token and again for the secret. The snooze page waits for both."""
MAX_RETRY_AFTER_S = 2
"""The longest Retry-After, in seconds, that is waited for. A vault may ask for minutes."""
_PATH = re.compile(r"/secrets/[0-9A-Za-z-]{1,127}(?:/[0-9A-Fa-f]{32})?/?")


def read_secret(address: str) -> str:
    """The secret at `https://<vault>.vault.azure.net/secrets/<name>`; its current version unless the address has one. Raises CloudError."""
    parts = split_address(address)
    if not _PATH.fullmatch(parts.path) or parts.query or parts.fragment:
        raise CloudError(Reason.REFUSED, OPERATION, f"{address}: expected https://<vault>.vault.azure.net/secrets/<name>")
    domain = trusted_hosts.azure_suffix(address, "vault")
    if domain is None:
        raise CloudError(Reason.REFUSED, OPERATION, str(trusted_hosts.refused_because(address, "vault")))
    vault = f"https://{parts.netloc}"
    try:
        token = BearerTokenCredentialPolicy(new_credential(**LIMITS), f"https://{domain}/.default")
        policies = [UserAgentPolicy("ml-idle-reaper"), ShortRetryPolicy(MAX_RETRY_AFTER_S, **LIMITS), token]
        client: PipelineClient[HttpRequest, HttpResponse] = PipelineClient(vault, policies=policies, **LIMITS)
        with client:
            response = client.send_request(HttpRequest("GET", f"{vault}{parts.path}?api-version={API_VERSION}"))
    except AzureError as error:
        raise CloudError(Reason.UNREACHABLE, OPERATION, f"{address}: {str(error).splitlines()[0][:200]}") from error
    if response.status_code in {401, 403}:
        raise CloudError(Reason.DENIED, OPERATION, f"{address}: access denied", missing=OPERATION)
    try:
        return str(response.json()["value"])
    except (ValueError, KeyError, TypeError) as error:
        raise CloudError(Reason.REFUSED, OPERATION, f"{address}: no secret there ({response.status_code})") from error
