"""The stop switch: while it is on, nothing is stopped, deleted or started."""

from __future__ import annotations

from collections.abc import Iterator

from reaper.doctor.check import Check, ok, to_fix
from reaper.doctor.context import DoctorContext
from reaper.errors import ReaperError
from reaper.ledger import opening
from reaper.pending.stop_switch import paused_because, read_pause

RESUME = "reaper resume"


def examine_pause(context: DoctorContext) -> Iterator[Check]:
    """Whether the switch is on. Below mode enforce it stops nothing, because nothing acts; `apply` respects it in every mode."""
    settings = context.settings
    if not settings.ledger:
        return
    try:
        ledger = opening.open_ledger(settings.ledger, context.environ, read_only=True)
    except ReaperError:
        return  # `stores` says so
    pause = read_pause(ledger, context.clock())
    if pause is None:
        yield ok("pause", "the stop switch is off")
    elif pause.unreadable_because:
        yield to_fix(
            "pause", paused_because(pause), "Repair the ledger first, then set the switch with reaper pause or reaper resume."
        )
    elif settings.mode.announces:
        yield to_fix("pause", f"{paused_because(pause)}, so nothing is stopped, deleted or started", RESUME)
    else:
        yield ok("pause", paused_because(pause))
