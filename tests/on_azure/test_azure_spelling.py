"""Azure compares ids without regard to case, and gives one resource under several spellings."""

from __future__ import annotations

from typing import Any

import pytest

from on_azure.conftest import CLUSTER, DEPLOYMENT, INSTANCE, Sweep
from reaper_sandbox.azure.fault import Fault, error, on
from reaper_sandbox.azure.request import Reply
from reaper_sandbox.azure.server import Server
from reaper_sandbox.azure.subscription import Workspace


def again(row: dict[str, Any], **other: Any) -> Fault:
    """A list in which one resource is twice, the second time in capitals."""
    twin = row | {"id": row["id"].upper(), "name": row["name"].upper()} | other
    return Fault(answer=lambda request: Reply(body={"value": [row, twin]}))


@pytest.mark.parametrize("kind", [CLUSTER, INSTANCE])
@pytest.mark.parametrize("created", [True, False], ids=["as new", "told differently how old it is"])
def test_a_compute_that_is_listed_under_two_spellings_is_one(
    vision: Workspace, server: Server, run_sweep: Sweep, kind: str, created: bool
):
    one = vision.cluster("gpus") if kind == CLUSTER else vision.instance("gpus")
    properties = one.body["properties"] | ({} if created else {"createdOn": None, "createdAt": None})
    server.rules.append(
        on("GET", r".*/computes", again(one.body, properties=properties, **({} if created else {"systemData": {}})))
    )
    assert [f.case.resource.id for f in run_sweep(kind).swept.findings] == [one.id]


@pytest.mark.parametrize("part", ["onlineEndpoints", "deployments"])
def test_a_deployment_that_is_listed_under_two_spellings_is_one(vision: Workspace, server: Server, run_sweep: Sweep, part: str):
    endpoint = vision.endpoint("search")
    one = endpoint.deployment("blue")
    server.rules.append(on("POST", ".*ResourceGraph/resources", error(503, "ServerBusy")))
    server.rules.append(on("GET", rf".*/{part}", again(one.body if part == "deployments" else endpoint.body)))
    assert [f.case.resource.id for f in run_sweep(DEPLOYMENT).swept.findings] == [one.id]


def test_a_workspace_that_is_listed_under_two_spellings_is_one(vision: Workspace, server: Server, run_sweep: Sweep):
    ids = [vision.cluster("gpus").id, vision.endpoint("search").deployment("blue").id]
    server.rules.append(on("GET", r".*/workspaces", again(vision.body)))
    assert sorted(f.case.resource.id for f in run_sweep(CLUSTER, DEPLOYMENT).swept.findings) == sorted(ids)
