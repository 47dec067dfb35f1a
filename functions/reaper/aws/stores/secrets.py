"""Texts in Secrets Manager: https://docs.aws.amazon.com/secretsmanager/latest/apireference/API_GetSecretValue.html"""

from __future__ import annotations

from botocore.config import Config

from reaper.aws.session import CloudSession, new_session
from reaper.model import Target

LIMITS = Config(connect_timeout=2, read_timeout=3, retries={"mode": "standard", "total_max_attempts": 2})
"""Ten seconds at the worst: the page that reads its keys is stopped after 20."""


def read_secret(name: str) -> str:
    """The text of the secret of that name or ARN, its current version. Raises CloudError; its `missing` names the permission."""
    session = new_session()
    home = CloudSession(session, Target(cloud="aws", account="unknown", region=session.region_name), limits=LIMITS)
    return str(home.call("secretsmanager", "GetSecretValue", "SecretString", SecretId=name)["SecretString"])
