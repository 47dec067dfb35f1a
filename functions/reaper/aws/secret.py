"""Texts in Secrets Manager: https://docs.aws.amazon.com/secretsmanager/latest/apireference/API_GetSecretValue.html"""

from __future__ import annotations

import boto3

from reaper.aws.cloud import Cloud
from reaper.model import Target


def read(name: str) -> str:
    """The text of the secret of that name or ARN, its current version. Raises CloudError; its `missing` names the permission."""
    session = boto3.Session()
    home = Cloud(session, Target(cloud="aws", account="unknown", region=session.region_name))
    return str(home.call("secretsmanager", "GetSecretValue", "SecretString", SecretId=name)["SecretString"])
