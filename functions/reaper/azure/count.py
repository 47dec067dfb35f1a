"""Numbers of machines, which must never be guessed: a price and an act hang on them."""

from __future__ import annotations

MAX_COUNT = 100_000


def valid_count(value: object) -> int | None:
    """A number of machines; None for what is none: a truth value, a fraction, a text, anything negative or absurd."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MAX_COUNT else None
