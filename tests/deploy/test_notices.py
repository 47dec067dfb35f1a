"""Mode notify and the keep-links' page as deployed on AWS: the built bundle, the real runtime client, the template's own policies."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

import boto3
import pytest

from deploy import policies, sam
from deploy.pythons import python
from deploy.runtime import Runtime
from deploy.test_bundle import bundle, libraries, resource
from deploy.test_template import AUDIT, NAMES
from deploy.translate import translate
from reaper.sandbox.aws.account import Account
from reaper.sandbox.aws.call import Call
from reaper.sandbox.aws.fault import Fault, denied
from reaper.sandbox.aws.server import Server

__all__ = ["bundle", "libraries"]
NOW = datetime.now(UTC)
DAY = timedelta(days=1)
TABLE = NAMES["LedgerTable.Arn"]
POLICY = """
version: 1
owners: {tags: [owner], domains: [example.com], fallback: admins@example.com}
channels: [{type: ses, from: reaper@example.com, region: us-east-1}]
"""


def asked_of(call: Call) -> str:
    """The ARN that IAM would see; the ledger's table, the identity and the secrets besides what an audit touches."""
    if call.service == "dynamodb":
        return TABLE
    if call.service == "ses":
        return NAMES["SesIdentity"]
    if call.service == "secretsmanager":
        return NAMES["SnoozeSecret"] if "snooze" in call.params["SecretId"] else "*"
    return resource(call)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(NOW) as running:
        account = Account(running)
        account.endpoint("quiet", tags={"owner": "ana@example.com"})
        account.alive("quiet", "AllTraffic", NOW - 15 * DAY, NOW + DAY)
        yield running


@pytest.fixture
def cloudformation():
    return translate(sam.ROOT / "template.yaml")


@pytest.fixture
def environ(server: Server, cloudformation) -> dict[str, str]:
    """The stack's own table and secret, made as the template describes them, and the settings that it gives."""
    here = {
        "endpoint_url": server.url,
        "aws_access_key_id": "AKIAIOSFODNN7EXAMPLE",
        "aws_secret_access_key": "x",
        "region_name": "us-east-1",
    }
    table = cloudformation["Resources"]["LedgerTable"]["Properties"]
    schema = {key: table[key] for key in ("AttributeDefinitions", "KeySchema", "BillingMode")}
    boto3.client("dynamodb", **here).create_table(TableName="ledger", **schema)
    boto3.client("secretsmanager", **here).create_secret(
        Name="snooze", SecretString=json.dumps({"current": "k1", "k1": "x" * 64})
    )
    boto3.client("sesv2", **here).create_email_identity(EmailIdentity="reaper@example.com")
    boto3.client("ssm", **here).put_parameter(Name="/ml-idle-reaper/policy", Value=POLICY, Type="String")
    boto3.client("s3", **here).create_bucket(Bucket="reports-bucket")
    return {
        **server.env,
        "REAPER_MODE": "notify",
        "REAPER_POLICY": "ssm:/ml-idle-reaper/policy",
        "REAPER_REGIONS": "all",
        "REAPER_REPORTS": "s3://reports-bucket/reports",
        "REAPER_LEDGER": "dynamodb://ledger",
        "REAPER_SNOOZE_URL": "https://keep.example.com/",
        "REAPER_SNOOZE_KEYS": "secretsmanager:snooze",
        "REAPER_DEPLOYMENT": "arn:aws:cloudformation:us-east-1:123456789012:stack/reaper/1",
    }


def guarded(server: Server, cloudformation, only: set[str]) -> policies.Policies:
    found = policies.Policies(policies.of_template(cloudformation, NAMES, only=only))

    def guard(call: Call) -> Fault | None:
        return None if found.allow(call.action, asked_of(call)) else denied()

    server.rules[:] = [guard]
    return found


def mails(server: Server) -> list[Call]:
    return [call for call in server.calls if call.action == "ses:SendEmail"]


def test_an_owner_is_told_once_clicks_and_is_left_in_peace(bundle, libraries, server, environ, cloudformation):
    sweeping = guarded(server, cloudformation, {*AUDIT, "NoticePolicy"})
    with Runtime(python(sam.RUNTIME), libraries, bundle, "reaper.aws.lambda_function.handler", environ) as runtime:
        first = runtime.invoke({})
        assert first.error is None, first.log[-3000:]
        again = runtime.invoke({})
    assert sweeping.denied == []
    [finding] = first.answer["findings"]
    assert (finding["step"], finding["outcome"]) == ("warn", "done")
    assert [f["step"] for f in again.answer["findings"]] == ["none"]
    told = [json.dumps(call.params) for call in mails(server)]
    assert len([t for t in told if "ana@example.com" in t and "keep.example.com" in t]) == 1
    link = urlsplit(re.search(r"https://keep\.example\.com/[^\s\"\\<>]+", next(t for t in told if "keep.example.com" in t))[0])

    keeping = guarded(server, cloudformation, {"SnoozePolicy"})
    with Runtime(python(sam.RUNTIME), libraries, bundle, "reaper.aws.snooze_function.handler", environ) as runtime:
        page = runtime.invoke(_event("GET", link.path, link.query)).answer
        token = re.search(r'name="t" value="([^"]+)"', page["body"])[1]
        kept = runtime.invoke(_event("POST", link.path, "", f"t={token}&days=3&reason=demo")).answer
        forged = runtime.invoke(_event("POST", link.path, "", f"t={token[:-3]}abc&days=3")).answer
    assert (page["statusCode"], kept["statusCode"], forged["statusCode"]) == (200, 200, 403)
    assert keeping.denied == []
    assert keeping.unused() == {"logs:CreateLogStream", "logs:PutLogEvents"}

    guarded(server, cloudformation, {*AUDIT, "NoticePolicy"})
    with Runtime(python(sam.RUNTIME), libraries, bundle, "reaper.aws.lambda_function.handler", environ) as runtime:
        after = runtime.invoke({})
    [finding] = after.answer["findings"]
    assert finding["state"] == "exempt"
    assert "kept by ana@example.com" in finding["because"]


def test_the_notice_policy_grants_nothing_that_is_not_used(bundle, libraries, server, environ, cloudformation):
    sweeping = guarded(server, cloudformation, {"NoticePolicy", *AUDIT})
    with Runtime(python(sam.RUNTIME), libraries, bundle, "reaper.aws.lambda_function.handler", environ) as runtime:
        done = runtime.invoke({})
    assert done.error is None, done.log[-3000:]
    assert {a for a in sweeping.unused() if a.startswith(("dynamodb:", "ses:", "secretsmanager:"))} == set()


def test_notices_need_a_memory_that_lasts(bundle, libraries, server, environ):
    with Runtime(
        python(sam.RUNTIME), libraries, bundle, "reaper.aws.lambda_function.handler", environ | {"REAPER_LEDGER": "memory:"}
    ) as runtime:
        done = runtime.invoke({})
    assert "needs a ledger that lasts" in done.error["errorMessage"]


def _event(method: str, path: str, query: str, body: str = "") -> dict:
    http = {"method": method, "path": path, "protocol": "HTTP/1.1", "sourceIp": "203.0.113.9", "userAgent": "test"}
    headers = {"content-type": "application/x-www-form-urlencoded", "host": "keep.example.com"}
    return {
        "version": "2.0",
        "rawPath": path,
        "rawQueryString": query,
        "headers": headers,
        "requestContext": {"http": http},
        "body": body,
        "isBase64Encoded": False,
    }
