"""The page as text: nothing in it can run or fetch anything, and its figures are those of the report."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser
from typing import Any

import pytest

from fakes.builders import DAY, NOW, activity, heartbeat, series
from fakes.sample_reports import ACCOUNTS, estate, finding, hostile, many, report
from reaper.case import Coverage
from reaper.evidence import MAX_SLOTS, summarize
from reaper.finding import Report
from reaper.model import Confidence, Mode, Role, State, Status
from reaper.report import coverage_map, html

HOSTILE = [
    pytest.param("</script><script>alert(1)</script>", id="a script"),
    pytest.param("<!--<script>", id="a comment that swallows the rest"),
    pytest.param('"><img src=x onerror=alert(1)>', id="out of an attribute"),
    pytest.param("' onmouseover='alert(1)", id="an attribute of its own"),
    pytest.param("=cmd|' /C calc'!A0", id="a formula"),
    pytest.param("{{ 7 * 7 }}{% raw %}", id="a template"),
    pytest.param("a\r\nBcc: all@example.com", id="a header"),
    pytest.param("\u202egnp.exe\u2066", id="the other way round"),
    pytest.param("a\u2028b\u2029c\x00d\x1b[31m\ud800", id="what no line may hold"),
    pytest.param("x" * 10_000, id="ten thousand letters"),
    pytest.param("]]>\\u003c/script>&lt;b&gt;", id="escaped before"),
]


class Page(HTMLParser):
    """The page as a parser sees it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inside: dict[str, str] = {}
        self.words: list[str] = []
        self.open = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.tags.append((tag, attributes))
        self.open = f"{tag}#{attributes['id']}" if tag == "script" and "id" in attributes else tag

    def handle_endtag(self, tag: str) -> None:
        self.open = ""

    def handle_data(self, data: str) -> None:
        if self.open.startswith(("script", "style")):
            self.inside[self.open] = self.inside.get(self.open, "") + data
        else:
            self.words.append(data)

    @property
    def data(self) -> dict[str, Any]:
        """What the page's own script reads, one dict per row with its words put in."""
        data = json.loads(self.inside["script#data"])
        return data | {"rows": [dict(zip(data["fields"], row, strict=True)) for row in data["rows"]]}

    @property
    def shown(self) -> str:
        """What a person reads before any script has run."""
        return " ".join(" ".join(self.words).split())


def page(of: Report) -> Page:
    return Page(html.render(of))


def test_the_security_policy_allows_only_this_style_and_script():
    parsed_page = page(report())
    policy = next(
        a["content"] for tag, a in parsed_page.tags if tag == "meta" and a.get("http-equiv") == "Content-Security-Policy"
    )
    for name in ("style", "script"):
        digest = b64encode(sha256(parsed_page.inside[name].encode()).digest()).decode()
        assert f"{name}-src 'sha256-{digest}'" in (policy or "")
    assert (policy or "").startswith("default-src 'none';")
    assert "unsafe" not in (policy or "")


def test_the_security_policy_comes_before_what_it_governs():
    names = [tag for tag, _ in page(report()).tags]
    assert names.index("meta") < names.index("style") < names.index("script")


def test_nothing_is_fetched_from_anywhere():
    parsed_page = page(report())
    for tag, attributes in parsed_page.tags:
        for name in ("src", "href", "action", "srcset", "poster", "data"):
            assert (attributes.get(name) or "#").startswith(("#", "data:image/svg+xml,")), (tag, attributes)
        assert not [n for n in attributes if n.startswith("on") or n == "style"], (
            "no handler and no style outside the hashed ones"
        )
    assert not re.search(
        r"@import|url\((?!#)|fetch\(|XMLHttpRequest|WebSocket|innerHTML|eval\(",
        parsed_page.inside["script"] + parsed_page.inside["style"],
    )


def test_the_money_at_the_top_is_that_of_the_report():
    of = report()
    sums, shown = of.totals, page(of).shown
    assert f"${sums.idle_usd_per_month:,.0f} a month" in shown
    assert "13 idle resources cost $" in shown
    assert f"${sums.wasted_usd:,.0f} wasted since Sat 7 Nov" in shown
    assert not re.search("hour", shown.split("All resources")[0])
    assert "1 idle resource not counted: price unknown" in shown


def test_an_unknown_price_is_never_shown_as_nothing():
    shown = page(report((finding(usd=None),))).shown
    assert "1 idle resource, price unknown" in shown
    row = page(report((finding(usd=None),))).data["rows"][0]
    assert (row["usd"], row["wasted"]) == (None, None)


def test_nothing_is_idle_needs_complete_coverage():
    quiet = (finding(State.ACTIVE),)
    assert "Nothing is idle" in page(report(quiet, coverage=())).shown
    assert "No idle resources found; coverage is incomplete" in page(report(quiet)).shown


