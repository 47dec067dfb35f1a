"""Where a workflow keeps what its phases hand over: texts under `<address>/<run id>/`, in S3, in blobs or, for tests, in a folder.

run-<hash>.json    the run and the accounts to sweep, under the hash that the engine carries
items.json         what to observe: an array of items, each a part of an account
observed/<n>.json  what the item's observe read
missing.json       for each item without a part when the run was decided, the reason
decided.json       what decide decided of the whole run
act-items.json     where to act: an array of items, each a target
decided/<n>.json   the decisions about one of them
acted/<n>.json     what act did there
figures.json       left by the step that publishes the figures of the run, so that a repeated one doesn't
summary.json       the receipt of an audit's summary, so that a repeated step doesn't send it again

The store decides nothing. A person who can write there can drop what the run has read, or mislead its mails; what may be done is for the ledger, the
re-check and the policy to say.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from reaper.errors import CloudError, Reason, SettingsError

RUN_PREFIX = "run-"
ITEMS, MISSING, DECIDED, ACT_ITEMS = "items.json", "missing.json", "decided.json", "act-items.json"
FIGURES, SUMMARY = "figures.json", "summary.json"


class RunStore(Protocol):
    """The texts of one run. Every method raises CloudError if the store fails."""

    def write(self, name: str, text: str) -> None:
        """Write the text, or replace it."""
        ...

    def create(self, name: str, text: str) -> bool:
        """Write the text unless there is one of that name. Returns whether it was written."""
        ...

    def read(self, name: str) -> str | None:
        """The text of that name; None if there is none."""
        ...

    def names(self, prefix: str = "") -> list[str]:
        """The names that begin with `prefix`, sorted."""
        ...


def open_run_store(address: str | None, run_id: str) -> RunStore:
    """The store of one run. Raises SettingsError for an address that can't be used."""
    if not address:
        raise SettingsError("a workflow needs REAPER_RUNS: s3://bucket/prefix, or a blob container's https URL")
    cloud = next((cloud for scheme, cloud in CLOUD_BY_SCHEME.items() if address.startswith(scheme)), None)
    if cloud:
        return CloudStore(import_module(f"reaper.{cloud}.stores.texts"), f"{address.rstrip('/')}/{run_id}")
    if address.startswith("/"):
        return FolderStore(Path(address) / run_id)
    raise SettingsError(f"REAPER_RUNS={address!r}: expected s3://bucket/prefix, or a blob container's https URL")


CLOUD_BY_SCHEME = {"s3://": "aws", "https://": "azure"}


class CloudStore:
    """Texts as objects under `s3://bucket/prefix/<run id>/`, or as blobs in `https://account.blob.core.windows.net/container/<run id>/`."""

    def __init__(self, texts: Any, place: str) -> None:
        """`texts` is the cloud's `stores.texts`."""
        self._texts, self._place = texts, place

    def write(self, name: str, text: str) -> None:
        """Write the text, or replace it."""
        self._texts.replace_text(self._place, name, text)

    def create(self, name: str, text: str) -> bool:
        """Write the text unless there is one of that name. Returns whether it was written."""
        try:
            self._texts.write(self._place, name, text)
        except CloudError as error:
            if error.code in self._texts.EXISTS_CODES:
                return False
            raise
        return True

    def read(self, name: str) -> str | None:
        """The text of that name; None if there is none. Raises CloudError if the bucket or the container is missing."""
        try:
            return str(self._texts.read_text(f"{self._place}/{name}"))
        except CloudError as error:
            if error.reason is Reason.GONE and error.code in self._texts.MISSING_CODES:
                return None
            raise

    def names(self, prefix: str = "") -> list[str]:
        """The names that begin with `prefix`, which ends with a slash or is empty."""
        addresses = self._texts.list_texts(f"{self._place}/{prefix}".rstrip("/"))
        return [address.removeprefix(f"{self._place}/") for address in addresses]


class FolderStore:
    """Texts as files of a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, name: str, text: str) -> None:
        """Write the file, or replace it."""
        path = self._path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def create(self, name: str, text: str) -> bool:
        """Write the file unless it exists. Returns whether it was written."""
        path = self._path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            return False
        return True

    def read(self, name: str) -> str | None:
        """The file's text; None if there is no such file."""
        path = self._path(name)
        return path.read_text(encoding="utf-8") if path.is_file() else None

    def names(self, prefix: str = "") -> list[str]:
        """The names of the files below."""
        files = (path.relative_to(self._folder).as_posix() for path in self._folder.rglob("*") if path.is_file())
        return sorted(name for name in files if name.startswith(prefix))

    def _path(self, name: str) -> Path:
        return self._folder / name
