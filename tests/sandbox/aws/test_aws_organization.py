"""The sandbox's organization answers the real SDK as AWS does."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.organization import ORGANIZATION_ID, ROOT, Organization, TargetRole, Unit
from reaper_sandbox.aws.server import Server
from sandbox.aws.clients import Client

HUB, MEMBER, UNIT = "123456789012", "111111111111", "ou-ab12-labslabs"
ROLE = f"arn:aws:iam::{MEMBER}:role/ml-idle-reaper-target"


@pytest.fixture
def company(server: Server) -> Organization:
    made = server.world.organization = Organization(units=[Unit(id=UNIT, name="labs")])
    made.add(HUB, "platform", role=None)
    made.add(MEMBER, "research", parent=UNIT, has_state=False)
    return made


def code_of(call: Any, **parameters: Any) -> str:
    with pytest.raises(ClientError) as raised:
        call(**parameters)
    return str(raised.value.response["Error"]["Code"])


def assume(client: Client, **parameters: Any) -> dict[str, str]:
    made = client("sts").assume_role(RoleArn=ROLE, RoleSessionName="sweep", **parameters)["Credentials"]
    keys = {"aws_access_key_id": "AccessKeyId", "aws_secret_access_key": "SecretAccessKey", "aws_session_token": "SessionToken"}
    return {name: made[key] for name, key in keys.items()}


def test_it_describes_itself_its_root_and_its_units(client: Client, company: Organization) -> None:
    organizations = client("organizations")
    described = organizations.describe_organization()["Organization"]
    assert (described["Id"], described["MasterAccountId"]) == (ORGANIZATION_ID, HUB)
    assert [root["Id"] for root in organizations.list_roots()["Roots"]] == [ROOT]
    assert organizations.describe_organizational_unit(OrganizationalUnitId=UNIT)["OrganizationalUnit"]["Name"] == "labs"
    assert code_of(organizations.describe_organizational_unit, OrganizationalUnitId="ou-ab12-nowhere1") == (
        "OrganizationalUnitNotFoundException"
    )
    assert code_of(organizations.list_accounts_for_parent, ParentId="ou-ab12-nowhere1") == "ParentNotFoundException"


def test_its_pages_may_be_empty_and_rows_without_state(client: Client, company: Organization) -> None:
    company.page = 1
    pages = list(client("organizations").get_paginator("list_accounts").paginate())
    assert [[row["Name"] for row in page["Accounts"]] for page in pages] == [["platform"], [], ["research"]]
    assert [("State" in row, row["Status"]) for page in pages for row in page["Accounts"]] == [
        (True, "ACTIVE"),
        (False, "ACTIVE"),
    ]


def test_only_its_administrators_may_list_it(client: Client, company: Organization) -> None:
    organizations = client("organizations", **assume(client))
    assert code_of(organizations.list_accounts) == "AccessDeniedException"
    company.delegated.add(MEMBER)
    assert len(organizations.list_accounts()["Accounts"]) == 2


def test_there_is_none_unless_it_is_set(client: Client) -> None:
    assert code_of(client("organizations").list_accounts) == "AWSOrganizationsNotInUseException"
    assert code_of(client("organizations").describe_organization) == "AWSOrganizationsNotInUseException"


def test_a_role_asks_for_its_external_id_and_its_principals(server: Server, client: Client, company: Organization) -> None:
    company.roles = [TargetRole(arn=ROLE, external_id="right", principals=(f"arn:aws:iam::{HUB}:role/hub/*",))]
    wanted = {"RoleArn": ROLE, "RoleSessionName": "sweep", "ExternalId": "right"}
    assert code_of(client("sts").assume_role, **wanted) == "AccessDenied"
    server.world.principals[server.env["AWS_ACCESS_KEY_ID"]] = f"arn:aws:iam::{HUB}:role/hub/sweep"
    assert client("sts").assume_role(**wanted)["AssumedRoleUser"]["Arn"].startswith(f"arn:aws:sts::{MEMBER}:assumed-role/")
    assert code_of(client("sts").assume_role, **wanted | {"ExternalId": "wrong"}) == "AccessDenied"
    assert code_of(client("sts").assume_role, **wanted | {"RoleArn": f"{ROLE}-other"}) == "AccessDenied"
    assert code_of(client("sts").assume_role, **wanted | {"Policy": "x" * 2049}) == "ValidationError"


def test_a_session_is_in_its_account_and_under_its_policy(server: Server, client: Client, company: Organization) -> None:
    Account(server, MEMBER).endpoint("away")
    allowed = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "sagemaker:List*", "Resource": "*"}]}
    session = client("sagemaker", **assume(client, Policy=json.dumps(allowed)))
    assert [row["EndpointName"] for row in session.list_endpoints()["Endpoints"]] == ["away"]
    assert code_of(session.delete_endpoint, EndpointName="away") == "AccessDeniedException"
    client("sagemaker", **assume(client)).delete_endpoint(EndpointName="away")
    assert session.list_endpoints()["Endpoints"] == []


def test_a_chained_session_lasts_an_hour_at_most(server: Server, client: Client, company: Organization) -> None:
    company.roles.append(TargetRole(arn=f"arn:aws:iam::{HUB}:role/back", trusted=MEMBER))
    sts = client("sts", **assume(client))
    wanted = {"RoleArn": f"arn:aws:iam::{HUB}:role/back", "RoleSessionName": "sweep"}
    assert code_of(sts.assume_role, **wanted, DurationSeconds=7200) == "ValidationError"
    assert sts.assume_role(**wanted)["Credentials"]


def test_regions_are_those_that_the_account_enabled(client: Client, company: Organization) -> None:
    company.regions[HUB] = ("us-east-1",)
    assert [row["RegionName"] for row in client("ec2").describe_regions()["Regions"]] == ["us-east-1"]
    assert len(client("ec2", **assume(client)).describe_regions()["Regions"]) == 17
    assert code_of(client("sagemaker", "eu-west-1").list_endpoints) == "UnrecognizedClientException"
    assert code_of(client("sts", "eu-west-1").get_caller_identity) == "InvalidClientTokenId"
