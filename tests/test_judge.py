from __future__ import annotations

import math
from array import array
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.builders import DAY, END, HOUR, NOW, SPAN, activity, heartbeat, observation, resource, rule, series
from fakes.judged_cases import step_of
from reaper.case import Case, may_act
from reaper.evidence import ARRIVAL_DELAY
from reaper.judge import judge_resource
from reaper.model import Confidence, Role, State
from reaper.observation import IndirectEvidence, Observation, Reading, Series
from reaper.record import Record


def verdict(*readings: Reading, **fields: object):
    holds = fields.pop("rule", rule())
    observed = observation(*readings, **fields)
    return judge_resource(observed, holds, NOW)


def cut_off(hours: int) -> Series:
    """A silent series whose query ended so many hours early."""
    whole = series({})
    return replace(whole, values=whole.values[:-hours])


def test_silence_with_a_live_heartbeat_is_proven_idle():
    judgement = verdict(activity(), heartbeat())
    assert (judgement.state, judgement.confidence) == (State.IDLE, Confidence.PROVEN)
    assert judgement.idle_for >= 13 * DAY


def test_zero_valued_points_are_silence():
    assert verdict(activity(dict.fromkeys(range(SPAN), 0.0)), heartbeat()).state is State.IDLE


def test_idle_period_begins_after_the_last_busy_hour():
    judgement = verdict(activity({48: 3.0}), heartbeat())
    assert judgement.state is State.IDLE
    assert judgement.last_busy == END - 48 * HOUR
    assert judgement.idle_for == NOW - (END - 48 * HOUR)


@pytest.mark.parametrize(
    ("readings", "state"),
    [
        pytest.param([activity({3: 1.0}), heartbeat()], State.ACTIVE, id="used three hours ago"),
        pytest.param([activity({3: 1.0}, complete=False)], State.ACTIVE, id="any sign of use counts, even in a partial reply"),
        pytest.param([activity()], State.UNKNOWN, id="no heartbeat at all"),
        pytest.param([activity(), heartbeat(0)], State.UNKNOWN, id="heartbeat without points"),
        pytest.param([activity(), heartbeat(20)], State.UNKNOWN, id="heartbeat began late"),
        pytest.param(
            [activity(), heartbeat(series=series(dict.fromkeys(range(3, SPAN), 1.0)))],
            State.UNKNOWN,
            id="heartbeat stopped early",
        ),
        pytest.param(
            [activity(), heartbeat(series=series({i: 1.0 for i in range(SPAN) if i != 9}))],
            State.UNKNOWN,
            id="heartbeat has a hole",
        ),
        pytest.param([activity(complete=False), heartbeat()], State.UNKNOWN, id="partial activity"),
        pytest.param([activity(), heartbeat(complete=False)], State.UNKNOWN, id="partial heartbeat"),
        pytest.param([activity(series=cut_off(5)), heartbeat()], State.UNKNOWN, id="activity was asked for too early an end"),
        pytest.param([heartbeat()], State.UNKNOWN, id="nothing that could show use"),
        pytest.param([], State.UNKNOWN, id="no reading"),
        pytest.param(
            [activity(subject="a"), activity(subject="b"), heartbeat(subject="a")],
            State.UNKNOWN,
            id="a variant without heartbeat",
        ),
        pytest.param(
            [activity(subject="a"), activity({2: 1.0}, subject="b"), heartbeat(subject="a")],
            State.ACTIVE,
            id="second variant busy",
        ),
        pytest.param(
            [activity(), heartbeat(series=series(dict.fromkeys(range(SPAN), 0.0)))],
            State.UNKNOWN,
            id="zero samples are no heartbeat",
        ),
    ],
)
def test_verdict_follows_from_the_readings(readings: list[Reading], state: State):
    assert verdict(*readings).state is state


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        pytest.param({"resource": resource(created=NOW - 23 * HOUR)}, State.YOUNG, id="created less than idle_after ago"),
        pytest.param({"resource": resource(changed=NOW - HOUR)}, State.YOUNG, id="changed an hour ago"),
        pytest.param({"resource": resource(created=None)}, State.UNKNOWN, id="nobody knows when it was created"),
        pytest.param({"resource": resource(tags=None)}, State.UNKNOWN, id="unreadable tags"),
        pytest.param({"rule": rule(protected_because="kept by tag")}, State.EXEMPT, id="protected"),
        pytest.param({"in_use_because": "a job runs on it"}, State.ACTIVE, id="the control plane says it is at work"),
        pytest.param({"free_because": "it costs nothing"}, State.EXEMPT, id="free"),
        pytest.param({"changing_because": "its status is Updating"}, State.YOUNG, id="being changed"),
        pytest.param({"unknown_because": "denied"}, State.UNKNOWN, id="blind"),
        pytest.param({"rule": rule(idle_after=20 * DAY)}, State.UNKNOWN, id="watched for less than the rule asks"),
    ],
)
def test_protections_and_use_rule_out_an_idle_verdict(fields: dict, state: State):
    assert verdict(activity(), heartbeat(), **fields).state is state


