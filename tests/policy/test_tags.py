from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.builders import NOW
from reaper.model import Ceiling
from reaper.policy.tags import TAG_DOCS, read_tags


@pytest.mark.parametrize(
    "tags",
    [
        {"reaper:keep": "true"},
        {"reaper:keep": ""},
        {"reaper:keep": "yes please"},
        {"Reaper:Keep": "TRUE"},
        {" reaper:keep ": "true"},
        {"reaper:keep-until": "2026-12-01"},
        {"reaper:keep-until": "2026-11-21"},
        {"reaper:keep-until": "2026-11-21T10:18:00+00:00"},
        {"reaper:keep-until": "next tuesday"},
        {"reaper:keep-until": "2026-13-45"},
        {"reaper:keep-until": ""},
        {"reaper:kepp": "true"},
        {"reaper:keepuntil": "2020-01-01"},
        {"reaper_keep": "true"},
        {"reaper-keep": "false"},
        {"reaper/keep": "true"},
        {"reaper.keep": "true"},
        {"reaper keep": "true"},
        {"raeper:keep": "true"},
        {"reper:keep": "true"},
        {"ReaperKeep": "true"},
        {"reaper=keep": "true"},
        {"reaper+keep": "true"},
        {"reper:kepe": "true"},
        {"idle-reaper:keep": "true"},
        {"reaper:": "x"},
        {"reaper:something-else": "x"},
        {"reaper:action": "ignore"},
        {"reaper:action": "stpo"},
        {"reaper:idle-after": "4 hours"},
        {"reaper:idle-after": "0h"},
        {"reaper:owner": "jane"},
        {"reaper:hours": "mon-fri"},
        {"reaper:hours": "mon-fri 07:00-21:00 Mars/Olympus"},
        {"reaper:keep": "false", "Reaper:Keep": "true"},
    ],
    ids=str,
)
def test_each_protecting_tag_protects(tags: dict[str, str]):
    assert read_tags(tags, NOW).protected_because


@pytest.mark.parametrize(
    "tags",
    [
        {},
        {"reaper:keep": "false"},
        {"reaper:keep-until": "2026-11-19"},
        {"reaper:keep-until": "2026-11-21T10:16:59Z"},
        {"reaper:owner": "jane@example.com"},
        {"reaper:action": "stop"},
        {"reaper:idle-after": "4h"},
        {"reaper:hours": "mon-fri 07:00-21:00 Europe/Berlin"},
        {"team": "x", "owner": "y", "keep": "true", "repo:owner": "z", "aws:cloudformation:stack-name": "s", "keeper": "k"},
    ],
    ids=str,
)
def test_unrelated_or_expired_tags_do_not_protect(tags: dict[str, str]):
    assert read_tags(tags, NOW).protected_because is None


def test_an_unreadable_tag_value_names_key_and_expectation():
    reason = read_tags({"reaper:keep-until": "next tuesday"}, NOW).protected_because
    assert (
        reason
        == "tag reaper:keep-until='next tuesday' can't be read (expected an ISO date or datetime such as 2026-12-31), so the resource is protected"
    )


def test_a_misspelled_tag_key_gets_a_suggestion():
    assert "did you mean reaper:keep?" in (read_tags({"reaper:kepp": "true"}, NOW).protected_because or "")


def test_a_keep_until_date_lasts_until_it_is_over_everywhere():
    tags = {"reaper:keep-until": "2026-11-20"}
    over = datetime(2026, 11, 21, 12, tzinfo=UTC)
    assert read_tags(tags, over - timedelta(seconds=1)).protected_because
    assert read_tags(tags, over).protected_because is None


def test_the_gentler_of_two_spellings_of_a_tag_applies():
    wishes = read_tags(
        {"reaper:action": "stop", "Reaper:Action": "notify", "reaper:idle-after": "2h", "REAPER:IDLE-AFTER": "9h"}, NOW
    )
    assert wishes.action is Ceiling.NOTIFY
    assert wishes.idle_after == timedelta(hours=9)


@given(st.text(max_size=40), st.sampled_from(sorted(set(TAG_DOCS) - {"reaper:owner"})))
def test_every_reaper_tag_value_is_read_or_protects(value: str, key: str):
    wishes = read_tags({key: value}, NOW)
    understood = wishes.action or wishes.idle_after or wishes.hours
    assert wishes.protected_because or understood or value.strip().lower() == "false" or _past(value)


def _past(value: str) -> bool:
    try:
        return datetime.fromisoformat(value.strip()).replace(tzinfo=UTC) < NOW
    except ValueError:
        return False


@given(st.text(max_size=30))
def test_every_unknown_reaper_tag_protects(rest: str):
    key = f"reaper:{rest}"
    if key.strip().lower() not in TAG_DOCS:
        assert read_tags({key: "x"}, NOW).protected_because


def test_two_different_hours_tags_protect():
    once, twice = "mon-fri 07:00-21:00 UTC", "mon-fri 09:00-17:00 UTC"
    assert read_tags({"reaper:hours": once, "Reaper:Hours": once}, NOW).protected_because is None
    assert "the tag is there twice, in different case, with different hours" in (
        read_tags({"reaper:hours": once, "Reaper:Hours": twice}, NOW).protected_because or ""
    )
