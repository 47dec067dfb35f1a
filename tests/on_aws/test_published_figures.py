"""The lines that CloudWatch reads as metrics: namespace, dimensions, units."""

from __future__ import annotations

import json
from typing import Any

import pytest

from reaper.aws.functions.delivery import publish_figures, stack_name
from reaper.report.figures import Figure

STACK = "arn:aws:cloudformation:us-east-1:123456789012:stack/team-a/5b5e"
IDLE = Figure(name="Idle", value=2)
SECONDS = Figure(name="SweepSeconds", value=1.5, unit="Seconds")
DOLLARS = Figure(name="IdleUSDPerHour", value=3.25, unit="None", kind="sagemaker-endpoint")


def printed(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_run_is_one_line_and_each_kind_another(capsys: pytest.CaptureFixture[str]):
    publish_figures([IDLE, DOLLARS, SECONDS], STACK)
    whole, kind = printed(capsys)
    [directive] = whole["_aws"]["CloudWatchMetrics"]
    assert (directive["Namespace"], directive["Dimensions"]) == ("MLIdleReaper", [["service", "stack"]])
    assert directive["Metrics"] == [{"Name": "Idle", "Unit": "Count"}, {"Name": "SweepSeconds", "Unit": "Seconds"}]
    assert (whole["Idle"], whole["SweepSeconds"], whole["service"], whole["stack"]) == ([2.0], [1.5], "ml-idle-reaper", "team-a")
    [directive] = kind["_aws"]["CloudWatchMetrics"]
    assert directive["Dimensions"] == [["service", "stack", "kind"]]
    assert (kind["IdleUSDPerHour"], kind["kind"], directive["Metrics"][0]["Unit"]) == ([3.25], "sagemaker-endpoint", "None")


def test_one_run_leaves_nothing_to_the_next(capsys: pytest.CaptureFixture[str]):
    """A warm Lambda publishes again in the same process."""
    publish_figures([IDLE], STACK)
    publish_figures([IDLE], STACK)
    first, second = printed(capsys)
    assert first["Idle"] == second["Idle"] == [2.0]


@pytest.mark.parametrize(
    ("deployment", "name"),
    [
        (STACK, "team-a"),
        ("arn:aws-cn:cloudformation:cn-north-1:123456789012:stack/Über/1", "Über"),
        ("/subscriptions/x/resourceGroups/stack/y", ""),
        ("", ""),
    ],
)
def test_the_stack_is_known_by_its_arn(deployment: str, name: str):
    assert stack_name(deployment) == name


def test_outside_a_stack_no_dimension_is_empty(capsys: pytest.CaptureFixture[str]):
    publish_figures([IDLE], "")
    [line] = printed(capsys)
    assert line["_aws"]["CloudWatchMetrics"][0]["Dimensions"] == [["service"]]
