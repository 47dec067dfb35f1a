"""A run as its workflow stores it: what every later step needs, written once when the targets are listed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from reaper.errors import CloudError, Reason
from reaper.model import Account, Run
from reaper.policy.file import PolicySource, parse_stored_policy
from reaper.workflow.store import ITEMS, RUN, RunStore

REGIONS_PER_ITEM = 4
"""Regions that one step reads. A region of 50,000 endpoints takes most of a function's 15 minutes, an ordinary one a few seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """The run with its policy's text, the kinds to observe and the accounts to sweep. It contains no secret and no external ID."""

    run: Run
    policy_name: str
    policy_text: str
    kinds: tuple[str, ...]
    accounts: tuple[Account, ...]

    def policy(self) -> PolicySource:
        """The run's own policy, whatever the current one is. Raises PolicyError."""
        return parse_stored_policy(self.policy_name, self.policy_text)

    def account(self, account_id: str) -> Account:
        """The account of that ID. Raises CloudError if the run has none."""
        account = next((account for account in self.accounts if account.id == account_id), None)
        if account is None:
            raise CloudError(Reason.REFUSED, "workflow", f"account {account_id!r} isn't part of run {self.run.id}")
        return account


@dataclass(frozen=True, slots=True, kw_only=True)
class RunItem:
    """One step of observing: an account, or some of its regions."""

    item: int
    account: str
    regions: tuple[str, ...] = ()


def items_of(accounts: tuple[Account, ...]) -> list[RunItem]:
    """The items in the order of the accounts."""
    groups = [(account.id, group) for account in accounts for group in _region_groups(account)]
    return [RunItem(item=number, account=account, regions=group) for number, (account, group) in enumerate(groups)]


def _region_groups(account: Account) -> list[tuple[str, ...]]:
    regions = account.regions
    return [regions[start : start + REGIONS_PER_ITEM] for start in range(0, len(regions), REGIONS_PER_ITEM)] or [()]


def store_run(stored: StoredRun, store: RunStore) -> StoredRun:
    """Write the run unless a repeated step was quicker. Returns the run that is stored. Raises CloudError."""
    if store.create(RUN, _adapter().dump_json(stored).decode()):
        return stored
    return require_run(store)


def store_items(stored: StoredRun, store: RunStore) -> list[RunItem]:
    """Write the items of the stored run, once: its steps have their numbers. Returns the items. Raises CloudError."""
    items = items_of(stored.accounts)
    store.create(ITEMS, json.dumps([_item_json(item) for item in items]))
    return items


def read_run(store: RunStore) -> StoredRun | None:
    """The stored run; None if nothing is stored. Raises CloudError."""
    text = store.read(RUN)
    if text is None:
        return None
    try:
        return _adapter().validate_json(text)
    except ValueError as error:
        raise CloudError(Reason.UNREADABLE, "workflow", f"{RUN} can't be read: {error}") from error


def require_run(store: RunStore) -> StoredRun:
    """The stored run. Raises CloudError if there is none."""
    stored = read_run(store)
    if stored is None:
        raise CloudError(Reason.GONE, "workflow", f"the run isn't in its store ({RUN} is missing)")
    return stored


def item_of(values: Mapping[str, Any]) -> RunItem:
    """The item that a workflow passed on as JSON."""
    return RunItem(item=int(values["item"]), account=str(values["account"]), regions=tuple(values.get("regions") or ()))


def _item_json(item: RunItem) -> dict[str, Any]:
    return {"item": item.item, "account": item.account, "regions": list(item.regions)}


@cache
def _adapter() -> TypeAdapter[StoredRun]:
    return TypeAdapter(StoredRun)
