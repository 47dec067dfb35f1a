"""Changing things through Resource Manager: long-running operations, what is refused, what is left afterwards."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceNotFoundError
from azure.core.rest import HttpRequest
from azure.mgmt.machinelearningservices import models

from reaper_sandbox.azure import autoscale
from reaper_sandbox.azure.server import Server
from reaper_sandbox.azure.subscription import Thing, Workspace
from sandbox.azure import sdk


def state(thing: Thing) -> str:
    return str(thing.body["properties"]["properties"]["state"])


def resized(**scale: Any) -> models.ClusterUpdateParameters:
    settings = models.ScaleSettings(**scale)
    return models.ClusterUpdateParameters(properties=models.ScaleSettingsInformation(scale_settings=settings))


def patch(server: Server, path: str, body: Any) -> Any:
    return sdk.ml(server)._send_request(HttpRequest("PATCH", f"{server.url}{path}?api-version=2025-12-01", json=body))


def test_stopping_takes_until_the_operation_ends(server: Server, vision: Workspace, now: datetime) -> None:
    ada = vision.instance("ada")
    sdk.ml(server).compute.begin_stop("ml", "vision", "ada", polling=False)
    assert state(ada) == "Stopping"
    server.now = now + timedelta(minutes=2)
    assert sdk.ml(server).compute.get("ml", "vision", "ada").properties.properties.state == "Stopped"
    last = ada.body["properties"]["properties"]["lastOperation"]
    assert (last["operationName"], last["operationStatus"]) == ("Stop", "Succeeded")


def test_polling_ends_the_operation_as_well(server: Server, vision: Workspace) -> None:
    ada = vision.instance("ada")
    client = sdk.ml(server)
    client.compute.begin_stop("ml", "vision", "ada").result()
    assert state(ada) == "Stopped"
    client.compute.begin_start("ml", "vision", "ada").result()
    assert state(ada) == "Running"
    polled = [r for r in server.requests if "computeOperationsStatus" in r.path]
    assert len(polled) >= 4
    assert [m.path.rpartition("/")[2] for m in server.mutations] == ["stop", "start"]


def test_the_stop_reply_has_a_long_operation_url_and_no_location(server: Server, vision: Workspace) -> None:
    vision.instance("ada")
    url = f"{server.url}{vision.id}/computes/ada/stop?api-version=2025-12-01"
    answer = sdk.ml(server)._send_request(HttpRequest("POST", url))
    assert answer.status_code == 202
    assert len(answer.headers["Azure-AsyncOperation"]) > 4000
    assert "Location" not in answer.headers
    assert "Retry-After" not in answer.headers
    assert answer.headers["Content-Length"] == "0"


@pytest.mark.parametrize("at", ["Stopped", "Stopping", "Creating", "Deleting"])
def test_an_instance_in_another_state_cannot_be_stopped(server: Server, vision: Workspace, at: str) -> None:
    vision.instance("ada").set("properties.properties.state", at)
    with pytest.raises(ResourceExistsError, match=at):
        sdk.ml(server).compute.begin_stop("ml", "vision", "ada")


def test_a_failed_operation_leaves_the_resource(server: Server, vision: Workspace) -> None:
    ada = vision.instance("ada")
    blue = vision.endpoint("chat").deployment("blue", capacity=3)
    server.world.operations.failures += [{"code": "InternalServerError", "message": "no"}] * 2
    client = sdk.ml(server)
    with pytest.raises(HttpResponseError):
        client.compute.begin_stop("ml", "vision", "ada").result()
    with pytest.raises(HttpResponseError):
        client.online_deployments.begin_delete("ml", "vision", "chat", "blue").result()
    assert state(ada) == "Running"
    assert blue.body["properties"]["provisioningState"] == "Failed"
    client.compute.begin_stop("ml", "vision", "ada").result()
    assert state(ada) == "Stopped"


def test_idle_shutdown_is_set_within_its_bounds(server: Server, vision: Workspace) -> None:
    ada = vision.instance("ada")
    url = f"{server.url}{ada.id}/updateIdleShutdownSetting?api-version=2025-12-01"
    client = sdk.ml(server)
    response = client._send_request(HttpRequest("POST", url, json={"idleTimeBeforeShutdown": "PT30M"}))
    assert (response.status_code, response.content) == (200, b"")
    assert ada.body["properties"]["properties"]["idleTimeBeforeShutdown"] == "PT30M"
    for wrong in ("PT5M", "P4D", "soon"):
        assert client._send_request(HttpRequest("POST", url, json={"idleTimeBeforeShutdown": wrong})).status_code == 400
    assert server.mutations[0].action == "Microsoft.MachineLearningServices/workspaces/computes/updateIdleShutdownSetting/action"


def test_a_cluster_is_resized_and_steady_again_when_the_operation_ends(server: Server, vision: Workspace) -> None:
    gpus = vision.cluster("gpus", nodes=(2, 4))
    wanted = resized(max_node_count=4, min_node_count=0, node_idle_time_before_scale_down=timedelta(minutes=2))
    sdk.ml(server).compute.begin_update("ml", "vision", "gpus", wanted).result()
    inner = gpus.body["properties"]["properties"]
    assert inner["scaleSettings"]["minNodeCount"] == 0
    assert (inner["allocationState"], inner["currentNodeCount"]) == ("Steady", 0)
    assert gpus.body["properties"]["provisioningState"] == "Succeeded"


@pytest.mark.parametrize(
    "body",
    [
        pytest.param({"tags": {"a": "b"}}, id="tags"),
        pytest.param({"properties": {"properties": {"scaleSettings": {"minNodeCount": 0}}}}, id="no maximum"),
        pytest.param(
            {"properties": {"properties": {"scaleSettings": {"minNodeCount": 5, "maxNodeCount": 4}}}}, id="minimum above"
        ),
        pytest.param({"properties": {"properties": {"scaleSettings": {"maxNodeCount": 4}, "vmSize": "X"}}}, id="size"),
    ],
)
def test_a_cluster_takes_whole_scale_settings_and_nothing_else(server: Server, vision: Workspace, body: Any) -> None:
    gpus = vision.cluster("gpus", nodes=(2, 4))
    assert patch(server, gpus.id, body).status_code == 400
    assert gpus.body["properties"]["properties"]["scaleSettings"]["minNodeCount"] == 2


def test_deleting_a_compute_needs_delete_or_detach(server: Server, vision: Workspace) -> None:
    vision.cluster("gpus")
    client = sdk.ml(server)
    with pytest.raises(HttpResponseError, match="not attached"):
        client.compute.begin_delete("ml", "vision", "gpus", "Detach").result()
    client.compute.begin_delete("ml", "vision", "gpus", "Delete").result()
    with pytest.raises(ResourceNotFoundError):
        client.compute.get("ml", "vision", "gpus")


def test_a_deployment_is_scaled_and_its_tags_replaced(server: Server, vision: Workspace, now: datetime) -> None:
    blue = vision.endpoint("chat").deployment("blue", capacity=3).tagged({"a": "1", "b": "2"})
    wanted = models.PartialMinimalTrackedResourceWithSku(tags={"a": "3"}, sku=models.PartialSku(capacity=1))
    sdk.ml(server).online_deployments.begin_update("ml", "vision", "chat", "blue", wanted, polling=False)
    assert blue.body["properties"]["provisioningState"] == "Updating"
    with pytest.raises(ResourceExistsError):
        sdk.ml(server).online_deployments.begin_delete("ml", "vision", "chat", "blue")
    server.now = now + timedelta(minutes=3)
    again = sdk.ml(server).online_deployments.get("ml", "vision", "chat", "blue")
    assert (again.sku.capacity, again.tags, again.properties.provisioning_state) == (1, {"a": "3"}, "Succeeded")
    none = patch(server, blue.id, {"sku": {"capacity": 0}})
    assert none.status_code == 400


def test_a_deployment_is_deleted_after_its_traffic_is_moved(server: Server, vision: Workspace) -> None:
    endpoint = vision.endpoint("chat")
    endpoint.deployment("blue")
    endpoint.deployment("green")
    endpoint.traffic(blue=100, green=0)
    client = sdk.ml(server)
    with pytest.raises(HttpResponseError, match="100 % of the traffic"):
        client.online_deployments.begin_delete("ml", "vision", "chat", "blue")
    body = client.online_endpoints.get("ml", "vision", "chat")
    body.properties.traffic = {"blue": 0, "green": 100}
    client.online_endpoints.begin_create_or_update("ml", "vision", "chat", body).result()
    client.online_deployments.begin_delete("ml", "vision", "chat", "blue").result()
    assert [d.name for d in client.online_deployments.list("ml", "vision", "chat")] == ["green"]
    assert client.online_endpoints.get("ml", "vision", "chat").properties.traffic == {"green": 100}


def test_mirrored_traffic_or_a_changing_endpoint_blocks_a_deletion(server: Server, vision: Workspace):
    endpoint = vision.endpoint("chat")
    endpoint.deployment("blue")
    endpoint.set("properties.mirrorTraffic", {"blue": 10})
    client = sdk.ml(server)
    with pytest.raises(HttpResponseError, match="10 % of the mirrored traffic"):
        client.online_deployments.begin_delete("ml", "vision", "chat", "blue")
    endpoint.set("properties.mirrorTraffic", {}).set("properties.provisioningState", "Updating")
    with pytest.raises(ResourceExistsError, match="chat is Updating"):
        client.online_deployments.begin_delete("ml", "vision", "chat", "blue")


def test_a_put_of_an_endpoint_removes_what_it_leaves_out(server: Server, vision: Workspace):
    endpoint = vision.endpoint("chat").tagged(a="b").set("properties.publicNetworkAccess", "Disabled")
    url = f"{server.url}{endpoint.id}?api-version=2025-12-01"
    body = {"location": "westeurope", "properties": {"authMode": "Key"}}
    assert sdk.ml(server)._send_request(HttpRequest("PUT", url, json=body)).status_code == 200
    assert (endpoint.body["tags"], endpoint.body["identity"]) == ({}, None)
    assert endpoint.body["properties"]["publicNetworkAccess"] == "Enabled"


def test_autoscale_settings_are_listed_by_subscription(server: Server, vision: Workspace):
    blue = vision.endpoint("chat").deployment("blue")
    server.world.autoscale.append(autoscale.body(blue.id, "keeps", "westeurope", 2, 5))
    home = vision.id.partition("/resourceGroups/")[0]
    url = f"{server.url}{home}/providers/Microsoft.Insights/autoscalesettings?api-version=2022-10-01"
    [one] = sdk.ml(server)._send_request(HttpRequest("GET", url)).json()["value"]
    assert one["properties"]["profiles"][0]["capacity"] == {"minimum": "2", "maximum": "5", "default": "2"}


def test_a_deleted_deployment_can_be_recreated_the_same(server: Server, vision: Workspace) -> None:
    endpoint = vision.endpoint("chat")
    endpoint.deployment("blue", size="Standard_NC6s_v3", capacity=2).tagged({"team": "x"}).set("properties.model", "azureml:m:7")
    client = sdk.ml(server)
    manifest = client.online_deployments.get("ml", "vision", "chat", "blue")
    client.online_deployments.begin_delete("ml", "vision", "chat", "blue").result()
    client.online_deployments.begin_create_or_update("ml", "vision", "chat", "blue", manifest).result()
    back = client.online_deployments.get("ml", "vision", "chat", "blue")
    assert (back.sku.capacity, back.properties.instance_type, back.tags) == (2, "Standard_NC6s_v3", {"team": "x"})
    assert (back.properties.model, back.properties.provisioning_state) == ("azureml:m:7", "Succeeded")


def test_an_endpoint_takes_tags_by_patch_and_goes_with_its_deployments(server: Server, vision: Workspace) -> None:
    endpoint = vision.endpoint("chat")
    endpoint.deployment("blue")
    client = sdk.ml(server)
    tags = models.PartialMinimalTrackedResourceWithIdentity(tags={"reaper:keep": "true"})
    client.online_endpoints.begin_update("ml", "vision", "chat", tags).result()
    assert endpoint.body["tags"] == {"reaper:keep": "true"}
    assert patch(server, endpoint.id, {"properties": {"traffic": {}}}).status_code == 400
    client.online_endpoints.begin_delete("ml", "vision", "chat").result()
    assert list(client.online_endpoints.list("ml", "vision")) == []
    assert server.world.estate.find(f"{endpoint.id}/deployments/blue") is None


def test_the_assets_of_a_deployment_can_be_read(server: Server, vision: Workspace) -> None:
    vision.endpoint("chat").deployment("blue")
    client = sdk.ml(server)
    made_from = client.online_deployments.get("ml", "vision", "chat", "blue").properties
    read = (
        client.model_versions.get("ml", "vision", "chat", "1").id,
        client.environment_versions.get("ml", "vision", "chat", "1").id,
        client.code_versions.get("ml", "vision", "chat", "1").id,
    )
    assert read == (made_from.model, made_from.environment_id, made_from.code_configuration.code_id)
    with pytest.raises(ResourceNotFoundError):
        client.model_versions.get("ml", "vision", "chat", "2")


@pytest.mark.parametrize("collection", ["models", "environments", "codes"])
def test_a_deployment_needs_existing_assets(server: Server, vision: Workspace, collection: str) -> None:
    vision.endpoint("chat").deployment("blue")
    client = sdk.ml(server)
    manifest = client.online_deployments.get("ml", "vision", "chat", "blue")
    client.online_deployments.begin_delete("ml", "vision", "chat", "blue").result()
    vision.asset(collection, "chat").remove()
    with pytest.raises(HttpResponseError, match=f"{collection}/chat/versions/1 was not found"):
        client.online_deployments.begin_create_or_update("ml", "vision", "chat", "blue", manifest)


def test_a_put_without_code_makes_a_deployment_without_code(server: Server, vision: Workspace) -> None:
    vision.endpoint("chat").deployment("blue")
    client = sdk.ml(server)
    bare = client.online_deployments.get("ml", "vision", "chat", "blue")
    bare.properties.code_configuration = None
    client.online_deployments.begin_create_or_update("ml", "vision", "chat", "blue", bare).result()
    assert client.online_deployments.get("ml", "vision", "chat", "blue").properties.code_configuration is None
