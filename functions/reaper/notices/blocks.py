"""What a message says, once: a list of blocks with a rank each. Text and HTML are renderers of it; a chat's card has the same lines. Pure.

A mail that is too long for its clients loses the last blocks of the lowest rank, and says how many. Links, commands and dates are in blocks that stay.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
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

    @property
    def shown(self) -> str:
        """As plain text. A command within a sentence stands between backticks."""
        is_quoted = self.look is Look.CODE and not self.label.endswith(":")
        return f"{self.label} {f'`{self.text}`' if is_quoted else self.text}{self.besides}{'.' * (self.look is Look.CONTACT)}".lstrip()

    @property
    def after(self) -> str:
        """What is besides, on a line of its own."""
        return self.besides.lstrip(" ,.;")


@dataclass(frozen=True, slots=True, kw_only=True)
class Paragraph:
    """Lines without a blank one between them. `is_foot`: the signature."""

    form: ClassVar = "paragraph"
    lines: Sequence[Line]
    rank: int = STAYS
    is_foot: bool = False

    @property
    def shown(self) -> str:
        """As plain text."""
        return "\n".join(["--"] * self.is_foot + [f"{'- ' * (line.look is Look.BULLET)}{line.shown}" for line in self.lines])


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

    @property
    def shown(self) -> str:
        """As plain text."""
        bars = [f"{self.bars}  {self.bars_about}"] if self.bars else []
        return "\n   ".join([f"{self.number}. {self.name}", self.about, *bars, *(line.shown for line in self.lines)])


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

    @property
    def shown(self) -> str:
        """As plain text."""
        about = f" ({self.about})" if self.about else ""
        first = f"{self.before}{self.name}{about}{self.join}{self.figure}{self.rest}"
        return self.between.join([first, *(line.shown for line in self.lines)])

    @property
    def after(self) -> str:
        """The rest, on a line of its own."""
        return self.rest.lstrip(" ,.;")


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
    is_loud: bool = True
    rank: int = STAYS

    @property
    def heading(self) -> str:
        """The title with what follows it, and how many there are."""
        return f"{self.title}{self.after}{'' if self.count is None else f' ({self.count})'}"

    @property
    def shown(self) -> str:
        """As plain text."""
        title = self.title.upper() if self.is_loud else self.title
        note = f": {self.note.format(*(f'`{code}`' for code in self.codes))}" if self.note else ""
        lines = [f"{title}{self.heading[len(self.title) :]}{note}" if self.is_loud else f"{title}:\n"]
        for row in self.rows:
            blank = "\n" if row.look == Look.HEAD and len(lines) > 1 else ""
            bullet = row.bullet if isinstance(row, Row) else {Look.HEAD: "", Look.MORE: "  "}.get(row.look, "- ")
            lines.append(f"{blank}{bullet}{row.shown}")
        return "\n".join(lines)


Block = Paragraph | Entry | Section


def render_mail(subject: str, blocks: Sequence[Block], width: int = 600) -> tuple[str, str]:
    """Plain text and HTML. HTML is escaped; plain text needs no escaping."""
    page = _template()

    def html(kept: Sequence[Block]) -> str:
        lines = [line for block in kept if isinstance(block, Paragraph) for line in block.lines]
        preview = next((line.shown for line in lines if line.look is Look.NOTE), "")
        return re.sub(r"\n\s*\n+", "\n", page.render(subject=subject, blocks=kept, width=width, preview=preview)).strip() + "\n"

    return fitted(blocks, _plain_text, MAX_TEXT), fitted(blocks, html, MAX_HTML)


def fitted(blocks: Sequence[Block], write: Callable[[Sequence[Block]], str], most: int) -> str:
    """The blocks as `write` writes them, in at most `most` bytes if those that may go are enough for that. The last block is the signature."""
    kept, dropped = list(blocks), list[Block]()
    while len((written := write(kept)).encode("utf-8", "replace")) > most and (rank := max(block.rank for block in kept)):
        at = max(n for n, block in enumerate(kept) if block.rank == rank)
        dropped.append(kept.pop(at))
        left_out = f"Too long for one mail: {count_noun(len(dropped), 'section')} left out. The report has them."
        kept = [block for block in kept[:-1] if block.rank >= 0] + [Paragraph(lines=[Line(text=left_out)], rank=-1), kept[-1]]
    return written


def _plain_text(blocks: Sequence[Block]) -> str:
    return "\n\n".join(block.shown for block in blocks if block.shown).strip() + "\n"


@cache
def _template() -> Template:
    return open_templates("reaper.notices", {}, "templates").get_template("mail.html.j2")
