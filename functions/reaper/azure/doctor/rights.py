"""What an identity may do in Azure, without trying it, and the command that grants it.

https://learn.microsoft.com/rest/api/authorization/permissions/list-for-resource. An action is permitted if one entry allows it and that
entry doesn't exclude it. Deny assignments and locks don't show, and a new assignment may take half an hour.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from reaper.doctor.check import Check, CheckStatus, unasked_rights
from reaper.errors import CloudError

if TYPE_CHECKING:
    from reaper.azure.session import CloudSession

PERMISSION, API_VERSION = "Microsoft.Authorization/permissions/read", "2022-04-01"
OWN_SCOPE = "/Microsoft.ManagedIdentity/"
"""Part of the scopes that permissions are granted on one by one."""
Entry = Mapping[str, Any]


def permitted_rights(cloud: CloudSession, scope: str, permissions: Sequence[str], principal: str) -> list[Check]:
    """Whether each of the permissions is there at that scope."""
    path = f"{scope}/providers/Microsoft.Authorization/permissions?api-version={API_VERSION}"
    right = partial(Check, place=place_of(scope))
    try:
        entries = list(cloud.paged_rows(PERMISSION, path, required_keys=("actions",)))
    except CloudError as error:
        return unasked_rights(permissions, place_of(scope), f"the permissions at {scope} can't be listed", error)
    missing = partial(right, status=CheckStatus.FIX, because="no role of this identity allows it")
    return [
        right(permission=permission)
        if is_permitted(permission, entries)
        else missing(permission=permission, fix=grant_line(principal, permission, scope), missing=permission)
        for permission in permissions
    ]


def is_permitted(action: str, entries: Iterable[Entry]) -> bool:
    """Whether one entry allows the action and doesn't exclude it."""
    return any(_matches(action, entry.get("actions")) and not _matches(action, entry.get("notActions")) for entry in entries)


def place_of(scope: str) -> str:
    """A scope as people call it: `subscription 1111…`, or `vision` for a resource."""
    parts = scope.strip("/").split("/")
    return f"subscription {parts[1]}" if len(parts) == 2 else parts[-1]


def grant_line(principal: str, permission: str, scope: str) -> str:
    """The commands that create a role with just this action and assign it: in the whole subscription, because no role is for one workspace.

    Only an identity is a scope of its own. Names of roles are unique in a tenant, so each subscription has its own. The second command runs
    even if the first one fails, because the role may exist from an earlier attempt.
    """
    slug = re.sub(r"[^A-Za-z0-9]+", "-", permission).strip("-")
    subscription = "/".join(scope.split("/")[:3])
    name = f"reaper-{slug}-{subscription.rpartition('/')[2][:8]}"
    place = scope if OWN_SCOPE in scope else subscription
    description = "One permission of ML Idle Reaper"
    role = {"Name": name, "Description": description, "Actions": [permission], "AssignableScopes": [subscription]}
    definition = f"az role definition create --role-definition {shlex.quote(json.dumps(role))}"
    return f"{definition}; {assign_line(principal, name, shlex.quote(place))}"


def assign_line(principal: str, role: str, scope: str) -> str:
    """The command that assigns a role at a scope, which is pasted as it is."""
    return f"az role assignment create --assignee {principal} --role {shlex.quote(role)} --scope {scope}"


def _matches(action: str, patterns: object) -> bool:
    """Whether one of the patterns, in which `*` is the only wildcard, covers the action. Azure ignores the case."""
    texts = patterns if isinstance(patterns, list) else []
    return any(re.fullmatch(re.escape(str(text)).replace(r"\*", ".*"), action, re.IGNORECASE) for text in texts)
