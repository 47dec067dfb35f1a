"""Which clouds are in use, who the reaper is there, what it may do, and whether this machine's clock is right.

AWS refuses requests that are signed more than 15 minutes off; idle periods and dates of actions are computed from this clock:
https://docs.aws.amazon.com/IAM/latest/UserGuide/signing-troubleshooting.html
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from email.utils import parsedate_to_datetime

from reaper import registry
from reaper.case import Coverage
from reaper.coverage import UNKNOWN_ACCOUNT
from reaper.doctor import check
from reaper.doctor.check import Check, DoctorContext, doctor_of, ok, rights_checks, sign_in_advice, to_fix, unknown
from reaper.duration import format_duration
from reaper.errors import NO_SIGN_IN, CloudError, Reason, SettingsError
from reaper.extras import install_command
from reaper.model import ACTIONS, Ceiling, StepName
from reaper.policy.file import PolicySource
from reaper.sessions import CloudSession, has_credentials, is_available, list_accounts, list_all_accounts, open_accounts
from reaper.settings import Settings
from reaper.text import count_noun, first_few

MAX_ACCOUNTS = 20
"""Accounts whose permissions are asked for. All have the same roles."""
MAX_SKEW = timedelta(minutes=5)
SETTING_ADVICE = "Correct the setting, option or profile that the line names."
ASSUME_ROLE = "sts:AssumeRole"
TARGET_ROLE_ADVICE = (
    "Check the target role there: its name, its trust policy, the external ID, and that the stack set reached these accounts."
)


def clouds_in_use(context: DoctorContext) -> tuple[list[str], list[Check]]:
    """The clouds that a sweep with these settings would sweep, and a line for each that it can't, or if there is none."""
    clouds, checks = [], []
    for cloud in registry.CLOUDS:
        wanted = context.kinds_of(cloud) and context.settings.cloud in {cloud, "all"}
        try:
            if wanted and is_available(context.settings, cloud, lambda text: None):
                clouds.append(cloud)
        except SettingsError as error:
            checks.append(to_fix(f"credentials.{cloud}", str(error), install_command(cloud)))
    if not clouds and not checks:
        checks.append(to_fix("credentials", "no credentials were found for any cloud", check.SIGN_IN))
    return clouds, checks


def examine_credentials(context: DoctorContext, cloud: str) -> Iterator[Check]:
    """Open the cloud's sessions and say who they are. What can't be opened is a line of its own."""
    settings, name = context.settings, f"credentials.{cloud}"
    sessions, checks = _open(settings, cloud)
    if not sessions and "all" in settings.regions:
        # Perhaps only the list of regions can't be read. The other subjects are examined in the session's own region.
        sessions, _ = _open(replace(settings, regions=()), cloud)
    context.opened.sessions[cloud] = sessions
    yield from checks
    if not sessions:
        return
    try:
        yield ok(name, doctor_of(cloud).describe_caller([session.for_kind() for session in sessions], settings.role))
    except CloudError as error:
        yield to_fix(name, str(error), sign_in_advice(str(error)), error.missing)
    accounts = sorted({session.target.account for session in sessions})
    regions = sorted({session.target.region for session in sessions if session.target.region})
    places = f" in {count_noun(len(regions), 'region')} ({first_few(regions)})" if regions else ""
    swept = count_noun(len(accounts), "account" if regions else "subscription")
    yield ok(f"targets.{cloud}", f"{swept} to sweep ({first_few(accounts)}){places}")
    if cloud == "aws" and settings.exclude_accounts:
        # With a typo in its ID, the account that was meant is swept.
        known = {account.id for account in list_accounts(replace(settings, exclude_accounts=()), "aws")}
        if strangers := [account for account in settings.exclude_accounts if account not in known]:
            because = f"{first_few(strangers)} in REAPER_EXCLUDE_ACCOUNTS wouldn't be swept anyway, so it may be a typo"
            yield to_fix("targets.aws", because, "Correct the account ID, or remove it if the account has left.")


