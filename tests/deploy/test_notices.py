"""Mode notify and the keep-links' page as deployed on AWS: the built bundle, the real runtime client, the template's own policies."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import boto3
import pytest

from deploy import policies, sam, wire
from deploy.machine import serving
from deploy.pythons import python
from deploy.runtime import Runtime
from deploy.test_bundle import bundle, libraries
from deploy.test_template import AUDIT, NAMES
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.call import Call
from reaper_sandbox.aws.fault import lost, on
from reaper_sandbox.aws.server import Server

__all__ = ["bundle", "libraries"]
NOW = datetime.now(UTC)
DAY = timedelta(days=1)
TABLE = NAMES["LedgerTable.Arn"]
PLACE = "123456789012 us-east-1"
"""Where the records and snoozes of the account lie in the table."""
POLICY = """
version: 1
owners: {tags: [owner], domains: [example.com], fallback: admins@example.com}
channels: [{type: ses, from: reaper@example.com, region: us-east-1}]
"""
EVERY_CHANNEL = """
version: 1
owners: {{tags: [owner], domains: [example.com], fallback: admins@example.com}}
channels:
  - {{type: ses, from: reaper@example.com, region: us-east-1, configuration_set: ours}}
  - {{type: sns, topic: "{topic}"}}
  - {{type: webhook, url: "{url}/hook", secret: "secretsmanager:reaper/hook"}}
  - {{type: slack, secret: "secretsmanager:reaper/rooms#slack", for: [owners, admins]}}
  - {{type: teams, secret: "secretsmanager:reaper/rooms#teams"}}
"""
SWEEP, PAGE = "reaper.aws.functions.sweep.handler", "reaper.aws.functions.snooze.handler"
LINK = re.compile(r"https://keep\.example\.com/[^\s\"\\<>]+")
OWN = "AKIAIOSFODNN7EXAMPLE"


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(NOW) as running:
        account = Account(running)
        account.endpoint("quiet", tags={"owner": "ana@example.com"})
        account.alive("quiet", "AllTraffic", NOW - 15 * DAY, NOW + DAY)
        yield running


def connection(server: Server) -> dict[str, str]:
    """What boto3 needs to reach the account."""
    return {"endpoint_url": server.url, "aws_access_key_id": OWN, "aws_secret_access_key": "x", "region_name": "us-east-1"}


@pytest.fixture
def environ(server: Server, cloudformation) -> dict[str, str]:
    """The stack's own table and secret, made as the template describes them, and the settings that it gives."""
    settings = connection(server)
    table = cloudformation["Resources"]["LedgerTable"]["Properties"]
    schema = {key: table[key] for key in ("AttributeDefinitions", "KeySchema", "BillingMode")}
    boto3.client("dynamodb", **settings).create_table(TableName="ledger", **schema)
    boto3.client("secretsmanager", **settings).create_secret(
        Name="snooze", SecretString=json.dumps({"current": "k1", "k1": "x" * 64})
    )
    boto3.client("sesv2", **settings).create_email_identity(EmailIdentity="reaper@example.com")
    boto3.client("ssm", **settings).put_parameter(Name="/ml-idle-reaper/policy", Value=POLICY, Type="String")
    boto3.client("sns", **settings).create_topic(Name="summary")
    boto3.client("s3", **settings).create_bucket(Bucket="reports-bucket")
    return {
        **server.env,
        "REAPER_MODE": "notify",
        "REAPER_POLICY": "ssm:/ml-idle-reaper/policy",
        "REAPER_REGIONS": "us-east-1",
        "REAPER_REPORTS": "s3://reports-bucket/reports",
        "REAPER_TOPIC": NAMES["SummaryTopic"],
        "REAPER_LEDGER": "dynamodb://ledger",
        "REAPER_SNOOZE_URL": "https://keep.example.com/",
        "REAPER_SNOOZE_KEYS": "secretsmanager:snooze",
        "REAPER_DEPLOYMENT": "arn:aws:cloudformation:us-east-1:123456789012:stack/reaper/1",
    }


