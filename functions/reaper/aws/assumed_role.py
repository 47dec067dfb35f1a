"""The role that a sweep assumes, limited by a session policy to what the mode needs.

A session policy can only take away: https://docs.aws.amazon.com/IAM/latest/UserGuide/access_policies.html#policies_session
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import boto3
from botocore.credentials import AssumeRoleCredentialFetcher, DeferredRefreshableCredentials
from botocore.exceptions import BotoCoreError
from botocore.session import get_session

from reaper.errors import SettingsError

ROLE_SESSION_NAME = "ml-idle-reaper"
MAX_POLICY_CHARS = 2048
"""Characters of a session policy, which must be plain text."""


def assume_role(role_arn: str, may_act: bool, actions: Sequence[str]) -> boto3.Session:
    """A session as that role, whose credentials are fetched on first use and renewed before they end.

    Unless the mode may act, its rights are cut down to exactly `actions`, which only read. Raises SettingsError without credentials to
    assume the role with, or if the list of actions is too long to be sent.
    """
    extra_args: dict[str, Any] = {"RoleSessionName": ROLE_SESSION_NAME}
    if not may_act:
        extra_args["Policy"] = session_policy(actions)
    own, known = get_session(), boto3.Session()
    source = known.get_credentials()
    if source is None:
        raise SettingsError(f"REAPER_ROLE={role_arn}: no AWS credentials to assume this role with")
    fetcher = AssumeRoleCredentialFetcher(known._session.create_client, source, role_arn, extra_args=extra_args)
    try:
        own._credentials = DeferredRefreshableCredentials(method="assume-role", refresh_using=fetcher.fetch_credentials)  # type: ignore[attr-defined]
        return boto3.Session(botocore_session=own, region_name=known.region_name)
    except BotoCoreError as error:
        raise SettingsError(f"REAPER_ROLE={role_arn}: {error}") from error


def session_policy(actions: Sequence[str]) -> str:
    """The session policy that allows these actions everywhere, and so none but these. Raises SettingsError when it is too long."""
    allowed = {"Effect": "Allow", "Action": sorted(set(actions)), "Resource": "*"}
    text = json.dumps({"Version": "2012-10-17", "Statement": [allowed]}, separators=(",", ":"))
    if len(text) > MAX_POLICY_CHARS:
        raise SettingsError(
            f"REAPER_ROLE: the policy for its session has {len(text)} characters; AWS takes {MAX_POLICY_CHARS} at most"
        )
    return text
