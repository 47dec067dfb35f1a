"""Which AWS accounts and regions there are to sweep, and a session for each, through a role if one is named.

Enabled regions: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeRegions.html
A session policy can only take away: https://docs.aws.amazon.com/IAM/latest/UserGuide/access_policies.html#policies_session"""

from __future__ import annotations

import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import boto3
from botocore.credentials import DeferredRefreshableCredentials
from botocore.exceptions import BotoCoreError

from reaper.aws.session import CloudSession, loading_errors, new_session
from reaper.case import Coverage
from reaper.coverage import unopened_rows
from reaper.errors import NO_SIGN_IN, ODD_REPLY_ERRORS, CloudError, Reason, SettingsError
from reaper.model import Account, Target
from reaper.registry import kinds
from reaper.settings import Settings
from reaper.text import did_you_mean, shorten

ORGANIZATION_PERMISSIONS = (
    "organizations:ListAccounts",
    "organizations:ListAccountsForParent",
    "organizations:ListOrganizationalUnitsForParent",
)
RATES = {"ListAccounts": (8, 12), "ListAccountsForParent": (5, 8), "ListOrganizationalUnitsForParent": (5, 8)}
"""Calls a second, and calls at once."""


def _paced() -> Callable[..., None]:
    """Called by the SDK before every call, it spaces them out, so that other tools of the organization aren't throttled."""
    calls: Counter[str] = Counter()
    lock = threading.Lock()

    def wait(model: Any, **_: Any) -> None:
        per_second, at_once = RATES.get(model.name, (1, 2))
        with lock:
            calls[model.name] += 1
            if calls[model.name] > at_once:
                time.sleep(1 / per_second)

    return wait


def list_members(session: boto3.Session, units: Sequence[str], region: str) -> list[Account]:
    """The active accounts of the whole organization or of these units, by ID. Raises SettingsError if it can't be read."""
    session.events.register("before-call.organizations", _paced())
    cloud = CloudSession(session, Target(cloud="aws", account="unknown", region=region))
    rows: dict[str, Mapping[str, Any]] = {}
    try:
        for unit in units:
            rows |= {row["Id"]: row for row in _rows_below(cloud, unit)}
        if not units:
            rows = {row["Id"]: row for row in cloud.paged_rows("organizations", "ListAccounts", "Accounts", "Id", "Arn")}
        active = [row for _, row in sorted(rows.items()) if _state(row) == "ACTIVE"]
    except CloudError as error:
        raise _unreadable(error) from error
    return [
        Account(
            cloud="aws",
            id=row["Id"],
            name=name if isinstance(name := row.get("Name"), str) and name else None,
            is_management=row["Arn"].split(":")[4:5] == [row["Id"]],  # arn:aws:organizations::MANAGEMENT:account/o-…/ID
        )
        for row in active
    ]


def _rows_below(cloud: CloudSession, unit: str) -> Iterator[Mapping[str, Any]]:
    """The accounts of a unit and of all units nested in it."""
    waiting, known = [unit], {unit}
    while waiting:
        parent = waiting.pop()
        try:
            yield from cloud.paged_rows("organizations", "ListAccountsForParent", "Accounts", "Id", "Arn", ParentId=parent)
            below = ("organizations", "ListOrganizationalUnitsForParent", "OrganizationalUnits")
            nested = list(cloud.paged_rows(*below, "Id", ParentId=parent))
        except CloudError as error:
            if error.code == "ParentNotFoundException" and parent == unit:
                raise SettingsError(
                    f"--ou {unit}: the organization has no such unit; `aws organizations list-organizational-units-for-parent` lists them"
                ) from error
            raise
        new = [row["Id"] for row in nested if row["Id"] not in known]
        known.update(new)
        waiting += new


def _state(row: Mapping[str, Any]) -> str:
    """`State`, or `Status`, which it replaced. Raises CloudError for a row with neither: its account would be left out silently."""
    state = row.get("State") or row.get("Status")
    if not isinstance(state, str):
        raise CloudError(Reason.UNREADABLE, "organizations:ListAccounts", f"account {row['Id']} has neither State nor Status")
    return state


def _unreadable(error: CloudError) -> SettingsError:
    if error.code == "AWSOrganizationsNotInUseException":
        return SettingsError(
            "--organization: the current credentials' account isn't in an organization; name the accounts with --account"
        )
    remedy = f", and allow {error.missing}" if error.missing else ""
    return SettingsError(
        f"the organization can't be read, so nothing was swept: {error}. Use credentials of its management account or of a delegated "
        f"administrator{remedy}; or name the accounts with --account"
    )


