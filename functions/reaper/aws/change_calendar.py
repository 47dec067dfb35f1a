"""SSM Change Calendars: the iCalendar text of one, and whether it is closed now.

https://docs.aws.amazon.com/systems-manager/latest/userguide/systems-manager-change-calendar.html
"""

from __future__ import annotations

from botocore.config import Config
from botocore.exceptions import BotoCoreError

from reaper.aws.session import CloudSession, new_session
from reaper.errors import CloudError, Reason, SettingsError
from reaper.model import Target

LIMITS = Config(connect_timeout=5, read_timeout=10, retries={"mode": "standard", "total_max_attempts": 2})
"""A function without a way to Systems Manager would wait five minutes for it, again before each target's actions."""


def read_change_calendar(name: str) -> tuple[bytes, bool]:
    """The calendar's content, and whether AWS says that it is CLOSED now. `name`: its name, or its ARN. Raises CloudError."""
    try:
        session = new_session()
        region = name.split(":")[3] if name.startswith("arn:") and name.count(":") > 4 else session.region_name
        cloud = CloudSession(session, Target(cloud="aws", account="unknown", region=region), limits=LIMITS)
        document = cloud.call("ssm", "GetDocument", "Content", Name=name, DocumentFormat="TEXT")
        state = cloud.call("ssm", "GetCalendarState", "State", CalendarNames=[name])["State"]
    except (BotoCoreError, SettingsError) as error:  # without a region, or with a profile that doesn't exist
        raise CloudError(Reason.UNREACHABLE, "ssm:GetDocument", str(error)) from error
    if state not in {"OPEN", "CLOSED"}:
        raise CloudError(Reason.UNREADABLE, "ssm:GetCalendarState", f"{name}: the state {state!r} isn't known")
    return str(document["Content"]).encode(), state == "CLOSED"
