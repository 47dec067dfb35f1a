"""`reaper explain --report`: a report that was written is read again, and what it cannot be is said."""

from __future__ import annotations

import re
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import pytest

from fakes import sample_reports
from fakes.builders import DAY, NOW, resource, rule
from fakes.records import a_record
from fakes.sample_findings import finding, report
from reaper.calendars import office_hours
from reaper.case import Claim, Evidence, Owner
from reaper.errors import SettingsError
from reaper.finding import Report
from reaper.model import Ceiling, Role
from reaper.report import explain
from reaper.report import json as plain

HOURS = office_hours.parse_hours("mon-fri 07:00-21:00", "Europe/Berlin")
HEART = Evidence(
    signal="CPUUtilization",
    subject="AllTraffic",
    role=Role.HEARTBEAT,
    points=9,
    last_busy=None,
    peak=3.0,
    complete=True,
    busy_above=-inf,
)
FOUND = finding(
    resource=resource(tags={"team": "growth"}),
    rule=rule(action=Ceiling.DELETE, hours=HOURS),
    evidence=(HEART, replace(HEART, signal="Invocations", role=Role.ACTIVITY, busy_above=0.0, last_busy=NOW - 9 * DAY)),
    record=a_record(idle_since=NOW - 9 * DAY, warned_at=NOW - DAY),
    owner=Owner(address="ml@example.com", source="fallback", claimed=Claim(address="lee@corp.test", source="tag owner")),
)


def explained(of: Report, wanted: str, folder: Path) -> str | None:
    file = folder / "report.json"
    file.write_text(plain.render(of), encoding="utf-8")
    return explain.render_saved(plain.load_report(file), wanted)


@pytest.mark.parametrize("wanted", ["churn", "ARN:AWS:sagemaker:us-east-1:123456789012:endpoint/churn"])
def test_a_saved_report_explains_what_it_contains(wanted: str, tmp_path: Path):
    explanation = explained(report(FOUND), wanted, tmp_path) or ""
    for line in (
        "  id        arn:aws:sagemaker:us-east-1:123456789012:endpoint/churn\n",
        "  report    run r1 of 2026-11-21T10:17:00Z, mode notify\n",
        "            team=growth\n",
        "  rule      test: at most delete, idle after 1d, grace 3d\n",
        "  hours     mon-fri 07:00-21:00 in Europe/Berlin, start: ours\n",
        "  heartbeat CPUUtilization AllTraffic: 9 points, alive at any value, peak 3\n",
        "last busy 2026-11-12T10:17:00Z\n",
        "  verdict   idle (proven), idle for 9 days: no activity in Invocations",
        "  memory    notified 2026-11-20T10:17:00Z\n",
        "  owner     ml@example.com (fallback)\n            lee@corp.test according to tag owner, not in owners.domains",
    ):
        assert line in explanation, line


@pytest.mark.parametrize("findings", list(sample_reports.estate()), ids=lambda findings: findings.case.resource.name)
def test_every_written_finding_can_be_explained(findings: Any, tmp_path: Path):
    explanation = explained(sample_reports.report((findings,)), findings.case.resource.name, tmp_path) or ""
    assert f"  verdict   {findings.case.verdict.state}" in explanation
    assert "None" not in explanation


def test_other_peoples_text_becomes_harmless_lines(tmp_path: Path):
    explanation = explained(sample_reports.hostile("a\x1b[31m\nb"), "a\x1b[31m\nb", tmp_path) or ""
    assert explanation
    assert "\x1b" not in explanation
    assert not any(line.startswith("b") for line in explanation.splitlines())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(None, "can't be read", id="no file"),
        pytest.param("<!doctype html>", "not a JSON report", id="a page"),
        pytest.param("[]", "not a JSON report", id="a list"),
        pytest.param("{}", "not a JSON report", id="nothing in it"),
        pytest.param('{"schema": 2, "run": {}}', "schema", id="another schema"),
        pytest.param('{"schema": 1, "coverage": [], "findings": [{}]}', "run", id="no run"),
        pytest.param('{"schema": 1, "run": {"currency": 5}}', "run.", id="a number for a currency"),
        pytest.param('{"schema": 1, "run": {"currency": null}}', "run.", id="no currency"),
        pytest.param('{"schema": 1, "run": {"cost": [], "currency": {}}}', "run.", id="a list for a cost"),
        pytest.param("[" * 99_999, "not a JSON report", id="lists in lists"),
    ],
)
def test_a_file_that_is_no_report_is_refused(content: str | None, message: str, tmp_path: Path):
    file = tmp_path / "x.json"
    if content is not None:
        file.write_text(content, encoding="utf-8")
    with pytest.raises(SettingsError, match="--report") as caught:
        plain.load_report(file)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "name", ["started_at", "metrics_requested", "currency", "mode", "source", "role", "complete", "tags", "then"]
)
@pytest.mark.parametrize(
    "value", ["5", "null", '"x"', "[]", "{}", '"2026-11-21T10:17:00"', '{"action": "delete"}', "NaN", "1e999"]
)
def test_a_report_with_an_odd_value_is_refused_or_read(name: str, value: str, tmp_path: Path):
    """In one sentence: nothing else is raised."""
    text = re.sub(rf'"{name}": ("[^"]*"|[\d.]+|\w+|\{{[^}}]*\}})', f'"{name}": {value}', plain.render(report(FOUND)))
    assert f'"{name}": {value}' in text
    said = ""
    try:
        explain.render_saved(plain.parse_report(text, "it"), "churn")
    except SettingsError as error:
        said = str(error)
    assert said.startswith("it: not a JSON report that this version can read") or not said


NAMES = ["churn-idle-9-days", "health-checks-only/JupyterLab/default", "summaries/silent-with-zeros", "Mixed-Case"]


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ("churn-idle-9-day", ["churn-idle-9-days"]),
        ("mixed-case", ["Mixed-Case"]),
        ("silent", ["summaries/silent-with-zeros"]),
        ("health-checks-only/JupyterLab/d…", ["health-checks-only/JupyterLab/default"]),
        ("arn:aws:sagemaker:us-east-1:1:endpoint/churn-idle-9-day", ["churn-idle-9-days"]),
        ("nothing-like-it", []),
        ("…", []),
    ],
)
def test_near_misses_are_suggested(wanted: str, names: list[str]):
    assert explain.near_names(wanted, NAMES) == names


def test_three_near_misses_are_named_the_rest_counted():
    names = [f"churn-{n}" for n in range(7)]
    assert explain.suggestion_text("churn", names).endswith(", or one of 4 more?")
    assert explain.suggestion_text("churn", names).count("churn-") == 3
    assert "more" not in explain.suggestion_text("churn", names[:3])
    assert explain.suggestion_text("nothing-like-it", names) == ""
