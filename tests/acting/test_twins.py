"""A step of a workflow that runs twice at once: what the slower one does with the ledger after the faster one has written its intent."""

from __future__ import annotations

from datetime import timedelta

import pytest

from fakes.builders import NOW, TARGET
from fakes.memory_ledger import InMemoryLedger
from reaper import record_updates
from reaper.acting.permit import CallPermit
from reaper.errors import ActionWithdrawn
from reaper.ledger.rows import Unfinished
from reaper.model import Resource, StepName
from reaper.pending import intents
from reaper.pending.intents import Intent
from reaper.record import ManifestReference, Record

RESOURCE = Resource(kind="yard", id="id-1", name="churn", target=TARGET, region="", created=NOW)


def intent_at(ledger: InMemoryLedger, microseconds: int) -> tuple[Intent, bool]:
    """The intent to stop it in run-1, and whether it is in the ledger, from what was there before any of them."""
    now = NOW + timedelta(microseconds=microseconds)
    before = Record()
    hint = Unfinished(
        target=TARGET,
        id=RESOURCE.id,
        kind=RESOURCE.kind,
        name=RESOURCE.name,
        region="",
        owner=None,
        action=StepName.STOP,
        run="run-1",
        at=now,
    )
    written = record_updates.before_action(
        before,
        record_updates.BegunAction(
            action=StepName.STOP, run="run-1", at=now, manifest=ManifestReference(address="manifest-1", sha256="f" * 64)
        ),
    )
    ledger.add_unfinished(hint)
    return Intent(before=before, written=written, hint=hint), ledger.write_record(RESOURCE.id, written, before.version, now)


def permit_of(own_intent: Intent, ledger: InMemoryLedger) -> CallPermit:
    """The permit for its calls, while the resource stays as it is."""
    return CallPermit(
        resource=RESOURCE,
        own_intent=own_intent,
        ledger=ledger,
        clock=lambda: NOW,
        read=lambda: RESOURCE,
        look_again=lambda now: None,
        require_lease=lambda: None,
    )


def test_the_slower_twin_leaves_the_intent_of_the_faster_one_alone():
    ledger = InMemoryLedger()
    faster, is_written = intent_at(ledger, 0)
    slower, is_written_twice = intent_at(ledger, 1)
    assert (is_written, is_written_twice) == (True, False)
    intents.take_back_intent(ledger, slower, NOW, gone=False)
    record = ledger.record(RESOURCE.id, NOW)
    assert (record.act.action, record.act.run) == (StepName.STOP, "run-1")
    assert [one.id for one in ledger.unfinished(TARGET, NOW)] == [RESOURCE.id]
    permit = permit_of(faster, ledger)
    with permit():
        pass
    assert permit.calls_made == 1


def test_an_intent_that_led_to_no_call_is_taken_back_with_its_hint():
    ledger = InMemoryLedger()
    own, _ = intent_at(ledger, 0)
    intents.take_back_intent(ledger, own, NOW, gone=False)
    assert ledger.record(RESOURCE.id, NOW).act.action is None
    assert list(ledger.unfinished(TARGET, NOW)) == []
    with pytest.raises(ActionWithdrawn), permit_of(own, ledger)():
        pass
