"""Texts in S3 and Parameter Store: the policy comes from there, full reports go there."""

from __future__ import annotations

from datetime import datetime
from urllib.parse import urlsplit

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from reaper.errors import SettingsError


def read(uri: str) -> str:
    """The text at `s3://bucket/key` or `ssm:/name`. Raises SettingsError that names the address and what AWS said."""
    try:
        if uri.startswith("ssm:"):
            reply = boto3.client("ssm").get_parameter(Name=uri.removeprefix("ssm:"), WithDecryption=True)
            return str(reply["Parameter"]["Value"])
        bucket, key = _place(uri)
        return boto3.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read().decode()
    except (ClientError, BotoCoreError, ValueError) as error:
        raise SettingsError(f"REAPER_POLICY={uri}: cannot be read: {error}") from error


def write_report(place: str, run_id: str, started_at: datetime, text: str) -> str:
    """Store a report under `s3://bucket/prefix/YYYY/MM/DD/<run>.json`; gives its address. Raises SettingsError where S3 refuses."""
    bucket, prefix = _place(place)
    key = "/".join(part for part in (prefix.strip("/"), f"{started_at:%Y/%m/%d}", f"{run_id}.json") if part)
    try:
        boto3.client("s3").put_object(Bucket=bucket, Key=key, Body=text.encode(), ContentType="application/json")
    except (ClientError, BotoCoreError) as error:
        raise SettingsError(f"REAPER_REPORTS={place}: the report cannot be stored: {error}") from error
    return f"s3://{bucket}/{key}"


def _place(uri: str) -> tuple[str, str]:
    try:
        parts = urlsplit(uri)
    except ValueError as error:
        raise SettingsError(f"{uri!r} is not an address such as s3://bucket/key: {error}") from error
    if parts.scheme != "s3" or not parts.netloc:
        raise SettingsError(f"{uri!r} is not an address such as s3://bucket/key")
    return parts.netloc, parts.path.lstrip("/")
