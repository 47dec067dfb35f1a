"""A step of a workflow that runs twice at once: what the slower one does with the ledger after the faster one has written its intent."""

from __future__ import annotations

from datetime import timedelta

import pytest

from fakes.builders import NOW, TARGET
from fakes.memory_ledger import InMemoryLedger
from fakes.records import an_act
from reaper.acting.executor import take_back_intent
from reaper.acting.look import CallPermit
from reaper.errors import ActionWithdrawn
from reaper.model import Resource, StepName
from reaper.record import NO_SNOOZES, Act, ManifestReference, Record, before_action

RESOURCE = Resource(kind="yard", id="id-1", name="churn", target=TARGET, region="", created=NOW)


def intent_at(ledger: InMemoryLedger, microseconds: int) -> tuple[Act, bool]:
    """The intent to stop it in run-1, and whether it is in the ledger, from what was there before any of them."""
    now = NOW + timedelta(microseconds=microseconds)
    before = Record()
    manifest = ManifestReference(address="manifest-1", sha256="f" * 64)
    act = an_act(StepName.STOP, now, "run-1", id=RESOURCE.id, manifest=manifest)
    written = before_action(before, act)
    return act, ledger.write_record(RESOURCE.id, written, before.version, now)


def permit_of(act: Act, ledger: InMemoryLedger) -> CallPermit:
    """The permit for its calls, while the resource stays as it is."""
    return CallPermit(
        resource=RESOURCE,
        snoozes=NO_SNOOZES,
        before=Record(),
        act=act,
        ledger=ledger,
        clock=lambda: NOW,
        read=lambda: RESOURCE,
        look_again=lambda now: None,
    )


def test_the_slower_twin_leaves_the_intent_of_the_faster_one_alone():
    ledger = InMemoryLedger()
    faster, is_written = intent_at(ledger, 0)
    slower, is_written_twice = intent_at(ledger, 1)
    assert (is_written, is_written_twice) == (True, False)
    take_back_intent(ledger, slower, Record(), NOW, gone=False)
    record = ledger.record(RESOURCE.id, NOW)
    assert (record.act.action, record.act.run) == (StepName.STOP, "run-1")
    permit = permit_of(faster, ledger)
    with permit():
        pass
    assert permit.calls_made == 1


def test_an_intent_that_led_to_no_call_is_taken_back():
    ledger = InMemoryLedger()
    own, _ = intent_at(ledger, 0)
    take_back_intent(ledger, own, Record(), NOW, gone=False)
    assert ledger.record(RESOURCE.id, NOW).act is None
    with pytest.raises(ActionWithdrawn), permit_of(own, ledger)():
        pass
