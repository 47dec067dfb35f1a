"""A report says in every format that the stop switch is on, the admins' summary once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fakes.builders import DAY, HOUR, NOW
from fakes.failing_ledger import FailingLedger
from fakes.fake_deployment import FakeDeployment, due
from fakes.sample_reports import RUN, finding, report
from reaper.errors import CloudError, Reason
from reaper.finding import Report
from reaper.model import UNTIL_RESUMED, Mode, Pause, Status
from reaper.notices.message import Audience
from reaper.pending import stop_switch
from reaper.report import html, json, markdown, text

PAUSE = Pause(until=NOW + DAY, by="jo@example.com", at=NOW)
SAYS = "The stop switch is on until 2026-11-22 10:17 UTC, set by jo@example.com. Nothing is stopped, deleted or started."


def paused(pause: Pause | None = PAUSE, **fields: Any) -> Report:
    return report(run=replace(RUN, pause=pause), **fields)


@pytest.mark.parametrize("render", [text.render, html.render], ids=["text", "html"])
def test_every_format_says_that_the_switch_is_on(render: Any):
    assert " ".join(render(paused()).split()).count(SAYS) == 1
    assert "stop switch" not in render(paused(None))


def test_markdown_says_so_with_its_characters_escaped():
    assert SAYS.replace("@", "\\@") in markdown.render(paused())


@pytest.mark.parametrize(
    ("pause", "until"),
    [
        pytest.param(None, None, id="off"),
        pytest.param(PAUSE, "2026-11-22T10:17:23Z", id="on until a date"),
        pytest.param(Pause(by="jo"), "9999-12-31T23:59:59Z", id="on until it is ended"),
        pytest.param(Pause(unreadable_because="denied"), "9999-12-31T23:59:59Z", id="unreadable"),
    ],
)
def test_json_has_the_end_of_the_pause(pause: Pause | None, until: str | None):
    [written] = [json.report_json(paused(pause, findings=()))["run"]["paused_until"]]
    assert (written is None) == (until is None)
    assert (written or "")[:13] == (until or "")[:13]


def deployment() -> FakeDeployment:
    made = FakeDeployment(ledger=FailingLedger())
    made.cloud.add("churn")
    return made


@pytest.mark.parametrize("mode", list(Mode))
def test_a_run_in_any_mode_reports_the_switch(mode: Mode):
    made = deployment()
    stop_switch.set_pause(made.ledger, Pause(by="lee"), made.now)
    assert made.sweep(mode).run.pause == Pause(until=UNTIL_RESUMED, by="lee", at=NOW)


def test_an_unreadable_switch_is_a_failure_in_the_report():
    made = deployment()

    def fail_on(call: str, name: str) -> None:
        if (call, name) == ("row", stop_switch.PAUSE_ROW):
            raise CloudError(Reason.DENIED, "dynamodb:GetItem", "not allowed")

    made.ledger.fail_on = fail_on  # type: ignore[attr-defined]
    made_report = made.sweep()
    assert made_report.run.pause is not None
    assert [(row.kind, row.status) for row in made_report.coverage if row.cloud == "reaper"] == [("ledger", Status.FAILED)]


def summaries(made: FakeDeployment) -> list[str]:
    return [m.subject + m.text for m in made.channel.messages if m.audience is Audience.ADMINS]


def test_the_summary_tells_of_a_pause_once_and_of_the_next_one_again():
    made = due(deployment())
    made.channel.messages.clear()
    stop_switch.set_pause(made.ledger, Pause(by="lee"), made.now)
    for _ in range(3):
        made.sweep_after(hours=4)
    [said] = summaries(made)
    assert "stop switch on" in said
    assert "The stop switch is on until `reaper resume`, set by lee." in said
    stop_switch.set_pause(made.ledger, Pause(by="lee", until=made.now + 9 * HOUR), made.now)
    for _ in range(2):
        made.sweep_after(hours=4)
    assert len(summaries(made)) == 2


def test_a_sample_finding_is_still_shown_while_the_switch_is_on():
    assert finding().case.resource.name in text.render(paused(findings=(finding(),)))
