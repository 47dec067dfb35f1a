"""`reaper sweep`: one run and its report. `reaper plan` and `apply`: actions that are reviewed as a table or a file before they are carried out."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from reaper import settings
from reaper.cli.options import PolicyOption, WideOption, current_time, parse_validity
from reaper.cli.output import (
    Format,
    check_writable,
    choose_format,
    error_console,
    fitted,
    print_message,
    show_progress,
    write_output,
    write_report,
)
from reaper.cli.places import (
    KindOption,
    PlaceOptions,
    SweepOptions,
    chosen_settings,
    ledger_address,
    with_place_options,
    with_places,
)
from reaper.errors import SettingsError, interrupted_as
from reaper.finding import Report
from reaper.model import Mode, StepName
from reaper.pending import plan_file
from reaper.pending.plan_file import PlanFile
from reaper.policy.file import load_policy
from reaper.report.summary import exit_status, incomplete_line, unpriced_clause
from reaper.run import run
from reaper.text import count_noun


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


@with_place_options
def write_plan(
    places: PlaceOptions,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", help="Plan file to write as well, or - for the plan as JSON only", metavar="FILE|-"),
    ] = None,
    kind: KindOption = None,
    policy: PolicyOption = None,
    expires: Annotated[str, typer.Option(help="How long the plan is valid, at most 7d", metavar="DURATION")] = "24h",
    wide: WideOption = False,
) -> None:
    """Show the actions due now and those to come, and write them to a plan file. Changes nothing and sends no notices."""
    from reaper.report.text import coming_blocks, plan_blocks

    base = settings.from_env(os.environ)
    chosen = replace(with_places(base, places, kind), mode=Mode.AUDIT, ledger=ledger_address(base))
    valid_for = parse_validity("--expires", expires)
    if output is not None:
        check_writable(output)
    with show_progress() as progress:
        report = run(chosen, load_policy(base.policy if policy is None else policy), current_time, progress)
    text = plan_file.plan_json(report, plan_file.scope_of(chosen), current_time(), valid_for)
    plan = plan_file.parse_plan(text, "the plan", current_time())
    if output != "-":
        blocks = (*plan_blocks(plan, report.run.currency), *coming_blocks(report.findings, report.run.currency))
        sys.stdout.write(fitted(Console(highlight=False), blocks, wide=wide))
    if output is not None:
        write_output(output, lambda: [text])
    print_message(
        f"{count_noun(len(report.findings), 'resource')} checked: {count_noun(len(plan.actions_by_id), 'action')} due, {len(plan.held)} on hold."
    )
    if plan.actions_by_id and output != "-":
        print_message(_next_command(output, places, policy))
    _print_if_incomplete(report)
    raise typer.Exit(exit_status(report, None))


@with_place_options
def apply_plan(
    file: Annotated[Path, typer.Argument(help="Plan file that `reaper plan` wrote", metavar="FILE")],
    places: PlaceOptions,
    policy: PolicyOption = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Don't ask. Without a terminal it never asks")] = False,
    wide: WideOption = False,
) -> None:
    """Carry out a plan file. Re-checks each resource and refuses the action if anything changed. Exits with 1 if any action wasn't carried out.

    Sweeps what the plan covers. Other accounts, their role and its external ID are never taken from the plan alone: name them as for `reaper plan`, or by the deployment's settings. Uses the deployment's ledger and manifests: set REAPER_LEDGER and REAPER_MANIFESTS to the deployment's values.
    """
    from reaper.report.text import plan_blocks

    env = settings.from_env(os.environ)
    base = replace(with_places(env, places), kinds=env.kinds)
    plan = _read_plan(file)
    if not plan.actions_by_id:
        on_hold = f"; {len(plan.held)} were on hold when it was written" if plan.held else ""
        sys.stdout.write(f"{file} contains no actions{on_hold}. Nothing was done.\n")
        if plan.held:
            held = fitted(Console(highlight=False), plan_blocks(plan), wide=wide)
            sys.stdout.write(f"{held}Then run `reaper plan` again.\n")
        return
    source = load_policy(base.policy if policy is None else policy)
    chosen = replace(plan_file.with_scope(base, plan), mode=Mode.ENFORCE, ledger=ledger_address(base))
    chosen = settings.require_kept_memory(chosen)
    sys.stderr.write(fitted(error_console, plan_blocks(plan, source.policy.prices.shown_in), wide=wide))
    with interrupted_as("Nothing was done."):
        is_agreed = yes or _is_agreed(plan)
    if not is_agreed:
        print_message("Nothing was done.")
        raise typer.Exit(1)
    with show_progress() as progress:
        report = run(chosen, source, current_time, progress, agreed=plan)
    with interrupted_as(f"Run {report.run.id} was complete; only its results may be cut off."):
        is_done = _print_results(plan, report, wide)
    raise typer.Exit(exit_status(report, None) or int(not is_done))


def _read_plan(file: Path) -> PlanFile:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{str(file)!r}: can't be read: {error}") from error
    return plan_file.parse_plan(text, str(file), current_time())


def _print_results(plan: PlanFile, report: Report, wide: bool) -> bool:
    """Print the result of each action. Returns whether all were carried out."""
    from reaper.report.text import result_blocks

    results = plan_file.action_results(plan, report)
    blocks = result_blocks(plan, results, report.run.currency)
    sys.stdout.write(fitted(Console(highlight=False), blocks, wide=wide) + "\n")
    not_performed = [plan_file.result_sentence(result) for result in results if not result.is_done]
    sys.stdout.write("".join(f"{line}\n" for line in not_performed))
    sys.stdout.write(
        f"{len(results) - len(not_performed)} of {count_noun(len(results), 'action')} carried out in run {report.run.id}\n"
    )
    _print_if_incomplete(report)
    return not not_performed


def _is_agreed(plan: PlanFile) -> bool:
    """Whether the person at the terminal agrees. Without a terminal there is no question: a schedule or a script decided."""
    if not (sys.stdin and sys.stdin.isatty() and sys.stderr.isatty()):
        return True
    actions = plan.actions_by_id.values()
    deletes = sum(action.move is StepName.DELETE for action in actions)
    among = f", {count_noun(deletes, 'delete')} among them" if deletes else ""
    sys.stderr.write(f"\n{count_noun(len(actions), 'action')}{among}. Proceed? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _next_command(output: str | None, places: PlaceOptions, policy: str | None) -> str:
    if output is None:
        return "To carry this out, write it to a file with --output FILE, and give that to `reaper apply`."
    # A plan alone may choose neither other accounts nor their role. An external ID is never printed.
    again = {
        "--account": places.account,
        "--ou": places.ou,
        "--exclude-account": places.exclude_account,
        "--role-name": places.role_name and [places.role_name],
        "--external-id": places.external_id and ["ID"],
        "--policy": policy and [policy],
    }
    options = [f"{name} {shlex.quote(','.join(values))}" for name, values in again.items() if values]
    command = " ".join([f"reaper apply {shlex.quote(output)}", *(["--organization"] if places.organization else []), *options])
    return f"Wrote {output}. To carry it out, run:\n  {command}"


def _print_if_incomplete(report: Report) -> None:
    from reaper.report.text import coverage_blocks

    if not report.is_complete:
        sys.stderr.write(fitted(error_console, coverage_blocks(report)))
