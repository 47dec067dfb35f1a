"""Texts in blobs: the policy is read from there, full reports and manifests are stored there.

An address with a shared access signature needs no other credential; any other is opened with the reaper's own identity.
https://learn.microsoft.com/azure/storage/blobs/assign-azure-role-data-access
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
from azure.storage.blob import BlobClient, BlobServiceClient, ContentSettings

from reaper.azure.requests import first_line
from reaper.azure.session import RETRY_COUNTS, TIMEOUTS, new_credential
from reaper.azure.stores import trusted_hosts
from reaper.errors import CloudError, Reason, SettingsError
from reaper.urls import split_address

LOCAL_HOST = re.compile(r"localhost|[\d.]+|\[.*\]")
"""Hosts with the account as the first part of the path, as in Azurite, and not of the name."""
RETRY_TOTAL = RETRY_COUNTS["retry_total"]
RETRIES: dict[str, Any] = {"retry_total": RETRY_TOTAL, "initial_backoff": 1, "increment_base": 2, "random_jitter_range": 1}
"""The SDK's own waits begin at 15 seconds and triple."""
JSON_TEXT = ContentSettings(content_type="application/json; charset=utf-8")
BLOBS = "Microsoft.Storage/storageAccounts/blobServices/containers/blobs"
READ, WRITE = f"{BLOBS}/read", f"{BLOBS}/write"
EXISTS_CODES = frozenset({"BlobAlreadyExists", "UnauthorizedBlobOverwrite"})
"""Azure's codes for a name that is taken: by a blob, and by one that may not be overwritten."""
MISSING_CODES = frozenset({"BlobNotFound"})
"""What Azure says of a name without a blob. A missing container has another code."""


def read_bytes(uri: str, most: int) -> bytes:
    """The first `most` bytes of the blob at that https address; no more is requested. Raises SettingsError with Azure's message."""
    try:
        account, container, name = _split_address(uri)
        if not name:
            expected = "expected https://account.blob.core.windows.net/container/name"
            raise SettingsError(f"{without_signature(uri)!r} names no blob: {expected}")
        # Not by an explicit range, which Azure refuses for an empty blob. The SDK's first request is for this many bytes.
        with _blob_service(account, uri, max_single_get_size=most) as service:
            return bytes(service.get_blob_client(container, name).download_blob().read(most))
    except (AzureError, CloudError, ValueError) as error:
        raise SettingsError(f"{without_signature(uri)}: can't be read: {first_line(error, None)}") from error


def write_report(place: str, run_id: str, started_at: datetime, text: str) -> str:
    """Store a report under `<place>/YYYY/MM/DD/<run>.json`; returns its address. The first of a run stays. Raises SettingsError."""
    try:
        with _blob(place, f"{started_at:%Y/%m/%d}/{run_id}.json") as (address, blob), suppress(ResourceExistsError):
            blob.upload_blob(text.encode(), content_settings=ContentSettings(content_type="application/json"))
    except (AzureError, ValueError) as error:
        text = f"REAPER_REPORTS={without_signature(place)}: the report can't be stored: {first_line(error, None)}"
        raise SettingsError(text) from error
    return unquote(address)


def read_report(place: str, run_id: str, address: str) -> str:
    """The report that `write_report` stored for that run. Raises CloudError, also if the address is none of this run's under `place`."""
    account, container, prefix = _split_address(place)
    folder = "/".join(part for part in (account, container, prefix) if part)
    if not re.fullmatch(rf"{re.escape(folder)}/[0-9]{{4}}/[0-9]{{2}}/[0-9]{{2}}/{re.escape(run_id)}\.json", address):
        raise CloudError(Reason.REFUSED, READ, f"{without_signature(address)} is no report of run {run_id}")
    return read_text(address)


def write(place: str, name: str, text: str) -> str:
    """Store the text as `<place>/<name>` and return its address. Raises CloudError, also if another text exists: none is overwritten."""
    with _sdk_errors_as_cloud_errors(WRITE, place), _blob(place, name) as (address, blob):
        try:
            blob.upload_blob(text.encode(), content_settings=JSON_TEXT)
        except ResourceExistsError:
            # An earlier try, whose reply was lost, may have written this text.
            if blob.download_blob().readall() != text.encode():
                raise
        return address


