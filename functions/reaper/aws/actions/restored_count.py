"""One number that a stop made smaller, and how it goes back: never over what was changed since. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredCount:
    """`before` the stop, `stopped_at` as the stop left it, and `now`. `maximum` is what autoscaling allows today. `label` begins a sentence."""

    label: str
    before: int
    stopped_at: int
    now: int
    maximum: int | None = None

    @property
    def was_chosen_since(self) -> bool:
        """Whether it is neither what the stop left nor what was there before: a person or autoscaling changed it since."""
        return self.now not in (self.stopped_at, self.before)

    @property
    def count_to_request(self) -> int | None:
        """What to ask for; None if nothing."""
        goal = self.before if self.maximum is None else min(self.before, self.maximum)
        return goal if self.now == self.stopped_at and goal > self.now else None

    @property
    def not_restored(self) -> list[str]:
        """The sentence that says what does not come back, if anything does not."""
        if self.was_chosen_since:
            text = f"not {self.stopped_at} as the stop left it and not {self.before} as before: it was changed since, so the reaper left it alone"
            return [f"{self.label} is {self.now} now, {text}."]
        if self.now != self.before and self.maximum is not None and self.maximum < self.before:
            text = f"its autoscaling allows no more than {self.maximum} today"
            return [f"{self.label} is {max(self.now, self.maximum)} instead of {self.before}: {text}."]
        return []
