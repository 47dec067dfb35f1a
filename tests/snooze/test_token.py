from __future__ import annotations

import hmac
from base64 import urlsafe_b64encode
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fakes.builders import DAY, NOW
from reaper.snooze import links as token
from reaper.snooze.links import InvalidLink, Keys, sign_link, verify_link

KEYS = Keys(current="k1", ring={"k1": b"1" * 32})
VISIT = "0123456789-ABCDEF_wxyz"
EXPIRES = (NOW + 14 * DAY).replace(microsecond=0)
GOOD = sign_link(VISIT, EXPIRES, KEYS)
EAST = "arn:aws:cloudformation:us-east-1:123456789012:stack/reaper/51af3dc0-da77-11e4-872e-1234567db123"
WEST = "arn:aws:cloudformation:us-west-2:123456789012:stack/reaper/51af3dc0-da77-11e4-872e-1234567db124"


def of(deployment: str) -> Keys:
    """The same secret in a deployment."""
    return replace(KEYS, deployment=deployment)


def _signed(head: str) -> str:
    """A token that is signed with the right key but says something else."""
    mac = hmac.digest(KEYS.ring["k1"], token.CONTEXT + b"\0" + head.encode(), "sha256")
    return f"{head}.{urlsafe_b64encode(mac).rstrip(b'=').decode()}"


def test_a_signed_link_verifies_to_its_visit():
    assert verify_link(GOOD, KEYS, NOW) == VISIT
    assert _signed(GOOD.rpartition(".")[0]) == GOOD


def test_a_token_needs_no_escaping_in_an_address():
    assert set(GOOD) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")


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
    link = sign_link(VISIT, EXPIRES, of(mine))
    assert verify_link(link, of(mine), NOW) == VISIT
    with pytest.raises(InvalidLink):
        verify_link(link, of(ours), NOW)


def test_a_link_that_names_no_deployment_is_valid_at_none_with_a_name():
    assert verify_link(GOOD, of(""), NOW) == VISIT
    for page in (EAST, WEST):
        with pytest.raises(InvalidLink):
            verify_link(GOOD, of(page), NOW)


def test_a_deployment_cannot_be_moved_into_the_token():
    bound = sign_link(VISIT, EXPIRES, of(EAST))
    for attempt in (f"v1.{EAST}.{bound}", f"{EAST}\0{bound}", f"{GOOD.rpartition('.')[0]}.{bound[-43:]}"):
        with pytest.raises(InvalidLink):
            verify_link(attempt, KEYS, NOW)


def test_the_detail_mentions_another_deployment():
    for page in (of(WEST), KEYS):
        with pytest.raises(InvalidLink) as refused:
            verify_link(sign_link(VISIT, EXPIRES, of(EAST)), page, NOW)
        assert "REAPER_DEPLOYMENT" in refused.value.detail


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
        pytest.param(GOOD.replace(".k1.", ".k2.", 1), id="a key that is not there"),
        pytest.param("v1.k1." + "A" * 3000 + "." + "A" * 43, id="too long"),
        pytest.param(_signed(f"v1.k1.{VISIT}x.{int(EXPIRES.timestamp())}"), id="a longer ID, signed by us"),
        pytest.param(_signed(f"v1.k1.{VISIT[:-1]}/.{int(EXPIRES.timestamp())}"), id="an ID with a slash, signed by us"),
        pytest.param(_signed(f"v1.k1.{VISIT}.soon"), id="an expiry that is no number, signed by us"),
        pytest.param(_signed(f"v1.k1.{VISIT}.{10**30}"), id="an expiry beyond time, signed by us"),
        pytest.param(_signed(f"v1.k1.{VISIT}.٢{int(EXPIRES.timestamp())}"), id="digits of another script, signed by us"),
        pytest.param(_signed(f"v1.k1.{VISIT}"), id="no expiry, signed by us"),
    ],
)
def test_every_invalid_link_has_the_same_text(bad: str):
    with pytest.raises(InvalidLink) as refused:
        verify_link(bad, KEYS, NOW)
    assert str(refused.value) == "this link isn't valid"
    assert refused.value.detail


def test_a_link_expires_on_time():
    assert verify_link(GOOD, KEYS, EXPIRES - timedelta(seconds=1)) == VISIT
    with pytest.raises(InvalidLink) as refused:
        verify_link(GOOD, KEYS, EXPIRES)
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
    assert verify_link(GOOD, rotated, NOW) == VISIT
    assert token.key_id(sign_link(VISIT, EXPIRES, rotated)) == "k2"
    retired = Keys(current="k2", ring={"k2": b"2" * 32})
    assert verify_link(sign_link(VISIT, EXPIRES, rotated), retired, NOW) == VISIT
    with pytest.raises(InvalidLink):
        verify_link(GOOD, retired, NOW)


def test_signatures_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch):
    compared: list[tuple[str, str]] = []
    genuine = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", lambda a, b: compared.append((a, b)) or genuine(a, b))
    verify_link(GOOD, KEYS, NOW)
    assert compared == [(GOOD[-43:], GOOD[-43:])]


@pytest.mark.parametrize("visit", ["", "short", "x" * 23, "0123456789/ABCDEF+wxyz", "0123456789-ABCDEF_wxy\n"])
def test_sign_link_rejects_what_no_link_can_carry(visit: str):
    with pytest.raises(ValueError, match="not a visit"):
        sign_link(visit, EXPIRES, KEYS)


def test_the_longest_link_is_short():
    longest = Keys(current="k" * 32, ring={"k" * 32: b"1" * 32}, deployment=EAST * 5)
    assert len(sign_link(VISIT, NOW + 3650 * DAY, longest)) < 128


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