def guarded(server: Server, cloudformation, only: set[str]) -> policies.Policies:
    rights = policies.Policies(policies.of_template(cloudformation, NAMES, only=only))
    server.rules[:] = [wire.guard(server, rights)]
    return rights


def mails(server: Server) -> list[Call]:
    return [call for call in server.calls if call.action == "ses:SendEmail"]


def test_an_owner_is_told_once_clicks_and_is_left_in_peace(bundle, libraries, server, environ, cloudformation):
    sweeping = guarded(server, cloudformation, {*AUDIT, "NoticePolicy"})
    with Runtime(python(sam.RUNTIME), libraries, bundle, SWEEP, environ) as runtime:
        first = runtime.invoke({})
        assert first.error is None, first.log[-3000:]
        again = runtime.invoke({})
    assert sweeping.denied == []
    [finding] = first.answer["findings"]
    assert (finding["step"], finding["outcome"]) == ("warn", "done")
    assert [f["step"] for f in again.answer["findings"]] == ["none"]
    mail_texts = [json.dumps(call.params) for call in mails(server)]
    assert len([t for t in mail_texts if "ana@example.com" in t and "keep.example.com" in t]) == 1
    link = urlsplit(LINK.search(next(t for t in mail_texts if "keep.example.com" in t))[0])

    keeping = guarded(server, cloudformation, {"SnoozePolicy"})
    with Runtime(python(sam.RUNTIME), libraries, bundle, PAGE, environ) as runtime:
        page = runtime.invoke(_event("GET", link.path, link.query)).answer
        token = re.search(r'name="t" value="([^"]+)"', page["body"])[1]
        answer = runtime.invoke(_event("POST", link.path, "", f"t={token}&r=1&days=3&reason=demo")).answer
        forged = runtime.invoke(_event("POST", link.path, "", f"t={token[:-3]}abc&r=1&days=3")).answer
    assert (page["statusCode"], answer["statusCode"], forged["statusCode"]) == (200, 200, 403)
    assert keeping.denied == []

    guarded(server, cloudformation, {*AUDIT, "NoticePolicy"})
    with Runtime(python(sam.RUNTIME), libraries, bundle, SWEEP, environ) as runtime:
        after = runtime.invoke({})
    [finding] = after.answer["findings"]
    assert finding["state"] == "exempt"
    assert "by ana@example.com" in finding["because"]


def test_the_notice_policy_grants_nothing_that_is_not_used(bundle, libraries, server, environ, cloudformation):
    aws_settings, topic = connection(server), NAMES["ChannelTopics"][0]
    boto3.client("sns", **aws_settings).create_topic(Name="team-a")
    boto3.client("secretsmanager", **aws_settings).create_secret(Name="reaper/hook", SecretString="s" * 32)
    boto3.client("sesv2", **aws_settings).create_configuration_set(ConfigurationSetName="ours")
    sweeping = guarded(server, cloudformation, {"NoticePolicy", *AUDIT})
    with Runtime(python(sam.RUNTIME), libraries, bundle, SWEEP, environ) as runtime:
        plain = runtime.invoke({})
    forget(server)
    with serving() as hook:
        hook.answers |= {"/hook": {}, "/slack": "ok", "/teams": {}}
        rooms = json.dumps({room: f"{hook.url}/{room}" for room in ("slack", "teams")})
        with unguarded(server):
            boto3.client("secretsmanager", **aws_settings).create_secret(Name="reaper/rooms", SecretString=rooms)
        policy = EVERY_CHANNEL.format(topic=topic, url=hook.url)
        settings = environ | {"REAPER_POLICY": policy, "REAPER_SECRETS": NAMES["ChannelSecrets"]}
        with Runtime(python(sam.RUNTIME), libraries, bundle, SWEEP, settings) as runtime:
            invocation = runtime.invoke({})
    assert (plain.error, invocation.error) == (None, None), plain.log[-3000:] + invocation.log[-3000:]
    assert [path for path, _, _ in hook.requests] == ["/slack", "/hook", "/slack", "/teams"]
    assert [row for row in invocation.answer["coverage"] if row["kind"].startswith("channel")] == []
    assert {call.params["TopicArn"] for call in server.calls if call.action == "sns:Publish"} == {NAMES["SummaryTopic"], topic}
    assert sweeping.denied == []
    ours = ("dynamodb:", "ses:", "sns:", "secretsmanager:", "kms:", "s3:", "ssm:")
    assert {a for a in sweeping.unused() if a.startswith(ours)} == set()


