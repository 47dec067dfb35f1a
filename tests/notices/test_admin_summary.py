from __future__ import annotations

from dataclasses import replace
from typing import Any

from fakes.builders import resource, rule
from fakes.sample_findings import CLIPPED, finding, occasion, report
from reaper.calendars import office_hours
from reaper.case import Coverage
from reaper.finding import Finding, Outcome, Report, Step
from reaper.model import Mode, Result, State, Status, StepName
from reaper.notices.admin_summary import admin_summary, topics
from reaper.policy.schema import Owners


def test_the_summary_has_every_section():
    teams = finding("a", 3, resource=resource(name="a", tags={"Team": "growth"}))
    denied = Coverage(
        cloud="aws",
        account="123456789012",
        region="eu-west-1",
        kind="sagemaker-notebook",
        status=Status.DENIED,
        missing="sagemaker:ListNotebookInstances",
        error="not allowed",
    )
    hold = finding("held", 9, move=StepName.HOLD, step=Step(name=StepName.HOLD, because="over the cap of 20 acts"))
    blind = finding("blind", 1, state=State.UNKNOWN, because="its heartbeat stopped", move=StepName.NONE)
    nobody = finding("stray", 1, address=None)
    run_report = report(teams, hold, blind, nobody, coverage=(denied,))
    run_report = replace(run_report, run=replace(run_report.run, report_tags=("team",)))
    owners = Owners(domains=["example.com"])
    summary = admin_summary(
        run_report, occasion(owners=owners), known_topics={hold.case.resource.id}, failures=["smtp: login refused"]
    )
    assert summary is not None
    assert summary.subject == "[ML Idle Reaper] 1 action on hold; 3 idle ML resources cost $9,490 a month; 2 new; coverage 0 of 1"
    for text in (
        "$9,490 a month", "growth: $2,190 a month, 1 resource, $2,190 a month of it idle", "lee@example.com: $8,760 a month, 2 idle",
        "SageMaker endpoint: $9,490 a month, 3 idle", "NEWLY IDLE (2)", "its heartbeat stopped",
        "Grant sagemaker:ListNotebookInstances.", "Over the cap of 20 acts.", "smtp: login refused", "NO OWNER ADDRESS",
    ):  # fmt: skip
        assert text in summary.text
    assert "growth" in summary.html
    assert "On hold (1)" in summary.html


def test_a_summary_is_sent_only_if_something_is_new():
    first = report(finding("a"), finding("b", state=State.UNKNOWN, move=StepName.NONE))
    assert admin_summary(first, occasion()) is not None
    assert admin_summary(first, occasion(), topics(first)) is None
    assert admin_summary(report(*first.findings, finding("c")), occasion(), topics(first)) is not None
    assert admin_summary(first, occasion(), topics(first), ["smtp: it failed"]) is not None
    assert admin_summary(report(), occasion()) is None
    acted = finding("a", move=StepName.STOP, outcome=Outcome(result=Result.FAILED, error="throttled"))
    summary = admin_summary(report(acted), occasion(), topics(report(acted)))
    assert summary is not None
    assert "Throttled." in summary.text


def test_a_new_gap_in_coverage_is_news_once():
    gap = Coverage(cloud="aws", account="1", region="x", kind="k", status=Status.FAILED, error="down")
    run_report = report(coverage=(gap,))
    assert admin_summary(run_report, occasion()) is not None
    assert admin_summary(run_report, occasion(), topics(run_report)) is None


def test_a_failure_in_the_reaper_is_listed_apart_from_gaps():
    listed = Coverage(cloud="aws", account="1", region="x", kind="k", status=Status.OK)
    ours = Coverage(cloud="reaper", account="", region=None, kind="channel smtp", status=Status.FAILED, error="login refused")
    run_report = report(finding("a"), coverage=(listed, ours))
    for troubles in ([], ["channel smtp: login refused"]):
        summary = admin_summary(run_report, occasion(), failures=troubles)
        assert "coverage" not in summary.subject
        assert summary.text.count("channel smtp: login refused") == 1
        assert "COVERAGE GAPS" not in summary.text.upper()
    assert admin_summary(run_report, occasion(), topics(run_report)) is None
    mixed = report(coverage=(listed, ours, replace(listed, status=Status.DENIED)))
    assert "coverage 1 of 2" in admin_summary(mixed, occasion()).subject


def test_the_summary_stays_short_for_any_report():
    many = [finding(f"r{n}", 1.0, address=f"p{n}@example.com") for n in range(400)]
    summary = admin_summary(report(*many), occasion(), known_topics=set())
    assert summary is not None
    assert len(summary.html.encode()) < CLIPPED
    assert "and 390 more" in summary.text
    assert len(summary.resource_ids) == 400


def acted(result: Result, **fields: Any) -> Finding:
    return finding("dev", move=StepName.STOP, outcome=Outcome(result=result, because="it is stopping"), rule=rule(**fields))


def test_office_hours_actions_are_news_only_if_they_fail():
    hours = office_hours.parse_hours("mon-fri 07:00-21:00", "Europe/Berlin")
    known = {acted(Result.DONE).case.resource.id}
    assert admin_summary(report(acted(Result.DONE)), occasion(), known) is not None
    assert admin_summary(report(acted(Result.DONE, hours=hours)), occasion(), known) is None
    assert admin_summary(report(acted(Result.REFUSED, hours=hours)), occasion(), known) is not None


def test_actions_show_their_saving_and_no_longer_count_as_idle():
    summary = admin_summary(report(acted(Result.DONE), finding("other", 3)), occasion(), frozenset())
    assert summary is not None
    assert summary.subject == "[ML Idle Reaper] 1 action taken, saving $730 a month; 1 new"
    assert summary.text.startswith(
        "1 action taken, saving $730 a month. 1 idle ML resource costs $2,190 a month. $648 wasted since "
    )
    assert "It is stopping." in summary.text


def announced(*findings: Finding) -> Report:
    run_report = report(*findings)
    return replace(run_report, run=replace(run_report.run, mode=Mode.ANNOUNCE))


def test_actions_waiting_for_apply_are_named_once():
    due = announced(finding("a", move=StepName.STOP))
    summary = admin_summary(due, occasion(), known_topics=frozenset())
    assert summary is not None
    assert "1 due, waiting for `reaper apply`" in summary.subject
    assert "DUE (1): this mode only announces" in summary.text
    assert admin_summary(due, occasion(), topics(due)) is None


def test_an_uncertain_action_is_not_listed_as_not_done():
    lost = finding("a", move=StepName.STOP, outcome=Outcome(result=Result.FAILED, error="it isn't known", begun=True))
    summary = admin_summary(report(lost), occasion(), topics(report(lost)))
    assert summary is not None
    assert "1 action failed or unknown" in summary.subject
    assert "NOT CARRIED OUT" not in summary.text
    assert "It isn't known. To undo this: reaper restore arn:" in summary.text
