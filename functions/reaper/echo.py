"""What an error repeats of a value: enough to find it, however long it is. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from difflib import get_close_matches

MAX_VALUE_LENGTH = 80
"""The longest repetition of one value, in characters."""
MAX_NAMED = 3
"""How many of several values are named."""
MAX_LINE_LENGTH = 1000
"""The longest line of an error, in characters."""


def short_repr(value: object) -> str:
    """A scalar as code spells it, in at most MAX_VALUE_LENGTH characters; for a container only its type."""
    if isinstance(value, list | tuple | dict | set):
        return f"a {type(value).__name__}"
    text = repr(value[:MAX_VALUE_LENGTH] if isinstance(value, str | bytes) else value)
    is_cut = len(text) > MAX_VALUE_LENGTH or (isinstance(value, str | bytes) and len(value) > MAX_VALUE_LENGTH)
    return text[: MAX_VALUE_LENGTH - 3] + "..." if is_cut else text


def shorten(text: str, max_length: int = MAX_VALUE_LENGTH) -> str:
    """`text` in at most `max_length` characters."""
    return text if len(text) <= max_length else text[: max_length - 3] + "..."


def first_few(values: Sequence[str]) -> str:
    """The first values, shortened, and how many more there are: `a, b, c and 8,997 more`."""
    more = len(values) - MAX_NAMED
    return ", ".join(map(shorten, values[:MAX_NAMED])) + (f" and {more:,} more" if more > 0 else "")


def count_noun(count: int, noun: str) -> str:
    """`1 list`, `2 lists`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def did_you_mean(word: str, valid: Collection[str], cutoff: float = 0.6) -> str:
    """`; did you mean us-east-1?`: the name nearest to `word`, swapped letters first; empty if none is near."""
    names_by_text = {name.lower(): name for name in valid}
    word = shorten(word.lower())
    near = get_close_matches(word, names_by_text, n=5, cutoff=cutoff)
    best = min(near, key=lambda name: (Counter(word) - Counter(name)).total(), default=None)
    return f"; did you mean {names_by_text[best]}?" if best else ""