def _open(settings: Settings, cloud: str) -> tuple[list[CloudSession], list[Check]]:
    """The sessions, which can only read, and a line for what couldn't be opened; invalid settings are such a line, too."""
    own = replace(settings, cloud=cloud)
    try:
        accounts, unlisted = list_all_accounts(own, [cloud], lambda text: None)
        sessions, unopened = open_accounts(own, accounts, lambda text: None)
    except SettingsError as error:
        missing = check.missing_permission(error)
        advice = _advice(cloud, missing, str(error), settings.role) if missing else SETTING_ADVICE
        return [], [to_fix(f"credentials.{cloud}", str(error), advice, missing)]
    return sessions, list(_failed_checks(cloud, [*unlisted, *unopened], settings))


def _failed_checks(cloud: str, rows: Iterable[Coverage], settings: Settings) -> Iterator[Check]:
    """A line for the cloud itself if it couldn't be opened, and one for all accounts that failed for the same reason."""
    accounts: dict[tuple[str | None, str], set[str]] = defaultdict(set)
    for row in rows:
        text = row.error or row.status.value
        accounts[row.missing, text if row.account == UNKNOWN_ACCOUNT else text.replace(row.account, "ACCOUNT")].add(row.account)
    for (missing, text), names in accounts.items():
        role = settings.role if settings.role and settings.role.split(":")[4] in names else None
        advice = _advice(cloud, missing, text, role)
        if UNKNOWN_ACCOUNT in names:
            found = missing is not None or has_credentials(cloud)
            yield to_fix(f"credentials.{cloud}", text, sign_in_advice(text, advice if found else None), missing)
        else:
            because = f"{count_noun(len(names), 'account')} can't be swept ({first_few(sorted(names))}): {text}"
            yield to_fix(f"targets.{cloud}", because, sign_in_advice(text, advice), missing)


def _advice(cloud: str, missing: str | None, text: str, role: str | None) -> str:
    """The command that grants what was refused, else how to get access. `role`: what a sweep assumes there, if not a target role."""
    if missing == ASSUME_ROLE and not role:
        return TARGET_ROLE_ADVICE
    error = CloudError(Reason.DENIED, missing or "", text, missing=missing)
    return check.advice_for(error, role or "" if missing == ASSUME_ROLE else "", registry.access_advice(cloud, missing))


def examine_reading(context: DoctorContext, cloud: str) -> Iterator[Check]:
    """Ask for a little of everything that a sweep reads. Metrics are `examine_metrics`."""
    doctor, sessions = doctor_of(cloud), context.opened.sessions[cloud]
    needed = sorted(context.reading_permissions(cloud) - set(doctor.METRIC_PERMISSIONS))
    rights = [right for session in _one_per_account(sessions) for right in doctor.reading_rights(session.for_kind(), needed)]
    yield from rights_checks(f"reading.{cloud}", rights, "reading")
    unasked = len({session.target.account for session in sessions}) - MAX_ACCOUNTS
    if unasked > 0:
        because = f"the permissions in {count_noun(unasked, 'more account')} weren't asked for, only in the first {MAX_ACCOUNTS}"
        yield unknown(f"reading.{cloud}", because, "The coverage of a sweep names what is missing in each account.")


def examine_metrics(context: DoctorContext, cloud: str) -> Iterator[Check]:
    """Ask for metrics as a sweep does: in every region of the first account, and in one region of the others."""
    doctor, sessions = doctor_of(cloud), context.opened.sessions[cloud]
    if set(doctor.METRIC_PERMISSIONS) & context.reading_permissions(cloud):
        first = [session for session in sessions if session.target.account == sessions[0].target.account]
        asked = [*first, *_one_per_account(sessions)[1:]]
        rights = [right for session in asked for right in doctor.metric_rights(session.for_kind(), context.clock())]
        yield from rights_checks(f"metrics.{cloud}", rights, "reading metrics")


