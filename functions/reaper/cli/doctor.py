"""`reaper doctor`: what is missing for a deployment, or for this shell, to work."""

from __future__ import annotations

import json
import os
import sys
import threading
from dataclasses import replace
from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console

from reaper import registry, settings
from reaper.cli.options import PolicyOption, current_time, parse_validity
from reaper.cli.output import report_width
from reaper.cli.places import KindOption, PlaceOptions, read_places, with_place_options, with_places
from reaper.cli.progress import show_progress
from reaper.cli.sweep import ModeOption


class DoctorFormat(StrEnum):
    """The formats of the result."""

    TEXT = "text"
    JSON = "json"


@with_place_options
def examine_deployment(
    places: PlaceOptions,
    kind: KindOption = None,
    policy: PolicyOption = None,
    mode: ModeOption = None,
    undo: Annotated[bool, typer.Option("--undo", help="Also check what restore and undo need")] = False,
    every: Annotated[str, typer.Option(help="How often a sweep should run", metavar="DURATION")] = "1d",
    report: Annotated[
        str | None, typer.Option(help="Saved JSON report to read instead of the last one in REAPER_REPORTS", metavar="FILE")
    ] = None,
    timeout: Annotated[
        float, typer.Option(help="Seconds after which checks that hang are given up", metavar="SECONDS", min=1, max=600)
    ] = 45,
    format: Annotated[DoctorFormat, typer.Option("--format", help="Format of the result")] = DoctorFormat.TEXT,
) -> None:
    """Check credentials, permissions, stores, channels and the policy, and print how to fix what is wrong. Changes nothing.

    Exit status: 0 nothing to fix, 1 something to fix, 2 usage or settings error.
    """
    from reaper.doctor import check, examine, text
    from reaper.doctor.context import DoctorContext

    base = settings.from_env(os.environ)
    chosen = replace(
        with_places(base, read_places(places, kind)),
        mode=base.mode if mode is None else settings.parse_mode(mode, "--mode"),
        policy=base.policy if policy is None else policy,
    )
    context = DoctorContext(
        settings=chosen,
        environ=dict(os.environ),
        clock=current_time,
        kinds=[known for known in registry.kinds() if not chosen.kinds or known.name in chosen.kinds],
        every=parse_validity("--every", every),
        report_file=report,
        includes_undo=undo,
    )
    with show_progress() as progress:
        progress("checking")
        checks = examine.examine(context, timeout)
    if format is DoctorFormat.JSON:
        sys.stdout.write(json.dumps(check.checks_json(checks), indent=2, allow_nan=False) + "\n")
    else:
        console = Console(highlight=False)
        width = report_width(console, os.environ)
        sys.stdout.write(text.render(checks, width, console.is_terminal and not console.no_color))
    _leave(check.exit_status(checks))


def _leave(status: int) -> None:
    """End the process. A check that hangs can't be stopped, and the interpreter would wait for the pool of its threads."""
    sys.stdout.flush()
    if any(thread.is_alive() for thread in threading.enumerate() if thread is not threading.main_thread()):
        sys.stderr.flush()
        os._exit(status)
    raise typer.Exit(status)
