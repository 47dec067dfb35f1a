"""Warnings about common mistakes in one rule, and none about rules that work."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reaper import registry
from reaper.model import Ceiling, Confidence, StepName
from reaper.policy import lint
from reaper.policy.parse import parse_policy
from reaper.policy.schema import Policy, RuleSpec

KINDS = registry.kind_names()
STARTABLE = ("azureml-compute-instance", "sagemaker-notebook")
OFFICE = '{on: "mon-fri 07:00-21:00", tz: Europe/Berlin}'
FORCED = '{on: "mon-fri 07:00-21:00", tz: Europe/Berlin, force: true}'
LIKELY = "is at most likely idle, and stop has no effect; set that up and write `act_on: proven`, or write `act_on: likely`"


def parse(text: str) -> Policy:
    return parse_policy(text, "policy.yaml", KINDS, STARTABLE)


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        pytest.param(
            "[{name: all}, {name: b, match: {region: us-east-1}}]",
            "rule 'b' never matches: rule 'all' above it",
            id="after a catch-all",
        ),
        pytest.param(
            "[{name: a, match: {kind: [sagemaker-endpoint, sagemaker-notebook]}}, {name: b, match: {kind: sagemaker-notebook, name: x}}]",
            "rule 'b' never matches",
            id="narrower than an earlier one",
        ),
        pytest.param(
            "[{name: a, match: {tags: {env: '*'}}}, {name: b, match: {tags: {Env: prod}}}]",
            "rule 'b' never matches",
            id="tag presence above a value",
        ),
        pytest.param(
            "[{name: a, match: {cloud: azure, kind: sagemaker-*}}]",
            "its kinds are not in cloud azure",
            id="kind and cloud disagree",
        ),
        pytest.param(
            "[{name: a, match: {tags: {env: prod}}}, {name: b, match: {tags: {env: Prod}}}]",
            "'Prod' and 'prod' differ only in case",
            id="case",
        ),
        pytest.param(
            "[{name: a, match: {tags: {env: prod, Env: dev}}}]", "'env' and 'Env' are the same tag", id="one tag key twice"
        ),
        pytest.param(
            "[{name: a, match: {region: us-esat-1}}]", "unknown region 'us-esat-1'; did you mean us-", id="region misspelt"
        ),
        pytest.param(
            f"[{{name: a, match: {{kind: [sagemaker-notebook, sagemaker-endpoint]}}, hours: {FORCED}}}]",
            "rule 'a': sagemaker-endpoint can't be started again, so there the hours only protect: they stop, start and force nothing",
            id="hours of more than can be started again",
        ),
        pytest.param(
            f"[{{name: a, match: {{cloud: azure}}, hours: {FORCED}}}]",
            "azureml-compute-cluster, azureml-online-deployment can't be started again, so there the hours only protect",
            id="hours of whatever a cloud has",
        ),
        pytest.param(
            f"[{{name: a, match: {{kind: sagemaker-notebook}}, idle_after: 1d, hours: {OFFICE}}}]",
            "idle_after 1d also applies outside the hours and is longer than a night",
            id="more silence than a night has",
        ),
        pytest.param("[{name: a, match: {region: 'mars-*'}}]", "unknown region 'mars-*'", id="no region fits"),
    ],
)
def test_lint_warns_about_each_common_mistake(rules: str, message: str):
    text = f"version: 1\nrules: {rules}"
    warnings = lint.lint_policy(parse(text), text, "p.yaml")
    assert any(message in w and w.startswith("p.yaml:2: ") for w in warnings)


def test_lint_accepts_rules_that_can_match():
    text = "version: 1\nrules: [{name: a, match: {region: [us-east-1, 'eu-*', WestEurope]}}, {name: b, match: {usd_per_hour: '> 3'}}, {name: c}]"
    assert lint.lint_policy(parse(text), text, "p.yaml") == []


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        pytest.param(
            "kind: sagemaker-notebook", f"'a', act_on: without Busy (docs/busy.md), sagemaker-notebook {LIKELY}", id="notebook"
        ),
        pytest.param("kind: '*-studio-app'", f"sagemaker-studio-app {LIKELY}", id="an app by a glob"),
        pytest.param("kind: azureml-compute-instance", f"azureml-compute-instance {LIKELY}", id="instance"),
        pytest.param(
            "kind: sagemaker-endpoint",
            "'a', action: stop has no effect on some sagemaker-endpoint resources: one that runs one",
            id="endpoint",
        ),
        pytest.param(
            "kind: [azureml-*]",
            "stop has no effect on some azureml-online-deployment resources: a deployment with one instance",
            id="deployment",
        ),
        pytest.param("kind: sagemaker-inference-component", "without a step scaling policy that would wake it", id="component"),
    ],
)
@pytest.mark.parametrize(
    "shape", ["[{{name: a, action: stop, match: {{{}}}}}]", "[{{name: a, match: {{{}}}}}]\ndefaults: {{action: stop}}"]
)
def test_lint_warns_about_a_stop_without_effect(shape: str, rule: str, message: str):
    text = f"version: 1\nrules: {shape.format(rule)}"
    warnings = lint.lint_policy(parse(text), text, "p.yaml")
    assert any(message in w and w.startswith("p.yaml:2: rule ") for w in warnings)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("rules: [{name: a, action: notify, match: {kind: sagemaker-*}}]", id="nothing is to be done"),
        pytest.param("rules: [{name: a, action: stop, act_on: likely, match: {kind: sagemaker-notebook}}]", id="likely will do"),
        pytest.param("rules: [{name: a, action: stop, act_on: proven, match: {kind: sagemaker-notebook}}]", id="asked for proof"),
        pytest.param(
            "defaults: {act_on: proven}\nrules: [{name: a, action: stop, match: {kind: '*-notebook'}}]", id="for all rules"
        ),
        pytest.param(
            "rules: [{name: a, action: delete, match: {kind: [sagemaker-endpoint, sagemaker-inference-component]}}]",
            id="delete ends what stop cannot",
        ),
        pytest.param("rules: [{name: a, action: stop, match: {kind: azureml-compute-cluster}}]", id="stop always does something"),
        pytest.param("rules: [{name: a, action: stop, match: {usd_per_hour: '>= 5'}}]", id="no kind is named"),
        pytest.param("rules: [{name: a, action: stop, match: {kind: '*'}}]", id="every kind"),
        pytest.param(
            f"rules: [{{name: a, action: stop, match: {{kind: '*-notebook'}}, idle_after: 2h, hours: {FORCED}}}]",
            id="stopped even in use",
        ),
    ],
)
def test_lint_accepts_a_stop_with_an_effect(text: str):
    assert lint.lint_policy(parse(f"version: 1\n{text}"), f"version: 1\n{text}", "p.yaml") == []


def test_lint_warns_about_kinds_without_stop_or_undo():
    kind = registry.kind("sagemaker-notebook")
    spec = RuleSpec(name="a", act_on=Confidence.PROVEN)
    lost = {StepName.STOP: replace(kind.actions[StepName.STOP], undo="")}
    only = {StepName.DELETE: registry.kind("sagemaker-endpoint").actions[StepName.DELETE]}
    warnings_by_kind = {
        name: [text for _, text in lint.no_effect_reasons(replace(kind, actions=deeds), spec, Ceiling.STOP, False)]
        for name, deeds in (("none", {}), ("lost", lost), ("only", only))
    }
    assert warnings_by_kind == {
        "none": ["sagemaker-notebook can't be stopped; use `action: notify`"],
        "lost": ["a sagemaker-notebook that was stopped can't be restored; use `action: notify`"],
        "only": ["sagemaker-notebook can't be stopped; use `action: delete`"],
    }


@pytest.mark.parametrize("grace", ["2h", "3d"])
def test_lint_accepts_any_grace_and_force_on_restartable_kinds(grace: str):
    text = f"version: 1\nrules: [{{name: a, match: {{kind: '*-notebook'}}, grace: {grace}, idle_after: 8h, hours: {FORCED}}}]"
    assert lint.lint_policy(parse(text), text, "p.yaml") == []
