"""Where one resource stands now: its evidence, its record and its snoozes as one finding. Pure. `decide` and the re-check ask here."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from reaper import idle_period, plan
from reaper.case import Case
from reaper.finding import Finding, wasted_usd
from reaper.model import State
from reaper.planning import dates, possible_actions
from reaper.planning.valid_notice import without_void_notice
from reaper.record import Record, Snoozes


def stand(
    case: Case, record: Record, snoozes: Snoozes, now: datetime, *, announces: bool = True, lapsed: Sequence[datetime | None] = ()
) -> Finding:
    """The finding before limits. `announces`: the run announces actions. `lapsed`: when jumps of the idle share ended in its place."""
    record = without_void_notice(case, record, snoozes, now, announces=announces, lapsed=lapsed)
    reported = possible_actions.with_snooze(idle_period.since_own_call(case, record, now), snoozes, now)
    since = idle_period.idle_since(reported, record, now) if reported.verdict.state is State.IDLE else None
    idle_for = now - since if since else None
    return Finding(
        case=reported,
        judged=None if reported.verdict == case.verdict else case.verdict,
        step=plan.plan_step(reported, record, snoozes, now, acting=announces),
        idle_since=since,
        idle_for=idle_for,
        wasted_usd=wasted_usd(reported, idle_for),
        notice=record.notice,
        due_at=dates.action_due_at(reported, record, now),
        record_version=record.version,
        snoozes=snoozes.protections,
        needs_summary=dates.is_summary_due(reported, record.notice, snoozes, now),
    )
