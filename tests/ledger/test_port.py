from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from fakes.builders import DAY, HOUR, NOW, clock_at
from fakes.histories import history_of
from fakes.ledger_places import ARM, ARN, HERE, in_memory
from fakes.records import a_record, changed
from reaper.errors import CloudError, Reason
from reaper.ledger import rows
from reaper.ledger.ledger import Ledger
from reaper.ledger.rows import RETENTION, HistoryEntry
from reaper.model import StepName
from reaper.record import ManifestReference, Record, Snooze

FULL = a_record(
    idle_since=NOW - 3 * DAY,
    seen_idle_at=NOW,
    warned_at=NOW - 2 * DAY,
    receipt="ses:0102",
    reminded_at=NOW - DAY,
    to="demo on “Friday” 🙂\n<b>'quoted'</b>",
    acted=StepName.STOP,
    acted_at=NOW - 9 * DAY,
    manifest=ManifestReference(address="s3://bucket/manifest.json", sha256="f" * 64),
)


def recall(ledger: Ledger, id: str, now: datetime = NOW) -> Record | None:
    recalled = ledger.recall([id], now)
    return recalled.record(id) if id in recalled else None


@in_memory
def test_an_empty_ledger_returns_nothing(ledger):
    assert not any(id in ledger.recall([ARN, ARM], NOW) for id in (ARN, ARM))
    assert not ledger.recall([], NOW).readable
    assert history_of(ledger, ARN) == []
    assert ledger.statistics(HERE, "sagemaker-endpoint", 5) == []


def test_a_memory_is_read_back_with_a_higher_version(ledger_location):
    assert ledger_location.open_ledger().write_record(ARN, FULL, 0, NOW)
    assert recall(ledger_location.open_ledger(), ARN) == replace(FULL, version=1)


def test_a_row_knows_when_it_was_written(ledger_location):
    ledger_location.open_ledger().write_record(ARN, FULL, 0, NOW)
    assert ledger_location.open_ledger().write_record(ARN, FULL, 1, NOW + HOUR)
    record = recall(ledger_location.open_ledger(), ARN, NOW + HOUR)
    assert record is not None
    assert record.written_at == NOW + HOUR


@in_memory
def test_a_later_write_removes_the_values_that_it_lacks(ledger):
    ledger.write_record(ARN, FULL, 0, NOW)
    assert ledger.write_record(ARN, a_record(to="jo"), 1, NOW)
    assert recall(ledger, ARN) == a_record(to="jo", version=2)


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
    with pytest.raises(ValueError, match="timezone"):
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
    assert page.write_snooze(ARN, Snooze(until=NOW + 7 * DAY, by="jo"), 0, NOW)
    assert sweep.write_record(ARN, changed(record, warned_at=NOW), record.version, NOW)
    recalled = sweep.recall([ARN], NOW)
    assert (recalled.snooze(ARN).by, recalled.record(ARN).notice.warned_at) == ("jo", NOW)


