"""Records and snoozes as documents: every field comes back, and what no run writes is unreadable."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import pytest

from fakes.builders import DAY, HOUR, NOW
from fakes.ledger_places import ARN, in_memory
from fakes.records import an_act
from reaper.errors import CloudError, Reason
from reaper.ledger.ledger import Ledger
from reaper.ledger.rows import MAX_TEXT, AtVersion, record_key, snooze_key
from reaper.model import AnnouncedAction, Result, State, StepName
from reaper.record import Claim, Correction, ManifestReference, Notice, Record, SideChange, Snooze

ACT = an_act(
    StepName.DELETE,
    NOW - 9 * DAY,
    "3f2a9c01b7de",
    owner="jo@example.com",
    manifest=ManifestReference(address="s3://bucket/manifest.json", sha256="f" * 64),
    changes=(SideChange(what="traffic", before=100, ours=0),),
    created=NOW - 60 * DAY,
    result=Result.DONE,
    because="it is being deleted",
    part="1 of 2 variants",
    notified_at=NOW - 8 * DAY,
)
NOTICE = Notice(
    warned_at=NOW - 2 * DAY,
    reminded_at=NOW - DAY,
    receipt="ses:0102",
    to="jo@example.com",
    shape="2 x ml.g5.xlarge",
    action=AnnouncedAction.HOURS,
    not_before=NOW + DAY,
    hours="5d41402a",
    reminders=3,
    escalated_at=NOW - HOUR,
    escalated_to=("admins", "lee@example.com"),
)
RECORD = Record(
    idle_since=NOW - 3 * DAY,
    seen_idle_at=NOW,
    notice=NOTICE,
    claim=Claim(since=NOW - DAY, until=NOW - HOUR, to="ana@example.com"),
    correction=Correction(hour=NOW - DAY, at=NOW - HOUR, to="ana@example.com"),
    act=ACT,
    called_at=NOW - 9 * DAY,
    notified_run="3f2a9c01b7de",
    lost_manifest="s3://manifests/2026-11-24/r1/x-delete-3.json",
    state=State.UNKNOWN,
    state_at=NOW - HOUR,
    written_at=NOW,
)
SNOOZE = Snooze(until=NOW + DAY, at=NOW - HOUR, by="jo", reason="demo", disowned_by="dana@example.com", disowned_at=NOW - HOUR)


@pytest.mark.parametrize("noun", [RECORD, NOTICE, ACT, SNOOZE], ids=lambda noun: type(noun).__name__)
def test_the_examples_have_a_value_in_every_field(noun: Any):
    defaults = {f.name: f.default for f in fields(noun) if f.name != "version"}
    assert [name for name, default in defaults.items() if getattr(noun, name) == default] == []


def test_every_field_is_written_and_read_back(ledger_location):
    ledger = ledger_location.open_ledger()
    assert ledger.write_record(ARN, RECORD, 0, NOW)
    assert ledger.write_snooze(ARN, SNOOZE, 0, NOW)
    recalled = ledger_location.open_ledger().recall([ARN], NOW)
    assert (recalled.record(ARN), recalled.snooze(ARN)) == (replace(RECORD, version=1), replace(SNOOZE, version=1))


@in_memory
def test_a_snooze_and_a_record_have_versions_of_their_own(ledger: Ledger):
    ledger.write_record(ARN, RECORD, 0, NOW)
    assert ledger.write_snooze(ARN, SNOOZE, 0, NOW)
    assert ledger.write_record(ARN, RECORD, 1, NOW)
    assert not ledger.write_snooze(ARN, Snooze(), 0, NOW)
    assert (ledger.record(ARN, NOW).version, ledger.snooze(ARN, NOW).version) == (2, 1)


@in_memory
def test_texts_for_people_are_cut_and_nothing_else_is(ledger: Ledger):
    long = "x" * 9999
    ledger.write_record(ARN, Record(act=replace(ACT, because=long, id=ARN + long), notice=Notice(receipt=long)), 0, NOW)
    ledger.write_snooze(ARN, Snooze(until=NOW, reason=long, by=long), 0, NOW)
    record, snooze = ledger.record(ARN, NOW), ledger.snooze(ARN, NOW)
    assert [len(text or "") for text in (record.act.because, snooze.reason, snooze.by)] == [MAX_TEXT] * 3
    assert (record.act.id, record.notice.receipt) == (ARN + long, long)


def stored(ledger: Ledger, document: object, version: object = 1) -> Ledger:
    """The ledger with this document as the record."""
    ledger.write_record(ARN, Record(), 0, NOW)
    columns = {"id": ARN, "document": document if isinstance(document, str) else json.dumps(document)}
    assert ledger.store.put(record_key(ARN), columns, NOW.isoformat(), AtVersion(version=1))
    return ledger


@in_memory
@pytest.mark.parametrize(
    ("document", "because"),
    [
        pytest.param("", "Invalid JSON", id="nothing"),
        pytest.param("null", "object", id="null"),
        pytest.param([], "object", id="a list"),
        pytest.param({"warned_at": "2026-11-21T00:00:00Z"}, "warned_at", id="an unknown field"),
        pytest.param({"notice": {"told": "jo"}}, "notice.told", id="an unknown field inside"),
        pytest.param({"idle_since": "2026-11-21T00:00:00"}, "timezone", id="a time without a zone"),
        pytest.param({"idle_since": 1764000000}, "idle_since", id="a number for a time"),
        pytest.param({"idle_since": "next summer"}, "idle_since", id="no time"),
        pytest.param({"idle_since": "0001-01-01T00:00:00+14:00"}, "idle_since", id="before every calendar"),
        pytest.param({"called_at": "9999-12-31T23:59:59-12:00"}, "called_at", id="after every calendar"),
        pytest.param({"act": {"action": "stop"}}, "act.at", id="half an action"),
        pytest.param({"notice": {"action": "explode"}}, "notice.action", id="no action"),
        pytest.param({"notice": {"receipt": 7}}, "notice.receipt", id="a number for a text"),
        pytest.param({"notice": {"reminders": "3"}}, "notice.reminders", id="a text for a number"),
    ],
)
def test_what_no_run_writes_is_unreadable_and_never_missing(ledger: Ledger, document: object, because: str):
    recalled = stored(ledger, document).recall([ARN], NOW)
    for ask in (recalled.record, recalled.snooze):
        with pytest.raises(CloudError, match=f"{ARN} can't be read.*{because}") as raised:
            ask(ARN)
        assert raised.value.reason is Reason.UNREADABLE
    assert (ARN in recalled, recalled.is_unreadable(ARN)) == (True, True)


@in_memory
@pytest.mark.parametrize(
    "document",
    ["", "[]", '{"until": "2026-11-30"}', '{"until": 5}', '{"snoozed": true}', '{"until": "9999-12-31T23:59:59-12:00"}'],
)
def test_a_snooze_that_cannot_be_read_protects_too(ledger: Ledger, document: str):
    ledger.write_record(ARN, RECORD, 0, NOW)
    assert ledger.store.put(snooze_key(ARN), {"id": ARN, "document": document}, NOW.isoformat(), AtVersion(version=0))
    with pytest.raises(CloudError, match=f"the snooze of {ARN} can't be read"):
        ledger.recall([ARN], NOW).record(ARN)


@in_memory
@pytest.mark.parametrize("version", [0, -1, "0", "x", True, None, 1.0])
def test_a_row_needs_a_version_from_1(ledger: Ledger, version: object):
    ledger.write_record(ARN, Record(), 0, NOW)
    rows: Any = ledger.store
    rows.rows[record_key(ARN)] = replace(rows.rows[record_key(ARN)], version=version)
    with pytest.raises(CloudError, match=r"not a version|invalid literal"):
        ledger.record(ARN, NOW)
