"""Cards in a real browser, drawn from their payloads alone: every word shows as it is, nothing loads, and the only link is the room's."""

from __future__ import annotations

import os
import re
from html import escape, unescape
from pathlib import Path
from typing import Any

import pytest

from e2e.test_mail_look import CHROMIUM, admin_mail, browser, owner_mail, sync
from fakes.builders import NOW
from fakes.mails import compose_summary
from fakes.sample_reports import hostile
from reaper.cli import sample
from reaper.notices.message import WORD_JOINER, Message
from reaper.notices.render import card_payload

assert sync
__all__ = ["browser"]
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine: the cards were NOT looked at in a browser")
SHOWN = os.environ.get("CARDS")
"""A folder for pictures of them."""
STYLE = "body{font:15px sans-serif;margin:12px} section{border-top:1px solid #ddd;padding:8px 0;overflow-wrap:anywhere} a{display:block}"
HOSTILE = "<!channel> @here *bold* [x](javascript:alert(1)) <http://evil.example|Keep it> \u202egpj.exe <img src=//evil.example>"


def mrkdwn(text: str) -> str:
    """HTML as Slack would make it: links, bold and escaped words."""
    html = re.sub(r"<([^|<>]+)\|([^<>]+)>", lambda m: f"\0{m[1]}\1{m[2]}\2", text)
    html = escape(unescape(html), quote=False)
    html = re.sub(rf"(?<![\w{WORD_JOINER}])\*(.+?)\*(?![\w{WORD_JOINER}])", r"<b>\1</b>", html)
    return re.sub("\0(.*?)\1(.*?)\2", r'<a href="\1">\2</a>', html).replace("\n", "<br>")


def element(part: dict[str, Any]) -> str:
    """HTML of a part of an Adaptive Card."""
    if part["type"] == "Container":
        return f"<section>{''.join(map(element, part['items']))}</section>"
    bold = {"Bolder": "font-weight:bold"}
    runs = [f'<span style="{bold.get(run.get("weight"), "")}">{escape(run["text"])}</span>' for run in part["inlines"]]
    return f"<div>{''.join(runs)}</div>"


def drawn(message: Message, service: str) -> str:
    payload = card_payload(message, service)
    assert payload is not None
    if service == "slack":
        first, *sections = payload["blocks"]
        body = f"<h3>{escape(first['text']['text'])}</h3>" + "".join(
            f"<section>{mrkdwn(s['text']['text'])}</section>" for s in sections
        )
    else:
        content = payload["attachments"][0]["content"]
        links = [f'<a href="{escape(a["url"])}">{escape(a["title"])}</a>' for a in content.get("actions", ())]
        body = "".join([*map(element, content["body"]), *links])
    return f"<!doctype html><meta charset=utf-8><style>{STYLE}</style><body>{body}"


def hostile_summary() -> Message:
    return compose_summary(hostile(HOSTILE), sample.sample_context("dana@example.com", NOW), failures=[HOSTILE])


@pytest.mark.parametrize("service", ["slack", "teams"])
@pytest.mark.parametrize("message", [owner_mail, admin_mail, hostile_summary], ids=["owner", "summary", "hostile"])
def test_cards_show_words_as_they_are_and_load_nothing(message: Any, service: str, browser: Any):
    page = browser.new_page(viewport={"width": 420, "height": 700})
    urls: list[str] = []
    page.on("request", lambda r: urls.append(r.url))
    page.set_content(drawn(message(), service))
    assert urls == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 420
    links = page.evaluate("[...document.links].map(a => [a.innerText, a.href.split('?')[0]])")
    assert links == ([["Keep it", "https://sample.invalid/keep"]] if message is owner_mail else [])
    text = page.evaluate("document.body.innerText").replace(WORD_JOINER, "")
    wanted = (
        [HOSTILE.replace("\u202e", "")]
        if message is hostile_summary
        else ["churn-scoring", "wasted since Thu 12 Nov", "Tue 24 Nov 2026, 10:17 UTC"]
    )
    assert [words for words in wanted if words not in text] == []
    if SHOWN:
        page.screenshot(path=Path(SHOWN) / f"{service}-{message.__name__}.png", full_page=True)
    page.close()
