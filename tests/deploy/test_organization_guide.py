"""The commands of the page on several accounts: the AWS command line accepts each, and they name what the templates have."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from deploy import cloudformation, guided, sam
from reaper.aws import targets

ROLE = (sam.ROOT / "infra/aws/target-role.yaml").read_text()
SECTION, _, FORWARDING = guided.ORGANIZATION.partition("\n## Alarms of other accounts\n")
BLOCKS = re.findall(r"```sh\n(.*?)```", SECTION, re.DOTALL)
ALARMS = re.findall(r"```sh\n(.*?)```", FORWARDING, re.DOTALL)
PARAMETERS = set(yaml.safe_load(re.sub(r"!\w+", "", ROLE))["Parameters"])
NO_CALL = """
aws() { command aws "$@" --generate-cli-skeleton output; }
export AWS_REGION=us-east-1 AWS_DEFAULT_REGION=us-east-1 HUB=123456789012
"""
"""The command line checks every option and parameter, and makes no call:
https://docs.aws.amazon.com/cli/latest/userguide/cli-usage-skeleton.html"""


@pytest.mark.parametrize("block", [*BLOCKS, *ALARMS], ids=lambda block: " ".join(block.split()[1:3]))
def test_the_command_line_accepts_every_command(block: str, tmp_path: Path):
    try:
        cloudformation.ready()
    except sam.Missing as why:
        pytest.skip(str(why))
    own = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "REAPER_"))}
    environ = {**own, "PATH": f"{cloudformation.AWS / 'bin'}{os.pathsep}{own['PATH']}"}
    (tmp_path / "infra").symlink_to(sam.ROOT / "infra")
    known = block.replace("--account-id HUB", "--account-id 123456789012").replace("EXECUTION", "arn:aws:states:x")
    text = NO_CALL + re.sub(r"\$\(aws [^)]*\)", "r-ab12", known)
    done = subprocess.run(["bash", "-euc", text], cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_the_commands_and_the_table_name_the_roles_parameters():
    named = set(re.findall(r'ParameterKey=(\w+)|"ParameterKey": "(\w+)"', SECTION + "".join(ALARMS)))
    assert len(ALARMS) == 1
    assert {one or other for one, other in named} <= PARAMETERS
    table = SECTION.split("| parameter of `target-role.yaml` |")[1].split("\n\n")[0]
    assert set(re.findall(r"`(\w+)`", table.replace("`all`", ""))) >= PARAMETERS


def test_an_update_keeps_every_parameter_that_it_does_not_change():
    """One that is left out returns to its default: `Regions` to all, so that the role may act everywhere.
    https://docs.aws.amazon.com/AWSCloudFormation/latest/APIReference/API_Parameter.html"""
    updates = [block for block in [*BLOCKS, *ALARMS] if "update-stack-set" in block]
    assert len(updates) == 2
    for update in updates:
        assert set(re.findall(r'"ParameterKey": "(\w+)"', update)) == PARAMETERS


def test_one_bad_account_ends_no_operation():
    """By default the first failure does, and the accounts after it keep the trust and the rights that they had."""
    operations = ("create-stack-instances", "update-stack-set", "delete-stack-instances")
    commands = re.split(r"\n(?=aws )", "\n".join([*BLOCKS, *ALARMS]))
    found = [command for command in commands if command.startswith(tuple(f"aws cloudformation {name} " for name in operations))]
    assert len(found) == 4
    assert [command for command in found if "FailureTolerancePercentage=100," not in command] == []


def test_the_stack_set_is_made_as_service_managed_ones_must_be():
    [create] = [block for block in BLOCKS if "create-stack-set" in block]
    for option in ("--permission-model SERVICE_MANAGED", "--auto-deployment Enabled=true", "--capabilities CAPABILITY_NAMED_IAM"):
        assert option in create
    assert "FailureTolerancePercentage=100" in create, "or one bad account stops all"


def test_the_hub_only_reads_the_organization():
    """A delegated administrator for stack sets may create any role in every member account."""
    assert "--call-as DELEGATED_ADMIN" not in guided.PAGE + guided.ORGANIZATION
    assert "register-delegated-administrator" not in "".join(BLOCKS)
    [grant] = [block for block in BLOCKS if "put-resource-policy" in block]
    [statement] = json.loads(re.search(r"--content '(.*)'\n", grant, re.DOTALL)[1].replace("'\"$HUB\"'", "1"))["Statement"]  # type: ignore[index]
    assert set(statement["Action"]) == set(targets.ORGANIZATION_PERMISSIONS)
