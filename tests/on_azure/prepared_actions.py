"""An action as the product carries it out: read again, checked for blocks, recorded, performed, and settled if it was interrupted."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from fakes.memory_ledger import InMemoryLedger
from on_azure.conftest import DEPLOYMENT, NOW
from reaper import registry
from reaper.acting.contract import (
    NOTHING_EARLIER,
    ActionFunctions,
    Earlier,
    Manifest,
    Permit,
    PutBackResult,
    UndoResult,
)
from reaper.acting.executor import put_back
from reaper.acting.look import CallPermit
from reaper.acting.manifest import require_own_form
from reaper.azure.session import CloudSession
from reaper.case import Blocked
from reaper.errors import ActionWithdrawn, CloudError
from reaper.finding import Outcome
from reaper.model import Resource, StepName
from reaper.record import NO_RECORD, NO_SNOOZES, Act, act_of, before_action
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

    @property
    def functions(self) -> ActionFunctions[CloudSession]:
        return registry.action_functions(self.resource.kind)

    @property
    def act(self) -> Act:
        """Its intent."""
        one, manifest = self.resource, self.manifest
        act = act_of(one, manifest.action, manifest.run, manifest.at)
        return replace(act, created=one.created, changes=self.functions.side_changes(manifest))

    def permit(self) -> CallPermit:
        """The real permit, over a ledger in which nothing happens."""
        ledger, one = InMemoryLedger(), self.resource
        ledger.write_record(one.id, before_action(NO_RECORD, self.act), 0, NOW)
        return CallPermit(
            resource=one,
            snoozes=NO_SNOOZES,
            before=NO_RECORD,
            act=self.act,
            ledger=ledger,
            clock=lambda: NOW,
            read=lambda: self.functions.read_now(self.cloud.without_cache(), one),
            look_again=lambda now: None,
        )

    def result(self, permit: Permit | None = None) -> Outcome:
        return self.functions.perform(self.cloud.without_cache(), self.resource, self.manifest, permit or self.permit())

    def perform(self, permit: Permit | None = None) -> str:
        return self.result(permit).because

    def undo(self) -> UndoResult:
        """Undo it, if its manifest has the form that `reaper restore` requires."""
        require_own_form(self.manifest, self.functions)
        return self.functions.undo(self.cloud.without_cache(), self.manifest)

    def refused(self, permit: Permit | None = None) -> CloudError:
        with pytest.raises(CloudError) as caught:
            self.perform(permit)
        return caught.value

    def withdrawn(self, permit: Permit | None = None) -> str:
        with pytest.raises(ActionWithdrawn) as caught:
            self.perform(permit)
        return str(caught.value)

    def interrupted(self, permit: Permit | None = None) -> tuple[str, PutBackResult]:
        """Why the action ended between its calls, and how that was settled."""
        with pytest.raises((CloudError, ActionWithdrawn)) as caught:
            self.perform(permit)
        return str(caught.value), self.put_back()

    def put_back(self) -> PutBackResult:
        """What the executor does after a failure, and the next run after a crash."""
        return put_back(self.resource, self.act, self.functions, self.cloud.without_cache())


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
