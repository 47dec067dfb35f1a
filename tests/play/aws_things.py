"""The things of the play in AWS accounts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from copy import deepcopy
from datetime import datetime
from typing import Any

from play.thing import RESTORED, Span, Thing
from reaper_sandbox.aws import scaled
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.records import Endpoint, Notebook, Variant
from reaper_sandbox.aws.sagemaker.listing import settle

INSTANCES, COPIES = 2, 2
"""Of a host, and of each component on it."""


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

    def sides(self) -> dict[str, int]:
        return _minima(self.account, f"endpoint/{self.name}/")

    def set_sides(self, sides: dict[str, int], now: datetime) -> None:
        _set_minima(self.account, sides)

    def show(self, since: datetime, until: datetime, *, busy: bool) -> None:
        self.beat(since, until)
        self.show_use(since, until, busy=busy)

    def beat(self, since: datetime, until: datetime) -> None:
        for variant in self.names:
            self.account.alive(self.name, variant, since, until)

    def show_use(self, since: datetime, until: datetime, *, busy: bool) -> None:
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
        host = Variant(name="v0", instance="ml.m5.xlarge", count=INSTANCES, model=None, scaling=(0, 4))
        self.account.endpoint(self.name, variants=(host,), created=self.born, tags={"owner": self.owner})

    def level(self) -> int:
        """As made while a component has fewer copies: then SageMaker itself sets its instances by what its components need."""
        level = super().level()
        return level if all(guest.level() == COPIES for guest in self.guests) else self.exists() * INSTANCES

    def least(self) -> int:
        return 0

    def portrait(self) -> Any:
        """Without its number of instances, which SageMaker itself sets by what its components need."""
        portrait = super().portrait()
        return portrait and {**portrait, "variants": [(name, spec, weight) for name, spec, _, weight in portrait["variants"]]}

    def show_use(self, since: datetime, until: datetime, *, busy: bool) -> None:
        pass

    def beat(self, since: datetime, until: datetime) -> None:
        self.account.alive(self.name, "v0", since, until)


class AwsComponent(OnAws):
    """An inference component of two copies on a host, with a policy that wakes it from zero."""

    kind, sleeps = "sagemaker-inference-component", False

    def __init__(self, account: Account, name: str, owner: str, plan: Sequence[Span], born: datetime, *, host: str) -> None:
        self.host = host
        super().__init__(account, name, owner, plan, born)

    def make(self) -> None:
        self.account.component(self.name, self.host, copies=COPIES, created=self.born, tags={"owner": self.owner})
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

    def sides(self) -> dict[str, int]:
        return _minima(self.account, f"inference-component/{self.name}")

    def set_sides(self, sides: dict[str, int], now: datetime) -> None:
        _set_minima(self.account, sides)

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


def _minima(account: Account, prefix: str) -> dict[str, int]:
    return {key[0]: one.least for key, one in account.contents.scalable.items() if key[0].startswith(prefix)}


def _set_minima(account: Account, minima: dict[str, int]) -> None:
    for key, one in account.contents.scalable.items():
        one.least = minima.get(key[0], one.least)


def _plain(policy: dict[str, Any]) -> dict[str, Any]:
    """A policy without what AWS gives it anew each time."""
    return {key: value for key, value in policy.items() if key not in {"PolicyARN", "CreationTime", "Alarms"}}
