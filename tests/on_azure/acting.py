"""An act as the product makes it: looked at anew, asked what bars it, recorded, carried out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from on_azure.conftest import DEPLOYMENT, NOW
from reaper import registry
from reaper.actions.contract import Made, Manifest, Permit
from reaper.azure.session import Cloud
from reaper.azure.writes import always
from reaper.errors import CloudError
from reaper.model import Bar, Move, Resource
from reaper_sandbox.azure.server import Server


def found(cloud: Cloud, kind: str, name: str) -> Resource:
    """The resource of that name, as a sweep finds it."""
    return next(r for r in registry.kind(kind).discover(cloud.anew()) if r.name == name)


def bar(cloud: Cloud, kind: str, name: str, move: Move = Move.STOP, **facts: Any) -> Bar | None:
    """What keeps the move from being made."""
    one = found(cloud, kind, name)
    quiet = {"autoscale": None} if kind == DEPLOYMENT else {}
    return registry.kind(kind).able(replace(one, facts={**quiet, **one.facts, **facts}))[move]


def later(server: Server) -> None:
    """Five minutes on, which ends whatever is under way."""
    server.now = server.world.now + timedelta(minutes=5)
    server.world.operations.settle(server.world.now)


@dataclass(frozen=True, slots=True)
class Planned:
    """An act of which everything is ready but the call itself."""

    cloud: Cloud
    resource: Resource
    manifest: Manifest

    def made(self, permit: Permit = always) -> Made:
        return registry.acts(self.resource.kind).carry(self.cloud.anew(), self.resource, self.manifest, permit)

    def carry(self, permit: Permit = always) -> str:
        return self.made(permit).because

    def refused(self) -> CloudError:
        with pytest.raises(CloudError) as caught:
            self.carry()
        return caught.value


def planned(cloud: Cloud, kind: str, name: str, move: Move = Move.STOP, facts: Mapping[str, Any] | None = None) -> Planned:
    """The act up to its manifest, which goes through JSON as it does when it is stored."""
    acts = registry.acts(kind)
    fresh = acts.look(cloud.anew(), found(cloud, kind, name))
    fresh = replace(fresh, facts={**fresh.facts, **(facts or {})})
    record = json.loads(json.dumps(acts.record(cloud.anew(), fresh, move)))
    manifest = Manifest(
        id=fresh.id, kind=kind, name=name, target=fresh.target, region=fresh.region, move=move, run="run1", at=NOW, record=record
    )
    return Planned(cloud, fresh, manifest)
