from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import jsonschema
import pytest
import yaml

from fakes.builders import NOW, resource
from reaper import registry
from reaper.errors import PolicyError
from reaper.model import BilledPart, Ceiling, Confidence, StepName
from reaper.policy import file as policy_file
from reaper.policy import json_schema, lint, yaml_lines
from reaper.policy.parse import parse_policy
from reaper.policy.rules import effective_rule, idle_after_range, shortest_idle_after
from reaper.policy.schema import Policy, RuleSpec

EXAMPLES = sorted((Path(__file__).parents[2] / "policies").glob("*.yaml"))
KINDS = registry.kind_names()
STARTABLE = ("azureml-compute-instance", "sagemaker-notebook")

OFFICE = '{on: "mon-fri 07:00-21:00", tz: Europe/Berlin}'
FORCED = '{on: "mon-fri 07:00-21:00", tz: Europe/Berlin, force: true}'


def parse(text: str) -> Policy:
    return parse_policy(text, "policy.yaml", KINDS, STARTABLE)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.name)
def test_every_example_fits_the_schema_and_has_no_recipients(path: Path):
    text = path.read_text()
    policy = parse_policy(text, path.name, KINDS)
    assert (policy.owners.domains, policy.owners.fallback) == ([], None)
    [warning] = lint.lint_policy(policy, text, path.name)
    assert "owners.domains is empty" in warning
    assert "no owner gets mail" in warning
    jsonschema.validate(yaml_lines.parse_yaml(text, path.name), json_schema.policy_schema(KINDS))


