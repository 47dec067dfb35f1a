"""The HTML report in a real browser: filtered, sorted, opened, printed, with ten thousand rows, without a script, with hostile names."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fakes.builders import END, HOUR, SPAN, activity, heartbeat
from fakes.sample_reports import RUN, coverage, estate, finding, hostile, many, report
from reaper.evidence import summarize
from reaper.finding import Outcome, Report, Step
from reaper.model import Mode, Result, State, Status, StepName, Target
from reaper.observation import Series
from reaper.report import html

sync = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: the report was NOT tried in a browser")
axe = pytest.importorskip(
    "axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed: the report was NOT checked with axe"
)
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium on this machine (apt-get install chromium): the report was NOT tried in a browser"
)

IMAGES = Path(__file__).parents[2] / "docs/images"
FLAGS = ("--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run")
ROOT = ("--no-sandbox",) if os.geteuid() == 0 else ()
WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
LINES = "#resources > tbody > tr[data-place]"
HOSTILE = {
    "script": "</script><script>alert(1)</script>",
    "image": "<img src=x onerror=alert(1)>",
    "attribute": "'\" onfocus=alert(1) autofocus x='",
    "long": "x" * 10_000,
    "reversed": "\u202egnp.exe",
}
EMPTY = Series(start=END - SPAN * HOUR, step=HOUR)
Open = Callable[..., Any]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=[*FLAGS, *ROOT])
        yield chromium
        chromium.close()


@pytest.fixture
def show(browser: Any, tmp_path: Path) -> Iterator[Open]:
    """Opens a report from its file; whatever the page asks for, complains of or pops up makes the test fail at the end."""
    contexts, messages = [], []

    def opened(of: Report, where: str = "", **context: Any) -> Any:
        (tmp_path / "report.html").write_text(html.render(of), encoding="utf-8")
        contexts.append(browser.new_context(**{"viewport": WIDE, "locale": "de-DE", **context}))
        tab = contexts[-1].new_page()
        tab.on("console", lambda message: messages.append(message.text))
        tab.on("pageerror", lambda error: messages.append(str(error)))
        tab.on("dialog", lambda dialog: messages.append(dialog.message))
        tab.on("request", lambda request: None if request.url.startswith(("file:", "data:")) else messages.append(request.url))
        tab.goto((tmp_path / "report.html").as_uri() + where)
        return tab

    yield opened
    for context in contexts:
        context.close()
    assert messages == []


def names(tab: Any) -> list[str]:
    """The resources on this page of the table, in their order."""
    return tab.locator(f"{LINES} .name").all_inner_texts()


def column(tab: Any, place: int) -> list[str]:
    return [text.split("\n")[0] for text in tab.locator(f"{LINES} > :nth-child({place})").all_inner_texts()]


def complaints(tab: Any) -> list[str]:
    """What axe finds wrong, in words."""
    violations = axe.Axe().run(tab).response["violations"]
    return [f"{v['id']}: {v['help']}: {v['nodes'][0]['html'][:200]}" for v in violations]


def picture(tab: Any, name: str, height: int) -> None:
    """For the docs, only when asked for: pixels differ from machine to machine."""
    if os.environ.get("PICTURES"):
        tab.evaluate("scrollTo({top: 0, behavior: 'instant'})")
        tab.set_viewport_size({"width": tab.viewport_size["width"], "height": height})
        tab.screenshot(path=IMAGES / f"report-{name}.png")


def test_the_page_opens_with_the_most_expensive(show: Open):
    tab = show(report())
    assert names(tab)[:3] == ["llm-ranker-a100", "recsys-shadow", "nightly-train-v100"]
    assert column(tab, 2) == ["idle"] * 13 + ["unknown"] * 3 + ["young"] * 6 + ["active"] * 20 + ["exempt"] * 6
    assert tab.get_by_role("status").inner_text() == "48 of 48, idle: $63,741 a month"


def test_state_filters_add_up_and_clear_one_by_one(show: Open):
    tab = show(report())
    tab.get_by_role("button", name="unknown 3").click()
    assert set(column(tab, 2)) == {"unknown"}
    tab.get_by_role("button", name="idle 13").click()
    assert tab.get_by_role("status").inner_text() == "16 of 48, idle: $63,741 a month"
    tab.get_by_role("button", name="unknown 3").click()
    assert tab.get_by_role("button", name="idle 13").get_attribute("aria-pressed") == "true"


def test_filters_narrow_the_table_and_clear_resets_it(show: Open):
    tab = show(report())
    tab.get_by_label("Kind").select_option("sagemaker-endpoint")
    tab.get_by_label("Owner").select_option("jo.martin@example.com")
    assert names(tab) == ["recsys-shadow", "churn-scoring-staging", "pricing-model-b"]
    tab.get_by_label("Region").select_option("eu-west-1")
    assert names(tab) == ["churn-scoring-staging", "pricing-model-b"]
    tab.get_by_label("Search").fill("PRICING cost-center=4477")
    assert names(tab) == ["pricing-model-b"]
    tab.get_by_label("Search").fill("no such thing")
    assert tab.inner_text("#resources tbody").strip() == "No resources match these filters."
    tab.get_by_role("button", name="Clear").click()
    assert tab.get_by_role("status").inner_text().startswith("48 of 48")


def test_a_bar_shows_as_many_rows_as_it_counts(show: Open):
    tab = show(report())
    bars = tab.locator("button[data-by]")
    assert bars.count() == 15
    for bar in bars.all():
        bar.click()
        assert len(names(tab)) == int(bar.locator(".label small").inner_text())
        assert (set(column(tab, 2)), bar.get_attribute("aria-pressed")) == ({"idle"}, "true")
    bar.click()
    assert len(names(tab)) == 48


def test_a_bar_replaces_other_filters(show: Open):
    tab = show(report())
    tab.get_by_label("Region").select_option("us-east-1")
    tab.get_by_label("Search").fill("recsys")
    tab.get_by_role("button", name="no owner 1 $4,283").click()
    assert (names(tab), tab.get_by_label("Owner").input_value()) == (["vision-labeling"], "no owner")
    tab.get_by_role("button", name="active 0").click()
    assert tab.locator("button[data-by][aria-pressed=true]").count() == 0, "it shows more than the bar says"


def test_a_bar_scrolls_to_its_rows_on_a_small_screen(show: Open):
    tab = show(report(), viewport=NARROW)
    tab.get_by_role("button", name="no owner 1 $4,283").click()
    sync.expect(tab.locator("#all")).to_be_in_viewport()


def test_every_filter_counts_its_rows(show: Open):
    tab = show(report())
    tab.get_by_label("Kind").select_option("sagemaker-notebook")
    chips = tab.locator(".chip").all_inner_texts()
    assert chips[:2] == ["idle 2", "unknown 0"]
    assert sum(int(text.split()[1]) for text in chips) == len(names(tab)) == 2
    regions = {"us-east-1 (1)", "eu-west-1 (1)", "westeurope (0)", "northeurope (0)"}
    assert set(tab.locator("#region option").all_inner_texts()[1:]) == regions
    assert "sagemaker-notebook (2)" in tab.locator("#kind option").all_inner_texts()
    tab.get_by_role("button", name="unknown 0").click()
    assert tab.locator(".chip").all_inner_texts() == chips, "a chip counts its own state, whichever is chosen"
    assert "sagemaker-endpoint (2)" in tab.locator("#kind option").all_inner_texts()


@pytest.mark.parametrize(
    ("step", "outcome", "mode", "expected_text"),
    [
        pytest.param(StepName.NONE, Result.PLANNED, Mode.AUDIT, "Next nothing", id="nothing to do"),
        pytest.param(StepName.STOP, Result.PLANNED, Mode.AUDIT, "Next would stop", id="an audit would"),
        pytest.param(
            StepName.STOP, Result.PLANNED, Mode.ANNOUNCE, "Next stop: due, waiting for `reaper apply`", id="waits for apply"
        ),
        pytest.param(
            StepName.WARN, Result.PLANNED, Mode.NOTIFY, "Next notify the owner, but not in this run", id="nobody to tell"
        ),
        pytest.param(StepName.WARN, Result.DONE, Mode.NOTIFY, "Done owner notified", id="told"),
        pytest.param(StepName.STOP, Result.DONE, Mode.ENFORCE, "Done scaled in", id="acted"),
        pytest.param(StepName.STOP, Result.FAILED, Mode.ENFORCE, "Failed stop", id="failed"),
        pytest.param(StepName.HOLD, Result.PLANNED, Mode.ENFORCE, "On hold until a person releases it", id="over a limit"),
    ],
)
def test_one_line_shows_the_step_and_its_outcome(show: Open, step: StepName, outcome: Result, mode: Mode, expected_text: str):
    item = replace(
        finding(), step=Step(name=step, because="this is why"), outcome=Outcome(result=outcome, error="and this happened")
    )
    tab = show(report((item,), run=replace(RUN, mode=mode)))
    tab.locator(".open").click()
    planned = {
        "Done owner notified": ["A channel accepted the mail to jo@example.com."],
        "Done scaled in": [],
    }.get(expected_text, ["This is why."])
    assert tab.locator(".facts dl").first.inner_text().split("\nRule")[0].split("\n") == [
        *expected_text.replace(" ", "\n", 2 if expected_text.startswith("On") else 1).replace("On\n", "On ").split("\n"),
        *planned,
        "And this happened.",
    ]


@pytest.mark.parametrize("width", [390, 700], ids=["a phone", "700 px"])
def test_a_narrow_screen_shows_and_sorts_wasted_money(show: Open, width: int):
    tab = show(report(), viewport={"width": width, "height": 844})
    head = tab.locator("th[data-sort=wasted]")
    assert head.is_visible()
    head.get_by_role("button").click()
    assert column(tab, 8)[0] == "$5,789"
    assert tab.locator(f"{LINES} > :nth-child(8)").first.is_visible()
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    wide = tab.locator(".wide").first
    assert wide.evaluate("e => e.scrollWidth <= e.clientWidth"), "no figure is out of sight"
    tab.get_by_role("button", name="llm-ranker-a100", exact=True).click()
    shown = tab.locator(".detail").inner_text()
    assert all(text in shown for text in ("6 days 9 hours", "$5,789", "mara.lindt@example.com"))


def test_a_phone_without_scripts_shows_duration_and_owner(show: Open):
    tab = show(report(), viewport=NARROW, java_script_enabled=False)
    row = tab.locator("#resources tbody tr").first
    assert "Idle for 6 days 9 hours. Owner: mara.lindt@example.com" in row.inner_text()
    assert "$5,789" in row.inner_text()


def test_a_subscription_is_named_and_found_by_id(show: Open):
    sub = "22222222-2222-2222-2222-222222222222"
    target = Target(cloud="azure", account=sub, account_name="Planning")
    rows = tuple(replace(row, account=sub, account_name="Planning") for row in coverage() if row.cloud == "azure")
    tab = show(report((finding(target=target, region="eastus"), finding(name="other")), coverage=rows))
    assert tab.locator(f"{LINES} > :nth-child(3) small").first.inner_text() == "Planning"
    assert "Planning\n" + sub in tab.locator(".map tbody th").first.inner_text()
    tab.get_by_label("Search").fill(sub)
    tab.locator(".open").click()
    assert f"azure, Planning ({sub}), eastus" in tab.locator(".detail").inner_text()
    tab.get_by_label("Search").fill("planning")
    assert len(names(tab)) == 1


def test_the_last_page_by_keyboard_keeps_the_focus(show: Open):
    tab = show(report(tuple(many(60))))
    tab.get_by_role("button", name="Next").focus()
    tab.keyboard.press("Enter")
    assert tab.evaluate("document.activeElement.textContent") == "Previous"
    tab.keyboard.press("Enter")
    assert tab.evaluate("document.activeElement.textContent") == "Next"


def test_a_column_sorts_both_ways_then_not_at_all(show: Open):
    tab = show(report())
    head = tab.locator("th[data-sort=usd]")
    tab.get_by_role("button", name="idle 13").click()
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    assert column(tab, 7)[0] == "$27,512"
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert (column(tab, 7)[0], column(tab, 7)[-1]) == ("$537", "?"), "what is not known comes last either way"
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "none"
    assert names(tab)[0] == "llm-ranker-a100"


def test_the_keyboard_alone_opens_a_row_and_focus_stays(show: Open):
    tab = show(report())
    tab.get_by_label("Search").focus()
    tab.keyboard.type("churn-scoring")
    button = tab.get_by_role("button", name="churn-scoring-staging", exact=True)
    for _ in range(40):
        if button.evaluate("e => e === document.activeElement"):
            break
        tab.keyboard.press("Tab")
    tab.keyboard.press("Enter")
    assert button.get_attribute("aria-expanded") == "true"
    assert tab.locator(f"#{button.get_attribute('aria-controls')}").is_visible()
    tab.keyboard.press("Enter")
    assert button.get_attribute("aria-expanded") == "false"
    assert tab.locator(".detail").count() == 0
    assert button.evaluate("e => e === document.activeElement")


def test_an_open_row_shows_rule_evidence_and_keep_command(show: Open):
    tab = show(report())
    tab.get_by_role("button", name="churn-scoring-staging", exact=True).click()
    shown = tab.locator(".detail").inner_text()
    for text in (
        "No activity in Invocations for 9 days 4 hours, while CPUUtilization reported every hour.",
        "would notify the owner",
        "defaults",
        "Tag reaper:owner.",
        "$2,056 a month, $2.816 an hour",
        "$622 since Thu 12 Nov",
        "Snapshot, 2026-09-24.",
        "reaper:keep-until=2026-11-28",
        "endpoint/churn-scoring-staging",
        "22 Sep 2026, 10:17 UTC, 60 days ago",
    ):
        assert text in shown
    rows = tab.locator(".proof tbody tr")
    assert [row.split("\t")[0] for row in rows.all_inner_texts()] == ["Invocations", "CPUUtilization"]
    assert tab.locator(".proof svg").nth(1).get_attribute("aria-label") == "heartbeat in 56 of 56 periods of 6 hours"


def test_a_stopped_heartbeat_is_drawn_as_missing(show: Open):
    tab = show(report())
    chart = tab.locator(f"{LINES}:has-text('payments-fraud') svg.spark")
    assert "heartbeat in 47 of 56" in chart.get_attribute("aria-label")
    assert chart.locator(".dead").count() == 1
    assert tab.locator(f"{LINES}:has-text('llm-ranker-a100') .dead").count() == 0


def test_an_empty_signal_is_flat_only_if_complete(show: Open):
    silent, dead, cut = (
        summarize(activity(series=EMPTY)),
        summarize(heartbeat(series=EMPTY)),
        summarize(activity(series=EMPTY, complete=False)),
    )
    tab = show(report((finding(evidence=(silent, dead)), finding(evidence=(cut,), usd=1.0))))
    charts = tab.locator(f"{LINES} svg.spark")
    assert [chart.get_attribute("aria-label") for chart in charts.all()] == ["no use; no heartbeat"]
    assert charts.locator(".dead").count() == 1


def test_a_filtered_page_can_be_shared_by_address(show: Open):
    tab = show(report())
    tab.get_by_label("Owner").select_option("jo.martin@example.com")
    tab.locator("th[data-sort=wasted] button").click()
    where = "#" + tab.url.partition("#")[2]
    other = show(report(), where)
    assert names(other) == names(tab) == ["recsys-shadow", "churn-scoring-staging", "pricing-model-b"]
    assert other.locator("th[data-sort=wasted]").get_attribute("aria-sort") == "descending"
    assert len(names(show(report(), "#sort=__proto__&state=constructor,%00&kind="))) == 48


def headings(tab: Any) -> list[str]:
    """The groups on this page of the table, in their order."""
    return [" ".join(text.split()) for text in tab.locator("[data-group]").all_inner_texts()]


TAGGED = report(run=replace(RUN, report_tags=("Cost-Center",)))


def test_the_table_groups_by_owner_account_kind_and_any_tag(show: Open):
    tab = show(TAGGED)
    by = tab.get_by_label("Group by")
    assert by.locator("option").all_inner_texts() == [
        "nothing",
        "owner",
        "account",
        "kind",
        "tag Cost-Center",
        "tag team",
        "tag reaper:owner",
        "tag env",
    ]
    by.select_option("kind")
    assert headings(tab)[:2] == [
        "sagemaker-endpoint 40 resources, 6 idle, price of 1 unknown idle: $41,698 of at least $159,158 a month",
        "azureml-compute-cluster 1 resource, 1 idle idle: $8,935 a month",
    ]
    by.select_option("account")
    assert [text.split()[0] for text in headings(tab)] == ["123456789012", "11111111-2222-3333-4444-555555555555"]
    by.select_option("tag:Cost-Center")
    assert headings(tab)[0] == "4400 1 resource, 1 idle idle: $27,512 a month"
    assert {
        "no Cost-Center 35 resources, 1 idle idle: $4,283 of $121,743 a month",
        "tags couldn’t be read 1 resource $2,681 a month",
    } <= set(headings(tab))
    assert tab.get_by_role("status").inner_text() == "48 of 48 in 14 groups, idle: $63,741 a month"


def test_filters_apply_to_groups_and_the_address_keeps_them(show: Open):
    tab = show(TAGGED)
    tab.get_by_label("Group by").select_option("owner")
    tab.get_by_role("button", name="idle 13").click()
    tab.get_by_label("Region").select_option("eu-west-1")
    assert [text.split(" ")[0] for text in headings(tab)] == ["no", "jo.martin@example.com", "yuki.sato@example.com"]
    other = show(TAGGED, "#" + tab.url.partition("#")[2])
    assert headings(other) == headings(tab)
    assert names(other) == names(tab) == ["vision-labeling", "churn-scoring-staging", "pricing-model-b", "studio-yuki"]
    assert headings(show(TAGGED, "#group=tag:constructor")) == []


def test_the_keyboard_opens_a_group_and_stays_on_it(show: Open):
    tab = show(TAGGED, "#group=owner")
    heading = tab.get_by_role("button", name="jo.martin@example.com 3 resources")
    heading.focus()
    for is_open in ("true", "false", "true"):
        tab.keyboard.press("Enter")
        assert heading.get_attribute("aria-expanded") == is_open
        assert ("recsys-shadow" in names(tab)) == (is_open == "true")
        assert heading.evaluate("e => e === document.activeElement")
    tab.get_by_role("button", name="Close all groups").click()
    assert names(tab) == []
    tab.emulate_media(media="print")
    sync.expect(tab.locator(".detail")).to_have_count(48)


def test_five_thousand_rows_in_groups_are_pages_too(show: Open):
    rows = [finding(name=f"e{i}", owner=f"p{i % 60:02}@example.com", usd=1.0 + i % 60) for i in range(5_000)]
    tab = show(report(tuple(rows)), "#group=owner")
    assert (len(headings(tab)), names(tab), tab.locator("#page").inner_text()) == (50, [], "Page 1 of 2")
    tab.get_by_role("button", name="p59@example.com 83 resources").click()
    tab.get_by_role("button", name="Next").click()
    assert headings(tab)[0].startswith("p59@example.com continued, 83 resources, 83 idle")
    assert tab.locator("#resources tr").count() < 55
    tab.get_by_role("button", name="p59@example.com continued").click()
    assert tab.locator("#page").inner_text() == "Page 1 of 2", "the page follows the heading"
    tab.get_by_role("button", name="p10@example.com 84 resources").click()
    assert (headings(tab)[0].split(", ")[0], len(names(tab))) == ("p10@example.com continued", 50), (
        "no row would be in sight above"
    )


def test_long_names_stay_distinct_and_are_whole_on_demand(show: Open):
    stem = "customer-churn-scoring-experiments-of-the-forecasting-department-in-europe"
    longs = [f"{stem}-{end}" for end in ("blue", "green")]
    tab = show(report(tuple(finding(name=name) for name in longs)), permissions=["clipboard-read", "clipboard-write"])
    assert len(set(names(tab))) == 2
    assert tab.locator(f"{LINES} .name").evaluate_all("names => names.map(name => name.title)") == longs
    tab.locator(".open").first.click()
    tab.get_by_role("button", name=f"Copy {longs[0]}").click()
    assert tab.evaluate("navigator.clipboard.readText()") == longs[0]


def test_ten_thousand_rows_never_fill_the_document(show: Open):
    tab = show(report(tuple(many(10_000))))
    assert tab.locator(LINES).count() == 50
    assert tab.evaluate("document.querySelectorAll('*').length") < 2_500
    assert tab.locator("#page").inner_text() == "1–50 of 10,000"
    tab.get_by_role("button", name="exempt 2,000").click()
    assert tab.get_by_role("status").inner_text() == "2,000 of 10,000"
    tab.get_by_label("Search").fill("ranker-00003")
    assert len(names(tab)) == sum(f.case.resource.name == "ranker-00003" for f in many(10_000))
    tab.get_by_role("button", name="Clear").click()
    tab.locator("th[data-sort=name] button").click()
    assert names(tab)[0] == min(f.case.resource.name for f in many(10_000))
    tab.get_by_role("button", name="Next").click()
    assert tab.locator("#page").inner_text() == "51–100 of 10,000"
    assert names(tab)[0] == sorted(f.case.resource.name for f in many(10_000))[50]
    assert tab.evaluate("document.querySelectorAll('*').length") < 2_500


def test_ten_thousand_owners_are_found_by_search(show: Open):
    tab = show(report(tuple(finding(name=f"e{i}", owner=f"p{i:05}@example.com", usd=1.0) for i in range(10_000))))
    assert tab.locator("#owner option").count() == 202
    tab.get_by_label("Search").fill("p09876")
    assert names(tab) == ["e9876"]


def test_printing_opens_rows_and_hides_controls(show: Open):
    tab = show(report())
    tab.get_by_role("button", name="unknown 3").click()
    tab.emulate_media(media="print")
    sync.expect(tab.locator(".detail")).to_have_count(3)
    assert not tab.locator("#filters").is_visible()
    tab.emulate_media(media="screen")
    sync.expect(tab.locator(".detail")).to_have_count(0)
    tab.get_by_role("button", name="Clear").click()
    tab.emulate_media(media="print")
    sync.expect(tab.locator(".detail")).to_have_count(48)


def test_printing_unfolds_every_target(show: Open):
    places = [replace(next(coverage()), account=f"{i:012}", status=Status.OK, missing=None, error=None) for i in range(60)]
    tab = show(report(coverage=tuple(places)))
    assert not tab.get_by_text("000000000059").is_visible()
    tab.emulate_media(media="print")
    sync.expect(tab.get_by_text("000000000059")).to_be_visible()
    tab.emulate_media(media="screen")
    sync.expect(tab.get_by_text("000000000059")).not_to_be_visible()


def test_printing_is_limited_to_two_hundred_rows(show: Open):
    tab = show(report(tuple(many(1_500, (State.IDLE,)))))
    tab.emulate_media(media="print")
    sync.expect(tab.locator(".detail")).to_have_count(200)
    assert "the first 200 are printed" in tab.get_by_role("status").inner_text()


def test_without_scripts_only_working_controls_show(show: Open):
    tab = show(report(), java_script_enabled=False)
    assert tab.locator("#resources tbody tr").count() == 16
    assert "CPUUtilization stopped 2 days 6 hours ago, so silence proves nothing" in tab.inner_text("#resources")
    assert not tab.locator("#filters").is_visible()
    assert tab.locator("button:enabled:visible").count() == 0


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_hostile_names_do_not_run_or_widen_the_report(show: Open, text: str, size: dict[str, int]):
    tab = show(hostile(text), viewport=size)
    tab.locator(".open").click()
    tab.get_by_label("Owner").select_option(index=1)
    assert len(names(tab)) == 1
    assert "\u202e" not in tab.content()
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [pytest.param(WIDE, id="wide"), pytest.param(NARROW, id="narrow")])
def test_axe_finds_no_violation_and_nothing_scrolls_sideways(show: Open, scheme: str, size: dict[str, int]):
    tab = show(report(), viewport=size, color_scheme=scheme)
    tab.get_by_role("button", name="recsys-shadow", exact=True).click()
    tab.get_by_role("button", name="idle 13").click()
    tab.mouse.move(0, 0)
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert complaints(tab) == []
    if size is WIDE:
        picture(tab, scheme, 1_560)
    elif scheme == "light":
        picture(tab, "narrow", 1_700)


def test_axe_finds_no_violation_on_empty_and_long_reports(show: Open):
    assert complaints(show(report((), coverage=()))) == []
    assert complaints(show(report(tuple(many(200)) + tuple(estate())))) == []
    assert complaints(show(TAGGED, "#group=tag:team")) == []
