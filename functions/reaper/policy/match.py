"""What a rule matches: the conditions of its `match`, each true, false, or unknown without a price or size. Pure.

And what the canary of a policy, `enforce_only`, covers: the only resources that anything but notices may happen to.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Self

from pydantic import BeforeValidator, ConfigDict, Field, field_validator, model_validator

from reaper.model import Resource
from reaper.policy.values import Accounts, Clouds, Comparison, Regions, Section, Tags, Words
from reaper.text import first_few, short_repr

OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
}


class Match(Section):
    """Which resources a rule covers: all conditions must hold, and no condition means all. Lists and globs mean any of them."""

    model_config = ConfigDict(validate_default=False)

    cloud: Clouds | None = Field(None, description="aws or azure")
    kind: Words | None = Field(None, description="kind names, globs allowed, such as sagemaker-*; `reaper kinds` lists them")
    name: Words | None = Field(None, description="name globs; case counts")
    account: Accounts | None = Field(None, description="AWS account IDs or Azure subscription IDs")
    subscription: Accounts | None = Field(None, description="the same as account, in Azure's word")
    region: Regions | None = Field(
        None, description="region names, globs allowed", examples=["us-east-1", ["eu-*", "westeurope"]]
    )
    tags: Tags | None = Field(
        None,
        description="key: value, list of values, glob, `*` for present, null for absent",
        examples=[{"env": ["dev", "test"], "team": "*", "keep": None}],
    )
    size: Words | None = Field(None, description="globs on the size", examples=["ml.p5.*", ["Standard_NC*", "Standard_ND*"]])
    usd_per_hour: Comparison | None = Field(None, description="a comparison in US dollars an hour", examples=[">= 5"])

    @field_validator("*")
    @classmethod
    def _names_what_it_covers(cls, value: object) -> object:
        if not value:
            raise ValueError("say what it matches, or remove the key: empty, it would match everything")
        return value

    def matches(self, resource: Resource, usd_per_hour: float | None) -> bool | None:
        """Whether the rule matches; None if that depends on an unknown price or size."""
        results = self.conditions(resource, usd_per_hour).values()
        if False in results:
            return False
        return None if None in results else True

    def conditions(self, resource: Resource, usd_per_hour: float | None) -> dict[str, bool | None]:
        """Whether each condition of the rule holds; None if that depends on an unknown price or size."""
        account = resource.target.account.lower()
        words = {"cloud": resource.target.cloud, "kind": resource.kind, "name": resource.name}
        words |= {"account": account, "subscription": account, "region": resource.region.lower()}
        results: dict[str, bool | None] = {
            key: matches_any(globs, word) for key, word in words.items() if (globs := getattr(self, key)) is not None
        }
        if self.tags is not None:
            results["tags"] = tags_match(self.tags, resource)
        if self.size is not None:
            results["size"] = _size_matches(self.size, resource)
        if self.usd_per_hour is not None:
            results["usd_per_hour"] = _price_matches(self.usd_per_hour, usd_per_hour)
        return results


def matches_any(globs: Sequence[str] | None, value: str) -> bool:
    """Whether the value fits one of the globs; any value does if there are none."""
    return globs is None or any(fnmatchcase(value, glob) for glob in globs)


def _size_matches(globs: Sequence[str], resource: Resource) -> bool | None:
    """Whether any instance type of the resource fits; None if one of them is unknown."""
    sizes = [size.strip() for size in resource.size.split(",") if size.strip()]
    types = [*(part.instance for part in resource.parts or ()), *sizes]
    if any(fnmatchcase(name.lower(), f"{glob.lower()}*") for name in types for glob in globs):
        return True
    return None if resource.parts is None else False


def _price_matches(comparison: str, usd_per_hour: float | None) -> bool | None:
    if usd_per_hour is None:
        return None
    sign = (re.match(r"[<>=]+", comparison) or [""])[0]
    return OPERATORS[sign](usd_per_hour, float(comparison.removeprefix(sign)))


def tags_match(conditions: Tags, resource: Resource) -> bool:
    """Whether its tags meet every condition. Tags that couldn't be read count as none."""
    values_by_key: dict[str, list[str]] = {}
    for key, value in (resource.tags or {}).items():
        values_by_key.setdefault(key.lower(), []).append(value)
    return all(_tag_matches(globs, values_by_key.get(key.lower(), [])) for key, globs in conditions.items())


def _tag_matches(globs: list[str] | None, values: Sequence[str]) -> bool:
    """Whether a tag's values fit: without globs (null) the tag must be absent, with globs one value must fit one of them."""
    if globs is None:
        return not values
    return bool(values) and (not globs or any(fnmatchcase(value, glob) for value in values for glob in globs))


EXPECTED = "name accounts, tags or both, or remove the key: empty, it would cover everything"
ACCOUNT = re.compile(r"[0-9]{12}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?=.*[*?\[])[0-9a-f*?\[\]!-]+")
"""An account ID, a subscription ID, or a glob on them."""


class EnforceOnly(Section):
    """Where actions may happen: every key that is there must fit. Everything else is treated as in mode notify."""

    accounts: Accounts | None = Field(None, description="AWS account IDs or Azure subscription IDs")
    tags: Tags | None = Field(
        None,
        description="as in a match: key: value, list of values, glob, `*` for present, null for absent",
        examples=[{"reaper-canary": "yes"}],
    )

    @model_validator(mode="after")
    def _is_not_empty(self) -> Self:
        empty = [key for key in sorted(self.model_fields_set) if not getattr(self, key)]
        if empty or not self.model_fields_set:
            raise ValueError(f"{'.'.join(['enforce_only', *empty[:1]])} is empty; {EXPECTED}")
        return self

    def covers(self, resource: Resource) -> bool:
        """Whether actions may happen to it. A resource whose tags can't be read is never covered by tags."""
        if self.tags and resource.tags is None:
            return False
        return matches_any(self.accounts, resource.target.account.lower()) and tags_match(self.tags or {}, resource)

    @property
    def description(self) -> str:
        """What it covers, for people."""
        parts = [f"accounts {first_few(self.accounts)}"] if self.accounts else []
        parts += [f"tags {first_few([short_repr(key) for key in self.tags])}"] if self.tags else []
        return " with ".join(parts)


def _require_keys(value: object) -> object:
    if value is None:
        raise ValueError(EXPECTED)
    return value


OptionalEnforceOnly = Annotated[EnforceOnly | None, BeforeValidator(_require_keys)]
"""A canary, or none if the key is absent. The key alone is an error: with its lines commented out, it must not allow actions everywhere."""
