"""A calendar: as the policy writes it, with its source, zone and weekend, and as one run has read it. Pure; `resolve` reads it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from reaper.calendars import holidays
from reaper.calendars.freezes import LONGEST, Stretch
from reaper.calendars.office_hours import parse_days
from reaper.policy.values import Section, Words, Zone, text_of

SOURCES = ("dates", "ics", "country", "change_calendar")
_DAY = r"\d{4}-\d\d-\d\d"
_WORD = "[A-Za-z0-9][A-Za-z0-9_-]{0,39}"
_RANGE = rf"{_DAY}(\s*/\s*{_DAY})?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Calendar:
    """`days`: the local dates in the zone `tz` that it names as a whole. `stretches`: all that it names, such days too, in order and
    without overlaps. `weekend`: weekdays (Monday 0) that are no business days.

    `unreadable_because`: why nothing of it may be relied on: it couldn't be read, has no entries, or is past its last one.
    """

    name: str
    tz: str
    days: frozenset[date] = frozenset()
    stretches: tuple[Stretch, ...] = ()
    weekend: frozenset[int] = frozenset({5, 6})
    unreadable_because: str | None = None


def _parse_range(value: object) -> tuple[date, date]:
    if not isinstance(value, str) or not re.fullmatch(_RANGE, value.strip(), re.ASCII):
        raise ValueError("expected a day such as 2026-12-24, or a range such as 2026-12-24/2027-01-03")
    days = [date.fromisoformat(day) for day in re.findall(_DAY, value)]
    first, last = days[0], days[-1]
    if last < first:
        raise ValueError(f"this range ends before it begins; did you mean {last}/{first}?")
    if last - first > LONGEST:
        raise ValueError("this range is longer than two years, and a freeze must end; name its real days")
    return first, last


def _parse_weekend(value: object) -> object:
    try:
        return parse_days(value.strip().lower()) if isinstance(value, str) else value
    except ValueError as error:
        raise ValueError("expected days such as sat,sun or fri-sat") from error


DayRange = Annotated[
    tuple[date, date], BeforeValidator(_parse_range), WithJsonSchema({"type": "string", "pattern": f"^{_RANGE}$"})
]
"""The first day and the last one."""
Weekdays = Annotated[frozenset[int], BeforeValidator(_parse_weekend), WithJsonSchema({"type": "string"})]
_NAME = text_of(_WORD, "a plain word such as year-end, of up to 40 letters, digits, hyphens and underscores", str)
CalendarName = Annotated[str, _NAME, WithJsonSchema({"type": "string"})]


class CalendarSpec(Section):
    """One calendar, from exactly one of dates, ics, country and change_calendar."""

    dates: list[DayRange] | None = Field(
        None,
        min_length=1,
        max_length=1000,
        description="days, and ranges whose last day counts, too",
        examples=[["2026-12-24/2027-01-03", "2027-04-02"]],
    )
    ics: str | None = Field(
        None,
        min_length=1,
        description="an iCalendar file: a path, s3:// address or blob URL. A path is relative to the policy file",
        examples=["s3://bucket/company.ics"],
    )
    match: Words | None = Field(
        None, description="globs on the titles of the events that count. Default: all", examples=["*holiday*"]
    )
    country: str | None = Field(None, description="the public holidays of this country, by its ISO 3166 code", examples=["DE"])
    subdiv: str | None = Field(
        None, description="the state or region, by its ISO 3166-2 code. Default: national holidays only", examples=["BY"]
    )
    change_calendar: str | None = Field(
        None,
        min_length=1,
        description="an SSM Change Calendar, by name or ARN: closed means that it covers that time",
        examples=["year-end"],
    )
    tz: Zone | None = Field(None, description="the IANA time zone of its days. Default: owners.tz", examples=["Europe/Berlin"])
    weekend: Weekdays = Field(
        "sat,sun",  # type: ignore[arg-type]
        description="the days of each week that are no business days",
        examples=["fri,sat"],
    )

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        sources = [name for name in SOURCES if getattr(self, name) is not None]
        if len(sources) != 1:
            written = f", not {' and '.join(sources)}" if sources else ""
            raise ValueError(f"expected exactly one of {', '.join(SOURCES)}{written}")
        for key, source in (("match", "ics"), ("subdiv", "country")):
            if getattr(self, key) is not None and sources != [source]:
                raise ValueError(f"{key} goes with {source} only; remove it")
        if self.country is not None and (problem := holidays.unknown_place(self.country, self.subdiv)):
            raise ValueError(problem)
        return self
