"""The policy file as validated data: defaults, limits, owners and rules, and how a rule's `match` fits a resource. Pure.

Every value is parsed here into its real type, once. Reading the file, with line numbers for errors, is the job of `document`.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal, Self

from annotated_types import MinLen
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from reaper import duration
from reaper.model import Ceiling, Confidence, Hours, Resource
from reaper.notices.message import Audience, is_plain_address
from reaper.policy import office_hours
from reaper.policy.channel_settings import Channel

MIN_IDLE_AFTER = timedelta(minutes=30)
MAX_RULES = 500
"""Every resource is held against every rule, and `policy check` every rule against those above it."""


class TagPermission(StrEnum):
    """What a resource's own tags may do to its rule. Protecting is always allowed, whatever the list says."""

    PROTECT = "protect"
    TIGHTEN = "tighten"
    LOOSEN = "loosen"


def _parse_length(value: object) -> timedelta:
    if isinstance(value, timedelta):
        return value
    if not isinstance(value, str):
        raise ValueError(f"expected {duration.EXPECTED_DURATION}")
    return duration.parse_duration(value)


def _parse_idle_after(value: object) -> timedelta:
    """An idle_after: metrics come in hourly and some minutes late, so nothing shorter than half an hour can be told from use."""
    length = _parse_length(value)
    if length < MIN_IDLE_AFTER:
        raise ValueError(f"expected at least {duration.policy_duration(MIN_IDLE_AFTER)}: metrics arrive some minutes late")
    return length


def _parse_snooze_max(value: object) -> timedelta:
    """A snooze_max: a keep-link offers whole days, and a resource that nobody may keep is not in the product."""
    length = _parse_length(value)
    if length < timedelta(days=1):
        raise ValueError("expected at least 1d: keep-links offer whole days")
    return length


def _parse_percentage(value: object) -> float:
    match = re.fullmatch(r"(\d{1,3}(?:\.\d+)?)\s*%", value) if isinstance(value, str) else None
    if not match or float(match[1]) > 100:
        raise ValueError("expected a percentage such as 25%")
    return float(match[1]) / 100


def _require_plain_address(value: object) -> object:
    if isinstance(value, str) and not is_plain_address(value):
        raise ValueError("expected one plain e-mail address such as ml-admins@example.com, without a name or brackets")
    return value


def _parse_domain(value: object) -> object:
    """`example.com`, also as `@example.com`."""
    name = value.removeprefix("@") if isinstance(value, str) else value
    if isinstance(name, str) and not is_plain_address(f"somebody@{name}"):
        raise ValueError("expected a mail domain such as example.com, without wildcards")
    return name


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _parse_comparison(value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"\s*(>=|<=|>|<|==)\s*\d+(\.\d+)?\s*", value):
        raise ValueError('expected a comparison in US dollars such as ">= 5"')
    return value.strip()


def _parse_tags(value: object) -> object:
    if not isinstance(value, dict):
        return value
    return {k: None if v is None else [_scalar_text(x) for x in (v if isinstance(v, list) else [v])] for k, v in value.items()}


