"""Endpoints that host inference components, and the components.

https://docs.aws.amazon.com/sagemaker/latest/dg/realtime-endpoints-deploy-models.html
"""

from __future__ import annotations

from datetime import datetime, timedelta

from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.fleet.endpoints import TRAFFIC, serve
from reaper_sandbox.aws.fleet.traffic import DAY, SEEN, ago, office, tags
from reaper_sandbox.aws.records import Variant


def seed(account: Account, now: datetime) -> None:
    """Two hosts, three components."""
    host = (Variant(instance="ml.g5.xlarge", model=None, scaling=(1, 4)),)
    owned = tags("kofi", "language")
    for name in ("components-host-idle", "components-host-busy"):
        account.endpoint(name, variants=host, created=now - 25 * DAY, tags=owned)
        serve(account, name, host, now)
    stories = {
        "embedder-idle": ("components-host-idle", ago(now, 4)),
        "summarizer-busy": ("components-host-busy", now - timedelta(minutes=25)),
        "translator-idle": ("components-host-busy", ago(now, 8)),
    }
    for name, (endpoint, until) in stories.items():
        account.component(name, endpoint, created=now - 25 * DAY, tags=owned)
        account.component_alive(name, now - SEEN, now)
        account.points(TRAFFIC, "Invocations", {"InferenceComponentName": name}, office(name, now - SEEN, until, 150))
