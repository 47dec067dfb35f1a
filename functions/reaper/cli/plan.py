"""`reaper plan` and `reaper apply`: actions that are reviewed as a file before they are carried out."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from reaper import settings
from reaper.case import Report
from reaper.cli.options import PolicyOption, current_time, parse_validity
from reaper.cli.output import check_writable, print_message, show_progress, write_output
from reaper.cli.places import KindOption, PlaceOptions, ledger_address, with_place_options, with_places
from reaper.errors import SettingsError
from reaper.model import ACTIONS, Mode
from reaper.pending import plan_file
from reaper.pending.plan_file import PlanFile
from reaper.policy.file import PolicySource, load_policy
from reaper.report import brief
from reaper.report.summary import exit_status
from reaper.run import run
from reaper.settings import Settings
from reaper.text import count_noun


@with_place_options
def write_plan(
    output: Annotated[str, typer.Option("--output", "-o", help="Plan file, or - for standard output", metavar="FILE|-")],
    places: PlaceOptions,
    kind: KindOption = None,
    policy: PolicyOption = None,
    expires: Annotated[str, typer.Option(help="How long the plan is valid, at most 7d", metavar="DURATION")] = "24h",
) -> None:
    """Write a plan file of the actions due now. Changes nothing and sends no notices."""
    base = settings.from_env(os.environ)
    chosen = replace(with_places(base, places, kind), mode=Mode.AUDIT, ledger=ledger_address(base))
    valid_for = parse_validity("--expires", expires)
    check_writable(output)
    with show_progress() as progress:
        report = run(chosen, load_policy(base.policy if policy is None else policy), current_time, progress)
    text = plan_file.plan_json(report, plan_file.scope_of(chosen), current_time(), valid_for)
    write_output(output, lambda: [text])
    due = sum(finding.step.name in ACTIONS for finding in report.findings)
    print_message(
        f"{count_noun(len(report.findings), 'resource')} checked: {count_noun(due, 'action')} due, {len(report.actions.on_hold)} on hold."
    )
    _print_if_incomplete(report)
    raise typer.Exit(exit_status(report, None))


@with_place_options
def apply_plan(
    file: Annotated[Path, typer.Argument(help="Plan file that `reaper plan` wrote", metavar="FILE")],
    places: PlaceOptions,
    policy: PolicyOption = None,
) -> None:
    """Carry out a plan file. Re-checks each resource and refuses the action if anything changed. Exits with 1 if any action wasn't carried out.

    Sweeps what the plan covers. Other accounts, their role and its external ID are never taken from the plan alone: name them as for `reaper plan`, or by the deployment's settings. Uses the deployment's ledger and manifests: set REAPER_LEDGER and REAPER_MANIFESTS to the deployment's values.
    """
    env = settings.from_env(os.environ)
    base = replace(with_places(env, places), kinds=env.kinds)
    plan = plan_file.parse_plan(_read_plan(file), str(file), current_time())
    if not plan.actions_by_id:
        on_hold = f"; {plan.held_count} were on hold when it was written" if plan.held_count else ""
        sys.stdout.write(f"{file} contains no actions{on_hold}. Nothing was done.\n")
        return
    source = load_policy(base.policy if policy is None else policy)
    report = _run_plan(base, plan, source)
    not_performed = plan_file.not_performed(plan, report)
    sys.stdout.write("".join(f"{line}\n" for line in not_performed))
    planned = len(plan.actions_by_id)
    sys.stdout.write(f"{planned - len(not_performed)} of {count_noun(planned, 'action')} carried out in run {report.run.id}\n")
    _print_if_incomplete(report)
    raise typer.Exit(exit_status(report, None) or int(bool(not_performed)))


def _run_plan(base: Settings, plan: PlanFile, source: PolicySource) -> Report:
    """The run that carries out the plan. Raises SettingsError if the policy isn't the plan's, or if the plan reaches too far."""
    chosen = settings.require_kept_memory(
        replace(plan_file.with_scope(base, plan), mode=Mode.ENFORCE, ledger=ledger_address(base))
    )
    with show_progress() as progress:
        return run(chosen, source, current_time, progress, agreed=plan)


def _print_if_incomplete(report: Report) -> None:
    if not report.is_complete:
        print_message(brief.render(report))


def _read_plan(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{str(file)!r}: can't be read: {error}") from error
