"""The commands about acts: `plan` and `apply`, `restore` and `undo`, `release`. `cli` adds them to the command line."""

from __future__ import annotations

import getpass
import os
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from reaper import duration
from reaper import settings as knobs
from reaper.actions import manifest, plan_file
from reaper.actions.plan_file import PlanFile
from reaper.cli import output as cli_output
from reaper.cli.options import PolicyOption, RepeatedOption, current_time, error_console, show_progress, with_options
from reaper.echo import count_noun
from reaper.errors import CloudError, Reason, SettingsError
from reaper.ledger import port
from reaper.model import ACTIONS, Mode, Target
from reaper.policy import file as policy_file
from reaper.report import brief
from reaper.report.totals import exit_status, held_findings, is_complete
from reaper.run import run
from reaper.sessions import sessions_of
from reaper.settings import Settings

MAX_VALID_FOR = timedelta(days=7)
"""A plan or a release that holds for longer says nothing of what is held or due by then."""


def plan(
    output: Annotated[str, typer.Option("--output", "-o", help="Where to write the plan file.", metavar="FILE|-")],
    cloud: Annotated[str, typer.Option(help="aws, azure or all.")] = "all",
    account: Annotated[RepeatedOption, typer.Option(help="AWS account the credentials must be of; can be repeated.")] = None,
    region: Annotated[RepeatedOption, typer.Option(help="AWS region, or all; repeat or separate by commas.")] = None,
    subscription: Annotated[RepeatedOption, typer.Option(help="Azure subscription id; can be repeated.")] = None,
    kind: Annotated[RepeatedOption, typer.Option(help="Only these kinds; globs allowed; can be repeated.")] = None,
    policy: PolicyOption = None,
    expires: Annotated[str, typer.Option(help="How long the plan may be applied.", metavar="DURATION")] = "24h",
) -> None:
    """Write down what is due now, to be read before `reaper apply` does it. Nothing is changed and nobody is told."""
    base = knobs.from_env(os.environ)
    found = with_options(base, knobs.parse_cloud(cloud), account, region, subscription, kind)
    found = replace(found, mode=Mode.AUDIT, ledger=_ledger_address(base))
    lasting = _parse_duration("--expires", expires)
    cli_output.check_writable(output)
    with show_progress() as tell:
        report = run(found, policy_file.load_policy(base.policy if policy is None else policy), current_time, tell)
    scope = {key: list(value) if isinstance(value := getattr(found, key), tuple) else value for key in plan_file.SCOPE_SETTINGS}
    text = plan_file.plan_json(report, scope, current_time(), lasting)
    cli_output.write_output(output, lambda: [text])
    acts = len([f for f in report.findings if f.step.name in ACTIONS])
    error_console.print(
        f"{count_noun(acts, 'act')} {'is' if acts == 1 else 'are'} due and {len(held_findings(report))} held, of {count_noun(len(report.findings), 'resource')}."
    )
    if not is_complete(report):
        error_console.print(brief.render(report), soft_wrap=True)
    raise typer.Exit(exit_status(report, None))


def apply(
    file: Annotated[Path, typer.Argument(help="The plan file that `reaper plan` wrote.", metavar="FILE")],
    policy: PolicyOption = None,
) -> None:
    """Carry out a plan file: each act is looked at again and refused where anything changed. Exit status 1 when any was not made.

    Notices and manifests are those of the deployment: set REAPER_LEDGER and REAPER_MANIFESTS as it has them.
    """
    base = knobs.from_env(os.environ)
    agreed = plan_file.parse_plan(_read_plan(file), str(file), current_time())
    if not agreed.actions_by_id:
        more = f"; {agreed.held_count} were held when it was made" if agreed.held_count else ""
        sys.stdout.write(f"{file} asks for no act{more}: nothing was done\n")
        return
    found = policy_file.load_policy(base.policy if policy is None else policy)
    if found.sha256 != agreed.policy_sha256:
        raise SettingsError(f"{file}: it was made under another policy than {found.name}: make a new one with `reaper plan`")
    settings = knobs.require_kept_memory(
        replace(base, mode=Mode.ENFORCE, ledger=_ledger_address(base), **_scope_settings(agreed))
    )
    with show_progress() as tell:
        report = run(settings, found, current_time, tell, agreed=agreed)
    left = plan_file.not_performed(agreed, report)
    sys.stdout.write("".join(f"{line}\n" for line in left))
    sys.stdout.write(
        f"{len(agreed.actions_by_id) - len(left)} of {count_noun(len(agreed.actions_by_id), 'act')} {'was' if len(agreed.actions_by_id) == 1 else 'were'} made in run {report.run.id}\n"
    )
    if not is_complete(report):
        error_console.print(brief.render(report), soft_wrap=True)
    raise typer.Exit(exit_status(report, None) or int(bool(left)))


def restore(
    resource_id: Annotated[str, typer.Argument(help="ARN or ARM id of the resource, as the report spells it.")],
    manifest_address: Annotated[
        str | None, typer.Option("--manifest", help="Its manifest, where the ledger does not know it.", metavar="ADDRESS")
    ] = None,
) -> None:
    """Bring back what the reaper last stopped or deleted of a resource. Exit status 3 when not all of it is back.

    It looks it up in the deployment's own ledger and manifests: set REAPER_LEDGER and REAPER_MANIFESTS as the deployment has them.
    """
    from reaper.actions import restore as restoring

    done = restoring.restore_resource(resource_id, _restore_context(), manifest_address)
    raise typer.Exit(3 if _print_result(done) else 0)


