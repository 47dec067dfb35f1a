"""Messages as blocks: one that is too long loses the lowest rank from the end, says so, and keeps its commands and links."""

from __future__ import annotations

import pytest

from reaper.notices.blocks import LISTS, OVERVIEW, STAYS, Block, Line, Look, Paragraph, Row, Section
from reaper.notices.render import MAX_HTML, MAX_TEXT, render_mail

FOOT = Paragraph(lines=[Line(text="ML Idle Reaper")], form="foot")
RELEASE = Section(title="On hold", count=1, rows=[Row(name="churn")], note="allow with {}", codes=["reaper release --all"])


def section(title: str, rank: int, size: int = 400) -> Section:
    return Section(title=title, rows=[Row(name=f"{title} {n}", rest="x" * 100) for n in range(size)], rank=rank)


def test_what_fits_is_whole():
    text, html = render_mail("s", [RELEASE, section("costs", OVERVIEW, 9), section("idle", LISTS, 9), FOOT])
    assert "left out" not in text + html


def test_the_lowest_rank_goes_first_and_from_the_end():
    blocks: list[Block] = [RELEASE, section("idle", LISTS), section("costs", OVERVIEW, 9), section("unknown", LISTS), FOOT]
    text, html = render_mail("s", blocks)
    assert "left out" not in text, "plain text has more room"
    assert len(html.encode()) <= MAX_HTML
    assert ("costs 8" in html, "idle 0" in html, "unknown 0" in html) == (True, False, False)
    assert "Too long for one mail: 2 sections left out. The report has them." in html
    assert "reaper release --all" in html


def test_nothing_goes_that_has_a_command_however_long_the_mail():
    whole = [section("holds", STAYS, 4_000), RELEASE, section("idle", LISTS, 1), FOOT]
    text, html = render_mail("s", whole)
    assert len(text.encode()) > MAX_TEXT
    for body in (text, html):
        assert ("holds 3999" in body, "reaper release --all" in body, "idle 0" in body) == (True, True, False)
        assert "1 section left out" in body


@pytest.mark.parametrize(
    ("label", "text"),
    [("To undo this:", "To undo this: reaper undo"), ("To undo this, run", "To undo this, run `reaper undo`")],
)
def test_a_command_within_a_sentence_stands_between_backticks(label: str, text: str):
    line = Line(label=label, text="reaper undo", look=Look.CODE)
    plain, html = render_mail("s", [Paragraph(lines=[line]), FOOT])
    assert plain.startswith(f"{text}\n")
    assert f"{label}<br>" in html


def test_a_section_without_rows_is_not_shown():
    text, html = render_mail("s", [Section(title="Due", rows=[]), FOOT])
    assert "due" not in text.lower() + html.partition("</style>")[2].lower()