@pytest.mark.parametrize(
    "id",
    [
        pytest.param(ARM, id="letters beyond ASCII"),
        pytest.param(ARN + "/" + "x" * 2048, id="two kilobytes"),
        pytest.param("/subscriptions/0f0f/resourceGroups/" + "ä😀" * 700, id="thousands of bytes beyond ASCII"),
        pytest.param("/subscriptions/0f0f/a\\b#c?d%2Fe|f=g'h\"i\x07j\x7fk\u200fl", id="everything that no key may hold"),
        pytest.param("arn:aws:sagemaker:us-east-1:1:endpoint/a b+c&d", id="blanks and signs of an address"),
        pytest.param("memory#x", id="looks like a key"),
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
    recalled = ledger.recall(ids, NOW)
    assert {id: recalled.record(id).notice.receipt for id in ids} == {id: id for id in ids}


def test_arm_ids_that_differ_by_case_are_one_resource(ledger):
    spellings = [ARM, ARM.upper(), ARM.lower()]
    assert ledger.write_record(ARM, FULL, 0, NOW)
    assert not ledger.write_record(ARM.upper(), Record(), 0, NOW)
    assert ledger.write_record(ARM.lower(), FULL, 1, NOW)
    recalled = ledger.recall(spellings, NOW)
    assert [recalled.record(id) for id in spellings] == [replace(FULL, version=2)] * 3
    for n, id in enumerate(spellings):
        ledger.add_history(HistoryEntry(id=id, when=NOW + n * HOUR, what="warned", by="reaper", because="idle"))
    assert [entry.id for entry in history_of(ledger, ARM)] == spellings


def test_more_memories_than_a_batch_holds_are_recalled_at_once(ledger_location):
    arm = [f"/subscriptions/0f0f/resourceGroups/rg/providers/Microsoft.X/computes/c-{n}" for n in range(105)]
    ids = [f"{ARN}-{n}" for n in range(105)] + arm
    ledger = ledger_location.open_ledger()
    for id in ids[::100]:
        assert ledger.write_record(id, changed(FULL, receipt=id), 0, NOW)
    ledger_location.copy(ids[0], [id for index, id in enumerate(ids) if index % 100])
    recalled = ledger.recall([*ids, ARM, ARN, *ids[:50]], NOW)
    assert {id: recalled.record(id).notice.receipt for id in ids} == {id: id for id in ids}


def test_a_few_of_many_memories_are_recalled(ledger):
    ids = [f"{ARN}-{n}" for n in range(30)]
    for id in ids[::2]:
        ledger.write_record(id, FULL, 0, NOW)
    assert set(ledger.recall(ids[:5], NOW).readable) == set(ids[:5:2])
    assert set(ledger.recall(ids, NOW).readable) == set(ids[::2])


def test_a_long_value_is_stored_in_full(ledger):
    manifest = '{"EndpointConfigName": "ä"}' * 1000
    ledger.write_record(ARN, a_record(acted=StepName.STOP, manifest=ManifestReference(address=manifest, sha256="0")), 0, NOW)
    assert recall(ledger, ARN).act.manifest.address == manifest


def test_a_forgotten_memory_can_be_written_as_a_new_one(ledger):
    ledger.write_record(ARN, FULL, 0, NOW)
    ledger.write_record(ARN, a_record(acted=StepName.STOP), 1, NOW)
    assert recall(ledger, ARN, NOW + RETENTION)
    later = NOW + RETENTION + HOUR
    assert recall(ledger, ARN, later) is None
    assert not ledger.write_record(ARN, FULL, 2, later)
    assert ledger.write_record(ARN, a_record(receipt="new"), 0, later)
    assert recall(ledger, ARN, later) == a_record(receipt="new", version=1)


def test_a_long_snooze_outlives_the_retention(ledger):
    ledger.write_snooze(ARN, Snooze(until=NOW + 3 * RETENTION), 0, NOW)
    ledger.write_snooze(ARM, Snooze(until=datetime.max.replace(tzinfo=UTC)), 0, NOW)
    assert ledger.forget_before(NOW + 2 * RETENTION) == 0
    recalled = ledger.recall([ARN, ARM], NOW + 3 * RETENTION)
    assert (ARN in recalled, ARM in recalled) == (True, True)


@in_memory
def test_a_record_without_an_action_is_kept_for_sixty_days(ledger):
    ledger.write_record(ARN, a_record(warned_at=NOW), 0, NOW)
    ledger.write_record(ARM, a_record(warned_at=NOW, acted=StepName.STOP), 0, NOW)
    assert (recall(ledger, ARN, NOW + 60 * DAY) is None, recall(ledger, ARM, NOW + 60 * DAY) is None) == (False, False)
    assert (recall(ledger, ARN, NOW + 61 * DAY) is None, recall(ledger, ARM, NOW + 61 * DAY) is None) == (True, False)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        pytest.param("document", "{}}", id="no document"),
        pytest.param("document", 20261224, id="a number for a document"),
        pytest.param("version", "first", id="no version"),
        pytest.param("version", 0, id="the version of what is not there"),
    ],
)
@pytest.mark.parametrize("others", [1, 20])
def test_an_unreadable_record_is_no_missing_one_and_spoils_no_other(ledger_location, column, value, others):
    ledger, ids = ledger_location.open_ledger(), [f"{ARN}-{n}" for n in range(others)]
    for id in [ARN, *ids]:
        ledger.write_record(id, FULL, 0, NOW)
    ledger_location.overwrite(ARN, column, value)
    for recalled in (ledger.recall([*ids, ARN, ARM], NOW), ledger.recall_target(HERE, NOW)):
        assert [recalled.record(id) for id in ids] == [replace(FULL, version=1)] * others
        assert (recalled.is_unreadable(ARN), recalled.is_unreadable(ARM, *ids), ARM in recalled) == (True, False, False)
        assert [error.reason for error in recalled.errors] == [Reason.UNREADABLE]
        with pytest.raises(CloudError, match=r"endpoint/churn can't be read"):
            recalled.record(ARN)


@pytest.mark.parametrize("others", [1, 20])
def test_a_memory_without_a_write_time_is_never_forgotten(ledger_location, others):
    if ledger_location.address.startswith(("memory:", "sqlite:")):
        pytest.skip("every row of this store says it: it has no place for one that does not")
    ledger, ids = ledger_location.open_ledger(), [f"{ARN}-{n}" for n in range(others)]
    for id in [ARN, *ids]:
        ledger.write_record(id, FULL, 0, NOW)
    ledger_location.overwrite(ARN, "touched", 5)
    recalled = ledger.recall([ARN, *ids], NOW)
    assert [recalled.record(id) for id in (ARN, *ids)] == [replace(FULL, version=1)] * (others + 1)


def test_a_store_compares_its_clock_with_this_machines(ledger_location, monkeypatch):
    ledger = ledger_location.open_ledger()
    monkeypatch.setattr(rows, "datetime", clock_at(datetime.now(UTC) + DAY))
    has_own_clock = ledger_location.address.startswith(("dynamodb:", "table:"))
    for read in (
        lambda: ledger.read_row("any"),
        lambda: ledger.read_rows(["any", "other"]),
        lambda: ledger.recall_target(HERE, NOW),
    ):
        ledger.store.clock_skew = timedelta(0)
        read()
        assert abs(ledger.store.clock_skew - has_own_clock * DAY) < timedelta(minutes=1)
