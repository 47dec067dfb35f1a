"""The deployment's ledger and sessions, as the commands that change something use them."""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import cache
from typing import TYPE_CHECKING

from reaper.cli.options import current_time
from reaper.errors import CloudError, Reason, SettingsError
from reaper.ledger import opening
from reaper.ledger.port import Ledger
from reaper.model import Mode, Target
from reaper.scope.accounts import AccountScope
from reaper.sessions import list_accounts, open_account, session_of
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
    """The ledger that REAPER_LEDGER names, and its address.

    Raises SettingsError if it is unset, because the deployment doesn't read your own, and if it is a file that doesn't exist: no sweep reads a
    ledger that this command has just created.
    """
    if not settings.ledger or settings.ledger.startswith("memory:"):
        raise SettingsError(
            "this command changes a deployment's ledger; set REAPER_LEDGER to it, such as dynamodb://TABLE, table://ACCOUNT/TABLE or sqlite:///PATH"
        )
    opening.require_existing(settings.ledger)
    return open_ledger_to_write(settings), settings.ledger


def session_opener(settings: Settings, role_name: str | None) -> Callable[[Target], CloudSession]:
    """A function that opens a session of a target for restoring, once for each. `role_name`: what to assume in other AWS accounts.

    It raises CloudError if the credentials in use belong to another account and no role was named: the role of a sweep may not create anything.
    """
    chosen = replace(settings, mode=Mode.ENFORCE, role_name=role_name or settings.role_name)
    return cache(lambda target: _open_session(chosen, target, may_assume=role_name is not None))


def _open_session(settings: Settings, target: Target, *, may_assume: bool) -> CloudSession:
    try:
        [account] = list_accounts(_settings_of(settings, target), target.cloud)
        if not (account.is_own or may_assume):
            raise CloudError(Reason.REFUSED, "restore", _other_account_text(target.account))
        return session_of(target, *open_account(settings, account, may_act=True))
    except SettingsError as error:
        raise CloudError(Reason.REFUSED, "restore", str(error)) from error


def _settings_of(settings: Settings, target: Target) -> Settings:
    """Settings that name that very target."""
    if target.cloud == "azure":
        return replace(settings, cloud="azure", subscriptions=(target.account,), management_group=None)
    scope = AccountScope(accounts=(target.account,))
    return replace(settings, cloud="aws", regions=(target.region or "",), exclude_accounts=(), **asdict(scope))


def _other_account_text(account: str) -> str:
    return (
        f"it is in AWS account {account}, to which the current credentials don't belong; use that account's, or name a role in it with "
        "--role-name. The role of a sweep won't do, because it may not create anything"
    )


def current_user() -> str:
    """The name of the person at the command line, for the ledger's history."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "an unknown user at the command line"
