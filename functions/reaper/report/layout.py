"""The column widths of a table for a terminal: some columns never shrink, the others do so one after another. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

COLUMN_GAP = 2
"""Blanks between columns."""


def column_widths(natural: Mapping[str, int], stages: Sequence[tuple[str, int]], width: int) -> dict[str, int]:
    """The characters of each column, by name and in the same order, so that all fit in `width`.

    `stages`: which column shrinks, first to last, and to what width; 0 removes it. A column without a stage never shrinks, so the table may
    be wider than `width`. Spare room goes to the column that shrank last.
    """
    widths = dict(natural)
    for name, least in stages:
        if name in widths and (excess := table_width(widths) - width) > 0:
            widths[name] = max(least, widths[name] - excess) if least < widths[name] else widths[name]
            widths = widths if least else {other: room for other, room in widths.items() if other != name}
    for name in dict.fromkeys(name for name, _ in reversed(stages)):
        if name in widths:
            widths[name] = min(natural[name], widths[name] + max(0, width - table_width(widths)))
    return widths


def table_width(widths: Mapping[str, int]) -> int:
    """The width of a table with these columns."""
    return sum(widths.values()) + COLUMN_GAP * (len(widths) - 1)
