from __future__ import annotations

import pytest

from on_azure.conftest import DAY, HOUR, INSTANCE, LIKELY, LONG_AGO, NOW, PROVEN, Sweep
from reaper.model import State
from reaper_sandbox.azure import signals
from reaper_sandbox.azure.fault import Fault, on
from reaper_sandbox.azure.request import Reply
from reaper_sandbox.azure.rights import deny
from reaper_sandbox.azure.server import Server
from reaper_sandbox.azure.subscription import Workspace

MONTH_AGO = NOW - 30 * DAY


def test_silent_busy_points_prove_an_instance_idle(vision: Workspace, run_sweep: Sweep):
    signals.busy(vision.instance("ci", started=MONTH_AGO), 0, since=LONG_AGO)
    result = run_sweep(INSTANCE)
    assert result.verdict("ci") == PROVEN
    assert result.findings["ci"].case.price.usd_per_hour == 0.272


def test_a_busy_point_makes_an_instance_active(vision: Workspace, run_sweep: Sweep):
    one = vision.instance("ci", started=MONTH_AGO)
    signals.busy(one, 0, since=LONG_AGO, until=NOW - 3 * HOUR)
    signals.busy(one, 1, since=NOW - 3 * HOUR, until=NOW - 2 * HOUR)
    signals.busy(one, 0, since=NOW - 2 * HOUR)
    assert run_sweep(INSTANCE).state("ci") is State.ACTIVE


def test_a_busy_series_that_stopped_makes_an_instance_unknown(vision: Workspace, run_sweep: Sweep):
    signals.busy(vision.instance("ci", started=MONTH_AGO), 0, since=LONG_AGO, until=NOW - 2 * DAY)
    assert run_sweep(INSTANCE).state("ci") is State.UNKNOWN


def test_long_uptime_without_jobs_or_busy_is_likely_idle(vision: Workspace, run_sweep: Sweep):
    vision.instance("ci", started=NOW - 5 * DAY)
    result = run_sweep(INSTANCE)
    assert result.verdict("ci") == LIKELY
    assert result.findings["ci"].case.verdict.idle_for == 5 * DAY
    assert "its idle shutdown is off, and no Busy signal as proof" in result.because("ci")


def test_another_instances_busy_series_does_not_count(vision: Workspace, run_sweep: Sweep):
    signals.busy(vision.instance("with", started=MONTH_AGO), 1, since=LONG_AGO)
    vision.instance("without", started=MONTH_AGO)
    result = run_sweep(INSTANCE)
    assert (result.state("with"), result.verdict("without")) == (State.ACTIVE, LIKELY)


def test_more_than_ten_busy_series_of_a_workspace_are_all_read(vision: Workspace, run_sweep: Sweep):
    for n in range(25):
        signals.busy(vision.instance(f"ci{n}", started=MONTH_AGO), 0, since=LONG_AGO)
    result = run_sweep(INSTANCE)
    assert {result.verdict(name) for name in result.findings} == {PROVEN}


@pytest.mark.parametrize("says_zero", [False, True], ids=["without Busy", "despite silent Busy"])
def test_the_state_job_running_counts_as_use(vision: Workspace, run_sweep: Sweep, says_zero: bool):
    one = vision.instance("ci", started=MONTH_AGO).set("properties.properties.state", "JobRunning")
    if says_zero:
        signals.busy(one, 0, since=LONG_AGO)
    assert run_sweep(INSTANCE).state("ci") is State.ACTIVE


def test_a_start_of_today_beats_silent_busy(vision: Workspace, run_sweep: Sweep):
    """A false 0 may have been published for the hours before it, too."""
    signals.busy(vision.instance("ci", started=NOW - 3 * HOUR), 0, since=LONG_AGO)
    assert run_sweep(INSTANCE).state("ci") is State.YOUNG


def test_a_paused_job_counts_as_use_despite_silent_busy(vision: Workspace, run_sweep: Sweep):
    one = vision.instance("ci", started=MONTH_AGO)
    signals.busy(one, 0, since=LONG_AGO)
    vision.job("half", status="Paused", on=one.id.upper(), created=NOW - 40 * DAY)
    assert run_sweep(INSTANCE).because("ci") == "job half on it is Paused"


def test_a_job_since_the_start_shortens_the_idle_time(vision: Workspace, run_sweep: Sweep):
    vision.instance("ci", started=MONTH_AGO)
    vision.job("done", status="Completed", on="ci", created=NOW - 3 * DAY)
    result = run_sweep(INSTANCE)
    assert result.verdict("ci") == LIKELY
    assert result.findings["ci"].case.verdict.idle_for == 3 * DAY
    assert "its last job was seen at 2026-11-18" in result.because("ci")


def test_a_finished_job_counts_until_its_noted_end(vision: Workspace, run_sweep: Sweep):
    vision.instance("ci", started=MONTH_AGO)
    free = {"StartTimeUtc": "2026-11-18 10:20:00", "EndTimeUtc": "2026-11-21 08:17:00", "_azureml.ClusterName": "ci"}
    vision.job("done", status="Completed", created=NOW - 3 * DAY).set("properties.properties", free)
    assert (run_sweep(INSTANCE).state("ci"), run_sweep(INSTANCE).because("ci")) == (State.ACTIVE, "jobs showed use 2 hours ago")


