"""What every kind of the registry keeps to, against the real SDKs over the wire. `on_<cloud>/kind_stages.py` say how one of each kind is made."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

import on_aws.kind_stages
import on_azure.kind_stages
from kind_contract import NEW, NOW, ODD
from reaper import registry
from reaper.acting.contract import OwnChanges, unchanged
from reaper.errors import ActionWithdrawn, CloudError
from reaper.model import State, Status, StepName
from reaper.policy import tags

STAGES: dict[str, Any] = {"aws": on_aws.kind_stages, "azure": on_azure.kind_stages}
ACTIONS = [pytest.param(kind, step, id=f"{kind.name} {step}") for kind in registry.kinds() for step in kind.actions]
EVERY = pytest.mark.parametrize("kind", registry.kinds(), ids=lambda kind: kind.name)
EVERY_ACTION = pytest.mark.parametrize(("kind", "step"), ACTIONS)
TAGS = {
    "kept": {"reaper:keep": "true"},
    "misspelt": {"reaper:kepp": "1"},
    "until": {"reaper:keep-until": "2027-12-31"},
    "over": {"reaper:keep-until": "2026-01-01", "owner": "ada@example.com"},
    "capped": {"Reaper:Action": "ignore", "reaper:owner": "bo@example.com"},
}


@pytest.fixture
def stage(kind: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    assert kind.name in STAGES[kind.cloud].STATES, f"{kind.name} has no STATES in {STAGES[kind.cloud].__name__}"
    with STAGES[kind.cloud].opened(kind, monkeypatch) as opened:
        yield opened


class Swept:
    """What a sweep says, after these were made, of each that the stage has, by name. `actions`: what may be done to those that are idle."""

    def __init__(self, stage: Any, *names: str) -> None:
        for name in names:
            stage.seed(name)
        report = stage.sweep()
        [self.coverage] = report.coverage
        cases = {finding.case.resource.id: finding.case for finding in report.findings}
        self.cases = {
            next((name for name in stage.records if name in id_.lower().split("/")), id_): case for id_, case in cases.items()
        }
        self.states = {name: case.verdict.state for name, case in self.cases.items()}
        self.idle = {name for name, state in self.states.items() if state is State.IDLE}
        self.actions = {name: {step for step, bar in self.cases[name].blocked.items() if not bar} for name in self.idle}


@EVERY
def test_each_state_of_the_vendor_has_its_verdict_and_a_new_one_none(stage: Any):
    for place, vendor, known, make in stage.places():
        assert known.keys() - {NEW} == vendor, place
        every = {NEW: "unknown", **known}
        for state in every:
            make(f"{place}-{state}".lower(), state)
        swept = Swept(stage)
        assert {state: swept.states.get(f"{place}-{state}".lower()) for state in every} == every, place
        assert swept.coverage.status == Status.OK, place


@EVERY
def test_an_odd_row_is_never_idle_and_hides_no_other(stage: Any):
    for field, odd in stage.odd_rows():
        stage.odd_row(f"{field}-{odd}".lower(), field, odd)
    swept = Swept(stage, "other")
    assert (swept.idle, swept.coverage.status) == ({"other"}, Status.PARTIAL)


@EVERY
def test_a_row_that_breaks_the_list_is_told(stage: Any):
    for field, odd in stage.fatal_rows():
        stage.server.rules.clear()
        stage.odd_row("odd", field, odd)
        swept = Swept(stage, "other")
        assert (swept.cases, swept.coverage.status) == ({}, Status.FAILED), field


@EVERY
def test_an_odd_description_is_never_idle_and_hides_no_other(stage: Any):
    for odd in ODD.keys() - {"missing", "null"} if stage.looked_at else ():
        stage.odd_look(odd, odd)
    assert Swept(stage, "other").idle == {"other"}


def failing(stage: Any, key: str, fault_of: Callable[[str | None], Any]) -> Swept:
    """A sweep while that call fails, with the fault for the one it is about."""
    stage.server.rules[:] = [lambda call: fault_of(stage.about(call)) if stage.key(call) == key else None]
    return Swept(stage)


@EVERY
def test_a_failed_call_is_told_and_makes_nothing_idle(stage: Any):
    before = Swept(stage, "other")
    assert before.idle == {"other"}
    for key in {stage.key(call) for call in stage.wire if not stage.about(call)} - {""}:
        for name in ("denied", "throttled", "garbled"):
            swept = failing(stage, key, {None: stage.failures[name]}.get)
            has_fallback = any(word in key for word in stage.with_fallback) and swept.states == before.states
            assert swept.idle <= before.idle, f"{key} {name}"
            assert all(swept.actions[one] <= before.actions[one] for one in swept.idle), f"{key} {name}"
            assert swept.coverage.status != Status.OK or has_fallback, f"{key} {name}"


@EVERY
def test_a_failed_look_at_one_is_never_idle_and_hides_no_other(stage: Any):
    before = Swept(stage, "other", *stage.failures)
    assert before.idle == {"other", *stage.failures}
    for key in {stage.key(call) for call in stage.wire if stage.about(call)}:
        swept = failing(stage, key, stage.failures.get)
        assert (swept.actions["other"], swept.coverage.status != Status.OK) == (before.actions["other"], True), key
        for name in swept.idle - {"other"}:
            is_barred = before.actions[name] and not swept.actions[name]
            assert is_barred or (key, name) in stage.harmless, f"{key} {name}"


@EVERY
def test_tags_give_one_answer_in_both_ways_they_are_read(stage: Any):
    things = range(len(stage.make("bare")))
    for name, wanted in TAGS.items():
        for thing in things:
            stage.tag(f"{name}-{thing}", thing, wanted)
    swept = Swept(stage)
    for name, case in swept.cases.items():
        wanted = TAGS.get(name.partition("-")[0], {})
        assert (case.verdict.state is State.EXEMPT) == bool(tags.read_tags(wanted, NOW).reasons), name
        assert case.resource.tags == wanted, name
        assert not stage.kind.actions or stage.read_tags(case.resource) == wanted, name
    assert len(swept.cases) > len(TAGS) * len(things)


@EVERY
def test_tags_that_cannot_be_read_protect(stage: Any):
    assert Swept(stage, "other").idle == {"other"}
    stage.spoil_tags()
    case = Swept(stage).cases["other"]
    assert (case.verdict.state, "tags couldn't be read" in case.verdict.because) == (State.UNKNOWN, True)
    with suppress(CloudError):
        assert not stage.kind.actions or stage.read_tags(case.resource) is None


class Leave:
    """A permit that is given `times` times and then withdrawn. `given`: how many calls had gone over the wire each time."""

    def __init__(self, stage: Any, times: int = 99) -> None:
        self.stage, self.times, self.given = stage, times, list[int]()

    @contextmanager
    def __call__(self, own_changes: OwnChanges = unchanged, *, may_be_gone: bool = False) -> Iterator[None]:
        if len(self.given) == self.times:
            raise ActionWithdrawn("its owner snoozed it")
        self.given.append(len(self.stage.wire))
        yield

    def after_wait(self, own_changes: OwnChanges = unchanged) -> None:
        """The look after a wait is the executor's."""


