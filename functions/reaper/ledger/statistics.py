"""What a sweep leaves in the ledger about itself: one row per target and kind, from which the breaker knows what is usual.

A sweep that could not read a place, or of whose resources there more than half are unknown, says nothing of what is usual; nor does one
that sees a jump of the idle share. It leaves no row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime

from reaper import decide, enrolment, limits
from reaper.actions import holds
from reaper.actions.holds import KindInTarget
from reaper.coverage import add_failure_row, failure_row
from reaper.errors import ReaperError
from reaper.ledger.port import RETENTION, RunStatistics
from reaper.model import Coverage, Finding, Report, State, Target
from reaper.notices.context import ConcludeContext


def record_statistics(
    report: Report, findings: Sequence[Finding], jumped: Collection[KindInTarget], desk: ConcludeContext, gaps: list[Coverage]
) -> None:
    """Keep a row for each place of which `findings` say what is usual, those that `jumped` left out. What fails is one more gap."""
    try:
        for summary in _summaries(report, findings, jumped):
            desk.ledger.record_statistics(summary)
    except ReaperError as error:
        add_failure_row(gaps, failure_row("ledger", error))


def tidy(desk: ConcludeContext, now: datetime, gaps: list[Coverage]) -> None:
    """Forget what nobody has written for more than a year; DynamoDB does so by itself, the others do not."""
    try:
        desk.ledger.forget_before(now - RETENTION)
    except ReaperError as error:
        add_failure_row(gaps, failure_row("ledger", error))


def _summaries(report: Report, findings: Sequence[Finding], jumped: Collection[KindInTarget]) -> Iterator[RunStatistics]:
    groups: dict[KindInTarget, list[Finding]] = defaultdict(list)
    for found in findings:
        groups[holds.kind_in_target_of(found.case)].append(found)
    sound = limits.places_with_known_share([f.case for f in findings], decide.read(report.coverage))
    for row in report.coverage:
        target = Target(cloud=row.cloud, account=row.account, region=row.region)
        place = holds.kind_in_target(target, row.kind)
        mine = groups[place]
        share = limits.idle_share(f.case for f in mine)
        if not share.seen or place in jumped or place not in sound:
            continue
        idle = [f for f in mine if f.case.verdict.state is State.IDLE and not enrolment.is_stopped_by_hours(f.case)]
        yield RunStatistics(
            run=report.run.id,
            target=target,
            kind=row.kind,
            started=report.run.started_at,
            seen=share.seen,
            idle=share.idle,
            usd_per_hour=sum(f.price.usd_per_hour for f in idle if f.price),
            unpriced=sum(1 for f in idle if f.price is None),
        )
