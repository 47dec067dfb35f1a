"""Simulated fleets of endpoints whose right answers are known, because each endpoint is made from a story and not the other way round.

`mixed` is what people have: traffic of every age, sizes, tags, names; some of it silent, for any of seven reasons.
`hard` is what is easily misjudged. Both are the same on every run, and the same in every process that asks.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reaper_sandbox.aws.account import Account
    from reaper_sandbox.aws.records import Variant

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
SEEN = 15 * DAY
"""The length of the fleet's metrics."""
TEAMS = ("search", "risk", "growth", "vision", "support", "forecast", "research")
MIXED_SILENT = {"idle": 78, "never-called": 6, "async-idle": 5, "async-busy": 3, "serverless": 4, "pipeline-down": 2, "young": 2}
HARD = (
    "busy", "second-busy", "shadow-busy", "async-busy", "async-idle", "serverless", "young", "updated", "updating", "idle-zeros",
    "idle-no-points", "pipeline-down",
)  # fmt: skip
TRUTH = {
    "busy": "active",
    "second-busy": "active",
    "shadow-busy": "active",
    "async-busy": "active",
    "async-idle": "idle",
    "serverless": "exempt",
    "young": "young",
    "updated": "young",
    "updating": "young",
    "idle": "idle",
    "never-called": "idle",
    "idle-zeros": "idle",
    "idle-no-points": "idle",
    "pipeline-down": "unknown",
}
"""What is to be said of an endpoint of each story. Serverless endpoints cost nothing while they rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One endpoint to be: its story, when it was last used if it was, what it runs on, and its tags."""

    name: str
    story: str
    used_ago: timedelta | None = None
    instance: str = "ml.m5.large"
    count: int = 1
    tags: dict[str, str] = field(default_factory=dict)

    def truth(self, ignored: bool) -> str:
        """The right verdict; `ignored`: under a policy that leaves production alone."""
        return "exempt" if ignored and self.tags.get("env") == "prod" else TRUTH[self.story]

    @property
    def silent(self) -> bool:
        """Whether its Invocations say nothing, so that it takes a closer look under any policy."""
        return self.story not in {"busy", "second-busy", "shadow-busy"}

    def may_be_expensive(self, idle_after: timedelta) -> bool:
        """Whether a price rule with that `idle_after` needs its price, although it is in use, and no earlier rule is for it."""
        spared = {"env", "tier", "schedule"} & self.tags.keys()
        return not self.silent and not spared and (self.used_ago or timedelta(0)) > idle_after


def mixed(count: int, share: float, *, at_night: bool = False) -> Iterator[Plan]:
    """`count` endpoints, of which `share` (0 to 1) are silent. `at_night`: most of the others were last used some hours ago."""
    dice = random.Random(f"mixed {count} {share}")
    silent = round(count * share)
    silent_indexes = set(dice.sample(range(count), silent))
    for index in range(count):
        yield _mixed(index, index in silent_indexes, dice, at_night)


def hard(count: int) -> Iterator[Plan]:
    """`count` endpoints, each story as often as any other."""
    for index in range(count):
        story = HARD[index % len(HARD)]
        yield Plan(name=f"{story}-{index:06}", story=story, used_ago=HOUR, tags={"owner": f"{TEAMS[index % 7]}@example.com"})


def _mixed(index: int, silent: bool, dice: random.Random, at_night: bool) -> Plan:
    story = dice.choices(list(MIXED_SILENT), list(MIXED_SILENT.values()))[0] if silent else "busy"
    if not silent and dice.random() < 0.1:
        story = "second-busy"
    team = TEAMS[index % len(TEAMS)]
    sort = dice.choices(["", "env", "tier", "schedule"], [65, 15, 10, 10])[0] if story != "young" else ""
    tags = {
        "team": team,
        "owner": f"{team}@example.com",
        **({sort: {"env": "prod", "tier": "hot", "schedule": "office"}[sort]} if sort else {}),
    }
    instance = dice.choices(["ml.m5.large", "ml.c5.xlarge", "ml.g5.xlarge", "ml.g5.12xlarge"], [60, 15, 20, 5])[0]
    if story == "second-busy":
        instance = "ml.m5.large"  # two variants of anything larger may cost what the six rules call expensive
    prefix = dice.choices(["", "demo-", "churn-poc-"], [88, 8, 4])[0]
    return Plan(
        name=f"{prefix}{team}-{index:06}", story=story, used_ago=_used_ago(sort, instance, prefix, silent, dice, at_night),
        instance=instance, count=dice.choice([1, 1, 1, 2, 3]), tags=tags,
    )  # fmt: skip


def _used_ago(sort: str, instance: str, prefix: str, silent: bool, dice: random.Random, at_night: bool) -> timedelta:
    """When it was last used. What is in use is so under any rule that may be for it, with hours to spare; what is silent is silent for long."""
    if silent:
        return dice.randint(4, 12) * DAY
    live = timedelta(0)
    if sort == "schedule":
        return live
    if sort == "tier" or instance == "ml.g5.12xlarge":
        return dice.choice([live, live, HOUR, 2 * HOUR])
    ages = [live, 3 * HOUR, 8 * HOUR, 8 * HOUR] if at_night else [live, live, live, live, HOUR, 3 * HOUR, 8 * HOUR]
    return dice.choice(ages if prefix else [*ages, 18 * HOUR])


def seed(account: Account, plans: Iterator[Plan], now: datetime) -> None:
    """Make them all."""
    for plan in plans:
        MAKERS.get(plan.story, _in_use)(account, plan, now)


