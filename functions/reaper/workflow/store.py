"""Where a workflow keeps what its phases hand over: texts under `<address>/<run id>/`, in S3, in blobs or, for tests, in a folder.

run-<hash>.json    the run and the accounts to sweep, under the hash that the engine carries
items.json         what to observe: an array of items, each a part of an account
observed/<n>.json  what the item's observe read
missing.json       for each item without a part when the run was decided, the reason
decided.json       the decisions of the run
act-items.json     where to act: an array of items, each a target
decided/<n>.json   the decisions about one of them
acted/<n>.json     what act did there
figures.json       left by the step that publishes the run's figures, so that a repeated step doesn't publish them again
summary.json       the receipt of an audit's summary, so that a repeated step doesn't send it again

The store decides nothing. A person who can write there can drop what the run has read, or mislead its mails. Only the ledger, the re-check and the
policy decide what may be done.
"""

from __future__ import annotations

from reaper.errors import CloudError, Reason, SettingsError
from reaper.stores.texts import TextStore, open_texts

RUN_PREFIX = "run-"
ITEMS, MISSING, DECIDED, ACT_ITEMS = "items.json", "missing.json", "decided.json", "act-items.json"
FIGURES, SUMMARY = "figures.json", "summary.json"


class RunStore:
    """The texts of one run, at `place`. Every method raises CloudError if the store fails."""

    def __init__(self, texts: TextStore, place: str) -> None:
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
            return self._texts.read_text(f"{self._place}/{name}")
        except CloudError as error:
            if error.reason is Reason.GONE and error.code in self._texts.MISSING_CODES:
                return None
            raise

    def names(self, folder: str = "") -> list[str]:
        """The names of all texts, or of those in a folder such as `observed/`, sorted."""
        addresses = self._texts.list_texts(f"{self._place}/{folder}".rstrip("/"))
        return [address.removeprefix(f"{self._place}/") for address in addresses]


def open_run_store(address: str | None, run_id: str) -> RunStore:
    """The store of one run. Raises SettingsError for an address that can't be used."""
    if not address:
        raise SettingsError("a workflow needs REAPER_RUNS: s3://bucket/prefix, or a blob container's https URL")
    if not address.startswith(("s3://", "https://", "/")):
        raise SettingsError(f"REAPER_RUNS={address!r}: expected s3://bucket/prefix, or a blob container's https URL")
    return RunStore(open_texts(address, "REAPER_RUNS needs"), f"{address.rstrip('/')}/{run_id}")
