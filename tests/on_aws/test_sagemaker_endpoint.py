from __future__ import annotations

from datetime import timedelta

import pytest

from on_aws.conftest import DAY, HOUR, NOW, Sweep
from reaper.model import Confidence, State
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.fault import Fault, cut, denied, empty, error, on, partial, throttled
from reaper_sandbox.aws.records import Variant
from reaper_sandbox.aws.server import Server

KIND = "sagemaker-endpoint"
LONG_AGO = NOW - 15 * DAY


def silent(account: Account, name: str = "quiet", *, variants: tuple[str, ...] = ("AllTraffic",), **setup: object) -> None:
    """An endpoint that nobody has called for as long as anybody can tell, with every variant's heartbeat alive."""
    account.endpoint(name, variants=[Variant(name=v, instance="ml.g5.xlarge") for v in variants], **setup)
    for variant in variants:
        account.alive(name, variant, LONG_AGO, NOW)


def test_silence_with_a_live_heartbeat_is_proven_idle_and_priced(account: Account, run_sweep: Sweep):
    silent(account, tags={"owner": "a@example.com"})
    finding = run_sweep(KIND, policy="{version: 1, owners: {domains: [example.com]}}").findings["quiet"]
    assert (finding.case.verdict.state, finding.case.verdict.confidence) == (State.IDLE, Confidence.PROVEN)
    assert (finding.case.price.usd_per_hour, finding.case.resource.size) == (1.408, "ml.g5.xlarge x1")
    assert finding.wasted_usd == pytest.approx(1.408 * 14 * 24, rel=0.01)
    assert (finding.step.name, finding.outcome.result, finding.case.owner.address) == ("warn", "planned", "a@example.com")


def test_zero_valued_points_are_silence(account: Account, run_sweep: Sweep):
    silent(account)
    account.steady("AWS/SageMaker", "Invocations", {"EndpointName": "quiet", "VariantName": "AllTraffic"}, LONG_AGO, NOW, 0)
    assert run_sweep(KIND).state("quiet") is State.IDLE


def test_traffic_on_the_second_variant_counts(account: Account, run_sweep: Sweep):
    silent(account, variants=("a", "b"))
    account.invoked("quiet", "b", NOW - 3 * HOUR)
    assert run_sweep(KIND).state("quiet") is State.ACTIVE


def test_traffic_on_a_shadow_variant_counts(account: Account, run_sweep: Sweep):
    account.endpoint("quiet", shadows=[Variant(name="shadow")])
    for variant in ("AllTraffic", "shadow"):
        account.alive("quiet", variant, LONG_AGO, NOW)
    account.invoked("quiet", "shadow", NOW - 3 * HOUR)
    assert run_sweep(KIND).state("quiet") is State.ACTIVE


def test_a_variant_whose_heartbeat_is_missing_keeps_the_endpoint_unknown(account: Account, run_sweep: Sweep):
    silent(account, variants=("a",))
    account.endpoint("quiet", variants=[Variant(name="a"), Variant(name="b")])
    assert run_sweep(KIND).state("quiet") is State.UNKNOWN


def test_a_replaced_variant_does_not_keep_an_endpoint_unknown(account: Account, run_sweep: Sweep):
    silent(account)
    account.alive("quiet", "replaced-a-week-ago", LONG_AGO, NOW - 7 * DAY)
    assert run_sweep(KIND).state("quiet") is State.IDLE


@pytest.mark.parametrize(
    ("since", "until"),
    [
        pytest.param(NOW - 10 * HOUR, NOW, id="began late"),
        pytest.param(LONG_AGO, NOW - 3 * HOUR, id="stopped early"),
        pytest.param(NOW, NOW, id="missing"),
    ],
)
def test_a_heartbeat_that_does_not_cover_the_silence_gives_unknown(account: Account, run_sweep: Sweep, since, until):
    account.endpoint("quiet")
    account.alive("quiet", "AllTraffic", since, until)
    assert run_sweep(KIND).state("quiet") is State.UNKNOWN


def test_a_heartbeat_with_a_gap_gives_unknown(account: Account, run_sweep: Sweep):
    account.endpoint("quiet")
    account.alive("quiet", "AllTraffic", LONG_AGO, NOW - 9 * HOUR)
    account.alive("quiet", "AllTraffic", NOW - 6 * HOUR, NOW)
    assert run_sweep(KIND).state("quiet") is State.UNKNOWN


