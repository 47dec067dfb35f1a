"""Writes the price snapshot that ships with the product from public price lists, given as files. Downloads nothing.

AWS: the offer file of AmazonSageMaker, `https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/AmazonSageMaker/current/index.json`
(https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/using-price-list-query-api.html).
Azure: pages of `https://prices.azure.com/api/retail/prices?$filter=serviceName eq 'Virtual Machines'`
(https://learn.microsoft.com/rest/api/cost-management/retail-prices/azure-retail-prices).

A list replaces the prices of every region and component it contains. What it doesn't contain stays, with its own source and date.

    make prices AWS=index.json AZURE='page1.json page2.json' AS_OF=2026-11-20
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

SNAPSHOTS = Path(__file__).parents[1] / "functions" / "reaper" / "data" / "prices"
AWS_SNAPSHOT, AZURE_SNAPSHOT = "aws-sagemaker.json.gz", "azure-vm.json.gz"
INSTANCE = re.compile(r"ml\.[a-z0-9-]+\.[a-z0-9-]+")
HOURLY_UNITS = {"hrs", "hours", "hour", "1 hour"}
RESERVED = "-reserved"
"""Reserved capacity is billed under on-demand terms, but isn't what a resource costs."""
OTHER_PRODUCTS = ("Windows", "Cloud Services", "CloudServices", "Dedicated Host")
"""Other products with the same SKU name."""
MAX_PRICE_USD = 10_000
"""An hour. More is a misread row."""


class PriceRow(NamedTuple):
    """What one instance costs an hour in one region, under one component."""

    region: str
    component: str
    instance: str
    usd_per_hour: float


def aws_rows(offer: Mapping[str, Any]) -> Iterator[PriceRow]:
    """The hourly on-demand prices of an offer file. Rows without a component, such as training plans' fees, are no hourly rates."""
    terms = offer["terms"]["OnDemand"]
    for sku, product in offer["products"].items():
        attributes = product["attributes"]
        component, instance = attributes.get("component"), _instance_of(attributes)
        if not component or instance is None or RESERVED in f"{component} {attributes.get('usagetype', '')}".lower():
            continue
        for usd in _hourly_prices(terms.get(sku, {})):
            yield PriceRow(attributes["regionCode"], component, instance, usd)


def _instance_of(attributes: Mapping[str, str]) -> str | None:
    """The instance type: many rows have it in the usage type only."""
    texts = (attributes.get(name) or "" for name in ("instanceName", "instanceType", "usagetype"))
    return next((match[0] for text in texts if (match := INSTANCE.search(text))), None)


def _hourly_prices(offers: Mapping[str, Any]) -> Iterator[float]:
    for offer in offers.values():
        for dimension in offer["priceDimensions"].values():
            usd = float(dimension["pricePerUnit"].get("USD", 0))
            if dimension["unit"].lower() in HOURLY_UNITS and 0 < usd < MAX_PRICE_USD:
                yield usd


def azure_rows(page: Mapping[str, Any]) -> Iterator[PriceRow]:
    """The pay-as-you-go and Spot prices of Linux virtual machines on one page."""
    for item in page["Items"]:
        named = f"{item['skuName']} {item['meterName']}"
        if not _is_linux_hour(item) or "Low Priority" in named:
            continue
        component = "LinuxSpot" if "Spot" in named else "Linux"
        yield PriceRow(item["armRegionName"], component, item["armSkuName"], float(item["retailPrice"]))


def _is_linux_hour(item: Mapping[str, Any]) -> bool:
    """Whether it is the plain hourly price of a Linux machine in dollars: no reservation, no tier, no other product."""
    plain = item["type"] == "Consumption" and not item.get("reservationTerm") and not item.get("tierMinimumUnits")
    hourly = item["unitOfMeasure"].lower() in HOURLY_UNITS and item["currencyCode"] == "USD" and item["armSkuName"]
    return plain and bool(hourly) and 0 < item["retailPrice"] < MAX_PRICE_USD and not _is_other_product(item["productName"])


