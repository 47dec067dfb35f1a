"""Messages through every channel at its wire: real servers on loopback, the real SDKs, moto and the pretend Azure behind them."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import boto3
import pytest
import trustme
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, LoginPassword
from moto.server import ThreadedMotoServer
from typer.testing import CliRunner

from reaper import channels, document, notify_cli, registry, sample, secret
from reaper.aws.channels import sns
from reaper.channels import Delivery, Means
from reaper.errors import CloudError, SettingsError, Trouble
from reaper.message import Audience, Message
from reaper.sandbox.aws.fault import denied, on
from reaper.sandbox.aws.server import Server as Aws
from reaper.sandbox.azure import fault as azure_fault
from reaper.sandbox.azure.server import Server as Azure

NOW = datetime(2026, 11, 21, 10, 17, tzinfo=UTC)
HEAD = "version: 1\nowners: {domains: [example.com], fallback: ml-admins@example.com}\nchannels:\n"
PASSWORD = "correct horse"


def opened(text: str, **environ: str) -> list[channels.Line]:
    """The channels of a policy with that list, its secrets in `environ`."""
    found = document.parse(HEAD + text, "policy", registry.names())
    return channels.open(found.channels, Means(secret=lambda ref: secret.read(ref, environ), clock=lambda: NOW))


def sent(lines: list[channels.Line], *messages: Message) -> list[Delivery]:
    return channels.deliver(messages or (digest(),), lines)


def receipt(lines: list[channels.Line], *messages: Message) -> str:
    [done] = sent(lines, *messages)
    assert done.error is None, done.error
    assert done.receipt
    return done.receipt


def error(lines: list[channels.Line], *messages: Message) -> CloudError:
    done = sent(lines, *messages)
    assert not channels.given(done)
    assert done[0].error is not None
    return done[0].error


def digest(to: str = "dana@example.com") -> Message:
    return sample.message(to, NOW)


def summary() -> Message:
    return Message(
        to="ml-admins@example.com",
        subject="2 idle – none new",
        text="text\n",
        html="<p>html</p>",
        audience=Audience.ADMINS,
        attributes={"audience": "admins"},
    )


# --- SMTP


@dataclass
class Inbox:
    """What a mail server took, and the answers it gives to recipients whose address begins with `bad`."""

    mails: list[tuple[EmailMessage, list[str], bool, bool]] = field(default_factory=list)
    port: int = 0

    async def handle_RCPT(self, server: Any, session: Any, envelope: Any, address: str, options: Any) -> str:
        if address.startswith("bad"):
            return "550 5.1.1 no such user here"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        mail = message_from_bytes(envelope.content, policy=policy.default)
        assert isinstance(mail, EmailMessage)
        self.mails.append((mail, envelope.rcpt_tos, bool(session.authenticated), session.ssl is not None))
        return f"250 2.0.0 OK queued as M{len(self.mails)}"


def login(server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
    right = isinstance(data, LoginPassword) and (data.login, data.password) == (b"reaper", PASSWORD.encode())
    return AuthResult(handled=False, success=right)


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> trustme.CA:
    """One that the product trusts."""
    made = trustme.CA()
    made.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "ca.pem"))
    return made


Serve = Callable[..., Inbox]


@pytest.fixture
def serve(authority: trustme.CA) -> Iterator[Serve]:
    running: list[Controller] = []

    def start(**options: Any) -> Inbox:
        inbox = Inbox()
        inbox.port = free_port()
        controller = Controller(inbox, hostname="127.0.0.1", port=inbox.port, ready_timeout=10, **options)
        controller.start()
        running.append(controller)
        return inbox

    yield start
    for controller in running:
        controller.stop()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def inbox(serve: Serve, authority: trustme.CA) -> Inbox:
    return serve(tls_context=tls(authority), require_starttls=True, authenticator=login, auth_required=True)


def tls(authority: trustme.CA, name: str = "localhost") -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(name).configure_cert(context)
    return context


def smtp(inbox: Inbox, **given: Any) -> str:
    spec = {"type": "smtp", "host": "localhost", "port": inbox.port, "from": "reaper@example.com", **given}
    return f"  - {json.dumps(spec)}\n"


LOGIN = {"user": "reaper", "secret": "env:SMTP_PASSWORD"}


def test_a_digest_arrives_over_starttls_and_login_with_both_bodies_and_the_servers_receipt(inbox: Inbox):
    got = receipt(opened(smtp(inbox, **LOGIN), SMTP_PASSWORD=PASSWORD))
    assert got == "250 2.0.0 OK queued as M1"
    [(mail, people, authenticated, encrypted)] = inbox.mails
    assert (people, authenticated, encrypted) == (["dana@example.com"], True, True)
    assert mail["Subject"] == digest().subject
    assert mail["To"] == "dana@example.com"
    assert mail["From"] == "ML Idle Reaper <reaper@example.com>"
    assert mail["Date"].datetime == NOW
    assert mail["Auto-Submitted"] == "auto-generated"
    assert mail["Message-ID"].endswith("@example.com>")
    text, html = mail.iter_parts()
    assert text.get_content().replace("\r\n", "\n") == digest().text
    assert html.get_content().replace("\r\n", "\n") == digest().html
    assert all(len(row) <= 998 for row in mail.as_bytes().splitlines())


def test_a_wrong_password_is_denied_nothing_is_sent_and_the_password_is_nowhere_in_the_error(inbox: Inbox):
    failed = error(opened(smtp(inbox, **LOGIN), SMTP_PASSWORD="wrong horse"))
    assert failed.trouble is Trouble.DENIED
    assert "535" in str(failed)
    assert "horse" not in str(failed)
    assert inbox.mails == []


def test_a_missing_password_is_told_by_the_name_of_its_variable(inbox: Inbox):
    assert "SMTP_PASSWORD" in str(error(opened(smtp(inbox, **LOGIN))))


def test_a_refused_recipient_is_an_error_and_no_notice_counts(inbox: Inbox):
    failed = error(opened(smtp(inbox, **LOGIN), SMTP_PASSWORD=PASSWORD), digest("bad@example.com"))
    assert failed.trouble is Trouble.REFUSED
    assert "bad@example.com: 550 5.1.1 no such user here" in str(failed)
    assert inbox.mails == []


def test_one_refused_admin_keeps_no_mail_from_the_others_and_is_told(inbox: Inbox):
    lines = opened(smtp(inbox, to=["bad@example.com", "ops@example.com"], **LOGIN), SMTP_PASSWORD=PASSWORD)
    assert "bad@example.com" in str(error(lines, summary()))
    assert [people for _, people, _, _ in inbox.mails] == [["ops@example.com"]]


def test_a_server_without_starttls_gets_nothing_in_the_clear(serve: Serve):
    plain = serve()
    failed = error(opened(smtp(plain)))
    assert "STARTTLS" in str(failed)
    assert plain.mails == []


def test_without_tls_only_where_the_policy_says_so(serve: Serve):
    plain = serve()
    assert receipt(opened(smtp(plain, tls="none")))
    assert plain.mails[0][3] is False


@pytest.mark.parametrize("fault", ["another name", "another authority"])
def test_a_certificate_that_is_not_right_ends_the_talk(fault: str, serve: Serve, authority: trustme.CA):
    context = tls(authority, "elsewhere.example") if fault == "another name" else tls(trustme.CA())
    inbox = serve(tls_context=context, require_starttls=True)
    failed = error(opened(smtp(inbox)))
    assert failed.trouble is Trouble.UNREACHABLE
    assert "certificate verify failed" in str(failed)
    assert inbox.mails == []


def test_a_server_that_is_not_there_is_asked_once_and_fails_every_message():
    lines = opened(smtp(Inbox(port=1), tls="none"))
    done = sent(lines, digest(), digest("lee@example.com"), summary())
    assert [d.error and d.error.trouble for d in done] == [Trouble.UNREACHABLE] * 3
    assert len({id(d.error) for d in done}) == 1


def test_one_channel_that_fails_does_not_keep_a_notice_from_counting_that_another_took(inbox: Inbox):
    lines = opened(smtp(Inbox(port=1), tls="none", name="old") + smtp(inbox, name="new", **LOGIN), SMTP_PASSWORD=PASSWORD)
    done = sent(lines)
    assert [d.channel for d in done if d.error] == ["old"]
    assert set(channels.given(done)) == set(digest().resource_ids)
    assert all(receipt.startswith("new: 250") for receipt in channels.given(done).values())


# --- SES and SNS


@pytest.fixture
def moto(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    for name, value in {"AWS_ENDPOINT_URL": url, "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    yield url
    server.stop()


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


def test_by_filter_policy_a_queue_gets_the_messages_of_its_owner_kind_or_audience_and_no_others(moto: str):
    topic = boto3.client("sns").create_topic(Name="reaper")["TopicArn"]
    dana = queue(topic, "dana", {"owner": ["dana@example.com"]})
    notebooks = queue(topic, "notebooks", {"kind": ["sagemaker-notebook"]})
    instances = queue(topic, "instances", {"kind": ["azureml-compute-instance"], "action": ["warn"]})
    admins = queue(topic, "admins", {"audience": ["admins"]})
    dear = queue(topic, "dear", {"usd_per_hour": [{"numeric": [">", 100]}]})
    done = sent(
        opened(f"  - {{type: sns, topic: '{topic}', for: [owners, admins]}}\n"), digest(), digest("lee@example.com"), summary()
    )
    assert all(d.receipt for d in done)
    assert [(m["Subject"], m["Message"]) for m in dana()] == [(digest().subject, digest().text)]
    assert len(instances()) == 2
    assert [m["Subject"] for m in admins()] == ["2 idle ? none new"]
    assert notebooks() == dear() == []


def test_a_topic_takes_the_longest_text_that_it_may_and_the_cut_is_said(moto: str):
    topic = boto3.client("sns").create_topic(Name="reaper")["TopicArn"]
    read = queue(topic, "all", {"audience": ["owners"]})
    huge = Message(to="dana@example.com", subject="s" * 150, text="ä€😀" * 60_000, html="", attributes={"audience": "owners"})
    assert receipt(opened(f"  - {{type: sns, topic: '{topic}', for: owners}}\n"), huge)
    [got] = read()
    assert got["Message"].endswith(sns.CUT)
    assert len(got["Message"].encode()) > 261_000
    assert "\ufffd" not in got["Message"]
    assert len(got["Subject"]) == 99


def test_a_topic_that_is_gone_is_an_error_with_the_permission_it_needs(moto: str):
    failed = error(opened("  - {type: sns, topic: 'arn:aws:sns:us-east-1:123456789012:gone', for: owners}\n"))
    assert failed.operation == "sns:Publish"


def test_ses_takes_the_mail_and_gives_its_id_and_refuses_a_sender_that_is_not_verified(moto: str):
    line = "  - {type: ses, from: reaper@example.com, region: us-east-1}\n"
    assert "not verified" in str(error(opened(line)))
    boto3.client("sesv2", region_name="us-east-1").create_email_identity(EmailIdentity="reaper@example.com")
    assert receipt(opened(line))


def test_ses_gets_both_bodies_the_sender_by_name_and_one_recipient(monkeypatch: pytest.MonkeyPatch, posts: Posts):
    posts.answer = (200, {"Content-Type": "application/json"}, b'{"MessageId": "m-1"}')
    for name, value in {"AWS_ENDPOINT_URL": posts.url, "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}.items():
        monkeypatch.setenv(name, value)
    assert receipt(opened("  - {type: ses, from: reaper@example.com, region: eu-west-1, configuration_set: bounces}\n")) == "m-1"
    [(path, headers, body)] = posts.got
    asked = json.loads(body)
    assert path == "/v2/email/outbound-emails"
    assert "/eu-west-1/ses/aws4_request" in headers["authorization"]
    assert asked["Destination"] == {"ToAddresses": ["dana@example.com"]}
    assert asked["FromEmailAddress"] == "ML Idle Reaper <reaper@example.com>"
    assert asked["ConfigurationSetName"] == "bounces"
    simple = asked["Content"]["Simple"]
    assert simple["Subject"]["Data"] == digest().subject
    assert (simple["Body"]["Text"]["Data"], simple["Body"]["Html"]["Data"]) == (digest().text, digest().html)


def test_a_denied_send_names_the_missing_permission(monkeypatch: pytest.MonkeyPatch):
    with Aws(NOW) as aws:
        for name, value in aws.env.items():
            monkeypatch.setenv(name, value)
        aws.rules.append(on("SendEmail", denied()))
        failed = error(opened("  - {type: ses, from: reaper@example.com}\n"))
    assert (failed.trouble, failed.missing) == (Trouble.DENIED, "ses:SendEmail")


# --- Azure Communication Services


@pytest.fixture
def azure(monkeypatch: pytest.MonkeyPatch) -> Iterator[Azure]:
    with Azure(NOW) as running:
        for name, value in running.env.items():
            monkeypatch.setenv(name, value)
        yield running


@pytest.mark.parametrize("by", ["identity", "key"])
def test_azure_mail_is_sent_by_the_apps_own_identity_or_by_a_key(by: str, azure: Azure):
    spec = {"type": "acs", "endpoint": azure.url, "from": "DoNotReply@mail.example.com"}
    spec |= {"secret": "env:ACS_KEY"} if by == "key" else {}
    got = receipt(opened(f"  - {json.dumps(spec)}\n", ACS_KEY=base64.b64encode(b"k" * 32).decode()))
    [mail] = azure.mails
    assert got == mail["id"]
    assert mail["senderAddress"] == "DoNotReply@mail.example.com"
    assert mail["recipients"]["to"] == [{"address": "dana@example.com"}]
    assert mail["content"] == {"subject": digest().subject, "plainText": digest().text, "html": digest().html}


@pytest.mark.parametrize(
    ("fault", "trouble"),
    [
        pytest.param(azure_fault.error(403, "Denied", "not allowed"), Trouble.DENIED, id="403"),
        pytest.param(azure_fault.error(400, "InvalidSender", "no such sender"), Trouble.REFUSED, id="400"),
        pytest.param(azure_fault.throttled(0), Trouble.THROTTLED, id="429"),
        pytest.param(azure_fault.cut(), Trouble.UNREACHABLE, id="cut"),
    ],
)
def test_azure_mail_that_is_refused_is_an_error(fault: azure_fault.Fault, trouble: Trouble, azure: Azure):
    azure.rules.append(azure_fault.on("POST", "/emails:send", fault))
    spec = {"type": "acs", "endpoint": azure.url, "from": "DoNotReply@mail.example.com"}
    assert error(opened(f"  - {json.dumps(spec)}\n")).trouble is trouble


def test_azure_mail_that_was_accepted_but_failed_later_is_an_error(azure: Azure):
    body = {"id": "x", "status": "Failed", "error": {"code": "EmailDropped", "message": "the recipient is suppressed"}}
    azure.rules.append(azure_fault.on("GET", "/emails/operations/.*", azure_fault.Fault(answer=lambda r: _reply(body))))
    spec = {"type": "acs", "endpoint": azure.url, "from": "DoNotReply@mail.example.com"}
    assert "suppressed" in str(error(opened(f"  - {json.dumps(spec)}\n")))


def _reply(body: dict[str, Any]) -> Any:
    from reaper.sandbox.azure.request import Reply

    return Reply(body=json.dumps(body).encode())


# --- webhook and Apprise


@dataclass
class Posts:
    """A server on loopback that keeps what is posted and gives one answer."""

    url: str = ""
    answer: tuple[int, dict[str, str], bytes] = (200, {"X-Request-Id": "req-7"}, b"{}")
    got: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)


@pytest.fixture
def posts() -> Iterator[Posts]:
    kept = Posts()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            kept.got.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
            status, headers, answer = kept.answer
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(answer))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_POST

        def log_message(self, *parts: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    kept.url = f"http://127.0.0.1:{server.server_port}"
    yield kept
    server.shutdown()
    server.server_close()


def test_a_webhook_is_signed_so_that_the_receiver_can_tell_who_sent_it_and_when(posts: Posts):
    lines = opened(f"  - {{type: webhook, url: '{posts.url}/hook', secret: 'env:KEY', for: owners}}\n", KEY="s3cret")
    assert receipt(lines) == "HTTP 200 req-7"
    [(path, headers, body)] = posts.got
    stamp, given = (part.partition("=")[2] for part in headers["reaper-signature"].split(","))
    assert path == "/hook"
    assert int(stamp) == int(NOW.timestamp())
    assert given == hmac.new(b"s3cret", f"{stamp}.".encode() + body, hashlib.sha256).hexdigest()
    said = json.loads(body)
    assert (said["schema"], said["to"], said["subject"]) == (1, "dana@example.com", digest().subject)
    assert said["resources"] == list(digest().resource_ids)
    assert "s3cret" not in body.decode()


@pytest.mark.parametrize(
    ("status", "headers", "trouble"),
    [
        (500, {}, Trouble.REFUSED),
        (401, {}, Trouble.DENIED),
        (429, {"Retry-After": "9"}, Trouble.THROTTLED),
        (302, {"Location": "/elsewhere"}, Trouble.REFUSED),
    ],
)
def test_any_answer_but_success_is_an_error_and_no_redirect_is_followed(
    status: int, headers: dict[str, str], trouble: Trouble, posts: Posts
):
    posts.answer = (status, headers, b"no")
    failed = error(opened(f"  - {{type: webhook, url: '{posts.url}/hook', secret: 'env:KEY', for: owners}}\n", KEY="k"))
    assert failed.trouble is trouble
    assert [path for path, _, _ in posts.got] == ["/hook"]


def test_a_chat_gets_subject_and_text_through_apprise(posts: Posts):
    address = posts.url.replace("http", "json") + "/chat"
    assert receipt(opened(f"  - {{type: apprise, url: '{address}', for: owners}}\n")) == "JSON took it"
    said = json.loads(posts.got[0][2])
    assert said["title"] == digest().subject
    assert "churn-scoring" in said["message"]
    assert "Keep it: https://example.com/keep?t=sample" in said["message"]


def test_a_chat_address_from_the_environment_is_a_secret_and_stays_one(posts: Posts):
    posts.answer = (500, {}, b"no")
    address = posts.url.replace("http://", "json://user:hunter2@")
    failed = error(opened("  - {type: apprise, secret: 'env:CHAT', for: owners}\n", CHAT=address))
    assert "did not take the message" in str(failed)
    assert "hunter2" not in str(failed)
    assert "hunter2" not in str(error(opened("  - {type: apprise, secret: 'env:CHAT', for: owners}\n", CHAT="hunter2://x")))


def test_nobody_can_ring_a_whole_room_with_the_name_of_a_resource(posts: Posts):
    address = posts.url.replace("http", "json")
    loud = Message(to="dana@example.com", subject="@everyone", text="<!channel> @here <@U123> ok@example.com", html="")
    assert receipt(opened(f"  - {{type: apprise, url: '{address}', for: owners}}\n"), loud)
    said = json.loads(posts.got[0][2])
    assert not any(ring in said["title"] + said["message"] for ring in ("@everyone", "<!channel", "@here", "<@U123"))
    assert "ok@example.com" in said["message"]


# --- readers, secrets, folder and the command


def test_a_channel_gets_only_what_is_for_its_readers(posts: Posts):
    lines = opened(f"  - {{type: webhook, url: '{posts.url}/hook', secret: 'env:KEY', for: admins}}\n", KEY="k")
    assert sent(lines, digest()) == []
    assert [d.message.subject for d in sent(lines, digest(), summary())] == [summary().subject]


def test_a_secret_in_secrets_manager_is_read_when_needed_whole_or_by_key(moto: str, posts: Posts):
    boto3.client("secretsmanager").create_secret(Name="reaper/hook", SecretString='{"signing": "s3cret"}')
    line = f"  - {{type: webhook, url: '{posts.url}/hook', secret: 'secretsmanager:reaper/hook#signing', for: owners}}\n"
    assert receipt(opened(line))
    _, headers, body = posts.got[0]
    stamp, given = (part.partition("=")[2] for part in headers["reaper-signature"].split(","))
    assert given == hmac.new(b"s3cret", f"{stamp}.".encode() + body, hashlib.sha256).hexdigest()
    assert error(opened(line.replace("reaper/hook#", "gone#"))).operation == "secretsmanager:GetSecretValue"


def test_a_folder_takes_mails_that_mail_programs_open(tmp_path: Path):
    path = Path(receipt(opened(f"  - {{type: folder, path: '{tmp_path}/mail'}}\n")))
    mail = message_from_bytes(path.read_bytes(), policy=policy.default)
    assert mail["To"] == "dana@example.com"
    assert path.with_suffix(".html").read_text() == digest().html


def reaper_notify(*arguments: str, **environ: str) -> Any:
    return CliRunner().invoke(notify_cli.app, ["test", *arguments], env=environ)


def test_the_command_sends_a_sample_and_prints_the_receipts(inbox: Inbox, tmp_path: Path):
    lines = smtp(inbox, **LOGIN) + f"  - {{type: folder, path: '{tmp_path}/mail', name: looks}}\n"
    done = reaper_notify("--to", "dana@example.com", "--policy", HEAD + lines, SMTP_PASSWORD=PASSWORD)
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[0] == "smtp: 250 2.0.0 OK queued as M1"
    assert done.stdout.splitlines()[1].startswith("looks: ")
    assert inbox.mails[0][0]["Subject"].startswith("[Sample] 3 idle ML resources cost you")


def test_the_command_says_what_failed_with_status_3(inbox: Inbox):
    done = reaper_notify("--to", "bad@example.com", "--policy", HEAD + smtp(inbox, **LOGIN), SMTP_PASSWORD=PASSWORD)
    assert done.exit_code == 3
    assert "smtp: FAILED smtp:Send: " in done.stdout
    assert "550" in done.stdout


def test_the_command_sends_nothing_to_an_address_outside_the_domains_and_nothing_without_channels(inbox: Inbox):
    done = reaper_notify("--to", "dana@evil.example", "--policy", HEAD + smtp(inbox, **LOGIN), SMTP_PASSWORD=PASSWORD)
    assert isinstance(done.exception, SettingsError)
    assert "owners.domains" in str(done.exception)
    none = reaper_notify("--to", "dana@example.com", "--policy", HEAD.replace("channels:\n", ""))
    assert "no channel" in str(none.exception)
    assert inbox.mails == []


def test_without_channels_in_the_policy_those_of_the_deployment_hold(azure: Azure):
    environ = {"REAPER_EMAIL_ENDPOINT": azure.url, "REAPER_EMAIL_SENDER": "DoNotReply@mail.example.com"}
    done = reaper_notify("--to", "dana@example.com", "--policy", HEAD.replace("channels:\n", ""), **environ)
    assert done.exit_code == 0, done.output
    assert azure.mails[0]["recipients"]["to"] == [{"address": "dana@example.com"}]
