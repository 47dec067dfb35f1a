"""Actions as the core carries them out: read, observe again, ask what blocks the action, record, store as JSON, carry out, and undo."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import count
from typing import Any

import boto3

from on_aws.conftest import DAY, HOUR, NOW
from reaper import registry
from reaper.actions.contract import NOTHING_EARLIER, ActionResult, CallCheck, Earlier, Manifest, UndoResult
from reaper.actions.manifest import Archive
from reaper.aws.session import CloudSession
from reaper.case import Blocked
from reaper.model import Resource, StepName, Target
from reaper.observation import Observation, Window
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
        fresh = registry.action_functions(self.kind).read_now(session, resource)
        [observation] = registry.kind(self.kind).observe(session, [fresh], WINDOW)
        return observation

    def move(self, name: str, move: StepName) -> tuple[str, Manifest]:
        """The whole act; its sentence and its manifest as it was stored. Raises Barred and CloudError."""
        made, manifest = self.made(name, move)
        return made.because, manifest

    def made(
        self, name: str, move: StepName, permit: CallCheck = lambda: None, earlier: Earlier = NOTHING_EARLIER
    ) -> tuple[ActionResult, Manifest]:
        """The same with all that it says of itself, after an earlier action."""
        resource = self.again(self.resource(name)).resource
        bar = registry.kind(self.kind).blocked_actions(resource)[move]
        if bar:
            raise Barred(bar)
        manifest = self.manifest(resource, move, earlier)
        return self.carry(resource, manifest, permit), manifest

    def carry(self, resource: Resource, manifest: Manifest, permit: CallCheck = lambda: None) -> ActionResult:
        """The calls of an act, as its manifest says."""
        return registry.action_functions(self.kind).perform(self.cloud(), resource, manifest, permit)

    def stored_action(
        self, name: str, move: StepName, archive: Archive, earlier: Earlier = NOTHING_EARLIER
    ) -> tuple[ActionResult, Manifest, str]:
        """An act whose manifest is stored, and where."""
        made, manifest = self.made(name, move, earlier=earlier)
        return made, manifest, archive.store_manifest(replace(manifest, run=f"r{next(RUNS)}"), 1)

    def manifest(self, resource: Resource, move: StepName, earlier: Earlier = NOTHING_EARLIER) -> Manifest:
        """What undoing will need, as it comes back from the store."""
        record = registry.action_functions(self.kind).read_undo_state(self.cloud(), resource, move, earlier)
        plain: dict[str, Any] = json.loads(json.dumps(record))
        return Manifest(
            id=resource.id, kind=self.kind, name=resource.name, target=resource.target, region=resource.region,
            action=move, run="r1", at=NOW, undo_state=plain,
        )  # fmt: skip

    def undo(self, manifest: Manifest) -> UndoResult:
        """Bring it back."""
        return registry.action_functions(self.kind).undo(self.cloud(), manifest)

    def parameters(self, action: str) -> list[dict[str, Any]]:
        """The parameters of every call of that IAM action so far."""
        return [call.params for call in self.server.calls if call.action == action]
