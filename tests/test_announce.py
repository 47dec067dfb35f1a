"""Mode announce: owners are told when an action comes, and only `apply`, which is mode enforce under a plan file, carries it out."""

from __future__ import annotations

from fakes.builders import DAY
from fakes.fake_deployment import Enforcer, of, only
from reaper.model import Mode, Result, StepName


def test_a_notice_carries_the_date_of_its_action_and_no_sweep_carries_it_out():
    there = Enforcer()
    there.depot.add("quiet")
    assert only(there.sweep(Mode.ANNOUNCE)).step.name is StepName.WARN
    assert (there.memory("quiet").announced_action, there.memory("quiet").act_not_before) == ("stop", there.now + 3 * DAY)
    there.now += 4 * DAY
    found = only(there.sweep(Mode.ANNOUNCE))
    assert (found.step.name, found.outcome.result, there.depot.log) == (StepName.STOP, Result.PLANNED, [])


def test_what_was_announced_counts_when_a_run_acts():
    there = Enforcer()
    there.depot.add("quiet")
    there.sweep(Mode.ANNOUNCE)
    there.now += 3 * DAY
    assert only(there.sweep()).outcome.result is Result.DONE


def test_a_notice_of_mode_notify_announces_nothing():
    there = Enforcer()
    there.depot.add("quiet")
    there.sweep(Mode.NOTIFY)
    assert (there.memory("quiet").announced_action, there.memory("quiet").act_not_before) == (None, None)
    there.now += 4 * DAY
    assert of(there.sweep(Mode.NOTIFY), "quiet").step.name is not StepName.STOP
