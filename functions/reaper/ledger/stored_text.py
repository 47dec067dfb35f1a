"""How the ledger writes resource IDs, targets and times: in a form that compares and sorts as they do.

ARM IDs are compared without regard to case:
https://learn.microsoft.com/en-us/azure/azure-resource-manager/management/overview (resource names)
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from hashlib import sha256

from reaper.model import Target

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_STUDIO_APP_ARN = re.compile(r"(arn:[^:]+:sagemaker:[^:]*:[^:]*:app/[^/]+/[^/]+/)([^/]+)(/.+)", re.DOTALL)


def comparable_id(resource_id: str) -> str:
    """The form in which IDs are compared and stored: ARM IDs, which begin with a slash, in lower case; ARNs unchanged.

    Only the type in the ARN of a Studio app is lowered, because AWS spells it both `jupyterlab` and `JupyterLab`.
    """
    if resource_id.startswith("/"):
        return resource_id.lower()
    app = _STUDIO_APP_ARN.fullmatch(resource_id) if ":app/" in resource_id else None
    return f"{app[1]}{app[2].lower()}{app[3]}" if app else resource_id


def shorten_key(key: str, max_bytes: int) -> str:
    """The key unchanged, or its beginning and a hash of the whole if it has more than `max_bytes` bytes."""
    plain = key.encode()
    if len(plain) <= max_bytes:
        return key
    return f"{plain[: max_bytes - 65].decode(errors='ignore')}~{sha256(plain).hexdigest()}"


def target_text(target: Target) -> str:
    """A target as one string: cloud, account and region, with `-` for no region."""
    return f"{target.cloud}/{target.account}/{target.region or '-'}"


def target_from_text(text: str) -> Target:
    """The inverse of `target_text`. Raises ValueError for anything else."""
    cloud, account, region = text.split("/", 2)
    return Target(cloud=cloud, account=account, region=None if region == "-" else region)


def sortable_time(moment: datetime) -> str:
    """An aware datetime in UTC with a fixed width, so that strings sort as times do. Raises ValueError for a naive one."""
    if moment.utcoffset() is None:
        raise ValueError(f"{moment!r} has no time zone")
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def parse_time(text: str) -> datetime:
    """The inverse of `sortable_time`. Raises ValueError for a naive time, TypeError for anything but a string."""
    moment = datetime.fromisoformat(text)
    if moment.utcoffset() is None:
        raise ValueError(f"{text!r} has no time zone")
    return moment


def microseconds(moment: datetime) -> int:
    """Microseconds since 1970."""
    return (moment - EPOCH) // timedelta(microseconds=1)
