from __future__ import annotations

import pytest

from on_azure.conftest import DAY, DEPLOYMENT, HOUR, LONG_AGO, NOW, OTHER, PROVEN, SUB, Sweep
from reaper.model import State
from reaper_sandbox.azure import signals
from reaper_sandbox.azure.fault import empty, on
from reaper_sandbox.azure.request import Request
from reaper_sandbox.azure.rights import deny
from reaper_sandbox.azure.server import Server
from reaper_sandbox.azure.subscription import Thing, Workspace


def silent(vision: Workspace, endpoint: str = "search", name: str = "blue", **setup: object) -> Thing:
    """A deployment with zero requests a minute on machines that are alive."""
    one = vision.endpoint(endpoint).deployment(name, **setup)
    signals.requests(one, 0, since=LONG_AGO)
    signals.capacity(one, since=LONG_AGO)
    return one


def test_zero_requests_with_a_heartbeat_prove_a_deployment_idle(vision: Workspace, run_sweep: Sweep):
    silent(vision, size="Standard_NC6s_v3", capacity=3)
    result = run_sweep(DEPLOYMENT)
    finding = result.findings["blue"]
    assert result.verdict("blue") == PROVEN
    assert (finding.case.resource.name, finding.case.resource.size) == ("search/blue", "Standard_NC6s_v3 x3")
    assert finding.case.price.usd_per_hour == pytest.approx(3 * 3.823)


def test_requests_make_a_deployment_active(vision: Workspace, run_sweep: Sweep):
    one = vision.endpoint("search").deployment("blue")
    signals.requests(one, 0.2, since=LONG_AGO)
    signals.capacity(one, since=LONG_AGO)
    result = run_sweep(DEPLOYMENT)
    assert result.state("blue") is State.ACTIVE
    assert result.findings["blue"].case.verdict.last_busy <= NOW


def test_no_request_series_with_a_heartbeat_is_silence(vision: Workspace, run_sweep: Sweep):
    signals.capacity(vision.endpoint("search").deployment("blue"), since=LONG_AGO)
    assert run_sweep(DEPLOYMENT).verdict("blue") == PROVEN


def test_requests_without_values_with_a_heartbeat_are_silence(vision: Workspace, run_sweep: Sweep):
    one = vision.endpoint("search").deployment("blue")
    signals.valueless_requests(one)
    signals.capacity(one, since=LONG_AGO)
    assert run_sweep(DEPLOYMENT).verdict("blue") == PROVEN


def test_use_before_points_lost_their_values_is_reported(vision: Workspace, run_sweep: Sweep):
    one = vision.endpoint("search").deployment("blue")
    signals.requests(one, 4, since=LONG_AGO, until=NOW - 3 * DAY)
    signals.capacity(one, since=LONG_AGO)
    verdict = run_sweep(DEPLOYMENT).findings["blue"].case.verdict
    assert (verdict.state, verdict.confidence) == PROVEN
    assert NOW - 3 * DAY <= verdict.last_busy <= NOW - 3 * DAY + HOUR
    assert 3 * DAY - HOUR <= verdict.idle_for <= 3 * DAY


def test_recent_use_counts_although_later_points_have_no_value(vision: Workspace, run_sweep: Sweep):
    one = vision.endpoint("search").deployment("blue")
    signals.requests(one, 4, since=LONG_AGO, until=NOW - 5 * HOUR)
    signals.capacity(one, since=LONG_AGO)
    assert run_sweep(DEPLOYMENT).state("blue") is State.ACTIVE


def test_an_hour_without_heartbeat_proves_nothing_before_it(vision: Workspace, run_sweep: Sweep):
    one, hour = vision.endpoint("search").deployment("blue"), NOW.replace(minute=0) - 9 * HOUR
    signals.valueless_requests(one)
    signals.capacity(one, since=LONG_AGO, until=hour)
    signals.capacity(one, since=hour + HOUR)
    assert run_sweep(DEPLOYMENT).state("blue") is State.UNKNOWN
    verdict = run_sweep(DEPLOYMENT, policy="version: 1\ndefaults: {idle_after: 6h}").findings["blue"].case.verdict
    assert (verdict.state, verdict.idle_for <= 9 * HOUR) == (State.IDLE, True)


def test_a_deployment_without_any_value_is_unknown(vision: Workspace, run_sweep: Sweep):
    one = vision.endpoint("search").deployment("blue")
    signals.valueless_requests(one)
    signals.valueless_capacity(one)
    assert run_sweep(DEPLOYMENT).state("blue") is State.UNKNOWN


