"""What a message says, once: a list of blocks with a rank each. Text and HTML are renderers of it; a chat's card has the same lines. Pure.

A mail that is too long for its clients loses the last blocks of the lowest rank, and says how many. Links, commands and dates are in blocks that stay.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, partial
from typing import TYPE_CHECKING, ClassVar

from reaper.text import count_noun, open_templates

if TYPE_CHECKING:
    from jinja2 import Template

MAX_HTML, MAX_TEXT = 101_000, 250_000
"""Bytes. Gmail clips above 102 kB: https://developers.google.com/workspace/gmail/markup. SNS takes 256 KiB with all attributes."""
STAYS, RESULTS, OVERVIEW, LISTS = range(4)
"""The ranks. What stays has links, commands or dates; of the others, the highest number goes first."""


class Look(StrEnum):
    """What a line is: its look in HTML. `MORE` and `HEAD` have no bullet in a section: how many are left out, and what follows belongs to."""

    PLAIN, DIM, BAD, NOTE, TITLE, MONEY = "ink", "dim", "bad", "note", "title", "money"
    BULLET, MORE, HEAD = "bullet", "more", "head"
    CODE, BUTTON, LINK, CONTACT = "code", "button", "link", "contact"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line: `Cost: $97.44 a day, $893 wasted`. `besides` begins with what separates it. `href`: where a link leads; its words are the label."""

    text: str
    label: str = ""
    besides: str = ""
    look: Look = Look.PLAIN
    href: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One resource or group in a section: `- churn (SageMaker endpoint, us-east-1): $97 a day, idle for 9 days`.

    `rest` begins with what separates it from the figure. `percent`: the length of a bar. `between`: what separates the lines in plain text.
    """

    name: str
    about: str = ""
    before: str = ""
    figure: str = ""
    rest: str = ""
    join: str = ": "
    lines: Sequence[Line] = ()
    percent: int = 0
    between: str = " "
    bullet: str = "- "
    look: ClassVar = "row"


@dataclass(frozen=True, slots=True, kw_only=True)
class Paragraph:
    """Lines without a blank one between them. `form`: `paragraph`, or `foot` for the signature."""

    lines: Sequence[Line]
    rank: int = STAYS
    form: str = "paragraph"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One resource in full. `about`: its kind, size and place. `bars`: its use, and what they show."""

    form: ClassVar = "entry"
    number: int
    name: str
    about: str
    lines: Sequence[Line]
    bars: str = ""
    bars_about: str = ""
    rank: int = STAYS


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading and what is below it: `ON HOLD (3): review, then allow with …`. `note` has `{}` for each of the `codes`."""

    form: ClassVar = "section"
    title: str
    rows: Sequence[Row | Line]
    count: int | None = None
    after: str = ""
    note: str = ""
    codes: Sequence[str] = ()
    is_bad: bool = False
    rank: int = STAYS


Block = Paragraph | Entry | Section


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
    return open_templates("reaper.notices", filters, "templates").get_template("mail.html.j2")
