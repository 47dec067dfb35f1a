"""Texts in S3, Parameter Store and Change Calendars: the policy comes from there, full reports and manifests go there.

Writing only where nothing is yet: https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html
https://docs.aws.amazon.com/systems-manager/latest/userguide/systems-manager-change-calendar.html
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable
from contextlib import closing
from datetime import datetime
from tempfile import TemporaryFile
from typing import Any
from urllib.parse import urlsplit

from botocore import xform_name
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from reaper.aws.session import CloudSession, new_session, own_client
from reaper.errors import CloudError, Paging, Reason, SettingsError, named_permission
from reaper.model import Target

PERMISSION_OF_OPERATION = {"PutObject": "s3:PutObject", "GetObject": "s3:GetObject", "ListObjectsV2": "s3:ListBucket"}
EXISTS_CODES = frozenset({"PreconditionFailed", "ConditionalRequestConflict"})
"""What S3 says of a conditional write of a name that exists, or that is being written."""
MISSING_CODES = frozenset({"NoSuchKey", "404"})
"""What S3 says of a name without an object. A missing bucket has another code."""

CALENDAR_LIMITS = Config(connect_timeout=5, read_timeout=10, retries={"mode": "standard", "total_max_attempts": 2})
"""A function without a way to Systems Manager would wait five minutes for it, again before each target's actions."""


def read_bytes(uri: str, most: int) -> bytes:
    """The first `most` bytes at `s3://bucket/key` or `ssm:/name`; no more is fetched. Raises SettingsError with what AWS said."""
    try:
        if uri.startswith("ssm:"):
            reply = own_client("ssm", "ssm:GetParameter").get_parameter(Name=uri.removeprefix("ssm:"), WithDecryption=True)
            return str(reply["Parameter"]["Value"]).encode()[:most]
        bucket, key = _bucket_and_key(uri)
        # Not by Range, which S3 refuses for an empty object.
        with closing(own_client("s3", "s3:GetObject").get_object(Bucket=bucket, Key=key)["Body"]) as body:
            return bytes(body.read(most))
    except (ClientError, BotoCoreError, ResponseParserError, CloudError, ValueError) as error:
        raise SettingsError(f"{uri}: can't be read: {error}") from error


def read_change_calendar(name: str) -> tuple[bytes, bool]:
    """The calendar's content, and whether AWS says that it is CLOSED now. `name`: its name, or its ARN. Raises CloudError."""
    try:
        session = new_session()
        region = name.split(":")[3] if name.startswith("arn:") and name.count(":") > 4 else session.region_name
        cloud = CloudSession(session, Target(cloud="aws", account="unknown", region=region), limits=CALENDAR_LIMITS)
        document = cloud.call("ssm", "GetDocument", "Content", Name=name, DocumentFormat="TEXT")
        state = cloud.call("ssm", "GetCalendarState", "State", CalendarNames=[name])["State"]
    except (BotoCoreError, SettingsError) as error:  # without a region, or with a profile that doesn't exist
        raise CloudError(Reason.UNREACHABLE, "ssm:GetDocument", str(error)) from error
    if state not in {"OPEN", "CLOSED"}:
        raise CloudError(Reason.UNREADABLE, "ssm:GetCalendarState", f"{name}: the state {state!r} isn't known")
    return str(document["Content"]).encode(), state == "CLOSED"


def write_report(place: str, run_id: str, started_at: datetime, chunks: Iterable[str]) -> str:
    """Store a report under `s3://bucket/prefix/YYYY/MM/DD/<run>.json`; returns its address. The first report of a run stays.

    The report of an organization has more than 100 MB, so it goes through a file, in one request. Raises SettingsError if S3 refuses.
    """
    bucket, prefix = _bucket_and_key(place)
    key = "/".join(part for part in (prefix.strip("/"), f"{started_at:%Y/%m/%d}", f"{run_id}.json") if part)
    try:
        with TemporaryFile() as file:
            file.writelines(chunk.encode() for chunk in chunks)
            file.seek(0)
            own_client("s3", "s3:PutObject").put_object(
                Bucket=bucket, Key=key, Body=file, ContentType="application/json", IfNoneMatch="*"
            )
    except (ClientError, BotoCoreError, OSError) as error:
        if isinstance(error, ClientError) and error.response["Error"].get("Code") == "PreconditionFailed":
            return f"s3://{bucket}/{key}"
        raise SettingsError(f"REAPER_REPORTS={place}: the report can't be stored: {error}") from error
    return f"s3://{bucket}/{key}"


