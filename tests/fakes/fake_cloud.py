"""A cloud with one kind of resource in memory, in the shape that both clouds have: used, stopped, started, deleted and restored.

It replaces kind, actions and session, so that plan, executor and ledger can be driven through thousands of sweeps. A resource always
reports its true state; `fail_on` and `before_call` make calls fail or change the cloud in between.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from fakes.builders import DAY, HOUR, NOW, TARGET
from reaper.acting.contract import (
    ActionFunctions,
    Earlier,
    HalfDone,
    Manifest,
    Permit,
    PutBackResult,
    UndoResult,
    any_members,
    done,
)
from reaper.aws.executor import arn_pattern
from reaper.aws.kinds.sagemaker_endpoint.description import EndpointDetails, ScaleInPlan
from reaper.case import Blocked
from reaper.errors import CloudError, Reason
from reaper.finding import Outcome
from reaper.kind import ActionSpec, Kind
from reaper.model import BilledPart, Resource, Role, StepName, Target
from reaper.observation import IndirectEvidence, Observation, Reading, Series, Window
from reaper.record import Act, SideChange

KIND = "sagemaker-endpoint"
STARTABLE = "sagemaker-notebook"
"""The name of a real kind that can be started again, so that office hours stop it."""
DENIED = CloudError(Reason.DENIED, "sagemaker:DeleteEndpoint", "not allowed", missing="sagemaker:DeleteEndpoint")


@dataclass(slots=True, kw_only=True)
class FakeResource:
    """One resource. `uses` are the moments at which it was used; `running_since`: since when its heartbeat beats, None while
    stopped. `blocked_because`: why no action on it is possible now.

    `variants` of its `whole` are still running; one action scales one of them in. `host` names the resource that it
    is on. `refused`: a restore gets no instance for it now.

    `least`: so many of its variants a stop leaves running. `minimum`: what autoscaling keeps of it. An action that ends it lowers that to 0 first.

    In `metric_gaps` it has no metrics. `without_heartbeat`: it only has indirect evidence. `incomplete_replies`: its metric replies are cut.
    """

    name: str
    created: datetime = NOW - 60 * DAY
    changed: datetime | None = None
    tags: dict[str, str] | None = field(default_factory=dict)
    uses: list[datetime] = field(default_factory=list)
    running_since: datetime | None = NOW - 60 * DAY
    status: str = "InService"
    instance: str = "ml.g5.xlarge"
    metric_gaps: list[tuple[datetime, datetime]] = field(default_factory=list)
    without_heartbeat: bool = False
    incomplete_replies: bool = False
    blocked_because: str = ""
    region: str = "us-east-1"
    account: str = TARGET.account
    variants: int = 1
    whole: int = 1
    least: int = 0
    host: str = ""
    refused: bool = False
    minimum: int = 0
    fingerprint: str | None = None


@dataclass(slots=True)
class FakeCloud:
    """Everything there is. `log` has every action as (action, name, when), `put_back` the name and time of each put-back. `before_call` is called right before a call takes effect,
    `before_permit` right before its permit is requested."""

    clock: Callable[[], datetime]
    kind_name: str = KIND
    things: dict[str, FakeResource] = field(default_factory=dict)
    accounts: dict[str, str] = field(default_factory=dict)
    regions: dict[str, str] = field(default_factory=dict)
    log: list[tuple[StepName, str, datetime]] = field(default_factory=list)
    put_back: list[tuple[str, datetime]] = field(default_factory=list)
    fail_on: Callable[[str, str], None] = lambda call, name: None
    before_call: Callable[[str, str], None] = lambda call, name: None
    on_action: Callable[[Manifest, FakeResource], None] = lambda manifest, thing: None
    before_permit: Callable[[], None] = lambda: None

    def add(self, name: str, **fields: Any) -> FakeResource:
        self.things[name] = FakeResource(**{"name": name, "whole": fields.get("variants", 1), **fields})
        self.accounts[name], self.regions[name] = self.things[name].account, self.things[name].region
        return self.things[name]

    def inside(self, name: str) -> list[FakeResource]:
        """The resources on it."""
        return [thing for thing in self.things.values() if thing.host == name]

    def id(self, name: str) -> str:
        return (
            f"arn:aws:sagemaker:{self.regions.get(name, TARGET.region)}:{self.accounts.get(name, TARGET.account)}:endpoint/{name}"
        )

    def thing(self, call: str, name: str) -> FakeResource:
        """The thing, as a call finds it. Raises CloudError where the call fails or the thing is gone."""
        self.fail_on(call, name)
        if name not in self.things:
            raise CloudError(Reason.GONE, call, f"could not find {name}")
        self.before_call(call, name)
        if name not in self.things:
            raise CloudError(Reason.GONE, call, f"could not find {name}")
        return self.things[name]


class FakeSession:
    """A session of the fake cloud: `reaper.sessions.CloudSession`."""

    def __init__(self, cloud: FakeCloud, target: Target = TARGET) -> None:
        self.cloud, self.target = cloud, target
        self.calls: Counter[str] = Counter()
        self.metrics = 0
        self.errors: list[CloudError] = []

    def for_kind(self) -> FakeSession:
        return FakeSession(self.cloud, self.target)

    without_cache = for_kind

    def recheck_end(self, now: datetime) -> datetime:
        return now.replace(second=0, microsecond=0) + timedelta(minutes=1)


def _details(thing: FakeResource, parts: tuple[BilledPart, ...], hosted: dict[str, int | None]) -> EndpointDetails:
    because = thing.blocked_because or ("it hosts 1 component; it is handled on its own" if hosted else "")
    blocked = Blocked(because=because) if because else None
    if thing.least and thing.variants <= thing.least:
        blocked = blocked or Blocked(because="it runs one variant already", already_done=True)
    return EndpointDetails(copies=hosted, scale_in=ScaleInPlan(blocked=blocked), parts_after_stop=parts if thing.least else ())


def resource(yard: FakeSession, thing: FakeResource) -> Resource:
    parts = (BilledPart(component="Hosting", instance=thing.instance),) if thing.running_since else ()
    return Resource(
        kind=yard.cloud.kind_name,
        id=yard.cloud.id(thing.name),
        name=thing.name,
        target=yard.target,
        region=thing.region,
        created=thing.created,
        changed=thing.changed,
        status=thing.status,
        size=f"{thing.instance} with at least {thing.minimum}" if thing.minimum else thing.instance,
        parts=parts,
        tags=None if thing.tags is None else dict(thing.tags),
        details=_details(thing, parts, {inner.name: 1 for inner in yard.cloud.inside(thing.name)}),
        host_id=yard.cloud.id(thing.host) if thing.host else None,
        fingerprint=thing.fingerprint,
    )


def discover(yard: FakeSession) -> Iterator[Resource]:
    yard.calls["sagemaker:ListEndpoints"] += 1
    yard.cloud.before_call("list", "")
    yard.cloud.fail_on("list", "")
    where = yard.target.account, yard.target.region
    yield from [resource(yard, thing) for thing in yard.cloud.things.values() if (thing.account, thing.region) == where]


def observe(yard: FakeSession, resources: Sequence[Resource], window: Window) -> Iterator[Observation]:
    for one in resources:
        yard.calls["cloudwatch:GetMetricData"] += 1
        yard.cloud.before_call("observe", one.name)
        yard.cloud.fail_on("observe", one.name)
        thing = yard.cloud.things.get(one.name)
        if thing is None:
            yield Observation(resource=one, unknown_because="it is gone")
        else:
            yield _seen(one, thing, window)


def _seen(one: Resource, thing: FakeResource, window: Window) -> Observation:
    hours = -(-(window.end - window.start) // HOUR)
    used_in = {(use - window.start) // HOUR for use in thing.uses if window.start <= use < window.end}
    used = [1.0 if h in used_in else math.nan for h in range(hours)]
    alive = [60.0 if _alive(thing, window.start + h * HOUR) else math.nan for h in range(hours)]
    activity = Reading(
        signal="Invocations", role=Role.ACTIVITY, series=_series(window, used), complete=not thing.incomplete_replies
    )
    heart = Reading(signal="CPUUtilization", role=Role.HEARTBEAT, series=_series(window, alive))
    return Observation(
        resource=one,
        readings=(activity,) if thing.without_heartbeat else (activity, heart),
        indirect_evidence=IndirectEvidence(since=max([thing.running_since, *thing.uses]), because="it has been up")
        if thing.without_heartbeat and thing.running_since
        else None,
        changing_because=None if thing.status == "InService" else f"its status is {thing.status}",
        free_because="it is stopped" if thing.running_since is None and thing.status == "InService" else None,
    )


def _series(window: Window, values: list[float]) -> Series:
    return Series(start=window.start, step=HOUR, values=array("f", values), end=window.end)


def _alive(thing: FakeResource, hour: datetime) -> bool:
    """Whether its heartbeat beat in the hour that begins then; it takes no more than a moment of a gap to miss it."""
    up = thing.running_since is not None and hour + HOUR > thing.running_since
    return up and not any(start < hour + HOUR and hour < end for start, end in thing.metric_gaps)


def able(one: Resource) -> dict[StepName, Blocked | None]:
    busy = Blocked(because=f"its status is {one.status}") if one.status != "InService" else None
    scale_in = one.details.scale_in.blocked
    busy = busy if scale_in and scale_in.already_done else scale_in or busy
    stopped = Blocked(because="it is stopped already", already_done=True) if not one.parts else scale_in
    running = None if not one.parts else Blocked(because="it is running already", already_done=True)
    return {StepName.STOP: busy or stopped, StepName.DELETE: busy, StepName.START: busy or running}


def look(yard: FakeSession, one: Resource) -> Resource:
    yard.calls["sagemaker:DescribeEndpoint"] += 1
    return resource(yard, yard.cloud.thing("look", one.name))


def record(yard: FakeSession, one: Resource, move: StepName, earlier: Earlier) -> dict[str, Any]:
    thing = yard.cloud.thing("record", one.name)
    state = {
        "instance": thing.instance,
        "tags": dict(thing.tags or {}),
        "created": thing.created.isoformat(),
        "whole": thing.whole,
        "minimum": 0 if move is StepName.START else thing.minimum,
    }
    return {
        **state,
        "host": thing.host,
        "previous": earlier.record,
        "is_continued": earlier.manifest is not None,
    }


def carry(yard: FakeSession, one: Resource, manifest: Manifest, permit: Permit) -> Outcome:
    """The minimum is lowered by a call of its own. Then the thing."""

    def as_before(now: Resource) -> Resource:
        """The thing without what this action has done to it so far."""
        return replace(now, size=one.size if " with at least " not in now.size else now.size)

    if manifest.undo_state["minimum"]:
        with _permitted(yard, permit()):
            _lower(yard, one.name, manifest)
    change = {StepName.DELETE: _delete, StepName.START: _start}.get(manifest.action, _stop)
    with _permitted(yard, permit(as_before)):
        return _call(yard, one.name, manifest, change)


def _lower(yard: FakeSession, name: str, manifest: Manifest) -> None:
    thing = yard.cloud.thing("lower", name)
    yard.cloud.on_action(manifest, thing)
    thing.minimum = 0
    yard.cloud.fail_on("lowered", name)


def side_changes(manifest: Manifest) -> tuple[SideChange, ...]:
    minimum = manifest.undo_state["minimum"]
    return (SideChange(what="minimum", before=minimum, ours=0),) if minimum else ()


def put_back(yard: FakeSession, one: Resource, interrupted: Act) -> PutBackResult:
    """The minimum as it was, unless a person has set another one, or the thing has been made again."""
    thing, [change] = yard.cloud.thing("put back", one.name), interrupted.changes
    if any((action, name) == (interrupted.action, one.name) and when >= interrupted.at for action, name, when in yard.cloud.log):
        return PutBackResult(state=HalfDone.DONE, because="it was carried out")
    if thing.minimum == change.before:
        return PutBackResult(state=HalfDone.UNCHANGED, because="nothing was changed")
    if thing.minimum != change.ours or thing.created != interrupted.created:
        return PutBackResult(state=HalfDone.LEFT, because="it was changed since, so it stays as it is")
    thing.minimum = change.before
    yard.cloud.put_back.append((one.name, yard.cloud.clock()))
    yard.cloud.fail_on("was put back", one.name)
    return PutBackResult(state=HalfDone.PUT_BACK, because=f"its minimum is {change.before} again")


@contextmanager
def _permitted(yard: FakeSession, call: AbstractContextManager[None]) -> Iterator[None]:
    yard.cloud.before_permit()
    with call:
        yield


def _call(yard: FakeSession, name: str, manifest: Manifest, change: Callable[[FakeCloud, FakeResource], Outcome]) -> Outcome:
    """One changing call: its way there, its effect, and its way back."""
    cloud = yard.cloud
    thing = cloud.thing("carry", name)
    cloud.on_action(manifest, thing)
    cloud.log.append((manifest.action, name, cloud.clock()))
    made = change(cloud, thing)
    cloud.fail_on("carried", name)
    return made


def _delete(cloud: FakeCloud, thing: FakeResource) -> Outcome:
    del cloud.things[thing.name]
    return done("the endpoint was deleted")


def _start(cloud: FakeCloud, thing: FakeResource) -> Outcome:
    thing.running_since = thing.changed = cloud.clock()
    thing.variants = thing.whole
    return done("it was started")


def _stop(cloud: FakeCloud, thing: FakeResource) -> Outcome:
    thing.variants -= 1
    thing.changed = cloud.clock()
    if thing.variants and thing.variants == thing.least:
        return done("it was scaled in")
    if thing.variants:
        return done("one variant was scaled in", f"{thing.whole - thing.variants} of {thing.whole} variants")
    thing.running_since = None
    return done("it was stopped")


def undo(yard: FakeSession, manifest: Manifest) -> UndoResult:
    """The thing as the manifest and those before it have it. Where no machine is to be had the rest comes later."""
    cloud, now, state = yard.cloud, yard.cloud.clock(), manifest.undo_state
    thing = cloud.things.get(manifest.name) or cloud.add(
        manifest.name, created=now, running_since=None, host=state.get("host", "")
    )
    thing.instance, thing.tags = state["instance"], dict(state["tags"])
    if thing.refused:
        return UndoResult(because="not all of it is back", not_restored=("one variant: no machine is to be had",), run_again=True)
    thing.minimum = state.get("minimum") or thing.minimum
    thing.variants = thing.whole = max(state.get("whole", 1), thing.whole)
    thing.running_since, thing.changed = thing.running_since or now, now
    return UndoResult(because="it runs again")


DEED = ActionSpec(participle="stopped", effect="stops it", undo="reaper restore", permissions=("sagemaker:DeleteEndpoint",))
FAKE_KIND = Kind(
    name=KIND,
    cloud="aws",
    title="thing",
    docs="",
    permissions=("sagemaker:ListEndpoints",),
    activity="uses",
    heartbeat="being up",
    without_proof="",
    discover=discover,
    observe=observe,
    blocked_actions=able,
    parts_after=lambda one, action: (one.details.parts_after_stop if action is StepName.STOP else None) or (),
    details=EndpointDetails,
    actions={StepName.STOP: DEED, StepName.DELETE: DEED, StepName.START: DEED},
)
RECORDED = any_members("instance", "tags", "created", "whole", "host", "previous", "is_continued", "part", "minimum")
ACTS = ActionFunctions(
    read_now=look,
    read_undo_state=record,
    perform=carry,
    undo=undo,
    undo_permissions=(),
    undo_members={StepName.STOP: RECORDED, StepName.DELETE: RECORDED},
    id_pattern=arn_pattern("endpoint/(?P<name>.+)"),
    side_changes=side_changes,
    put_back=put_back,
)


class FakeManifestStore:
    """Manifests in a dictionary: `reaper.acting.manifest.Store`. `full`: nothing more can be stored."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.full = False
        self.fail_on: Callable[[str, str], None] = lambda call, name: None

    def write(self, place: str, name: str, text: str) -> str:
        self.fail_on("write", name)
        if self.full:
            raise CloudError(Reason.DENIED, "s3:PutObject", "no", missing="s3:PutObject")
        address = f"{place}/{name}"
        if address in self.texts:
            raise CloudError(Reason.REFUSED, "s3:PutObject", f"{address} is there already")
        self.texts[address] = text
        return address

    def read_text(self, address: str) -> str:
        if address not in self.texts:
            raise CloudError(Reason.GONE, "s3:GetObject", f"{address}: NoSuchKey", code="NoSuchKey")
        return self.texts[address]

    def list_texts(self, place: str) -> list[str]:
        return sorted(a for a in self.texts if a.startswith(f"{place}/"))
