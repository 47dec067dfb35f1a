"""Windows, and what whole and cut hours prove: checked against every single minute, which the product never sees."""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.builders import DAY, HOUR, resource, rule
from reaper.evidence import alive_from, last_busy
from reaper.judge import judge_resource
from reaper.model import Role, State, Verdict
from reaper.observation import Observation, Reading, Series, Window
from reaper.observing.windows import LAG, observation_window
from reaper.policy.parse import parse_policy

NIGHT = datetime.fromisoformat("2026-11-21T00:00:00+00:00")
MINUTE = timedelta(minutes=1)
POLICY = parse_policy("{version: 1, defaults: {idle_after: 2h, lookback: 6h}}", "policy", ())
SPAN = 30 * 60
"""Minutes of the story that the clouds recorded, up to the latest `now`."""


def _series(minutes: Collection[int], stretch: Window, value: float) -> Series:
    """What a cloud answers: hourly buckets from the window's start on, of the points before its end."""
    buckets = array("f", [math.nan]) * -(-(stretch.end - stretch.start) // HOUR)
    for minute in minutes:
        moment = NIGHT + minute * MINUTE
        if stretch.start <= moment < stretch.end:
            buckets[(moment - stretch.start) // HOUR] = value
    return Series(start=stretch.start, step=HOUR, values=buckets, end=stretch.end)


def _judged(used: Collection[int], beats: Collection[int], stretch: Window, now: datetime) -> Verdict:
    activity = Reading(signal="use", role=Role.ACTIVITY, series=_series(used, stretch, 1.0))
    heart = Reading(signal="beat", role=Role.HEARTBEAT, series=_series(beats, stretch, 60.0))
    one = resource(created=NIGHT - 60 * DAY)
    return judge_resource(Observation(resource=one, readings=(activity, heart)), rule(idle_after=2 * HOUR), now)


@pytest.mark.parametrize("minute", range(0, 60, 7))
@pytest.mark.parametrize("lookback", ["6h", "14d", "100d"])
def test_windows_start_on_the_hour_and_reach_back_far_enough(minute: int, lookback: str):
    now = NIGHT + 10 * HOUR + minute * MINUTE + timedelta(seconds=13)
    policy = parse_policy(f"{{version: 1, defaults: {{idle_after: 2h, lookback: {lookback}}}}}", "policy", ())
    window = observation_window(policy, now)
    assert (window.start.minute, window.start.second, window.end.minute % 5, window.end.second) == (0, 0, 0, 0)
    assert window.end <= now - LAG < window.end + 5 * MINUTE
    assert timedelta() <= window.end - window.start - policy.defaults.lookback < HOUR


@pytest.mark.parametrize("lookback", ["6h", "14d"])
@pytest.mark.parametrize("minute", [*range(0, 60, 5), 58, 59])
def test_a_look_before_an_action_starts_where_a_sweep_would(minute: int, lookback: str):
    now = NIGHT + 10 * HOUR + minute * MINUTE + timedelta(seconds=30)
    policy = parse_policy(f"{{version: 1, defaults: {{idle_after: 2h, lookback: {lookback}}}}}", "policy", ())
    end = now.replace(second=0) + MINUTE
    assert observation_window(policy, now, end) == replace(observation_window(policy, now), end=end)


def test_the_last_hour_is_busy_to_the_end_of_the_window_only():
    stretch = Window(start=NIGHT, end=NIGHT + 2 * HOUR + 10 * MINUTE, recent_since=NIGHT)
    late, early = (Reading(signal="use", role=Role.ACTIVITY, series=_series([m], stretch, 1.0)) for m in (125, 61))
    assert (last_busy(late), last_busy(early)) == (stretch.end, NIGHT + 2 * HOUR)


def test_a_heartbeat_after_a_gap_proves_nothing_about_its_first_hour():
    stretch = Window(start=NIGHT, end=NIGHT + 5 * HOUR, recent_since=NIGHT)
    beat = Reading(signal="beat", role=Role.HEARTBEAT, series=_series(range(119, 300), stretch, 60.0))
    assert alive_from(beat, NIGHT + 5 * HOUR) == NIGHT + 2 * HOUR
    whole = replace(beat, series=_series(range(300), stretch, 60.0))
    assert alive_from(whole, NIGHT + 5 * HOUR) == NIGHT


def test_a_heartbeat_begun_in_the_last_hour_reaches_no_further_than_asked():
    stretch = Window(start=NIGHT, end=NIGHT + 5 * HOUR + 10 * MINUTE, recent_since=NIGHT)
    beat = Reading(signal="beat", role=Role.HEARTBEAT, series=_series(range(301, 310), stretch, 60.0))
    until = NIGHT + 5 * HOUR + 5 * MINUTE
    assert alive_from(beat, until) == until


def test_an_empty_answer_covers_only_what_was_asked_for():
    stretch = Window(start=NIGHT, end=NIGHT + 5 * HOUR, recent_since=NIGHT)
    now = NIGHT + 8 * HOUR
    heart = Reading(signal="beat", role=Role.HEARTBEAT, series=_series(range(480), replace(stretch, end=now), 60.0))
    silent = Reading(signal="use", role=Role.ACTIVITY, series=Series(start=NIGHT, step=HOUR, end=stretch.end))
    one = resource(created=NIGHT - 60 * DAY)
    assert (
        judge_resource(Observation(resource=one, readings=(silent, heart)), rule(idle_after=2 * HOUR), now).state is State.UNKNOWN
    )


minutes = st.integers(0, SPAN - 1)


@settings(max_examples=400, deadline=None)
@given(
    st.sets(minutes, max_size=6),
    st.lists(st.tuples(minutes, st.integers(30, 400)), max_size=2),
    st.integers(0, 4),
    st.integers(24 * 60, SPAN - 1),
)
def test_idle_was_watched_in_every_hour_and_unused(used: set[int], deaf: list[tuple[int, int]], phase: int, at: int):
    now = NIGHT + at * MINUTE + timedelta(seconds=31)
    beats = {m for m in range(phase, at, 5) if not any(start <= m < start + length for start, length in deaf)}
    recorded = {m for m in used if m < at and not any(start <= m < start + length for start, length in deaf)}
    verdict = _judged(recorded, beats, observation_window(POLICY, now), now)
    if verdict.state is not State.IDLE:
        return
    since = at - verdict.idle_for // MINUTE
    assert verdict.idle_for >= 2 * HOUR
    assert not [m for m in recorded if since <= m < at - 10]
    minutes = sorted(m for m in beats if since - 60 <= m)
    assert min(minutes) < since + 60  # in the window's first hour it may have begun late
    assert all(later - earlier < 120 for earlier, later in pairwise(minutes))
    assert minutes[-1] >= at - 85


@settings(max_examples=300, deadline=None)
@given(st.sets(minutes, max_size=6), st.integers(0, 4), st.integers(24 * 60, SPAN - 10), st.integers(0, 5))
def test_a_look_minutes_later_finds_idle_what_the_sweep_found_idle(used: set[int], phase: int, at: int, later: int):
    used = {m for m in used if m < at - 10}
    now, later_now = (NIGHT + m * MINUTE + timedelta(seconds=31) for m in (at, at + later))
    swept = _judged(used, range(phase, at, 5), observation_window(POLICY, now), now)
    again = _judged(
        used, range(phase, at + later, 5), observation_window(POLICY, later_now, later_now.replace(second=0) + MINUTE), later_now
    )
    if swept.state is State.IDLE:
        assert again.state is State.IDLE
        assert again.last_busy in {swept.last_busy, None}  # the later window begins later


@settings(max_examples=300, deadline=None)
@given(st.sets(minutes, max_size=3), st.integers(0, 4), st.integers(24 * 60, SPAN - 1))
def test_use_is_never_reported_later_than_was_asked_for(used: set[int], phase: int, at: int):
    now = NIGHT + at * MINUTE
    stretch = observation_window(POLICY, now)
    shown = last_busy(Reading(signal="use", role=Role.ACTIVITY, series=_series(used, stretch, 1.0)))
    minutes = [m for m in used if stretch.start <= NIGHT + m * MINUTE < stretch.end]
    assert (shown is None) == (not minutes)
    assert shown is None or NIGHT + max(minutes) * MINUTE < shown <= stretch.end


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 4), st.integers(24 * 60, SPAN - 1))
def test_a_heartbeat_without_a_gap_is_found_at_any_minute(phase: int, at: int):
    now = NIGHT + at * MINUTE
    arrived = [m for m in range(phase, at, 5) if m < at - 20]
    assert _judged((), arrived, observation_window(POLICY, now), now).state is State.IDLE
