from __future__ import annotations

from email import message_from_bytes
from email.header import decode_header, make_header

import pytest

from fakes.builders import NOW
from reaper.notices.channels.smtp import mail_bytes, make_mail
from reaper.notices.message import MAX_SUBJECT, Audience, Message


def message(subject: str) -> Message:
    return Message(to="lee@example.com", subject=subject, text="line " * 60, html="<p>é</p>", audience=Audience.OWNERS)


@pytest.mark.parametrize("name", ["x" * 60, "word " * 20 + "end"])
def test_a_long_plain_subject_stays_on_one_line(name: str):
    subject = f"1 idle ML resource costs $67.58 a day: {name}"
    sent = mail_bytes(make_mail(message(subject), "reaper@example.com", "lee@example.com", NOW))
    assert f"\r\nSubject: {subject}\r\n".encode() in sent


def test_other_subjects_are_encoded_as_rfc_2047_words():
    subject = "é" * MAX_SUBJECT
    sent = mail_bytes(make_mail(message(subject), "reaper@example.com", "lee@example.com", NOW))
    assert str(make_header(decode_header(message_from_bytes(sent)["Subject"]))) == subject
    assert all(len(line) <= 78 for line in sent.split(b"\r\n"))
