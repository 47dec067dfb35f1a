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


def test_silent_busy_points_prove_it_idle(vision: Workspace, run_sweep: Sweep):
    signals.busy(vision.instance("ci", started=MONTH_AGO), 0, since=LONG_AGO)
    result = run_sweep(INSTANCE)
    assert result.verdict("ci") == PROVEN
    assert result.found["ci"].price.usd_per_hour == 0.272


def test_a_busy_point_makes_it_active(vision: Workspace, run_sweep: Sweep):
    one = vision.instance("ci", started=MONTH_AGO)
    signals.busy(one, 0, since=LONG_AGO, until=NOW - 3 * HOUR)
    signals.busy(one, 1, since=NOW - 3 * HOUR, until=NOW - 2 * HOUR)
    signals.busy(one, 0, since=NOW - 2 * HOUR)
    assert run_sweep(INSTANCE).state("ci") is State.ACTIVE


def test_a_busy_series_that_stopped_is_unknown_and_not_no_series(vision: Workspace, run_sweep: Sweep):
    signals.busy(vision.instance("ci", started=MONTH_AGO), 0, since=LONG_AGO, until=NOW - 2 * DAY)
    assert run_sweep(INSTANCE).state("ci") is State.UNKNOWN


def test_without_a_series_long_uptime_without_a_job_is_likely(vision: Workspace, run_sweep: Sweep):
    vision.instance("ci", started=NOW - 5 * DAY)
    result = run_sweep(INSTANCE)
    assert result.verdict("ci") == LIKELY
    assert result.found["ci"].case.verdict.idle_for == 5 * DAY
    assert "its idle shutdown is off; no Busy signal proves it" in result.because("ci")


def test_the_neighbours_series_is_not_its_own(vision: Workspace, run_sweep: Sweep):
    signals.busy(vision.instance("with", started=MONTH_AGO), 1, since=LONG_AGO)
    vision.instance("without", started=MONTH_AGO)
    result = run_sweep(INSTANCE)
    assert (result.state("with"), result.verdict("without")) == (State.ACTIVE, LIKELY)


def test_more_than_ten_series_in_one_workspace_are_all_read(vision: Workspace, run_sweep: Sweep):
    for n in range(25):
        signals.busy(vision.instance(f"ci{n}", started=MONTH_AGO), 0, since=LONG_AGO)
    result = run_sweep(INSTANCE)
    assert {result.verdict(name) for name in result.found} == {PROVEN}


def test_job_running_is_use(vision: Workspace, run_sweep: Sweep):
    vision.instance("ci", started=MONTH_AGO).set("properties.properties.state", "JobRunning")
    assert run_sweep(INSTANCE).state("ci") is State.ACTIVE


def test_a_paused_job_is_use_however_silent_busy_is(vision: Workspace, run_sweep: Sweep):
    one = vision.instance("ci", started=MONTH_AGO)
    signals.busy(one, 0, since=LONG_AGO)
    vision.job("half", status="Paused", on=one.id.upper(), created=NOW - 40 * DAY)
    assert run_sweep(INSTANCE).because("ci") == "job half on it is Paused"


def test_a_job_since_its_start_shortens_the_silence(vision: Workspace, run_sweep: Sweep):
    vision.instance("ci", started=MONTH_AGO)
    vision.job("done", status="Completed", on="ci", created=NOW - 3 * DAY)
    result = run_sweep(INSTANCE)
    assert result.verdict("ci") == LIKELY
    assert result.found["ci"].case.verdict.idle_for == 3 * DAY
    assert "its last job was heard of at 2026-11-18" in result.because("ci")


def test_a_job_is_heard_of_when_its_run_ended(vision: Workspace, run_sweep: Sweep):
    vision.instance("ci", started=MONTH_AGO)
    free = {"StartTimeUtc": "2026-11-18 10:20:00", "EndTimeUtc": "2026-11-21 08:17:00", "_azureml.ClusterName": "ci"}
    vision.job("done", status="Completed", created=NOW - 3 * DAY).set("properties.properties", free)
    assert (run_sweep(INSTANCE).state("ci"), run_sweep(INSTANCE).because("ci")) == (State.ACTIVE, "jobs shows use 2 h ago")


