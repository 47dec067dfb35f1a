"""The template's own state machine over an organization, with the real handlers as its functions, and what goes wrong in it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from typer.testing import CliRunner

from deploy.company import (
    ACCOUNTS,
    APPS,
    CONTEXT,
    ENDPOINTS,
    FORGOTTEN,
    HUB,
    OWNER,
    POLICY,
    REGIONS,
    RESEARCH,
    Company,
    company,
    endpoint_name,
    invoke,
)
from deploy.step_functions import FunctionFailed, item_of
from deploy.test_template import NAMES
from reaper.aws.functions import sweep
from reaper.aws.functions.executions import run_id_of
from reaper.cli.main import app
from reaper.coverage import SKIPPED
from reaper.errors import ReaperError, SettingsError
from reaper.model import UNTIL_RESUMED, Pause, Target
from reaper.pending import stop_switch
from reaper.policy.file import policy_digest
from reaper.workflow import lease as run_lease
from reaper_sandbox.aws import reply
from reaper_sandbox.aws.call import Call
from reaper_sandbox.aws.fault import Fault, throttled

READABLE = [endpoint_name(account, region) for account in (HUB, RESEARCH, APPS) for region in REGIONS]
EAST = [name for name in READABLE if name.endswith("us-east-1")]
KILLED = FunctionFailed("Runtime.ExitError", "RequestId: 1 Error: Runtime exited with error: signal: killed")
TIMED_OUT = FunctionFailed("Sandbox.Timedout", "RequestId: 1 Error: Task timed out after 900.00 seconds")


@pytest.fixture
def enforced(cloudformation: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Iterator[Company]:
    with company(cloudformation, "enforce", monkeypatch) as made:
        yield made


@pytest.fixture
def audited(cloudformation: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Iterator[Company]:
    with company(cloudformation, "audit", monkeypatch) as made:
        yield made


@pytest.fixture
def due(enforced: Company) -> Company:
    """The owner was notified of everything, and the grace period is over."""
    enforced.due()
    return enforced


def outcomes(report: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    return {finding["name"]: (finding["step"], finding["outcome"]) for finding in report["findings"]}


def rows(report: Mapping[str, Any], account: str) -> list[dict[str, Any]]:
    return [row for row in report["coverage"] if row["account"] == account]


def test_owners_get_one_notice_over_all_accounts_and_then_everything_stops(enforced: Company):
    first = enforced.report(enforced.workflow.run())
    assert outcomes(first) == dict.fromkeys(READABLE, ("warn", "done"))
    assert len(enforced.mails_to(OWNER)) == 1
    assert enforced.workflow.phases() == ["list", *["observe"] * 4, "decide", "conclude"]
    enforced.days_pass(first)
    second = enforced.report(enforced.workflow.run())
    assert outcomes(second) == dict.fromkeys(READABLE, ("stop", "done"))
    assert len(enforced.mails_to(OWNER)) == 2
    assert enforced.workflow.phases()[7:] == ["list", *["observe"] * 4, "decide", *["act"] * 9, "conclude"]
    untouched = {endpoint_name(FORGOTTEN, region) for region in REGIONS}
    assert enforced.counts() == {**dict.fromkeys(READABLE, 1), **dict.fromkeys(untouched, 3)}
    denied = rows(second, FORGOTTEN)
    assert {(row["status"], row["missing"], row["region"]) for row in denied} == {("denied", "sts:AssumeRole", None)}
    assert len(denied) == len({row["kind"] for row in denied}) == 6


def test_the_caps_hold_over_the_whole_run(due: Company):
    """No account has more actions than the policy allows, and all of them together have."""
    capped = POLICY.replace("max_acts: 20", "max_acts: 20, run: {max_acts: 2}")
    boto3.client("ssm").put_parameter(Name=NAMES["PolicyParameter"], Value=capped, Type="String", Overwrite=True)
    report = due.sweep()
    assert outcomes(report) == dict.fromkeys(EAST, ("hold", "planned"))
    assert set(due.counts().values()) == {3}
    assert "act" not in due.workflow.phases()


def test_an_audit_reports_what_the_command_line_reports(audited: Company, tmp_path):
    def busy(call: Call) -> Fault | None:
        is_there = (call.service, call.account, call.region) == ("sagemaker", APPS, "eu-west-1")
        return throttled() if is_there else None

    audited.server.rules.append(busy)
    report = audited.report(audited.workflow.run())
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    options = ["--cloud", "aws", "--organization", "--region", ",".join(REGIONS), "--policy", str(policy), "--format", "json"]
    done = CliRunner().invoke(app, ["sweep", *options], env={"REAPER_RUNS": ""})
    assert done.exit_code == 3, done.output
    by_command = json.loads(done.stdout)
    assert comparable(report) == comparable(by_command)
    failed = {(row["account"], row["region"]) for row in report["coverage"] if row["status"] != "ok"}
    assert failed == {(FORGOTTEN, None), (APPS, "eu-west-1")}
    assert {f["name"] for f in report["findings"]} == set(READABLE) - {endpoint_name(APPS, "eu-west-1")}


def test_a_repeated_conclude_of_an_audit_mails_its_summary_once(audited: Company, monkeypatch: pytest.MonkeyPatch):
    """The report can't be stored, so the engine repeats the step until it gives up."""
    topic = boto3.client("sns").create_topic(Name="summaries")["TopicArn"]
    monkeypatch.setenv("REAPER_TOPIC", topic)
    monkeypatch.setenv("REAPER_REPORTS", "s3://nowhere/reports")
    ended = audited.workflow.run(ENDPOINTS)
    assert (ended["status"], audited.workflow.phases().count("conclude")) == ("FAILED", 3)
    assert [call.operation for call in audited.server.calls].count("Publish") == 1