@pytest.mark.parametrize(
    ("metric", "dimensions"),
    [
        ("ApproximateBacklogSize", {"EndpointName": "batch"}),
        ("InvocationsProcessed", {"EndpointName": "batch", "VariantName": "AllTraffic"}),
        ("InvocationsProcesssed", {"EndpointName": "batch", "VariantName": "AllTraffic"}),
        ("InvocationFailures", {"EndpointName": "batch", "VariantName": "AllTraffic"}),
        ("ModelLatency", {"EndpointName": "batch", "VariantName": "AllTraffic"}),
    ],
)
def test_an_asynchronous_endpoint_is_busy_without_invocations(account: Account, run_sweep: Sweep, metric: str, dimensions: dict):
    silent(account, "batch", asynchronous=True)
    account.points("AWS/SageMaker", metric, dimensions, [(NOW - 2 * HOUR, 4)])
    assert run_sweep(KIND).state("batch") is State.ACTIVE


def test_a_silent_async_endpoint_is_idle_at_its_own_price(account: Account, run_sweep: Sweep):
    silent(account, "batch", asynchronous=True)
    finding = run_sweep(KIND).findings["batch"]
    assert finding.case.verdict.state is State.IDLE
    assert finding.case.resource.parts[0].component == "AsyncInf"


def test_an_asynchronous_endpoint_scaled_to_zero_is_exempt(account: Account, run_sweep: Sweep):
    account.endpoint("batch", asynchronous=True, variants=[Variant(count=0)])
    assert run_sweep(KIND).state("batch") is State.EXEMPT


def test_serverless_is_exempt_and_provisioned_concurrency_likely(account: Account, run_sweep: Sweep):
    account.endpoint("free", variants=[Variant(memory_mb=2048)])
    account.endpoint("kept-warm", variants=[Variant(memory_mb=2048, provisioned=2)])
    account.endpoint("warm-and-used", variants=[Variant(memory_mb=2048, provisioned=2)])
    account.invoked("warm-and-used", "AllTraffic", NOW - 2 * HOUR)
    result = run_sweep(KIND)
    assert (result.state("free"), result.state("warm-and-used")) == (State.EXEMPT, State.ACTIVE)
    finding = result.findings["kept-warm"]
    assert (finding.case.verdict.state, finding.case.verdict.confidence) == (State.IDLE, Confidence.LIKELY)
    assert finding.case.price.usd_per_hour == 0.072


def test_traffic_of_a_hosted_component_counts_for_its_endpoint(account: Account, run_sweep: Sweep):
    for name in ("used", "unused"):
        account.endpoint(name, variants=[Variant(model=None, scaling=(1, 2))])
        account.alive(name, "AllTraffic", LONG_AGO, NOW)
        account.component(f"{name}-component", name)
    account.component_invoked("used-component", NOW - 4 * HOUR)
    result = run_sweep(KIND)
    assert (result.state("used"), result.state("unused")) == (State.ACTIVE, State.IDLE)


def test_components_that_cannot_be_listed_keep_their_host_unknown(account: Account, server: Server, run_sweep: Sweep):
    account.endpoint("host", variants=[Variant(model=None, scaling=(1, 2))])
    account.alive("host", "AllTraffic", LONG_AGO, NOW)
    silent(account, "plain")
    server.rules.append(on("ListInferenceComponents", denied()))
    result = run_sweep(KIND)
    assert (result.state("host"), result.state("plain")) == (State.UNKNOWN, State.IDLE)
    assert result.coverage(KIND).missing == "sagemaker:ListInferenceComponents"


@pytest.mark.parametrize(
    ("setup", "state"),
    [
        pytest.param({"created": NOW - 2 * HOUR}, State.YOUNG, id="new"),
        pytest.param({"changed": NOW - 2 * HOUR}, State.YOUNG, id="just updated"),
        pytest.param({"config_deleted": True}, State.IDLE, id="configuration deleted"),
    ],
)
def test_each_status_has_its_verdict(account: Account, run_sweep: Sweep, setup: dict, state: State):
    silent(account, **setup)
    assert run_sweep(KIND).state("quiet") is state


@pytest.mark.parametrize(("status", "state"), [("Failed", State.EXEMPT), ("Creating", State.YOUNG), ("InService", State.UNKNOWN)])
def test_endpoints_without_variants_are_unknown_or_free(account: Account, run_sweep: Sweep, status: str, state: State):
    account.endpoint("bare", variants=[], status=status)
    assert run_sweep(KIND).state("bare") is state


