"""A policy's own money: its price rules, the currency that people read, and budgets for what is idle. Pure.

A price rule changes the price of a part of a resource, such as one instance of an endpoint. Money in the policy is in US dollars.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Self

from pydantic import Field, model_validator

from reaper.model import BilledPart, Resource
from reaper.policy.match import Match, matches_any
from reaper.policy.values import CurrencyCode, Day, Percentage, Section
from reaper.text import DOLLARS, Currency

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