def test_the_three_example_policies_exist():
    assert {p.name for p in EXAMPLES} >= {"default.yaml", "office-hours.yaml", "production-safe.yaml"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", "policy.yaml:1: version: this key is missing; add `version: 1`", id="empty"),
        pytest.param("version: 2", "policy.yaml:1: version: 2 is not valid: expected 1", id="another version"),
        pytest.param("version: 1\nrulez: []", "policy.yaml:2: rulez: unknown key; did you mean rules?", id="unknown key"),
        pytest.param(
            "version: 1\ndefaults:\n  idle_after: 4 hours",
            "policy.yaml:3: defaults.idle_after: '4 hours' is not valid: expected a duration such as 30m, 4h, 3d or 2w",
            id="duration",
        ),
        pytest.param(
            "version: 1\ndefaults: {snooze_max: 12h}",
            "policy.yaml:2: defaults.snooze_max: '12h' is not valid: expected at least 1d: snooze links offer whole days",
            id="snooze",
        ),
        pytest.param(
            "version: 1\ndefaults: {action: stpo}",
            "policy.yaml:2: defaults.action: 'stpo' is not valid: expected 'ignore', 'notify', 'stop' or 'delete'; did you mean stop?",
            id="action",
        ),
        pytest.param(
            "version: 1\nrules:\n  - name: a\n    match: {kind: sagemaker-endpont}",
            "policy.yaml:4: rules[0].match.kind: unknown kind 'sagemaker-endpont'; did you mean sagemaker-endpoint?",
            id="kind",
        ),
        pytest.param(
            "version: 1\ndefaults: 3",
            "policy.yaml:2: defaults: 3 is not valid: expected keys and values, such as `key: value`",
            id="a number for keys",
        ),
        pytest.param(
            "version: 1\nlimits: [a]",
            "policy.yaml:2: limits: expected keys and values, such as `key: value`",
            id="a list for keys",
        ),
        pytest.param(
            "version: 1\nrules: [{name: {a: b}}]", "policy.yaml:2: rules[0].name: expected a string", id="keys for a text"
        ),
        pytest.param(
            "version: 1\nlimits: {max_acts: some}",
            "policy.yaml:2: limits.max_acts: 'some' is not valid: expected a whole number",
            id="a word for a number",
        ),
        pytest.param(
            "version: 1\ndefaults: {idle_after: 9999999w}",
            "policy.yaml:2: defaults.idle_after: '9999999w' is not valid: expected at most 455d, metrics are not kept longer",
            id="too long",
        ),
        pytest.param("version: 1\nversion: 1", "policy.yaml:2: version: duplicate key; remove one", id="key twice"),
        pytest.param("a: [", "policy.yaml:1: not valid YAML: ", id="not YAML"),
        pytest.param("- 1", "policy.yaml:1: expected keys such as `version: 1` and `rules:`, got a list", id="a list"),
        pytest.param(
            "version: 1\nlimits: {max_share: 1}", "policy.yaml:2: limits.max_share: 1 is not valid: ", id="share without %"
        ),
        pytest.param(
            "version: 1\nowners: {fallback: 'ML <a@b.com>'}",
            "policy.yaml:2: owners.fallback: 'ML <a@b.com>' is not valid: expected one plain",
            id="fallback",
        ),
        pytest.param(
            "version: 1\nowners: {domains: [example.com, '*.example.com']}",
            "policy.yaml:2: owners.domains[1]: '*.example.com' is not valid: expected a mail domain",
            id="domain",
        ),
        pytest.param(
            "version: 1\nlimits: {max_share: 250%}", "policy.yaml:2: limits.max_share: '250%' is not valid: ", id="share"
        ),
        pytest.param(
            "version: 1\nrules: [{name: a}, {name: a}]",
            "policy.yaml:1: the policy: two rules are named 'a'; rename one",
            id="rule twice",
        ),
        pytest.param(
            'version: 1\nrules: [{name: a, hours: {on: "mon-fri 9-5", tz: Europe/Berlin}}]',
            "policy.yaml:2: rules[0].hours: expected days and times such as `mon-fri 07:00-21:00`",
            id="hours",
        ),
        pytest.param(
            'version: 1\nrules: [{name: a, hours: {on: "mon-fri 07:00-21:00", tz: Berlin}}]',
            "policy.yaml:2: rules[0].hours: unknown time zone 'Berlin': expected an IANA time zone; did you mean Europe/Berlin?",
            id="zone",
        ),
        pytest.param(
            "version: 1\nlimits: {max_scheduled: -1}",
            "policy.yaml:2: limits.max_scheduled: -1 is not valid: expected greater than or equal to 0",
            id="fewer than no stops",
        ),
        pytest.param(
            "version: 1\nlimits: {max_scheduled: 2.5}",
            "policy.yaml:2: limits.max_scheduled: 2.5 is not valid: expected a whole number",
            id="half a stop",
        ),
        pytest.param(
            'version: 1\nrules:\n  - name: a\n    match: {kind: [sagemaker-endpoint, "*-deployment"]}\n'
            '    hours:\n      on: "mon-fri 07:00-21:00"\n      tz: UTC\n      force: true',
            "policy.yaml:8: rules[0].hours.force: true is not valid: expected a match.kind that can be restarted, such as "
            "azureml-compute-instance or sagemaker-notebook, not sagemaker-endpoint, *-deployment",
            id="force on what nothing starts again",
        ),
    ],
)
def test_an_error_names_file_line_key_value_and_fix(text: str, expected: str):
    with pytest.raises(PolicyError) as error:
        parse(text)
    assert str(error.value).startswith(expected)


def test_a_policy_that_contains_itself_is_an_error():
    with pytest.raises(PolicyError, match="aliases that grow without end"):
        parse("version: 1\nrules: &x [*x]")


def test_all_problems_of_a_policy_are_reported_together():
    with pytest.raises(PolicyError) as error:
        parse("version: 1\ndefaults: {action: x, grace: y}\nlimits: {max_act: 3}")
    assert len(error.value.problems) == 3


TEXT = """
version: 1
defaults: {action: stop, idle_after: 24h}
rules:
  - name: production
    match: {tags: {Env: [prod, production]}}
    action: ignore
  - name: dear
    match: {usd_per_hour: ">= 5"}
    action: delete
    idle_after: 2h
  - name: named
    match: {name: "dev-*", region: us-east-1, size: "ml.g5.*", tags: {team: "*", frozen: null}}
    action: notify
"""


