"""Notebook instances: with the `Busy` signal, without it, and with logs of every age.

https://docs.aws.amazon.com/sagemaker/latest/dg/logging-cloudwatch.html
"""

from __future__ import annotations

from datetime import datetime, timedelta

from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.fleet.traffic import DAY, HOUR, SEEN, ago, office, tags
from reaper_sandbox.aws.records import Notebook


def seed(virginia: Account, ireland: Account, now: datetime) -> None:
    """All of them."""
    _watched(virginia, now)
    _unwatched(virginia, now)
    owned = tags("orla", "sales")
    ireland.notebook(
        "nb-stopped", instance="ml.t3.medium", created=now - 90 * DAY, changed=now - 30 * DAY, status="Stopped", tags=owned
    )
    ireland.notebook("nb-started-an-hour-ago", created=now - 90 * DAY, changed=now - HOUR, tags=owned)


def work(account: Account, arn: str, now: datetime, until: datetime) -> None:
    """`Busy` is 1 in most office hours up to `until`, and 0 every five minutes otherwise."""
    account.points(
        "MLIdleReaper", "Busy", {"Resource": arn}, ((when, 1) for when, n in office(arn, now - SEEN, until, 9) if n > 1)
    )
    account.busy(arn, until)


def _watched(account: Account, now: datetime) -> None:
    stories = {
        "nb-kernel-busy": (now - timedelta(minutes=25), now),
        "nb-busy-series-silent": (ago(now, 3), now),
        "nb-busy-series-stopped": (now - 6 * DAY, now - 2 * DAY),
    }
    for name, (worked, heard) in stories.items():
        notebook = _notebook(account, name, now, instance="ml.g4dn.xlarge")
        account.busy_steadily(notebook.arn, now - SEEN, heard)
        work(account, notebook.arn, now, worked)


def _unwatched(account: Account, now: datetime) -> None:
    _notebook(account, "nb-no-series-quiet-5-days", now, instance="ml.m5.xlarge")
    account.log_stream("nb-no-series-quiet-5-days/jupyter.log", last_event=now - 5 * DAY)
    account.log_stream("nb-no-series-quiet-5-days/LifecycleConfigOnStart", last_event=now - 20 * DAY)
    _notebook(account, "nb-log-fresh", now, instance="ml.t3.medium")
    account.log_stream("nb-log-fresh/jupyter.log", last_event=now - timedelta(minutes=20))


def _notebook(account: Account, name: str, now: datetime, instance: str) -> Notebook:
    return account.notebook(
        name, instance=instance, created=now - 120 * DAY, changed=now - 20 * DAY, tags=tags("jonas", "research")
    )
