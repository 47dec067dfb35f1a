from __future__ import annotations

import re
from typing import Any

import jsonschema
import pytest

from reaper import registry
from reaper.errors import CloudError, PolicyError, SettingsError
from reaper.notices.channels.delivery import with_deployment_channels
from reaper.notices.message import Audience, Message, recipient
from reaper.policy import channel_settings, yaml_lines
from reaper.policy.channel_settings import CHANNEL_MODELS, Acs, Apprise, Sns
from reaper.policy.parse import parse_policy
from reaper.policy.schema import Policy
from reaper.stores import secret_store

OWNERS = "owners: {domains: [example.com], fallback: ml-admins@example.com}\n"
EVERY = """\
  - {type: smtp, host: smtp.example.com, from: reaper@example.com, user: reaper, secret: env:REAPER_SECRET_SMTP}
  - {type: ses, from: reaper@example.com, for: owners}
  - {type: acs, endpoint: "https://mail.communication.azure.com", from: reaper@example.com, to: [ops@example.com]}
  - {type: sns, topic: "arn:aws:sns:us-east-1:123456789012:reaper"}
  - {type: webhook, url: "https://hooks.example.com/reaper", secret: "secretsmanager:reaper/hook#key", for: [owners, admins]}
  - {type: slack, secret: env:REAPER_SECRET_SLACK}
  - {type: teams, secret: "keyvault:https://vault.vault.azure.net/secrets/teams", for: [owners, admins], host: flow.example.com}
  - {type: apprise, secret: "keyvault:https://vault.vault.azure.net/secrets/discord", name: discord}
  - {type: apprise, url: "json://localhost:8080/chat"}
  - {type: folder, path: mails}
"""


def parse(channels: str, head: str = OWNERS) -> Policy:
    return parse_policy(f"version: 1\n{head}channels:\n{channels}", "policy.yaml", registry.kind_names())


def problem(line: str, head: str = OWNERS) -> str:
    with pytest.raises(PolicyError) as caught:
        parse(f"  - {line}\n", head)
    return str(caught.value)


def test_every_channel_type_parses_and_fits_the_schema():
    policy = parse(EVERY)
    assert {c.type for c in policy.channels} == set(CHANNEL_MODELS)
    data = yaml_lines.parse_with_lines(f"version: 1\n{OWNERS}channels:\n{EVERY}", "policy.yaml")[0]
    jsonschema.validate(data, Policy.model_json_schema())
    assert [list(c.readers) for c in policy.channels[1:4]] == [["owners"], ["owners", "admins"], ["admins"]]
    assert [list(c.readers) for c in policy.channels[5:7]] == [["admins"], ["owners", "admins"]]


SMTP = "type: smtp, host: smtp.example.com, from: reaper@example.com"


