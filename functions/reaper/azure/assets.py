"""The assets that a deployment is made of: a version of a model, an environment and code, each in one of several spellings.

Azure deletes a deployment without checking whether these still exist, and then it couldn't be recreated:
https://learn.microsoft.com/azure/templates/microsoft.machinelearningservices/workspaces/onlineendpoints/deployments and, for the spellings,
https://learn.microsoft.com/azure/machine-learning/reference-yaml-core-syntax#referencing-an-azure-ml-resource
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reaper.azure.requests import ArmRequest, Json
from reaper.azure.workspaces import PROVIDER, TYPE, Workspace
from reaper.errors import CloudError, Reason

if TYPE_CHECKING:
    from reaper.azure.session import CloudSession

COLLECTIONS = {"model": "models", "environment": "environments", "code": "codes"}
PERMISSIONS = tuple(f"{TYPE}/{collection}/versions/read" for collection in COLLECTIONS.values())
EXISTS = "it exists"
ASSUMED_THERE = "it is in a registry, which these permissions can't read: it is assumed to exist"
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Asset:
    """One asset of a deployment. `path`: its path in Resource Manager; None if it is in a registry or not understood."""

    asset_type: str
    reference: object
    path: str | None = None
    is_in_registry: bool = False


def assets_of(row: Mapping[str, Any], space: Workspace) -> Iterator[Asset]:
    """The assets that a deployment of the workspace `space` names."""
    properties = row["properties"]
    code = properties.get("codeConfiguration") or {}
    named = {"model": properties.get("model"), "environment": properties.get("environmentId")}
    named["code"] = code.get("codeId") if isinstance(code, dict) else code
    return (_parse(kind, reference, space) for kind, reference in named.items() if reference not in (None, ""))


def unclear_because(row: Mapping[str, Any], space: Workspace) -> str | None:
    """Why the deployment alone doesn't say what it would be recreated from; None if it does."""
    for asset in assets_of(row, space):
        if asset.path is None and not asset.is_in_registry:
            return f"its {asset.asset_type} isn't understood ({asset.reference}), so it might not be possible to recreate it"
    return None


def require_assets(cloud: CloudSession, row: Mapping[str, Any], space: Workspace) -> list[Json]:
    """What the deployment would be recreated from, and how each is known to exist. Archived versions count: they can be used.

    Raises CloudError if an asset doesn't exist, can't be read or isn't understood.
    """
    return [
        {"what": asset.asset_type, "id": asset.reference, "because": _require(cloud, asset)} for asset in assets_of(row, space)
    ]


def _require(cloud: CloudSession, asset: Asset) -> str:
    if asset.is_in_registry:
        return ASSUMED_THERE
    permission = f"{TYPE}/{COLLECTIONS[asset.asset_type]}/versions/read"
    if asset.path is None:
        raise CloudError(Reason.REFUSED, permission, f"its {asset.asset_type} isn't understood ({asset.reference})")
    if cloud.find(ArmRequest(permission=permission, path=asset.path, required_keys=("id", "properties"))) is None:
        text = f"its {asset.asset_type} {asset.reference} no longer exists, so it couldn't be recreated"
        raise CloudError(Reason.REFUSED, permission, text)
    return EXISTS


def _parse(asset_type: str, reference: object, space: Workspace) -> Asset:
    matches = (spelling.fullmatch(reference) for spelling in SPELLINGS) if isinstance(reference, str) else iter(())
    match = next(filter(None, matches), None)
    parts = match.groupdict() if match else {}
    if not parts or parts.get("collection", COLLECTIONS[asset_type]).lower() != COLLECTIONS[asset_type]:
        return Asset(asset_type=asset_type, reference=reference)
    if parts.get("registry"):
        return Asset(asset_type=asset_type, reference=reference, is_in_registry=True)
    home = _workspace_id(parts, space)
    below = f"{COLLECTIONS[asset_type]}/{parts['name']}/versions/{parts['version']}"
    return Asset(asset_type=asset_type, reference=reference, path=home and f"{home}/{below}")


def _workspace_id(parts: Mapping[str, str], space: Workspace) -> str | None:
    """The ID of the workspace that has it: the one named, or the deployment's own; None if it is another, named by its number."""
    if "group" in parts:
        return f"/{parts['group']}/providers/{TYPE}/{parts['space']}"
    if guid := parts.get("guid"):
        return space.id if space.guid and guid.lower() == space.guid.lower() else None
    return space.id
