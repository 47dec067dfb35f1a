"""`reaper restore`, `undo` and `release`: what was stopped comes back, and what is on hold goes ahead. `reaper pause` and `resume`: the stop switch of a
deployment. `reaper forget`: removes a person's address from its ledger.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from reaper import duration, settings
from reaper.cli.options import ExternalIdOption, current_time, parse_validity
from reaper.cli.output import print_error, print_message, print_result
from reaper.cli.places import current_user, ledger_label, open_ledger_to_write, open_named_ledger, session_opener
from reaper.errors import CloudError, Interrupted, Reason, SettingsError
from reaper.ledger.ledger import Ledger
from reaper.limits.holds import ALL_ACCOUNTS, account_key
from reaper.model import UNTIL_RESUMED, Pause, Target
from reaper.pending import stop_switch
from reaper.policy import tags
from reaper.settings import Settings
from reaper.text import clean_line, count_noun

if TYPE_CHECKING:
    from reaper.acting.contract import Manifest
    from reaper.acting.restore import RestoreContext, RestoreResult

RestoreRoleOption = Annotated[
    str | None,
    typer.Option(
        "--role-name",
        help="Role to assume in other AWS accounts. It must be allowed to create, which the role of a sweep isn't",
        metavar="NAME",
    ),
]


def restore_resource(
    resource_id: Annotated[
        str, typer.Argument(help="ARN, ARM ID or name of the resource, or a part of it that nothing else in the ledger has")
    ],
    manifest_address: Annotated[
        str | None,
        typer.Option("--manifest", help="Manifest in REAPER_MANIFESTS to use instead of the ledger's", metavar="ADDRESS"),
    ] = None,
    trust_manifest: Annotated[
        bool, typer.Option("--trust-manifest", help="Use the manifest although the ledger has no hash of it. Read it first")
    ] = False,
    role_name: RestoreRoleOption = None,
    external_id: ExternalIdOption = None,
) -> None:
    """Undo the last action on one resource. Exits with 3 if anything wasn't restored.

    For a resource in another AWS account than that of the credentials, name a role there with --role-name. Uses the deployment's ledger and manifests: set REAPER_LEDGER and REAPER_MANIFESTS to the deployment's values.
    """
    from reaper.acting import restore

    context = _restore_context(role_name, external_id)
    found = restore.resource_id_of(resource_id, context)
    if found != resource_id:
        print_message(f"{resource_id} is {found}")
    try:
        result = restore.restore_resource(found, context, manifest_address, is_trusted=trust_manifest)
    except KeyboardInterrupt as interrupt:
        again = f"reaper restore {quote(found)}{_role_options(role_name, external_id)}"
        raise Interrupted(f"The undo may have begun. To finish it, run:\n  {again}") from interrupt
    raise typer.Exit(0 if _print_result(result) else 3)


def undo_run(
    run_id: Annotated[
        str, typer.Option("--run", help="Run to undo (run.id in its report), or the beginning of its ID", metavar="RUN_ID")
    ],
    deletes: Annotated[bool, typer.Option("--deletes", help="Also recreate what the run deleted")] = False,
    role_name: RestoreRoleOption = None,
    external_id: ExternalIdOption = None,
) -> None:
    """Undo every stop of one run. Exits with 3 if anything wasn't restored.

    For resources in other AWS accounts than that of the credentials, name a role there with --role-name. Uses the deployment's ledger and manifests: set REAPER_LEDGER and REAPER_MANIFESTS to the deployment's values.
    """
    from reaper.acting import restore

    context = _restore_context(role_name, external_id)
    found = restore.run_id_of(run_id, context)
    if found != run_id:
        print_message(f"{run_id} is run {found}")
    is_complete, count = True, 0
    try:
        for result in restore.undo_run(found, context, deletes):
            count += 1
            if result.left_because:
                print_result(f"{result.id}: unchanged ({result.left_because})")
            else:
                is_complete &= _print_result(result)
    except KeyboardInterrupt as interrupt:
        done = f"What was done until then is above ({count_noun(count, 'resource')}). The next one may have been begun."
        again = f"reaper undo --run {found}{' --deletes' if deletes else ''}{_role_options(role_name, external_id)}"
        raise Interrupted(f"{done} To go on, run:\n  {again}") from interrupt
    raise typer.Exit(0 if is_complete else 3)


def release_holds(
    account: Annotated[
        list[str] | None,
        typer.Option(
            "--account",
            help="AWS accounts and Azure subscriptions to release, repeated or comma-separated IDs. Default: those of REAPER_ACCOUNTS and REAPER_SUBSCRIPTIONS, else all",
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Release all accounts and subscriptions")] = False,
    lasting: Annotated[str, typer.Option("--for", help="How long the release lasts, at most 7d", metavar="DURATION")] = "24h",
) -> None:
    """Release the actions that are due or on hold now. The next sweeps, or a new plan, carry them out.

    Uses the deployment's ledger: set REAPER_LEDGER (and REAPER_MANIFESTS for `apply`) to the deployment's values.
    """
    from reaper.limits import holds

    base = settings.from_env(os.environ)
    chosen = _released_accounts(account, every, base)
    valid_for, label = parse_validity("--for", lasting), ledger_label(base)
    ledger, now = open_ledger_to_write(base), current_time()
    rows = holds.standing_rows(ledger, now, chosen)
    release = holds.release_actions(ledger, current_user(), now, valid_for, chosen)
    reasons = [(hold.since, hold.run, hold.because) for row in rows.values() for hold in row.holds]
    reasons += [(jump.since, jump.run, jump.because) for row in rows.values() for jump in row.jumps if jump.since]
    for since, run, because in reasons:
        print_result(f"On hold since {since:%Y-%m-%d %H:%M} UTC (run {run}): {because}")
    where = f" in {', '.join(key.partition('/')[2] for key in chosen)}" if chosen else ""
    if not reasons:
        print_result(f"Nothing was on hold{where} in {label}.")
    print_result(
        f"Released until {release.valid_until:%Y-%m-%d %H:%M} UTC: every action{where} in {label} that was due by "
        f"{release.given_at:%Y-%m-%d %H:%M} UTC, including those at the end of office hours. Later actions are not released. Each resource is re-checked first."
    )
    if any(row.jumps for row in rows.values()):
        print_result("Where the idle share jumped, owners get a new notice first, and the full grace period.")
    standing = holds.standing_rows(ledger, now) if chosen else ()
    if others := ["what the whole run exceeds" if key == ALL_ACCOUNTS else key.partition("/")[2] for key in standing]:
        print_result(f"Still on hold: {', '.join(others)}. To release them, use --account or --all.")


def _released_accounts(typed: list[str] | None, every: bool, base: Settings) -> tuple[str, ...]:
    """The keys of the accounts to release; empty for all. Raises SettingsError."""
    if typed and every:
        raise SettingsError("--account and --all don't go together; drop one of the two")
    ids = settings.split_words(typed)
    if typed and not ids:
        raise SettingsError("--account '' is empty; use --all to release everything")
    if not typed and not every:
        ids = (*base.accounts, *base.subscriptions)
    keys = []
    for name in ids:
        cloud = "aws" if settings.ACCOUNT_ID.fits(name) else "azure"
        if cloud == "azure" and not settings.SUBSCRIPTION_ID.fits(name):
            raise SettingsError(f"--account {name!r}: expected 12 digits, or the ID of an Azure subscription")
        keys.append(account_key(Target(cloud=cloud, account=name)))
    return tuple(dict.fromkeys(keys))


def _restore_context(role_name: str | None, external_id: str | None) -> RestoreContext:
    from reaper.acting import manifest, restore

    base = settings.from_env(os.environ)
    base = replace(base, external_id=settings.EXTERNAL_ID.read_or(base.external_id, "--external-id", external_id))
    role = settings.ROLE_NAME.read_or(None, "--role-name", role_name)
    print_message(f"ledger: {ledger_label(base)}")
    return restore.RestoreContext(
        ledger=open_ledger_to_write(base),
        archive=manifest.open_archive(base.manifests, os.environ),
        open_session=session_opener(base, role),
        clock=current_time,
        by=current_user(),
        show=_print_named_parts,
    )


def _role_options(role_name: str | None, external_id: str | None) -> str:
    """What the same command needs again; an external ID is never printed."""
    role = f" --role-name {role_name}" if role_name else ""
    return f"{role} --external-id ID" if external_id else role


def _print_named_parts(restored: Manifest) -> None:
    """On stderr, before anything is created."""
    from reaper.acting import manifest

    for part in manifest.named_parts(restored):
        print_message(f"{restored.id} names the {part}")


def _print_result(result: RestoreResult) -> bool:
    """Returns whether everything came back."""
    undone = result.undone
    if undone is None:
        print_result(f"{result.id}: FAILED {result.error}")
        return False
    print_result(f"{result.id}: {undone.because}")
    for line in undone.not_restored:
        print_result(f"- {line}")
    if undone.run_again:
        print_result(f"Not finished. In a few minutes, run:\n  reaper restore {result.id}")
    return not undone.not_restored and not undone.run_again


LONGEST = timedelta(days=365)
"""The longest duration. A date may be later."""

ELSEWHERE = "Reports, manifests, logs and mails aren't changed. As long as a tag or the policy names this address, the next notice stores it again."


def pause_actions(
    until: Annotated[
        str | None, typer.Option("--until", help="ISO date or time, or a duration such as 3d. Default: until `reaper resume`")
    ] = None,
) -> None:
    """Turn on the stop switch: from now on nothing is stopped, deleted or started, not even by `apply`. Restore, undo and notices go on.

    Uses the deployment's ledger: set REAPER_LEDGER to the deployment's value.
    """
    now = current_time()
    end = _parse_end(until, now)
    ledger, address = _open_and_print_pause(now)
    stored = stop_switch.set_pause(ledger, Pause(until=end, by=current_user()), now)
    if stored is None or stored.unreadable_because or stored.until != end:
        raise CloudError(Reason.REFUSED, "pause", f"{address} doesn't have this pause; run the command again")
    print_result(f"{stop_switch.paused_sentence(stored)}\nLedger: {address}")


def resume_actions() -> None:
    """Turn off the stop switch. The next sweeps carry out what is due then.

    Uses the deployment's ledger: set REAPER_LEDGER to the deployment's value.
    """
    now = current_time()
    ledger, address = _open_and_print_pause(now)
    try:
        still = stop_switch.end_pause(ledger, current_user(), now)
    except CloudError as error:
        if error.reason is not Reason.UNREADABLE:
            raise
        advice = f"delete the ledger's row {stop_switch.PAUSE_ROW!r} by hand, then run the command again"
        raise error.reworded(f"the stop switch can't be read ({error}); {advice}") from error
    if still:
        raise CloudError(Reason.REFUSED, "resume", f"{address}: {stop_switch.paused_because(still)}; run the command again")
    print_result(f"The stop switch is off. The next sweeps carry out what is due.\nLedger: {address}")


def _open_and_print_pause(now: datetime) -> tuple[Ledger, str]:
    ledger, address = open_named_ledger(settings.from_env(os.environ))
    pause = stop_switch.read_pause(ledger, now)
    print_result(f"Before: {stop_switch.paused_because(pause) if pause else 'the stop switch is off'}.")
    return ledger, address


def _parse_end(text: str | None, now: datetime) -> datetime:
    """The end of the pause. A date ends when it is over everywhere on Earth, as in the tag `reaper:keep-until`. Raises SettingsError."""
    if text is None:
        return UNTIL_RESUMED
    is_length = re.fullmatch(r"[0-9]+[a-z]", text.strip())
    try:
        end = now + duration.parse_duration(text, LONGEST) if is_length else tags.parse_until(text.strip()).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        expected = "" if is_length else f", or {duration.EXPECTED_DURATION}"
        raise SettingsError(f"--until {text!r}: {error}{expected}") from error
    if end <= now:
        raise SettingsError(f"--until {text!r}: that is in the past")
    return end


def forget_person(
    address: Annotated[str, typer.Argument(help="Email address to remove", metavar="ADDRESS")],
) -> None:
    """Remove a person's address from the ledger. Exits with 3 if a row still has it; running the command again finishes.

    Uses the deployment's ledger and your own rights: set REAPER_LEDGER to the deployment's value.
    """
    from reaper.ledger import forget
    from reaper.notices.message import is_plain_address

    if not is_plain_address(address):
        raise SettingsError(f"{address!r}: expected one plain email address such as jo@example.com")
    ledger, label = open_named_ledger(settings.from_env(os.environ))
    changed = failed = 0
    for row in forget.forget_address(ledger, address):
        failed += bool(row.error)
        changed += not row.error
        line = f"{row.sort} {clean_line(row.id, 300)}: {', '.join(row.columns)}"
        print_result(f"{line}{f' NOT CHANGED: {clean_line(row.error, 300)}' if row.error else ''}")
    print_result(f"{count_noun(changed, 'row')} changed in {label}. {ELSEWHERE}")
    if failed:
        print_error(f"{count_noun(failed, 'row')} still {'has' if failed == 1 else 'have'} the address; run the command again")
        raise typer.Exit(3)
