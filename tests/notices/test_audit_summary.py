"""An audit's summary: the admins' message of every other mode, sent on the deployment's own channel."""

from __future__ import annotations

import email
from dataclasses import replace
from email import policy
from pathlib import Path

import pytest

from fakes.mails import compose_summary
from fakes.sample_findings import NOW, finding, occasion, report
from reaper.errors import CloudError, Reason
from reaper.finding import Outcome
from reaper.model import Mode, Result, StepName
from reaper.notices.admin_summary import admin_summary
from reaper.notices.summary_mail import send_audit_summary
from reaper.policy.channel_settings import Folder, Smtp

PLANNED = finding("churn", move=StepName.STOP, outcome=Outcome(result=Result.PLANNED, because="idle for 9 days"))
AUDIT = replace(report(PLANNED), run=replace(report().run, mode=Mode.AUDIT))
OWNERS = replace(occasion(), mode=Mode.AUDIT).owners


def sent_mail(folder: Path, stored: str | None = None) -> email.message.EmailMessage:
    spec = Folder.model_validate({"type": "folder", "path": str(folder)})
    path = Path(send_audit_summary(AUDIT, OWNERS, spec, stored, lambda: NOW))
    message = email.message_from_bytes(path.read_bytes(), policy=policy.default)
    assert isinstance(message, email.message.EmailMessage)
    return message


def plain_text(mail: email.message.EmailMessage) -> str:
    body = mail.get_body(("plain",))
    assert body is not None
    return str(body.get_content())


def test_an_audit_sends_the_same_summary_as_other_modes(tmp_path: Path):
    mail = sent_mail(tmp_path)
    summary = compose_summary(AUDIT, replace(occasion(), now=AUDIT.run.started_at, mode=Mode.AUDIT, run_id=AUDIT.run.id))
    assert mail["Subject"] == summary.subject == "[ML Idle Reaper] 1 idle ML resource costs $1,460 a month"
    assert plain_text(mail) == summary.text
    assert "audit mode: nothing was changed" in summary.text


def test_an_audit_summary_lists_what_would_be_carried_out(tmp_path: Path):
    assert "WOULD BE CARRIED OUT NOW (1)\n- churn (SageMaker endpoint, " in plain_text(sent_mail(tmp_path))
    acting = admin_summary(replace(AUDIT, run=replace(AUDIT.run, mode=Mode.ENFORCE)), occasion())
    assert acting is not None
    assert "WOULD BE" not in acting.text


def test_an_audit_summary_names_the_place_of_the_report(tmp_path: Path):
    assert "Full report: s3://bucket/reports/r1.json\n" in plain_text(sent_mail(tmp_path, "s3://bucket/reports/r1.json"))
    assert "Full report" not in plain_text(sent_mail(tmp_path))


def test_a_refused_audit_summary_is_an_error_with_its_cause():
    spec = Smtp.model_validate({"type": "smtp", "host": "localhost", "port": 1, "tls": "none", "from": "r@example.com"})
    with pytest.raises(CloudError, match="the summary was not accepted: localhost:1: ") as refused:
        send_audit_summary(AUDIT, OWNERS, spec, None, lambda: NOW)
    assert refused.value.reason is Reason.UNREACHABLE
