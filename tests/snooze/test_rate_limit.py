from __future__ import annotations

from datetime import timedelta

from fakes.builders import NOW
from reaper.snooze.handler import RateLimiter

SECOND = timedelta(seconds=1)


def test_a_burst_is_allowed_and_then_the_steady_rate():
    meter = RateLimiter(burst=3, per_second=0.5)
    assert [meter.allow("a", NOW) for _ in range(5)] == [True, True, True, False, False]
    assert [meter.allow("a", NOW + n * SECOND) for n in (1, 2, 3, 4)] == [False, True, False, True]


def test_waiting_never_allows_more_than_one_burst():
    meter = RateLimiter(burst=2, per_second=1)
    later = NOW + timedelta(days=1)
    assert [meter.allow("a", later) for _ in range(3)] == [True, True, False]


def test_each_name_has_its_own_rate_limit():
    meter = RateLimiter(burst=1, per_second=0)
    assert [meter.allow(name, NOW) for name in ("a", "b", "a")] == [True, True, False]


def test_a_clock_that_goes_back_refills_nothing():
    meter = RateLimiter(burst=1, per_second=1)
    assert meter.allow("a", NOW)
    assert not meter.allow("a", NOW - timedelta(hours=1))
    assert not meter.allow("a", NOW)


def test_the_number_of_buckets_is_bounded():
    meter = RateLimiter(burst=1, per_second=0, max_names=10)
    for number in range(1000):
        meter.allow(str(number), NOW)
    assert len(meter._buckets) == 10