@pytest.mark.parametrize(
    ("given", "usd", "name", "action"),
    [
        pytest.param({"tags": {"env": "prod"}}, 1.0, "rule 'production'", Ceiling.IGNORE, id="tag keys ignore case"),
        pytest.param({"tags": {"env": "Prod"}}, 1.0, "the policy's defaults", Ceiling.STOP, id="tag values do not"),
        pytest.param({}, 5.0, "rule 'dear'", Ceiling.DELETE, id="price"),
        pytest.param({}, 4.99, "the policy's defaults", Ceiling.STOP, id="a lower price"),
        pytest.param(
            {}, None, "rule 'dear' or the policy's defaults", Ceiling.STOP, id="an unknown price takes the gentler of both"
        ),
        pytest.param(
            {"name": "dev-1", "size": "ml.g5.xlarge x2", "tags": {"team": "a"}},
            1.0,
            "rule 'named'",
            Ceiling.NOTIFY,
            id="all conditions",
        ),
        pytest.param(
            {"name": "dev-1", "size": "ml.g5.xlarge", "tags": {}}, 1.0, "the policy's defaults", Ceiling.STOP, id="tag absent"
        ),
        pytest.param(
            {"name": "dev-1", "size": "ml.g5.xlarge", "tags": {"team": "a", "Frozen": "1"}},
            1.0,
            "the policy's defaults",
            Ceiling.STOP,
            id="tag present",
        ),
    ],
)
def test_the_first_rule_that_matches_decides(given: dict, usd: float | None, name: str, action: Ceiling):
    holds = effective_rule(parse(TEXT), resource(**given), usd, NOW)
    assert (holds.name, holds.action) == (name, action)


def test_an_ignore_rule_protects_the_resource():
    assert (
        effective_rule(parse(TEXT), resource(tags={"env": "prod"}), None, NOW).protected_because
        == "rule 'production' says ignore"
    )


def test_an_unknown_price_takes_the_longer_idle_after():
    holds = effective_rule(parse(TEXT), resource(), None, NOW)
    assert holds.idle_after == timedelta(hours=24)


def test_snooze_max_is_the_longer_one_of_two_possible_rules():
    text = 'version: 1\ndefaults: {snooze_max: 2w}\nrules: [{name: dear, match: {usd_per_hour: ">= 5"}, snooze_max: 3d}]'
    lengths = [effective_rule(parse(text), resource(), usd, NOW).snooze_max.days for usd in (9.0, 1.0, None)]
    assert lengths == [3, 14, 14]
    assert effective_rule(parse("version: 1"), resource(), 1.0, NOW).snooze_max == timedelta(days=30)


@pytest.mark.parametrize(
    ("may", "tag", "expected"),
    [
        pytest.param("[protect, tighten]", "2h", 2, id="tighten is allowed by default"),
        pytest.param("[protect, tighten]", "48h", 24, id="loosen is not"),
        pytest.param("[protect, loosen]", "48h", 48, id="loosen when allowed"),
        pytest.param("[protect]", "2h", 24, id="no tightening"),
    ],
)
def test_tags_change_idle_after_only_within_tags_may(may: str, tag: str, expected: int):
    policy = parse(f"version: 1\ndefaults: {{tags_may: {may}}}")
    holds = effective_rule(policy, resource(tags={"reaper:idle-after": tag}), None, NOW)
    assert holds.idle_after == timedelta(hours=expected)
    assert bool(holds.notes) == (expected == 24)


def test_an_action_tag_lowers_the_ceiling_and_never_raises_it():
    policy = parse("version: 1\ndefaults: {action: stop, tags_may: [protect, tighten, loosen]}")
    assert effective_rule(policy, resource(tags={"reaper:action": "notify"}), None, NOW).action is Ceiling.NOTIFY
    raised = effective_rule(policy, resource(tags={"reaper:action": "delete"}), None, NOW)
    assert raised.action is Ceiling.STOP
    assert raised.notes == ("tag reaper:action=delete ignored: stop is the strongest action under the policy's defaults",)


def test_a_keep_tag_protects_even_if_tags_may_is_empty():
    policy = parse("version: 1\ndefaults: {tags_may: []}")
    assert effective_rule(policy, resource(tags={"reaper:keep": "true"}), None, NOW).protected_because


