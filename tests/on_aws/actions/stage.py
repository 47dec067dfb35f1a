"""Actions as the core carries them out: read, observe again, ask what blocks the action, record, store as JSON, carry out, and undo."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import count
from typing import Any

import boto3

from fakes.memory_ledger import InMemoryLedger
from on_aws.conftest import DAY, HOUR, NOW
from reaper import registry
from reaper.acting.contract import (
    NOTHING_EARLIER,
    Earlier,
    Manifest,
    Permit,
    PutBackResult,
    UndoResult,
)
from reaper.acting.look import CallPermit
from reaper.acting.manifest import Archive, require_own_form
from reaper.aws.session import CloudSession
from reaper.case import Blocked
from reaper.finding import Outcome
from reaper.model import Resource, StepName, Target
from reaper.observation import Observation, Window
from reaper.record import NO_RECORD, NO_SNOOZES, act_of
from reaper_sandbox.aws.server import Server

RUNS = count(2)
WINDOW = Window(start=NOW - 14 * DAY, end=NOW, recent_since=NOW - 24 * HOUR)


class Barred(AssertionError):
    """The kind itself says that the action is blocked now."""

    def __init__(self, bar: Blocked) -> None:
        super().__init__(bar.because)
        self.bar = bar


@cache
def _session() -> boto3.Session:
    return boto3.Session()


@dataclass(frozen=True, slots=True)
class Stage:
    """One kind on the sandbox."""

    server: Server
    kind: str
    looks: dict[str, Resource] = field(default_factory=dict)
    """The last look at each resource, by ID: what its permits compare it with."""
    acts: list[tuple[Resource, Manifest]] = field(default_factory=list)

    def cloud(self) -> CloudSession:
        return CloudSession(_session(), Target(cloud="aws", account="123456789012", region="us-east-1"))

    def resource(self, name: str, cloud: CloudSession | None = None) -> Resource:
        """As a sweep sees it."""
        session, kind = cloud or self.cloud(), registry.kind(self.kind)
        return next(o.resource for o in kind.observe(session, list(kind.discover(session)), WINDOW) if o.resource.name == name)

    def able(self, name: str) -> Mapping[StepName, Blocked | None]:
        """What a sweep says of it."""
        return registry.kind(self.kind).blocked_actions(self.resource(name))

    def bar(self, name: str, move: StepName) -> str:
        """Why a sweep says that the action is blocked; "" if it isn't."""
        blocked = self.able(name)[move]
        return blocked.because if blocked else ""

    def again(self, resource: Resource) -> Observation:
        """As it is right before an act: a fresh look, and every signal anew."""
        session = self.cloud()
        fresh = self.looks[resource.id] = registry.action_functions(self.kind).read_now(session, resource)
        [observation] = registry.kind(self.kind).observe(session, [fresh], WINDOW)
        return observation

    def move(self, name: str, move: StepName) -> tuple[str, Manifest]:
        """The whole act; its sentence and its manifest as it was stored. Raises Barred and CloudError."""
        made, manifest = self.made(name, move)
        return made.because, manifest

    def made(
        self, name: str, move: StepName, permit: Permit | None = None, earlier: Earlier = NOTHING_EARLIER
    ) -> tuple[Outcome, Manifest]:
        """The same with all that it says of itself, after an earlier action."""
        resource = self.again(self.resource(name)).resource
        bar = registry.kind(self.kind).blocked_actions(resource)[move]
        if bar:
            raise Barred(bar)
        manifest = self.manifest(resource, move, earlier)
        return self.carry(resource, manifest, permit), manifest

    def carry(self, resource: Resource, manifest: Manifest, permit: Permit | None = None) -> Outcome:
        """The calls of an act, as its manifest says, each with the permit that the core gives."""
        looked = self.looks.get(resource.id, resource)
        self.acts.append((looked, manifest))
        given = permit or self.permit(looked, manifest.action)
        return registry.action_functions(self.kind).perform(self.cloud(), looked, manifest, given)

    def permit(self, resource: Resource, move: StepName) -> CallPermit:
        """The core's permit, over a ledger of its own. A look after a wait is a look at the resource alone."""
        functions, ledger = registry.action_functions(self.kind), InMemoryLedger()
        ledger.write_record(resource.id, NO_RECORD, 0, NOW)
        return CallPermit(
            resource=resource, snoozes=NO_SNOOZES, read=lambda: functions.read_now(self.cloud(), resource),
            look_again=lambda now: None,
            before=NO_RECORD, act=act_of(resource, move, "r1", NOW),
            ledger=ledger,
            clock=lambda: NOW,
        )  # fmt: skip

    def stored_action(
        self, name: str, move: StepName, archive: Archive, earlier: Earlier = NOTHING_EARLIER
    ) -> tuple[Outcome, Manifest, Earlier]:
        """An act whose manifest is stored, and how a later act finds it."""
        made, manifest = self.made(name, move, earlier=earlier)
        stored = archive.store_manifest(replace(manifest, run=f"r{next(RUNS)}"), 1)
        return made, manifest, Earlier(reference=stored, manifest=archive.read_manifest(stored))

    def manifest(self, resource: Resource, move: StepName, earlier: Earlier = NOTHING_EARLIER) -> Manifest:
        """What undoing will need, as it comes back from the store."""
        record = registry.action_functions(self.kind).read_undo_state(self.cloud(), resource, move, earlier)
        plain: dict[str, Any] = json.loads(json.dumps(record))
        return Manifest(
            id=resource.id, kind=self.kind, name=resource.name, target=resource.target, region=resource.region,
            action=move, run="r1", at=NOW, undo_state=plain,
        )  # fmt: skip

    def put_back(self, name: str) -> PutBackResult:
        """Settle the last action, as if its run had ended early."""
        resource, manifest = next(one for one in reversed(self.acts) if one[0].name == name)
        functions = registry.action_functions(self.kind)
        act = act_of(resource, manifest.action, manifest.run, NOW)
        interrupted = replace(act, created=resource.created, changes=functions.side_changes(manifest))
        return functions.put_back(self.cloud(), resource, interrupted)

    def undo(self, manifest: Manifest) -> UndoResult:
        """Bring it back, if its manifests have the form that `reaper restore` requires."""
        functions = registry.action_functions(self.kind)
        for one in (manifest, *manifest.continued):
            require_own_form(one, functions)
        return functions.undo(self.cloud(), manifest)

    def parameters(self, action: str) -> list[dict[str, Any]]:
        """The parameters of every call of that IAM action so far."""
        return [call.params for call in self.server.calls if call.action == action]
