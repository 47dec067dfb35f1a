"""`reaper demo`: the product on simulated clouds.

The product never imports the sandbox, so the demo is loaded by its name.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer

from reaper.cli.options import PolicyOption, WideOption, current_time
from reaper.cli.output import Format, check_writable, print_message, show_progress, write_report
from reaper.errors import SettingsError
from reaper.extras import install_command
from reaper.finding import Report
from reaper.policy.file import load_policy


def run_demo(
    output: Annotated[
        str | None, typer.Option(help="Folder for report.html, report.json and the mails. Default: demo", metavar="DIR")
    ] = None,
    format: Annotated[Format, typer.Option(help="Format of the printed report")] = Format.TEXT,
    policy: PolicyOption = None,
    story: Annotated[
        bool, typer.Option("--story", help="Play two weeks of notices, stops and restores instead of one sweep")
    ] = False,
    serve: Annotated[
        bool, typer.Option("--serve", help="Keep the simulated clouds running, and print the line that leads a shell to them")
    ] = False,
    wide: WideOption = False,
) -> None:
    """Sweep a simulated fleet. Needs no account or network."""
    if serve:
        if story or policy or output is not None or format is not Format.TEXT:
            raise SettingsError("--serve has its own folder and policy; drop --story, --policy, --format and --output")
        _load_demo("practice").serve_practice(current_time)
        return
    output = "demo" if output is None else output
    if not output.strip():
        raise SettingsError("--output '' names no folder; name one or leave it out")
    if story and (policy or format is not Format.TEXT):
        raise SettingsError("--story brings its own policy and format; drop --policy and --format")
    directory = Path(output)
    if story:
        _load_demo("story_run").play_story(directory)
        return
    report = _sweep_simulated_fleet(directory, policy)
    html, json = directory / "report.html", directory / "report.json"
    write_report(report, Format.HTML, str(html))
    write_report(report, Format.JSON, str(json))
    write_report(report, format, "-", f" --report {quote(str(json))}", wide=wide)
    print_message(f"Wrote {html} and {json}. The mails it would send are in {directory / 'mail'}.")


def _sweep_simulated_fleet(directory: Path, policy: str | None) -> Report:
    sweep_demo = _load_demo("sweep_demo")
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(f"--output {str(directory)!r}: can't create this folder: {error}") from error
    for name in ("report.html", "report.json"):
        check_writable(str(directory / name))
    with show_progress() as progress:
        report: Report = sweep_demo.run_demo_sweep(
            load_policy(policy or sweep_demo.DEMO_POLICY), directory / "mail", current_time, progress
        )
    return report


def _load_demo(name: str) -> Any:
    """A module of the sandbox's demo. Raises SettingsError if what it needs isn't installed."""
    try:
        return import_module(f"reaper_sandbox.demo.{name}")
    except ImportError as error:
        raise SettingsError(f"reaper demo needs an extra: {install_command('demo')} ({error})") from error
