"""Cards for chats, from the same items as the mails: what they say, and how Slack and Teams want it. Pure.

Slack: https://docs.slack.dev/reference/block-kit/blocks, https://docs.slack.dev/messaging/formatting-message-text#escaping. The link is text: a button also calls the app back, and shows a warning without an address
for that. Teams: https://adaptivecards.io/explorer/RichTextBlock.html, version 1.4, which all clients show. Text runs have no Markdown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from html import escape
from typing import Any

from reaper.finding import Actions, Finding, Report
from reaper.notices.blocks import plain
from reaper.notices.forecast import NoticeContext
from reaper.notices.item import Item, about, fact_lines, keep_tag, notice_item
from reaper.notices.message import WORD_JOINER, Audience, Card, CardItem, Message, without_markup
from reaper.prices import price_basis
from reaper.report import summary
from reaper.report.coverage_map import coverage_gaps
from reaper.text import tidy_line, with_local_times

MAX_ITEMS, MAX_LINES = 45, 12
"""Resources and problems on the admins' card, if they fit."""
MAX_NAME, MAX_BRIEF, MAX_LINE = 90, 190, 400
"""Bytes of a name, of the rest of a resource in brief, and of any other line, as they are written. 30 resources in brief always fit."""
MAX_BLOCKS, MAX_HEADER, MAX_CHARACTERS = 50, 150, 11_500
"""Of Slack, which refuses somewhere above 12,000 characters."""
MAX_BYTES = 25_000
"""Of Teams, which drops a card of more than about 28 KB although it has answered 202."""
FORMATTING = re.compile(r"(?<![A-Za-z0-9])[*_~`]|[*_~`](?![A-Za-z0-9])")
"""What makes words bold or the like in Slack: not an underscore within a name."""
KEEP_NOTE = "Anyone here can use the Keep it link. It keeps resources for a time, and can't stop or delete anything."
ROOM = "a chat"
"""The addressee of a room's link. It isn't an address, so by this link the page shortens no snooze and takes no "not mine"."""


def owner_card(first: str, items: Sequence[Item], findings: Sequence[Finding], zone: str, context: NoticeContext) -> Card:
    """The card of an owner's message. Its link is the room's own: the owner's is never in it, because that one speaks for the owner."""
    room = context.open_visit(ROOM, False, zone, findings) if context.has_room else None
    sample = ["This is a sample. Everything in it is made up, and nothing will be stopped."] if context.sample else []
    keep = [KEEP_NOTE] if room else []
    tag = [] if all(item.acted for item in items) else [f"To keep a resource, add the tag {keep_tag(context.now)}."]
    return Card(
        lines=(*sample, first),
        items=tuple(map(card_item, items)),
        notes=(*keep, *tag, f"{price_basis(findings, context.currency)} Run {context.run_id}."),
        keep=room.address if room else None,
        visit=room.visit if room else None,
    )


def admin_card(report: Report, actions: Actions, context: NoticeContext, lines: Sequence[str]) -> Card:
    """The card of the summary: these lines, what is missing, then what is on hold, the results of actions, and what is idle."""
    run = report.run
    due = actions.planned if run.mode.announces and not run.mode.acts else ()
    acted = {f.case.resource.id: f for f in (*actions.on_hold, *actions.lost, *actions.done, *due)}
    ordered = [*acted.values(), *(f for f in report.idle if f.case.resource.id not in acted)]
    why = {id_: summary.outcome_sentence(f, context.owners.tz) for id_, f in acted.items()}
    whole = [*filter(None, lines), *(f"Coverage gap ({gap.status}): {gap.places}" for gap in coverage_gaps(report))]
    return Card(
        lines=tuple(with_local_times(tidy_line(line, 300), context.owners.tz) for line in whole[:MAX_LINES]),
        items=tuple(
            card_item(notice_item(f, context, for_admins=True), why.get(f.case.resource.id, "")) for f in ordered[:MAX_ITEMS]
        ),
        more=max(0, len(ordered) - MAX_ITEMS),
        notes=(f"{price_basis(report.findings, context.currency)} Run {run.id}, {run.mode} mode.",),
    )


