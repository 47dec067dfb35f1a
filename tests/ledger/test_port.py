from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from fakes.builders import DAY, HOUR, NOW
from fakes.histories import history_of
from fakes.ledger_places import ARM, ARN, HERE, LedgerLocation, in_memory
from fakes.records import a_record
from reaper.errors import CloudError, Reason
from reaper.ledger.ledger import RETENTION, SNOOZE_FIELDS, Ledger
from reaper.ledger.rows import HistoryEntry
from reaper.model import StepName
from reaper.record import Record, Snooze

FULL = a_record(
    idle_since=NOW - 3 * DAY,
    seen_idle_at=NOW,
    warned_at=NOW - 2 * DAY,
    receipt="ses:0102",
    reminded_at=NOW - DAY,
    snoozed_until=NOW + DAY,
    snoozed_at=NOW - HOUR,
    snoozed_by="jo@example.com",
    snooze_reason="demo on “Friday” 🙂\n<b>'quoted'</b>",
    acted=StepName.STOP,
    acted_at=NOW - 9 * DAY,
    manifest_address="s3://bucket/manifest.json",
    manifest_sha256="f" * 64,
)


def recall(ledger: Ledger, id: str, now: datetime = NOW) -> Memory | None:
    return ledger.recall([id], now).get(id)


@in_memory
def test_an_empty_ledger_returns_nothing(ledger):
    assert ledger.recall([ARN, ARM], NOW) == {}
    assert ledger.recall([], NOW) == {}
    assert history_of(ledger, ARN) == []
    assert ledger.statistics(HERE, "sagemaker-endpoint", 5) == []


def test_a_memory_is_read_back_with_a_higher_version(ledger_location):
    assert ledger_location.open_ledger().write_record(ARN, FULL, 0, NOW)
    assert recall(ledger_location.open_ledger(), ARN) == replace(FULL, version=1)


@pytest.mark.parametrize("fields", [None, SNOOZE_FIELDS], ids=["a whole row", "a snooze"])
def test_a_row_knows_when_it_was_written(ledger_location, fields):
    ledger_location.open_ledger().write_record(ARN, Snooze(until=NOW + 30 * DAY), 0, NOW)
    assert ledger_location.open_ledger().write_record(ARN, Snooze(until=NOW + 60 * DAY), 1, NOW + HOUR, fields)
    record = recall(ledger_location.open_ledger(), ARN, NOW + HOUR)
    assert record is not None
    assert record.written_at == NOW + HOUR


@in_memory
def test_a_later_write_removes_the_values_that_it_lacks(ledger):
    ledger.write_record(ARN, FULL, 0, NOW)
    assert ledger.write_record(ARN, Snooze(until=NOW + DAY), 1, NOW)
    assert recall(ledger, ARN) == a_record(snoozed_until=NOW + DAY, version=2)


@in_memory
def test_writing_an_empty_memory_raises_the_version(ledger):
    assert ledger.write_record(ARN, Record(), 0, NOW)
    assert recall(ledger, ARN) == a_record(version=1)


@in_memory
def test_times_of_any_zone_are_read_back_as_the_same_moment(ledger):
    late = datetime(2026, 11, 21, 23, 59, 59, 999999, tzinfo=timezone(timedelta(hours=9, minutes=30)))
    ledger.write_record(ARN, a_record(warned_at=late), 0, NOW)
    assert recall(ledger, ARN).notice.warned_at == late


@in_memory
def test_a_ledger_refuses_a_time_without_a_zone(ledger):
    with pytest.raises(ValueError, match="no time zone"):
        ledger.write_record(ARN, a_record(warned_at=datetime(2026, 11, 21)), 0, NOW)  # noqa: DTZ001
    assert recall(ledger, ARN) is None


@pytest.mark.parametrize("expected", [0, 2, 7])
def test_a_write_at_another_version_is_refused_and_changes_nothing(ledger, expected):
    ledger.write_record(ARN, FULL, 0, NOW)
    assert not ledger.write_record(ARN, Record(), expected, NOW)
    assert recall(ledger, ARN) == replace(FULL, version=1)


def test_a_write_at_a_version_is_refused_if_there_is_no_memory(ledger):
    assert not ledger.write_record(ARN, FULL, 3, NOW)
    assert recall(ledger, ARN) is None


