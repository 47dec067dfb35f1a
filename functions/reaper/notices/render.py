"""The three renderers of a message's blocks: plain text, HTML, and cards for Slack and Teams. Pure.

What is too long loses the last blocks of the lowest rank, and says how many. Links, commands and dates are in blocks that stay.

Slack: https://docs.slack.dev/reference/block-kit/blocks, https://docs.slack.dev/messaging/formatting-message-text#escaping. The link is text: a button also calls the app back, and shows a warning without an address
for that. Teams: https://adaptivecards.io/explorer/RichTextBlock.html, version 1.4, which all clients show. Text runs have no Markdown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from html import escape
from typing import TYPE_CHECKING, Any

from reaper.notices.blocks import STAYS, Block, Card, Entry, Line, Look, Paragraph, Row, Section
from reaper.notices.message import WORD_JOINER, Message, without_markup
from reaper.text import count_noun, open_templates, tidy_line

if TYPE_CHECKING:
    from jinja2 import Template

MAX_HTML, MAX_TEXT = 101_000, 250_000
"""Bytes. Gmail clips above 102 kB: https://developers.google.com/workspace/gmail/markup. SNS takes 256 KiB with all attributes."""
MAX_NAME, MAX_BRIEF, MAX_LINE = 90, 190, 400
"""Bytes of a name, of the rest of a resource in brief, and of any other line, as they are written. 30 resources in brief always fit."""
MAX_BLOCKS, MAX_HEADER, MAX_CHARACTERS = 50, 150, 11_500
"""Of Slack, which refuses somewhere above 12,000 characters."""
MAX_BYTES = 25_000
"""Of Teams, which drops a card of more than about 28 KB although it has answered 202."""
FORMATTING = re.compile(r"(?<![A-Za-z0-9])[*_~`]|[*_~`](?![A-Za-z0-9])")
"""What makes words bold or the like in Slack: not an underscore within a name."""


def plain(block: Block | Line | Row) -> str:
    """As plain text. A command within a sentence stands between backticks."""
    match block:
        case Line():
            text = block.text if block.look is not Look.CODE or block.label.endswith(":") else f"`{block.text}`"
            return f"{block.label} {text}{block.besides}".lstrip()
        case Row():
            about = f" ({block.about})" if block.about else ""
            first = f"{block.before}{block.name}{about}{block.join}{block.figure}{block.rest}"
            return block.between.join([first, *map(plain, block.lines)])
        case Paragraph():
            lines = [f"{'- ' * (line.look is Look.BULLET)}{plain(line)}" for line in block.lines]
            return "\n".join(["--", *lines] if block.form == "foot" else lines)
        case Entry():
            bars = [f"{block.bars}  {block.bars_about}"] if block.bars else []
            return "\n   ".join([f"{block.number}. {block.name}", block.about, *bars, *map(plain, block.lines)])
    count = "" if block.count is None else f" ({block.count})"
    note = f": {block.note.format(*(f'`{code}`' for code in block.codes))}" if block.note else ""
    text = f"{block.title.upper()}{block.after}{count}{note}"
    for n, row in enumerate(block.rows):
        bullet = row.bullet if isinstance(row, Row) else {Look.HEAD: "\n" if n else "", Look.MORE: "  "}.get(row.look, "- ")
        text += f"\n{bullet}{plain(row)}"
    return text


def render_mail(subject: str, blocks: Sequence[Block], width: int = 600) -> tuple[str, str]:
    """Plain text and HTML. HTML is escaped; plain text needs no escaping."""
    shown = [block for block in blocks if not isinstance(block, Section) or block.rows]
    page = partial(_template().render, subject=subject, width=width)
    return fitted(shown, _text, MAX_TEXT), fitted(shown, partial(_html, page), MAX_HTML)


def fitted(blocks: Sequence[Block], write: Callable[[Sequence[Block]], str], most: int) -> str:
    """The blocks as `write` writes them, in at most `most` bytes if those that may go are enough for that. The last block is the signature."""
    kept, left_out = list(blocks), list[Block]()
    for count in range(1, len(blocks) + 1):
        written = write([*kept[:-1], *left_out, kept[-1]])
        rank = max(block.rank for block in kept)
        if len(written.encode("utf-8", "replace")) <= most or rank == STAYS:
            break
        del kept[max(n for n, block in enumerate(kept) if block.rank == rank)]
        text = f"Too long for one mail: {count_noun(count, 'section')} left out. The report has them."
        left_out = [Paragraph(lines=[Line(text=text)])]
    return written


def _text(blocks: Sequence[Block]) -> str:
    return "\n\n".join(map(plain, blocks)).strip() + "\n"


def _html(page: Callable[..., str], blocks: Sequence[Block]) -> str:
    notes = [line.text for block in blocks for line in getattr(block, "lines", ()) if line.look is Look.NOTE]
    return re.sub(r"\n\s*\n+", "\n", page(blocks=blocks, preview=notes[0] if notes else "")).strip() + "\n"


@cache
def _template() -> Template:
    filters = {"unled": partial(re.sub, "^[ ,.;]+", "")}
    return open_templates("reaper.notices", filters).get_template("mail.html.j2")


def card_payload(message: Message, service: str) -> dict[str, Any] | None:
    """The card for `slack` or `teams` with as many details as fit; None if nothing does. Entries that stay are shortened, but never left out."""
    write, card, count = _slack_card if service == "slack" else _teams_card, message.card, len(message.card.entries)
    forms = [(card, detailed) for detailed in range(count, -1, -1)]
    may_go = count if all(entry.rank > STAYS for entry in card.entries) else 0
    forms += [(replace(card, entries=card.entries[:-n], more=card.more + n), 0) for n in range(1, may_go + 1)]
    return next(filter(_fits, (write(message.subject, shorter, detailed) for shorter, detailed in forms)), None)


def _slack_card(subject: str, card: Card, detailed: int) -> dict[str, Any]:
    keep = [f"<{escape(card.keep, quote=False).replace('|', '%7C')}|Keep it>"] if card.keep else []
    texts = [
        *map(_words, card.lines),
        *("\n".join([f"*{_words(item.name, MAX_NAME)}*", *map(_words, _texts(item))]) for item in card.entries[:detailed]),
        *(f"*{_words(item.name, MAX_NAME)}*: {_words(_brief(item), MAX_BRIEF)}" for item in card.entries[detailed:]),
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


def _teams_card(subject: str, card: Card, detailed: int) -> dict[str, Any]:
    items = [[_rich_text(item.name, weight="Bolder"), *map(_rich_text, _texts(item))] for item in card.entries[:detailed]]
    body = [
        _rich_text(subject, weight="Bolder", size="Medium"),
        *map(_rich_text, card.lines),
        *({"type": "Container", "separator": True, "items": lines} for lines in items),
        *(
            _rich_text(f"{_fitted(item.name, MAX_NAME, str)}: {_fitted(_brief(item), MAX_BRIEF, str)}")
            for item in card.entries[detailed:]
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


def _brief(item: Entry) -> str:
    """What comes next, then its cost."""
    return " ".join(map(plain, reversed(item.lines[1:])))


def _texts(item: Entry) -> list[str]:
    return [item.about, *map(plain, item.lines)]


def _more(card: Card) -> str:
    return f"and {card.more:,} more; the report lists all" if card.more else ""


def _fitted(text: str, most: int, write: Callable[[str], str]) -> str:
    """`text` as `write` writes it, cut before that so that the result has at most `most` bytes."""
    while (length := len((written := write(text)).encode("utf-8", "replace"))) > most:
        text = tidy_line(text, min(len(text) - 1, len(text) * most // length + 1))
    return written
