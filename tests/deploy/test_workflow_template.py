"""What can be read off the state machine and its roles, and moto's interpreter can't show: tolerance, time limits, partitions, the trust."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy import policies, step_functions
from deploy.test_template import MODES, NAMES
from reaper.aws import targets
from reaper.settings import from_env

ONCE, MAPPED = ("ListTargets", "Decide", "Conclude"), ("Observe", "Act")
MACHINE = NAMES["Workflow"]
EXECUTION = MACHINE.replace("stateMachine", "execution")
TIMEOUTS = {"States.Timeout", "Sandbox.Timedout", "Lambda.Unknown", "States.ALL", "States.TaskFailed"}
"""The names under which a task that ran out of time may be retried."""


@pytest.fixture(scope="module")
def machine(cloudformation: dict[str, Any]) -> dict[str, Any]:
    return step_functions.definition(cloudformation)


def every_state(states: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every state by name, those of the maps' items as well."""
    for name, state in states.items():
        yield name, state
        if "ItemProcessor" in state:
            yield from every_state(state["ItemProcessor"]["States"])


def texts(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            yield key
            yield from texts(value)
    elif isinstance(node, list):
        for value in node:
            yield from texts(value)
    elif isinstance(node, str):
        yield node


def test_cfn_lint_finds_nothing_in_the_definition_as_deployed(machine: dict[str, Any], tmp_path: Path):
    properties = {"RoleArn": "arn:aws:iam::123456789012:role/workflow", "Definition": machine}
    template = {"Resources": {"Workflow": {"Type": "AWS::StepFunctions::StateMachine", "Properties": properties}}}
    file = tmp_path / "template.json"
    file.write_text(json.dumps(template))
    done = subprocess.run([Path(sys.executable).with_name("cfn-lint"), file], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("name", MAPPED)
def test_no_number_of_failed_items_fails_a_map(machine: dict[str, Any], name: str):
    state = machine["States"][name]
    assert state["ToleratedFailurePercentagePath"] == "$.tolerated"
    assert machine["States"]["ListTargets"]["ResultSelector"]["tolerated"] == 100
    assert {"ToleratedFailureCount", "Retry", "Catch"} & set(state) == set()


@pytest.mark.parametrize("name", MAPPED)
def test_items_come_from_the_bucket_and_results_go_there(machine: dict[str, Any], name: str):
    state = machine["States"][name]
    assert state["ItemProcessor"]["ProcessorConfig"] == {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"}
    assert state["Label"] == name
    assert len(name) <= 40
    carried = {"run.$", "execution.$", "policy.$", "listed.$"}
    assert set(state["ItemSelector"]) == {*carried, "item.$"}, "nothing that grows with the organization"
    assert state["ItemSelector"]["execution.$"] == "$.execution", (
        "within a map, the context object may name the item's own execution"
    )
    assert state["ItemSelector"]["item.$"] == "$$.Map.Item.Value.item", "its number alone: the rest is read from the store"
    assert state["ItemReader"]["Parameters"]["Bucket"] == NAMES["ReportBucket"]
    prefix = state["ResultWriter"]["Parameters"]["Prefix.$"]
    assert "$$.Execution.Name" in prefix
    assert "$." not in prefix.replace("$$.", ""), "it would be the results in one interpreter and the input in another"


@pytest.mark.parametrize("name", ONCE)
def test_a_phase_that_runs_once_is_retried_and_never_caught(machine: dict[str, Any], name: str):
    """A redrive begins at the state that failed the execution. One whose error was caught never did."""
    state = machine["States"][name]
    assert "Catch" not in state
    assert state["Retry"][-1]["ErrorEquals"] == ["States.ALL"]


def test_whatever_fails_in_an_item_is_caught_with_the_item(machine: dict[str, Any]):
    for name in MAPPED:
        states = machine["States"][name]["ItemProcessor"]["States"]
        [task] = [state for state in states.values() if state["Type"] == "Task"]
        [caught] = task["Catch"]
        assert (caught["ErrorEquals"], caught["ResultPath"]) == (["States.ALL"], "$.failure")
        assert set(states[caught["Next"]]["Parameters"]) == {"item.$", "Error.$", "Cause.$"}


def test_an_action_that_ran_out_of_time_is_never_repeated(machine: dict[str, Any]):
    task = machine["States"]["Act"]["ItemProcessor"]["States"]["ActOnItem"]
    assert {error for retrier in task["Retry"] for error in retrier["ErrorEquals"]} & {*TIMEOUTS, "Runtime.ExitError"} == set()


def test_every_retry_backs_off_with_full_jitter(machine: dict[str, Any]):
    retriers = [retrier for _, state in every_state(machine["States"]) for retrier in state.get("Retry", ())]
    assert len(retriers) > 8
    assert all(r["BackoffRate"] >= 2 and r["JitterStrategy"] == "FULL" and r["MaxDelaySeconds"] <= 60 for r in retriers)


def test_every_task_has_a_time_limit_above_its_functions(cloudformation: dict[str, Any], machine: dict[str, Any]):
    resources = cloudformation["Resources"]
    longest = max(resources[name]["Properties"]["Timeout"] for name in ("WorkflowFunction", "TargetFunction"))
    tasks = {name: state for name, state in every_state(machine["States"]) if state["Type"] == "Task"}
    assert len(tasks) == 5
    assert {name for name, state in tasks.items() if state.get("TimeoutSeconds", 0) <= longest} == set()
    assert machine["TimeoutSeconds"] == 3 * 3600, "nothing acts later than two hours after the start"


@pytest.mark.parametrize("partition", ["aws", "aws-cn", "aws-us-gov"])
def test_every_arn_in_the_definition_has_the_partition(cloudformation: dict[str, Any], partition: str):
    names = {"AWS::Partition": partition} | {
        name: str(value).replace("arn:aws:", f"arn:{partition}:") for name, value in NAMES.items() if isinstance(value, str)
    }
    arns = [text for text in texts(step_functions.definition(cloudformation, **names)) if text.startswith("arn:")]
    assert len(arns) == 14
    assert [arn for arn in arns if not arn.startswith(f"arn:{partition}:")] == []


def test_every_next_state_exists_and_a_run_that_is_skipped_succeeds(machine: dict[str, Any]):
    states = machine["States"]
    assert {name for state in states.values() for name in [state.get("Next"), state.get("Default")] if name} <= set(states)
    [skipped, empty] = states["IsListed"]["Choices"]
    assert (skipped["StringEquals"], states[skipped["Next"]]["Type"], empty["Next"]) == ("skipped", "Succeed", "Decide")


OWN = {"Workflow", "WorkflowRole", "WorkflowPolicy", "WorkflowLogs", "WorkflowFunction", "TargetFunction", "AccountsPolicy"}
OWN |= {"WorkflowFailedAlarm", "WorkflowTimedOutAlarm", "WorkflowAbortedAlarm"}


def test_with_this_account_only_nothing_of_the_workflow_exists(cloudformation: dict[str, Any]):
    alone = policies.present(cloudformation, {"Mode": "enforce"})
    several = policies.present(cloudformation, {"Mode": "enforce", "Targets": "organization"})
    assert several - alone == OWN
    assert alone - several == set()
    names = {**NAMES, "SpansAccounts": "false", "HasExternalId": "false"}
    variables = cloudformation["Resources"]["SweepFunction"]["Properties"]["Environment"]["Variables"]
    theirs = (
        "REAPER_ACCOUNTS",
        "REAPER_EXCLUDE_ACCOUNTS",
        "REAPER_TARGET_ROLE",
        "REAPER_EXTERNAL_ID",
        "REAPER_RUNS",
        "REAPER_WORKFLOW",
    )
    assert [name for name in theirs if policies.resolve(variables[name], names) is not None] == []


def test_both_functions_of_the_workflow_have_the_deployments_settings(cloudformation: dict[str, Any]):
    """Those of the function that sweeps one account; what observes and acts needs no workflow."""
    functions = ("SweepFunction", "WorkflowFunction", "TargetFunction")
    chosen = {"Targets": "organization", "ExcludeAccounts": "", "ExternalId": "x-1", "HasExternalId": "true"}
    names = {**NAMES, **chosen, "Acts": "true", "Tells": "true", "Mode": "enforce", "AWS::StackId": "the stack"}
    names |= {"LedgerTable": "ledger", "OffersSnooze": "true", "SnoozeFunctionUrl.FunctionUrl": "https://page", "Quiet": "true"}
    sweep, once, mapped = (
        policies.resolve(cloudformation["Resources"][name]["Properties"]["Environment"]["Variables"], names) for name in functions
    )
    assert sweep == once
    assert once.pop("REAPER_WORKFLOW") == MACHINE, "its own machine, whose executions may sweep"
    assert once == mapped
    assert once["REAPER_RUNS"] == "s3://reports-bucket/runs"
    assert (once["REAPER_ACCOUNTS"], once["REAPER_EXTERNAL_ID"]) == ("organization", "x-1")


@pytest.mark.parametrize(
    ("value", "fits"),
    [
        ("self", True),
        ("organization", True),
        ("111111111111", True),
        ("111111111111,222222222222", True),
        ("ou-ab12-34cdefgh,ou-ab12-56ijklmn", True),
        ("", False),
        ("all", False),
        ("self,111111111111", False),
        ("organization,111111111111", False),
        ("111111111111,ou-ab12-34cdefgh", False),
        ("ou-ab12-34cdefgh,111111111111", False),
        ("111111111111, 222222222222", False),
        ("11111111111", False),
        ("ou-ab12", False),
    ],
)
def test_targets_are_named_and_not_matched(cloudformation: dict[str, Any], value: str, fits: bool):
    parameter = cloudformation["Parameters"]["Targets"]
    assert (parameter["Type"], parameter["Default"]) == ("String", "self")
    assert bool(re.search(parameter["AllowedPattern"], value)) is fits
    if fits:
        from_env({"REAPER_ACCOUNTS": value})  # what can be deployed, the function understands


def test_only_this_machine_can_use_its_role(cloudformation: dict[str, Any]):
    role = cloudformation["Resources"]["WorkflowRole"]["Properties"]
    [trust] = policies.resolve(role["AssumeRolePolicyDocument"], NAMES)["Statement"]
    assert trust["Principal"] == {"Service": "states.amazonaws.com"}
    ours = {"aws:SourceAccount": "123456789012", "aws:SourceArn": MACHINE}
    assert policies.conditions_hold(trust["Condition"], ours)
    for other in ({**ours, "aws:SourceArn": f"{MACHINE}-of-others"}, {**ours, "aws:SourceAccount": "999999999999"}, {}):
        assert not policies.conditions_hold(trust["Condition"], other)
    assert policies.of_role(cloudformation, "WorkflowRole", {"SpansAccounts": "true"}) == {"WorkflowPolicy"}


@pytest.mark.parametrize(
    ("action", "resource", "allowed"),
    [
        ("states:StartExecution", MACHINE, True),
        ("states:StartExecution", f"{MACHINE}-of-others", False),
        ("states:DescribeExecution", f"{EXECUTION}:0123456789ab", True),
        ("states:RedriveExecution", f"{EXECUTION}/Observe:1-2", True),
        ("states:RedriveExecution", f"{EXECUTION}:0123456789ab", False),
        ("lambda:InvokeFunction", NAMES["TargetFunction.Arn"], True),
        ("lambda:InvokeFunction", NAMES["SweepFunction.Arn"], False),
        ("s3:PutObject", "arn:aws:s3:::reports-bucket/runs/workflow/1/observe/1/FAILED_0.json", True),
        ("s3:PutObject", "arn:aws:s3:::reports-bucket/manifests/1/a.json", False),
        ("s3:PutObject", "arn:aws:s3:::reports-bucket/reports/a.json", False),
        ("sts:AssumeRole", "arn:aws:iam::222222222222:role/ml-idle-reaper-target", False),
    ],
)
def test_the_machine_can_run_itself_and_its_functions_only(
    cloudformation: dict[str, Any], action: str, resource: str, allowed: bool
):
    documents = policies.of_template(cloudformation, NAMES, only={"WorkflowPolicy"})
    assert policies.evaluate(documents, action, resource, {}) is allowed


@pytest.mark.parametrize(
    ("keys", "allowed"),
    [({"aws:ResourceOrgID": "o-ab12cd34ef"}, True), ({"aws:ResourceOrgID": "o-zz12cd34ef"}, False), ({}, False)],
    ids=["our organization", "another", "none"],
)
def test_with_an_organization_only_its_roles_are_assumed(cloudformation: dict[str, Any], keys: dict[str, str], allowed: bool):
    names = {**NAMES, "HasOrganization": "true", "OrganizationId": "o-ab12cd34ef"}
    documents = policies.of_template(cloudformation, names, only={"AccountsPolicy"})
    role = "arn:aws:iam::222222222222:role/ml-idle-reaper-target"
    assert policies.evaluate(documents, "sts:AssumeRole", role, keys) is allowed


@pytest.mark.parametrize(
    ("action", "resource", "allowed"),
    [
        ("sts:AssumeRole", "arn:aws:iam::222222222222:role/ml-idle-reaper-target", True),
        ("sts:AssumeRole", "arn:aws:iam::222222222222:role/admin", False),
        ("organizations:ListAccounts", "*", True),
        ("organizations:ListAccountsForParent", "arn:aws:organizations::1:ou/o-a/ou-ab12-34cdefgh", True),
        ("organizations:DescribeAccount", "*", False),
        ("organizations:LeaveOrganization", "*", False),
        ("states:StopExecution", f"{EXECUTION}:0123456789ab", False),
        ("s3:GetObject", "arn:aws:s3:::reports-bucket/runs/1/items.json", True),
        ("s3:GetObject", "arn:aws:s3:::reports-bucket/manifests/1/a.json", False),
        ("s3:DeleteObject", "arn:aws:s3:::reports-bucket/runs/1/items.json", False),
    ],
)
def test_the_sweep_reaches_accounts_through_their_target_role_only(
    cloudformation: dict[str, Any], action: str, resource: str, allowed: bool
):
    documents = policies.of_template(cloudformation, NAMES, only={"AccountsPolicy"})
    assert policies.evaluate(documents, action, resource, {}) is allowed


@pytest.mark.parametrize("mode", sorted(MODES))
def test_the_sweeps_role_is_on_the_path_that_targets_trust(cloudformation: dict[str, Any], mode: str):
    role = cloudformation["Resources"]["SweepRole"]["Properties"]
    assert policies.resolve(role["Path"], {**NAMES, "SpansAccounts": "true"}) == "/ml-idle-reaper/"
    assert policies.resolve(role["Path"], {**NAMES, "SpansAccounts": "false"}) == "/"
    others = {n for n, r in cloudformation["Resources"].items() if r["Type"] == "AWS::IAM::Role" and "Path" in r["Properties"]}
    assert others == {"SweepRole"}
    assert "AccountsPolicy" in policies.of_role(cloudformation, "SweepRole", {**MODES[mode], "SpansAccounts": "true"})
    assert "AccountsPolicy" not in policies.of_role(cloudformation, "SweepRole", MODES[mode])


@pytest.mark.parametrize("metric", ["ExecutionsFailed", "ExecutionsTimedOut", "ExecutionsAborted"])
def test_an_execution_that_does_not_succeed_rings(cloudformation: dict[str, Any], metric: str):
    alarms = [r for r in cloudformation["Resources"].values() if r["Type"] == "AWS::CloudWatch::Alarm"]
    [alarm] = [a for a in alarms if a["Properties"]["MetricName"] == metric]
    properties = alarm["Properties"]
    assert (properties["Namespace"], properties["Threshold"], alarm["Condition"]) == ("AWS/States", 1, "SpansAccounts")
    assert properties["Dimensions"] == [{"Name": "StateMachineArn", "Value": {"Ref": "Workflow"}}]
    assert properties["AlarmActions"] == [{"Ref": "SummaryTopic"}]


def test_the_sweep_may_ask_of_the_organization_what_the_code_asks(cloudformation: dict[str, Any]):
    documents = policies.of_template(cloudformation, NAMES, only={"AccountsPolicy"})
    granted = {a for s in policies.statements(documents) for a in policies.listed(s["Action"]) if a.startswith("organizations:")}
    assert granted == set(targets.ORGANIZATION_PERMISSIONS)
