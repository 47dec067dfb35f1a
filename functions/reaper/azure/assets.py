"""The assets that a deployment is made of: a version of a model, an environment and code, each in one of several spellings.

Azure deletes a deployment without checking whether these still exist, and then it couldn't be recreated:
https://learn.microsoft.com/azure/templates/microsoft.machinelearningservices/workspaces/onlineendpoints/deployments and, for the spellings,
https://learn.microsoft.com/azure/machine-learning/reference-yaml-core-syntax#referencing-an-azure-ml-resource
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from reaper.azure.requests import ArmRequest, Json
from reaper.azure.workspaces import PROVIDER, TYPE, Workspace
from reaper.errors import CloudError, Reason

if TYPE_CHECKING:
    from reaper.azure.session import CloudSession

COLLECTIONS = {"model": "models", "environment": "environments", "code": "codes"}
PERMISSIONS = tuple(f"{TYPE}/{collection}/versions/read" for collection in COLLECTIONS.values())
SEGMENT_PATTERN = r"[^/?#:@\s]+"
WORKSPACE_PATTERN = rf"(?P<group>subscriptions/{SEGMENT_PATTERN}/resourceGroups/{SEGMENT_PATTERN})/(?:providers/{re.escape(PROVIDER)}/)?workspaces/(?P<space>{SEGMENT_PATTERN})"
VERSION_PATTERN = (
    rf"(?P<collection>models|environments|codes)/(?P<name>{SEGMENT_PATTERN})/versions/(?P<version>{SEGMENT_PATTERN})"
)
SPELLINGS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"(?:azureml:)?/{WORKSPACE_PATTERN}/{VERSION_PATTERN}",
        rf"azureml://{WORKSPACE_PATTERN}/{VERSION_PATTERN}",
        rf"azureml://locations/{SEGMENT_PATTERN}/workspaces/(?P<guid>{SEGMENT_PATTERN})/{VERSION_PATTERN}",
        rf"azureml://registries/(?P<registry>{SEGMENT_PATTERN})/{VERSION_PATTERN}",
        rf"azureml:(?P<name>{SEGMENT_PATTERN}):(?P<version>{SEGMENT_PATTERN})",
    )
)


def assets_of(row: Mapping[str, Any], space: Workspace) -> Iterator[tuple[str, object, str | None]]:
    """The assets that a deployment in `space` names: type, reference, and path, which is empty in a registry and None if not understood."""
    properties = row["properties"]
    code = properties.get("codeConfiguration") or {}
    named = {"model": properties.get("model"), "environment": properties.get("environmentId")}
    named["code"] = code.get("codeId") if isinstance(code, dict) else code
    return ((sort, reference, _path(sort, reference, space)) for sort, reference in named.items() if reference not in (None, ""))


def unclear_because(row: Mapping[str, Any], space: Workspace) -> str | None:
    """Why the deployment alone doesn't say what it would be recreated from; None if it does."""
    odd = (f"its {sort} isn't understood ({reference})" for sort, reference, path in assets_of(row, space) if path is None)
    return next((f"{text}, so it might not be possible to recreate it" for text in odd), None)


def require_assets(cloud: CloudSession, row: Mapping[str, Any], space: Workspace) -> list[Json]:
    """What it would be recreated from, archived versions too, and how each is known to exist. Raises CloudError for one that isn't."""
    found: list[Json] = []
    for sort, reference, path in assets_of(row, space):
        permission, because = f"{TYPE}/{COLLECTIONS[sort]}/versions/read", "it exists"
        if path is None:
            raise CloudError(Reason.REFUSED, permission, f"its {sort} isn't understood ({reference})")
        if path == "":
            because = "it is in a registry, which these permissions can't read: it is assumed to exist"
        elif cloud.find(ArmRequest(permission=permission, path=path, required_keys=("id", "properties"))) is None:
            text = f"its {sort} {reference} no longer exists, so it couldn't be recreated"
            raise CloudError(Reason.REFUSED, permission, text)
        found.append({"what": sort, "id": reference, "because": because})
    return found


def _path(sort: str, reference: object, space: Workspace) -> str | None:
    matches = (spelling.fullmatch(reference) for spelling in SPELLINGS) if isinstance(reference, str) else iter(())
    match, collection = next(filter(None, matches), None), COLLECTIONS[sort]
    if match is None or match.groupdict().get("collection", collection).lower() != collection:
        return None
    parts, home = match.groupdict(), space.id
    if parts.get("registry"):
        return ""
    if "group" in parts:
        home = f"/{parts['group']}/providers/{TYPE}/{parts['space']}"
    elif "guid" in parts and parts["guid"].lower() != (space.guid or "").lower():
        return None
    return f"{home}/{collection}/{parts['name']}/versions/{parts['version']}"
