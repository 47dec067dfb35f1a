"""Times, dollars, counts and other people's words as a reader sees them. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from reaper.duration import format_duration

if TYPE_CHECKING:
    from jinja2 import Environment

UTC = "UTC"
SMALLEST_SHOWN_USD = 0.005
"""Dollars; anything less would be rounded to $0.00."""
JOINERS = "\u200c\u200d"
"""Not printable on their own, but Persian words and many emoji are spelled with them."""
MAX_VALUE_LENGTH = 80
"""Characters of one value that an error repeats."""
MAX_NAMED = 3
"""How many of several values an error names."""
MAX_LINE_LENGTH = 1000
"""Characters of one line of an error."""


def format_time(when: datetime, tz: str = UTC) -> str:
    """`Sat 28 Nov 2026, 10:00 UTC`, or in another IANA zone `Sat 28 Nov 2026, 11:00 Europe/Berlin`."""
    return f"{format_day(when, tz)} {when.astimezone(ZoneInfo(tz)):%Y, %H:%M} {tz}"


def format_day(when: datetime, tz: str = UTC) -> str:
    """`Sat 28 Nov`, for a line that has no room for more."""
    local = when.astimezone(ZoneInfo(tz))
    return f"{local:%a} {local.day} {local:%b}"


def format_clock(when: datetime, tz: str = UTC) -> str:
    """`10:00 UTC`: never without the zone's name."""
    return f"{when.astimezone(ZoneInfo(tz)):%H:%M} {tz}"


def with_local_times(text: str, tz: str) -> str:
    """`text` with every time such as `2026-11-28 10:00 UTC` as `format_time` shows it in that zone."""

    def local(match: re.Match[str]) -> str:
        try:
            return format_time(datetime.fromisoformat(f"{match[1]}+00:00"), tz)
        except (ValueError, OverflowError):  # other people's words
            return match[0]

    return re.sub(r"\b(\d{4}-\d\d-\d\d \d\d:\d\d) UTC\b", local, text, flags=re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Currency:
    """What people read money in: `rate` of it are one US dollar, by `source` on the day `as_of`, both empty for the dollar itself."""

    code: str = "USD"
    rate: float = 1.0
    as_of: str = ""
    source: str = ""

    @property
    def sign(self) -> str:
        """`$`, or the code of any other currency: `EUR`."""
        return "$" if self.code == "USD" else self.code


DOLLARS = Currency()
LIST_PRICES = "Costs are list prices before discounts."


def format_usd(usd: float, decimals: int | None = None, currency: Currency = DOLLARS) -> str:
    """US dollars as `$8.45`, `$1,204`, `less than $0.01`, or in another currency `EUR 7.77`: a cost is never shown as zero.

    `decimals`: always so many, as for a price.
    """
    amount, sign = usd * currency.rate, currency.sign if currency.sign == "$" else f"{currency.sign} "
    if 0 < amount < SMALLEST_SHOWN_USD and decimals is None:
        return f"less than {sign}0.01"
    return f"{sign}{amount:,.{(2 if abs(amount) < 100 else 0) if decimals is None else decimals}f}"


def usd_cell(usd: float | None, currency: Currency = DOLLARS) -> str:
    """`11.28`, for a column whose heading has the unit; `?` if unknown."""
    return "?" if usd is None else f"{usd * currency.rate:,.2f}"


def count_noun(count: int, noun: str) -> str:
    """`1 action`, `2 actions`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def printable(text: str, keep: str = "") -> str:
    """`text` with a blank for every control and direction mark, line ends among them, except those in `keep`."""
    return "".join(c if c.isprintable() or c in keep else " " for c in text)


def clean_line(text: str, most: int = 120) -> str:
    """`text` as one harmless line of at most `most` characters, otherwise unchanged, so that a name can be found by it."""
    return shorten(printable(text[: most + 1]), most, "…")


def tidy_line(text: str, most: int, *, joiners: bool = True) -> str:
    """`text` as one harmless line for mails and pages: composed (NFC), with single blanks, at most `most` characters.

    `joiners`: keep zero-width joiners; subjects and other headers may not.
    """
    words = printable(unicodedata.normalize("NFC", text), JOINERS if joiners else "").split()
    line = " ".join(words)
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"


def shorten(text: str, most: int = MAX_VALUE_LENGTH, mark: str = "...") -> str:
    """`text` in at most `most` characters; `mark` shows the cut."""
    return text if len(text) <= most else text[: most - len(mark)] + mark


def short_repr(value: object) -> str:
    """A string, number or the like as written in code, in at most MAX_VALUE_LENGTH characters; `a list` for a list."""
    if isinstance(value, list | tuple | dict | set):
        return f"a {type(value).__name__}"
    text = repr(value[:MAX_VALUE_LENGTH] if isinstance(value, str | bytes) else value)
    cut = len(text) > MAX_VALUE_LENGTH or (isinstance(value, str | bytes) and len(value) > MAX_VALUE_LENGTH)
    return text[: MAX_VALUE_LENGTH - 3] + "..." if cut else text


def validation_text(message: str) -> str:
    """The message of one of pydantic's errors without the words that it puts before ours."""
    return message.removeprefix("Value error, ")


def first_few(values: Sequence[str]) -> str:
    """The first of them, shortened, and how many more there are: `a, b, c and 8,997 more`."""
    more = len(values) - MAX_NAMED
    return ", ".join(map(shorten, values[:MAX_NAMED])) + (f" and {more:,} more" if more > 0 else "")


def did_you_mean(word: str, valid: Collection[str], cutoff: float = 0.6) -> str:
    """`; did you mean us-east-1?`: the most similar name, with swapped letters preferred to another letter; empty if none is similar.

    `cutoff`: how similar it must be, up to 1.
    """
    by_text = {name.lower(): name for name in valid}
    word = shorten(word.lower())
    near = get_close_matches(word, by_text, n=5, cutoff=cutoff)
    best = min(near, key=lambda name: (Counter(word) - Counter(name)).total(), default=None)
    return f"; did you mean {by_text[best]}?" if best else ""


def open_templates(package: str, filters: Mapping[str, Callable[..., Any]]) -> Environment:
    """The templates of a package, with these filters besides the common ones. Everything in them is escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # would slow every command

    pages = Environment(
        autoescape=True,
        loader=PackageLoader(package, ""),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pages.filters |= {"moment": format_time, "day": format_day, "length": format_duration, "tidy": tidy_line, **filters}
    return pages
