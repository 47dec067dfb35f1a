"""Of tag keys that differ in case only the first usable one decides, as the policy spells it first, however a cloud lists them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations

import pytest

from fakes.builders import resource
from fakes.sample_findings import finding
from reaper.policy.owners import owner
from reaper.policy.tags import tag_values
from reaper.report.summary import tag_value
from reaper.savings.credit import subject_of

DOMAINS = ["example.com"]
A, B, OUTSIDE, SEVERAL = "a@example.com", "b@example.com", "c@other.test", "a@example.com, b@example.com"


def in_any_order(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [dict(each) for each in permutations(tags.items())]


@pytest.mark.parametrize(
    ("tags", "values"),
    [
        pytest.param({"Team": "x", "team": "y", "TEAM": "z"}, ["y", "z", "x"], id="the policy's spelling, then by key"),
        pytest.param({"Team": "x", "TEAM": "z"}, ["z", "x"], id="by key"),
        pytest.param({"team": " ", "Team": "x"}, ["x"], id="a blank value is none"),
        pytest.param({"teams": "x"}, [], id="another key"),
    ],
)
def test_the_order_of_a_listing_never_decides(tags: dict[str, str], values: list[str]):
    for listed in in_any_order(tags):
        assert [value for _, value in tag_values(listed, "team")] == values
    assert tag_values(None, "team") == []


@pytest.mark.parametrize(
    ("tags", "address", "source"),
    [
        pytest.param({"Owner": A, "owner": B}, B, "tag owner", id="the policy's spelling"),
        pytest.param({"Owner": A, "OWNER": B}, B, "tag OWNER", id="by key"),
        pytest.param({"owner": OUTSIDE, "Owner": A}, A, "tag Owner", id="the first one that may be mailed"),
        pytest.param({"owner": SEVERAL, "Owner": A, "OWNER": B}, B, "tag OWNER", id="several addresses are none"),
        pytest.param({"owner": "", "Owner": A}, A, "tag Owner", id="an empty one is none"),
    ],
)
def test_the_owner_is_the_same_in_any_order(tags: dict[str, str], address: str, source: str):
    for listed in in_any_order(tags):
        chosen = owner(resource(tags=listed), ["owner", "email"], DOMAINS, None)
        assert (chosen.address, chosen.source) == (address, source)


def test_reports_and_savings_name_the_same_team_in_any_order():
    for listed in in_any_order({"Team": "vision", "team": "search", "TEAM": "speech"}):
        found = finding("churn", 1.0, resource=resource(tags=listed))
        assert tag_value(found, "team") == "search"
        assert subject_of(found.case, ("Team",)).tags == {"Team": "vision"}


@pytest.mark.parametrize("value", [SEVERAL, "a@example.com;b@example.com", "Lee <a@example.com> / b@example.com"])
def test_an_owner_tag_of_several_addresses_is_called_so(value: str):
    chosen = owner(resource(tags={"owner": value}), ["owner"], DOMAINS, "admins@example.com")
    assert (chosen.address, chosen.claimed) == ("admins@example.com", None)
    assert chosen.source == f"fallback; tag owner names {value!r}, which is several addresses; name one in it"
