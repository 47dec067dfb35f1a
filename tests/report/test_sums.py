"""Every form of a report says the same: what is idle, what of it was acted on, what was not seen, what failed, and who was notified."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from fakes.builders import resource
from fakes.mails import compose_summary
from fakes.sample_findings import finding, occasion, report
from reaper.case import Coverage, Evidence
from reaper.finding import Finding, Outcome, Report
from reaper.model import Mode, Result, Role, State, Status, StepName
from reaper.notices.admin_summary import admin_summary
from reaper.report import html, json, markdown, text
from reaper.report.summary import exit_status

LISTED = Coverage(cloud="aws", account="123456789012", region="us-east-1", kind="sagemaker-endpoint", status=Status.OK)
DENIED = replace(LISTED, region="eu-west-1", status=Status.DENIED, missing="sagemaker:ListEndpoints", error="not allowed")
FAILED = Coverage(cloud="reaper", account="", region=None, kind="acts", status=Status.FAILED, error="the call was throttled")
BUSY = finding("busy", state=State.ACTIVE, move=StepName.NONE)
BLIND = finding("blind", state=State.UNKNOWN, move=StepName.NONE)


def mail(run_report: Report) -> str:
    summary = admin_summary(run_report, occasion(), known_topics=frozenset())
    assert summary is not None
    assert summary.subject.startswith("[ML Idle Reaper] ")
    return f"{summary.subject.removeprefix('[ML Idle Reaper] ')}\n{summary.text}"


def audit_mail(run_report: Report) -> str:
    message = compose_summary(replace(run_report, run=replace(run_report.run, mode=Mode.AUDIT)), occasion())
    return f"{message.subject.removeprefix('[ML Idle Reaper] ')}\n{message.text}"


FORMS: list[Callable[[Report], str]] = [text.render, audit_mail, markdown.render, html.render, mail]
forms = pytest.mark.parametrize("form", FORMS, ids=lambda form: f"{form.__module__}.{form.__name__}")


@forms
@pytest.mark.parametrize(
    ("run_report", "but"),
    [
        pytest.param(report(BUSY, coverage=(LISTED, DENIED)), "coverage is incomplete", id="denied"),
        pytest.param(report(BUSY, BLIND, coverage=(LISTED,)), "1 unknown", id="unknown"),
    ],
)
def test_incomplete_coverage_is_never_called_not_idle(form: Callable[[Report], str], run_report: Report, but: str):
    shown = form(run_report)
    assert f"No idle resources found; {but}" in shown
    assert "Nothing is idle" not in shown.replace("Nothing is idle or unknown", "")
    assert "No idle" not in shown.replace(f"No idle resources found; {but}", "").replace("No idle or unknown", "")


@pytest.mark.parametrize("form", FORMS[:-1])
def test_complete_coverage_allows_nothing_is_idle(form: Callable[[Report], str]):
    assert "Nothing is idle" in form(report(BUSY, coverage=(LISTED,)))


def without_busy(name: str, state: State) -> Finding:
    """A notebook whose `Busy` was read and never had a point."""
    beat = Evidence(signal="Busy heartbeat", subject="", role=Role.HEARTBEAT, points=0, last_busy=None, peak=None, complete=True)
    thing = resource(
        id=f"arn:aws:sagemaker:us-east-1:123456789012:notebook-instance/{name}", name=name, kind="sagemaker-notebook"
    )
    return finding(name, state=state, resource=thing, evidence=(beat,))


@pytest.mark.parametrize("form", [text.render, markdown.render, html.render])
def test_a_report_says_how_many_need_busy_to_be_proven(form: Callable[[Report], str]):
    notebooks = [without_busy(state.value, state) for state in (State.IDLE, State.ACTIVE, State.UNKNOWN, State.EXEMPT)]
    assert re.findall(r"(\d) resources can\W+(?:#39;)?t be proven idle without Busy", form(report(*notebooks, OTHER))) == ["3"]
    assert "without Busy" not in form(report(BUSY, OTHER, coverage=(LISTED,)))


@pytest.mark.parametrize("form", [text.render, markdown.render, html.render])
def test_an_empty_account_is_named_with_what_was_swept(form: Callable[[Report], str]):
    shown = form(report(coverage=(LISTED, replace(LISTED, kind="sagemaker-notebook"))))
    assert "No resources found" in shown
    assert "Swept 123456789012 us-east-1 for sagemaker-endpoint, sagemaker-notebook." in shown
    assert "Swept" not in form(report(coverage=(LISTED, DENIED)))


STOPPED = finding("stopped", 2.0, move=StepName.STOP, outcome=Outcome(result=Result.DONE, because="it is stopping"))
OTHER = finding("other", 8.0)


def test_report_and_mail_separate_what_was_acted_on():
    run_report = report(STOPPED, OTHER, coverage=(LISTED,))
    for form in (text.render, markdown.render):
        assert "of which 1 acted on (saving $1.00/hour of their $2.00/hour)" in form(run_report)
    page = " ".join(html.render(run_report).split())
    assert '1 action saves <span class="saved">$730 a month</span>' in page
    assert "2 idle when judged, at $7,300 a month: 1 acted on." in page
    subject = "1 action taken, saving $730 a month"
    assert compose_summary(run_report, occasion()).subject == f"[ML Idle Reaper] {subject}"
    assert mail(run_report).startswith(f"{subject}; 1 new\n")
    totals = json.report_json(run_report)["totals"]
    assert (totals["by_state"]["idle"], totals["idle_usd_per_hour"]) == (2, 10.0)
    assert totals["acted"] == {"count": 1, "usd_per_hour": 2.0, "saves_usd_per_hour": 1.0, "already": 0}


def test_starts_and_earlier_stops_are_not_savings():
    started = finding("started", state=State.EXEMPT, move=StepName.START, outcome=Outcome(result=Result.DONE))
    already = replace(STOPPED, outcome=replace(STOPPED.outcome, already_done=True))
    assert "of which" not in text.render(report(started, OTHER))
    assert "wasted, of which 1 already stopped or gone\n" in text.render(report(already, OTHER)).replace("  ", "")


@forms
def test_a_failure_in_the_reaper_is_no_coverage_gap(form: Callable[[Report], str]):
    shown = form(report(OTHER, coverage=(LISTED, FAILED)))
    assert "acts" in shown
    assert "acts in" not in shown
    assert not any(word in shown.lower() for word in ("coverage incomplete", "coverage is incomplete", "coverage gap", "0 of "))
    assert "of 2" not in shown
    assert exit_status(report(OTHER, coverage=(LISTED, FAILED)), None) == 3


def test_a_failed_action_is_no_target_in_any_format():
    run_report = report(OTHER, coverage=(LISTED, FAILED))
    assert "failed: acts: the call was throttled" in text.render(run_report)
    assert "1 of 1 complete, 1 target, 0 API calls" in text.render(run_report)
    assert "## Failed\n\n- acts: the call was throttled" in markdown.render(run_report)
    assert "coverage complete" in html.render(run_report)
    assert "Coverage is incomplete" not in html.render(run_report)


def test_a_subject_without_a_price_names_none():
    assert compose_summary(report(finding(usd=None)), occasion()).subject == "[ML Idle Reaper] 1 idle ML resource, price unknown"


# --- who was notified

TOLD = finding("told", outcome=Outcome(result=Result.DONE))
LOST = finding("lost", address="dana@example.com", outcome=Outcome(result=Result.FAILED, error="its owner was not told: refused"))


@pytest.mark.parametrize(
    ("findings", "sentence"),
    [
        pytest.param((TOLD,), "1 owner notified. For every", id="one"),
        pytest.param((LOST,), "0 owners notified, 1 couldn't be notified. For every", id="every channel failed"),
        pytest.param((TOLD, LOST), "1 owner notified, 1 couldn't be notified. For every", id="some"),
        pytest.param(
            (TOLD, finding("b", address="kim@example.com", outcome=TOLD.outcome)), "2 owners notified. For every", id="two"
        ),
    ],
)
def test_owners_count_as_notified_once_a_channel_accepts(findings: tuple, sentence: str):
    assert sentence in text.render(report(*findings))


@pytest.mark.parametrize(("count", "sentence"), [(1, "1 owner would be notified"), (2, "2 owners would be notified")])
def test_an_audit_counts_the_owners_it_would_notify(count: int, sentence: str):
    run_report = report(*(finding(f"r{n}", address=f"p{n}@example.com") for n in range(count)))
    shown = text.render(replace(run_report, run=replace(run_report.run, mode=Mode.AUDIT)))
    assert f"{sentence}. For every" in shown
    assert "nothing was changed" in shown


# --- the groups of the admins' mail


def test_unnamed_groups_are_counted_with_their_cost():
    run_report = report(*(finding(f"r{n}", 1.0 + n, address=f"p{n}@example.com") for n in range(9)))
    summary = admin_summary(run_report, occasion())
    assert summary is not None
    assert "and 3 others: $4,380 a month, 3 idle" in summary.text
    assert "and 3 others" in summary.html
    assert "others" not in admin_summary(report(*run_report.findings[:7]), occasion()).text


def test_the_legend_says_when_likely_evidence_leads_to_more_than_notices():
    assert "Notices only, unless a rule sets act_on: likely" in html.render(report(OTHER))


@pytest.mark.parametrize("form", [text.render, markdown.render, html.render])
def test_a_named_place_shows_its_name_and_id(form: Callable[[Report], str]):
    lost = replace(DENIED, cloud="azure", account="2222-0000", account_name="Plans & more", region=None)
    shown = " ".join(form(replace(report(BUSY), coverage=(LISTED, lost))).replace("\\", "").replace("&amp;", "&").split())
    assert "Plans & more (2222-0000)" in shown


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        pytest.param(None, 0, id="no limit"),
        pytest.param(10.0, 1, id="exactly the limit"),
        pytest.param(10.01, 0, id="below the limit"),
        pytest.param(0.0, 1, id="any idle resource with a price"),
    ],
)
def test_idle_dollars_an_hour_fail_a_complete_sweep(limit, expected):
    assert exit_status(report(STOPPED, OTHER, coverage=(LISTED,)), None, limit) == expected


def test_incomplete_coverage_wins_over_a_cost():
    assert exit_status(report(OTHER, coverage=(replace(LISTED, status=Status.DENIED),)), None, 1.0) == 3


def test_nothing_idle_costs_nothing():
    assert exit_status(report(coverage=(LISTED,)), None, 0.0) == 0