def test_an_empty_report_still_makes_a_page():
    parsed_page = page(report((), coverage=()))
    assert parsed_page.data["rows"] == []
    assert "Nothing was checked." in parsed_page.shown


@pytest.mark.parametrize(("mode", "is_said"), [(Mode.AUDIT, True), (Mode.NOTIFY, False), (Mode.ENFORCE, False)])
def test_only_an_audit_says_that_nothing_was_changed(mode: Mode, is_said: bool):
    of = report()
    assert ("nothing was changed" in page(replace(of, run=replace(of.run, mode=mode))).shown) is is_said


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_change_neither_the_elements_nor_the_data(text: str):
    tame, wild = page(hostile("tame")), page(hostile(text))
    assert [tag for tag, _ in wild.tags] == [tag for tag, _ in tame.tags]
    assert [sorted(attributes) for _, attributes in wild.tags] == [sorted(attributes) for _, attributes in tame.tags]
    assert wild.inside["script"] == tame.inside["script"]
    wild.text.encode()


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_leave_no_dangerous_character_in_the_data(text: str):
    script = page(hostile(text)).inside["script#data"]
    assert script.isascii()
    assert not set("<>&") & set(script)
    words = json.loads(script)["words"]
    assert all(word.isprintable() and len(word) <= html.MAX_LONG_TEXT for word in words)


def test_ten_thousand_letters_are_cut_everywhere():
    assert len(html.render(hostile("x" * 10_000))) < len(html.render(hostile("x"))) + 20_000


def test_every_finding_is_in_the_data_and_its_words_read_as_they_were():
    data = page(report()).data
    words, first = data["words"], data["rows"][0]
    assert len(data["rows"]) == 48
    assert words[first["name"]] == "llm-ranker-a100"
    assert words[first["id"]] == f"arn:aws:sagemaker:us-east-1:{ACCOUNTS['aws']}:endpoint/llm-ranker-a100"
    assert words[first["owner"]] == "mara.lindt@example.com"
    assert {words[k]: words[v] for k, v in first["tags"]}["cost-center"] == "4400"
    assert first["usd"] == 37.688
    assert words[first["command"]].startswith("aws sagemaker add-tags --region us-east-1")


def test_idle_by_cost_then_unknown_without_price_last():
    arranged = html.sorted_for_page(estate())
    states = [f.case.verdict.state for f in arranged]
    assert [s for i, s in enumerate(states) if i == 0 or states[i - 1] is not s] == list(html.STATE_ORDER)
    prices = [f.case.price.usd_per_hour if f.case.price else None for f in arranged[:13]]
    assert prices[-1] is None
    assert prices[:-1] == sorted((p for p in prices if p), reverse=True)


def test_unreadable_tags_differ_from_no_tags():
    rows = page(report((finding(tags=None), finding(name="bare", tags={})))).data["rows"]
    assert {tuple(row["tags"]) if row["tags"] is not None else None for row in rows} == {None, ()}


def test_without_a_script_only_idle_and_unknown_are_listed():
    text = page(report()).shown
    assert "llm-ranker-a100" in text
    assert "CPUUtilization stopped 2 days 6 hours ago, so silence proves nothing" in text
    assert "shows use 20 minutes ago" not in text


@pytest.mark.parametrize(
    ("status", "message"),
    [
        pytest.param(Status.DENIED, "Nothing could be read. The gaps are listed below.", id="nothing was read"),
        pytest.param(Status.PARTIAL, "No idle or unknown resources found; coverage is incomplete.", id="read in part"),
        pytest.param(Status.OK, "Nothing is idle or unknown.", id="all was read"),
    ],
)
def test_without_a_script_an_empty_table_says_no_more_than_was_read(status: Status, message: str):
    row = Coverage(cloud="aws", account="1", region="r", kind="k", status=status, missing="a:B", error="no")
    words = page(report((), coverage=(row,))).shown
    assert message in words
    assert words.count("Nothing is idle or unknown") == (status is Status.OK)


def test_without_a_script_a_long_list_says_how_much_is_left_out():
    parsed_page = page(report(tuple(many(1_000, (State.IDLE,)))))
    assert "The first 200 idle and unknown; 800 more are in the JSON report." in parsed_page.shown
    assert len([tag for tag, _ in parsed_page.tags if tag == "tr"]) < 230


def test_a_large_report_stays_small():
    assert len(html.render(report(tuple(many(10_000))))) < 6_000_000


def test_a_missing_permission_is_at_the_top_in_list_and_map():
    shown = page(report()).shown
    assert "Coverage is incomplete: 3 gaps" in shown
    assert shown.count("sagemaker:ListNotebookInstances") >= 3
    assert "denied 6 found" not in shown.split(" API calls")[0]


