"""What an online deployment is made from: a version of a model, of an environment and of code, each named in one of several spellings.

Azure deletes a deployment without asking whether these are still there, and then it could not be created again.
https://learn.microsoft.com/azure/templates/microsoft.machinelearningservices/workspaces/onlineendpoints/deployments and, for the
spellings, https://learn.microsoft.com/azure/machine-learning/reference-yaml-core-syntax#referencing-an-azure-ml-resource
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reaper.azure.request import ArmRequest, Json
from reaper.azure.workspaces import PROVIDER, TYPE, Workspace
from reaper.errors import CloudError, Reason

if TYPE_CHECKING:
    from reaper.azure.session import CloudSession

COLLECTIONS = {"model": "models", "environment": "environments", "code": "codes"}
PERMISSIONS = tuple(f"{TYPE}/{collection}/versions/read" for collection in COLLECTIONS.values())
WAS_THERE = "it was there"
ASSUMED_THERE = "it lies in a registry, which these rights cannot read: it is taken to be there"
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
    """One thing that a deployment is made from. `path` is where Resource Manager has it; None: in a registry, or not understood."""

    asset_type: str
    reference: object
    path: str | None = None
    is_in_registry: bool = False

    @property
    def is_unclear(self) -> bool:
        """Whether what is written is no spelling that is known."""
        return self.path is None and not self.is_in_registry


def deployment_assets(row: Mapping[str, Any], space: Workspace) -> Iterator[Asset]:
    """What a deployment of the workspace `space` says that it is made from. What it does without is left out."""
    properties = row["properties"]
    code = properties.get("codeConfiguration") or {}
    written = {
        "model": properties.get("model"),
        "environment": properties.get("environmentId"),
        "code": code.get("codeId") if isinstance(code, dict) else code,
    }
    for what, text in written.items():
        if text not in (None, ""):
            yield _parse_asset(what, text, space)


def unclear_asset_because(row: Mapping[str, Any], space: Workspace) -> str | None:
    """Why it cannot be told from the deployment alone what it would be created from again; None where it can."""
    for asset in deployment_assets(row, space):
        if asset.is_unclear:
            return f"what its {asset.asset_type} is cannot be understood ({asset.reference}), so it might not be created again"
    return None


def require_assets(cloud: CloudSession, row: Mapping[str, Any], space: Workspace) -> list[Json]:
    """What the deployment would be created from again, and how each is known to be there. Archived versions are: they can be used.

    Raises CloudError where one is not there, cannot be read or is not understood.
    """
    return [
        {"what": asset.asset_type, "id": asset.reference, "because": _require_asset(cloud, asset)}
        for asset in deployment_assets(row, space)
    ]


def _require_asset(cloud: CloudSession, asset: Asset) -> str:
    if asset.is_in_registry:
        return ASSUMED_THERE
    permission = f"{TYPE}/{COLLECTIONS[asset.asset_type]}/versions/read"
    if asset.path is None:
        raise CloudError(Reason.REFUSED, permission, f"what its {asset.asset_type} is cannot be understood ({asset.reference})")
    try:
        cloud.call(ArmRequest(permission=permission, path=asset.path, required_keys=("id", "properties")))
    except CloudError as error:
        if error.reason is not Reason.GONE:
            raise
        text = f"its {asset.asset_type} {asset.reference} is not there any more, so it could not be created again"
        raise CloudError(Reason.REFUSED, permission, text, code=error.code) from error
    return WAS_THERE


def _parse_asset(what: str, text: object, space: Workspace) -> Asset:
    match = next(filter(None, (spelling.fullmatch(text) for spelling in SPELLINGS)), None) if isinstance(text, str) else None
    parts = match.groupdict() if match else {}
    if not parts or parts.get("collection", COLLECTIONS[what]).lower() != COLLECTIONS[what]:
        return Asset(asset_type=what, reference=text)
    if parts.get("registry"):
        return Asset(asset_type=what, reference=text, is_in_registry=True)
    home = _workspace_id(parts, space)
    below = f"{COLLECTIONS[what]}/{parts['name']}/versions/{parts['version']}"
    return Asset(asset_type=what, reference=text, path=home and f"{home}/{below}")


def _workspace_id(parts: Mapping[str, str], space: Workspace) -> str | None:
    """The id of the workspace that has it: the one that is written, or the deployment's own; None where it is another, known by a number."""
    if "group" in parts:
        return f"/{parts['group']}/providers/{TYPE}/{parts['space']}"
    if guid := parts.get("guid"):
        return space.id if space.guid and guid.lower() == space.guid.lower() else None
    return space.id
