"""Other people's words in a chat: no link under other words, no image, no HTML, nobody called."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from core.letters import finding, occasion, only, report
from core.test_hostile_messages import hostile
from reaper import digest
from reaper.channels.webhook import body
from reaper.message import defused
from reaper.overview import overview

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
]


def harmless(text: str) -> bool:
    made = MARKDOWN.render(text)
    calls = re.search(r"(?<![A-Za-z0-9])@\w|@(everyone|here|channel|all|team|room)\b", text, re.IGNORECASE)
    return not (re.search(r"<(a|img|script|at)\b", made) or SLACK.search(text) or calls)


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_is_one_before_and_none_after(attack: str):
    lines = attack.replace(" [a]:", "\n\n[a]:")
    assert not harmless(lines) or attack == "<users/all>"
    assert harmless(defused(lines))
    assert defused(lines).replace("\u2060", "") == lines


@given(st.text(alphabet=st.sampled_from("[]()<>!@#|:/ \nahttp.x'\""), max_size=60))
def test_no_text_makes_a_link_or_calls_somebody(text: str):
    assert harmless(defused(text))


@pytest.mark.parametrize("attack", ATTACKS)
def test_no_name_tag_or_reason_gets_markup_into_a_message(attack: str):
    summary = overview(report(hostile(attack)), occasion(), None, [attack])
    assert summary is not None
    for message in (only(digest.owners([hostile(attack)], occasion())), summary):
        said = body(message)
        for part in (said["subject"], said["text"]):
            assert "](" not in part
            assert not re.search(r"<\S", part.replace("<\u2060", ""))
            assert not re.search(r"(?<![A-Za-z0-9])@\w", part)


@pytest.mark.parametrize(
    "text", ["lee@example.com", "a < b", "https://keep.example.com/keep?t=a.b", "[ML Idle Reaper] 1 idle", "x (y)"]
)
def test_our_own_words_stay_as_they_are(text: str):
    assert defused(text) == text


def test_a_message_of_ours_is_posted_as_it_is():
    message = only(digest.owners([finding()], occasion()))
    assert body(message)["text"] == message.text
