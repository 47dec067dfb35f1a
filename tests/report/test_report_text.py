"""The report in a terminal: figures are whole at every width, and the rest gives way in an order that loses least."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from fakes import sample_reports
from fakes.builders import resource
from fakes.sample_findings import finding, report
from reaper.case import Claim, Coverage, Owner
from reaper.finding import Outcome, Report
from reaper.model import Confidence, Result, State, Status, StepName
from reaper.report import coverage_map, csv, html, markdown, summary, table, text

LONG = {"name": "a-very-long-name-that-nobody-can-remember-or-pronounce", "size": "ml.p4d.24xlarge x3, ml.g5.12xlarge x2"}
DEAR = replace(finding(usd=1234.5, resource=resource(id="x", region="ap-southeast-2", **LONG)), wasted_usd=12_345_678.0)
WIDTHS = (44, 60, 80, 100, 120, 150, 200)


def of(*coverage: Coverage) -> Report:
    return report(coverage=coverage)


def gap(region: str | None, kind: str = "sagemaker-endpoint", **overrides: object) -> Coverage:
    fields = {"cloud": "aws", "account": "123456789012", "region": region, "kind": kind, "status": Status.FAILED}
    return Coverage(**{**fields, "error": f"sagemaker:List{kind[-3:]}: the token of arn:aws:x:{region} is expired", **overrides})


@pytest.mark.parametrize("width", WIDTHS)
def test_numbers_are_whole_and_lines_fit_at_every_width(width: int):
    shown = text.render(sample_reports.report((*sample_reports.estate(), DEAR)), width=width)
    rows = shown.split("Idle, most expensive first")[1].split("\n\n")[0].splitlines()[1:]
    for figure in ("37.69", "14.18", "1,234.50", "$12,345,678", "6d 9h"):
        assert re.search(rf"(?:^|\s){re.escape(figure)}(?:\s|$)", "\n".join(rows)), figure
    assert max(map(len, shown.splitlines())) <= width
    assert sum(bool(re.search(r"^ *[\d,.?]+  +[$?]", row)) for row in rows) == 14


def test_the_least_important_column_shrinks_first():
    natural = {"$/h": 5, "resource": 40, "kind": 10, "size": 19, "proof": 26}
    stages = (("proof", 26), ("resource", 32), ("proof", 6), ("size", 0))
    assert table.column_widths(natural, stages, 200) == natural
    assert table.column_widths(natural, stages, 104) == {**natural, "resource": 36}
    assert table.column_widths(natural, stages, 90) == {**natural, "resource": 32, "proof": 16}
    assert table.column_widths(natural, stages, 70) == {"$/h": 5, "resource": 32, "kind": 10, "proof": 17}
    assert table.column_widths({"$/h": 50}, stages, 10) == {"$/h": 50}


@pytest.mark.parametrize(("width", "proof"), [(60, "proven"), (120, "proven: no"), (60, "likely")])
def test_confidence_is_shown_even_on_narrow_terminals(width: int, proof: str):
    assert proof in text.render(sample_reports.report(), width=width)


def test_a_reason_is_wrapped_and_not_lost_on_a_narrow_terminal():
    because = "the call was refused because somebody had changed it meanwhile, which nobody could have known before"
    refused = finding(move=StepName.STOP, outcome=Outcome(result=Result.REFUSED, because=because))
    shown = text.render(report(refused), width=60)
    assert because.split() == [word for word in shown.split("Refused")[1].split("\n\n")[0].split() if word in because.split()]


def test_a_command_to_paste_is_never_broken_in_two():
    command = "/some/where/else/.venv/bin/reaper explain NAME --report /some/where/quite/else/demo/report.json"
    assert f"\n  {command}\n" in text.render(report(finding()), width=60, explain=command)
    assert "For every signal: reaper explain NAME\n" in text.render(report(finding()), width=120)


CLAIMED = finding(owner=Owner(address=None, source="nobody", claimed=Claim(address="lee@corp.test", source="tag owner")))


def test_an_unmailable_owner_is_named_with_a_remedy():
    shown = text.render(report(CLAIMED), width=200)
    assert "lee@corp.test (may not be mailed)" in shown
    assert "set owners.domains: [corp.test]" in shown
    assert "lee@corp.test" in csv.render(report(CLAIMED))
    page = markdown.render(report(CLAIMED)).replace("\\", "")
    assert "lee@corp.test (may not be mailed)" in page
    assert "set owners.domains: [corp.test]" in page
    assert "owners.domains" not in text.render(report(finding()))


def test_every_format_names_claimed_owner_and_recipient():
    item = finding(owner=replace(CLAIMED.case.owner, address="admins@corp.test"))
    for shown in (
        text.render(report(item), width=200),
        markdown.render(report(item)).replace("\\", ""),
        html.render(report(item)),
    ):
        assert "admins@corp.test (lee@corp.test may not be mailed)" in shown
        assert "cannot be told" not in shown


@pytest.mark.parametrize(
    ("row", "remedy"),
    [
        (gap("us-east-1", missing=None), "`aws sts get-caller-identity`"),
        (gap("us-east-1", status=Status.DENIED, missing="sagemaker:ListEndpoints"), "allow them sagemaker:ListEndpoints"),
        (gap(None, cloud="azure", account="1111"), "sign in with `az login`"),
        (gap(None, cloud="azure", account="1111", status=Status.DENIED, missing="a/read"), "the role Reader"),
    ],
)
def test_unreadable_coverage_says_nothing_about_idleness(row: Coverage, remedy: str):
    for shown in (text.render(of(row), width=200), markdown.render(of(row))):
        assert "Nothing could be read." in shown
        assert remedy in shown
        assert "No idle" not in shown


@pytest.mark.parametrize(
    "report_",
    [
        pytest.param(of(gap("us-east-1"), gap("eu-west-1", status=Status.OK)), id="one list was read"),
        pytest.param(of(gap("us-east-1", status=Status.PARTIAL)), id="a list was read in part"),
        pytest.param(report(finding(state=State.UNKNOWN), coverage=(gap("us-east-1"),)), id="something was seen"),
    ],
)
def test_partly_readable_coverage_is_called_incomplete(report_: Report):
    assert "No idle resources found; coverage is incomplete." in text.render(report_)


def test_one_cause_is_listed_once_for_many_gaps():
    rows = [gap(region, kind) for region in ("us-east-1", "eu-west-1") for kind in ("sagemaker-endpoint", "sagemaker-notebook")]
    for shown in (text.render(of(*rows), width=200), markdown.render(of(*rows))):
        assert shown.count("is expired") == 1
        assert (
            "sagemaker-endpoint, sagemaker-notebook in 123456789012 us-east-1; the same 2 kinds in 123456789012 eu-west-1"
            in shown
        )
    assert "0 of 4 complete" in text.render(of(*rows))


def test_a_cause_of_several_failed_calls_names_each_call():
    calls = {
        "endpoint": "sagemaker:ListEndpoints",
        "notebook": "sagemaker:ListNotebookInstances",
        "studio-app": "cloudwatch:GetMetricData",
    }
    rows = [gap("us-east-1", f"sagemaker-{kind}", error=f"{call}: cannot be reached") for kind, call in calls.items()]
    for shown in (text.render(of(*rows), width=250), markdown.render(of(*rows)), html.render(of(*rows))):
        assert f"{', '.join(calls.values())}: cannot be reached" in shown
        assert "sagemaker-endpoint, sagemaker-notebook, sagemaker-studio-app in 123456789012 us-east-1" in shown
    [one] = coverage_map.coverage_gaps(of(*rows[:1]))
    assert one.error == "sagemaker:ListEndpoints: cannot be reached"


def test_another_permission_is_another_cause():
    rows = [gap("us-east-1", missing=f"sagemaker:List{n}", error=f"sagemaker:List{n}: denied") for n in ("Apps", "Endpoints")]
    shown = text.render(of(*rows), width=200)
    assert [f"missing sagemaker:List{n}: denied" in shown for n in ("Apps", "Endpoints")] == [True, True]


def test_a_cloud_that_could_not_be_opened_is_named():
    row = gap(None, "*", account="unknown", error="sts:GetCallerIdentity: Unable to locate credentials")
    assert "all of aws" in text.render(of(row))


@pytest.mark.parametrize(
    ("because", "message"),
    [
        ("running since 2026-11-02 10:17 UTC, no Jupyter log, no Busy signal as proof", "no log"),
        ("running since 2026-11-02 10:17 UTC, no new Jupyter log events, no Busy signal as proof", "log silent"),
        ("running since 2026-11-02 10:17 UTC, no user activity since 2026-11-03 08:00 UTC, no Busy signal as proof", "no user activity"),
        ("running since 2026-11-02 10:17 UTC, no sign of use, no Busy signal as proof", "no sign of use"),
        ("running since 2026-11-02 10:17 UTC, no job since, its idle shutdown is off, and no Busy signal as proof", "no job run"),
        ("running since 2026-11-02 10:17 UTC, its last job was seen at 2026-11-03 08:00 UTC, its idle shutdown is off", "no job lately"),
        ("no invocations, but provisioned concurrency is billed; serverless endpoints publish no heartbeat", "no invocation"),
        ("running since 2026-11-02 10:17 UTC, a person said so, twice", "a person said so"),
    ],
)  # fmt: skip
def test_indirect_evidence_is_shown_in_few_words(because: str, message: str):
    likely = finding(confidence=Confidence.LIKELY, because=because)
    assert f"likely: {message}" in text.render(report(likely), width=200)


def test_counts_of_one_are_singular():
    one = report(finding(), coverage=(gap("us-east-1", status=Status.OK),))
    shown = "\n".join(form(one) for form in (text.render, markdown.render))
    assert "1 resource " in shown
    assert not re.search(r"\b1 (?:resources|lists|calls|targets)\b", shown)


def test_the_stderr_line_counts_gaps_and_names_the_first():
    rows = [gap("us-east-1", status=Status.DENIED, missing="a:B"), gap("eu-west-1", status=Status.OK)]
    line = summary.incomplete_line(of(*rows))
    assert line.startswith("coverage incomplete: 1 of 2 complete; first: denied: sagemaker-endpoint in 123456789012 us-east-1")
    assert "missing a:B" in line
    assert "\n" not in line
    ledger = gap("", kind="ledger", cloud="reaper", error="dynamodb:PutItem: refused")
    assert "1 failure in the reaper itself; first: ledger: dynamodb:PutItem: refused" in summary.incomplete_line(of(ledger))
