from __future__ import annotations

from datetime import timedelta

import pytest

from on_aws.conftest import DAY, HOUR, NOW, Sweep
from reaper.model import Confidence, State
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.fault import Fault, on
from reaper_sandbox.aws.server import Server

KIND = "sagemaker-notebook"
LONG_AGO = NOW - 15 * DAY
MINUTE = timedelta(minutes=1)


def test_silent_busy_points_prove_idle(account: Account, run_sweep: Sweep):
    notebook = account.notebook("nb", changed=NOW - 10 * DAY)
    account.busy_steadily(notebook.arn, LONG_AGO, NOW)
    finding = run_sweep(KIND).findings["nb"]
    assert (finding.case.verdict.state, finding.case.verdict.confidence) == (State.IDLE, Confidence.PROVEN)
    assert (finding.case.price.usd_per_hour, finding.case.resource.size) == (0.05, "ml.t3.medium")


def test_a_busy_point_makes_it_active(account: Account, run_sweep: Sweep):
    notebook = account.notebook("nb")
    account.busy_steadily(notebook.arn, LONG_AGO, NOW)
    account.busy(notebook.arn, NOW - 2 * HOUR)
    assert run_sweep(KIND).state("nb") is State.ACTIVE


def test_a_stopped_busy_series_gives_unknown(account: Account, run_sweep: Sweep):
    notebook = account.notebook("nb")
    account.busy_steadily(notebook.arn, LONG_AGO, NOW - 2 * DAY)
    assert run_sweep(KIND).state("nb") is State.UNKNOWN


def test_long_quiet_uptime_without_a_busy_series_is_likely(account: Account, run_sweep: Sweep):
    account.notebook("nb", changed=NOW - 5 * DAY)
    account.log_stream("nb/jupyter.log", last_event=NOW - 4 * DAY)
    finding = run_sweep(KIND).findings["nb"]
    assert (finding.case.verdict.state, finding.case.verdict.confidence) == (State.IDLE, Confidence.LIKELY)
    assert finding.case.verdict.idle_for == 4 * DAY - HOUR  # a later event may not be known for an hour


def test_a_notebook_without_a_log_is_likely_since_its_last_start(account: Account, run_sweep: Sweep):
    account.notebook("nb", changed=NOW - 5 * DAY)
    assert run_sweep(KIND).findings["nb"].case.verdict.idle_for == 5 * DAY - HOUR


def test_a_fresh_log_event_beats_silent_busy_points(account: Account, run_sweep: Sweep):
    notebook = account.notebook("nb")
    account.busy_steadily(notebook.arn, LONG_AGO, NOW)
    account.log_stream("nb/jupyter.log", last_event=NOW - HOUR)
    account.log_stream("nb-2/jupyter.log", last_event=NOW)
    assert run_sweep(KIND).state("nb") is State.ACTIVE


def test_a_start_of_today_beats_silent_busy_points(account: Account, run_sweep: Sweep):
    account.busy_steadily(account.notebook("nb", changed=NOW - 3 * HOUR).arn, LONG_AGO, NOW)
    assert run_sweep(KIND).state("nb") is State.YOUNG


def test_another_notebooks_log_does_not_count(account: Account, run_sweep: Sweep):
    account.notebook("nb", changed=NOW - 5 * DAY)
    account.log_stream("nb-2/jupyter.log", last_event=NOW - HOUR)
    account.log_stream("nb/LifecycleConfigOnStart", last_event=NOW - HOUR)
    assert run_sweep(KIND).state("nb") is State.IDLE


@pytest.mark.parametrize("setup", [{"changed": NOW - HOUR}, {"created": NOW - HOUR}], ids=["started", "created"])
def test_a_recent_start_or_creation_is_young(account: Account, run_sweep: Sweep, setup: dict):
    account.notebook("nb", **setup)
    assert run_sweep(KIND).state("nb") is State.YOUNG


