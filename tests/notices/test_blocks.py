"""Messages as blocks: one that is too long loses the lowest rank from the end, says so, and keeps its commands, links and dates."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from fakes.mails import compose_summary, owner_notices
from fakes.sample_findings import finding, occasion, report
from reaper.model import StepName
from reaper.notices.blocks import LISTS, OVERVIEW, STAYS, Block, Card, Entry, Line, Look, Paragraph, Row, Section
from reaper.notices.message import MAX_SHORT_SUBJECT, Message
from reaper.notices.render import MAX_HTML, MAX_TEXT, card_payload, render_mail

DATE = "Tue 24 Nov 2026, 10:17 UTC"
FACT = Line(label="Evidence:", text="y" * 300)
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


# --- cards and subjects


def card(rank: int, size: int) -> Message:
    next_line = Line(label="Next:", text=f"It will be stopped on or after {DATE}.")
    entries = [Entry(number=n, name=f"churn-{n}", about="x" * 300, lines=[FACT, FACT, next_line], rank=rank) for n in range(size)]
    notes = ["Anyone here can use the Keep it link.", "To keep a resource, add the tag reaper:keep-until=2026-11-28."]
    whole = Card(lines=["Owner: jo@example.com."], entries=entries, notes=notes, keep="https://keep.example.com/keep?t=x")
    return Message(to="jo@example.com", subject="s", text="t", html="h", card=whole)


@pytest.mark.parametrize("service", ["slack", "teams"])
def test_a_card_loses_entries_that_may_go_and_keeps_its_link(service: str):
    written = json.dumps(card_payload(card(LISTS, 120), service), ensure_ascii=False)
    [left_out] = re.findall(r"and (\d+) more; the report lists all", written)
    assert int(left_out) == 120 - len(set(re.findall(r"churn-\d+", written))) > 0
    for part in ("Owner: jo@example.com.", "https://keep.example.com/keep?t=x", "reaper:keep-until=2026-11-28"):
        assert part in written


@pytest.mark.parametrize("service", ["slack", "teams"])
def test_entries_that_stay_are_shortened_but_keep_their_dates(service: str):
    written = json.dumps(card_payload(card(STAYS, 30), service), ensure_ascii=False)
    assert (written.count(DATE), "left out" in written, "more;" in written) == (30, False, False)
    assert card_payload(card(STAYS, 120), service) is None, (
        "no card is better than one without a resource that counts as notified"
    )


def test_a_short_subject_keeps_what_happens_and_when():
    [message] = owner_notices([finding("training-cluster-of-the-vision-team", usd=1234.56)], occasion())
    assert len(message.short_subject) <= MAX_SHORT_SUBJECT < len(message.subject)
    assert "from Tue 24 Nov" in message.short_subject


def test_a_summary_of_everything_fits_and_keeps_its_commands():
    text = "\U0001f480" * 120
    held = finding("held", move=StepName.HOLD)
    held = replace(held, step=replace(held.step, because="21 actions exceed max_acts: 20"))
    found = [finding(f"{n}-{text}", address=f"owner{n}@example.com", because=text) for n in range(60)]
    message = compose_summary(report(held, *found), occasion(), failures=[text] * 50)
    assert len(message.html.encode()) <= 102_000
    assert len(message.text.encode()) <= MAX_TEXT
    for body in (message.text, message.html):
        assert "reaper release --account" in body
