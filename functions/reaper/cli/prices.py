"""`reaper prices`: what is known of a price, from where and when."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from reaper import prices, registry, settings
from reaper.cli.options import PolicyOption
from reaper.errors import SettingsError
from reaper.model import BilledPart, Resource, Target
from reaper.policy.file import load_policy
from reaper.text import LIST_PRICES, Currency, clean_line, count_noun, did_you_mean, format_usd

if TYPE_CHECKING:
    from reaper.policy.schema import Policy


def show_prices(
    kind: Annotated[str | None, typer.Argument(help="Kind, as in reaper kinds")] = None,
    region: Annotated[str | None, typer.Argument(help="Region of the cloud")] = None,
    size: Annotated[str | None, typer.Argument(help="Instance type, such as ml.g5.xlarge or Standard_NC6s_v3")] = None,
    policy: PolicyOption = None,
    format: Annotated[Literal["text", "json"], typer.Option(help="Output format")] = "text",
) -> None:
    """Show what is known of a price: its source, its date, and your own price rules. Without arguments, all price lists."""
    chosen = load_policy(settings.from_env(os.environ).policy if policy is None else policy).policy
    if kind is None:
        lists = prices.price_lists()
        own = chosen.prices.model_dump(mode="json", exclude_none=True)
        facts, lines = {"schema": 1, "lists": lists, "own": own}, _list_lines(lists, chosen)
    elif region is None or size is None:
        raise SettingsError("name all of KIND REGION SIZE, such as sagemaker-endpoint us-east-1 ml.g5.xlarge, or none of them")
    else:
        rows = _known_prices(kind, region, size, chosen)
        facts = {"schema": 1, "kind": kind, "region": region, "size": size, "prices": rows}
        lines = iter([_price_line(row, chosen.prices.shown_in) for row in rows] or ["price unknown"])
    sys.stdout.write(json.dumps(facts, indent=2) + "\n" if format == "json" else "\n".join(lines) + "\n")


def _known_prices(name: str, region: str, size: str, policy: Policy) -> list[dict[str, Any]]:
    """The price of one instance under each component of the kind that has one, with its list price. Raises SettingsError for an unknown kind."""
    kind = registry.find_kind(name)
    if kind is None:
        raise SettingsError(f"unknown kind {clean_line(name)!r}{did_you_mean(name, registry.kind_names())}")
    target, book = Target(cloud=kind.cloud, account="", region=region), prices.price_book(policy)
    rows = []
    for part in (BilledPart(component=component, instance=size) for component in kind.price_keys):
        one = Resource(kind=kind.name, id="", name="", target=target, region=region, created=None, parts=(part,))
        listed = book.list_price(kind.cloud, region.lower(), part)
        if price := book.price(one):
            rows.append({"component": part.component, **asdict(price), "list": asdict(listed) if listed else None})
    # A rule for any cloud's size would price every component of the kind; those on a price list are the ones that exist.
    return [row for row in rows if row["list"]] or rows


def _price_line(row: dict[str, Any], currency: Currency) -> str:
    own = f"{row['component']}: {_amount(row, currency)}"
    return f"{own}; list price {_amount(row['list'], currency)}" if row["own"] and row["list"] else own


def _amount(price: dict[str, Any], currency: Currency) -> str:
    return f"{format_usd(price['usd_per_hour'], 4, currency)} an hour ({price['source']}, {price['as_of']})"


def _list_lines(lists: list[dict[str, Any]], policy: Policy) -> Iterator[str]:
    for each in lists:
        dates, sources = " to ".join(dict.fromkeys((each["oldest"], each["newest"]))), count_noun(len(each["sources"]), "source")
        yield f"{each['cloud']}: {each['prices']:,} list prices in {each['regions']} regions, {dates} ({sources}, listed by --format json)"
    for rule in policy.prices.rules:
        rate, off, match = rule.usd_per_hour, rule.discount or 0, rule.match.model_dump(exclude_none=True)
        what = f"{100 * off:g}% less than list" if rate is None else f"{format_usd(rate, 4)} an hour"
        yield f"own: {clean_line(rule.name)}: {what} for {clean_line(json.dumps(match)) if match else 'everything'} ({rule.as_of})"
    if policy.prices.currency:
        yield prices.price_basis((), policy.prices.shown_in).removeprefix(f"{LIST_PRICES} ")
