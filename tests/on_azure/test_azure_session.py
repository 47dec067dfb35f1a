from __future__ import annotations

import time
from itertools import count

import pytest

from on_azure.conftest import SUB
from reaper.azure import targets, workspaces
from reaper.azure.requests import ArmRequest
from reaper.azure.session import AzureHosts, CloudSession, hosts_from_env
from reaper.errors import MAX_PAGES_WITHOUT_NEWS, CloudError, Reason, SettingsError
from reaper_sandbox.azure.fault import Fault, cut, error, garbage, on
from reaper_sandbox.azure.request import Reply, Request
from reaper_sandbox.azure.server import Server
from reaper_sandbox.azure.subscription import Workspace

READ = "Microsoft.MachineLearningServices/workspaces/computes/read"


def path(vision: Workspace) -> str:
    return f"{vision.id}/computes"


def reply(body: object, status: int = 200) -> Fault:
    return Fault(answer=lambda request: Reply(status=status, body=body))


def test_a_next_link_is_followed_on_the_same_host_only(server: Server, cloud: CloudSession, vision: Workspace):
    for name in ("a", "b", "c"):
        vision.cluster(name)

    def elsewhere(request: Request) -> Fault | None:
        if not request.path.endswith("/computes") or "$skip" in request.query:
            return None
        link = f"https://evil.example.com{request.path}?api-version={request.api_version}&%24skip=1"
        return reply({"value": [vision.world.estate.find(f"{vision.id}/computes/a")], "nextLink": link})

    server.rules.append(elsewhere)
    assert [row["name"] for row in cloud.paged_rows(READ, path(vision))] == ["a", "b", "c"]


def test_a_page_that_links_to_itself_is_an_error(server: Server, cloud: CloudSession, vision: Workspace):
    again = f"{server.url}{path(vision)}?api-version=2025-12-01"
    server.rules.append(on("GET", ".*/computes", reply({"value": [], "nextLink": again})))
    with pytest.raises(CloudError, match="twice"):
        list(cloud.paged_rows(READ, path(vision)))


@pytest.mark.parametrize("rows", [[], [{"id": "/same", "name": "same"}]], ids=["empty", "same"])
def test_pages_that_never_end_are_an_error(server: Server, cloud: CloudSession, vision: Workspace, rows: list[object]):
    numbers = count()

    def page(request: Request) -> Reply:
        link = f"{server.url}{path(vision)}?api-version=2025-12-01&%24skip={next(numbers)}"
        return Reply(status=200, body={"value": rows, "nextLink": link})

    server.rules.append(on("GET", ".*/computes", Fault(answer=page)))
    with pytest.raises(CloudError, match="pages in a row had nothing new"):
        list(cloud.paged_rows(READ, path(vision)))
    assert next(numbers) <= MAX_PAGES_WITHOUT_NEWS + 1


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"value": None},
        {"value": {}},
        {"value": ["x"]},
        {"value": [{"name": "no id"}]},
        [],
        "text",
        b"<html>",
        b"",
        b'{"value": [',
    ],
)
def test_a_page_that_is_not_a_page_is_unreadable(server: Server, cloud: CloudSession, vision: Workspace, body: object):
    server.rules.append(on("GET", ".*/computes", reply(body)))
    with pytest.raises(CloudError) as caught:
        list(cloud.paged_rows(READ, path(vision)))
    assert (caught.value.reason, caught.value.operation) == (Reason.UNREADABLE, READ)


