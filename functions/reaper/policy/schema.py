"""The policy file as validated data: defaults, limits, owners and rules; and its JSON Schema for editors. Pure.

`values` parses the values, `match` says which resources a rule covers, and `parse` reads the text, with line numbers in errors.
https://json-schema.org/draft/2020-12
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, PrivateAttr, model_validator

from reaper.calendars import office_hours
from reaper.calendars.calendar import Calendar, CalendarName, CalendarSpec
from reaper.calendars.office_hours import Hours
from reaper.model import BilledPart, Ceiling, Confidence, Resource, Rule
from reaper.notices.message import Audience, is_plain_address
from reaper.policy.accepted import Acceptance
from reaper.policy.channel_settings import Channel
from reaper.policy.match import Match, OptionalEnforceOnly, matches_any
from reaper.policy.values import (
    Addressees,
    CalendarNames,
    CurrencyCode,
    Day,
    Domain,
    Grace,
    IdleAfter,
    Length,
    Percentage,
    PlainAddress,
    Reminders,
    Section,
    SnoozeLength,
    TagKeys,
    TagPermission,
    Word,
    Zone,
)
from reaper.policy.yaml_lines import KeyPath
from reaper.text import DOLLARS, Currency

MAX_RULES = 500
"""A sweep checks every resource against every rule, and `policy check` every rule against those above it."""
MIN_WINDOW = 60
"""Minutes a day in which notices go out. Schedules aren't exact to the minute, so a sweep could miss anything shorter."""


class OfficeHours(Section):
    """Office hours: outside them a resource may be stopped, inside them `start` says what is restarted."""

    on: str = Field(description="days and times of day", examples=["mon-fri 07:00-21:00"])
    tz: str = Field(description="an IANA time zone", examples=["Europe/Berlin", "America/New_York"])
    start: Literal["ours", "all"] = Field(
        "ours",
        description="what is started when the hours begin: only what the reaper stopped (ours), or everything that is stopped (all)",
    )
    force: bool = Field(False, description="also stop what is busy; only for kinds that can be restarted")
    override: Length = Field(  # type: ignore[assignment]
        "4h", description="how long the reaper leaves alone what a person started outside the hours", examples=["4h"]
    )
    except_: CalendarNames = Field(
        [], alias="except", description="calendars whose days off are closed all day", examples=[["germany"]]
    )

    @model_validator(mode="after")
    def _parse(self) -> Self:
        office_hours.parse_hours(self.on, self.tz)
        return self

    @property
    def to_hours(self) -> Hours:
        """The hours as data."""
        parsed = office_hours.parse_hours(self.on, self.tz)
        return replace(parsed, restart=self.start, force=self.force, override=self.override, calendars=tuple(self.except_))


ACTION_HELP = "the strongest action allowed: ignore < notify < stop (reversible) < delete (can be restored from a manifest)"
IDLE_AFTER_HELP = "how long a resource must be silent to count as idle; at least 30m"
GRACE_HELP = "time from an accepted notice to the action it announces; 2bd: two business days of the calendar in business_days"
BUSINESS_DAYS_HELP = "the calendar of the business days in a grace such as 2bd: neither its weekend nor its days are any"
FREEZE_HELP = (
    "calendars in whose times nothing is stopped or deleted; they count toward no grace. A rule's replace those of the defaults"
)
REMIND_EVERY_HELP = "time between reminders to the owner, or between summaries of office hours"
SNOOZE_MAX_HELP = "the longest snooze that one click can set, in whole days"
ACT_ON_HELP = "the evidence an action needs: proven, or likely to also act on indirect evidence"
THEN_HELP = "the delete of what still costs money after a stop, or that a stop can't end; needs action: stop; null: not what the defaults say"
TAGS_MAY_HELP = "what the resource's own reaper:* tags may do besides protect: tighten (shorter idle-after), loosen (longer)"


class Then(Section):
    """What follows a stop that leaves a cost, or that can do nothing."""

    action: Literal["delete"] = Field(description="always delete, for kinds that can be deleted", examples=["delete"])
    after: Length = Field(
        description="how long after the notice of it, the stop and the last use or change; not shorter than the grace",
        examples=["14d"],
    )