PERMISSIONS = ("sts:GetCallerIdentity", "ec2:DescribeRegions")
DEFAULT_REGIONS = {"aws": "us-east-1", "aws-cn": "cn-north-1", "aws-us-gov": "us-gov-west-1"}
"""By partition, the region that no account can disable."""
ROLE_SESSION_NAME = "ml-idle-reaper"
REGION_NAME = re.compile(r"[a-z]+(-[a-z]+)+-[1-9]")
MAX_POLICY_CHARS = 2048
"""Characters of a session policy, which must be plain text."""


def list_accounts(settings: Settings) -> list[Account]:
    """The accounts to sweep, the credentials' own among them if it is meant. Each has the regions to sweep, or `all`.

    Raises SettingsError for a misspelled region, for an account that can't be meant, if the organization can't be read, or if no account is left, and
    CloudError if the credentials can't be used.
    """
    session, scope = new_session(), settings.account_scope
    regions = ["all"] if "all" in settings.regions else _named_regions(session, settings.regions)
    asked = regions if "all" not in regions else [_start_region(session, regions)]
    own = settings.role.split(":")[4] if settings.role else _first_session_and_account(session, asked)[1]
    if scope.organization or scope.ous:
        members = list_members(session, scope.ous, _start_region(session, regions))
        if foreign := [account for account in scope.accounts if account not in {member.id for member in members}]:
            raise SettingsError(f"accounts: {foreign[0]} isn't an active account of what this deployment sweeps")
        members = [member for member in members if member.id in scope.accounts] if scope.accounts else members
    else:
        members = [Account(cloud="aws", id=account) for account in scope.accounts or (own,)]
    if scope.only_own_account:
        members = [member for member in members if member.id == own]
        if not members or {*scope.accounts} - {own}:
            raise SettingsError(f"accounts: this deployment sweeps only its own account, {own}; a call can only narrow that")
    left = [member for member in members if member.id not in settings.exclude_accounts]
    if not left:
        excluded = f" that isn't excluded ({', '.join(settings.exclude_accounts)})" if settings.exclude_accounts else ""
        raise SettingsError(f"no AWS account to sweep: REAPER_ACCOUNTS, --account, --organization and --ou name none{excluded}")
    return [replace(member, regions=tuple(regions), is_own=member.id == own) for member in left]


def open_account(settings: Settings, account: Account, *, may_act: bool) -> tuple[list[CloudSession], list[Coverage]]:
    """A session for each region of that account, and rows for what couldn't be opened. Unless `may_act`, a role's session can only read.

    Raises SettingsError if the credentials are missing, or belong to another account than their own.
    """
    try:
        if account.is_own:
            own = assume_role(settings.role, may_act, reading_permissions()) if settings.role else None
            sessions = target_sessions(account.regions, (account.id,), own)
        else:
            sessions = _assumed_sessions(settings, account, may_act=may_act)
        enabled = _checked_regions(account, sessions)
    except CloudError as error:
        # A single row for a management account without the role.
        kinds = ["*"] if account.is_management and error.missing == "sts:AssumeRole" else kind_names(settings)
        return [], unopened_rows(account, kinds, error)
    for session in sessions:
        session.target = replace(session.target, account_name=account.name)
    rows = []
    for region in (session.region for session in sessions if session.region not in enabled):
        text = f"{region} isn't enabled in account {account.id}; enable it there, or leave it out of --region and REAPER_REGIONS"
        not_enabled = CloudError(Reason.REFUSED, PERMISSIONS[1], text)
        rows += unopened_rows(account, kind_names(settings), not_enabled, region)
    return [session for session in sessions if session.region in enabled], rows


def kind_names(settings: Settings) -> list[str]:
    """The kinds of this cloud that the settings name."""
    return [kind.name for kind in kinds("aws") if not settings.kinds or kind.name in settings.kinds]


def _assumed_sessions(settings: Settings, account: Account, *, may_act: bool) -> list[CloudSession]:
    """A session for each region of another account, through its target role. Raises CloudError if the role can't be assumed, or if its
    regions can't be listed and all of them are wanted.
    """
    base = new_session()
    region = _start_region(base, account.regions)
    arn = f"arn:{base.get_partition_for_region(region)}:iam::{account.id}:role/{settings.role_name}"
    session = assume_role(arn, may_act, reading_permissions(), settings.external_id, region)
    start = CloudSession(session, Target(cloud="aws", account=account.id, region=region))
    inner: Any = session.get_credentials()
    error = start.attempt("sts:AssumeRole", inner.get_frozen_credentials)
    if isinstance(error, CloudError):
        raise error.reworded(_not_assumed_text(account, arn, error)) from error
    names = account.regions if "all" not in account.regions else _all_regions(session, start)
    return [CloudSession(session, Target(cloud="aws", account=account.id, region=name)) for name in names]


