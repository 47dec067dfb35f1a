"""Which clouds are in use, and who the reaper is there. Opens the sessions that the other subjects ask with."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace

from reaper import registry
from reaper.case import Coverage
from reaper.doctor.check import SIGN_IN, Check, missing_permission, ok, to_fix
from reaper.doctor.context import DoctorContext, Opened, advice_for, doctor_of
from reaper.errors import CloudError, Reason, SettingsError
from reaper.sessions import CloudSession, is_available, list_accounts, open_sessions
from reaper.settings import Settings
from reaper.text import count_noun, first_few

SETTING_ADVICE = "Correct the setting, option or profile that the line names."
ASSUME_ROLE = "sts:AssumeRole"
TARGET_ROLE_ADVICE = (
    "Check the target role there: its name, its trust policy, the external ID, and that the stack set reached these accounts."
)
UNKNOWN_ACCOUNT = "unknown"
"""The account in the row of a cloud that couldn't even be opened."""


def clouds_in_use(context: DoctorContext) -> tuple[list[str], list[Check]]:
    """The clouds that a sweep with these settings would sweep, and a line for each that it can't, or if there is none."""
    clouds, checks = [], []
    for cloud in registry.CLOUDS:
        wanted = context.kinds_of(cloud) and context.settings.cloud in {cloud, "all"}
        try:
            if wanted and is_available(context.settings, cloud, lambda text: None):
                clouds.append(cloud)
        except SettingsError as error:
            checks.append(to_fix(f"credentials.{cloud}", str(error), f"pip install 'ml-idle-reaper[{cloud}]'"))
    if not clouds and not checks:
        checks.append(to_fix("credentials", "no credentials were found for any cloud", SIGN_IN))
    return clouds, checks


def examine_credentials(context: DoctorContext, cloud: str, opened: Opened) -> Iterator[Check]:
    """Open the cloud's sessions and say who they are. What can't be opened is a line of its own."""
    name = f"credentials.{cloud}"
    settings = context.settings
    sessions, checks = _open(settings, cloud)
    if not sessions and "all" in settings.regions:
        # Perhaps only the list of regions can't be read. The other subjects are examined in the session's own region.
        sessions, _ = _open(replace(settings, regions=()), cloud)
    opened.sessions[cloud] = sessions
    yield from checks
    if sessions:
        try:
            yield ok(name, doctor_of(cloud).describe_caller([session.for_kind() for session in sessions], settings.role))
        except CloudError as error:
            yield to_fix(name, str(error), SIGN_IN, error.missing)
        yield ok(f"targets.{cloud}", _targets_text(sessions))
    if sessions and cloud == "aws" and settings.exclude_accounts:
        yield from _exclusion_checks(settings)


def _open(settings: Settings, cloud: str) -> tuple[list[CloudSession], list[Check]]:
    """The sessions, which can only read, and a line for what couldn't be opened; invalid settings are such a line, too."""
    try:
        sessions, rows = open_sessions(replace(settings, cloud=cloud), [cloud], lambda text: None)
    except SettingsError as error:
        missing = missing_permission(error)
        advice = _advice(cloud, missing, str(error), settings.role) if missing else SETTING_ADVICE
        return [], [to_fix(f"credentials.{cloud}", str(error), advice, missing)]
    return sessions, list(_failed_checks(cloud, rows, settings))


def _failed_checks(cloud: str, rows: Iterable[Coverage], settings: Settings) -> Iterator[Check]:
    """A line for the cloud itself if it couldn't be opened, and one for all accounts that failed for the same reason."""
    accounts: dict[tuple[str | None, str], set[str]] = defaultdict(set)
    for row in rows:
        accounts[row.missing, _without_account(row)].add(row.account)
    for (missing, text), names in accounts.items():
        role = settings.role if settings.role and settings.role.split(":")[4] in names else None
        advice = _advice(cloud, missing, text, role)
        if UNKNOWN_ACCOUNT in names:
            yield to_fix(f"credentials.{cloud}", text, advice, missing)
        else:
            because = f"{count_noun(len(names), 'account')} can't be swept ({first_few(sorted(names))}): {text}"
            yield to_fix(f"targets.{cloud}", because, advice, missing)


def _exclusion_checks(settings: Settings) -> Iterator[Check]:
    """A line about excluded accounts that wouldn't be swept anyway: with a typo in its ID, the account that was meant is swept."""
    known = {account.id for account in list_accounts(replace(settings, exclude_accounts=()), "aws")}
    if strangers := [account for account in settings.exclude_accounts if account not in known]:
        because = f"{first_few(strangers)} in REAPER_EXCLUDE_ACCOUNTS wouldn't be swept anyway, so it may be a typo"
        yield to_fix("targets.aws", because, "Correct the account ID, or remove it if the account has left.")


def _without_account(row: Coverage) -> str:
    """The error without the account's number, so that the same failure of many accounts is one line."""
    text = row.error or row.status.value
    return text if row.account == UNKNOWN_ACCOUNT else text.replace(row.account, "ACCOUNT")


def _advice(cloud: str, missing: str | None, text: str, role: str | None) -> str:
    """The command that grants what was refused, else how to get access. `role`: what a sweep assumes there, if not a target role."""
    if missing == ASSUME_ROLE and not role:
        return TARGET_ROLE_ADVICE
    error = CloudError(Reason.DENIED, missing or "", text, missing=missing)
    return advice_for(error, role or "" if missing == ASSUME_ROLE else "", registry.access_advice(cloud, missing))


def _targets_text(sessions: list[CloudSession]) -> str:
    """`4 accounts, 12 regions`, for people."""
    accounts = sorted({session.target.account for session in sessions})
    regions = sorted({session.target.region for session in sessions if session.target.region})
    places = f" in {count_noun(len(regions), 'region')} ({first_few(regions)})" if regions else ""
    noun = "account" if regions else "subscription"
    return f"{count_noun(len(accounts), noun)} to sweep ({first_few(accounts)}){places}"
