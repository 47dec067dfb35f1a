"""The way through the AWS pages as a newcomer goes it: SAM's own guided flow, and every command as it stands there, against an account on loopback."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from moto.cloudwatch.models import cloudwatch_backends
from moto.s3.models import s3_backends

from deploy import guided, policies, sam
from deploy.cloudformation import STACK, Account
from deploy.guided import PAGE, UNATTENDED, blocks, guide
from deploy.translate import translate

pytestmark = guided.TIMEOUT


@pytest.fixture(scope="module")
def stack() -> dict[str, Any]:
    return translate(sam.ROOT / "template.yaml")


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    """One for the file: its tests leave the stack as it is, and the last takes it away."""
    with guided.empty_account(tmp_path_factory) as new_account:
        yield new_account


@pytest.fixture(scope="module")
def deployed(account: Account) -> str:
    """What SAM says when it makes that stack."""
    return guided.take_defaults(account)


def test_sam_deploys_with_nothing_but_enter_and_a_yes(account: Account, deployed: str):
    assert f"Successfully created/updated stack - {STACK}" in deployed
    assert "no authentication" not in deployed
    assert account.variables()["REAPER_MODE"] == "audit"
    assert "SnoozeFunction" not in account.resources()


def test_the_answers_are_those_of_the_next_deployment(account: Account, deployed: str):
    assert 'Mode="audit"' in guided.saved(account)
    plain = account.shell("sam deploy")
    assert "No changes to deploy" in plain.stderr, plain.stdout + plain.stderr
    assert plain.returncode != 0
    assert account.shell(guided.deploy_unattended()).returncode == 0, "and that is what its second option is for"


def test_a_second_installation_has_its_own_answers(account: Account, deployed: str):
    [first] = re.findall(r"\$ (sam deploy --guided --config-env .*)\n", PAGE)
    before = (account.resources(), guided.answers(account))
    assert guided.saved(account)
    completed = guide(
        account,
        f"stack=ml-idle-reaper-dev\n{first}",
        Mode="announce",
        PolicyParameter="/ml-idle-reaper-dev/policy",
        Targets="organization",
    )
    assert completed.startswith("0 "), completed
    assert account.variables("ml-idle-reaper-dev")["REAPER_POLICY"] == "ssm:/ml-idle-reaper-dev/policy"
    machines = account.client("stepfunctions").list_state_machines()["stateMachines"]
    assert [machine["name"] for machine in machines] == ["ml-idle-reaper-dev-sweep"]
    assert account.variables("ml-idle-reaper-dev")["REAPER_WORKFLOW"] == machines[0]["stateMachineArn"]
    assert (account.resources(), guided.answers(account)) == before
    again = account.shell(
        'stack=ml-idle-reaper-dev\nsam deploy --config-env "$stack" --no-fail-on-empty-changeset --no-confirm-changeset'
    )
    assert again.returncode == 0, again.stdout + again.stderr
    assert account.variables("ml-idle-reaper-dev")["REAPER_MODE"] == "announce"
    [delete, clean] = guided.uninstall()
    completed = account.shell(f"stack=ml-idle-reaper-dev\n{guided.put_policy()}{delete}{clean}")
    assert completed.returncode == 0, completed.stdout + completed.stderr
    assert account.resources() == before[0], "and only the second one is taken away"


def test_only_one_branch_of_one_repository_may_deploy():
    [trust, _] = [yaml.safe_load(block) for block in re.findall(r"```json\n(.*?)```", UNATTENDED, re.DOTALL)]
    [statement] = trust["Statement"]
    token = "token.actions.githubusercontent.com"
    ours = {f"{token}:aud": "sts.amazonaws.com", f"{token}:sub": "repo:ORGANIZATION/REPOSITORY:ref:refs/heads/main"}
    assert policies.conditions_hold(statement["Condition"], ours)
    assert not policies.conditions_hold(statement["Condition"], {**ours, f"{token}:sub": f"{ours[f'{token}:sub']}-2"})
    assert not policies.conditions_hold(statement["Condition"], {**ours, f"{token}:aud": "somebody else"})


def test_a_policy_file_reaches_parameter_store_whole(account: Account):
    [put] = blocks(PAGE, "Your policy")
    completed = account.shell(put)
    assert completed.returncode == 0, completed.stderr
    stored = account.client("ssm").get_parameter(Name="/ml-idle-reaper/policy")["Parameter"]
    assert (stored["Value"], stored["Type"]) == ((sam.ROOT / "policies/default.yaml").read_text(), "String")


CUT = 'version: 1\nrules: # "keep" is a word\n  - {name: a, match: {tags: {env: [prod]}}, action: ignore}\n'


@pytest.mark.parametrize("quoted", [False, True], ids=["as a word", "in quotation marks"])
@pytest.mark.parametrize(
    "text", [CUT, "{version: 1, rules: [{name: a, match: {name: x}, action: ignore}]}", "# mine\nversion: 1\n"]
)
def test_a_policy_that_sam_cuts_is_refused_and_never_deployed(account: Account, stack, text: str, quoted: bool):
    pattern = stack["Parameters"]["Policy"]["AllowedPattern"]
    arrived = override(account, f'Policy="{text}"' if quoted else f"Policy={text}")
    whole = arrived == text
    assert bool(re.fullmatch(pattern, arrived)) is (whole and "\n" not in text)


def override(account: Account, argument: str) -> str:
    """What SAM makes of a parameter on its command line."""
    (account.home / "argument").write_text(argument)
    script = "from samcli.cli.types import CfnParameterOverridesType as T; print(T().convert((open('argument').read(),), None, None)['Policy'], end='')"
    completed = account.shell(f'"{sam.HOME}/bin/python" -c "{script}"')
    assert completed.returncode == 0, completed.stderr
    return completed.stdout


@pytest.mark.parametrize("text", ["version: 1", "{version: 1, owners: {domains: [example.com]}}"])
def test_a_policy_of_one_line_is_taken(stack, text: str):
    assert re.fullmatch(stack["Parameters"]["Policy"]["AllowedPattern"], text)


def test_the_first_look_makes_the_alarm_mail_by_itself_and_sweeps(account: Account, deployed: str, stack):
    """Without waiting for an evaluation, which is an hour away: each change that is set by hand is mailed at once."""
    [[test], [_, look]] = blocks(PAGE, "Test the alarm mail"), blocks(PAGE, "First deployment")
    [silence] = [o["OutputValue"] for o in outputs(account) if o["OutputKey"] == "SilenceAlarm"]
    ring(account, silence, stack["Resources"]["SilenceAlarm"]["Properties"])
    completed = account.shell(f"set -e\n{test}{first_version(look)}")
    assert completed.returncode == 0, completed.stderr
    alarm = cloudwatch_backends[policies.ACCOUNT][policies.REGION].alarms[silence]
    assert [*(state for *_, state, _ in alarm.history), alarm.state_value][-3:] == ["ALARM", "OK", "ALARM"]
    silent = stack["Resources"]["SilenceAlarm"]["Properties"]
    assert silent["AlarmActions"] == silent["OKActions"] == [{"Ref": "SummaryTopic"}]
    assert '"StatusCode": 200' in completed.stdout
    assert "FunctionError" not in completed.stdout
    assert (account.home / "answer.json").exists()


def first_version(command: str) -> str:
    """The command without the one option that only version 2 of AWS's command line knows; version 1 always works as it says."""
    return command.replace("--cli-binary-format raw-in-base64-out ", "")


