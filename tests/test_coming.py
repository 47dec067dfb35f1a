"""What comes next for an idle resource, and what its kind could do whatever the policy."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fakes.builders import DAY, HOUR, NOW
from fakes.judged_cases import case, step_of
from fakes.planned import next_action
from fakes.records import a_record, changed
from reaper.calendars import office_hours
from reaper.case import Blocked
from reaper.finding import Step
from reaper.model import AnnouncedAction, Ceiling, Confidence, NextAction, State, StepName
from reaper.plan import possible_action
from reaper.planning.dates import hours_digest
from reaper.record import Record

ONE_INSTANCE = Blocked(because="it already runs no more than one instance per variant", already_done=True)
NOT_READ = Blocked(because="its configuration wasn't read, so whether it can be recreated is unknown", not_read=True)
BOTH = {StepName.STOP: None, StepName.DELETE: None}
HOURS = office_hours.parse_hours("mon-fri 07:00-21:00", "Europe/Berlin")
FRIDAY_NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


def announced(action: StepName, ago: timedelta) -> Record:
    return a_record(idle_since=NOW - 10 * DAY, seen_idle_at=NOW - HOUR, warned_at=NOW - ago, announced=action)


@pytest.mark.parametrize("action", [Ceiling.IGNORE, Ceiling.NOTIFY])
def test_nothing_comes_where_the_policy_allows_no_stop_or_delete(action):
    assert next_action(case(acts=BOTH, action=action), Record(), NOW) is None


@pytest.mark.parametrize("state", [state for state in State if state is not State.IDLE])
def test_nothing_comes_unless_the_resource_is_idle(state):
    of = case(state, acts=BOTH, action=Ceiling.DELETE)
    assert (next_action(of, Record(), NOW), possible_action(of, NOW)) == (None, None)


def test_without_a_notice_its_grace_starts_now():
    coming = next_action(case(acts=BOTH, action=Ceiling.STOP, grace=3 * DAY), Record(), NOW)
    assert coming == NextAction(
        step=StepName.STOP, at=NOW + 3 * DAY, saves_usd_per_hour=None, blocked_because="notice first, grace 3 days"
    )


def test_after_a_notice_the_date_is_that_of_the_notice():
    of = case(acts=BOTH, action=Ceiling.DELETE, grace=3 * DAY)
    coming = next_action(of, announced(StepName.DELETE, DAY), NOW)
    assert coming == NextAction(step=StepName.DELETE, at=NOW + 2 * DAY, saves_usd_per_hour=None, blocked_because=None)


def test_an_action_that_is_overdue_comes_now():
    coming = next_action(case(acts=BOTH, action=Ceiling.STOP, grace=DAY), announced(StepName.STOP, 4 * DAY), NOW)
    assert coming is not None
    assert coming.at == NOW


@pytest.mark.parametrize(
    ("late", "because"),
    [
        pytest.param({"called_at": NOW + DAY}, "its ledger record is dated 1 day ahead of", id="another clock is ahead"),
        pytest.param({"acted": StepName.STOP, "acted_at": NOW - HOUR / 2}, "stop requested", id="just requested"),
    ],
)
def test_while_a_sweep_would_do_nothing_nothing_has_a_date(late: dict[str, Any], because: str):
    of, record = case(acts=BOTH, action=Ceiling.STOP, grace=DAY), changed(announced(StepName.STOP, 4 * DAY), **late)
    coming = next_action(of, record, NOW)
    assert coming is not None
    assert (step_of(of, record, NOW).name, coming.at) == (StepName.NONE, None)
    assert (coming.blocked_because or "").startswith(because)


def test_office_hours_that_are_open_postpone_an_overdue_stop_to_their_end():
    of = case(acts={StepName.STOP: None, StepName.START: Blocked(because="running")}, action=Ceiling.STOP, grace=DAY, hours=HOURS)
    record = a_record(warned_at=FRIDAY_NOON - 5 * DAY, announced=AnnouncedAction.HOURS, hours=hours_digest(HOURS))
    of = replace(of, resource=replace(of.resource, created=FRIDAY_NOON - 90 * DAY))
    coming = next_action(of, record, FRIDAY_NOON)
    assert coming is not None
    assert coming.at == datetime(2026, 11, 20, 20, 0, tzinfo=UTC)


def test_a_stop_that_can_do_nothing_names_the_delete_and_what_it_saves():
    of = replace(
        case(acts={StepName.STOP: ONE_INSTANCE, StepName.DELETE: None}, action=Ceiling.STOP),
        saves_usd_per_hour={StepName.STOP: 0.0, StepName.DELETE: 7.09},
    )
    coming = next_action(of, Record(), NOW)
    assert coming is not None
    assert (coming.step, coming.at) == (StepName.STOP, None)
    assert coming.blocked_because == "it already runs no more than one instance per variant; delete would save $7.09 an hour"


def test_indirect_evidence_blocks_and_names_what_would_prove_it():
    of = case(acts=BOTH, action=Ceiling.STOP)
    of = replace(of, resource=replace(of.resource, kind="sagemaker-notebook"))
    of = replace(of, verdict=replace(of.verdict, confidence=Confidence.LIKELY))
    coming = next_action(of, Record(), NOW)
    assert coming is not None
    assert (coming.at, coming.blocked_because) == (
        None,
        "the evidence is indirect; needs Busy (docs/busy.md) for proof",
    )


def test_a_kind_that_only_notifies_says_so():
    coming = next_action(case(acts={}, action=Ceiling.STOP), Record(), NOW)
    assert coming is not None
    assert coming.blocked_because == "the reaper can't stop or delete resources of its kind"


def test_a_hold_blocks_what_is_due():
    hold = Step(name=StepName.HOLD, because="on hold, because 4 actions exceed max_acts: 3")
    coming = next_action(case(acts=BOTH, action=Ceiling.STOP), announced(StepName.STOP, 9 * DAY), NOW, hold)
    assert coming is not None
    assert (coming.at, coming.blocked_because) == (NOW, hold.because)


def test_a_resource_that_was_not_decided_has_no_date():
    other = Step(name=StepName.NONE, because="another sweep is processing this target")
    coming = next_action(case(acts=BOTH, action=Ceiling.STOP), announced(StepName.STOP, 9 * DAY), NOW, other)
    assert coming is not None
    assert (coming.at, coming.blocked_because) == (None, other.because)


@pytest.mark.parametrize(
    ("acts", "saves", "expected"),
    [
        pytest.param({}, {}, None, id="a kind that only notifies"),
        pytest.param(BOTH, {StepName.STOP: 1.0, StepName.DELETE: 3.0}, (StepName.DELETE, None), id="what saves most"),
        pytest.param(BOTH, {}, (StepName.STOP, None), id="the gentler one"),
        pytest.param(
            {StepName.STOP: None, StepName.DELETE: NOT_READ},
            {StepName.STOP: 1.0, StepName.DELETE: 3.0},
            (StepName.STOP, None),
            id="what is certain",
        ),
        pytest.param(
            {StepName.STOP: ONE_INSTANCE, StepName.DELETE: NOT_READ},
            {StepName.DELETE: 3.0},
            (StepName.DELETE, NOT_READ.because),
            id="restorability that was not read",
        ),
        pytest.param({StepName.STOP: ONE_INSTANCE}, {}, (StepName.STOP, ONE_INSTANCE.because), id="nothing at all"),
    ],
)
def test_what_the_kind_could_do_is_said_whatever_the_policy(acts, saves, expected):
    could = possible_action(replace(case(acts=acts, action=Ceiling.NOTIFY), saves_usd_per_hour=saves), NOW)
    assert (could and (could.step, could.blocked_because)) == expected