def test_an_update_in_progress_with_traffic_is_active(account: Account, run_sweep: Sweep):
    silent(account, status="Updating")
    account.invoked("quiet", "AllTraffic", NOW - HOUR)
    assert run_sweep(KIND).state("quiet") is State.ACTIVE


def test_a_deleted_configuration_only_makes_the_price_unknown(account: Account, run_sweep: Sweep):
    silent(account, config_deleted=True)
    result = run_sweep(KIND)
    assert result.findings["quiet"].case.price is None
    assert result.coverage(KIND).status == "ok"


def test_instance_pools_are_priced_by_what_runs_in_them(account: Account, run_sweep: Sweep):
    pools = (("ml.g5.xlarge", 2), ("ml.m5.large", 1))
    account.endpoint("pooled", variants=[Variant(pools=pools)])
    account.alive("pooled", "AllTraffic", LONG_AGO, NOW)
    finding = run_sweep(KIND).findings["pooled"]
    assert finding.case.price.usd_per_hour == pytest.approx(2 * 1.408 + 0.115)


def test_names_that_differ_only_in_case_are_two_endpoints(account: Account, run_sweep: Sweep):
    silent(account, "Demo", tags={"reaper:keep": "true"})
    silent(account, "demo", tags={"team": "x"})
    account.invoked("DEMO", "AllTraffic", NOW - HOUR)
    result = run_sweep(KIND)
    assert (result.state("Demo"), result.state("demo")) == (State.EXEMPT, State.IDLE)


@pytest.mark.parametrize(
    "tags",
    [
        {"reaper:keep": "true"},
        {"Reaper:Keep": "yes"},
        {"reaper:kepp": "true"},
        {"reaper:keep-until": "next tuesday"},
        {"reaper:keep-until": "2027-01-01"},
    ],
)
def test_a_protecting_tag_protects(account: Account, run_sweep: Sweep, tags: dict[str, str]):
    silent(account, tags=tags)
    finding = run_sweep(KIND).findings["quiet"]
    assert (finding.case.verdict.state, finding.step.name) == (State.EXEMPT, "none")


def test_endpoints_on_several_pages_are_all_judged(account: Account, server: Server, run_sweep: Sweep):
    server.world.page_points = 5_000
    for index in range(230):
        silent(account, f"e{index:03}", tags={"n": str(index)})
    account.invoked("e229", "AllTraffic", NOW - HOUR)
    result = run_sweep(KIND)
    assert len(result.findings) == 230
    assert len(result.idle()) == 229
    assert result.findings["e117"].case.resource.tags == {"n": "117"}
    assert result.coverage(KIND).status == "ok"


def test_a_thousand_busy_endpoints_cost_at_most_forty_calls(account: Account, run_sweep: Sweep):
    for index in range(1000):
        silent(account, f"e{index:04}", tags={"n": "x"})
        account.invoked(f"e{index:04}", "AllTraffic", NOW - HOUR)
    result = run_sweep(KIND)
    assert result.idle() == []
    assert result.calls(KIND) <= 40


def test_an_idle_candidate_costs_two_more_calls(account: Account, run_sweep: Sweep):
    for index in range(200):
        silent(account, f"e{index:04}", tags={"n": "x"})
        if index >= 30:
            account.invoked(f"e{index:04}", "AllTraffic", NOW - HOUR)
    result = run_sweep(KIND)
    assert len(result.idle()) == 30
    calls = dict(result.coverage(KIND).calls)
    assert calls.pop("sagemaker:DescribeEndpoint") + calls.pop("sagemaker:DescribeEndpointConfig") == 60
    assert calls.pop("sagemaker:ListModels") == 1
    assert sum(calls.values()) <= 8


@pytest.mark.parametrize(
    ("operation", "fault", "status", "missing"),
    [
        pytest.param("ListEndpoints", empty(), "failed", None, id="list empty-handed"),
        pytest.param("GetMetricData", denied(), "denied", "cloudwatch:GetMetricData", id="metrics denied"),
        pytest.param("GetMetricData", empty(), "partial", None, id="metrics empty-handed"),
        pytest.param("GetMetricData", partial(), "partial", None, id="metrics partial"),
        pytest.param("GetMetricData", partial("Invocations"), "partial", None, id="activity partial"),
    ],
)
def test_a_failed_call_never_yields_idle_and_shows_in_coverage(
    account: Account, server: Server, run_sweep: Sweep, operation: str, fault: Fault, status: str, missing: str | None
):
    silent(account)
    account.notebook("nb-stopped", status="Stopped")
    server.rules.append(on(operation, fault))
    result = run_sweep(KIND, "sagemaker-notebook")
    assert "quiet" not in result.idle()
    coverage = result.coverage(KIND)
    assert (coverage.status, coverage.missing) == (status, missing)
    assert coverage.error
    if operation != "GetMetricData":
        assert result.state("nb-stopped") is State.EXEMPT