def outputs(account: Account) -> list[dict[str, str]]:
    """What the stack tells of itself."""
    [stack] = account.client("cloudformation").describe_stacks(StackName=STACK)["Stacks"]
    return list(stack["Outputs"])


def ring(account: Account, name: str, properties: dict[str, Any]) -> None:
    """Make the alarm as the stack does, which moto's CloudFormation does not, and let it go off."""
    plain = {k: v for k, v in properties.items() if k not in {"AlarmActions", "OKActions", "Dimensions"}}
    account.client("cloudwatch").put_metric_alarm(AlarmName=name, **plain)
    account.client("cloudwatch").set_alarm_state(AlarmName=name, StateValue="ALARM", StateReason="a new stack")


def test_invoking_by_hand_waits_and_does_not_start_a_second_sweep(account: Account, deployed: str):
    commands = re.findall(r"^.*aws lambda invoke.*$", PAGE, re.MULTILINE)
    assert len(commands) == 2
    for command in commands:
        assert re.search(r"AWS_MAX_ATTEMPTS=1 aws lambda invoke .*--cli-read-timeout 0 ", command), command
    [command] = [c for c in commands if "NAME" in c]
    completed = account.shell(first_version(command.removeprefix("$ ").replace("NAME", account.resources()["SweepFunction"])))
    assert completed.returncode == 0, completed.stderr


