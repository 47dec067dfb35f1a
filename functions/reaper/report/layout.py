"""How wide the columns of a terminal's table are: some never give way, the others do so one after the other. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

COLUMN_GAP = 2
"""Blanks between two columns."""


def column_widths(natural: Mapping[str, int], stages: Sequence[tuple[str, int]], width: int) -> dict[str, int]:
    """How many characters each column gets, by name and in the same order, so that all fit in `width`.

    `stages` say which column gives way, first to last, and down to how much: 0 leaves it out. A column that no stage names is never
    narrowed: where nothing is left to give way, the table is wider than `width`. What is left over goes to whatever gave way last.
    """
    given = dict(natural)
    for name, least in stages:
        if name in given and (excess := table_width(given) - width) > 0:
            given[name] = max(least, given[name] - excess) if least < given[name] else given[name]
            given = given if least else {other: room for other, room in given.items() if other != name}
    for name in dict.fromkeys(name for name, _ in reversed(stages)):
        if name in given:
            given[name] = min(natural[name], given[name] + max(0, width - table_width(given)))
    return given


def table_width(given: Mapping[str, int]) -> int:
    """The width of a table with these columns."""
    return sum(given.values()) + COLUMN_GAP * (len(given) - 1)
