"""What an error repeats of the text it is about: enough to find the place, whatever the length of that text. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from difflib import get_close_matches

MOST = 80
"""The longest repetition of one value, in characters."""
FEW = 3
"""So many of several are named."""
LINE = 1000
"""The longest line of an error."""


def shown(value: object) -> str:
    """A text, number or the like as it is written in code, in at most MOST characters. What holds others is only called what it is."""
    if isinstance(value, list | tuple | dict | set):
        return f"a {type(value).__name__}"
    text = repr(value[:MOST] if isinstance(value, str | bytes) else value)
    cut = len(text) > MOST or (isinstance(value, str | bytes) and len(value) > MOST)
    return text[: MOST - 3] + "..." if cut else text


def brief(text: str, most: int = MOST) -> str:
    """`text` in at most that many characters."""
    return text if len(text) <= most else text[: most - 3] + "..."


def several(values: Sequence[str]) -> str:
    """The first of them, shortened, and how many more there are: `a, b, c and 8,997 more`."""
    more = len(values) - FEW
    return ", ".join(map(brief, values[:FEW])) + (f" and {more:,} more" if more > 0 else "")


def many(count: int, noun: str) -> str:
    """`1 list`, `2 lists`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def nearest(word: str, valid: Collection[str], cutoff: float = 0.6) -> str:
    """`, did you mean us-east-1?`: the name most like `word`, two swapped letters before another letter; empty where none is alike."""
    by_text = {name.lower(): name for name in valid}
    word = brief(word.lower())
    near = get_close_matches(word, by_text, n=5, cutoff=cutoff)
    best = min(near, key=lambda name: (Counter(word) - Counter(name)).total(), default=None)
    return f", did you mean {by_text[best]}?" if best else ""
