from __future__ import annotations

import pytest

from fakes.builders import resource
from reaper.model import BilledPart, Target
from reaper.policy.parse import parse_policy
from reaper.prices import PriceBook, price_book
from reaper.registry import kind_names

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


RULES = parse_policy(
    """
version: 1
prices:
  rules:
    - {name: g5, match: {kind: sagemaker-endpoint, size: ml.g5.xlarge}, usd_per_hour: 1.0, as_of: 2026-11-01}
    - {name: other account, match: {account: "2"}, discount: 90%, as_of: 2026-11-01}
    - {name: Azure, match: {cloud: azure, size: "standard_*"}, discount: 50%, as_of: 2026-11-01}
    - {name: AWS, match: {cloud: aws}, discount: 10%, as_of: 2026-01-01}
""",
    "p.yaml",
    kind_names(),
)


@pytest.mark.parametrize(
    ("part", "cloud", "expected"),
    [
        pytest.param(("Hosting", "ml.g5.xlarge"), "aws", (1.0, "own: policy rule g5", "2026-11-01"), id="a rate"),
        pytest.param(("Hosting", "ml.g5.2xlarge"), "aws", (1.3635, "own: policy rule AWS on snapshot", "2026-01-01"), id="discount"),
        pytest.param(("Notebook", "ml.m5.xlarge"), "aws", (0.207, "own: policy rule AWS on snapshot", "2026-01-01"), id="estimate"),
        pytest.param(("Linux", "STANDARD_NC6S_V3"), "azure", (1.53, "own: policy rule Azure on snapshot", "2026-05-20"), id="case"),
        pytest.param(("LinuxSpot", "Standard_D2s_v3"), "azure", None, id="spot prices are no contract's"),
        pytest.param(("Hosting", "ml.made-up.large"), "aws", None, id="no list price to take a discount from"),
    ],
)  # fmt: skip
def test_the_first_rule_that_covers_a_part_makes_its_price(part: tuple[str, str], cloud: str, expected: tuple | None):
    one = resource(
        parts=(BilledPart(component=part[0], instance=part[1]),),
        region="us-east-1" if cloud == "aws" else "eastus",
        target=Target(cloud=cloud, account="1"),
    )
    price, listed = price_book(RULES).price(one), BOOK.price(one)
    if part[0] == "LinuxSpot":
        assert price == listed
    elif expected is None:
        assert price is None
    else:
        assert (price.usd_per_hour, price.source, price.as_of, price.own) == (pytest.approx(expected[0]), *expected[1:], True)


def test_a_resource_of_several_parts_names_each_source():
    parts = (BilledPart(component="Hosting", instance="ml.g5.xlarge"), BilledPart(component="Hosting", instance="ml.m5.large"))
    price = price_book(RULES).price(resource(parts=parts))
    assert price.source == "own: policy rule g5; own: policy rule AWS on snapshot"
    assert price.usd_per_hour == pytest.approx(1.0 + 0.9 * 0.115)
    assert price.as_of == "2026-01-01"
