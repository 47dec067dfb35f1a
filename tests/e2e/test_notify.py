"""Readers, secrets, the folder, and `reaper notify test`."""

from __future__ import annotations

import hashlib
import hmac
from email import message_from_bytes, policy
from pathlib import Path
from typing import Any

import boto3
from typer.testing import CliRunner

from e2e.post import HEAD, LOGIN, PASSWORD, Inbox, Posts, digest, error, opened, receipt, sent, smtp, summary
from reaper.cli import notify
from reaper.errors import SettingsError
from reaper_sandbox.azure.server import Server as Azure


def test_a_channel_gets_only_messages_for_its_readers(posts: Posts):
    lines = opened(
        f"  - {{type: webhook, url: '{posts.url}/hook', secret: 'env:REAPER_SECRET_KEY', for: admins}}\n", REAPER_SECRET_KEY="k"
    )
    assert sent(lines, digest()) == []
    assert [d.message.subject for d in sent(lines, digest(), summary())] == [summary().subject]


def test_secrets_manager_secrets_are_read_whole_or_by_key(moto: str, posts: Posts):
    boto3.client("secretsmanager").create_secret(Name="reaper/hook", SecretString='{"signing": "s3cret"}')
    line = f"  - {{type: webhook, url: '{posts.url}/hook', secret: 'secretsmanager:reaper/hook#signing', for: owners}}\n"
    assert receipt(opened(line, REAPER_SECRETS="reaper/*"))
    _, headers, body = posts.got[0]
    stamp, signature = (part.partition("=")[2] for part in headers["reaper-signature"].split(","))
    assert signature == hmac.new(b"s3cret", f"{stamp}.".encode() + body, hashlib.sha256).hexdigest()
    assert error(opened(line.replace("hook#", "gone#"), REAPER_SECRETS="reaper/*")).operation == "secretsmanager:GetSecretValue"


def test_a_folder_channel_writes_valid_mail_files(tmp_path: Path):
    path = Path(receipt(opened(f"  - {{type: folder, path: '{tmp_path}/mail'}}\n")))
    mail = message_from_bytes(path.read_bytes(), policy=policy.default)
    assert mail["To"] == "dana@example.com"
    assert path.with_suffix(".html").read_text() == digest().html


def reaper_notify(*arguments: str, **environ: str) -> Any:
    return CliRunner().invoke(notify.app, ["test", *arguments], env=environ)


def test_notify_test_sends_a_sample_and_prints_receipts(inbox: Inbox, tmp_path: Path):
    lines = smtp(inbox, **LOGIN) + f"  - {{type: folder, path: '{tmp_path}/mail', name: looks}}\n"
    completed = reaper_notify("--to", "dana@example.com", "--policy", HEAD + lines, REAPER_SECRET_SMTP=PASSWORD)
    assert completed.exit_code == 0, completed.output
    assert completed.stdout.splitlines()[0] == "smtp: 250 2.0.0 OK queued as M1"
    assert completed.stdout.splitlines()[1].startswith("looks: ")
    assert inbox.mails[0][0]["Subject"].startswith("[Sample] 3 idle ML resources cost $189 a day; nothing will be stopped")


def test_notify_test_never_reads_a_forbidden_secret(posts: Posts):
    line = f"  - {{type: webhook, url: '{posts.url}', secret: env:REAPER_SECRET_KEYS, for: owners}}\n"
    keys = {"REAPER_SECRET_KEYS": "k" * 40, "REAPER_SNOOZE_KEYS": "env:REAPER_SECRET_KEYS"}
    completed = reaper_notify("--to", "dana@example.com", "--policy", HEAD + line, **keys)
    assert (completed.exit_code, posts.got) == (3, [])
    assert "the keys of snooze links are never sent anywhere" in completed.stdout


def test_notify_test_exits_with_3_if_a_channel_fails(inbox: Inbox):
    completed = reaper_notify("--to", "bad@example.com", "--policy", HEAD + smtp(inbox, **LOGIN), REAPER_SECRET_SMTP=PASSWORD)
    assert completed.exit_code == 3
    assert "smtp: FAILED smtp:Send: " in completed.stdout
    assert "550" in completed.stdout


def test_notify_test_needs_an_allowed_address_and_a_channel(inbox: Inbox):
    completed = reaper_notify("--to", "dana@evil.example", "--policy", HEAD + smtp(inbox, **LOGIN), REAPER_SECRET_SMTP=PASSWORD)
    assert isinstance(completed.exception, SettingsError)
    assert "owners.domains" in str(completed.exception)
    none = reaper_notify("--to", "dana@example.com", "--policy", HEAD.replace("channels:\n", ""))
    assert "no channel" in str(none.exception)
    assert inbox.mails == []


def test_notify_test_uses_the_deployments_channels_by_default(azure: Azure):
    environ = {
        "REAPER_EMAIL_ENDPOINT": azure.url,
        "REAPER_EMAIL_SENDER": "DoNotReply@mail.example.com",
        "REAPER_EMAIL_TO": "admins@example.com",
    }
    completed = reaper_notify("--to", "dana@example.com", "--policy", HEAD.replace("channels:\n", ""), **environ)
    assert completed.exit_code == 0, completed.output
    assert azure.mails[0]["recipients"]["to"] == [{"address": "dana@example.com"}]


def test_notify_test_lists_channels_if_the_name_is_unknown(tmp_path: Path):
    lines = f"  - {{type: folder, path: '{tmp_path}/mail', name: looks}}\n"
    completed = reaper_notify("--to", "dana@example.com", "--policy", HEAD + lines, "--channel", "looks", "--channel", "nope")
    assert isinstance(completed.exception, SettingsError)
    assert "'nope': no channel has this name or type; use looks" in str(completed.exception)
    assert not (tmp_path / "mail").exists()


def test_notify_test_rejects_a_misspelled_setting_first(tmp_path: Path):
    lines = f"  - {{type: folder, path: '{tmp_path}/mail'}}\n"
    completed = reaper_notify("--to", "dana@example.com", "--policy", HEAD + lines, REAPER_LEDGR="memory:")
    assert "did you mean REAPER_LEDGER?" in str(completed.exception)
    assert not (tmp_path / "mail").exists()
