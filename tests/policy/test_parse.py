"""A policy's text becomes a policy, or an error that names file, line, key, value and fix."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest
import yaml

from reaper import registry
from reaper.errors import PolicyError
from reaper.model import StepName
from reaper.policy import file as policy_file
from reaper.policy import lint, schema, yaml_lines
from reaper.policy.parse import parse_policy
from reaper.policy.schema import Policy

EXAMPLES = sorted((Path(__file__).parents[2] / "policies").glob("*.yaml"))
KINDS = registry.kind_names()
STARTABLE = ("azureml-compute-instance", "sagemaker-notebook")
FORCED = '{on: "mon-fri 07:00-21:00", tz: Europe/Berlin, force: true}'


def parse(text: str) -> Policy:
    return parse_policy(text, "policy.yaml", KINDS, STARTABLE)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.name)
def test_every_example_fits_the_schema_and_has_no_recipients(path: Path):
    text = path.read_text()
    policy = parse_policy(text, path.name, KINDS)
    assert (policy.owners.domains, policy.owners.fallback) == ([], None)
    warnings = lint.lint_policy(policy, text, path.name)
    assert all("owners.domains is empty" in warning for warning in warnings)
    assert [warning for warning in warnings if "no owner gets mail" in warning]
    jsonschema.validate(yaml_lines.parse_with_lines(text, path.name)[0], schema.policy_schema(KINDS))


def test_the_example_policies_exist():
    assert {p.name for p in EXAMPLES} >= {
        "accepted.yaml",
        "calendars.yaml",
        "canary.yaml",
        "chat.yaml",
        "default.yaml",
        "escalation.yaml",
        "holidays.yaml",
        "office-hours.yaml",
        "own-prices.yaml",
        "production-safe.yaml",
        "quiet-notices.yaml",
        "two-timers.yaml",
        "year-end-freeze.yaml",
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", "policy.yaml:1: version: this key is missing; add `version: 1`", id="empty"),
        pytest.param(
            "version: 1\ndefaults: {grace: 0h}",
            "policy.yaml:2: defaults.grace: '0h' is not valid: expected at least 1m, such as 30m, 4h or 3d",
            id="no grace at all",
        ),
        pytest.param(
            "version: 1\nrules: [{name: a, hours: mon-fri 9-18}]",
            "policy.yaml:2: rules[0].hours: 'mon-fri 9-18' is not valid: expected keys and values, such as "
            "`{on: mon-fri 07:00-21:00, tz: Europe/Berlin}`",
            id="hours without their zone",
        ),
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
            "version: 1\nreport: {tags: [team, Team]}",
            "policy.yaml:2: report.tags: team is there twice; keys ignore case",
            id="tag key twice",
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
            "version: 1\nowners: {tz: Berlin}",
            "policy.yaml:2: owners.tz: 'Berlin' is not valid: unknown time zone 'Berlin': expected an IANA time zone; did you mean Europe/Berlin?",
            id="zone of mails",
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
            '    hours:\n      on: "mon-fri 07:00-21:00"\n      tz: UTC',
            "policy.yaml:5: rules[0].hours: not valid for sagemaker-endpoint, *-deployment, which can't be started again when the hours "
            "begin: remove the hours, or match a kind that can be, such as azureml-compute-instance or sagemaker-notebook",
            id="hours of what nothing starts again",
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


@pytest.mark.parametrize("value", ["True", "1.10", "0042", "+49", "012345678901", "yes", "1e3"])
def test_tag_values_and_account_ids_stay_text(value: str):
    policy = parse(f"version: 1\nrules: [{{name: a, match: {{tags: {{keep: {value}}}, account: {value}}}, action: ignore}}]")
    assert policy.rules[0].match.tags == {"keep": [value]}
    assert policy.rules[0].match.account == [value.lower()]


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


def test_load_policy_checks_hours_against_restartable_kinds(tmp_path: Path):
    assert tuple(sorted(k.name for k in registry.kinds() if StepName.START in k.actions)) == STARTABLE
    file = tmp_path / "policy.yaml"
    file.write_text(f"version: 1\nrules: [{{name: a, match: {{kind: azureml-online-*}}, hours: {FORCED}}}]")
    with pytest.raises(PolicyError, match=r"rules\[0\]\.hours: not valid for azureml-online-\*"):
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
    for parsed in (policy, policy.model_copy(update={"channels": []})):
        assert ("max_usd_per_hour" in parsed.limits.model_fields_set) is written


def test_yaml_keeps_on_and_times_as_text():
    assert yaml_lines.parse_with_lines("on: 07:00\nx: yes", "p")[0] == {"on": "07:00", "x": "yes"}
    assert yaml.safe_load("on: 1") == {True: 1}, "PyYAML's own loader still reads YAML 1.1, which is why we do not use it"