class RuleSpec(Section):
    """One rule. Keys that it leaves out come from the defaults."""

    name: str = Field(min_length=1, max_length=120, description="the rule's name in reports and notices; must be unique")
    match: Match = Field(Match(), description="which resources the rule covers. Default: all")
    action: Ceiling | None = Field(None, description=ACTION_HELP)
    idle_after: IdleAfter | None = Field(None, description=IDLE_AFTER_HELP, examples=["2h", "3d"])
    grace: Grace | None = Field(None, description=GRACE_HELP, examples=["4h", "3d", "2bd"])
    business_days: str | None = Field(None, description=BUSINESS_DAYS_HELP, examples=["germany"])
    freeze: CalendarNames | None = Field(None, description=FREEZE_HELP, examples=[["year-end"]])
    remind_every: Length | None = Field(None, description=REMIND_EVERY_HELP, examples=["7d"])
    snooze_max: SnoozeLength | None = Field(None, description=SNOOZE_MAX_HELP, examples=["30d"])
    act_on: Confidence | None = Field(None, description=ACT_ON_HELP)
    then: Then | None = Field(None, description=THEN_HELP)
    stop_by: Literal["stop", "native"] | None = Field(
        None, description="native: turn on the cloud's own idle shutdown, if the kind has one, instead; not with hours or freeze"
    )
    tags_may: list[TagPermission] | None = Field(None, description=TAGS_MAY_HELP, examples=[["protect", "tighten", "loosen"]])
    hours: OfficeHours | None = Field(
        None,
        description="office hours: resources run inside them, and idle ones are stopped outside them; only for kinds that can be restarted",
    )


class Defaults(Section):
    """The values that apply unless a rule sets its own. The default action only sends notices."""

    action: Ceiling = Field(Ceiling.NOTIFY, description=ACTION_HELP)
    idle_after: IdleAfter = Field("1d", description=IDLE_AFTER_HELP, examples=["24h"])  # type: ignore[assignment]
    grace: Grace = Field("3d", description=GRACE_HELP, examples=["3d", "2bd"])  # type: ignore[assignment]
    business_days: str | None = Field(None, description=BUSINESS_DAYS_HELP, examples=["germany"])
    freeze: CalendarNames = Field([], description=FREEZE_HELP, examples=[["year-end"]])
    remind_every: Length = Field("7d", description=REMIND_EVERY_HELP, examples=["7d"])  # type: ignore[assignment]
    snooze_max: SnoozeLength = Field("30d", description=SNOOZE_MAX_HELP, examples=["30d"])  # type: ignore[assignment]
    lookback: Length = Field(  # type: ignore[assignment]
        "2w", description="how much history of the signals is read; extended if an idle_after is longer", examples=["14d"]
    )
    act_on: Confidence = Field(Confidence.PROVEN, description=ACT_ON_HELP)
    then: Then | None = Field(None, description=THEN_HELP)
    tags_may: list[TagPermission] = Field([TagPermission.PROTECT, TagPermission.TIGHTEN], description=TAGS_MAY_HELP)


class RunLimits(Section):
    """The most that sweeps may do in a day over all accounts and subscriptions together. Over a limit, all actions are put on hold.

    A limit that the file doesn't set (`model_fields_set`) is never below that of an account.
    """

    max_acts: int = Field(200, ge=0, description="the most stops and deletes of a day over all accounts")
    max_share: Percentage = Field(
        "25%", description="the largest share of a kind over all accounts that sweeps may stop or delete in a day"
    )  # type: ignore[assignment]
    max_usd_per_hour: float = Field(
        2000,
        ge=0,
        allow_inf_nan=False,
        description="the cost of everything that sweeps may stop and delete in a day over all accounts, in US dollars an hour",
    )


