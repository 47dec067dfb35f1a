"""`make prices`: the shipped snapshot from public price lists, in the shapes in which AWS and Azure publish them."""

from __future__ import annotations

import json
import shutil
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fakes.builders import resource
from reaper.model import BilledPart, Target
from reaper.prices import PriceBook
from reaper.registry import kinds


def load_script() -> ModuleType:
    """`infra/prices.py`, which is no part of the product."""
    spec = spec_from_file_location("price_lists", Path(__file__).parents[2] / "infra" / "prices.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


price_lists = load_script()


def product(usage: str, usd: str, unit: str = "Hrs", **attributes: str) -> dict[str, Any]:
    """One SKU with its price, as an offer file has it."""
    return {
        "attributes": {"servicecode": "AmazonSageMaker", "regionCode": "us-east-1", "usagetype": usage, **attributes},
        "price": {"unit": unit, "pricePerUnit": {"USD": usd}},
    }


def offer_file(folder: Path, *products: dict[str, Any]) -> Path:
    """An offer file of these SKUs."""
    skus = {f"SKU{number}": one for number, one in enumerate(products)}
    body = {
        "formatVersion": "v1.0",
        "offerCode": "AmazonSageMaker",
        "version": "20261118123456",
        "publicationDate": "2026-11-18T12:34:56Z",
        "products": {sku: {"sku": sku, "productFamily": "ML Instance", "attributes": p["attributes"]} for sku, p in skus.items()},
        "terms": {
            "OnDemand": {
                sku: {f"{sku}.JRT": {"offerTermCode": "JRT", "priceDimensions": {f"{sku}.JRT.6YS": p["price"]}}}
                for sku, p in skus.items()
            }
        },
    }
    path = folder / "index.json"
    path.write_text(json.dumps(body))
    return path


def machine(sku: str, usd: float, **changes: Any) -> dict[str, Any]:
    """One item of a retail prices page."""
    return {
        "currencyCode": "USD",
        "tierMinimumUnits": 0.0,
        "retailPrice": usd,
        "unitPrice": usd,
        "armRegionName": "eastus",
        "meterName": sku,
        "productName": "Virtual Machines NCasT4 v3 Series",
        "skuName": sku,
        "serviceName": "Virtual Machines",
        "unitOfMeasure": "1 Hour",
        "type": "Consumption",
        "isPrimaryMeterRegion": True,
        "armSkuName": sku,
        **changes,
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the shipped snapshot."""
    return Path(shutil.copytree(price_lists.SNAPSHOTS, tmp_path / "prices"))


def book(folder: Path) -> PriceBook:
    snapshots = {
        "aws": price_lists.read_snapshot(folder / price_lists.AWS_SNAPSHOT),
        "azure": price_lists.read_snapshot(folder / price_lists.AZURE_SNAPSHOT),
    }
    for snapshot in snapshots.values():
        snapshot["dates"] = {source["id"]: source["date"] for source in snapshot["sources"] if source.get("date")}
        for components in snapshot["prices"].values():
            for name, table in components.items():
                components[name] = {instance.lower(): row for instance, row in table.items()}
    return PriceBook(snapshots)


def price_of(folder: Path, component: str, instance: str, cloud: str = "aws", region: str = "us-east-1"):
    part = BilledPart(component=component, instance=instance)
    return book(folder).price(resource(parts=(part,), region=region, target=Target(cloud=cloud, account="1")))


def test_an_offer_file_sets_prices_with_its_date(folder: Path, tmp_path: Path):
    offer = offer_file(
        tmp_path,
        product("USE1-Host:ml.g9.xlarge", "1.5", component="Hosting", instanceName="ml.g9.xlarge"),
        product("USE1-Notebk:ml.t9.medium", "0.06", component="Notebook"),
    )
    price_lists.main(["--aws", str(offer), "--folder", str(folder)])
    hosting, notebook = price_of(folder, "Hosting", "ml.g9.xlarge"), price_of(folder, "Notebook", "ml.t9.medium")
    assert (hosting.usd_per_hour, hosting.source, hosting.as_of) == (1.5, "snapshot", "2026-11-18")
    assert notebook.usd_per_hour == 0.06


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param(product("USE1-TrainingPlanUpfrontFee:ml.p4d.24xlarge", "13.57", unit="Quantity"), id="no component"),
        pytest.param(product("USE1-Host:ml.p9.xlarge", "1", unit="Quantity", component="Hosting"), id="not an hour"),
        pytest.param(product("USE1-Cluster:ml.p9.xlarge-Reserved", "1", component="Cluster"), id="reserved"),
        pytest.param(product("USE1-ServerlessInf:Mem-2GB", "0.00004", component="Serverless"), id="no instance"),
        pytest.param(product("USE1-Host:ml.p9.xlarge", "0", component="Hosting"), id="free"),
    ],
)
def test_other_rows_of_an_offer_file_are_no_prices(odd: dict[str, Any], tmp_path: Path):
    plain = product("USE1-Host:ml.g9.xlarge", "1.5", component="Hosting")
    offer = json.loads(offer_file(tmp_path, odd, plain).read_text())
    assert list(price_lists.aws_rows(offer)) == [price_lists.PriceRow("us-east-1", "Hosting", "ml.g9.xlarge", 1.5)]


def test_the_highest_of_several_prices_counts(folder: Path, tmp_path: Path):
    rows = [product("USE1-Host:ml.g9.xlarge", usd, component="Hosting") for usd in ("1.4", "1.5", "1.3")]
    price_lists.main(["--aws", str(offer_file(tmp_path, *rows)), "--folder", str(folder)])
    assert price_of(folder, "Hosting", "ml.g9.xlarge").usd_per_hour == 1.5


def test_a_list_replaces_its_regions_and_components_only(folder: Path, tmp_path: Path):
    offer = offer_file(tmp_path, product("USE1-Host:ml.g9.xlarge", "1.5", component="Hosting"))
    before = price_of(folder, "Hosting", "ml.g5.xlarge", region="eu-west-1")
    price_lists.main(["--aws", str(offer), "--folder", str(folder)])
    tables = price_lists.read_snapshot(folder / price_lists.AWS_SNAPSHOT)["prices"]
    assert list(tables["us-east-1"]["Hosting"]) == ["ml.g9.xlarge"], "a withdrawn instance has no price"
    assert "ml.t3.medium" in tables["us-east-1"]["Studio-JupyterLab"]
    assert price_of(folder, "Hosting", "ml.g5.xlarge", region="eu-west-1") == before


def test_retail_pages_set_linux_prices_only(folder: Path, tmp_path: Path):
    name = "Standard_NC4as_T4_v3"
    page = tmp_path / "page.json"
    items = [
        machine(name, 0.53),
        machine(name, 9.0, productName="Virtual Machines NCasT4 v3 Series Windows"),
        machine(name, 0.11, skuName=f"{name} Spot"),
        machine(name, 0.12, skuName=f"{name} Low Priority"),
        machine(name, 3000.0, type="Reservation", reservationTerm="1 Year"),
        machine(name, 9.0, type="DevTestConsumption"),
        machine(name, 9.0, tierMinimumUnits=100.0),
        machine(name, 9.0, productName="Cloud Services NC"),
        machine(name, 9.0, unitOfMeasure="1/Month"),
        machine(name, 9.0, currencyCode="EUR"),
        machine("", 9.0),
    ]
    page.write_text(json.dumps({"BillingCurrency": "USD", "Items": items, "NextPageLink": None, "Count": len(items)}))
    price_lists.main(["--azure", str(page), "--as-of", "2026-11-20", "--folder", str(folder)])
    linux, spot = (price_of(folder, c, name.upper(), "azure", "eastus") for c in ("Linux", "LinuxSpot"))
    assert (linux.usd_per_hour, linux.as_of, spot.usd_per_hour) == (0.53, "2026-11-20", 0.11)


def test_a_list_without_a_price_changes_nothing(folder: Path, tmp_path: Path):
    before = (folder / price_lists.AWS_SNAPSHOT).read_bytes()
    with pytest.raises(SystemExit, match="no hourly price"):
        price_lists.main(["--aws", str(offer_file(tmp_path)), "--folder", str(folder)])
    assert (folder / price_lists.AWS_SNAPSHOT).read_bytes() == before


def test_azure_pages_need_the_day_they_were_read(folder: Path, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        price_lists.main(["--azure", "page.json", "--folder", str(folder)])
    assert "--as-of" in capsys.readouterr().err


def test_the_same_lists_write_the_same_bytes(folder: Path, tmp_path: Path):
    offer = offer_file(tmp_path, product("USE1-Host:ml.g9.xlarge", "1.5", component="Hosting"))
    price_lists.main(["--aws", str(offer), "--folder", str(folder)])
    once = (folder / price_lists.AWS_SNAPSHOT).read_bytes()
    price_lists.main(["--aws", str(offer), "--folder", str(folder)])
    assert (folder / price_lists.AWS_SNAPSHOT).read_bytes() == once


@pytest.mark.parametrize("cloud", ["aws", "azure"])
def test_every_price_key_of_a_kind_is_in_the_snapshot_or_estimated(cloud: str):
    name = {"aws": price_lists.AWS_SNAPSHOT, "azure": price_lists.AZURE_SNAPSHOT}[cloud]
    components = {c for region in price_lists.read_snapshot(price_lists.SNAPSHOTS / name)["prices"].values() for c in region}
    keys = {key for kind in kinds(cloud) for key in kind.price_keys}
    assert keys - components == {"aws": {"Studio-CodeEditor"}, "azure": set()}[cloud], "only estimated from another component"
