"""Subscriptions: their names and states, those that the identity can read, and those below a management group.

Only Enabled and PastDue ones are acted on. In the other states Azure takes no changes but deletions, so nothing could be put back:
https://learn.microsoft.com/azure/cost-management-billing/manage/subscription-states
The list of what lies below a management group names the subscriptions that the identity can't read, too, which Resource Graph leaves out:
https://learn.microsoft.com/rest/api/managementgroups/management-groups/get-descendants
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from reaper.azure.request import ArmRequest
from reaper.errors import CloudError, Reason, SettingsError

if TYPE_CHECKING:
    from reaper.azure.session import CloudSession

READ_SUBSCRIPTION = "Microsoft.Resources/subscriptions/read"
READ_BELOW = "Microsoft.Management/managementGroups/descendants/read"
GROUPS = "/providers/Microsoft.Management/managementGroups"
CHANGEABLE_STATES = frozenset({"enabled", "pastdue"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """One subscription. `state`: empty if Azure doesn't say."""

    id: str
    name: str | None
    state: str

    @property
    def blocked_because(self) -> str | None:
        """Why nothing in it may be changed now, or None."""
        if self.state.lower() in CHANGEABLE_STATES:
            return None
        state = f"is {self.state}" if self.state else "has an unknown state"
        return f"its subscription {state}, and the reaper acts only in subscriptions that are Enabled or PastDue"


def read_subscription(cloud: CloudSession) -> Subscription:
    """The session's own subscription, read once for all kinds. It becomes part of the session's target. Raises CloudError."""
    subscription: Subscription = cloud.read_once("subscription", lambda: _read(cloud))
    cloud.describe_target(subscription.name, subscription.blocked_because)
    return subscription


def read_subscription_now(cloud: CloudSession) -> None:
    """Make the state that the subscription has at this moment part of the session's target. Raises CloudError."""
    subscription = _read(cloud)
    cloud.describe_target(subscription.name, subscription.blocked_because)


def list_readable(cloud: CloudSession) -> dict[str, Subscription]:
    """The subscriptions that the identity can read, by ID. Raises CloudError."""
    rows = cloud.paged_rows(READ_SUBSCRIPTION, "/subscriptions", required_keys=("subscriptionId",))
    listed = [_parse(str(row["subscriptionId"]).lower(), row) for row in rows]
    return {one.id: one for one in listed if one.state.lower() != "deleted"}


def list_below(cloud: CloudSession, group: str) -> dict[str, str | None]:
    """The names of all subscriptions below a management group, by ID, readable or not. Raises SettingsError if the group can't be read."""
    try:
        rows = list(cloud.paged_rows(READ_BELOW, f"{GROUPS}/{quote(group, safe='')}/descendants", required_keys=("id", "type")))
    except CloudError as error:
        if error.reason not in {Reason.DENIED, Reason.GONE, Reason.REFUSED}:
            raise
        text = f"management group {group!r} can't be read: it needs {READ_BELOW} on {GROUPS}/{group} ({error})"
        raise SettingsError(text) from error
    found = [row for row in rows if str(row["type"]).lower().endswith("/subscriptions")]
    return {str(row["id"]).rpartition("/")[2].lower(): _display_name(row.get("properties")) for row in found}


def _read(cloud: CloudSession) -> Subscription:
    """Read before anything else, because it tells a missing permission from an empty subscription."""
    home = f"/subscriptions/{cloud.target.account}"
    try:
        reply = cloud.call(ArmRequest(permission=READ_SUBSCRIPTION, path=home, required_keys=("subscriptionId",)))
    except CloudError as error:
        if error.reason is not Reason.GONE and not error.code.endswith("SubscriptionNotFound"):
            raise
        text = f"missing permission {READ_SUBSCRIPTION} on {home}, or there is no such subscription ({error.code})"
        raise CloudError(Reason.DENIED, READ_SUBSCRIPTION, text, code=error.code, missing=READ_SUBSCRIPTION) from error
    return _parse(cloud.target.account, reply)


def _parse(subscription_id: str, row: dict[str, Any]) -> Subscription:
    state = row.get("state")
    return Subscription(id=subscription_id, name=_display_name(row), state=state.strip() if isinstance(state, str) else "")


def _display_name(row: Any) -> str | None:
    name = row.get("displayName") if isinstance(row, dict) else None
    return name.strip() or None if isinstance(name, str) else None
