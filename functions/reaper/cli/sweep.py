"""`reaper sweep`: one run and its report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import typer

from reaper import settings
from reaper.cli.options import WideOption, current_time
from reaper.cli.output import Format, check_writable, choose_format, print_message, show_progress, write_report
from reaper.cli.places import SweepOptions, chosen_settings, with_place_options
from reaper.errors import interrupted_as
from reaper.finding import Report
from reaper.policy.file import load_policy
from reaper.report.summary import exit_status, incomplete_line, unpriced_clause
from reaper.run import run


@with_place_options
def sweep_once(
    places: SweepOptions,
    format: Annotated[
        Format | None, typer.Option("--format", help="Report format. Default: the suffix of --output, else text")
    ] = None,
    output: Annotated[
        list[str] | None,
        typer.Option(help="Report file, or - for standard output; repeated for several formats", metavar="FILE|-"),
    ] = None,
    fail_on: Annotated[Literal["idle"] | None, typer.Option(help="Exit with status 1 if any resource is idle")] = None,
    fail_on_cost: Annotated[
        float | None,
        typer.Option(
            help="Exit with status 1 if idle resources cost at least this many US dollars an hour", metavar="USD", min=0.0
        ),
    ] = None,
    wide: WideOption = False,
) -> None:
    """Sweep once and print a report.

    Exit status: 0 complete, 1 complete and --fail-on or --fail-on-cost matched, 2 usage, policy or settings error, 3 incomplete coverage or a failed action.
    """
    chosen = chosen_settings(places)
    outputs = {name: choose_format(format, name) for name in output or ["-"]}
    for name in outputs:
        check_writable(name)
    chosen = settings.require_kept_memory(chosen)
    with show_progress() as progress:
        report = run(chosen, load_policy(chosen.policy), current_time, progress)
    with interrupted_as(f"Run {report.run.id} was complete; only its report may be cut off."):
        _write_reports(report, outputs, wide)
        if fail_on_cost is not None and (clause := unpriced_clause(report)):
            print_message(f"--fail-on-cost: not counted, because their price is unknown: {clause.partition(' ')[0]}")
    raise typer.Exit(exit_status(report, fail_on, fail_on_cost))


def _write_reports(report: Report, outputs: Mapping[str, Format], wide: bool) -> None:
    if "-" not in outputs:
        from reaper.report.text import headline

        print_message("\n".join(headline(report)))
    for name, report_format in outputs.items():
        write_report(report, report_format, name, wide=wide)
        if name != "-":
            print_message(f"Wrote {name}")
    if not report.is_complete and outputs.get("-") is not Format.TEXT:
        print_message(incomplete_line(report))
