"""The policy's calendars: where each is read from, its zone and its weekend. Pure; `reaper.calendars` reads them."""

from __future__ import annotations

from pydantic import Field

from reaper.policy.values import Section, Words, Zone


class CalendarSpec(Section):
    """One calendar, from exactly one of dates, ics, country and change_calendar."""

    dates: list[str] | None = Field(
        None,
        min_length=1,
        description="days, and ranges whose last day counts, too",
        examples=[["2026-12-24/2027-01-03", "2027-04-02"]],
    )
    ics: str | None = Field(
        None, description="an iCalendar file: a path, s3:// address or blob URL", examples=["s3://bucket/company.ics"]
    )
    match: Words | None = Field(
        None, description="globs on the titles of the events that count. Default: all", examples=["*holiday*"]
    )
    country: str | None = Field(None, description="the public holidays of this country, by its ISO 3166 code", examples=["DE"])
    subdiv: str | None = Field(
        None, description="the state or region, by its ISO 3166-2 code. Default: national holidays only", examples=["BY"]
    )
    change_calendar: str | None = Field(
        None, description="an SSM Change Calendar, by name or ARN: closed means that it covers that time"
    )
    tz: Zone | None = Field(None, description="the IANA time zone of its days. Default: owners.tz", examples=["Europe/Berlin"])
    weekend: str = Field("sat,sun", description="the days of each week that are no business days", examples=["fri,sat"])
