"""The accounts of an organization, or of some of its units and those nested in them.

State, and empty pages with a token: https://docs.aws.amazon.com/organizations/latest/APIReference/API_ListAccounts.html; quotas, which all
tools of the organization share: https://docs.aws.amazon.com/organizations/latest/userguide/orgs_reference_limits.html
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import boto3

from reaper.aws.session import CloudSession
from reaper.errors import CloudError, Reason, SettingsError
from reaper.model import Account, Target

PERMISSIONS = (
    "organizations:ListAccounts",
    "organizations:ListAccountsForParent",
    "organizations:ListOrganizationalUnitsForParent",
)
RATES = {"ListAccounts": (8, 12), "ListAccountsForParent": (5, 8), "ListOrganizationalUnitsForParent": (5, 8)}
"""Calls a second, and calls at once."""


def _paced() -> Callable[..., None]:
    """Called by the SDK before every call, it spaces them out, so that other tools of the organization aren't throttled."""
    calls: Counter[str] = Counter()
    lock = threading.Lock()

    def wait(model: Any, **_: Any) -> None:
        per_second, at_once = RATES.get(model.name, (1, 2))
        with lock:
            calls[model.name] += 1
            if calls[model.name] > at_once:
                time.sleep(1 / per_second)

    return wait


def list_members(session: boto3.Session, units: Sequence[str], region: str) -> list[Account]:
    """The active accounts of the whole organization or of these units, by ID. Raises SettingsError if it can't be read."""
    session.events.register("before-call.organizations", _paced())
    cloud = CloudSession(session, Target(cloud="aws", account="unknown", region=region))
    rows: dict[str, Mapping[str, Any]] = {}
    try:
        for unit in units:
            rows |= {row["Id"]: row for row in _rows_below(cloud, unit)}
        if not units:
            rows = {row["Id"]: row for row in cloud.paged_rows("organizations", "ListAccounts", "Accounts", "Id", "Arn")}
        active = [row for _, row in sorted(rows.items()) if _state(row) == "ACTIVE"]
    except CloudError as error:
        raise _unreadable(error) from error
    return [
        Account(
            cloud="aws",
            id=row["Id"],
            name=name if isinstance(name := row.get("Name"), str) and name else None,
            is_management=row["Arn"].split(":")[4:5] == [row["Id"]],  # arn:aws:organizations::MANAGEMENT:account/o-…/ID
        )
        for row in active
    ]


def _rows_below(cloud: CloudSession, unit: str) -> Iterator[Mapping[str, Any]]:
    """The accounts of a unit and of all units nested in it."""
    waiting, known = [unit], {unit}
    while waiting:
        parent = waiting.pop()
        try:
            yield from cloud.paged_rows("organizations", "ListAccountsForParent", "Accounts", "Id", "Arn", ParentId=parent)
            below = ("organizations", "ListOrganizationalUnitsForParent", "OrganizationalUnits")
            nested = list(cloud.paged_rows(*below, "Id", ParentId=parent))
        except CloudError as error:
            if error.code == "ParentNotFoundException" and parent == unit:
                raise SettingsError(
                    f"--ou {unit}: the organization has no such unit; `aws organizations list-organizational-units-for-parent` lists them"
                ) from error
            raise
        new = [row["Id"] for row in nested if row["Id"] not in known]
        known.update(new)
        waiting += new


def _state(row: Mapping[str, Any]) -> str:
    """`State`, or `Status`, which it replaced. Raises CloudError for a row with neither: its account would be left out silently."""
    state = row.get("State") or row.get("Status")
    if not isinstance(state, str):
        raise CloudError(Reason.UNREADABLE, "organizations:ListAccounts", f"account {row['Id']} has neither State nor Status")
    return state


def _unreadable(error: CloudError) -> SettingsError:
    if error.code == "AWSOrganizationsNotInUseException":
        return SettingsError(
            "--organization: the current credentials' account isn't in an organization; name the accounts with --account"
        )
    remedy = f", and allow {error.missing}" if error.missing else ""
    return SettingsError(
        f"the organization can't be read, so nothing was swept: {error}. Use credentials of its management account or of a delegated "
        f"administrator{remedy}; or name the accounts with --account"
    )
