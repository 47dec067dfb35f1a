"""Tables for a terminal: names stay distinct when they are cut, and lines break between words."""

from __future__ import annotations

import re

import pytest
from rich.text import Text

from reaper.report import table

TEAMS = [f"recommendation-service-{team}-production" for team in ("blue", "green", "grey", "red", "b", "a-very-long-one-indeed")]


@pytest.mark.parametrize("room", [4, 8, 12, 20, 40])
@pytest.mark.parametrize(
    "names",
    [
        pytest.param(TEAMS, id="the difference is in the middle"),
        pytest.param([f"{n:02d}-the-same-name" for n in range(40)], id="at the beginning"),
        pytest.param([f"the-same-name-{n:02d}" for n in range(40)], id="at the end"),
        pytest.param(["the-same-name", "the-same-name", "another-name-of-these"], id="two of one name"),
    ],
)
def test_names_that_differ_never_look_the_same(names: list[str], room: int):
    cuts = table.distinct_cuts(names, room)
    assert len(set(cuts)) == len(set(names))
    for name, cut in zip(names, cuts, strict=True):
        assert re.fullmatch(".+".join(map(re.escape, cut.split("…"))), name)


def test_names_are_cut_no_more_than_the_room_asks_for():
    assert table.distinct_cuts(["short", "a-name-that-is-too-long"], 11) == ["short", "a-nam…-long"]


ROWS = [{"action": "stop", "resource": "a" * 30, "kind": "endpoint", "owner": "lee@example.com", "why": f"because {'b' * 50} c"}]
STAGES = (("resource", 10), ("owner", 0))


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 200, table.WIDE])
def test_reasons_and_dropped_columns_are_whole_at_every_width(width: int):
    words = " ".join(line.plain for line in table.table_lines(ROWS, STAGES, width)).replace(",", "").split()
    assert {"lee@example.com", "endpoint", "b" * 50} <= set(words)


def test_a_cut_name_comes_with_a_hint_and_a_whole_one_without():
    narrow, wide = (" ".join(line.plain for line in table.table_lines(ROWS, STAGES, width)) for width in (30, table.WIDE))
    assert ("--wide" in narrow, "…" in wide, "--wide" in wide) == (True, False, False)
    assert len(list(table.table_lines(ROWS, STAGES, table.WIDE))) == 2


def test_styles_survive_a_wrapped_line():
    lines = list(table.wrap(Text.assemble(("red words", "red"), " and others"), 10))
    assert [line.plain for line in lines] == ["red words", "and others"]
    assert lines[0].spans
    assert not lines[1].spans