def _scalar_text(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


IdleAfter = Annotated[
    timedelta, BeforeValidator(_parse_idle_after), WithJsonSchema({"type": "string", "pattern": duration.DURATION_PATTERN})
]
Length = Annotated[
    timedelta, BeforeValidator(_parse_length), WithJsonSchema({"type": "string", "pattern": duration.DURATION_PATTERN})
]
SnoozeLength = Annotated[
    timedelta, BeforeValidator(_parse_snooze_max), WithJsonSchema({"type": "string", "pattern": duration.DURATION_PATTERN})
]
Percentage = Annotated[
    float,
    BeforeValidator(_parse_percentage),
    WithJsonSchema({"type": "string", "pattern": r"^(100(\.0+)?|\d{1,2}(\.\d+)?)\s*%$"}),
]
_WORDS_SCHEMA: dict[str, Any] = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}
Words = Annotated[list[str], BeforeValidator(_as_list), MinLen(1), WithJsonSchema(_WORDS_SCHEMA)]
Accounts = Annotated[
    list[str],
    BeforeValidator(_as_list),
    MinLen(1),
    WithJsonSchema(
        {"anyOf": [*_WORDS_SCHEMA["anyOf"], {"type": "integer"}, {"type": "array", "items": {"type": ["string", "integer"]}}]}
    ),
]
Comparison = Annotated[
    str,
    BeforeValidator(_parse_comparison),
    WithJsonSchema({"type": "string", "pattern": r"^\s*(>=|<=|>|<|==)\s*\d+(\.\d+)?\s*$"}),
]
_CLOUD: dict[str, Any] = {"enum": ["aws", "azure"]}
Clouds = Annotated[
    list[Literal["aws", "azure"]],
    BeforeValidator(_as_list),
    WithJsonSchema({"anyOf": [_CLOUD, {"type": "array", "items": _CLOUD}]}),
]
Tags = Annotated[
    dict[str, list[str] | None],
    BeforeValidator(_parse_tags),
    WithJsonSchema(
        {"type": "object", "additionalProperties": {"anyOf": [*_WORDS_SCHEMA["anyOf"], {"type": ["null", "boolean", "number"]}]}}
    ),
]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=False, validate_default=True)


class Match(_Section):
    """Which resources a rule is for: every condition given must hold; none given means all. Lists and globs mean any of them."""

    cloud: Clouds | None = Field(None, description="aws or azure")
    kind: Words | None = Field(None, description="kind names, globs allowed, such as sagemaker-*; `reaper kinds` lists them")
    name: Words | None = Field(None, description="name globs; case counts")
    account: Accounts | None = Field(None, description="AWS account ids or Azure subscription ids")
    subscription: Accounts | None = Field(None, description="the same as account, in Azure's word")
    region: Words | None = Field(None, description="region names, globs allowed", examples=["us-east-1", ["eu-*", "westeurope"]])
    tags: Tags | None = Field(
        None,
        description="key: value, list of values, glob, `*` for present, null for absent",
        examples=[{"env": ["dev", "test"], "team": "*", "keep": None}],
    )
    size: Words | None = Field(None, description="globs on the size", examples=["ml.p5.*", ["Standard_NC*", "Standard_ND*"]])
    usd_per_hour: Comparison | None = Field(None, description="a comparison in US dollars an hour", examples=[">= 5"])

    def matches(self, resource: Resource, usd_per_hour: float | None) -> bool | None:
        """True or False; None when it hangs on a price or a size that is not known."""
        held = self.conditions(resource, usd_per_hour).values()
        if False in held:
            return False
        return None if None in held else True

    def conditions(self, resource: Resource, usd_per_hour: float | None) -> dict[str, bool | None]:
        """Whether each of its conditions holds; None for one that hangs on what is not known."""
        held: dict[str, bool | None] = {
            "cloud": _matches_any(self.cloud, resource.target.cloud),
            "kind": _matches_any(self.kind, resource.kind),
            "name": _matches_any(self.name, resource.name),
            "account": _matches_any(self.account, resource.target.account),
            "subscription": _matches_any(self.subscription, resource.target.account),
            "region": _matches_any(self.region, resource.region),
            "tags": self._tags_match(resource),
            "size": self._size_matches(resource),
            "usd_per_hour": self._price_matches(usd_per_hour),
        }
        return {name: holds for name, holds in held.items() if getattr(self, name) is not None}

    def _size_matches(self, resource: Resource) -> bool | None:
        """Any of the types that it runs; None where one of them is not known."""
        if self.size is None:
            return True
        types = [*(p.instance for p in resource.parts or ()), *(s.strip() for s in resource.size.split(",") if s.strip())]
        if any(fnmatchcase(t.lower(), f"{s.lower()}*") for t in types for s in self.size):
            return True
        return None if resource.parts is None else False

    def _price_matches(self, usd_per_hour: float | None) -> bool | None:
        if self.usd_per_hour is None:
            return True
        return None if usd_per_hour is None else _compare_price(self.usd_per_hour, usd_per_hour)

    def _tags_match(self, resource: Resource) -> bool:
        have: dict[str, list[str]] = {}
        for key, value in (resource.tags or {}).items():
            have.setdefault(key.lower(), []).append(value)
        for key, wanted in (self.tags or {}).items():
            values = have.get(key.lower(), [])
            if (wanted is None) == bool(values) or (wanted and not any(fnmatchcase(v, w) for v in values for w in wanted)):
                return False
        return True


