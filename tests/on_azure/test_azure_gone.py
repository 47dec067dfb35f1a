"""Gone is only what a 404 says so of: any other answer about a resource leaves it unknown, and says so."""

from __future__ import annotations

import pytest

from fakes.sweeps import SweepOrder, assess_again
from on_azure.conftest import CLUSTER, DEPLOYMENT, INSTANCE, LONG_AGO, NOW, Sweep
from on_azure.prepared_actions import find_resource, prepare_action
from reaper import registry
from reaper.azure import deployments
from reaper.azure.session import CloudSession
from reaper.errors import CloudError, Reason
from reaper.model import State
from reaper.policy.parse import parse_policy
from reaper_sandbox.azure import signals
from reaper_sandbox.azure.fault import Fault, error, on
from reaper_sandbox.azure.request import Reply
from reaper_sandbox.azure.server import Server
from reaper_sandbox.azure.subscription import Subscription, Workspace

PAGE = Fault(answer=lambda request: Reply(status=404, body=b"<html>404 page not found</html>"))
NOT_OF_IT = {
    "a proxy's page": PAGE,
    "no body": Fault(answer=lambda request: Reply(status=404, body=b"")),
    "the subscription": error(404, "SubscriptionNotFound", "The subscription could not be found."),
    "the version": error(404, "InvalidApiVersionParameter", "x"),
    "the group": error(404, "ResourceGroupNotFound", "x"),
    "the route": error(404, "UserError", "no such route"),
    "another resource": error(404, "UserError", "Environment train was not found"),
    "a part of its name": error(404, "UserError", "Deployment deep-blue was not found"),
    "what its workspace needs": error(
        404, "ResourceNotFound", "The Resource 'Microsoft.KeyVault/vaults/kv' under resource group 'ml' was not found."
    ),
    "what it needs, in Azure ML's words": error(404, "UserError", "The environment of deployment blue does not exist"),
    "a server error": error(500, "NotFound", "x"),
    "a bad request": error(400, "ResourceNotFound", "x"),
}
OF_IT = {
    "it": error(404, "ResourceNotFound", "The Resource 'Microsoft.MachineLearningServices/workspaces/vision' was not found."),
    "it, briefly": error(404, "NotFound", "x"),
    "what it hangs below": error(404, "ParentResourceNotFound", "x"),
    "it, in Azure ML's words": error(404, "UserError", "Deployment blue could not be found in endpoint search."),
}


def silent(space: Workspace) -> None:
    signals.capacity(space.endpoint("search").deployment("blue"), since=LONG_AGO)


@pytest.mark.parametrize("fault", NOT_OF_IT.values(), ids=NOT_OF_IT)
def test_a_404_about_something_else_makes_a_deployment_unknown(server: Server, vision: Workspace, run_sweep: Sweep, fault: Fault):
    silent(vision)
    server.rules.append(on("GET", ".*/deployments/blue", fault))
    result = run_sweep(DEPLOYMENT)
    assert (result.state("blue"), result.coverage(DEPLOYMENT).status) == (State.UNKNOWN, "partial")


@pytest.mark.parametrize("fault", OF_IT.values(), ids=OF_IT)
def test_a_deleted_deployment_is_dropped(server: Server, vision: Workspace, run_sweep: Sweep, fault: Fault):
    silent(vision)
    server.rules.append(on("GET", ".*/deployments/blue", fault))
    result = run_sweep(DEPLOYMENT)
    assert (result.findings, result.coverage(DEPLOYMENT).status) == ({}, "ok")


def test_computes_are_not_hidden_by_a_foreign_404(server: Server, vision: Workspace, run_sweep: Sweep):
    signals.nodes(vision.cluster("gpus"), active=0, idle=1, since=LONG_AGO)
    server.rules.append(on("GET", ".*/workspaces/vision(/computes)?", PAGE))
    assert run_sweep(CLUSTER).coverage(CLUSTER).status == "partial"


def test_endpoints_are_not_hidden_by_a_foreign_404(server: Server, vision: Workspace, run_sweep: Sweep):
    silent(vision)
    server.rules.append(on("POST", ".*ResourceGraph/resources", error(500)))
    server.rules.append(on("GET", ".*/onlineEndpoints/search(/deployments.*)?", PAGE))
    assert run_sweep(DEPLOYMENT).coverage(DEPLOYMENT).status == "partial"


def test_a_foreign_404_does_not_mean_gone_for_an_action(server: Server, cloud: CloudSession, vision: Workspace):
    vision.instance("ada")
    act = prepare_action(cloud, INSTANCE, "ada")
    server.rules.append(on(".*", ".*/computes/ada.*", PAGE))
    assert "404 page not found" in act.withdrawn()


def _again(cloud: CloudSession, name: str) -> CloudError:
    kind, order = (
        registry.kind(CLUSTER),
        SweepOrder(policy=parse_policy("version: 1", "policy", registry.kind_names()), now=NOW),
    )
    with pytest.raises(CloudError) as caught:
        assess_again(
            cloud.without_cache(),
            kind,
            registry.action_functions(CLUSTER).read_now(cloud.without_cache(), find_resource(cloud, CLUSTER, name)),
            order,
        )
    return caught.value


@pytest.mark.parametrize("path", [".*/project/jobs", ".*/microsoft.insights/metrics"], ids=["jobs", "metrics"])
def test_a_404_beside_a_cluster_does_not_mean_it_is_gone(
    server: Server, cloud: CloudSession, subscription: Subscription, path: str
):
    hub = subscription.workspace("hub", kind="Hub")
    signals.nodes(hub.cluster("gpus"), active=0, idle=1, since=LONG_AGO)
    subscription.workspace("project", kind="Project").under(hub)
    if "metrics" in path:
        server.rules.append(on("POST", ".*metrics:getBatch", error(404, "ResourceNotFound", "x")))
    server.rules.append(on("GET", path, error(404, "ResourceNotFound", "x")))
    failed = _again(cloud, "gpus")
    assert (failed.reason, failed.code) == (Reason.PARTIAL, "ResourceNotFound")


@pytest.mark.parametrize("path", ["/subscriptions/[^/]+/providers/.*/workspaces", ".*/workspaces/vision"], ids=["list", "own"])
def test_a_missing_workspace_does_not_mean_its_cluster_is_gone(server: Server, cloud: CloudSession, vision: Workspace, path: str):
    signals.nodes(vision.cluster("gpus"), active=0, idle=1, since=LONG_AGO)
    one = find_resource(cloud, CLUSTER, "gpus")
    server.rules.append(on("GET", path, error(404, "ResourceNotFound", "x")))
    with pytest.raises(CloudError) as caught:
        registry.action_functions(CLUSTER).read_now(cloud.without_cache(), one)
    assert caught.value.reason is Reason.PARTIAL


@pytest.mark.parametrize("path", [".*/search/deployments", ".*/onlineEndpoints/search"], ids=["its siblings", "its endpoint"])
def test_a_404_around_a_deployment_does_not_mean_it_is_gone(server: Server, cloud: CloudSession, vision: Workspace, path: str):
    silent(vision)
    one = find_resource(cloud, DEPLOYMENT, "search/blue")
    server.rules.append(on("GET", path, error(404, "NotFound", "x")))
    with pytest.raises(CloudError) as caught:
        deployments.read_now(cloud.without_cache(), one)
    assert caught.value.reason is Reason.PARTIAL
