"""Resource Graph with the real SDK: its rows, the one query it answers, its pages, and what it silently leaves out."""

from __future__ import annotations

from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError
from azure.mgmt.resourcegraph.models import QueryRequest, QueryRequestOptions

from reaper_sandbox.azure.rights import deny, only
from reaper_sandbox.azure.server import Server
from reaper_sandbox.azure.subscription import Workspace
from sandbox.azure import sdk

SECOND = "22222222-2222-2222-2222-222222222222"
ALL = (
    "workspaces",
    "workspaces/onlineEndpoints",
    "workspaces/onlineEndpoints/deployments",
    "workspaces/computes",
    "workspaces/jobs",
)


def query_of(*types: str) -> str:
    """The query of a sweep for these types."""
    names = ", ".join(f"'Microsoft.MachineLearningServices/{name}'" for name in types)
    return f"resources | where type in~ ({names}) | order by id asc"


WORKSPACES, EVERYTHING = query_of("workspaces"), query_of(*ALL)


def ask(server: Server, query: str, subscriptions: tuple[str, ...] | None = (sdk.SUB,), **options: Any) -> Any:
    chosen = list(subscriptions) if subscriptions else None
    return sdk.graph(server).resources(
        QueryRequest(query=query, subscriptions=chosen, options=QueryRequestOptions(result_format="objectArray", **options))
    )


def names(server: Server, query: str, subscriptions: tuple[str, ...] | None = (sdk.SUB,)) -> list[str]:
    return [row["name"] for row in ask(server, query, subscriptions).data]


@pytest.fixture
def filled(server: Server, vision: Workspace) -> Workspace:
    vision.tagged({"team": "vision"})
    endpoint = vision.endpoint("chat")
    endpoint.deployment("blue", size="Standard_NC6s_v3", capacity=2)
    endpoint.deployment("green").set("properties.provisioningState", "Updating")
    vision.cluster("gpus")
    vision.job("run")
    server.subscription(SECOND).workspace("elsewhere", group="Data-Science")
    return vision


def test_rows_have_lower_cased_types_and_the_whole_resource(server: Server, filled: Workspace) -> None:
    blue, green = ask(server, query_of("workspaces/onlineEndpoints/deployments")).data
    assert (blue["name"], blue["sku"]["capacity"], blue["properties"]["instanceType"]) == ("blue", 2, "Standard_NC6s_v3")
    assert (blue["subscriptionId"], blue["resourceGroup"], blue["location"]) == (sdk.SUB, "ml", "westeurope")
    assert blue["systemData"]["createdAt"].endswith("Z")
    assert green["properties"]["provisioningState"] == "Updating"


def test_types_are_compared_without_regard_to_case(server: Server, filled: Workspace) -> None:
    assert names(server, WORKSPACES) == ["vision"]
    assert names(server, WORKSPACES.replace("MachineLearning", "machinelearning")) == ["vision"]


def test_resource_graph_has_no_computes_and_jobs(server: Server, filled: Workspace) -> None:
    types = {row["type"].rpartition("/")[2] for row in ask(server, EVERYTHING).data}
    assert types == {"workspaces", "onlineendpoints", "deployments"}


@pytest.mark.parametrize(
    "query",
    [
        pytest.param("", id="empty"),
        pytest.param("resources", id="no condition"),
        pytest.param(WORKSPACES.replace("in~", "in"), id="a comparison by case"),
        pytest.param(f"{WORKSPACES} | count", id="another operator"),
        pytest.param(WORKSPACES.replace(" | order by id asc", ""), id="no order"),
        pytest.param("resources | where type in~ () | order by id asc", id="no type"),
    ],
)
def test_any_other_query_is_a_400_with_details(server: Server, query: str) -> None:
    with pytest.raises(HttpResponseError) as raised:
        ask(server, query)
    assert raised.value.status_code == 400
    assert "ParserFailure" in raised.value.response.text()  # type: ignore[union-attr]


def test_a_skip_token_leads_through_the_pages(server: Server, filled: Workspace) -> None:
    server.world.graph.page_size = 2
    first = ask(server, EVERYTHING)
    second = ask(server, EVERYTHING, skip_token=first.skip_token)
    assert (first.total_records, first.count, second.skip_token) == (4, 2, None)
    assert [row["name"] for row in (*first.data, *second.data)] == ["vision", "chat", "blue", "green"]


def test_without_subscriptions_the_query_covers_all(server: Server, filled: Workspace) -> None:
    assert names(server, WORKSPACES, None) == ["vision", "elsewhere"]


def test_an_unreadable_subscription_is_silently_left_out(server: Server, filled: Workspace) -> None:
    server.world.unreadable.add(SECOND)
    assert names(server, WORKSPACES, (sdk.SUB, SECOND)) == ["vision"]
    assert names(server, WORKSPACES, (SECOND,)) == []


def test_rows_without_a_right_are_left_out(server: Server, filled: Workspace) -> None:
    server.rules.append(deny("*/onlineEndpoints/deployments/read", ".*/deployments/blue"))
    assert sorted(names(server, EVERYTHING)) == ["chat", "green", "vision"]
    server.rules[:] = [only("Microsoft.MachineLearningServices/workspaces/read")]
    assert names(server, EVERYTHING) == ["vision"]


def test_headers_show_the_remaining_quota_before_throttling(server: Server, filled: Workspace) -> None:
    server.world.graph.quota = 1
    server.world.graph.resets_after = "00:00:00"
    headers: list[Any] = []
    client = sdk.graph(server, retry_total=0)
    request = QueryRequest(query=EVERYTHING, subscriptions=[sdk.SUB])
    client.resources(request, raw_response_hook=lambda r: headers.append(r.http_response.headers))
    assert headers[0]["x-ms-user-quota-remaining"] == "0"
    assert headers[0]["x-ms-user-quota-resets-after"] == "00:00:00"
    with pytest.raises(HttpResponseError, match="RateLimiting"):
        client.resources(request)
    assert ask(server, EVERYTHING).count == 4


def test_rows_may_lack_their_system_data(server: Server, filled: Workspace) -> None:
    server.world.graph.system_data = False
    assert "systemData" not in ask(server, WORKSPACES).data[0]


def test_a_query_is_no_mutation(server: Server, filled: Workspace) -> None:
    assert server.mutations == []
    ask(server, EVERYTHING)
    assert server.mutations == []
