from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.builders import DAY, HOUR, NOW
from fakes.judged_cases import LOOKBACK, after_judging, case, counted, move, with_snooze
from fakes.planned import after_notice, valid_notice_at
from fakes.records import known
from reaper.case import Case, may_act
from reaper.finding import Step
from reaper.model import Ceiling, State, StepName
from reaper.planning.dates import CLOCK_JITTER
from reaper.record import Record, Snooze

moments = st.none() | st.integers(-90 * 24, 40 * 24).map(lambda hours: NOW + hours * HOUR)
recalled = st.builds(
    known,
    idle_since=moments,
    seen_idle_at=moments,
    warned_at=moments,
    reminded_at=moments,
    snoozed_until=moments,
    snoozed_at=moments,
    snoozed_by=st.none() | st.just("jo"),
    acted=st.none() | st.just(StepName.STOP),
    acted_at=st.just(NOW - 80 * DAY),
    version=st.integers(0, 5),
)
pasts = st.none() | st.integers(1, 60 * 24).map(lambda hours: NOW - hours * HOUR)


def is_kept(of: Case, snooze: Snooze) -> bool:
    """Whether a snooze holds that was given to this very resource."""
    its_own = snooze.at is None or snooze.at >= of.resource.created
    return snooze.until is not None and snooze.until > NOW and its_own


@st.composite
def idle_cases(draw: st.DrawFn) -> Case:
    busy, changed = draw(pasts), draw(pasts)
    least = min([NOW - t for t in (busy, changed) if t] + [60 * DAY])
    hours = draw(st.integers(1, max(1, least // HOUR)))
    return case(idle_for=hours * HOUR, last_busy=busy, changed=changed, remind_every=draw(st.integers(1, 40)) * DAY)


@settings(max_examples=400, deadline=None)
@given(
    st.sampled_from(State),
    st.sampled_from([None, "tag reaper:keep=true"]),
    st.sampled_from(Ceiling),
    recalled,
)
def test_only_unprotected_idle_resources_get_a_step(state, protected, action, both):
    of = case(state, protected_because=protected, action=action)
    if state is not State.IDLE or protected or action is Ceiling.IGNORE:
        assert move(of, both) is StepName.NONE
        assert valid_notice_at(of, both[0], NOW) is None
    else:
        assert move(of, both) in {StepName.NONE, StepName.WARN, StepName.REMIND}


@settings(max_examples=400, deadline=None)
@given(idle_cases(), recalled)
def test_plan_sends_no_notice_during_a_snooze(of, both):
    if is_kept(of, both[1].own):
        assert move(of, both) is StepName.NONE
        assert not may_act(with_snooze(of, both, NOW))


@settings(max_examples=800, deadline=None)
@given(idle_cases(), recalled)
def test_memory_update_changes_no_step_and_happens_once(of, both):
    new = after_judging(of, both, NOW), both[1]
    assert move(of, new) is move(of, both)
    assert valid_notice_at(of, counted(of, new), NOW) == valid_notice_at(of, counted(of, both), NOW)
    assert after_judging(of, new, NOW) == new[0]


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(State), recalled)
def test_memory_update_loses_no_action(state, both):
    new = after_judging(case(state), both, NOW)
    assert (new.act, new.version) == (both[0].act, both[0].version)


@settings(max_examples=400, deadline=None)
@given(idle_cases(), recalled)
def test_valid_notice_is_younger_than_every_use_and_change(of, both):
    given_at = valid_notice_at(of, counted(of, both), NOW)
    if given_at is not None:
        assert given_at == both[0].notice.warned_at
        assert all(given_at >= t for t in (of.verdict.last_busy, of.resource.changed) if t)


def swept(gaps: list[int], unknown: set[int], every: timedelta, lookback: timedelta) -> list[tuple[datetime, StepName]]:
    """The notices about a resource that was last used a month ago, over sweeps so many minutes apart; some find out nothing."""
    now, record, steps = NOW, Record(), []
    for index, gap in enumerate(gaps):
        now += timedelta(minutes=gap)
        idle = case(idle_for=min(now - NOW + 30 * DAY, lookback), remind_every=every)
        of = case(State.UNKNOWN, remind_every=every) if index in unknown else idle
        made = move(of, record, now)
        record = after_judging(of, record, now)
        if made is not StepName.NONE:
            steps.append((now, made))
            record = after_notice(of, record, Step(name=made, because="due"), "r", now)
    return steps


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.integers(1, 5 * 24 * 60), min_size=1, max_size=60),
    st.sets(st.integers(0, 59), max_size=30),
    st.integers(1, 40),
    st.integers(2, 20),
)
def test_idle_resource_brings_at_most_one_notice_per_interval(gaps, unknown, every, lookback):
    steps = swept(gaps, unknown, every * DAY, lookback * DAY)
    moments = [moment for moment, _ in steps]
    assert all(later - earlier >= every * DAY - CLOCK_JITTER for earlier, later in pairwise(moments))
    assert [made for _, made in steps[:1]] in ([], [StepName.WARN])


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(1, 24 * 60), min_size=1, max_size=100), st.integers(1, 40))
def test_idle_resource_brings_a_notice_at_the_first_sweep_of_an_interval(gaps, every):
    steps = swept(gaps, set(), every * DAY, LOOKBACK)
    assert [made for _, made in steps] == [StepName.WARN] + [StepName.REMIND] * (len(steps) - 1)
    assert all(later - earlier < every * DAY + DAY for (earlier, _), (later, _) in pairwise(steps))
    end = NOW + timedelta(minutes=sum(gaps))
    assert end - steps[-1][0] < every * DAY


def test_weeks_of_use_and_rest_bring_one_warning_per_idle_period():
    record, steps = Record(), []
    busy = [(0, 0), (20 * 24, 21 * 24)]
    for hour in range(40 * 24):
        now = NOW + hour * HOUR
        last = max((NOW + min(hour, end) * HOUR for start, end in busy if start <= hour), default=NOW)
        state = State.IDLE if now - last >= DAY else State.ACTIVE
        of = case(state, idle_for=min(now - last, LOOKBACK), last_busy=last if now - last < LOOKBACK else None)
        made = move(of, record, now)
        record = after_judging(of, record, now)
        if made is not StepName.NONE:
            steps.append((hour // 24, made))
            record = after_notice(of, record, Step(name=made, because="due"), "r", now)
    assert steps == [
        (1, StepName.WARN),
        (7, StepName.REMIND),
        (14, StepName.REMIND),
        (22, StepName.WARN),
        (28, StepName.REMIND),
        (35, StepName.REMIND),
    ]
