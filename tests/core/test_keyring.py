from __future__ import annotations

from base64 import b64encode
from datetime import timedelta

import pytest

from core.fakes import NOW
from reaper import keyring
from reaper.errors import SettingsError
from reaper.keyring import Keyring

ONE, TWO = b"\x01" * 32, b"\x02" * 32
NESTED = f'{{"current": "k2", "keys": {{"k1": "{b64encode(ONE).decode()}", "k2": "{b64encode(TWO).decode()}"}}}}'
LONG = "a-generated-secret-of-64-characters-" + "x" * 28


@pytest.mark.parametrize(
    ("text", "current", "ring"),
    [
        pytest.param(NESTED, "k2", {"k1": ONE, "k2": TWO}, id="a ring in base64"),
        pytest.param(f'{{"current": "k1", "k1": "{LONG}"}}', "k1", {"k1": LONG.encode()}, id="as CloudFormation generates it"),
        pytest.param(
            f'{{"current": "k2", "k1": "{LONG}", "k2": "{LONG}2"}}',
            "k2",
            {"k1": LONG.encode(), "k2": LONG.encode() + b"2"},
            id="the generated one, rotated by hand",
        ),
        pytest.param(f"{LONG}\n", "k1", {"k1": LONG.encode()}, id="the characters alone"),
    ],
)
def test_a_secret_is_read_in_each_of_its_shapes(text: str, current: str, ring: dict[str, bytes]):
    keys = keyring.parse(text, "env:KEYS")
    assert (keys.current, keys.ring) == (current, ring)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("", "0 bytes", id="empty"),
        pytest.param("{", "not JSON", id="broken"),
        pytest.param('{"keys": {}}', "'current' is missing", id="no current key"),
        pytest.param('{"current": "k1", "keys": []}', "not an object", id="a list of keys"),
        pytest.param('{"current": "k1", "keys": {"k1": "not base64!"}}', "not base64", id="no base64"),
        pytest.param('{"current": "k1", "keys": {"k1": 7}}', "'k1' is missing or not a text", id="a number"),
        pytest.param('{"current": "k1", "k1": "hunter2hunter2"}', "14 bytes, expected 32", id="too short"),
    ],
)
def test_a_secret_that_cannot_be_used_is_named_but_not_shown(text: str, said: str):
    with pytest.raises(SettingsError, match=said) as refused:
        keyring.parse(text, "env:KEYS")
    assert str(refused.value).startswith("env:KEYS: ")
    assert "hunter2" not in str(refused.value)


def test_a_ring_is_read_again_after_five_minutes_only():
    texts = [f'{{"current": "k{n}", "k{n}": "{LONG}"}}' for n in (1, 2)]
    ring = Keyring(iter(texts).__next__, "env:KEYS")
    assert ring.keys(NOW).current == "k1"
    assert ring.keys(NOW + timedelta(minutes=4, seconds=59)).current == "k1"
    assert ring.keys(NOW + timedelta(minutes=5)).current == "k2"


def test_a_key_that_was_added_a_moment_ago_is_found_but_strangers_cannot_make_us_ask_all_the_time():
    asked: list[int] = []

    def fetch() -> str:
        asked.append(1)
        return (
            f'{{"current": "k1", "k1": "{LONG}"}}' if len(asked) == 1 else f'{{"current": "k2", "k1": "{LONG}", "k2": "{LONG}"}}'
        )

    ring = Keyring(fetch, "env:KEYS")
    ring.keys(NOW)
    for second in range(30):
        ring.keys(NOW + timedelta(seconds=second), wanted="made-up")
    assert len(asked) == 1
    assert "k2" in ring.keys(NOW + timedelta(seconds=30), wanted="k2").ring
    assert len(asked) == 2
