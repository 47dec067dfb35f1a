"""Versions of models, environments and code in a workspace, from which online deployments are made.

https://learn.microsoft.com/rest/api/azureml/model-versions/get
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from reaper_sandbox.azure.place import PROVIDER, child
from reaper_sandbox.azure.refusal import bad
from reaper_sandbox.azure.request import Json, Reply, Request
from reaper_sandbox.azure.route import ASSET, W, ml_route
from reaper_sandbox.azure.workspaces import system_data
from reaper_sandbox.azure.world import World

COLLECTIONS = ("models", "environments", "codes")
OWN = re.compile(r"/subscriptions/.*/workspaces/[^/]+/(models|environments|codes)/[^/]+/versions/[^/]+", re.IGNORECASE)


def put(world: World, parent: Json, collection: str, name: str, version: str, created: datetime) -> Json:
    """A version, with the container that it lies in, below the workspace `parent`. One that is there is left as it is."""
    container = f"{parent['id']}/{collection}/{name}"
    for id_, kind in ((container, collection), (f"{container}/versions/{version}", f"{collection}/versions")):
        asset = world.estate.find(id_) or world.estate.put(_body(id_, kind, created))
    return asset


def made_from(parent: Json, name: str) -> Json:
    """The properties of a deployment that is made from version 1 of a model, an environment and code of that name."""
    model, environment, code = (f"{parent['id']}/{collection}/{name}/versions/1" for collection in COLLECTIONS)
    configuration = {"codeId": code, "scoringScript": "score.py"}
    return {"model": model, "environmentId": environment, "codeConfiguration": configuration}


def one(world: World, request: Request) -> Reply:
    """One version."""
    return Reply(body=child(world, request, (request.names["collection"], "asset"), ("versions", "version")))


def check(world: World, properties: Mapping[str, Any]) -> None:
    """Raises Refused (400) where a deployment names a version of a workspace that is not there."""
    code = properties.get("codeConfiguration") or {}
    for written in (properties.get("model"), properties.get("environmentId"), code.get("codeId")):
        if written and OWN.fullmatch(written) and world.estate.find(written) is None:
            raise bad(f"The asset with id {written} was not found.")


def _body(id_: str, kind: str, created: datetime) -> Json:
    return {
        "id": id_,
        "name": id_.rpartition("/")[2],
        "type": f"{PROVIDER}/workspaces/{kind}",
        "systemData": system_data(created),
        "properties": {"description": None, "tags": {}, "properties": {}, "isAnonymous": False, "isArchived": False},
    }


ROUTES = (ml_route("GET", ASSET, one, W + "/{collection}/versions/read"),)
