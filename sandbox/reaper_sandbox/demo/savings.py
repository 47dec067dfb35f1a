"""What stopping saved, in hours times list price, out of the reports alone. Pure.

What a resource costs after an act is what the first later sweep that knows it says: nothing where it is gone or stopped, else the price of
what still runs. Where either price is not known, only the hours are counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from reaper.model import ENDING_ACTIONS, Finding, StepName, Report, Result
from reaper.report.totals import is_complete


@dataclass(frozen=True, slots=True, kw_only=True)
class RestPeriod:
    """One time of rest: dollars an hour before the act and after it, None where not known; `until` None: it still lasts."""

    name: str
    since: datetime
    until: datetime | None = None
    before: float | None
    after: float | None = None

    def hours(self, now: datetime) -> float:
        """How long it lasted, up to `now`."""
        return ((self.until or now) - self.since).total_seconds() / 3600

    def usd(self, now: datetime) -> float | None:
        """What it saved up to `now`; None where a price is not known."""
        if self.before is None or self.after is None:
            return None
        return (self.before - self.after) * self.hours(now)


def rest_periods(reports: Sequence[Report], back: Iterable[tuple[str, datetime]]) -> list[RestPeriod]:
    """Every time of rest, oldest first. `back`: names that somebody brought back, and when."""
    returned = list(back)
    found: list[RestPeriod] = []
    for last, report in zip([*reports[:1], *reports], reports, strict=False):
        when = report.run.started_at
        found = [_ended_by_restore(rest, returned, when) for rest in found]
        found = [replace(r, until=last.run.started_at) if r.until is None and _dear(r, report) else r for r in found]
        found = [_with_known_price(rest, report) if rest.until is None and rest.after is None else rest for rest in found]
        started = {f.case.resource.name for f in report.findings if _has_done(f, {StepName.START})}
        found = [replace(r, until=when) if r.until is None and r.name in started else r for r in found]
        found += [RestPeriod(name=f.case.resource.name, since=when, before=_usd_per_hour(f)) for f in report.findings if _has_done(f, ENDING_ACTIONS)]
    return found


def _ended_by_restore(rest: RestPeriod, returned: Sequence[tuple[str, datetime]], now: datetime) -> RestPeriod:
    moments = [when for name, when in returned if name == rest.name and rest.since < when <= now]
    return replace(rest, until=min(moments)) if moments and rest.until is None else rest


def _dear(rest: RestPeriod, report: Report) -> bool:
    """Whether somebody made it cost what it did before: then it rested for no longer than up to the sweep before this one, for sure."""
    usd = [_usd_per_hour(f) for f in report.findings if f.case.resource.name == rest.name]
    return rest.before is not None and any(one is not None and one >= rest.before for one in usd)


def _with_known_price(rest: RestPeriod, report: Report) -> RestPeriod:
    """The rest with what its resource costs now, if this report knows."""
    seen = next((f for f in report.findings if f.case.resource.name == rest.name), None)
    if seen is None:
        return replace(rest, after=0.0) if is_complete(report) else rest
    if seen.case.resource.parts == ():
        return replace(rest, after=0.0)
    return replace(rest, after=_usd_per_hour(seen))


def _usd_per_hour(found: Finding) -> float | None:
    return found.price.usd_per_hour if found.price else None


def _has_done(found: Finding, moves: Iterable[StepName]) -> bool:
    return found.step.name in moves and found.outcome.result is Result.DONE


def unpriced_hours(found: Iterable[RestPeriod], now: datetime) -> Iterator[tuple[str, float]]:
    """The names of which no money can be told, and the hours that they rested."""
    yield from ((rest.name, rest.hours(now)) for rest in found if rest.usd(now) is None)
