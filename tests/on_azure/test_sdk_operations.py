"""Why `reaper.azure.requests` sends most calls itself: what azure-mgmt-machinelearningservices makes of replies, call by call.

A test that breaks when the SDK is upgraded may mean that a call can move to its public operation: see the table in that module.
"""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest
import requests
from azure.core.credentials import AccessToken
from azure.core.exceptions import HttpResponseError
from azure.core.pipeline.policies import ContentDecodePolicy
from azure.core.pipeline.transport import HttpTransport
from azure.core.pipeline.transport._requests_basic import RequestsTransportResponse
from azure.mgmt.machinelearningservices import MachineLearningServicesMgmtClient

PLACE = ("group", "vision")
COMPUTE = {"id": "/computes/gpus", "name": "gpus", "properties": {"computeType": "AmlCompute"}}
ENDPOINT = {"location": "westeurope", "kind": "Managed", "properties": {"authMode": "Key", "traffic": {"blue": 100}}}


class FixedCredential:
    """A credential with a token that never expires."""

    def get_token(self, *scopes: str, **options: Any) -> AccessToken:
        return AccessToken("token", 2**40)


class ScriptedTransport(HttpTransport[Any, Any]):
    """Answers requests with the given bodies in turn, the last one for ever, and records the requests."""

    def __init__(self, status: int, *bodies: object) -> None:
        self.status, self.bodies, self.sent = status, list(bodies), list[Any]()

    def send(self, request: Any, **options: Any) -> Any:
        self.sent.append(request)
        body = self.bodies.pop(0) if len(self.bodies) > 1 else self.bodies[0]
        reply = requests.Response()
        reply.status_code, reply._content = self.status, body if isinstance(body, bytes) else json.dumps(body).encode()
        reply.headers["Content-Type"], reply.raw = "application/json", io.BytesIO()
        return RequestsTransportResponse(request, reply)

    def open(self) -> None: ...

    def close(self) -> None: ...

    def __exit__(self, *args: object) -> None: ...


def client_for(transport: ScriptedTransport) -> Any:
    """The SDK's client, with nothing between its operations and the transport but its own reading."""
    return MachineLearningServicesMgmtClient(
        FixedCredential(), "subscription", transport=transport, policies=[ContentDecodePolicy()]
    )


def answering(*bodies: object, status: int = 200) -> Any:
    return client_for(ScriptedTransport(status, *bodies))


def compute_with(**outer: object) -> dict[str, object]:
    return {**COMPUTE, "properties": {"computeType": "AmlCompute", **outer}}


def test_the_sdk_follows_a_next_link_to_another_host():
    transport = ScriptedTransport(200, {"value": [], "nextLink": "https://elsewhere.example/more"}, {"value": []})
    list(client_for(transport).compute.list(*PLACE))
    assert [request.url.startswith("https://elsewhere.example") for request in transport.sent] == [False, True]


def test_the_sdk_repeats_a_page_that_links_to_itself():
    page = {"value": [COMPUTE], "nextLink": "https://management.azure.com/more"}
    rows = answering(page).compute.list(*PLACE)
    assert len(list(itertools.islice(rows, 50))) == 50


def test_one_odd_row_fails_a_whole_page_of_the_sdk():
    with pytest.raises(Exception, match="Cannot deserialize datetime"):
        list(answering({"value": [COMPUTE, compute_with(createdOn="soon")]}).compute.list(*PLACE))


def test_the_sdk_loses_the_type_of_a_new_sort_of_compute():
    [compute] = answering({"value": [{"id": "x", "properties": {"computeType": "Quantum"}}]}).compute.list(*PLACE)
    assert compute.properties.compute_type is None


@pytest.mark.parametrize(("count", "read_as"), [("2", 2), (2.5, 2), (True, 1)])
def test_the_sdk_guesses_a_count_of_nodes(count: object, read_as: int):
    scaling = {"scaleSettings": {"minNodeCount": count, "maxNodeCount": 4}}
    compute = answering(compute_with(properties=scaling)).compute.get(*PLACE, "gpus")
    assert compute.properties.properties.scale_settings.min_node_count == read_as


@pytest.mark.parametrize("tags", ["keep", ["keep"]])
def test_odd_tags_are_an_error_of_the_sdk(tags: object):
    with pytest.raises(Exception, match="Unable to deserialize"):
        answering({**COMPUTE, "tags": tags}).compute.get(*PLACE, "gpus")


def test_the_sdk_loses_the_hub_and_the_projects_of_a_workspace():
    properties = {"hubResourceId": "/hub", "associatedWorkspaces": ["/project"]}
    workspace = answering({"id": "/w", "name": "w", "properties": properties}).workspaces.get(*PLACE)
    assert not {"/hub", "/project"} & set(str(workspace.as_dict()).split("'"))
    assert "properties" not in workspace.additional_properties


def test_the_sdk_writes_less_of_an_endpoint_than_it_read():
    transport = ScriptedTransport(200, {**ENDPOINT, "properties": {**ENDPOINT["properties"], "newSetting": "x"}})
    client = client_for(transport)
    client.online_endpoints.begin_create_or_update(*PLACE, "chat", client.online_endpoints.get(*PLACE, "chat"), polling=False)
    assert "newSetting" not in json.loads(transport.sent[-1].body)["properties"]


WRITES: dict[str, Callable[[Any, bytes], object]] = {
    "a cluster": lambda client, body: client.compute.begin_update(*PLACE, "gpus", body, polling=False),
    "an endpoint": lambda client, body: client.online_endpoints.begin_create_or_update(*PLACE, "chat", body, polling=False),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_an_odd_reply_makes_a_done_write_of_the_sdk_look_failed(write: Callable[[Any, bytes], object]):
    with pytest.raises(Exception, match="deserialize") as caught:
        write(answering(["done"]), b"{}")
    assert not isinstance(caught.value, HttpResponseError), "there is no status to go by"


@pytest.mark.parametrize("body", [b"", b'["odd"]'])
def test_a_stop_of_the_sdk_reads_no_body(body: bytes):
    assert answering(body, status=202).compute.begin_stop(*PLACE, "ada", polling=False)
