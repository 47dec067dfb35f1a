"""What lies in the ledger apart from memories as such: fixed columns, writes by column, open actions, named rows and the format."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from fakes.builders import DAY, HOUR, NOW
from fakes.ledger_places import ARM, ARN, HERE, THERE
from reaper.errors import SettingsError
from reaper.ledger import port
from reaper.ledger.codec import COLUMNS, SNOOZE_FIELDS, memory_columns, memory_from_row
from reaper.ledger.port import RETENTION, NamedRow, Unfinished
from reaper.model import AnnouncedAction, Memory, Result, StepName

WRITTEN = {
    "idle_since": ("idle_since", NOW - 3 * DAY),
    "idle_seen": ("last_seen_idle_at", NOW),
    "warned_at": ("warned_at", NOW - 2 * DAY),
    "receipt": ("notice_receipt", "ses:0102"),
    "told": ("notified_owner", "jo@example.com"),
    "shape": ("notified_fingerprint", "2 x ml.g5.xlarge"),
    "reminded_at": ("reminded_at", NOW - DAY),
    "announced": ("announced_action", AnnouncedAction.HOURS),
    "promised": ("act_not_before", NOW + DAY),
    "enrolled": ("enrolment_digest", "5d41402a"),
    "held_at": ("held_at", NOW - HOUR),
    "snoozed_until": ("snoozed_until", NOW + DAY),
    "snoozed_at": ("snoozed_at", NOW - HOUR),
    "snoozed_by": ("snoozed_by", "jo@example.com"),
    "snoozed_why": ("snooze_reason", "demo"),
    "last_act": ("last_action", StepName.STOP),
    "acted_at": ("last_action_at", NOW - 9 * DAY),
    "manifest": ("manifest_address", "s3://bucket/manifest.json"),
    "act_run": ("last_action_run", "3f2a9c01b7de"),
    "act_result": ("last_action_result", Result.DONE),
    "act_because": ("last_action_because", "it is being stopped"),
    "act_part": ("last_action_part", "1 of 2 variants"),
    "act_told": ("last_action_told_at", NOW - 8 * DAY),
}
"""Every column that any version has ever written, with the field it is read into, spelled out: renaming a field must not rename what is stored."""
OPEN = Unfinished(
    target=HERE,
    id=ARN,
    kind="sagemaker-endpoint",
    name="churn",
    region="us-east-1",
    owner="jo@example.com",
    action=StepName.DELETE,
    run="3f2a9c01b7de",
    at=NOW - HOUR,
)


def test_the_columns_are_the_ones_that_are_stored_everywhere():
    assert {field: column for column, (field, _) in WRITTEN.items()} == COLUMNS
    assert set(COLUMNS) == {f.name for f in fields(Memory)} - {"version"}


def test_every_column_comes_back(store):
    full = Memory(**dict(WRITTEN.values()))
    assert store.open().remember(ARN, full, 0, NOW)
    assert store.open().recall([ARN], NOW)[ARN] == replace(full, version=1)


def test_a_column_that_a_later_version_wrote_survives_a_write_of_this_one(store):
    kept = store.open()
    kept.remember(ARN, Memory(warned_at=NOW), 0, NOW)
    store.garble(ARN, "from_the_future", "kept")
    assert kept.remember(ARN, Memory(notice_receipt="r"), 1, NOW)
    assert store.stored(ARN)["from_the_future"] == "kept"
    assert "warned_at" not in store.stored(ARN)


def test_a_snooze_writes_its_own_columns_and_raises_the_version(kept):
    kept.remember(ARN, Memory(warned_at=NOW, last_action=StepName.STOP), 0, NOW)
    snoozed = Memory(snoozed_until=NOW + DAY, snoozed_by="jo@example.com")
    assert kept.remember(ARN, snoozed, 1, NOW, SNOOZE_FIELDS)
    assert kept.recall([ARN], NOW)[ARN] == replace(snoozed, warned_at=NOW, last_action=StepName.STOP, version=2)
    assert not kept.remember(ARN, Memory(), 1, NOW)


def test_a_snooze_of_what_has_no_memory_makes_one(kept):
    assert kept.remember(ARM, Memory(snoozed_until=NOW + DAY, notice_receipt="not its own"), 0, NOW, SNOOZE_FIELDS)
    assert kept.recall([ARM], NOW)[ARM] == Memory(snoozed_until=NOW + DAY, version=1)


def test_an_open_action_is_found_by_its_target_until_it_is_ended(store):
    other = replace(OPEN, id=ARM, target=THERE, owner=None)
    for entry in (OPEN, other, replace(OPEN, id=f"{ARN}-2", at=NOW)):
        store.open().add_unfinished(entry)
    assert store.open().unfinished(HERE, NOW) == [OPEN, replace(OPEN, id=f"{ARN}-2", at=NOW)]
    assert store.open().unfinished(THERE, NOW) == [other]
    store.open().remove_unfinished(HERE, ARN)
    store.open().remove_unfinished(HERE, ARN)
    assert [entry.id for entry in store.open().unfinished(HERE, NOW)] == [f"{ARN}-2"]
    assert store.open().unfinished(HERE, NOW + RETENTION + DAY) == []


def test_an_open_action_of_the_same_resource_is_replaced(kept):
    kept.add_unfinished(OPEN)
    kept.add_unfinished(replace(OPEN, run="b"))
    assert [entry.run for entry in kept.unfinished(HERE, NOW)] == ["b"]


def test_a_named_row_is_written_by_version_and_never_forgotten(store):
    kept = store.open()
    assert kept.read_row("hold") == NamedRow()
    assert kept.write_row("hold", {"since": "now", "run": "a"}, 0, NOW)
    assert not kept.write_row("hold", {"since": "later"}, 0, NOW)
    assert kept.write_row("hold", {"run": "b"}, 1, NOW)
    kept.forget_before(NOW + 2 * RETENTION)
    assert store.open().read_row("hold") == NamedRow(values={"run": "b"}, version=2)
    assert store.open().read_row("release") == NamedRow()


def test_a_named_row_holds_a_long_text(store):
    text = " ".join(f"aws/{n:012}/us-east-1" for n in range(9_000))
    assert store.open().write_row("hold", {"targets": text, "none": ""}, 0, NOW)
    assert store.open().read_row("hold").values == {"targets": text, "none": ""}


def test_the_format_is_written_once_and_read_before_writing(kept):
    port.ensure_format(kept, NOW)
    port.ensure_format(kept, NOW)
    assert kept.read_row("format") == NamedRow(values={"number": "2"}, version=1)


@pytest.mark.parametrize("number", ["3", "x"])
def test_a_ledger_of_a_newer_format_is_refused(kept, number):
    kept.write_row("format", {"number": number}, 0, NOW)
    with pytest.raises(SettingsError, match=f"format {number}.*newer version"):
        port.ensure_format(kept, NOW)
    assert kept.read_row("format").version == 1


def test_a_row_of_version_49f8b6c_reads_as_it_was_written():
    old = {"warned_at": "2026-11-18T08:00:00.000000+00:00", "announced": "delete", "last_act": "stop", "manifest": "/m.json"}
    memory = memory_from_row(old, 4, ARN)
    assert (memory.announced_action, memory.last_action, memory.last_action_run, memory.version) == (
        AnnouncedAction.DELETE,
        StepName.STOP,
        None,
        4,
    )
    assert memory_columns(memory) == old
