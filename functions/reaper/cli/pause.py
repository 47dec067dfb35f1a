"""`reaper pause` and `reaper resume`: the stop switch of a deployment. `reaper forget`: removes a person's address from its ledger."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from reaper import duration, settings
from reaper.cli.options import current_time
from reaper.cli.output import print_error, print_result
from reaper.cli.places import current_user, open_named_ledger
from reaper.errors import CloudError, Reason, SettingsError
from reaper.ledger.ledger import Ledger
from reaper.model import UNTIL_RESUMED, Pause
from reaper.pending import stop_switch
from reaper.policy import tags
from reaper.text import clean_line, count_noun

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