def test_each_map_cell_shows_its_worst_status():
    [aws, azure] = coverage_map.coverage_maps(report())
    assert (aws.cloud, len(aws.kinds), len(aws.places), azure.cloud, len(azure.places)) == ("aws", 4, 3, "azure", 1)
    twice = [
        Coverage(cloud="aws", account="1", region="r", kind="k", status=status)
        for status in (Status.OK, Status.DENIED, Status.PARTIAL, Status.OK)
    ]
    [one] = coverage_map.coverage_maps(report((), coverage=tuple(twice)))
    assert [cell.status for cell in one.places[0].cells if cell] == [Status.DENIED]


def test_places_with_gaps_come_first_complete_ones_fold():
    many_places = tuple(
        Coverage(cloud="aws", account="1", region=f"r{i:02}", kind="k", status=Status.FAILED if i == 39 else Status.OK)
        for i in range(40)
    )
    [coverage] = coverage_map.coverage_maps(report((), coverage=many_places))
    assert coverage.places[0].name == "1 r39"
    assert "15 more targets in aws, all complete" in page(report((), coverage=many_places)).shown


def test_one_problem_in_many_places_is_listed_once():
    denied = tuple(
        Coverage(cloud="aws", account="1", region=f"r{i}", kind="k", status=Status.DENIED, missing="a:B", error="no")
        for i in range(9)
    )
    [gap] = coverage_map.coverage_gaps(report((), coverage=denied))
    assert (gap.places.count("k in 1 r"), gap.places.endswith("; and 3 more")) == (6, True)
    assert coverage_map.missing_permissions(report((), coverage=denied)) == ["a:B"]


def test_the_charts_add_up_to_the_figure_at_the_top():
    of = report()
    for chart in (html.chart_bars(of, html.kind_text), html.chart_bars(of, html.owner_text)):
        assert sum(group.money.usd_per_hour for group, _, _ in chart) == pytest.approx(of.totals.idle_usd_per_hour, abs=0.01)
        assert sum(group.money.count for group, _, _ in chart) == 13
        assert max(proven + likely for _, proven, likely in chart) == pytest.approx(100)


def test_groups_without_their_own_bar_share_one():
    of = report(tuple(finding(owner=f"p{i}@example.com", usd=i + 1.0) for i in range(12)))
    groups = [group for group, _, _ in html.chart_bars(of, html.owner_text)]
    assert [group.name for group in groups][-2:] == ["p5@example.com", "5 others"]
    assert (groups[-1].others, groups[-1].money.count) == (5, 5)


def test_a_bar_separates_proven_from_likely():
    of = report((finding(usd=3.0), finding(usd=1.0, confidence=Confidence.LIKELY)))
    [(_, proven, likely)] = html.chart_bars(of, html.owner_text)
    assert (proven, likely) == (75.0, 25.0)


def test_a_series_shows_two_weeks_and_the_least_use():
    shape = summarize(activity({0: 1000.0, 7: 1.0}), with_slots=True).slots
    assert (len(shape), shape[-1], shape[-2], shape[-3]) == (MAX_SLOTS, 100, 1, 0)
    longer = summarize(activity(series=series({700: 5.0}, hours=30 * 24)), with_slots=True)
    assert (longer.slots, longer.peak) == ((0,) * MAX_SLOTS, 5.0)


def test_a_heartbeat_that_missed_one_hour_shows_a_gap():
    beats = dict.fromkeys(range(14 * 24), 1.0)
    del beats[8]
    shape = summarize(heartbeat(series=series(beats)), with_slots=True).slots
    assert (shape[-2], sum(shape)) == (0, MAX_SLOTS - 1)


def test_values_up_to_the_busy_level_are_not_use():
    assert sum(summarize(activity({3: 4.0}, busy_above=5.0), with_slots=True).slots) == 0
    assert summarize(activity({3: float("inf")}), with_slots=True).slots[-1] == 100


def test_series_are_stored_once_and_only_if_drawn():
    assert summarize(activity()).slots == ()
    assert summarize(heartbeat(), with_slots=True).slots is summarize(heartbeat(), with_slots=True).slots


def test_the_page_stores_a_series_as_one_word():
    evidence = (summarize(activity({0: 9.0}), with_slots=True), summarize(heartbeat(), with_slots=True))
    data = page(report((finding(evidence=evidence),))).data
    use, beat = ([*row] for row in data["rows"][0]["evidence"])
    assert data["words"][use[-1]] == "0" * (MAX_SLOTS - 1) + "z"
    assert data["words"][beat[-1]] == "z" * MAX_SLOTS
    assert (use[2], beat[2], use[3]) == (0, 1, 1), f"{Role.ACTIVITY} is 0, {Role.HEARTBEAT} is 1"


def test_the_keep_tag_lasts_a_week():
    assert page(report()).data["keep"] == f"reaper:keep-until={NOW + 7 * DAY:%Y-%m-%d}"
