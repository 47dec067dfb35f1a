from __future__ import annotations

from collections.abc import Iterator

import pytest

import azurite
from fakes import ledger_places
from fakes.builders import HOUR, NOW
from fakes.ledger_places import ARM, ARN, HERE, LedgerLocation
from fakes.records import a_record, an_act
from reaper.azure.stores.tables import MAX_KEY_CHARS, decode_key, encode_key, entity_key
from reaper.errors import CloudError, Reason, SettingsError
from reaper.ledger import opening
from reaper.ledger.ledger import Ledger
from reaper.ledger.rows import record_key
from reaper.record import Record


@pytest.fixture(scope="module")
def connection_string() -> Iterator[str]:
    try:
        with azurite.tables() as connection:
            yield connection
    except azurite.Missing as why:
        pytest.skip(f"TABLE STORAGE IS NOT TESTED: no Azurite: {why}")


@pytest.fixture
def ledger_location(connection_string: str) -> Iterator[LedgerLocation]:
    made = ledger_places.table(connection_string)
    yield made
    made.close()


def partition_key(id: str) -> str:
    return entity_key(record_key(id))[0]


def opened(ledger_location: LedgerLocation, connection_string: str):
    return opening.open_ledger(ledger_location.address, {"AZURE_STORAGE_CONNECTION_STRING": connection_string})


@pytest.mark.parametrize("lost", ["POST", "PUT"])
def test_a_write_whose_reply_got_lost_is_known_as_our_own(ledger_location, connection_string, lost):
    version = 0 if lost == "POST" else int(ledger_location.open_ledger().write_record(ARM, Record(), 0, NOW))
    if version:
        ledger_location.open_ledger().take_lease(HERE, "dead", NOW - 2 * HOUR, HOUR)
    endpoint = connection_string.partition("TableEndpoint=")[2].partition("/devstore")[0]
    calls: list[str] = []

    def first(method: str, body: bytes) -> bool:
        calls.extend([method] * (method == lost))
        return method == lost and len(calls) == 1

    with ledger_places.cut(endpoint, first) as url:
        ledger = opened(ledger_location, connection_string.replace(endpoint, url))
        assert ledger.write_record(ARM, a_record(warned_at=NOW), version, NOW)
        assert calls
        calls.clear()
        assert ledger.take_lease(HERE, "one", NOW, HOUR)
        assert calls
        ledger.close()
    assert ledger_location.open_ledger().record(ARM, NOW) == a_record(warned_at=NOW, version=version + 1)


def test_a_missing_table_is_a_matter_of_settings_and_not_a_blank(connection_string):
    missing = opening.open_ledger(f"table://{azurite.ACCOUNT}/nothere", {"AZURE_STORAGE_CONNECTION_STRING": connection_string})
    for attempt in (
        lambda: missing.recall([ARM], NOW),
        lambda: missing.recall([f"{ARM}-{n}" for n in range(50)], NOW),
        lambda: missing.write_record(ARM, Record(), 0, NOW),
        lambda: missing.take_lease(HERE, "one", NOW, HOUR),
    ):
        with pytest.raises(SettingsError, match="nothere: no such table"):
            attempt()
    missing.close()


def test_a_wrong_key_is_a_denied_call_that_names_the_permission(ledger_location, connection_string):
    ledger = opened(ledger_location, connection_string.replace(azurite.KEY, azurite.KEY[:4] + "AAAA" + azurite.KEY[8:]))
    with pytest.raises(CloudError) as caught:
        ledger.recall([ARM], NOW)
    assert caught.value.reason is Reason.DENIED
    assert caught.value.missing == "Microsoft.Storage/storageAccounts/tableServices/tables/entities/read"
    ledger.close()


def test_what_is_old_is_looked_for_once_a_day(ledger_location):
    ledger = ledger_location.open_ledger()
    for n, when in enumerate([NOW, NOW + HOUR, NOW + 30 * HOUR]):
        ledger.write_record(f"{ARM}-{n}", Record(act=an_act()), 0, when)
    assert ledger.forget_before(NOW + HOUR) == 1
    assert ledger_location.open_ledger().forget_before(NOW + 2 * HOUR) == 0
    assert remaining(ledger) == [1, 2]
    assert ledger.forget_before(NOW + 25 * HOUR) == 1
    assert remaining(ledger) == [2]


def remaining(ledger: Ledger) -> list[int]:
    ids = [f"{ARM}-{n}" for n in range(3)]
    recalled = ledger.recall(ids, NOW + 30 * HOUR)
    return [n for n, id_ in enumerate(ids) if id_ in recalled]


def test_a_day_far_ahead_does_not_keep_it_from_being_looked_for(ledger_location):
    ledger = ledger_location.open_ledger()
    ledger.forget_before(NOW + 9000 * HOUR)
    ledger.write_record(ARM, Record(act=an_act()), 0, NOW)
    assert ledger.forget_before(NOW + HOUR) == 1


def test_a_record_that_is_too_large_is_an_error_and_not_a_lost_race(ledger_location):
    with pytest.raises(CloudError, match="entities/write"):
        ledger_location.open_ledger().write_record(ARM, a_record(receipt="ä" * 40_000), 0, NOW)


def test_a_connection_string_that_cannot_be_read_is_refused():
    with pytest.raises(SettingsError, match="AZURE_STORAGE_CONNECTION_STRING can't be used"):
        opening.open_ledger("table://account/ledger", {"AZURE_STORAGE_CONNECTION_STRING": "hunter2"})


@pytest.mark.parametrize(
    ("address", "host"),
    [
        pytest.param("table://ours/ledger", "https://ours.table.core.windows.net", id="the public cloud"),
        pytest.param("table://ours.table.core.chinacloudapi.cn/ledger", "https://ours.table.core.chinacloudapi.cn", id="another"),
    ],
)
def test_a_connection_string_of_another_account_is_not_used(address, host):
    other = f"DefaultEndpointsProtocol=https;AccountName=theirs;AccountKey={azurite.KEY};EndpointSuffix=core.windows.net"
    ledger = opening.open_ledger(address, {"AZURE_STORAGE_CONNECTION_STRING": other})
    assert ledger.store._client.url == host
    ledger.close()


def test_the_records_of_a_subscription_lie_together():
    assert partition_key(ARM) == partition_key(ARM.upper().replace("/E/", "/other/")) == "record=200f0f"
    assert partition_key(ARN) == "record=20123456789012=20us-east-1"
    assert {partition_key(id) for id in ("/", "/providers/x", "plain", "a:b")} == {"record=20other"}


@pytest.mark.parametrize("id", [ARM, ARN, "/", "a" * 5000, "/ä" * 900, "".join(map(chr, range(1, 300))), "\U0001f600" * 300])
def test_keys_hold_only_what_table_storage_allows(id):
    for key in (encode_key(id), *entity_key(record_key(id))):
        assert len(key) <= MAX_KEY_CHARS
        assert key.isascii()
        assert key.isprintable()
        assert not set(key) & set("/\\#?%")


@pytest.mark.parametrize("text", [ARM, ARN, "aws/123456789012/us-east-1", "azure/0f0f/-", "memory a|b=c", "ä/ö=2F", ""])
def test_a_key_that_was_not_shortened_is_read_back(text):
    assert decode_key(encode_key(text)) == text


def test_a_shortened_key_is_read_as_far_as_it_goes():
    key = encode_key("ä" * 900)
    assert decode_key(key).startswith("ää")
    assert encode_key(decode_key(key)) == key
