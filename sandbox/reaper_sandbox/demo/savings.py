"""Savings of stops and deletions: hours times list price, from the reports alone. Pure.

The first later sweep that knows the resource says what it costs after an action: nothing if it is gone or stopped, otherwise the price of
what still runs. If either price is unknown, only the hours are counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from reaper.case import Finding, Report
from reaper.model import ENDING_ACTIONS, Result, StepName


@dataclass(frozen=True, slots=True, kw_only=True)
class RestPeriod:
    """One time at rest. `before` and `after` are dollars an hour around the action, None if unknown; `until` is None while it lasts."""

    name: str
    since: datetime
    until: datetime | None = None
    before: float | None
    after: float | None = None

    def hours(self, now: datetime) -> float:
        """Its length in hours, up to `now`."""
        return ((self.until or now) - self.since).total_seconds() / 3600

    def usd(self, now: datetime) -> float | None:
        """Dollars saved up to `now`, None if a price is unknown."""
        if self.before is None or self.after is None:
            return None
        return (self.before - self.after) * self.hours(now)


def rest_periods(reports: Sequence[Report], back: Iterable[tuple[str, datetime]]) -> list[RestPeriod]:
    """Every time at rest, oldest first. `back` has the names of restored resources with their times."""
    returned = list(back)
    rests: list[RestPeriod] = []
    for last, report in zip([*reports[:1], *reports], reports, strict=False):
        when = report.run.started_at
        rests = [_ended_by_restore(rest, returned, when) for rest in rests]
        rests = [replace(r, until=last.run.started_at) if r.until is None and _costs_again(r, report) else r for r in rests]
        rests = [_with_known_price(rest, report) if rest.until is None and rest.after is None else rest for rest in rests]
        started = {f.case.resource.name for f in report.findings if _has_done(f, {StepName.START})}
        rests = [replace(r, until=when) if r.until is None and r.name in started else r for r in rests]
        rests += [
            RestPeriod(name=f.case.resource.name, since=when, before=_usd_per_hour(f))
            for f in report.findings
            if _has_done(f, ENDING_ACTIONS)
        ]
    return rests


def _ended_by_restore(rest: RestPeriod, returned: Sequence[tuple[str, datetime]], now: datetime) -> RestPeriod:
    moments = [when for name, when in returned if name == rest.name and rest.since < when <= now]
    return replace(rest, until=min(moments)) if moments and rest.until is None else rest


def _costs_again(rest: RestPeriod, report: Report) -> bool:
    """Whether it costs as much as before. Then it surely rested only up to the sweep before this one."""
    prices = [_usd_per_hour(f) for f in report.findings if f.case.resource.name == rest.name]
    return rest.before is not None and any(usd is not None and usd >= rest.before for usd in prices)


def _with_known_price(rest: RestPeriod, report: Report) -> RestPeriod:
    """The rest with the current price of its resource, if this report has it."""
    finding = next((f for f in report.findings if f.case.resource.name == rest.name), None)
    if finding is None:
        return replace(rest, after=0.0) if report.is_complete else rest
    if finding.case.resource.parts == ():
        return replace(rest, after=0.0)
    return replace(rest, after=_usd_per_hour(finding))


def _usd_per_hour(finding: Finding) -> float | None:
    return finding.price.usd_per_hour if finding.price else None


def _has_done(finding: Finding, actions: Iterable[StepName]) -> bool:
    return finding.step.name in actions and finding.outcome.result is Result.DONE


def unpriced_hours(rests: Iterable[RestPeriod], now: datetime) -> Iterator[tuple[str, float]]:
    """Names and hours of the rests whose price is unknown."""
    yield from ((rest.name, rest.hours(now)) for rest in rests if rest.usd(now) is None)
