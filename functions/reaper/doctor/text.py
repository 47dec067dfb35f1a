"""The result for a terminal. Reasons wrap at any width; commands are never cut or wrapped, so that they can be pasted."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from reaper.doctor.check import Check, CheckStatus, summary_line

STATUS_COLORS = {CheckStatus.OK: "green", CheckStatus.FIX: "bold red", CheckStatus.UNKNOWN: "yellow"}
INDENT = len("unknown  ")
MIN_WIDTH = 30


def render(checks: Sequence[Check], width: int = 120, colour: bool = False) -> str:
    """The checks and their number, as text of at most `width` columns but for the commands."""
    console = Console(
        file=io.StringIO(),
        width=max(width, MIN_WIDTH),
        force_terminal=colour,
        no_color=not colour,
        highlight=False,
        markup=False,
        emoji=False,
    )
    for check in checks:
        for line, is_pasted in _lines(check):
            console.print(line, soft_wrap=is_pasted)
    console.print(summary_line(checks))
    assert isinstance(console.file, io.StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines()) + "\n"


def _lines(check: Check) -> Iterator[tuple[Text | Padding, bool]]:
    status = Text(f"{check.status.value:<{INDENT}}", style=STATUS_COLORS[check.status])
    yield Text.assemble(status, (check.check, "bold")), False
    yield Padding(Text(check.because), (0, 0, 0, INDENT)), False
    if check.missing:
        yield Text(f"{'':<{INDENT}}Missing: {check.missing}"), True
    if check.fix:
        yield Text(f"{'':<{INDENT}}Fix: {check.fix}"), True