def comparable(report: Mapping[str, Any]) -> dict[str, Any]:
    """What two sweeps of the same things have in common. `calls` differ: the command line shares some between regions."""
    findings = [
        {k: v for k, v in f.items() if k not in {"idle_for_s", "wasted_usd", "next", "could"}} for f in report["findings"]
    ]
    coverage = [{k: v for k, v in row.items() if k != "calls"} for row in report["coverage"]]
    place = lambda row: (row["account"], str(row.get("region")), row["kind"], row.get("name", ""))  # noqa: E731
    return {"findings": sorted(findings, key=place), "coverage": sorted(coverage, key=place)}


def test_a_function_that_dies_before_or_after_its_call_hides_nothing(due: Company):
    """One is killed before it does anything, one ends without an answer after it has stopped its endpoint."""

    def target(event: dict[str, Any]) -> dict[str, Any]:
        place = (item_of(event)["account"], item_of(event).get("region"))
        if place == (RESEARCH, "us-east-1"):
            raise KILLED
        answer = invoke(event)
        if place == (APPS, "us-east-1"):
            raise TIMED_OUT
        return answer

    due.workflow.replace("TargetFunction", target)
    report = due.sweep()
    killed, answered = endpoint_name(RESEARCH, "us-east-1"), endpoint_name(APPS, "us-east-1")
    assert outcomes(report) == {**dict.fromkeys(EAST, ("stop", "done")), killed: ("stop", "refused")}
    assert (due.counts()[killed], due.counts()[answered]) == (3, 1)
    assert due.workflow.phases().count("act") == 3, "neither is repeated"
    [row] = [row for row in report["coverage"] if row["kind"] == "acts"]
    assert f"acting in {RESEARCH} us-east-1: its step of the workflow failed: Runtime.ExitError" in row["error"]


def test_an_item_that_is_never_observed_is_a_failure_with_its_reason(due: Company):
    def target(event: dict[str, Any]) -> dict[str, Any]:
        if item_of(event)["account"] == RESEARCH:
            raise KILLED
        return invoke(event)

    due.workflow.replace("TargetFunction", target)
    report = due.sweep()
    lost = rows(report, RESEARCH)
    assert {row["region"] for row in lost} == {"us-east-1"}
    assert all(row["status"] == "failed" and "Runtime.ExitError: RequestId: 1 Error" in row["error"] for row in lost)
    assert due.workflow.phases().count("observe") == 5, "killed once, tried once more"
    assert not any(name.startswith("research") for name in outcomes(report))


