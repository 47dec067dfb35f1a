"""Which AWS accounts and regions there are to sweep, and a session for each.

Enabled regions: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeRegions.html
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

import boto3
from botocore.exceptions import BotoCoreError

from reaper.aws.session import CloudSession
from reaper.errors import CloudError, SettingsError
from reaper.model import Target

PERMISSIONS = ("sts:GetCallerIdentity", "ec2:DescribeRegions")


def target_sessions(regions: Sequence[str], accounts: Sequence[str], session: boto3.Session | None = None) -> list[CloudSession]:
    """One cloud per region: those asked for, every enabled one for `all`, or the session's own.

    Raises SettingsError for a region or account that can't be meant, CloudError where the identity can't be learned.
    """
    session = session or _default_session()
    every = "all" in regions
    names = [] if every else [_valid_region(session, region) for region in regions] or [_default_region(session)]
    start, account = _first_session_and_account(session, names or [session.region_name or "us-east-1"])
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
