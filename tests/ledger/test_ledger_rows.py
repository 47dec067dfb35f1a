"""The rows of a ledger that are no records: leases, statistics, history, unfinished actions and named rows."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest

from fakes.builders import DAY, HOUR, NOW
from fakes.histories import history_of
from fakes.ledger_places import ARM, ARN, HERE, THERE, in_memory
from fakes.records import a_record, open_targets
from reaper.errors import CloudError
from reaper.ledger.ledger import target_text
from reaper.ledger.rows import RETENTION, HistoryEntry, NamedRow, RunStatistics
from reaper.pending.unfinished import change_open_targets
from reaper.record import Snooze


def test_only_one_of_many_runs_takes_a_lease(ledger_location):
    ledgers = [ledger_location.open_ledger() for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        won = list(pool.map(lambda n: ledgers[n].take_lease(HERE, f"run-{n}", NOW, HOUR), range(6)))
    assert won.count(True) == 1
    assert ledger_location.open_ledger().take_lease(THERE, "run-9", NOW, HOUR)


def test_a_lease_expires_and_only_its_holder_extends_it(ledger):
    assert ledger.take_lease(HERE, "one", NOW, HOUR)
    assert not ledger.take_lease(HERE, "two", NOW + HOUR - timedelta(microseconds=1), HOUR)
    assert ledger.take_lease(HERE, "one", NOW + HOUR / 2, HOUR)
    assert not ledger.take_lease(HERE, "two", NOW + HOUR, HOUR)
    assert ledger.take_lease(HERE, "two", NOW + 1.5 * HOUR, HOUR)
    assert not ledger.take_lease(HERE, "one", NOW + 1.5 * HOUR, HOUR)


def test_only_one_of_many_runs_takes_over_an_expired_lease(ledger_location):
    ledger_location.open_ledger().take_lease(HERE, "dead", NOW, HOUR)
    ledgers = [ledger_location.open_ledger() for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        won = list(pool.map(lambda n: ledgers[n].take_lease(HERE, f"run-{n}", NOW + 2 * HOUR, HOUR), range(6)))
    assert won.count(True) == 1


@pytest.mark.parametrize("expired", [False, True], ids=["a free place", "an expired lease"])
def test_activities_of_one_run_that_take_a_lease_at_once_all_have_it(ledger_location, expired):
    if expired:
        ledger_location.open_ledger().take_lease(HERE, "dead", NOW - 2 * HOUR, HOUR)
    ledgers = [ledger_location.open_ledger() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(lambda ledger: ledger.take_lease(HERE, "one", NOW, HOUR), ledgers))


@in_memory
def test_a_lease_has_a_holder_until_it_expires(ledger):
    assert ledger.lease_holder(HERE, NOW) is None
    ledger.take_lease(HERE, "one", NOW, HOUR)
    assert ledger.lease_holder(HERE, NOW + HOUR / 2) == "one"
    assert ledger.lease_holder(THERE, NOW) is None
    assert ledger.lease_holder(HERE, NOW + HOUR) is None
    ledger.give_back_lease(HERE, "one")
    assert ledger.lease_holder(HERE, NOW) is None


def test_only_the_holder_can_give_a_lease_back(ledger):
    ledger.take_lease(HERE, "one", NOW, HOUR)
    ledger.give_back_lease(HERE, "two")
    assert not ledger.take_lease(HERE, "two", NOW, HOUR)
    ledger.give_back_lease(HERE, "one")
    assert ledger.take_lease(HERE, "two", NOW, HOUR)
    ledger.give_back_lease(THERE, "nobody has it")


def test_statistics_are_newest_first_for_one_target_and_kind(ledger):
    made = [RunStatistics(run=f"r{n}", target=HERE, kind="k", started=NOW + n * HOUR, seen=n, idle=0) for n in range(5)]
    others = [
        replace(made[0], target=THERE),
        replace(made[0], kind="k2"),
        replace(made[0], target=replace(HERE, region="us-east-2")),
    ]
    for summary in [made[3], made[0], *others, made[4], made[1], made[2]]:
        ledger.record_statistics(summary)
    assert ledger.statistics(HERE, "k", 3) == made[:1:-1]
    assert ledger.statistics(HERE, "k", 99) == made[::-1]
    assert ledger.statistics(HERE, "k", 0) == []
    assert ledger.statistics(THERE, "k", 9) == others[:1]


@in_memory
def test_statistics_of_the_same_run_are_replaced(ledger):
    summary = RunStatistics(run="r", target=HERE, kind="k", started=NOW, seen=3, idle=1)
    ledger.record_statistics(summary)
    ledger.record_statistics(replace(summary, seen=4))
    ledger.record_statistics(replace(summary, run="another"))
    assert sorted(s.seen for s in ledger.statistics(HERE, "k", 9)) == [3, 4]


def test_the_history_is_in_order_and_without_duplicates(ledger):
    first = HistoryEntry(id=ARN, when=NOW, what="warned", by="reaper", because="idle for 3 d")
    entries = [first, replace(first, when=NOW + HOUR, what="kept", by="jo"), replace(first, when=NOW + DAY, what="reminded")]
    for entry in [entries[2], entries[0], entries[1], replace(first, id=ARN + "-2"), entries[0]]:
        ledger.add_history(entry)
    assert history_of(ledger, ARN) == entries


def test_a_history_is_bounded_by_time_and_count(ledger):
    first = HistoryEntry(id=ARN, when=NOW, what="warned", by="reaper", because="idle for 3 d")
    entries = [replace(first, when=NOW + n * HOUR) for n in range(6)]
    for entry in [*entries[3:], *entries[:3], replace(first, id=ARN + "-2", when=NOW + 9 * HOUR)]:
        ledger.add_history(entry)
    assert ledger.history(ARN, NOW, 6) == entries
    assert ledger.history(ARN, NOW, 2) == entries[4:]
    assert ledger.history(ARN, NOW + 3 * HOUR, 9) == entries[3:]
    assert ledger.history(ARN, NOW + 2.5 * HOUR, 2) == entries[4:]
    assert ledger.history(ARN, NOW + 6 * HOUR, 9) == []


@in_memory
def test_two_history_entries_of_the_same_moment_are_both_stored(ledger):
    first = HistoryEntry(id=ARN, when=NOW, what="warned", by="reaper", because="idle")
    ledger.add_history(first)
    ledger.add_history(replace(first, what="kept"))
    assert {entry.what for entry in history_of(ledger, ARN)} == {"warned", "kept"}


def test_forgetting_removes_only_older_entries(ledger_location, ledger):
    if ledger_location.address.startswith("dynamodb:"):
        pytest.skip("DynamoDB forgets by itself, by its time to live")
    summary = RunStatistics(run="r", target=HERE, kind="k", started=NOW, seen=3, idle=1)
    entry = HistoryEntry(id=ARN, when=NOW, what="warned", by="reaper", because="idle")
    for when in (NOW, NOW + DAY):
        ledger.write_snooze(ARN if when == NOW else ARM, Snooze(until=when), 0, when)
        ledger.record_statistics(replace(summary, started=when))
        ledger.add_history(replace(entry, when=when))
    ledger.take_lease(HERE, "dead", NOW - DAY, HOUR)
    ledger.take_lease(THERE, "alive", NOW + DAY, HOUR)
    assert ledger.forget_before(NOW + HOUR) == 4
    recalled = ledger.recall([ARN, ARM], NOW + DAY)
    assert (ARN in recalled, ARM in recalled) == (False, True)
    assert [s.started for s in ledger.statistics(HERE, "k", 9)] == [NOW + DAY]
    assert [e.when for e in history_of(ledger, ARN)] == [NOW + DAY]
    assert not ledger.take_lease(THERE, "other", NOW + DAY, HOUR)
    assert ledger.forget_before(NOW + HOUR) == 0


def test_the_records_of_a_target_are_recalled_together(ledger_location):
    ledger, west = ledger_location.open_ledger(), ARN.replace("us-east-1", "eu-west-1")
    for id in (ARN, f"{ARN}-2", west, ARM):
        assert ledger.write_record(id, a_record(receipt=id), 0, NOW)
    ledger.write_snooze(f"{ARN}-3", Snooze(until=NOW + DAY), 0, NOW)
    here, there = (ledger_location.open_ledger().recall_target(target, NOW) for target in (HERE, replace(THERE, account="0F0F")))
    assert {id: record.notice.receipt for id, record in here.readable.items()} == {ARN: ARN, f"{ARN}-2": f"{ARN}-2"}
    assert (here.snooze(f"{ARN}-3").until, west in here, ARM in here) == (NOW + DAY, False, False)
    assert there.record(ARM).notice.receipt == ARM
    assert ledger.recall_target(HERE, NOW, [west]).record(west).notice.receipt == west
    assert list(ledger.recall_target(HERE, NOW + RETENTION + DAY).readable) == []


def test_open_targets_are_listed_until_they_are_removed(ledger_location):
    ledger = ledger_location.open_ledger()
    assert open_targets(ledger) == []
    for target in (HERE, THERE, HERE):
        change_open_targets(ledger, [], [target])
    assert open_targets(ledger_location.open_ledger()) == sorted([HERE, THERE], key=target_text)
    change_open_targets(ledger, [HERE], [])
    change_open_targets(ledger, [HERE], [])
    assert open_targets(ledger_location.open_ledger()) == [THERE]


def test_no_open_target_is_lost_if_many_runs_add_theirs(ledger_location):
    ledgers, targets = [ledger_location.open_ledger() for _ in range(4)], [replace(HERE, account=f"{n}" * 12) for n in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda ledger, target: change_open_targets(ledger, [], [target]), ledgers, targets))
    assert open_targets(ledgers[0]) == targets


@in_memory
def test_no_open_target_is_taken_out_that_another_run_has_noted_since(ledger):
    change_open_targets(ledger, [], [HERE])
    read = ledger.read_row("open targets")
    change_open_targets(ledger, [], [HERE])  # by a run that has taken over its lease meanwhile
    change_open_targets(ledger, [HERE], [], read)
    assert open_targets(ledger) == [HERE]


@in_memory
@pytest.mark.parametrize("text", ["", "x", "[1]", '["aws"]', '["aws/1"]', "5", "null", '{"aws/1/-": 1}'])
def test_open_targets_that_cannot_be_read_are_an_error(ledger, text: str):
    ledger.write_row("open targets", {"document": text}, 0)
    with pytest.raises(CloudError, match=r"'open targets' can't be read .*; delete it: the next runs"):
        open_targets(ledger)


def test_a_named_row_is_written_by_version_and_never_forgotten(ledger_location):
    ledger = ledger_location.open_ledger()
    assert ledger.read_row("hold") == NamedRow()
    assert ledger.write_row("hold", {"since": "now", "run": "a"}, 0)
    assert not ledger.write_row("hold", {"since": "later"}, 0)
    assert ledger.write_row("hold", {"run": "b"}, 1)
    ledger.forget_before(NOW + 2 * RETENTION)
    assert ledger_location.open_ledger().read_row("hold") == NamedRow(values={"run": "b"}, version=2)
    assert ledger_location.open_ledger().read_row("release") == NamedRow()


def test_named_rows_are_read_together(ledger_location):
    ledger, names = ledger_location.open_ledger(), [f"hold aws/{n:012}" for n in range(30)]
    for name in names[::2]:
        assert ledger.write_row(name, {"row": name}, 0)
    for wanted in (names, names[:3], []):
        rows = ledger.read_rows(wanted)
        assert rows == {name: NamedRow(values={"row": name}, version=1) if name in names[::2] else NamedRow() for name in wanted}


def test_a_named_row_stores_long_strings(ledger_location):
    text = " ".join(f"aws/{n:012}/us-east-1" for n in range(9_000))
    assert ledger_location.open_ledger().write_row("hold", {"targets": text, "none": ""}, 0)
    assert ledger_location.open_ledger().read_row("hold").values == {"targets": text, "none": ""}
