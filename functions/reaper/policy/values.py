"""The values of a policy: each is parsed from its text into its real type, once, or raises ValueError that says what was expected."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from enum import StrEnum
from typing import Annotated, Any, Literal

from annotated_types import MinLen
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, WithJsonSchema

from reaper import duration
from reaper.calendars import office_hours
from reaper.notices.message import is_plain_address
from reaper.policy.tags import MIN_IDLE_AFTER

ADMINS, TAG_ADDRESSEE = "admins", "tag:"
"""Addressees of an escalation: the channels for admins, and how `tag:KEY` begins, the address in a tag of the resource."""
HIDDEN = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
"""What can't be seen, although Unicode counts it among letters and marks. Control and format characters and blanks aren't printable."""


class TagPermission(StrEnum):
    """What a resource's own tags may do to its rule. They may always protect, whatever the list says."""

    PROTECT = "protect"
    TIGHTEN = "tighten"
    LOOSEN = "loosen"


class Section(BaseModel):
    """A part of the policy file. Unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)


@dataclass(frozen=True, slots=True)
class BusinessDayCount:
    """A grace of so many business days."""

    count: int

    @property
    def least(self) -> timedelta:
        """What they last at least: a day has 23 hours if clocks go forward."""
        return self.count * timedelta(hours=23)


def _length(
    shortest: timedelta = timedelta(0), expected: str = "1m, such as 30m, 4h or 3d", *, business_days: bool = False
) -> BeforeValidator:
    """Parses a duration of at least `shortest`, which the error spells as `expected`; or business days, if they make sense."""

    def parse(value: object) -> timedelta | BusinessDayCount:
        text = value.strip() if isinstance(value, str) else ""
        if match := re.fullmatch(r"(\d{1,4})bd", text, re.ASCII):
            if not business_days:
                raise ValueError(f"expected {duration.EXPECTED_DURATION}; only grace can be in business days")
            if not 1 <= int(match[1]) <= 60:
                raise ValueError("expected 1bd to 60bd")
            return BusinessDayCount(int(match[1]))
        if business_days and "b" in text.lower():
            raise ValueError(f"expected {duration.EXPECTED_DURATION}, or business days such as 2bd")
        if re.fullmatch("0+[mhdw]?", text) or (length := duration.parse_duration(text)) < shortest:
            raise ValueError(f"expected at least {expected}")
        return length

    return BeforeValidator(parse)


def text_of(pattern: str, expected: str, value_of: Callable[[str], object]) -> BeforeValidator:
    """Parses what matches that pattern, which the error spells as `expected`."""

    def parse(value: object) -> object:
        if not isinstance(value, str) or not re.fullmatch(pattern, value, re.ASCII):
            raise ValueError(f"expected {expected}")
        return value_of(value)

    return BeforeValidator(parse)


def _reminder_count(text: str) -> int:
    return int(text.split()[0])


def _parse_percentage(value: object) -> float:
    match = re.fullmatch(r"(\d{1,3}(?:\.\d+)?)\s*%", value) if isinstance(value, str) else None
    if not match or float(match[1]) > 100:
        raise ValueError("expected a percentage such as 25%")
    return float(match[1]) / 100


def require_plain_address(value: object) -> object:
    """Raises ValueError for text that is no plain email address."""
    if isinstance(value, str) and not is_plain_address(value):
        raise ValueError("expected one plain email address such as ml-admins@example.com, without a name or brackets")
    return value


def _require_addressee(value: object) -> object:
    key = value.removeprefix(TAG_ADDRESSEE) if isinstance(value, str) else ""
    if key and key != value:
        _require_visible(key.lstrip(" "))
    elif value != ADMINS and not is_plain_address(key):
        raise ValueError("expected tag:KEY such as tag:manager, admins, or one plain email address such as lead@example.com")
    return value


def _require_visible(text: str, fix: str = "remove it") -> str:
    """Raises ValueError for a character that can't be seen: with it, the text would match something else than its author reads."""
    for position, character in enumerate(text, 1):
        is_blank_at_end = character == " " and position in (1, len(text))
        if is_blank_at_end or not character.isprintable() or HIDDEN.match(character):
            name = unicodedata.name(character, "a control character")
            raise ValueError(f"character {position}, U+{ord(character):04X} ({name}), can't be seen; {fix}")
    return text


def _parse_domain(value: object) -> object:
    """`example.com`, also as `@example.com`."""
    name = value.removeprefix("@") if isinstance(value, str) else value
    if isinstance(name, str) and not is_plain_address(f"user@{name}"):
        raise ValueError("expected a mail domain such as example.com, without wildcards")
    return name


def as_list(value: object) -> object:
    """A list of one, if one is written without brackets."""
    return [value] if isinstance(value, str) else value


def _require_different_keys(keys: list[str]) -> list[str]:
    plain = [key.lower() for key in keys]
    if repeated := next((key for key in keys if plain.count(key.lower()) > 1), None):
        raise ValueError(f"{repeated} is there twice; keys ignore case")
    return keys