@pytest.mark.parametrize(
    ("operation", "missing"),
    [("ListMetrics", "cloudwatch:ListMetrics"), ("DescribeEndpointConfig", "sagemaker:DescribeEndpointConfig")],
)
def test_a_denied_shortcut_costs_coverage_but_no_verdict(
    account: Account, server: Server, run_sweep: Sweep, operation: str, missing: str
):
    silent(account)
    server.rules.append(on(operation, denied()))
    result = run_sweep(KIND)
    assert result.state("quiet") is State.IDLE
    assert (result.coverage(KIND).status, result.coverage(KIND).missing) == ("denied", missing)


@pytest.mark.parametrize("fault", [throttled(), error(500), error(503), cut()], ids=["throttled", "500", "503", "cut"])
def test_a_passing_fault_of_a_sweep_is_retried(account: Account, server: Server, run_sweep: Sweep, fault: Fault):
    silent(account)
    for operation in ("ListEndpoints", "GetMetricData"):
        server.rules.append(on(operation, fault, times=1))
    result = run_sweep(KIND)
    assert result.idle() == ["quiet"]
    assert result.coverage(KIND).status == "ok"


def test_one_denied_region_does_not_hide_the_other(account: Account, server: Server, run_sweep: Sweep):
    silent(account)
    silent(Account(server, region="eu-west-1"), "european")
    server.rules.append(on(".*", denied(), region="eu-west-1"))
    result = run_sweep(KIND, regions=("us-east-1", "eu-west-1"))
    assert result.idle() == ["quiet"]
    assert result.coverage(KIND, "eu-west-1").status == "denied"
    assert result.coverage(KIND, "us-east-1").status == "ok"


def test_the_verdict_holds_at_any_minute_of_the_hour(account: Account, server: Server, run_sweep: Sweep):
    silent(account)
    account.alive("quiet", "AllTraffic", NOW, NOW + 2 * HOUR)
    for minutes in (0, 7, 29, 43, 59):
        server.now = NOW + timedelta(minutes=minutes)
        assert run_sweep(KIND, now=server.now).state("quiet") is State.IDLE, minutes


def test_a_short_idle_after_still_sees_recent_use(account: Account, run_sweep: Sweep):
    silent(account)
    account.invoked("quiet", "AllTraffic", NOW - timedelta(minutes=90))
    assert run_sweep(KIND, policy="{version: 1, defaults: {idle_after: 2h}}").state("quiet") is State.ACTIVE
    assert run_sweep(KIND, policy="{version: 1, defaults: {idle_after: 1h}}").state("quiet") in (State.ACTIVE, State.IDLE)


def test_a_long_look_back_is_read_too(account: Account, run_sweep: Sweep):
    account.endpoint("quiet", created=NOW - 200 * DAY)
    account.alive("quiet", "AllTraffic", NOW - 120 * DAY, NOW)
    account.invoked("quiet", "AllTraffic", NOW - 80 * DAY)
    result = run_sweep(KIND, policy="{version: 1, defaults: {idle_after: 70d}}")
    assert result.state("quiet") is State.IDLE
    assert run_sweep(KIND, policy="{version: 1, defaults: {idle_after: 90d}}").state("quiet") is State.ACTIVE


def test_changed_components_change_the_hosts_fingerprint(account: Account, run_sweep: Sweep):
    account.endpoint("host", variants=[Variant(model=None, scaling=(1, 2))])
    account.alive("host", "AllTraffic", LONG_AGO, NOW)
    account.component("used", "host")
    host = run_sweep(KIND).findings["host"].case.resource
    before = host.fingerprint
    assert run_sweep(KIND).findings["host"].case.resource.fingerprint == before
    del account.contents.components["used"]
    after = run_sweep(KIND).findings["host"].case
    assert (after.verdict.state, after.resource.fingerprint) == (State.IDLE, "hosts nothing")
    assert after.resource.fingerprint != before