def test_a_second_execution_ends_at_once_and_says_so(due: Company, capsys: pytest.CaptureFixture[str]):
    started, go_on = threading.Event(), threading.Event()

    def target(event: dict[str, Any]) -> dict[str, Any]:
        started.set()
        assert go_on.wait(60)
        return invoke(event)

    due.workflow.replace("TargetFunction", target)
    first = due.workflow.start(ENDPOINTS)
    assert started.wait(60)
    second = due.workflow.run(ENDPOINTS)
    go_on.set()
    assert (second["status"], second["output"]["status"]) == ("SUCCEEDED", "skipped")
    assert run_id_of(first) in second["output"]["because"]
    assert '"Skipped":[1.0]' in capsys.readouterr().out.replace(" ", "")
    assert outcomes(due.report(due.workflow.wait(first))) == dict.fromkeys(EAST, ("stop", "done"))


@pytest.mark.parametrize("name", ["made-up", "0123456789ab"])
def test_an_execution_that_does_not_run_gets_no_lease(due: Company, name: str):
    """Whoever may call the function would stop every sweep for three hours."""
    execution = f"{due.workflow.arn.replace('stateMachine', 'execution')}:{name}"
    with pytest.raises(SettingsError, match=f"execution {execution} can't be read, so it may not sweep"):
        invoke({"phase": "list", "execution": execution, "options": ENDPOINTS})
    assert not due.ledger.read_row(run_lease.LEASE_ROW).values
    assert outcomes(due.sweep()) == dict.fromkeys(EAST, ("stop", "done"))


WHOLE = {"phase": "observe", "run": "0123456789ab", "execution": "e", "policy": "p", "listed": "l", "item": 0}


@pytest.mark.parametrize(
    ("event", "said"),
    [
        ([], "phase: ''"),
        ({}, "phase: ''"),
        ({"phase": ["list"]}, "phase: \"\\['list'"),
        ({"phase": "list"}, "execution: ''"),
        ({"phase": "list", "execution": "no ARN"}, "execution: 'no ARN'"),
        ({"phase": "list", "execution": "e", "options": [1]}, "the event is a list"),
        *(({**WHOLE, "phase": phase, "run": "../x"}, "run: '../x'") for phase in ("observe", "decide", "act", "conclude")),
        *(({name: value for name, value in WHOLE.items() if name != gone}, f"{gone}: ''") for gone in WHOLE),
        ({**WHOLE, "item": None}, "item: 'None'"),
        ({**WHOLE, "item": -1}, "item: '-1'"),
        ({**WHOLE, "phase": "decide", "results": [1]}, "isn't in its store"),
        ({**WHOLE, "phase": "conclude", "results": {"ResultWriterDetails": "x"}}, "isn't in its store"),
    ],
)
def test_a_malformed_event_ends_in_one_sentence(audited: Company, event: Any, said: str):
    with pytest.raises(ReaperError, match=said) as raised:
        invoke(event)
    assert "\n" not in str(raised.value)


def test_an_execution_that_was_stopped_makes_way_for_the_next(due: Company):
    """Its map goes on acting, next to the new run: nothing is stopped twice, nobody is told twice."""
    waiting, go_on = threading.Event(), threading.Event()

    def target(event: dict[str, Any]) -> dict[str, Any]:
        if event["phase"] == "act" and event["run"] == run_id_of(old):
            waiting.set()
            assert go_on.wait(60)
        return invoke(event)

    due.workflow.replace("TargetFunction", target)
    old = due.workflow.arn.replace("stateMachine", "execution") + ":0123456789ab"
    assert due.workflow.start(ENDPOINTS, name="0123456789ab") == old
    assert waiting.wait(60)
    boto3.client("stepfunctions").stop_execution(executionArn=old)
    # The interpreter says so only when the map has ended, AWS at once.
    due.server.rules.append(lambda call: on_describe(call, old, "ABORTED"))
    new = due.workflow.start(ENDPOINTS)
    go_on.set()
    report = due.report(due.workflow.wait(new))
    assert {due.counts()[name] for name in EAST} <= {1, 3}
    scaled = [call.params["EndpointName"] for call in due.server.calls if call.operation == "UpdateEndpointWeightsAndCapacities"]
    assert len(scaled) == len(set(scaled))
    told = "".join(mail["Content"]["Simple"]["Body"]["Text"]["Data"] for mail in due.mails_to(OWNER))
    assert all(told.count(f". {name}\n") <= 1 for name in EAST)
    assert {step for step, _ in outcomes(report).values()} <= {"stop", "none", "hold"}