@pytest.mark.parametrize(
    ("system", "free"),
    [({}, {}), (None, {}), ({"createdBy": "ada"}, {}), ({"createdAt": "2026-11-18T10:17:00Z"}, {"EndTimeUtc": "soon"})],
)
def test_a_finished_job_without_times_makes_its_instance_unknown(
    server: Server, vision: Workspace, run_sweep: Sweep, system: object, free: dict[str, str]
):
    for name in ("ci", "other"):
        vision.instance(name, started=MONTH_AGO)
    jobs = [
        vision.job(name, status="Completed", on=where, created=NOW - 3 * DAY).body
        for name, where in (("on", "ci"), ("off", None))
    ]
    rows = [{**job, "systemData": system, "properties": {**job["properties"], "properties": free}} for job in jobs]
    server.rules.append(on("GET", ".*/jobs", Fault(answer=lambda request: Reply(body={"value": rows}))))
    result = run_sweep(INSTANCE)
    assert (result.state("ci"), result.verdict("other")) == (State.UNKNOWN, LIKELY)
    assert "the times of" in result.because("ci")


def test_a_recently_started_instance_is_young(vision: Workspace, run_sweep: Sweep):
    vision.instance("ci", started=NOW - 2 * HOUR)
    assert run_sweep(INSTANCE).state("ci") is State.YOUNG


def test_an_instance_without_a_last_operation_is_unknown(vision: Workspace, run_sweep: Sweep):
    vision.instance("ci").without("properties.properties.lastOperation")
    assert run_sweep(INSTANCE).state("ci") is State.UNKNOWN


def test_busy_proves_idleness_without_a_last_operation(vision: Workspace, run_sweep: Sweep):
    signals.busy(vision.instance("ci").without("properties.properties.lastOperation"), 0, since=LONG_AGO)
    assert run_sweep(INSTANCE).verdict("ci") == PROVEN


def test_idle_shutdown_that_did_not_stop_it_is_reported(vision: Workspace, run_sweep: Sweep):
    vision.instance("ci", started=MONTH_AGO).set("properties.properties.idleTimeBeforeShutdown", "PT30M")
    assert "its idle shutdown (PT30M) is on but didn't stop it" in run_sweep(INSTANCE).because("ci")


@pytest.mark.parametrize(("state", "expected"), [("Creating", State.YOUNG), ("Failed", State.UNKNOWN)])
def test_a_new_instance_with_null_properties_is_young(vision: Workspace, run_sweep: Sweep, state: str, expected: State):
    vision.instance("ci").set("properties.provisioningState", state).without("properties.properties")
    assert run_sweep(INSTANCE).state("ci") is expected


@pytest.mark.parametrize(("key", "value"), [("reaper:kepe", "true"), ("reaper:keep-until", "soon"), ("REAPER:KEEP", "yes")])
def test_an_unreadable_keep_tag_protects(vision: Workspace, run_sweep: Sweep, key: str, value: str):
    vision.instance("ci", started=MONTH_AGO).tagged({key: value})
    assert run_sweep(INSTANCE).state("ci") is State.EXEMPT


def test_an_unreadable_busy_series_makes_an_instance_unknown(server: Server, vision: Workspace, run_sweep: Sweep):
    vision.instance("ci", started=MONTH_AGO)
    server.rules.append(deny("Microsoft.Insights/metrics/read"))
    result = run_sweep(INSTANCE)
    assert result.state("ci") is State.UNKNOWN
    assert result.coverage(INSTANCE).missing == "Microsoft.Insights/metrics/read"


@pytest.mark.parametrize(
    ("maker", "address", "source"),
    [
        ({"userName": "ada@example.com"}, "ada@example.com", "created by"),
        ({"userName": "ada@elsewhere.com"}, "ml@example.com", "fallback; created by names 'ada@elsewhere.com'"),
        ({"userName": "Ada Lovelace"}, "ml@example.com", "fallback; assigned user"),
        ({"userId": "0f9c1b5e-6a0d-4f57-8a3b-7cf4e4d0f7aa"}, "ml@example.com", "fallback; assigned user"),
        ({"userName": ["ada@example.com"]}, "ml@example.com", "fallback; "),
        ("ada@example.com", "ml@example.com", "fallback; assigned user"),
        (None, "ml@example.com", "fallback; assigned user"),
    ],
)
def test_the_owner_of_an_instance_comes_from_azure(vision: Workspace, run_sweep: Sweep, maker: object, address: str, source: str):
    vision.instance("ci", started=MONTH_AGO).set("properties.properties.createdBy", maker)
    policy = "version: 1\nowners: {domains: [example.com], fallback: ml@example.com}"
    owner = run_sweep(INSTANCE, policy=policy).findings["ci"].case.owner
    assert (owner.address, owner.source.startswith(source)) == (address, True), owner.source


def test_an_owner_tag_overrides_the_creator(vision: Workspace, run_sweep: Sweep):
    one = vision.instance("ci", started=MONTH_AGO).tagged({"owner": "grace@example.com"})
    one.set("properties.properties.createdBy", {"userName": "ada@example.com"})
    policy = "version: 1\nowners: {tags: [owner], domains: [example.com]}"
    assert run_sweep(INSTANCE, policy=policy).findings["ci"].case.owner.address == "grace@example.com"