def examine_acting(context: DoctorContext, cloud: str) -> Iterator[Check]:
    """Ask whether the actions of mode enforce would be allowed, those that the policy can lead to. Nothing is tried."""
    possible, name = _possible_actions(context.opened.policy), f"acting.{cloud}"
    if not context.settings.mode.acts:
        yield ok(name, f"mode {context.settings.mode} needs no permission to act")
    elif not possible:
        yield ok(name, "the policy allows no stop and no delete, so a sweep needs no permission to act")
    else:
        specs = [spec for kind in context.kinds_of(cloud) for action, spec in kind.actions.items() if action in possible]
        rights = _acting_rights(context, cloud, {name for spec in specs for name in spec.permissions})
        yield from rights_checks(name, rights, "acting")


def examine_undoing(context: DoctorContext, cloud: str) -> Iterator[Check]:
    """With --undo, ask whether this identity could restore what was stopped or deleted. Nothing is tried."""
    if not context.includes_undo:
        return
    kinds = [kind for kind in context.kinds_of(cloud) if kind.actions]
    needed = {permission for kind in kinds for permission in registry.action_functions(kind.name).undo_permissions}
    yield from rights_checks(f"undoing.{cloud}", _acting_rights(context, cloud, needed), "undoing")


def _acting_rights(context: DoctorContext, cloud: str, needed: set[str]) -> list[Check]:
    """What is needed besides reading."""
    permissions, ask = sorted(needed - context.reading_permissions(cloud)), doctor_of(cloud).acting_rights
    sessions = _one_per_account(context.opened.sessions[cloud])
    return [right for session in sessions for right in ask(session.for_kind(), permissions, context.settings.role)]


def _possible_actions(source: PolicySource | None) -> Collection[StepName]:
    """The actions that a rule can lead to. Tags allow no more, and what is stopped may have to be started, because a tag may name hours."""
    if not source:
        return ACTIONS
    defaults, rules = source.policy.defaults, source.policy.rules
    ceilings = {defaults.action, *(rule.action for rule in rules)}
    if Ceiling.DELETE in ceilings or defaults.then or any(rule.then for rule in rules):
        return ACTIONS
    return {StepName.STOP, StepName.START} if Ceiling.STOP in ceilings else ()


def _one_per_account(sessions: Sequence[CloudSession]) -> list[CloudSession]:
    """The first session of each account, at most MAX_ACCOUNTS."""
    by_account: dict[str, CloudSession] = {}
    for session in sessions:
        by_account.setdefault(session.target.account, session)
    return list(by_account.values())[:MAX_ACCOUNTS]


def examine_workflow(context: DoctorContext) -> Iterator[Check]:
    """Whether the workflow that sweeps several accounts can be started and asked about, if the function starts one."""
    if context.settings.workflow:
        rights = doctor_of("aws").workflow_rights(context.settings.workflow)
        yield from rights_checks("workflow", rights, "the workflow")


def examine_clock(context: DoctorContext, cloud: str) -> Iterator[Check]:
    """Compare this machine's clock with the cloud's. Replies are dated to the second and take time, so a few seconds mean nothing."""
    name = f"clock.{cloud}"
    try:
        date = doctor_of(cloud).reply_date()
    except CloudError as error:
        if error.code != NO_SIGN_IN:  # `credentials` says that already
            yield unknown(name, str(error), check.unasked_advice(error))
        return
    skew = context.clock() - parsedate_to_datetime(date) if date else None
    if skew is None:
        yield unknown(name, "the reply had no date")
    elif abs(skew) <= MAX_SKEW:
        yield ok(name, "this clock and the cloud's agree")
    else:
        because = f"this clock is {format_duration(abs(skew))} {'ahead of' if skew > timedelta(0) else 'behind'} the cloud's"
        yield to_fix(name, because, "sudo timedatectl set-ntp true")
