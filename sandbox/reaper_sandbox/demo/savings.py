"""What stopping saved, in hours times list price, out of the reports alone. Pure.

What a resource costs after an act is what the first later sweep that knows it says: nothing where it is gone or stopped, else the price of
what still runs. Where either price is not known, only the hours are counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from reaper.limits import ENDS
from reaper.model import Finding, Move, Report, Result
from reaper.report.totals import complete


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
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


def rests(reports: Sequence[Report], back: Iterable[tuple[str, datetime]]) -> list[Rest]:
    """Every time of rest, oldest first. `back`: names that somebody brought back, and when."""
    returned = list(back)
    found: list[Rest] = []
    for last, report in zip([*reports[:1], *reports], reports, strict=False):
        when = report.run.started_at
        found = [_ended(rest, returned, when) for rest in found]
        found = [replace(r, until=last.run.started_at) if r.until is None and _dear(r, report) else r for r in found]
        found = [_known(rest, report) if rest.until is None and rest.after is None else rest for rest in found]
        started = {f.case.resource.name for f in report.findings if _done(f, {Move.START})}
        found = [replace(r, until=when) if r.until is None and r.name in started else r for r in found]
        found += [Rest(name=f.case.resource.name, since=when, before=_usd(f)) for f in report.findings if _done(f, ENDS)]
    return found


def _ended(rest: Rest, returned: Sequence[tuple[str, datetime]], now: datetime) -> Rest:
    moments = [when for name, when in returned if name == rest.name and rest.since < when <= now]
    return replace(rest, until=min(moments)) if moments and rest.until is None else rest


def _dear(rest: Rest, report: Report) -> bool:
    """Whether somebody made it cost what it did before: then it rested for no longer than up to the sweep before this one, for sure."""
    usd = [_usd(f) for f in report.findings if f.case.resource.name == rest.name]
    return rest.before is not None and any(one is not None and one >= rest.before for one in usd)


def _known(rest: Rest, report: Report) -> Rest:
    """The rest with what its resource costs now, if this report knows."""
    seen = next((f for f in report.findings if f.case.resource.name == rest.name), None)
    if seen is None:
        return replace(rest, after=0.0) if complete(report) else rest
    if seen.case.resource.parts == ():
        return replace(rest, after=0.0)
    return replace(rest, after=_usd(seen))


def _usd(found: Finding) -> float | None:
    return found.price.usd_per_hour if found.price else None


def _done(found: Finding, moves: Iterable[Move]) -> bool:
    return found.step.move in moves and found.outcome.result is Result.DONE


def unpriced(found: Iterable[Rest], now: datetime) -> Iterator[tuple[str, float]]:
    """The names of which no money can be told, and the hours that they rested."""
    yield from ((rest.name, rest.hours(now)) for rest in found if rest.usd(now) is None)
