"""`policy check` about actions for every kind, rules that their clouds keep from ever matching, and names that are nearly right."""

from __future__ import annotations

import pytest

from reaper import registry
from reaper.errors import PolicyError
from reaper.policy import lint
from reaper.policy.parse import parse_policy
from reaper.policy.schema import Policy
from reaper.text import did_you_mean


def parse(text: str) -> Policy:
    return parse_policy(text, "p.yaml", registry.kind_names(), [])


def warnings(text: str) -> list[str]:
    return lint.lint_policy(parse(f"version: 1\n{text}"), f"version: 1\n{text}", "p.yaml")


GONE = "it deletes every idle sagemaker-endpoint, sagemaker-inference-component, azureml-online-deployment"
KEPT = "it stops every idle sagemaker-notebook, sagemaker-studio-app, azureml-compute-cluster, azureml-compute-instance"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("defaults: {action: delete}", f"p.yaml:2: defaults: delete names no kind: {GONE} and {KEPT}", id="defaults"),
        pytest.param(
            "rules: [{name: a, action: delete, match: {tags: {env: dev}}}]",
            f"rule 'a': delete names no kind: {GONE} and {KEPT} that the rule matches",
            id="a rule without kinds",
        ),
        pytest.param(
            "rules: [{name: a, action: delete, match: {cloud: azure, kind: '*'}}]",
            "it deletes every idle azureml-online-deployment and it stops every idle azureml-compute-cluster, azureml-compute-instance",
            id="a rule for all kinds of a cloud",
        ),
        pytest.param(
            "defaults: {action: stop}", "defaults: stop has no effect on some sagemaker-endpoint", id="a stop that stays"
        ),
        pytest.param(
            "defaults: {action: stop}",
            "without Busy (docs/busy.md), sagemaker-notebook, sagemaker-studio-app, azureml-compute-instance are at most likely idle",
            id="a stop of what is only likely idle",
        ),
        pytest.param("defaults: {action: delete}", "are at most likely idle, and delete has no effect", id="a delete of it"),
    ],
)
def test_lint_warns_about_actions_for_every_kind(text: str, message: str):
    assert any(message in warning for warning in warnings(text)), warnings(text)


@pytest.mark.parametrize(
    "text",
    [
        "defaults: {action: notify}",
        "rules: [{name: a, action: delete, match: {kind: azureml-online-deployment}}]",
        "rules: [{name: a, action: stop, match: {tags: {env: dev}}}]",
    ],
)
def test_lint_accepts_named_kinds_and_harmless_actions(text: str):
    assert warnings(text) == []


def test_lint_accepts_a_default_with_act_on():
    assert not any("likely idle" in warning for warning in warnings("defaults: {action: stop, act_on: proven}"))


@pytest.mark.parametrize(
    ("first", "second", "never"),
    [
        pytest.param("kind: ['sagemaker-*', 'bedrock-*']", "cloud: aws", True, id="all kinds of a cloud above the cloud"),
        pytest.param("cloud: aws", "kind: sagemaker-notebook", True, id="the cloud above one of its kinds"),
        pytest.param("kind: '*-notebook'", "kind: sagemaker-notebook", True, id="a glob above what it fits"),
        pytest.param("kind: 'sagemaker-*', name: x", "cloud: aws", False, id="only some of them"),
        pytest.param("kind: 'sagemaker-*'", "cloud: azure", False, id="another cloud"),
        pytest.param("kind: sagemaker-notebook", "cloud: aws", False, id="one kind of it"),
    ],
)
def test_lint_reports_rules_hidden_by_the_kinds_above(first: str, second: str, never: bool):
    lines = warnings(f"rules: [{{name: a, match: {{{first}}}}}, {{name: b, match: {{{second}}}}}]")
    assert any("rule 'b' never matches: rule 'a' above it" in warning for warning in lines) is never


@pytest.mark.parametrize(
    ("word", "valid", "best"),
    [
        ("us-esat-1", ("us-west-1", "us-west-2", "us-east-1", "us-east-2"), "us-east-1"),
        ("eu-wset-1", ("eu-east-1", "eu-west-1", "us-west-1"), "eu-west-1"),
        ("WestEurop", ("westus", "westeurope"), "westeurope"),
    ],
)
def test_suggestions_prefer_swapped_letters(word: str, valid: tuple[str, ...], best: str):
    assert did_you_mean(word, valid) == f"; did you mean {best}?"
    assert did_you_mean("qqqq", valid) == ""


def test_lint_suggests_the_region_for_a_misspelled_one():
    [warning] = warnings("rules: [{name: a, match: {region: us-esat-1}}]")
    assert warning.endswith("unknown region 'us-esat-1'; did you mean us-east-1?")


@pytest.mark.parametrize(
    ("zone", "message"),
    [
        ("Europe/Brelin", "unknown time zone 'Europe/Brelin': expected an IANA time zone; did you mean Europe/Berlin?"),
        ("Mars", "unknown time zone 'Mars': expected an IANA time zone such as Europe/Berlin"),
    ],
)
def test_an_unknown_time_zone_gets_a_suggestion(zone: str, message: str):
    hours = f"{{on: 'mon-fri 07:00-21:00', tz: {zone}}}"
    with pytest.raises(PolicyError, match="time zone") as caught:
        parse(f"version: 1\nrules: [{{name: a, match: {{kind: sagemaker-notebook}}, hours: {hours}}}]")
    assert message in str(caught.value)


def test_an_empty_section_equals_a_missing_one():
    text = "version: 1\ndefaults:\nlimits:\nowners:\nchannels:\nrules:\n"
    assert parse(text) == parse("version: 1\n")
    assert lint.lint_policy(parse(text), text, "p.yaml") == []
    with pytest.raises(PolicyError, match="version"):
        parse("version:\n")


@pytest.mark.parametrize(
    ("text", "warned"),
    [
        pytest.param("rules: [{name: a, action: delete, match: {kind: sagemaker-endpoint}}]", True, id="endpoints alone"),
        pytest.param("rules: [{name: a, action: delete, match: {kind: 'sagemaker-end*'}}]", True, id="a pattern"),
        pytest.param("rules: [{name: a, action: stop, match: {kind: sagemaker-endpoint}}]", False, id="a stop"),
        pytest.param("rules: [{name: a, action: delete, match: {kind: sagemaker-inference-component}}]", False, id="components"),
        pytest.param(
            "rules: [{name: a, action: delete, match: {kind: [sagemaker-endpoint, sagemaker-inference-component]}}]",
            False,
            id="both",
        ),
        pytest.param(
            "rules: [{name: a, action: delete, match: {kind: sagemaker-endpoint}}, "
            "{name: b, action: delete, match: {kind: sagemaker-inference-component}}]",
            False,
            id="in another rule",
        ),
        pytest.param(
            "defaults: {action: delete}\nrules: [{name: a, action: delete, match: {kind: sagemaker-endpoint}}]",
            False,
            id="by default",
        ),
    ],
)
def test_lint_warns_of_deletes_that_leave_components_on_their_hosts(text: str, warned: bool):
    message = "never deleted, and no rule deletes those; name that kind, too"
    assert any(message in warning for warning in warnings(text)) is warned