def test_busy_published_under_another_spelling_of_the_arn_is_found(account: Account, run_sweep: Sweep):
    notebook = account.notebook("MyNotebook", changed=NOW - 5 * DAY)
    account.busy_steadily(notebook.arn.lower(), LONG_AGO, NOW, value=1)
    assert run_sweep(KIND).state("MyNotebook") is State.ACTIVE


def test_logs_are_read_for_silent_notebooks_only(account: Account, run_sweep: Sweep):
    for index in range(20):
        notebook = account.notebook(f"nb{index}")
        account.busy_steadily(notebook.arn, LONG_AGO, NOW, value=float(index > 2))
    assert run_sweep(KIND).coverage(KIND).calls["logs:DescribeLogStreams"] == 3


@pytest.mark.parametrize("minutes", [65, 70, 119])
@pytest.mark.parametrize("published", [False, True], ids=["without Busy", "with Busy"])
def test_a_log_event_counts_as_one_hour_later(account: Account, run_sweep: Sweep, minutes: int, published: bool):
    notebook = account.notebook("nb", changed=NOW - 5 * DAY)
    account.log_stream("nb/jupyter.log", last_event=NOW - minutes * MINUTE)
    if published:
        account.busy_steadily(notebook.arn, LONG_AGO, NOW)
    verdict = run_sweep(KIND, policy="{version: 1, defaults: {idle_after: 1h}}").findings["nb"].case.verdict
    assert verdict.state in {State.ACTIVE, State.YOUNG}


def test_a_log_is_silent_once_a_late_event_would_have_arrived(account: Account, run_sweep: Sweep):
    account.notebook("nb", changed=NOW - 5 * DAY)
    account.log_stream("nb/jupyter.log", last_event=NOW - 121 * MINUTE)
    verdict = run_sweep(KIND, policy="{version: 1, defaults: {idle_after: 1h}}").findings["nb"].case.verdict
    assert (verdict.state, verdict.idle_for) == (State.IDLE, 61 * MINUTE)


def test_use_in_a_log_is_never_in_the_future(account: Account, run_sweep: Sweep):
    account.notebook("nb", changed=NOW - 5 * DAY)
    account.log_stream("nb/jupyter.log", last_event=NOW - 2 * MINUTE)
    assert run_sweep(KIND).findings["nb"].case.verdict.last_busy == NOW - 2 * MINUTE


@pytest.mark.parametrize("stamp", [10**17, 10**14, -5, 1.5e12, "1763719000000", True, [], {}], ids=repr)
@pytest.mark.parametrize("key", ["lastEventTimestamp", "lastIngestionTime"])
def test_one_odd_log_time_hides_that_notebook_only(account: Account, server: Server, run_sweep: Sweep, stamp, key: str):
    for name in ("nb", "odd"):
        account.notebook(name, changed=NOW - 5 * DAY)
        account.log_stream(f"{name}/jupyter.log", last_event=NOW - 4 * DAY)

    def garble(call, data):
        mine = call.params.get("logStreamNamePrefix") == "odd/jupyter.log"
        return data | {"logStreams": [s | ({key: stamp} if mine else {}) for s in data["logStreams"]]}

    server.rules.append(on("DescribeLogStreams", Fault(rewrite=garble)))
    result = run_sweep(KIND)
    assert (result.state("nb"), result.state("odd")) == (State.IDLE, State.UNKNOWN)
    assert (result.coverage(KIND).status, result.coverage(KIND).resources) == ("partial", 2)


def test_a_notebook_has_no_idle_shutdown_to_switch_on(account: Account, run_sweep: Sweep):
    """Under such a rule it is stopped and told as stopped; its saving counts."""
    account.busy_steadily(account.notebook("nb", changed=NOW - 10 * DAY).arn, LONG_AGO, NOW)
    policy = "{version: 1, rules: [{name: a, action: stop, stop_by: native}]}"
    case = run_sweep(KIND, policy=policy).findings["nb"].case
    assert (case.rule.stop_by, case.resource.stop_by) == ("native", "stop")
