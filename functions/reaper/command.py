"""A line for a shell that an owner can paste. Pure."""

from __future__ import annotations

from dataclasses import dataclass

MAX_PASTED_LENGTH = 1000
"""Characters. A real ARN or ARM ID is far shorter, and a longer one is not pasted anywhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A line for a shell, and the label that says what it does: `Stop it now`."""

    label: str
    line: str


def is_pasteable(*texts: str) -> bool:
    """Whether these texts can stand in a line that people paste: printable and of a sane length."""
    return all(text.isprintable() and len(text) <= MAX_PASTED_LENGTH for text in texts)
