"""The events of the two weeks: the sweeps, and what people and clouds do in between. The fleet is in `story_fleet`.

Every event goes through the product or changes the clouds. The product decides what follows; the story only reports it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from reaper.limits import holds
from reaper.text import format_time
from reaper_sandbox.demo import story_fleet
from reaper_sandbox.demo.story_world import StoryWorld

StoryEvent = Callable[[StoryWorld], str]
"""Makes something happen, and describes it in one clause after the name of who did it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """At `when`, `who` makes `event` happen. Without an event it is a sweep, and `between_judging_and_acting` happens in its middle."""

    when: datetime
    who: str = ""
    event: StoryEvent | None = None
    between_judging_and_acting: StoryEvent | None = None


def story_time(day: int, time: str) -> datetime:
    """A time on a day of the story; the first day is 1."""
    hours, _, minutes = time.partition(":")
    return story_fleet.STORY_START + timedelta(days=day - 1, hours=int(hours), minutes=int(minutes))


def snooze(name: str, days: int) -> StoryEvent:
    """The owner opens the link in the mail and sends the form."""

    def event(world: StoryWorld) -> str:
        heading = world.snooze(name, days)
        snooze = world.kept(name)
        until = format_time(snooze.until) if snooze.until else "nothing"
        return f"opens the link in the mail and sends the form: {heading}. The ledger has it until {until}"

    return event


def send_requests(name: str, variant: str = "AllTraffic") -> StoryEvent:
    """Requests arrive from now on."""

    def event(world: StoryWorld) -> str:
        story_fleet.add_requests(world.aws_account, name, world.now, story_fleet.STORY_END, variant)
        return f"sends requests to {name} again"

    return event


def put_tag(name: str, key: str, value: str) -> StoryEvent:
    """An endpoint gets a tag."""

    def event(world: StoryWorld) -> str:
        endpoint = world.aws_account.contents.endpoints[name]
        endpoint.tags = {**(endpoint.tags or {}), key: value}
        return f"adds the tag {key}={value} to {name}, after the sweep has judged it and before the sweep stops anything"

    return event


def release_hold(stage: StoryWorld) -> str:
    """What is on hold is released by a person."""
    with stage.ledger() as ledger:
        until = holds.release_actions(ledger, "lee", stage.now).valid_until
    return f"has read the summary and runs `reaper release --all`: what was due is released until {format_time(until)}"


def restore_endpoint(name: str) -> StoryEvent:
    """A person recreates a deleted endpoint. The result is compared with the original."""

    def event(world: StoryWorld) -> str:
        result = world.restore(name, "lee")
        if result.undone is None:
            return f"runs `reaper restore` on {name}: {result.error}"
        now, before = story_fleet.endpoint_snapshot(world.aws_account, name), world.snapshots[name]
        differences = [part for part in before if now[part] != before[part]]
        same = (
            f"different from before in {', '.join(differences)}" if differences else f"the same as before in {', '.join(before)}"
        )
        missing = "".join(f" Not restored: {line}" for line in result.undone.not_restored)
        return f"needs {name} after all and runs `reaper restore`: {result.undone.because}, {same}.{missing}"

    return event


def lose_metrics(world: StoryWorld) -> str:
    """Nothing to do: `story_fleet` ends the points at this time."""
    return f"loses the Invocations of {len(story_fleet.BUSY_ENDPOINTS)} endpoints in use, but still reports their CPU"


def backfill_metrics(world: StoryWorld) -> str:
    """The missing points arrive late."""
    for name in story_fleet.BUSY_ENDPOINTS:
        story_fleet.add_requests(world.aws_account, name, story_fleet.OUTAGE_START, story_fleet.STORY_END)
    return f"works again and adds the missing Invocations of {len(story_fleet.BUSY_ENDPOINTS)} endpoints"


EVENTS = (
    Scene(when=story_time(2, "09:12"), who="tom", event=snooze("churn-model", 4)),
    Scene(when=story_time(3, "15:00"), who="ana", event=send_requests("fraud-scorer")),
    Scene(when=story_time(4, "14:20"), who="lee", event=release_hold),
    Scene(when=story_time(8, "14:05"), who="lee", event=restore_endpoint("legacy-ranker")),
    Scene(when=story_time(8, "14:10"), who="lee", event=send_requests("legacy-ranker", "blue")),
    Scene(when=story_fleet.OUTAGE_START, who="CloudWatch", event=lose_metrics),
    Scene(when=story_time(12, "08:00"), who="CloudWatch", event=backfill_metrics),
)
EVENTS_DURING_SWEEPS = {story_time(4, "19:30"): ("sam", put_tag("pricing-ab", "reaper:keep", "true"))}
"""Events in the middle of a sweep, by its time."""
DAILY_SWEEP, EVENING_SWEEPS = "09:30", ("19:30", "21:00")
"""Sweeps run every morning, and on the evenings of working days."""


def scenes() -> list[Scene]:
    """All sweeps and events in order."""
    sweeps = [story_time(day, DAILY_SWEEP) for day in range(1, 15)]
    sweeps += [
        story_time(day, time) for day in range(1, 13) if story_time(day, DAILY_SWEEP).weekday() < 5 for time in EVENING_SWEEPS
    ]
    return sorted([*map(_sweep_scene, sweeps), *EVENTS], key=lambda scene: scene.when)


def _sweep_scene(when: datetime) -> Scene:
    who, event = EVENTS_DURING_SWEEPS.get(when, ("", None))
    return Scene(when=when, who=who, between_judging_and_acting=event)
