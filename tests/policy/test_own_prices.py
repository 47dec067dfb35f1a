"""A policy's own prices, currency and budgets: what they must say, and what `policy check` warns about."""

from __future__ import annotations

import pytest

from reaper.errors import PolicyError
from reaper.policy.lint import lint_policy
from reaper.policy.parse import parse_policy
from reaper.registry import kind_names
from reaper.text import Currency

DAY = "as_of: 2026-11-01"


def parsed(text: str):
    return parse_policy(f"version: 1\n{text}\n", "p.yaml", kind_names())


def rules(*specs: str) -> str:
    return f"prices: {{rules: [{', '.join(f'{{{spec}}}' for spec in specs)}]}}"


def test_a_currency_has_a_rate_with_source_and_date():
    policy = parsed(f"prices: {{currency: {{code: EUR, rate: 0.92, {DAY}, source: ECB}}}}")
    assert policy.prices.shown_in == Currency(code="EUR", rate=0.92, as_of="2026-11-01", source="ECB")
    assert parsed("").prices.shown_in == Currency()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(f"prices: {{currency: {{code: EUR, rate: 0.92, {DAY}}}}}", "prices.currency.source: this key is missing", id="no source"),
        pytest.param("prices: {currency: {code: EUR, rate: 0.92, source: ECB}}", "prices.currency.as_of: this key is missing", id="no date"),
        pytest.param(f"prices: {{currency: {{code: EUR, rate: 0, {DAY}, source: ECB}}}}", "expected greater than 0", id="rate 0"),
        pytest.param(f"prices: {{currency: {{code: euro, rate: 1, {DAY}, source: ECB}}}}", "three capital letters", id="no code"),
        pytest.param(f"prices: {{currency: {{code: USD, rate: 1, {DAY}, source: x}}}}", "prices are in USD already", id="dollars"),
        pytest.param(rules("name: a, discount: 12%"), "prices.rules[0].as_of: this key is missing", id="a discount without a date"),
        pytest.param(rules(f"name: a, discount: 12%, {DAY[:-2]}31"), "as_of", id="no such day"),
        pytest.param(rules(f"name: a, {DAY}"), "set either discount or usd_per_hour", id="neither"),
        pytest.param(rules(f"name: a, {DAY}, discount: 1%, usd_per_hour: 1, match: {{size: x}}"), "set either", id="both"),
        pytest.param(rules(f"name: a, {DAY}, usd_per_hour: 1"), "name its size in match.size", id="a rate without a size"),
        pytest.param(rules(f'name: a, {DAY}, discount: 1%, match: {{usd_per_hour: ">= 5"}}'), "this rule sets it", id="a circle"),
        pytest.param(rules(f"name: a, {DAY}, discount: 1%, match: {{kind: sagemaker-notbook}}"), "sagemaker-notebook", id="kind"),
        pytest.param(rules(*[f"name: a, {DAY}, discount: 1%"] * 2), "two price rules are named 'a'", id="one name twice"),
        pytest.param("budgets: [{name: a, usd_per_month: 0}]", "expected greater than 0", id="no budget"),
        pytest.param("budgets: [{name: a, usd_per_month: 5, match: {kind: x}}]", "budgets[0].match.kind: unknown kind", id="budget"),
    ],
)  # fmt: skip
def test_what_is_not_right_is_refused(text: str, problem: str):
    with pytest.raises(PolicyError) as caught:
        parsed(text)
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        pytest.param(rules(f"name: a, {DAY}, usd_per_hour: 1, match: {{size: 'ml.g5.*'}}"), "every size that it matches gets the same rate", id="rate of a family"),
        pytest.param(rules(f"name: a, {DAY}, discount: 1%", f"name: b, {DAY}, discount: 2%, match: {{cloud: aws}}"), "'a' above it covers all", id="covered"),
        pytest.param(rules(f"name: a, {DAY}, discount: 1%, match: {{cloud: azure, kind: 'sagemaker-*'}}"), "never matches", id="another cloud"),
        pytest.param(rules(f"name: a, {DAY}, discount: 1%, match: {{size: ml.g5.xlrage}}"), "did you mean ml.g5.xlarge?", id="size"),
        pytest.param(rules(f"name: a, {DAY}, discount: 1%, match: {{region: us-esat-1}}"), "unknown region 'us-esat-1'", id="region"),
        pytest.param("budgets: [{name: a, usd_per_month: 5, match: {cloud: azure, kind: 'sagemaker-*'}}]", "budget 'a' never matches", id="budget"),
        pytest.param(rules(f"name: a, {DAY}, discount: 100%"), "limits.max_usd_per_hour", id="free by discount"),
        pytest.param(rules(f"name: a, {DAY}, usd_per_hour: 0, match: {{size: ml.g5.xlarge}}"), "limits.max_usd_per_hour", id="free by rate"),
        pytest.param(rules(f"name: a, {DAY}, discount: 1%, match: {{cloud: aws, size: 'ml.g5.*', region: 'eu-*'}}"), "", id="a good one"),
    ],
)  # fmt: skip
def test_prices_without_effect_are_warned_about(text: str, warning: str):
    source = f"version: 1\n{text}\n"
    found = lint_policy(parsed(text), source, "p.yaml")
    assert len(found) == bool(warning)
    assert warning in "".join(found)