@pytest.mark.parametrize(
    "line",
    [
        f"{{{SMTP}, user: u, secret: hunter2hunter2}}",
        f"{{{SMTP}, password: hunter2hunter2}}",
        f"{{{SMTP}, smtp_token: hunter2hunter2}}",
        '{type: smtp, host: "smtp://u:hunter2hunter2@smtp.example.com", from: r@example.com}',
        '{type: smtp, host: "u:hunter2hunter2@smtp.example.com", from: r@example.com}',
        '{type: apprise, url: "slack://T1/B2/hunter2hunter2"}',
        '{type: apprise, url: "https://hooks.slack.com/services/T0/B0/hunter2hunter2"}',
        '{type: apprise, url: "json://u:hunter2hunter2@localhost"}',
        '{type: apprise, url: "hunter2hunter2://x"}',
        '{type: apprise, secret: "slack://T1/B2/hunter2hunter2"}',
        '{type: webhook, url: "https://hooks.slack.com/services/hunter2hunter2", secret: env:REAPER_SECRET_K}',
        '{type: slack, secret: "https://hooks.slack.com/services/hunter2hunter2"}',
        '{type: slack, url: "https://hooks.slack.com/services/hunter2hunter2"}',
        '{type: teams, url: "https://x.environment.api.powerplatform.com/invoke?sp=1&sig=hunter2hunter2"}',
        '{type: webhook, url: "https://x.example.com/?code=hunter2hunter2", secret: env:REAPER_SECRET_K}',
        '{type: webhook, url: "https://x.example.com/?a=1&sig=hunter2hunter2", secret: env:REAPER_SECRET_K}',
        '{type: acs, endpoint: "https://x.example.com", from: r@example.com, access_key: hunter2hunter2}',
        '{type: acs, endpoint: "https://x.example.com", from: r@example.com, connection_string: hunter2hunter2}',
    ],
)
def test_an_inline_secret_is_an_error_that_does_not_repeat_it(line: str):
    error = problem(line)
    assert error.startswith("policy.yaml:4: channels[0]: ")
    assert "env:REAPER_SECRET_NAME" in error
    assert "hunter2hunter2" not in error


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{type: smpt, host: a}", "channels[0]: unknown channel type 'smpt'; did you mean smtp?"),
        ("{host: a}", "valid here: smtp, ses, acs, sns, webhook, slack, teams, apprise, folder"),
        ("{type: slack}", "channels[0].secret: this key is missing"),
        ("{type: teams, secret: env:REAPER_SECRET_T, host: 'https://x.example.com'}", "channels[0].host: "),
        (f"{{{SMTP}, prot: 25}}", "channels[0].prot: unknown key; did you mean port?"),
        (f"{{{SMTP}, fron: a@b.cd}}", "channels[0].fron: unknown key; did you mean from?"),
        ("{type: smtp, from: r@example.com}", "channels[0].host: this key is missing"),
        ("{type: smtp, host: a.example, from: R <r@example.com>}", "expected one plain email address"),
        (
            f"{{{SMTP}, for: owner}}",
            "channels[0].for[0]: 'owner' is not valid: expected 'owners' or 'admins'; did you mean owners?",
        ),
        (f"{{{SMTP}, for: []}}", "channels[0].for: "),
        (f"{{{SMTP}, user: u}}", "user and secret go together"),
        (f"{{{SMTP}, user: u, secret: env:REAPER_SECRET_P, tls: none}}", "would send the password unencrypted"),
        ("{type: sns, topic: reaper}", "channels[0].topic: 'reaper' is not valid"),
        ('{type: webhook, url: "http://hooks.example.com/", secret: env:REAPER_SECRET_K}', "channels[0].url: "),
        ('{type: webhook, url: "https://hooks.example.com/"}', "channels[0].secret: this key is missing"),
        ("{type: apprise}", "set secret to where the Apprise address is stored"),
        ('{type: acs, endpoint: "http://mail.example.com", from: r@example.com}', "channels[0].endpoint: "),
    ],
)
def test_a_channel_error_names_line_and_fix(line: str, message: str):
    error = problem(line)
    assert error.startswith("policy.yaml:4: ")
    assert message in error


@pytest.mark.parametrize(
    ("type_", "meant"),
    [("Slack", "slack"), ("Teams", "teams"), ("ms-teams", "teams"), ("msteams", "teams"), ("Microsoft Teams", "teams")],
)
def test_a_misspelled_room_gets_a_working_example(type_: str, meant: str):
    [line] = re.findall(r"write `(- \{.*?\})`", problem(f"{{type: {type_}, url: 'https://hooks.example.com/x'}}"))
    [channel] = parse(f"  {line}\n").channels
    assert channel.type == meant


@pytest.mark.parametrize("type_", ["discord", "telegram", "pagerduty", "google-chat", "webex"])
def test_a_chat_as_channel_type_gets_a_working_example(type_: str):
    error = problem(f"{{type: {type_}, url: 'https://hooks.example.com/x'}}")
    assert error.startswith(f"policy.yaml:4: channels[0]: unknown channel type {type_!r}; chats use Apprise")
    [line] = re.findall(r"write `(- \{.*?\})`", error)
    [channel] = parse(f"  {line}\n").channels
    assert isinstance(channel, Apprise)
    assert f"in the variable {str(channel.secret).removeprefix('env:')} " in error


@pytest.mark.parametrize(("name", "address"), sorted(set(channel_settings.CHATS.values())))
def test_apprise_accepts_each_suggested_chat_address(name: str, address: str):
    apprise = pytest.importorskip("apprise")
    scheme = address.partition("://")[0]
    assert apprise.plugins.N_MGR[scheme].service_name, name


@pytest.mark.parametrize("type_", ["email", "mail", "sendgrid"])
def test_mail_as_channel_type_lists_the_mail_types(type_: str):
    error = problem(f"{{type: {type_}, to: a@example.com}}")
    [line] = re.findall(r"write `(- \{.*?\})`", error)
    assert parse(f"  {line}\n").channels[0].type == "smtp"
    assert "type: ses (Amazon) or acs (Azure)" in error


