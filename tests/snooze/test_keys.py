from __future__ import annotations

import threading
import time
from base64 import b64encode
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta

import pytest

from fakes.builders import NOW
from reaper.errors import CloudError, ReaperError, Reason, SettingsError
from reaper.snooze import links as snooze_keys
from reaper.snooze.links import CACHE_FOR, MIN_READ_INTERVAL, Keyring, Keys

ONE, TWO = b"\x01" * 32, b"\x02" * 32
NESTED = f'{{"current": "k2", "keys": {{"k1": "{b64encode(ONE).decode()}", "k2": "{b64encode(TWO).decode()}"}}}}'
MINUTE = timedelta(minutes=1)
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
def test_keys_are_read_from_each_form_of_the_secret(text: str, current: str, ring: dict[str, bytes]):
    keys = snooze_keys.parse_keys(text, "env:KEYS")
    assert (keys.current, keys.ring) == (current, ring)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", "0 bytes", id="empty"),
        pytest.param("{", "not JSON", id="broken"),
        pytest.param('{"keys": {}}', "'current' is missing", id="no current key"),
        pytest.param('{"current": "k1", "keys": []}', "must be an object", id="a list of keys"),
        pytest.param('{"current": "k1", "keys": {"k1": "not base64!"}}', "not valid base64", id="no base64"),
        pytest.param('{"current": "k1", "keys": {"k1": 7}}', "'k1' is missing or not a string", id="a number"),
        pytest.param('{"current": "k1", "k1": "hunter2hunter2"}', "14 bytes; use at least 32", id="too short"),
    ],
)
def test_an_invalid_keys_secret_is_named_but_not_shown(text: str, message: str):
    with pytest.raises(SettingsError, match=message) as refused:
        snooze_keys.parse_keys(text, "env:KEYS")
    assert str(refused.value).startswith("env:KEYS: ")
    assert "hunter2" not in str(refused.value)


def test_keys_are_cached_for_five_minutes():
    texts = [f'{{"current": "k{n}", "k{n}": "{LONG}"}}' for n in (1, 2)]
    ring = Keyring(iter(texts).__next__, "env:KEYS")
    assert ring.keys(NOW).current == "k1"
    assert ring.keys(NOW + timedelta(minutes=4, seconds=59)).current == "k1"
    assert ring.keys(NOW + timedelta(minutes=5)).current == "k2"


def test_a_new_key_is_found_but_reads_stay_limited():
    calls: list[int] = []

    def fetch() -> str:
        calls.append(1)
        return (
            f'{{"current": "k1", "k1": "{LONG}"}}' if len(calls) == 1 else f'{{"current": "k2", "k1": "{LONG}", "k2": "{LONG}"}}'
        )

    ring = Keyring(fetch, "env:KEYS")
    ring.keys(NOW)
    for second in range(30):
        ring.keys(NOW + timedelta(seconds=second), wanted="made-up")
    assert len(calls) == 1
    assert "k2" in ring.keys(NOW + timedelta(seconds=30), wanted="k2").ring
    assert len(calls) == 2


class Vault:
    """A place for a secret that can be down, and counts how often it is asked."""

    def __init__(self, text: str = LONG) -> None:
        self.text = text
        self.reads = 0
        self.down: ReaperError | None = None

    def read(self) -> str:
        self.reads += 1
        if self.down:
            raise self.down
        return self.text


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(CloudError(Reason.DENIED, "secretsmanager:GetSecretValue", "no"), id="denied"),
        pytest.param(None, id="garbled"),
    ],
)
def test_a_failed_read_is_repeated_after_a_minute(fault: ReaperError | None):
    vault = Vault("short")
    vault.down = fault
    ring = Keyring(vault.read, "env:KEYS")
    for second in range(60):
        with pytest.raises(ReaperError):
            ring.keys(NOW + timedelta(seconds=second), wanted="k1")
    assert vault.reads == 1
    vault.down, vault.text = None, LONG
    assert ring.keys(NOW + MINUTE).current == "k1"
    assert ring.failure is None