def card_item(item: Item, why: str = "") -> CardItem:
    """One resource. `why`: the result of an action, as a sentence; by default what comes next."""
    return CardItem(name=item.name, about=about(item), lines=tuple(map(plain, fact_lines(item, why))))


def payload(message: Message, service: str) -> dict[str, Any] | None:
    """The card for `slack` or `teams` with as many details as fit; None if nothing does.

    An owner's notice counts for all of its resources, so only the admins' may leave some out.
    """
    write, card, count = _blocks if service == "slack" else _adaptive_card, message.card, len(message.card.items)
    forms = [(card, detailed) for detailed in range(count, -1, -1)]
    if message.audience is Audience.ADMINS:
        forms += [(replace(card, items=card.items[:n], more=card.more + count - n), 0) for n in range(count - 1, -1, -1)]
    return next(filter(_fits, (write(message.subject, shorter, detailed) for shorter, detailed in forms)), None)


def _blocks(subject: str, card: Card, detailed: int) -> dict[str, Any]:
    keep = [f"<{escape(card.keep, quote=False).replace('|', '%7C')}|Keep it>"] if card.keep else []
    texts = [
        *map(_words, card.lines),
        *(
            "\n".join([f"*{_words(item.name, MAX_NAME)}*", *map(_words, (item.about, *item.lines))])
            for item in card.items[:detailed]
        ),
        *(f"*{_words(item.name, MAX_NAME)}*: {_words(_brief(item), MAX_BRIEF)}" for item in card.items[detailed:]),
        _more(card),
        "\n".join([*keep, *map(_words, card.notes)]),
    ]
    header = {"type": "plain_text", "text": _fitted(subject, MAX_HEADER, without_markup), "emoji": False}
    sections = [{"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": True}} for text in texts if text]
    blocks = [{"type": "header", "text": header}, *sections]
    return {"text": _words(subject), "unfurl_links": False, "unfurl_media": False, "blocks": blocks}


def _words(text: str, most: int = MAX_LINE) -> str:
    """Other people's words for Slack, so that they mention no one, and make no link and no format."""
    return _fitted(
        text, most, lambda part: escape(FORMATTING.sub(rf"{WORD_JOINER}\g<0>{WORD_JOINER}", without_markup(part)), quote=False)
    )


def _adaptive_card(subject: str, card: Card, detailed: int) -> dict[str, Any]:
    items = [
        [_rich_text(item.name, weight="Bolder"), *map(_rich_text, (item.about, *item.lines))] for item in card.items[:detailed]
    ]
    body = [
        _rich_text(subject, weight="Bolder", size="Medium"),
        *map(_rich_text, card.lines),
        *({"type": "Container", "separator": True, "items": lines} for lines in items),
        *(
            _rich_text(f"{_fitted(item.name, MAX_NAME, str)}: {_fitted(_brief(item), MAX_BRIEF, str)}")
            for item in card.items[detailed:]
        ),
        *(_rich_text(line, isSubtle=True) for line in (_more(card), *card.notes) if line),
    ]
    actions = {"actions": [{"type": "Action.OpenUrl", "title": "Keep it", "url": card.keep}]} if card.keep else {}
    content = {"type": "AdaptiveCard", "version": "1.4", "body": body, **actions}
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": content}
    return {"type": "message", "attachments": [attachment]}


def _rich_text(text: str, **style: str | bool) -> dict[str, Any]:
    return {"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": _fitted(text, MAX_LINE, without_markup), **style}]}


def _fits(written: dict[str, Any]) -> bool:
    if blocks := written.get("blocks"):
        return len(blocks) <= MAX_BLOCKS and sum(len(block["text"]["text"]) for block in blocks) <= MAX_CHARACTERS
    return len(json.dumps(written, ensure_ascii=False).encode("utf-8", "replace")) <= MAX_BYTES


def _brief(item: CardItem) -> str:
    return " ".join(reversed(item.lines[1:]))


def _more(card: Card) -> str:
    return f"and {card.more:,} more; the report lists all" if card.more else ""


def _fitted(text: str, most: int, write: Callable[[str], str]) -> str:
    """`text` as `write` writes it, cut before that so that the result has at most `most` bytes."""
    while (length := len((written := write(text)).encode("utf-8", "replace"))) > most:
        text = tidy_line(text, min(len(text) - 1, len(text) * most // length + 1))
    return written
