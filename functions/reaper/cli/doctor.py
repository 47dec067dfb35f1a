"""`reaper doctor`: what is missing for a deployment, or for this shell, to work."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.text import Text

from reaper import registry
from reaper.cli.options import WideOption, current_time, parse_validity
from reaper.cli.output import has_colour, leave, report_width, show_progress
from reaper.cli.places import SweepOptions, chosen_settings, with_place_options
from reaper.doctor.check import Check, CheckStatus, summary_line
from reaper.report.table import WIDE, print_lines, wrap

STATUS_COLORS = {CheckStatus.OK: "green", CheckStatus.FIX: "bold red", CheckStatus.UNKNOWN: "yellow"}
INDENT = len("unknown  ")
MIN_WIDTH = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorOptions(SweepOptions):
    """The deployment to examine: its sweep, how often that should run, and the report of one."""

    undo: Annotated[bool, typer.Option("--undo", help="Also check what restore and undo need")] = False
    every: Annotated[str, typer.Option(help="How often a sweep should run", metavar="DURATION")] = "1d"
    report: Annotated[
        str | None, typer.Option(help="Saved JSON report to read instead of the last one in REAPER_REPORTS", metavar="FILE")
    ] = None


@with_place_options
def examine_deployment(
    places: DoctorOptions,
    timeout: Annotated[
        float, typer.Option(help="Seconds after which checks that hang are given up", metavar="SECONDS", min=1, max=600)
    ] = 45,
    format: Annotated[Literal["text", "json"], typer.Option("--format", help="Format of the result")] = "text",
    wide: WideOption = False,
) -> None:
    """Check credentials, permissions, stores, channels and the policy, and print how to fix what is wrong. Changes nothing.

    Exit status: 0 nothing to fix, 1 something to fix, 2 usage or settings error.
    """
    from reaper.doctor import check, examine

    chosen = chosen_settings(places)
    context = check.DoctorContext(
        settings=chosen,
        environ=dict(os.environ),
        clock=current_time,
        kinds=[known for known in registry.kinds() if not chosen.kinds or known.name in chosen.kinds],
        every=parse_validity("--every", places.every),
        report_file=places.report,
        includes_undo=places.undo,
    )
    with show_progress() as progress:
        progress("checking")
        checks = examine.examine(context, timeout)
    if format == "json":
        sys.stdout.write(json.dumps(check.checks_json(checks), indent=2, allow_nan=False) + "\n")
    else:
        console = Console(highlight=False)
        width = report_width(console, os.environ, wide=wide)
        sys.stdout.write(render(checks, width, has_colour(console)))
    leave(check.exit_status(checks))


def render(checks: Sequence[Check], width: int = 120, colour: bool = False) -> str:
    """The checks and their number. Sentences wrap between words; commands break after `&&` only, so that they can be pasted."""
    width = max(width, MIN_WIDTH)
    lines = (line for check in checks for line in _lines(check, width))
    return print_lines([*lines, *wrap(summary_line(checks), width)], width, colour)


def _lines(check: Check, width: int) -> Iterator[Text]:
    status = Text(f"{check.status.value:<{INDENT}}", style=STATUS_COLORS[check.status])
    yield Text.assemble(status, (check.check, "bold"))
    yield from wrap(check.because, width, INDENT)
    if check.missing:
        yield Text(f"{'':<{INDENT}}Missing: {check.missing}")
    if check.fix:
        is_sentence, fix = check.fix[:1].isupper(), f"Fix: {check.fix}"
        is_long = not is_sentence and INDENT + len(fix) > width
        for part in fix.replace(" && ", " &&\n").split("\n") if is_long else [fix]:
            yield from wrap(part, width if is_sentence else WIDE, INDENT)
