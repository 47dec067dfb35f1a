from __future__ import annotations

import pytest

from core.fakes import resource
from reaper.owners import owner

TAGS = ("reaper:owner", "owner", "email")
DOMAINS = ("example.com",)


@pytest.mark.parametrize(
    ("tags", "people", "address", "source"),
    [
        pytest.param({"Owner": "a@example.com"}, {}, "a@example.com", "tag Owner", id="tag keys ignore case"),
        pytest.param(
            {"email": "b@example.com", "reaper:owner": "a@example.com"},
            {},
            "a@example.com",
            "tag reaper:owner",
            id="in the policy's order",
        ),
        pytest.param(
            {"owner": "x@evil.test", "email": "b@EXAMPLE.com"}, {}, "b@EXAMPLE.com", "tag email", id="the first allowed one"
        ),
        pytest.param({}, {"space owner": "c@example.com"}, "c@example.com", "space owner", id="what the cloud says of people"),
        pytest.param({}, {}, "admins@example.com", "fallback", id="nobody known"),
    ],
)
def test_the_chain_and_its_source(tags: dict[str, str], people: dict[str, str], address: str, source: str):
    found = owner(resource(tags=tags, people=people), TAGS, DOMAINS, "admins@example.com")
    assert (found.address, found.source) == (address, source)


@pytest.mark.parametrize(
    "value",
    [
        "x@evil.test",
        "x@example.com.evil.test",
        "x@sub.example.com",
        "x@evil.test@example.com",
        "x@example.com,y@evil.test",
        "x@example.com\r\nBcc: y@evil.test",
        "<x@example.com>",
        "x y@example.com",
        "@example.com",
        "jané@example.com",
        "team-a",
        "victim%evil.com@example.com",
        "evil.com!victim@example.com",
        "-oQ/tmp@example.com",
        "/dev/null@example.com",
        "|sh@example.com",
        "x..y@example.com",
        ".x@example.com",
        "$(id)@example.com",
        "x#y@example.com",
    ],
)
def test_a_tag_never_makes_us_a_mail_relay(value: str):
    found = owner(resource(tags={"owner": value}), TAGS, DOMAINS, "admins@example.com")
    assert found.address == "admins@example.com"
    assert found.source.startswith("fallback; tag owner names")


@pytest.mark.parametrize("value", ["lee.o'brien+ml_2=x@example.com", "a-b@example.com", "7@EXAMPLE.com"])
def test_the_addresses_that_people_have_are_used(value: str):
    assert owner(resource(tags={"owner": value}), TAGS, DOMAINS, None).address == value


def test_without_domains_no_address_from_a_tag_is_used():
    assert owner(resource(tags={"owner": "a@example.com"}), TAGS, (), None).address is None
