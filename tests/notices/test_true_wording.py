"""What a mail must not get wrong: the reason of a refusal, the time of the next summary, and money that nobody knows."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from fakes.builders import DAY, HOUR, NOW, resource, rule
from fakes.mails import compose_summary, owner_notices
from fakes.sample_findings import finding, occasion, only, report
from reaper import text
from reaper.calendars import office_hours
from reaper.case import Coverage
from reaper.cli import sample
from reaper.finding import Finding, Outcome, Step
from reaper.model import HoldReason, Mode, Result, State, Status, StepName, Target
from reaper.notices.admin_summary import admin_summary
from reaper.notices.message import MAX_SUBJECT, Message
from reaper.notices.owner_notice import Letter, hours_headline
from reaper.record import Notice
from reaper.report.table import WIDE
from reaper.report.text import render

BERLIN = replace(office_hours.parse_hours("mon-fri 07:00-21:00", "Europe/Berlin"), by_rule=True)
BUENOS_AIRES = replace(office_hours.parse_hours("mon-fri 07:00-21:00", "America/Argentina/Buenos_Aires"), by_rule=True)
CLUSTER = {"id": "/subscriptions/s/resourceGroups/g/providers/Microsoft.MachineLearningServices/workspaces/w/computes/c"}
BOTH = {StepName.STOP: None, StepName.START: None}
PLACES = {"REAPER_LEDGER": "dynamodb://reaper-ledger", "REAPER_MANIFESTS": "s3://bucket/manifests"}


def owner_mail(*findings: Finding, **fields: Any) -> Message:
    return only(owner_notices(list(findings), occasion(**fields)))


def admin_mail(*findings: Finding, coverage: tuple[Coverage, ...] = (), **fields: Any) -> Message:
    made = admin_summary(report(*findings, coverage=coverage), occasion(**fields), frozenset())
    assert made is not None
    return made


# --- reasons


def test_a_refused_action_is_listed_with_its_reason():
    why = "it is exempt now: kept by tag reaper:keep"
    refused = finding("a", move=StepName.STOP, outcome=Outcome(result=Result.REFUSED, because=why))
    made = admin_mail(refused)
    assert "a (SageMaker endpoint, us-east-1, account 123456789012): It is exempt now: kept by tag reaper:keep.\n" in made.text
    for body in (made.text, made.html):
        assert "It is exempt now" in body
        assert "Idle under the rule" not in body


def test_holds_name_one_release_command_with_its_ledger():
    why = HoldReason(because="5 acts are more than max_acts: 4", since=NOW, release="--account 123456789012")
    step = Step(name=StepName.HOLD, because="Run `reaper release` to allow it", held=StepName.STOP, hold_reasons=(why,))
    made = admin_mail(finding("a", step=step), finding("b", step=step), location_settings=PLACES)
    for body in (made.text, made.html):
        assert body.count("reaper release") == 1
        assert "REAPER_LEDGER=dynamodb://reaper-ledger REAPER_MANIFESTS=s3://bucket/manifests reaper release" in body
        assert body.count("5 acts are more than max_acts: 4, since Sat 21 Nov 2026, 10:17 UTC.") == 1


# --- how often


RHYTHMS = [
    pytest.param(7 * DAY, "a summary once a week.", "Weekly summary", id="week"),
    pytest.param(DAY, "a summary once a day.", "Daily summary", id="day"),
    pytest.param(14 * DAY, "a summary every 14 days.", "14-day summary", id="14 days"),
    pytest.param(36 * HOUR, "a summary every 36 hours.", "36-hour summary", id="36 hours"),
]


@pytest.mark.parametrize(("every", "promised", "named"), RHYTHMS)
def test_a_summary_comes_as_often_as_its_rule_says(every: timedelta, promised: str, named: str):
    fields = {"rule": rule(hours=BERLIN, remind_every=every), "acts": BOTH}
    assert promised in owner_mail(finding("nb", **fields)).text
    item = finding("nb", move=StepName.REMIND, **fields)
    item = replace(item, notice=Notice(warned_at=NOW - every, hours="x", not_before=NOW - every))
    letter = Letter([item], True, occasion())
    assert hours_headline(letter) == f"{named}: office hours apply to 1 ML resource"


def test_summaries_with_different_intervals_name_none():
    items = [finding(f"nb{n}", rule=rule(hours=BERLIN, remind_every=n * DAY), move=StepName.REMIND) for n in (1, 7)]
    letter = Letter(items, True, occasion())
    assert hours_headline(letter) == "Summary: office hours apply to 2 ML resources"


# --- money that nobody knows


def test_a_group_without_prices_has_an_unknown_cost():
    made = admin_mail(finding("a", None, address="kim@example.com"), finding("b", 2.0))
    assert "- kim@example.com: price unknown, 1 idle\n" in made.text
    assert "- lee@example.com: $1,460 a month, 1 idle\n" in made.text
    for body in (made.text, made.html):
        assert "$0" not in body


def test_a_partly_unpriced_group_counts_the_unpriced():
    made = admin_mail(finding("a", None), finding("b", None), finding("c", 2.0))
    assert "- lee@example.com: at least $1,460 a month, 3 idle (2 of them: price unknown)\n" in made.text
    assert "3 idle (2 of them: price unknown)" in made.html


def test_a_partly_unpriced_summary_says_at_least():
    made = admin_mail(finding("a", None), finding("b", 2.0))
    assert made.subject == "[ML Idle Reaper] 2 idle ML resources cost at least $1,460 a month; 2 new"
    assert made.text.startswith("2 idle ML resources cost at least $1,460 a month. $432 wasted since Thu 12 Nov. ")
    assert "The price of 1 of them is unknown." in made.text
    assert "cost at least $1,460 a month</h1>" in made.html
    assert "The price of 1 of them is unknown." in made.html


def test_a_summary_without_prices_shows_no_amount():
    made = admin_mail(finding("a", None))
    assert made.subject == "[ML Idle Reaper] 1 idle ML resource, price unknown; 1 new"
    assert "$0" not in made.text + made.html


def test_an_owner_notice_counts_unknown_prices():
    made = owner_mail(finding("a", None), finding("b", 2.0))
    for body in (made.text, made.html):
        assert "The price of 1 of them is unknown." in body
        assert "1 more" not in body


@pytest.mark.parametrize("usd", [1e-6, 0.00001, 0.0001, 0.004])
def test_a_small_cost_is_never_shown_as_zero(usd: float):
    for made in (owner_mail(finding("a", usd)), admin_mail(finding("a", usd)), owner_mail(finding("a", usd), finding("b", None))):
        assert "$0.00" not in made.subject + made.text + made.html.partition("</style>")[2]
        assert "at least less" not in (made.subject + made.text + made.html).lower()
    assert text.format_usd(0.004) == "less than $0.01"
    assert text.format_usd(0.006) == "$0.01"


# --- subjects


def subject(*findings: Finding, **fields: Any) -> str:
    return owner_mail(*findings, **fields).subject


def clusters(count: int, **fields: Any) -> list[Finding]:
    made = [resource(kind="azureml-compute-cluster", name=f"c{n}", id=f"{CLUSTER['id']}{n}") for n in range(count)]
    return [finding(f"c{n}", 400.0, resource=one, **fields) for n, one in enumerate(made)]


def test_a_long_subject_keeps_what_happens_and_when():
    stopped = [
        *clusters(4, address=None),
        *(
            finding(f"d{n}", 500.0, None, resource=resource(kind="sagemaker-studio-app", name=f"d{n}", id=f"d{n}"))
            for n in range(3)
        ),
        *(finding(f"e{n}", None, None) for n in range(3)),
        *(
            finding(f"nb{n}", 1.0, None, rule=rule(hours=replace(BUENOS_AIRES, force=True)), state=State.ACTIVE, acts=BOTH)
            for n in range(5)
        ),
    ]
    line = subject(*stopped)
    assert len(line) <= MAX_SUBJECT
    assert "10 of 15" in line
    assert "10 will be " in line
    assert "5 will be " in line
    assert line.count("from Tue 24 Nov") == 2
    assert "…" not in line


def test_a_long_name_is_cut_before_what_happens_and_when():
    [cluster] = clusters(1, address=None)
    named = replace(cluster, case=replace(cluster.case, resource=replace(cluster.case.resource, name="n" * 300)))
    line = subject(named)
    assert len(line) <= MAX_SUBJECT
    assert "it will be set to a minimum of 0 nodes from Tue 24 Nov: nnnn" in line


def test_each_of_several_messages_has_its_number_in_the_subject():
    many = [*clusters(20, address=None), *(finding(f"e{n}", 500.0, None) for n in range(20))]
    made = owner_notices(many, occasion())
    assert [m.subject[-9:] for m in made] == [" (1 of 2)", " (2 of 2)"]


def test_a_subject_never_counts_more_actions_than_resources():
    idle = [finding(f"a{n}", 1.0) for n in range(7)]
    used = [finding(f"nb{n}", 1.0, rule=rule(hours=replace(BERLIN, force=True)), state=State.ACTIVE, acts=BOTH) for n in range(2)]
    both = [finding(f"i{n}", 1.0, rule=rule(hours=BERLIN)) for n in range(3)]
    line = subject(*idle, *used, *both)
    assert line.startswith("10 of 12 ML resources are idle and cost $240 a day; 7 will be scaled in from ")
    assert "; 5 will be scaled in outside office hours from " in line


def test_a_long_subject_for_admins_keeps_coverage_and_what_failed():
    lost = [finding(f"l{n}", 900.0, move=StepName.STOP, outcome=Outcome(result=Result.FAILED, error="lost")) for n in range(12)]
    gone = [
        finding(f"g{n}", 900.0, move=StepName.STOP, outcome=Outcome(result=Result.DONE, because="it stopped")) for n in range(12)
    ]
    holds = [finding(f"h{n}", 900.0, move=StepName.HOLD) for n in range(12)]
    gap = Coverage(cloud="aws", account="1", region="x", kind="k", status=Status.DENIED, error="no")
    line = admin_mail(*lost, *gone, *holds, finding("x", None), coverage=(gap,)).subject
    assert len(line) <= MAX_SUBJECT
    for part in ("12 actions on hold", "12 taken, saving $3,942,000 a month", "12 failed or unknown", "coverage 0 of 1"):
        assert part in line
    assert "25 idle, at least $15,768,000 a month" in admin_mail(*lost, *holds, finding("x", None), coverage=(gap,)).subject


# --- the sample


def test_the_sample_promises_no_stop_and_its_links_lead_nowhere():
    made = sample.sample_message("dana@example.com", NOW)
    assert made.subject == "[Sample] 3 idle ML resources cost $189 a day; nothing will be stopped"
    assert "https://sample.invalid/" in made.text
    for body in (made.text, made.html):
        assert "https://example.com" not in body


# --- where


def test_admins_see_the_name_of_a_subscription():
    id_ = "11111111-2222-3333-4444-555555555555"
    denied = Coverage(
        cloud="azure",
        account=id_,
        account_name="Planning",
        region=None,
        kind="azureml-compute-cluster",
        status=Status.DENIED,
        error="no",
    )
    target = Target(cloud="azure", account=id_, account_name="Planning")
    made = admin_mail(
        finding("x", resource=resource(kind="azureml-compute-cluster", id="/subscriptions/x", name="x", target=target)),
        coverage=(denied,),
    )
    for body in (made.text, made.html):
        assert f"azureml-compute-cluster in Planning ({id_})" in body
        assert f"subscription Planning ({id_})" in body


# --- the audit's summary


def rows(*, status: Status = Status.DENIED) -> tuple[Coverage, ...]:
    return tuple(
        Coverage(
            cloud="aws", account="123456789012", region=f"eu-west-{n}", kind="sagemaker-endpoint", status=status,
            missing="sagemaker:ListEndpoints", error="sagemaker:ListEndpoints: not allowed",
        )
        for n in (1, 2, 3)
    )  # fmt: skip


def test_a_summary_lists_one_cause_once_with_its_places():
    run_report = report(finding("a"), coverage=rows())
    summary = compose_summary(run_report, occasion())
    assert "0 of 3 complete" in render(run_report, WIDE)
    assert "coverage 0 of 3" in summary.subject
    for wording in (render(run_report, WIDE), summary.text, summary.html):
        assert wording.count("not allowed") == 1
        for n in (1, 2, 3):
            assert f"sagemaker-endpoint in 123456789012 eu-west-{n}" in wording


def test_a_summary_says_what_to_do_if_nothing_was_read():
    run_report = report(coverage=rows())
    for wording in (render(run_report, WIDE), compose_summary(run_report, occasion()).text):
        assert wording.startswith("Nothing could be read.\n")
        assert "aws sts get-caller-identity" in wording
        assert "Planning" not in wording
    assert "aws sts get-caller-identity" in compose_summary(run_report, occasion()).html


@pytest.mark.parametrize("mode", [Mode.NOTIFY, Mode.ENFORCE])
def test_complete_coverage_is_counted_in_every_mode(mode: Mode):
    run_report = report(coverage=(replace(rows()[0], status=Status.OK, missing=None, error=None),))
    assert "1 of 1 complete" in render(replace(run_report, run=replace(run_report.run, mode=mode)), WIDE)