def _parse_tags(value: object) -> object:
    if not isinstance(value, dict):
        return value
    if empty := [key for key, values in value.items() if values == []]:
        raise ValueError(f'{empty[0]} has an empty list; name a value, or write "*" for any value and null for an absent tag')
    return {k: None if v is None else [_scalar_text(x) for x in (v if isinstance(v, list) else [v])] for k, v in value.items()}


def _scalar_text(value: object) -> object:
    text = str(value) if isinstance(value, int | float) else value
    return str(value).lower() if isinstance(value, bool) else text


_DURATION_SCHEMA = WithJsonSchema({"type": "string", "pattern": duration.DURATION_PATTERN})
Length = Annotated[timedelta, _length(), _DURATION_SCHEMA]
Grace = Annotated[
    timedelta | BusinessDayCount,
    _length(business_days=True),
    WithJsonSchema({"type": "string", "pattern": rf"({duration.DURATION_PATTERN})|(^[1-9][0-9]?bd$)"}),
]
ONE_OR_MORE_STRINGS = WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]})
CalendarNames = Annotated[list[str], BeforeValidator(as_list), ONE_OR_MORE_STRINGS]
_SHORTEST = f"{duration.policy_duration(MIN_IDLE_AFTER)}: metrics arrive some minutes late"
IdleAfter = Annotated[timedelta, _length(MIN_IDLE_AFTER, _SHORTEST), _DURATION_SCHEMA]
SnoozeLength = Annotated[timedelta, _length(timedelta(days=1), "1d: snooze links offer whole days"), _DURATION_SCHEMA]
Percentage = Annotated[
    float,
    BeforeValidator(_parse_percentage),
    WithJsonSchema({"type": "string", "pattern": r"^(100(\.0+)?|\d{1,2}(\.\d+)?)\s*%$"}),
]
_COMPARISON = r"^\s*(>=|<=|>|<|==)\s*\d+(\.\d+)?\s*$"
Comparison = Annotated[
    str,
    text_of(_COMPARISON, 'a comparison in US dollars such as ">= 5"', str.strip),
    WithJsonSchema({"type": "string", "pattern": _COMPARISON}),
]
Day = Annotated[date, text_of(r"\d{4}-\d\d-\d\d", "a day such as 2026-11-01", date.fromisoformat)]
_CODE = "^[A-Z]{3}$"
CurrencyCode = Annotated[
    str, text_of(_CODE, "three capital letters such as EUR", str), WithJsonSchema({"type": "string", "pattern": _CODE})
]
Zone = Annotated[str, AfterValidator(lambda name: office_hours.time_zone(name).key)]
PlainAddress = Annotated[str | None, BeforeValidator(require_plain_address)]
Domain = Annotated[str, BeforeValidator(_parse_domain)]
_WORDS_SCHEMA: dict[str, Any] = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}
Word = Annotated[str, MinLen(1), AfterValidator(_require_visible)]
_VISIBLE = AfterValidator(lambda text: _require_visible(text, "remove it, or write ? for it"))
Words = Annotated[list[Annotated[str, MinLen(1), _VISIBLE]], BeforeValidator(as_list), MinLen(1), WithJsonSchema(_WORDS_SCHEMA)]
_PLAIN = AfterValidator(lambda text: text.replace(" ", "").lower())
"""An account or region as the clouds write it: `West Europe` is westeurope."""
Place = Annotated[str, _PLAIN, MinLen(1), _VISIBLE]
Regions = Annotated[list[Place], BeforeValidator(as_list), MinLen(1), WithJsonSchema(_WORDS_SCHEMA)]
Addressee = Annotated[str, BeforeValidator(_require_addressee)]
Addressees = Annotated[list[Addressee], BeforeValidator(as_list), MinLen(1), WithJsonSchema(_WORDS_SCHEMA)]
_REMINDERS = r"^\s*(0?[1-9]|1[0-9]|20) reminders?\s*$"
Reminders = Annotated[
    int,
    text_of(_REMINDERS, "1 to 20 reminders, such as 2 reminders", _reminder_count),
    WithJsonSchema({"type": "string", "pattern": _REMINDERS}),
]
TagKeys = Annotated[list[Word], BeforeValidator(as_list), AfterValidator(_require_different_keys), ONE_OR_MORE_STRINGS]
_ACCOUNTS_SCHEMA: dict[str, Any] = {
    "anyOf": [*_WORDS_SCHEMA["anyOf"], {"type": "integer"}, {"type": "array", "items": {"type": ["string", "integer"]}}]
}
Accounts = Annotated[list[Place], BeforeValidator(as_list), MinLen(1), WithJsonSchema(_ACCOUNTS_SCHEMA)]
_CLOUD: dict[str, Any] = {"enum": ["aws", "azure"]}
Clouds = Annotated[
    list[Literal["aws", "azure"]],
    BeforeValidator(as_list),
    WithJsonSchema({"anyOf": [_CLOUD, {"type": "array", "items": _CLOUD}]}),
]
_TAG_SCHEMA: dict[str, Any] = {"anyOf": [*_WORDS_SCHEMA["anyOf"], {"type": ["null", "boolean", "number"]}]}
Tags = Annotated[
    dict[Word, list[Annotated[str, _VISIBLE]] | None],
    BeforeValidator(_parse_tags),
    WithJsonSchema({"type": "object", "additionalProperties": _TAG_SCHEMA}),
]
