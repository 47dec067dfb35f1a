from __future__ import annotations

from dataclasses import replace

import boto3
import pytest

from fakes import ledger_places
from fakes.builders import DAY, HOUR, NOW
from fakes.ledger_places import ARN, HERE, LedgerLocation
from fakes.records import a_record, an_act
from reaper.aws.session import CloudSession
from reaper.aws.stores.dynamodb import MAX_EMPTY_ROUNDS, DynamoStore
from reaper.errors import CloudError, Reason, SettingsError
from reaper.ledger import opening
from reaper.ledger.ledger import Ledger
from reaper.ledger.rows import RETENTION, HistoryEntry
from reaper.limits import holds
from reaper.model import UNTIL_RESUMED, Target
from reaper.pending import stop_switch
from reaper.record import Record, Snooze
from reaper_sandbox.aws import fault, reply
from reaper_sandbox.aws.call import Call
from reaper_sandbox.aws.server import Server


@pytest.fixture
def ledger_location(server: Server, monkeypatch: pytest.MonkeyPatch) -> LedgerLocation:
    return ledger_places.dynamodb(server.url, monkeypatch)


def patient(ledger_location: LedgerLocation, waited: list[float]) -> Ledger:
    """The ledger with its waiting written down instead of done."""
    cloud = CloudSession(boto3.Session(), Target(cloud="aws", account="1", region="eu-west-1"))
    return Ledger(DynamoStore(cloud, ledger_location.address.removeprefix("dynamodb://"), waited.append))


def unprocessed(some: int, times: int):
    """A guard under which the table does not get to `some` keys of a batch and does not say what the others hold."""
    remaining = [times]

    def guard(call: Call):
        if call.operation != "BatchGetItem" or remaining[0] == 0:
            return None
        remaining[0] -= 1
        [(table, request)] = call.params["RequestItems"].items()
        data = {"Responses": {table: []}, "UnprocessedKeys": {table: {**request, "Keys": request["Keys"][:some]}}}
        return fault.Fault(answer=lambda call: reply.result(call, data))

    return guard


def test_only_the_end_of_a_long_history_is_asked_for(ledger_location, server):
    ledger = ledger_location.open_ledger()
    entry = HistoryEntry(id=ARN, when=NOW, what="stopped", by="run-1", because="it is outside its office hours " * 20)
    for day in range(40):
        ledger.add_history(replace(entry, when=NOW + day * DAY))
    server.calls.clear()
    assert [e.when for e in ledger.history(ARN, NOW + 30 * DAY, 3)] == [NOW + day * DAY for day in (37, 38, 39)]
    queries = [call.params for call in server.calls if call.operation == "Query"]
    assert {query["Limit"] for query in queries} == {3}
    assert len(queries) <= 2, "the second page of a moto that counts its limit exactly"


def test_unprocessed_keys_are_read_again(ledger_location, server):
    waited: list[float] = []
    ledger = patient(ledger_location, waited)
    ids = [f"{ARN}-{n}" for n in range(130)]
    for id in ids:
        ledger.write_record(id, a_record(receipt=id), 0, NOW)
    server.rules.append(unprocessed(100, 3))
    recalled = ledger.recall(ids, NOW)
    assert {id: record.notice.receipt for id, record in recalled.readable.items()} == {id: id for id in ids}
    assert len(waited) == 3
    assert sorted(waited) == waited


def test_keys_that_stay_unprocessed_raise_an_error(ledger_location, server):
    waited: list[float] = []
    server.rules.append(unprocessed(100, -1))
    with pytest.raises(CloudError, match="were still unprocessed") as caught:
        patient(ledger_location, waited).recall([ARN], NOW)
    assert caught.value.reason is Reason.THROTTLED
    assert len(waited) == MAX_EMPTY_ROUNDS - 1


def test_a_permit_takes_one_request_for_the_switch_and_all_records(ledger_location, server):
    ledger = ledger_location.open_ledger()
    ledger.write_row("pause", {"state": "on"}, 0)
    ids = [f"{ARN}-{n}" for n in range(20)]
    ledger.write_record(ids[0], a_record(receipt="r"), 0, NOW)
    server.calls.clear()
    recalled, row = ledger.recall_with_row(ids, "pause", NOW)
    assert [(call.operation, next(iter(call.params["RequestItems"].values()))["ConsistentRead"]) for call in server.calls] == [
        ("BatchGetItem", True)
    ]
    assert (list(recalled.readable), dict(row.values), row.version) == (ids[:1], {"state": "on"}, 1)


