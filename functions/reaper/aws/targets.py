"""Which AWS accounts and regions there are to sweep, and a session for each.

Enabled regions: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeRegions.html
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

import boto3
from botocore.exceptions import BotoCoreError

from reaper.aws import assumed_role
from reaper.aws.session import CloudSession
from reaper.case import Coverage
from reaper.coverage import unopened_rows
from reaper.errors import CloudError, SettingsError
from reaper.model import Account, Target
from reaper.registry import kinds
from reaper.settings import Settings

PERMISSIONS = ("sts:GetCallerIdentity", "ec2:DescribeRegions")


def list_accounts(settings: Settings) -> list[Account]:
    """The accounts to sweep: the credentials' own. Raises SettingsError for a region or account that can't be meant, CloudError if the
    credentials can't be used.
    """
    session = _default_session()
    regions = settings.regions if "all" in settings.regions else _named_regions(session, settings.regions)
    own = _own_account(settings, session, regions)
    if settings.accounts and own not in settings.accounts:
        raise SettingsError(f"--account {', '.join(settings.accounts)}: the current credentials belong to {own}")
    return [Account(cloud="aws", id=own, regions=tuple(regions))]


def open_account(settings: Settings, account: Account, *, may_act: bool) -> tuple[list[CloudSession], list[Coverage]]:
    """A session for each region of that account, and rows for what couldn't be opened."""
    try:
        return target_sessions(account.regions, (account.id,), _own_session(settings, may_act=may_act)), []
    except CloudError as error:
        return [], unopened_rows(account, kind_names(settings), error)


def _own_account(settings: Settings, session: boto3.Session, regions: Sequence[str]) -> str:
    """The ID of the credentials' account, or of REAPER_ROLE's. Raises CloudError."""
    if settings.role:
        return settings.role.split(":")[4]
    return _first_session_and_account(session, [name for name in regions if name != "all"] or [_sts_region(session)])[1]


def kind_names(settings: Settings) -> list[str]:
    """The kinds of this cloud that the settings name."""
    return [kind.name for kind in kinds("aws") if not settings.kinds or kind.name in settings.kinds]


def _own_session(settings: Settings, *, may_act: bool) -> boto3.Session | None:
    """A session of the role to sweep the own account with, which can only read unless it may act. None: the credentials as they are."""
    return assumed_role.assume_role(settings.role, may_act, reading_permissions()) if settings.role else None


def reading_permissions() -> list[str]:
    """All that a sweep needs to read, whatever kinds it is for."""
    return sorted({action for kind in kinds("aws") for action in kind.permissions} | set(PERMISSIONS))


def target_sessions(regions: Sequence[str], accounts: Sequence[str], session: boto3.Session | None = None) -> list[CloudSession]:
    """One cloud per region: those asked for, every enabled one for `all`, or the session's own.

    Raises SettingsError for a region or account that can't be meant, CloudError where the identity can't be learned.
    """
    session = session or _default_session()
    every = "all" in regions
    names = [] if every else _named_regions(session, regions)
    start, account = _first_session_and_account(session, names or [_sts_region(session)])
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
    assert failed is not None
    raise failed


def has_credentials(session: boto3.Session | None = None) -> bool:
    """Whether boto3 finds any AWS credentials at all. No call is made to AWS."""
    try:
        return (session or _default_session()).get_credentials() is not None
    except BotoCoreError:
        return False


def _default_session() -> boto3.Session:
    try:
        return boto3.Session()
    except BotoCoreError as error:
        raise SettingsError(f"AWS: {error}") from error


def _named_regions(session: boto3.Session, regions: Sequence[str]) -> list[str]:
    """The regions asked for, else the session's own. Raises SettingsError for one that there isn't."""
    return [_valid_region(session, region) for region in regions] or [_default_region(session)]


def _sts_region(session: boto3.Session) -> str:
    return session.region_name or "us-east-1"


def _default_region(session: boto3.Session) -> str:
    if not session.region_name:
        raise SettingsError("no AWS region: set REAPER_REGIONS or AWS_REGION, or use --region")
    return session.region_name


def _valid_region(session: boto3.Session, region: str) -> str:
    known = [r for p in session.get_available_partitions() for r in session.get_available_regions("sagemaker", partition_name=p)]
    if region not in known:
        near = get_close_matches(region.lower(), known, n=1, cutoff=0.6)
        raise SettingsError(f"unknown region {region!r}" + (f"; did you mean {near[0]}?" if near else ""))
    return region


def _enabled_regions(session: boto3.Session, start: CloudSession) -> list[str]:
    rows = start.call("ec2", "DescribeRegions", "Regions", AllRegions=False)["Regions"]
    supported = set(session.get_available_regions("sagemaker", partition_name=start.partition))
    return sorted(supported & {row["RegionName"] for row in rows})
