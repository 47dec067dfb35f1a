"""What was done, held or refused stands at the top of every report format, and names in it are harmless."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

import pytest

from fakes.sample_findings import finding, report
from reaper.case import Owner
from reaper.finding import Outcome, Step
from reaper.model import Mode, Result, StepName
from reaper.report.summary import action_groups, plan_and_outcome_reasons, progress_words

FOUND = (
    finding("<b>held", move=StepName.HOLD),
    finding("failed", move=StepName.DELETE, outcome=Outcome(result=Result.FAILED, error="sagemaker:DeleteEndpoint: not allowed")),
    finding("refused", move=StepName.STOP, outcome=Outcome(result=Result.REFUSED, because="kept by lee@example.com")),
    finding("gone", move=StepName.STOP, outcome=Outcome(result=Result.DONE, because="it is scaling in: AllTraffic from 3 to 1")),
    finding("later", move=StepName.START),
    finding("warned"),
)


def test_groups_that_need_attention_come_first():
    groups = [(g.title, [f.case.resource.name for f in g.findings], g.needs_attention) for g in action_groups(report(*FOUND))]
    assert groups == [
        ("On hold", ["<b>held"], True),
        ("Failed", ["failed"], True),
        ("Refused", ["refused"], False),
        ("Done", ["gone"], False),
        ("Due, not carried out", ["later"], False),
    ]


def test_an_audit_says_would():
    audit = report(*FOUND)
    audit = replace(audit, run=replace(audit.run, mode=Mode.AUDIT))
    assert action_groups(audit)[-1].title == "Would be carried out now"


def test_announced_actions_wait_for_apply():
    announced = report(*FOUND)
    announced = replace(announced, run=replace(announced.run, mode=Mode.ANNOUNCE))
    assert action_groups(announced)[-1].title == "Due, waiting for `reaper apply`"


@pytest.mark.parametrize("format", ["text", "markdown", "html"])
def test_every_report_format_lists_the_actions(format):
    text = import_module(f"reaper.report.{format}").render(report(*FOUND))
    for sentence in ("kept by lee", "not allowed", "3 to 1", "scaled in"):
        assert sentence in text.replace("\\", ""), sentence
    assert format == "text" or "<b>held" not in text


YET = Step(name=StepName.WARN, because="its owner has not been told in this idle spell that it will be stopped")


@pytest.mark.parametrize(
    ("step", "outcome", "reasons"),
    [
        pytest.param(YET, Outcome(result=Result.PLANNED), (YET.because, None), id="planned"),
        pytest.param(YET, Outcome(result=Result.FAILED, error="refused"), (YET.because, "refused"), id="a notice that failed"),
        pytest.param(
            YET,
            Outcome(result=Result.DONE),
            ("a channel accepted the mail to lee@example.com", None),
            id="a notice that went out",
        ),
        pytest.param(
            YET,
            Outcome(result=Result.DONE, error="slack: down"),
            ("a channel accepted the mail to lee@example.com", "slack: down"),
            id="a notice that one of two channels took",
        ),
        pytest.param(
            Step(name=StepName.STOP, because="due"),
            Outcome(result=Result.DONE, because="it stopped"),
            (None, "it stopped"),
            id="done",
        ),
    ],
)
def test_a_done_step_shows_the_reason_of_its_outcome(step: Step, outcome: Outcome, reasons: tuple[str | None, str | None]):
    assert plan_and_outcome_reasons(finding(step=step, outcome=outcome)) == reasons


def test_an_audit_says_that_an_owner_has_no_address():
    nobody = finding(owner=Owner(address=None, source="nobody: no tag and no fallback"))
    assert progress_words(nobody, Mode.AUDIT) == ("Next", "would notify the owner, but it has no owner address")
    assert progress_words(finding(), Mode.AUDIT) == ("Next", "would notify the owner")
    page = import_module("reaper.report.html").render(replace(report(nobody), run=replace(report().run, mode=Mode.AUDIT)))
    assert "would notify the owner, but it has no owner address" in page