@pytest.mark.parametrize(
    ("status", "body", "trouble"),
    [
        (403, {"error": {"code": "AuthorizationFailed", "message": "no"}}, Reason.DENIED),
        (401, {"error": {"code": "InvalidAuthenticationToken", "message": "no"}}, Reason.DENIED),
        (403, b"<html>blocked by a proxy</html>", Reason.DENIED),
        (404, {"error": {"code": "ResourceNotFound", "message": "gone"}}, Reason.GONE),
        (429, {"error": {"code": "TooManyRequests", "message": "slow down"}}, Reason.THROTTLED),
        (409, {"error": {"code": "Conflict", "message": "busy"}}, Reason.REFUSED),
        (400, {"code": "BadRequest", "message": "no envelope"}, Reason.REFUSED),
        (501, b"", Reason.REFUSED),
        (302, b"", Reason.REFUSED),
    ],
)
def test_each_error_reply_has_its_reason(
    server: Server, cloud: CloudSession, vision: Workspace, status: int, body: object, trouble: Reason
):
    server.rules.append(on("GET", ".*/computes", reply(body, status)))
    with pytest.raises(CloudError) as caught:
        list(cloud.paged_rows(READ, path(vision)))
    assert caught.value.reason is trouble
    assert caught.value.missing == (READ if trouble is Reason.DENIED else None)


def test_a_denial_names_the_action_and_scope_of_its_sentence(server: Server, cloud: CloudSession, vision: Workspace):
    text = (
        "The client 'x' with object id 'x' does not have authorization to perform action 'Microsoft.A/b/read' over scope "
        "'/subscriptions/s/resourceGroups/g' or the scope is invalid."
    )
    server.rules.append(on("GET", ".*/computes", error(403, "AuthorizationFailed", text)))
    with pytest.raises(CloudError, match="on /subscriptions/s/resourceGroups/g") as caught:
        list(cloud.paged_rows(READ, path(vision)))
    assert caught.value.missing == "Microsoft.A/b/read"


def test_a_denial_on_a_linked_resource_names_its_action(server: Server, cloud: CloudSession, vision: Workspace):
    text = (
        "The client 'x' with object id 'x' has permission to perform action 'Microsoft.A/b/write' on scope '/subscriptions/s/b'; however, it "
        "does not have permission to perform action(s) 'Microsoft.C/d/assign/action' on the linked scope(s) '/subscriptions/s/c,/subscriptions/s/d' "
        "or the linked scope(s) are invalid."
    )
    server.rules.append(on("GET", ".*/computes", error(403, "LinkedAuthorizationFailed", text)))
    with pytest.raises(CloudError, match="assign/action on /subscriptions/s/c,/subscriptions/s/d") as caught:
        list(cloud.paged_rows(READ, path(vision)))
    assert (caught.value.reason, caught.value.missing) == (Reason.DENIED, "Microsoft.C/d/assign/action")


def test_a_closed_connection_is_unreachable(server: Server, cloud: CloudSession, vision: Workspace):
    server.rules.append(on("GET", ".*/computes", cut()))
    with pytest.raises(CloudError) as caught:
        list(cloud.paged_rows(READ, path(vision)))
    assert caught.value.reason is Reason.UNREACHABLE