@pytest.mark.parametrize("until", [None, NOW - 2 * DAY], ids=["never there", "down for two days"])
def test_a_deployment_without_any_metric_is_unknown(vision: Workspace, run_sweep: Sweep, until: object):
    one = vision.endpoint("search").deployment("blue")
    if until:
        signals.requests(one, 0, since=LONG_AGO, until=until)
        signals.capacity(one, since=LONG_AGO, until=until)
    assert run_sweep(DEPLOYMENT).state("blue") is State.UNKNOWN


def test_either_heartbeat_of_a_deployment_is_enough(server: Server, vision: Workspace, run_sweep: Sweep):
    one = silent(vision)
    server.metrics.forget(one.id, "CpuUtilizationPercentage")
    assert run_sweep(DEPLOYMENT).verdict("blue") == PROVEN


def test_an_error_code_of_one_metric_makes_the_reply_incomplete(server: Server, vision: Workspace, run_sweep: Sweep):
    server.metrics.fail(silent(vision).id, "RequestsPerMinute")
    result = run_sweep(DEPLOYMENT)
    assert result.state("blue") is State.UNKNOWN
    assert (result.coverage(DEPLOYMENT).status, "ServiceUnavailable" in result.coverage(DEPLOYMENT).error) == ("partial", True)


def test_a_leftover_without_traffic_is_idle_beside_an_active_one(vision: Workspace, run_sweep: Sweep):
    endpoint = vision.endpoint("search")
    for name, share in {"blue": 0, "green": 9}.items():
        one = endpoint.deployment(name)
        signals.requests(one, share, since=LONG_AGO)
        signals.capacity(one, since=LONG_AGO)
    endpoint.traffic(blue=0, green=100)
    result = run_sweep(DEPLOYMENT)
    assert (result.verdict("blue"), result.state("green")) == (PROVEN, State.ACTIVE)
    assert result.findings["blue"].case.resource.status == "Succeeded, 0% of the traffic"


@pytest.mark.parametrize("shares", [{"blue": None}, {"blue": "all"}, ["blue"], "blue", {"blue": True}])
def test_an_invalid_traffic_share_drops_no_deployment(vision: Workspace, run_sweep: Sweep, shares: object):
    silent(vision)
    vision.world.estate.find(f"{vision.id}/onlineEndpoints/search")["properties"]["traffic"] = shares
    result = run_sweep(DEPLOYMENT)
    assert result.verdict("blue") == PROVEN
    assert (result.findings["blue"].case.resource.status, result.coverage(DEPLOYMENT).status) == ("Succeeded", "ok")


def test_unreadable_workspace_tags_make_no_deployment_idle(vision: Workspace, run_sweep: Sweep):
    silent(vision)
    vision.set("properties.hubResourceId", 7)
    result = run_sweep(DEPLOYMENT)
    assert (result.state("blue"), result.coverage(DEPLOYMENT).status) == (State.UNKNOWN, "partial")


@pytest.mark.parametrize("capacity", [True, False, -3, "2", 1.5])
def test_an_invalid_instance_count_has_no_price(vision: Workspace, run_sweep: Sweep, capacity: object):
    silent(vision).set("sku.capacity", capacity)
    result = run_sweep(DEPLOYMENT)
    assert (result.verdict("blue"), result.findings["blue"].case.price) == (PROVEN, None)


def test_a_failed_deployment_with_instances_is_judged_by_metrics(vision: Workspace, run_sweep: Sweep):
    silent(vision, "a", "alive").set("properties.provisioningState", "Failed")
    vision.endpoint("b").deployment("dead").set("properties.provisioningState", "Failed")
    result = run_sweep(DEPLOYMENT)
    assert (result.verdict("alive"), result.state("dead")) == (PROVEN, State.UNKNOWN)


@pytest.mark.parametrize("sku", [None, {"name": "Default", "capacity": 0}], ids=["no sku", "capacity 0"])
def test_a_failed_deployment_without_instances_is_exempt(vision: Workspace, run_sweep: Sweep, sku: object):
    vision.endpoint("search").deployment("blue").set("properties.provisioningState", "Failed").set("sku", sku)
    assert run_sweep(DEPLOYMENT).state("blue") is State.EXEMPT


def test_a_deployment_on_kubernetes_is_exempt(vision: Workspace, run_sweep: Sweep):
    aks = vision.kubernetes("aks")
    vision.endpoint("own", kubernetes=aks.id).deployment("blue", capacity=2)
    assert run_sweep(DEPLOYMENT).state("blue") is State.EXEMPT


