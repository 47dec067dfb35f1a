"""The last look at the ledger before a call: whatever changed there since the first look keeps the resource."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fakes.builders import DAY, NOW, resource
from reaper.acting.look import rows_changed_because
from reaper.ledger.rows import Recalled
from reaper.record import Record, Snooze

HOST = resource(id="host", name="host")
PART = replace(resource(id="part", name="part"), host_id="host")
KEPT = Snooze(until=NOW + DAY, at=NOW, by="dana@example.com", version=1)
NOT_MINE = Snooze(disowned_at=NOW, disowned_by="dana@example.com", version=1)


@pytest.mark.parametrize(
    ("record", "snoozes", "words"),
    [
        pytest.param(Record(version=3), {}, None, id="nothing"),
        pytest.param(Record(version=4), {}, "its ledger record changed a moment ago", id="the record"),
        pytest.param(Record(version=3), {"part": KEPT}, "its ledger record changed a moment ago", id="a snooze"),
        pytest.param(Record(version=3), {"part": NOT_MINE}, "its ledger record changed a moment ago", id="not mine"),
        pytest.param(Record(version=3), {"host": KEPT}, "its host was snoozed by dana@example.com", id="a snooze of its host"),
        pytest.param(Record(version=3), {"host": NOT_MINE}, "what is known of its host changed", id="not mine of its host"),
    ],
)
def test_what_changed_since_the_first_look_keeps_it(record: Record, snoozes: dict[str, Snooze], words: str | None):
    before = Recalled({"part": Record(version=2)}).snoozes(PART)
    because = rows_changed_because(PART, Recalled({"part": record}, snoozes), 3, before, NOW)
    assert (because is None) if words is None else words in (because or "")


def test_a_snooze_of_the_host_that_is_over_changes_nothing():
    over = {"host": replace(KEPT, until=NOW - DAY, at=NOW - 2 * DAY)}
    before = Recalled({}, over).snoozes(PART)
    assert rows_changed_because(PART, Recalled({"part": Record(version=3)}, over), 3, before, NOW) is None