def changes(stage: Any, first: int) -> list[int]:
    """Where on the wire the changing calls are, from that call on."""
    return [at for at, call in enumerate(stage.wire) if at >= first and stage.is_change(call)]


@EVERY_ACTION
def test_a_permit_is_asked_for_right_before_each_call(stage: Any, step: StepName):
    for n, way in enumerate(stage.ways(step)):
        act, first, leave = stage.act(step, way, f"whole-{n}"), len(stage.wire), Leave(stage)
        assert act.perform(leave).because
        made = changes(stage, first)
        assert len(leave.given) == len(made) > 0
        assert all(0 <= at - given <= stage.reads_after_permit for given, at in zip(leave.given, made, strict=True))
        for times in range(len(made)):
            act, first = stage.act(step, way, f"cut-{n}-{times}"), len(stage.wire)
            with suppress(ActionWithdrawn):
                assert "snoozed" in act.perform(Leave(stage, times)).because
            assert len(changes(stage, first)) == times


@EVERY_ACTION
def test_a_call_is_sent_once_whatever_becomes_of_it(stage: Any, step: StepName):
    for n, way in enumerate(stage.ways(step)):
        for fault, (reply, reason, may_have_been_made) in stage.faults.items():
            act, first = stage.act(step, way, f"{n}-{[*stage.faults].index(fault)}"), len(stage.wire)
            stage.server.rules[:] = [lambda call: reply if stage.is_change(call) else None]  # noqa: B023
            with pytest.raises(CloudError) as failed:
                act.perform(Leave(stage))
            stage.server.rules.clear()
            assert len(changes(stage, first)) == 1, fault
            assert (failed.value.reason, failed.value.may_have_been_made) == (reason, may_have_been_made), fault


@EVERY_ACTION
def test_an_undo_done_twice_is_harmless(stage: Any, step: StepName):
    can_be_undone = step in registry.action_functions(stage.kind.name).undo_members
    assert can_be_undone or step is StepName.START
    for n, way in enumerate(stage.ways(step) if can_be_undone else ()):
        act = stage.act(step, way, f"undone-{n}")
        act.perform(Leave(stage))
        first, goes_on = len(stage.wire), True
        while goes_on:
            stage.settle()
            goes_on = act.undo().run_again
        assert changes(stage, first)
        stage.settle()
        second, again = len(stage.wire), act.undo()
        assert (changes(stage, second), again.run_again) == ([], False)
        assert re.search("already|none of its .* changed|it exists|its status is InService", again.because), again


@EVERY_ACTION
def test_an_undo_leaves_a_stranger_alone(stage: Any, step: StepName):
    why = r"isn't undone" if step is StepName.START else r"the reaper left it alone|started and stopped since"
    for n, way in enumerate(stage.ways(step)):
        act = stage.act(step, way, f"stranger-{n}")
        act.perform(Leave(stage))
        stage.settle()
        act.renew()
        first = len(stage.wire)
        with pytest.raises(CloudError, match=why):
            act.undo()
        assert changes(stage, first) == []
