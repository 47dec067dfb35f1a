from __future__ import annotations

import pytest

from fakes.builders import resource
from reaper.model import BilledPart, Target
from reaper.prices import PriceBook

BOOK = PriceBook()


def priced(*parts: BilledPart, region: str = "us-east-1", cloud: str = "aws"):
    return BOOK.price(resource(parts=parts, region=region, target=Target(cloud=cloud, account="1")))


def test_a_price_has_a_source_and_a_date():
    price = priced(BilledPart(component="Hosting", instance="ml.g5.xlarge", count=2))
    assert (price.usd_per_hour, price.source, price.as_of) == (2.816, "snapshot", "2026-05-20")


def test_parts_add_up_and_the_oldest_date_is_told():
    price = priced(
        BilledPart(component="Hosting", instance="ml.g5.xlarge"),
        BilledPart(component="Studio-JupyterLab", instance="ml.t3.medium"),
    )
    assert price.usd_per_hour == pytest.approx(1.408 + 0.05)
    assert price.as_of == "2026-05-20"


@pytest.mark.parametrize(
    ("parts", "region"),
    [
        pytest.param((BilledPart(component="Hosting", instance="ml.made-up.large"),), "us-east-1", id="unknown instance"),
        pytest.param((BilledPart(component="Hosting", instance="ml.g5.xlarge"),), "moon-1", id="unknown region"),
        pytest.param(
            (BilledPart(component="Hosting", instance="ml.g5.xlarge"), BilledPart(component="Hosting", instance="ml.x.y")),
            "us-east-1",
            id="one of two",
        ),
        pytest.param((BilledPart(component="Cluster", instance="ml.g5.xlarge"),), "us-east-1", id="no stand-in for HyperPod"),
        pytest.param(
            (BilledPart(component="Notebook", instance="ml.g4dn.xlarge"),),
            "us-west-1",
            id="no stand-in where they are known to differ",
        ),
        pytest.param((), "us-east-1", id="no parts"),
    ],
)
def test_unknown_stays_unknown(parts: tuple[BilledPart, ...], region: str):
    assert priced(*parts, region=region) is None


def test_what_a_resource_runs_may_be_unknown():
    assert BOOK.price(resource(parts=None)) is None


def test_another_component_stands_in_and_is_called_an_estimate():
    price = priced(BilledPart(component="Notebook", instance="ml.m5.xlarge"), region="eu-central-1")
    assert price.source == "estimate (Hosting price)"


def test_azure_sizes_match_in_any_case():
    price = priced(BilledPart(component="Linux", instance="STANDARD_NC4AS_T4_V3"), region="eastus", cloud="azure")
    assert (price.usd_per_hour, price.as_of) == (0.526, "2026-05-20")
