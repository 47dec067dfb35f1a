"""Reading through Resource Manager with the real SDKs: tokens, versions, pages, shapes, refusals."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from azure.core.exceptions import ClientAuthenticationError, HttpResponseError, ResourceNotFoundError
from azure.core.rest import HttpRequest
from azure.identity import ManagedIdentityCredential

from reaper_sandbox.azure import jobs
from reaper_sandbox.azure.fault import on, throttled
from reaper_sandbox.azure.server import Server
from reaper_sandbox.azure.subscription import Workspace
from sandbox.azure import sdk

SECOND = "22222222-2222-2222-2222-222222222222"


def get(server: Server, path: str, version: str | None = "2025-12-01") -> tuple[int, Any, Any]:
    query = f"?api-version={version}" if version else ""
    answer = sdk.ml(server)._send_request(HttpRequest("GET", f"{server.url}{path}{query}"))
    return answer.status_code, answer.json(), answer.headers


def test_a_managed_identity_gets_a_token_for_each_audience(server: Server) -> None:
    credential = ManagedIdentityCredential()
    one = credential.get_token("https://management.azure.com/.default").token
    other = credential.get_token("https://metrics.monitor.azure.com/.default").token
    assert one != other


def test_computes_come_page_by_page_in_all_their_types(server: Server, vision: Workspace) -> None:
    server.world.page_size = 2
    vision.instance("ada")
    vision.cluster("gpus")
    vision.kubernetes("aks")
    vision.compute("odd", "Quantum", {"qubits": 1})
    computes = list(sdk.ml(server).compute.list("ml", "vision"))
    assert [(c.name, c.properties.compute_type) for c in computes[:3]] == [
        ("ada", "ComputeInstance"),
        ("gpus", "AmlCompute"),
        ("aks", "Kubernetes"),
    ]
    assert computes[3].name == "odd"
    assert len(server.requests) == 2
    assert {r.api_version for r in server.requests} == {"2025-12-01"}


def test_an_instance_shows_what_the_service_shows(server: Server, vision: Workspace, now: Any) -> None:
    vision.instance("ada", started=now - timedelta(hours=3)).tagged({"team": "vision"})
    one = sdk.ml(server, api_version="2026-03-01").compute.get("ML", "Vision", "ADA")
    inner = one.properties.properties
    assert (inner.state, inner.vm_size, one.tags) == ("Running", "STANDARD_DS3_V2", {"team": "vision"})
    assert inner.last_operation.operation_time == now - timedelta(hours=3)
    assert inner.last_operation.operation_name == "Start"
    assert inner.created_by.user_name is None
    assert inner.additional_properties["idleTimeBeforeShutdown"] is None
    assert get(server, one.id)[1]["properties"]["createdOn"].endswith("00.0000000+00:00")


def test_idle_shutdown_is_not_in_the_replies_of_older_versions(server: Server, vision: Workspace) -> None:
    vision.instance("ada").set("properties.properties.idleTimeBeforeShutdown", "PT30M")
    old = sdk.ml(server, api_version="2024-04-01").compute.get("ml", "vision", "ada")
    assert "idleTimeBeforeShutdown" not in old.properties.properties.additional_properties


def test_a_cluster_that_is_being_created_lacks_its_optional_properties(server: Server, vision: Workspace) -> None:
    vision.cluster("gpus").set("properties.provisioningState", "Creating").without(
        "properties.properties.scaleSettings", "properties.properties.nodeStateCounts"
    )
    inner = sdk.ml(server).compute.get("ml", "vision", "gpus").properties.properties
    assert inner.scale_settings is None
    assert inner.node_state_counts is None


def test_tags_can_be_null(server: Server, vision: Workspace) -> None:
    vision.cluster("gpus").tagged(None)
    assert sdk.ml(server).compute.get("ml", "vision", "gpus").tags is None


def test_workspaces_of_every_kind_are_in_one_list_of_their_subscription(server: Server, vision: Workspace) -> None:
    sub = server.subscription(sdk.SUB)
    sub.workspace("hub", kind="Hub", group="other")
    sub.workspace("project", kind="Project", group="other")
    server.subscription(SECOND).workspace("elsewhere")
    client = sdk.ml(server)
    assert {(w.name, w.location) for w in client.workspaces.list_by_subscription()} == {
        ("vision", "westeurope"),
        ("hub", "westeurope"),
        ("project", "westeurope"),
    }
    assert [w.name for w in client.workspaces.list_by_resource_group("ML")] == ["vision"]


def test_jobs_come_newest_first_and_archived_ones_only_on_request(server: Server, vision: Workspace, now: Any) -> None:
    server.world.page_size = 2
    for days in (3, 1, 2):
        vision.job(f"d{days}", status="Running", on="gpus", created=now - timedelta(days=days))
    vision.job("away", created=now).set("properties.isArchived", True)
    jobs.archive_experiment(vision.job("paper", created=now - timedelta(days=9)).body)
    client = sdk.ml(server)
    assert [j.name for j in client.jobs.list("ml", "vision")] == ["d1", "d2", "d3"]
    assert [j.name for j in client.jobs.list("ml", "vision", list_view_type="ArchivedOnly")] == ["away", "paper"]
    everything = list(client.jobs.list("ml", "vision", list_view_type="All"))
    assert [j.name for j in everything] == ["away", "d1", "d2", "d3", "paper"]
    assert everything[4].properties.is_archived is False
    assert everything[1].properties.compute_id.endswith("/computes/gpus")


def test_a_pipeline_names_clusters_in_its_steps_only(server: Server, vision: Workspace) -> None:
    vision.pipeline("nightly", {"prepare": None, "train": "gpus"}, default="cpus")
    (job,) = sdk.ml(server).jobs.list("ml", "vision", job_type="Pipeline")
    assert job.properties.compute_id is None
    assert job.properties.jobs["train"]["computeId"].endswith("/computes/gpus")
    assert job.properties.settings["default_compute"].endswith("/computes/cpus")


def test_endpoints_and_deployments_are_listed(server: Server, vision: Workspace) -> None:
    endpoint = vision.endpoint("chat")
    endpoint.deployment("blue", size="Standard_NC6s_v3", capacity=2).tagged(None)
    endpoint.deployment("green").set("properties.provisioningState", "Failed")
    endpoint.traffic(blue=100)
    aks = vision.kubernetes("aks")
    vision.endpoint("edge", kubernetes=aks.id).deployment("k8s", size="small")
    client = sdk.ml(server)
    assert {e.name: e.properties.traffic for e in client.online_endpoints.list("ml", "vision")} == {
        "chat": {"blue": 100},
        "edge": {},
    }
    blue, green = client.online_deployments.list("ml", "vision", "chat")
    assert (blue.sku.capacity, blue.properties.instance_type, blue.tags) == (2, "Standard_NC6s_v3", None)
    assert (green.properties.provisioning_state, green.properties.endpoint_compute_type) == ("Failed", "Managed")
    (edge,) = client.online_deployments.list("ml", "vision", "edge")
    assert edge.properties.endpoint_compute_type == "Kubernetes"
    assert [e.name for e in client.online_endpoints.list("ml", "vision", compute_type="Kubernetes")] == ["edge"]


@pytest.mark.parametrize(
    ("group", "workspace", "compute", "code"),
    [
        pytest.param("none", "vision", "gpus", "ResourceGroupNotFound", id="no such group"),
        pytest.param("ml", "none", "gpus", "ResourceNotFound", id="no such workspace"),
        pytest.param("ml", "vision", "none", "ResourceNotFound", id="no such compute"),
    ],
)
def test_a_missing_resource_is_a_404_with_its_code(
    server: Server, vision: Workspace, group: str, workspace: str, compute: str, code: str
) -> None:
    with pytest.raises(ResourceNotFoundError) as raised:
        sdk.ml(server).compute.get(group, workspace, compute)
    assert raised.value.error is not None
    assert raised.value.error.code == code


def test_an_unknown_subscription_is_a_404(server: Server, vision: Workspace) -> None:
    with pytest.raises(ResourceNotFoundError, match="SubscriptionNotFound"):
        list(sdk.ml(server, SECOND).workspaces.list_by_subscription())


@pytest.mark.parametrize(
    ("version", "code"),
    [
        pytest.param(None, "MissingApiVersionParameter", id="none"),
        pytest.param("1999-12-31", "InvalidApiVersionParameter", id="unknown"),
    ],
)
def test_an_unknown_api_version_is_refused(server: Server, vision: Workspace, version: str | None, code: str) -> None:
    status, body, _ = get(server, vision.id, version)
    assert (status, body["error"]["code"]) == (400, code)


def test_a_token_for_another_audience_is_refused(server: Server, vision: Workspace) -> None:
    client = sdk.ml(server, credential_scopes=["https://metrics.monitor.azure.com/.default"])
    with pytest.raises(ClientAuthenticationError, match="InvalidAuthenticationTokenAudience"):
        client.compute.get("ml", "vision", "x")


def test_an_unknown_path_is_a_404_and_logged(server: Server) -> None:
    status, body, _ = get(server, "/providers/Microsoft.Nothing/things")
    assert (status, body["error"]["code"]) == (404, "InvalidResourceType")
    assert server.requests[-1].action == ""


def test_read_replies_have_the_remaining_limit(server: Server, vision: Workspace) -> None:
    assert int(get(server, vision.id)[2]["x-ms-ratelimit-remaining-subscription-reads"]) > 0


def test_subscriptions_without_rights_are_not_listed_and_refuse_by_name(server: Server, vision: Workspace) -> None:
    server.subscription(SECOND, "Planning").workspace("forecasting")
    server.world.unreadable.add(SECOND)
    listed = get(server, "/subscriptions", "2022-12-01")[1]["value"]
    assert [one["subscriptionId"] for one in listed] == [sdk.SUB]
    with pytest.raises(HttpResponseError) as raised:
        list(sdk.ml(server, SECOND).workspaces.list_by_subscription())
    assert raised.value.status_code == 403
    assert "'Microsoft.MachineLearningServices/workspaces/read'" in str(raised.value)
    assert f"over scope '/subscriptions/{SECOND}'" in str(raised.value)


def test_the_sdk_retries_a_throttled_read(server: Server, vision: Workspace) -> None:
    vision.cluster("gpus")
    server.rules.append(on("GET", ".*/computes", throttled(0), times=1))
    assert [c.name for c in sdk.ml(server).compute.list("ml", "vision")] == ["gpus"]
    assert len(server.requests) == 2


def test_reading_changes_nothing(server: Server, vision: Workspace) -> None:
    vision.cluster("gpus")
    before = json.dumps(vision.body)
    list(sdk.ml(server).compute.list("ml", "vision"))
    assert server.mutations == []
    assert json.dumps(vision.body) == before
