"""Replies that are valid by Azure's own schema and otherwise random: no sweep falls over, loses, doubles or misjudges anything."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from azure.mgmt.machinelearningservices import models

import seeds
from fakes.sweeps import SweepOrder, sweep
from on_azure.conftest import DAY, HOUR, NOW, SUB
from on_azure.schema import Schema
from reaper import registry
from reaper.azure import targets
from reaper.finding import Report
from reaper.policy.parse import parse_policy
from reaper_sandbox.azure import signals
from reaper_sandbox.azure.fault import Fault
from reaper_sandbox.azure.request import Reply, Request
from reaper_sandbox.azure.server import Server
from reaper_sandbox.azure.subscription import Thing

PROVIDER = "Microsoft.MachineLearningServices"
ROOT = f"/subscriptions/{SUB}/resourceGroups/ml/providers/{PROVIDER}/workspaces"
LONG_AGO = NOW - 40 * DAY
POLICY = """
version: 1
defaults: {idle_after: 1d}
rules:
  - {name: short, match: {name: "q*"}, action: notify, idle_after: 6h}
  - {name: long, match: {kind: azureml-compute-instance}, action: stop, idle_after: 3d}
  - {name: others, match: {}, action: notify}
"""
PER_SPACE = 6
Json = dict[str, Any]


@dataclass
class Estate:
    """What is there. `lists` and `items` answer GETs by lower-cased path; `used` and `quiet` are what is truly used, and must be idle."""

    server: Server
    schema: Schema
    lists: dict[str, list[Json]] = field(default_factory=dict)
    items: dict[str, Json] = field(default_factory=dict)
    shown: list[Json] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    used: set[str] = field(default_factory=set)
    quiet: set[str] = field(default_factory=set)

    @property
    def chance(self) -> random.Random:
        return self.schema.chance

    def put(self, collection: str, body: Json) -> None:
        self.lists.setdefault(collection.lower(), []).append(body)
        self.items[body["id"].lower()] = body

    def __call__(self, request: Request) -> Fault | None:
        """A guard: the true reply of this estate, lists in pages of four."""
        path = request.path.lower().rstrip("/")
        if path.endswith("/microsoft.resourcegraph/resources"):
            return answer({"totalRecords": len(self.shown), "resultTruncated": "false", "data": self.shown})
        if path in self.lists or (path not in self.items and path.rpartition("/")[0] in self.items):
            start, rows = int(request.query.get("$skip", 0)), self.lists.get(path, [])
            more = {"nextLink": f"https://x{request.path}?api-version=1&$skip={start + 4}"} if start + 4 < len(rows) else {}
            return answer({"value": rows[start : start + 4], **more})
        if f"/{PROVIDER.lower()}/" in path and "microsoft.insights" not in path:
            return answer(self.items[path]) if path in self.items else answer({"error": {"code": "NotFound"}}, 404)
        return None


def answer(body: Json, status: int = 200) -> Fault:
    encoded = json.dumps(body).encode()
    return Fault(answer=lambda r: Reply(status=status, body=encoded))


def build(estate: Estate) -> None:
    """Two plain workspaces, a hub with two projects, and a hub one of whose projects is out of sight."""
    for name in ("plain", "Mixed-Case"):
        fill(estate, workspace(estate, name, "Default"), [])
    near = workspace(estate, "near-hub", "Hub")
    projects = [workspace(estate, name, "Project", hub=near["id"]) for name in ("one", "two")]
    near["properties"]["associatedWorkspaces"] = [one["id"].upper() for one in projects]
    fill(estate, near, projects)
    far = workspace(estate, "far-hub", "Hub")
    far["properties"]["associatedWorkspaces"] = [f"{ROOT}/out-of-sight"]
    fill(estate, far, [], blind=True)


def workspace(estate: Estate, name: str, kind: str, hub: str | None = None) -> Json:
    body = estate.schema.make("Workspace")
    body |= {"id": f"{ROOT}/{name}", "name": name, "location": "westeurope", "kind": kind, "type": f"{PROVIDER}/workspaces"}
    body["tags"] = estate.chance.choice((None, {}, {"a": "b"}))
    body.setdefault("properties", {}).update(hubResourceId=hub, workspaceId=f"guid-{name}")
    estate.put(f"/subscriptions/{SUB}/providers/{PROVIDER}/workspaces", body)
    estate.server.world.estate.put(body)
    return body


def fill(estate: Estate, space: Json, projects: list[Json], *, blind: bool = False) -> None:
    """Computes of every sort and use, endpoints with deployments, and jobs that are about neither."""
    for number in range(PER_SPACE):
        for make in (instance, cluster):
            make(estate, space, projects, f"{estate.chance.choice('qQk')}-{make.__name__}-{number}", blind)
        other = estate.schema.make("Compute")
        other["computeType"] = {"AmlCompute": "Quantum", "ComputeInstance": "Abacus"}.get(
            other["computeType"], other["computeType"]
        )
        compute(estate, space, projects, f"other-{number}", other)
    for number in range(3):
        endpoint(estate, space, f"e-{number}")
    for number in range(5):
        job(estate, estate.chance.choice([space, *projects]), None, estate.schema.one_of(models.JobStatus), f"noise-{number}")


def compute(estate: Estate, space: Json, projects: list[Json], name: str, properties: Json) -> Json:
    """A row of a workspace, and of the projects under it, which list the computes of their hub as their own."""
    body = estate.schema.make("ComputeResource") | {
        "id": f"{space['id']}/computes/{name}",
        "name": name,
        "properties": properties,
    }
    body |= {"tags": estate.chance.choice((None, {}, {"team": "x"})), "location": "westeurope"}
    estate.put(f"{space['id']}/computes", body)
    for project in projects:
        estate.put(f"{project['id']}/computes", body | {"id": f"{project['id']}/computes/{name}"})
    return body


def sound(estate: Estate, kind: str, special: str, inner: Json) -> Json:
    """A compute that is in good order and old; `special` is the model of what only its type has."""
    old = f"{LONG_AGO:%Y-%m-%dT%H:%M:%SZ}"
    made = estate.schema.make(kind) | {
        "createdOn": old,
        "modifiedOn": old,
        "provisioningState": "Succeeded",
        "computeLocation": None,
    }
    return made | {"computeType": kind, "properties": estate.schema.make(special) | inner}


def instance(estate: Estate, space: Json, projects: list[Json], name: str, blind: bool) -> None:
    use = estate.chance.choice(("random", "quiet", "job", "busy", "state"))
    last = {"operationName": "Start", "operationTime": f"{LONG_AGO:%Y-%m-%dT%H:%M:%SZ}", "operationStatus": "Succeeded"}
    state = "JobRunning" if use == "state" else "Running"
    inner = {"state": state, "lastOperation": last, "vmSize": "STANDARD_DS3_V2"}
    properties = estate.schema.make("ComputeInstance") | {"computeType": "ComputeInstance"}
    body = compute(
        estate,
        space,
        projects,
        name,
        properties if use == "random" else sound(estate, "ComputeInstance", "ComputeInstanceProperties", inner),
    )
    publish = estate.chance.choice((True, False)) or use == "busy"
    if publish:
        end = NOW - 5 * HOUR
        signals.busy(stub(estate, body), 0, since=LONG_AGO, until=end if use == "busy" else None)
        if use == "busy":
            signals.busy(stub(estate, body), 1, since=end)
    settle(estate, body, use, [space, *projects], blind)


def cluster(estate: Estate, space: Json, projects: list[Json], name: str, blind: bool) -> None:
    use = estate.chance.choice(("random", "quiet", "job", "busy", "state", "resizing"))
    counts = estate.schema.make("NodeStateCounts") | {"runningNodeCount": int(use == "state"), "preparingNodeCount": 0}
    inner = {
        "scaleSettings": {"minNodeCount": 1, "maxNodeCount": 4},
        "nodeStateCounts": counts,
        "allocationState": "Resizing" if use == "resizing" else "Steady",
        "allocationStateTransitionTime": f"{LONG_AGO:%Y-%m-%dT%H:%M:%SZ}",
        "vmSize": estate.chance.choice(("STANDARD_DS3_V2", None)),
    }
    properties = estate.schema.make("AmlCompute") | {"computeType": "AmlCompute"}
    body = compute(
        estate,
        space,
        projects,
        name,
        properties if use == "random" else sound(estate, "AmlCompute", "AmlComputeProperties", inner),
    )
    one, since = stub(estate, body), LONG_AGO
    if use == "busy":
        signals.nodes(one, active=2, idle=0, since=LONG_AGO, until=NOW - 4 * HOUR)
        since = NOW - 4 * HOUR
    estate.chance.choice((rested, zeros, valueless))(one, since)
    settle(estate, body, use, [space, *projects], blind)


def rested(one: Thing, since: Any) -> None:
    signals.resting_nodes(one, 1, total=1, since=since)


def zeros(one: Thing, since: Any) -> None:
    signals.nodes(one, active=0, idle=1, since=since)


def valueless(one: Thing, since: Any) -> None:
    signals.valueless_nodes(one)
    signals.resting_nodes(one, 1, total=1, since=since)


def stub(estate: Estate, body: Json) -> Thing:
    """What signals need of a thing: its id, its name and the number of its machines."""
    return Thing(estate.server.world, {"id": body["id"], "name": body["name"], "sku": {"capacity": 1}})


def settle(estate: Estate, body: Json, use: str, spaces: list[Json], blind: bool) -> None:
    """Notes what a sweep has to find of a compute, and puts the job on it where a job is its use."""
    id_ = body["id"].lower()
    estate.ids.add(id_)
    if use == "job":
        open_ = [one.value for one in models.JobStatus if one.value not in {"Completed", "Failed", "Canceled"}]
        job(estate, estate.chance.choice(spaces), body, estate.chance.choice(open_), f"on-{body['name']}")
    if use not in {"random", "quiet"} or blind:
        estate.used.add(id_)
    elif use == "quiet":
        estate.quiet.add(id_)


def job(estate: Estate, space: Json, on: Json | None, status: str, name: str) -> None:
    """A job of any type that names the compute in one of the places where jobs do, or none at all."""
    body = estate.schema.make("JobBase") | {"id": f"{space['id']}/jobs/{name}", "name": name}
    body["systemData"] = {"createdAt": estate.schema.time()}
    properties = estate.schema.make("JobBaseProperties") | {"status": status, "computeId": None}
    body["properties"] = properties
    if on:
        text = estate.chance.choice((on["id"], on["id"].upper(), on["name"], f"azureml:{on['name']}"))
        estate.chance.choice((by_id, by_property, by_step, by_default))(properties, text, on["name"])
    estate.put(f"{space['id']}/jobs", body)


def by_id(properties: Json, text: str, name: str) -> None:
    properties["computeId"] = text


def by_property(properties: Json, text: str, name: str) -> None:
    properties["properties"] = {"_azureml.ComputeTargetType": "AmlCompute", "_azureml.ClusterName": name}


def by_step(properties: Json, text: str, name: str) -> None:
    properties |= {"jobType": "Pipeline", "jobs": {"prepare": {"type": "command"}, "train": {"computeId": text}}}


def by_default(properties: Json, text: str, name: str) -> None:
    properties |= {"jobType": "Pipeline", "settings": {"default_compute": text}, "jobs": {"train": {"type": "command"}}}


def endpoint(estate: Estate, space: Json, name: str) -> None:
    """An endpoint with up to three deployments. Some rows in Resource Graph are of what was deleted."""
    above = estate.schema.make("OnlineEndpoint") | {"id": f"{space['id']}/onlineEndpoints/{name}", "name": name}
    above |= {"location": "westeurope", "tags": None, "type": f"{PROVIDER}/workspaces/onlineEndpoints"}
    estate.put(f"{space['id']}/onlineEndpoints", above)
    for number in range(estate.chance.randint(0, 3)):
        deployment(estate, above, f"q-{number}" if number else "k-0")
    gone = sound_deployment(estate) | {"id": f"{above['id']}/deployments/deleted", "name": "deleted"}
    rows = [above, *estate.lists.get(f"{above['id']}/deployments".lower(), []), gone]
    kinds = (f"{PROVIDER}/workspaces/onlineEndpoints".lower(), f"{PROVIDER}/workspaces/onlineEndpoints/deployments".lower())
    estate.shown += [row | {"type": kinds[row is not above]} for row in rows]


def sound_deployment(estate: Estate) -> Json:
    """What makes a deployment one that is judged by its metrics: old, managed, at rest, with a machine."""
    state = {"endpointComputeType": "Managed", "provisioningState": estate.chance.choice(("Succeeded", "Failed", "Canceled"))}
    return {
        "systemData": {"createdAt": f"{LONG_AGO:%Y-%m-%dT%H:%M:%SZ}"},
        "sku": {"name": "Default", "capacity": 1},
        "properties": estate.schema.make("ManagedOnlineDeployment") | state,
    }


def deployment(estate: Estate, above: Json, name: str) -> None:
    use = estate.chance.choice(("random", "quiet", "quiet", "busy"))
    body = estate.schema.make("OnlineDeployment") | {"id": f"{above['id']}/deployments/{name}", "name": name, "tags": None}
    body |= {"location": "westeurope", "systemData": estate.schema.make("SystemData")}
    if use != "random":
        above["properties"]["provisioningState"] = "Succeeded"
        body |= sound_deployment(estate)
    estate.put(f"{above['id']}/deployments", body)
    one, busy_until = stub(estate, body), NOW - estate.chance.choice((1, 5)) * HOUR
    signals.capacity(one, since=LONG_AGO)
    if use == "busy":
        signals.requests(one, 2, since=LONG_AGO, until=busy_until)
    else:
        estate.chance.choice(SILENT)(one)
    estate.ids.add(body["id"].lower())
    {"busy": estate.used, "quiet": estate.quiet, "random": set()}[use].add(body["id"].lower())


SILENT: tuple[Callable[[Thing], None], ...] = (
    signals.valueless_requests,
    lambda one: None,
    lambda one: signals.requests(one, 0, since=LONG_AGO),
    lambda one: signals.requests(one, 5, since=LONG_AGO, until=NOW - 5 * DAY),
)


def test_generated_replies_are_readable_by_the_sdk():
    schema = Schema(random.Random(7), NOW)
    for name in ("ComputeResource", "OnlineDeployment", "OnlineEndpoint", "JobBase", "Workspace"):
        for _ in range(40):
            model = getattr(models, name)
            assert isinstance(model.deserialize(json.loads(json.dumps(schema.make(name)))), model)


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], tuple[Estate, Report]]]:
    with Server(NOW) as server:
        for name, value in server.env.items():
            monkeypatch.setenv(name, value)
        server.subscription(SUB)

        def run(seed: int) -> tuple[Estate, Report]:
            estate = Estate(server, Schema(random.Random(seed), NOW))
            build(estate)
            server.rules.append(estate)
            order = SweepOrder(policy=parse_policy(POLICY, "policy", registry.kind_names()), now=NOW + timedelta(seconds=1))
            return estate, sweep(targets.target_sessions((SUB,)), registry.kinds("azure"), order)

        yield run


@pytest.mark.fresh
@pytest.mark.parametrize("seed", range(seeds.first(8), seeds.first(8) + 8))
def test_valid_replies_are_neither_lost_doubled_nor_misjudged(fleet: Callable[[int], tuple[Estate, Report]], seed: int):
    estate, report = fleet(seed)
    states = {f.case.resource.id.lower(): f.case.verdict for f in report.findings}
    assert [(c.status, c.error) for c in report.coverage] == [("ok", None)] * 3
    assert Counter(f.case.resource.id.lower() for f in report.findings) == Counter(dict.fromkeys(estate.ids, 1))
    idle = {id_ for id_, verdict in states.items() if verdict.state == "idle"}
    assert {id_: states[id_].because for id_ in idle & estate.used} == {}
    assert {id_: states[id_].because for id_ in estate.quiet - idle} == {}
    assert min(len(estate.quiet), len(estate.used)) > 8
