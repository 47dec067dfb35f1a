"""The accounts to sweep by the settings, and a session for each account and region or subscription."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from importlib import import_module
from typing import Any, Protocol, Self

from reaper.case import Coverage
from reaper.coverage import UNKNOWN_ACCOUNT, unopened_rows
from reaper.errors import CloudError, ReaperError, Reason, SettingsError
from reaper.extras import install_command
from reaper.model import Account, Status, Target
from reaper.registry import kinds
from reaper.settings import Settings
from reaper.text import count_noun

MAX_OPENED_AT_ONCE = 8
"""Accounts that are opened at the same time; most of that time is spent waiting for a cloud."""


class CloudSession(Protocol):
    """One target as one kind sees it; both clouds have sessions of this shape. `metrics`: how many were requested, if the cloud bills each."""

    target: Target
    calls: Any
    metrics: int
    errors: list[CloudError]
    is_over: Callable[[], bool]

    def for_kind(self) -> Self:
        """The same target with fresh counters."""
        ...

    def without_cache(self) -> Self:
        """The same target with fresh counters and no cached replies, for the re-check."""
        ...

    def recheck_end(self, now: datetime) -> datetime:
        """The end of the metrics that the re-check reads."""
        ...


def list_all_accounts(
    settings: Settings, clouds: Sequence[str], progress: Callable[[str], None]
) -> tuple[list[Account], list[Coverage]]:
    """The accounts to sweep in all clouds, and a row for each cloud whose accounts couldn't be listed.

    A cloud that the settings don't name is skipped, with a message, if it has no credentials here. Raises SettingsError for a misspelled
    region, and if nothing is left to sweep.
    """
    accounts: list[Account] = []
    rows: list[Coverage] = []
    settings_errors: list[SettingsError] = []
    available: list[str] = []
    for name in clouds if settings.cloud == "all" else [c for c in clouds if c == settings.cloud]:
        try:
            available += [name] if is_available(settings, name, progress) else []
        except (CloudError, SettingsError) as error:
            settings_errors += [error] if isinstance(error, SettingsError) else []
            rows += _failure_rows(settings, Account(cloud=name, id=UNKNOWN_ACCOUNT), error)
    if "aws" in available:  # before any cloud is asked: what is misspelled would be missing from the report
        import_module("reaper.aws.targets").check_regions(settings.regions, progress)
    for name in available:
        try:
            accounts += list_accounts(settings, name)
        except (CloudError, SettingsError) as error:
            settings_errors += [error] if isinstance(error, SettingsError) else []
            rows += _failure_rows(settings, Account(cloud=name, id=UNKNOWN_ACCOUNT), error)
    # Wrong settings of one cloud don't prevent the sweep of the other, unless nothing else is left to sweep.
    if not accounts and settings_errors:
        raise SettingsError("\n".join(map(str, settings_errors)))
    if not accounts and not rows:
        raise SettingsError(
            "nothing to sweep: no credentials for any cloud; set up AWS or Azure credentials, or try `reaper demo`"
        )
    return accounts, rows


def list_accounts(settings: Settings, cloud: str) -> list[Account]:
    """The accounts to sweep in one cloud: AWS accounts or Azure subscriptions.

    Raises SettingsError if none is left, or if the organization or a unit of it can't be read, and CloudError if the credentials can't be used.
    """
    return list(import_module(f"reaper.{cloud}.targets").list_accounts(settings))


def open_accounts(
    settings: Settings, accounts: Sequence[Account], progress: Callable[[str], None], *, may_act: bool = False
) -> tuple[list[CloudSession], list[Coverage]]:
    """The sessions of these accounts, several accounts at a time, and the rows for what couldn't be opened. By default they can only read."""
    lock = threading.Lock()

    def open_one(account: Account) -> tuple[list[CloudSession], list[Coverage]]:
        try:
            opened = open_account(settings, account, may_act=may_act)
        except CloudError as error:  # of one cloud, which doesn't prevent the sweep of the other
            opened = [], _failure_rows(settings, account, error)
        if not account.is_own:
            where = f"{account.id} ({account.name})" if account.name else account.id
            status = f", {opened[1][0].status}" if opened[1] else ""
            with lock:
                progress(f"account {where}: {count_noun(len(opened[0]), 'region')}{status}")
        return opened

    with ThreadPoolExecutor(min(MAX_OPENED_AT_ONCE, max(1, len(accounts)))) as pool:
        parts = list(pool.map(open_one, accounts))
    return [session for sessions, _ in parts for session in sessions], [row for _, rows in parts for row in rows]


def open_account(settings: Settings, account: Account, *, may_act: bool) -> tuple[list[CloudSession], list[Coverage]]:
    """A session for each region of that account, and rows for what couldn't be opened.

    Unless `may_act`, the session of a role that is assumed for it can only read. Raises SettingsError if the credentials are missing or
    belong to another account.
    """
    sessions, rows = import_module(f"reaper.{account.cloud}.targets").open_account(settings, account, may_act=may_act)
    return list(sessions), list(rows)


def target_of(resource_id: str) -> Target | None:
    """The target of a resource by its ARN or ARM ID; None for anything else, such as a name."""
    if arn := re.fullmatch(r"arn:aws[a-z-]*:[a-z0-9-]+:([a-z0-9-]+):(\d{12}):.+", resource_id.strip().lower()):
        return Target(cloud="aws", account=arn[2], region=arn[1])
    if arm := re.match(r"/subscriptions/([0-9a-z-]+)/", resource_id.strip().lower()):
        return Target(cloud="azure", account=arm[1])
    return None


def session_of(target: Target, sessions: Iterable[CloudSession], rows: Sequence[Coverage]) -> CloudSession:
    """The session of that target among those that `open_account` returned. Raises CloudError if it couldn't be opened."""
    for session in sessions:
        if session.target == target:
            return session
    row = next((row for row in rows if row.region in {None, target.region}), None)
    if row is None:
        raise CloudError(Reason.REFUSED, "open", "there is no session for this target")
    reason = Reason.DENIED if row.status is Status.DENIED else Reason.REFUSED
    raise CloudError(reason, row.missing or "open", row.error or "", missing=row.missing)


def is_available(settings: Settings, cloud: str, progress: Callable[[str], None]) -> bool:
    """Whether a cloud can be swept from here. Raises SettingsError if the settings name it and its SDK isn't installed."""
    aws = (settings.regions, settings.accounts, settings.organization, settings.ous)
    is_named = settings.cloud == cloud or any(aws if cloud == "aws" else (settings.subscriptions, settings.management_group))
    try:
        import_module(f"reaper.{cloud}.targets")
    except ImportError as error:
        if is_named:
            raise SettingsError(f"{cloud} needs an extra: {install_command(cloud)} ({error})") from error
        progress(f"{cloud}: skipped, its SDK isn't installed")
        return False
    if settings.cloud == "all" and not is_named and not has_credentials(cloud):
        progress(f"{cloud}: skipped, no credentials found. Use --cloud {cloud} to make this an error")
        return False
    return True


def has_credentials(cloud: str) -> bool:
    """Whether there seems to be a way to sign in to a cloud whose SDK is installed. Makes no call."""
    return bool(import_module(f"reaper.{cloud}.targets").has_credentials())


def _failure_rows(settings: Settings, account: Account, error: ReaperError) -> list[Coverage]:
    """A row per kind for an account, or a whole cloud, that couldn't be opened."""
    names = [kind.name for kind in kinds(account.cloud) if not settings.kinds or kind.name in settings.kinds]
    return unopened_rows(account, names, error)