def _matches_any(wanted: list[Any] | None, value: str) -> bool:
    return wanted is None or any(fnmatchcase(value, w) for w in wanted)


_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
}


def _compare_price(comparison: str, value: float) -> bool:
    sign = (re.match(r"[<>=]+", comparison) or [""])[0]
    return _OPERATORS[sign](value, float(comparison.removeprefix(sign)))


class OfficeHours(_Section):
    """When a resource is wanted: outside these hours it may be stopped, inside `start` says what is started again."""

    on: str = Field(description="days and times of day", examples=["mon-fri 07:00-21:00"])
    tz: str = Field(description="an IANA time zone", examples=["Europe/Berlin", "America/New_York"])
    start: Literal["ours", "all"] = Field(
        "ours", description="what is started when the hours begin: only what the reaper stopped (ours), or all that is stopped"
    )
    force: bool = Field(False, description="stop what is busy, too; only for kinds that can be started again")
    override: Length = Field(
        timedelta(hours=4), description="how long what a person started outside the hours is left alone", examples=["4h"]
    )

    @model_validator(mode="after")
    def _parse(self) -> Self:
        office_hours.parse_hours(self.on, self.tz)
        return self

    @property
    def to_hours(self) -> Hours:
        """The hours as data."""
        parsed = office_hours.parse_hours(self.on, self.tz)
        return replace(parsed, restart=self.start, force=self.force, override=self.override)


ACTION_HELP = "the most that may be done: ignore < notify < stop (reversible) < delete (from a manifest that is stored first)"
IDLE_AFTER_HELP = "silent for at least this long; 30m at least"
GRACE_HELP = "from an accepted notice to the action that it names"
REMIND_EVERY_HELP = "how often the owner is reminded, or gets the summary of office hours"
SNOOZE_MAX_HELP = "the longest that one click on a snooze link can ask for, in whole days"
ACT_ON_HELP = "the evidence that an action needs: proven, or likely to act on indirect evidence too"
TAGS_MAY_HELP = "what the resource's own reaper:* tags may do besides protecting: tighten (shorter idle-after), loosen (longer)"


class RuleSpec(_Section):
    """One rule of the file; whatever it leaves out comes from the defaults."""

    name: str = Field(min_length=1, max_length=120, description="what reports and notices call the rule; each needs its own")
    match: Match = Field(Match(), description="which resources it is for; all without it")
    action: Ceiling | None = Field(None, description=ACTION_HELP)
    idle_after: IdleAfter | None = Field(None, description=IDLE_AFTER_HELP, examples=["2h", "3d"])
    grace: Length | None = Field(None, description=GRACE_HELP, examples=["4h", "3d"])
    remind_every: Length | None = Field(None, description=REMIND_EVERY_HELP, examples=["7d"])
    snooze_max: SnoozeLength | None = Field(None, description=SNOOZE_MAX_HELP, examples=["30d"])
    act_on: Confidence | None = Field(None, description=ACT_ON_HELP)
    stop_by: Literal["stop", "native"] | None = Field(
        None, description="native: switch on the cloud's own idle shutdown instead of stopping, where there is one"
    )
    tags_may: list[TagPermission] | None = Field(None, description=TAGS_MAY_HELP, examples=[["protect", "tighten", "loosen"]])
    hours: OfficeHours | None = Field(
        None, description="office hours: not stopped inside them, stopped outside them when idle and started again"
    )


