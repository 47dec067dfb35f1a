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


def serve(account: Account, name: str, variants: Sequence[Variant], now: datetime, born: datetime | None = None) -> None:
    """Their instances report from birth on."""
    since = max(born or now - SEEN, now - SEEN)
    for variant in variants:
        account.alive(name, variant.name, since, now, percent=0.7)


def use(account: Account, name: str, variant: str, now: datetime, until: datetime, peak: float = 400) -> None:
    """Office-hours traffic that ends at `until`."""
    pair = {"EndpointName": name, "VariantName": variant}
    account.points(TRAFFIC, "Invocations", pair, office(name, now - SEEN, until, peak))


def _real_time(account: Account, now: datetime) -> None:
    just_now = now - timedelta(minutes=25)
    plain = (Variant(instance="ml.m5.xlarge", count=2),)
    account.endpoint(
        "fraud-scoring-busy", variants=plain, created=now - 200 * DAY, tags=tags("dana", "risk", reaper__owner="risk@example.com")
    )
    serve(account, "fraud-scoring-busy", plain, now)
    use(account, "fraud-scoring-busy", "AllTraffic", now, just_now, peak=9000)
    dear = (Variant(instance="ml.g5.12xlarge"),)
    account.endpoint("churn-idle-9-days", variants=dear, created=now - 60 * DAY, tags=tags("lee", "growth"))
    serve(account, "churn-idle-9-days", dear, now)
    use(account, "churn-idle-9-days", "AllTraffic", now, ago(now, 9))
    two = (Variant(name="blue", weight=9), Variant(name="green", instance="ml.c5.xlarge"))
    account.endpoint("two-variants-second-busy", variants=two, created=now - 30 * DAY, tags=tags("mika", "search"))
    serve(account, "two-variants-second-busy", two, now)
    use(account, "two-variants-second-busy", "green", now, just_now)
    live, shadow = Variant(name="live"), Variant(name="shadow", instance="ml.g4dn.xlarge")
    account.endpoint(
        "shadow-variant-busy", variants=(live,), shadows=(shadow,), created=now - 30 * DAY, tags=tags("mika", "search")
    )
    serve(account, "shadow-variant-busy", (live, shadow), now)
    use(account, "shadow-variant-busy", "shadow", now, just_now)


def _asynchronous(account: Account, now: datetime) -> None:
    one = (Variant(instance="ml.g5.xlarge"),)
    owned = tags("noor", "vision")
    for name in ("async-backlog-busy", "async-idle"):
        account.endpoint(name, variants=one, asynchronous=True, created=now - 40 * DAY, tags=owned)
        serve(account, name, one, now)
        silent_from = now - timedelta(minutes=25) if name == "async-backlog-busy" else ago(now, 6)
        account.points(TRAFFIC, "ApproximateBacklogSize", {"EndpointName": name}, office(name, now - SEEN, silent_from, 40))
        account.steady(TRAFFIC, "ApproximateBacklogSize", {"EndpointName": name}, now - SEEN, now, 0)
        pair = {"EndpointName": name, "VariantName": "AllTraffic"}
        account.points(TRAFFIC, "ModelLatency", pair, ((when, 90_000) for when, _ in office(name, now - SEEN, silent_from, 40)))
    none = (Variant(instance="ml.g5.xlarge", count=0),)
    account.endpoint("async-scaled-to-zero", variants=none, asynchronous=True, created=now - 90 * DAY, tags=owned)
    account.steady(TRAFFIC, "ApproximateBacklogSize", {"EndpointName": "async-scaled-to-zero"}, now - SEEN, now, 0)


def _serverless(account: Account, now: datetime) -> None:
    owned = tags("sam", "support")
    account.endpoint("serverless-free", variants=(Variant(memory_mb=2048),), created=now - 70 * DAY, tags=owned)
    use(account, "serverless-free", "AllTraffic", now, ago(now, 8), peak=20)
    kept_warm = (Variant(memory_mb=2048, provisioned=3),)
    account.endpoint("serverless-provisioned-quiet", variants=kept_warm, created=now - 70 * DAY, tags=owned)
    use(account, "serverless-provisioned-quiet", "AllTraffic", now, ago(now, 5), peak=20)


def _unsettled(account: Account, now: datetime) -> None:
    one = (Variant(instance="ml.m5.large"),)
    owned = tags("ines", "forecast")
    account.endpoint("deployed-an-hour-ago", variants=one, created=now - HOUR, tags=owned)
    serve(account, "deployed-an-hour-ago", one, now, born=now - timedelta(minutes=50))
    account.endpoint("updated-this-morning", variants=one, created=now - 50 * DAY, changed=now - 4 * HOUR, tags=owned)
    serve(account, "updated-this-morning", one, now)
    account.endpoint("creating-now", variants=(), created=now - timedelta(minutes=4), status="Creating", tags=owned)
    account.endpoint(
        "update-in-progress",
        variants=one,
        created=now - 50 * DAY,
        changed=now - timedelta(minutes=9),
        status="Updating",
        tags=owned,
    )
    serve(account, "update-in-progress", one, now)
    account.endpoint(
        "failed-without-variants", variants=(), created=now - 12 * DAY, status="Failed",
        failure="The primary container for production variant AllTraffic did not pass the ping health check.",
    )  # fmt: skip


def _irish(account: Account, now: datetime) -> None:
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
        account.endpoint(name, variants=variants, created=now - 45 * DAY, tags=owned)
        serve(account, name, variants, now)
        use(account, name, "AllTraffic", now, until)
