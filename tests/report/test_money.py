"""Money in every format: totals are the sums of their lines, each figure has a source and a date, and no currency mixes with another."""

from __future__ import annotations

import csv as csv_file
import io
import json as json_text
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.builders import resource
from fakes.mails import compose_summary, owner_notices
from fakes.sample_findings import finding, occasion
from fakes.sample_reports import estate
from fakes.sample_reports import report as estate_report
from reaper.case import Price
from reaper.finding import Finding, Report
from reaper.model import State
from reaper.report import csv, html, json, markdown, summary, text
from reaper.report.figures import run_figures, swept_facts
from reaper.text import Currency

EURO = Currency(code="EUR", rate=0.92, as_of="2026-11-01", source="ECB")
TEAMS = st.sampled_from([None, {}, {"team": "vision"}, {"Team": "search"}, {"team": "a b"}])
STATES = st.sampled_from(list(State))
LINES = st.tuples(STATES, st.one_of(st.none(), st.integers(1, 4000).map(lambda cents: cents / 100)), TEAMS)


def whole(lines: list[tuple], currency: Currency = EURO) -> Report:
    """A report with these lines: state, dollars an hour, tags. Every third priced one also hosts a component."""
    findings: list[Finding] = []
    for number, (state, usd, tags) in enumerate(lines):
        one = resource(id=f"arn:x:{number}", name=f"n{number}", tags=tags)
        findings.append(finding(f"n{number}", usd, state=state, resource=one))
        if usd and number % 3 == 0:
            inside = resource(id=f"arn:c:{number}", name=f"c{number}", kind="sagemaker-inference-component", tags=tags)
            share = Price(usd_per_hour=usd / 2, source="50% of its host's price: test", as_of="2026-11-20")
            findings.append(replace(finding(f"c{number}", None, state=state, resource=inside), host_share=share))
    made = estate_report(tuple(findings))
    return replace(made, run=replace(made.run, report_tags=("team",), currency=currency))


@settings(max_examples=60, deadline=None)
@given(st.lists(LINES, max_size=12))
def test_totals_are_the_sums_of_their_lines_in_every_format(lines: list[tuple]):
    report = whole(lines)
    idle = sum(usd or 0 for state, usd, _ in lines if state is State.IDLE)
    everything = sum(usd or 0 for _, usd, _ in lines)
    rows = json.report_json(report)["findings"]
    assert report.totals.idle_usd_per_hour == pytest.approx(
        sum(row["usd_per_hour"] or 0 for row in rows if row["state"] == "idle")
    )
    assert report.totals.idle_usd_per_hour == pytest.approx(idle)
    cells = list(csv_file.DictReader(io.StringIO(csv.render(report))))
    for column, rate in (("usd_per_hour", 1), ("EUR_per_hour", EURO.rate)):
        assert sum(float(row[column] or 0) for row in cells) == pytest.approx(everything * rate, abs=1e-4)
    [data] = re.findall(r'id="data">(.*?)</script>', html.render(report), re.DOTALL)
    page = json_text.loads(data)
    places = {name: page["fields"].index(name) for name in ("state", "usd")} if page["rows"] else {}
    assert sum(row[places["usd"]] or 0 for row in page["rows"] if row[places["state"]] == 0) == pytest.approx(idle)
    for shown in (text.render(report, width=200), markdown.render(report)):
        table = shown.partition("\nCost by team")[0].partition("\nUnknown")[0]
        listed = re.findall(r"^\|?\s*([\d,]+\.\d\d)\s", table, re.MULTILINE)
        assert sum(float(amount.replace(",", "")) for amount in listed) == pytest.approx(
            idle * EURO.rate, abs=0.01 * len(lines) + 0.01
        )
    teams = summary.team_costs(report, 2)
    assert sum(team.money.usd_per_hour for team in teams) == pytest.approx(everything)
    assert sum(summary.idle_money(team.findings).usd_per_hour for team in teams) == pytest.approx(idle)
    by_tag = [figure for figure in run_figures(report) if figure.tag]
    assert sum(figure.value for figure in by_tag if figure.name == "USDPerHour") == pytest.approx(everything, abs=1e-3)