def _not_assumed_text(account: Account, arn: str, error: CloudError) -> str:
    """What to do about a role that can't be assumed, and what AWS said."""
    said = str(error).removeprefix(f"{error.operation}: ")
    if error.reason is not Reason.DENIED:
        return f"{arn} couldn't be assumed: {said}"
    if account.is_management:
        return (
            f"this is the management account, in which stack sets create no role: deploy infra/aws/target-role.yaml there as a stack of "
            f"its own, or leave the account out with --exclude-account {account.id} ({said})"
        )
    return (
        "create the role there (infra/aws/target-role.yaml), or compare its trust policy and external ID with the role that assumes it and "
        f"--external-id; or leave the account out with --exclude-account {account.id} ({said})"
    )


def _checked_regions(account: Account, sessions: Sequence[CloudSession]) -> set[str]:
    """Which of the sessions' regions the account has enabled. If that can't be read, all of them: each kind then reports what it can't read."""
    names = {session.region for session in sessions}
    if "all" in account.regions or (account.is_own and len(names) == 1):
        return names
    for session in sessions:
        try:
            return names & _region_names(session)
        except CloudError:
            continue
    return names


def reading_permissions() -> list[str]:
    """All that a sweep needs to read, whatever kinds it is for."""
    return sorted({action for kind in kinds("aws") for action in kind.permissions} | set(PERMISSIONS))


def target_sessions(regions: Sequence[str], accounts: Sequence[str], session: boto3.Session | None = None) -> list[CloudSession]:
    """One cloud per region: those asked for, every enabled one for `all`, or the session's own.

    Raises SettingsError for a misspelled region and an account that can't be meant, CloudError where the identity can't be learned.
    """
    session = session or new_session()
    every = "all" in regions
    names = [] if every else _named_regions(session, regions)
    start, account = _first_session_and_account(session, names or [_start_region(session, ())])
    if accounts and account not in accounts:
        raise SettingsError(f"--account {', '.join(accounts)}: the current credentials belong to {account}")
    names = _enabled_regions(session, start) if every else names
    return [CloudSession(session, Target(cloud="aws", account=account, region=name)) for name in names]


def _first_session_and_account(session: boto3.Session, names: Sequence[str]) -> tuple[CloudSession, str]:
    """The account, asked in the first region that answers: one that is not enabled here must not hide the others."""
    failed: CloudError | None = None
    for name in names:
        start = CloudSession(session, Target(cloud="aws", account="unknown", region=name))
        try:
            return start, str(start.call("sts", "GetCallerIdentity", "Account")["Account"])
        except CloudError as error:
            failed = failed or error
            if error.code == NO_SIGN_IN:
                break
    assert failed is not None
    raise failed


def has_credentials() -> bool:
    """Whether there are any AWS credentials at all, also broken ones, which a sweep reports. No call is made to AWS."""
    try:
        return new_session().get_credentials() is not None
    except (CloudError, BotoCoreError, *ODD_REPLY_ERRORS):
        return True


def _named_regions(session: boto3.Session, regions: Sequence[str]) -> list[str]:
    """The regions asked for, else the session's own. Raises SettingsError for a misspelled one."""
    names = list(regions) or ([session.region_name] if session.region_name else [])
    if not names:
        raise SettingsError("no AWS region: set REAPER_REGIONS or AWS_REGION, or use --region")
    known = known_regions(session)
    for name in names:
        _require_plausible(name, known)
    return names


def check_regions(regions: Sequence[str], progress: Callable[[str], None]) -> None:
    """Tell of regions that the SDK doesn't know. Makes no call to AWS. Raises SettingsError for a misspelled one."""
    try:
        session = new_session()
    except CloudError:  # which `list_accounts` raises, too
        return
    if "all" not in regions and (regions or session.region_name):
        for name in {*_named_regions(session, regions)} - {*known_regions(session)}:
            progress(f"aws: {name} isn't a region that this version knows. It is asked all the same")


