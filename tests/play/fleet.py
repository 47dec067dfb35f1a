"""The resources of the play: what is really there, who uses it when, and what people do to it behind the product's back.

A thing's truth (when it is used, what was done to it) is kept apart from what its cloud publishes of it, so that the oracle can ask the
truth, and an outage can hide it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar

from play import terms
from play.terms import DAY
from reaper_sandbox.aws import scaled
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.records import Endpoint, Notebook, Variant
from reaper_sandbox.aws.sagemaker.listing import settle
from reaper_sandbox.azure import signals
from reaper_sandbox.azure.subscription import Endpoint as AzEndpoint
from reaper_sandbox.azure.subscription import Thing as AzThing
from reaper_sandbox.azure.subscription import Workspace

Span = tuple[datetime, datetime]
RESTORED = "ml-idle-reaper:restored"
"""The tag by which restoring knows what it made."""


@dataclass(slots=True, kw_only=True)
class Truth:
    """What really happened: uses (`unseen`: those that were never published), changes by people, and which tags it had since when."""

    uses: list[Span] = field(default_factory=list)
    unseen: list[Span] = field(default_factory=list)
    touched: list[datetime] = field(default_factory=list)
    stopped_by_hand: list[datetime] = field(default_factory=list)
    tags: list[tuple[datetime, dict[str, str]]] = field(default_factory=list)

    def used(self, since: datetime, until: datetime) -> bool:
        """Whether it was in use at any time of that stretch."""
        return any(start < until and end > since for start, end in [*self.uses, *self.unseen])

    def last_use(self, before: datetime) -> datetime | None:
        """When it was last seen in use before that moment."""
        return max((min(end, before) for start, end in self.uses if start < before), default=None)

    def last_touch(self, before: datetime) -> datetime | None:
        """When a person last changed it before that moment."""
        return max((at for at in self.touched if at <= before), default=None)

    def tags_at(self, when: datetime) -> dict[str, str]:
        """Its tags then."""
        return next((tags for at, tags in reversed(self.tags) if at <= when), {})


class Thing(ABC):
    """One resource. `plan` are the uses that its owner has in mind; it is used then if it runs."""

    kind: ClassVar[str]
    cloud: ClassVar[str]
    sleeps: ClassVar[bool] = True
    """Whether a stopped one cannot be used."""

    def __init__(self, name: str, owner: str, plan: Sequence[Span], born: datetime) -> None:
        self.name, self.owner, self.plan, self.born = name, owner, list(plan), born
        self.truth = Truth(touched=[born], tags=[(born, {"owner": owner})])
        self.inside: Thing | None = None
        """Its host."""
        self.guests: list[Thing] = []
        """The resources inside it."""
        self.silent = False
        """Whether its cloud publishes nothing of its use, though it is used: a broken signal."""

    @property
    def terms(self) -> terms.Terms:
        """What the policy says of it."""
        return terms.of(self.name)

    @property
    @abstractmethod
    def id(self) -> str:
        """Its ARN or ARM id."""

    @abstractmethod
    def level(self) -> int:
        """How many machines are paid for; 0 for what is stopped or gone."""

    @abstractmethod
    def least(self) -> int:
        """How many are left when it is stopped."""

    @abstractmethod
    def exists(self) -> bool:
        """Whether it exists."""

    @abstractmethod
    def portrait(self) -> Any:
        """All that makes it what it is, without times and ids."""

    @abstractmethod
    def show(self, since: datetime, until: datetime, *, busy: bool) -> None:
        """Publish its metrics for that stretch."""

    @abstractmethod
    def put_tags(self, tags: dict[str, str]) -> None:
        """Replace its tags."""

    @abstractmethod
    def start(self, now: datetime) -> None:
        """Its owner starts it, or scales it out, by hand."""

    @abstractmethod
    def stop(self, now: datetime) -> None:
        """Its owner stops it, or scales it in, by hand."""

    def retag(self, now: datetime, **changes: str | None) -> None:
        """Its owner sets tags, or takes them off (None)."""
        tags = {**self.truth.tags_at(now), **{_key(k): v for k, v in changes.items() if v is not None}}
        for key in [_key(k) for k, v in changes.items() if v is None]:
            tags.pop(key, None)
        self.truth.tags.append((now, tags))
        if self.exists():
            self.put_tags({**tags, **({RESTORED: mark} if (mark := self.mark()) else {})})

    def mark(self) -> str | None:
        """The value of the tag that restoring put on it, if there is one."""
        return None

    def use(self, since: datetime, until: datetime) -> None:
        """It is used in that stretch, which is not published yet."""
        for thing in (self, self.inside, *self.guests):
            if thing:
                thing.plan.append((since, until))

    def live(self, since: datetime, until: datetime) -> None:
        """Time passes: it is used as planned, if it runs, and its cloud publishes what it sees."""
        if not self.exists() or (self.sleeps and not self.level()):
            return
        busy = [(max(start, since), min(end, until)) for start, end in sorted(self.plan) if start < until and end > since]
        at = since
        for start, end in _joined(busy):
            if at < start:
                self.show(at, start, busy=False)
            self.show(start, end, busy=not self.silent)
            (self.truth.unseen if self.silent else self.truth.uses).append((start, end))
            at = end
        if at < until:
            self.show(at, until, busy=False)

    @abstractmethod
    def vanish(self) -> None:
        """It was never there."""

    def wants(self, since: datetime, until: datetime) -> bool:
        """Whether its owner would like to use it in that stretch."""
        return any(start < until and end > since for start, end in self.plan)

    def started_by_hand(self, now: datetime) -> None:
        """Its owner starts it."""
        self.start(now)
        self.truth.touched.append(now)

    def stopped_by_hand(self, now: datetime) -> None:
        """Its owner stops it."""
        self.stop(now)
        self.truth.touched.append(now)
        self.truth.stopped_by_hand.append(now)


class OnAws(Thing):
    """What one AWS account has in one region."""

    cloud = "aws"

    def __init__(self, account: Account, name: str, owner: str, plan: Sequence[Span], born: datetime) -> None:
        super().__init__(name, owner, plan, born)
        self.account = account
        self.make()

    @abstractmethod
    def make(self) -> None:
        """It is created."""

    @property
    @abstractmethod
    def record(self) -> Any:
        """What the sandbox has of it, None where it is gone."""

    def settled(self) -> Any:
        """The record once every change whose time has come is over."""
        with self.account.server.world.lock:
            settle(self.account.contents)
            return self.record

    def exists(self) -> bool:
        return self.settled() is not None

    def vanish(self) -> None:
        contents = self.account.contents
        places: list[dict[Any, Any]] = [contents.endpoints, contents.notebooks, contents.apps]
        for place in places:
            for key in [key for key, record in place.items() if record is self.record]:
                del place[key]
                return

    def put_tags(self, tags: dict[str, str]) -> None:
        self.record.tags = dict(tags)

    def mark(self) -> str | None:
        return (self.record.tags or {}).get(RESTORED)

    def tags_now(self) -> dict[str, str]:
        """Without what restoring leaves."""
        return {key: value for key, value in (self.record.tags or {}).items() if key != RESTORED}


class AwsEndpoint(OnAws):
    """An endpoint with machines of its own. Variants are (name, machine, count)."""

    kind, sleeps = "sagemaker-endpoint", False

    def __init__(
        self,
        account: Account,
        name: str,
        owner: str,
        plan: Sequence[Span],
        born: datetime,
        *,
        counts: tuple[int, ...] = (3,),
        scaling: bool = False,
    ) -> None:
        self.names = [f"v{n}" for n in range(len(counts))]
        self.counts, self.scaling = dict(zip(self.names, counts, strict=True)), scaling
        super().__init__(account, name, owner, plan, born)

    def make(self) -> None:
        variants = tuple(Variant(name=v, instance="ml.m5.xlarge", count=n) for v, n in self.counts.items())
        self.account.endpoint(self.name, variants=variants, created=self.born, tags={"owner": self.owner})
        if self.scaling:
            scaled.track(self.account, scaled.variant(self.account, self.name, self.names[0], least=2, most=6))

    @property
    def id(self) -> str:
        return self.account.arn(f"endpoint/{self.name}")

    @property
    def record(self) -> Endpoint | None:
        return self.account.contents.endpoints.get(self.name)

    def level(self) -> int:
        record = self.settled()
        return sum(v.count for v in record.variants) if record and record.status != "Deleting" else 0

    def least(self) -> int:
        return len(self.counts)

    def portrait(self) -> Any:
        record = self.settled()
        if record is None:
            return None
        scaling = {key: one for key, one in self.account.contents.scalable.items() if f"/{self.name}/" in key[0]}
        return deepcopy(
            {
                "variants": [(v.name, v.spec, v.count, v.weight) for v in record.variants],
                "configuration": self.account.contents.configs[record.config].spec,
                "tags": self.tags_now(),
                "autoscaling": {
                    str(key): (
                        one.least,
                        one.most,
                        [k for k, v in one.suspended.items() if v],
                        [_plain(p) for p in one.policies.values()],
                        [*one.actions.values()],
                    )
                    for key, one in scaling.items()
                },
            }
        )

    def show(self, since: datetime, until: datetime, *, busy: bool) -> None:
        for variant in self.names:
            self.account.alive(self.name, variant, since, until)
        if busy:
            pair = {"EndpointName": self.name, "VariantName": self.names[0]}
            self.account.steady_by_minute("AWS/SageMaker", "Invocations", pair, since, until, 12)

    def start(self, now: datetime) -> None:
        for variant in self.record.variants:
            variant.count = self.counts[variant.name]
        self.record.changed = now

    def stop(self, now: datetime) -> None:
        for variant in self.record.variants:
            variant.count = 1
        self.record.changed = now


class AwsHost(AwsEndpoint):
    """An endpoint that hosts inference components. Nobody calls itself; it is used where they are."""

    def make(self) -> None:
        host = Variant(name="v0", instance="ml.m5.xlarge", count=2, model=None, scaling=(0, 4))
        self.account.endpoint(self.name, variants=(host,), created=self.born, tags={"owner": self.owner})

    def least(self) -> int:
        return 0

    def portrait(self) -> Any:
        """Without its number of instances, which SageMaker itself sets by what its components need."""
        portrait = super().portrait()
        return portrait and {**portrait, "variants": [(name, spec, weight) for name, spec, _, weight in portrait["variants"]]}

    def show(self, since: datetime, until: datetime, *, busy: bool) -> None:
        self.account.alive(self.name, "v0", since, until)


class AwsComponent(OnAws):
    """An inference component of two copies on a host, with a policy that wakes it from zero."""

    kind, sleeps = "sagemaker-inference-component", False

    def __init__(self, account: Account, name: str, owner: str, plan: Sequence[Span], born: datetime, *, host: str) -> None:
        self.host = host
        super().__init__(account, name, owner, plan, born)

    def make(self) -> None:
        self.account.component(self.name, self.host, copies=2, created=self.born, tags={"owner": self.owner})
        scaled.wake(self.account, scaled.copies(self.account, self.name), name=f"wake-{self.name}")

    @property
    def id(self) -> str:
        return self.account.arn(f"inference-component/{self.name}")

    @property
    def record(self) -> Any:
        return self.account.contents.components.get(self.name)

    def level(self) -> int:
        record = self.settled()
        return int(record.copies) if record and record.status != "Deleting" else 0

    def least(self) -> int:
        return 0

    def portrait(self) -> Any:
        record = self.settled()
        if record is None:
            return None
        scaling = {
            key: one for key, one in self.account.contents.scalable.items() if key[0] == f"inference-component/{self.name}"
        }
        return deepcopy(
            {
                "copies": record.copies,
                "specification": record.spec,
                "on": (record.endpoint, record.variant),
                "tags": self.tags_now(),
                "autoscaling": {
                    str(key): (one.least, one.most, [_plain(p) for p in one.policies.values()]) for key, one in scaling.items()
                },
            }
        )

    def show(self, since: datetime, until: datetime, *, busy: bool) -> None:
        self.account.component_alive(self.name, since, until)
        if busy:
            self.account.steady_by_minute("AWS/SageMaker", "Invocations", {"InferenceComponentName": self.name}, since, until, 12)

    def start(self, now: datetime) -> None:
        self.record.copies, self.record.changed = 2, now

    def stop(self, now: datetime) -> None:
        self.record.copies, self.record.changed = 0, now


class AwsNotebook(OnAws):
    """A notebook instance with the Busy script."""

    kind = "sagemaker-notebook"

    def make(self) -> None:
        self.account.notebook(self.name, instance="ml.m5.2xlarge", created=self.born, tags={"owner": self.owner})

    @property
    def id(self) -> str:
        return self.account.arn(f"notebook-instance/{self.name}")

    @property
    def record(self) -> Notebook | None:
        return self.account.contents.notebooks.get(self.name)

    def level(self) -> int:
        record = self.settled()
        return int(record is not None and record.status in {"InService", "Pending"})

    def least(self) -> int:
        return 0

    def portrait(self) -> Any:
        record = self.settled()
        return record and deepcopy(
            {"status": record.status, "machine": record.instance, "extra": record.extra, "tags": self.tags_now()}
        )

    def show(self, since: datetime, until: datetime, *, busy: bool) -> None:
        self.account.busy_steadily(self.id, since, until, int(busy))

    def start(self, now: datetime) -> None:
        self.record.status, self.record.changed = "InService", now

    def stop(self, now: datetime) -> None:
        self.record.status, self.record.changed = "Stopped", now


class AwsApp(OnAws):
    """A JupyterLab app of a private space, with the Busy script. Stopping deletes the app; its space stays."""

    kind = "sagemaker-studio-app"
    DOMAIN = "d-play"

    def make(self) -> None:
        if self.DOMAIN not in self.account.contents.domains:
            self.account.domain(self.DOMAIN)
            self.account.user("ana", domain=self.DOMAIN)
        self.account.space(self.name, domain=self.DOMAIN, owner="ana", created=self.born, tags={"owner": self.owner})
        self.account.app(
            self.name, space=self.name, domain=self.DOMAIN, instance="ml.g5.xlarge", created=self.born, tags={"owner": self.owner}
        )

    @property
    def id(self) -> str:
        return self.account.arn(f"app/{self.DOMAIN}/{self.name}/JupyterLab/{self.name}")

    @property
    def record(self) -> Any:
        return self.account.contents.apps.get((self.DOMAIN, self.name, "JupyterLab", self.name))

    def level(self) -> int:
        record = self.settled()
        return int(record is not None and record.status in {"InService", "Pending"})

    def least(self) -> int:
        return 0

    def portrait(self) -> Any:
        record = self.settled()
        return record and deepcopy({"status": record.status, "resources": record.resources, "tags": self.tags_now()})

    def show(self, since: datetime, until: datetime, *, busy: bool) -> None:
        self.account.busy_steadily(self.id, since, until, int(busy))
        self.record.checked = until
        if busy:
            self.record.used = until

    def start(self, now: datetime) -> None:
        self.account.app(
            self.name,
            space=self.name,
            domain=self.DOMAIN,
            instance="ml.g5.xlarge",
            created=now,
            used=now,
            tags=self.truth.tags_at(now),
        )

    def stop(self, now: datetime) -> None:
        self.record.status = "Deleted"


class OnAzure(Thing):
    """What a workspace has."""

    cloud = "azure"

    def __init__(self, home: Workspace, name: str, owner: str, plan: Sequence[Span], born: datetime) -> None:
        super().__init__(name, owner, plan, born)
        self.home = home
        self.handle = self.make().tagged({"owner": owner})

    @abstractmethod
    def make(self) -> AzThing:
        """It is created."""

    @property
    def id(self) -> str:
        return self.handle.id

    def vanish(self) -> None:
        self.home.world.estate.drop(self.id)

    def body(self) -> Any:
        """What Resource Manager has of it, once every operation whose time has come is over; None where it is gone."""
        world = self.home.world
        with world.lock:
            world.operations.settle(world.now)
            return world.estate.find(self.id)

    def exists(self) -> bool:
        return self.body() is not None

    def put_tags(self, tags: dict[str, str]) -> None:
        self.body()["tags"] = dict(tags)

    def mark(self) -> str | None:
        return (self.body()["tags"] or {}).get(RESTORED)

    @property
    def live_handle(self) -> AzThing:
        """A handle on what is there now, which a restore may have made anew."""
        return AzThing(self.home.world, self.body())

    def tags_now(self) -> dict[str, str]:
        """Without what restoring leaves."""
        return {key: value for key, value in (self.body()["tags"] or {}).items() if key != RESTORED}


class AzCluster(OnAzure):
    """A cluster that keeps two nodes up."""

    kind, sleeps = "azureml-compute-cluster", False

    def make(self) -> AzThing:
        return self.home.cluster(self.name, size="STANDARD_DS3_V2", nodes=(2, 6), created=self.born)

    def level(self) -> int:
        body = self.body()
        return int(body["properties"]["properties"]["scaleSettings"]["minNodeCount"]) if body else 0

    def least(self) -> int:
        return 0

    def portrait(self) -> Any:
        inner = self.body()["properties"]["properties"]
        return deepcopy({"scale": inner["scaleSettings"], "size": inner["vmSize"], "tags": self.tags_now()})

    def show(self, since: datetime, until: datetime, *, busy: bool) -> None:
        least = self.level()
        signals.nodes(self.live_handle, active=int(busy), idle=max(least - int(busy), 0), since=since, until=until)

    def start(self, now: datetime) -> None:
        self._scale(2, now)

    def stop(self, now: datetime) -> None:
        self._scale(0, now)

    def _scale(self, least: int, now: datetime) -> None:
        body = self.body()
        body["properties"]["properties"]["scaleSettings"]["minNodeCount"] = least
        body["properties"]["modifiedOn"] = body["properties"]["properties"]["allocationStateTransitionTime"] = (
            f"{now:%Y-%m-%dT%H:%M:%S}+00:00"
        )


class AzInstance(OnAzure):
    """A compute instance with the Busy script."""

    kind = "azureml-compute-instance"

    def make(self) -> AzThing:
        return self.home.instance(self.name, size="STANDARD_DS3_V2", created=self.born)

    def level(self) -> int:
        body = self.body()
        return int(body is not None and body["properties"]["properties"]["state"] in {"Running", "Starting", "JobRunning"})

    def least(self) -> int:
        return 0

    def portrait(self) -> Any:
        inner = self.body()["properties"]["properties"]
        keys = ("vmSize", "state", "idleTimeBeforeShutdown", "schedules")
        return deepcopy({**{key: inner[key] for key in keys}, "tags": self.tags_now()})

    def show(self, since: datetime, until: datetime, *, busy: bool) -> None:
        signals.busy(self.live_handle, int(busy), since=since, until=until)

    def start(self, now: datetime) -> None:
        self._turn("Running", "Start", now)

    def stop(self, now: datetime) -> None:
        self._turn("Stopped", "Stop", now)

    def _turn(self, state: str, verb: str, now: datetime) -> None:
        from reaper_sandbox.azure import instances

        inner = self.body()["properties"]["properties"]
        inner["state"], inner["lastOperation"] = state, instances.operation(verb, now)


class AzDeployment(OnAzure):
    """A deployment of three machines, alone on its endpoint and with all of its traffic."""

    kind, sleeps = "azureml-online-deployment", False

    def make(self) -> AzThing:
        self.endpoint: AzEndpoint = self.home.endpoint(f"{self.name}-door", created=self.born)
        made = self.endpoint.deployment(self.name, size="Standard_DS3_v2", capacity=3, created=self.born)
        self.endpoint.body["properties"]["traffic"] = {self.name: 100}
        return made

    def level(self) -> int:
        body = self.body()
        return int(body["sku"]["capacity"]) if body and body["properties"]["provisioningState"] != "Deleting" else 0

    def least(self) -> int:
        return 1

    def portrait(self) -> Any:
        body = self.body()
        if body is None:
            return None
        traffic = self.endpoint.body["properties"]["traffic"]
        inner = {key: value for key, value in body["properties"].items() if key != "provisioningState"}
        return deepcopy({"properties": inner, "capacity": body["sku"], "tags": self.tags_now(), "traffic": traffic})

    def show(self, since: datetime, until: datetime, *, busy: bool) -> None:
        signals.capacity(self.live_handle, since=since, until=until)
        signals.requests(self.live_handle, 12 if busy else 0, since=since, until=until)

    def start(self, now: datetime) -> None:
        self._scale(3, now)

    def stop(self, now: datetime) -> None:
        self._scale(1, now)

    def _scale(self, capacity: int, now: datetime) -> None:
        body = self.body()
        body["sku"]["capacity"] = capacity
        if body.get("systemData"):
            body["systemData"]["lastModifiedAt"] = f"{now:%Y-%m-%dT%H:%M:%S}.0000000Z"


def _key(name: str) -> str:
    return name.replace("__", "-").replace("_", ":")


def _plain(policy: dict[str, Any]) -> dict[str, Any]:
    """A policy without what AWS gives it anew each time."""
    return {key: value for key, value in policy.items() if key not in {"PolicyARN", "CreationTime", "Alarms"}}


def _joined(spans: Sequence[Span]) -> list[Span]:
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            start, end = joined[-1][0], max(joined.pop()[1], end)
        joined.append((start, end))
    return joined


LOOKBACK = 15 * DAY
"""How far back metrics reach when the play begins."""
