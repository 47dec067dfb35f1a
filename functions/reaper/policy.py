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

from reaper import duration, schedule
from reaper.channels.spec import Channel
from reaper.message import Audience, plain
from reaper.model import Action, Confidence, Hours, Resource

SHORTEST = timedelta(minutes=30)
MAX_RULES = 500
"""Every resource is held against every rule, and `policy check` every rule against those above it."""


class Leeway(StrEnum):
    """What a resource's own tags may do to its rule. Protecting is always allowed, whatever the list says."""

    PROTECT = "protect"
    TIGHTEN = "tighten"
    LOOSEN = "loosen"


def _duration(value: object) -> timedelta:
    if isinstance(value, timedelta):
        return value
    if not isinstance(value, str):
        raise ValueError(f"expected {duration.EXPECTED}")
    return duration.parse(value)


def _patience(value: object) -> timedelta:
    """An idle_after: metrics come in hourly and some minutes late, so nothing shorter than half an hour can be told from use."""
    length = _duration(value)
    if length < SHORTEST:
        raise ValueError(f"expected at least {duration.spell(SHORTEST)}: metrics arrive some minutes late")
    return length


def _snooze(value: object) -> timedelta:
    """A snooze_max: a keep-link offers whole days, and a resource that nobody may keep is not in the product."""
    length = _duration(value)
    if length < timedelta(days=1):
        raise ValueError("expected at least 1d: keep-links offer whole days")
    return length


def _share(value: object) -> float:
    match = re.fullmatch(r"(\d{1,3}(?:\.\d+)?)\s*%", value) if isinstance(value, str) else None
    if not match or float(match[1]) > 100:
        raise ValueError("expected a percentage such as 25%")
    return float(match[1]) / 100


def _address(value: object) -> object:
    if isinstance(value, str) and not plain(value):
        raise ValueError("expected one plain e-mail address such as ml-admins@example.com, without a name or brackets")
    return value


def _domain(value: object) -> object:
    """`example.com`, also as `@example.com`."""
    name = value.removeprefix("@") if isinstance(value, str) else value
    if isinstance(name, str) and not plain(f"somebody@{name}"):
        raise ValueError("expected a mail domain such as example.com, without wildcards")
    return name


def _words(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _price(value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"\s*(>=|<=|>|<|==)\s*\d+(\.\d+)?\s*", value):
        raise ValueError('expected a comparison in US dollars such as ">= 5"')
    return value.strip()


def _wanted_tags(value: object) -> object:
    if not isinstance(value, dict):
        return value
    return {k: None if v is None else [_scalar(x) for x in (v if isinstance(v, list) else [v])] for k, v in value.items()}


def _scalar(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


Patience = Annotated[timedelta, BeforeValidator(_patience), WithJsonSchema({"type": "string", "pattern": duration.PATTERN})]
Length = Annotated[timedelta, BeforeValidator(_duration), WithJsonSchema({"type": "string", "pattern": duration.PATTERN})]
SnoozeLength = Annotated[timedelta, BeforeValidator(_snooze), WithJsonSchema({"type": "string", "pattern": duration.PATTERN})]
Share = Annotated[
    float, BeforeValidator(_share), WithJsonSchema({"type": "string", "pattern": r"^(100(\.0+)?|\d{1,2}(\.\d+)?)\s*%$"})
]
_WORDS_SCHEMA: dict[str, Any] = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}
Words = Annotated[list[str], BeforeValidator(_words), MinLen(1), WithJsonSchema(_WORDS_SCHEMA)]
Accounts = Annotated[
    list[str],
    BeforeValidator(_words),
    MinLen(1),
    WithJsonSchema(
        {"anyOf": [*_WORDS_SCHEMA["anyOf"], {"type": "integer"}, {"type": "array", "items": {"type": ["string", "integer"]}}]}
    ),
]
Comparison = Annotated[
    str, BeforeValidator(_price), WithJsonSchema({"type": "string", "pattern": r"^\s*(>=|<=|>|<|==)\s*\d+(\.\d+)?\s*$"})
]
Tags = Annotated[
    dict[str, list[str] | None],
    BeforeValidator(_wanted_tags),
    WithJsonSchema(
        {"type": "object", "additionalProperties": {"anyOf": [*_WORDS_SCHEMA["anyOf"], {"type": ["null", "boolean", "number"]}]}}
    ),
]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=False, validate_default=True)


