"""SES and SNS at the wire: the real SDK, moto over HTTP behind it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import boto3
import pytest

from e2e.post import NOW, Posts, digest, error, opened, receipt, sent, summary
from reaper.aws.channels import sns
from reaper.errors import Reason
from reaper.notices.message import Message
from reaper_sandbox.aws.fault import denied, on
from reaper_sandbox.aws.server import Server as Aws


def queue(topic: str, name: str, wanted: dict[str, Any]) -> Callable[[], list[dict[str, Any]]]:
    """A queue behind the topic with that filter policy, and what is in it."""
    sqs = boto3.client("sqs")
    url = sqs.create_queue(QueueName=name)["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    boto3.client("sns").subscribe(
        TopicArn=topic,
        Protocol="sqs",
        Endpoint=arn,
        Attributes={"FilterPolicy": json.dumps(wanted), "RawMessageDelivery": "false"},
    )

    def read() -> list[dict[str, Any]]:
        return [json.loads(m["Body"]) for m in sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", [])]

    return read


def test_an_sns_filter_policy_selects_by_owner_kind_or_audience(moto: str):
    topic = boto3.client("sns").create_topic(Name="reaper")["TopicArn"]
    dana = queue(topic, "dana", {"owner": ["dana@example.com"]})
    notebooks = queue(topic, "notebooks", {"kind": ["sagemaker-notebook"]})
    instances = queue(topic, "instances", {"kind": ["azureml-compute-instance"], "action": ["warn"]})
    admins = queue(topic, "admins", {"audience": ["admins"]})
    dear = queue(topic, "dear", {"usd_per_hour": [{"numeric": [">", 100]}]})
    deliveries = sent(
        opened(f"  - {{type: sns, topic: '{topic}', for: [owners, admins]}}\n"), digest(), digest("lee@example.com"), summary()
    )
    assert all(d.receipt for d in deliveries)
    assert [(m["Subject"], m["Message"]) for m in dana()] == [(digest().subject, digest().text)]
    assert len(instances()) == 2
    assert [m["Subject"] for m in admins()] == ["2 idle ? none new"]
    assert notebooks() == dear() == []


def test_sns_text_is_cut_at_the_limit_and_says_so(moto: str):
    topic = boto3.client("sns").create_topic(Name="reaper")["TopicArn"]
    read = queue(topic, "all", {"audience": ["owners"]})
    huge = Message(to="dana@example.com", subject="s" * 150, text="ä€😀" * 60_000, html="", attributes={"audience": "owners"})
    assert receipt(opened(f"  - {{type: sns, topic: '{topic}', for: owners}}\n"), huge)
    [got] = read()
    assert got["Message"].endswith(sns.CUT_NOTE)
    assert len(got["Message"].encode()) > 261_000
    assert "\ufffd" not in got["Message"]
    assert len(got["Subject"]) == 99


def test_sns_text_contains_no_masked_link(moto: str):
    topic = boto3.client("sns").create_topic(Name="reaper")["TopicArn"]
    taken = queue(topic, "taken", {"audience": ["owners"]})
    masked = "[Keep it](http://evil.example) <http://evil.example|Keep it> <!channel>"
    message = Message(to="a@example.com", subject=masked, text=masked, html="", attributes={"audience": "owners"})
    assert receipt(opened(f"  - {{type: sns, topic: '{topic}', for: owners}}\n"), message)
    [got] = taken()
    assert not any(mask in got["Message"] + got["Subject"] for mask in ("](http", "<http", "<!"))


def test_a_deleted_topic_is_an_error_with_its_permission(moto: str):
    failed = error(opened("  - {type: sns, topic: 'arn:aws:sns:us-east-1:123456789012:gone', for: owners}\n"))
    assert failed.operation == "sns:Publish"


def test_ses_returns_an_id_and_refuses_unverified_senders(moto: str):
    line = "  - {type: ses, from: reaper@example.com, region: us-east-1}\n"
    assert "not verified" in str(error(opened(line)))
    boto3.client("sesv2", region_name="us-east-1").create_email_identity(EmailIdentity="reaper@example.com")
    assert receipt(opened(line))


def test_ses_mail_has_two_bodies_a_named_sender_and_one_recipient(monkeypatch: pytest.MonkeyPatch, posts: Posts):
    posts.answer = (200, {"Content-Type": "application/json"}, b'{"MessageId": "m-1"}')
    for name, value in {"AWS_ENDPOINT_URL": posts.url, "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}.items():
        monkeypatch.setenv(name, value)
    assert receipt(opened("  - {type: ses, from: reaper@example.com, region: eu-west-1, configuration_set: bounces}\n")) == "m-1"
    [(path, headers, body)] = posts.got
    request = json.loads(body)
    assert path == "/v2/email/outbound-emails"
    assert "/eu-west-1/ses/aws4_request" in headers["authorization"]
    assert request["Destination"] == {"ToAddresses": ["dana@example.com"]}
    assert request["FromEmailAddress"] == "ML Idle Reaper <reaper@example.com>"
    assert request["ConfigurationSetName"] == "bounces"
    simple = request["Content"]["Simple"]
    assert simple["Subject"]["Data"] == digest().subject
    assert (simple["Body"]["Text"]["Data"], simple["Body"]["Html"]["Data"]) == (digest().text, digest().html)


def test_a_denied_send_names_the_missing_permission(monkeypatch: pytest.MonkeyPatch):
    with Aws(NOW) as aws:
        for name, value in aws.env.items():
            monkeypatch.setenv(name, value)
        aws.rules.append(on("SendEmail", denied()))
        failed = error(opened("  - {type: ses, from: reaper@example.com}\n"))
    assert (failed.reason, failed.missing) == (Reason.DENIED, "ses:SendEmail")
