"""Endpoints whose traffic, sort or state decides. Metrics: https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.fleet.traffic import DAY, HOUR, SEEN, ago, office, tags
from reaper_sandbox.aws.records import Variant

TRAFFIC = "AWS/SageMaker"


def seed(virginia: Account, ireland: Account, now: datetime) -> None:
    """All of them."""
    _real_time(virginia, now)
    _asynchronous(virginia, now)
    _serverless(virginia, now)
    _unsettled(virginia, now)
    _irish(ireland, now)


def serve(here: Account, name: str, variants: Sequence[Variant], now: datetime, born: datetime | None = None) -> None:
    """Their instances report from birth on."""
    since = max(born or now - SEEN, now - SEEN)
    for variant in variants:
        here.alive(name, variant.name, since, now, percent=0.7)


def use(here: Account, name: str, variant: str, now: datetime, until: datetime, peak: float = 400) -> None:
    """Office-hours traffic that ends at `until`."""
    pair = {"EndpointName": name, "VariantName": variant}
    here.points(TRAFFIC, "Invocations", pair, office(name, now - SEEN, until, peak))


def _real_time(here: Account, now: datetime) -> None:
    just_now = now - timedelta(minutes=25)
    plain = (Variant(instance="ml.m5.xlarge", count=2),)
    here.endpoint(
        "fraud-scoring-busy", variants=plain, created=now - 200 * DAY, tags=tags("dana", "risk", reaper__owner="risk@example.com")
    )
    serve(here, "fraud-scoring-busy", plain, now)
    use(here, "fraud-scoring-busy", "AllTraffic", now, just_now, peak=9000)
    dear = (Variant(instance="ml.g5.12xlarge"),)
    here.endpoint("churn-idle-9-days", variants=dear, created=now - 60 * DAY, tags=tags("lee", "growth"))
    serve(here, "churn-idle-9-days", dear, now)
    use(here, "churn-idle-9-days", "AllTraffic", now, ago(now, 9))
    two = (Variant(name="blue", weight=9), Variant(name="green", instance="ml.c5.xlarge"))
    here.endpoint("two-variants-second-busy", variants=two, created=now - 30 * DAY, tags=tags("mika", "search"))
    serve(here, "two-variants-second-busy", two, now)
    use(here, "two-variants-second-busy", "green", now, just_now)
    live, shadow = Variant(name="live"), Variant(name="shadow", instance="ml.g4dn.xlarge")
    here.endpoint("shadow-variant-busy", variants=(live,), shadows=(shadow,), created=now - 30 * DAY, tags=tags("mika", "search"))
    serve(here, "shadow-variant-busy", (live, shadow), now)
    use(here, "shadow-variant-busy", "shadow", now, just_now)


def _asynchronous(here: Account, now: datetime) -> None:
    one = (Variant(instance="ml.g5.xlarge"),)
    owned = tags("noor", "vision")
    for name in ("async-backlog-busy", "async-idle"):
        here.endpoint(name, variants=one, asynchronous=True, created=now - 40 * DAY, tags=owned)
        serve(here, name, one, now)
        silent_from = now - timedelta(minutes=25) if name == "async-backlog-busy" else ago(now, 6)
        here.points(TRAFFIC, "ApproximateBacklogSize", {"EndpointName": name}, office(name, now - SEEN, silent_from, 40))
        here.steady(TRAFFIC, "ApproximateBacklogSize", {"EndpointName": name}, now - SEEN, now, 0)
        pair = {"EndpointName": name, "VariantName": "AllTraffic"}
        here.points(TRAFFIC, "ModelLatency", pair, ((when, 90_000) for when, _ in office(name, now - SEEN, silent_from, 40)))
    none = (Variant(instance="ml.g5.xlarge", count=0),)
    here.endpoint("async-scaled-to-zero", variants=none, asynchronous=True, created=now - 90 * DAY, tags=owned)
    here.steady(TRAFFIC, "ApproximateBacklogSize", {"EndpointName": "async-scaled-to-zero"}, now - SEEN, now, 0)


def _serverless(here: Account, now: datetime) -> None:
    owned = tags("sam", "support")
    here.endpoint("serverless-free", variants=(Variant(memory_mb=2048),), created=now - 70 * DAY, tags=owned)
    use(here, "serverless-free", "AllTraffic", now, ago(now, 8), peak=20)
    kept_warm = (Variant(memory_mb=2048, provisioned=3),)
    here.endpoint("serverless-provisioned-quiet", variants=kept_warm, created=now - 70 * DAY, tags=owned)
    use(here, "serverless-provisioned-quiet", "AllTraffic", now, ago(now, 5), peak=20)


def _unsettled(here: Account, now: datetime) -> None:
    one = (Variant(instance="ml.m5.large"),)
    owned = tags("ines", "forecast")
    here.endpoint("deployed-an-hour-ago", variants=one, created=now - HOUR, tags=owned)
    serve(here, "deployed-an-hour-ago", one, now, born=now - timedelta(minutes=50))
    here.endpoint("updated-this-morning", variants=one, created=now - 50 * DAY, changed=now - 4 * HOUR, tags=owned)
    serve(here, "updated-this-morning", one, now)
    here.endpoint("creating-now", variants=(), created=now - timedelta(minutes=4), status="Creating", tags=owned)
    here.endpoint(
        "update-in-progress",
        variants=one,
        created=now - 50 * DAY,
        changed=now - timedelta(minutes=9),
        status="Updating",
        tags=owned,
    )
    serve(here, "update-in-progress", one, now)
    here.endpoint(
        "failed-without-variants", variants=(), created=now - 12 * DAY, status="Failed",
        failure="The primary container for production variant AllTraffic did not pass the ping health check.",
    )  # fmt: skip


def _irish(here: Account, now: datetime) -> None:
    small, medium = (Variant(instance="ml.m5.large"),), (Variant(instance="ml.g5.2xlarge"),)
    exotic = (Variant(instance="ml.p6e-gb300.36xlarge"),)
    just_now = now - timedelta(minutes=25)
    stories = (
        ("reco-eu-busy", (Variant(instance="ml.c5.xlarge", count=3),), just_now, tags("ciara", "reco", env="staging")),
        ("sentiment-eu-idle-4-days", medium, ago(now, 4), tags("ciara", "reco")),
        ("Demo-Case", small, just_now, tags("finn", "sales")),
        ("demo-case", small, ago(now, 7), tags("orla", "sales")),
        ("exotic-instance-idle", exotic, ago(now, 3), tags("finn", "research")),
    )
    for name, variants, until, owned in stories:
        here.endpoint(name, variants=variants, created=now - 45 * DAY, tags=owned)
        serve(here, name, variants, now)
        use(here, name, "AllTraffic", now, until)
