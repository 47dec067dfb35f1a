"""`reaper forget`: removes a person's address from a deployment's ledger."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from reaper import settings
from reaper.cli.deployment import open_named_ledger
from reaper.cli.progress import print_error
from reaper.errors import SettingsError
from reaper.text import clean_line, count_noun

ELSEWHERE = "Reports, manifests, logs and mails aren't changed. As long as a tag or the policy names this address, the next notice stores it again."


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
        sys.stdout.write(f"{line}{f' NOT CHANGED: {clean_line(row.error, 300)}' if row.error else ''}\n")
    sys.stdout.write(f"{count_noun(changed, 'row')} changed in {label}. {ELSEWHERE}\n")
    if failed:
        print_error(f"{count_noun(failed, 'row')} still {'has' if failed == 1 else 'have'} the address; run the command again")
        raise typer.Exit(3)
