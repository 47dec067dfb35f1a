"""A snooze is a person's wish for one resource, not for whatever has its name later."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from fakes.builders import DAY, HOUR, NOW
from fakes.judged_cases import case, move
from reaper.case import Case
from reaper.idle_period import MAX_CLOCK_SKEW
from reaper.model import State, StepName
from reaper.planning.possible_actions import with_snooze
from reaper.record import Record, Snooze
from reaper.record_updates import after_judging


def snooze_memory(ago: timedelta | None) -> Record:
    """Kept for another week, by a click so long ago."""
    at = None if ago is None else NOW - ago
    return Snooze(until=NOW + 7 * DAY, at=at, by="jo", reason="demo")


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
    assert move(of, snooze_memory(ago)) is expected
    assert (with_snooze(of, snooze_memory(ago), NOW).verdict.state is State.IDLE) is (expected is StepName.WARN)


@pytest.mark.parametrize("state", [State.IDLE, State.ACTIVE, State.UNKNOWN])
def test_a_recreated_resources_old_snooze_is_cleared(state):
    record = after_judging(made(NOW - DAY, state), snooze_memory(2 * DAY), NOW)
    assert (record.until, record.at, record.by, record.reason) == (None, None, None, None)
    assert after_judging(made(NOW - 3 * DAY, state), snooze_memory(2 * DAY), NOW + HOUR).by == "jo"
