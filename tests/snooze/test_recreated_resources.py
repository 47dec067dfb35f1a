"""A snooze is a person's wish for one resource, not for whatever has its name later."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from fakes.builders import DAY, HOUR, NOW
from fakes.judged_cases import after_judging, case, counted, move, with_snooze
from fakes.records import a_record
from reaper.case import Case
from reaper.model import State, StepName
from reaper.record import MAX_CLOCK_SKEW, Record, Snooze, Snoozes


def snoozed(ago: timedelta | None, until: datetime = NOW + 7 * DAY) -> tuple[Record, Snoozes]:
    """Kept for another week, by a click so long ago."""
    at = None if ago is None else NOW - ago
    return Record(), Snoozes(own=Snooze(until=until, at=at, by="jo", reason="demo"))


def made(created: datetime | None, state: State = State.IDLE) -> Case:
    idle_case = case(state, idle_for=HOUR)
    return replace(idle_case, resource=replace(idle_case.resource, created=created))


@pytest.mark.parametrize(
    ("created", "ago", "expected"),
    [
        pytest.param(9 * DAY, 10 * DAY, StepName.WARN, id="made anew after the click"),
        pytest.param(9 * DAY, 8 * DAY, StepName.NONE, id="the one that was clicked for"),
        pytest.param(9 * DAY, 9 * DAY + MAX_CLOCK_SKEW, StepName.NONE, id="as good as at the same moment, by clocks that differ"),
        pytest.param(9 * DAY, None, StepName.NONE, id="nobody knows when the click was"),
        pytest.param(None, 10 * DAY, StepName.NONE, id="nobody knows when it was made"),
    ],
)
def test_a_snooze_does_not_protect_a_recreated_resource(created, ago, expected):
    of = made(None if created is None else NOW - created)
    assert move(of, snoozed(ago)) is expected
    assert (with_snooze(of, snoozed(ago), NOW).verdict.state is State.IDLE) is (expected is StepName.WARN)


@pytest.mark.parametrize("state", [State.IDLE, State.UNKNOWN])
def test_the_end_of_a_recreated_resources_old_snooze_voids_no_notice(state):
    warned = a_record(warned_at=NOW - 3 * HOUR)
    ended = snoozed(2 * DAY, NOW - 2 * HOUR)[1]
    for created, notice in ((NOW - DAY, warned.notice), (NOW - 3 * DAY, None)):
        of = made(created, state)
        assert (counted(of, (warned, ended)).notice, after_judging(of, (warned, ended)).notice) == (notice, notice)
