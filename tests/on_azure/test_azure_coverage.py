"""What goes wrong in one place is reported with the missing action and scope, and never hides or spoils the rest."""

from __future__ import annotations

import pytest

from on_azure.conftest import CLUSTER, DAY, DEPLOYMENT, INSTANCE, LIKELY, LONG_AGO, NOW, OTHER, PROVEN, SUB, Sweep
from reaper import registry
from reaper.errors import CloudError
from reaper_sandbox.azure import signals
from reaper_sandbox.azure.fault import cut, empty, error, garbage, latency, on, throttled
from reaper_sandbox.azure.rights import deny, only
from reaper_sandbox.azure.server import Server
from reaper_sandbox.azure.subscription import Subscription, Workspace

ML = "Microsoft.MachineLearningServices"
METRICS = "Microsoft.Insights/metrics/read"


@pytest.fixture
def fleet(subscription: Subscription, vision: Workspace) -> None:
    """One idle thing of each kind in `vision`, and an idle cluster in each of another workspace and another subscription."""
    furnish(vision)
    for name, home in (("speech", subscription), ("planning", Subscription(subscription.world, OTHER))):
        signals.nodes(home.workspace(name).cluster(f"in-{name}"), active=0, idle=1, since=LONG_AGO)


def furnish(space: Workspace) -> None:
    signals.nodes(space.cluster("gpus"), active=0, idle=1, since=LONG_AGO)
    space.instance("ci", started=NOW - 30 * DAY)
    one = space.endpoint("search").deployment("blue")
    signals.requests(one, 0, since=LONG_AGO)
    signals.capacity(one, since=LONG_AGO)


@pytest.mark.usefixtures("fleet")
def test_the_fault_fleet_is_idle_without_faults(run_sweep: Sweep):
    result = run_sweep()
    assert (result.verdict("gpus"), result.verdict("ci"), result.verdict("blue")) == (PROVEN, LIKELY, PROVEN)
    assert {c.status for c in result.swept.coverage} == {"ok"}


@pytest.mark.usefixtures("fleet")
def test_a_denied_workspace_is_a_gap_and_hides_no_other(server: Server, run_sweep: Sweep):
    server.rules.append(deny(f"{ML}/workspaces/computes/read", ".*/workspaces/vision"))
    result = run_sweep()
    coverage = result.coverage(CLUSTER)
    assert sorted(result.idle()) == ["blue", "in-planning", "in-speech"]
    assert (coverage.status, coverage.missing) == ("denied", f"{ML}/workspaces/computes/read")
    assert f"/subscriptions/{SUB}/resourceGroups/ml/providers/{ML}/workspaces/vision" in coverage.error
    assert result.coverage(CLUSTER, OTHER).status == "ok"


@pytest.mark.usefixtures("fleet")
def test_a_denied_subscription_is_denied_and_not_empty(server: Server, run_sweep: Sweep):
    server.world.unreadable.add(OTHER)
    result = run_sweep(subscriptions=(SUB, OTHER))
    lost = [c for c in result.swept.coverage if c.account == OTHER]
    assert {(c.status, c.missing) for c in lost} == {("denied", "Microsoft.Resources/subscriptions/read")}
    assert all(f"/subscriptions/{OTHER}" in c.error for c in lost)
    assert "gpus" in result.idle()


@pytest.mark.usefixtures("fleet")
def test_a_subscription_that_does_not_exist_is_denied_and_not_empty(run_sweep: Sweep):
    result = run_sweep(subscriptions=("33333333-3333-3333-3333-333333333333",))
    assert {(c.status, c.missing) for c in result.swept.coverage} == {("denied", "Microsoft.Resources/subscriptions/read")}


@pytest.mark.usefixtures("fleet")
def test_without_a_list_of_subscriptions_only_the_readable_ones_are_swept(server: Server, run_sweep: Sweep):
    server.world.unreadable.add(OTHER)
    assert {c.account for c in run_sweep().swept.coverage} == {SUB}


def test_an_identity_without_any_subscription_is_an_error(server: Server, run_sweep: Sweep):
    with pytest.raises(CloudError, match="can't read any subscription") as caught:
        run_sweep()
    assert caught.value.missing == "Microsoft.Resources/subscriptions/read"


@pytest.mark.usefixtures("fleet")
def test_visible_workspaces_are_judged_if_the_list_is_denied(server: Server, run_sweep: Sweep):
    server.rules.append(deny(f"{ML}/workspaces/read", f"/subscriptions/{SUB}"))
    result = run_sweep()
    assert result.verdict("gpus") == PROVEN
    assert {result.coverage(kind).missing for kind in (CLUSTER, INSTANCE, DEPLOYMENT)} == {f"{ML}/workspaces/read"}


