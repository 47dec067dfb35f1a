"""What `reaper doctor` asks of Azure, and the commands that grant what is missing. Every call reads, and asks for next to nothing.

What an identity may do is known without trying it: https://learn.microsoft.com/rest/api/authorization/permissions/list-for-resource. An action is
permitted if one entry allows it and that entry doesn't exclude it. Deny assignments and locks don't show, and a new assignment may take half an hour.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from azure.core.exceptions import AzureError

from reaper.azure import deployments, workspaces
from reaper.azure.metrics import PERMISSION, MetricQuery, batch_request, single_request
from reaper.azure.requests import API_VERSIONS, ArmRequest, Json, region_key, sign_in_text
from reaper.azure.session import CloudSession, hosts_from_env, new_credential
from reaper.azure.stores import tables, texts
from reaper.azure.workspaces import TYPE
from reaper.doctor.channels import http_reply
from reaper.doctor.check import Check, CheckStatus, asked_right, unasked_rights
from reaper.errors import NO_SIGN_IN, CloudError, Reason
from reaper.observation import Window
from reaper.urls import split_address

LIST_PERMISSIONS, RIGHTS_VERSION = "Microsoft.Authorization/permissions/read", "2022-04-01"
OWN_SCOPE = "/Microsoft.ManagedIdentity/"
"""Part of the scopes that permissions are granted on one by one."""
Entry = Mapping[str, Any]


def permitted_rights(cloud: CloudSession, scope: str, permissions: Sequence[str]) -> list[Check]:
    """Whether each of the permissions is there at that scope. Raises CloudError without a token."""
    principal = _principal(cloud)
    path = f"{scope}/providers/Microsoft.Authorization/permissions?api-version={RIGHTS_VERSION}"
    right = partial(Check, place=place_of(scope))
    try:
        entries = list(cloud.paged_rows(LIST_PERMISSIONS, path, required_keys=("actions",)))
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


METRIC_PERMISSIONS = (PERMISSION,)
MAX_WORKSPACES = 5
"""Workspaces of a subscription that are asked. A role is usually assigned to all of them at once."""
NOTHING = "ml-idle-reaper-doctor"
"""A name that nothing should have. If something has it, it is only listed."""
UNKNOWN_IDENTITY = '"$(az ad signed-in-user show --query id --output tsv)"'
"""Stands in a command for an identity that no token names."""
ONLY_A_WRITE_SHOWS = "only a write would show that, and the doctor writes nothing"


def describe_caller(sessions: Sequence[CloudSession], role: str | None) -> str:
    """Who the token is for. It is the same for every subscription. Raises CloudError."""
    claims = sessions[0].read_once("doctor: claims", _read_claims)
    facts = {
        "object": claims.get("oid"),
        "app": claims.get("appid") or claims.get("azp"),
        "user": claims.get("upn") or claims.get("unique_name"),
        "tenant": claims.get("tid"),
    }
    known = ", ".join(f"{name} {value}" for name, value in facts.items() if value)
    return f"signed in as {known}" if known else "signed in; the token doesn't say who it is for"


def reply_date() -> str | None:
    """The time at Azure, from the header of a refusal; None if it has none. Raises CloudError if nothing answered."""
    arm = hosts_from_env(os.environ).arm
    return http_reply(f"{arm}/subscriptions?api-version={API_VERSIONS['Microsoft.Resources']}", "GET").headers["Date"]


def reading_rights(cloud: CloudSession, permissions: Sequence[str]) -> list[Check]:
    """Whether each of the permissions is there, by a call that reads, of the subscription or of its workspaces; what no workspace is there to
    be asked for, by the subscription's list of permissions.
    """
    home, spaces = cloud.home, list[Json]()
    listing = _right_of(cloud, workspaces.READ_WORKSPACES, lambda: spaces.extend(_workspaces(cloud)))
    paths = {workspaces.READ_SUBSCRIPTION: [home], deployments.READ_AUTOSCALE: [deployments.autoscale_path(cloud)]}
    for permission in permissions:
        if permission.startswith(f"{TYPE}/") and permission.endswith("/read") and permission != workspaces.READ_WORKSPACES:
            # The list that the permission is named for; one inside something is asked for in what doesn't exist.
            below = permission.removeprefix(f"{TYPE}/").removesuffix("/read").replace("/", f"/{NOTHING}/")
            paths[permission] = [f"{space['id']}/{below}" for space in spaces[:MAX_WORKSPACES]]

    def ask(asked: tuple[str, str]) -> Check:
        key = "subscriptionId" if asked[1] == home else "value"
        request = ArmRequest(permission=asked[0], path=asked[1], required_keys=(key,))
        return _right_of(cloud, request.permission, partial(cloud.call, request))

    rights = [listing] if workspaces.READ_WORKSPACES in permissions else []
    rights += cloud.map_concurrently(ask, [(name, path) for name in permissions for path in paths.get(name, ())])
    unasked = [name for name in permissions if name not in {right.permission for right in rights}]
    return rights + (permitted_rights(cloud, home, unasked) if unasked else [])


def acting_rights(cloud: CloudSession, permissions: Sequence[str], role: str | None) -> list[Check]:
    """Whether each of the permissions is there, by the list of what is permitted in each workspace, else in the subscription.

    Identities may only be assigned one by one, so that permission is asked for on each identity that an endpoint has.
    """
    scopes = [row["id"] for row in _workspaces(cloud)[:MAX_WORKSPACES]] or [cloud.home]
    general = [permission for permission in permissions if permission != deployments.ASSIGN_IDENTITY]
    rights = [right for scope in scopes for right in permitted_rights(cloud, scope, general)]
    if deployments.ASSIGN_IDENTITY in permissions:
        rows = workspaces.list_resources(cloud, f"{TYPE}/onlineEndpoints")
        identities = [(row.get("identity") or {}).get("userAssignedIdentities") or {} for row in rows]
        for identity in sorted({name for names in identities for name in names}):
            rights += permitted_rights(cloud, identity, [deployments.ASSIGN_IDENTITY])
    return rights


def metric_rights(cloud: CloudSession, now: datetime) -> list[Check]:
    """Whether metrics can be read in each region that has workspaces, else in the subscription."""
    try:
        spaces = _workspaces(cloud)
    except CloudError:
        return []  # `reading_rights` says so
    by_region = {region_key(space.get("location")): space for space in reversed(spaces)}
    if not by_region:
        return permitted_rights(cloud, cloud.home, METRIC_PERMISSIONS)
    return [_metric_right(cloud, region, space["id"], now) for region, space in sorted(by_region.items())]


def own_grant_line(permission: str, address: str) -> str:
    """The command that lets the process's own identity use the store or secret at `address`. Raises CloudError."""
    principal, parts = str(_read_claims().get("oid") or UNKNOWN_IDENTITY), split_address(address)
    host, names = (parts.hostname or "").partition(".")[0], [name for name in parts.path.split("/") if name]
    for service, rows, sort in (("blobServices", "containers", "Blob"), ("tableServices", "tables", "Table")):
        if f"/{service}/" in permission and names:
            scope = f'"$(az storage account show --name {host} --query id --output tsv)/{service}/default/{rows}/{names[0]}"'
            return assign_line(principal, f"Storage {sort} Data Contributor", scope)
    if permission.startswith("Microsoft.KeyVault/"):
        vault = (split_address(address.partition(":")[2]).hostname or host).partition(".")[0]
        return assign_line(principal, "Key Vault Secrets User", f'"$(az keyvault show --name {vault} --query id --output tsv)"')
    if permission.startswith("Microsoft.Communication/"):
        found = f'"$(az communication list --query "[?name==\'{host}\'].id" --output tsv)"'
        return assign_line(principal, "Communication and Email Service Owner", found)
    return f"Grant {permission} on {address} to {principal}."


