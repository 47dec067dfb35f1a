"""What happens in the two weeks: when it is swept, and what people and clouds do in between. Who there is stands in `cast`.

Every deed is done through the product or to the clouds; what comes of it is the product's own doing, and only told.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from reaper.actions import hold_ledger
from reaper.text import format_time
from reaper_sandbox.demo import story_fleet
from reaper_sandbox.demo.story_world import StoryWorld

StoryEvent = Callable[[StoryWorld], str]
"""Does something and says in one sentence what came of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """At `when` somebody (`who`) does `deed`. Without a deed it is swept; `between` comes after judging and before acting."""

    when: datetime
    who: str = ""
    event: StoryEvent | None = None
    between_judging_and_acting: StoryEvent | None = None


def story_time(day: int, time: str) -> datetime:
    """The moment of that day of the story, the first one being 1."""
    hours, _, minutes = time.partition(":")
    return story_fleet.STORY_START + timedelta(days=day - 1, hours=int(hours), minutes=int(minutes))


def snooze(name: str, days: int) -> StoryEvent:
    """The owner opens the link in the mail and sends the form."""

    def deed(stage: StoryWorld) -> str:
        said = stage.snooze(name, days)
        memory = stage.memories()[name]
        until = format_time(memory.snoozed_until) if memory.snoozed_until else "nothing"
        return f"opens the link in the mail and sends the form: {said}; the ledger has it until {until}"

    return deed


def send_requests(name: str, variant: str = "AllTraffic") -> StoryEvent:
    """Requests come in from now on."""

    def deed(stage: StoryWorld) -> str:
        story_fleet.add_requests(stage.aws_account, name, stage.now, story_fleet.STORY_END, variant)
        return f"sends requests to {name} again"

    return deed


def put_tag(name: str, key: str, value: str) -> StoryEvent:
    """A tag is put on an endpoint."""

    def deed(stage: StoryWorld) -> str:
        found = stage.aws_account.contents.endpoints[name]
        found.tags = {**(found.tags or {}), key: value}
        return f"puts the tag {key}={value} on {name}, after it was judged and before anything is stopped"

    return deed


def release_hold(stage: StoryWorld) -> str:
    """What is on hold is released by a person."""
    with stage.ledger() as kept:
        until = hold_ledger.release_hold(kept, "lee", stage.now).valid_until
    return f"has read the summary and runs `reaper release`: what was due is released until {format_time(until)}"


def restore_endpoint(name: str) -> StoryEvent:
    """What was deleted is brought back, and compared with what it was."""

    def deed(stage: StoryWorld) -> str:
        done = stage.restore(name, "lee")
        if done.undone is None:
            return f"runs `reaper restore` on {name}: {done.error}"
        now, before = story_fleet.endpoint_snapshot(stage.aws_account, name), stage.snapshots[name]
        differ = [part for part in before if now[part] != before[part]]
        same = f"not the same as before in {', '.join(differ)}" if differ else f"the same as before in {', '.join(before)}"
        lost = "".join(f" Not back: {line}" for line in done.undone.not_restored)
        return f"needs {name} after all and runs `reaper restore`: {done.undone.because}, {same}.{lost}"

    return deed


def lose_metrics(stage: StoryWorld) -> str:
    """Nothing has to be done: the points end in `cast`."""
    return f"loses the Invocations of {len(story_fleet.BUSY_ENDPOINTS)} endpoints that are in use; their CPU is still reported"


def backfill_metrics(stage: StoryWorld) -> str:
    """The points come in late."""
    for name in story_fleet.BUSY_ENDPOINTS:
        story_fleet.add_requests(stage.aws_account, name, story_fleet.OUTAGE_START, story_fleet.STORY_END)
    return f"is well again, and the missing Invocations of {len(story_fleet.BUSY_ENDPOINTS)} endpoints have come in late"


EVENTS = (
    Scene(when=story_time(2, "09:12"), who="tom", event=snooze("churn-model", 5)),
    Scene(when=story_time(3, "15:00"), who="ana", event=send_requests("fraud-scorer")),
    Scene(when=story_time(4, "14:20"), who="lee", event=release_hold),
    Scene(when=story_time(8, "14:05"), who="lee", event=restore_endpoint("legacy-ranker")),
    Scene(when=story_time(8, "14:10"), who="lee", event=send_requests("legacy-ranker", "blue")),
    Scene(when=story_fleet.OUTAGE_START, who="CloudWatch", event=lose_metrics),
    Scene(when=story_time(12, "08:00"), who="CloudWatch", event=backfill_metrics),
)
EVENTS_DURING_SWEEPS = {story_time(4, "19:30"): ("sam", put_tag("pricing-ab", "reaper:keep", "true"))}
"""Deeds in the middle of a sweep."""
DAILY_SWEEP, EVENING_SWEEPS = "09:30", ("19:30", "21:00")
"""It is swept every morning, and on the evenings of working days."""


def scenes() -> list[Scene]:
    """The whole story in order."""
    sweeps = [story_time(day, DAILY_SWEEP) for day in range(1, 15)]
    sweeps += [story_time(day, time) for day in range(1, 13) if story_time(day, DAILY_SWEEP).weekday() < 5 for time in EVENING_SWEEPS]
    return sorted([*map(_sweep_scene, sweeps), *EVENTS], key=lambda scene: scene.when)


def _sweep_scene(when: datetime) -> Scene:
    who, deed = EVENTS_DURING_SWEEPS.get(when, ("", None))
    return Scene(when=when, who=who, between_judging_and_acting=deed)
