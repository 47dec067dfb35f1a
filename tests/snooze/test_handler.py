from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta

import pytest

from fakes.builders import NOW
from fakes.memory_ledger import InMemoryLedger
from fakes.snooze_requests import VISIT, LedgerWithoutHistory, UnreachableLedger, warned
from reaper.errors import CloudError, Reason
from reaper.ledger.ledger import Ledger
from reaper.snooze import handler
from reaper.snooze.handler import SnoozeHandler
from reaper.snooze.links import Keyring, Keys, sign_link
from reaper.snooze.pages import MAX_BODY, Reply, Request

SECRET = "s" * 40
TOKEN = sign_link(VISIT.id, VISIT.expires, Keys(current="k1", ring={"k1": SECRET.encode()}))
FORGED = f"{TOKEN[:-43]}{'A' * 43}"
FAULT = CloudError(Reason.UNREACHABLE, "secretsmanager:GetSecretValue", "timed out at 10.0.0.7")


class House:
    """A gate, and what it was asked for behind it."""

    def __init__(self, ledger: Callable[[], Ledger] = warned) -> None:
        self.read = 0
        self.opened = 0
        self.fault: CloudError | None = None
        self._ledger = ledger
        self.gate = SnoozeHandler(self._open, lambda: Keyring(self._secret, "env:KEYS"), handler.RateLimiters())

    def ask(self, second: float = 0, ip: str = "192.0.2.7", **overrides: object) -> Reply:
        fields = {"method": "GET", "path": "/keep", "query": f"t={TOKEN}", "source_ip": ip, **overrides}
        return self.gate.handle(Request(**fields), NOW + timedelta(seconds=second))  # type: ignore[arg-type]

    def _secret(self) -> str:
        self.read += 1
        if self.fault:
            raise self.fault
        return SECRET

    def _open(self) -> Ledger:
        self.opened += 1
        return self._ledger()


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        pytest.param({"path": "/"}, 404, id="another path"),
        pytest.param({"method": "DELETE"}, 405, id="another method"),
        pytest.param({"method": "POST", "body": b"x" * (MAX_BODY + 1)}, 413, id="a body too long"),
        pytest.param({"query": ""}, 403, id="no token"),
        pytest.param({"query": "t=guess"}, 403, id="no link's shape"),
        pytest.param({"query": f"t={'v1.k1.' + 'A' * 3000 + '.' + 'A' * 43}"}, 403, id="a token too long"),
        pytest.param({"method": "POST", "body": b"days=7"}, 403, id="a form without a token"),
    ],
)
def test_requests_that_need_no_key_read_none(fields: dict[str, object], status: int):
    house = House()
    assert house.ask(**fields).status == status
    assert (house.read, house.opened) == (0, 0)


def test_an_invalid_keys_address_gives_a_page_without_a_trace():
    page = handler.open_handler({"REAPER_LEDGER": "memory:", "REAPER_SNOOZE_KEYS": "keyvault:https://[x/secrets/ring"})
    request = Request(method="GET", path="/keep", query=f"t={TOKEN}", source_ip="192.0.2.7")
    replies = [page.handle(request, NOW + timedelta(seconds=n)) for n in range(3)]
    assert [reply.status for reply in replies] == [503] * 3
    assert {reply.note for reply in replies if reply.note} == {
        "keys: REAPER_SNOOZE_KEYS: 'https://[x/secrets/ring' is not a Key Vault address; use https://<vault>.vault.azure.net/secrets/<name>"
    }


def test_rate_limits_apply_before_keys_are_read():
    house = House()
    assert [house.ask(query="t=guess").status for _ in range(60)] == [403] * 60
    assert house.ask().status == 429
    assert (house.read, house.opened) == (0, 0)
    assert house.ask(ip="198.51.100.9").status == 200


def test_only_a_valid_link_reaches_the_ledger():
    house = House()
    assert house.ask(query=f"t={FORGED}").status == 403
    assert (house.read, house.opened) == (1, 0)
    assert [house.ask().status, house.ask().status] == [200, 200]
    assert (house.read, house.opened) == (1, 1)


def test_unreadable_keys_cost_one_read_a_minute_and_a_503():
    house = House()
    house.fault = FAULT
    replies = [house.ask(second) for second in range(0, 60, 5)]
    assert {reply.status for reply in replies} == {503}
    assert (house.read, house.opened) == (1, 0)
    assert "10.0.0.7" not in replies[0].body
    assert "timed out at 10.0.0.7" in replies[0].note
    assert handler.log_level(replies[0]) == logging.ERROR


def test_a_click_counts_with_cached_keys_and_is_logged():
    house = House()
    house.ask()
    house.fault = FAULT
    reply = house.ask(301)
    assert (reply.status, handler.log_level(reply)) == (200, logging.ERROR)
    assert "can't be read again: secretsmanager:GetSecretValue: timed out" in reply.note
    assert house.ask(1200).status == 503


@pytest.mark.parametrize(
    ("ledger", "fields", "status", "level"),
    [
        pytest.param(warned, {}, 200, logging.INFO, id="looked at"),
        pytest.param(warned, {"query": "t=x"}, 403, logging.WARNING, id="refused"),
        pytest.param(UnreachableLedger, {}, 503, logging.ERROR, id="a ledger that is down"),
        pytest.param(
            LedgerWithoutHistory,
            {"method": "POST", "body": f"t={TOKEN}&r=1&days=1".encode()},
            200,
            logging.ERROR,
            id="no history",
        ),
    ],
)
def test_the_log_level_follows_the_reply(
    ledger: Callable[[], InMemoryLedger], fields: dict[str, object], status: int, level: int
):
    reply = House(ledger).ask(**fields)
    assert (reply.status, handler.log_level(reply)) == (status, level)


def test_strangers_cannot_flood_the_log_or_hide_failures():
    house = House(UnreachableLedger)
    notes = [house.ask(query="t=guess", ip=f"10.{n // 250}.{n % 250}.1").note for n in range(1000)]
    assert sum(bool(note) for note in notes) == 60
    assert "timed out" in house.ask().note
    assert not house.ask(query="t=guess", second=50).note
    assert house.ask(query="t=guess", second=60).note


@pytest.mark.parametrize("missing", ["REAPER_LEDGER", "REAPER_SNOOZE_KEYS"])
def test_a_misconfigured_handler_answers_with_a_page(missing: str):
    environ = {"REAPER_LEDGER": "memory:", "REAPER_SNOOZE_KEYS": "env:KEYS", "KEYS": SECRET}
    request = Request(method="GET", path="/keep", query=f"t={TOKEN}")
    assert handler.open_handler(environ).handle(request, NOW).status == 410, "an empty ledger"
    reply = handler.open_handler({**environ, missing: ""}).handle(request, NOW)
    assert (reply.status, f"{missing} is not set" in reply.note) == (503, True)
    assert missing not in reply.body
