"""When the last notice still speaks of a resource: its dates, its addressee, and what it was like."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from fakes.builders import DAY, HOUR, NOW
from fakes.judged_cases import case
from reaper.case import Owner
from reaper.idle_period import MAX_CLOCK_SKEW, notice_expired, notice_was_for_another
from reaper.model import Memory, Result, StepName

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


def test_notice_of_the_rest_is_void_once_a_resource_was_added_inside():
    acted = NOW - 3 * DAY
    memory = Memory(
        last_action=StepName.DELETE,
        last_action_at=acted,
        last_action_part="its 2 components",
        last_action_result=Result.DONE,
        warned_at=acted,
        last_action_told_at=acted,
    )
    of = case(changed=acted + HOUR / 6)
    assert not notice_expired(of, memory, NOW)
    of = replace(of, resource=replace(of.resource, contained=(replace(of.resource, id="arn:inner", created=acted + HOUR / 6),)))
    assert notice_expired(of, memory, NOW)
