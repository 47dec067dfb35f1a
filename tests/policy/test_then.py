"""`then` in a policy file: what is refused, what a rule inherits, what caps it, and what `policy check` says of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from fakes.builders import DAY, NOW, resource
from reaper import registry
from reaper.errors import PolicyError
from reaper.model import Ceiling
from reaper.policy.lint import lint_policy
from reaper.policy.parse import parse_policy
from reaper.policy.rules import effective_rule, may_delete
from reaper.policy.schema import Policy

EXAMPLE = Path(__file__).parents[2] / "policies" / "two-timers.yaml"
STARTABLE = ["sagemaker-notebook", "azureml-compute-instance"]
THEN = "then: {action: delete, after: 14d}"


def parsed(*lines: str) -> Policy:
    text = "\n".join(["version: 1", *lines])
    return parse_policy(text, "p.yaml", registry.kind_names(), STARTABLE)


def delete_after(policy: Policy, usd: float | None = 1.0, **tags: str) -> timedelta | None:
    return effective_rule(policy, resource(tags=tags), usd, NOW).delete_after


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        pytest.param(
            [f"defaults: {{action: notify, {THEN}}}"],
            "p.yaml:2: defaults.then: not valid with `action: notify`, which stops nothing that a delete could follow; "
            "write `action: stop`, or remove then",
            id="nothing comes first in the defaults",
        ),
        pytest.param(
            ["rules:", "  - name: a", "    action: delete", f"    {THEN}"],
            "p.yaml:5: rules[0].then: not valid with `action: delete`, which deletes after its own grace; "
            "write `action: stop`, or remove then",
            id="a rule that deletes anyway",
        ),
        pytest.param(
            ["rules:", f"  - {{name: a, {THEN}}}"],
            "p.yaml:3: rules[0].then: not valid with `action: notify`",
            id="a rule without an action of its own",
        ),
        pytest.param(
            ["rules:", "  - name: a", "    action: stop", "    then: {action: delete, after: 2d}"],
            "p.yaml:5: rules[0].then.after: 2d is shorter than the grace (3d); write 3d or more",
            id="shorter than the inherited grace",
        ),
        pytest.param(
            [f"defaults: {{action: stop, {THEN}}}", "rules:", "  - {name: a, grace: 30d}"],
            "p.yaml:4: rules[0].grace: 30d is longer than then.after in the defaults (2w); "
            "write 2w or less, or give the rule a then of its own",
            id="a grace longer than the inherited after",
        ),
        pytest.param(
            ["rules:", f"  - {{name: a, action: stop, {THEN}, hours: {{on: mon-fri 07:00-21:00, tz: UTC}}}}"],
            "p.yaml:3: rules[0].then: not valid with hours, which stop it every day; remove one of them",
            id="office hours",
        ),
        pytest.param(
            ["rules:", "  - {name: a, action: stop, then: {action: stop, after: 14d}}"],
            "p.yaml:3: rules[0].then.action: 'stop' is not valid: expected 'delete'",
            id="another action",
        ),
        pytest.param(
            ["rules:", "  - {name: a, action: stop, then: delete}"],
            "p.yaml:3: rules[0].then: 'delete' is not valid: expected keys and values, such as `{action: delete, after: 14d}`",
            id="no length",
        ),
        pytest.param(
            ["rules:", "  - {name: a, action: stop, then: {action: delete, after: 14d, grace: 3d}}"],
            "p.yaml:3: rules[0].then.grace: unknown key; valid here: action, after",
            id="an unknown key",
        ),
    ],
)
def test_a_then_that_makes_no_sense_is_refused_with_its_line_and_the_fix(lines: list[str], message: str):
    with pytest.raises(PolicyError) as raised:
        parsed(*lines)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        pytest.param("{name: a}", 14 * DAY, id="inherited"),
        pytest.param("{name: a, then: {action: delete, after: 30d}}", 30 * DAY, id="its own"),
        pytest.param("{name: a, then: null}", None, id="switched off"),
        pytest.param("{name: a, action: notify}", None, id="it only sends notices"),
        pytest.param("{name: a, action: delete}", None, id="it deletes after the grace"),
        pytest.param("{name: a, hours: {on: mon-fri 07:00-21:00, tz: UTC}}", None, id="office hours stop it every day"),
    ],
)
def test_a_rule_inherits_then_unless_it_makes_no_sense_there(rule: str, expected: timedelta | None):
    assert delete_after(parsed(f"defaults: {{action: stop, {THEN}}}", "rules:", f"  - {rule}")) == expected


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        pytest.param({"reaper:action": "stop"}, None, id="stop and no more"),
        pytest.param({"reaper:action": "notify"}, None, id="notices only"),
        pytest.param({"reaper:action": "delete"}, 14 * DAY, id="no more than the rule"),
        pytest.param({"reaper:hours": "mon-fri 07:00-21:00 UTC"}, None, id="office hours"),
        pytest.param({}, 14 * DAY, id="no tag"),
    ],
)
def test_tags_cap_then(tags: dict[str, str], expected: timedelta | None):
    assert delete_after(parsed(f"defaults: {{action: stop, {THEN}}}"), **tags) == expected


def test_what_enforce_only_leaves_out_has_no_then():
    policy = parsed(f"defaults: {{action: stop, {THEN}}}", 'enforce_only: {accounts: ["210987654321"]}')
    rule = effective_rule(policy, resource(), 1.0, NOW)
    assert (rule.action, rule.delete_after) == (Ceiling.NOTIFY, None)


PRICED = '  - {name: a, match: {usd_per_hour: ">= 5"}, action: stop, then: {action: delete, after: 30d}}'


@pytest.mark.parametrize(
    ("default", "expected"),
    [
        pytest.param(f"defaults: {{action: stop, {THEN}}}", 30 * DAY, id="the longest, if all have one"),
        pytest.param("defaults: {action: stop}", None, id="none, if one has none"),
        pytest.param("defaults: {action: delete}", None, id="none, if one deletes without"),
    ],
)
def test_under_an_unknown_price_the_gentlest_then_counts(default: str, expected: timedelta | None):
    assert delete_after(parsed(default, "rules:", PRICED), usd=None) == expected


@pytest.mark.parametrize(("then", "expected"), [(THEN, True), ("act_on: proven", False)])
def test_a_then_may_delete_so_the_settings_are_read(then: str, expected: bool):
    assert may_delete(parsed(f"defaults: {{action: stop, {then}}}"), resource(), None) is expected


ENDPOINTS = "match: {kind: [sagemaker-endpoint, azureml-online-deployment]}"
PROPOSAL = "`then: {action: delete, after: 14d}` or `action: delete` ends that"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param(["rules:", f"  - {{name: a, {ENDPOINTS}, action: stop}}"], [PROPOSAL, PROPOSAL], id="proposed"),
        pytest.param(["rules:", f"  - {{name: a, {ENDPOINTS}, action: stop, {THEN}}}"], [], id="there"),
        pytest.param(["rules:", f"  - {{name: a, {ENDPOINTS}, action: stop, then: null}}"], [], id="not wanted"),
        pytest.param([f"defaults: {{action: stop, {THEN}}}", "rules:", f"  - {{name: a, {ENDPOINTS}}}"], [], id="inherited"),
        pytest.param(
            ["rules:", f"  - {{name: a, match: {{kind: sagemaker-notebook}}, action: stop, act_on: proven, {THEN}}}"],
            ["then has no effect: a stop ends the whole cost of its kinds, or they can't be deleted"],
            id="nothing to delete",
        ),
    ],
)
def test_check_proposes_then_and_names_one_without_effect(lines: list[str], expected: list[str]):
    policy = parsed(*lines)
    warnings = [w for w in lint_policy(policy, "\n".join(["version: 1", *lines]), "p.yaml") if "p.yaml:2: defaults: " not in w]
    assert [end in warning for end, warning in zip(expected, warnings, strict=True)] == [True] * len(expected)


def test_the_example_is_about_endpoints_that_a_stop_does_not_end():
    text = EXAMPLE.read_text()
    policy = parse_policy(text, "p.yaml", registry.kind_names(), STARTABLE)
    assert delete_after(policy) == 14 * DAY
    assert delete_after(policy, purpose="demo") is None
    notebook = effective_rule(policy, replace(resource(), kind="sagemaker-notebook"), 1.0, NOW)
    assert (notebook.action, notebook.delete_after) == (Ceiling.NOTIFY, None)
    assert [w for w in lint_policy(policy, text, "p.yaml") if "domains" not in w] == []
