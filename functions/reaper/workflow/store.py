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

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from pydantic import TypeAdapter

from reaper.errors import CloudError, Reason, SettingsError
from reaper.model import Account, Run, Target

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
        """`texts` is the cloud's `text_store`."""
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


# MERGED A run as its workflow stores it: what every later step needs, written once when the targets are listed.
#
# It is stored under its own hash, which the engine carries from step to step. So a step believes the store only what the run itself listed.


REGIONS_PER_ITEM = 4
"""Regions that one step reads. A region of 50,000 endpoints takes most of a function's 15 minutes, an ordinary one a few seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineState:
    """What the engine itself carries: the run, the execution that it is, and the hashes of its policy and of what it listed."""

    run: str
    execution: str
    policy_sha256: str
    listed_sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunItem:
    """One step of observing: an account, or some of its regions."""

    item: int
    account: str
    regions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """The run, the execution that it is, the kinds to observe and the accounts to sweep. It contains no secret and no external ID."""

    run: Run
    execution: str
    kinds: tuple[str, ...]
    accounts: tuple[Account, ...]

    def account(self, account_id: str) -> Account:
        """The account of that ID. Raises CloudError if the run has none."""
        account = next((account for account in self.accounts if account.id == account_id), None)
        if account is None:
            raise _refused(f"account {account_id!r} isn't part of run {self.run.id}")
        return account

    def account_of_item(self, item: RunItem) -> Account:
        """The item's account, with the item's regions only."""
        return replace(self.account(item.account), regions=item.regions)

    def items(self) -> list[RunItem]:
        """The items in the order of the accounts. An item's number is its index."""
        groups = [(account.id, group) for account in self.accounts for group in _region_groups(account)]
        return [RunItem(item=number, account=account, regions=group) for number, (account, group) in enumerate(groups)]

    def item(self, number: int) -> RunItem:
        """The item of that number. Raises CloudError if the run has none."""
        items = self.items()
        if not 0 <= number < len(items):
            raise _refused(f"run {self.run.id} has no item {number}")
        return items[number]

    def require_target(self, target: Target) -> None:
        """Raises CloudError if the target is outside what the run sweeps."""
        account = self.account(target.account)
        in_regions = not account.regions or not {"all", target.region}.isdisjoint(account.regions)
        if account.cloud != target.cloud or not in_regions:
            raise _refused(f"{target.account} {target.region or ''} isn't part of run {self.run.id}")


def _region_groups(account: Account) -> list[tuple[str, ...]]:
    regions = account.regions
    return [regions[start : start + REGIONS_PER_ITEM] for start in range(0, len(regions), REGIONS_PER_ITEM)] or [()]


def store_run(stored: StoredRun, store: RunStore) -> EngineState:
    """Write the run and its items. Returns what the engine has to carry: a repeated step may have listed something else. Raises CloudError."""
    text = _adapter().dump_json(stored).decode()
    digest = sha256(text.encode()).hexdigest()
    store.create(f"{RUN_PREFIX}{digest}.json", text)
    store.write(ITEMS, json.dumps([_item_json(item) for item in stored.items()]))
    return EngineState(
        run=stored.run.id, execution=stored.execution, policy_sha256=stored.run.policy_sha256, listed_sha256=digest
    )


def require_run(store: RunStore, engine: EngineState) -> StoredRun:
    """The run that the engine is carrying out. Raises CloudError if the store hasn't exactly what the run listed."""
    name = f"{RUN_PREFIX}{engine.listed_sha256}.json"
    text = store.read(name)
    if text is None:
        raise CloudError(Reason.GONE, "workflow", f"the run isn't in its store ({name} is missing)")
    if sha256(text.encode()).hexdigest() != engine.listed_sha256:
        raise _refused(f"{name} was changed since the run was listed")
    try:
        stored = _adapter().validate_json(text)
    except ValueError as error:
        raise CloudError(Reason.UNREADABLE, "workflow", f"{name} can't be read: {error}") from error
    if (stored.run.id, stored.execution, stored.run.policy_sha256) != (engine.run, engine.execution, engine.policy_sha256):
        raise _refused(f"run {stored.run.id} of {stored.execution} isn't the run that called, {engine.run} of {engine.execution}")
    return stored


def _item_json(item: RunItem) -> Mapping[str, Any]:
    """What the map reads. Only the number is used: the rest is for people."""
    return {"item": item.item, "account": item.account, "regions": list(item.regions)}


def _refused(because: str) -> CloudError:
    return CloudError(Reason.REFUSED, "workflow", because)


@cache
def _adapter() -> TypeAdapter[StoredRun]:
    return TypeAdapter(StoredRun)
