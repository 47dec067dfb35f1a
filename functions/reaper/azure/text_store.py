"""Texts in blobs: the policy comes from there, full reports and manifests go there.

An address with a shared access signature speaks for itself; any other is opened with our own identity.
https://learn.microsoft.com/azure/storage/blobs/assign-azure-role-data-access
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from urllib.parse import quote, unquote

from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    HttpResponseError,
    ResourceExistsError,
    ServiceRequestError,
    ServiceResponseError,
)
from azure.storage.blob import BlobServiceClient, ContentSettings

from reaper.azure import trusted_hosts
from reaper.azure.credential import credential
from reaper.azure.http_policies import TIMEOUTS, TRIES
from reaper.errors import CloudError, SettingsError, Trouble
from reaper.urls import split

LOCAL = re.compile(r"localhost|[\d.]+|\[.*\]")
"""Hosts where the account is the first part of the path, as in Azurite, and not of the name."""
PATIENCE: dict[str, Any] = {
    "retry_total": TRIES["retry_total"],
    "initial_backoff": 1,
    "increment_base": 2,
    "random_jitter_range": 1,
}
"""The SDK's own waits begin at 15 seconds and treble."""
BLOBS = "Microsoft.Storage/storageAccounts/blobServices/containers/blobs"
READ, WRITE = f"{BLOBS}/read", f"{BLOBS}/write"


def read(uri: str, most: int) -> bytes:
    """The first `most` bytes of the blob at `https://account.blob.core.windows.net/container/name`; no more is asked for.

    Raises SettingsError with what Azure said.
    """
    try:
        account, container, name = _place(uri)
        if not name:
            raise SettingsError(f"{bare(uri)!r} names no blob: expected https://account.blob.core.windows.net/container/name")
        # Not by a range of our own, which Azure refuses for an empty blob; the SDK's first request is for so many bytes.
        with _service(account, uri, max_single_get_size=most) as service:
            return bytes(service.get_blob_client(container, name).download_blob().read(most))
    except (AzureError, ValueError) as error:
        raise SettingsError(f"policy {bare(uri)}: cannot be read: {_brief(error)}") from error


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


def write(place: str, name: str, text: str) -> str:
    """Keep the text as `<place>/<name>` and give its address. Raises CloudError, also where another text is there: none is written over."""
    with _told(WRITE, place):
        account, container, prefix = _place(place)
        full = "/".join(part for part in (prefix, name) if part)
        with _service(account, place) as service:
            blob = service.get_blob_client(container, full)
            kind = ContentSettings(content_type="application/json; charset=utf-8")
            try:
                blob.upload_blob(text.encode(), content_settings=kind, overwrite=False)
            except ResourceExistsError:
                # A try whose reply was lost has written this very text.
                if blob.download_blob().readall() != text.encode():
                    raise
        return f"{account}/{container}/{quote(full)}"


def read_text(address: str) -> str:
    """The text at an address that `write` or `list` gave. Raises CloudError."""
    with _told(READ, address):
        account, container, name = _place(address)
        with _service(account, address) as service:
            return service.get_blob_client(container, unquote(name)).download_blob().readall().decode()


def list(place: str) -> builtins.list[str]:
    """The addresses of everything kept under `place`, in the order of their names. Raises CloudError.

    A place that ends with a slash is one without the name that was to follow it: nothing is listed for it, rather than everything.
    """
    with _told(READ, place):
        if place.strip().endswith("/") or "?" in place or "#" in place:
            raise ValueError("names nothing to be listed")
        account, container, prefix = _place(place)
        below = f"{prefix}/" if prefix else None
        with _service(account, place) as service:
            names = [*service.get_container_client(container).list_blob_names(name_starts_with=below)]
        return [f"{account}/{container}/{quote(name)}" for name in names]


@contextmanager
def _told(operation: str, where: str) -> Iterator[None]:
    """What goes wrong inside, as CloudError with the address and what Azure said."""
    try:
        yield
    except AzureError as error:
        trouble, denied = _trouble(error), _trouble(error) is Trouble.DENIED
        missing = operation if denied else None
        code = str(getattr(error, "error_code", None) or "")
        raise CloudError(trouble, operation, f"{bare(where)}: {_brief(error)}", code=code, missing=missing) from error
    except (ValueError, SettingsError) as error:
        raise CloudError(Trouble.GARBLED, operation, f"{bare(where)}: {_brief(error)}") from error


def _trouble(error: AzureError) -> Trouble:
    status = error.status_code if isinstance(error, HttpResponseError) else None
    if status in (401, 403):
        return Trouble.DENIED
    if status == 404:
        return Trouble.GONE
    if status == 429 or (status == 503 and "busy" in str(error).lower()):
        return Trouble.THROTTLED
    if status is None and not isinstance(error, ClientAuthenticationError):
        unreachable = isinstance(error, (ServiceRequestError, ServiceResponseError))
        return Trouble.UNREACHABLE if unreachable else Trouble.GARBLED
    return Trouble.REFUSED


def bare(uri: str) -> str:
    """The address without a signature, fit to be shown."""
    return uri.partition("?")[0]


def _service(account: str, uri: str, **more: Any) -> BlobServiceClient:
    """Raises SettingsError where our own identity would have to be shown to a host that is not Azure's."""
    signature = split(uri).query
    if "sig=" in signature:
        return BlobServiceClient(f"{account}?{signature}", **TIMEOUTS, **PATIENCE, **more)
    if because := trusted_hosts.refusal(account, "blob"):
        raise SettingsError(because)
    return BlobServiceClient(account, credential=credential(), **TIMEOUTS, **PATIENCE, **more)


def _place(uri: str) -> tuple[str, str, str]:
    """Account address, container, and the rest of the path."""
    parts = split(uri)
    path = [part for part in parts.path.split("/") if part]
    owner = path[:1] if LOCAL.fullmatch(parts.hostname or "") else []
    path = path[len(owner) :]
    if parts.scheme != "https" or not parts.hostname or not path:
        raise SettingsError(f"{bare(uri)!r} is not an address such as https://account.blob.core.windows.net/container")
    return "/".join([f"https://{parts.netloc}", *owner]), path[0], "/".join(path[1:])


def _brief(error: Exception) -> str:
    return (str(error).strip().splitlines() or [repr(error)])[0]