class Limits(Section):
    """The most that sweeps may do in a day in one account or subscription. Over a limit, what it counts there is put on hold and admins are notified.

    Pydantic's `model_fields_set` says which limits the file sets: only a written `max_usd_per_hour` puts unpriced actions on hold.
    """

    max_acts: int = Field(20, ge=0, description="the most stops and deletes of a day in one account or subscription")
    max_share: Percentage = Field(
        "25%",
        description="the largest share of a kind in one account that sweeps may stop or delete in a day; above it, that kind is put on hold there",
    )  # type: ignore[assignment]
    max_jump: Percentage = Field(
        "25%",
        description="how much a kind's idle share in one place may exceed its usual share before all actions and notices there are put on hold",
    )  # type: ignore[assignment]
    max_usd_per_hour: float = Field(
        200,
        ge=0,
        allow_inf_nan=False,
        description="the cost of everything that sweeps may stop and delete in a day in one account, in US dollars an hour; if set here, unpriced actions are put on hold",
    )
    max_scheduled: int = Field(200, ge=0, description="the most stops for office hours of a day in one account")
    run: RunLimits = Field(RunLimits(), description="the most that sweeps may do in a day over all accounts and subscriptions")


class Owners(Section):
    """Where an owner's address comes from. Only addresses in `domains` are used."""

    tags: list[Word] = Field(["reaper:owner", "owner", "email"], description="tags that can name the owner, in order")
    domains: list[Domain] = Field([], description="the mail domains that notices may go to", examples=[["example.com"]])
    fallback: PlainAddress = Field(
        None, description="the address for resources whose owner is unknown", examples=["ml-admins@example.com"]
    )
    contact: PlainAddress = Field(None, description="the contact at the end of owners' mails. Default: the fallback")
    tz: Zone = Field(
        "UTC",
        description="the IANA time zone of the times in mails; a rule's office hours have their own",
        examples=["Europe/Berlin"],
    )


def _checked_send(text: str) -> str:
    hours = office_hours.parse_hours(text, "UTC")
    if hours.end - hours.start < MIN_WINDOW:
        raise ValueError("expected an hour or more on each day, such as `mon-fri 09:00-17:00`, because a sweep could miss less")
    return text


class Notices(Section):
    """When messages are sent."""

    monthly: bool = Field(
        False,
        description="whether admins get a mail about each past month: what was saved, what is still idle, and what comes next",
    )
    send: Annotated[str, AfterValidator(_checked_send)] | None = Field(
        None,
        description="when first notices, reminders and summaries of office hours are sent. Default: at any time",
        examples=["mon-fri 09:00-17:00"],
    )
    tz: Zone | None = Field(None, description="the IANA time zone of send. Default: owners.tz", examples=["Europe/Berlin"])


class Floor(Section):
    """How much a mail must be about for its first notices to be sent."""

    usd_per_day: float = Field(
        gt=0, allow_inf_nan=False, description="what everything in the mail costs, in US dollars a day", examples=[5]
    )


class Escalate(Section):
    """Who else gets a mail once an owner was reminded so often. It moves no date and is sent once for one idle period and owner."""

    after: Reminders = Field(description="how many reminders an owner gets first, 1 to 20", examples=["2 reminders"])
    to: Addressees = Field(
        description="tag:KEY (the address in that tag, in owners.domains), admins, or an address",
        examples=[["tag:manager", "admins"]],
    )


class ReportKeys(Section):
    """What reports show of the resources' own tags."""

    tags: TagKeys = Field(
        [],
        description="tag keys, such as a team's or a cost center's: a column each in CSV reports, and what the page offers first to group by; keys ignore case",
        examples=[["team", "cost-center"]],
    )


class Savings(Section):
    """How savings are counted."""

    horizon: Length = Field(  # type: ignore[assignment]
        "30d", description="how long an action, or a stop that a notice prompted, counts as a saving", examples=["30d"]
    )


SPOT_SUFFIX = "Spot"
"""How the components of spot prices end: contracts don't cover these, so they always stay list prices."""


