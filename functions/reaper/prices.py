"""What a resource costs an hour at list price, from the shipped snapshot. Unknown stays unknown: never zero, never a guess.

AWS keys follow the Price List attribute `component` (https://docs.aws.amazon.com/aws-cost-management/latest/APIReference/API_pricing_GetProducts.html),
Azure keys are `armRegionName` and `armSkuName` of https://learn.microsoft.com/rest/api/cost-management/retail-prices/azure-retail-prices
"""

from __future__ import annotations

import gzip
import json
from functools import cache
from importlib.resources import files
from typing import Any

from reaper.case import Price
from reaper.model import BilledPart, Resource

SUBSTITUTE_COMPONENTS = ("Hosting", "Studio-Notebook")
"""SageMaker components cost the same per instance to within 0.7% where both are known, so one may stand in for another."""


class PriceBook:
    """Prices by cloud, region, component and instance. The default is the snapshot that ships with the product."""

    def __init__(self, snapshots: dict[str, Any] | None = None) -> None:
        self._snapshots = snapshots

    def price(self, resource: Resource) -> Price | None:
        """US dollars an hour for all parts of a resource together; None if any part, or its price, is unknown."""
        if not resource.parts:
            return None
        part_prices = [self._part_price(resource.target.cloud, resource.region.lower(), part) for part in resource.parts]
        prices = [p for p in part_prices if p]
        if len(prices) < len(part_prices):
            return None
        usd = sum(p.usd_per_hour * part.count for p, part in zip(prices, resource.parts, strict=True))
        source = next((p.source for p in prices if p.source != "snapshot"), "snapshot")
        return Price(usd_per_hour=round(usd, 6), source=source, as_of=min(p.as_of for p in prices))

    def _part_price(self, cloud: str, region: str, part: BilledPart) -> Price | None:
        snapshot = self._snapshots[cloud] if self._snapshots else _load_snapshot(cloud)
        components = snapshot["prices"].get(region, {})
        row = components.get(part.component, {}).get(part.instance.lower())
        if row:
            return _price_of_row(snapshot, row, "snapshot")
        for other in SUBSTITUTE_COMPONENTS if _may_substitute(region, part) else ():
            if row := components.get(other, {}).get(part.instance.lower()):
                return _price_of_row(snapshot, row, f"estimate ({other} price)")
        return None


def priced_regions() -> list[str]:
    """The regions of both clouds that the snapshot has prices for, in lower case."""
    return sorted({region.lower() for cloud in ("aws", "azure") for region in _load_snapshot(cloud)["prices"]})


def _may_substitute(region: str, part: BilledPart) -> bool:
    """Measured exceptions: HyperPod's own rates, GovCloud, and g4dn in two regions differ by up to 20% between components."""
    odd = part.instance.startswith("ml.g4dn.") and region in {"us-west-1", "ap-northeast-3"}
    return (
        part.component not in {"Cluster", "MLflow", "ServerlessProvisionedConcurrency"}
        and not region.startswith("us-gov-")
        and not odd
    )


def _price_of_row(snapshot: dict[str, Any], row: list[Any], source: str) -> Price:
    return Price(usd_per_hour=row[0], source=source, as_of=snapshot["dates"].get(row[1], snapshot["as_of"]))


@cache
def _load_snapshot(cloud: str) -> dict[str, Any]:
    """The shipped file (with its sources and their dates inside), its instance names lower-cased because Azure spells them in two ways."""
    name = {"aws": "aws-sagemaker.json.gz", "azure": "azure-vm.json.gz"}[cloud]
    data = json.loads(gzip.decompress(files("reaper").joinpath("data", "prices", name).read_bytes()))
    data["dates"] = {s["id"]: s["date"].partition(",")[0] for s in data["sources"] if s.get("date")}
    for region, components in data["prices"].items():
        data["prices"][region] = {c: {i.lower(): row for i, row in rows.items()} for c, rows in components.items()}
    return dict(data)