@pytest.mark.usefixtures("fleet")
def test_metrics_are_read_singly_if_batches_are_denied(server: Server, run_sweep: Sweep):
    server.rules.append(deny(METRICS, "/subscriptions/[^/]+"))
    result = run_sweep()
    assert (result.verdict("gpus"), result.verdict("blue")) == (PROVEN, PROVEN)
    assert {c.status for c in result.swept.coverage} == {"ok"}
    calls = result.coverage(CLUSTER).calls
    assert (calls[METRICS], calls.get(f"{METRICS} (batch)", 0) <= 1) == (2, True)


@pytest.mark.usefixtures("fleet")
def test_coverage_counts_batch_calls_apart(run_sweep: Sweep):
    calls = run_sweep().coverage(CLUSTER).calls
    assert (calls[f"{METRICS} (batch)"], METRICS in calls) == (1, False)


@pytest.mark.usefixtures("fleet")
def test_a_throttle_with_retry_after_is_waited_for(server: Server, run_sweep: Sweep):
    server.rules.append(on("GET", ".*/computes", throttled(1), times=1))
    server.rules.append(on("POST", ".*", throttled(1), times=1))
    result = run_sweep()
    assert {c.status for c in result.swept.coverage} == {"ok"}
    assert "gpus" in result.idle()


@pytest.mark.usefixtures("fleet")
def test_a_retry_after_of_an_hour_is_a_failure(server: Server, run_sweep: Sweep):
    server.rules.append(on("POST", ".*metrics:getBatch", throttled(3600)))
    result = run_sweep(CLUSTER)
    assert result.idle() == []
    assert "still throttled" in result.coverage(CLUSTER).error


@pytest.mark.usefixtures("fleet")
@pytest.mark.parametrize(
    ("fault", "alone"),
    [(error(503, "ServerBusy"), True), (garbage(), False), (empty(), False), (cut(), True)],
    ids=["503", "garbage", "empty", "cut off"],
)
@pytest.mark.parametrize("path", [".*metrics:getBatch", ".*/workspaces/vision/computes", ".*/workspaces/vision/jobs"])
def test_a_lasting_fault_is_reported_and_proves_nothing_idle(server: Server, run_sweep: Sweep, path: str, fault, alone: bool):
    server.rules.append(on(".*", path, fault))
    if alone and "getBatch" in path:
        server.rules.append(deny(METRICS))
    result = run_sweep(CLUSTER)
    assert result.coverage(CLUSTER).status in {"partial", "denied"}
    assert "gpus" not in result.idle()
    assert (result.idle() == []) is ("getBatch" in path)


@pytest.mark.usefixtures("fleet")
def test_a_passing_server_error_is_retried(server: Server, run_sweep: Sweep):
    for path in (".*/computes", ".*/jobs", ".*metrics:getBatch", ".*/resources"):
        server.rules.append(on(".*", path, error(503, "ServerBusy"), times=1))
    assert {c.status for c in run_sweep().swept.coverage} == {"ok"}


@pytest.mark.usefixtures("fleet")
def test_slow_replies_change_no_verdict(server: Server, run_sweep: Sweep):
    server.rules.append(on(".*", ".*", latency(0.3)))
    assert {c.status for c in run_sweep().swept.coverage} == {"ok"}


@pytest.mark.usefixtures("fleet")
def test_an_unregistered_provider_means_empty_and_is_not_registered(server: Server, run_sweep: Sweep):
    text = f"The subscription is not registered to use namespace '{ML}'."
    server.rules.append(on("GET", f"/subscriptions/{OTHER}/providers/.*", error(409, "MissingSubscriptionRegistration", text)))
    result = run_sweep(subscriptions=(OTHER,))
    assert {(c.status, c.resources) for c in result.swept.coverage} == {("ok", 0)}
    assert server.mutations == []


@pytest.mark.usefixtures("fleet")
def test_the_deployed_audit_role_is_sufficient(server: Server, run_sweep: Sweep):
    server.rules.append(only(*{p for kind in registry.kinds("azure") for p in kind.permissions}))
    assert {c.status for c in run_sweep().swept.coverage} == {"ok"}


@pytest.mark.usefixtures("fleet")
def test_faults_never_lead_to_a_change(server: Server, run_sweep: Sweep):
    server.rules.append(on("GET", ".*/jobs", error(501)))
    server.rules.append(on("POST", ".*metrics:getBatch", garbage()))
    run_sweep()
    assert server.mutations == []
