"""`reaper restore`, `reaper undo` and `reaper release`: what was stopped comes back, and what is on hold goes ahead."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from reaper import settings
from reaper.actions import manifest
from reaper.cli.deployment import current_user, ledger_label, open_ledger_to_write, session_opener
from reaper.cli.options import ExternalIdOption, current_time, parse_validity, with_external_id
from reaper.cli.progress import print_message
from reaper.scope import accounts

if TYPE_CHECKING:
    from reaper.actions.restore import RestoreContext, RestoreResult

RestoreRoleOption = Annotated[
    str | None,
    typer.Option(
        "--role-name",
        help="Role to assume in other AWS accounts. It must be allowed to create, which the role of a sweep isn't",
        metavar="NAME",
    ),
]


def restore_resource(
    resource_id: Annotated[str, typer.Argument(help="ARN or ARM ID of the resource, as in the report")],
    manifest_address: Annotated[
        str | None, typer.Option("--manifest", help="Manifest to use if the ledger has none", metavar="ADDRESS")
    ] = None,
    role_name: RestoreRoleOption = None,
    external_id: ExternalIdOption = None,
) -> None:
    """Undo the last action on one resource. Exits with 3 if anything wasn't restored.

    For a resource in another AWS account than that of the credentials, name a role there with --role-name. Uses the deployment's ledger and manifests: set REAPER_LEDGER and REAPER_MANIFESTS to the deployment's values.
    """
    from reaper.actions import restore

    result = restore.restore_resource(resource_id, _restore_context(role_name, external_id), manifest_address)
    _print_result(result)
    raise typer.Exit(0 if _is_restored(result) else 3)


def undo_run(
    run_id: Annotated[str, typer.Option("--run", help="Run to undo (run.id in its report)", metavar="RUN_ID")],
    deletes: Annotated[bool, typer.Option("--deletes", help="Also recreate what the run deleted")] = False,
    role_name: RestoreRoleOption = None,
    external_id: ExternalIdOption = None,
) -> None:
    """Undo every stop of one run. Exits with 3 if anything wasn't restored.

    For resources in other AWS accounts than that of the credentials, name a role there with --role-name. Uses the deployment's ledger and manifests: set REAPER_LEDGER and REAPER_MANIFESTS to the deployment's values.
    """
    from reaper.actions import restore

    is_complete = True
    for result in restore.undo_run(run_id, _restore_context(role_name, external_id), deletes):
        if isinstance(result, restore.NotUndone):
            sys.stdout.write(f"{result.id}: unchanged ({result.because})\n")
        else:
            _print_result(result)
            is_complete &= _is_restored(result)
    raise typer.Exit(0 if is_complete else 3)


def release_holds(
    lasting: Annotated[str, typer.Option("--for", help="How long the release lasts, at most 7d", metavar="DURATION")] = "24h",
) -> None:
    """Release the actions that are due or on hold now. The next sweeps, or a new plan, carry them out.

    Uses the deployment's ledger: set REAPER_LEDGER (and REAPER_MANIFESTS for `apply`) to the deployment's values.
    """
    from reaper.actions import hold_ledger

    base = settings.from_env(os.environ)
    valid_for, label = parse_validity("--for", lasting), ledger_label(base)
    ledger, now = open_ledger_to_write(base), current_time()
    holds = hold_ledger.current_holds(ledger)
    release = hold_ledger.release_hold(ledger, current_user(), now, valid_for)
    for hold in holds:
        sys.stdout.write(f"On hold since {hold.since:%Y-%m-%d %H:%M} UTC (run {hold.run}): {hold.because}\n")
    if not holds:
        sys.stdout.write(f"Nothing was on hold in {label}.\n")
    sys.stdout.write(
        f"Released until {release.valid_until:%Y-%m-%d %H:%M} UTC: every action in {label} that was due by "
        f"{release.given_at:%Y-%m-%d %H:%M} UTC, including those at the end of office hours. Later actions are not released. Each resource is re-checked first.\n"
    )


def _restore_context(role_name: str | None, external_id: str | None) -> RestoreContext:
    from reaper.actions import restore

    base = with_external_id(settings.from_env(os.environ), external_id)
    role = None if role_name is None else accounts.role_name("--role-name", role_name)
    print_message(f"ledger: {ledger_label(base)}")
    return restore.RestoreContext(
        ledger=open_ledger_to_write(base),
        archive=manifest.open_archive(base.manifests, os.environ),
        open_session=session_opener(base, role),
        clock=current_time,
        by=current_user(),
    )


def _print_result(result: RestoreResult) -> None:
    if result.undone is None:
        sys.stdout.write(f"{result.id}: FAILED {result.error}\n")
        return
    sys.stdout.write(f"{result.id}: {result.undone.because}\n")
    sys.stdout.writelines(f"  - {line}\n" for line in result.undone.not_restored)
    if result.undone.run_again:
        sys.stdout.write(f"  not finished; in a few minutes run: reaper restore {result.id}\n")


def _is_restored(result: RestoreResult) -> bool:
    """Whether everything came back."""
    return result.undone is not None and not result.undone.not_restored and not result.undone.run_again
