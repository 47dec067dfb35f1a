"""What a message says, once: a list of blocks with a rank each, of which `render` makes text, HTML and cards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from reaper.ledger.rows import Visit

STAYS, OVERVIEW, LISTS = range(3)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What a chat shows below the subject: `lines`, the entries, how many `more` there are, and `notes`.

    `keep`: the page where the room can keep them. It opens `visit`, to be stored first.
    """

    lines: Sequence[str] = ()
    entries: Sequence[Entry] = ()
    more: int = 0
    notes: Sequence[str] = ()
    keep: str | None = None
    visit: Visit | None = None
