"""The alarm for missing sweeps, evaluated as CloudWatch does it, over days of sweeps."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from deploy import sam
from deploy.translate import translate

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
MADE = datetime(2026, 3, 2, 9, 20, tzinfo=UTC)
"""When the stack was made."""


@pytest.fixture(scope="module")
def silence() -> dict[str, Any]:
    properties: dict[str, Any] = translate(sam.ROOT / "template.yaml")["Resources"]["SilenceAlarm"]["Properties"]
    return properties


def state(alarm: dict[str, Any], points: Collection[datetime], now: datetime) -> str:
    """What an evaluation at `now` finds, for an alarm on the number of points, missing ones breaching.

    One over more than a day is evaluated hourly and takes only what is before the full hour:
    https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarm-evaluation.html
    """
    period = timedelta(seconds=alarm["Period"])
    hourly = period * alarm["EvaluationPeriods"] > DAY
    end = now.replace(minute=0, second=0, microsecond=0) if hourly else now
    starts = [end - period * (n + 1) for n in range(alarm["EvaluationPeriods"])]
    breaching = sum(sum(start <= point < start + period for point in points) < alarm["Threshold"] for start in starts)
    return "ALARM" if breaching >= alarm["DatapointsToAlarm"] else "OK"


def states(alarm: dict[str, Any], points: Collection[datetime], start: datetime, end: datetime) -> list[str]:
    """One evaluation an hour, at whatever minute the start has."""
    return [state(alarm, points, start + HOUR * n) for n in range(int((end - start) / HOUR) + 1)]


def test_the_alarm_is_of_the_form_that_is_evaluated_here(silence: dict[str, Any]):
    assert (silence["Statistic"], silence["ComparisonOperator"], silence["Threshold"]) == ("SampleCount", "LessThanThreshold", 1)
    assert (silence["TreatMissingData"], silence["Period"]) == ("breaching", 3600)


@pytest.mark.parametrize("minute", [0, 1, 30, 59])
def test_a_daily_sweep_never_rings(silence: dict[str, Any], minute: int):
    """Not where one ends a quarter of an hour later than the last, nor where the clocks went back in between."""
    first = datetime(2026, 10, 23, 6, 58, tzinfo=UTC)
    sweeps = [first, first + DAY + HOUR / 4, first + 2 * DAY + HOUR, first + 3 * DAY + HOUR]
    begin = first.replace(minute=minute) + HOUR
    assert set(states(silence, sweeps, begin, sweeps[-1] + DAY)) == {"OK"}


@pytest.mark.parametrize("minute", [0, 30, 59])
def test_a_missing_sweep_rings_within_28_hours(silence: dict[str, Any], minute: int):
    last = MADE.replace(hour=7, minute=minute)
    assert state(silence, [last], last + DAY + HOUR) == "OK"
    assert state(silence, [last], last + 28 * HOUR) == "ALARM"


def test_a_first_sweep_shows_after_the_full_hour_and_within_two(silence: dict[str, Any]):
    """Hence the page has the mail tried by hand, and promises this OK for later."""
    swept = MADE + timedelta(minutes=5)
    assert state(silence, [], MADE) == "ALARM"
    assert state(silence, [swept], swept + timedelta(minutes=30)) == "ALARM"
    assert state(silence, [swept], swept + 2 * HOUR) == "OK"
    assert "Allow two hours" in (sam.ROOT / "docs/deploy-aws.md").read_text()


def test_sweeps_of_another_stack_do_not_count(silence: dict[str, Any]):
    assert {"Name": "stack", "Value": {"Ref": "AWS::StackName"}} in silence["Dimensions"]