def replace_text(place: str, name: str, text: str) -> None:
    """Store the text as `<place>/<name>`, whatever is there now. Raises CloudError."""
    with _sdk_errors_as_cloud_errors(WRITE, place), _blob(place, name) as (_, blob):
        blob.upload_blob(text.encode(), content_settings=JSON_TEXT, overwrite=True)


def read_text(address: str) -> str:
    """The text at an address that `write` or `list_texts` returned. Raises CloudError."""
    with _sdk_errors_as_cloud_errors(READ, address):
        account, container, name = _split_address(address)
        with _blob_service(account, address) as service:
            return service.get_blob_client(container, unquote(name)).download_blob().readall().decode()


def list_texts(place: str) -> list[str]:
    """The addresses of all texts under `place`, sorted; one that lacks its last name is an error, not everything. Raises CloudError."""
    with _sdk_errors_as_cloud_errors(READ, place):
        if place.strip().endswith("/") or "?" in place or "#" in place:
            raise ValueError("names nothing to be listed")
        account, container, prefix = _split_address(place)
        below = f"{prefix}/" if prefix else None
        with _blob_service(account, place) as service:
            names = [*service.get_container_client(container).list_blob_names(name_starts_with=below)]
        return [f"{account}/{container}/{quote(name)}" for name in names]


@contextmanager
def _blob(place: str, name: str) -> Iterator[tuple[str, BlobClient]]:
    """The address of `<place>/<name>`, and the client for it."""
    account, container, prefix = _split_address(place)
    full = "/".join(part for part in (prefix, name) if part)
    with _blob_service(account, place) as service:
        yield f"{account}/{container}/{quote(full)}", service.get_blob_client(container, full)


@contextmanager
def _sdk_errors_as_cloud_errors(operation: str, where: str) -> Iterator[None]:
    """Turns the SDK's errors into CloudError, with the address and Azure's message."""
    try:
        yield
    except (AzureError, ValueError, SettingsError) as error:
        reason, text = _reason_of(error), f"{without_signature(where)}: {first_line(error, None)}"
        missing, code = operation if reason is Reason.DENIED else None, str(getattr(error, "error_code", None) or "")
        raise CloudError(reason, operation, text, code=code, missing=missing) from error


def _reason_of(error: Exception) -> Reason:
    status = error.status_code if isinstance(error, HttpResponseError) else None
    if isinstance(error, (ServiceRequestError, ServiceResponseError)):
        return Reason.UNREACHABLE
    if status is None and not isinstance(error, ClientAuthenticationError):
        return Reason.UNREADABLE
    if status == 429 or (status == 503 and "busy" in str(error).lower()):
        return Reason.THROTTLED
    return {401: Reason.DENIED, 403: Reason.DENIED, 404: Reason.GONE}.get(status or 0, Reason.REFUSED)


def without_signature(uri: str) -> str:
    """The address without its signature, which must not be shown."""
    return uri.partition("?")[0]


def _blob_service(account: str, uri: str, **more: Any) -> BlobServiceClient:
    """Raises SettingsError if the reaper's own identity would be shown to a host that isn't Azure's."""
    signature = split_address(uri).query
    if "sig=" in signature:
        return BlobServiceClient(f"{account}?{signature}", **TIMEOUTS, **RETRIES, **more)
    if because := trusted_hosts.refused_because(account, "blob"):
        raise SettingsError(because)
    return BlobServiceClient(account, credential=new_credential(), **TIMEOUTS, **RETRIES, **more)


def _split_address(uri: str) -> tuple[str, str, str]:
    """Account address, container, and the rest of the path."""
    parts = split_address(uri)
    path = [part for part in parts.path.split("/") if part]
    owner = path[:1] if LOCAL_HOST.fullmatch(parts.hostname or "") else []
    path = path[len(owner) :]
    if parts.scheme != "https" or not parts.hostname or not path:
        expected = "an address such as https://account.blob.core.windows.net/container"
        raise SettingsError(f"{without_signature(uri)!r} is not {expected}")
    return "/".join([f"https://{parts.netloc}", *owner]), path[0], "/".join(path[1:])