def test_a_new_or_changed_deployment_is_young(vision: Workspace, run_sweep: Sweep):
    silent(vision, "a", "new", created=NOW - 2 * HOUR)
    silent(vision, "b", "changed").body["systemData"]["lastModifiedAt"] = "2026-11-21T09:00:00.1234567Z"
    result = run_sweep(DEPLOYMENT)
    assert (result.state("new"), result.state("changed")) == (State.YOUNG, State.YOUNG)


def test_a_deployments_age_is_read_at_the_source_if_graph_lacks_it(server: Server, vision: Workspace, run_sweep: Sweep):
    server.world.graph.system_data = False
    silent(vision)
    assert run_sweep(DEPLOYMENT).verdict("blue") == PROVEN


def test_tags_of_endpoint_and_workspace_protect_a_deployment(vision: Workspace, run_sweep: Sweep):
    silent(vision, "kept")
    one = vision.world.estate.find(f"{vision.id}/onlineEndpoints/kept")
    one["tags"] = {"reaper:keep-until": "2027-01-01"}
    assert run_sweep(DEPLOYMENT).state("blue") is State.EXEMPT


@pytest.mark.parametrize(
    ("own", "outer"),
    [
        ({"reaper:keep-until": "2026-01-01"}, {"Reaper:Keep-Until": "2027-01-01"}),
        ({"reaper:action": "stop"}, {"reaper:action": "ignore"}),
    ],
)
@pytest.mark.parametrize("where", ["endpoint", "workspace"])
def test_its_own_tag_hides_none_that_protects_it_more(
    vision: Workspace, run_sweep: Sweep, where: str, own: dict[str, str], outer: dict[str, str]
):
    silent(vision).tagged(own)
    if where == "workspace":
        vision.tagged(outer)
    vision.world.estate.find(f"{vision.id}/onlineEndpoints/search")["tags"] = outer if where == "endpoint" else own
    assert run_sweep(DEPLOYMENT).state("blue") is State.EXEMPT


def test_a_tag_unknown_to_resource_graph_protects(server: Server, vision: Workspace, run_sweep: Sweep):
    one = silent(vision)

    def tag_meanwhile(request: Request) -> None:
        if request.path.endswith("/deployments/blue"):
            one.tagged({"reaper:keep": "true"})

    server.rules.append(tag_meanwhile)
    assert run_sweep(DEPLOYMENT).state("blue") is State.EXEMPT


def test_deployments_missing_from_graph_are_read_from_the_workspace(server: Server, vision: Workspace, run_sweep: Sweep):
    silent(vision)
    server.rules.append(on("POST", ".*/Microsoft.ResourceGraph/resources", empty()))
    result = run_sweep(DEPLOYMENT)
    assert result.verdict("blue") == PROVEN
    assert result.coverage(DEPLOYMENT).status == "ok"


def test_denied_endpoints_are_a_gap_although_graph_is_silent(server: Server, vision: Workspace, run_sweep: Sweep):
    silent(vision)
    server.rules.append(deny("Microsoft.MachineLearningServices/workspaces/onlineEndpoints*", ".*/workspaces/vision.*"))
    coverage = run_sweep(DEPLOYMENT).coverage(DEPLOYMENT)
    assert (coverage.status, coverage.resources) == ("denied", 0)
    assert coverage.missing == "Microsoft.MachineLearningServices/workspaces/onlineEndpoints/read"


def test_all_pages_of_resource_graph_are_read(server: Server, vision: Workspace, run_sweep: Sweep):
    server.world.graph.page_size = 7
    for n in range(12):
        silent(vision, f"e{n:02}", f"d{n:02}")
    assert len(run_sweep(DEPLOYMENT).idle()) == 12


def test_metrics_are_read_at_each_subscription_and_region(server: Server, run_sweep: Sweep):
    for sub, region in ((SUB, "westeurope"), (SUB, "eastus"), (OTHER, "uksouth")):
        silent(server.subscription(sub).workspace(f"ws-{region}", region=region), "e", f"in-{region}")
    result = run_sweep(DEPLOYMENT)
    assert sorted(result.idle()) == ["in-eastus", "in-uksouth", "in-westeurope"]
    assert {f.case.resource.region for f in result.swept.findings} == {"eastus", "uksouth", "westeurope"}


def test_a_busy_fleet_takes_one_metrics_call_per_fifty(vision: Workspace, run_sweep: Sweep):
    for n in range(120):
        one = vision.endpoint(f"e{n:03}").deployment(f"d{n:03}")
        signals.requests(one, 1, since=LONG_AGO)
        signals.capacity(one, since=LONG_AGO)
    result = run_sweep(DEPLOYMENT)
    assert len(result.findings) == 120
    assert result.calls(DEPLOYMENT) <= 6
