"""Seeds of what tests make up: the same in every `make test`; in `make soak` those of REAPER_SOAK, which are fresh and printed."""

from __future__ import annotations

import os

FRESH = tuple(int(seed) for seed in os.environ.get("REAPER_SOAK", "").split(",") if seed)


def first(count: int) -> int:
    """The first of so many seeds in a row: those from 0 on, or in `make soak` others."""
    return FRESH[0] * count if FRESH else 0


def examples(count: int) -> int:
    """How many examples of a property: in `make test` the same third of a hundred or more, in `make soak` all, made up anew."""
    return count if FRESH or count < 100 else count // 3
