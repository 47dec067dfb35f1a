"""Studio: a domain, two people, their spaces and every sort of app.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeApp.html
"""

from __future__ import annotations

from datetime import datetime, timedelta

from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.fleet.notebooks import work
from reaper_sandbox.aws.fleet.traffic import DAY, HOUR, SEEN, ago, tags

DOMAIN = "d-f5t2ouux778p"
MINUTE = timedelta(minutes=1)


def seed(account: Account, now: datetime) -> None:
    """All of it."""
    account.domain(DOMAIN, tags={"team": "research"})
    for person in ("ana", "ben"):
        account.user(person, domain=DOMAIN, created=now - 150 * DAY, tags=tags(person, "research"))
    _watched(account, now)
    _unwatched(account, now)
    account.app(user="ana", type="JupyterServer", instance="system", domain=DOMAIN, created=now - 9 * DAY)
    account.app(
        "forgotten-gpu", user="ana", type="KernelGateway", instance="ml.g4dn.xlarge", domain=DOMAIN, created=now - 13 * DAY
    )


def _watched(account: Account, now: datetime) -> None:
    stories = {"lab-idle": ("JupyterLab", ago(now, 6)), "editor-busy": ("CodeEditor", now - 25 * MINUTE)}
    for space, (kind, worked) in stories.items():
        account.space(space, domain=DOMAIN, owner="ana", created=now - 60 * DAY, tags=tags("ana", "research"))
        app = account.app(
            space=space, type=kind, instance="ml.g5.xlarge", domain=DOMAIN, created=now - 16 * DAY, tags=tags("ana", "research")
        )
        account.busy_steadily(app.arn, now - SEEN, now)
        work(account, app.arn, now, worked)


def _unwatched(account: Account, now: datetime) -> None:
    stories: dict[str, datetime | None] = {
        "health-checks-only": None,
        "left-11-days-ago": now - 11 * DAY,
        "used-an-hour-ago": now - HOUR,
        "deleted-yesterday": None,
    }
    for space, used in stories.items():
        account.space(space, domain=DOMAIN, owner="ben", created=now - 60 * DAY, tags=tags("ben", "research"))
        account.app(
            space=space, instance="ml.m5.2xlarge", domain=DOMAIN, created=now - 12 * DAY, used=used, checked=now - MINUTE,
            status="Deleted" if space == "deleted-yesterday" else "InService", tags=tags("ben", "research"),
        )  # fmt: skip
