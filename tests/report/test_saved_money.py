"""What was saved, in every format: the ledger's figures, apart from what notices prompted, and never $0 for a ledger that can't be read."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from html import unescape

import pytest

from fakes.builders import DAY, HOUR
from fakes.fake_deployment import POLICY, FakeDeployment, policy
from fakes.saved_money import save
from reaper.finding import Report
from reaper.ledger.rows import Category, Key, sortable_time
from reaper.model import Mode
from reaper.report import html, json, markdown, text
from reaper.report.figures import run_figures
from reaper.savings.credit import Cause

NOW = datetime(2026, 11, 25, 6, tzinfo=UTC)
TEAMS = policy(f"{POLICY}report: {{tags: [team]}}")


@pytest.fixture
def deployment() -> FakeDeployment:
    deployment = FakeDeployment(policy=TEAMS, now=NOW)
    deployment.cloud.add("idle")
    save(deployment.ledger, NOW - 3 * DAY, 10 * HOUR, 40.0, name="a", tags={"Team": "vision"})
    save(deployment.ledger, NOW - 3 * DAY, 8 * HOUR, None, name="b", tags={"team": "search"})
    save(deployment.ledger, NOW - 27 * DAY, 10 * HOUR, 30.0, name="c")
    save(deployment.ledger, NOW - 2 * DAY, 10 * HOUR, 5.0, name="d", cause=Cause.PROMPTED)
    return deployment


def words(page: str) -> str:
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", page)))


def test_the_json_has_the_month_and_thirty_days_with_prompted_apart(deployment: FakeDeployment) -> None:
    savings = json.report_json(deployment.sweep(Mode.NOTIFY))["savings"]
    assert savings == {
        "month_to_date": {
            "since": "2026-11-01T00:00:00Z",
            "saved_usd": 400.0,
            "prompted_usd": 50.0,
            "unpriced_hours": 8.0,
        },
        "last_30_days": {
            "since": "2026-10-26T06:00:00Z",
            "saved_usd": 700.0,
            "prompted_usd": 50.0,
            "unpriced_hours": 8.0,
        },
    }


@pytest.mark.parametrize("form", [text.render, markdown.render, html.render], ids=lambda form: form.__module__)
def test_each_format_says_what_was_saved_this_month(deployment: FakeDeployment, form) -> None:
    shown = words(form(deployment.sweep(Mode.AUDIT)).replace("\\", ""))
    assert "Saved this month: $400 (list price), 8 unpriced hours." in shown


def test_the_page_has_a_table_by_week_and_the_first_tag_of_the_policy(deployment: FakeDeployment) -> None:
    page = html.render(deployment.sweep(Mode.NOTIFY))
    table = page[page.index("<caption>Saved by week") : page.index("</table>", page.index("<caption>Saved by week"))]
    assert "Mon 23 Nov $0.00 $50.00" in words(table)
    assert "Mon 16 Nov $400 $0.00" in words(table)
    assert table.count('<th scope="row">') == 13
    assert "By team 30 days vision $400 (none) $300 search $0.00, 8 unpriced hours" in words(page)
    assert len(re.findall(r'<rect class="ours" x="[^"]+%" y=', page)) == 2


def test_totals_are_the_sums_of_their_groups_and_weeks(deployment: FakeDeployment) -> None:
    savings = deployment.sweep(Mode.NOTIFY).savings
    assert savings is not None
    assert sum(group.saved_usd for group in savings.recent.groups) == savings.recent.ours.saved_usd
    assert sum(week.ours.saved_usd for week in savings.weeks) == 700


def figure(report: Report) -> list[float]:
    return [each.value for each in run_figures(report) if each.name == "SavedUSDMonthToDate"]


def test_a_ledger_that_fails_is_a_failure_and_not_zero_dollars(deployment: FakeDeployment) -> None:
    assert figure(deployment.sweep(Mode.AUDIT)) == [400.0]
    deployment.ledger.store.put(Key(Category.SAVED, "", "2026-11 odd#ours"), {"facts": "?"}, sortable_time(NOW))
    report = deployment.sweep(Mode.AUDIT)
    assert (report.savings, figure(report), report.is_complete) == (None, [], False)


def test_nothing_is_said_until_something_was_saved() -> None:
    report = FakeDeployment(now=NOW + timedelta(days=1)).sweep(Mode.AUDIT)
    assert "Saved" not in text.render(report)
    assert "By week" not in html.render(report)
    assert figure(report) == [0.0]