def _endpoint(account: Account, plan: Plan, now: datetime, *names: str, born: datetime | None = None, **more: object) -> None:
    from reaper_sandbox.aws.records import Variant

    variants = [Variant(name=name, instance=plan.instance, count=plan.count) for name in names or ("AllTraffic",)]
    _made(account, plan, now, variants, born=born, **more)


def _made(
    account: Account,
    plan: Plan,
    now: datetime,
    variants: list[Variant],
    born: datetime | None = None,
    alive: bool = True,
    **more: object,
) -> None:
    born = born or now - 60 * DAY
    account.endpoint(plan.name, variants=variants, created=born, tags=plan.tags, **more)  # type: ignore[arg-type]
    shadows = more.get("shadows") or ()
    for variant in [*variants, *shadows]:  # type: ignore[misc]
        if alive:
            account.alive(plan.name, variant.name, max(born, now - SEEN), now + DAY)


def _zeros(account: Account, plan: Plan, variant: str, since: datetime, now: datetime) -> None:
    pair = {"EndpointName": plan.name, "VariantName": variant}
    account.steady("AWS/SageMaker", "Invocations", pair, since, now + DAY, 0)


def _used(account: Account, plan: Plan, variant: str, now: datetime) -> None:
    """Traffic up to its last use, and zeros from then on."""
    until = now - (plan.used_ago or timedelta(0)) + (DAY if not plan.used_ago else timedelta(0))
    pair = {"EndpointName": plan.name, "VariantName": variant}
    account.steady("AWS/SageMaker", "Invocations", pair, now - SEEN, until, 12)
    if plan.used_ago:
        _zeros(account, plan, variant, until, now)


def _in_use(account: Account, plan: Plan, now: datetime) -> None:
    _endpoint(account, plan, now)
    _used(account, plan, "AllTraffic", now)


def _second_busy(account: Account, plan: Plan, now: datetime) -> None:
    _endpoint(account, plan, now, "blue", "green")
    _zeros(account, plan, "blue", now - SEEN, now)
    _used(account, plan, "green", now)


def _shadow_busy(account: Account, plan: Plan, now: datetime) -> None:
    from reaper_sandbox.aws.records import Variant

    _endpoint(account, plan, now, shadows=[Variant(name="shadow")])
    _zeros(account, plan, "AllTraffic", now - SEEN, now)
    _used(account, plan, "shadow", now)


def _asynchronous(account: Account, plan: Plan, now: datetime) -> None:
    """An asynchronous endpoint publishes no Invocations, only its backlog and the latency of its model."""
    _endpoint(account, plan, now, asynchronous=True)
    account.steady("AWS/SageMaker", "ApproximateBacklogSize", {"EndpointName": plan.name}, now - SEEN, now + DAY, 0)
    if plan.story == "async-busy":
        pair = {"EndpointName": plan.name, "VariantName": "AllTraffic"}
        account.points(
            "AWS/SageMaker", "ApproximateBacklogSize", {"EndpointName": plan.name}, [(now - timedelta(minutes=20), 40)]
        )
        account.points("AWS/SageMaker", "ModelLatency", pair, [(now - timedelta(minutes=20), 90_000)])


def _serverless(account: Account, plan: Plan, now: datetime) -> None:
    from reaper_sandbox.aws.records import Variant

    _made(account, plan, now, [Variant(instance=None, memory_mb=2048)], alive=False)


def _young(account: Account, plan: Plan, now: datetime) -> None:
    _endpoint(account, plan, now, born=now - 2 * HOUR)


def _updated(account: Account, plan: Plan, now: datetime) -> None:
    _endpoint(account, plan, now, changed=now - 2 * HOUR)
    _zeros(account, plan, "AllTraffic", now - SEEN, now)


def _updating(account: Account, plan: Plan, now: datetime) -> None:
    _endpoint(account, plan, now, changed=now - 9 * timedelta(minutes=1), status="Updating")
    _zeros(account, plan, "AllTraffic", now - SEEN, now)


def _only_zeros(account: Account, plan: Plan, now: datetime) -> None:
    _endpoint(account, plan, now)
    _zeros(account, plan, "AllTraffic", now - SEEN, now)


def _no_points(account: Account, plan: Plan, now: datetime) -> None:
    """Its series is known from a call two weeks ago, and has had no value since."""
    _endpoint(account, plan, now)
    account.invoked(plan.name, "AllTraffic", now - 13 * DAY)


def _pipeline_down(account: Account, plan: Plan, now: datetime) -> None:
    """No metric of it has come for five days: silence says nothing, not even to who waits for three."""
    _endpoint(account, plan, now, alive=False)
    account.alive(plan.name, "AllTraffic", now - SEEN, now - 5 * DAY)
    pair = {"EndpointName": plan.name, "VariantName": "AllTraffic"}
    account.steady("AWS/SageMaker", "Invocations", pair, now - SEEN, now - 5 * DAY, 12)


MAKERS: dict[str, Callable[[Account, Plan, datetime], None]] = {
    "second-busy": _second_busy,
    "shadow-busy": _shadow_busy,
    "async-busy": _asynchronous,
    "async-idle": _asynchronous,
    "serverless": _serverless,
    "young": _young,
    "updated": _updated,
    "updating": _updating,
    "never-called": lambda account, plan, now: _endpoint(account, plan, now),
    "idle-zeros": _only_zeros,
    "idle-no-points": _no_points,
    "pipeline-down": _pipeline_down,
}
"""How each story is built; any other is an endpoint that was in use until `used_ago`."""