class Defaults(_Section):
    """What holds where no rule says otherwise. The default action tells people and stops nothing."""

    action: Ceiling = Field(Ceiling.NOTIFY, description=ACTION_HELP)
    idle_after: IdleAfter = Field(timedelta(hours=24), description=IDLE_AFTER_HELP, examples=["24h"])
    grace: Length = Field(timedelta(days=3), description=GRACE_HELP, examples=["3d"])
    remind_every: Length = Field(timedelta(days=7), description=REMIND_EVERY_HELP, examples=["7d"])
    snooze_max: SnoozeLength = Field(timedelta(days=30), description=SNOOZE_MAX_HELP, examples=["30d"])
    lookback: Length = Field(
        timedelta(days=14), description="how far back signals are read; longer where an idle_after asks for it", examples=["14d"]
    )
    act_on: Confidence = Field(Confidence.PROVEN, description=ACT_ON_HELP)
    tags_may: list[TagPermission] = Field([TagPermission.PROTECT, TagPermission.TIGHTEN], description=TAGS_MAY_HELP)


class Limits(_Section):
    """How much one sweep may do at most; over one of them nothing that it counts is done, and a person is told.

    Whether the file itself sets one is in pydantic's `model_fields_set`: only a written `max_usd_per_hour` holds what has no price.
    """

    max_acts: Annotated[int, Field(ge=0, description="the most stops and deletes of one sweep")] = 20
    max_share: Percentage = Field(default="25%", description="the most of all of a kind that is stopped or deleted in one sweep")  # type: ignore[assignment]
    max_jump: Percentage = Field(
        default="25%",
        description="by how much the idle share of a kind in one place may be above what is usual there before nothing is done there",
    )  # type: ignore[assignment]
    max_usd_per_hour: Annotated[
        float,
        Field(
            ge=0,
            allow_inf_nan=False,
            description="the most that is stopped and deleted in one sweep, in dollars an hour; written here, what has no price is on hold, too",
        ),
    ] = 200
    max_scheduled: Annotated[int, Field(ge=0, description="the most stops of one sweep that office hours ask for")] = 200


class Owners(_Section):
    """Where an owner's address comes from. Only addresses in `domains` are ever used."""

    tags: list[str] = Field(["reaper:owner", "owner", "email"], description="tags that may name the owner, in order")
    domains: list[Annotated[str, BeforeValidator(_parse_domain)]] = Field(
        [], description="the only mail domains whose addresses are ever used", examples=[["example.com"]]
    )
    fallback: Annotated[str | None, BeforeValidator(_require_plain_address)] = Field(
        None, description="who is told when no owner is known", examples=["ml-admins@example.com"]
    )
    contact: Annotated[str | None, BeforeValidator(_require_plain_address)] = Field(
        None, description="whom owners can ask, named at the end of their mails; the fallback if it is not set"
    )


class Policy(_Section):
    """The whole file."""

    version: Literal[1] = Field(description="always 1")
    defaults: Defaults = Field(Defaults(), description="what holds where no rule says otherwise")
    limits: Limits = Field(Limits(), description="how much one sweep may do at most")
    owners: Owners = Field(Owners(), description="where an owner's address comes from")
    channels: list[Channel] = Field([], description="where messages go; without any, those that the deployment brings along")
    rules: list[RuleSpec] = Field([], max_length=MAX_RULES, description="the first rule that matches decides")

    @model_validator(mode="after")
    def _admins_have_an_address(self) -> Self:
        for channel in self.channels:
            wants = Audience.ADMINS in channel.readers and not getattr(channel, "to", True)
            if wants and not is_plain_address(self.owners.fallback or ""):
                raise ValueError(f"channel {channel.type!r} is for admins too: give it a `to`, or the policy an owners.fallback")
        return self

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = [spec.name for spec in self.rules]
        twice = next((n for n in names if names.count(n) > 1), None)
        if twice:
            raise ValueError(f"two rules are called {twice!r}: give each its own name")
        return self
