"""What a resource costs an hour: the list price of the shipped snapshot, or what the policy's own price rules make of it. Unknown stays unknown:
never zero, never a guess.

AWS keys follow the Price List attribute `component` (https://docs.aws.amazon.com/aws-cost-management/latest/APIReference/API_pricing_GetProducts.html),
Azure keys are `armRegionName` and `armSkuName` of https://learn.microsoft.com/rest/api/cost-management/retail-prices/azure-retail-prices
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from reaper.case import Price
from reaper.finding import Finding
from reaper.model import BilledPart, Resource
from reaper.text import DOLLARS, LIST_PRICES, Currency

if TYPE_CHECKING:
    from reaper.policy.schema import Policy, PriceRule

SUBSTITUTE_COMPONENTS = ("Hosting", "Studio-Notebook")
"""SageMaker components cost the same per instance to within 0.7% where both are known, so one may stand in for another."""


class PriceBook:
    """Prices by cloud, region, component and instance. The default is the snapshot that ships with the product.

    `rules`: the policy's own prices; of those that apply to a part, the first decides.
    """

    def __init__(self, snapshots: dict[str, Any] | None = None, rules: Sequence[PriceRule] = ()) -> None:
        self._snapshots = snapshots
        self._rules = rules

    def price(self, resource: Resource) -> Price | None:
        """US dollars an hour for all parts of a resource together; None if any part, or its price, is unknown."""
        if not resource.parts:
            return None
        prices: list[Price] = []
        for part in resource.parts:
            listed = self.list_price(resource.target.cloud, resource.region.lower(), part)
            rule = next((rule for rule in self._rules if rule.applies_to(resource, part)), None)
            if (price := _own_price(rule, listed) if rule else listed) is None:
                return None
            prices.append(price)
        usd = sum(p.usd_per_hour * part.count for p, part in zip(prices, resource.parts, strict=True))
        source, own = "; ".join(dict.fromkeys(p.source for p in prices)), any(p.own for p in prices)
        return Price(usd_per_hour=round(usd, 6), source=source, as_of=min(p.as_of for p in prices), own=own)

    def list_price(self, cloud: str, region: str, part: BilledPart) -> Price | None:
        """What one unit of the part costs by the snapshot."""
        snapshot = self._snapshots[cloud] if self._snapshots else _load_snapshot(cloud)
        components = snapshot["prices"].get(region, {})
        others = SUBSTITUTE_COMPONENTS if _may_substitute(region, part) else ()
        sources = [(part.component, "snapshot"), *((other, f"estimate ({other} price)") for other in others)]
        for component, source in sources:
            if row := components.get(component, {}).get(part.instance.lower()):
                as_of = snapshot["dates"].get(row[1], snapshot["as_of"])
                return Price(usd_per_hour=row[0], source=source, as_of=as_of)
        return None


def price_book(policy: Policy) -> PriceBook:
    """The prices under that policy. Everything that judges, acts or reports uses this one."""
    return PriceBook(rules=policy.prices.rules)


def _own_price(rule: PriceRule, listed: Price | None) -> Price | None:
    """The rule's own rate, or the list price less its discount, as old as the older of the two; None if that has no list price."""
    source, as_of = f"own: policy rule {rule.name}", rule.as_of.isoformat()
    if rule.usd_per_hour is not None:
        return Price(usd_per_hour=rule.usd_per_hour, source=source, as_of=as_of, own=True)
    if listed is None or rule.discount is None:
        return None
    usd = listed.usd_per_hour * (1 - rule.discount)
    return Price(usd_per_hour=usd, source=f"{source} on {listed.source}", as_of=min(listed.as_of, as_of), own=True)


def priced_regions() -> list[str]:
    """The regions of both clouds that the snapshot has prices for, in lower case."""
    return sorted({region.lower() for cloud in ("aws", "azure") for region in _load_snapshot(cloud)["prices"]})


def priced_sizes() -> list[str]:
    """The sizes of both clouds that the snapshot has prices for, in lower case."""
    regions = [components for cloud in ("aws", "azure") for components in _load_snapshot(cloud)["prices"].values()]
    return sorted({size for components in regions for rows in components.values() for size in rows})


def price_basis(findings: Iterable[Finding], currency: Currency) -> str:
    """`Costs are list prices before discounts.`, or which of them are the policy's own; and the rate, if they aren't in US dollars."""
    own = {finding.case.price.own for finding in findings if finding.case.price}
    costs = {
        (True,): "Costs are your own prices, from the policy.",
        (False, True): "Costs are your own prices if the policy has one, else list prices before discounts.",
    }.get(tuple(sorted(own)), LIST_PRICES)
    if currency.code == DOLLARS.code:
        return costs
    return f"{costs} One US dollar is {currency.code} {currency.rate:g} ({currency.source}, {currency.as_of})."


def price_lists() -> list[dict[str, Any]]:
    """Of each cloud's snapshot: how many prices and regions it has, the oldest and newest date of its sources, and these."""
    lists = []
    for cloud in ("aws", "azure"):
        snapshot = _load_snapshot(cloud)
        dates, prices, latest = snapshot["dates"], snapshot["prices"], snapshot["as_of"]
        sources = [{"source": s["what"], "as_of": dates.get(s["id"], latest)} for s in snapshot["sources"]]
        lists.append(
            {
                "cloud": cloud,
                "prices": sum(len(rows) for components in prices.values() for rows in components.values()),
                "regions": len(prices),
                "oldest": min([*dates.values(), latest]),
                "newest": max([*dates.values(), latest]),
                "sources": sources,
            }
        )
    return lists


def _may_substitute(region: str, part: BilledPart) -> bool:
    """Measured exceptions: HyperPod's own rates, GovCloud, and g4dn in two regions differ by up to 20% between components."""
    odd = part.instance.startswith("ml.g4dn.") and region in {"us-west-1", "ap-northeast-3"}
    return (
        part.component not in {"Cluster", "MLflow", "ServerlessProvisionedConcurrency"}
        and not region.startswith("us-gov-")
        and not odd
    )


@cache
def _load_snapshot(cloud: str) -> dict[str, Any]:
    """The shipped file (with its sources and their dates inside), its instance names lower-cased because Azure spells them in two ways."""
    name = {"aws": "aws-sagemaker.json.gz", "azure": "azure-vm.json.gz"}[cloud]
    data = json.loads(gzip.decompress(files("reaper").joinpath("data", "prices", name).read_bytes()))
    data["dates"] = {s["id"]: s["date"].partition(",")[0] for s in data["sources"] if s.get("date")}
    for region, components in data["prices"].items():
        data["prices"][region] = {c: {i.lower(): row for i, row in rows.items()} for c, rows in components.items()}
    return dict(data)
