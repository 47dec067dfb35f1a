"""Columns and rows: fixed names, writes by column, and values that can't be read."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from fakes.builders import DAY, HOUR, NOW
from fakes.ledger_places import ARM, ARN, in_memory
from fakes.records import a_record
from reaper.errors import CloudError, Reason
from reaper.ledger.ledger import SNOOZE_FIELDS
from reaper.ledger.rows import COLUMNS, memory_from_row
from reaper.model import AnnouncedAction, Result, StepName
from reaper.record import Record, SideChange, Snooze

WRITTEN = {
    "idle_since": ("idle_since", NOW - 3 * DAY),
    "idle_seen": ("last_seen_idle_at", NOW),
    "warned_at": ("warned_at", NOW - 2 * DAY),
    "receipt": ("notice_receipt", "ses:0102"),
    "told": ("notified_owner", "jo@example.com"),
    "shape": ("notified_fingerprint", "2 x ml.g5.xlarge"),
    "reminded_at": ("reminded_at", NOW - DAY),
    "reminders": ("reminders", 3),
    "escalated_at": ("escalated_at", NOW - HOUR),
    "escalated_to": ("escalated_to", "admins lee@example.com"),
    "announced": ("announced_action", AnnouncedAction.HOURS),
    "promised": ("act_not_before", NOW + DAY),
    "claimed": ("claimed_since", NOW - DAY),
    "claim_end": ("claimed_until", NOW - HOUR),
    "claim_told": ("claimed_to", "ana@example.com"),
    "wrong_hour": ("wrong_hour", NOW - DAY),
    "wrong_at": ("wrong_notice_at", NOW - HOUR),
    "wrong_told": ("wrong_notice_to", "ana@example.com"),
    "enrolled": ("enrolment_digest", "5d41402a"),
    "snoozed_until": ("snoozed_until", NOW + DAY),
    "snoozed_at": ("snoozed_at", NOW - HOUR),
    "snoozed_by": ("snoozed_by", "jo@example.com"),
    "snoozed_why": ("snooze_reason", "demo"),
    "disowned": ("disowned_by", "dana@example.com"),
    "disowned_at": ("disowned_at", NOW - HOUR),
    "last_act": ("last_action", StepName.STOP),
    "acted_at": ("last_action_at", NOW - 9 * DAY),
    "manifest": ("manifest_address", "s3://bucket/manifest.json"),
    "manifest_sha256": ("manifest_sha256", "f" * 64),
    "written": ("written_at", NOW),
    "act_run": ("last_action_run", "3f2a9c01b7de"),
    "act_result": ("last_action_result", Result.DONE),
    "act_because": ("last_action_because", "it is being stopped"),
    "act_part": ("last_action_part", "1 of 2 variants"),
    "act_told": ("last_action_told_at", NOW - 8 * DAY),
    "act_changes": ("last_action_changes", (SideChange(what="traffic", before=100, ours=0),)),
    "act_created": ("last_action_created", NOW - 60 * DAY),
    "called_at": ("last_call_at", NOW - 9 * DAY),
    "lost_manifest": ("lost_manifest", "s3://manifests/2026-11-24/r1/x-delete-3.json"),
}
"""Every column that any version has ever written, with its field. A renamed field must not rename the column."""


def test_columns_keep_the_names_under_which_they_are_stored():
    assert {field: column for column, (field, _) in WRITTEN.items()} == COLUMNS
    assert set(COLUMNS) == {f.name for f in fields(Record)} - {"version"}


def test_every_column_is_written_and_read_back(ledger_location):
    full = Record(**dict(WRITTEN.values()))
    assert ledger_location.open_ledger().write_record(ARN, full, 0, NOW)
    assert ledger_location.open_ledger().recall([ARN], NOW)[ARN] == replace(full, version=1)


def test_a_write_keeps_columns_of_a_later_version(ledger_location):
    ledger = ledger_location.open_ledger()
    ledger.write_record(ARN, a_record(warned_at=NOW), 0, NOW)
    ledger_location.overwrite(ARN, "from_the_future", "kept")
    assert ledger.write_record(ARN, a_record(receipt="r"), 1, NOW)
    assert ledger_location.stored_columns(ARN)["from_the_future"] == "kept"
    assert "warned_at" not in ledger_location.stored_columns(ARN)


def test_a_snooze_writes_its_own_columns_and_raises_the_version(ledger):
    ledger.write_record(ARN, a_record(warned_at=NOW, acted=StepName.STOP), 0, NOW)
    snoozed = Snooze(until=NOW + DAY, by="jo@example.com")
    assert ledger.write_record(ARN, snoozed, 1, NOW, SNOOZE_FIELDS)
    assert ledger.recall([ARN], NOW)[ARN] == replace(snoozed, warned_at=NOW, last_action=StepName.STOP, version=2)
    assert not ledger.write_record(ARN, Record(), 1, NOW)


@in_memory
def test_a_snooze_creates_a_memory_if_there_is_none(ledger):
    assert ledger.write_record(ARM, a_record(snoozed_until=NOW + DAY, receipt="not its own"), 0, NOW, SNOOZE_FIELDS)
    assert ledger.recall([ARM], NOW)[ARM] == a_record(snoozed_until=NOW + DAY, version=1)


@pytest.mark.parametrize("column", ["snoozed_until", "last_act", "receipt"])
@pytest.mark.parametrize("value", [None, 5, 5.0, True, [], {}, b"x"], ids=repr)
def test_a_column_that_is_no_string_is_unreadable(column, value):
    with pytest.raises(CloudError, match=f"{ARN} can't be read") as raised:
        memory_from_row({column: value}, 1, ARN)
    assert raised.value.reason is Reason.UNREADABLE


@pytest.mark.parametrize("text", ["", "1764000000", "20261121", "2026-11-21", "2026-11-21T10:00:00", "tomorrow"])
def test_a_time_column_needs_a_time_with_a_zone(text):
    with pytest.raises(CloudError, match="snoozed_until"):
        memory_from_row({"snoozed_until": text}, 1, ARN)


@pytest.mark.parametrize("version", [0, -1, "0", "x", True, None, 1.0])
def test_a_row_needs_a_version_from_1(version):
    with pytest.raises(CloudError, match=r"not a version|invalid literal"):
        memory_from_row({}, version, ARN)