def test_only_one_of_many_concurrent_writes_wins(ledger_location):
    ledgers = [ledger_location.open_ledger() for _ in range(6)]
    for version, id in enumerate((ARN, ARN, ARM, ARM), start=0):
        expected = version % 2
        with ThreadPoolExecutor(6) as pool:
            won = list(pool.map(lambda k, i=id, e=expected: k.write_record(i, a_record(receipt=str(k)), e, NOW), ledgers))
        assert won.count(True) == 1
        assert recall(ledger_location.open_ledger(), id).version == expected + 1


def test_only_one_of_two_identical_writes_wins(ledger_location):
    one, other = ledger_location.open_ledger(), ledger_location.open_ledger()
    assert one.write_record(ARN, FULL, 0, NOW)
    assert not other.write_record(ARN, FULL, 0, NOW)


def test_a_snooze_during_a_sweep_is_not_lost(ledger_location):
    sweep, page = ledger_location.open_ledger(), ledger_location.open_ledger()
    sweep.write_record(ARN, a_record(idle_since=NOW), 0, NOW)
    record = recall(sweep, ARN)
    clicked = recall(page, ARN)
    assert page.write_record(ARN, replace(clicked, snoozed_until=NOW + 7 * DAY, snoozed_by="jo"), clicked.version, NOW)
    assert not sweep.write_record(ARN, replace(record, warned_at=NOW), record.version, NOW)
    assert recall(sweep, ARN).by == "jo"
    assert recall(sweep, ARN).notice.warned_at is None


@pytest.mark.parametrize(
    "id",
    [
        pytest.param(ARM, id="letters beyond ASCII"),
        pytest.param(ARN + "/" + "x" * 2048, id="two kilobytes"),
        pytest.param("/subscriptions/0f0f/resourceGroups/" + "ä😀" * 700, id="thousands of bytes beyond ASCII"),
        pytest.param("/subscriptions/0f0f/a\\b#c?d%2Fe|f=g'h\"i\x07j\x7fk\u200fl", id="everything that no key may hold"),
        pytest.param("arn:aws:sagemaker:us-east-1:1:endpoint/a b+c&d", id="blanks and signs of an address"),
        pytest.param("record#x", id="looks like a key"),
        pytest.param("/", id="a slash alone"),
        pytest.param("/subscriptions", id="an address that ends early"),
    ],
)
def test_any_id_can_be_remembered(ledger, id):
    assert ledger.write_record(id, FULL, 0, NOW)
    ledger.add_history(HistoryEntry(id=id, when=NOW, what="warned", by="reaper", because="idle"))
    assert recall(ledger, id) == replace(FULL, version=1)
    assert [entry.id for entry in history_of(ledger, id)] == [id]


def test_ids_that_differ_anywhere_are_different_resources(ledger):
    long = "arn:aws:sagemaker:us-east-1:1:endpoint/" + "x" * 3000
    ids = [ARN, ARN.replace("churn", "Churn"), "/a/b", "/a|b", "/a=2Fb", "/a\\b", long, long + "y", "x" + long, "/ä", "/a"]
    assert all(ledger.write_record(id, a_record(receipt=id), 0, NOW) for id in ids)
    assert {id: record.notice.receipt for id, record in ledger.recall(ids, NOW).items()} == {id: id for id in ids}


def test_arm_ids_that_differ_by_case_are_one_resource(ledger):
    spellings = [ARM, ARM.upper(), ARM.lower()]
    assert ledger.write_record(ARM, FULL, 0, NOW)
    assert not ledger.write_record(ARM.upper(), Record(), 0, NOW)
    assert ledger.write_record(ARM.lower(), FULL, 1, NOW)
    assert ledger.recall(spellings, NOW) == dict.fromkeys(spellings, replace(FULL, version=2))
    for n, id in enumerate(spellings):
        ledger.add_history(HistoryEntry(id=id, when=NOW + n * HOUR, what="warned", by="reaper", because="idle"))
    assert [entry.id for entry in history_of(ledger, ARM)] == spellings


def test_more_memories_than_a_batch_holds_are_recalled_at_once(ledger_location):
    arm = [f"/subscriptions/0f0f/resourceGroups/rg/providers/Microsoft.X/computes/c-{n}" for n in range(105)]
    ids = [f"{ARN}-{n}" for n in range(105)] + arm
    ledger = ledger_location.open_ledger()
    for id in ids[::100]:
        assert ledger.write_record(id, replace(FULL, notice_receipt=id), 0, NOW)
    ledger_location.copy(ids[0], [id for index, id in enumerate(ids) if index % 100])
    recalled = ledger.recall([*ids, ARM, ARN, *ids[:50]], NOW)
    assert {id: record.notice.receipt for id, record in recalled.items()} == {id: id for id in ids}