def on_describe(call: Call, execution: str, status: str) -> Fault | None:
    """The state of one execution."""
    if call.operation != "DescribeExecution" or call.params["executionArn"] != execution:
        return None
    return Fault(answer=lambda call: reply.result(call, {"executionArn": execution, "status": status}))


def test_a_conclude_that_failed_is_redriven_and_mails_once(due: Company):
    def once(event: dict[str, Any]) -> dict[str, Any]:
        answer = invoke(event)
        if event["phase"] == "conclude":
            raise MemoryError("it had sent everything")
        return answer

    due.workflow.replace("WorkflowFunction", once)
    ended = due.workflow.run(ENDPOINTS)
    assert (ended["status"], ended["error"]) == ("FAILED", "MemoryError")
    assert due.workflow.phases()[-3:] == ["conclude"] * 3
    report = due.report({"status": "SUCCEEDED", "output": invoke(due.workflow.events[-1])})
    assert outcomes(report) == dict.fromkeys(EAST, ("stop", "done"))
    assert len(due.mails_to(OWNER)) == 1
    lease = due.ledger.read_row(run_lease.LEASE_ROW)
    assert not lease.values


def test_a_repeated_conclude_keeps_the_first_report_and_its_figures(enforced: Company, capsys: pytest.CaptureFixture[str]):
    """The repeated one finds every notice sent, so its report would say less."""

    def once(event: dict[str, Any]) -> dict[str, Any]:
        answer = invoke(event)
        if event["phase"] == "conclude" and enforced.workflow.phases().count("conclude") == 1:
            raise MemoryError("it had sent everything")
        return answer

    enforced.workflow.replace("WorkflowFunction", once)
    report = enforced.sweep()
    assert enforced.workflow.phases().count("conclude") == 2
    assert outcomes(report) == dict.fromkeys(EAST, ("warn", "done"))
    assert capsys.readouterr().out.count('"SweepSeconds":') == 1
    assert len(enforced.mails_to(OWNER)) == 1


def test_an_act_that_dies_with_its_answer_and_is_repeated_is_told_as_done(due: Company):
    acted: list[int] = []

    def target(event: dict[str, Any]) -> dict[str, Any]:
        answer = invoke(event)
        if event["phase"] == "act":
            acted.append(event["item"])
            if acted.count(event["item"]) == 1:
                raise FunctionFailed("Lambda.ServiceException", "the answer was lost")
        return answer

    due.workflow.replace("TargetFunction", target)
    report = due.sweep()
    assert sorted(acted) == [0, 0, 1, 1, 2, 2]
    assert outcomes(report) == dict.fromkeys(EAST, ("stop", "done"))
    scaled = [call for call in due.server.calls if call.operation == "UpdateEndpointWeightsAndCapacities"]
    assert len(scaled) == 3


def test_an_execution_that_gets_no_lease_ends_as_skipped(due: Company, capsys: pytest.CaptureFixture[str]):
    for account in (HUB, RESEARCH, APPS):
        target = Target(cloud="aws", account=account, region="us-east-1")
        assert due.ledger.take_lease(target, "a command line", datetime.now(UTC), timedelta(minutes=15))
    ended = due.workflow.run(ENDPOINTS)
    assert (ended["status"], ended["output"]["status"]) == ("SUCCEEDED", "skipped")
    assert '"Skipped":[1.0]' in capsys.readouterr().out.replace(" ", "")
    assert [row["error"] for row in due.report(ended)["coverage"] if row["kind"] == "runs"] == [SKIPPED]


