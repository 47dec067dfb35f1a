from __future__ import annotations

import hmac
import json
from base64 import urlsafe_b64encode
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fakes.builders import DAY, NOW
from reaper.snooze import token
from reaper.snooze.token import InvalidLink, Keys, SnoozeLink, sign_link, verify_link

KEYS = Keys(current="k1", ring={"k1": b"1" * 32})
LINK = SnoozeLink(
    resource="arn:aws:sagemaker:us-east-1:123456789012:endpoint/churn",
    expires=(NOW + 14 * DAY).replace(microsecond=0),
    max_days=30,
    kind="sagemaker-endpoint",
    name="churn",
    where="123456789012 us-east-1",
    owner="jo@example.com",
    usd_per_hour=1.408,
    idle_since=NOW - 9 * DAY,
)
GOOD = sign_link(LINK, KEYS)
EAST = "arn:aws:cloudformation:us-east-1:123456789012:stack/reaper/51af3dc0-da77-11e4-872e-1234567db123"
WEST = "arn:aws:cloudformation:us-west-2:123456789012:stack/reaper/51af3dc0-da77-11e4-872e-1234567db124"
ARM = "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/rg/providers/Microsoft.MachineLearningServices/workspaces/ws"


def of(deployment: str) -> Keys:
    """The same secret in a deployment."""
    return replace(KEYS, deployment=deployment)


def forged(**changed: Any) -> str:
    """A token that is signed with the right key but says something else."""
    payload = json.loads(_raw(GOOD.split(".")[2])) | changed
    return _signed(json.dumps(payload).encode())


def _raw(text: str) -> bytes:
    return token.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _signed(payload: bytes) -> str:
    head = f"v1.k1.{urlsafe_b64encode(payload).rstrip(b'=').decode()}"
    mac = hmac.digest(KEYS.ring["k1"], token.CONTEXT + head.encode(), "sha256")
    return f"{head}.{urlsafe_b64encode(mac).rstrip(b'=').decode()}"


def test_a_signed_link_verifies_to_the_same_link():
    assert verify_link(GOOD, KEYS, NOW) == LINK


def test_a_token_needs_no_escaping_in_an_address():
    assert set(GOOD) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")


@given(
    name=st.text(max_size=300),
    owner=st.text(max_size=300),
    price=st.none() | st.floats(0, 1e6),
    days=st.integers(1, token.MAX_DAYS),
)
def test_links_with_any_names_can_be_verified(name: str, owner: str, price: float | None, days: int):
    link = replace(LINK, resource=ARM, name=name, owner=owner, usd_per_hour=price, max_days=days)
    verified = verify_link(sign_link(link, KEYS), KEYS, NOW)
    assert (verified.resource, verified.usd_per_hour, verified.max_days) == (ARM, price, days)
    assert (verified.name + verified.owner).isprintable()
    assert len(verified.name) <= 100


@pytest.mark.parametrize(
    ("mine", "ours"),
    [
        pytest.param(EAST, WEST, id="another one"),
        pytest.param(EAST, "", id="none"),
        pytest.param(EAST, EAST[:-1], id="a shorter name"),
        pytest.param(EAST, f"{EAST}v", id="a longer name"),
        pytest.param(EAST, EAST.upper(), id="another case"),
    ],
)
def test_a_bound_link_is_valid_at_its_deployment_only(mine: str, ours: str):
    link = sign_link(LINK, of(mine))
    assert verify_link(link, of(mine), NOW) == LINK
    with pytest.raises(InvalidLink):
        verify_link(link, of(ours), NOW)


def test_a_v1_link_is_valid_anywhere_until_it_expires():
    assert GOOD.startswith("v1.")
    for page in ("", EAST, WEST):
        assert verify_link(GOOD, of(page), NOW) == LINK
        with pytest.raises(InvalidLink):
            verify_link(GOOD, of(page), LINK.expires)


def test_a_v2_link_cannot_be_turned_into_v1():
    """Neither by its first letters, nor by moving the deployment from what is signed into the token, nor with its bare signature."""
    bound = sign_link(replace(LINK, name="of the east"), of(EAST))
    head, _, mac = bound.rpartition(".")
    for attempt in (f"v1{bound[2:]}", f"v1.{EAST}.{bound}", f"v1{head[2:]}.{GOOD[-43:]}", f"{GOOD.rpartition('.')[0]}.{mac}"):
        for page in ("", EAST, WEST):
            with pytest.raises(InvalidLink):
                verify_link(attempt, of(page), NOW)


def test_a_v1_link_cannot_be_turned_into_v2():
    with pytest.raises(InvalidLink):
        verify_link(f"v2{GOOD[2:]}", of(EAST), NOW)


def test_the_detail_mentions_another_deployment():
    with pytest.raises(InvalidLink) as refused:
        verify_link(sign_link(LINK, of(EAST)), of(WEST), NOW)
    assert "another deployment" in refused.value.detail
    with pytest.raises(InvalidLink) as unnamed:
        verify_link(sign_link(LINK, of(EAST)), KEYS, NOW)
    assert "REAPER_DEPLOYMENT" in unnamed.value.detail


