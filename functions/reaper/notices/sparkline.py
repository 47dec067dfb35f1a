"""Two weeks of use as a row of small bars, for any mail client and any terminal. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from reaper.case import Evidence
from reaper.evidence import SLOT_LENGTH
from reaper.model import Role

BAR_CHARACTERS = "▁▂▃▄▅▆▇█"
"""The first means no use at all, each of the others some."""
MAX_BARS = 28
NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sparkline:
    """The bars of one activity signal, oldest first; they cover `span` and end with the window."""

    signal: str
    bars: str
    span: timedelta


def pick_sparkline(evidence: Sequence[Evidence]) -> Sparkline | None:
    """The activity signal that was busy last; None if none has a series."""
    drawn = [e for e in evidence if e.role is Role.ACTIVITY and e.slots]
    if not drawn:
        return None
    best = max(drawn, key=lambda e: e.last_busy or NEVER)
    name = f"{best.signal} of {best.subject}" if best.subject else best.signal
    return Sparkline(signal=name, bars=draw_bars(best.slots), span=SLOT_LENGTH * len(best.slots))


def draw_bars(slots: Sequence[int]) -> str:
    """Percentages as at most MAX_BARS bars, each the highest of its slots; even the least use shows."""
    wide = -(-len(slots) // MAX_BARS)
    peaks = [max(slots[max(0, end - wide) : end]) for end in range(len(slots), 0, -wide)] if slots else []
    return "".join(BAR_CHARACTERS[max(1, round(peak * 7 / 100)) if peak > 0 else 0] for peak in reversed(peaks))


def bar_heights(drawn: str) -> list[int]:
    """The bars as numbers from 0 (no use) to 7."""
    return [BAR_CHARACTERS.index(c) for c in drawn]
