"""Tables and sentences for a terminal: one line a row, and nothing breaks inside a word.

Figures are never cut. Names are cut in the middle, so that no two that differ look the same. What is too long for its line, such as an ID,
stays whole and runs over the edge: it is for copying.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

COLUMN_GAP = 2
"""Blanks between columns."""
MAX_CELL_WIDTH = 60
MIN_REASON_WIDTH = 40
"""A reason that has less room than this beside its row goes below it."""
INDENT = 4
"""Blanks before a reason below its row."""
RIGHT_ALIGNED = frozenset({"wasted", "idle for"})
"""Besides these, what ends in `/hour`."""
NAME_COLUMNS = frozenset({"resource", "owner", "where"})
"""Columns of names, which stay distinct."""
KEPT_BELOW = ("kind", "where", "owner")
"""Columns that go below their row, together, if one of them has no room in it."""
REASON = "why"
"""The last column of a table that has reasons. Only reasons wrap."""
CUT_HINT = "Some names are cut: --wide shows them whole, and `reaper explain` takes a part."
WIDE = 100_000
"""The width at which nothing is cut or wrapped."""

Row = Mapping[str, str | Text]
Stages = Sequence[tuple[str, int]]


Block = Text | Callable[[int], Iterable[Text]]
"""A line as it is, or what makes lines of a width: a `partial` of `wrap` or `table_lines`."""


def print_blocks(blocks: Iterable[Block], width: int, colour: bool) -> str:
    """The blocks in lines of that width, with or without terminal colors."""
    parts = ([block] if isinstance(block, Text) else block(width) for block in blocks)
    return print_lines((line for part in parts for line in part), width, colour)


def table_lines(rows: Sequence[Row], stages: Stages, width: int, most: int | None = None) -> Iterator[Text]:
    """The lines of a table that has the columns of its first row, and a hint if a name had to be cut. `stages`: see `column_widths`.

    No more than `most` rows are shown, unless nothing is cut.
    """
    longest, count = WIDE if width >= WIDE else MAX_CELL_WIDTH, len(rows)
    rows = rows if width >= WIDE else rows[:most]
    natural = {
        name: min(longest, max(len(name), *(len(row[name]) for row in rows))) for name in rows[0] if name not in {REASON, ""}
    }
    widths, dropped = column_widths(natural, stages, width), [name for name in KEPT_BELOW if name in natural]
    if dropped and dropped == [name for name in dropped if name in widths]:
        dropped = []
    elif dropped:
        widths = column_widths({name: most for name, most in natural.items() if name not in dropped}, stages, width)
    cells = {name: _fitted(name, [row[name] for row in rows], room) for name, room in widths.items()}
    widths = {name: max(widths[name], *map(len, column)) for name, column in cells.items()}
    rests = [", ".join(str(row[name]) for name in dropped if str(row[name])) for row in rows]
    reasons = [str(row.get(REASON, "")) for row in rows]
    room = width - table_width(widths) - COLUMN_GAP
    is_beside = room >= max(MIN_REASON_WIDTH, *(len(word) for reason in reasons for word in reason.split() or [""]))
    indent = table_width(widths) + COLUMN_GAP if is_beside else INDENT
    heads = [*widths, *([REASON] if is_beside and any(reasons) else [])]
    yield _line([Text(name, style="dim") for name in heads], heads, {**widths, REASON: 0})
    for index, (rest, reason) in enumerate(zip(rests, reasons, strict=True)):
        line = _line([column[index] for column in cells.values()], list(cells), widths)
        below = list(wrap(reason, width, indent)) if reason else []
        if below and is_beside:
            line = Text.assemble(line, " " * (indent - len(line)), below.pop(0)[indent:])
        yield line
        yield from wrap(Text(rest, style="dim"), width, INDENT) if rest else []
        yield from below
    if any(
        "…" in str(cell) and str(cell) != str(row[name])
        for name in NAME_COLUMNS & cells.keys()
        for cell, row in zip(cells[name], rows, strict=True)
    ):
        yield from wrap(Text(CUT_HINT, style="dim"), width)
    if len(rows) < count:
        yield Text(f"... and {count - len(rows)} more", style="dim")


def print_lines(lines: Iterable[Text], width: int, colour: bool) -> str:
    """The lines as they are, with or without terminal colors."""
    out = io.StringIO()
    console = Console(
        file=out, width=width, force_terminal=colour, no_color=not colour, highlight=False, markup=False, emoji=False
    )
    for line in lines:
        console.print(line, soft_wrap=True)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def wrap(text: Text | str, width: int, indent: int = 0, command: str = "") -> Iterator[Text]:
    """The text in lines that break between words only. `command`: for pasting, in the same line if it fits, else uncut in one of its own."""
    whole = Text(text) if isinstance(text, str) else text
    if command and len(whole) + 1 + len(command) <= width:
        yield Text(f"{whole} {command}", style=whole.style)
        return
    start, breaks = 0, []
    for word in re.finditer(r"\S+", whole.plain):
        if cell_len(whole.plain[start : word.end()]) > width - indent and whole.plain[start : word.start()].strip():
            start = word.start()
            breaks.append(start)
    for line in whole.divide(breaks):
        line.rstrip()
        yield Text.assemble(" " * indent, line)
    yield from [Text(f"  {command}", style=whole.style)] if command else []


def distinct_cuts(names: Sequence[str], room: int) -> list[str]:
    """The names, each cut in the middle to `room` characters, or to as many more as it takes for all of them to look different."""
    while (cuts := _cuts(set(names), room)) is None:
        room += 1
    return [cuts[name] for name in names]


def _cuts(names: set[str], room: int) -> dict[str, str] | None:
    """The cut of each name; None if two would look the same."""
    cuts = {name: name for name in names if len(name) <= room}
    taken = set(cuts)
    tails = sorted(range(max(1, room - 1)), key=lambda tail: abs(tail - room // 2))
    for name in sorted(names - taken):
        shorter = (f"{name[: max(1, room - 1 - tail)]}…{name[len(name) - tail :]}" for tail in tails)
        cut = next((cut for cut in shorter if cut not in taken), None)
        if cut is None:
            return None
        cuts[name] = cut
        taken.add(cut)
    return cuts


def _fitted(name: str, values: Sequence[str | Text], room: int) -> list[Text]:
    """The cells of a column. If there is room for one word of evidence, it is `proven` or `likely`."""
    if name in NAME_COLUMNS:
        cuts = distinct_cuts([str(value) for value in values], room)
        return [Text(cut, style=value.style if isinstance(value, Text) else "") for cut, value in zip(cuts, values, strict=True)]
    if name == "evidence" and room < len("proven: no"):
        values = [str(value).partition(":")[0] for value in values]
    cells = [value.copy() if isinstance(value, Text) else Text(value) for value in values]
    for cell in cells:
        cell.truncate(room, overflow="ellipsis")
    return cells


def _line(cells: Sequence[Text], names: Sequence[str], widths: Mapping[str, int]) -> Text:
    line = Text()
    for name, cell in zip(names, cells, strict=True):
        blank = " " * max(0, widths[name] - cell.cell_len)
        line = Text.assemble(
            line,
            " " * COLUMN_GAP if line else "",
            *((blank, cell) if name in RIGHT_ALIGNED or name.endswith("/hour") else (cell, blank)),
        )
    line.rstrip()
    return line


def column_widths(natural: Mapping[str, int], stages: Stages, width: int) -> dict[str, int]:
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
