"""Mail by SMTP against a real server with STARTTLS and login."""

from __future__ import annotations

import pytest
import trustme

from e2e.post import LOGIN, NOW, PASSWORD, Inbox, Serve, digest, error, opened, receipt, sent, smtp, summary, tls
from reaper.errors import Reason
from reaper.notices.channels import delivery


def test_smtp_sends_over_starttls_with_login_and_a_receipt(inbox: Inbox):
    got = receipt(opened(smtp(inbox, **LOGIN), REAPER_SECRET_SMTP=PASSWORD))
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


def test_a_wrong_smtp_password_is_an_error_without_it(inbox: Inbox):
    failed = error(opened(smtp(inbox, **LOGIN), REAPER_SECRET_SMTP="wrong horse"))
    assert failed.reason is Reason.DENIED
    assert "535" in str(failed)
    assert "horse" not in str(failed)
    assert inbox.mails == []


def test_a_missing_smtp_password_names_its_variable(inbox: Inbox):
    assert "REAPER_SECRET_SMTP" in str(error(opened(smtp(inbox, **LOGIN))))


def test_a_refused_recipient_makes_the_notice_not_count(inbox: Inbox):
    failed = error(opened(smtp(inbox, **LOGIN), REAPER_SECRET_SMTP=PASSWORD), digest("bad@example.com"))
    assert failed.reason is Reason.REFUSED
    assert "bad@example.com: 550 5.1.1 no such user here" in str(failed)
    assert inbox.mails == []


def test_one_refused_admin_does_not_block_the_others(inbox: Inbox):
    lines = opened(smtp(inbox, to=["bad@example.com", "ops@example.com"], **LOGIN), REAPER_SECRET_SMTP=PASSWORD)
    assert "bad@example.com" in str(error(lines, summary()))
    assert [people for _, people, _, _ in inbox.mails] == [["ops@example.com"]]


def test_a_server_without_starttls_gets_no_mail(serve: Serve):
    plain = serve()
    failed = error(opened(smtp(plain)))
    assert "STARTTLS" in str(failed)
    assert plain.mails == []


def test_smtp_without_tls_needs_the_policys_word(serve: Serve):
    plain = serve()
    assert receipt(opened(smtp(plain, tls="none")))
    assert plain.mails[0][3] is False


@pytest.mark.parametrize("fault", ["another name", "another authority"])
def test_an_invalid_smtp_certificate_is_an_error(fault: str, serve: Serve, authority: trustme.CA):
    context = tls(authority, "elsewhere.example") if fault == "another name" else tls(trustme.CA())
    inbox = serve(tls_context=context, require_starttls=True)
    failed = error(opened(smtp(inbox)))
    assert failed.reason is Reason.UNREACHABLE
    assert "certificate verify failed" in str(failed)
    assert inbox.mails == []


def test_an_unreachable_server_is_tried_three_times_and_then_given_up():
    lines = opened(smtp(Inbox(port=1), tls="none"))
    deliveries = sent(lines, digest(), digest("lee@example.com"), summary(), digest("kim@example.com"), digest("ann@example.com"))
    assert [d.error and d.error.reason for d in deliveries] == [Reason.UNREACHABLE] * 5
    assert len({id(d.error) for d in deliveries}) == delivery.MAX_MISSES == 3


def test_one_accepting_channel_makes_a_notice_count(inbox: Inbox):
    lines = opened(smtp(Inbox(port=1), tls="none", name="old") + smtp(inbox, name="new", **LOGIN), REAPER_SECRET_SMTP=PASSWORD)
    deliveries = sent(lines)
    assert [d.channel for d in deliveries if d.error] == ["old"]
    assert set(delivery.receipts_by_id(deliveries)) == set(digest().resource_ids)
    assert all(receipt.startswith("new: 250") for receipt in delivery.receipts_by_id(deliveries).values())
