"""How old a run may be in each phase. What it read is true for a while only, and people use their resources meanwhile.

Age counts from the start of the run. An audit changes nothing and sends nothing to owners, so it may take any time.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from reaper.model import Run

OBSERVE_WITHIN = timedelta(minutes=30)
"""What observe hasn't read by then is a failed row of the coverage, and the next run reads it first."""
DECIDE_WITHIN = timedelta(minutes=60)
"""What decide gets later than that is a failed row, and nothing there is decided."""
ACT_WITHIN = timedelta(minutes=120)
"""Act begins nothing after that."""
SHARE_OF_ALL, SHARE_OF_STEP = 0.7, 0.9
"""How much of its time a process may observe: one that carries out all phases, and a workflow's step, which only has to store the part then."""
ACT_MARGIN = timedelta(minutes=2)
"""The time that an action needs before the deadline: enough to finish it, and to notify and record everything afterwards."""
NOT_REACHED = "not read, because the run's time was over; the next run reads it first"


def observe_deadline(run: Run, now: datetime, deadline: datetime | None, share: float = SHARE_OF_ALL) -> datetime | None:
    """When observe, which begins `now`, has to end: after its share of the time until `deadline`, or OBSERVE_WITHIN, whichever is earlier.

    A workflow's step may begin long after its run.
    """
    ends = now + (deadline - now) * share if deadline else None
    limit = run.started_at + OBSERVE_WITHIN if run.mode.writes else None
    return min((moment for moment in (ends, limit) if moment), default=None)


def too_old_to_decide(run: Run, now: datetime) -> str | None:
    """Why nothing may be decided any more, or None."""
    return _too_old(run, now, DECIDE_WITHIN)


def no_time_to_act(run: Run, now: datetime, deadline: datetime | None) -> str | None:
    """Why no action may begin any more, or None. `deadline`: when the process will be ended."""
    if deadline and now > deadline - ACT_MARGIN:
        return "this run's time is nearly over; the next sweep carries it out"
    return _too_old(run, now, ACT_WITHIN)


def _too_old(run: Run, now: datetime, limit: timedelta) -> str | None:
    if not run.mode.writes or now - run.started_at <= limit:
        return None
    return f"the run began more than {limit // timedelta(minutes=1)} minutes ago; the next run decides again"
