"""SSM Change Calendars: the iCalendar text of one, and whether it is closed now.

https://docs.aws.amazon.com/systems-manager/latest/userguide/systems-manager-change-calendar.html
"""

from __future__ import annotations

from typing import Any

import boto3
from botocore import xform_name
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from reaper.errors import CloudError, Reason, named_permission

DENIED_CODES = frozenset({"AccessDeniedException", "AccessDenied"})
LIMITS = Config(connect_timeout=5, read_timeout=10, retries={"mode": "standard", "total_max_attempts": 2})
"""A function without a way to Systems Manager would wait five minutes for it, again before each target's actions."""


def read_change_calendar(name: str) -> tuple[bytes, bool]:
    """The calendar's content, and whether AWS says that it is CLOSED now. `name`: its name, or its ARN. Raises CloudError."""
    region = name.split(":")[3] if name.startswith("arn:") and name.count(":") > 4 else None
    document = _call(region, "GetDocument", Name=name, DocumentFormat="TEXT")
    state = _call(region, "GetCalendarState", CalendarNames=[name]).get("State")
    if state not in {"OPEN", "CLOSED"}:
        raise CloudError(Reason.UNREADABLE, "ssm:GetCalendarState", f"{name}: the state {state!r} isn't known")
    return str(document.get("Content", "")).encode(), state == "CLOSED"


def _call(region: str | None, operation: str, **params: Any) -> dict[str, Any]:
    permission = f"ssm:{operation}"
    try:
        reply: dict[str, Any] = getattr(boto3.client("ssm", region_name=region, config=LIMITS), xform_name(operation))(**params)
    except ClientError as error:
        code, text = error.response["Error"].get("Code", ""), error.response["Error"].get("Message", "")
        missing = (named_permission(text) or permission) if code in DENIED_CODES else None
        reason = Reason.DENIED if missing else Reason.REFUSED
        raise CloudError(reason, permission, f"{code}: {text}", code=code, missing=missing) from error
    except (BotoCoreError, ResponseParserError) as error:
        raise CloudError(Reason.UNREACHABLE, permission, str(error)) from error
    return reply
