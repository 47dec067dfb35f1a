"""Filling the sandbox in the words of the domain.

sub = server.subscription("11111111-1111-1111-1111-111111111111")
vision = sub.workspace("vision", region="westeurope", created=ago(days=200))
gpus = vision.cluster("gpu-idle", size="STANDARD_NC6S_V3", nodes=(2, 4), created=ago(days=90)).tagged(owner="ada@example.com")
gpus.set("properties.properties.allocationState", "Resizing")
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Self

from reaper_sandbox.azure import assets, clusters, computes, deployments, endpoints, instances, jobs, workspaces
from reaper_sandbox.azure.metrics import Metrics
from reaper_sandbox.azure.request import Json
from reaper_sandbox.azure.world import World

LONG = timedelta(days=60)
"""How old things are by default."""


@dataclass(frozen=True, slots=True)
class Thing:
    """A handle on one resource. `body` is the live JSON that Resource Manager shows."""

    world: World
    body: Json

    @property
    def id(self) -> str:
        """The ARM id."""
        return str(self.body["id"])

    @property
    def name(self) -> str:
        """The last part of the id."""
        return str(self.body["name"])

    @property
    def metrics(self) -> Metrics:
        """Where its points are stored."""
        return self.world.metrics

    def tagged(self, tags: dict[str, str] | None = None, /, **more: str) -> Self:
        """Replaces the tags; None stores a null, as some real resources have."""
        self.body["tags"] = None if tags is None and not more else {**(tags or {}), **more}
        return self

    def set(self, path: str, value: Any) -> Self:
        """Sets one value by its dotted path, such as `properties.provisioningState`."""
        *steps, last = path.split(".")
        place = self.body
        for step in steps:
            place = place[step]
        place[last] = value
        return self

    def without(self, *paths: str) -> Self:
        """Takes out what an optional property left unset would not show."""
        for path in paths:
            *steps, last = path.split(".")
            place = self.body
            for step in steps:
                place = place[step]
            place.pop(last, None)
        return self

    def remove(self) -> None:
        """Makes it vanish at once, with everything below it."""
        self.world.estate.drop(self.id)


@dataclass(frozen=True, slots=True)
class Endpoint(Thing):
    """An online endpoint."""

    def deployment(
        self, name: str, *, size: str = "Standard_DS3_v2", capacity: int = 1, created: datetime | None = None
    ) -> Thing:
        """A deployment of `capacity` machines of `size`, and the model, environment and code that it is made from."""
        born = created or self.world.now - LONG
        parent = self.world.estate.find(self.id.partition("/onlineEndpoints/")[0]) or {}
        for collection in assets.COLLECTIONS:
            assets.put(self.world, parent, collection, self.name, "1", born)
        body = deployments.body(self.body, name, size, capacity, born)
        body["properties"] |= assets.made_from(parent, self.name)
        return Thing(self.world, self.world.estate.put(body))

    def traffic(self, **shares: int) -> Endpoint:
        """Percent of the traffic by deployment; dashes in a name are written as underscores."""
        self.body["properties"]["traffic"] = {name.replace("_", "-"): share for name, share in shares.items()}
        return self


@dataclass(frozen=True, slots=True)
class Workspace(Thing):
    """A workspace of any kind."""

    def under(self, hub: Workspace) -> Self:
        """Makes it a project of `hub`."""
        workspaces.join(hub.body, self.body)
        return self

    def instance(
        self, name: str, *, size: str = "STANDARD_DS3_V2", created: datetime | None = None, started: datetime | None = None
    ) -> Thing:
        """A running compute instance, last started at `started` (default: with its creation)."""
        born = created or self.world.now - LONG
        body = self.world.estate.put(instances.body(self.body, name, size, born))
        if started:
            body["properties"]["properties"]["lastOperation"] = instances.operation("Start", started)
        return Thing(self.world, body)

    def cluster(
        self, name: str, *, size: str = "STANDARD_NC6S_V3", nodes: tuple[int, int] = (1, 4), created: datetime | None = None
    ) -> Thing:
        """A steady cluster with (least, most) nodes."""
        born = created or self.world.now - LONG
        return Thing(self.world, self.world.estate.put(clusters.body(self.body, name, size, nodes, born)))

    def kubernetes(self, name: str, *, created: datetime | None = None) -> Thing:
        """An attached Kubernetes cluster."""
        return Thing(self.world, self.world.estate.put(computes.kubernetes(self.body, name, created or self.world.now - LONG)))

    def compute(self, name: str, compute_type: str, special: Json | None = None, *, created: datetime | None = None) -> Thing:
        """A compute of any type, known or not."""
        born = created or self.world.now - LONG
        return Thing(self.world, self.world.estate.put(computes.envelope(self.body, name, compute_type, born, special)))

    def endpoint(self, name: str, *, kubernetes: str | None = None, created: datetime | None = None) -> Endpoint:
        """An online endpoint; `kubernetes` is the id of the attached cluster it runs on, None: a managed one."""
        born = created or self.world.now - LONG
        return Endpoint(self.world, self.world.estate.put(endpoints.body(self.body, name, born, kubernetes)))

    def asset(self, collection: str, name: str, version: str = "1") -> Thing:
        """A version of a model, an environment or code; `collection` is `models`, `environments` or `codes`."""
        return Thing(self.world, assets.put(self.world, self.body, collection, name, version, self.world.now - LONG))

    def job(self, name: str, *, status: str = "Running", on: str | None = None, created: datetime | None = None) -> Thing:
        """A command job; `on` is the compute's name in this workspace or a full id, None: serverless."""
        compute = on if on is None or "/" in on else f"{self.id}/computes/{on}"
        born = created or self.world.now - timedelta(hours=1)
        return Thing(self.world, self.world.estate.put(jobs.body(self.body, name, status, compute, born)))

    def pipeline(
        self,
        name: str,
        steps: dict[str, str | None],
        *,
        status: str = "Running",
        default: str | None = None,
        created: datetime | None = None,
    ) -> Thing:
        """A pipeline job whose steps name their computes (of this workspace); the job itself names none."""
        full = {step: compute and f"{self.id}/computes/{compute}" for step, compute in steps.items()}
        job = self.job(name, status=status, created=created)
        jobs.pipeline(job.body, full, default and f"{self.id}/computes/{default}")
        return job


class Subscription:
    """One subscription of the sandbox."""

    def __init__(self, world: World, subscription_id: str, name: str = "") -> None:
        self.world = world
        self.id = subscription_id.lower()
        known = world.estate.subscriptions
        known[self.id] = name or known.get(self.id) or f"subscription {subscription_id[:4]}"

    def in_state(self, state: str) -> Self:
        """Sets its state, such as Warned or Disabled."""
        self.world.estate.states[self.id] = state
        return self

    def under(self, management_group: str) -> Self:
        """Moves it below a management group."""
        self.world.estate.parents[self.id] = management_group.lower()
        return self

    def group(self, name: str) -> str:
        """Makes sure that the resource group is there and gives its id."""
        self.world.estate.groups.setdefault((self.id, name.lower()), name)
        return f"/subscriptions/{self.id}/resourceGroups/{name}"

    def workspace(
        self, name: str, *, region: str = "westeurope", group: str = "ml", kind: str = "Default", created: datetime | None = None
    ) -> Workspace:
        """A workspace; `kind` is Default, Hub, Project or FeatureStore."""
        born = created or self.world.now - 6 * LONG
        body = workspaces.body(self.group(group), name, region, kind, born)
        return Workspace(self.world, self.world.estate.put(body))