def test_a_mail_channel_for_admins_needs_their_address():
    assert "set its `to` or owners.fallback" in problem("{type: ses, from: r@example.com}", "")
    assert problem("{type: ses, from: r@example.com}", "owners: {fallback: nobody}\n")
    assert parse("  - {type: ses, from: r@example.com, for: owners}\n", "")
    assert parse("  - {type: ses, from: r@example.com, to: ops@example.com}\n", "")


def message(**fields: Any) -> Message:
    return Message(**{"to": "lee@example.com", "subject": "s", "text": "t", "html": "h", **fields})


def test_a_message_without_an_address_is_refused():
    assert recipient(message(), "x") == "lee@example.com"
    with pytest.raises(CloudError, match="no recipient"):
        recipient(message(audience=Audience.ADMINS, to=""), "x")


@pytest.mark.parametrize("to", ["victim%evil.com@example.com", "-oQ@example.com", "a!b@example.com", "x y@example.com"])
def test_no_channel_accepts_an_address_that_hides_another(to: str):
    assert "expected one plain email address" in problem(f"{{type: ses, from: r@example.com, to: '{to}'}}")
    with pytest.raises(ValueError, match="is not a plain email address"):
        message(to=to)


def test_a_secret_is_read_from_its_variable():
    assert secret_store.read_secret("env:KEY", {"KEY": "s3cret"}) == "s3cret"


@pytest.mark.parametrize("ref", ["env:KEY", "env:EMPTY", "file:/etc/passwd", "s3cret", ""])
def test_an_unavailable_secret_is_an_error(ref: str):
    with pytest.raises(CloudError) as caught:
        secret_store.read_secret(ref, {"EMPTY": ""})
    assert "s3cret" not in str(caught.value)


BROUGHT = {
    "REAPER_EMAIL_ENDPOINT": "https://mail.communication.azure.com",
    "REAPER_EMAIL_SENDER": "DoNotReply@mail.example.com",
    "REAPER_EMAIL_TO": "a@example.com, b@example.com",
    "REAPER_TOPIC": "arn:aws:sns:us-east-1:123456789012:reaper",
}


def test_deployment_channels_apply_if_the_policy_has_none():
    mail, topic = with_deployment_channels([], BROUGHT)
    assert isinstance(mail, Acs)
    assert isinstance(topic, Sns)
    assert (mail.to, mail.sender) == (["a@example.com", "b@example.com"], "DoNotReply@mail.example.com")
    assert list(topic.readers) == [Audience.ADMINS]
    assert list(mail.readers) == [Audience.OWNERS, Audience.ADMINS]
    assert with_deployment_channels([], {}) == []


def channels(*lines: str) -> list[Any]:
    return parse("".join(f"  - {line}\n" for line in lines)).channels


@pytest.mark.parametrize(
    ("own", "brought"),
    [
        pytest.param(["{type: ses, from: r@example.com, for: owners}"], ["acs", "sns"], id="owners are told otherwise"),
        pytest.param(['{type: sns, topic: "arn:aws:sns:us-east-1:123456789012:x"}'], ["acs"], id="a topic of its own for admins"),
        pytest.param(
            ['{type: sns, topic: "arn:aws:sns:us-east-1:123456789012:x", for: owners}'], ["acs", "sns"], id="a topic for owners"
        ),
        pytest.param(['{type: acs, endpoint: "https://x.example.com", from: r@example.com}'], ["sns"], id="mail of its own"),
    ],
)
def test_deployment_channels_keep_serving_admins(own: list[str], brought: list[str]):
    declared = channels(*own)
    combined = with_deployment_channels(declared, BROUGHT)
    assert combined[: len(declared)] == declared
    assert [spec.type for spec in combined[len(declared) :]] == brought
    assert all(list(spec.readers) == [Audience.ADMINS] for spec in combined[len(declared) :])
    assert len({spec.name or spec.type for spec in combined}) == len(combined)
    assert with_deployment_channels(declared, {}) == declared


@pytest.mark.parametrize("broken", [{"REAPER_EMAIL_ENDPOINT": "mail"}, {"REAPER_TOPIC": "reaper"}])
def test_an_invalid_deployment_channel_is_an_error(broken: dict[str, str]):
    with pytest.raises(SettingsError, match="REAPER_"):
        with_deployment_channels([], broken)
