"""Texts in blobs: the policy comes from there, full reports go there.

An address with a shared access signature speaks for itself; any other is opened with our own identity.
https://learn.microsoft.com/azure/storage/blobs/assign-azure-role-data-access
"""

from __future__ import annotations

import re
from datetime import datetime
from urllib.parse import urlsplit

from azure.core.exceptions import AzureError
from azure.storage.blob import BlobServiceClient, ContentSettings

from reaper.azure.credential import credential
from reaper.azure.pipeline import TIMEOUTS, TRIES
from reaper.errors import SettingsError

LOCAL = re.compile(r"localhost|[\d.]+|\[.*\]")
"""Hosts where the account is the first part of the path, as in Azurite, and not of the name."""


def read(uri: str) -> str:
    """The text of the blob at `https://account.blob.core.windows.net/container/name`. Raises SettingsError with what Azure said."""
    try:
        account, container, name = _place(uri)
        if not name:
            raise SettingsError(f"{bare(uri)!r} names no blob: expected https://account.blob.core.windows.net/container/name")
        with _service(account, uri) as service:
            return service.get_blob_client(container, name).download_blob().readall().decode()
    except (AzureError, ValueError) as error:
        raise SettingsError(f"REAPER_POLICY={bare(uri)}: cannot be read: {_brief(error)}") from error


def write_report(place: str, run_id: str, started_at: datetime, text: str) -> str:
    """Store a report under `<container>/<prefix>/YYYY/MM/DD/<run>.json`; gives its address. Raises SettingsError where Azure refuses."""
    account, container, prefix = _place(place)
    name = "/".join(part for part in (prefix, f"{started_at:%Y/%m/%d}", f"{run_id}.json") if part)
    try:
        with _service(account, place) as service:
            kind = ContentSettings(content_type="application/json")
            service.get_blob_client(container, name).upload_blob(text.encode(), content_settings=kind)
    except (AzureError, ValueError) as error:
        raise SettingsError(f"REAPER_REPORTS={bare(place)}: the report cannot be stored: {_brief(error)}") from error
    return f"{account}/{container}/{name}"


def bare(uri: str) -> str:
    """The address without a signature, fit to be shown."""
    return uri.partition("?")[0]


def _service(account: str, uri: str) -> BlobServiceClient:
    signature = urlsplit(uri).query
    if "sig=" in signature:
        return BlobServiceClient(f"{account}?{signature}", **TIMEOUTS, retry_total=TRIES["retry_total"])
    return BlobServiceClient(account, credential=credential(), **TIMEOUTS, retry_total=TRIES["retry_total"])


def _place(uri: str) -> tuple[str, str, str]:
    """Account address, container, and the rest of the path."""
    parts = urlsplit(uri)
    path = [part for part in parts.path.split("/") if part]
    owner = path[:1] if LOCAL.fullmatch(parts.hostname or "") else []
    path = path[len(owner) :]
    if parts.scheme != "https" or not parts.hostname or not path:
        raise SettingsError(f"{bare(uri)!r} is not an address such as https://account.blob.core.windows.net/container")
    return "/".join([f"https://{parts.netloc}", *owner]), path[0], "/".join(path[1:])


def _brief(error: Exception) -> str:
    return (str(error).strip().splitlines() or [repr(error)])[0]
