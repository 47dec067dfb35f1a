from __future__ import annotations

import pytest

from fakes.builders import resource
from reaper.policy.owners import hint, owner, shown

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
def test_the_owner_comes_from_the_first_allowed_candidate(
    tags: dict[str, str], people: dict[str, str], address: str, source: str
):
    chosen_owner = owner(resource(tags=tags, people=people), TAGS, DOMAINS, "admins@example.com")
    assert (chosen_owner.address, chosen_owner.source) == (address, source)


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
def test_a_tag_never_makes_the_reaper_a_mail_relay(value: str):
    chosen_owner = owner(resource(tags={"owner": value}), TAGS, DOMAINS, "admins@example.com")
    assert chosen_owner.address == "admins@example.com"
    assert chosen_owner.source.startswith("fallback; tag owner names")


@pytest.mark.parametrize("value", ["lee.o'brien+ml_2=x@example.com", "a-b@example.com", "7@EXAMPLE.com"])
def test_common_forms_of_addresses_are_used(value: str):
    assert owner(resource(tags={"owner": value}), TAGS, DOMAINS, None).address == value


def test_without_domains_no_tag_names_the_owner():
    assert owner(resource(tags={"owner": "a@example.com"}), TAGS, (), None).address is None


@pytest.mark.parametrize(
    ("tags", "people", "claimed"),
    [
        pytest.param({"owner": "a@other.test"}, {}, ("a@other.test", "tag owner"), id="a tag"),
        pytest.param({"owner": "team-a", "email": "b@other.test"}, {}, ("b@other.test", "tag email"), id="the first address"),
        pytest.param({}, {"creator": "c@other.test"}, ("c@other.test", "creator"), id="what the cloud says"),
        pytest.param({"owner": "team-a"}, {}, None, id="no address"),
        pytest.param({"owner": "x@other.test\r\nBcc: y@other.test"}, {}, None, id="nothing with an end of line"),
        pytest.param({"owner": "a@other.test", "email": "b@example.com"}, {}, None, id="not where somebody may be mailed"),
        pytest.param({"owner": "admins@example.org"}, {}, None, id="not the fallback"),
        pytest.param({}, {}, None, id="nobody"),
    ],
)
def test_an_owner_outside_the_domains_is_only_claimed(
    tags: dict[str, str], people: dict[str, str], claimed: tuple[str, str] | None
):
    chosen_owner = owner(resource(tags=tags, people=people), TAGS, DOMAINS, "admins@example.org")
    assert (chosen_owner.claimed and (chosen_owner.claimed.address, chosen_owner.claimed.source)) == claimed
    assert chosen_owner.address == (
        "b@example.com" if "email" in tags and "example.com" in tags["email"] else "admins@example.org"
    )


def test_a_claimed_owner_is_shown_as_not_mailable():
    claims = [
        owner(resource(tags={"owner": f"{n}@{d}"}), TAGS, (), None)
        for n, d in (("a", "x.test"), ("A", "X.test"), ("b", "y.test"))
    ]
    assert [shown(one) for one in claims[::2]] == ["a@x.test (may not be mailed)", "b@y.test (may not be mailed)"]
    assert shown(owner(resource(tags={"owner": "a@example.com"}), TAGS, DOMAINS, None)) == "a@example.com"
    assert shown(owner(resource(), TAGS, (), None)) is None
    hint_text = hint(claims) or ""
    assert hint_text.startswith("The domains of 2 owners are not in the policy's owners.domains")
    assert hint_text.endswith("set owners.domains: [x.test, y.test]")
    assert hint([owner(resource(), TAGS, (), None)]) is None


def test_the_fallback_is_shown_before_a_claimed_owner():
    chosen_owner = owner(resource(tags={"owner": "bob@x.test"}), TAGS, (), "admins@example.com")
    assert shown(chosen_owner) == "admins@example.com (bob@x.test may not be mailed)"
    hint_text = hint([chosen_owner]) or ""
    assert "so admins@example.com gets their notices. If they are yours, set owners.domains: [x.test]" in hint_text
    assert "they get no notices" not in hint_text
    alone = owner(resource(tags={"owner": "bob@x.test"}), TAGS, (), None)
    assert "so they get no notices. If" in (hint([alone]) or "")
    assert "owners.fallback, if set, gets their notices" in (hint([chosen_owner, alone]) or "")
