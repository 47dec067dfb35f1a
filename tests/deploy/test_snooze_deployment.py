"""Sweep and page of one deployment agree on whose links they sign and take, and a page that fails is noticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.bicep import MAIN, declared, properties, text, value
from deploy.translate import translate

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def stack():
    return translate(ROOT / "template.yaml")["Resources"]


@pytest.mark.parametrize("function", ["SweepFunction", "SnoozeFunction"])
def test_the_sweep_and_the_page_of_a_stack_are_of_that_stack(stack, function: str):
    variables = stack[function]["Properties"]["Environment"]["Variables"]
    assert variables["REAPER_DEPLOYMENT"] == {"Ref": "AWS::StackId"}


def test_the_function_app_is_of_its_own_resource_id():
    passed = properties(properties(value(declared(MAIN, "module")["app"]))["params"])
    app_settings = properties(passed["settings"])
    assert text(app_settings["REAPER_DEPLOYMENT"]) == "'${group.id}/providers/Microsoft.Web/sites/${appName}'"
    assert text(passed["name"]) == "appName"


def test_the_alarm_counts_the_pages_that_say_not_now_and_not_only_crashes(stack):
    alarm = stack["SnoozeAlarm"]["Properties"]
    assert (alarm["Namespace"], alarm["MetricName"]) == ("AWS/Lambda", "Url5xxCount")
    assert [d["Name"] for d in alarm["Dimensions"]] == ["FunctionName"]
