"""One number that a stop made smaller, and how it goes back: never over what somebody chose since. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """`before` the stop, as the stop `left` it, and `now`; `most` is what autoscaling allows today. `what` begins a sentence."""

    what: str
    before: int
    left: int
    now: int
    most: int | None = None

    @property
    def chosen(self) -> bool:
        """Whether it is neither what the stop left nor what was there before: somebody, or autoscaling, chose it since."""
        return self.now not in (self.left, self.before)

    @property
    def wanted(self) -> int | None:
        """What to ask for; None where there is nothing to ask for."""
        goal = self.before if self.most is None else min(self.before, self.most)
        return goal if self.now == self.left and goal > self.now else None

    @property
    def lost(self) -> list[str]:
        """The sentence that says what does not come back, if anything does not."""
        if self.chosen:
            text = (
                f"not {self.left} as the stop left it and not {self.before} as before: it was chosen since and is left as it is"
            )
            return [f"{self.what} is {self.now} now, {text}."]
        if self.now != self.before and self.most is not None and self.most < self.before:
            text = f"its autoscaling allows no more than {self.most} today"
            return [f"{self.what} is {max(self.now, self.most)} and not {self.before} as before: {text}."]
        return []
