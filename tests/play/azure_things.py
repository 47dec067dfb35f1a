"""The things of the play in an Azure workspace."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from copy import deepcopy
from datetime import datetime
from typing import Any

from play.thing import RESTORED, Span, Thing
from reaper_sandbox.azure import signals
from reaper_sandbox.azure.subscription import Endpoint as AzEndpoint
from reaper_sandbox.azure.subscription import Thing as AzThing
from reaper_sandbox.azure.subscription import Workspace


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

    def sides(self) -> dict[str, int]:
        return {"traffic": int(self.endpoint.body["properties"]["traffic"].get(self.name, 0))} if self.body() else {}

    def is_reachable(self) -> bool:
        return bool(self.sides().get("traffic"))

    def set_sides(self, sides: dict[str, int], now: datetime) -> None:
        body = self.endpoint.body
        body["properties"]["traffic"] = {self.name: sides["traffic"]}
        if body.get("systemData"):
            body["systemData"]["lastModifiedAt"] = f"{now:%Y-%m-%dT%H:%M:%S}.0000000Z"

    def show(self, since: datetime, until: datetime, *, busy: bool) -> None:
        self.beat(since, until)
        self.show_use(since, until, busy=busy)

    def beat(self, since: datetime, until: datetime) -> None:
        signals.capacity(self.live_handle, since=since, until=until)

    def show_use(self, since: datetime, until: datetime, *, busy: bool) -> None:
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