class PriceRule(Section):
    """One price of your own: a discount on list prices, or a rate."""

    name: str = Field(min_length=1, max_length=120, description="the rule's name, which is the source of its prices in reports")
    match: Match = Field(Match(), description="which resources the rule covers, and of which sizes. Default: all")
    discount: Percentage | None = Field(None, description="how much less than the list price you pay", examples=["12%"])
    usd_per_hour: float | None = Field(
        None, ge=0, allow_inf_nan=False, description="what one instance costs you, in US dollars an hour"
    )
    as_of: Day = Field(description="the day from which this price is known, as YYYY-MM-DD", examples=["2026-11-01"])

    @model_validator(mode="after")
    def _is_one_price(self) -> Self:
        if (self.discount is None) == (self.usd_per_hour is None):
            raise ValueError(f"price rule {self.name!r}: set either discount or usd_per_hour")
        if self.usd_per_hour is not None and not self.match.size:
            raise ValueError(f"price rule {self.name!r}: usd_per_hour is the rate of one instance; name its size in match.size")
        if self.match.usd_per_hour:
            raise ValueError(f"price rule {self.name!r}: match.usd_per_hour needs a price, and this rule sets it; remove the key")
        return self

    def applies_to(self, resource: Resource, part: BilledPart) -> bool:
        """Whether it decides the price of that part. A size must fit as a whole: a rate is never that of a longer name."""
        sizes = [size.lower() for size in self.match.size or ("*",)]
        is_contract = matches_any(sizes, part.instance.lower()) and not part.component.endswith(SPOT_SUFFIX)
        return is_contract and self.match.matches(replace(resource, parts=(part,)), None) is True


class CurrencySpec(Section):
    """The currency that people read money in, at a fixed rate."""

    code: CurrencyCode = Field(description="its three letters in ISO 4217", examples=["EUR"])
    rate: float = Field(gt=0, allow_inf_nan=False, description="how much of it one US dollar is", examples=[0.92])
    as_of: Day = Field(description="the day of the rate, as YYYY-MM-DD", examples=["2026-11-01"])
    source: str = Field(min_length=1, max_length=120, description="the source of the rate", examples=["ECB"])

    @model_validator(mode="after")
    def _is_not_the_dollar(self) -> Self:
        if self.code == DOLLARS.code:
            raise ValueError("prices are in USD already; remove prices.currency")
        return self


class Prices(Section):
    """Your own prices."""

    rules: list[PriceRule] = Field(
        [], max_length=500, description="the first rule that covers a price decides. Default: list prices"
    )
    currency: CurrencySpec | None = Field(None, description="the currency of reports and mails. Default: US dollars")

    @property
    def shown_in(self) -> Currency:
        """What people read money in."""
        if (spec := self.currency) is None:
            return DOLLARS
        return Currency(code=spec.code, rate=spec.rate, as_of=spec.as_of.isoformat(), source=spec.source)


class Budget(Section):
    """How much idle resources may cost before admins are notified."""

    name: str = Field(min_length=1, max_length=120, description="the budget's name in reports and summaries; must be unique")
    match: Match = Field(Match(), description="which resources count. Default: all")
    usd_per_month: float = Field(
        gt=0, allow_inf_nan=False, description="the most that they may cost while idle, in US dollars a month", examples=[500]
    )


