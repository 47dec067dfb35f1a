"""When the last notice still speaks of a resource: its dates, its addressee, and what it was like."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from fakes.builders import DAY, HOUR, NOW
from fakes.judged_cases import case
from reaper.case import Owner
from reaper.idle_period import (
    MAX_CLOCK_SKEW,
    idle_period_start,
    notice_expired,
    notice_followed_action,
    notice_lapsed,
    notice_led_to_snooze,
    notice_was_for_another,
)
from reaper.model import AnnouncedAction, Memory, Result

LEE, SAM = "lee@example.com", "sam@example.com"


@pytest.mark.parametrize(
    ("notified", "owner", "expected"),
    [
        pytest.param(LEE, SAM, True, id="handed over"),
        pytest.param(LEE, LEE.upper(), False, id="the same in other letters"),
        pytest.param(None, SAM, False, id="nobody knows to whom it went"),
        pytest.param(LEE, None, False, id="nobody knows whose it is"),
    ],
)
def test_notice_to_another_owner_does_not_count(notified, owner, expected):
    assert (
        notice_was_for_another(replace(case(), owner=Owner(address=owner, source="tag")), Memory(notified_owner=notified))
        is expected
    )


@pytest.mark.parametrize(
    ("fingerprint", "now", "expected"),
    [
        pytest.param("min 2", "min 4", True, id="of another shape"),
        pytest.param("min 2", "min 2", False, id="as it was"),
        pytest.param(None, "min 4", False, id="its shape was not known"),
        pytest.param("min 2", None, False, id="its shape is not known"),
        pytest.param(None, None, False, id="its kind has no shape"),
    ],
)
def test_notice_about_another_shape_does_not_count(fingerprint, now, expected):
    of = case()
    of = replace(of, resource=replace(of.resource, fingerprint=now))
    assert notice_was_for_another(of, Memory(notified_fingerprint=fingerprint)) is expected


def test_missing_notice_is_not_expired():
    assert not notice_expired(case(), Memory(), NOW)


def test_notice_may_be_ahead_by_at_most_the_clock_skew():
    ahead = Memory(idle_since=NOW - 3 * DAY, last_seen_idle_at=NOW, warned_at=NOW + MAX_CLOCK_SKEW)
    assert timedelta(minutes=10) == MAX_CLOCK_SKEW
    assert not notice_expired(case(), ahead, NOW)
    assert notice_expired(case(), replace(ahead, warned_at=NOW + MAX_CLOCK_SKEW + timedelta(seconds=1)), NOW)


@pytest.mark.parametrize(("remind_every", "valid_for"), [(DAY, 14 * DAY), (7 * DAY, 14 * DAY), (30 * DAY, 60 * DAY)])
def test_notice_lapses_after_two_weeks_or_two_reminder_intervals(remind_every: timedelta, valid_for: timedelta):
    judged = case(remind_every=remind_every)
    memory = Memory(warned_at=NOW - valid_for, announced_action=AnnouncedAction.STOP)
    assert not notice_lapsed(judged, memory, NOW)
    assert notice_lapsed(judged, memory, NOW + timedelta(seconds=1))
    assert not notice_lapsed(judged, replace(memory, act_not_before=NOW), NOW + valid_for), (
        "counted from the date that it announced"
    )


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({}, True, id="the mail about the first part"),
        pytest.param({"last_action_part": None}, False, id="the whole was done"),
        pytest.param({"last_action_result": Result.FAILED}, False, id="it failed"),
        pytest.param({"last_action_told_at": NOW - HOUR}, False, id="a later notice"),
        pytest.param({"warned_at": None, "last_action_told_at": None}, False, id="no notice"),
    ],
)
def test_only_the_mail_about_a_part_announces_its_rest(changes: dict[str, Any], expected: bool):
    memory = Memory(warned_at=NOW, last_action_told_at=NOW, last_action_part="1 of 2 variants", last_action_result=Result.DONE)
    assert notice_followed_action(replace(memory, **changes)) is expected


@pytest.mark.parametrize(
    ("announced", "expected"),
    [(AnnouncedAction.STOP, True), (AnnouncedAction.HOURS, False)],
    ids=["of idleness", "of office hours"],
)
def test_an_enrollment_is_answered_by_a_snooze_after_it_alone(announced: AnnouncedAction, expected: bool):
    memory = Memory(warned_at=NOW - 9 * DAY, reminded_at=NOW - 3 * DAY, snoozed_until=NOW - 4 * DAY, announced_action=announced)
    assert notice_led_to_snooze(memory, NOW) is not expected
    assert notice_led_to_snooze(replace(memory, snoozed_until=NOW - 2 * DAY), NOW)
    assert not notice_led_to_snooze(replace(memory, snoozed_until=NOW + DAY), NOW)
    assert not notice_led_to_snooze(replace(memory, snoozed_until=NOW - 10 * DAY), NOW)


@pytest.mark.parametrize(
    ("idle_for", "last_busy", "moved"),
    [
        pytest.param(30 * HOUR, None, timedelta(), id="the same"),
        pytest.param(30 * HOUR + timedelta(seconds=60), None, timedelta(), id="a minute more is proven"),
        pytest.param(30 * HOUR + timedelta(seconds=61), None, timedelta(seconds=-61), id="over a minute more is proven"),
        pytest.param(29 * HOUR, NOW - 29 * HOUR, HOUR, id="it was used since"),
        pytest.param(30 * HOUR, NOW - 30 * HOUR + timedelta(seconds=1), timedelta(seconds=1), id="it was used a second later"),
    ],
)
def test_the_start_moves_for_another_period_or_over_a_minute(idle_for: timedelta, last_busy: datetime | None, moved: timedelta):
    memory = Memory(idle_since=NOW - 30 * HOUR, last_seen_idle_at=NOW - HOUR)
    judged = case()
    judged = replace(judged, verdict=replace(judged.verdict, idle_for=idle_for, last_busy=last_busy))
    assert idle_period_start(judged, memory, NOW) - (NOW - 30 * HOUR) == moved