def test_cached_keys_last_15_minutes_after_a_failed_read():
    vault = Vault()
    ring = Keyring(vault.read, "env:KEYS")
    ring.keys(NOW)
    vault.down = CloudError(Reason.UNREACHABLE, "secretsmanager:GetSecretValue", "timed out")
    for minute in range(1, 20):
        assert ring.keys(NOW + minute * MINUTE).ring == {"k1": LONG.encode()}
    assert ring.failure is vault.down
    assert vault.reads == 1 + 15
    with pytest.raises(CloudError, match="timed out"):
        ring.keys(NOW + 20 * MINUTE)


def test_keys_an_hour_old_are_not_used_after_a_failed_read():
    vault = Vault()
    ring = Keyring(vault.read, "env:KEYS")
    ring.keys(NOW)
    vault.down = CloudError(Reason.DENIED, "secretsmanager:GetSecretValue", "no")
    with pytest.raises(CloudError):
        ring.keys(NOW + 60 * MINUTE)


def test_an_unknown_key_id_does_not_shorten_the_retry_delay():
    vault = Vault()
    ring = Keyring(vault.read, "env:KEYS")
    ring.keys(NOW)
    vault.down = CloudError(Reason.UNREACHABLE, "secretsmanager:GetSecretValue", "timed out")
    for second in range(30, 90):
        ring.keys(NOW + timedelta(seconds=second), wanted="made-up")
    assert vault.reads == 2


def test_a_repeated_keys_error_does_not_gather_tracebacks():
    vault = Vault()
    vault.down = CloudError(Reason.UNREACHABLE, "secretsmanager:GetSecretValue", "timed out")
    ring = Keyring(vault.read, "env:KEYS")

    def depth() -> int:
        with pytest.raises(CloudError) as raised:
            ring.keys(NOW)
        return len(raised.traceback)

    assert [depth() for _ in range(5)] == [depth()] * 5


def test_concurrent_threads_read_the_secret_once():
    vault, start = Vault(), threading.Barrier(8)

    def slow() -> str:
        time.sleep(0.05)
        return vault.read()

    ring = Keyring(slow, "env:KEYS")

    def one(_: int) -> str:
        start.wait()
        return ring.keys(NOW).current

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(one, range(8))) == {"k1"}
    assert vault.reads == 1


class Stuck(Vault):
    """A place for a secret that hangs on request until it is released. Nothing here waits longer than `LIMIT` for it."""

    LIMIT = 10

    def __init__(self) -> None:
        super().__init__(f'{{"current": "k1", "k1": "{LONG}"}}')
        self.hangs = False
        self.reached, self.go = threading.Event(), threading.Event()

    def read(self) -> str:
        if self.hangs:
            self.reached.set()
            assert self.go.wait(self.LIMIT)
        return super().read()


@pytest.fixture
def stuck() -> Iterator[Stuck]:
    """A place that hangs for nobody once the test is over."""
    vault = Stuck()
    yield vault
    vault.go.set()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    """Other requests, of which one may hang until `stuck` lets it go."""
    executor = ThreadPoolExecutor(8)
    yield executor
    executor.shutdown(wait=False)


def under_way(ring: Keyring, vault: Stuck, pool: ThreadPoolExecutor, at: timedelta, wanted: str) -> Future[Keys]:
    """A ring that was read at NOW, and a request at `at` whose reading hangs."""
    ring.keys(NOW)
    vault.hangs = True
    reader = pool.submit(ring.keys, NOW + at, wanted)
    assert vault.reached.wait(vault.LIMIT)
    return reader


