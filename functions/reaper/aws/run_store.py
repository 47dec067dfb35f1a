"""What the phases of a workflow hand over, as objects in S3.

A conditional write: https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html
"""

from __future__ import annotations

from reaper.aws import text_store
from reaper.errors import CloudError, Reason


class S3RunStore:
    """Objects under `s3://bucket/prefix/<run id>/`."""

    def __init__(self, place: str) -> None:
        self._place = place

    def write(self, name: str, text: str) -> None:
        """Write an object, or replace it."""
        text_store.replace_text(f"{self._place}/{name}", text)

    def create(self, name: str, text: str) -> bool:
        """Write an object unless there is one of that name. Returns whether it was written."""
        try:
            text_store.write(self._place, name, text)
        except CloudError as error:
            if error.code in text_store.EXISTS_CODES:
                return False
            raise
        return True

    def read(self, name: str) -> str | None:
        """The object's text; None if there is no such object."""
        try:
            return text_store.read_text(f"{self._place}/{name}")
        except CloudError as error:
            if error.reason is Reason.GONE:
                return None
            raise

    def names(self, prefix: str = "") -> list[str]:
        """The names of the objects that begin with `prefix`, which ends with a slash or is empty."""
        addresses = text_store.list_texts(f"{self._place}/{prefix}")
        return [address.removeprefix(f"{self._place}/") for address in addresses]


def open_store(address: str, run_id: str) -> S3RunStore:
    """The store of one run under `s3://bucket/prefix`. Makes no call yet."""
    return S3RunStore(f"{address.rstrip('/')}/{run_id}")
