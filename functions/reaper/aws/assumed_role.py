"""A role that a sweep assumes, limited by a session policy to what it is for.

A session policy can only take away: https://docs.aws.amazon.com/IAM/latest/UserGuide/access_policies.html#policies_session
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import boto3
from botocore.credentials import DeferredRefreshableCredentials
from botocore.exceptions import BotoCoreError

from reaper.aws.session import CloudSession, new_session
from reaper.errors import SettingsError, odd_replies_as_errors
from reaper.model import Target

ROLE_SESSION_NAME = "ml-idle-reaper"
DEFAULT_REGION = "us-east-1"
MAX_POLICY_CHARS = 2048
"""Characters of a session policy, which must be plain text."""


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
    try:
        assumed, known = new_session(), new_session()
        if known.get_credentials() is None:
            raise SettingsError(f"{role_arn}: no AWS credentials to assume this role with")
        place = Target(cloud="aws", account=role_arn.split(":")[4], region=region or known.region_name or DEFAULT_REGION)
        fetch = partial(_fetch_credentials, CloudSession(known, place), request)
        inner: Any = assumed._session
        inner._credentials = DeferredRefreshableCredentials(method="assume-role", refresh_using=fetch)
        return assumed
    except BotoCoreError as error:
        raise SettingsError(f"{role_arn}: {error}") from error


def fetch_now(session: boto3.Session) -> None:
    """Fetch the credentials of such a session before its first use. Raises CloudError."""
    credentials = session.get_credentials()
    if credentials:
        with odd_replies_as_errors("sts:AssumeRole"):  # such as credentials that have ended already
            credentials.get_frozen_credentials()


def _fetch_credentials(cloud: CloudSession, request: Mapping[str, Any]) -> dict[str, str]:
    """New credentials, as the SDK keeps them. Raises CloudError."""
    made = cloud.call("sts", "AssumeRole", "Credentials", **request)["Credentials"]
    with odd_replies_as_errors("sts:AssumeRole"):
        return {
            "access_key": made["AccessKeyId"],
            "secret_key": made["SecretAccessKey"],
            "token": made["SessionToken"],
            "expiry_time": made["Expiration"].isoformat(),
        }


def session_policy(actions: Sequence[str]) -> str:
    """The session policy that allows these actions everywhere, and so none but these. Raises SettingsError when it is too long."""
    allowed = {"Effect": "Allow", "Action": sorted(set(actions)), "Resource": "*"}
    text = json.dumps({"Version": "2012-10-17", "Statement": [allowed]}, separators=(",", ":"))
    if len(text) > MAX_POLICY_CHARS:
        raise SettingsError(
            f"the policy for the session of a role has {len(text)} characters; AWS takes {MAX_POLICY_CHARS} at most"
        )
    return text