def test_a_known_key_does_not_wait_for_a_strangers_read(stuck: Stuck, pool: ThreadPoolExecutor):
    ring = Keyring(stuck.read, "env:KEYS")
    stranger = under_way(ring, stuck, pool, MIN_READ_INTERVAL, "made-up")
    owners = [pool.submit(ring.keys, NOW + MIN_READ_INTERVAL, "k1") for _ in range(4)]
    assert [owner.result(stuck.LIMIT).current for owner in owners] == ["k1"] * 4
    assert not stranger.done()


def test_requests_during_a_refresh_use_the_cached_keys(stuck: Stuck, pool: ThreadPoolExecutor):
    ring = Keyring(stuck.read, "env:KEYS")
    first = under_way(ring, stuck, pool, CACHE_FOR, "k1")
    second = pool.submit(ring.keys, NOW + CACHE_FOR, "k1")
    assert second.result(stuck.LIMIT).current == "k1"
    assert not first.done()


def test_an_unknown_key_waits_only_briefly_for_a_hanging_read(
    stuck: Stuck, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(snooze_keys, "MAX_WAIT_S", 0.05)
    ring = Keyring(stuck.read, "env:KEYS")
    first = under_way(ring, stuck, pool, MIN_READ_INTERVAL, "made-up")
    others = [pool.submit(ring.keys, NOW + MIN_READ_INTERVAL, f"made-up-{n}") for n in range(5)]
    assert ["k1" in other.result(stuck.LIMIT).ring for other in others] == [True] * 5
    assert not first.done()
    assert stuck.reads == 1, "but the one that hangs"


def test_a_new_key_waits_for_the_read_that_finds_it(stuck: Stuck, pool: ThreadPoolExecutor):
    ring = Keyring(stuck.read, "env:KEYS")
    first = under_way(ring, stuck, pool, MIN_READ_INTERVAL, "k2")
    second = pool.submit(ring.keys, NOW + MIN_READ_INTERVAL, "k2")
    stuck.text = f'{{"current": "k2", "k2": "{LONG}"}}'
    stuck.go.set()
    assert {"k2" in one.result(stuck.LIMIT).ring for one in (first, second)} == {True}
    assert stuck.reads == 2


def test_a_timed_out_read_counts_for_the_threads_that_waited(stuck: Stuck, pool: ThreadPoolExecutor):
    stuck.hangs, stuck.down = True, CloudError(Reason.UNREACHABLE, "secretsmanager:GetSecretValue", "timed out")
    ring = Keyring(stuck.read, "env:KEYS")
    futures = [pool.submit(ring.keys, NOW, "k1") for _ in range(4)]
    assert stuck.reached.wait(stuck.LIMIT)
    stuck.go.set()
    assert {str(one.exception(stuck.LIMIT)) for one in futures} == {str(stuck.down)}
    assert stuck.reads == 1


@pytest.mark.parametrize(
    ("name", "deployment"),
    [
        pytest.param("", "", id="none"),
        pytest.param("  \n", "", id="blank"),
        pytest.param(
            " arn:aws:cloudformation:us-east-1:1:stack/Reaper/x ",
            "arn:aws:cloudformation:us-east-1:1:stack/Reaper/x",
            id="an ARN",
        ),
        pytest.param("/subscriptions/1/resourceGroups/RG", "/subscriptions/1/resourcegroups/rg", id="an Azure id, in any case"),
    ],
)
def test_keys_carry_the_set_deployment(name: str, deployment: str):
    keys = snooze_keys.open_keyring("env:KEYS", {"KEYS": LONG, "REAPER_DEPLOYMENT": name}).keys(NOW)
    assert keys.deployment == deployment


@pytest.mark.parametrize("name", ["two\nlines", "x" * 2000])
def test_an_invalid_deployment_setting_is_an_error(name: str):
    with pytest.raises(SettingsError, match="REAPER_DEPLOYMENT"):
        snooze_keys.open_keyring("env:KEYS", {"KEYS": LONG, "REAPER_DEPLOYMENT": name})
