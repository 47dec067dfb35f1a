"""Who we are in Azure: the managed identity that AZURE_CLIENT_ID names, or whatever else DefaultAzureCredential finds.

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
"""What names the certificates to trust: https://requests.readthedocs.io/en/latest/user/advanced/#ssl-cert-verification"""

# Every failure comes back as a CloudError; without a handler the SDK would also write it to standard error.
logging.getLogger("azure").addHandler(logging.NullHandler())


def new_credential(**limits: Any) -> DefaultAzureCredential:
    """A fresh credential; it keeps its tokens, so one should serve a whole run. Nothing is asked of Azure yet.

    `limits` are options of azure-core's pipeline, for a caller that cannot wait as long as a sweep.

    Raises CloudError where the environment names what no credential and no call can be made with.
    """
    for name in CA_BUNDLE_VARIABLES:
        if (path := os.environ.get(name)) and not os.path.exists(path):
            raise CloudError(Reason.REFUSED, "sign in", f"{name}={path!r}: there is no such file of certificates to trust")
    try:
        return DefaultAzureCredential(**{**TIMEOUTS, **limits})
    except ValueError as error:
        raise CloudError(Reason.REFUSED, "sign in", f"the settings of DefaultAzureCredential cannot be used: {error}") from error
