"""The deployment's ledger and sessions, as the commands that change something use them."""

from __future__ import annotations

import getpass
import os
from dataclasses import replace
from typing import TYPE_CHECKING

from reaper.cli.options import current_time
from reaper.errors import CloudError, Reason, SettingsError
from reaper.ledger import opening
from reaper.ledger.port import Ledger
from reaper.model import Target
from reaper.sessions import sessions_of
from reaper.settings import Settings

if TYPE_CHECKING:
    from reaper.sessions import CloudSession


def ledger_address(settings: Settings) -> str:
    """The address of the deployment's ledger, else of the user's own."""
    return settings.ledger or opening.default_address(os.environ)


def ledger_label(settings: Settings) -> str:
    """The address for people; it says if the ledger is only the user's own."""
    address = ledger_address(settings)
    return address if settings.ledger else f"{address} (your own: REAPER_LEDGER is not set)"


def open_ledger_to_write(settings: Settings) -> Ledger:
    """The ledger, marked with the format that this version writes."""
    ledger = opening.open_ledger(ledger_address(settings), os.environ)
    opening.ensure_format(ledger, current_time())
    return ledger


def open_named_ledger(settings: Settings) -> tuple[Ledger, str]:
    """The ledger that REAPER_LEDGER names, and its address. Raises SettingsError without one: your own ledger would change nothing."""
    if not settings.ledger or settings.ledger.startswith("memory:"):
        raise SettingsError(
            "this command changes a deployment's ledger; set REAPER_LEDGER to it, such as dynamodb://TABLE, table://ACCOUNT/TABLE or sqlite:///PATH"
        )
    return open_ledger_to_write(settings), settings.ledger


def open_session(settings: Settings, target: Target) -> CloudSession:
    """A session of that very target. Raises CloudError if the credentials in use belong to another one."""
    if target.cloud == "aws":
        chosen = replace(settings, cloud="aws", regions=(target.region or "",), accounts=(target.account,))
    else:
        chosen = replace(settings, cloud="azure", subscriptions=(target.account,))
    try:
        [session] = sessions_of(chosen, target.cloud)
    except SettingsError as error:
        raise CloudError(Reason.REFUSED, "restore", str(error)) from error
    return session


def current_user() -> str:
    """The name of the person at the command line, for the ledger's history."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "an unknown user at the command line"
