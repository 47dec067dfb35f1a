"""Other people's words in a chat: no link under other words, no image, no HTML, nobody called."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from fakes import mails
from fakes.sample_findings import finding, occasion, only, report
from notices.test_hostile_messages import hostile
from reaper.notices.admin_summary import admin_summary
from reaper.notices.channels.webhook import message_json
from reaper.notices.message import without_markup

MARKDOWN = MarkdownIt("commonmark")
"""The strictest reader there is: what it takes for a link, a chat may take for one."""
SLACK = re.compile(r"<(?:https?:|mailto:|[!@#])", re.IGNORECASE)
"""https://docs.slack.dev/messaging/formatting-message-text/"""
ATTACKS = [
    "[x](http://evil.example)",
    "![x](http://evil.example/pixel)",
    "<http://evil.example|x>",
    "<http://evil.example>",
    "<mailto:x@evil.example|x>",
    "<!channel>",
    "<!subteam^S1|x>",
    "<@U123>",
    "<#C1>",
    "<users/all>",
    "<at>Lee</at>",
    "<a href='http://evil.example'>x</a>",
    "<script>alert(1)</script>",
    "[x][a] [a]: http://evil.example",
    "@here",
    "(@channel)",
    "x@everyone",
    "@lee",
    "@**all** look",
    "@*group*",
    "@_**Lee**",
]
OTHERS = [
    ("[Click here|https://evil.example]", "[Click here|\u2060https://evil.example]"),
    ("[a|b|https://evil.example|tip]", "[a|b|\u2060https://evil.example|tip]"),
    ("[here| mailto:x@evil.example]", "[here|\u2060 mailto:x@evil.example]"),
    ("[here|#top]", "[here|\u2060#top]"),
    ("[https://evil.example sign in]", "[\u2060https://evil.example sign in]"),
    ("[~admin]", "[\u2060~admin]"),
    ('"click here":https://evil.example', '"click here"\u2060:https://evil.example'),
    ('"click here":/path', '"click here"\u2060:/path'),
]
"""Of Jira, MediaWiki and Textile, which no library here reads."""


def harmless(text: str) -> bool:
    made = MARKDOWN.render(text)
    calls = re.search(r"(?<![A-Za-z0-9])@[\w*]|@(everyone|here|channel|all|team|room)\b(?!\.\w\w)", text, re.IGNORECASE)
    return not (re.search(r"<(a|img|script|at)\b", made) or SLACK.search(text) or calls)


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_is_one_before_and_none_after(attack: str):
    lines = attack.replace(" [a]:", "\n\n[a]:")
    assert not harmless(lines) or attack == "<users/all>"
    assert harmless(without_markup(lines))
    assert without_markup(lines).replace("\u2060", "") == lines


@given(st.text(alphabet=st.sampled_from("[]()<>!@#|:/ \nahttp.x'\""), max_size=60))
def test_no_text_becomes_a_link_or_a_mention(text: str):
    assert harmless(without_markup(text))


@pytest.mark.parametrize("attack", ATTACKS)
def test_no_name_tag_or_reason_puts_markup_into_a_message(attack: str):
    summary = admin_summary(report(hostile(attack)), occasion(), None, [attack])
    assert summary is not None
    for message in (only(mails.owner_notices([hostile(attack)], occasion())), summary):
        message_parts = message_json(message)
        for part in (message_parts["subject"], message_parts["text"]):
            assert "](" not in part
            assert not re.search(r"<\S", part.replace("<\u2060", ""))
            assert not re.search(r"(?<![A-Za-z0-9])@\w", part)


@pytest.mark.parametrize(
    "text",
    [
        "ann@team.example.com",
        "ann@all.com",
        "x+@example.com",
        "first.last_@example.com",
        "a-b='c@here.example.co.uk",
        "(ann@room.com).",
    ],
)
def test_a_mail_address_can_still_be_copied(text: str):
    assert without_markup(text) == text


@pytest.mark.parametrize(
    "text", ["x@everyone", "x@here,", "@all.com", "ann@team.example.com@here", "'@lee.smith", "a'@lee.smith", "-@lee.smith"]
)
def test_text_like_an_address_mentions_no_one(text: str):
    assert re.search(r"@\u2060(everyone|here|all|lee)", without_markup(text))


@pytest.mark.parametrize(("attack", "expected_text"), OTHERS)
def test_ticket_system_links_are_broken_up(attack: str, expected_text: str):
    assert without_markup(attack) == expected_text


@given(st.text(alphabet="a@.+-_'", max_size=200))
def test_without_markup_adds_only_word_joiners(text: str):
    assert without_markup(text).replace("\u2060", "") == text


@pytest.mark.parametrize(
    "text",
    [
        "lee@example.com",
        "a < b",
        "| a | b |",
        'a "b": c',
        "x: [1|2]",
        "https://keep.example.com/keep?t=a.b",
        "[ML Idle Reaper] 1 idle",
        "x (y)",
    ],
)
def test_the_reapers_own_words_are_unchanged(text: str):
    assert without_markup(text) == text


def test_the_reapers_own_message_is_posted_unchanged():
    message = only(mails.owner_notices([finding()], occasion()))
    assert message_json(message)["text"] == message.text