def test_indirect_evidence_is_at_most_likely():
    hint = IndirectEvidence(since=NOW - 5 * DAY, because="up for five days")
    judgement = verdict(activity(), indirect_evidence=hint)
    assert (judgement.state, judgement.confidence, judgement.idle_for) == (State.IDLE, Confidence.LIKELY, 5 * DAY)


def test_stopped_heartbeat_is_not_replaced_by_indirect_evidence():
    hint = IndirectEvidence(since=NOW - 5 * DAY, because="up for five days")
    assert verdict(activity(), heartbeat(series=series({100: 1.0})), indirect_evidence=hint).state is State.UNKNOWN


def test_indirect_evidence_younger_than_idle_after_means_young():
    assert (
        verdict(activity(), indirect_evidence=IndirectEvidence(since=NOW - HOUR, because="started an hour ago")).state
        is State.YOUNG
    )


numbers = st.one_of(st.just(math.nan), st.just(0.0), st.floats(0, 1e6, width=32), st.just(math.inf))
lengths = st.integers(1, 60 * 24 * 20).map(lambda m: timedelta(minutes=m))


@st.composite
def any_series(draw: st.DrawFn) -> Series:
    size = draw(st.integers(0, 80))
    back = draw(st.integers(-3, 90))
    offset = timedelta(minutes=draw(st.integers(0, 59)))
    dense = draw(st.booleans())
    values = (
        [draw(st.sampled_from([1.0, 1.0, 1.0, 60.0]))] * size if dense else draw(st.lists(numbers, min_size=size, max_size=size))
    )
    return Series(start=NOW - back * HOUR - offset, step=HOUR, values=array("f", values))


@st.composite
def any_reading(draw: st.DrawFn) -> Reading:
    event = draw(st.one_of(st.none(), st.integers(0, 5000)))
    return Reading(
        signal="s",
        role=draw(st.sampled_from(Role)),
        subject=draw(st.sampled_from(["", "a", "b"])),
        series=draw(st.one_of(st.none(), any_series())),
        event_at=None if event is None else NOW - timedelta(minutes=event),
        complete=draw(st.sampled_from([True, True, True, False])),
    )


moments = st.one_of(st.none(), st.integers(-100, 60 * 24 * 30).map(lambda m: NOW - timedelta(minutes=m)))


@st.composite
def any_observation(draw: st.DrawFn) -> Observation:
    tags = draw(st.sampled_from([{}, {}, {}, None]))
    thing = resource(created=draw(moments), changed=draw(moments), tags=tags)
    clause = st.sampled_from([None, None, None, None, "because"])
    since = draw(moments)
    return Observation(
        resource=thing,
        readings=tuple(draw(st.lists(any_reading(), max_size=5))),
        indirect_evidence=IndirectEvidence(since=since, because="old") if since else None,
        in_use_because=draw(clause),
        free_because=draw(clause),
        changing_because=draw(clause),
        unknown_because=draw(clause),
    )


def _busy_times(observation: Observation):
    for reading in (r for r in observation.readings if r.role is Role.ACTIVITY):
        if reading.event_at:
            yield reading.event_at
        values = reading.series.values if reading.series else []
        yield from (reading.series.start + i * HOUR for i, v in enumerate(values) if v > reading.busy_above)


def _alive_throughout(reading: Reading, since, until) -> bool:
    """Independent of the product's code: every bucket that overlaps [since, until) has a live point."""
    if reading.series is None:
        return False
    covered = since
    for index, value in enumerate(reading.series.values):
        start, end = reading.series.start + index * HOUR, reading.series.start + (index + 1) * HOUR
        if end <= since or start >= until:
            continue
        if start > covered or not value > reading.busy_above:
            return False
        covered = end
    return covered >= until


@settings(max_examples=1500, deadline=None)
@given(any_observation(), lengths, st.sampled_from([None, None, "kept"]))
def test_idle_verdict_never_lacks_proof(observation: Observation, idle_after: timedelta, protected: str | None):
    holds = rule(idle_after=idle_after, protected_because=protected)
    verdict = judge_resource(observation, holds, NOW)
    if verdict.state is not State.IDLE:
        assert verdict.confidence is None
        assert not may_act(Case(resource=observation.resource, rule=holds, verdict=verdict))
        return
    since = NOW - idle_after
    assert observation.resource.tags is not None
    assert protected is None
    assert not any(
        (observation.in_use_because, observation.free_because, observation.changing_because, observation.unknown_because)
    )
    assert all(r.complete for r in observation.readings)
    assert all(t is None or t <= since for t in (observation.resource.created, observation.resource.changed))
    assert observation.resource.created
    assert not any(t > since for t in _busy_times(observation))
    assert verdict.idle_for >= idle_after
    hearts = [r for r in observation.readings if r.role is Role.HEARTBEAT]
    if verdict.confidence is Confidence.PROVEN:
        assert hearts
        assert all(_alive_throughout(h, since, NOW - ARRIVAL_DELAY) for h in hearts)
        assert any(r.role is Role.ACTIVITY and r.series for r in observation.readings)
    else:
        assert observation.indirect_evidence
        assert observation.indirect_evidence.since <= since
        assert not any(v > h.busy_above for h in hearts if h.series for v in h.series.values)


