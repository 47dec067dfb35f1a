"""What the sandbox keeps of each resource: plain mutable records, times aware. `tags` is None for what never had a tag.

`pending` is a change of state that is under way: at that moment the record gets that status, or goes where the status is empty.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any

Tags = dict[str, str] | None
Pending = tuple[datetime, str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """How a seeded variant is set up. `model` None hosts inference components; `pools` are (instance type, count)."""

    name: str = "AllTraffic"
    instance: str | None = "ml.m5.large"
    count: int = 1
    weight: float = 1.0
    model: str | None = "model"
    memory_mb: int | None = None
    provisioned: int | None = None
    scaling: tuple[int, int] | None = None
    pools: tuple[tuple[str, int], ...] = ()

    def spec(self) -> dict[str, Any]:
        """The variant as CreateEndpointConfig spells it; shared between callers, so not to be changed."""
        return _spec(self)


@cache
def _spec(variant: Variant) -> dict[str, Any]:
    spec: dict[str, Any] = {"VariantName": variant.name}
    if variant.model:
        spec |= {"ModelName": variant.model}
    if variant.memory_mb:
        serverless = {"MemorySizeInMB": variant.memory_mb, "MaxConcurrency": 20, "ProvisionedConcurrency": variant.provisioned}
        return spec | {"ServerlessConfig": {k: v for k, v in serverless.items() if v}, "InitialVariantWeight": variant.weight}
    spec |= {"InitialInstanceCount": variant.count, "InitialVariantWeight": variant.weight}
    if variant.pools:
        spec |= {"InstancePools": [{"InstanceType": kind, "Priority": at + 1} for at, (kind, _) in enumerate(variant.pools)]}
    else:
        spec |= {"InstanceType": variant.instance}
    if variant.scaling:
        least, most = variant.scaling
        scaling = {"Status": "ENABLED", "MinInstanceCount": least, "MaxInstanceCount": most}
        spec |= {"ManagedInstanceScaling": scaling, "RoutingConfig": {"RoutingStrategy": "LEAST_OUTSTANDING_REQUESTS"}}
    return spec


@dataclass(slots=True, kw_only=True)
class Running:
    """A variant as it runs now. `spec` is its entry in the configuration that made it."""

    spec: dict[str, Any]
    count: int
    weight: float
    serverless: dict[str, Any] | None = None
    pools: tuple[tuple[str, int], ...] = ()

    @property
    def name(self) -> str:
        """The variant's name."""
        return str(self.spec["VariantName"])


def running(spec: dict[str, Any], pools: Iterable[tuple[str, int]] = ()) -> Running:
    """A variant freshly deployed from its entry in the configuration."""
    count = int(spec.get("InitialInstanceCount") or 0)
    named = [p["InstanceType"] for p in spec.get("InstancePools") or ()]
    return Running(
        spec=spec,
        count=count,
        weight=float(spec.get("InitialVariantWeight", 1.0)),
        serverless=spec.get("ServerlessConfig"),
        pools=tuple(pools) or tuple((kind, count if at == 0 else 0) for at, kind in enumerate(named)),
    )


@dataclass(slots=True, kw_only=True)
class Record:
    """What every record has."""

    name: str
    arn: str
    created: datetime


@dataclass(slots=True, kw_only=True)
class Tagged(Record):
    """A record that can have tags."""

    tags: Tags = None


@dataclass(slots=True, kw_only=True)
class Stateful(Tagged):
    """A record whose status changes with time."""

    status: str = "InService"
    pending: Pending = None


@dataclass(slots=True, kw_only=True)
class Changeable(Stateful):
    """A record that tells when it was last changed."""

    changed: datetime


@dataclass(slots=True, kw_only=True)
class Endpoint(Changeable):
    """An inference endpoint."""

    config: str
    variants: list[Running] = field(default_factory=list)
    shadows: list[Running] = field(default_factory=list)
    asynchronous: dict[str, Any] | None = None
    failure: str | None = None


@dataclass(slots=True, kw_only=True)
class Config(Tagged):
    """An endpoint configuration; `spec` is the CreateEndpointConfig request without its tags."""

    spec: dict[str, Any]


@dataclass(slots=True, kw_only=True)
class Component(Changeable):
    """An inference component. `spec` is its Specification."""

    endpoint: str
    variant: str | None
    copies: int
    spec: dict[str, Any] = field(default_factory=dict)
    failure: str | None = None


@dataclass(slots=True, kw_only=True)
class Notebook(Changeable):
    """A notebook instance. `extra` are the members of DescribeNotebookInstance that it was created with."""

    instance: str
    extra: dict[str, Any] = field(default_factory=dict)
    failure: str | None = None


@dataclass(slots=True, kw_only=True)
class Domain(Changeable):
    """A Studio domain; `name` is its id. `extra` are the settings it was created with."""

    title: str
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class User(Changeable):
    """A user profile of a domain."""

    domain: str
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Space(Changeable):
    """A space of a domain; `owner` is a user profile of a private one."""

    domain: str
    owner: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class App(Stateful):
    """A Studio app of a space or of a user profile. `used` and `checked` are its two timestamps of activity."""

    domain: str
    space: str | None = None
    user: str | None = None
    type: str
    resources: dict[str, Any] = field(default_factory=dict)
    used: datetime | None = None
    checked: datetime | None = None


@dataclass(slots=True, kw_only=True)
class Scalable:
    """A scalable target; policies and scheduled actions by name, as they were put."""

    id: str
    dimension: str
    arn: str
    least: int
    most: int
    created: datetime
    suspended: dict[str, bool] = field(default_factory=dict)
    policies: dict[str, dict[str, Any]] = field(default_factory=dict)
    actions: dict[str, dict[str, Any]] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Stream(Record):
    """A log stream. Times may be None: a stream that never had an event has neither."""

    last_event: datetime | None = None
    last_ingestion: datetime | None = None