def undo(
    run_id: Annotated[
        str, typer.Option("--run", help="The run whose stops are taken back; reports call it run.id.", metavar="RUN_ID")
    ],
    deletes: Annotated[bool, typer.Option("--deletes", help="Bring back what was deleted, too.")] = False,
) -> None:
    """Take back everything that one sweep stopped. Exit status 3 when not all of it is back.

    It looks it up in the deployment's own ledger and manifests: set REAPER_LEDGER and REAPER_MANIFESTS as the deployment has them.
    """
    from reaper.actions import restore as restoring

    missing = False
    for done in restoring.undo_run(run_id, _restore_context(), deletes):
        if isinstance(done, restoring.NotUndone):
            sys.stdout.write(f"{done.id}: left as it is: {done.because}\n")
        else:
            missing |= _print_result(done)
    raise typer.Exit(3 if missing else 0)


def release(
    lasting: Annotated[str, typer.Option("--for", help="How long it holds.", metavar="DURATION")] = "24h",
) -> None:
    """Release every action whose date has come, and remove what is on hold: the next sweeps, or a new plan, carry it out.

    What is on hold is in the deployment's ledger: set REAPER_LEDGER (and REAPER_MANIFESTS for `apply`) as the deployment has them.
    """
    from reaper.actions import hold_ledger

    base = knobs.from_env(os.environ)
    length, where = _parse_duration("--for", lasting), _ledger_label(base)
    kept = port.open_ledger(_ledger_address(base), os.environ)
    at = current_time()
    port.ensure_format(kept, at)
    holds = hold_ledger.current_holds(kept)
    given = hold_ledger.release_hold(kept, _current_user(), at, length)
    sys.stdout.write(
        "".join(f"On hold since {hold.since:%Y-%m-%d %H:%M} UTC (run {hold.run}): {hold.because}\n" for hold in holds)
    )
    sys.stdout.write("" if holds else f"Nothing was on hold in {where}.\n")
    sys.stdout.write(
        f"Every action whose date, or the end of whose office hours, had come by {given.given_at:%Y-%m-%d %H:%M} UTC is released until "
        f"{given.valid_until:%Y-%m-%d %H:%M} UTC in {where}. What comes due later is not. Each is looked at again before it is made.\n"
    )


def _print_result(done: Any) -> bool:
    """Say what became of it; whether anything is not back."""
    if done.error:
        sys.stdout.write(f"{done.id}: FAILED {done.error}\n")
        return True
    sys.stdout.write(f"{done.id}: {done.undone.because}\n")
    sys.stdout.writelines(f"  - {line}\n" for line in done.undone.not_restored)
    if done.undone.run_again:
        sys.stdout.write(f"  run it again in a few minutes: reaper restore {done.id}\n")
    return bool(done.undone.not_restored or done.undone.run_again)


def _restore_context() -> Any:
    base = knobs.from_env(os.environ)
    error_console.print(f"ledger: {_ledger_label(base)}", soft_wrap=True)
    kept = port.open_ledger(_ledger_address(base), os.environ)
    port.ensure_format(kept, current_time())
    from reaper.actions import restore as restoring

    return restoring.RestoreContext(
        ledger=kept,
        archive=manifest.open_archive(base.manifests, os.environ),
        open_session=lambda target: _open_session(replace(base, mode=Mode.ENFORCE), target),
        clock=current_time,
        by=_current_user(),
    )


def _open_session(settings: Settings, target: Target) -> Any:
    """A session of that very target. Raises CloudError where the credentials in use do not lead there."""
    if target.cloud == "aws":
        chosen = replace(settings, cloud="aws", regions=(target.region or "",), accounts=(target.account,))
    else:
        chosen = replace(settings, cloud="azure", subscriptions=(target.account,))
    try:
        [session] = sessions_of(chosen, target.cloud)
    except SettingsError as error:
        raise CloudError(Reason.REFUSED, "restore", str(error)) from error
    return session


def _scope_settings(agreed: PlanFile) -> dict[str, Any]:
    known = {key: agreed.scope[key] for key in plan_file.SCOPE_SETTINGS}
    return {key: tuple(value) if isinstance(value, list) else value for key, value in known.items()}


def _ledger_address(base: Settings) -> str:
    """The deployment's ledger, or the user's own."""
    return base.ledger or port.default_address(os.environ)


def _ledger_label(base: Settings) -> str:
    return _ledger_address(base) if base.ledger else f"{_ledger_address(base)} (your own: REAPER_LEDGER is not set)"


def _parse_duration(name: str, text: str) -> timedelta:
    try:
        return duration.parse_duration(text, MAX_VALID_FOR)
    except ValueError as error:
        raise SettingsError(f"{name} {text!r}: {error}") from error


def _current_user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "somebody at the command line"


def _read_plan(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{str(file)!r}: cannot be read: {error}") from error