def _require_plausible(region: str, known: Sequence[str]) -> None:
    """Raises SettingsError for a region that isn't spelled like one, or almost like a known one.

    A new number, as in `eu-west-9`, and a new country are plausible: AWS adds regions faster than the SDK is updated here.
    """
    country, is_spelled = region.partition("-")[0], REGION_NAME.fullmatch(region) is not None
    if is_spelled and any(name[:-1] == region[:-1] for name in known):
        return
    compared = [name for name in known if name.startswith(f"{country}-")] if is_spelled and len(country) == 2 else known
    near = did_you_mean(region, compared, 0.85 if is_spelled else 0.6)
    if near or not is_spelled:
        raise SettingsError(f"unknown AWS region {shorten(region)}{near or '; use a name such as us-east-1, or all'}")


def _start_region(session: boto3.Session, regions: Sequence[str]) -> str:
    """Where to ask what isn't about a region: in the session's own, else the first that is named."""
    return session.region_name or next((name for name in regions if name != "all"), DEFAULT_REGIONS["aws"])


def known_regions(session: boto3.Session | None = None, partition: str | None = None) -> list[str]:
    """The regions in which the SDK knows the service of any kind, of one partition or of all. No call is made to AWS."""
    session = session or new_session()
    services = dict.fromkeys(kind.permissions[0].partition(":")[0] for kind in kinds("aws"))
    partitions = [partition] if partition else session.get_available_partitions()
    names = (r for p in partitions for s in services for r in session.get_available_regions(s, partition_name=p))
    return list(dict.fromkeys(names))


def _all_regions(session: boto3.Session, start: CloudSession) -> list[str]:
    """The enabled regions of another account, asked where `start` is, else in the one that no account can disable. Raises CloudError."""
    last = DEFAULT_REGIONS.get(start.partition, start.region)
    try:
        return _enabled_regions(session, start)
    except CloudError:
        if start.region == last:
            raise
        return _enabled_regions(session, CloudSession(session, replace(start.target, region=last)))


def _enabled_regions(session: boto3.Session, start: CloudSession) -> list[str]:
    names = sorted({*known_regions(session, start.partition)} & _region_names(start))
    if not names:  # or the account would vanish from the report
        raise CloudError(Reason.UNREADABLE, "ec2:DescribeRegions", "the reply has no region in which there is SageMaker")
    return names


def _region_names(start: CloudSession) -> set[str]:
    return {row["RegionName"] for row in start.paged_rows("ec2", "DescribeRegions", "Regions", "RegionName", AllRegions=False)}


def assume_role(
    role_arn: str, may_act: bool, actions: Sequence[str], external_id: str | None = None, region: str | None = None
) -> boto3.Session:
    """A session as that role, whose credentials are fetched on first use and renewed before they end. A failure to do so is a CloudError.

    Unless the session may act, its rights are cut down to exactly `actions`, which only read. `region`: where to ask for the credentials,
    by default the own region. Those of the global endpoint don't work everywhere. Raises SettingsError without credentials to assume the
    role with, or if the list of actions is too long to be sent.
    """
    request: dict[str, Any] = {"RoleArn": role_arn, "RoleSessionName": ROLE_SESSION_NAME}
    if not may_act:
        request["Policy"] = session_policy(actions)
    if external_id:
        request["ExternalId"] = external_id
    assumed, known = new_session(), new_session()
    with loading_errors("sts:AssumeRole"):
        credentials = known.get_credentials()
    if credentials is None:
        raise SettingsError(f"{role_arn}: no AWS credentials to assume this role with")
    place = Target(cloud="aws", account=role_arn.split(":")[4], region=region or known.region_name or DEFAULT_REGIONS["aws"])
    cloud = CloudSession(known, place)

    def fetch() -> dict[str, str]:
        """New credentials, as the SDK keeps them. Raises CloudError."""
        made = cloud.call("sts", "AssumeRole", "Credentials", **request)["Credentials"]
        names = {"access_key": "AccessKeyId", "secret_key": "SecretAccessKey", "token": "SessionToken"}
        return {key: made[name] for key, name in names.items()} | {"expiry_time": made["Expiration"].isoformat()}

    inner: Any = assumed._session
    inner._credentials = DeferredRefreshableCredentials(method="assume-role", refresh_using=fetch)
    return assumed


def session_policy(actions: Sequence[str]) -> str:
    """The session policy that allows these actions everywhere, and so none but these. Raises SettingsError when it is too long."""
    allowed = {"Effect": "Allow", "Action": sorted(set(actions)), "Resource": "*"}
    text = json.dumps({"Version": "2012-10-17", "Statement": [allowed]}, separators=(",", ":"))
    if len(text) > MAX_POLICY_CHARS:
        raise SettingsError(
            f"the policy for the session of a role has {len(text)} characters; AWS takes {MAX_POLICY_CHARS} at most"
        )
    return text
