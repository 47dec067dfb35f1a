"""Actions that were interrupted between a side change and the main call: they are put back, and nothing rests on the silence that they made.

A side change is a setting that an action changes first: an autoscaling minimum, or a deployment's share of the traffic.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from play.scene import Scene, is_of, time_text
from play.terms import DAY, MINUTE
from play.thing import Thing

MAIN = re.compile(r"sagemaker:(Update|Delete).*|.*/onlineEndpoints/deployments/(write|delete)")
"""The calls that side changes prepare."""
SLACK = 5 * MINUTE


@dataclass(slots=True, kw_only=True)
class Half:
    """An interrupted action. `before`, `ours`: the side settings before it and as it left them; `theirs`: as a person set them since.

    `touched`: a person changed the resource itself since.
    """

    name: str
    at: datetime
    command: int
    before: Mapping[str, int]
    ours: Mapping[str, int]
    theirs: Mapping[str, int] | None = None
    touched: bool = False

    def wanted(self, when: datetime) -> list[Mapping[str, int]]:
        """The side settings with which it is settled at that time."""
        if self.theirs is not None:
            return [self.theirs]
        age = when - self.at
        left = self.touched or age > DAY - SLACK
        back = not self.touched and age < DAY + SLACK
        return [*([self.ours] if left else []), *([self.before] if back else [])]


@dataclass(slots=True)
class Halves:
    """Those that are `open`, and the `latest` of each resource."""

    things: Mapping[str, Thing]
    open: dict[str, Half] = field(default_factory=dict)
    latest: dict[str, Half] = field(default_factory=dict)
    put_back: list[tuple[str, datetime]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def saw(self, scene: Scene) -> Iterator[str]:
        """What is wrong about those that were open when this command began; notes those that it left."""
        for half in list(self.open.values()):
            yield from self._follow(half, scene)
        yield from self._begun(scene)

    def by_person(self, name: str, theirs: Mapping[str, int] | None) -> None:
        """A person set the side settings so, or (None) changed the resource itself."""
        if half := self.open.get(name):
            half.theirs, half.touched = (theirs or half.theirs), half.touched or theirs is None

    def _follow(self, half: Half, scene: Scene) -> Iterator[str]:
        before, after = scene.before[half.name], scene.after[half.name]
        if scene.verb in {"restore", "undo"}:
            return
        if not after.exists and not before.exists:
            self.open.pop(half.name)
            return
        if any(is_main(change.action) and not change.refused and is_of(change, half.name) for change in scene.changes):
            yield f"{half.name}: acted on while the action of {time_text(half.at)} was half done"
        if not scene.acts:
            if after.sides != before.sides:
                yield f"{half.name}: `{scene.verb}` in mode {scene.mode} set {dict(after.sides)}"
            return
        is_settling = scene.verb == "sweep" and not scene.out_of_order
        if after.sides not in half.wanted(scene.began):
            if is_settling or after.sides != before.sides:
                yield (
                    f"{half.name}: interrupted at {time_text(half.at)}, and has {dict(after.sides)} instead of "
                    f"{[dict(one) for one in half.wanted(scene.began)]}"
                )
            return
        if is_settling or after.sides != before.sides:
            was_put_back = after.sides != before.sides
            self.counts["put back" if was_put_back else "left as a person set it" if half.theirs or half.touched else "left"] += 1
            if was_put_back:
                self.put_back.append((half.name, scene.ended))
            self.open.pop(half.name)

    def _begun(self, scene: Scene) -> Iterator[str]:
        for name, before in scene.before.items():
            after = scene.after[name]
            if not (scene.acts and after.exists and before.sides != after.sides) or any(n == name for n, _ in self._now(scene)):
                continue
            if any(is_main(change.action) and is_of(change, name) for change in scene.changes):
                continue
            if not scene.out_of_order & {"kill", "lost"}:
                yield f"{name}: {dict(before.sides)} became {dict(after.sides)}, and nothing more was done"
            half = Half(name=name, at=scene.began, command=scene.number, before=before.sides, ours=after.sides)
            self.open[name] = self.latest[name] = half
            self.counts["interrupted half-way"] += 1

    def _now(self, scene: Scene) -> list[tuple[str, datetime]]:
        """What was put back in this command."""
        return [(name, when) for name, when in self.put_back if when == scene.ended]


def is_main(action: str) -> bool:
    """Whether side changes prepare that call."""
    return MAIN.fullmatch(action) is not None
