from __future__ import annotations

import shlex
import unicodedata
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fakes import mails
from fakes.builders import NOW, resource, rule
from fakes.sample_findings import finding, occasion, only, report
from reaper.case import Coverage, Evidence, Owner
from reaper.finding import Finding
from reaper.model import Role, Status, Target
from reaper.notices import item
from reaper.notices.admin_summary import admin_summary
from reaper.notices.message import Message, is_plain_address

HOSTILE = "<script>alert(1)</script>\"'\r\nBcc: all@evil.example\u202egpj.exe &lt;"


class Shape(HTMLParser):
    """The tags and attribute names of a page, and its texts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, tuple[str, ...]]] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, tuple(name for name, _ in attrs)))


def hostile(text: str) -> Finding:
    thing = resource(
        id=f"arn:aws:sagemaker:us-east-1:123456789012:endpoint/{text}",
        name=text,
        size=text or "x",
        tags={text: text, "team": text},
        target=Target(cloud="aws", account=text, region=text),
    )
    evidence = Evidence(
        signal=text, subject=text, role=Role.ACTIVITY, points=1, last_busy=NOW, peak=1, complete=True, slots=(1, 2, 3)
    )
    owner = Owner(address="ml-admins@example.com", source=f"fallback; tag owner names {text}")
    return finding(resource=thing, because=text, owner=owner, evidence=(evidence,), rule=rule(name=text))


LETTERS = st.text(
    alphabet=st.one_of(st.characters(), st.sampled_from("<>\"'&{}%\r\n\x00\x1b\u202e\u2066\u200f=@;`$()")),
    min_size=1,
    max_size=60,
)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(LETTERS)
def test_hostile_text_changes_no_markup_and_leaves_no_marks(text: str):
    gap = Coverage(
        cloud="aws", account=text, region=text, kind="sagemaker-endpoint", status=Status.DENIED, missing=text, error=text
    )
    harmless = replace(gap, account="x", region="x", missing="x", error="x")
    made, calm = (
        [
            only(mails.owner_notices([hostile(t)], occasion())),
            admin_summary(report(hostile(t), coverage=(g,)), occasion(), None, [t]),
        ]
        for t, g in ((text, gap), ("x", harmless))
    )
    for message, usual in zip(made, calm, strict=True):
        assert message is not None
        assert usual is not None
        assert [t for t in Shape(message.html).tags if t[0] != "br"] == [t for t in Shape(usual.html).tags if t[0] != "br"] or (
            not text.isprintable()
        )
        assert {t for t, _ in Shape(message.html).tags} <= {t for t, _ in Shape(usual.html).tags}
        assert message.subject.isprintable()
        for body in (message.text, message.html):
            assert not {c for c in body if unicodedata.category(c) in {"Cc", "Cf", "Cs"} and c not in "\n\u200c\u200d"}
            body.encode()


@pytest.mark.parametrize(
    "text", [HOSTILE, "=cmd()|' /C calc'!A0", "\u202eevil", "a" * 10_000, "\ud800", "{{ 7*7 }}"], ids=lambda t: ascii(t)[:30]
)
def test_known_attacks_come_out_harmless(text: str):
    message = only(mails.owner_notices([hostile(text)], occasion()))
    summary = admin_summary(report(hostile(text)), occasion())
    assert summary is not None
    for one in (message, summary):
        assert "<script" not in one.html
        assert "\nBcc" not in one.text
        assert len(one.subject) <= 150
        assert len(one.html) < 40_000
        assert not any(c in one.html + one.text + one.subject for c in "\u202e\r")
        assert "49" not in one.subject


def test_no_mail_asks_for_anything_from_the_network():
    message = only(mails.owner_notices([finding()], occasion()))
    summary = admin_summary(report(finding()), occasion())
    assert summary is not None
    for page in (message.html, summary.html):
        assert not any(mark in page for mark in ("<img", "src=", "url(", "<link", "<script", "@import"))
        assert 'name="color-scheme"' in page
        assert 'name="viewport"' in page


@settings(deadline=None, max_examples=100)
@given(LETTERS)
def test_every_name_in_a_command_is_one_shell_argument(text: str):
    thing = resource(id=f"arn:{text}", name=text, kind="sagemaker-notebook")
    for command in (item.keep_command(thing, NOW), item.undo_command(thing)):
        if command is not None:
            assert "\n" not in command
            words = shlex.split(command)
            assert f"arn:{text}" in words or text in words


@pytest.mark.parametrize(
    "fields",
    [
        {"subject": "a\r\nBcc: x@evil.example"},
        {"subject": ""},
        {"subject": "a\u202e"},
        {"subject": "a" * 151},
        {"to": "x@y.z\r\nBcc: a@b.c"},
        {"to": ""},
        {"to": "<x@example.com>"},
        {"text": " \n"},
    ],
    ids=repr,
)
def test_an_empty_or_hostile_message_cannot_be_created(fields: dict[str, Any]):
    with pytest.raises(ValueError):
        Message(**{"to": "lee@example.com", "subject": "s", "text": "t", "html": "h", **fields})


@given(st.text(max_size=40))
def test_no_accepted_address_can_end_a_header_line(text: str):
    if is_plain_address(text):
        assert text.isascii()
        assert text.isprintable()
        assert not set(text) & set(' <>,;:"()[]\\')
