"""What the phases of a workflow hand over, as blobs.

A conditional write: https://learn.microsoft.com/rest/api/storageservices/specifying-conditional-headers-for-blob-service-operations
"""

from __future__ import annotations

from reaper.azure import text_store
from reaper.errors import CloudError, Reason


class BlobRunStore:
    """Blobs under `https://account.blob.core.windows.net/container/<run id>/`."""

    def __init__(self, place: str) -> None:
        self._place = place

    def write(self, name: str, text: str) -> None:
        """Write a blob, or replace it."""
        text_store.replace_text(self._place, name, text)

    def create(self, name: str, text: str) -> bool:
        """Write a blob unless there is one of that name with another text. Returns whether the blob has this text."""
        try:
            text_store.write(self._place, name, text)
        except CloudError as error:
            if error.code in text_store.EXISTS_CODES:
                return False
            raise
        return True

    def read(self, name: str) -> str | None:
        """The blob's text; None if there is no such blob."""
        try:
            return text_store.read_text(f"{self._place}/{name}")
        except CloudError as error:
            if error.reason is Reason.GONE and error.code == text_store.NO_BLOB:
                return None
            raise

    def names(self, prefix: str = "") -> list[str]:
        """The names of the blobs that begin with `prefix`, which ends with a slash or is empty."""
        addresses = text_store.list_texts(f"{self._place}/{prefix}".rstrip("/"))
        return [address.removeprefix(f"{self._place}/") for address in addresses]


def open_store(address: str, run_id: str) -> BlobRunStore:
    """The store of one run in a container, or under a prefix in it. Makes no call yet."""
    return BlobRunStore(f"{address.rstrip('/')}/{run_id}")