@pytest.mark.parametrize(
    ("system", "free"),
    [({}, {}), (None, {}), ({"createdBy": "ada"}, {}), ({"createdAt": "2026-11-18T10:17:00Z"}, {"EndTimeUtc": "soon"})],
)
def test_a_job_that_is_over_at_no_known_time_blinds_what_it_ran_on(
    server: Server, vision: Workspace, run_sweep: Sweep, system: object, free: dict[str, str]
):
    for name in ("ci", "other"):
        vision.instance(name, started=MONTH_AGO)
    jobs = [
        vision.job(name, status="Completed", on=where, created=NOW - 3 * DAY).body
        for name, where in (("on", "ci"), ("off", None))
    ]
    told = [{**job, "systemData": system, "properties": {**job["properties"], "properties": free}} for job in jobs]
    server.rules.append(on("GET", ".*/jobs", Fault(answer=lambda request: Reply(body={"value": told}))))
    result = run_sweep(INSTANCE)
    assert (result.state("ci"), result.verdict("other")) == (State.UNKNOWN, LIKELY)
    assert "when" in result.because("ci")


def test_a_fresh_start_makes_it_young(vision: Workspace, run_sweep: Sweep):
    vision.instance("ci", started=NOW - 2 * HOUR)
    assert run_sweep(INSTANCE).state("ci") is State.YOUNG


def test_without_a_last_operation_nothing_is_proven(vision: Workspace, run_sweep: Sweep):
    vision.instance("ci").without("properties.properties.lastOperation")
    assert run_sweep(INSTANCE).state("ci") is State.UNKNOWN


def test_without_a_last_operation_busy_points_are_still_proof(vision: Workspace, run_sweep: Sweep):
    signals.busy(vision.instance("ci").without("properties.properties.lastOperation"), 0, since=LONG_AGO)
    assert run_sweep(INSTANCE).verdict("ci") == PROVEN


def test_native_idle_shutdown_that_did_not_work_is_told(vision: Workspace, run_sweep: Sweep):
    vision.instance("ci", started=MONTH_AGO).set("properties.properties.idleTimeBeforeShutdown", "PT30M")
    assert "idle shutdown after PT30M is set but did not stop it" in run_sweep(INSTANCE).because("ci")


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("Stopped", State.EXEMPT),
        ("Deleting", State.EXEMPT),
        ("Starting", State.YOUNG),
        ("Stopping", State.YOUNG),
        ("SettingUp", State.YOUNG),
        ("Unusable", State.UNKNOWN),
        ("SetupFailed", State.UNKNOWN),
        ("SomethingNew", State.UNKNOWN),
    ],
)
def test_states_that_say_it_all(vision: Workspace, run_sweep: Sweep, state: str, expected: State):
    vision.instance("ci", started=MONTH_AGO).set("properties.properties.state", state)
    result = run_sweep(INSTANCE)
    assert result.state("ci") is expected
    assert "Microsoft.Insights/metrics/read" not in result.coverage(INSTANCE).calls


@pytest.mark.parametrize(("state", "expected"), [("Creating", State.YOUNG), ("Failed", State.UNKNOWN)])
def test_an_instance_with_nothing_to_show_yet(vision: Workspace, run_sweep: Sweep, state: str, expected: State):
    vision.instance("ci").set("properties.provisioningState", state).without("properties.properties")
    assert run_sweep(INSTANCE).state("ci") is expected


@pytest.mark.parametrize(("key", "value"), [("reaper:kepe", "true"), ("reaper:keep-until", "soon"), ("REAPER:KEEP", "yes")])
def test_an_unreadable_keep_tag_protects(vision: Workspace, run_sweep: Sweep, key: str, value: str):
    vision.instance("ci", started=MONTH_AGO).tagged({key: value})
    assert run_sweep(INSTANCE).state("ci") is State.EXEMPT


def test_a_busy_series_that_cannot_be_read_is_not_no_series(server: Server, vision: Workspace, run_sweep: Sweep):
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
def test_whom_it_belongs_to_is_told(vision: Workspace, run_sweep: Sweep, maker: object, address: str, source: str):
    vision.instance("ci", started=MONTH_AGO).set("properties.properties.createdBy", maker)
    policy = "version: 1\nowners: {domains: [example.com], fallback: ml@example.com}"
    owner = run_sweep(INSTANCE, policy=policy).found["ci"].owner
    assert (owner.address, owner.source.startswith(source)) == (address, True), owner.source


def test_a_tag_goes_before_who_made_it(vision: Workspace, run_sweep: Sweep):
    one = vision.instance("ci", started=MONTH_AGO).tagged({"owner": "grace@example.com"})
    one.set("properties.properties.createdBy", {"userName": "ada@example.com"})
    policy = "version: 1\nowners: {tags: [owner], domains: [example.com]}"
    assert run_sweep(INSTANCE, policy=policy).found["ci"].owner.address == "grace@example.com"
