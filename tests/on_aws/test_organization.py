"""Other accounts: four of them in three regions, of which one denies the role, one has another external ID, and one lacks a region."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from itertools import chain, repeat

import pytest

from fakes.workflow_runs import FakeWorkflow
from on_aws.conftest import DAY, NOW
from reaper import sessions
from reaper.aws import targets
from reaper.case import Coverage
from reaper.errors import CloudError, SettingsError
from reaper.finding import Report
from reaper.ledger import opening
from reaper.ledger.ledger import UNREACHED_ROW
from reaper.model import Account, Mode, Status, Target
from reaper.policy.file import load_policy
from reaper.run import run
from reaper.settings import Settings
from reaper_sandbox.aws.account import Account as Seeded
from reaper_sandbox.aws.fault import Fault, denied, empty, error, on, throttled
from reaper_sandbox.aws.organization import Organization, TargetRole, Unit
from reaper_sandbox.aws.reply import Reply
from reaper_sandbox.aws.server import Server

HUB, RESEARCH, VISION, CLOSED = "123456789012", "111111111111", "222222222222", "333333333333"
REGIONS = ("us-east-1", "eu-west-1", "ap-southeast-1")
ROLE = "ml-idle-reaper-target"
LABS, DEEP = "ou-ab12-labslabs", "ou-ab12-deepdeep"
ENDPOINT = "sagemaker-endpoint"
ORGANIZATION = Settings(cloud="aws", organization=True, regions=REGIONS, kinds=(ENDPOINT,))


@pytest.fixture
def company(server: Server) -> Organization:
    """The hub, two members with an idle endpoint in each region, and an account that was closed."""
    made = server.world.organization = Organization()
    made.units += [Unit(id=LABS, name="labs"), Unit(id=DEEP, name="deep", parent=LABS)]
    made.add(HUB, "platform", role=None)
    made.add(RESEARCH, "research", parent=LABS)
    made.add(VISION, "vision", parent=DEEP, has_state=False)
    made.add(CLOSED, "closed", state="SUSPENDED", parent=LABS)
    for account_id in (HUB, RESEARCH, VISION, CLOSED):
        for region in REGIONS:
            add_idle(server, account_id, region, f"{account_id[0]}-{region}")
    return made


def add_idle(server: Server, account_id: str, region: str, name: str) -> None:
    account = Seeded(server, account_id, region)
    account.endpoint(name)
    account.alive(name, "AllTraffic", NOW - 15 * DAY, NOW)


def sweep(settings: Settings = ORGANIZATION) -> Report:
    return run(settings, load_policy("version: 1"), lambda: NOW)


def assumed(server: Server) -> list[dict[str, str]]:
    return [call.params for call in server.calls if call.action == "sts:AssumeRole"]


def accounts_of(settings: Settings) -> list[str]:
    return [account.id for account in sessions.list_accounts(settings, "aws")]


def names(report: Report) -> list[str]:
    return sorted(finding.case.resource.name for finding in report.findings)


def rows_of(report: Report, account: str) -> list[Coverage]:
    return [row for row in report.coverage if row.account == account]


# Which accounts


def test_every_active_account_is_swept_with_its_name(server: Server, company: Organization):
    report = sweep()
    assert names(report) == sorted(f"{a[0]}-{region}" for a in (HUB, RESEARCH, VISION) for region in REGIONS)
    named = {(row.account, row.account_name) for row in report.coverage}
    assert named == {(HUB, "platform"), (RESEARCH, "research"), (VISION, "vision")}
    assert {f.case.resource.target.account_name for f in report.findings} == {"platform", "research", "vision"}
    assert {row.status for row in report.coverage} == {Status.OK}


def test_a_closed_account_is_not_asked_and_has_no_row(server: Server, company: Organization):
    report = sweep()
    assert rows_of(report, CLOSED) == []
    assert not [request for request in assumed(server) if CLOSED in request["RoleArn"]]


def test_the_state_counts_more_than_the_older_status(server: Server, company: Organization):
    company.members[1].state = "PENDING_CLOSURE"
    assert accounts_of(ORGANIZATION) == [HUB, VISION]


def test_a_row_without_any_state_is_an_error(server: Server, company: Organization):
    def without_state(call, data):
        return data | {"Accounts": [{k: v for k, v in row.items() if k not in {"State", "Status"}} for row in data["Accounts"]]}

    server.rules.append(on("ListAccounts", replace(empty(), answer=None, rewrite=without_state)))
    with pytest.raises(SettingsError, match="has neither State nor Status"):
        sweep()


def test_empty_pages_with_a_token_are_followed(server: Server, company: Organization):
    company.page = 1
    assert accounts_of(ORGANIZATION) == sorted([HUB, RESEARCH, VISION])
    assert Counter(call.operation for call in server.calls)["ListAccounts"] == 5, "four accounts and an empty page"


@pytest.mark.parametrize(("unit", "expected"), [(LABS, [RESEARCH, VISION]), (DEEP, [VISION])])
def test_a_unit_includes_the_units_nested_in_it(server: Server, company: Organization, unit: str, expected: list[str]):
    company.page = 1
    assert accounts_of(replace(ORGANIZATION, organization=False, ous=(unit,))) == expected
    assert "ListAccounts" not in {call.operation for call in server.calls}


def test_an_account_in_two_units_is_swept_once(server: Server, company: Organization):
    assert accounts_of(replace(ORGANIZATION, ous=(LABS, DEEP))) == [RESEARCH, VISION]


def test_accounts_of_an_organization_may_be_named(server: Server, company: Organization):
    assert accounts_of(replace(ORGANIZATION, accounts=(RESEARCH,))) == [RESEARCH]
    assert accounts_of(replace(ORGANIZATION, only_own_account=True)) == [HUB]


def test_an_excluded_account_is_not_asked_and_has_no_row(server: Server, company: Organization):
    report = sweep(replace(ORGANIZATION, exclude_accounts=(RESEARCH,)))
    assert rows_of(report, RESEARCH) == []
    assert not [request for request in assumed(server) if RESEARCH in request["RoleArn"]]


def test_named_accounts_need_no_organization(server: Server, company: Organization):
    server.rules.append(on(".*", denied(), service="organizations"))
    report = sweep(replace(ORGANIZATION, organization=False, accounts=(HUB, RESEARCH)))
    assert {row.account for row in report.coverage} == {HUB, RESEARCH}
    assert not [call for call in server.calls if call.service == "organizations"]


def test_the_own_account_is_read_with_the_own_credentials(server: Server, company: Organization):
    sweep()
    assert sorted(request["RoleArn"].split(":")[4] for request in assumed(server)) == [RESEARCH, VISION]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (replace(ORGANIZATION, ous=("ou-ab12-nowhere1",)), "--ou ou-ab12-nowhere1: the organization has no such unit"),
        (replace(ORGANIZATION, exclude_accounts=(HUB, RESEARCH, VISION)), "no AWS account to sweep"),
        (replace(ORGANIZATION, organization=False, accounts=(HUB,), exclude_accounts=(HUB,)), "no AWS account to sweep"),
        (replace(ORGANIZATION, accounts=("444444444444",)), "444444444444 isn't an active account"),
        (replace(ORGANIZATION, accounts=(CLOSED,)), f"{CLOSED} isn't an active account"),
        (replace(ORGANIZATION, organization=False, accounts=(RESEARCH,), only_own_account=True), "only its own account"),
        (replace(ORGANIZATION, organization=False, accounts=(HUB, RESEARCH), only_own_account=True), "only its own account"),
    ],
)
def test_a_scope_that_cannot_be_meant_sweeps_nothing(server: Server, company: Organization, settings: Settings, message: str):
    with pytest.raises(SettingsError, match=message):
        sweep(settings)
    assert not [call for call in server.calls if call.service == "sagemaker"]


@pytest.mark.parametrize("fault", [denied(), error(500), throttled()], ids=["denied", "broken", "throttled"])
@pytest.mark.parametrize("operation", ["ListAccounts", "ListAccountsForParent", "ListOrganizationalUnitsForParent"])
def test_an_unreadable_organization_sweeps_nothing(server: Server, company: Organization, fault, operation: str):
    server.rules.append(on(operation, fault))
    units = () if operation == "ListAccounts" else (LABS,)
    with pytest.raises(SettingsError, match="the organization can't be read, so nothing was swept"):
        sweep(replace(ORGANIZATION, ous=units))
    assert not [call for call in server.calls if call.service == "sagemaker"]


def test_a_denied_organization_names_the_permission_and_the_way_around(server: Server, company: Organization):
    company.management = RESEARCH
    with pytest.raises(
        SettingsError, match=r"or of a delegated administrator, and allow organizations:ListAccounts; or name the"
    ):
        sweep()


def test_an_account_outside_any_organization_says_so(server: Server):
    with pytest.raises(SettingsError, match="isn't in an organization; name the accounts with --account"):
        sweep()


def test_many_calls_to_the_organization_are_spaced_out(monkeypatch: pytest.MonkeyPatch):
    waits: list[float] = []
    monkeypatch.setattr(targets.time, "sleep", waits.append)
    pace = targets._paced()
    model = type("Model", (), {"name": "ListAccountsForParent"})
    for _ in range(10):
        pace(model)
    assert waits == [0.2, 0.2]


# The role


def test_a_denied_role_is_a_row_for_each_kind_and_hides_nothing(server: Server, company: Organization):
    company.roles = [role for role in company.roles if RESEARCH not in role.arn]
    kinds = (ENDPOINT, "sagemaker-notebook")
    report = sweep(replace(ORGANIZATION, kinds=kinds))
    rows = rows_of(report, RESEARCH)
    assert [(row.kind, row.region, row.status, row.missing) for row in rows] == [
        (kind, None, Status.DENIED, "sts:AssumeRole") for kind in kinds
    ]
    assert "create the role there" in (rows[0].error or "")
    assert f"--exclude-account {RESEARCH}" in (rows[0].error or "")
    assert rows[0].account_name == "research"
    assert names(report) == sorted(f"{a[0]}-{region}" for a in (HUB, VISION) for region in REGIONS)


@pytest.mark.parametrize(("sent", "status"), [(None, Status.DENIED), ("another-id", Status.DENIED), ("right-id", Status.OK)])
def test_an_external_id_must_be_the_right_one(server: Server, company: Organization, sent: str | None, status: Status):
    for role in company.roles:
        role.external_id = "right-id"
    report = sweep(replace(ORGANIZATION, external_id=sent))
    assert {row.status for row in rows_of(report, VISION)} == {status}
    assert {row.status for row in rows_of(report, HUB)} == {Status.OK}
    assert "right-id" not in json.dumps([row.error for row in report.coverage])


def test_a_role_with_a_path_is_assumed_by_path_and_name(server: Server, company: Organization):
    company.roles = [TargetRole(arn=f"arn:aws:iam::{RESEARCH}:role/tools/ml/{ROLE}")]
    report = sweep(replace(ORGANIZATION, organization=False, accounts=(RESEARCH,), role_name=f"tools/ml/{ROLE}"))
    assert {row.status for row in report.coverage} == {Status.OK}


def test_the_trust_policy_sees_the_role_that_assumes(server: Server, company: Organization):
    for role in company.roles:
        role.principals = (f"arn:aws:iam::{HUB}:role/ml-idle-reaper/*",)
    assert {row.status for row in rows_of(sweep(), VISION)} == {Status.DENIED}
    server.world.principals[server.env["AWS_ACCESS_KEY_ID"]] = f"arn:aws:iam::{HUB}:role/ml-idle-reaper/stack-sweep"
    assert {row.status for row in rows_of(sweep(), VISION)} == {Status.OK}


def test_target_roles_are_never_assumed_through_the_enforcing_role(server: Server, company: Organization):
    enforcing = f"arn:aws:iam::{HUB}:role/enforce"
    report = sweep(replace(ORGANIZATION, role=enforcing))
    callers = {
        request["RoleArn"]: call.key for call in server.calls if (request := call.params) and call.action == "sts:AssumeRole"
    }
    assert {arn.split(":")[4] for arn in callers} == {HUB, RESEARCH, VISION}
    assert set(callers.values()) == {server.env["AWS_ACCESS_KEY_ID"]}
    assert {row.status for row in report.coverage} == {Status.OK}


def test_each_account_is_assumed_once_for_all_its_regions(server: Server, company: Organization):
    sweep()
    assert Counter(request["RoleArn"] for request in assumed(server)).most_common(1)[0][1] == 1


@pytest.mark.parametrize("mode", [mode for mode in Mode if mode is not Mode.ENFORCE])
def test_below_enforce_an_assumed_session_can_change_nothing(server: Server, company: Organization, mode: Mode):
    account = Account(cloud="aws", id=RESEARCH, regions=("us-east-1",), is_own=False)
    [cloud], _ = sessions.open_account(replace(ORGANIZATION, mode=mode), account, may_act=mode.acts)
    with pytest.raises(CloudError, match="because no session policy allows the sagemaker:DeleteEndpoint action"):
        cloud.call("sagemaker", "DeleteEndpoint", "ResponseMetadata", EndpointName="1-us-east-1")
    assert "1-us-east-1" in Seeded(server, RESEARCH).contents.endpoints
    [request] = assumed(server)
    assert len(request["Policy"]) <= 2048


def test_a_sweep_reads_through_the_session_policy_even_in_enforce(server: Server, company: Organization, tmp_path):
    stores = {"ledger": f"sqlite://{tmp_path}/l.db", "manifests": str(tmp_path / "m")}
    policy = f"version: 1\nchannels: [{{type: folder, path: {tmp_path}/mail}}]\nowners: {{fallback: a@example.com}}"
    run(replace(ORGANIZATION, mode=Mode.ENFORCE, **stores), load_policy(policy), lambda: NOW)
    assert all("Policy" in request for request in assumed(server))


def test_a_session_that_acts_is_not_narrowed(server: Server, company: Organization):
    account = Account(cloud="aws", id=RESEARCH, regions=("us-east-1",), is_own=False)
    [cloud], _ = sessions.open_account(ORGANIZATION, account, may_act=True)
    cloud.call("sagemaker", "DeleteEndpoint", "ResponseMetadata", EndpointName="1-us-east-1")
    assert ["Policy" in request for request in assumed(server)] == [False]


def test_a_management_account_without_the_role_is_one_row(server: Server, company: Organization):
    company.management, company.delegated = RESEARCH, {HUB}
    for role in company.roles:
        role.trusted = HUB
    company.roles = [role for role in company.roles if RESEARCH not in role.arn]
    [row] = rows_of(sweep(replace(ORGANIZATION, kinds=(ENDPOINT, "sagemaker-notebook"))), RESEARCH)
    assert (row.kind, row.region, row.status, row.missing) == ("*", None, Status.DENIED, "sts:AssumeRole")
    assert "stack sets create no role" in (row.error or "")


def test_a_throttled_role_is_a_failed_row(server: Server, company: Organization):
    server.rules.append(on("AssumeRole", throttled()))
    report = sweep()
    assert {(row.region, row.status, row.missing) for row in rows_of(report, VISION)} == {(None, Status.FAILED, None)}
    assert {row.status for row in rows_of(report, HUB)} == {Status.OK}


def test_the_credentials_of_another_account_are_never_taken_for_its_own(server: Server, company: Organization):
    wrong = Account(cloud="aws", id=RESEARCH, regions=("us-east-1",), is_own=True)
    with pytest.raises(SettingsError, match=f"the current credentials belong to {HUB}"):
        sessions.open_account(ORGANIZATION, wrong, may_act=False)


# Regions


def test_a_region_that_an_account_has_not_enabled_is_a_failed_row(server: Server, company: Organization):
    company.regions[VISION] = ("us-east-1", "eu-west-1")
    report = sweep()
    by_region = {row.region: row for row in rows_of(report, VISION)}
    assert {region: row.status for region, row in by_region.items()} == {
        "us-east-1": Status.OK,
        "eu-west-1": Status.OK,
        "ap-southeast-1": Status.FAILED,
    }
    assert f"ap-southeast-1 isn't enabled in account {VISION}" in (by_region["ap-southeast-1"].error or "")
    assert {row.status for row in rows_of(report, RESEARCH)} == {Status.OK}


def test_the_own_account_says_so_too(server: Server, company: Organization):
    company.regions[HUB] = ("us-east-1", "eu-west-1")
    by_region = {row.region: row for row in rows_of(sweep(), HUB)}
    assert by_region["us-east-1"].status is Status.OK
    assert f"ap-southeast-1 isn't enabled in account {HUB}" in (by_region["ap-southeast-1"].error or "")


def test_all_means_the_enabled_regions_of_each_account(server: Server, company: Organization):
    company.regions |= {HUB: ("us-east-1",), RESEARCH: ("us-east-1", "eu-west-1"), VISION: ("eu-west-1", "us-east-1")}
    report = sweep(replace(ORGANIZATION, regions=("all",)))
    places = {(row.account, row.region) for row in report.coverage}
    assert places == {(HUB, "us-east-1"), *((a, r) for a in (RESEARCH, VISION) for r in ("us-east-1", "eu-west-1"))}


def test_the_hubs_region_may_be_one_that_an_account_has_not(
    server: Server, company: Organization, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("AWS_DEFAULT_REGION", "ap-southeast-1")
    company.regions |= {HUB: REGIONS, RESEARCH: ("us-east-1",), VISION: ("us-east-1",)}
    report = sweep(replace(ORGANIZATION, regions=("all",)))
    assert [(row.region, row.status) for row in rows_of(report, VISION)] == [("us-east-1", Status.OK)]


def test_unreadable_regions_are_rows_if_all_are_wanted(server: Server, company: Organization):
    account = next(a for a in sessions.list_accounts(replace(ORGANIZATION, regions=("all",)), "aws") if a.id == VISION)
    server.rules.append(on("DescribeRegions", denied()))
    opened, [row] = sessions.open_account(ORGANIZATION, account, may_act=False)
    assert (opened, row.region, row.status, row.missing) == ([], None, Status.DENIED, "ec2:DescribeRegions")


@pytest.mark.parametrize("account_id", [HUB, VISION])
def test_an_account_without_any_region_does_not_vanish(server: Server, company: Organization, account_id: str):
    settings = replace(ORGANIZATION, regions=("all",))
    account = next(a for a in sessions.list_accounts(settings, "aws") if a.id == account_id)
    answer = b"<DescribeRegionsResponse><regionInfo/></DescribeRegionsResponse>"
    server.rules.append(
        on("DescribeRegions", Fault(answer=lambda call: Reply(headers={"Content-Type": "text/xml"}, body=answer)))
    )
    opened, [row] = sessions.open_account(settings, account, may_act=False)
    assert (opened, row.account, row.region, row.status) == ([], account_id, None, Status.FAILED)


def test_unreadable_regions_leave_the_named_ones_to_the_kinds(server: Server, company: Organization):
    server.rules.append(on("DescribeRegions", denied()))
    assert {row.status for row in sweep().coverage} == {Status.OK}


# One process, many accounts


def test_accounts_are_opened_when_their_turn_comes(server: Server, company: Organization):
    for number in range(10):
        company.add(f"5555555555{number:02}", f"team {number}")
    lines: list[str] = []
    report = run(replace(ORGANIZATION, regions=("us-east-1",)), load_policy("version: 1"), lambda: NOW, lines.append)
    assert len({row.account for row in report.coverage}) == 13
    actions = [call.action for call in server.calls]
    last_assumed = len(actions) - actions[::-1].index("sts:AssumeRole")
    assert "sagemaker:ListEndpoints" in actions[:last_assumed], "not all of them are assumed up front"
    assert f"account {RESEARCH} (research): 1 region" in lines


def test_accounts_without_time_are_rows_and_come_first_next_time(server: Server, company: Organization, tmp_path):
    for number in range(10):
        company.add(f"5555555555{number:02}", f"team {number}")
    moments = chain((NOW + timedelta(minutes=minute) for minute in range(40)), repeat(NOW + timedelta(minutes=40)))
    policy = f"version: 1\nchannels: [{{type: folder, path: {tmp_path}/mail}}]\nowners: {{fallback: a@example.com}}"
    settings = replace(ORGANIZATION, mode=Mode.NOTIFY, regions=("us-east-1",), ledger=f"sqlite://{tmp_path}/l.db")
    report = run(settings, load_policy(policy), lambda: next(moments))
    late = [row for row in report.coverage if "the run's time was over" in (row.error or "")]
    assert {row.account for row in report.coverage if row.account} == {HUB, RESEARCH, VISION} | {
        m.id for m in company.members[4:]
    }
    assert late
    lines: list[str] = []
    again = run(settings, load_policy(policy), lambda: NOW + DAY, lines.append)
    assert {row.status for row in again.coverage} == {Status.OK}
    first = next(line for line in lines if line.startswith("account "))
    assert any(f"account {row.account} " in first for row in late)


def test_credentials_that_have_ended_are_a_failure_of_their_account(server: Server, company: Organization):
    def ended(call, data):
        return data | {"Credentials": data["Credentials"] | {"Expiration": NOW - 3000 * DAY}}

    server.rules.append(on("AssumeRole", replace(empty(), answer=None, rewrite=ended)))
    report = sweep()
    assert {row.status for row in rows_of(report, HUB)} == {Status.OK}
    [row] = rows_of(report, RESEARCH)
    assert (row.status, "couldn't be understood" in (row.error or "")) == (Status.FAILED, True)


def test_a_workflow_lists_first_what_was_not_reached(server: Server, company: Organization, tmp_path):
    settings = replace(ORGANIZATION, mode=Mode.NOTIFY, regions=("us-east-1",), ledger=f"sqlite://{tmp_path}/l.db")
    policy = f"version: 1\nchannels: [{{type: folder, path: {tmp_path}/mail}}]\nowners: {{fallback: a@example.com}}"
    row = {"document": json.dumps([["aws", VISION, "us-east-1", ENDPOINT]])}
    assert opening.open_ledger(settings.ledger, {}).write_row(UNREACHED_ROW, row, 0)
    workflow = FakeWorkflow(replace(settings, policy=policy), tmp_path, lambda: NOW)
    assert [item["account"] for item in workflow.items(str(workflow.list()["run"]))] == [VISION, RESEARCH, HUB]


def test_a_workflow_reports_an_account_that_denies_the_role_once(server: Server, company: Organization, tmp_path):
    """Its regions are read in several steps, each of which is denied."""
    company.roles = [role for role in company.roles if RESEARCH not in role.arn]
    settings = replace(ORGANIZATION, regions=(*REGIONS, "us-west-2", "ap-northeast-1"), policy="version: 1")
    by_steps, in_one = FakeWorkflow(settings, tmp_path, lambda: NOW).run(), sweep(settings)
    assert len(rows_of(by_steps, RESEARCH)) == 1
    assert sorted(by_steps.coverage, key=str) == sorted(in_one.coverage, key=str)


def test_the_rights_to_list_are_named_once():
    assert set(targets.ORGANIZATION_PERMISSIONS) == {f"organizations:{name}" for name in targets.RATES}
    assert targets.PERMISSIONS == ("sts:GetCallerIdentity", "ec2:DescribeRegions")


def test_a_session_belongs_to_its_target(server: Server, company: Organization):
    account = Account(cloud="aws", id=RESEARCH, regions=REGIONS, is_own=False)
    opened = sessions.open_account(ORGANIZATION, account, may_act=False)
    target = Target(cloud="aws", account=RESEARCH, region="eu-west-1")
    assert sessions.session_of(target, *opened).target == target
    with pytest.raises(CloudError, match="there is no session for this target"):
        sessions.session_of(replace(target, account=VISION), *opened)