def test_a_short_idle_after_tag_affects_only_its_own_resource():
    policy = parse(TEXT)
    quick, usual = (
        resource(id="quick", tags={"reaper:idle-after": "45m"}),
        resource(id="usual", tags={"reaper:idle-after": "99h"}),
    )
    assert shortest_idle_after(policy) == timedelta(hours=2)
    assert idle_after_range(policy, quick, 1.0, NOW)[0] == timedelta(minutes=45)
    assert idle_after_range(policy, usual, 1.0, NOW) == idle_after_range(policy, resource(), 1.0, NOW)


def test_an_unknown_size_takes_the_gentler_rule():
    policy = parse("""
version: 1
defaults: {action: delete}
rules: [{name: dear, match: {size: "ml.p5.*"}, action: ignore}]
""")
    second = resource(
        size="ml.m5.large x1, ml.p5.48xlarge x1", parts=(BilledPart(component="Hosting", instance="ml.p5.48xlarge"),)
    )
    assert effective_rule(policy, second, 1.0, NOW).action is Ceiling.IGNORE
    assert effective_rule(policy, resource(size="unknown x1", parts=None), None, NOW).action is Ceiling.IGNORE
    assert effective_rule(policy, resource(size="ml.m5.large x1", parts=()), None, NOW).action is Ceiling.DELETE


@pytest.mark.parametrize("value", ["True", "1.10", "0042", "+49", "012345678901", "yes", "1e3"])
def test_tag_values_and_account_ids_stay_text(value: str):
    policy = parse(f"version: 1\nrules: [{{name: a, match: {{tags: {{keep: {value}}}, account: {value}}}, action: ignore}}]")
    assert policy.rules[0].match.tags == {"keep": [value]}
    assert policy.rules[0].match.account == [value]


@pytest.mark.parametrize(
    "text",
    [
        "version: !!int abc",
        "version: 1\ndefaults: {idle_after: !!bool maybe}",
        "version: " + "9" * 5000,
        "version: 1\ndefaults: {lookback: 999999w}",
        "version: 1\ndefaults: {idle_after: 999999d}",
        "version: 1\ndefaults: {idle_after: 5m}",
        "version: 1\nrules: [{name: a, match: {kind: []}}]",
        "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9)),
    ],
    ids=lambda t: t[:40],
)
def test_odd_policy_values_are_errors_and_never_crashes(text: str):
    with pytest.raises(PolicyError):
        parse(text)


@pytest.mark.parametrize(
    ("rules", "said"),
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
            "rule 'a': force has no effect on sagemaker-endpoint, which are stopped only when idle",
            id="force on more than can be started again",
        ),
        pytest.param(
            f"[{{name: a, match: {{cloud: azure}}, hours: {FORCED}}}]",
            "force has no effect on azureml-compute-cluster, azureml-online-deployment, which are stopped only when idle",
            id="force on whatever a cloud has",
        ),
        pytest.param(
            f"[{{name: a, match: {{kind: sagemaker-notebook}}, idle_after: 1d, hours: {OFFICE}}}]",
            "idle_after 1d also applies outside the hours and is longer than a night",
            id="more silence than a night has",
        ),
        pytest.param("[{name: a, match: {region: 'mars-*'}}]", "unknown region 'mars-*'", id="no region fits"),
    ],
)
def test_lint_warns_about_each_common_mistake(rules: str, said: str):
    text = f"version: 1\nrules: {rules}"
    warnings = lint.lint_policy(parse(text), text, "p.yaml")
    assert any(said in w and w.startswith("p.yaml:2: ") for w in warnings)


def test_lint_accepts_rules_that_can_match():
    text = "version: 1\nrules: [{name: a, match: {region: [us-east-1, 'eu-*', WestEurope]}}, {name: b, match: {usd_per_hour: '> 3'}}, {name: c}]"
    assert lint.lint_policy(parse(text), text, "p.yaml") == []


LIKELY = "is at most likely idle, and stop has no effect; set that up and write `act_on: proven`, or write `act_on: likely`"