def writing_rights(address: str) -> list[Check]:
    """Whether the process's own identity may write to the ledger or store at `address`."""
    permission = f"{tables.PERMISSION}/write" if address.startswith("table:") else texts.WRITE
    return unasked_rights([permission], texts.without_signature(address), ONLY_A_WRITE_SHOWS)


def _right_of(cloud: CloudSession, permission: str, ask: Callable[[], object], region: str = "") -> Check:
    principal, place = _principal(cloud), f"{place_of(cloud.home)} {region}".strip()
    return asked_right(permission, place, ask, lambda missing: grant_line(principal, missing, cloud.home))


def _workspaces(cloud: CloudSession) -> list[Json]:
    """The workspaces of the subscription; none if the provider isn't registered there. Raises CloudError."""
    try:
        return list(cloud.paged_rows(workspaces.READ_WORKSPACES, f"{cloud.home}/providers/{TYPE}", required_keys=("id",)))
    except CloudError as error:
        if not error.code.endswith("MissingSubscriptionRegistration"):
            raise
        return []


def _principal(cloud: CloudSession) -> str:
    """The object ID of the identity, for commands; a placeholder if its token doesn't say. Raises CloudError without a token."""
    return str(cloud.read_once("doctor: claims", _read_claims).get("oid") or UNKNOWN_IDENTITY)


def _read_claims() -> Mapping[str, Any]:
    """What the token says of its identity; empty if it can't be read, and nothing is trusted because of it. Raises CloudError without a token."""
    try:
        token = new_credential().get_token(hosts_from_env(os.environ).arm_scope).token
    except AzureError as error:
        raise CloudError(Reason.REFUSED, "sign in", sign_in_text(error), code=NO_SIGN_IN) from error
    try:
        part = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, LookupError):
        return {}
    return claims if isinstance(claims, dict) else {}


QUERY = MetricQuery(namespace=TYPE, metrics=("Active Nodes",), aggregation="Maximum", split_by="ClusterName", max_series=1)
"""A metric of every workspace, split by the dimension that sweeps split it by, because a dimension may be denied alone."""


def _metric_right(cloud: CloudSession, region: str, space: str, now: datetime) -> Check:
    """The right to read metrics of one workspace: by the batch hosts, which take tokens of their own, or one resource at a time.

    A refused batch is no obstacle as long as single calls work, and its place says so.
    https://learn.microsoft.com/azure/azure-monitor/metrics/migrate-to-batch-api
    """
    host, end = hosts_from_env(os.environ).metrics, now.replace(minute=0, second=0, microsecond=0)
    window = Window(start=end - timedelta(hours=1), end=end, recent_since=end)
    right = Check(because="the batch metrics host of this cloud is unknown", status=CheckStatus.UNKNOWN)
    if host:
        batch = batch_request(cloud.target.account, (region, [space]), QUERY, window)
        right = _right_of(cloud, PERMISSION, partial(cloud.call, batch), region)
    if right.status is CheckStatus.OK:
        return right
    single = _right_of(cloud, PERMISSION, partial(cloud.call, single_request(space, QUERY, window)), region)
    if single.status is not CheckStatus.OK:
        return single
    if right.missing:
        return replace(single, place=f"{single.place} (no batches)")
    where = (host or "the batch metrics host").replace("{region}", region)
    because = f"metrics are read one resource at a time, which is slow: {right.because}"
    fix = f"Let this network reach {where}, or correct REAPER_METRICS_ENDPOINT."
    return replace(single, status=CheckStatus.FIX, because=because, fix=fix)