class Match(_Part):
    """Which resources a rule is for: every condition given must hold; none given means all. Lists and globs mean any of them."""

    cloud: Annotated[list[Literal["aws", "azure"]], BeforeValidator(_words)] | None = None
    kind: Words | None = Field(None, description="kind names, globs allowed, such as sagemaker-*")
    name: Words | None = Field(None, description="name globs; case counts")
    account: Accounts | None = Field(None, description="AWS account ids or Azure subscription ids")
    subscription: Accounts | None = Field(None, description="the same as account, in Azure's word")
    region: Words | None = None
    tags: Tags | None = Field(None, description="key: value, list of values, glob, `*` for present, null for absent")
    size: Words | None = Field(None, description="globs on the size, such as ml.p5.*")
    usd_per_hour: Comparison | None = Field(None, description='US dollars an hour, such as ">= 5"')

    def fits(self, resource: Resource, usd_per_hour: float | None) -> bool | None:
        """True or False; None when it hangs on a price or a size that is not known."""
        held = self.conditions(resource, usd_per_hour).values()
        if False in held:
            return False
        return None if None in held else True

    def conditions(self, resource: Resource, usd_per_hour: float | None) -> dict[str, bool | None]:
        """Whether each of its conditions holds; None for one that hangs on what is not known."""
        held: dict[str, bool | None] = {
            "cloud": _any(self.cloud, resource.target.cloud),
            "kind": _any(self.kind, resource.kind),
            "name": _any(self.name, resource.name),
            "account": _any(self.account, resource.target.account),
            "subscription": _any(self.subscription, resource.target.account),
            "region": _any(self.region, resource.region),
            "tags": self._tags_fit(resource),
            "size": self._size_fits(resource),
            "usd_per_hour": self._price_fits(usd_per_hour),
        }
        return {name: holds for name, holds in held.items() if getattr(self, name) is not None}

    def _size_fits(self, resource: Resource) -> bool | None:
        """Any of the types that it runs; None where one of them is not known."""
        if self.size is None:
            return True
        types = [*(p.instance for p in resource.parts or ()), *(s.strip() for s in resource.size.split(",") if s.strip())]
        if any(fnmatchcase(t.lower(), f"{s.lower()}*") for t in types for s in self.size):
            return True
        return None if resource.parts is None else False

    def _price_fits(self, usd_per_hour: float | None) -> bool | None:
        if self.usd_per_hour is None:
            return True
        return None if usd_per_hour is None else _compare(self.usd_per_hour, usd_per_hour)

    def _tags_fit(self, resource: Resource) -> bool:
        have: dict[str, list[str]] = {}
        for key, value in (resource.tags or {}).items():
            have.setdefault(key.lower(), []).append(value)
        for key, wanted in (self.tags or {}).items():
            values = have.get(key.lower(), [])
            if (wanted is None) == bool(values) or (wanted and not any(fnmatchcase(v, w) for v in values for w in wanted)):
                return False
        return True


def _any(wanted: list[Any] | None, value: str) -> bool:
    return wanted is None or any(fnmatchcase(value, w) for w in wanted)


_COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
}


def _compare(comparison: str, value: float) -> bool:
    sign = (re.match(r"[<>=]+", comparison) or [""])[0]
    return _COMPARE[sign](value, float(comparison.removeprefix(sign)))