def _is_other_product(product: str) -> bool:
    return any(name in product for name in OTHER_PRODUCTS)


def updated_snapshot(snapshot: Mapping[str, Any], rows: Iterable[PriceRow], source: str, as_of: str) -> dict[str, Any]:
    """The snapshot with these rows in place of what it had for their regions and components. Of several prices the highest counts."""
    source_id = f"list-{as_of}"
    fresh: dict[str, dict[str, dict[str, list[Any]]]] = {}
    for row in rows:
        prices = fresh.setdefault(row.region, {}).setdefault(row.component, {})
        highest = max(row.usd_per_hour, prices.get(row.instance, [0.0])[0])
        prices[row.instance] = [highest, source_id]
    if not fresh:
        raise SystemExit(f"{source}: no hourly price found")
    old_prices = snapshot["prices"]
    prices_by_region = {
        region: dict(sorted({**old_prices.get(region, {}), **fresh.get(region, {})}.items()))
        for region in sorted({*old_prices, *fresh})
    }
    used = {row[1] for region in prices_by_region.values() for table in region.values() for row in table.values()}
    sources = [one for one in snapshot["sources"] if one["id"] in used and one["id"] != source_id]
    sources.append({"id": source_id, "what": source, "date": as_of})
    return {**snapshot, "as_of": as_of, "sources": sources, "prices": prices_by_region}


def read_snapshot(path: Path) -> dict[str, Any]:
    """The snapshot as it is."""
    return dict(json.loads(gzip.decompress(path.read_bytes())))


def write_snapshot(path: Path, snapshot: Mapping[str, Any]) -> None:
    """Byte for byte the same for the same prices."""
    text = json.dumps(snapshot, ensure_ascii=False, separators=(",", ":"))
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def write_aws(folder: Path, files: Sequence[Path]) -> None:
    """The AWS snapshot from offer files, each with the date it was published."""
    for file in files:
        offer = json.loads(file.read_text())
        as_of = offer["publicationDate"][:10]
        source = f"AWS offer file {offer['offerCode']}, version {offer['version']}"
        snapshot = updated_snapshot(read_snapshot(folder / AWS_SNAPSHOT), aws_rows(offer), source, as_of)
        write_snapshot(folder / AWS_SNAPSHOT, snapshot)


def write_azure(folder: Path, files: Sequence[Path], as_of: date) -> None:
    """The Azure snapshot from all pages together. They bear no date."""
    rows = [row for file in files for row in azure_rows(json.loads(file.read_text()))]
    source = "Azure Retail Prices API, Virtual Machines, Linux, USD"
    snapshot = updated_snapshot(read_snapshot(folder / AZURE_SNAPSHOT), rows, source, as_of.isoformat())
    write_snapshot(folder / AZURE_SNAPSHOT, snapshot)


def main(arguments: Sequence[str] | None = None) -> None:
    """`--aws FILE ...`, `--azure FILE ... --as-of DATE`, or both."""
    parser = argparse.ArgumentParser(description="Write the price snapshot from public price lists.")
    parser.add_argument("--aws", nargs="*", type=Path, default=[], help="Offer files of AmazonSageMaker (JSON)")
    parser.add_argument("--azure", nargs="*", type=Path, default=[], help="Pages of the Azure Retail Prices API (JSON)")
    parser.add_argument("--as-of", type=date.fromisoformat, help="Day on which the Azure pages were read")
    parser.add_argument("--folder", type=Path, default=SNAPSHOTS, help="Folder of the snapshot")
    options = parser.parse_args(arguments)
    if (not options.aws and not options.azure) or (options.azure and options.as_of is None):
        parser.error("give --aws, or --azure with --as-of")
    write_aws(options.folder, options.aws)
    if options.azure:
        write_azure(options.folder, options.azure, options.as_of)


if __name__ == "__main__":
    main()