def write(place: str, name: str, text: str) -> str:
    """Store a new text at `s3://bucket/prefix/<name>`; gives its address. Raises CloudError, also if the name exists."""
    bucket, prefix = _bucket_and_key_or_error(place)
    key = "/".join(part for part in (prefix.strip("/"), name) if part)
    _call_s3("PutObject", Bucket=bucket, Key=key, Body=text.encode(), ContentType="application/json", IfNoneMatch="*")
    return f"s3://{bucket}/{key}"


def replace_text(place: str, name: str, text: str) -> None:
    """Store the text at `s3://bucket/prefix/<name>`, whatever is there now. Raises CloudError."""
    bucket, key = _bucket_and_key_or_error(f"{place.rstrip('/')}/{name}")
    _call_s3("PutObject", Bucket=bucket, Key=key, Body=text.encode(), ContentType="application/json")


def read_text(address: str) -> str:
    """The text at `s3://bucket/key`. Raises CloudError, with GONE if it doesn't exist."""
    bucket, key = _bucket_and_key_or_error(address)
    try:
        return str(_call_s3("GetObject", Bucket=bucket, Key=key)["Body"].read().decode())
    except BotoCoreError as error:
        raise CloudError(Reason.UNREACHABLE, "s3:GetObject", f"{address} can't be read ({error})") from error
    except UnicodeDecodeError as error:
        raise CloudError(Reason.UNREADABLE, "s3:GetObject", f"{address} can't be read ({error})") from error


def list_texts(place: str) -> builtins.list[str]:
    """The addresses of all texts under `s3://bucket/prefix/`, in the order of their names. Raises CloudError."""
    bucket, prefix = _bucket_and_key_or_error(place)
    under = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
    addresses: builtins.list[str] = []
    paging = Paging("s3:ListBucket")
    more: dict[str, Any] = {}
    while True:
        page = _call_s3("ListObjectsV2", Bucket=bucket, Prefix=under, **more)
        addresses += [f"s3://{bucket}/{row['Key']}" for row in page.get("Contents") or ()]
        if not page.get("IsTruncated"):
            return addresses
        more = {"ContinuationToken": page.get("NextContinuationToken")}
        paging.follow(more["ContinuationToken"], page.get("Contents") or ())


def _call_s3(operation: str, **params: Any) -> dict[str, Any]:
    """One call; what S3 says becomes a CloudError."""
    permission = PERMISSION_OF_OPERATION[operation]
    try:
        reply: dict[str, Any] = getattr(own_client("s3", permission), xform_name(operation))(**params)
    except ClientError as error:
        raise _error_from_reply(permission, error, params) from error
    except (BotoCoreError, ResponseParserError) as error:
        raise CloudError(Reason.UNREACHABLE, permission, str(error)) from error
    return reply


def _error_from_reply(permission: str, error: ClientError, params: dict[str, Any]) -> CloudError:
    code, text = error.response["Error"].get("Code", ""), error.response["Error"].get("Message", "")
    where = f"s3://{params['Bucket']}/{params.get('Key', params.get('Prefix', ''))}"
    if code in {"AccessDenied", "403", "AllAccessDisabled"}:
        return CloudError(Reason.DENIED, permission, f"{where}: {text}", code=code, missing=named_permission(text) or permission)
    if code in MISSING_CODES | {"NoSuchBucket"}:
        return CloudError(Reason.GONE, permission, f"{where}: {text}", code=code)
    if code in EXISTS_CODES:
        return CloudError(Reason.REFUSED, permission, f"{where}: a file of that name already exists", code=code)
    trouble = Reason.THROTTLED if code in {"SlowDown", "Throttling"} else Reason.REFUSED
    return CloudError(trouble, permission, f"{where}: {code}: {text}", code=code)


def _bucket_and_key_or_error(uri: str) -> tuple[str, str]:
    try:
        return _bucket_and_key(uri)
    except SettingsError as error:
        raise CloudError(Reason.REFUSED, "s3", str(error)) from error


def _bucket_and_key(uri: str) -> tuple[str, str]:
    try:
        parts = urlsplit(uri)
    except ValueError as error:
        raise SettingsError(f"{uri!r} is not an address such as s3://bucket/key: {error}") from error
    if parts.scheme != "s3" or not parts.netloc:
        raise SettingsError(f"{uri!r} is not an address such as s3://bucket/key")
    return parts.netloc, parts.path.lstrip("/")
