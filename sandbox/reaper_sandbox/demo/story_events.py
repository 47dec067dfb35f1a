"""What happens in the two weeks: when it is swept, and what people and clouds do in between. Who there is stands in `cast`.

Every deed is done through the product or to the clouds; what comes of it is the product's own doing, and only told.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from reaper import decide
from reaper.text import moment
from reaper_sandbox.demo import story_fleet
from reaper_sandbox.demo.story_world import Stage

Deed = Callable[[Stage], str]
"""Does something and says in one sentence what came of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """At `when` somebody (`who`) does `deed`. Without a deed it is swept; `between` comes after judging and before acting."""

    when: datetime
    who: str = ""
    deed: Deed | None = None
    between: Deed | None = None


def at(day: int, time: str) -> datetime:
    """The moment of that day of the story, the first one being 1."""
    hours, _, minutes = time.partition(":")
    return story_fleet.BEGIN + timedelta(days=day - 1, hours=int(hours), minutes=int(minutes))


def keep(name: str, days: int) -> Deed:
    """The owner opens the link in the mail and sends the form."""

    def deed(stage: Stage) -> str:
        said = stage.keep(name, days)
        memory = stage.memories()[name]
        until = moment(memory.snoozed_until) if memory.snoozed_until else "nothing"
        return f"opens the link in the mail and sends the form: {said}; the ledger has it until {until}"

    return deed


def use(name: str, variant: str = "AllTraffic") -> Deed:
    """Requests come in from now on."""

    def deed(stage: Stage) -> str:
        story_fleet.asked(stage.here, name, stage.now, story_fleet.END, variant)
        return f"sends requests to {name} again"

    return deed


def tag(name: str, key: str, value: str) -> Deed:
    """A tag is put on an endpoint."""

    def deed(stage: Stage) -> str:
        found = stage.here.contents.endpoints[name]
        found.tags = {**(found.tags or {}), key: value}
        return f"puts the tag {key}={value} on {name}, after it was judged and before anything is stopped"

    return deed


def release(stage: Stage) -> str:
    """What is on hold is released by a person."""
    with stage.ledger() as kept:
        until = decide.release(kept, "lee", stage.now).until
    return f"has read the summary and runs `reaper release`: what was due is released until {moment(until)}"


def restore(name: str) -> Deed:
    """What was deleted is brought back, and compared with what it was."""

    def deed(stage: Stage) -> str:
        done = stage.restore(name, "lee")
        if done.undone is None:
            return f"runs `reaper restore` on {name}: {done.error}"
        now, before = story_fleet.portrait(stage.here, name), stage.portraits[name]
        differ = [part for part in before if now[part] != before[part]]
        same = f"not the same as before in {', '.join(differ)}" if differ else f"the same as before in {', '.join(before)}"
        lost = "".join(f" Not back: {line}" for line in done.undone.lost)
        return f"needs {name} after all and runs `reaper restore`: {done.undone.because}, {same}.{lost}"

    return deed


def loses(stage: Stage) -> str:
    """Nothing has to be done: the points end in `cast`."""
    return f"loses the Invocations of {len(story_fleet.SHOP)} endpoints that are in use; their CPU is still reported"


def heals(stage: Stage) -> str:
    """The points come in late."""
    for name in story_fleet.SHOP:
        story_fleet.asked(stage.here, name, story_fleet.OUTAGE, story_fleet.END)
    return f"is well again, and the missing Invocations of {len(story_fleet.SHOP)} endpoints have come in late"


DEEDS = (
    Scene(when=at(2, "09:12"), who="tom", deed=keep("churn-model", 5)),
    Scene(when=at(3, "15:00"), who="ana", deed=use("fraud-scorer")),
    Scene(when=at(4, "14:20"), who="lee", deed=release),
    Scene(when=at(8, "14:05"), who="lee", deed=restore("legacy-ranker")),
    Scene(when=at(8, "14:10"), who="lee", deed=use("legacy-ranker", "blue")),
    Scene(when=story_fleet.OUTAGE, who="CloudWatch", deed=loses),
    Scene(when=at(12, "08:00"), who="CloudWatch", deed=heals),
)
BETWEEN = {at(4, "19:30"): ("sam", tag("pricing-ab", "reaper:keep", "true"))}
"""Deeds in the middle of a sweep."""
DAILY, OFFICE = "09:30", ("19:30", "21:00")
"""It is swept every morning, and on the evenings of working days."""


def scenes() -> list[Scene]:
    """The whole story in order."""
    sweeps = [at(day, DAILY) for day in range(1, 15)]
    sweeps += [at(day, time) for day in range(1, 13) if at(day, DAILY).weekday() < 5 for time in OFFICE]
    return sorted([*map(_sweep, sweeps), *DEEDS], key=lambda scene: scene.when)


def _sweep(when: datetime) -> Scene:
    who, deed = BETWEEN.get(when, ("", None))
    return Scene(when=when, who=who, between=deed)