def test_a_few_of_many_memories_are_recalled(ledger):
    ids = [f"{ARN}-{n}" for n in range(30)]
    for id in ids[::2]:
        ledger.write_record(id, FULL, 0, NOW)
    assert set(ledger.recall(ids[:5], NOW)) == set(ids[:5:2])
    assert set(ledger.recall(ids, NOW)) == set(ids[::2])


def test_a_long_value_is_stored_in_full(ledger):
    manifest = '{"EndpointConfigName": "ä"}' * 1000
    ledger.write_record(ARN, a_record(manifest_address=manifest), 0, NOW)
    assert recall(ledger, ARN).act.manifest.address == manifest


def test_a_forgotten_memory_can_be_written_as_a_new_one(ledger):
    ledger.write_record(ARN, FULL, 0, NOW)
    ledger.write_record(ARN, a_record(receipt="old"), 1, NOW)
    assert recall(ledger, ARN, NOW + RETENTION)
    later = NOW + RETENTION + HOUR
    assert recall(ledger, ARN, later) is None
    assert not ledger.write_record(ARN, FULL, 2, later)
    assert ledger.write_record(ARN, a_record(receipt="new"), 0, later)
    assert recall(ledger, ARN, later) == a_record(receipt="new", version=1)


def test_a_long_snooze_outlives_the_retention(ledger):
    ledger.write_record(ARN, Snooze(until=NOW + 3 * RETENTION), 0, NOW)
    ledger.write_record(ARM, a_record(snoozed_until=datetime.max.replace(tzinfo=UTC)), 0, NOW)
    assert ledger.forget_before(NOW + 2 * RETENTION) == 0
    assert set(ledger.recall([ARN, ARM], NOW + 3 * RETENTION)) == {ARN, ARM}


ODD_COLUMNS = [
    pytest.param("snoozed_until", "next summer", id="no date"),
    pytest.param("snoozed_until", "2026-12-24T00:00:00", id="a date of no zone"),
    pytest.param("last_act", "explode", id="no move"),
]
ODD_TYPES = [
    pytest.param("snoozed_until", 20261224, id="a number for a date"),
    pytest.param("snoozed_by", 7, id="a number for a text"),
    pytest.param("version", "first", id="no version"),
    pytest.param("version", 0, id="the version of what is not there"),
]


@in_memory
@pytest.mark.parametrize(("field", "value"), ODD_COLUMNS)
def test_an_odd_column_makes_the_whole_memory_unreadable(ledger_location, field, value):
    check_unreadable(ledger_location, field, value, 1)


@pytest.mark.parametrize(("field", "value"), ODD_TYPES)
@pytest.mark.parametrize("others", [1, 20])
def test_an_unreadable_memory_is_no_missing_one_and_spoils_no_other(ledger_location, field, value, others):
    check_unreadable(ledger_location, field, value, others)


def check_unreadable(ledger_location: LedgerLocation, field: str, value: Any, others: int) -> None:
    ledger, ids = ledger_location.open_ledger(), [f"{ARN}-{n}" for n in range(others)]
    for id in [ARN, *ids]:
        ledger.write_record(id, FULL, 0, NOW)
    ledger_location.overwrite(ARN, field, value)
    recalled = ledger.recall([*ids, ARN, ARM], NOW)
    assert recalled == dict.fromkeys(ids, replace(FULL, version=1))
    assert recalled.unreadable == {ARN}
    assert recalled.get(ARM) is None
    assert [error.reason for error in recalled.errors] == [Reason.UNREADABLE]
    for ask in (lambda: recalled[ARN], lambda: recalled.get(ARN, Record())):
        with pytest.raises(CloudError, match=r"endpoint/churn can't be read"):
            ask()


@pytest.mark.parametrize("others", [1, 20])
def test_a_memory_without_a_write_time_is_never_forgotten(ledger_location, others):
    if ledger_location.address.startswith(("memory:", "sqlite:")):
        pytest.skip("every row of this store says it: it has no place for one that does not")
    ledger, ids = ledger_location.open_ledger(), [f"{ARN}-{n}" for n in range(others)]
    for id in [ARN, *ids]:
        ledger.write_record(id, FULL, 0, NOW)
    ledger_location.overwrite(ARN, "touched", 5)
    assert ledger.recall([ARN, *ids], NOW) == dict.fromkeys([ARN, *ids], replace(FULL, version=1))