def test_a_call_without_a_token_is_refused_with_the_reason(server: Server, vision: Workspace, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("IDENTITY_HEADER", "wrong")
    with pytest.raises(CloudError, match="no token") as caught:
        list(targets.target_sessions([SUB])[0].paged_rows(READ, path(vision)))
    assert (caught.value.reason, caught.value.missing) == (Reason.REFUSED, None)


def test_a_shared_failure_is_raised_to_each_kind(server: Server, cloud: CloudSession, vision: Workspace):
    server.rules.append(on("GET", ".*/computes", garbage()))
    for session in (cloud, cloud.for_kind()):
        with pytest.raises(CloudError, match="can't be read"):
            session.read_once("computes", lambda session=session: list(session.paged_rows(READ, path(vision))))
    assert cloud.calls[READ] == 1


def test_a_fault_of_this_machine_is_not_raised_to_each_kind(server: Server, cloud: CloudSession):
    replies = iter([RuntimeError("can't start new thread"), "fresh"])

    def read() -> str:
        reply = next(replies)
        if isinstance(reply, Exception):
            raise reply
        return reply

    with pytest.raises(RuntimeError):
        cloud.read_once("computes", read)
    assert [cloud.read_once("computes", read) for _ in range(2)] == ["fresh", "fresh"]


def test_resource_graphs_quota_is_waited_for(server: Server, cloud: CloudSession):
    server.world.graph.quota, server.world.graph.resets_after = 1, "00:00:01"
    list(workspaces.list_resources(cloud, "Microsoft.MachineLearningServices/workspaces"))
    server.world.graph.quota, before = 15, time.monotonic()
    list(workspaces.list_resources(cloud, "Microsoft.MachineLearningServices/workspaces"))
    assert time.monotonic() - before > 0.9
    assert cloud.calls[workspaces.READ_GRAPH] == 2


def test_fewer_rows_than_announced_are_an_error(server: Server, cloud: CloudSession):
    server.rules.append(on("POST", ".*/resources", reply({"totalRecords": 3, "data": []})))
    with pytest.raises(CloudError, match="0 of 3 rows") as caught:
        list(workspaces.list_resources(cloud, "x"))
    assert caught.value.reason is Reason.PARTIAL


def test_a_filter_is_quoted_in_the_url():
    call = ArmRequest(
        permission="Microsoft.Insights/metrics/read", path="/x", query={"metricnames": "Active Nodes", "$filter": "a eq '*'"}
    )
    assert call.url == "/x?api-version=2024-02-01&metricnames=Active%20Nodes&%24filter=a%20eq%20%27%2A%27"


@pytest.mark.parametrize(
    ("environ", "arm_scope", "metrics", "metrics_scope"),
    [
        (
            {},
            "https://management.azure.com/.default",
            "https://{region}.metrics.monitor.azure.com",
            "https://metrics.monitor.azure.com/.default",
        ),
        (
            {"REAPER_ARM_ENDPOINT": "https://management.usgovcloudapi.net/"},
            "https://management.usgovcloudapi.net/.default",
            "https://{region}.metrics.monitor.azure.us",
            "https://metrics.monitor.azure.us/.default",
        ),
        (
            {"REAPER_ARM_ENDPOINT": "https://management.chinacloudapi.cn"},
            "https://management.chinacloudapi.cn/.default",
            "https://{region}.metrics.monitor.azure.cn",
            "https://metrics.monitor.azure.cn/.default",
        ),
        (
            {"REAPER_ARM_ENDPOINT": "https://proxy.example.com"},
            "https://management.azure.com/.default",
            None,
            "https://metrics.monitor.azure.com/.default",
        ),
    ],
    ids=["public", "us government", "china", "a proxy"],
)
def test_each_cloud_has_its_hosts_and_scopes(environ: dict[str, str], arm_scope: str, metrics: str | None, metrics_scope: str):
    hosts = hosts_from_env(environ)
    assert (hosts.arm_scope, hosts.metrics, hosts.metrics_scope) == (arm_scope, metrics, metrics_scope)


def test_the_metrics_host_of_an_unknown_cloud_can_be_set():
    hosts = AzureHosts(arm="https://management.secret.gov", metrics="https://{region}.metrics.monitor.secret.gov")
    assert (hosts.arm_scope, hosts.metrics_scope) == (
        "https://management.secret.gov/.default",
        "https://metrics.monitor.secret.gov/.default",
    )


@pytest.mark.parametrize("address", ["http://management.azure.com", "management.azure.com", "https://"])
def test_a_token_never_goes_over_plain_http(address: str):
    with pytest.raises(SettingsError, match="REAPER_ARM_ENDPOINT"):
        hosts_from_env({"REAPER_ARM_ENDPOINT": address})


@pytest.mark.parametrize("subscription", ["my subscription", "a/b", "../x", "1?x", "1111", "my-subscription", f"{SUB}0"])
def test_an_invalid_subscription_id_is_refused(server: Server, subscription: str):
    with pytest.raises(SettingsError, match="isn't a subscription ID"):
        targets.target_sessions([subscription])


def test_credentials_are_detected_without_a_call(tmp_path):
    nothing = {"AZURE_CONFIG_DIR": str(tmp_path)}
    assert not targets.has_credentials(nothing)
    assert targets.has_credentials({**nothing, "IDENTITY_ENDPOINT": "http://127.0.0.1/msi"})
    (tmp_path / "azureProfile.json").write_text("{}")
    assert targets.has_credentials(nothing)