def test_the_hold_rows_of_fifty_accounts_take_one_request(ledger_location, server):
    ledger, targets = (
        ledger_location.open_ledger(),
        [Target(cloud="aws", account=f"{n:012}", region="us-east-1") for n in range(49)],
    )
    server.calls.clear()
    assert len(holds.read_hold_rows(ledger, targets, NOW).rows) == 50
    assert [call.operation for call in server.calls] == ["BatchGetItem"]


def test_a_named_row_without_a_version_is_unreadable(ledger_location):
    table = ledger_location.address.removeprefix("dynamodb://")
    item = {"pk": {"S": "state#pause"}, "sk": {"S": "-"}, "v_state": {"S": "off"}}
    boto3.client("dynamodb").put_item(TableName=table, Item=item)
    with pytest.raises(CloudError) as raised:
        ledger_location.open_ledger().read_row("pause")
    assert raised.value.reason is Reason.UNREADABLE
    pause = stop_switch.read_pause(ledger_location.open_ledger(), NOW)
    assert pause is not None
    assert pause.until == UNTIL_RESUMED


def test_a_batch_never_has_more_than_a_hundred_keys_and_none_twice(ledger_location, server):
    server.calls.clear()
    ledger_location.open_ledger().recall([f"{ARN}-{n % 125}" for n in range(500)], NOW)
    sizes = [len(request["Keys"]) for call in server.calls for request in call.params["RequestItems"].values()]
    assert sizes == [100, 100, 50], "a record and a snooze each"


def test_a_write_with_a_lost_reply_counts_as_ours(ledger_location, server, monkeypatch):
    lost: list[bytes] = []

    def first(method: str, body: bytes) -> bool:
        lost.append(body)
        return len(lost) == 1

    with ledger_places.cut(server.url, first) as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        assert ledger_location.open_ledger().write_record(ARN, a_record(warned_at=NOW), 0, NOW)
        assert len(lost) >= 2
        lost.clear()
        assert ledger_location.open_ledger().take_lease(HERE, "one", NOW, HOUR)
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    assert ledger_location.open_ledger().record(ARN, NOW).version == 1
    assert not ledger_location.open_ledger().take_lease(HERE, "two", NOW, HOUR)


def test_a_denied_call_names_the_permission(ledger_location, server):
    server.rules.append(fault.on("BatchGetItem", fault.denied()))
    with pytest.raises(CloudError) as caught:
        ledger_location.open_ledger().recall([ARN], NOW)
    assert (caught.value.reason, caught.value.missing) == (Reason.DENIED, "dynamodb:BatchGetItem")


def test_a_denied_write_is_an_error_and_not_a_lost_race(ledger_location, server):
    server.rules.append(fault.on("PutItem", fault.denied()))
    with pytest.raises(CloudError, match="dynamodb:PutItem"):
        ledger_location.open_ledger().write_record(ARN, Record(), 0, NOW)
    with pytest.raises(CloudError, match="dynamodb:PutItem"):
        ledger_location.open_ledger().take_lease(HERE, "one", NOW, HOUR)


def test_a_missing_table_is_a_settings_error(ledger_location):
    with pytest.raises(SettingsError, match="dynamodb://not-there: no such table in eu-west-1"):
        opening.open_ledger("dynamodb://not-there", {}).recall([ARN], NOW)


def test_a_table_address_without_a_region_is_refused(monkeypatch):
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    with pytest.raises(SettingsError, match="no AWS region"):
        opening.open_ledger("dynamodb://ledger", {})


def test_forgetting_is_left_to_the_time_to_live(ledger_location, server):
    ledger = ledger_location.open_ledger()
    ledger.write_record(ARN, Record(), 0, NOW)
    server.calls.clear()
    assert ledger.forget_before(NOW + 2 * RETENTION) == 0
    assert server.calls == []


def test_the_time_to_live_counts_from_the_last_write_or_a_snoozes_end(ledger_location):
    ledger = ledger_location.open_ledger()
    ledger.write_record(ARN, Record(act=an_act()), 0, NOW)
    ledger.write_snooze(ARN, Snooze(until=NOW + DAY), 0, NOW)
    items = boto3.client("dynamodb").scan(TableName=ledger_location.address.removeprefix("dynamodb://"))["Items"]
    assert {item["pk"]["S"].partition("#")[0]: int(item["expires"]["N"]) for item in items} == {
        "record": int((NOW + RETENTION).timestamp()),
        "snooze": int((NOW + DAY + RETENTION).timestamp()),
    }