def test_every_kind_of_snooze_uses_all_that_the_page_may_do(bundle, libraries, server, environ, cloudformation):
    guarded(server, cloudformation, {*AUDIT, "NoticePolicy"})
    with Runtime(python(sam.RUNTIME), libraries, bundle, SWEEP, environ) as runtime:
        [finding] = runtime.invoke({}).answer["findings"]
    [link] = [link_match[0] for call in mails(server) if (link_match := LINK.search(json.dumps(call.params)))]
    path, [token] = urlsplit(link).path, parse_qs(urlsplit(link).query)["t"]
    before = rows(server)
    keeping = guarded(server, cloudformation, {"SnoozePolicy"})
    started = len(server.calls)
    with Runtime(python(sam.RUNTIME), libraries, bundle, PAGE, environ) as runtime:

        def send(form: str) -> int:
            return int(runtime.invoke(_event("POST", path, "", f"t={token}&r=1&{form}")).answer["statusCode"])

        looked = [runtime.invoke(_event(method, path, f"t={token}")).answer["statusCode"] for method in ("GET", "HEAD")]
        first, again = send("days=3&reason=demo&name=Ana"), send("days=3")
        server.rules.append(on("PutItem", lost(), times=1))
        longer, shorter = send("days=7"), send("days=1&shorten=yes")
        disowned, taken_back = send("do=disown"), send("days=3")
        after = rows(server)
        forget(server, "state#format", f"record#{PLACE}", f"snooze#{PLACE}")
        anew = send("days=2")
    assert (looked, first, again, longer, shorter, disowned, taken_back, anew) == ([200, 200], *([200] * 7))
    assert (keeping.denied, keeping.unused()) == ([], {"logs:CreateLogStream", "logs:PutLogEvents"})
    changed = {partition for partition, name in before | after if before.get((partition, name)) != after.get((partition, name))}
    assert changed == {f"snooze#{PLACE}", f"history#{finding['id']}"}
    assert ("state#format", "-") not in rows(server), "only a sweep marks the ledger"
    wrote = [wire.table_keys(call.params) for call in server.calls[started:] if call.operation == "PutItem"]
    statements = {s["Sid"]: s for s in policies.statements(keeping.documents)}
    granted = statements["Keep"]["Condition"]["ForAllValues:StringEquals"]["dynamodb:Attributes"]
    kept = [keys["dynamodb:Attributes"] for keys in wrote if keys["dynamodb:LeadingKeys"] == [f"snooze#{PLACE}"]]
    assert {name for names in kept for name in names} == set(granted)


def table(server: Server) -> Any:
    """The ledger's table."""
    return boto3.resource("dynamodb", **connection(server)).Table("ledger")


def rows(server: Server) -> dict[tuple[str, str], dict[str, Any]]:
    """All rows of the ledger, by key."""
    with unguarded(server):
        return {(row["pk"], row["sk"]): row for row in table(server).scan()["Items"]}


def forget(server: Server, *keys: str) -> None:
    """Take those rows away, all of them without a key, as if they had never been written."""
    with unguarded(server):
        for row in table(server).scan()["Items"]:
            if not keys or row["pk"] in keys:
                table(server).delete_item(Key={"pk": row["pk"], "sk": row["sk"]})


@contextmanager
def unguarded(server: Server) -> Iterator[None]:
    """The test's own calls, which no policy is asked about."""
    rules, server.rules[:] = list(server.rules), []
    yield
    server.rules[:] = rules


def test_notices_need_a_memory_that_lasts(bundle, libraries, server, environ):
    with Runtime(python(sam.RUNTIME), libraries, bundle, SWEEP, environ | {"REAPER_LEDGER": "memory:"}) as runtime:
        invocation = runtime.invoke({})
    assert "needs a durable ledger" in invocation.error["errorMessage"]


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