@pytest.mark.parametrize(
    ("rule", "said"),
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
            "stop has no effect on some azureml-online-deployment resources: one that runs one instance",
            id="deployment",
        ),
        pytest.param("kind: sagemaker-inference-component", "without a step scaling policy that would wake it", id="component"),
    ],
)
@pytest.mark.parametrize(
    "shape", ["[{{name: a, action: stop, match: {{{}}}}}]", "[{{name: a, match: {{{}}}}}]\ndefaults: {{action: stop}}"]
)
def test_lint_warns_about_a_stop_without_effect(shape: str, rule: str, said: str):
    text = f"version: 1\nrules: {shape.format(rule)}"
    warnings = lint.lint_policy(parse(text), text, "p.yaml")
    assert any(said in w and w.startswith("p.yaml:2: rule ") for w in warnings)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("rules: [{name: a, action: notify, match: {kind: sagemaker-*}}]", id="nothing is to be done"),
        pytest.param("rules: [{name: a, action: stop, act_on: likely, match: {kind: sagemaker-notebook}}]", id="likely will do"),
        pytest.param("rules: [{name: a, action: stop, act_on: proven, match: {kind: sagemaker-notebook}}]", id="asked for proof"),
        pytest.param(
            "defaults: {act_on: proven}\nrules: [{name: a, action: stop, match: {kind: '*-notebook'}}]", id="for all rules"
        ),
        pytest.param("rules: [{name: a, action: delete, match: {kind: sagemaker-endpoint}}]", id="delete ends what stop cannot"),
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
    said = {
        name: [text for _, text in lint.no_effect_reasons(replace(kind, actions=deeds), spec, Ceiling.STOP, False)]
        for name, deeds in (("none", {}), ("lost", lost), ("only", only))
    }
    assert said == {
        "none": ["sagemaker-notebook can't be stopped; use `action: notify`"],
        "lost": ["a sagemaker-notebook that was stopped can't be restored; use `action: notify`"],
        "only": ["sagemaker-notebook can't be stopped; use `action: delete`"],
    }


@pytest.mark.parametrize("grace", ["2h", "3d"])
def test_lint_accepts_any_grace_and_force_on_restartable_kinds(grace: str):
    text = f"version: 1\nrules: [{{name: a, match: {{kind: '*-notebook'}}, grace: {grace}, idle_after: 8h, hours: {FORCED}}}]"
    assert lint.lint_policy(parse(text), text, "p.yaml") == []


def test_load_policy_checks_force_against_restartable_kinds(tmp_path: Path):
    assert tuple(sorted(k.name for k in registry.kinds() if StepName.START in k.actions)) == STARTABLE
    file = tmp_path / "policy.yaml"
    file.write_text(f"version: 1\nrules: [{{name: a, match: {{kind: azureml-online-*}}, hours: {FORCED}}}]")
    with pytest.raises(PolicyError, match=r"rules\[0\]\.hours\.force: true is not valid"):
        policy_file.load_policy(str(file))
    file.write_text(
        f"version: 1\nrules: [{{name: a, match: {{kind: 'azureml-*'}}, hours: {FORCED}}}, {{name: b, hours: {FORCED}}}]"
    )
    assert [spec.name for spec in policy_file.load_policy(str(file)).policy.rules] == ["a", "b"]


def test_max_scheduled_defaults_to_200():
    assert parse("version: 1").limits.max_scheduled == 200
    assert parse("version: 1\nlimits: {max_scheduled: 0}").limits.max_scheduled == 0
    assert Policy.model_json_schema()["$defs"]["Limits"]["properties"]["max_scheduled"]["minimum"] == 0


@pytest.mark.parametrize(
    ("limits", "written"),
    [
        pytest.param("", False, id="no limits"),
        pytest.param("limits: {max_acts: 3}", False, id="another limit"),
        pytest.param("limits: {max_usd_per_hour: 200}", True, id="written as it is by default"),
    ],
)
def test_a_written_dollar_limit_differs_from_the_default(limits: str, written: bool):
    policy = parse(f"version: 1\n{limits}")
    assert policy.limits.max_usd_per_hour == 200
    for told in (policy, policy.model_copy(update={"channels": []})):
        assert ("max_usd_per_hour" in told.limits.model_fields_set) is written


def test_yaml_keeps_on_and_times_as_text():
    assert yaml_lines.parse_yaml("on: 07:00\nx: yes", "p") == {"on": "07:00", "x": "yes"}
    assert yaml.safe_load("on: 1") == {True: 1}, "PyYAML's own loader still reads YAML 1.1, which is why we do not use it"
