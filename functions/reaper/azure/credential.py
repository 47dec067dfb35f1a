"""The reaper's identity in Azure: the managed identity in AZURE_CLIENT_ID, or else what DefaultAzureCredential finds.

https://learn.microsoft.com/python/api/azure-identity/azure.identity.defaultazurecredential
"""

from __future__ import annotations

import logging
import os
from typing import Any

from azure.identity import DefaultAzureCredential

from reaper.azure.http_policies import TIMEOUTS
from reaper.errors import CloudError, Reason

CA_BUNDLE_VARIABLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
"""Variables with the path of the certificates to trust: https://requests.readthedocs.io/en/latest/user/advanced/#ssl-cert-verification"""

# Every failure becomes a CloudError. Without a handler the SDK would also write it to standard error.
logging.getLogger("azure").addHandler(logging.NullHandler())


def new_credential(**limits: Any) -> DefaultAzureCredential:
    """A new credential. It caches its tokens, so use one for a whole run. Makes no call yet.

    `limits`: options of azure-core's pipeline, for a caller that can't wait as long as a sweep.

    Raises CloudError if the environment has settings that no credential and no call can work with.
    """
    for name in CA_BUNDLE_VARIABLES:
        if (path := os.environ.get(name)) and not os.path.exists(path):
            raise CloudError(
                Reason.REFUSED, "sign in", f"{name}={path!r}: no such file; it should contain the certificates to trust"
            )
    try:
        return DefaultAzureCredential(**{**TIMEOUTS, **limits})
    except ValueError as error:
        raise CloudError(Reason.REFUSED, "sign in", f"the settings of DefaultAzureCredential can't be used: {error}") from error