@settings(max_examples=30, deadline=None)
@given(st.lists(LINES, max_size=6))
def test_no_finding_has_a_price_without_source_and_date(lines: list[tuple]):
    for row in json.report_json(whole(lines))["findings"]:
        assert (row["usd_per_hour"] is None) == (row["price"] is None)
        for price in filter(None, (row["price"], row["host_share"])):
            assert price["source"]
            assert re.fullmatch(r"\d{4}-\d\d-\d\d", price["as_of"])
            assert price["own"] in {True, False}


def owner_mails(report: Report) -> str:
    return "".join(mail.subject + mail.text + mail.html for mail in owner_notices(report.findings, occasion(currency=EURO)))


def admin_mail(report: Report) -> str:
    mail = compose_summary(report, occasion(currency=EURO))
    return mail.subject + mail.text + mail.html


FORMS: list[Callable[[Report], str]] = [text.render, markdown.render, html.render, owner_mails, admin_mail]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: f"{form.__module__}.{form.__name__}")
def test_no_dollar_sign_is_beside_another_currency(form: Callable[[Report], str]):
    lines = [(State.IDLE, 2.0, {"team": "vision"}), (State.ACTIVE, 5.0, None), (State.IDLE, None, {})]
    shown = re.sub(r"<script.*?</script>|<style.*?</style>", "", form(whole(lines)), flags=re.DOTALL)
    assert "$" not in shown
    assert "EUR" in shown
    assert "One US dollar is EUR 0.92 (ECB, 2026-11-01)." in shown.replace("\\", "")


@pytest.mark.parametrize(
    ("own", "sentence"),
    [
        pytest.param({True}, "Costs are your own prices, from the policy.", id="own"),
        pytest.param(
            {True, False}, "Costs are your own prices if the policy has one, else list prices before discounts.", id="both"
        ),
        pytest.param({False}, "Costs are list prices before discounts.", id="list"),
    ],
)
def test_every_format_says_whose_prices_they_are(own: set[bool], sentence: str):
    lines = [finding(str(flag), price=Price(usd_per_hour=1.0, source="x", as_of="2026-11-01", own=flag)) for flag in sorted(own)]
    report = estate_report(tuple(lines))
    mails = [owner_notices(lines, occasion())[0].text, compose_summary(report, occasion()).text]
    for shown in (*mails, text.render(report), markdown.render(report), html.render(report)):
        assert sentence in shown


def test_metrics_have_at_most_twenty_teams_and_the_others():
    lines = [(State.ACTIVE, float(number + 1), {"team": f"team {number:02}"}) for number in range(30)]
    figures = [figure for figure in run_figures(whole(lines)) if figure.tag and figure.name == "USDPerHour"]
    assert len(figures) == 21
    assert [figure.tag for figure in figures][::20] == ["team 29", "other"]
    assert sum(figure.value for figure in figures) == sum(range(1, 31))
    assert swept_facts(whole(lines), None)["tags"]["other"] == {"USDPerHour": 55.0, "IdleUSDPerHour": 0.0}


def test_without_report_tags_no_team_has_a_metric():
    assert not [figure for figure in run_figures(estate_report(tuple(estate()))) if figure.tag]


def test_what_runs_nothing_costs_no_team_anything():
    stopped = finding("off", None, state=State.EXEMPT, resource=resource(parts=(), tags={"team": "vision"}))
    active = finding("on", 2.0, state=State.ACTIVE, resource=resource(tags={"team": "vision"}))
    report = estate_report((stopped, active))
    [team] = summary.team_costs(replace(report, run=replace(report.run, report_tags=("team",))), 5)
    assert (team.name, team.money.count, team.money.unpriced, team.money.usd_per_hour) == ("vision", 1, 0, 2.0)