@settings(max_examples=300, deadline=None)
@given(any_observation())
def test_unreadable_tags_always_mean_unknown(observation: Observation):
    blind = replace(observation.resource, tags=None)
    assert judge_resource(replace(observation, resource=blind), rule(), NOW).state is State.UNKNOWN


@settings(max_examples=300, deadline=None)
@given(any_observation(), st.sampled_from(State))
def test_only_an_idle_verdict_leads_to_a_step(observation: Observation, state: State):
    verdict = replace(judge_resource(observation, rule(), NOW), state=state)
    step = step_of(Case(resource=observation.resource, rule=rule(), verdict=verdict), Record(), NOW)
    assert (step.name != "none") == (state is State.IDLE)


def test_silence_of_exactly_idle_after_is_enough():
    covered = NOW - END + 29 * HOUR  # of the thirty hours with points, the first may have been watched only at its end
    assert verdict(activity(), heartbeat(30), rule=rule(idle_after=covered)).state is State.IDLE
    assert verdict(activity(), heartbeat(30), rule=rule(idle_after=covered + timedelta(seconds=1))).state is State.UNKNOWN
    used = Reading(signal="log", role=Role.ACTIVITY, event_at=NOW - DAY)
    assert verdict(activity(), used, heartbeat()).state is State.IDLE
    late = Reading(signal="log", role=Role.ACTIVITY, event_at=NOW - DAY + timedelta(seconds=1))
    assert verdict(activity(), late, heartbeat()).state is State.ACTIVE
    assert verdict(activity(), heartbeat(), resource=resource(changed=NOW - DAY)).state is State.IDLE
    assert verdict(activity(), heartbeat(), resource=resource(changed=NOW - DAY + timedelta(seconds=1))).state is State.YOUNG
    hint = IndirectEvidence(since=NOW - DAY, because="it has been up for long")
    assert verdict(indirect_evidence=hint).confidence is Confidence.LIKELY
    assert verdict(indirect_evidence=replace(hint, since=NOW - DAY + timedelta(seconds=1))).state is State.YOUNG


def test_idle_reason_names_the_silent_signals_and_the_heartbeats():
    idle_verdict = verdict(activity(subject="a"), activity(subject="b"), heartbeat(30, subject="a"), heartbeat(30, subject="b"))
    assert idle_verdict.because == (
        "no activity in Invocations of a, Invocations of b for 1 day 5 hours, while CPUUtilization of a, CPUUtilization of b reported every hour"
    )
    many = [activity(signal=f"signal {n}") for n in range(3)]
    assert "no activity in signal 0, signal 1, signal 2 for" in verdict(*many, heartbeat()).because
    many += [activity(signal="signal 3")]
    assert "signal 0, signal 1, signal 2 and 1 more for" in verdict(*many, heartbeat()).because
    many += [activity(signal="signal 4")]
    assert "signal 0, signal 1, signal 2 and 2 more for" in verdict(*many, heartbeat()).because


@pytest.mark.parametrize(
    ("ago", "message"),
    [
        pytest.param(timedelta(seconds=59), "the log showed use just now", id="seconds"),
        pytest.param(timedelta(minutes=1), "the log showed use 1 minute ago", id="a minute"),
        pytest.param(timedelta(minutes=90), "the log showed use 1 hour 30 minutes ago", id="longer"),
    ],
)
def test_active_reason_names_the_latest_use_and_its_age(ago: timedelta, message: str):
    latest = Reading(signal="the log", role=Role.ACTIVITY, event_at=NOW - ago)
    earlier = Reading(signal="requests", role=Role.ACTIVITY, event_at=NOW - ago - HOUR)
    assert verdict(earlier, latest, heartbeat()).because == message


def test_unknown_reason_says_why_silence_proves_nothing():
    assert verdict(activity()).because == "no signal shows whether its metrics pipeline was alive, so silence proves nothing"
    stopped = heartbeat()
    stopped = replace(stopped, series=series(dict.fromkeys(range(5, 48), 60.0)))
    assert verdict(activity(), stopped).because == "CPUUtilization is missing or has stopped, so silence proves nothing"
    late = verdict(activity(), heartbeat(5)).because
    assert late == "CPUUtilization is unbroken for only 4 hours 7 minutes, less than idle_after (1 day)"