def test_what_the_engine_carries_is_what_the_first_phase_listed(due: Company):
    due.sweep()
    first, *later = due.workflow.events
    assert set(first) == {"phase", "execution", "options"}
    carried = {(event["run"], event["execution"], event["policy"], event["listed"]) for event in later}
    [(run, execution, policy, _)] = carried
    assert (run, policy) == (run_id_of(execution), policy_digest(POLICY))
    assert {type(event["item"]) for event in later if "item" in event} == {int}


def test_a_run_keeps_its_policy_to_its_end(due: Company):
    """Between act and conclude somebody writes a policy that would leave everything alone."""

    def once(event: dict[str, Any]) -> dict[str, Any]:
        if event["phase"] == "conclude":
            other = POLICY.replace("action: stop", "action: ignore")
            boto3.client("ssm").put_parameter(Name=NAMES["PolicyParameter"], Value=other, Type="String", Overwrite=True)
        return invoke(event)

    due.workflow.replace("WorkflowFunction", once)
    report = due.sweep()
    assert outcomes(report) == dict.fromkeys(EAST, ("stop", "done"))
    assert {finding["rule_detail"]["action"] for finding in report["findings"]} == {"stop"}
    assert len(due.mails_to(OWNER)) == 1


def test_a_pause_in_the_middle_of_act_stops_what_has_not_begun(due: Company):
    stopped, paused = endpoint_name(APPS, "us-east-1"), threading.Event()

    def target(event: dict[str, Any]) -> dict[str, Any]:
        if event["phase"] == "act" and item_of(event)["account"] != APPS:
            assert paused.wait(60)
        answer = invoke(event)
        if event["phase"] == "act" and item_of(event)["account"] == APPS:
            stop_switch.set_pause(due.ledger, Pause(until=UNTIL_RESUMED, by="ana"), datetime.now(UTC))
            paused.set()
        return answer

    due.workflow.replace("TargetFunction", target)
    report = due.sweep()
    assert outcomes(report) == {**dict.fromkeys(EAST, ("stop", "refused")), stopped: ("stop", "done")}
    assert [name for name, count in due.counts().items() if count == 1] == [stopped]


def test_a_call_starts_a_run_within_the_deployments_limits(enforced: Company, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("REAPER_WORKFLOW", enforced.workflow.arn)
    context = replace_id(CONTEXT, "request-1")
    with pytest.raises(SettingsError, match="doesn't sweep"):
        sweep.handler({"accounts": [RESEARCH], "regions": ["us-west-2"]}, context)
    with pytest.raises(SettingsError, match="unknown option"):
        sweep.handler({"mod": "audit"}, context)
    assert enforced.workflow.events == []
    event = {"mode": "audit", "accounts": [RESEARCH]}
    answer = sweep.handler(event, context)
    assert answer == {"run": run_id_of(answer["execution"]), "execution": answer["execution"]}
    assert sweep.handler(event, context) == answer, "Lambda repeats an asynchronous call with the same request ID"
    report = enforced.report(enforced.workflow.wait(answer["execution"]))
    assert (report["run"]["id"], report["run"]["mode"]) == (answer["run"], "audit")
    assert {row["account"] for row in report["coverage"]} == {RESEARCH}
    assert enforced.mails() == []


def replace_id(context: Any, request_id: str) -> Any:
    """The context of another request."""
    return type(context)(**{**vars(context), "aws_request_id": request_id})


@pytest.mark.parametrize("options", [{"Comment": "a manual start"}, {"regions": ["us-west-2"]}, {"mode": "enforced"}])
def test_an_execution_with_options_that_cannot_be_meant_fails(audited: Company, options: dict[str, Any]):
    ended = audited.workflow.run(options)
    assert (ended["status"], ended["error"]) == ("FAILED", "SettingsError")
    assert set(audited.workflow.phases()) == {"list"}
    assert set(ACCOUNTS) == {HUB, RESEARCH, APPS, FORGOTTEN}
