"""What a sweep leaves in the ledger about itself: one summary per target and kind, for the breaker and for those who ask later."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime

from reaper.desk import Desk
from reaper.errors import ReaperError
from reaper.gap import add, gap
from reaper.ledger import KEEP, Summary
from reaper.model import Coverage, Finding, Report, State, Target

Place = tuple[Target, str]
"""A target and the name of a kind."""


def record(report: Report, findings: Sequence[Finding], jumped: Collection[Place], desk: Desk, gaps: list[Coverage]) -> None:
    """Keep the summaries of every target in `findings`; those that `jumped` are marked as unusual. What fails is one more gap."""
    try:
        for summary in _summaries(report, findings, jumped):
            desk.ledger.record(summary)
    except ReaperError as error:
        add(gaps, gap("ledger", error))


def tidy(desk: Desk, now: datetime, gaps: list[Coverage]) -> None:
    """Forget what nobody has written for more than a year; DynamoDB does so by itself, the others do not."""
    try:
        desk.ledger.forget_before(now - KEEP)
    except ReaperError as error:
        add(gaps, gap("ledger", error))


def _summaries(report: Report, findings: Sequence[Finding], jumped: Collection[Place]) -> Iterator[Summary]:
    ours = {f.case.resource.target for f in findings}
    for row in report.coverage:
        target = Target(cloud=row.cloud, account=row.account, region=row.region)
        if target not in ours:
            continue
        mine = [f for f in findings if f.case.resource.target == target and f.case.resource.kind == row.kind]
        idle = [f for f in mine if f.case.verdict.state is State.IDLE]
        yield Summary(
            run=report.run.id,
            target=target,
            kind=row.kind,
            started=report.run.started_at,
            seen=row.resources,
            idle=len(idle),
            usd_per_hour=sum(f.price.usd_per_hour for f in idle if f.price),
            unpriced=sum(1 for f in idle if f.price is None),
            held=(target, row.kind) in jumped,
        )
