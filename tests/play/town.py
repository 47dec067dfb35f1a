"""Who is in the play: some sixty resources on both clouds, AWS with two accounts, most of them left behind by their owners, and when each of them is used."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from random import Random

from play import terms
from play.aws_things import AwsApp, AwsComponent, AwsEndpoint, AwsHost, AwsNotebook
from play.azure_things import AzCluster, AzDeployment, AzInstance
from play.terms import DAY, HOUR, MINUTE
from play.thing import Span, Thing
from reaper_sandbox.aws.account import Account
from reaper_sandbox.aws.organization import Organization, TargetRole
from reaper_sandbox.aws.server import Server as Aws
from reaper_sandbox.azure.server import Server as Azure

HUB, MEMBER = "123456789012", "222222222222"
"""The AWS account that sweeps, and the other one that is swept."""
SWEEPER, RESTORER = "ml-idle-reaper-target", "ml-idle-restorer"
"""The roles in the other account: the one that a sweep assumes, and the one that restores."""
REGIONS = ("us-east-1", "eu-west-1")
SUBSCRIPTION = "11111111-1111-1111-1111-111111111111"
PEOPLE = ("ana", "ben", "cid", "dee", "eve")
PAST = 5 * DAY
"""How far back uses and metrics reach when the play begins."""


def falls_silent(thing: Thing, where: str) -> bool:
    """Whether a broken signal hides its use: on `aws` that of endpoints in the first account's first region, on `azure` that of deployments.

    Most of them are in use, and none is stopped after a short time already, which nothing could prevent.
    """
    lost = {"aws": f"arn:aws:sagemaker:{REGIONS[0]}:{HUB}:endpoint/", "azure": "/onlineEndpoints/"}
    return any(lost[one] in thing.id for one in where.split()) and not thing.name.startswith("quick")


LEFT_OUT = frozenset(
    [f"plain-e{n}" for n in (0, 3, 4, 5, 7, 9)]
    + [f"shop-e{n}" for n in (2, 3, 4, 5, 6)]
    + [f"shop-d{n}" for n in range(2, 6)]
    + ["legacy-d1", "legacy-d2", "far-e0", "far-e2", "far-e3", "far-n1"]
    + ["quick-e1", "legacy-e1", "plain-n1", "desk-n1", "desk-n2", "plain-a1", "plain-c1", "plain-c3", "plain-i1", "plain-d2"]
)
"""What is not there in the excerpt."""


def settle(
    aws: Aws, azure: Azure, begin: datetime, end: datetime, dice: Random, without: Collection[str] = frozenset()
) -> list[Thing]:
    """Fill both clouds; gives everything that is there, with its uses up to `end` in mind and those before `begin` behind it."""
    born = begin - 40 * DAY
    east, west = (Account(aws, HUB, region) for region in REGIONS)
    far = Account(aws, MEMBER, REGIONS[0])
    company = aws.world.organization = Organization()
    company.add(HUB, "platform", role=None)
    company.add(MEMBER, "research", role=SWEEPER)
    company.roles.append(TargetRole(arn=f"arn:aws:iam::{MEMBER}:role/{RESTORER}", trusted=HUB))
    vision = azure.subscription(SUBSCRIPTION, "research").workspace("vision", created=born)

    def who() -> str:
        return f"{dice.choice(PEOPLE)}@example.com"

    def uses(habit: str) -> list[Span]:
        return HABITS[habit](begin - PAST, end, begin, dice)

    things: list[Thing] = []
    for n, habit in enumerate(("left",) * 6 + ("always",) * 2 + ("bursts",) * 2):
        account = west if n % 3 == 2 else east
        things.append(
            AwsEndpoint(
                account, f"plain-e{n}", who(), uses(habit), born, counts=(3, 2) if n % 4 == 1 else (3,), scaling=n in {0, 2, 3, 5}
            )
        )
    things += [AwsEndpoint(east, f"shop-e{n}", who(), uses("always"), born) for n in range(7)]
    for n, habit in enumerate(("left", "left", "bursts")):
        things.append(AwsEndpoint(east, f"quick-e{n}", who(), uses(habit), born))
    things.append(AwsEndpoint(east, "legacy-e0", who(), uses("left"), born, counts=(2, 1), scaling=True))
    things.append(AwsEndpoint(west, "legacy-e1", who(), uses("left"), born))
    things.append(AwsEndpoint(east, "prod-e0", who(), uses("left"), born))
    things.append(AwsEndpoint(east, "watch-e0", who(), uses("left"), born))
    things.append(AwsEndpoint(east, "early-e0", who(), uses("always"), born))
    for n, habit in enumerate(("left", "left", "bursts", "left")):
        things.append(AwsEndpoint(far, f"far-e{n}", who(), uses(habit), born, scaling=n < 2))
    things += [AwsNotebook(far, f"far-n{n}", who(), uses(habit), born) for n, habit in enumerate(("left", "days"))]
    for name, guests in (("legacy-h0", ("left", "left")), ("plain-h1", ("left", "bursts"))):
        owner, names = dice.choice(PEOPLE[:2]), [f"{name.partition('-')[0]}-k{name[-1]}{n}" for n in range(len(guests))]
        plans = [uses(habit) for habit in guests]
        host = AwsHost(east, name, f"{owner}@example.com", [span for plan in plans for span in plan], born)
        host.guests = [  # one of another owner, and one of any
            AwsComponent(east, one, f"{dice.choice(PEOPLE[2:])}@example.com" if n == 0 else who(), plan, born, host=name)
            for n, (one, plan) in enumerate(zip(names, plans, strict=True))
        ]
        for guest in host.guests:
            guest.inside = host
        things += [host, *host.guests]
    for n, habit in enumerate(("left", "left", "leaves", "days")):
        things.append(AwsNotebook(east, f"plain-n{n}", who(), uses(habit), born))
    things += [AwsNotebook(east, f"desk-n{n}", who(), uses("days" if n < 3 else "left"), born) for n in range(4)]
    things.append(AwsNotebook(east, "strict-n0", who(), uses("late"), born))
    things += [AwsNotebook(west, f"all-n{n}", who(), uses(habit), born) for n, habit in enumerate(("days", "left"))]
    for n, habit in enumerate(("left", "leaves", "days")):
        things.append(AwsApp(east, f"plain-a{n}", who(), uses(habit), born))
    for n, habit in enumerate(("left", "left", "bursts", "leaves")):
        things.append(AzCluster(vision, f"plain-c{n}", who(), uses(habit), born))
    for n, habit in enumerate(("left", "left", "days")):
        things.append(AzInstance(vision, f"plain-i{n}", who(), uses(habit), born))
    things += [AzInstance(vision, f"desk-i{n}", who(), uses("days"), born) for n in range(2)]
    for n, habit in enumerate(("left", "always", "leaves")):
        things.append(AzDeployment(vision, f"plain-d{n}", who(), uses(habit), born))
    things += [AzDeployment(vision, f"shop-d{n}", who(), uses("always"), born) for n in range(6)]
    things.append(AzDeployment(vision, "early-d0", who(), uses("always"), born))
    things += [AzDeployment(vision, f"legacy-d{n}", who(), uses("left"), born) for n in range(3)]
    for thing in [one for one in things if one.name in without]:
        thing.vanish()
        things.remove(thing)
    for thing in things:
        thing.live(begin - PAST, begin)
    return things


def _left(begin: datetime, end: datetime, now: datetime, dice: Random) -> list[Span]:
    """Busy once, and nobody comes back."""
    return [(begin, now - dice.randint(1, 4) * DAY)]


def _leaves(begin: datetime, end: datetime, now: datetime, dice: Random) -> list[Span]:
    """In use until some day of the play."""
    return _always(begin, now + dice.randint(20, 60) * HOUR, now, dice)


def _always(begin: datetime, end: datetime, now: datetime, dice: Random) -> list[Span]:
    """In use around the clock, with pauses of some minutes."""
    spans, at = [], begin
    while at < end:
        length = timedelta(minutes=dice.randint(30, 120))
        spans.append((at, min(at + length, end)))
        at += length + timedelta(minutes=dice.randint(1, 20))
    return spans


def _bursts(begin: datetime, end: datetime, now: datetime, dice: Random) -> list[Span]:
    """Used for a while every few hours, and sometimes not for a day or two."""
    spans, at = [], begin
    while at < end:
        spans.append((at, at + timedelta(minutes=dice.randint(5, 50))))
        at += timedelta(hours=dice.choice((2, 4, 7, 10, 26, 44)), minutes=dice.randint(1, 59))
    return spans


def _days(begin: datetime, end: datetime, now: datetime, dice: Random) -> list[Span]:
    """At work on working days, with a lunch."""
    spans = []
    for day in terms.workdays(begin, end):
        spans.append((day + 9 * HOUR, day + 12 * HOUR))
        spans.append((day + 13 * HOUR, day + 16 * HOUR + dice.randint(0, 90) * MINUTE))
    return spans


def _late(begin: datetime, end: datetime, now: datetime, dice: Random) -> list[Span]:
    """At work on working days, and left running a job until late in the night."""
    return [span for day in terms.workdays(begin, end) for span in ((day + 9 * HOUR, day + 23 * HOUR),)]


HABITS = {"left": _left, "leaves": _leaves, "always": _always, "bursts": _bursts, "days": _days, "late": _late}
