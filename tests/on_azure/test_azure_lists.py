"""What is odd, denied or gone in a list costs that one thing, is reported, and hides none of its neighbors."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fakes.sweeps import SweepOrder, assess_again
from on_azure.conftest import CLUSTER, DEPLOYMENT, HOUR, INSTANCE, LONG_AGO, NOW, PROVEN, Sweep, changed
from on_azure.prepared_actions import find_resource
from reaper import registry
from reaper.azure import workspaces
from reaper.azure.session import CloudSession
from reaper.errors import CloudError, Reason
from reaper.model import State
from reaper.policy.parse import parse_policy
from reaper_sandbox.azure import routes, signals
from reaper_sandbox.azure.fault import Fault, error, on
from reaper_sandbox.azure.request import Reply, Request
from reaper_sandbox.azure.rights import deny
from reaper_sandbox.azure.server import Server
from reaper_sandbox.azure.subscription import Thing, Workspace

GRAPH = ".*/Microsoft.ResourceGraph/resources"
NOT_IN_GRAPH = Fault(answer=lambda r: Reply(body={"totalRecords": 0, "data": []}))


def silent(vision: Workspace, endpoint: str, name: str) -> Thing:
    one = vision.endpoint(endpoint).deployment(name)
    signals.requests(one, 0, since=LONG_AGO)
    signals.capacity(one, since=LONG_AGO)
    return one


def stale_graph(server: Server) -> None:
    """From now on Resource Graph shows what it shows when it is asked next, whatever is deleted later."""
    replies: dict[str, Reply] = {}
    route = routes.find("POST", "/providers/Microsoft.ResourceGraph/resources")[0]

    def lagging(request: Request) -> Fault | None:
        if not request.path.endswith("/Microsoft.ResourceGraph/resources"):
            return None
        key = json.dumps(request.body)
        if key not in replies:
            replies[key] = server._checked(request, route)
        return Fault(answer=lambda r: replies[key])

    server.rules.append(lagging)


@pytest.mark.parametrize("through", ["graph", "lists"])
@pytest.mark.parametrize("status", [403, 404, 500])
def test_an_unreadable_endpoint_hides_no_other(server: Server, vision: Workspace, run_sweep: Sweep, through: str, status: int):
    vision.endpoint("lost")
    silent(vision, "found", "blue")
    if through == "lists":
        server.rules.append(on("POST", GRAPH, NOT_IN_GRAPH))
    server.rules.append(on("GET", ".*/onlineEndpoints/lost/deployments", error(status, "AuthorizationFailed", "no")))
    result = run_sweep(DEPLOYMENT)
    assert result.verdict("blue") == PROVEN
    assert result.coverage(DEPLOYMENT).status == ("denied" if status == 403 else "partial")


@pytest.mark.parametrize("lacking", ["name", "properties", "id"])
def test_an_unreadable_row_of_computes_hides_no_other(server: Server, vision: Workspace, run_sweep: Sweep, lacking: str):
    for name in ("lost", "found"):
        signals.nodes(vision.cluster(name), active=0, idle=1, since=LONG_AGO)
    server.rules.append(changed(server, "/computes", lambda body: body["value"][0].pop(lacking)))
    result = run_sweep(CLUSTER, INSTANCE)
    assert {name: result.verdict(name) for name in result.findings} == {"found": PROVEN}
    assert (result.coverage(CLUSTER).status, result.coverage(INSTANCE).status) == ("partial", "partial")


@pytest.mark.parametrize("lacking", ["name", "properties", "id"])
@pytest.mark.parametrize("path", ["/onlineEndpoints", "/deployments"])
def test_an_unreadable_row_of_endpoints_hides_no_other(
    server: Server, vision: Workspace, run_sweep: Sweep, path: str, lacking: str
):
    for name in ("lost", "found"):
        silent(vision, f"in-{name}", name)
    silent(vision, "in-lost", "lost")
    server.rules.append(on("POST", GRAPH, NOT_IN_GRAPH))
    where = path if path == "/onlineEndpoints" else "/in-lost/deployments"
    server.rules.append(changed(server, where, lambda body: body["value"][0].pop(lacking)))
    result = run_sweep(DEPLOYMENT)
    assert {name: result.verdict(name) for name in result.findings} == {"found": PROVEN}
    assert result.coverage(DEPLOYMENT).status == "partial"


@pytest.mark.parametrize("path", ["/onlineEndpoints", "/in-lost/deployments"])
def test_a_row_from_elsewhere_is_a_gap_and_hides_no_other(server: Server, vision: Workspace, run_sweep: Sweep, path: str):
    for name in ("lost", "found"):
        silent(vision, f"in-{name}", name)
    server.rules.append(on("POST", GRAPH, NOT_IN_GRAPH))
    server.rules.append(changed(server, path, lambda body: body["value"][0].update(id="/subscriptions/other/odd")))
    result = run_sweep(DEPLOYMENT)
    assert {name: result.verdict(name) for name in result.findings} == {"found": PROVEN}
    assert result.coverage(DEPLOYMENT).status == "partial"


def test_a_workspace_without_an_id_hides_no_other(server: Server, vision: Workspace, run_sweep: Sweep):
    signals.nodes(vision.cluster("found"), active=0, idle=1, since=LONG_AGO)
    server.rules.append(changed(server, "/workspaces", lambda body: body["value"].append({"name": "odd"})))
    result = run_sweep(CLUSTER, DEPLOYMENT)
    assert result.verdict("found") == PROVEN
    assert {c.status for c in result.swept.coverage} == {"partial"}


@pytest.mark.parametrize("type_", [None, "", 7, "absent"])
def test_a_compute_without_a_type_is_a_gap(vision: Workspace, run_sweep: Sweep, type_: object):
    one = vision.cluster("which").set("properties.computeType", type_)
    if type_ == "absent":
        one.without("properties.computeType")
    result = run_sweep(CLUSTER, INSTANCE)
    assert result.findings == {}
    assert all(one.id in result.coverage(kind).error for kind in (CLUSTER, INSTANCE))


def test_a_deleted_endpoint_that_graph_still_shows_is_dropped(server: Server, vision: Workspace, run_sweep: Sweep):
    silent(vision, "search", "blue")
    bare, gone = vision.endpoint("bare"), silent(vision, "past", "green")
    stale_graph(server)
    assert run_sweep(DEPLOYMENT).coverage(DEPLOYMENT).status == "ok"
    bare.remove()
    vision.world.estate.drop(gone.id.partition("/deployments/")[0])
    result = run_sweep(DEPLOYMENT)
    assert {name: result.verdict(name) for name in result.findings} == {"blue": PROVEN}
    assert (result.coverage(DEPLOYMENT).status, result.coverage(DEPLOYMENT).error) == ("ok", None)


@pytest.mark.parametrize("metrics", ["still there", "404 for all", "left out"])
def test_a_deleted_deployment_that_graph_still_shows_is_dropped(
    server: Server, vision: Workspace, run_sweep: Sweep, metrics: str
):
    silent(vision, "search", "blue")
    gone = silent(vision, "past", "green")
    stale_graph(server)
    run_sweep(DEPLOYMENT)
    gone.remove()
    if metrics == "404 for all":
        server.rules.append(on("POST", ".*metrics:getBatch", error(404, "ResourceNotFound", "one is not there")))
    if metrics == "left out":
        drop = lambda body: body.update(values=[one for one in body["values"] if one["resourceid"] != gone.id])  # noqa: E731
        server.rules.append(changed(server, "metrics:getBatch", drop))
    result = run_sweep(DEPLOYMENT)
    assert {name: result.verdict(name) for name in result.findings} == {"blue": PROVEN}
    assert (result.coverage(DEPLOYMENT).status, result.coverage(DEPLOYMENT).error) == ("ok", None)


def test_a_404_about_the_type_drops_no_deployment(server: Server, vision: Workspace, run_sweep: Sweep):
    silent(vision, "search", "blue")
    server.rules.append(on("GET", ".*/deployments/blue", error(404, "InvalidResourceType", "no such type")))
    result = run_sweep(DEPLOYMENT)
    assert (result.state("blue"), result.coverage(DEPLOYMENT).status) == (State.UNKNOWN, "partial")


def test_missing_metrics_of_an_existing_resource_are_a_gap(server: Server, vision: Workspace, run_sweep: Sweep):
    one = silent(vision, "search", "blue")
    for path in (".*metrics:getBatch", f"{one.id}/.*metrics"):
        server.rules.append(on(".*", path, error(404, "ResourceNotFound", "no")))
    result = run_sweep(DEPLOYMENT)
    assert (result.state("blue"), result.coverage(DEPLOYMENT).status) == (State.UNKNOWN, "partial")


def test_a_deployment_denied_at_the_source_is_never_idle(server: Server, vision: Workspace, run_sweep: Sweep):
    silent(vision, "search", "blue")
    server.rules.append(deny("*/onlineEndpoints/deployments/read", ".*/deployments/blue"))
    result = run_sweep(DEPLOYMENT)
    assert (result.idle(), result.coverage(DEPLOYMENT).status) == ([], "denied")


def test_a_truncated_result_without_a_next_page_is_incomplete(server: Server, cloud: CloudSession, vision: Workspace):
    body = {"totalRecords": 1, "resultTruncated": "true", "data": [{"id": vision.id, "name": "vision", "type": "x"}]}
    server.rules.append(on("POST", GRAPH, Fault(answer=lambda r: Reply(body=body))))
    with pytest.raises(CloudError, match="cut off after 1 rows"):
        list(workspaces.list_resources(cloud, "x"))


def test_after_a_truncated_result_the_workspaces_are_read(server: Server, vision: Workspace, run_sweep: Sweep):
    for number in range(3):
        silent(vision, f"e{number}", f"d{number}")

    def cut(body: Any) -> None:
        body.update(data=body["data"][:2], totalRecords=2, resultTruncated="true")

    server.rules.append(changed(server, "/Microsoft.ResourceGraph/resources", cut))
    result = run_sweep(DEPLOYMENT)
    assert (sorted(result.idle()), result.coverage(DEPLOYMENT).status) == (["d0", "d1", "d2"], "ok")


def test_a_deployment_deleted_before_the_closer_look_is_gone(cloud: CloudSession, vision: Workspace):
    one = silent(vision, "search", "blue")
    resource = find_resource(cloud, DEPLOYMENT, "search/blue")
    one.remove()
    order = SweepOrder(policy=parse_policy("version: 1", "policy", registry.kind_names()), now=NOW)
    with pytest.raises(CloudError, match="no longer exists") as caught:
        assess_again(cloud.without_cache(), registry.kind(DEPLOYMENT), resource, order)
    assert caught.value.reason is Reason.GONE


READ_ENDPOINT = "Microsoft.MachineLearningServices/workspaces/onlineEndpoints/read"
READ_DEPLOYMENT = "Microsoft.MachineLearningServices/workspaces/onlineEndpoints/deployments/read"


def test_silent_endpoints_of_a_workspace_are_read_by_one_list(vision: Workspace, run_sweep: Sweep):
    for name in ("blue", "green", "red"):
        silent(vision, "shared", name)
    for number in range(4):
        silent(vision, f"e{number}", f"d{number}")
    result = run_sweep(DEPLOYMENT)
    assert len(result.idle()) == 7
    calls = result.coverage(DEPLOYMENT).calls
    assert (calls[READ_ENDPOINT], calls[READ_DEPLOYMENT]) == (1, 5)


@pytest.mark.parametrize("what", ["fails", "lacks one", "has an odd row"])
def test_what_such_a_list_does_not_show_is_read_alone(server: Server, vision: Workspace, run_sweep: Sweep, what: str):
    for number in range(3):
        silent(vision, f"e{number}", f"d{number}")
    if what == "fails":
        server.rules.append(on("GET", ".*/onlineEndpoints", error(403, "AuthorizationFailed", "no")))
    else:
        odd = {"lacks one": lambda body: body["value"].pop(), "has an odd row": lambda body: body["value"][0].pop("properties")}
        server.rules.append(changed(server, "/onlineEndpoints", odd[what]))
    result = run_sweep(DEPLOYMENT)
    assert (len(result.idle()), result.coverage(DEPLOYMENT).status) == (3, "ok")
    assert result.coverage(DEPLOYMENT).calls[READ_ENDPOINT] == (4 if what == "fails" else 2)


def test_what_only_such_a_list_shows_counts(server: Server, vision: Workspace, run_sweep: Sweep):
    for number in range(3):
        silent(vision, f"e{number}", f"d{number}")
    stale_graph(server)
    run_sweep(DEPLOYMENT)
    find = vision.world.estate.find
    find(f"{vision.id}/onlineEndpoints/e0")["properties"]["provisioningState"] = "Updating"
    find(f"{vision.id}/onlineEndpoints/e1")["tags"] = {"reaper:keep": "true"}
    result = run_sweep(DEPLOYMENT)
    assert [result.state(f"d{number}") for number in range(3)] == [State.YOUNG, State.EXEMPT, State.IDLE]


def reads(server: Server) -> list[tuple[str, set[str]]]:
    """The day on which each batch of metrics begins, and the names of the deployments in it."""
    batches = [request for request in server.requests if request.path.endswith("metrics:getBatch")]
    return [(r.query["starttime"][:10], {i.rpartition("/")[2] for i in r.body["resourceids"]}) for r in batches]


def test_only_what_was_silent_is_read_over_the_whole_window(server: Server, vision: Workspace, run_sweep: Sweep):
    for number in range(50):
        used = vision.endpoint(f"busy-{number}").deployment(f"used-{number}")
        signals.requests(used, 1, since=LONG_AGO, until=NOW - 5 * HOUR)
    silent(vision, "search", "blue")
    unread = silent(vision, "odd", "green")
    server.metrics.fail(unread.id, "RequestsPerMinute")
    result = run_sweep(DEPLOYMENT)
    assert {result.state(f"used-{number}") for number in range(50)} == {State.ACTIVE}
    assert (result.verdict("blue"), result.state("green")) == (PROVEN, State.UNKNOWN)
    assert result.coverage(DEPLOYMENT).status == "partial"
    first, second, whole = reads(server)
    assert (first[0], second[0], len(first[1] | second[1])) == ("2026-11-20", "2026-11-20", 52)
    # A second reply wouldn't make an incomplete one whole.
    assert whole == ("2026-11-07", {"blue"})


def test_what_fits_into_one_call_is_read_over_the_whole_window_at_once(server: Server, vision: Workspace, run_sweep: Sweep):
    silent(vision, "search", "blue")
    assert run_sweep(DEPLOYMENT).verdict("blue") == PROVEN
    assert reads(server) == [("2026-11-07", {"blue"})]
