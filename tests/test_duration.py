from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reaper import duration


@pytest.mark.parametrize(("text", "minutes"), [("30m", 30), ("4h", 240), ("3d", 4320), ("2w", 20160), (" 1h ", 60)])
def test_durations_are_read_as_people_write_them(text: str, minutes: int):
    assert duration.parse_duration(text) == timedelta(minutes=minutes)


@pytest.mark.parametrize("text", ["", "0h", "4", "4 h", "4 hours", "-1h", "1.5h", "PT4H", "٣h"])
def test_anything_else_is_an_error_that_teaches(text: str):
    with pytest.raises(ValueError, match="expected a duration such as 30m, 4h, 3d or 2w"):
        duration.parse_duration(text)


@pytest.mark.parametrize("text", ["456d", "66w", "9999999d", "9" * 5000 + "m"])
def test_what_is_too_long_is_called_too_long(text: str):
    with pytest.raises(ValueError, match="expected at most 455d, metrics are not kept longer"):
        duration.parse_duration(text)


def test_a_length_can_be_limited_further():
    assert duration.parse_duration("1w", timedelta(days=7)) == timedelta(days=7)
    with pytest.raises(ValueError, match=r"^expected at most 7d$"):
        duration.parse_duration("8d", timedelta(days=7))


@given(st.integers(1, 65), st.sampled_from("mhdw"))
def test_what_is_spelled_reads_back(count: int, unit: str):
    length = duration.parse_duration(f"{count}{unit}")
    assert duration.parse_duration(duration.policy_duration(length)) == length


@pytest.mark.parametrize(
    ("length", "sentence", "cell"),
    [
        (timedelta(0), "0 minutes", "0m"),
        (timedelta(minutes=1), "1 minute", "1m"),
        (timedelta(minutes=45), "45 minutes", "45m"),
        (timedelta(hours=7, minutes=20), "7 hours 20 minutes", "7h 20m"),
        (timedelta(days=9, hours=4, minutes=59), "9 days 4 hours", "9d 4h"),
        (timedelta(days=2), "2 days", "2d"),
        (timedelta(days=1, minutes=5), "1 day", "1d"),
    ],
)
def test_durations_have_at_most_two_units_in_sentences_and_cells(length: timedelta, sentence: str, cell: str):
    assert (duration.format_duration(length), duration.short_duration(length)) == (sentence, cell)
