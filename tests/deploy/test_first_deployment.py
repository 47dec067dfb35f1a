"""The first command of the AWS page, as a newcomer runs it: two parameters, no questions but one, and the region of the profile."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from deploy import guided, policies, sam
from deploy.cloudformation import STACK, Account
from deploy.guided import PAGE, blocks
from deploy.translate import translate

pytestmark = guided.TIMEOUT
ALARMS = {
    "ErrorAlarm": "failed sweeps",
    "CoverageAlarm": "incomplete sweeps",
    "SilenceAlarm": "a day without a sweep",
    "HeldAlarm": "actions on hold",
    "ActsFailedAlarm": "failed actions",
    "SnoozeAlarm": "failures of the snooze page",
    "AlarmRunFailedAlarm": "alarms on endpoints that weren't followed up",
    "WorkflowFailedAlarm": "failed executions",
    "WorkflowTimedOutAlarm": "executions that timed out",
    "WorkflowAbortedAlarm": "executions that were stopped",
}


@pytest.fixture(scope="module")
def stack() -> dict[str, Any]:
    return translate(sam.ROOT / "template.yaml")


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    """An empty one. Its admin's shell has no region but the profile's, and has run nothing of the page."""
    with guided.empty_account(tmp_path_factory) as found:
        (found.home / "profile").write_text("[default]\nregion = us-east-1\n")
        yield replace(found, setup='export AWS_CONFIG_FILE="$PWD/profile"\n')


@pytest.fixture(scope="module")
def first(account: Account) -> str:
    """What SAM says to the command as it stands there. Building is another test's."""
    [clone, _] = blocks(PAGE, "First deployment")
    [_, deploy] = clone.splitlines()
    assert deploy.startswith("sam build && sam deploy --parameter-overrides ")
    done = account.shell(deploy.removeprefix("sam build && "), answers="y\n")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def change(account: Account, arguments: str) -> str:
    done = account.shell(f"sam deploy --parameter-overrides {arguments}", answers="y\n")
    assert done.returncode == 0, done.stdout + done.stderr
    return re.sub(r"\s+", " ", done.stdout)


def parameters(account: Account) -> dict[str, str]:
    """The stack's. moto writes an empty list in Python's way."""
    [deployed] = account.client("cloudformation").describe_stacks(StackName=STACK)["Stacks"]
    return {p["ParameterKey"]: p["ParameterValue"].replace("['']", "") for p in deployed["Parameters"]}


def test_one_command_with_two_parameters_deploys(account: Account, first: str):
    assert f"Successfully created/updated stack - {STACK}" in first
    assert {**parameters(account), "Email": "you@example.com", "Mode": "audit"} == parameters(account)
    assert account.variables()["REAPER_MODE"] == "audit"
    assert "NoEmail" not in first
    assert (account.home / "samconfig.toml").read_text() == (sam.ROOT / "samconfig.toml").read_text()


def test_a_later_command_names_only_what_changes(account: Account, first: str):
    before = parameters(account)
    [example] = re.findall(r"^\$ sam deploy --parameter-overrides (.*cron.*)$", PAGE, re.MULTILINE)
    said = change(account, example)
    assert parameters(account) == {**before, "Mode": "notify", "Schedule": "cron(0 5 * * ? *)"}
    assert "NoChannels" in said, "the built-in policy has none for owners"
    assert account.shell("sam deploy --no-confirm-changeset --no-fail-on-empty-changeset").returncode == 0
    assert parameters(account)["Mode"] == "notify"


def test_an_emptied_address_is_said_at_the_end_of_the_deployment(account: Account, first: str):
    [empty] = re.findall(r"To empty a parameter, write `(.*?)`", PAGE)
    said = change(account, f"{empty} Mode=audit")
    assert parameters(account)["Email"] == ""
    assert "NoEmail" in said
    assert "no address" in said


@pytest.mark.parametrize("mode", ["audit", "notify", "announce", "enforce"])
@pytest.mark.parametrize("more", [{}, {"SnoozeLinks": "true", "ExpectDaily": "false"}, {"Targets": "organization"}])
def test_the_output_lists_every_alarm_that_reaches_no_address(stack, mode: str, more: dict[str, str]):
    chosen = {"Mode": mode, **more}
    names = policies.present(stack, chosen)
    alarms = {n for n, r in stack["Resources"].items() if r["Type"] == "AWS::CloudWatch::Alarm"} & names
    text, variables = stack["Outputs"]["NoEmail"]["Value"]["Fn::Sub"]
    parts = [part["Fn::If"] if isinstance(part, dict) else [None, part] for part in variables["Alarms"]["Fn::Join"][1]]
    listed = {part: {"Condition": condition} if condition else {} for condition, part, *_ in parts}
    assert policies.present({**stack, "Resources": listed}, chosen) == {ALARMS[name] for name in alarms}
    assert "summary of every sweep" in text
    assert "sam deploy --parameter-overrides Email=" in text


def test_every_parameter_is_in_exactly_one_group_and_has_a_label(stack):
    about = stack["Metadata"]["AWS::CloudFormation::Interface"]
    grouped = [name for group in about["ParameterGroups"] for name in group["Parameters"]]
    assert about["ParameterGroups"][0]["Parameters"] == ["Email", "Mode"], "what a first deployment sets"
    assert grouped == list(stack["Parameters"]), "in the order in which SAM asks for them"
    assert list(about["ParameterLabels"]) == grouped
    labels = [label["default"] for label in about["ParameterLabels"].values()]
    assert len(set(labels)) == len(labels)


def test_the_guide_has_the_groups_of_the_template_in_its_order(stack):
    section = PAGE.split("## Parameters\n")[1].split("\n## ")[0]
    groups = {
        g["Label"]["default"]: set(g["Parameters"])
        for g in stack["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"]
    }
    heads = re.findall(r"^### (.+)$", section, re.MULTILINE)
    assert heads == list(groups)
    for head, text in zip(heads, re.split(r"^### .+$", section, flags=re.MULTILINE)[1:], strict=True):
        named = {n for row in re.findall(r"^\| (`.*?) \|", text, re.MULTILINE) for n in re.findall(r"`(\w+)`", row)}
        assert named == groups[head], head


def test_every_parameter_has_a_description_and_a_default_that_fits(stack):
    for name, about in stack["Parameters"].items():
        assert about["Description"], name
        value = str(about["Default"])
        assert re.search(about.get("AllowedPattern", ""), value), name
        assert value in map(str, about.get("AllowedValues", [value])), name


@pytest.mark.parametrize(
    ("address", "fits"), [("", True), ("a@example.com", True), ("a@example.com,b@example.com", False), ("you", False)]
)
def test_the_admins_address_is_one_or_none(stack, address: str, fits: bool):
    assert bool(re.search(stack["Parameters"]["Email"]["AllowedPattern"], address)) is fits
