"""The canary: what `enforce_only` leaves out gets notices at most, whatever its rule says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fakes.builders import HOUR, NOW, TARGET, resource
from reaper import registry
from reaper.errors import PolicyError
from reaper.model import Ceiling, Target
from reaper.policy import lint, rules
from reaper.policy.parse import parse_policy
from reaper.policy.schema import Policy

TEXT = "version: 1\ndefaults: {{action: delete, act_on: proven}}\nlimits: {{max_acts: 5}}\nenforce_only: {}\n"
SUBSCRIPTION = "11111111-2222-3333-4444-55555555abcd"
THERE = Target(cloud="azure", account=SUBSCRIPTION)
ZERO = replace(TARGET, account="023456789012")


def parse(canary: str, text: str = TEXT) -> Policy:
    return parse_policy(text.format(canary), "policy.yaml", registry.kind_names())


@pytest.mark.parametrize(
    ("canary", "fields", "covered"),
    [
        pytest.param('{accounts: ["123456789012"]}', {}, True, id="its account"),
        pytest.param('{accounts: ["999999999999"]}', {}, False, id="another account"),
        pytest.param('{accounts: ["12345*"]}', {}, True, id="a glob"),
        pytest.param(f"{{accounts: [{SUBSCRIPTION.upper()}]}}", {"target": THERE}, True, id="a subscription in capitals"),
        pytest.param(f"{{accounts: [{SUBSCRIPTION}]}}", {}, False, id="a subscription only"),
        pytest.param("{tags: {canary: here}}", {"tags": {"Canary": "here"}}, True, id="its tag, in another case"),
        pytest.param("{tags: {canary: here}}", {"tags": {"canary": "Here"}}, False, id="another value"),
        pytest.param("{tags: {canary: here}}", {"tags": {}}, False, id="no tag"),
        pytest.param('{tags: {canary: "*"}}', {"tags": {"canary": "x"}}, True, id="any value"),
        pytest.param("{tags: {env: null}}", {"tags": {"team": "a"}}, True, id="the tag is absent"),
        pytest.param("{tags: {canary: here}}", {"tags": None}, False, id="unreadable tags"),
        pytest.param("{tags: {env: null}}", {"tags": None}, False, id="unreadable tags are not absent ones"),
        pytest.param("{tags: {release: 1.10}}", {"tags": {"release": "1.10"}}, True, id="a number as it is written"),
        pytest.param("{tags: {release: 1.10}}", {"tags": {"release": "1.1"}}, False, id="another number"),
        pytest.param("{tags: {wave: 007}}", {"tags": {"wave": "7"}}, False, id="a number without its zeros"),
        pytest.param("{tags: {canary: True}}", {"tags": {"canary": "True"}}, True, id="a boolean as it is written"),
        pytest.param("{accounts: [123456789012]}", {}, True, id="its account without quotes"),
        pytest.param("{accounts: 023456789012}", {"target": ZERO}, True, id="an account with a leading zero"),
        pytest.param("{accounts: 023456789012}", {}, False, id="another account without its zero"),
        pytest.param('{accounts: ["123456789012"], tags: {a: b}}', {"tags": {"a": "b"}}, True, id="both"),
        pytest.param('{accounts: ["123456789012"], tags: {a: b}}', {"tags": {}}, False, id="its account without the tag"),
        pytest.param('{accounts: ["999999999999"], tags: {a: b}}', {"tags": {"a": "b"}}, False, id="its tag elsewhere"),
    ],
)
def test_only_what_the_canary_covers_keeps_its_action(canary: str, fields: dict[str, Any], covered: bool):
    rule = rules.effective_rule(parse(canary), resource(**{"tags": {}, **fields}), 1.0, NOW)
    assert (rule.action, rule.only_notices) == ((Ceiling.DELETE, False) if covered else (Ceiling.NOTIFY, True))
    assert (rules.NOT_IN_ENFORCE_ONLY in rule.notes) == (not covered)


def test_without_the_key_every_action_stays():
    policy = parse_policy("version: 1\ndefaults: {action: stop}", "policy.yaml", registry.kind_names())
    assert rules.effective_rule(policy, resource(tags=None), 1.0, NOW).action is Ceiling.STOP


@pytest.mark.parametrize("action", ["ignore", "notify"])
def test_a_rule_that_does_nothing_is_not_called_limited(action: str):
    rule = rules.effective_rule(parse("{tags: {a: b}}", TEXT.replace("delete", action)), resource(), 1.0, NOW)
    assert (rule.action, rule.only_notices, rule.notes) == (Ceiling(action), False, ())


def test_a_tag_on_the_resource_never_raises_it_into_the_canary():
    tags = {"reaper:action": "delete", "reaper:idle-after": "4h"}
    rule = rules.effective_rule(parse("{tags: {a: b}}"), resource(tags=tags), 1.0, NOW)
    assert (rule.action, rule.idle_after, rule.only_notices) == (Ceiling.NOTIFY, 4 * HOUR, True)


@pytest.mark.parametrize(
    ("canary", "message"),
    [
        pytest.param("", "enforce_only: None is not valid: name accounts, tags or both", id="only the key"),
        pytest.param("{}", "enforce_only is empty; name accounts, tags or both", id="an empty map"),
        pytest.param("{accounts: null, tags: {a: b}}", "enforce_only.accounts is empty", id="accounts without a value"),
        pytest.param('{accounts: ["1"], tags: {}}', "enforce_only.tags is empty", id="no tags"),
        pytest.param('{accounts: ["1"], tags: null}', "enforce_only.tags is empty", id="tags without a value"),
        pytest.param("{accounts: []}", "enforce_only.accounts", id="an empty list"),
        pytest.param("{tags: {canary: []}}", "canary has an empty list", id="a tag with an empty list"),
        pytest.param('{account: ["1"]}', "unknown key; did you mean accounts?", id="a misspelled key"),
        pytest.param('["1"]', "expected keys and values", id="a list"),
    ],
)
def test_a_canary_without_conditions_is_an_error(canary: str, message: str):
    with pytest.raises(PolicyError) as raised:
        parse(canary)
    assert message in str(raised.value)
    assert raised.value.problems[0].startswith("policy.yaml:4: enforce_only")


@pytest.mark.parametrize(
    ("canary", "message"),
    [
        pytest.param('{accounts: ["12345678901"]}', "'12345678901' matches no account", id="eleven digits"),
        pytest.param('{accounts: ["my-team"]}', "'my-team' matches no account", id="a name"),
    ],
)
def test_lint_warns_about_accounts_that_match_nothing(canary: str, message: str):
    text = TEXT.format(canary)
    assert [w for w in lint.lint_policy(parse(canary), text, "policy.yaml") if message in w and "policy.yaml:4" in w]


@pytest.mark.parametrize(
    ("canary", "count"),
    [
        pytest.param("{tags: {canary: null}}", 1, id="absent only"),
        pytest.param("{tags: {canary: }}", 1, id="a value that was forgotten"),
        pytest.param("{tags: {canary: null, env: dev}}", 0, id="another tag limits it"),
        pytest.param('{accounts: ["123456789012"], tags: {canary: null}}', 0, id="an account limits it"),
    ],
)
def test_lint_warns_about_a_canary_of_all_that_lacks_a_tag(canary: str, count: int):
    warnings = lint.lint_policy(parse(canary), TEXT.format(canary), "policy.yaml")
    assert len([w for w in warnings if "covers every resource without the tag 'canary'" in w]) == count


def test_lint_warns_about_a_canary_of_nothing_but_notices():
    text = TEXT.replace("delete", "notify").format("{tags: {a: b}}")
    [warning] = lint.lint_policy(parse("{tags: {a: b}}", TEXT.replace("delete", "notify")), text, "policy.yaml")
    assert "enforce_only has no effect" in warning


def test_the_example_limits_stops_to_one_account_and_tag():
    text = (Path(__file__).parents[2] / "policies" / "canary.yaml").read_text()
    policy = parse_policy(text, "canary.yaml", registry.kind_names())
    covered = resource(tags={"reaper-canary": "yes"})
    elsewhere = replace(covered, target=replace(TARGET, account="210987654321"))
    actions = [rules.effective_rule(policy, one, 9.0, NOW).action for one in (covered, resource(), elsewhere)]
    assert actions == [Ceiling.STOP, Ceiling.NOTIFY, Ceiling.NOTIFY]
