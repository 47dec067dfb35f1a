"""Who we are in Azure: the managed identity that AZURE_CLIENT_ID names, or whatever else DefaultAzureCredential finds.

https://learn.microsoft.com/python/api/azure-identity/azure.identity.defaultazurecredential
"""

from __future__ import annotations

import logging

from azure.identity import DefaultAzureCredential

from reaper.azure.pipeline import TIMEOUTS

# Every failure comes back as a CloudError; without a handler the SDK would also write it to standard error.
logging.getLogger("azure").addHandler(logging.NullHandler())


def credential() -> DefaultAzureCredential:
    """A fresh credential; it keeps its tokens, so one should serve a whole run. Nothing is asked of Azure yet."""
    return DefaultAzureCredential(**TIMEOUTS)