class OfficeHours(_Part):
    """When a resource is wanted: outside these hours it may be stopped, inside `start` says what is started again."""

    on: str = Field(description="days and times, such as `mon-fri 07:00-21:00`")
    tz: str = Field(description="an IANA time zone, such as Europe/Berlin")
    start: Literal["ours", "all"] = "ours"
    force: bool = False
    override: Length = timedelta(hours=4)

    @model_validator(mode="after")
    def _parse(self) -> Self:
        schedule.parse(self.on, self.tz)
        return self

    @property
    def hours(self) -> Hours:
        """The hours as data."""
        parsed = schedule.parse(self.on, self.tz)
        return replace(parsed, restart=self.start, force=self.force, override=self.override)


class Spec(_Part):
    """One rule of the file; whatever it leaves out comes from the defaults."""

    name: str = Field(min_length=1, max_length=120)
    match: Match = Match()
    action: Action | None = None
    idle_after: Patience | None = None
    grace: Length | None = None
    remind_every: Length | None = None
    snooze_max: SnoozeLength | None = Field(None, description="the most that one click on a keep-link can ask for")
    act_on: Confidence | None = None
    stop_by: Literal["stop", "native"] | None = Field(
        None, description="native: switch on the cloud's own idle shutdown instead of stopping, where there is one"
    )
    tags_may: list[Leeway] | None = None
    hours: OfficeHours | None = None


class Defaults(_Part):
    """What holds where no rule says otherwise. The default action tells people and stops nothing."""

    action: Action = Action.NOTIFY
    idle_after: Patience = timedelta(hours=24)
    grace: Length = timedelta(days=3)
    remind_every: Length = timedelta(days=7)
    snooze_max: SnoozeLength = timedelta(days=30)
    lookback: Length = timedelta(days=14)
    act_on: Confidence = Confidence.PROVEN
    tags_may: list[Leeway] = [Leeway.PROTECT, Leeway.TIGHTEN]


class Limits(_Part):
    """How much one sweep may do at most; over one of them nothing that it counts is done, and a person is told.

    Whether the file itself sets one is in pydantic's `model_fields_set`: only a written `max_usd_per_hour` holds what has no price.
    """

    max_acts: Annotated[int, Field(ge=0)] = 20
    max_share: Share = Field(default="25%")  # type: ignore[assignment]
    max_jump: Share = Field(default="25%")  # type: ignore[assignment]
    max_usd_per_hour: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 200
    max_scheduled: Annotated[int, Field(ge=0, description="the most stops of one sweep that office hours ask for")] = 200


class Owners(_Part):
    """Where an owner's address comes from. Only addresses in `domains` are ever used."""

    tags: list[str] = ["reaper:owner", "owner", "email"]
    domains: list[Annotated[str, BeforeValidator(_domain)]] = []
    fallback: Annotated[str | None, BeforeValidator(_address)] = Field(None, description="who is told when no owner is known")
    contact: Annotated[str | None, BeforeValidator(_address)] = Field(
        None, description="whom owners can ask, named at the end of their mails; the fallback if it is not set"
    )


class Policy(_Part):
    """The whole file."""

    version: Literal[1]
    defaults: Defaults = Defaults()
    limits: Limits = Limits()
    owners: Owners = Owners()
    channels: list[Channel] = []
    rules: list[Spec] = Field([], max_length=MAX_RULES)

    @model_validator(mode="after")
    def _admins_have_an_address(self) -> Self:
        for channel in self.channels:
            wants = Audience.ADMINS in channel.readers and not getattr(channel, "to", True)
            if wants and not plain(self.owners.fallback or ""):
                raise ValueError(f"channel {channel.type!r} is for admins too: give it a `to`, or the policy an owners.fallback")
        return self

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = [spec.name for spec in self.rules]
        twice = next((n for n in names if names.count(n) > 1), None)
        if twice:
            raise ValueError(f"two rules are called {twice!r}: give each its own name")
        return self