@given(st.integers(0, len(GOOD) * 8 - 1))
def test_a_flipped_bit_invalidates_a_link(bit: int):
    raw = bytearray(GOOD.encode())
    raw[bit // 8] ^= 1 << bit % 8
    with pytest.raises(InvalidLink):
        verify_link(raw.decode("latin-1"), KEYS, NOW)


@given(st.integers(0, len(GOOD) - 1), st.characters())
def test_a_changed_character_invalidates_a_link(at: int, other: str):
    assume(GOOD[at] != other)
    with pytest.raises(InvalidLink):
        verify_link(GOOD[:at] + other + GOOD[at + 1 :], KEYS, NOW)


@given(st.text(max_size=400))
def test_any_other_text_raises_invalid_link_only(text: str):
    with pytest.raises(InvalidLink):
        verify_link(text, KEYS, NOW)


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param("", id="nothing"),
        pytest.param(GOOD[:-1], id="cut at the end"),
        pytest.param(GOOD + "=", id="padded"),
        pytest.param(GOOD + "\n", id="a line break at the end"),
        pytest.param(f" {GOOD}", id="a blank in front"),
        pytest.param(GOOD.replace("v1.", "v2.", 1), id="another version"),
        pytest.param(GOOD.replace("v1.", "v3.", 1), id="a version to come"),
        pytest.param(GOOD.replace(".k1.", ".k2.", 1), id="a key that is not there"),
        pytest.param("v1.k1." + "A" * 3000 + "." + "A" * 43, id="too long"),
        pytest.param(forged(a="stop"), id="another verb, signed by us"),
        pytest.param(forged(a="delete"), id="the worst verb, signed by us"),
        pytest.param(forged(e="soon"), id="an expiry that is no number"),
        pytest.param(forged(e=10**30), id="an expiry beyond time"),
        pytest.param(forged(d=None), id="no limit"),
        pytest.param(_signed(b"[]"), id="a list, signed by us"),
        pytest.param(_signed(b"\xff\xfe"), id="no text, signed by us"),
    ],
)
def test_every_invalid_link_has_the_same_text(bad: str):
    with pytest.raises(InvalidLink) as refused:
        verify_link(bad, KEYS, NOW)
    assert str(refused.value) == "this link isn't valid"
    assert refused.value.detail


def test_a_link_expires_on_time():
    assert verify_link(GOOD, KEYS, LINK.expires - timedelta(seconds=1)) == LINK
    with pytest.raises(InvalidLink) as refused:
        verify_link(GOOD, KEYS, LINK.expires)
    assert refused.value.detail.startswith("expired at")


def test_another_secret_with_the_same_key_id_is_refused():
    with pytest.raises(InvalidLink):
        verify_link(GOOD, Keys(current="k1", ring={"k1": b"2" * 32}), NOW)


def test_a_signature_for_another_purpose_is_invalid():
    head = GOOD.rpartition(".")[0]
    mac = hmac.digest(KEYS.ring["k1"], head.encode(), "sha256")
    with pytest.raises(InvalidLink):
        verify_link(f"{head}.{urlsafe_b64encode(mac).rstrip(b'=').decode()}", KEYS, NOW)


def test_after_rotation_old_links_stay_valid():
    rotated = Keys(current="k2", ring={**KEYS.ring, "k2": b"2" * 32})
    assert verify_link(GOOD, rotated, NOW) == LINK
    assert token.key_id(sign_link(LINK, rotated)) == "k2"
    retired = Keys(current="k2", ring={"k2": b"2" * 32})
    assert verify_link(sign_link(LINK, rotated), retired, NOW) == LINK
    with pytest.raises(InvalidLink):
        verify_link(GOOD, retired, NOW)


def test_signatures_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch):
    compared: list[tuple[str, str]] = []
    genuine = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", lambda a, b: compared.append((a, b)) or genuine(a, b))
    verify_link(GOOD, KEYS, NOW)
    assert compared == [(GOOD[-43:], GOOD[-43:])]


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        pytest.param({"resource": "x" * 2000}, "characters", id="an id too long"),
        pytest.param({"resource": ""}, "needs a resource", id="no id"),
        pytest.param({"max_days": 0}, "max_days", id="no days"),
        pytest.param({"max_days": 4000}, "max_days", id="too many days"),
        pytest.param({"expires": NOW.replace(tzinfo=None)}, "time zone", id="a naive expiry"),
        pytest.param({"usd_per_hour": float("nan")}, "JSON", id="a price that is no number"),
        pytest.param({"resource": "a\ud800"}, "surrogates", id="an id that is no text"),
    ],
)
def test_sign_link_rejects_what_no_link_can_carry(given_: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        sign_link(replace(LINK, **given_), KEYS)


def test_the_longest_names_fit_into_a_link():
    longest = replace(
        LINK, resource=ARM + "/onlineEndpoints/" + "e" * 32 + "/deployments/" + "d" * 32, name="名" * 500, owner="@" * 500
    )
    assert len(sign_link(longest, KEYS)) < token.MAX_TOKEN
    assert len(sign_link(longest, of(EAST * 5))) == len(sign_link(longest, KEYS)), (
        "the deployment is signed, and not in the address"
    )


@pytest.mark.parametrize(
    ("current", "ring"),
    [
        pytest.param("k2", {"k1": b"1" * 32}, id="the current one is missing"),
        pytest.param("k1", {"k1": b"1" * 31}, id="too short"),
        pytest.param("k.1", {"k.1": b"1" * 32}, id="a name that breaks the shape"),
        pytest.param("k1", {}, id="none"),
    ],
)
def test_unusable_keys_are_refused(current: str, ring: dict[str, bytes]):
    with pytest.raises(ValueError):
        Keys(current=current, ring=ring)


def test_repr_of_keys_hides_the_secrets():
    assert "1" * 32 not in repr(KEYS)


@pytest.mark.parametrize("name", ["two\nlines", "a\0b", "x" * 1025])
def test_keys_refuse_an_invalid_deployment(name: str):
    with pytest.raises(ValueError, match="one line"):
        of(name)
