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

from reaper.azure.request import Call, Json
from reaper.azure.workspaces import PROVIDER, TYPE, Workspace
from reaper.errors import CloudError, Trouble

if TYPE_CHECKING:
    from reaper.azure.session import Cloud

COLLECTIONS = {"model": "models", "environment": "environments", "code": "codes"}
PERMISSIONS = tuple(f"{TYPE}/{collection}/versions/read" for collection in COLLECTIONS.values())
READ = "it was there"
TAKEN_TO_BE = "it lies in a registry, which these rights cannot read: it is taken to be there"
PART = r"[^/?#:@\s]+"
WITHIN = (
    rf"(?P<group>subscriptions/{PART}/resourceGroups/{PART})/(?:providers/{re.escape(PROVIDER)}/)?workspaces/(?P<space>{PART})"
)
VERSION = rf"(?P<collection>models|environments|codes)/(?P<name>{PART})/versions/(?P<version>{PART})"
SPELLINGS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"(?:azureml:)?/{WITHIN}/{VERSION}",
        rf"azureml://{WITHIN}/{VERSION}",
        rf"azureml://locations/{PART}/workspaces/(?P<guid>{PART})/{VERSION}",
        rf"azureml://registries/(?P<registry>{PART})/{VERSION}",
        rf"azureml:(?P<name>{PART}):(?P<version>{PART})",
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asset:
    """One thing that a deployment is made from. `path` is where Resource Manager has it; None: in a registry, or not understood."""

    what: str
    written: object
    path: str | None = None
    registry: bool = False

    @property
    def unclear(self) -> bool:
        """Whether what is written is no spelling that is known."""
        return self.path is None and not self.registry


def assets(row: Mapping[str, Any], space: Workspace) -> Iterator[Asset]:
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
            yield _asset(what, text, space)


def unclear(row: Mapping[str, Any], space: Workspace) -> str | None:
    """Why it cannot be told from the deployment alone what it would be created from again; None where it can."""
    for asset in assets(row, space):
        if asset.unclear:
            return f"what its {asset.what} is cannot be understood ({asset.written}), so it might not be created again"
    return None


def still_there(cloud: Cloud, row: Mapping[str, Any], space: Workspace) -> list[Json]:
    """What the deployment would be created from again, and how each is known to be there. Archived versions are: they can be used.

    Raises CloudError where one is not there, cannot be read or is not understood.
    """
    return [{"what": asset.what, "id": asset.written, "because": _known(cloud, asset)} for asset in assets(row, space)]


def _known(cloud: Cloud, asset: Asset) -> str:
    if asset.registry:
        return TAKEN_TO_BE
    permission = f"{TYPE}/{COLLECTIONS[asset.what]}/versions/read"
    if asset.path is None:
        raise CloudError(Trouble.REFUSED, permission, f"what its {asset.what} is cannot be understood ({asset.written})")
    try:
        cloud.call(Call(permission=permission, path=asset.path, has=("id", "properties")))
    except CloudError as error:
        if error.trouble is not Trouble.GONE:
            raise
        text = f"its {asset.what} {asset.written} is not there any more, so it could not be created again"
        raise CloudError(Trouble.REFUSED, permission, text, code=error.code) from error
    return READ


def _asset(what: str, text: object, space: Workspace) -> Asset:
    match = next(filter(None, (spelling.fullmatch(text) for spelling in SPELLINGS)), None) if isinstance(text, str) else None
    parts = match.groupdict() if match else {}
    if not parts or parts.get("collection", COLLECTIONS[what]).lower() != COLLECTIONS[what]:
        return Asset(what=what, written=text)
    if parts.get("registry"):
        return Asset(what=what, written=text, registry=True)
    home = _home(parts, space)
    below = f"{COLLECTIONS[what]}/{parts['name']}/versions/{parts['version']}"
    return Asset(what=what, written=text, path=home and f"{home}/{below}")


def _home(parts: Mapping[str, str], space: Workspace) -> str | None:
    """The id of the workspace that has it: the one that is written, or the deployment's own; None where it is another, known by a number."""
    if "group" in parts:
        return f"/{parts['group']}/providers/{TYPE}/{parts['space']}"
    if guid := parts.get("guid"):
        return space.id if space.guid and guid.lower() == space.guid.lower() else None
    return space.id
