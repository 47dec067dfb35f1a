"""An action as the product carries it out: read again, checked for blocks, recorded, performed."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from on_azure.conftest import DEPLOYMENT, NOW
from reaper import registry
from reaper.actions.contract import NOTHING_EARLIER, ActionResult, CallCheck, Earlier, Manifest
from reaper.azure.session import CloudSession
from reaper.azure.writes import always_permit
from reaper.case import Blocked
from reaper.errors import CloudError
from reaper.model import Resource, StepName
from reaper_sandbox.azure.server import Server


def find_resource(cloud: CloudSession, kind: str, name: str) -> Resource:
    """The resource of that name, as a sweep finds it."""
    return next(r for r in registry.kind(kind).discover(cloud.without_cache()) if r.name == name)


def find_blocked(
    cloud: CloudSession, kind: str, name: str, move: StepName = StepName.STOP, *, stop_by: str = "stop", **details: Any
) -> Blocked | None:
    """What keeps the action from being carried out, with autoscale out of the way."""
    resource = find_resource(cloud, kind, name)
    if kind == DEPLOYMENT:
        details = {"autoscale_because": None, **details}
    resource = replace(resource, stop_by=stop_by, details=replace(resource.details, **details))
    return registry.kind(kind).blocked_actions(resource)[move]


def later(server: Server) -> None:
    """Move the clock on by five minutes, which ends all operations in progress."""
    server.now = server.world.now + timedelta(minutes=5)
    server.world.operations.settle(server.world.now)


@dataclass(frozen=True, slots=True)
class PreparedAction:
    """An action that is ready but for the call itself."""

    cloud: CloudSession
    resource: Resource
    manifest: Manifest

    def result(self, permit: CallCheck = always_permit) -> ActionResult:
        return registry.action_functions(self.resource.kind).perform(
            self.cloud.without_cache(), self.resource, self.manifest, permit
        )

    def perform(self, permit: CallCheck = always_permit) -> str:
        return self.result(permit).because

    def refused(self) -> CloudError:
        with pytest.raises(CloudError) as caught:
            self.perform()
        return caught.value


def prepare_action(
    cloud: CloudSession,
    kind: str,
    name: str,
    move: StepName = StepName.STOP,
    *,
    stop_by: str = "stop",
    earlier: Earlier = NOTHING_EARLIER,
) -> PreparedAction:
    """The action up to its manifest, which goes through JSON as it does when it is stored."""
    acts = registry.action_functions(kind)
    fresh = acts.read_now(cloud.without_cache(), find_resource(cloud, kind, name))
    fresh = replace(fresh, stop_by=stop_by)
    record = json.loads(json.dumps(acts.read_undo_state(cloud.without_cache(), fresh, move, earlier)))
    manifest = Manifest(
        id=fresh.id,
        kind=kind,
        name=name,
        target=fresh.target,
        region=fresh.region,
        action=move,
        run="run1",
        at=NOW,
        undo_state=record,
    )
    return PreparedAction(cloud, fresh, manifest)