class Policy(Section):
    """The whole policy file."""

    version: Literal[1] = Field(description="always 1")
    defaults: Defaults = Field(Defaults(), description="the values that apply unless a rule sets its own")
    limits: Limits = Field(Limits(), description="the most that sweeps may do in a day, in each account and over all of them")
    owners: Owners = Field(Owners(), description="where an owner's address comes from")
    enforce_only: OptionalEnforceOnly = Field(
        None,
        validate_default=False,
        description="the only resources that may be stopped, deleted or started; all others get notices",
    )
    report: ReportKeys = Field(ReportKeys(), description="what reports show of the resources' own tags")
    savings: Savings = Field(Savings(), description="how savings are counted")
    notify_above: Floor | None = Field(
        None, description="the cost from which on a mail's first notices are sent; what has no price always counts. Default: any"
    )
    notices: Notices = Field(Notices(), description="when messages are sent")
    escalate: Escalate | None = Field(
        None, description="who else gets a mail once an owner was reminded so often. Default: no one"
    )
    prices: Prices = Field(Prices(), description="your own prices and currency. Default: list prices in US dollars")
    budgets: list[Budget] = Field([], max_length=100, description="how much idle resources may cost before admins are notified")
    accept: list[Acceptance] = Field(
        [], max_length=200, description="findings that are accepted until a day, and exempt until then"
    )
    channels: list[Channel] = Field([], description="where notices and summaries go. Default: the deployment's own channels")
    calendars: dict[CalendarName, CalendarSpec] = Field(
        {}, max_length=20, description="calendars by name, for freeze, hours.except and business_days"
    )
    rules: list[RuleSpec] = Field([], max_length=MAX_RULES, description="the first rule that matches decides")
    _resolved: Mapping[str, Calendar] = PrivateAttr(default_factory=dict)
    _known_rules: dict[tuple[str | None, date], Rule] = PrivateAttr(default_factory=dict)

    @property
    def send_hours(self) -> Hours | None:
        """When notices go out; None if they go out at any time."""
        send, tz = self.notices.send, self.notices.tz or self.owners.tz
        return office_hours.parse_hours(send, tz) if send else None

    @property
    def resolved(self) -> Mapping[str, Calendar]:
        """The calendars as this run has read them, by name. One that isn't there wasn't read, and counts as unreadable."""
        return self._resolved

    def with_calendars(self, resolved: Mapping[str, Calendar]) -> Policy:
        """The policy with its calendars as a run has read them."""
        copy = self.model_copy()
        copy._resolved, copy._known_rules = resolved, {}
        return copy

    @property
    def known_rules(self) -> dict[tuple[str | None, date], Rule]:
        """What `rules` has made of these calendars, by the rule's name, None for the defaults, and the day of the run."""
        return self._known_rules

    def calendar(self, name: str) -> Calendar:
        """The calendar as this run has read it. One that it hasn't read can't be relied on, and one that can't be has no days off."""
        tz = self.calendars[name].tz or self.owners.tz
        read = self._resolved.get(name) or Calendar(name=name, tz=tz, unreadable_because="this run hasn't read it")
        return replace(read, days=frozenset()) if read.unreadable_because else read

    @model_validator(mode="after")
    def _admins_have_an_address(self) -> Self:
        for channel in self.channels:
            needs_address = Audience.ADMINS in channel.readers and not getattr(channel, "to", True)
            if needs_address and not is_plain_address(self.owners.fallback or ""):
                raise ValueError(f"channel {channel.type!r} is also for admins; set its `to` or owners.fallback")
        return self

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        for what, specs in (("rules", self.rules), ("price rules", self.prices.rules), ("budgets", self.budgets)):
            names = [spec.name for spec in specs]
            if repeated := next((name for name in names if names.count(name) > 1), None):
                raise ValueError(f"two {what} are named {repeated!r}; rename one")
        return self


def all_matches(policy: Policy) -> Iterator[tuple[KeyPath, str, Match]]:
    """Every match in the file, with the path of what has it and whose it is: `rule 'training'`."""
    sections: list[tuple[str, KeyPath, Sequence[RuleSpec | PriceRule | Budget | Acceptance]]] = [
        ("rule", ("rules",), policy.rules),
        ("price rule", ("prices", "rules"), policy.prices.rules),
        ("budget", ("budgets",), policy.budgets),
        ("acceptance", ("accept",), policy.accept),
    ]
    for what, path, specs in sections:
        yield from (((*path, index), f"{what} {spec.name!r}", spec.match) for index, spec in enumerate(specs))


SCHEMA_HEAD = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "ML Idle Reaper policy"}


def policy_schema(kinds: Sequence[str]) -> dict[str, Any]:
    """Every key with its description, defaults as a file spells them, and the names of all `kinds`; globs are allowed, too."""
    schema = Policy.model_json_schema(by_alias=True)
    for section in (schema, *schema["$defs"].values()):
        for key, description in section.get("properties", {}).items():
            section["properties"][key] = _without_pydantic_keys(description)
    name_or_glob = {"anyOf": [{"enum": list(kinds)}, {"type": "string", "pattern": r"[*?\[]"}]}
    names = {"type": "array", "items": name_or_glob, "minItems": 1}
    schema["$defs"]["Match"]["properties"]["kind"]["anyOf"] = [*name_or_glob["anyOf"], names, {"type": "null"}]
    return SCHEMA_HEAD | schema | SCHEMA_HEAD


def _without_pydantic_keys(key: dict[str, Any]) -> dict[str, Any]:
    """The key without pydantic's extras. A default of null is dropped: it means the same as no key."""
    cleaned = {name: value for name, value in key.items() if name not in {"title", "default", "discriminator"}}
    if "default" in key and isinstance(key["default"], str | int | float | list):
        cleaned["default"] = key["default"]
    return cleaned