@pytest.fixture(scope="module")
def left_behind(account: Account, deployed: str) -> tuple[str, str]:
    """Bucket and table with something in them: versions, a marker of a deletion, and more than one page."""
    client, resources = account.client("s3"), account.resources()
    bucket = resources["ReportBucket"]
    client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    for number in range(520):
        s3_backends[policies.ACCOUNT]["aws"].put_object(bucket, f"reports/{number % 300}.json", b"{}")
    client.delete_object(Bucket=bucket, Key="reports/1.json")
    account.client("ssm").put_parameter(Name="/ml-idle-reaper/policy", Value="version: 1", Type="String", Overwrite=True)
    return bucket, resources["LedgerTable"]


REFUSED = 'aws() { case "$2" in delete-objects) echo denied >&2; return 254;; list-object-versions) command aws "$@";; *) echo "$2";; esac; }\n'
"""An account in which objects may be listed and not deleted."""


def test_emptying_the_bucket_ends_where_nothing_may_be_deleted(account: Account, left_behind: tuple[str, str]):
    bucket, table = left_behind
    [_, clean] = guided.uninstall()
    completed = account.shell(f"{REFUSED}BUCKET={bucket} TABLE={table}\n{clean}")
    assert "not deleted" in completed.stdout, "and it ends at all"
    assert completed.stderr.count("denied") == 1
    assert completed.stdout.index("update-table") < completed.stdout.index("wait") < completed.stdout.index("delete-table")


def test_uninstalling_what_is_not_there_deletes_nothing(account: Account, deployed: str):
    [delete, _] = guided.uninstall()
    completed = account.shell(f"sam() {{ echo deleted; }}\nstack=other\n{delete}")
    assert (completed.returncode != 0, completed.stdout) == (True, "")


def test_the_clean_exit_leaves_nothing_of_ours_behind(account: Account, left_behind: tuple[str, str]):
    """The last of this file, because it takes the stack away."""
    delete, clean = guided.uninstall()
    bucket, table = left_behind
    completed = account.shell(f"set -e\n{delete}echo $BUCKET $TABLE\n")
    assert completed.returncode == 0, completed.stdout + completed.stderr
    assert completed.stdout.split()[-2:] == [bucket, table], "named by the stack before it goes"
    assert bucket in {b["Name"] for b in account.client("s3").list_buckets()["Buckets"]}, "kept on purpose"
    assert account.client("dynamodb").list_tables()["TableNames"] == [table], "kept on purpose"
    completed = account.shell(f"set -e\nBUCKET={bucket} TABLE={table}\n{clean}")
    assert completed.returncode == 0, completed.stdout + completed.stderr
    assert [b["Name"] for b in account.client("s3").list_buckets()["Buckets"]] == ["aws-sam-cli-managed-default"]
    assert account.client("dynamodb").list_tables()["TableNames"] == []
    assert account.client("ssm").describe_parameters()["Parameters"] == []
    for service, call, key in (
        ("iam", "list_roles", "Roles"),
        ("sns", "list_topics", "Topics"),
        ("lambda", "list_functions", "Functions"),
    ):
        assert getattr(account.client(service), call)()[key] == [], service
