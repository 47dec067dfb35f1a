"""The accounts of an organization, or of some of its units and those nested in them.

State, and empty pages with a token: https://docs.aws.amazon.com/organizations/latest/APIReference/API_ListAccounts.html; quotas, which all
tools of the organization share: https://docs.aws.amazon.com/organizations/latest/userguide/orgs_reference_limits.html
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
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


class _Pace:
    """Spaces out the calls, so that other tools of the organization aren't throttled."""

    def __init__(self) -> None:
        self._calls: Counter[str] = Counter()
        self._lock = threading.Lock()

    def wait(self, model: Any, **_: Any) -> None:
        """Called by the SDK before every call."""
        per_second, at_once = RATES.get(model.name, (1, 2))
        with self._lock:
            self._calls[model.name] += 1
            if self._calls[model.name] > at_once:
                time.sleep(1 / per_second)


def list_members(session: boto3.Session, units: Sequence[str], region: str) -> list[Account]:
    """The active accounts of the whole organization or of these units, by ID. Raises SettingsError if it can't be read."""
    session.events.register("before-call.organizations", _Pace().wait)
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
            nested = list(
                cloud.paged_rows(
                    "organizations", "ListOrganizationalUnitsForParent", "OrganizationalUnits", "Id", ParentId=parent
                )
            )
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
